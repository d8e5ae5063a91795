//! The jobs of a worker: one line of JSON for each, and one line as the reply.
//!
//! A worker is a separate process for each library, in the language of the library. All libraries
//! get the same lines, so the measurements are alike. A worker stays alive between jobs, so a JVM
//! stays warm while rounds alternate.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One line to a worker.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// Many tasks contend for one name. The reply is [`Contended`].
    Contend {
        /// The number of tasks.
        tasks: usize,
        /// The name.
        name: String,
        /// The start, on the monotonic clock; 0 for now.
        start_ns: u64,
        /// The duration.
        millis: u64,
        /// How long each hold keeps its processor busy.
        hold_us: u64,
        /// Whether the reply has a log of every entry.
        log: bool,
    },
    /// Waits for the lock, acquires it once and releases it. The reply is [`Entered`].
    Enter {
        /// The lock.
        name: String,
    },
    /// Acquires many locks and renews them. The reply is [`Grown`].
    Hold {
        /// The number of names.
        count: usize,
        /// The prefix of the names.
        prefix: String,
        /// The lease that is renewed.
        ttl_ms: u64,
    },
    /// Does only background work. The reply is [`Idled`].
    Idle {
        /// The duration.
        millis: u64,
    },
    /// Receives messages that contain the time of their sending. The reply is [`Delays`].
    Listen {
        /// The channel.
        channel: String,
        /// The number of messages.
        count: usize,
    },
    /// Acquires and releases, despite errors, until a gap without grants is over. The reply is the
    /// [`Entered`] after the gap.
    Outlast {
        /// The prefix of the names.
        prefix: String,
        /// The length of the gap.
        gap_ms: u64,
    },
    /// Acquires and releases, each task its own names. The reply is [`Paired`].
    Pairs {
        /// The number of tasks.
        tasks: usize,
        /// The total number of names. Each task uses its share in turns.
        names: usize,
        /// The prefix of the names.
        prefix: String,
        /// The duration.
        millis: u64,
        /// Whether they go on until each name was used.
        all: bool,
    },
    /// Sends the smallest command repeatedly. The reply is [`Delays`].
    Ping {
        /// The number of commands.
        count: usize,
    },
    /// Sends messages that contain the time of their sending. The reply is the [`Delays`] of the
    /// replies.
    Publish {
        /// The channel.
        channel: String,
        /// The number of messages.
        count: usize,
    },
    /// Acquires with a fixed lease and never releases. The reply is [`Entered`].
    Seize {
        /// The lock.
        name: String,
        /// The lease.
        lease_ms: u64,
    },
    /// Acquires and releases, all tasks the same name. The reply is [`Paired`].
    Share {
        /// The number of tasks.
        tasks: usize,
        /// The name.
        name: String,
        /// The duration.
        millis: u64,
    },
    /// Lets many tasks wait for a lock of another process. The reply is [`Grown`].
    Wait {
        /// The number of tasks.
        tasks: usize,
        /// The lock.
        name: String,
    },
    /// Lets many tasks wait at a gate, and opens it. The reply is the [`Delays`] until they know.
    Wake {
        /// The number of tasks.
        tasks: usize,
        /// The gate.
        name: String,
        /// Its kind.
        gate: Gate,
    },
}

/// An object that lets all waiting tasks pass at once.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// A latch of 1.
    Latch,
    /// A barrier of the tasks, and of one more that opens it.
    Barrier,
    /// The same with a double barrier. The tasks leave it after that.
    DoubleBarrier,
}

/// The pairs of an acquisition and a release that were made.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Paired {
    /// Pairs of all tasks.
    pub pairs: u64,
    /// From the start of the first task to the end of the last one.
    pub wall_ns: u64,
    /// The processor time that this process used meanwhile.
    pub cpu_ns: u64,
    /// The median duration of a pair.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
}

/// The result of contention for one name.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Contended {
    /// Entries before the end.
    pub entries: u64,
    /// The entries by another task of this process than the previous one.
    pub hand_overs: u64,
    /// The entries while another task of this process held the lock.
    pub overlaps: u64,
    /// The longest wait of a task.
    pub longest_wait_ns: u64,
    /// The processor time that this process used.
    pub cpu_ns: u64,
    /// A log of every entry, if requested: task, entered, began to release.
    pub log: Vec<(u64, u64, u64)>,
}

/// The memory of a job.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Grown {
    /// The bytes in use after the job minus those before it; it may be negative.
    pub bytes: i64,
}

/// The result of a job with background work only.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Idled {
    /// The duration.
    pub wall_ns: u64,
    /// The processor time that this process used.
    pub cpu_ns: u64,
    /// The greatest lag of a renewal, if the library reports it.
    pub lag_ns: Option<u64>,
}

/// The time of an acquisition.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Entered {
    /// On the monotonic clock.
    pub entered_ns: u64,
}

/// The delays of messages or replies.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Delays {
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
}

/// The default lease of Leasehold and of Redisson.
pub const TTL: Duration = Duration::from_secs(30);
