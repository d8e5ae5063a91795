//! The lock, for threads.

use std::{sync::Arc, time::Duration};

use super::{
    Guard, ThisThread,
    face::{returns, waits},
    reentry::{Key, ThreadHold},
    waiting::Core,
};
use crate::{
    Fenced, Holder, LockContext, Name, Owner, Replicas, WaitStrategy,
    engine::{acquire::ReentryTimeout, grant::LocalHandoff},
    error::{Error, Result},
    primitives::{
        self,
        settings::{Settings, checked_timeout, settings},
    },
};

/// A [`Lock`](crate::Lock) for threads.
///
/// This lock is **reentrant by thread**: a thread that holds the lock may acquire it again, with
/// [`acquire`](Self::acquire), [`acquire_within`](Self::acquire_within) and
/// [`try_acquire`](Self::try_acquire). The second acquisition does not change settings of the hold,
/// such as the lease.
///
/// # Examples
///
/// ```
/// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
/// let guard = lock.acquire()?;
/// let other = std::thread::spawn(move || lock.try_acquire().map(|guard| guard.is_some()));
/// assert!(!other.join().unwrap()?);
/// guard.release()?.into_result()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lock<K = ()> {
    core: Arc<Core>,
    inner: primitives::Lock<K>,
}

/// A [`FencedLock`](crate::FencedLock) for threads.
///
/// This lock is **reentrant by thread**, and the second guard has the same token as the first
/// guard. If the thread already holds a plain [`Lock`] of this name, this hold has no token. In
/// this case, an acquisition returns [`Error::NoToken`].
///
/// # Examples
///
/// ```
/// let lock = leasehold::blocking::Client::in_memory()?.fenced_lock("orders:42")?;
/// let first = lock.acquire()?;
/// let token = first.token();
/// assert_eq!(lock.acquire()?.token(), token);
/// first.release()?.into_result()?;
/// assert!(lock.acquire()?.token() > token);
/// # Ok::<(), leasehold::Error>(())
/// ```
pub type FencedLock = Lock<Fenced>;

/// The guard of a [`Lock`]. It cannot move to another thread.
pub type LockGuard = Guard<primitives::Lock, ThisThread>;

/// The guard of a [`Lock`]. It can move to another thread, so no thread can re-enter its hold by
/// acquiring the lock.
///
/// # Examples
///
/// ```
/// let client = leasehold::blocking::Client::in_memory()?;
/// let guard = client.lock("orders:42")?.acquire_owned()?;
/// std::thread::spawn(move || guard.release()).join().unwrap()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
pub type OwnedLockGuard = Guard<primitives::Lock>;

/// The guard of a [`FencedLock`]. It cannot move to another thread.
pub type FencedGuard = Guard<primitives::FencedLock, ThisThread>;

/// The guard of a [`FencedLock`]. It can move to another thread.
pub type OwnedFencedGuard = Guard<primitives::FencedLock>;

/// A guard of `Lock<K>` that cannot move to another thread.
type Bound<K> = Guard<primitives::Lock<K>, ThisThread>;

/// A guard of `Lock<K>` that can move to another thread.
type Owned<K> = Guard<primitives::Lock<K>>;

/// Settings. The async [`Lock`](crate::Lock) has these settings, too.
impl<K> Lock<K> {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Lock<K>) -> Self {
        Self { core, inner }
    }

    pub(super) fn into_parts(self) -> (Arc<Core>, primitives::Lock<K>) {
        (self.core, self.inner)
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        Self { inner: self.inner.with(change), ..self }
    }

    settings!("leasehold::blocking::Client", "lock");

    returns! { Lock, "let lock = client.lock(\"orders:42\")?;":
        fn name() -> &Name; "assert_eq!(lock.name().as_str(), \"orders:42\");"
    }
}

