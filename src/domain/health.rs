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
    /// Whether the connection for commands is up. In a cluster, whether the connections to all
    /// primaries are up.
    pub commands_up: bool,
    /// Whether the connection for pub/sub messages is up. Without this connection, waiters send
    /// requests by a timer.
    pub messages_up: bool,
    /// How long the server took to reply. In a cluster, the time of the slowest node that replied.
    /// `None` if there was no reply.
    pub round_trip: Option<Duration>,
    /// Why this client can acquire no lock, as a text for a log. Causes are a missing connection, a
    /// missing reply, a rejection, a server that is a replica, and a shutdown of the client.
    pub unavailable_reason: Option<String>,
    /// The role of the server, if the server reports it.
    pub role: Option<Role>,
    /// The version of the server, if the server reports it.
    pub server_version: Option<String>,
    /// The `maxmemory-policy` of the server, if the server reports it. Any policy except
    /// `noeviction` may evict locks.
    pub eviction_policy: Option<String>,
    /// The state of each server that executes commands: in a cluster, of each primary.
    pub nodes: Vec<NodeHealth>,
    /// The hazards that the client has found at the connections or by this health check. The client
    /// logs a warning when a hazard appears. If a hazard prevents every lock, it is also the
    /// `unavailable_reason`.
    pub findings: Vec<Finding>,
    /// How many holds are in doubt, because their last renewal failed. The client retries these
    /// renewals until the leases end.
    pub holds_in_doubt: usize,
}

impl Health {
    /// Returns whether the client can acquire locks. If so, `unavailable_reason` is `None`.
    ///
    /// The health check acquires no lock, so a client is ready even if the ACL denies it some keys.
    /// A client of a cluster is ready even if a node is unreachable. [`nodes`](Self::nodes) lists
    /// that node. Once its connection is lost, [`findings`](Self::findings) lists its slots.
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
    /// assert!(health.unavailable_reason.unwrap().contains("LOADING"));
    /// # }
    /// ```
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.unavailable_reason.is_none()
    }

    /// Makes a `Health` from the reports of the servers. The caller sets the fields that only the
    /// client knows.
    pub(crate) fn of(about: About) -> Self {
        Self {
            commands_up: false,
            messages_up: false,
            round_trip: None,
            unavailable_reason: None,
            role: about.role,
            server_version: about.version,
            eviction_policy: about.eviction_policy,
            nodes: about.nodes,
            findings: Vec::new(),
            holds_in_doubt: 0,
        }
    }
}
