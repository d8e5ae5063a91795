//! The settings of a process: the flags of `leasehold.interop.Main` and of `rust_peer`.

use std::path::PathBuf;
use std::time::Duration;

/// How to start a [`Java`](crate::Java) or a [`Rust`](crate::Rust).
///
/// All other settings are the defaults of Redisson or Leasehold. A process that does not know a
/// setting does not start.
#[derive(Clone, Debug)]
pub struct Setup {
    redisson: Redisson,
    flags: Vec<(&'static str, String)>,
}

/// The version of Redisson.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Redisson {
    /// 3.29, the last version before renewals were sent in batches.
    V3,
    /// 4.7, the version with which Leasehold is compatible.
    V4,
}

/// The protocol between Redisson and Redis.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Protocol {
    /// RESP2, the default of Redisson.
    Resp2,
    /// RESP3. With it, messages and replies share a connection.
    Resp3,
}

impl Setup {
    /// Returns settings with Redisson 4, for the server at `url`, such as `redis://127.0.0.1:6379`,
    /// for the sentinels of `redis-sentinel://…/mymaster`, or for the cluster of
    /// `redis-cluster://…`.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { redisson: Redisson::V4, flags: vec![("url", url.into())] }
    }

    /// Sets the version of Redisson. Default: [`Redisson::V4`].
    #[must_use]
    pub fn redisson(mut self, redisson: Redisson) -> Self {
        self.redisson = redisson;
        self
    }

    /// Sets `lockWatchdogTimeout`: the lease of a lock that is acquired without an explicit lease.
    /// Default: 30 s.
    ///
    /// Redisson renews after each third of this time.
    #[must_use]
    pub fn watchdog(self, lease: Duration) -> Self {
        self.flag("watchdog-ms", lease.as_millis())
    }

    /// Sets the number of the database. Default: 0.
    #[must_use]
    pub fn database(self, number: u32) -> Self {
        self.flag("database", number)
    }

    /// Sets the user. Default: no user name.
    #[must_use]
    pub fn credentials(self, user: &str, password: &str) -> Self {
        self.flag("user", user).flag("password", password)
    }

    /// Sets the protocol. Default: [`Protocol::Resp2`].
    #[must_use]
    pub fn protocol(self, protocol: Protocol) -> Self {
        let name = match protocol {
            Protocol::Resp2 => "RESP2",
            Protocol::Resp3 => "RESP3",
        };
        self.flag("protocol", name)
    }

    /// Sets whether scripts are called by their hash (`useScriptCache`). Default: yes in Redisson
    /// 4, no in Redisson 3.
    #[must_use]
    pub fn script_cache(self, on: bool) -> Self {
        self.flag("script-cache", on)
    }

    /// Sets the codec by the name of its class. Default: Kryo 5.
    #[must_use]
    pub fn codec(self, class: &str) -> Self {
        self.flag("codec", class)
    }

    /// Installs a `NameMapper` that adds `prefix` to every name.
    ///
    /// The counter of [`Contenders`](crate::Contenders) **also** gets this prefix.
    #[must_use]
    pub fn name_prefix(self, prefix: &str) -> Self {
        self.flag("name-prefix", prefix)
    }

    /// Sets how long Redisson waits for a reply. Default: 3 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.flag("timeout-ms", timeout.as_millis())
    }

    /// Sets how often Redisson repeats a command. Default: 4 in Redisson 4, 3 in Redisson 3.
    #[must_use]
    pub fn retry_attempts(self, attempts: u32) -> Self {
        self.flag("retry-attempts", attempts)
    }

    /// Sets the server that has the counter of [`Contenders`](crate::Contenders). Default: the
    /// server of the lock.
    #[must_use]
    pub fn counts_on(self, url: impl Into<String>) -> Self {
        self.flag("counter-url", url.into())
    }

    /// Sets how many replicas must acknowledge a grant. **Rust only**: Redisson waits for all
    /// replicas that it knows, but needs only one acknowledgement.
    #[must_use]
    pub fn replicas(self, count: u32) -> Self {
        self.flag("replicas", count)
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        self.flags.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]).collect()
    }

    /// The folder with the jars of one Redisson, which `build.sh` creates.
    pub(crate) fn jars(&self) -> PathBuf {
        let peer = match self.redisson {
            Redisson::V3 => "redisson-3",
            Redisson::V4 => "redisson-4",
        };
        [env!("CARGO_MANIFEST_DIR"), "java", "target", peer, "run"].iter().collect()
    }

    fn flag(mut self, name: &'static str, value: impl ToString) -> Self {
        self.flags.push((name, value.to_string()));
        self
    }
}