/// Methods that acquire the lock for the calling thread.
impl<K> Lock<K> {
    /// Acquires the lock, waiting until it is free, or re-enters it.
    ///
    /// If this thread already holds the lock, it re-enters the hold. Otherwise the method does what
    /// [`Lock::acquire`](crate::Lock::acquire) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`]. A fenced lock also returns
    /// [`Error::NoToken`].
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire(&self) -> Result<Guard<primitives::Lock<K>, ThisThread>> {
        match self.enter_again(ReentryTimeout::Endless)? {
            Some(guard) => Ok(guard),
            None => Ok(self.entered(self.core.wait(self.inner.acquire())??)),
        }
    }

    /// Acquires the lock, waiting for at most `timeout`, or re-enters it.
    ///
    /// If this thread already holds the lock, it re-enters the hold. Otherwise the method does what
    /// [`Lock::acquire_within`](crate::Lock::acquire_within) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and the errors of [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.acquire_within(Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_within(
        &self,
        timeout: Duration,
    ) -> Result<Guard<primitives::Lock<K>, ThisThread>> {
        let timeout = checked_timeout(timeout)?;
        match self.enter_again(ReentryTimeout::Within(timeout))? {
            Some(guard) => Ok(guard),
            None => Ok(self.entered(self.core.wait(self.inner.acquire_in_time(timeout))??)),
        }
    }

    /// Acquires the lock if it is free now, or re-enters it.
    ///
    /// If this thread already holds the lock, it re-enters the hold. Otherwise the method does what
    /// [`Lock::try_acquire`](crate::Lock::try_acquire) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and the errors of [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// assert!(lock.try_acquire()?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire(&self) -> Result<Option<Guard<primitives::Lock<K>, ThisThread>>> {
        match self.enter_again(ReentryTimeout::Once)? {
            Some(guard) => Ok(Some(guard)),
            None => {
                let guard = self.core.wait(self.inner.try_acquire())??;
                Ok(guard.map(|guard| self.entered(guard)))
            }
        }
    }

    fn key(&self) -> Key {
        (self.core.client().id().into(), self.inner.object().clone())
    }

    /// Re-enters the hold of this thread, if the thread has one.
    fn enter_again(&self, max_wait: ReentryTimeout) -> Result<Option<Bound<K>>> {
        let Some(entered) = ThreadHold::find(&self.key()) else {
            return self.enter_under_write(max_wait);
        };
        match self.core.wait(self.inner.enter_again(&entered.holding, max_wait))? {
            Ok(guard) => Ok(Some(Guard::new(guard, &self.core, ThisThread::new(entered)))),
            // The hold was just lost. So the caller acquires the lock as for the first time, unless
            // this thread holds the other side of the lock.
            Err(Error::Lost { .. }) => self.enter_under_write(max_wait),
            Err(error) => Err(error),
        }
    }

    /// Acquires the read side of a read-write lock if this thread holds the write side. If this
    /// thread holds the read side and wants the write side, returns an error. Otherwise returns
    /// `None`.
    fn enter_under_write(&self, max_wait: ReentryTimeout) -> Result<Option<Bound<K>>> {
        let (client, object) = self.key();
        let other = object.other_side().and_then(|side| ThreadHold::find(&(client, side)));
        match other {
            None => Ok(None),
            Some(writing) if object.traits().is_shared() => {
                let read =
                    self.inner.acquire_under_write(writing.holding.watch(), max_wait.until());
                Ok(Some(self.entered(self.core.wait(read)??)))
            }
            Some(_) => Err(Error::UpgradeNotSupported { name: object.name }),
        }
    }

    fn entered(&self, guard: primitives::Guard<primitives::Lock<K>>) -> Bound<K> {
        let entered = ThreadHold::by(self.key(), guard.holding());
        Guard::new(guard, &self.core, ThisThread::new(entered))
    }
}

/// Methods whose hold belongs to the guard, not to the thread. So the guard can move to another
/// thread, and a thread that acquires the lock twice by these methods waits for itself.
impl<K> Lock<K> {
    /// Acquires the lock as [`Lock::acquire`](crate::Lock::acquire) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.acquire_owned()?;
    /// assert!(lock.try_acquire()?.is_none());
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_owned(&self) -> Result<Guard<primitives::Lock<K>>> {
        Ok(self.owned(self.core.wait(self.inner.acquire())??))
    }

