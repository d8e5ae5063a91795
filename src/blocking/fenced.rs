//! The fenced lock, for threads.

use std::{ops::Deref, time::Duration};

use super::{Lock, LockGuard, OwnedLockGuard};
use crate::{
    Holding, Ran, Release, Replicas, WaitBy,
    domain::Share,
    engine::grant::LocalTurns,
    error::Result,
    primitives::{
        settings::{Settings, replicated, settings},
        token_of,
    },
};

/// As [`FencedLock`](crate::FencedLock), for threads.
///
/// It is **reentrant by thread**, as [`Lock`] is; entered again it has the same token. What
/// the thread holds by a plain lock of this name has none, and is refused with
/// [`Error::NoToken`](crate::Error::NoToken).
///
/// # Examples
///
/// ```
/// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
/// let first = lock.acquire()?;
/// let token = first.token();
/// assert_eq!(lock.acquire()?.token(), token);
/// first.release()?.done()?;
/// assert!(lock.acquire()?.token() > token);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FencedLock {
    lock: Lock,
}

/// What is the same for every lock.
impl Deref for FencedLock {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.lock
    }
}

/// Settings, as those of [`Lock`](crate::Lock).
impl FencedLock {
    pub(super) fn new(lock: Lock) -> Self {
        Self { lock: lock.set(|settings| settings.share = Share::FENCED) }
    }

    fn set(self, change: impl FnOnce(&mut Settings)) -> Self {
        Self { lock: self.lock.set(change) }
    }

    settings!("leasehold::blocking::Client", "fenced");
    replicated!("leasehold::blocking::Client", "fenced", |this, replicas| {
        this.set(|settings| settings.replicas = replicas)
    });
}

/// Acquiring, with the thread as the owner.
impl FencedLock {
    /// As [`Lock::acquire`].
    ///
    /// # Errors
    ///
    /// As there, and [`Error::NoToken`](crate::Error::NoToken).
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?.acquire()?;
    /// assert!(guard.token() > 0);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire(&self) -> Result<FencedGuard> {
        FencedGuard::of(self.lock.acquire()?)
    }

    /// As [`Lock::acquire_within`].
    ///
    /// # Errors
    ///
    /// As there, and [`Error::NoToken`](crate::Error::NoToken).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
    /// let guard = lock.acquire_within(Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_within(&self, patience: Duration) -> Result<FencedGuard> {
        FencedGuard::of(self.lock.acquire_within(patience)?)
    }

    /// As [`Lock::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there, and [`Error::NoToken`](crate::Error::NoToken).
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
    /// assert!(lock.try_acquire()?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire(&self) -> Result<Option<FencedGuard>> {
        self.lock.try_acquire()?.map(FencedGuard::of).transpose()
    }
}

/// Acquiring, with the guard as the owner.
impl FencedLock {
    /// As [`Lock::acquire_owned`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
    /// let guard = lock.acquire_owned()?;
    /// assert!(lock.try_acquire()?.is_none());
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_owned(&self) -> Result<OwnedFencedGuard> {
        OwnedFencedGuard::of(self.lock.acquire_owned()?)
    }

    /// As [`Lock::acquire_owned_within`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
    /// let guard = lock.acquire_owned_within(Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_owned_within(&self, patience: Duration) -> Result<OwnedFencedGuard> {
        OwnedFencedGuard::of(self.lock.acquire_owned_within(patience)?)
    }

    /// As [`Lock::try_acquire_owned`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
    /// assert!(lock.try_acquire_owned()?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire_owned(&self) -> Result<Option<OwnedFencedGuard>> {
        self.lock.try_acquire_owned()?.map(OwnedFencedGuard::of).transpose()
    }
}

/// Tokens.
impl FencedLock {
    /// As [`FencedLock::raise_token`](crate::FencedLock::raise_token).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
    /// assert_eq!(lock.raise_token(1041)?, 1041);
    /// assert_eq!(lock.acquire()?.token(), 1042);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn raise_token(&self, least: u64) -> Result<u64> {
        self.lock.raise_token(least)
    }
}

