//! The multi-lock, for threads.

use std::time::Duration;

use super::{
    Lock,
    face::{acquires, guards, holds, loses, returns},
    waiting::Cores,
};
use crate::{
    LockContext, LostReason, MultiContext, MultiRelease, Name, RunOutcome, error::Result,
    primitives,
};

/// A [`MultiLock`](crate::MultiLock) for threads.
///
/// A multi-lock is **not reentrant**: if a thread acquires the multi-lock while it holds a member,
/// the thread waits for itself. The guard can move to another thread.
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
    core: Cores,
}

impl MultiLock {
    /// Does what [`MultiLock::new`](crate::MultiLock::new) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
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
        let (cores, inner): (Vec<_>, Vec<_>) =
            members.into_iter().map(|member| member.into().into_parts()).unzip();
        Ok(Self { inner: primitives::MultiLock::new(inner)?, core: Cores::of(cores) })
    }

    acquires!(MultiLock, MultiGuard, MultiContext, multi);
}

guards!(MultiGuard, multi);

impl MultiGuard {
    holds!(MultiGuard, MultiContext, multi);

    /// Blocks until [`MultiGuard::release`](crate::MultiGuard::release) returns, and returns its
    /// result.
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync) if a task of an async runtime calls this
    /// method. In this case, a background task releases the members.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = leasehold::blocking::Client::in_memory()?;
    /// client.multi_lock(["from", "to"])?.acquire()?.release()?.into_result()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn release(self) -> Result<MultiRelease> {
        let Self { inner, core } = self;
        core.first().wait(inner.release())
    }

    loses! { MultiGuard, "let short = client.lock(\"from\")?.lease(Duration::from_millis(50));":
        fn lost() -> (Name, LostReason);
            "let both = leasehold::blocking::MultiLock::new([short])?;"
            "let (name, reason) = both.acquire()?.lost()?;"
            "assert_eq!((name.as_str(), reason), (\"from\", leasehold::LostReason::Expired));"
    }

    returns! { MultiGuard, multi:
        fn members() -> &[LockContext]; "assert_eq!(lock.acquire()?.members().len(), 2);"
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
