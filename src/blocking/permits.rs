//! The expirable semaphore, for threads.

use std::{sync::Arc, time::Duration};

use super::{
    Guard,
    face::{returns, waits},
    waiting::Core,
};
use crate::{
    LockContext, Name, PermitId, Replicas, WaitStrategy,
    engine::grant::LocalHandoff,
    error::Result,
    primitives::{
        self,
        settings::{Settings, settings},
    },
};

/// An [`ExpirableSemaphore`](crate::ExpirableSemaphore) for threads.
///
/// A thread that acquires twice has two guards, which can move to other threads.
///
/// # Examples
///
/// ```
/// # let client = leasehold::blocking::Client::in_memory()?;
/// let permits = client.expirable_semaphore("printers")?;
/// permits.set(3)?;
/// let guard = permits.acquire()?;
/// std::thread::spawn(move || guard.release()).join().unwrap()?.into_result()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExpirableSemaphore {
    core: Arc<Core>,
    inner: primitives::ExpirableSemaphore,
}

/// The guard of an [`ExpirableSemaphore`]. The guard can move to another thread.
pub type ExpirablePermits = Guard<primitives::ExpirableSemaphore>;

impl ExpirableSemaphore {
    pub(super) fn new(core: Arc<Core>, inner: primitives::ExpirableSemaphore) -> Self {
        Self { core, inner }
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        Self { inner: self.inner.with(change), ..self }
    }

    settings!("leasehold::blocking::Client", "expirable_semaphore");

    fn guard(&self, guard: primitives::ExpirablePermits) -> ExpirablePermits {
        Guard::new(guard, &self.core, ())
    }

    returns! { ExpirableSemaphore, "let permits = client.expirable_semaphore(\"printers\")?;":
        fn name() -> &Name; "assert_eq!(permits.name().as_str(), \"printers\");"
    }

    waits! { ExpirableSemaphore, "let permits = client.expirable_semaphore(\"printers\")?; permits.set(3)?;":
        fn acquire() -> ExpirablePermits, guard; "let guard = permits.acquire()?;"

        fn acquire_many(count: u32) -> ExpirablePermits, guard;
            "let guard = permits.acquire_many(2)?;"
            "assert_eq!(permits.available()?, 1);"

        fn acquire_within(timeout: Duration) -> ExpirablePermits, guard;
            "let guard = permits.acquire_within(Duration::from_secs(5))?;"

        fn acquire_many_within(count: u32, timeout: Duration) -> ExpirablePermits, guard;
            "let guard = permits.acquire_many_within(2, Duration::from_secs(5))?;"

        fn try_acquire() -> Option<ExpirablePermits> => guard;
            "assert!(permits.try_acquire()?.is_some());"

        fn try_acquire_many(count: u32) -> Option<ExpirablePermits> => guard;
            "assert!(permits.try_acquire_many(4)?.is_none());"

        fn set_if_absent(count: u32) -> bool; "assert!(!permits.set_if_absent(9)?);"

        fn set(count: u32) -> (); "permits.set(2)?;" "assert_eq!(permits.total()?, 2);"

        fn add(count: i32) -> (); "permits.add(-1)?;" "assert_eq!(permits.available()?, 2);"

        fn available() -> i64; "assert_eq!(permits.available()?, 3);"

        fn acquired() -> i64; "assert_eq!(permits.acquired()?, 0);"

        fn total() -> i64; "assert_eq!(permits.total()?, 3);"

        fn release_id(id: PermitId) -> bool;
            "let guard = permits.acquire()?;"
            "assert!(permits.release_id(guard.ids()[0])?);"

        fn update_lease(id: PermitId, lease: Duration) -> bool;
            "let guard = permits.acquire()?;"
            "assert!(permits.update_lease(guard.ids()[0], Duration::from_secs(60))?);"

        fn lease_of(id: PermitId) -> Option<Duration>;
            "let guard = permits.acquire()?;"
            "assert!(permits.lease_of(guard.ids()[0])?.is_some());"
    }

    /// Does what [`ExpirableSemaphore::run`](crate::ExpirableSemaphore::run) does, but a loss does
    /// not stop the work.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire), and [`Error::Lost`](crate::Error::Lost).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.expirable_semaphore("printers")?;
    /// # permits.set(3)?;
    /// assert_eq!(permits.run(|_held| 6 * 7)?, 42);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(&self, work: impl FnOnce(&LockContext) -> T) -> Result<T> {
        self.acquire()?.run(work).into_result()
    }
}
