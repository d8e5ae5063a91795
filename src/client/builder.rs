//! The settings of a client. [`ClientBuilder`] sets them, and makes the client.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use super::{Client, DEFAULT_TTL};
#[cfg(feature = "testing")]
use crate::store::redis::memory::MemoryStore;
use crate::{
    domain::{ClientInfo, Identity, Replicas},
    engine::{Engine, clock::Clock, limits::Limits, tasks::here},
    error::Result,
    store::redis::{Credentials, RedisStore, Settings, Translation},
};

/// The settings of a [`Client`], or of a `blocking::Client` for threads.
///
/// # Examples
///
/// ```no_run
/// # async fn demo() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// let client = leasehold::Client::builder()
///     .ttl(Duration::from_secs(10))
///     .command_timeout(Duration::from_secs(1))
///     .credentials("billing", "secret")
///     .connect("rediss://redis.internal/")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it makes a client"]
pub struct ClientBuilder<Made = Client> {
    ttl: Duration,
    replicas: Option<Replicas>,
    limits: Limits,
    info: Option<(String, String)>,
    redis: Settings,
    made: PhantomData<fn() -> Made>,
}

impl<Made> ClientBuilder<Made> {
    pub(crate) fn new() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            replicas: None,
            limits: Limits::default(),
            info: None,
            redis: Settings::default(),
            made: PhantomData,
        }
    }

    /// Sets the [`ttl`](crate::Lock::ttl) of each lock without its own setting. Default: 30 s, like
    /// Redisson's `lockWatchdogTimeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let client = leasehold::Client::builder().ttl(Duration::from_secs(10)).in_memory();
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets how many replicas must acknowledge a grant. A lock or a semaphore can set another
    /// number. Default: no replicas. See [`Lock::replicated`](crate::Lock::replicated).
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Client, Replicas};
    /// let client = Client::builder().replicated(Replicas::at_least(1)).in_memory();
    /// ```
    pub fn replicated(mut self, replicas: impl Into<Option<Replicas>>) -> Self {
        self.replicas = replicas.into();
        self
    }

    /// Sets the timeout of calls that do not wait. Default: 3 s.
    ///
    /// Such calls are [`try_acquire`](crate::Lock::try_acquire), [`try_run`](crate::Lock::try_run)
    /// until the work begins, [`holder`](crate::Lock::holder) and similar reads,
    /// [`force_release`](crate::Lock::force_release), and [`reenter`](crate::LockGuard::reenter).
    /// Within this time, the client retries the request if a retry can help. If the timeout is
    /// shorter than the command timeout, a call may time out while its connection stays open.
    ///
    /// A change of a semaphore or a latch is retried for at most 30 s, because the store recognizes
    /// a repeated change only for one minute.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// let store = leasehold::MemoryStore::new();
    /// let builder = leasehold::Client::builder().request_timeout(Duration::from_millis(200));
    /// let lock = builder.with_store(&store).lock("orders:42")?;
    /// store.stall();
    /// assert!(lock.try_acquire().await.unwrap_err().is_transient()); // after 200 ms
    /// # Ok(()) }
    /// ```
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.limits.request = Limits::sound(timeout);
        self
    }

    /// Sets how long [`LockGuard::release`](crate::LockGuard::release) waits for a reply. Default:
    /// 5 s. After that, the call returns an error, and the release continues in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let builder = leasehold::Client::builder().release_timeout(Duration::from_secs(1));
    /// ```
    pub fn release_timeout(mut self, timeout: Duration) -> Self {
        self.limits.release = Limits::sound(timeout);
        self
    }

    /// Sets how long [`Lock::run`](crate::Lock::run) waits for the release of its lock after the
    /// work. Default: 500 ms. The reply shows whether the lock was held until the end of the work.
    /// After this time, `run` returns the result without the reply, and the release continues in
    /// the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let builder = leasehold::Client::builder().run_release_wait(Duration::from_millis(50));
    /// ```
    pub fn run_release_wait(mut self, timeout: Duration) -> Self {
        self.limits.release_after_run = Limits::sound(timeout);
        self
    }

    /// Sets whether requests fail at once while the store is unreachable. Default: `false`.
    ///
    /// With `false`, a request waits for the connection until its timeout. With `true`, a request
    /// returns [`Error::Unavailable`](crate::Error::Unavailable) at once, with the reason. This
    /// applies to acquisitions, to reads such as [`holder`](crate::Lock::holder), and to writes of
    /// a guard. A task that already waits for a lock fails at its next request. In a cluster, only
    /// the node of the name must be reachable.
    ///
    /// The store counts as unreachable from the loss of a connection until the client has restored
    /// the connection. If a server hangs, the client closes the connection after the
    /// [`command_timeout`](Self::command_timeout), and the server is unreachable from this moment.
    /// This setting affects neither renewals nor releases of guards.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, Error, MemoryStore};
    /// let store = MemoryStore::new();
    /// let lock = Client::builder().fail_fast(true).with_store(&store).lock("orders:42")?;
    /// store.stall();
    /// // the first call fails after 3 s, when the client closes the connection; the next, at once
    /// assert!(matches!(lock.acquire().await, Err(Error::Unavailable { .. })));
    /// assert!(matches!(lock.acquire().await, Err(Error::Unavailable { .. })));
    /// # Ok(()) }
    /// ```
    pub fn fail_fast(mut self, on: bool) -> Self {
        self.limits.fail_fast = on;
        self
    }

    /// Publishes information about this client in Redis, for operators. Off by default.
    ///
    /// The client publishes the name and the version of the application, the host, the id of the
    /// process, and the names of its oldest 100 holds with their beginnings.
    ///
    /// [`Client::client_info`] and `leasehold show` read this information. Publishing delays no
    /// acquisition. While the client has a hold that is older than a second, a background task
    /// sends one `SET` every ten seconds. The key expires 30 s after the last `SET`. If the ACL
    /// denies the `SET`, the client logs a warning once, and publishes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = leasehold::Client::builder().application("orders", env!("CARGO_PKG_VERSION"));
    /// ```
    pub fn application(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.info = Some((name.into(), version.into()));
        self
    }

    /// Returns the same settings for an async client.
    #[cfg(feature = "blocking")]
    pub(crate) fn for_tasks(self) -> ClientBuilder {
        ClientBuilder {
            ttl: self.ttl,
            replicas: self.replicas,
            limits: self.limits,
            info: self.info,
            redis: self.redis,
            made: PhantomData,
        }
    }
}

