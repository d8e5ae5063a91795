//! The async client, whose methods return all other objects.

mod builder;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

pub use self::builder::ClientBuilder;
#[cfg(feature = "testing")]
use crate::store::redis::memory::MemoryStore;
use crate::{
    domain::{
        ClientInfo, ForcedRelease, Health, Inspection, Kind, Name, NameCursor, Object, Owner, Pace,
        Replicas, ServerReport, Stats,
    },
    engine::Engine,
    error::Result,
    primitives::{
        Barrier, DoubleBarrier, Election, ExpirableSemaphore, FencedLock, Latch, Lock, Map,
        MultiLock, Queue, RateLimiter, ReadWriteLock, Semaphore, Set, Throttle, keyed::Keyed,
    },
    store::{inspect, report},
};

/// The default *ttl*, which is also the default of Redisson's `lockWatchdogTimeout`.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// A client of the store in which the locks are kept. The client renews its holds in the
/// background.
///
/// Make one client per process and clone it, because clones share everything. Each client has an
/// id, which is the prefix of the [owners](Owner) of its holds.
///
/// # Examples
///
/// ```no_run
/// # async fn demo() -> Result<(), leasehold::Error> {
/// let client = leasehold::Client::connect("redis://127.0.0.1/").await?;
/// let guard = client.lock("orders:42")?.acquire().await?;
/// guard.release().await?.into_result()?;
/// # Ok(()) }
/// ```
///
/// For tests, a client can have a store in memory instead of a server:
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// let client = leasehold::Client::in_memory();
/// let guard = client.lock("orders:42")?.acquire().await?;
/// guard.release().await?.into_result()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    engine: Arc<Engine>,
    ttl: Duration,
    replicas: Option<Replicas>,
}

