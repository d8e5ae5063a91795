//! The semaphore, for threads.

use std::{sync::Arc, time::Duration};

use super::waiting::Core;
use crate::{
    Holding, LostReason, Name, Owner, Ran, Release, Replicas,
    error::Result,
    primitives::{self, settings::replicated},
};

/// As [`Semaphore`](crate::Semaphore), for threads. A thread that acquires twice has more
/// permits, by two guards, which may move to other threads.
///
/// # Examples
///
/// ```
/// let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
/// printers.set_if_absent(3)?;
/// let two = printers.acquire(2)?;
/// assert!(printers.try_acquire(2)?.is_none());
/// two.release()?.done()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    core: Arc<Core>,
    semaphore: primitives::Semaphore,
}

impl Semaphore {
    pub(super) fn new(core: Arc<Core>, semaphore: primitives::Semaphore) -> Self {
        Self { core, semaphore }
    }

    replicated!("leasehold::blocking::Client", "semaphore", |this, replicas| {
        let semaphore = this.semaphore.replicated(replicas);
        Self { semaphore, ..this }
    });

    fn guard(&self, guard: primitives::SemaphoreGuard) -> SemaphoreGuard {
        SemaphoreGuard { guard, core: Arc::clone(&self.core) }
    }

    /// As [`Semaphore::name`](crate::Semaphore::name).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// assert_eq!(printers.name().as_str(), "printers");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.semaphore.name()
    }

    /// As [`Semaphore::acquire`](crate::Semaphore::acquire).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// let guard = printers.acquire(1)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire(&self, permits: u32) -> Result<SemaphoreGuard> {
        Ok(self.guard(self.core.wait(self.semaphore.acquire(permits))??))
    }

    /// As [`Semaphore::run`](crate::Semaphore::run): the work cannot be stopped from outside.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// assert_eq!(printers.run(2, |_held| 6 * 7)?, 42);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(&self, permits: u32, work: impl FnOnce(&Holding) -> T) -> Result<T> {
        self.acquire(permits)?.run(work).done()
    }

    /// As [`Semaphore::acquire_within`](crate::Semaphore::acquire_within).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// use std::time::Duration;
    /// let guard = printers.acquire_within(1, Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_within(&self, permits: u32, patience: Duration) -> Result<SemaphoreGuard> {
        let acquired = self.semaphore.acquire_within(permits, patience);
        Ok(self.guard(self.core.wait(acquired)??))
    }

    /// As [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// assert!(printers.try_acquire(4)?.is_none());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire(&self, permits: u32) -> Result<Option<SemaphoreGuard>> {
        let guard = self.core.wait(self.semaphore.try_acquire(permits))??;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// As [`Semaphore::set_if_absent`](crate::Semaphore::set_if_absent).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// assert!(!printers.set_if_absent(20)?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn set_if_absent(&self, permits: u32) -> Result<bool> {
        self.core.wait(self.semaphore.set_if_absent(permits))?
    }

    /// As [`Semaphore::add`](crate::Semaphore::add).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// assert_eq!(printers.add(-5)?, -2);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn add(&self, permits: i64) -> Result<i64> {
        self.core.wait(self.semaphore.add(permits))?
    }

    /// As [`Semaphore::drain`](crate::Semaphore::drain).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// assert_eq!(printers.drain()?, 3);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn drain(&self) -> Result<u64> {
        self.core.wait(self.semaphore.drain())?
    }

    /// As [`Semaphore::available`](crate::Semaphore::available).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// assert_eq!(printers.available()?, 3);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn available(&self) -> Result<i64> {
        self.core.wait(self.semaphore.available())?
    }

    /// As [`Semaphore::delete`](crate::Semaphore::delete).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// assert!(printers.delete()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn delete(&self) -> Result<bool> {
        self.core.wait(self.semaphore.delete())?
    }
}

/// As [`SemaphoreGuard`](crate::SemaphoreGuard), for threads.
///
/// # Examples
///
/// ```
/// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
/// # printers.set_if_absent(3)?;
/// let guard = printers.acquire(2)?;
/// assert_eq!(guard.release()?, leasehold::Release::Released);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the permits are given back as soon as the guard is dropped"]
pub struct SemaphoreGuard {
    // Dropped before the core: its release is the last thing to be made.
    guard: primitives::SemaphoreGuard,
    core: Arc<Core>,
}

impl SemaphoreGuard {
    /// As [`SemaphoreGuard::release`](crate::SemaphoreGuard::release).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// let guard = printers.acquire(2)?;
    /// guard.release()?.done()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn release(self) -> Result<Release> {
        let Self { guard, core } = self;
        core.wait(guard.release())?
    }

    /// As [`SemaphoreGuard::run`](crate::SemaphoreGuard::run): [`Ran::Stopped`] does not
    /// occur, since a thread cannot be stopped from outside.
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// let guard = printers.acquire(2)?;
    /// assert_eq!(guard.run(|_held| 6 * 7).done()?, 42);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(self, work: impl FnOnce(&Holding) -> T) -> Ran<T> {
        let Self { guard, core } = self;
        core.run(guard.holding(), work, guard.release_after_run())
    }

    /// As [`SemaphoreGuard::forget`](crate::SemaphoreGuard::forget).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// let guard = printers.acquire(2)?;
    /// guard.forget();
    /// assert_eq!(printers.available()?, 1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn forget(self) {
        self.guard.forget();
    }

    /// As [`SemaphoreGuard::permits`](crate::SemaphoreGuard::permits).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// let guard = printers.acquire(2)?;
    /// assert_eq!(guard.permits(), 2);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.guard.permits()
    }

    /// As [`SemaphoreGuard::lost`](crate::SemaphoreGuard::lost).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{LostReason, blocking::Client};
    /// # use std::time::Duration;
    /// # let client = Client::in_memory()?;
    /// # client.semaphore("printers")?.set_if_absent(3)?;
    /// let guard = client.semaphore("printers")?.acquire(2)?;
    /// client.shutdown(Duration::from_millis(10))?;
    /// assert_eq!(guard.lost()?, LostReason::ShutDown);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lost(&self) -> Result<LostReason> {
        self.core.wait(self.guard.lost())
    }

    /// As [`lost`](Self::lost), for no longer than `patience`.
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// use std::time::Duration;
    /// let guard = printers.acquire(2)?;
    /// assert_eq!(guard.lost_within(Duration::from_millis(20))?, None);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lost_within(&self, patience: Duration) -> Result<Option<LostReason>> {
        let lost = self.guard.lost();
        self.core.wait(async move { tokio::time::timeout(patience, lost).await.ok() })
    }

    /// As [`SemaphoreGuard::is_held`](crate::SemaphoreGuard::is_held).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// let guard = printers.acquire(2)?;
    /// assert!(guard.is_held());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// As [`SemaphoreGuard::owner`](crate::SemaphoreGuard::owner).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// let guard = printers.acquire(2)?;
    /// println!("{} has two", guard.owner());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.guard.owner()
    }

    /// As [`SemaphoreGuard::name`](crate::SemaphoreGuard::name).
    ///
    /// # Examples
    ///
    /// ```
    /// # let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// let guard = printers.acquire(2)?;
    /// assert_eq!(guard.name().as_str(), "printers");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.guard.name()
    }
}