/// Settings for Redis.
impl<Made> ClientBuilder<Made> {
    /// Sets the timeout of each connection attempt, including attempts after a lost connection.
    /// Default: 5 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = leasehold::Client::builder().connect_timeout(Duration::from_secs(1));
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.redis.connect_timeout = timeout;
        self
    }

    /// Sets how long a server may be silent before its connection is closed. Default: 3 s.
    ///
    /// If a request waits, and no reply to any request arrives for this time, the client closes the
    /// connection, at most a quarter of this time later. It also closes the connection if one
    /// request waits for twice this time while other requests get replies. The server may have
    /// executed the waiting requests. The client retries or withdraws them on the next connection.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = leasehold::Client::builder().command_timeout(Duration::from_secs(1));
    /// ```
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.redis.command_timeout = timeout;
        self
    }

    /// Sets the user and the password. They replace the user and the password in the URL.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = leasehold::Client::builder().credentials("billing", "secret");
    /// assert!(!format!("{builder:?}").contains("secret"));
    /// ```
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.redis.user = Some(user.into());
        self.redis.password = Some(password.into().into());
        self
    }

    /// Sets the password of the default user. It replaces the password in the URL.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = leasehold::Client::builder().password("secret");
    /// assert!(!format!("{builder:?}").contains("secret"));
    /// ```
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.redis.password = Some(password.into().into());
        self
    }

    /// Sets the user and the password for the sentinels. They replace the credentials in the URL.
    /// The client never sends the credentials of the Redis server to sentinels.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = leasehold::Client::builder().sentinel_credentials("eye", "secret");
    /// assert!(!format!("{builder:?}").contains("secret"));
    /// ```
    pub fn sentinel_credentials(
        mut self,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        let (user, password) = (Some(user.into()), Some(password.into().into()));
        self.redis.sentinel = Credentials { user, password };
        self
    }

    /// Sets the password of the default user of the sentinels. It replaces the password in the URL.
    /// Default: no password.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = leasehold::Client::builder().sentinel_password("secret");
    /// assert!(!format!("{builder:?}").contains("secret"));
    /// ```
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.redis.sentinel.password = Some(password.into().into());
        self
    }

    /// Translates the addresses that sentinels and cluster nodes announce.
    ///
    /// An address such as `10.0.0.7:6379` may be valid only inside the network of the servers. The
    /// function takes the announced `host:port`, and returns the `host:port` for this client, or
    /// `None` to use the announced address. The function also translates addresses in the URL of a
    /// cluster, but not those in other URLs. Tasks of the runtime call the function, so it must not
    /// block. If the server is unreachable, the client calls the function again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::HashMap;
    /// let table = HashMap::from([("10.0.0.7:6379".to_owned(), "redis.example:7001".to_owned())]);
    /// let builder = leasehold::Client::builder()
    ///     .translate_addresses(move |announced| table.get(announced).cloned());
    /// ```
    pub fn translate_addresses(
        mut self,
        translate: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.redis.translation = Translation::by(translate);
        self
    }

    /// Sets the number of the database. It replaces the database in the URL.
    ///
    /// Pub/sub ignores databases. If locks in two databases have the same name, a release of one
    /// lock also wakes the waiters of the other lock. These waiters then send a useless request.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = leasehold::Client::builder().database(3);
    /// ```
    pub fn database(mut self, number: u32) -> Self {
        self.redis.database = Some(number);
        self
    }

    /// Trusts only the certificate authorities in this PEM text, for URLs with TLS.
    ///
    /// The authorities of the system are then not trusted.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn demo() -> std::io::Result<()> {
    /// let builder = leasehold::Client::builder().ca_certificates(std::fs::read("ca.pem")?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn ca_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.redis.tls.authorities = Some(pem.into());
        self
    }

    /// Sets the certificate and the private key of this client, for servers that require a
    /// certificate. Both are PEM texts.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn demo() -> std::io::Result<()> {
    /// let (certificate, key) = (std::fs::read("client.crt")?, std::fs::read("client.key")?);
    /// let builder = leasehold::Client::builder().client_certificate(certificate, key);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.redis.tls.client = Some((certificate.into(), key.into().into()));
        self
    }

    /// Sets whether sentinels use TLS. By default, sentinels and servers use TLS if the URL begins
    /// with `rediss-sentinel://`.
    ///
    /// # Examples
    ///
    /// ```
    /// // for sentinels without TLS, and servers with TLS (rediss-sentinel://…)
    /// let builder = leasehold::Client::builder().sentinel_tls(false);
    /// ```
    #[cfg(feature = "tls")]
    pub fn sentinel_tls(mut self, spoken: bool) -> Self {
        self.redis.sentinels_speak_tls = Some(spoken);
        self
    }

    /// Trusts only the certificate authorities in this PEM text for sentinels. Default: the
    /// authorities for the servers, see [`ca_certificates`](Self::ca_certificates).
    ///
    /// If the sentinels do not use TLS, connecting returns
    /// [`Error::Connect`](crate::Error::Connect).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn demo() -> std::io::Result<()> {
    /// let builder = leasehold::Client::builder()
    ///     .ca_certificates(std::fs::read("ca-of-servers.pem")?)
    ///     .sentinel_ca_certificates(std::fs::read("ca-of-sentinels.pem")?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn sentinel_ca_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.redis.sentinel_tls.authorities = Some(pem.into());
        self
    }

    /// Sets the certificate and the private key of this client for sentinels. Both are PEM texts.
    /// Default: the certificate for the servers, see
    /// [`client_certificate`](Self::client_certificate).
    ///
    /// If the sentinels do not use TLS, connecting returns
    /// [`Error::Connect`](crate::Error::Connect).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn demo() -> std::io::Result<()> {
    /// let (certificate, key) = (std::fs::read("eye.crt")?, std::fs::read("eye.key")?);
    /// let builder = leasehold::Client::builder().sentinel_client_certificate(certificate, key);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn sentinel_client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.redis.sentinel_tls.client = Some((certificate.into(), key.into().into()));
        self
    }
}

