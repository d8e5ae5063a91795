//! The orders to a worker. Each order is a line of JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The first line that a worker reads: its settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Orders {
    /// The name of the worker.
    pub process: String,
    /// The number of the worker's first hold.
    pub first_hold: u64,
    /// The addresses of the servers.
    pub place: Place,
    /// The seed of the worker's random choices.
    pub seed: u64,
    /// The number of the worker's contending tasks or threads.
    pub tasks: u64,
    /// The lease of the worker's holds, in milliseconds.
    pub ttl_ms: u64,
    /// Whether the worker sometimes acts as a holder without a request. The referee must find this.
    pub disobeys: bool,
    /// The objects for which the worker contends.
    pub objects: Vec<Object>,
}

/// The addresses of the servers, as one worker reaches them.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Place {
    /// A URL with the addresses of some servers.
    pub url: String,
    /// The ports of the links to the servers. The key is the port that a server announces.
    pub ports: BTreeMap<u16, u16>,
}

/// An order after the first line.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Order {
    /// Contend for this name instead of another one.
    Rename {
        /// The original name of the object.
        name: String,
        /// The current name of the object.
        to: String,
    },
    /// Release everything, and end.
    Stop,
}

/// An object for which workers contend.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Object {
    /// The name of the object in Redis.
    pub name: String,
    /// The kind of the object.
    pub kind: Kind,
    /// How many holds the object allows at the same time.
    pub permits: u32,
    /// Whether a replica must acknowledge each grant.
    pub replicated: bool,
    /// The locks of a multi-lock.
    pub members: Vec<String>,
    /// Whether Redisson workers also use the object.
    pub java: bool,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A plain lock.
    Lock,
    /// A lock whose holds have tokens.
    Fenced,
    /// Many readers, or one writer.
    ReadWrite,
    /// Permits without a lease.
    Semaphore,
    /// Permits with leases.
    Permits,
    /// A latch whose count is 1 while it is closed.
    Latch,
    /// A lock whose waiters queue.
    Fair,
    /// Several locks that are held together.
    Multi,
    /// An election. The token of a hold is its term.
    Election,
    /// A queue. A hold is the claim of an element.
    Queue,
}

/// The mode of a hold.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// No other hold is allowed at the same time.
    Exclusive,
    /// A reader shares the lock with other readers.
    Shared,
    /// The hold of one permit.
    Permit,
    /// No hold: a task passes a latch.
    Pass,
    /// The claim of one element.
    Claim,
}

impl Place {
    /// The addresses for workers without links of their own. These workers use the announced ports.
    #[must_use]
    pub fn of_all(url: String) -> Self {
        Self { url, ports: BTreeMap::new() }
    }

    /// The address of the link for `address`. `None` if the worker must use `address` itself.
    #[must_use]
    pub fn translated(&self, address: &str) -> Option<String> {
        let (host, port) = address.rsplit_once(':')?;
        let port = self.ports.get(&port.parse().ok()?)?;
        Some(format!("{host}:{port}"))
    }
}

impl Object {
    /// An object that allows one hold at a time, and whose grants need no acknowledgement by a
    /// replica.
    #[must_use]
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        // After a timeout, Redisson repeats a request. A semaphore then counts the request twice,
        // and no lease corrects the number.
        let java = !matches!(kind, Kind::Semaphore | Kind::Latch);
        Self { name: name.into(), kind, permits: 1, replicated: false, members: vec![], java }
    }

    /// A multi-lock of these locks.
    #[must_use]
    pub fn multi(name: impl Into<String>, members: impl IntoIterator<Item = String>) -> Self {
        Self { members: members.into_iter().collect(), ..Self::new(Kind::Multi, name) }
    }

    /// Sets the number of concurrent holds.
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.permits = permits;
        self
    }

    /// Requires a replica to acknowledge each grant. Redisson workers do not use the object,
    /// because Redisson does not wait for a replica.
    #[must_use]
    pub fn replicated(self) -> Self {
        Self { replicated: true, ..self }.without_java()
    }

    /// Lets only Leasehold workers use the object.
    #[must_use]
    pub fn without_java(mut self) -> Self {
        self.java = false;
        self
    }

    /// Whether holds of the object have tokens.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        matches!(self.kind, Kind::Fenced | Kind::Election)
    }

    /// The same object under another name.
    #[must_use]
    pub fn called(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }
}

/// The name of the object in reports.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
