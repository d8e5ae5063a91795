//! The orders of a worker: lines of JSON, the first one at its start.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The first line that a worker reads.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Orders {
    /// Its name.
    pub process: String,
    /// The number of its first hold.
    pub first_hold: u64,
    /// The address of the servers.
    pub place: Place,
    /// The seed of its random choices.
    pub seed: u64,
    /// The number of its contending tasks or threads.
    pub tasks: u64,
    /// The lease of its holds.
    pub ttl_ms: u64,
    /// Whether it sometimes enters without a request, which the referee must notice.
    pub disobeys: bool,
    /// The objects.
    pub objects: Vec<Object>,
}

/// The address of the servers for a worker.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Place {
    /// The addresses of some of them.
    pub url: String,
    /// The port of a link, by the announced port.
    pub ports: BTreeMap<u16, u16>,
}

/// A later order.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Order {
    /// Contend for this name instead of another one.
    Rename {
        /// Its first name.
        name: String,
        /// Its current name.
        to: String,
    },
    /// Release everything, and end.
    Stop,
}

/// An object of the contention.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Object {
    /// Its name in Redis.
    pub name: String,
    /// The kind of the object.
    pub kind: Kind,
    /// The number of concurrent holds, of permits.
    pub permits: u32,
    /// Whether a replica must have acknowledged each grant.
    pub replicated: bool,
    /// The locks of a multi-lock.
    pub members: Vec<String>,
    /// Whether Redisson workers use it, too.
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
    /// Permits that expire.
    Permits,
    /// A latch that is closed with the count 1.
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
    /// Exclusive.
    Exclusive,
    /// Shared by all readers.
    Shared,
    /// One permit.
    Permit,
    /// No hold: a task passes a latch.
    Pass,
    /// One element.
    Claim,
}

impl Place {
    /// The address for workers without their own links.
    #[must_use]
    pub fn of_all(url: String) -> Self {
        Self { url, ports: BTreeMap::new() }
    }

    /// The link to this address, or the address itself.
    #[must_use]
    pub fn translated(&self, address: &str) -> Option<String> {
        let (host, port) = address.rsplit_once(':')?;
        let port = self.ports.get(&port.parse().ok()?)?;
        Some(format!("{host}:{port}"))
    }
}

impl Object {
    /// An object with one hold at a time, by the word of the primary.
    #[must_use]
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        // Redisson repeats a request after a timeout, and a semaphore then counts it twice. No lease
        // corrects that.
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

    /// Requires a replica to acknowledge each grant. Redisson does not wait for that.
    #[must_use]
    pub fn replicated(self) -> Self {
        Self { replicated: true, ..self }.without_java()
    }

    /// Leaves it to Leasehold workers.
    #[must_use]
    pub fn without_java(mut self) -> Self {
        self.java = false;
        self
    }

    /// Whether its holds have tokens.
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
