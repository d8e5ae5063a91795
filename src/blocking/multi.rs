//! The multi-lock, for threads.

use std::{future::Future, sync::Arc, time::Duration};

use super::{Lock, face::returns, waiting::Core};
use crate::{
    LockContext, LostReason, MultiContext, MultiRelease, Name, RunOutcome,
    error::Result,
    primitives::{self, settings::checked_timeout},
};

/// A [`MultiLock`](crate::MultiLock) for threads.
///
/// It is **not reentrant**: a thread that already holds a member waits for itself. Its guard may
/// move to another thread.
///
/// # Examples
///
/// ```
/// let client = leasehold::blocking::Client::in_memory()?;
/// let both = client.multi_lock(["from", "to"])?;
/// let guard = both.acquire()?;
/// assert!(client.lock("to")?.try_acquire()?.is_none());
/// guard.release()?.into_result()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock {
    inner: primitives::MultiLock,
    cores: Vec<Arc<Core>>,
}

impl MultiLock {
    /// Does what [`MultiLock::new`](crate::MultiLock::new) does.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::blocking::{Client, Lock, MultiLock};
    /// let client = Client::in_memory()?;
    /// let stock = client.read_write_lock("stock")?;
    /// let order = client.fenced_lock("orders:42")?;
    /// let all = MultiLock::new([stock.read(), Lock::from(order)])?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn new(members: impl IntoIterator<Item = impl Into<Lock>>) -> Result<Self> {
        let (mut cores, inner): (Vec<_>, Vec<_>) =
            members.into_iter().map(|member| member.into().into_parts()).unzip();
        cores.sort_by_key(Arc::as_ptr);
        cores.dedup_by_key(|core| Arc::as_ptr(core));
        Ok(Self { inner: primitives::MultiLock::new(inner)?, cores })
    }

    /// Blocks for [`MultiLock::acquire`](crate::MultiLock::acquire).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let guard = client.multi_lock(["from", "to"])?.acquire()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire(&self) -> Result<MultiGuard> {
        Ok(self.guard(self.wait(self.inner.acquire())?))
    }

    /// Blocks for [`MultiLock::acquire_within`](crate::MultiLock::acquire_within).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let guard = client.multi_lock(["from", "to"])?.acquire_within(Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_within(&self, timeout: Duration) -> Result<MultiGuard> {
        let timeout = checked_timeout(timeout)?;
        Ok(self.guard(self.wait(self.inner.acquire_in_time(timeout))?))
    }

    /// Blocks for [`MultiLock::try_acquire`](crate::MultiLock::try_acquire).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// assert!(client.multi_lock(["from", "to"])?.try_acquire()?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        Ok(self.wait(self.inner.try_acquire())?.map(|guard| self.guard(guard)))
    }

    /// Does what [`MultiLock::run`](crate::MultiLock::run) does, but cannot stop the work.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Error::Lost`](crate::Error::Lost) if a member was lost
    /// meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let both = client.multi_lock(["from", "to"])?;
    /// assert_eq!(both.run(|held| held.check().map(|()| 6 * 7))??, 42);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(&self, work: impl FnOnce(&MultiContext) -> T) -> Result<T> {
        self.acquire()?.run(work).into_result()
    }

    /// Waits for `future` on the runtime of the first client. The background of each client runs
    /// on its own runtime, which may live longer.
    fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        for core in &self.cores {
            core.wait(async { core.client().start_background() })??;
        }
        self.cores[0].wait(future)?
    }

    fn guard(&self, inner: primitives::MultiGuard) -> MultiGuard {
        MultiGuard { inner, cores: self.cores.clone() }
    }
}

/// A [`MultiGuard`](crate::MultiGuard) for threads.
///
/// # Examples
///
/// ```
/// let client = leasehold::blocking::Client::in_memory()?;
/// let guard = client.multi_lock(["from", "to"])?.acquire()?;
/// std::thread::spawn(move || guard.release()).join().unwrap()?.into_result()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the members are released as soon as the guard is dropped"]
pub struct MultiGuard {
    // Dropped before the cores, so that its releases are in flight when the runtimes end.
    inner: primitives::MultiGuard,
    cores: Vec<Arc<Core>>,
}

impl MultiGuard {
    /// Blocks for [`MultiGuard::release`](crate::MultiGuard::release).
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync) if a task calls it; then a background task
    /// releases the members.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// client.multi_lock(["from", "to"])?.acquire()?.release()?.into_result()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn release(self) -> Result<MultiRelease> {
        let Self { inner, cores } = self;
        cores[0].wait(inner.release())
    }

    /// Does what [`MultiGuard::run`](crate::MultiGuard::run) does, but cannot stop the work.
    ///
    /// It never returns [`RunOutcome::Cancelled`].
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let guard = client.multi_lock(["from", "to"])?.acquire()?;
    /// assert!(guard.run(|held| held.is_held()).into_result()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(self, work: impl FnOnce(&MultiContext) -> T) -> RunOutcome<T> {
        let Self { inner, cores } = self;
        let context = inner.context().clone();
        cores[0].run(&context, work, inner.release_after_run())
    }

    /// Blocks for [`MultiGuard::lost`](crate::MultiGuard::lost).
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync) if a task calls it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::blocking::{Client, MultiLock};
    /// let short = Client::in_memory()?.lock("from")?.lease(Duration::from_millis(50));
    /// let (name, reason) = MultiLock::new([short])?.acquire()?.lost()?;
    /// assert_eq!((name.as_str(), reason), ("from", leasehold::LostReason::Expired));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lost(&self) -> Result<(Name, LostReason)> {
        self.cores[0].wait(self.inner.lost())
    }

    returns! { MultiGuard, "let guard = client.multi_lock([\"from\", \"to\"])?.acquire()?;":
        fn is_held() -> bool; "assert!(guard.is_held());"
        fn remaining() -> Option<Duration>;
            "assert!(guard.remaining().is_some_and(|left| left.as_secs() >= 28));"
        fn members() -> &[LockContext]; "assert_eq!(guard.members().len(), 2);"
    }

    /// Returns what [`MultiGuard::member`](crate::MultiGuard::member) returns.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// let guard = client.multi_lock(["from", "to"])?.acquire()?;
    /// assert!(guard.member("to").is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&LockContext> {
        self.inner.member(name)
    }
}