/// Making a client.
impl ClientBuilder {
    /// Connects to Redis.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::connect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it has opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::builder().connect("redis://127.0.0.1/").await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(self, url: &str) -> Result<Client> {
        let identity = Identity::random();
        let store = RedisStore::connect(url, &self.redis, identity.client()).await?;
        Ok(self.client(identity, Arc::new(store)))
    }

    /// Makes a client that connects in the background: see [`Client::connect_lazy`].
    ///
    /// # Errors
    ///
    /// The errors of [`Client::connect_lazy`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::builder().connect_lazy("redis://127.0.0.1/")?;
    /// # Ok(()) }
    /// ```
    pub fn connect_lazy(self, url: &str) -> Result<Client> {
        let identity = Identity::random();
        let store = RedisStore::connect_lazy(url, &self.redis, identity.client())?;
        Ok(self.client(identity, Arc::new(store)))
    }

    /// Makes a client with its own store in this process.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::Client::builder().in_memory();
    /// ```
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn in_memory(self) -> Client {
        self.with_store(&MemoryStore::new())
    }

    /// Makes a client that uses `store`.
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// let client = leasehold::Client::builder().with_store(&store);
    /// ```
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_store(self, store: &MemoryStore) -> Client {
        let identity = Identity::random();
        let store = store.store(identity.client());
        self.client(identity, Arc::new(store))
    }

    pub(crate) fn client(self, identity: Identity, store: Arc<RedisStore>) -> Client {
        let info = self.info.map(|(application, version)| ClientInfo::of(application, version));
        let engine = Engine::within(self.limits, info, identity, store, Clock::new(), here());
        Client { engine, ttl: self.ttl, replicas: self.replicas }
    }
}
