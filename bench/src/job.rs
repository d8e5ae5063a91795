//! What a worker can be asked to do: one line of JSON each, answered by one.
//!
//! Every library is driven in a process of its own by these lines, whatever
//! language it is written in, so that all of them are measured alike. A worker
//! stays alive between jobs: that keeps a JVM warm while rounds alternate.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One line to a worker.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// Many tasks on one name. Answers with [`Contended`].
    Contend {
        /// How many tasks.
        tasks: usize,
        /// The name they all want.
        name: String,
        /// When to begin, by the monotonic clock; 0 for now.
        start_ns: u64,
        /// How long they go on.
        millis: u64,
        /// How long each entry keeps its processor busy.
        hold_us: u64,
        /// Whether to answer with every entry.
        log: bool,
    },
    /// Waits for the lock, enters once and leaves. Answers with [`Entered`].
    Enter {
        /// The lock.
        name: String,
    },
    /// Acquires many locks and keeps them alive. Answers with [`Grown`].
    Hold {
        /// How many names.
        count: usize,
        /// What the names begin with.
        prefix: String,
        /// The lease that is renewed.
        ttl_ms: u64,
    },
    /// Does nothing but what goes on by itself. Answers with [`Idled`].
    Idle {
        /// For how long.
        millis: u64,
    },
    /// Notes when messages come that say when they were sent. Answers with [`Delays`].
    Listen {
        /// Where.
        channel: String,
        /// How many messages to wait for.
        count: usize,
    },
    /// Acquires and releases until nothing was granted for some time, whatever fails. Answers
    /// with the [`Entered`] that ended this.
    Outlast {
        /// What the names begin with.
        prefix: String,
        /// How long nothing was granted.
        gap_ms: u64,
    },
    /// Acquire and release, each task on names of its own. Answers with [`Paired`].
    Pairs {
        /// How many tasks.
        tasks: usize,
        /// How many names there are in all; each task goes round its share.
        names: usize,
        /// What the names begin with.
        prefix: String,
        /// How long they go on.
        millis: u64,
        /// Whether they go on until every name had its turn.
        all: bool,
    },
    /// Sends the smallest command there is, again and again. Answers with [`Delays`].
    Ping {
        /// How often.
        count: usize,
    },
    /// Sends messages that say when they were sent. Answers with [`Delays`] of the replies.
    Publish {
        /// Where.
        channel: String,
        /// How many.
        count: usize,
    },
    /// Acquires with a fixed lease and never gives back. Answers with [`Entered`].
    Seize {
        /// The lock.
        name: String,
        /// How long the lease is.
        lease_ms: u64,
    },
    /// Acquire and release, all tasks by one name. Answers with [`Paired`].
    Share {
        /// How many tasks.
        tasks: usize,
        /// The name.
        name: String,
        /// How long they go on.
        millis: u64,
    },
    /// Lets many tasks wait for a lock that somebody else has. Answers with [`Grown`].
    Wait {
        /// How many tasks.
        tasks: usize,
        /// The lock.
        name: String,
    },
    /// Lets many tasks wait for a latch, and opens it. Answers with [`Delays`] from then until
    /// they know.
    Wake {
        /// How many tasks.
        tasks: usize,
        /// The latch.
        name: String,
    },
}

/// How many pairs were made.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Paired {
    /// Pairs of all tasks.
    pub pairs: u64,
    /// From the first to the end of the last.
    pub wall_ns: u64,
    /// What this process used of the processors meanwhile.
    pub cpu_ns: u64,
    /// The median duration of a pair.
    pub p50_ns: u64,
    /// The 99th percentile of it.
    pub p99_ns: u64,
}

/// What came of a crowd on one name.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Contended {
    /// Entries before the end.
    pub entries: u64,
    /// Those by another task of this process than the one before.
    pub hand_overs: u64,
    /// Entries while another task of this process was inside.
    pub overlaps: u64,
    /// The longest that a task waited.
    pub longest_wait_ns: u64,
    /// What this process used of the processors.
    pub cpu_ns: u64,
    /// Every entry, if that was wanted: task, entered, began to leave.
    pub log: Vec<(u64, u64, u64)>,
}

/// How much memory something took.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Grown {
    /// Bytes in use after minus bytes in use before; may be negative.
    pub bytes: i64,
}

/// What went on while nothing was asked.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Idled {
    /// How long it was.
    pub wall_ns: u64,
    /// What this process used of the processors.
    pub cpu_ns: u64,
    /// The greatest lag of a renewal, where the library tells.
    pub lag_ns: Option<u64>,
}

/// When somebody entered.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Entered {
    /// By the monotonic clock.
    pub entered_ns: u64,
}

/// How long messages or replies took.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Delays {
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
}

/// The default duration of a lease, and Redisson's.
pub const TTL: Duration = Duration::from_secs(30);