/// What a guard with a token adds to the one that it is made of.
macro_rules! fenced_guard {
    ($name:ident, $guard:ident, $acquire:literal) => {
        impl $name {
            fn of(guard: $guard) -> Result<Self> {
                let token = token_of(&guard.holding())?;
                Ok(Self { guard, token })
            }

            /// As [`FencedGuard::token`](crate::FencedGuard::token).
            ///
            /// # Examples
            ///
            /// ```
            /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
            #[doc = concat!("assert_eq!(lock.", $acquire, "()?.token(), 1);")]
            /// # Ok::<(), leasehold::Error>(())
            /// ```
            #[must_use]
            pub fn token(&self) -> u64 {
                self.token
            }

            /// As [`FencedGuard::token_i64`](crate::FencedGuard::token_i64).
            ///
            /// # Examples
            ///
            /// ```
            /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
            #[doc = concat!("assert_eq!(lock.", $acquire, "()?.token_i64(), 1_i64);")]
            /// # Ok::<(), leasehold::Error>(())
            /// ```
            #[must_use]
            pub fn token_i64(&self) -> i64 {
                self.token.cast_signed()
            }

            #[doc = concat!("As [`", stringify!($guard), "::release`].")]
            ///
            /// # Errors
            ///
            /// As there.
            ///
            /// # Examples
            ///
            /// ```
            /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
            #[doc = concat!("lock.", $acquire, "()?.release()?.done()?;")]
            /// # Ok::<(), leasehold::Error>(())
            /// ```
            pub fn release(self) -> Result<Release> {
                self.guard.release()
            }

            #[doc = concat!("As [`", stringify!($guard), "::forget`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
            #[doc = concat!("lock.", $acquire, "()?.forget();")]
            /// assert!(lock.is_locked()?);
            /// # Ok::<(), leasehold::Error>(())
            /// ```
            pub fn forget(self) {
                self.guard.forget();
            }

            #[doc = concat!("As [`", stringify!($guard), "::run`].")]
            ///
            /// # Examples
            ///
            /// ```
            /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
            #[doc = concat!("let ran = lock.", $acquire, "()?.run(|held| held.token());")]
            /// assert_eq!(ran.done()?, Some(1));
            /// # Ok::<(), leasehold::Error>(())
            /// ```
            pub fn run<T>(self, work: impl FnOnce(&Holding) -> T) -> Ran<T> {
                self.guard.run(work)
            }

            #[doc = concat!("As [`", stringify!($guard), "::reenter`], with the same token.")]
            ///
            /// # Errors
            ///
            /// As there.
            ///
            /// # Examples
            ///
            /// ```
            /// let lock = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?;
            #[doc = concat!("let guard = lock.", $acquire, "()?;")]
            /// assert_eq!(guard.reenter()?.token(), guard.token());
            /// # Ok::<(), leasehold::Error>(())
            /// ```
            pub fn reenter(&self) -> Result<Self> {
                Ok(Self { guard: self.guard.reenter()?, token: self.token })
            }
        }

        impl Deref for $name {
            type Target = $guard;

            fn deref(&self) -> &$guard {
                &self.guard
            }
        }
    };
}

/// A [`LockGuard`] with a token. It stays on its thread.
///
/// # Examples
///
/// ```
/// let guard = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?.acquire()?;
/// let gate = leasehold::fence::Gate::new();
/// assert!(gate.pass("orders:42", guard.token()).is_ok());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct FencedGuard {
    guard: LockGuard,
    token: u64,
}

/// An [`OwnedLockGuard`] with a token. It may move to another thread.
///
/// # Examples
///
/// ```
/// let guard = leasehold::blocking::Client::in_memory()?.fenced("orders:42")?.acquire_owned()?;
/// std::thread::spawn(move || assert_eq!(guard.token(), 1)).join().unwrap();
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct OwnedFencedGuard {
    guard: OwnedLockGuard,
    token: u64,
}

fenced_guard!(FencedGuard, LockGuard, "acquire");
fenced_guard!(OwnedFencedGuard, OwnedLockGuard, "acquire_owned");
