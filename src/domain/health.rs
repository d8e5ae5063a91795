//! The state of a client and its store.

use std::{fmt, time::Duration};

use super::Failure;
use super::{Finding, Hazard};

/// The current state of a client and its store: see [`Client::health`](crate::Client::health).
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() {
/// let health = leasehold::Client::in_memory().health().await;
/// assert!(health.is_ready());
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the connection for commands is up; in a cluster, those to all primaries.
    pub commands_up: bool,
    /// Whether the connection for messages is up. Without it, waiters poll by a timer.
    pub messages_up: bool,
    /// How long the server took to reply, in a cluster the slowest node that replied. `None` if
    /// there was no reply.
    pub round_trip: Option<Duration>,
    /// Why this client can acquire no lock, as a text for a log: no connection and its cause, no
    /// reply, a rejection, a replica, a shutdown.
    pub obstacle: Option<String>,
    /// The role of the server, if it reports it.
    pub role: Option<Role>,
    /// The version of the server, if it reports it.
    pub server_version: Option<String>,
    /// Its `maxmemory-policy`, if it reports it. Any policy except `noeviction` may evict locks.
    pub eviction_policy: Option<String>,
    /// The state of each server that executes commands: in a cluster, of each primary.
    pub nodes: Vec<NodeHealth>,
    /// The hazards that were found when a connection was made, and now. The client logs a warning
    /// when one appears. A hazard that prevents every lock is also an `obstacle`.
    pub findings: Vec<Finding>,
    /// Holds whose last renewal failed. Renewals are retried until their leases end.
    pub holds_in_doubt: usize,
}

impl Health {
    /// Returns whether no `obstacle` prevents every lock.
    ///
    /// It acquires no lock, so a user without permission for some keys is ready. A client of a
    /// cluster with an unreachable node is also ready. [`nodes`](Self::nodes) lists that node, and
    /// [`findings`](Self::findings) have its slots once its connection is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// let store = leasehold::MemoryStore::new();
    /// let client = leasehold::Client::with_store(&store);
    /// store.fail("LOADING Redis is loading the dataset in memory");
    /// let health = client.health().await;
    /// assert!(!health.is_ready());
    /// assert!(health.obstacle.unwrap().contains("LOADING"));
    /// # }
    /// ```
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.obstacle.is_none()
    }
}

/// The state of one server at a health check: see [`Health::nodes`].
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() {
/// let health = leasehold::Client::in_memory().health().await;
/// for node in health.nodes.iter().filter(|node| !node.is_reachable()) {
///     eprintln!("{}: {:?} for {:?}", node.server, node.obstacle, node.silent_for);
/// }
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The server, or the servers of the URL, without any secret.
    pub server: String,
    /// How long the server took to reply; `None` if it did not reply in time.
    pub round_trip: Option<Duration>,
    /// For how long at least the server has been unreachable, or has not replied. `None` if it
    /// replied, or was never tried.
    pub silent_for: Option<Duration>,
    /// Why the server grants no locks: no connection and its cause, no reply, a rejection, a replica.
    pub obstacle: Option<String>,
}

impl NodeHealth {
    /// Returns whether the server replied to the health check, even with a rejection.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() {
    /// let health = leasehold::Client::in_memory().health().await;
    /// assert!(health.nodes.iter().all(|node| node.is_reachable()));
    /// # }
    /// ```
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.round_trip.is_some()
    }
}

/// The role of a server.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() {
/// use leasehold::Role;
/// let health = leasehold::Client::in_memory().health().await;
/// assert_eq!(health.role, Some(Role::Primary));
/// assert_eq!(Role::ClusterNode.to_string(), "a node of a cluster");
/// # }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Role {
    /// It accepts writes, and grants locks.
    Primary,
    /// It copies a primary, and grants no locks.
    Replica,
    /// It is one node of a cluster, and rejects names in slots of other nodes.
    ClusterNode,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "a primary",
            Self::Replica => "a replica",
            Self::ClusterNode => "a node of a cluster",
        })
    }
}

/// The report of a store about itself; all of it is optional.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct About {
    pub(crate) role: Option<Role>,
    pub(crate) version: Option<String>,
    pub(crate) eviction_policy: Option<String>,
    /// Whether its memory is full and its policy evicts nothing.
    pub(crate) is_full: bool,
    /// Whether it belongs to a cluster, whatever its role.
    pub(crate) clustered: bool,
    /// The address of the server.
    pub(crate) server: String,
    /// The run id, which changes when the server restarts.
    pub(crate) run_id: Option<String>,
    /// The number of connected replicas, if it is not a replica itself.
    pub(crate) replicas: Option<usize>,
    /// The hazards there.
    pub(crate) hazards: Vec<Hazard>,
    /// Whether it reports that its whole cluster is down.
    pub(crate) cluster_down: bool,
    /// The health of each server.
    pub(crate) nodes: Vec<NodeHealth>,
    /// Why the other fields are unknown.
    pub(crate) failure: Option<String>,
}

impl About {
    /// Returns the result of a health check, with the health of each server.
    pub(crate) fn of(nodes: Vec<NodeHealth>, looked: Result<Self, Failure>) -> Self {
        let about = looked.unwrap_or_else(|failure| Self {
            failure: Some(failure.to_string()),
            ..Self::default()
        });
        Self { nodes, ..about }
    }

    /// Returns whether no check was denied.
    pub(crate) fn is_seen(&self) -> bool {
        !self.hazards.iter().any(|it| matches!(it, Hazard::ChecksDenied { .. }))
    }

    /// Returns whether it reports that it is not a cluster node.
    pub(crate) fn is_alone(&self) -> bool {
        self.role.is_some() && !self.clustered
    }

    /// Returns why it grants no locks, if it does not.
    pub(crate) fn obstacle(&self) -> Option<String> {
        if self.failure.is_some() {
            return self.failure.clone();
        }
        let stops = match self.role {
            Some(Role::Replica) => Hazard::Replica,
            _ if self.hazards.contains(&Hazard::TooFewReplicas) => Hazard::TooFewReplicas,
            _ => return None,
        };
        Some(format!("{stops}; {}", stops.remedy()))
    }

    /// Returns its health without the fields that only the client knows.
    pub(crate) fn health(self) -> Health {
        Health {
            commands_up: false,
            messages_up: false,
            round_trip: None,
            obstacle: None,
            role: self.role,
            server_version: self.version,
            eviction_policy: self.eviction_policy,
            nodes: self.nodes,
            findings: Vec::new(),
            holds_in_doubt: 0,
        }
    }
}