impl Client {
    /// Connects to Redis with default settings.
    ///
    /// The URL of a server is `redis://[user[:password]@]host[:port][/database]`, or `rediss://…`
    /// with TLS, or `unix:///path/to/socket[?db=…&user=…&pass=…]`. The URL of a cluster names some
    /// of its nodes: `redis-cluster://[user[:password]@]host[:port],host[:port]`, or
    /// `rediss-cluster://…` with TLS.
    ///
    /// If a primary has replicas and there are no sentinels, list all addresses:
    /// `redis://host1,host2`. If sentinels watch the primary, use
    /// `redis-sentinel://[user[:password]@]sentinel1[:port],sentinel2/master[/database]`, or
    /// `rediss-sentinel://…` with TLS. See [the guide](crate::docs::guide::deployments).
    ///
    /// # Errors
    ///
    /// [`Error::Url`](crate::Error::Url) if the URL is invalid.
    /// [`Error::Connect`](crate::Error::Connect) if the client could not connect within the connect
    /// timeout. Both errors name the cause.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it has opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::connect("redis://127.0.0.1:6379/0").await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder().connect(url).await
    }

    /// Makes a client that connects in the background, with default settings.
    ///
    /// The call returns at once, even if Redis is unreachable. Until there is a connection,
    /// `acquire` waits. A call that does not wait, such as `try_acquire`, fails after its timeout
    /// with the reason. The client tries to connect as long as it lives, even with a wrong password
    /// or address. It logs the cause at WARN, and [`health`](Self::health) returns the cause.
    ///
    /// On a tokio runtime, the client starts to connect at once. Outside of a runtime, it starts
    /// with its first call on a runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Url`](crate::Error::Url) if the URL is invalid,
    /// [`Error::Duration`](crate::Error::Duration) if a timeout is invalid, and
    /// [`Error::Connect`](crate::Error::Connect) if a TLS certificate is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::connect_lazy("redis://redis.invalid/")?;
    /// assert!(!client.health().await.is_ready());
    /// # Ok(()) }
    /// ```
    pub fn connect_lazy(url: &str) -> Result<Self> {
        Self::builder().connect_lazy(url)
    }

    /// Makes a client with its own store in this process.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::Client::in_memory();
    /// ```
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().in_memory()
    }

    /// Makes a client that uses `store`. Several clients can share one store, as they would share
    /// a server.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, MemoryStore};
    /// let store = MemoryStore::new();
    /// let (one, other) = (Client::with_store(&store), Client::with_store(&store));
    /// let guard = one.lock("door")?.acquire().await?;
    /// assert!(other.lock("door")?.try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_store(store: &MemoryStore) -> Self {
        Self::builder().with_store(store)
    }

    /// Returns a builder for a client with other settings.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let client = leasehold::Client::builder().ttl(Duration::from_secs(10)).in_memory();
    /// ```
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    /// Returns the lock `name`. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let lock = client.lock("orders:42")?;
    /// # Ok(()) }
    /// ```
    pub fn lock(&self, name: impl AsRef<str>) -> Result<Lock> {
        let object = Object::new(Kind::Lock, Name::new(name)?);
        Ok(Lock::new(Arc::clone(&self.engine), object, self.ttl).replicated(self.replicas))
    }

    /// Returns the fair lock `name`, Redisson's `RFairLock`. Sends no request.
    ///
    /// All waiting tasks of all processes acquire the lock in the order in which they came. A fair
    /// lock needs more requests than [`lock`](Self::lock). [The
    /// guide][crate::docs::guide::other_locks] says when to use which of the two locks.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let tickets = client.fair_lock("tickets")?;
    /// let guard = tickets.acquire().await?;
    /// guard.release().await?.into_result()?;
    /// # Ok(()) }
    /// ```
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Result<Lock> {
        let object = Object::new(Kind::Fair, Name::new(name)?);
        Ok(Lock::new(Arc::clone(&self.engine), object, self.ttl).replicated(self.replicas))
    }

    /// Returns the read-write lock `name`. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let prices = client.read_write_lock("prices")?;
    /// # Ok(()) }
    /// ```
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> Result<ReadWriteLock> {
        let lock = ReadWriteLock::new(Arc::clone(&self.engine), Name::new(name)?, self.ttl);
        Ok(lock.replicated(self.replicas))
    }

    /// Returns the fenced lock `name`, whose holds have tokens. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let lock = client.fenced_lock("orders:42")?;
    /// # Ok(()) }
    /// ```
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> Result<FencedLock> {
        Ok(self.lock(name)?.with_tokens())
    }

    /// Returns the multi-lock of the locks `names`. Sends no request.
    ///
    /// Use [`MultiLock::new`] for members with settings, and for members of other kinds, such as
    /// fair locks.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if a name is invalid, and
    /// [`Error::NoMembers`](crate::Error::NoMembers) if there are no names.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let both = client.multi_lock(["account:1", "account:2"])?;
    /// # Ok(()) }
    /// ```
    pub fn multi_lock(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<MultiLock> {
        let members: Result<Vec<_>> = names.into_iter().map(|name| self.lock(name)).collect();
        MultiLock::new(members?)
    }

    /// Returns the election `name`. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let election = client.election("scheduler")?;
    /// # Ok(()) }
    /// ```
    pub fn election(&self, name: impl AsRef<str>) -> Result<Election> {
        let election = Election::new(Arc::clone(&self.engine), Name::new(name)?, self.ttl);
        Ok(election.replicated(self.replicas))
    }

    /// Returns the semaphore `name`. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let printers = client.semaphore("printers")?;
    /// # Ok(()) }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>) -> Result<Semaphore> {
        let object = Object::new(Kind::Semaphore, Name::new(name)?);
        Ok(Semaphore::new(Arc::clone(&self.engine), object).replicated(self.replicas))
    }

    /// Returns the latch `name`. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let ready = client.latch("workers-ready")?;
    /// # Ok(()) }
    /// ```
    pub fn latch(&self, name: impl AsRef<str>) -> Result<Latch> {
        let object = Object::new(Kind::Latch, Name::new(name)?);
        Ok(Latch::new(Arc::clone(&self.engine), object))
    }

    /// Returns the barrier `name` for `parties` members. Sends no request.
    ///
    /// **All members must use the same number**, because the store does not check it. If a new
    /// version of a program uses another number, give the barrier a new name.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid, and
    /// [`Error::ZeroCount`](crate::Error::ZeroCount) if `parties` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let barrier = client.barrier("phase", 3)?;
    /// # Ok(()) }
    /// ```
    pub fn barrier(&self, name: impl AsRef<str>, parties: u32) -> Result<Barrier> {
        Barrier::new(Arc::clone(&self.engine), Kind::Barrier, Name::new(name)?, parties)
    }

    /// Returns the double barrier `name` for `parties` members. Sends no request.
    ///
    /// # Errors
    ///
    /// The errors of [`barrier`](Self::barrier).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let phase = client.double_barrier("phase", 3)?;
    /// # Ok(()) }
    /// ```
    pub fn double_barrier(&self, name: impl AsRef<str>, parties: u32) -> Result<DoubleBarrier> {
        DoubleBarrier::new(Arc::clone(&self.engine), Name::new(name)?, parties, self.ttl)
    }

    /// Returns the expirable semaphore `name`. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let permits = client.expirable_semaphore("printers")?;
    /// # Ok(()) }
    /// ```
    pub fn expirable_semaphore(&self, name: impl AsRef<str>) -> Result<ExpirableSemaphore> {
        let object = Object::new(Kind::Permits, Name::new(name)?);
        Ok(ExpirableSemaphore::new(Arc::clone(&self.engine), object, self.ttl)
            .replicated(self.replicas))
    }

    /// Returns the queue `name`, whose elements of type `T` are texts in Redis. Sends no request.
    ///
    /// [`Queue::codec`] sets another codec.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let jobs = client.queue::<String>("jobs")?;
    /// # Ok(()) }
    /// ```
    pub fn queue<T>(&self, name: impl AsRef<str>) -> Result<Queue<T>> {
        let object = Object::new(Kind::Queue, Name::new(name)?);
        Ok(Queue::new(Arc::clone(&self.engine), object, self.ttl).replicated(self.replicas))
    }

    /// Returns the rate limiter `name`. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let api = client.rate_limiter("api")?;
    /// # Ok(()) }
    /// ```
    pub fn rate_limiter(&self, name: impl AsRef<str>) -> Result<RateLimiter> {
        Ok(RateLimiter::new(Arc::clone(&self.engine), Name::new(name)?))
    }

    /// Returns the throttle `name` with this pace. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid,
    /// [`Error::ZeroCount`](crate::Error::ZeroCount) for a burst of 0, and
    /// [`Error::Duration`](crate::Error::Duration) if Redis cannot keep the pace.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// let pace = leasehold::Pace::per(10, Duration::from_secs(1)).burst(20);
    /// let user = client.throttle("user:7", pace)?;
    /// # Ok(()) }
    /// ```
    pub fn throttle(&self, name: impl AsRef<str>, pace: Pace) -> Result<Throttle> {
        Throttle::new(Arc::clone(&self.engine), Name::new(name)?, pace)
    }

    /// Returns the map `name`, whose keys and values are texts in Redis. Sends no request.
    ///
    /// [`Map::codecs`] sets other codecs.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let orders = client.map::<String, u32>("orders")?;
    /// # Ok(()) }
    /// ```
    pub fn map<K, V>(&self, name: impl AsRef<str>) -> Result<Map<K, V>> {
        Ok(Map::new(self.keyed(name)?))
    }

    /// Returns the set `name`, whose elements are texts in Redis. Sends no request.
    ///
    /// [`Set::codec`] sets another codec.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let seen = client.set::<String>("seen")?;
    /// # Ok(()) }
    /// ```
    pub fn set<T>(&self, name: impl AsRef<str>) -> Result<Set<T>> {
        Ok(Set::new(self.keyed(name)?))
    }

    fn keyed(&self, name: impl AsRef<str>) -> Result<Keyed> {
        Ok(Keyed::new(Arc::clone(&self.engine), Name::new(name)?, self.ttl, self.replicas))
    }

    /// Returns the UUID of this client, the prefix of the [owners](crate::Owner) of its holds.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::Client::in_memory().id().len(), 36);
    /// ```
    #[must_use]
    pub fn id(&self) -> &str {
        self.engine.identity.client()
    }

    /// Returns the counters of this client and its clones.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::Client::in_memory().stats().held, 0);
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Checks whether this client can acquire locks now, for a readiness probe.
    ///
    /// The check returns within 300 ms, even if servers are dead or frozen. It sends one request to
    /// each server and waits at most 200 ms for the replies. It does not wait until a lost
    /// connection is restored. [`Health::nodes`] lists each server. For an unreachable server, the
    /// list has the reason. A client of a cluster is ready as long as some node grants locks.
    ///
    /// If each round trip to the servers takes longer than 200 ms, the client is never reported as
    /// ready, even if its locks work. In this case, acquire a lock as the probe.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() {
    /// let health = leasehold::Client::in_memory().health().await;
    /// match health.unavailable_reason {
    ///     None => println!("ready: the server replies in {:?}", health.round_trip),
    ///     Some(reason) => eprintln!("not ready: {reason}"),
    /// }
    /// # }
    /// ```
    pub async fn health(&self) -> Health {
        self.engine.health().await
    }

    /// Reads what Redis has stored about the object `name`.
    ///
    /// The object may be of any kind, and Redisson may use the object. Returns `None` if no key of
    /// this name looks like an object. The method is for operators. It sends more than ten
    /// commands, all of which only read. [The guide](crate::docs::guide::command_inspect) lists the
    /// permissions for these commands. `MemoryStore` rejects them.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid, and the errors of the store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let found = client.inspect("orders:42").await?;
    /// for holder in found.iter().flat_map(|it| &it.holders) {
    ///     println!("held by {holder}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Option<Inspection>> {
        let name = Name::new(name)?;
        self.engine.ask(&name, |store| inspect::inspect(store, &name)).await
    }

    /// Reads what each server reports about itself, for operators.
    ///
    /// The call sends `INFO`, `CLUSTER INFO`, `ACL WHOAMI`, `CONFIG GET` and `CLIENT LIST`. In a
    /// cluster, only the primaries get these commands. If a server rejects a command, its report
    /// lists the rejection in [`failures`](ServerReport::failures). If a server does not reply
    /// within a second, its report has only failures.
    ///
    /// # Errors
    ///
    /// [`Error::ShutDown`](crate::Error::ShutDown) after a shutdown, and
    /// [`Error::NoRuntime`](crate::Error::NoRuntime) outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// for report in client.server_reports().await? {
    ///     println!("{}: {:?}", report.server, report.settings.get("appendonly"));
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn server_reports(&self) -> Result<Vec<ServerReport>> {
        let every = Name::new("*")?;
        self.engine.ask(&every, async |store| Ok(report::reports(store).await)).await
    }

    /// Asks each server whether `user` may call `command`, by `ACL DRYRUN` of Redis 7.
    ///
    /// Returns the reply of each server, by its address: `OK`, the reason of a denial, or an error.
    /// The servers do not execute `command`. The user of this client needs the permission
    /// `acl|dryrun`.
    ///
    /// # Errors
    ///
    /// The errors of [`server_reports`](Self::server_reports).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// for (server, reply) in client.dry_run("billing", &["PTTL", "orders:42"]).await? {
    ///     println!("{server}: {reply}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn dry_run(&self, user: &str, command: &[&str]) -> Result<BTreeMap<String, String>> {
        let every = Name::new("*")?;
        self.engine.ask(&every, async |store| Ok(report::dry_run(store, user, command).await)).await
    }

    /// Returns what the client of `owner` has published about itself.
    ///
    /// The call sends one request. It returns `None` for a client that publishes nothing, such as a
    /// Redisson client. It also returns `None` if all holds of the client are younger than a
    /// second: see [`ClientBuilder::application`].
    ///
    /// # Errors
    ///
    /// The errors of the store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// let lock = client.lock("nightly close")?;
    /// if let Err(leasehold::Error::TimedOut { holder: Some(holder), .. }) =
    ///     lock.acquire_within(Duration::from_secs(5)).await
    /// {
    ///     match client.client_info(holder.owner()).await? {
    ///         Some(info) => println!("{info} holds it since {:?}", info.held_since("nightly close")),
    ///         None => println!("{holder} holds it"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn client_info(&self, owner: &Owner) -> Result<Option<ClientInfo>> {
        self.engine.client_info(owner).await
    }

    /// Returns the last 100 releases by force of all locks together, the newest first.
    ///
    /// [`Lock::force_release_owner`], `leasehold unlock --force`, `leasehold top`, and
    /// `leasehold ui` record such releases. In a cluster, one node has all records.
    ///
    /// # Errors
    ///
    /// The errors of the store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// for forced in client.forced_releases().await? {
    ///     println!("{}: `{}` was released by {}", forced.time(), forced.name, forced.by);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn forced_releases(&self) -> Result<Vec<ForcedRelease>> {
        self.engine.forced_releases().await
    }

    /// Lists, in sorted order, the names of keys that match `pattern` and may be objects.
    ///
    /// The pattern is that of Redis's `SCAN`, such as `orders:*`. Some names may be keys of other
    /// programs, for which [`inspect`](Self::inspect) returns `None`. The list contains every name
    /// that existed during the whole call. In a cluster, the call searches all primaries.
    /// `MemoryStore` rejects the call.
    ///
    /// # Errors
    ///
    /// The errors of the store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// for name in client.names("orders:*").await? {
    ///     println!("{name}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn names(&self, pattern: impl AsRef<str>) -> Result<BTreeSet<Name>> {
        let (mut names, mut cursor) = (BTreeSet::new(), NameCursor::default());
        while !cursor.is_done() {
            names.extend(self.next_names(&pattern, &mut cursor).await?);
        }
        Ok(names)
    }

    /// Returns the next page of [`names`](Self::names), and moves the cursor to the following page.
    ///
    /// The call sends one `SCAN`, which reads about 250 keys. So a program can list the names of a
    /// large server without memory for all names, and without keeping the server busy. A page may
    /// be empty, and a name may be on several pages. In a cluster, the cursor passes through one
    /// primary after the other.
    ///
    /// # Errors
    ///
    /// The errors of [`names`](Self::names). After an error, the cursor is where it was.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind. The cursor stays where it was.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let mut cursor = leasehold::NameCursor::default();
    /// while !cursor.is_done() {
    ///     for name in client.next_names("orders:*", &mut cursor).await? {
    ///         println!("{name}");
    ///     }
    ///     tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next_names(
        &self,
        pattern: impl AsRef<str>,
        cursor: &mut NameCursor,
    ) -> Result<Vec<Name>> {
        let (every, pattern) = (Name::new("*")?, pattern.as_ref());
        let Some((server, at)) = cursor.next else { return Ok(vec![]) };
        let search = |store| inspect::search(store, server, at, pattern);
        let found = self.engine.ask(&every, search).await?;
        let (names, next) = match found {
            Some(found) => {
                (found.names, Some(found.next.map_or((server + 1, 0), |at| (server, at))))
            }
            None => (vec![], None),
        };
        cursor.next = next;
        Ok(names)
    }

    /// Shuts this client and its clones down, within `timeout`.
    ///
    /// From this call on, no call acquires anything. Calls that wait return
    /// [`Error::ShutDown`](crate::Error::ShutDown) at once. During the first half of the time, the
    /// program can still release its guards. After that, the client ends the remaining holds as
    /// lost, with [`LostReason::ShutDown`](crate::LostReason::ShutDown), and releases them. The
    /// shutdown also waits for requests in flight. If a lock cannot be released in time, it stays
    /// held until its lease ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends only the wait. The client still acquires nothing, but the remaining
    /// guards keep their holds. A second call of `shutdown` ends these holds.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// let client = leasehold::Client::in_memory();
    /// let guard = client.lock("orders:42")?.acquire().await?;
    /// let shutdown = client.shutdown(Duration::from_secs(5)).await;
    /// assert_eq!((shutdown.revoked, shutdown.pending), (1, 0));
    /// assert!(!guard.is_held());
    /// # Ok(()) }
    /// ```
    pub async fn shutdown(&self, timeout: Duration) -> Shutdown {
        let (revoked, pending) = self.engine.shut_down(timeout).await;
        Shutdown { revoked, pending }
    }

    #[cfg(test)]
    pub(crate) fn asking(store: Arc<crate::store::redis::RedisStore>) -> Self {
        Self::builder().client(crate::domain::Identity::random(), store)
    }

    /// Makes a client that uses the engine of a simulation.
    #[cfg(test)]
    pub(crate) fn of(engine: Arc<Engine>) -> Self {
        Self { engine, ttl: DEFAULT_TTL, replicas: None }
    }

    /// Starts the background tasks on the runtime of the caller, unless they already run.
    #[cfg(feature = "blocking")]
    pub(crate) fn start_background(&self) -> Result<()> {
        self.engine.ready()
    }

    /// Waits until all background releases are completed.
    #[cfg(feature = "blocking")]
    pub(crate) async fn releases_completed(&self) {
        self.engine.releases_completed().await;
    }
}

/// The result of a shutdown.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() {
/// use std::time::Duration;
/// let shutdown = leasehold::Client::in_memory().shutdown(Duration::from_secs(5)).await;
/// if shutdown.pending > 0 {
///     eprintln!("{} locks end by their leases", shutdown.pending);
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Shutdown {
    /// The number of holds that the shutdown revoked.
    pub revoked: usize,
    /// The number of releases that the store did not confirm, plus the number of requests that may
    /// have been granted and were not withdrawn. The locks of these releases and requests stay held
    /// until their leases end.
    pub pending: usize,
}
