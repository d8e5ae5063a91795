//! The jobs of a worker. Each job is one line of JSON, and so is its reply.
//!
//! Each library has a worker: a separate process, in the language of the library. All workers get
//! the same lines, so the measurements are comparable. A worker continues between jobs, so a JVM
//! stays warm while other contenders run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One line to a worker.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// Lets many tasks contend for one name. The reply is [`Contended`].
    Contend {
        /// The number of tasks.
        tasks: usize,
        /// The name.
        name: String,
        /// When to start, on the monotonic clock; 0 means now.
        start_ns: u64,
        /// The duration.
        millis: u64,
        /// How long each hold keeps its processor busy.
        hold_us: u64,
        /// Whether the reply contains a log of every acquisition.
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
    /// Receives messages, each of which contains the time when it was sent. The reply is
    /// [`Delays`].
    Listen {
        /// The channel.
        channel: String,
        /// The number of messages.
        count: usize,
    },
    /// Acquires and releases, despite errors, until a gap without grants has ended. The reply is
    /// the first [`Entered`] after the gap.
    Outlast {
        /// The prefix of the names.
        prefix: String,
        /// How long there must be no grant.
        gap_ms: u64,
    },
    /// Acquires and releases. Each task has its own names. The reply is [`Paired`].
    Pairs {
        /// The number of tasks.
        tasks: usize,
        /// The number of names of all tasks together. Each task uses its names one after the other.
        names: usize,
        /// The prefix of the names.
        prefix: String,
        /// The duration.
        millis: u64,
        /// Whether the tasks continue until each name was used.
        all: bool,
    },
    /// Sends the smallest command repeatedly. The reply is [`Delays`].
    Ping {
        /// The number of commands.
        count: usize,
    },
    /// Sends messages, each of which contains the time when it was sent. The reply has the
    /// [`Delays`] of the replies to `PUBLISH`.
    Publish {
        /// The channel.
        channel: String,
        /// The number of messages.
        count: usize,
    },
    /// Acquires with a fixed lease, and never releases. The reply is [`Entered`].
    Seize {
        /// The lock.
        name: String,
        /// The lease.
        lease_ms: u64,
    },
    /// Acquires and releases. All tasks use the same name. The reply is [`Paired`].
    Share {
        /// The number of tasks.
        tasks: usize,
        /// The name.
        name: String,
        /// The duration.
        millis: u64,
    },
    /// Lets many tasks wait for a lock that another process holds. The reply is [`Grown`].
    Wait {
        /// The number of tasks.
        tasks: usize,
        /// The lock.
        name: String,
    },
    /// Lets many tasks wait at a gate, and opens the gate. The reply has the [`Delays`] until each
    /// task has passed.
    Wake {
        /// The number of tasks.
        tasks: usize,
        /// The gate.
        name: String,
        /// The kind of the gate.
        gate: Gate,
    },
}

/// An object that lets all waiting tasks pass at once.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// A latch with the count 1.
    Latch,
    /// A barrier for all tasks, and for one more task that opens it.
    Barrier,
    /// A double barrier for all tasks, and for one more task. All tasks enter, and then leave.
    DoubleBarrier,
}

/// The result of acquiring and releasing in pairs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Paired {
    /// The number of pairs of all tasks.
    pub pairs: u64,
    /// The time from the start of the first task to the end of the last one.
    pub wall_ns: u64,
    /// The processor time that this process used during `wall_ns`.
    pub cpu_ns: u64,
    /// The median duration of a pair.
    pub p50_ns: u64,
    /// The 99th percentile of the duration of a pair.
    pub p99_ns: u64,
}

/// The result of contention for one name.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Contended {
    /// The number of acquisitions before the end.
    pub entries: u64,
    /// The number of acquisitions whose previous holder in this process was another task.
    pub hand_overs: u64,
    /// The number of acquisitions while another task of this process held the lock.
    pub overlaps: u64,
    /// The longest wait of a task.
    pub longest_wait_ns: u64,
    /// The processor time that this process used.
    pub cpu_ns: u64,
    /// If requested, an entry for each acquisition: the task, the time of the acquisition, and the
    /// time when the task started to release.
    pub log: Vec<(u64, u64, u64)>,
}

/// The memory that a job has allocated.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Grown {
    /// The bytes in use after the job minus the bytes before it. The difference may be negative.
    pub bytes: i64,
}

/// The result of a job that only does background work.
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
    /// The time on the monotonic clock.
    pub entered_ns: u64,
}

/// The delays of messages or replies.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Delays {
    /// The median delay.
    pub p50_ns: u64,
    /// The 99th percentile of the delay.
    pub p99_ns: u64,
}

/// The default lease of Leasehold and of Redisson.
pub const TTL: Duration = Duration::from_secs(30);
