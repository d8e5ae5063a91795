//! What can hurt locks though they can be had, and what to do about it.

use std::{fmt, time::Duration};

/// What can hurt locks, and where it was found: see [`Health::findings`](crate::Health::findings).
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() {
/// let client = leasehold::Client::in_memory();
/// for finding in client.health().await.findings {
///     eprintln!("{finding}");
/// }
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The server, or the servers in the words of the URL, without any secret.
    pub server: String,
    /// What it is.
    pub hazard: Hazard,
}

impl Finding {
    pub(crate) fn at(server: &str, hazard: Hazard) -> Self {
        Self { server: server.to_owned(), hazard }
    }
}

/// Where, what, and what to do.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.server, self.hazard, self.hazard.remedy())
    }
}

/// What can hurt locks. Shown it says how; [`remedy`](Self::remedy) says what to do.
///
/// # Examples
///
/// ```
/// use leasehold::Hazard;
/// let hazard = Hazard::Evicts { policy: "allkeys-lru".into() };
/// assert!(hazard.to_string().contains("evict locks"));
/// assert!(hazard.remedy().contains("noeviction"));
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Hazard {
    /// The server throws keys away when its memory is full. Locks are keys with a lease, which
    /// some policies throw away first.
    Evicts {
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// The server is a replica, and takes no locks.
    Replica,
    /// The server is a node of a cluster, and was named as if it were alone.
    ClusterNode,
    /// The server is older than those that are tested.
    OldVersion {
        /// What it says.
        version: String,
    },
    /// The primary has replicas, and takes writes when it hears of none: cut off from them it
    /// goes on granting locks that its successor grants, too.
    UnprotectedPrimary,
    /// No replica follows the server, though another is to take its place when it fails: nobody can
    /// then, and no lock can be had until it is back.
    NoReplica,
    /// Fewer replicas follow the server than locks of this client ask for: see
    /// [`Lock::replicated`](crate::Lock::replicated).
    FewerReplicas {
        /// So many are asked for.
        wanted: u32,
        /// So many follow it.
        there: usize,
    },
    /// A replica has not got what the primary has: if it is promoted, locks are forgotten.
    ReplicaBehind {
        /// Which, as the primary calls it.
        replica: String,
        /// For how long the primary has not heard of it.
        silent: Duration,
        /// How many bytes it has not acknowledged.
        bytes: u64,
    },
    /// The clock of the server is not that of this machine. Leases last as long as they should;
    /// but they are written down as times of day, which a server with another clock reads otherwise
    /// after a failover, and permits of a Redisson are dated by the clock of its machine.
    ClockApart {
        /// Whether the server is ahead of us.
        ahead: bool,
        /// By so much at least.
        by: Duration,
    },
    /// Too few sentinels watch the master to replace it when one of them fails.
    FewSentinels {
        /// How many there are, as far as they know of each other.
        known: usize,
    },
    /// Too few of the sentinels are there to replace a primary.
    NoQuorum {
        /// How many are there.
        usable: usize,
        /// How many have to be.
        needed: usize,
    },
    /// No sentinel says where the primary is: none answers, they refuse us, or know no such
    /// master. No failover will be followed now.
    NoSentinel,
    /// The server refuses to write: it hears of fewer replicas than its
    /// `min-replicas-to-write` says.
    TooFewReplicas,
    /// A node of the cluster does not answer: names in its slots cannot be locked now.
    NodeAway {
        /// Its slots.
        slots: String,
        /// What is in the way.
        why: String,
    },
    /// Slots of the cluster have no node: names there cannot be locked.
    SlotsWithoutNode {
        /// The first of them.
        slots: String,
    },
    /// The cluster was upgraded: who connects now uses channels that this client does not
    /// listen to, as it began with those of the old version.
    ChannelModeChanged,
    /// New connections to the address lead to another server than the one that commands go to,
    /// which takes locks as before: it may have been replaced.
    ServerMismatch,
    /// Another of the addresses in the URL is a primary, too.
    OtherPrimary {
        /// Which.
        address: String,
    },
    /// A command was refused by which these things are looked at.
    ChecksDenied {
        /// Which.
        command: String,
    },
}

impl Hazard {
    /// What to do about it.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::Hazard;
    /// assert_eq!(Hazard::Replica.remedy(), "connect to its primary");
    /// ```
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Evicts { .. } => "set maxmemory-policy noeviction",
            Self::Replica => "connect to its primary",
            Self::ClusterNode => "connect to the cluster by redis-cluster:// or rediss-cluster://",
            Self::OldVersion { .. } => "upgrade the server",
            Self::UnprotectedPrimary => {
                "set min-replicas-to-write 1 and min-replicas-max-lag 2 on every server"
            }
            Self::NoReplica => "bring its replicas back, or start one",
            Self::FewerReplicas { .. } => "bring replicas back, or require fewer",
            Self::ReplicaBehind { .. } => {
                "repair that replica, or set its replica-priority to 0; use `replicated` locks"
            }
            Self::ClockApart { .. } => "synchronize the clocks of all machines by NTP",
            Self::FewSentinels { .. } => "run at least three sentinels, on separate machines",
            Self::NoQuorum { .. } => {
                "start the missing sentinels; remove those that are gone for good by SENTINEL RESET"
            }
            Self::NoSentinel => {
                "start the sentinels, or correct their addresses, the name of the primary or \
                 sentinel_password"
            }
            Self::TooFewReplicas => "bring its replicas back, or lower min-replicas-to-write",
            Self::NodeAway { why, .. } if refuses_login(why) => {
                "create the user on that node as on the others"
            }
            Self::NodeAway { .. } => "repair that node, or wait for a failover",
            Self::SlotsWithoutNode { .. } => "assign the slots to a node, or wait for a failover",
            Self::ChannelModeChanged => "restart the clients that started before the upgrade",
            Self::ServerMismatch => {
                "stop the old server, or demote it to a replica; commands then follow"
            }
            Self::OtherPrimary { .. } => "demote one of them to a replica: REPLICAOF host port",
            Self::ChecksDenied { .. } => "grant the user this command to see hazards",
        }
    }
}

