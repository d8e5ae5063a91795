//! Proof that a lock was granted, for threads.

use std::{ops::Deref, rc::Rc, sync::Arc, time::Duration};

use super::{reentry::Entered, waiting::Core};
use crate::{
    Holding, LostReason, Name, Owner, Ran, Release, Script, Value, Write, error::Result, primitives,
};

/// As [`LockGuard`](crate::LockGuard), with the thread as its owner: it stays
/// on its thread, and what the thread acquires again it enters again.
///
/// ```compile_fail
/// # let client = leasehold::blocking::Client::in_memory().unwrap();
/// let guard = client.lock("orders:42").unwrap().acquire().unwrap();
/// std::thread::spawn(move || drop(guard)); // does not compile
/// ```
///
/// Nor does any of what it may be asked for move:
///
/// ```compile_fail
/// # let client = leasehold::blocking::Client::in_memory().unwrap();
/// let guard = client.lock("orders:42").unwrap().acquire().unwrap();
/// std::ops::Deref::deref(&guard).reenter().unwrap(); // does not compile
/// ```
///
/// # Examples
///
/// ```
/// let client = leasehold::blocking::Client::in_memory()?;
/// let guard = client.lock("orders:42")?.acquire()?;
/// guard.release()?.done()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct LockGuard {
    held: HeldLock,
    /// Of this thread alone: it is not `Send`.
    entered: Rc<Entered>,
}

impl LockGuard {
    pub(super) fn new(
        guard: primitives::LockGuard,
        core: &Arc<Core>,
        entered: Rc<Entered>,
    ) -> Self {
        Self { held: HeldLock::new(guard, core), entered }
    }

    /// As [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync): then the
    /// lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// assert_eq!(lock.acquire()?.release()?, leasehold::Release::Released);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn release(self) -> Result<Release> {
        self.held.release()
    }

    /// As [`LockGuard::run`](crate::LockGuard::run): [`Ran::Stopped`] does not
    /// occur, since a thread cannot be stopped from outside.
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// assert_eq!(guard.run(|held| held.is_held()).done()?, true);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(self, work: impl FnOnce(&Holding) -> T) -> Ran<T> {
        // It has entered until the lock is given back.
        let Self { held, entered: _entered } = self;
        held.run(work)
    }

    /// As [`LockGuard::forget`](crate::LockGuard::forget).
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// lock.acquire()?.forget();
    /// assert!(lock.is_locked()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn forget(self) {
        self.held.guard.forget();
    }

    /// As [`LockGuard::reenter`](crate::LockGuard::reenter), which acquiring
    /// again on this thread does as well.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// let again = guard.reenter()?;
    /// assert_eq!(again.count(), 2);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn reenter(&self) -> Result<Self> {
        Ok(Self { held: self.held.reenter()?, entered: Rc::clone(&self.entered) })
    }
}

/// As [`LockGuard`](crate::LockGuard): it may move to another thread, and no
/// other acquire enters its hold.
///
/// # Examples
///
/// ```
/// let client = leasehold::blocking::Client::in_memory()?;
/// let guard = client.lock("orders:42")?.acquire_owned()?;
/// std::thread::spawn(move || guard.release()).join().unwrap()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct OwnedLockGuard {
    held: HeldLock,
}

impl OwnedLockGuard {
    pub(super) fn new(guard: primitives::LockGuard, core: &Arc<Core>) -> Self {
        Self { held: HeldLock::new(guard, core) }
    }

    /// As [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync): then the
    /// lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// assert_eq!(lock.acquire_owned()?.release()?, leasehold::Release::Released);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn release(self) -> Result<Release> {
        self.held.release()
    }

    /// As [`LockGuard::run`](crate::LockGuard::run): [`Ran::Stopped`] does not
    /// occur, since a thread cannot be stopped from outside.
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire_owned()?;
    /// assert_eq!(guard.run(|held| held.is_held()).done()?, true);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(self, work: impl FnOnce(&Holding) -> T) -> Ran<T> {
        self.held.run(work)
    }

    /// As [`LockGuard::forget`](crate::LockGuard::forget).
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// lock.acquire_owned()?.forget();
    /// assert!(lock.is_locked()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn forget(self) {
        self.held.guard.forget();
    }

    /// As [`LockGuard::reenter`](crate::LockGuard::reenter).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire_owned()?;
    /// let again = guard.reenter()?;
    /// assert_eq!(again.count(), 2);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn reenter(&self) -> Result<Self> {
        Ok(Self { held: self.held.reenter()? })
    }
}

