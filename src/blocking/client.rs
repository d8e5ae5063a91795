//! The way in, for threads.

use std::{sync::Arc, time::Duration};

use super::{Lock, waiting::Core};
use crate::{ClientBuilder, MemoryStore, Shutdown, Stats, error::Result};

/// As [`Client`](crate::Client), for threads.
///
/// # Examples
///
/// ```
/// let client = leasehold::blocking::Client::in_memory()?;
/// let guard = client.lock("orders:42")?.acquire()?;
/// guard.release()?;
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
    #[cfg(feature = "redis")]
    pub fn connect(url: &str) -> Result<Self> {
        Self::connect_with(crate::Client::builder(), url)
    }

    /// As [`ClientBuilder::connect`].
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// let settings = leasehold::Client::builder().ttl(Duration::from_secs(10));
    /// let client = leasehold::blocking::Client::connect_with(settings, "redis://127.0.0.1/")?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "redis")]
    pub fn connect_with(settings: ClientBuilder, url: &str) -> Result<Self> {
        Ok(Self { core: Core::start(async || settings.connect(url).await)? })
    }

    /// As [`Client::in_memory`](crate::Client::in_memory).
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
    pub fn in_memory() -> Result<Self> {
        Self::sharing(&MemoryStore::new())
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
    pub fn sharing(store: &MemoryStore) -> Result<Self> {
        Self::sharing_with(crate::Client::builder(), store)
    }

    /// As [`ClientBuilder::sharing`].
    ///
    /// # Errors
    ///
    /// As [`in_memory`](Self::in_memory).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let settings = leasehold::Client::builder().ttl(Duration::from_secs(10));
    /// let store = leasehold::MemoryStore::new();
    /// let client = leasehold::blocking::Client::sharing_with(settings, &store)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn sharing_with(settings: ClientBuilder, store: &MemoryStore) -> Result<Self> {
        Ok(Self { core: Core::start(async || Ok(settings.sharing(store)))? })
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
