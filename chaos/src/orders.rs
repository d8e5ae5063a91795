//! What a worker is told: one line of JSON at first, and some later.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The first line that a worker reads.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Orders {
    /// What it is called.
    pub process: String,
    /// It numbers its holds from here.
    pub first_hold: u64,
    /// Where the servers are.
    pub place: Place,
    /// It chooses by this.
    pub seed: u64,
    /// How many of its tasks or threads contend.
    pub tasks: u64,
    /// The lease that it asks for.
    pub ttl_ms: u64,
    /// Whether it enters without asking, now and then: the referee must see it.
    pub disobeys: bool,
    /// What it contends for.
    pub objects: Vec<Object>,
}

/// Where a worker finds the servers.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Place {
    /// Where some of them are.
    pub url: String,
    /// By which port it reaches one that is announced at another.
    pub ports: BTreeMap<u16, u16>,
}

/// What a worker reads later.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Order {
    /// Contend for another name from now on, in the place of this one.
    Rename {
        /// What it was called at first.
        name: String,
        /// What it is called now.
        to: String,
    },
    /// Give everything back, and end.
    Stop,
}

/// Something that is contended for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Object {
    /// Its name in Redis.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// How many may hold it at once, of permits.
    pub permits: u32,
    /// Whether a replica must have acknowledged each grant.
    pub replicated: bool,
}

/// What an object is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A plain lock.
    Lock,
    /// A lock whose holds have tokens.
    Fenced,
    /// Many who read, or one who writes.
    ReadWrite,
    /// Permits without a lease.
    Semaphore,
    /// Permits that expire.
    Permits,
    /// Closed for one count.
    Latch,
}

/// How an object is held.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By one alone.
    Exclusive,
    /// By all who read.
    Shared,
    /// By as many as there are permits.
    Permit,
    /// By nobody: who has it has passed.
    Pass,
}

impl Place {
    /// Where everybody finds them who has no ways of its own.
    #[must_use]
    pub fn of_all(url: String) -> Self {
        Self { url, ports: BTreeMap::new() }
    }

    /// The address in the place of this one.
    #[must_use]
    pub fn translated(&self, address: &str) -> Option<String> {
        let (host, port) = address.rsplit_once(':')?;
        let port = self.ports.get(&port.parse().ok()?)?;
        Some(format!("{host}:{port}"))
    }
}

impl Object {
    /// An object that one may hold at a time, by the word of the primary.
    #[must_use]
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { name: name.into(), kind, permits: 1, replicated: false }
    }

    /// Sets how many may hold it.
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.permits = permits;
        self
    }

    /// Has its grants acknowledged by a replica.
    #[must_use]
    pub fn replicated(mut self) -> Self {
        self.replicated = true;
        self
    }

    /// The same object under another name.
    #[must_use]
    pub fn called(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }
}

/// As a user says it.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
