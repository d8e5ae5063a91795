//! Settings and states of a deployment that may harm locks, and their remedies.

use std::{fmt, time::Duration};

/// One hazard at one server: see `Health::findings`.
///
/// # Examples
///
/// ```
/// # use leasehold_link::Finding;
/// fn log(findings: &[Finding]) {
///     findings.iter().for_each(|finding| eprintln!("{finding}"));
/// }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The server, or the servers of the URL, without any secret.
    pub server: String,
    /// The hazard.
    pub hazard: Hazard,
}

impl Finding {
    pub(crate) fn at(server: &str, hazard: Hazard) -> Self {
        Self { server: server.to_owned(), hazard }
    }
}

/// Shows the server, the hazard and its remedy.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.server, self.hazard, self.hazard.remedy())
    }
}

/// A setting or a state of a deployment that may harm locks.
///
/// The text of a hazard describes the harm, and [`remedy`](Self::remedy) returns the remedy.
///
/// # Examples
///
/// ```
/// # use leasehold_link::Hazard;
/// let hazard = Hazard::Evicts { policy: "allkeys-lru".into() };
/// assert!(hazard.to_string().contains("evict locks"));
/// assert!(hazard.remedy().contains("noeviction"));
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Hazard {
    /// The server evicts keys when its memory is full. Locks are keys with a TTL, which some
    /// policies evict first.
    Evicts {
        /// The `maxmemory-policy` of the server.
        policy: String,
    },
    /// The server is a replica, and grants no locks.
    Replica,
    /// The URL names a single server, but that server is a node of a cluster.
    ClusterNode,
    /// The server is older than the oldest tested version.
    OldVersion {
        /// The version that the server reports.
        version: String,
    },
    /// The primary has replicas, but accepts writes even if no replica is connected. If the network
    /// cuts off the primary, the old and the new primary may grant the same lock.
    UnprotectedPrimary,
    /// No replica is connected to the primary. If the primary fails, no server can replace it.
    NoReplica,
    /// Fewer replicas are connected than locks of this client require: see `Lock::replicated`.
    FewerReplicas {
        /// How many replicas the locks require.
        wanted: u32,
        /// How many replicas are connected.
        there: usize,
    },
    /// A replica lags behind. If it is promoted, locks are lost.
    ReplicaBehind {
        /// The address of the replica, as the primary reports it.
        replica: String,
        /// For how long the replica has been silent.
        silent: Duration,
        /// How many bytes the replica has not acknowledged.
        bytes: u64,
    },
    /// The clock of the server differs from the clock of this machine.
    ///
    /// A server stores the end of a lease as a time of day. A single server measures leases
    /// correctly, whatever its clock shows. After a failover, a new primary with another clock ends
    /// leases too early or too late. A Redisson client computes the ends of its permits by the
    /// clock of its machine.
    ClockApart {
        /// Whether the clock of the server is ahead.
        ahead: bool,
        /// The difference is at least this long.
        by: Duration,
    },
    /// Too few sentinels watch the primary. If one sentinel fails, no failover is possible.
    FewSentinels {
        /// The number of sentinels that know each other.
        known: usize,
    },
    /// Fewer sentinels are available than a failover needs.
    NoQuorum {
        /// How many sentinels are available.
        usable: usize,
        /// How many sentinels a failover needs.
        needed: usize,
    },
    /// No sentinel returns the address of the primary, so this client cannot follow a failover. For
    /// example, no sentinel replies, all reject the login, or none knows the name of the primary.
    NoSentinel,
    /// The server rejects writes, because it has fewer replicas than `min-replicas-to-write`.
    TooFewReplicas,
    /// A node of the cluster is unreachable, so names in its slots cannot be locked.
    NodeUnreachable {
        /// The slots of the node.
        slots: String,
        /// The cause.
        why: String,
    },
    /// Some slots of the cluster have no node, so their names cannot be locked.
    SlotsWithoutNode {
        /// The first range of these slots.
        slots: String,
    },
    /// The cluster was upgraded after this client connected. Clients that connect now use sharded
    /// channels, to which this client does not subscribe.
    ChannelModeChanged,
    /// New connections to the address reach another server than the connection for commands.
    ServerMismatch,
    /// The server at another address of the URL is also a primary.
    OtherPrimary {
        /// The address of the other primary.
        address: String,
    },
    /// The user may not call a command that checks for hazards.
    ChecksDenied {
        /// The command.
        command: String,
    },
}

