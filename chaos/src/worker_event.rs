//! The events of a worker: a line of JSON for each action.

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::orders::Mode;

/// An event. Times are those of [`clock`](crate::clock).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// It is connected and ready.
    Ready {
        /// When.
        at: Nanos,
    },
    /// It sends a request for a name.
    Ask {
        /// The number of the hold, if it is granted.
        hold: u64,
        /// The name.
        name: String,
        /// The mode of the hold.
        mode: Mode,
        /// When.
        call: Nanos,
    },
    /// The request was granted.
    Enter {
        /// The number of the hold.
        hold: u64,
        /// When.
        at: Nanos,
        /// Its token, of a fenced lock.
        token: Option<u64>,
        /// The claimed element, of a queue.
        #[serde(default)]
        element: Option<String>,
    },
    /// It gave up without a hold.
    GaveUp {
        /// The number of the hold that it will never have.
        hold: u64,
        /// When.
        at: Nanos,
        /// Why.
        why: String,
    },
    /// It begins to release. From then on it does not believe that it holds.
    Leaving {
        /// The number of the hold.
        hold: u64,
        /// When.
        at: Nanos,
    },
    /// The store has confirmed the release.
    Left {
        /// The number of the hold.
        hold: u64,
        /// When the reply came.
        at: Nanos,
    },
    /// The element is done: the store has confirmed that no other worker gets it.
    Done {
        /// The number of the hold.
        hold: u64,
        /// When the reply came.
        at: Nanos,
    },
    /// The hold was over before its release, or the release got no reply. A claim without a reply
    /// has no event: its element may be done.
    Lost {
        /// The number of the hold.
        hold: u64,
        /// When it believed in the hold for the last time.
        at: Nanos,
    },
    /// It writes to the resource of a fenced lock.
    Write {
        /// The resource.
        name: String,
        /// The number of the hold, which may be over.
        hold: u64,
        /// Its token.
        token: u64,
        /// When.
        at: Nanos,
    },
    /// The store has confirmed that these elements are in the queue.
    Pushed {
        /// The queue.
        name: String,
        /// The elements, which nobody pushes twice.
        elements: Vec<String>,
        /// When the reply came.
        at: Nanos,
    },
}

impl WorkerEvent {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// If the line is no event.
    pub fn read(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// Writes a line.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("it is made of texts and numbers")
    }
}
