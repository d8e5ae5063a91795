//! The state of a server, as a health check finds it.

use std::{fmt, time::Duration};

use crate::{failure::Failure, hazard::Hazard};

/// The state of one server at a health check: see `Health::nodes`.
///
/// # Examples
///
/// ```
/// # use leasehold_link::NodeHealth;
/// fn log(nodes: &[NodeHealth]) {
///     for node in nodes.iter().filter(|node| !node.is_reachable()) {
///         eprintln!("{}: {:?} for {:?}", node.server, node.unavailable_reason, node.silent_for);
///     }
/// }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The server, or the servers of the URL, without any secret.
    pub server: String,
    /// How long the server took to reply. `None` if the server did not reply in time.
    pub round_trip: Option<Duration>,
    /// For how long, at least, the server has been unreachable or silent. `None` if the server
    /// replied, or was never tried.
    pub silent_for: Option<Duration>,
    /// Why the server grants no locks. For example, it is unreachable, sends rejections, or is a
    /// replica.
    pub unavailable_reason: Option<String>,
}

impl NodeHealth {
    /// Returns whether the server replied to the health check, even with a rejection.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold_link::NodeHealth;
    /// fn all_are_reachable(nodes: &[NodeHealth]) -> bool {
    ///     nodes.iter().all(NodeHealth::is_reachable)
    /// }
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
/// # use leasehold_link::Role;
/// assert_eq!(Role::Primary.to_string(), "a primary");
/// assert_eq!(Role::ClusterNode.to_string(), "a node of a cluster");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Role {
    /// The server accepts writes, and grants locks.
    Primary,
    /// The server copies a primary, and grants no locks.
    Replica,
    /// The server is a node of a cluster. It rejects names in slots of other nodes.
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

/// The report of a server, or of a deployment, about itself. Each fact may be unknown.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct About {
    /// The role of the server.
    pub role: Option<Role>,
    /// The version of the server.
    pub version: Option<String>,
    /// The `maxmemory-policy` of the server.
    pub eviction_policy: Option<String>,
    /// Whether the memory of the server is full and its policy evicts nothing.
    pub is_full: bool,
    /// Whether the server belongs to a cluster, as a primary or as a replica.
    pub clustered: bool,
    /// The address of the server.
    pub server: String,
    /// The run id, which changes when the server restarts.
    pub run_id: Option<String>,
    /// The number of connected replicas, if the server is not a replica itself.
    pub replicas: Option<usize>,
    /// The hazards that the client found.
    pub hazards: Vec<Hazard>,
    /// Whether the server reports that its whole cluster is down.
    pub cluster_down: bool,
    /// The health of each server.
    pub nodes: Vec<NodeHealth>,
    /// Why the health check failed, so that the other fields are unknown.
    pub failure: Option<String>,
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

    /// Returns whether the ACL allowed all checks.
    pub(crate) fn is_seen(&self) -> bool {
        !self.hazards.iter().any(|it| matches!(it, Hazard::ChecksDenied { .. }))
    }

    /// Returns whether the server reports that it is not a cluster node.
    pub(crate) fn is_alone(&self) -> bool {
        self.role.is_some() && !self.clustered
    }

    /// Returns why the server grants no locks, or `None` if it grants locks.
    #[must_use]
    pub fn unavailable_reason(&self) -> Option<String> {
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
}