    /// Acquires the lock as [`Lock::acquire_within`](crate::Lock::acquire_within) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.acquire_owned_within(Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_owned_within(&self, timeout: Duration) -> Result<Guard<primitives::Lock<K>>> {
        Ok(self.owned(self.core.wait(self.inner.acquire_within(timeout))??))
    }

    /// Acquires the lock as [`Lock::try_acquire`](crate::Lock::try_acquire) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// assert!(lock.try_acquire_owned()?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire_owned(&self) -> Result<Option<Guard<primitives::Lock<K>>>> {
        Ok(self.core.wait(self.inner.try_acquire())??.map(|guard| self.owned(guard)))
    }

    fn owned(&self, guard: primitives::Guard<primitives::Lock<K>>) -> Owned<K> {
        Guard::new(guard, &self.core, ())
    }
}

/// Methods that run work under the lock.
///
/// Nothing can stop the work of a thread from outside, so there is no setting
/// [`on_loss`](crate::Lock::on_loss). The work must check its [`LockContext`] before each side
/// effect.
impl<K> Lock<K> {
    /// Does what [`Lock::run`](crate::Lock::run) does, but a loss does not stop the work.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire), and [`Error::Lost`] if the lock was lost while the
    /// work ran. Use [`Guard::run`] to get the result of the work in this case, too.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("nightly-close")?;
    /// let answer = lock.run(|held| held.check().map(|()| 6 * 7))??;
    /// assert_eq!(answer, 42);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(&self, work: impl FnOnce(&LockContext) -> T) -> Result<T> {
        self.acquire()?.run(work).into_result()
    }

    /// Does what [`run`](Self::run) does, but waits for the lock for at most `timeout`.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_within`](Self::acquire_within), and [`Error::Lost`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("nightly-close")?;
    /// assert_eq!(lock.run_within(Duration::from_secs(5), |_held| "done")?, "done");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run_within<T>(
        &self,
        timeout: Duration,
        work: impl FnOnce(&LockContext) -> T,
    ) -> Result<T> {
        self.acquire_within(timeout)?.run(work).into_result()
    }

    /// Does what [`run`](Self::run) does if the lock is free now. Otherwise returns `None`.
    ///
    /// # Errors
    ///
    /// The errors of [`try_acquire`](Self::try_acquire), and [`Error::Lost`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("cron/cleanup")?;
    /// assert!(lock.try_run(|_held| ())?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_run<T>(&self, work: impl FnOnce(&LockContext) -> T) -> Result<Option<T>> {
        self.try_acquire()?.map(|guard| guard.run(work).into_result()).transpose()
    }
}

/// Methods that need no guard.
impl<K> Lock<K> {
    waits! { Lock, "let lock = client.lock(\"orders:42\")?;":
        fn is_locked() -> bool; "assert!(!lock.is_locked()?);"

        fn holder() -> Option<Holder>;
            "let guard = lock.acquire()?;"
            "assert!(lock.holder()?.is_some_and(|holder| holder.owner() == guard.owner()));"

        fn held_by(owner: &Owner) -> u32;
            "let guard = lock.acquire()?;"
            "assert_eq!(lock.held_by(guard.owner())?, 1);"

        fn force_release() -> bool;
            "let guard = lock.acquire()?;"
            "assert!(lock.force_release()?);"

        fn renew_owner(owner: &Owner, lease: Duration) -> bool;
            "let guard = lock.acquire()?;"
            "assert!(lock.renew_owner(guard.owner(), Duration::from_secs(60))?);"

        fn release_owner(owner: &Owner) -> bool;
            "let guard = lock.acquire()?;"
            "assert!(lock.release_owner(guard.owner())?);"

        fn force_release_owner(owner: &Owner, by: &str) -> bool;
            "let guard = lock.acquire()?;"
            "assert!(lock.force_release_owner(guard.owner(), \"root on web-7\")?);"
    }
}

