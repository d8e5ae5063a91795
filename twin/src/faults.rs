//! The faults of a server, set by a test.

use std::collections::BTreeMap;

use super::{
    delay::Delay,
    traits::{BUSY, DISK, GROWS, LOADING, Traits, WRITE},
};

/// Why a server rejects commands for a while. The names are those of Redis's errors.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use leasehold_twin::{Refusal, Twin};
///
/// let twin = Twin::new(7);
/// // Every tenth command gets the error of a server that is busy with a script.
/// twin.refuse(Refusal::Busy, 100);
/// # });
/// ```
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Refusal {
    /// The memory is full, so commands that may need more memory are rejected.
    Oom,
    /// The disk cannot be written, so writes and PING are rejected.
    Misconf,
    /// Too few replicas are connected, so writes are rejected.
    NoReplicas,
    /// The server is a replica, so writes are rejected.
    ReadOnly,
    /// The server is a replica that has lost its primary.
    MasterDown,
    /// The server is loading its data from the disk.
    Loading,
    /// A script of another client runs for too long.
    Busy,
}

impl Refusal {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Oom => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::Misconf => MISCONF,
            Self::NoReplicas => "NOREPLICAS Not enough good replicas to write.",
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
            Self::MasterDown => {
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
            }
            Self::Loading => "LOADING Redis is loading the dataset in memory",
            Self::Busy => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                 NOSAVE."
            }
        }
    }

    /// Returns whether a command with these traits is rejected.
    pub(super) const fn hits(self, traits: Traits) -> bool {
        match self {
            Self::Oom => traits & GROWS != 0,
            Self::Misconf => traits & (WRITE | DISK) != 0,
            Self::NoReplicas | Self::ReadOnly => traits & WRITE != 0,
            Self::MasterDown | Self::Loading => traits & LOADING == 0,
            Self::Busy => traits & BUSY == 0,
        }
    }

    /// Returns whether this fault affects commands that change data, also in scripts.
    pub(super) const fn is_about_writes(self) -> bool {
        matches!(self, Self::Oom | Self::Misconf | Self::NoReplicas | Self::ReadOnly)
    }
}

const MISCONF: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
    unable to persist to disk. Commands that may modify the data set are disabled, because this \
    instance is configured to report errors during writes if RDB snapshotting fails \
    (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
    error.";

/// What happens to new connections.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reach {
    /// The server accepts new connections.
    #[default]
    Open,
    /// The server refuses new connections, as a port without a listener does.
    Refused,
    /// A connection attempt never gets a reply.
    Silent,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cut {
    /// Both sides notice the end. All bytes in transit are lost in both directions.
    Whole,
    /// Only the client notices the end. The bytes that the client has sent still arrive and are
    /// executed. The replies are lost.
    Replies,
    /// Neither side notices the end. The connection looks alive, but no more bytes arrive.
    Silence,
}

/// All faults of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) requests: Delay,
    pub(super) replies: Delay,
    pub(super) reach: Reach,
    /// Whether the server is stopped, as by SIGSTOP.
    pub(super) stopped: bool,
    /// Whether the server was killed, as by SIGKILL.
    pub(super) dead: bool,
    /// Whether the server is cut off from all other servers.
    pub(super) isolated: bool,
    /// How many of a thousand messages to a subscriber are lost.
    pub(super) lost: u32,
    /// How many of a thousand commands are rejected.
    pub(super) refusals: BTreeMap<Refusal, u32>,
    /// The text with which every command is rejected.
    pub(super) failing: Option<String>,
    /// How many imaginary replicas acknowledge every write at once.
    pub(super) replicas: usize,
    /// How far the clock of `TIME` was moved, in microseconds.
    pub(super) step: i64,
}

impl Faults {
    /// Returns what happens to new connections.
    pub(super) fn reach(&self) -> Reach {
        if self.dead { self.reach.max(Reach::Refused) } else { self.reach }
    }

    /// Returns whether the server runs and can exchange messages with other servers.
    pub(super) const fn is_among_others(&self) -> bool {
        !(self.stopped || self.dead || self.isolated)
    }
}
