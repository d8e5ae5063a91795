//! The way in, for threads.

use std::{sync::Arc, time::Duration};

use super::{FencedLock, Latch, Lock, Permits, ReadWriteLock, Semaphore, waiting::Core};
#[cfg(feature = "testing")]
use crate::MemoryStore;
use crate::{Health, Shutdown, Stats, error::Result};

/// Settings of a [`Client`] for threads: those of
/// [`ClientBuilder`](crate::ClientBuilder).
pub type ClientBuilder = crate::ClientBuilder<Client>;

/// As [`Client`](crate::Client), for threads.
///
/// # Examples
///
/// ```
/// let client = leasehold::blocking::Client::in_memory()?;
/// let guard = client.lock("orders:42")?.acquire()?;
/// guard.release()?.done()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    core: Arc<Core>,
}

impl Client {
    /// As [`Client::connect`](crate::Client::connect).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
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

    /// As [`Client::connect_lazily`](crate::Client::connect_lazily).
    ///
    /// # Errors
    ///
    /// As there, and as [`in_memory`](Self::in_memory).
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::connect_lazily("redis://redis.invalid/")?;
    /// assert!(!client.health()?.is_ready());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn connect_lazily(url: &str) -> Result<Self> {
        Self::builder().connect_lazily(url)
    }

    /// As [`Client::in_memory`](crate::Client::in_memory), on real time: a paused clock
    /// of tokio does not reach it.
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync), and
    /// [`Error::NoRuntime`](crate::Error::NoRuntime) if the system gives no thread.
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

    /// As [`Client::sharing`](crate::Client::sharing).
    ///
    /// # Errors
    ///
    /// As [`in_memory`](Self::in_memory).
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// let client = leasehold::blocking::Client::sharing(&store)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "testing")]
    pub fn sharing(store: &MemoryStore) -> Result<Self> {
        Self::builder().sharing(store)
    }

    /// As [`Client::builder`](crate::Client::builder).
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

    /// As [`Client::lock`](crate::Client::lock).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lock(&self, name: impl AsRef<str>) -> Result<Lock> {
        Ok(Lock::new(Arc::clone(&self.core), self.core.client().lock(name)?))
    }

    /// As [`Client::read_write`](crate::Client::read_write).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = leasehold::blocking::Client::in_memory()?.read_write("prices")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn read_write(&self, name: impl AsRef<str>) -> Result<ReadWriteLock> {
        let lock = self.core.client().read_write(name)?;
        Ok(ReadWriteLock::new(Arc::clone(&self.core), lock))
    }

    /// As [`Client::fenced`](crate::Client::fenced).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn fenced(&self, name: impl AsRef<str>) -> Result<FencedLock> {
        Ok(FencedLock::new(self.lock(name)?))
    }

    /// The semaphore called `name`, for threads. Touches no network.
    ///
    /// # Errors
    ///
    /// As [`Client::semaphore`](crate::Client::semaphore).
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let printers = client.semaphore("printers")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>) -> Result<Semaphore> {
        Ok(Semaphore::new(Arc::clone(&self.core), self.core.client().semaphore(name)?))
    }

    /// The latch called `name`, for threads. Touches no network.
    ///
    /// # Errors
    ///
    /// As [`Client::latch`](crate::Client::latch).
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let ready = client.latch("workers-ready")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn latch(&self, name: impl AsRef<str>) -> Result<Latch> {
        Ok(Latch::new(Arc::clone(&self.core), self.core.client().latch(name)?))
    }

    /// As [`Client::permits`](crate::Client::permits).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// let permits = leasehold::blocking::Client::in_memory()?.permits("printers")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn permits(&self, name: impl AsRef<str>) -> Result<Permits> {
        Ok(Permits::new(Arc::clone(&self.core), self.core.client().permits(name)?))
    }

    /// As [`Client::id`](crate::Client::id).
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

    /// As [`Client::stats`](crate::Client::stats).
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

    /// As [`Client::health`](crate::Client::health).
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

    /// As [`Client::shutdown`](crate::Client::shutdown).
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
    /// assert_eq!(client.shutdown(Duration::from_secs(5))?.unsettled, 0);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn shutdown(&self, patience: Duration) -> Result<Shutdown> {
        self.core.wait(self.core.client().shutdown(patience))
    }
}

/// Making a client for threads.
impl crate::ClientBuilder<Client> {
    /// As [`ClientBuilder::connect`](crate::ClientBuilder::connect).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
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

    /// As [`ClientBuilder::connect_lazily`](crate::ClientBuilder::connect_lazily).
    ///
    /// # Errors
    ///
    /// As [`Client::connect_lazily`].
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::builder().connect_lazily("redis://127.0.0.1/")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn connect_lazily(self, url: &str) -> Result<Client> {
        Ok(Client { core: Core::start(async || self.for_tasks().connect_lazily(url))? })
    }

    /// As [`ClientBuilder::in_memory`](crate::ClientBuilder::in_memory).
    ///
    /// # Errors
    ///
    /// As [`Client::in_memory`].
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::builder().in_memory()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "testing")]
    pub fn in_memory(self) -> Result<Client> {
        self.sharing(&MemoryStore::new())
    }

    /// As [`ClientBuilder::sharing`](crate::ClientBuilder::sharing).
    ///
    /// # Errors
    ///
    /// As [`Client::in_memory`].
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// let client = leasehold::blocking::Client::builder().sharing(&store)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "testing")]
    pub fn sharing(self, store: &MemoryStore) -> Result<Client> {
        Ok(Client { core: Core::start(async || Ok(self.for_tasks().sharing(store)))? })
    }
}
