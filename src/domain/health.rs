//! How a client and its store are.

use std::{fmt, time::Duration};

use super::Failure;
use super::{Finding, Hazard};

/// How a client and its store are right now: see [`Client::health`](crate::Client::health).
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
    /// Whether the connection for commands is up; in a cluster, those to all masters.
    pub commands_up: bool,
    /// Whether the connection for messages is up. Without it waiters ask by a timer.
    pub messages_up: bool,
    /// How long the server took to answer just now, in a cluster the slowest node that did;
    /// `None` if none answered.
    pub round_trip: Option<Duration>,
    /// What keeps this client from locking, in words for a log: no connection and why,
    /// silence, a refusal, a replica, a shutdown.
    pub obstacle: Option<String>,
    /// What the server is to others, if it says so.
    pub role: Option<Role>,
    /// The version of the server, if it says so.
    pub server_version: Option<String>,
    /// What the server throws away when its memory is full, if it says so. Anything but
    /// `noeviction` may throw locks away.
    pub eviction_policy: Option<String>,
    /// What this client knows of each server that it sends commands to: in a cluster, of each
    /// master.
    pub nodes: Vec<NodeHealth>,
    /// What can hurt locks, as far as it was looked at: when a connection was made, and now. A
    /// client warns of each kind when it appears. What is in the way of every lock is an
    /// `obstacle`, too.
    pub findings: Vec<Finding>,
    /// Holds whose last renewal failed. It is tried again until their leases end.
    pub holds_in_doubt: usize,
}

impl Health {
    /// Whether nothing is in the way of every lock, as far as this client can know. It
    /// tries none: a user without rights to the keys of some is ready. So is a client of a cluster
    /// of which a node is unreachable: [`nodes`](Self::nodes) lists it, and
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

/// How one server was at a health check: see [`Health::nodes`].
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
    /// The server, or the servers in the words of the URL, without any secret.
    pub server: String,
    /// How long the server took to answer; `None` if it did not answer in time.
    pub round_trip: Option<Duration>,
    /// For how long at least the server has been unreachable, or has not answered. `None` if it
    /// answered, or was never tried.
    pub silent_for: Option<Duration>,
    /// Why the server grants no locks: no connection and why, silence, a refusal, a replica.
    pub obstacle: Option<String>,
}

impl NodeHealth {
    /// Whether the server answered the health check, be it with a refusal.
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

/// What a server is to others.
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
    /// It takes writes, and so locks.
    Primary,
    /// It copies a primary, and refuses locks.
    Replica,
    /// It is one of several that share the keys: it refuses names that are not its own.
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

/// What a store says of itself. It may say less.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct About {
    pub(crate) role: Option<Role>,
    pub(crate) version: Option<String>,
    pub(crate) eviction_policy: Option<String>,
    /// Whether its memory is full, and it throws nothing away.
    pub(crate) is_full: bool,
    /// Whether it is of a cluster, whatever its role there.
    pub(crate) clustered: bool,
    /// Where it is.
    pub(crate) server: String,
    /// What it calls itself until it ends.
    pub(crate) run_id: Option<String>,
    /// How many replicas follow it, if it is no replica itself.
    pub(crate) replicas: Option<usize>,
    /// What can hurt locks there.
    pub(crate) hazards: Vec<Hazard>,
    /// Whether it says that its whole cluster is down.
    pub(crate) cluster_down: bool,
    /// How each server is.
    pub(crate) nodes: Vec<NodeHealth>,
    /// Why nothing else is known of it.
    pub(crate) failure: Option<String>,
}

impl About {
    /// What was `looked` at, and how each of the servers is.
    pub(crate) fn of(nodes: Vec<NodeHealth>, looked: Result<Self, Failure>) -> Self {
        let about = looked.unwrap_or_else(|failure| Self {
            failure: Some(failure.to_string()),
            ..Self::default()
        });
        Self { nodes, ..about }
    }

    /// Whether it could be looked at.
    pub(crate) fn is_seen(&self) -> bool {
        !self.hazards.iter().any(|it| matches!(it, Hazard::ChecksDenied { .. }))
    }

    /// Whether it says that it is of no cluster.
    pub(crate) fn is_alone(&self) -> bool {
        self.role.is_some() && !self.clustered
    }

    /// Why it takes no locks, if it does not.
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

    /// What is known of it, and nothing else.
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
