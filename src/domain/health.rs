//! The state of a client and its store.

use std::time::Duration;

use super::{About, Finding, NodeHealth, Role};

/// The current state of a client and its store: see [`Client::health`](crate::Client::health).
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() {
/// let health = leasehold::Client::in_memory().health().await;
/// println!("ready: {}, round trip: {:?}", health.is_ready(), health.round_trip);
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

    /// Returns what `about` reports, without the fields that only the client knows.
    pub(crate) fn of(about: About) -> Self {
        Self {
            commands_up: false,
            messages_up: false,
            round_trip: None,
            obstacle: None,
            role: about.role,
            server_version: about.version,
            eviction_policy: about.eviction_policy,
            nodes: about.nodes,
            findings: Vec::new(),
            holds_in_doubt: 0,
        }
    }
}
