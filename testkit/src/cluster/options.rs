//! The settings of a cluster.

use std::time::Duration;

use crate::options::Options;

/// The settings of a cluster before its start.
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
    /// Puts [links](crate::Links) between all nodes. The nodes announce the ports of the links. The
    /// nodes are called `node-0` and so on, masters first.
    pub fn links(mut self) -> Self {
        self.linked = true;
        self
    }

    /// The number of masters that share the slots. Default: three.
    pub fn masters(mut self, count: usize) -> Self {
        self.masters = count;
        self
    }

    /// Settings of every node.
    pub fn node_options(mut self, options: Options) -> Self {
        self.node_options = options;
        self
    }

    /// The time of silence after which other nodes consider a node down. Default: five seconds, so
    /// that a busy machine causes no failover.
    pub fn node_timeout(mut self, silence: Duration) -> Self {
        self.node_timeout = silence;
        self
    }

    /// Lets a failover begin after a second of silence.
    pub fn impatient(self) -> Self {
        self.node_timeout(Duration::from_secs(1))
    }

    /// The number of replicas of each master. Default: one.
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }
}

/// Even on a busy machine, a healthy node is never silent for this long.
const NEVER_ON_A_WHIM: Duration = Duration::from_secs(5);
