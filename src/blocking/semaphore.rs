//! The semaphore, for threads.

use std::{sync::Arc, time::Duration};

use super::{
    Guard,
    face::{returns, waits},
    waiting::Core,
};
use crate::{
    LockContext, Name, Replicas,
    error::Result,
    primitives::{self, settings::replicated},
};

/// A [`Semaphore`](crate::Semaphore) for threads. **A process that crashes keeps its permits.**
///
/// If no Redisson client uses this semaphore, use an
/// [`ExpirableSemaphore`](super::ExpirableSemaphore), whose permits become free again after a
/// crash. A thread that acquires twice has two guards, which can move to other threads.
///
/// # Examples
///
/// ```
/// let printers = leasehold::blocking::Client::in_memory()?.semaphore("printers")?;
/// printers.set_if_absent(3)?;
/// let two = printers.acquire(2)?;
/// assert!(printers.try_acquire(2)?.is_none());
/// two.release()?.into_result()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    core: Arc<Core>,
    inner: primitives::Semaphore,
}

/// The guard of a [`Semaphore`]. The guard can move to another thread.
pub type SemaphoreGuard = Guard<primitives::Semaphore>;

impl Semaphore {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Semaphore) -> Self {
        Self { core, inner }
    }

    replicated!("leasehold::blocking::Client", "semaphore", |this, replicas| {
        let inner = this.inner.replicated(replicas);
        Self { inner, ..this }
    });

    fn guard(&self, guard: primitives::SemaphoreGuard) -> SemaphoreGuard {
        Guard::new(guard, &self.core, ())
    }

    returns! { Semaphore, "let printers = client.semaphore(\"printers\")?;":
        fn name() -> &Name; "assert_eq!(printers.name().as_str(), \"printers\");"
    }

    waits! { Semaphore, "let printers = client.semaphore(\"printers\")?; printers.add(3)?;":
        fn acquire(permits: u32) -> SemaphoreGuard, guard; "let guard = printers.acquire(1)?;"

        fn acquire_within(permits: u32, timeout: Duration) -> SemaphoreGuard, guard;
            "let guard = printers.acquire_within(1, Duration::from_secs(5))?;"

        fn try_acquire(permits: u32) -> Option<SemaphoreGuard> => guard;
            "assert!(printers.try_acquire(4)?.is_none());"

        fn set_if_absent(permits: u32) -> bool; "assert!(!printers.set_if_absent(20)?);"

        fn add(permits: i64) -> i64; "assert_eq!(printers.add(-5)?, -2);"

        fn drain() -> u64; "assert_eq!(printers.drain()?, 3);"

        fn available() -> i64; "assert_eq!(printers.available()?, 3);"

        fn delete() -> bool; "assert!(printers.delete()?);"
    }

    /// Does what [`Semaphore::run`](crate::Semaphore::run) does, but a loss does not stop the work.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire), and [`Error::Lost`](crate::Error::Lost).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let printers = client.semaphore("printers")?;
    /// # printers.set_if_absent(3)?;
    /// assert_eq!(printers.run(2, |_held| 6 * 7)?, 42);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(&self, permits: u32, work: impl FnOnce(&LockContext) -> T) -> Result<T> {
        self.acquire(permits)?.run(work).into_result()
    }
}
