//! The read-write lock, for threads.

use std::sync::Arc;

use super::{
    Lock,
    face::{returns, sets},
    waiting::Core,
};
use crate::{
    Name, Replicas,
    primitives::{self, settings::replicated},
};

/// A [`ReadWriteLock`](crate::ReadWriteLock) for threads.
///
/// Each side is **reentrant by thread**. A thread that holds the writers' side may also acquire the
/// readers' side. After it releases the writers' side, it still holds the readers' side. If a
/// thread that holds only the readers' side tries to acquire the writers' side, the call returns
/// [`Error::UpgradeNotSupported`](crate::Error::UpgradeNotSupported), because the thread would wait
/// for itself.
///
/// # Examples
///
/// ```
/// let prices = leasehold::blocking::Client::in_memory()?.read_write_lock("prices")?;
/// let writing = prices.write().acquire()?;
/// let reading = prices.read().acquire()?; // the same thread
/// writing.release()?.into_result()?;
/// assert!(matches!(prices.write().acquire(), Err(leasehold::Error::UpgradeNotSupported { .. })));
/// reading.release()?.into_result()?;
/// assert!(prices.write().acquire().is_ok());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    core: Arc<Core>,
    inner: primitives::ReadWriteLock,
}

impl ReadWriteLock {
    pub(super) fn new(core: Arc<Core>, inner: primitives::ReadWriteLock) -> Self {
        Self { core, inner }
    }

    replicated!("leasehold::blocking::Client", "read_write_lock", |this, replicas| {
        let inner = this.inner.replicated(replicas);
        Self { inner, ..this }
    });

    sets! { ReadWriteLock, "let prices = client.read_write_lock(\"prices\")?;":
        fn prefer_writers(prefers_writers: bool); "let prices = prices.prefer_writers(false);"
    }

    returns! { ReadWriteLock, "let prices = client.read_write_lock(\"prices\")?;":
        fn name() -> &Name; "assert_eq!(prices.name().as_str(), \"prices\");"
    }

    /// Returns the readers' side, which many readers can hold at the same time.
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = leasehold::blocking::Client::in_memory()?.read_write_lock("prices")?;
    /// let reading = prices.read().acquire()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn read(&self) -> Lock {
        Lock::new(Arc::clone(&self.core), self.inner.read())
    }

    /// Returns the writers' side, which one writer can hold while no reader holds the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = leasehold::blocking::Client::in_memory()?.read_write_lock("prices")?;
    /// let writing = prices.write().acquire()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn write(&self) -> Lock {
        Lock::new(Arc::clone(&self.core), self.inner.write())
    }
}