impl Hazard {
    /// Returns the remedy.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold_link::Hazard;
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
            Self::NoReplica => "reconnect its replicas, or start a new one",
            Self::FewerReplicas { .. } => "reconnect replicas, or require fewer",
            Self::ReplicaBehind { .. } => {
                "repair that replica, or set its replica-priority to 0; use `replicated` locks"
            }
            Self::ClockApart { .. } => "synchronize the clocks of all machines by NTP",
            Self::FewSentinels { .. } => "run at least three sentinels, on separate machines",
            Self::NoQuorum { .. } => {
                "start the missing sentinels; use SENTINEL RESET to remove sentinels that are gone \
                 for good"
            }
            Self::NoSentinel => {
                "start the sentinels, or correct their addresses, the name of the primary or \
                 sentinel_password"
            }
            Self::TooFewReplicas => "reconnect its replicas, or lower min-replicas-to-write",
            Self::NodeUnreachable { why, .. } if refuses_login(why) => {
                "create the user on that node, as on the other nodes"
            }
            Self::NodeUnreachable { .. } => "repair that node, or wait for a failover",
            Self::SlotsWithoutNode { .. } => "assign the slots to a node, or wait for a failover",
            Self::ChannelModeChanged => "restart the clients that started before the upgrade",
            Self::ServerMismatch => {
                "stop the old server, or demote it to a replica; this client then uses the new \
                 server"
            }
            Self::OtherPrimary { .. } => {
                "demote one of the two primaries to a replica: REPLICAOF host port"
            }
            Self::ChecksDenied { .. } => "grant the user this command to see hazards",
        }
    }
}

impl Hazard {
    /// Returns whether the hazard may end without a changed setting.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::NoReplica
                | Self::FewerReplicas { .. }
                | Self::ReplicaBehind { .. }
                | Self::TooFewReplicas
        )
    }

    /// Returns whether this hazard prevents a check from finding `other`. For example, the ACL
    /// denies the command whose reply would show `other`.
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

/// Returns whether the cause `why` is a rejected login.
fn refuses_login(why: &str) -> bool {
    ["NOAUTH", "WRONGPASS"].iter().any(|code| why.contains(code))
}

/// Describes the harm.
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
                write!(f, "this server has version {version}, but the oldest tested version is 6.2")
            }
            Self::UnprotectedPrimary => f.write_str(
                "if the network cuts off this primary and a replica is promoted, both servers may \
                 grant the same lock",
            ),
            Self::NoReplica => f.write_str(
                "no replica is connected to this primary, so no server can replace this primary if \
                 it fails",
            ),
            Self::FewerReplicas { wanted, there } => write!(
                f,
                "only {there} of {wanted} replicas required by `replicated` are connected; \
                 acquiring a lock with `replicated` will fail"
            ),
            Self::ReplicaBehind { replica, silent, bytes } => write!(
                f,
                "the replica {replica} is {bytes} bytes behind and has been silent for {silent:?}; \
                 if this replica is promoted, locks are lost"
            ),
            Self::ClockApart { ahead, by } => write!(
                f,
                "the clock of this server is {by:?} {} the clock of this client; after a failover, \
                 leases and permits may end too early or too late by this difference",
                if *ahead { "ahead of" } else { "behind" }
            ),
            Self::FewSentinels { known } => write!(
                f,
                "only {known} sentinels watch this primary; if one sentinel fails, no failover is \
                 possible"
            ),
            Self::NoQuorum { usable, needed } => {
                write!(f, "only {usable} sentinels are available, but a failover needs {needed}")
            }
            Self::NoSentinel => f.write_str(
                "no sentinel returned the address of the primary, so this client cannot follow a \
                 failover",
            ),
            Self::TooFewReplicas => f.write_str(
                "this server rejects writes because too few replicas are connected: NOREPLICAS",
            ),
            Self::NodeUnreachable { slots, why } => {
                write!(
                    f,
                    "names in {slots} cannot be locked, because this client cannot use their node: \
                     {why}"
                )
            }
            Self::SlotsWithoutNode { slots } => {
                write!(
                    f,
                    "no node of the cluster serves {slots}, so names in these slots cannot be \
                     locked"
                )
            }
            Self::ChannelModeChanged => f.write_str(
                "the cluster was upgraded to sharded channels after this client started; \
                 notifications between this client and newer clients arrive late",
            ),
            Self::ServerMismatch => f.write_str(
                "new connections to this address reach another server than the one that this \
                 client uses; other clients may acquire the same locks there",
            ),
            Self::OtherPrimary { address } => {
                write!(
                    f,
                    "{address} is also a primary; other clients may acquire the same locks there"
                )
            }
            Self::ChecksDenied { command } => {
                write!(f, "{command} is denied, so hazards of this server cannot be checked")
            }
        }
    }
}
