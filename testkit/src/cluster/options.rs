//! How many nodes a test wants, and of what kind.

use std::time::Duration;

use crate::options::Options;

/// The settings of a cluster that is about to start.
///
/// # Examples
///
/// ```
/// use testkit::{Cluster, Redis};
///
/// let cluster = Cluster::options()
///     .replicas(0)
///     .node_options(Redis::options().arg("--cluster-require-full-coverage", "no"))
///     .start();
/// assert_eq!(cluster.nodes().len(), 3);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a cluster runs once it is started"]
pub struct ClusterOptions {
    pub(super) linked: bool,
    pub(super) masters: usize,
    pub(super) node_options: Options,
    pub(super) node_timeout: Duration,
    pub(super) replicas: usize,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            linked: false,
            masters: 3,
            node_options: Options::default(),
            node_timeout: NEVER_ON_A_WHIM,
            replicas: 1,
        }
    }
}

impl ClusterOptions {
    /// Puts [links](crate::Links) between all nodes. They are called `node-0` and so on, primaries
    /// first, and announce the ports of the links.
    pub fn links(mut self) -> Self {
        self.linked = true;
        self
    }

    /// How many masters share the slots. Default: three.
    pub fn masters(mut self, count: usize) -> Self {
        self.masters = count;
        self
    }

    /// Settings of every node.
    pub fn node_options(mut self, options: Options) -> Self {
        self.node_options = options;
        self
    }

    /// How long a node may be silent until others take it for down. Default: five seconds,
    /// so that no node is replaced that a busy machine has kept waiting.
    pub fn node_timeout(mut self, silence: Duration) -> Self {
        self.node_timeout = silence;
        self
    }

    /// Makes a second of silence enough for a failover that begins by itself.
    pub fn impatient(self) -> Self {
        self.node_timeout(Duration::from_secs(1))
    }

    /// How many replicas each master has. Default: one.
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }
}

/// Longer than a node that is well is silent on a busy machine.
const NEVER_ON_A_WHIM: Duration = Duration::from_secs(5);
