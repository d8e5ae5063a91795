//! The settings of a deployment with Sentinels.

use std::time::Duration;

use crate::options::Options;

/// The settings of a master, its replicas and their Sentinels before the start.
///
/// # Examples
///
/// ```
/// use testkit::{Redis, Sentinels};
///
/// let redis = Sentinels::options()
///     .replicas(1)
///     .server_options(Redis::options().password("secret").persistent())
///     .sentinel_options(Redis::options().password("other"))
///     .start();
/// assert_eq!(redis.servers().len(), 2);
/// assert_eq!(redis.sentinels().len(), 3);
/// ```
#[derive(Clone, Debug)]
#[must_use = "servers run once they are started"]
pub struct SentinelsOptions {
    pub(super) down_after: Duration,
    pub(super) failover_timeout: Duration,
    pub(super) linked: bool,
    pub(super) name: String,
    pub(super) own_authority: bool,
    pub(super) quorum: Option<usize>,
    pub(super) replicas: usize,
    pub(super) sentinel_options: Options,
    pub(super) sentinels: usize,
    pub(super) server_options: Options,
}

impl Default for SentinelsOptions {
    fn default() -> Self {
        Self {
            down_after: NEVER_ON_A_WHIM,
            failover_timeout: Duration::from_secs(3),
            linked: false,
            name: "mymaster".into(),
            own_authority: false,
            quorum: None,
            replicas: 2,
            sentinel_options: Options::default(),
            sentinels: 3,
            server_options: Options::default(),
        }
    }
}

impl SentinelsOptions {
    /// The time of silence after which a Sentinel considers a server down. Default: five seconds,
    /// so that a busy machine causes no failover.
    pub fn down_after(mut self, silence: Duration) -> Self {
        self.down_after = silence;
        self
    }

    /// Lets a failover begin after half a second of silence.
    pub fn impatient(self) -> Self {
        self.down_after(Duration::from_millis(500))
    }

    /// The time after which Sentinels try a failover again. Default: three seconds.
    pub fn failover_timeout(mut self, limit: Duration) -> Self {
        self.failover_timeout = limit;
        self
    }

    /// Puts [links](crate::Links) between all servers and Sentinels. The servers are called
    /// `redis-0` and so on. The Sentinels are called `sentinel-0` and so on.
    pub fn links(mut self) -> Self {
        self.linked = true;
        self
    }

    /// The name of the service, by which Sentinels know the primary. Default: `mymaster`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Gives the Sentinels certificates of a second authority. Sentinels and servers trust both
    /// authorities.
    pub fn own_authority(mut self) -> Self {
        self.own_authority = true;
        self
    }

    /// How many Sentinels must consider the master down. Default: more than half.
    pub fn quorum(mut self, sentinels: usize) -> Self {
        self.quorum = Some(sentinels);
        self
    }

    /// The number of replicas of the master. Default: two.
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// Settings of every Sentinel. If the servers use TLS, these settings must also use TLS, or
    /// `start` panics. If only these settings use TLS, TLS secures only the connections of clients
    /// to the Sentinels.
    pub fn sentinel_options(mut self, options: Options) -> Self {
        self.sentinel_options = options;
        self
    }

    /// The number of Sentinels. Default: three.
    pub fn sentinels(mut self, count: usize) -> Self {
        self.sentinels = count;
        self
    }

    /// Settings of the master and every replica.
    pub fn server_options(mut self, options: Options) -> Self {
        self.server_options = options;
        self
    }
}

/// Even on a busy machine, a healthy server is never silent for this long.
const NEVER_ON_A_WHIM: Duration = Duration::from_secs(5);
