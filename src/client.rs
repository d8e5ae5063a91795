//! The client.

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

/// The default of Redisson's `lockWatchdogTimeout`.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// A client of the store that keeps the locks. It renews its holds in the background.
///
/// Make one per process and clone it: clones share everything. Each client has an id, with which
/// the owners of its holds begin.
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
/// Without a server, for tests and programs that need none:
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
    /// `redis://[user[:password]@]host[:port][/database]`; `rediss://` for TLS;
    /// `unix:///path/to/socket[?db=…&user=…&pass=…]`; for a cluster, by some of its nodes,
    /// `redis-cluster://[user[:password]@]host[:port],host[:port]`, `rediss-cluster://` for TLS.
    ///
    /// Separate the addresses of a primary and its replicas by commas: `redis://host1,host2`. To
    /// ask sentinels for the primary, use
    /// `redis-sentinel://[user[:password]@]sentinel1[:port],sentinel2/master[/database]`, or
    /// `rediss-sentinel://` for TLS. See [the guide](crate::docs::guide::deployments).
    ///
    /// # Errors
    ///
    /// [`Error::Url`](crate::Error::Url) if the URL is invalid.
    /// [`Error::Connect`](crate::Error::Connect) if no connection was made within the connect
    /// timeout. Both name the cause.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
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
    /// It returns at once, even if Redis is unreachable. Until there is a connection, `acquire`
    /// waits, and a call that does not wait fails after its timeout with the reason. The client
    /// retries as long as it lives, even with a wrong password or address. It logs the cause at
    /// WARN, and [`health`](Self::health) returns it.
    ///
    /// On a tokio runtime it starts to connect at once, otherwise with the first call on a runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Url`](crate::Error::Url) if the URL is invalid,
    /// [`Error::Duration`](crate::Error::Duration) if a timeout is, and
    /// [`Error::Connect`](crate::Error::Connect) if a TLS certificate is.
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

    /// Makes a client of `store`, which other clients may share.
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
    /// All waiting tasks of all processes acquire it in the order in which they came, at the cost of
    /// more requests than those of [`lock`](Self::lock): [the guide][crate::docs::guide] says when
    /// to prefer which.
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

    /// Returns the lock `name` whose holds have tokens. Sends no request.
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
    /// [`MultiLock::new`] makes one of other members, and of members with settings.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if a name is invalid, and
    /// [`Error::NoMembers`](crate::Error::NoMembers) if there is none.
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

    /// Returns the barrier `name` for this number of members. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid, and
    /// [`Error::ZeroCount`](crate::Error::ZeroCount) for no members.
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

    /// Returns the double barrier `name` for this number of members. Sends no request.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier).
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

    /// Returns the queue `name`, with elements of type `T` as text. Sends no request.
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

    /// Returns the UUID of this client. The ids of its owners begin with it.
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

    /// Returns counters of this client's work.
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

    /// Checks how this client and its servers are right now, for a readiness probe.
    ///
    /// The check returns within 300 ms, even if servers are dead or frozen. It sends one request to
    /// each server, waits at most 200 ms for the replies, and does not wait for a lost connection.
    /// [`Health::nodes`] lists each server, the unreachable ones with the reason. A client of a
    /// cluster is ready as long as some node takes locks. If the round trip to a server is longer
    /// than 200 ms, it is never reported ready, even if its locks work: acquire a lock as the probe
    /// instead.
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
    /// match health.obstacle {
    ///     None => println!("ready: the server answers in {:?}", health.round_trip),
    ///     Some(obstacle) => eprintln!("not ready: {obstacle}"),
    /// }
    /// # }
    /// ```
    pub async fn health(&self) -> Health {
        self.engine.health().await
    }

    /// Reads what Redis has about the object `name`, of any kind, also of Redisson.
    ///
    /// Returns `None` if no key of this name looks like an object. It is for operators, and sends
    /// more than ten commands, all of which only read. [The guide](crate::docs::guide::command) has the
    /// permissions. `MemoryStore` rejects it.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the name is invalid, and those of the store.
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
    /// On a cluster, these are the primaries. It sends `INFO`, `CLUSTER INFO`, `ACL WHOAMI`,
    /// `CONFIG GET` and `CLIENT LIST`. A rejected command is one of the
    /// [failures](ServerReport::failures). A server that does not reply within a second has only
    /// these.
    ///
    /// # Errors
    ///
    /// [`Error::ShutDown`](crate::Error::ShutDown), and
    /// [`Error::NoRuntime`](crate::Error::NoRuntime) outside of tokio.
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
    /// Returns the reply of each server: `OK`, the reason of a denial, or the error. It executes
    /// nothing. This client needs the permission `acl|dryrun`.
    ///
    /// # Errors
    ///
    /// As [`server_reports`](Self::server_reports).
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
    /// It sends one request. `None` for a client that publishes nothing, such as a Redisson client, or
    /// whose holds are younger than a second: see [`ClientBuilder::application`].
    ///
    /// # Errors
    ///
    /// Those of the store.
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

    /// Returns the last releases by force of all locks, at most 100, the last one first.
    ///
    /// [`Lock::force_release_owner`], `leasehold unlock --force`, `top` and `ui` record them. In a
    /// cluster, one node has the records of all.
    ///
    /// # Errors
    ///
    /// Those of the store.
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

    /// Lists the names of keys that match `pattern` and may be objects, in order.
    ///
    /// The pattern is that of Redis's `SCAN`, such as `orders:*`. Keys of other programs are among
    /// the names: [`inspect`](Self::inspect) returns `None` for them. Every name that existed during
    /// the whole call is in the list. In a cluster, all primaries are asked. `MemoryStore` rejects
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::Name`](crate::Error::Name) if the pattern is not the text of a name, and those of
    /// the store.
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

    /// Returns some of the names of [`names`](Self::names), and moves the cursor to the next ones.
    ///
    /// It sends one `SCAN`, which reads about 250 keys, so a program that shows a large server needs
    /// neither memory for all names nor all of the server's time. A page may be empty, and a name
    /// may be on several pages. On a cluster, the cursor passes through one primary after the other.
    ///
    /// # Errors
    ///
    /// Those of [`names`](Self::names). The cursor stays where it was.
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
        let pattern = Name::new(pattern)?;
        let Some((server, at)) = cursor.next else { return Ok(vec![]) };
        let search = |store| inspect::search(store, server, at, pattern.as_str());
        let found = self.engine.ask(&pattern, search).await?;
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
    /// Nothing new is acquired: waiting calls return [`Error::ShutDown`](crate::Error::ShutDown) at
    /// once. Guards may be released during the first half of the time. Then the remaining holds are
    /// lost with [`LostReason::ShutDown`](crate::LostReason::ShutDown), and are released. The
    /// shutdown also waits for requests in flight. A lock that cannot be released in time ends with
    /// its lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait. Nothing new is acquired, but remaining guards keep their
    /// holds. Another shutdown ends them.
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

    /// Returns a client of `store`.
    #[cfg(test)]
    pub(crate) fn asking(store: Arc<crate::store::redis::RedisStore>) -> Self {
        Self::builder().client(crate::domain::Identity::random(), store)
    }

    /// Returns a client of an engine that a simulation has made.
    #[cfg(test)]
    pub(crate) fn of(engine: Arc<Engine>) -> Self {
        Self { engine, ttl: DEFAULT_TTL, replicas: None }
    }

    /// Starts the background tasks on the runtime of the caller, if they do not run.
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
    /// The number of releases without a confirmation, and of requests that may have been granted
    /// and were not withdrawn. These locks end with their leases.
    pub pending: usize,
}
