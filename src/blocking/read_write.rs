//! The read-write lock, for threads.

use std::sync::Arc;

use super::{Lock, waiting::Core};
use crate::{
    Name, Replicas,
    primitives::{self, settings::replicated},
};

/// As [`ReadWriteLock`](crate::ReadWriteLock), for threads.
///
/// Each side is **reentrant by thread**. A thread that writes may acquire the lock to read as
/// well, and goes on reading when it gives up writing. One that reads and wants to write is
/// refused with [`Error::Upgrade`](crate::Error::Upgrade): it would wait for itself.
///
/// # Examples
///
/// ```
/// let prices = leasehold::blocking::Client::in_memory()?.read_write("prices")?;
/// let writing = prices.write().acquire()?;
/// let reading = prices.read().acquire()?; // the same thread
/// writing.release()?.done()?;
/// assert!(matches!(prices.write().acquire(), Err(leasehold::Error::Upgrade { .. })));
/// reading.release()?.done()?;
/// assert!(prices.write().acquire().is_ok());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    core: Arc<Core>,
    lock: primitives::ReadWriteLock,
}

impl ReadWriteLock {
    pub(super) fn new(core: Arc<Core>, lock: primitives::ReadWriteLock) -> Self {
        Self { core, lock }
    }

    replicated!("leasehold::blocking::Client", "read_write", |this, replicas| {
        let lock = this.lock.replicated(replicas);
        Self { lock, ..this }
    });

    /// As [`ReadWriteLock::prefer_writers`](crate::ReadWriteLock::prefer_writers).
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let prices = client.read_write("prices")?.prefer_writers(false);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn prefer_writers(self, prefers_writers: bool) -> Self {
        Self { lock: self.lock.prefer_writers(prefers_writers), ..self }
    }

    /// As [`ReadWriteLock::name`](crate::ReadWriteLock::name).
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = leasehold::blocking::Client::in_memory()?.read_write("prices")?;
    /// assert_eq!(prices.name().as_str(), "prices");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.lock.name()
    }

    /// As [`ReadWriteLock::read`](crate::ReadWriteLock::read).
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = leasehold::blocking::Client::in_memory()?.read_write("prices")?;
    /// let reading = prices.read().acquire()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn read(&self) -> Lock {
        Lock::new(Arc::clone(&self.core), self.lock.read())
    }

    /// As [`ReadWriteLock::write`](crate::ReadWriteLock::write).
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = leasehold::blocking::Client::in_memory()?.read_write("prices")?;
    /// let writing = prices.write().acquire()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn write(&self) -> Lock {
        Lock::new(Arc::clone(&self.core), self.lock.write())
    }
}
