//! The events of a worker. Each action is a line of JSON.

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::orders::Mode;

/// An event. All times are those of [`clock`](crate::clock).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// The worker is connected and ready.
    Ready {
        /// When the worker was ready.
        at: Nanos,
    },
    /// The worker sends a request for a name.
    Ask {
        /// The number of the hold, if the request is granted.
        hold: u64,
        /// The name.
        name: String,
        /// The mode of the hold.
        mode: Mode,
        /// When the worker sends the request.
        call: Nanos,
    },
    /// The request was granted.
    Enter {
        /// The number of the hold.
        hold: u64,
        /// When the worker received the reply.
        at: Nanos,
        /// The token, if the object has tokens.
        token: Option<u64>,
        /// The claimed element, if the object is a queue.
        #[serde(default)]
        element: Option<String>,
    },
    /// The worker gave up without a hold.
    GaveUp {
        /// The number that the hold would have had.
        hold: u64,
        /// When the worker gave up.
        at: Nanos,
        /// The reason.
        why: String,
    },
    /// The worker starts to release. From then on, the worker does not believe that it holds the
    /// object.
    Leaving {
        /// The number of the hold.
        hold: u64,
        /// When the worker starts to release.
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
    /// The hold was lost before its release, or the release got no reply. A claim whose end got no
    /// reply has no event, because its element may be done.
    Lost {
        /// The number of the hold.
        hold: u64,
        /// When the worker believed for the last time that it held the object.
        at: Nanos,
    },
    /// The worker writes to the resource of a fenced lock.
    Write {
        /// The name of the resource.
        name: String,
        /// The number of the hold, which may have ended.
        hold: u64,
        /// The token of the write.
        token: u64,
        /// When the worker writes.
        at: Nanos,
    },
    /// The store has confirmed that these elements are in the queue.
    Pushed {
        /// The name of the queue.
        name: String,
        /// The elements. Each of them is pushed only once.
        elements: Vec<String>,
        /// When the reply came.
        at: Nanos,
    },
}

impl WorkerEvent {
    /// Reads an event from a line.
    ///
    /// # Errors
    ///
    /// If the line is no event.
    pub fn read(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// The event as a line.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("an event contains only texts and numbers")
    }
}
