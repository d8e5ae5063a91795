//! What a worker says: a line of JSON for each thing that it does.

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::orders::Mode;

/// A line of a worker. Times are those of [`clock`](crate::clock).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// It is connected and begins.
    Ready {
        /// When.
        at: Nanos,
    },
    /// It asks for a name.
    Ask {
        /// The hold that may come of it.
        hold: u64,
        /// What it asks for.
        name: String,
        /// How it wants to hold it.
        mode: Mode,
        /// When.
        call: Nanos,
    },
    /// It holds what it asked for.
    Enter {
        /// Which hold.
        hold: u64,
        /// Since when.
        at: Nanos,
        /// Its token, of a fenced lock.
        token: Option<u64>,
    },
    /// It asks no more, and holds nothing.
    GaveUp {
        /// Which hold will never be.
        hold: u64,
        /// When.
        at: Nanos,
        /// Why.
        why: String,
    },
    /// It begins to give back; from then on it does not believe that it holds.
    Leaving {
        /// Which hold.
        hold: u64,
        /// Since when.
        at: Nanos,
    },
    /// It has given back.
    Left {
        /// Which hold.
        hold: u64,
        /// When it was answered.
        at: Nanos,
    },
    /// The hold was over before it was given back, or that was not answered.
    Lost {
        /// Which hold.
        hold: u64,
        /// When it believed in it for the last time.
        at: Nanos,
    },
    /// It writes to the resource that the token of a fenced lock guards.
    Write {
        /// The resource.
        name: String,
        /// Which hold writes, over or not.
        hold: u64,
        /// Its token.
        token: u64,
        /// When.
        at: Nanos,
    },
}

impl WorkerEvent {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn read(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// Writes a line.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("it is made of texts and numbers")
    }
}
