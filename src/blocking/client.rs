//! The client, for threads.

use std::{sync::Arc, time::Duration};

use super::{
    Barrier, DoubleBarrier, Election, ExpirableSemaphore, FencedLock, Latch, Lock, Map, MultiLock,
    Queue, RateLimiter, ReadWriteLock, Semaphore, Set, Throttle, waiting::Core,
};
#[cfg(feature = "testing")]
use crate::MemoryStore;
use crate::{Health, Pace, Shutdown, Stats, error::Result, primitives::thread_example};

/// The settings of a [`Client`] for threads: see [`ClientBuilder`](crate::ClientBuilder).
pub type ClientBuilder = crate::ClientBuilder<Client>;

/// A [`Client`](crate::Client) for threads.
///
/// # Examples
///
/// ```
/// let client = leasehold::blocking::Client::in_memory()?;
/// let guard = client.lock("orders:42")?.acquire()?;
/// guard.release()?.into_result()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    core: Arc<Core>,
}

/// Writes the methods by which a client creates its objects.
macro_rules! makes {
    ($(fn $name:ident() -> $object:ident;)+) => {$(
        #[doc = concat!("Does what [`Client::", stringify!($name), "`](crate::Client::",
            stringify!($name), ") does.")]
        ///
        /// # Errors
        ///
        /// The errors of the async method.
        #[doc = thread_example!("":
            concat!("let it = client.", stringify!($name), "(\"orders:42\")?;"))]
        pub fn $name(&self, name: impl AsRef<str>) -> Result<$object> {
            Ok($object::new(Arc::clone(&self.core), self.core.client().$name(name)?))
        }
    )+};
}

impl Client {
    pub(super) fn with_core(core: Arc<Core>) -> Self {
        Self { core }
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Does what [`Client::connect`](crate::Client::connect) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let client = leasehold::blocking::Client::connect("redis://127.0.0.1/")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn connect(url: &str) -> Result<Self> {
        Self::builder().connect(url)
    }

    /// Does what [`Client::connect_lazy`](crate::Client::connect_lazy) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and the errors of [`in_memory`](Self::in_memory).
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::connect_lazy("redis://redis.invalid/")?;
    /// assert!(!client.health()?.is_ready());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn connect_lazy(url: &str) -> Result<Self> {
        Self::builder().connect_lazy(url)
    }