impl Hazard {
    /// Whether it may be over without anybody's changing a setting.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::NoReplica
                | Self::FewerReplicas { .. }
                | Self::ReplicaBehind { .. }
                | Self::TooFewReplicas
        )
    }

    /// Whether a look that finds this cannot see the `other`, be it there or not.
    pub(crate) fn hides(&self, other: &Self) -> bool {
        match self {
            Self::ChecksDenied { .. } => matches!(
                other,
                Self::Evicts { .. }
                    | Self::UnprotectedPrimary
                    | Self::NoReplica
                    | Self::FewerReplicas { .. }
                    | Self::ReplicaBehind { .. }
                    | Self::TooFewReplicas
                    | Self::ClockApart { .. }
            ),
            Self::NoSentinel => matches!(other, Self::FewSentinels { .. } | Self::NoQuorum { .. }),
            _ => false,
        }
    }
}

/// Whether it is in the way that a server does not know our user, or its password.
fn refuses_login(why: &str) -> bool {
    ["NOAUTH", "WRONGPASS"].iter().any(|code| why.contains(code))
}

/// How it hurts.
impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { policy } => {
                write!(
                    f,
                    "this server may evict locks when its memory is full: maxmemory-policy is \
                     {policy}"
                )
            }
            Self::Replica => f.write_str("this server is a replica and grants no locks"),
            Self::ClusterNode => f.write_str(
                "this server is a node of a cluster and accepts only the names of its own \
                     slots",
            ),
            Self::OldVersion { version } => {
                write!(
                    f,
                    "this server has version {version}, which is older than the oldest tested \
                     one, 6.2"
                )
            }
            Self::UnprotectedPrimary => f.write_str(
                "this primary keeps granting locks when it is cut off from its replicas, \
                 although one of them may have been promoted",
            ),
            Self::NoReplica => f.write_str(
                "no replica is connected to this primary, so no server can replace it if it \
                     fails",
            ),
            Self::FewerReplicas { wanted, there } => write!(
                f,
                "only {there} of {wanted} replicas required by `replicated` are connected; such \
                 locks will be refused"
            ),
            Self::ReplicaBehind { replica, silent, bytes } => write!(
                f,
                "the replica {replica} is {bytes} bytes behind and has been silent for \
                 {silent:?}; if it is promoted, locks are lost"
            ),
            Self::ClockApart { ahead, by } => write!(
                f,
                "the clock of this server is {by:?} {} this client's; after a failover, leases \
                 and permits may end that much too early or too late",
                if *ahead { "ahead of" } else { "behind" }
            ),
            Self::FewSentinels { known } => write!(
                f,
                "only {known} sentinels watch this primary; if one of them fails, no failover is \
                 possible"
            ),
            Self::NoQuorum { usable, needed } => {
                write!(f, "{usable} sentinels available; failover needs {needed}")
            }
            Self::NoSentinel => f.write_str(
                "no sentinel names the primary; this client cannot follow a failover now",
            ),
            Self::TooFewReplicas => f.write_str(
                "this server rejects writes because too few replicas are connected: NOREPLICAS",
            ),
            Self::NodeAway { slots, why } => {
                write!(f, "names in {slots} cannot be locked: {why}")
            }
            Self::SlotsWithoutNode { slots } => {
                write!(f, "no node of the cluster serves {slots}; names there cannot be locked")
            }
            Self::ChannelModeChanged => f.write_str(
                "the cluster was upgraded to sharded channels after this client started; \
                 notifications between it and newer clients arrive late",
            ),
            Self::ServerMismatch => f.write_str(
                "this address now leads to another server than the one that executes commands; \
                 other clients may lock there",
            ),
            Self::OtherPrimary { address } => {
                write!(f, "{address} is also a primary; other clients may lock there")
            }
            Self::ChecksDenied { command } => {
                write!(f, "{command} is denied, so hazards of this server cannot be checked")
            }
        }
    }
}
