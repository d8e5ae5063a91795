//! Warns of servers that will not do for locks, once of each kind.

use crate::domain::{About, Mutex, Role};

/// What was warned of.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    told: Mutex<Vec<Trouble>>,
    /// Whether nodes of a cluster are what is looked for. What each of them is says their map.
    of_nodes: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Trouble {
    ClusterNode,
    Eviction,
    Replica,
}

impl Warnings {
    pub(super) fn of_nodes() -> Self {
        Self { of_nodes: true, ..Self::default() }
    }

    /// Whether it is time to warn of this, and then it is done.
    fn is_new(&self, trouble: Trouble) -> bool {
        let mut told = self.told.lock();
        let new = !told.contains(&trouble);
        if new {
            told.push(trouble);
        }
        new
    }

    /// Warns of what a server says of itself.
    pub(super) fn warn_of(&self, about: &About) {
        let role = about.role.filter(|_| !self.of_nodes);
        if role == Some(Role::Replica) && self.is_new(Trouble::Replica) {
            tracing::warn!(target: "leasehold",
                "this server is a replica and takes no locks: connect to its primary");
        }
        if role == Some(Role::ClusterNode) && self.is_new(Trouble::ClusterNode) {
            tracing::warn!(target: "leasehold",
                "this server is a node of a cluster and takes no names but its own: connect to \
                 the cluster, by redis-cluster:// or rediss-cluster://");
        }
        // Locks are keys with a lease: some policies throw just those away first.
        let policy = about.eviction_policy.as_deref().filter(|policy| *policy != "noeviction");
        if let Some(policy) = policy.filter(|_| self.is_new(Trouble::Eviction)) {
            tracing::warn!(target: "leasehold", policy,
                "this server may evict locks when its memory is full: use noeviction");
        }
    }
}