    /// Does what [`Client::in_memory`](crate::Client::in_memory) does, but always in real time.
    ///
    /// A paused clock of tokio has no effect on this client.
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync), and
    /// [`Error::NoRuntime`](crate::Error::NoRuntime) if the system cannot start a thread.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "testing")]
    pub fn in_memory() -> Result<Self> {
        Self::builder().in_memory()
    }

    /// Does what [`Client::with_store`](crate::Client::with_store) does.
    ///
    /// # Errors
    ///
    /// As for [`in_memory`](Self::in_memory).
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// let client = leasehold::blocking::Client::with_store(&store)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "testing")]
    pub fn with_store(store: &MemoryStore) -> Result<Self> {
        Self::builder().with_store(store)
    }

    /// Does what [`Client::builder`](crate::Client::builder) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::blocking::Client;
    /// let client = Client::builder().ttl(Duration::from_secs(10)).in_memory()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    makes! {
        fn lock() -> Lock;
        fn fair_lock() -> Lock;
        fn read_write_lock() -> ReadWriteLock;
        fn fenced_lock() -> FencedLock;
        fn election() -> Election;
        fn semaphore() -> Semaphore;
        fn latch() -> Latch;
        fn expirable_semaphore() -> ExpirableSemaphore;
        fn rate_limiter() -> RateLimiter;
    }

    /// Does what [`Client::multi_lock`](crate::Client::multi_lock) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let both = client.multi_lock(["account:1", "account:2"])?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn multi_lock(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<MultiLock> {
        let members: Result<Vec<_>> = names.into_iter().map(|name| self.lock(name)).collect();
        MultiLock::new(members?)
    }

    /// Does what [`Client::barrier`](crate::Client::barrier) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
    ///
    /// # Examples
    ///
    /// ```
    /// let barrier = leasehold::blocking::Client::in_memory()?.barrier("phase", 3)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn barrier(&self, name: impl AsRef<str>, parties: u32) -> Result<Barrier> {
        Ok(Barrier::new(Arc::clone(&self.core), self.core.client().barrier(name, parties)?))
    }

    /// Does what [`Client::map`](crate::Client::map) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let orders = client.map::<String, u32>("orders")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn map<K, V>(&self, name: impl AsRef<str>) -> Result<Map<K, V>> {
        Ok(Map::new(Arc::clone(&self.core), self.core.client().map(name)?))
    }

    /// Does what [`Client::set`](crate::Client::set) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let seen = client.set::<String>("seen")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn set<T>(&self, name: impl AsRef<str>) -> Result<Set<T>> {
        Ok(Set::new(Arc::clone(&self.core), self.core.client().set(name)?))
    }

    /// Does what [`Client::queue`](crate::Client::queue) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
    ///
    /// # Examples
    ///
    /// ```
    /// let jobs = leasehold::blocking::Client::in_memory()?.queue::<String>("jobs")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn queue<T>(&self, name: impl AsRef<str>) -> Result<Queue<T>> {
        Ok(Queue::new(Arc::clone(&self.core), self.core.client().queue(name)?))
    }

    /// Does what [`Client::double_barrier`](crate::Client::double_barrier) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
    ///
    /// # Examples
    ///
    /// ```
    /// let barrier = leasehold::blocking::Client::in_memory()?.double_barrier("phase", 3)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn double_barrier(&self, name: impl AsRef<str>, parties: u32) -> Result<DoubleBarrier> {
        let barrier = self.core.client().double_barrier(name, parties)?;
        Ok(DoubleBarrier::new(Arc::clone(&self.core), barrier))
    }

    /// Does what [`Client::throttle`](crate::Client::throttle) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
    ///
    /// # Examples
    ///
    /// ```
    /// let pace = leasehold::Pace::per(10, std::time::Duration::from_secs(1));
    /// let user = leasehold::blocking::Client::in_memory()?.throttle("user:7", pace)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn throttle(&self, name: impl AsRef<str>, pace: Pace) -> Result<Throttle> {
        Ok(Throttle::new(Arc::clone(&self.core), self.core.client().throttle(name, pace)?))
    }

    /// Returns the UUID of this client, the prefix of the [owners](crate::Owner) of its holds.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::blocking::Client::in_memory()?.id().len(), 36);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> &str {
        self.core.client().id()
    }

    /// Returns what [`Client::stats`](crate::Client::stats) returns.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::blocking::Client::in_memory()?.stats().held, 0);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.client().stats()
    }

    /// Does what [`Client::health`](crate::Client::health) does.
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(leasehold::blocking::Client::in_memory()?.health()?.is_ready());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn health(&self) -> Result<Health> {
        self.core.wait(self.core.client().health())
    }

    /// Does what [`Client::shutdown`](crate::Client::shutdown) does.
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// assert_eq!(client.shutdown(Duration::from_secs(5))?.pending, 0);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn shutdown(&self, timeout: Duration) -> Result<Shutdown> {
        self.core.wait(self.core.client().shutdown(timeout))
    }
}

/// Methods that create a client for threads.
impl crate::ClientBuilder<Client> {
    /// Does what [`ClientBuilder::connect`](crate::ClientBuilder::connect) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let client = leasehold::blocking::Client::builder().connect("redis://127.0.0.1/")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn connect(self, url: &str) -> Result<Client> {
        Ok(Client { core: Core::start(async || self.for_tasks().connect(url).await)? })
    }

    /// Does what [`ClientBuilder::connect_lazy`](crate::ClientBuilder::connect_lazy) does.
    ///
    /// # Errors
    ///
    /// As for [`Client::connect_lazy`].
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::builder().connect_lazy("redis://127.0.0.1/")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn connect_lazy(self, url: &str) -> Result<Client> {
        Ok(Client { core: Core::start(async || self.for_tasks().connect_lazy(url))? })
    }

    /// Does what [`ClientBuilder::in_memory`](crate::ClientBuilder::in_memory) does.
    ///
    /// # Errors
    ///
    /// As for [`Client::in_memory`].
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::builder().in_memory()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "testing")]
    pub fn in_memory(self) -> Result<Client> {
        self.with_store(&MemoryStore::new())
    }

    /// Does what [`ClientBuilder::with_store`](crate::ClientBuilder::with_store) does.
    ///
    /// # Errors
    ///
    /// As for [`Client::in_memory`].
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// let client = leasehold::blocking::Client::builder().with_store(&store)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "testing")]
    pub fn with_store(self, store: &MemoryStore) -> Result<Client> {
        Ok(Client { core: Core::start(async || Ok(self.for_tasks().with_store(store)))? })
    }
}