/// Returns the same lock without [`Fenced`] in its type. The holds still have tokens, which
/// [`LockContext::token`] returns.
impl From<FencedLock> for Lock {
    fn from(FencedLock { core, inner }: FencedLock) -> Self {
        Self { core, inner: inner.into() }
    }
}

impl Lock<Fenced> {
    waits! { Lock, "let lock = client.fenced_lock(\"orders:42\")?;":
        fn raise_token(least: u64) -> u64;
            "assert_eq!(lock.raise_token(1041)?, 1041);"
            "assert_eq!(lock.acquire()?.token(), 1042);"
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::{MemoryStore, blocking::Client};

    const SOON: Duration = Duration::from_millis(20);

    /// Former bug: a thread that had lost its write hold, and still had a read hold, acquired the
    /// write side again, and so waited for itself.
    #[test]
    fn thread_with_a_read_hold_cannot_reacquire_its_lost_write_hold() {
        let store = MemoryStore::new();
        let [ours, theirs] = [(); 2].map(|()| Client::with_store(&store).unwrap());
        let prices = ours.read_write_lock("prices").unwrap();
        let writing = prices.write().acquire().unwrap();
        let reading = prices.read().acquire().unwrap();
        assert!(theirs.read_write_lock("prices").unwrap().write().force_release().unwrap());
        let refused = prices.write().acquire_within(SOON).unwrap_err();
        assert!(matches!(refused, Error::UpgradeNotSupported { .. }), "{refused:?}");
        assert!(reading.is_held() && !writing.is_held());

        drop((writing, reading));
        prices.write().acquire().unwrap().release().unwrap().into_result().unwrap();
    }

    /// Former bug: a reentry with a timeout waited too long. The reentry waited for replicas
    /// without regard to the timeout, and for a reply of the store until the lease ended.
    #[test]
    fn reentry_waits_no_longer_than_its_timeout() {
        const LONG: Duration = Duration::from_secs(30);
        let store = MemoryStore::new();
        let client = Client::with_store(&store).unwrap();
        let (door, prices) =
            (client.lock("door").unwrap(), client.read_write_lock("prices").unwrap());
        let (_first, _writing) = (door.acquire().unwrap(), prices.write().acquire().unwrap());
        let begun = Instant::now();
        for lock in [&door, &prices.read()] {
            let wants = lock.clone().replicated(Replicas::at_least(1).within(LONG));
            let refused = wants.acquire_within(SOON).unwrap_err();
            assert!(matches!(refused, Error::NotReplicated { got: 0, .. }), "{refused:?}");
        }
        store.stall();
        for lock in [&door, &prices.read()] {
            let refused = lock.acquire_within(SOON).unwrap_err();
            assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        let refused = door.try_acquire().unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
        assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
    }

    /// Former bug: a reentry did not wait for the replicas that it required.
    #[test]
    fn reentry_with_more_replicas_needs_their_acknowledgement() {
        let store = MemoryStore::new();
        let door = Client::with_store(&store).unwrap().lock("door").unwrap();
        let first = door.acquire().unwrap();
        let wants = door.replicated(Replicas::at_least(1).within(SOON));
        for refused in [
            wants.acquire().unwrap_err(),
            wants.acquire_within(20 * SOON).unwrap_err(),
            wants.try_acquire().unwrap_err(),
        ] {
            assert!(matches!(refused, Error::NotReplicated { got: 0, .. }), "{refused:?}");
        }
        assert_eq!((first.is_held(), first.count()), (true, 1));

        store.set_replicas(1);
        let again = wants.acquire().unwrap();
        assert_eq!((again.owner(), again.count()), (first.owner(), 2));
        // Replicas that have acknowledged the hold need not acknowledge it again.
        store.set_replicas(0);
        assert_eq!(wants.try_acquire().unwrap().unwrap().count(), 3);
    }
}
