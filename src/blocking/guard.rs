//! The guards for threads.

use std::{rc::Rc, sync::Arc, time::Duration};

use super::{
    face::{loses, returns, waits},
    reentry::ThreadHold,
    waiting::Core,
};
use crate::{
    ExpirableSemaphore, FencedLock, Lock, LockContext, LostReason, Name, Owner, PermitId, Release,
    RunOutcome, Script, Semaphore, Value, Write, error::Result, primitives,
};

/// A [`Guard`](crate::Guard) for threads, which proves that a lock or permits are held.
///
/// `K` is the async type of the lock or the semaphore, such as [`Lock`]. `B` is [`ThisThread`] if
/// the guard cannot move to another thread, and `()` if it can. Each combination has a shorter
/// name, such as [`LockGuard`](super::LockGuard), [`OwnedLockGuard`](super::OwnedLockGuard) or
/// [`ExpirablePermits`](super::ExpirablePermits).
///
/// # Examples
///
/// ```
/// use leasehold::blocking::{Client, Guard};
/// fn show<K, B>(guard: &Guard<K, B>) {
///     println!("{} holds {}", guard.owner(), guard.name());
/// }
/// let lock = Client::in_memory()?.lock("orders:42")?;
/// let guard = lock.acquire()?;
/// show(&guard);
/// guard.release()?.into_result()?;
/// show(&lock.acquire_owned()?);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "what the guard holds is released as soon as the guard is dropped"]
pub struct Guard<K, B = ()> {
    // This field must come before `core`, so that Rust drops it first. Its drop starts the release,
    // which the runtime thread still completes after the drop of the last `core`.
    inner: primitives::Guard<K>,
    core: Arc<Core>,
    bound: B,
}

/// Binds a guard to the thread that acquired the lock. This thread owns the hold.
///
/// The guard cannot move to another thread. If this thread acquires the lock again, it re-enters
/// the hold.
///
/// ```compile_fail
/// # let client = leasehold::blocking::Client::in_memory().unwrap();
/// let guard = client.lock("orders:42").unwrap().acquire().unwrap();
/// std::thread::spawn(move || drop(guard)); // does not compile
/// ```
///
/// # Examples
///
/// ```
/// use leasehold::blocking::{Client, Guard, ThisThread};
/// let guard: Guard<leasehold::Lock, ThisThread> = Client::in_memory()?.lock("orders:42")?.acquire()?;
/// # drop(guard);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ThisThread {
    _entered: Rc<ThreadHold>,
}

impl ThisThread {
    pub(super) fn new(entered: Rc<ThreadHold>) -> Self {
        Self { _entered: entered }
    }
}

/// Methods of every guard.
impl<K, B> Guard<K, B> {
    pub(super) fn new(inner: primitives::Guard<K>, core: &Arc<Core>, bound: B) -> Self {
        Self { inner, core: Arc::clone(core), bound }
    }

    /// Blocks until [`Guard::release`](crate::Guard::release) returns, and returns its result.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync) if a
    /// task of an async runtime calls this method. After `InsideAsync`, a background task releases
    /// the hold.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// assert_eq!(lock.acquire()?.release()?, leasehold::Release::Released);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn release(self) -> Result<Release> {
        let Self { inner, core, bound: _bound } = self;
        core.wait(inner.release())?
    }

    /// Does what [`Guard::run`](crate::Guard::run) does, but a loss does not stop the work.
    ///
    /// The method never returns [`RunOutcome::Cancelled`].
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// assert!(guard.run(|held| held.is_held()).into_result()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(self, work: impl FnOnce(&LockContext) -> T) -> RunOutcome<T> {
        // `_bound` must live until the release, because without it, `work` could not re-enter the
        // hold.
        let Self { inner, core, bound: _bound } = self;
        core.run(&inner.holding(), work, inner.release_after_run())
    }

    loses! { Guard, "let lock = client.lock(\"orders:42\")?.lease(Duration::from_millis(50));":
        fn lost() -> LostReason;
            "assert_eq!(lock.acquire()?.lost()?, leasehold::LostReason::Expired);"
    }

    /// Does what [`lost`](Self::lost) does, but waits for at most `timeout`. Returns `None` if the
    /// hold lasts longer.
    ///
    /// # Errors
    ///
    /// As for [`lost`](Self::lost).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// assert_eq!(guard.lost_within(Duration::from_millis(20))?, None);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lost_within(&self, timeout: Duration) -> Result<Option<LostReason>> {
        let lost = self.inner.lost();
        self.core.wait(async move { tokio::time::timeout(timeout, lost).await.ok() })
    }

    returns! { Guard, "let guard = client.lock(\"orders:42\")?.acquire()?;":
        fn is_held() -> bool; "assert!(guard.is_held());"
        fn owner() -> &Owner; "assert!(guard.owner().as_str().starts_with(client.id()));"
        fn name() -> &Name; "assert_eq!(guard.name().as_str(), \"orders:42\");"
    }
}

/// Methods of the guards of locks.
impl<K, B: Clone> Guard<Lock<K>, B> {
    /// Does what [`Guard::forget`](crate::Guard::forget) does.
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
        self.inner.forget();
    }

    fn again(&self, inner: primitives::Guard<Lock<K>>) -> Self {
        Self::new(inner, &self.core, self.bound.clone())
    }

    waits! { Guard, "let guard = client.lock(\"orders:42\")?.acquire()?;":
        fn reenter() -> Self, again; "assert_eq!(guard.reenter()?.count(), 2);"

        fn write(writes: impl IntoIterator<Item = Write>) -> ();
            "guard.write([leasehold::Write::set(\"orders:42:state\", \"paid\")])?;"

        fn eval(script: Script) -> Value;
            "let pay = leasehold::Script::new(\"return redis.call('INCR', KEYS[1])\");"
            "assert_eq!(guard.eval(pay.key(\"paid\"))?.as_int(), Some(1));"
    }

    returns! { Guard, "let guard = client.lock(\"orders:42\")?.acquire()?;":
        fn remaining() -> Option<Duration>;
            "assert!(guard.remaining().is_some_and(|left| left.as_secs() >= 28));"
        fn count() -> u32; "assert_eq!(guard.count(), 1);"
    }
}

/// More methods of the guards of fenced locks.
impl<B> Guard<FencedLock, B> {
    returns! { Guard, "let guard = client.fenced_lock(\"orders:42\")?.acquire()?;":
        fn token() -> u64; "assert_eq!(guard.token(), 1);"
        fn token_i64() -> i64; "assert_eq!(guard.token_i64(), 1_i64);"
    }
}

impl Guard<Semaphore> {
    /// Does what [`Guard::forget`](crate::Guard::forget) does, so the permits stay acquired.
    ///
    /// # Examples
    ///
    /// ```
    /// let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
    /// printers.set_if_absent(3)?;
    /// printers.acquire(2)?.forget();
    /// assert_eq!(printers.available()?, 1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn forget(self) {
        self.inner.forget();
    }

    returns! { Guard, "let printers = client.semaphore(\"printers\")?; printers.add(3)?;":
        fn permits() -> u32; "assert_eq!(printers.acquire(2)?.permits(), 2);"
    }
}

impl Guard<ExpirableSemaphore> {
    returns! { Guard, "let permits = client.expirable_semaphore(\"printers\")?; permits.set(3)?;":
        fn ids() -> Vec<PermitId>; "assert_eq!(permits.acquire_many(2)?.ids().len(), 2);"
        fn permits() -> u32; "assert_eq!(permits.acquire()?.permits(), 1);"
        fn remaining() -> Option<Duration>; "assert!(permits.acquire()?.remaining().is_some());"
    }
}