macro_rules! shows_what_is_held {
    ($($guard:ty),+) => {$(
        impl Deref for $guard {
            type Target = HeldLock;

            fn deref(&self) -> &HeldLock {
                &self.held
            }
        }
    )+};
}

shows_what_is_held!(LockGuard, OwnedLockGuard);

/// What is the same for both guards: looking at what they hold, and writing under it.
///
/// # Examples
///
/// ```
/// use leasehold::blocking::{Client, HeldLock};
/// let lock = Client::in_memory()?.lock("orders:42")?;
/// let show = |held: &HeldLock| println!("{} for {:?}", held.owner(), held.remaining());
/// let guard = lock.acquire()?;
/// show(&guard);
/// # drop(guard);
/// let guard = lock.acquire_owned()?;
/// show(&guard);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct HeldLock {
    // Dropped before the core: its release is the last thing to be made.
    guard: primitives::LockGuard,
    core: Arc<Core>,
}

/// What guards are made of. Who only looks makes none of it, and so cannot move it.
impl HeldLock {
    fn new(guard: primitives::LockGuard, core: &Arc<Core>) -> Self {
        Self { guard, core: Arc::clone(core) }
    }

    pub(super) fn holding(&self) -> Holding {
        self.guard.holding()
    }

    fn release(self) -> Result<Release> {
        let Self { guard, core } = self;
        core.wait(guard.release())?
    }

    fn run<T>(self, work: impl FnOnce(&Holding) -> T) -> Ran<T> {
        let Self { guard, core } = self;
        core.run(guard.holding(), work, guard.release_after_run())
    }

    fn reenter(&self) -> Result<Self> {
        Ok(Self::new(self.core.wait(self.guard.reenter())??, &self.core))
    }
}

impl HeldLock {
    /// As [`LockGuard::write`](crate::LockGuard::write).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::Write;
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("stock:42")?.acquire()?;
    /// guard.write([Write::set("stock:42:left", "7")])?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn write(&self, writes: impl IntoIterator<Item = Write>) -> Result<()> {
        self.core.wait(self.guard.write(writes))?
    }

    /// As [`LockGuard::eval`](crate::LockGuard::eval).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::Script;
    /// let client = leasehold::blocking::Client::connect("redis://127.0.0.1/")?;
    /// let guard = client.lock("stock:42")?.acquire()?;
    /// let take = Script::new("return redis.call('DECR', KEYS[1])").key("stock:42:left");
    /// println!("{:?} are left", guard.eval(take)?.as_int());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn eval(&self, script: Script) -> Result<Value> {
        self.core.wait(self.guard.eval(script))?
    }

    /// Waits until the hold is over, as [`LockGuard::lost`](crate::LockGuard::lost).
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.lease(Duration::from_millis(50)).acquire()?;
    /// assert_eq!(guard.lost()?, leasehold::LostReason::Expired);
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
    /// use std::time::Duration;
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// assert_eq!(guard.lost_within(Duration::from_millis(20))?, None);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lost_within(&self, patience: Duration) -> Result<Option<LostReason>> {
        let lost = self.guard.lost();
        self.core.wait(async move { tokio::time::timeout(patience, lost).await.ok() })
    }

    /// As [`LockGuard::is_held`](crate::LockGuard::is_held).
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// assert!(guard.is_held());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// As [`LockGuard::remaining`](crate::LockGuard::remaining).
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// assert!(guard.remaining().is_some_and(|left| left.as_secs() >= 28));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.guard.remaining()
    }

    /// As [`LockGuard::count`](crate::LockGuard::count).
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// assert_eq!(guard.count(), 1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn count(&self) -> u32 {
        self.guard.count()
    }

    /// As [`LockGuard::owner`](crate::LockGuard::owner).
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// assert!(guard.owner().as_str().ends_with(":1"));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.guard.owner()
    }

    /// As [`LockGuard::name`](crate::LockGuard::name).
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// assert_eq!(guard.name().as_str(), "orders:42");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.guard.name()
    }
}
