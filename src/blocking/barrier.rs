//! The barrier and the double barrier, for threads.

use std::{sync::Arc, time::Duration};

use super::{
    face::{ends, returns, waits},
    waiting::Core,
};
use crate::{Arrived, LostReason, Name, Release, error::Result, primitives};

/// A [`Barrier`](crate::Barrier) for threads. Each waiting thread is a member.
///
/// # Examples
///
/// ```
/// let barrier = leasehold::blocking::Client::in_memory()?.barrier("phase", 2)?;
/// let other = barrier.clone();
/// let other = std::thread::spawn(move || other.arrive_and_wait());
/// assert_eq!(barrier.arrive_and_wait()?.generation, 1);
/// other.join().unwrap()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    core: Arc<Core>,
    inner: primitives::Barrier,
}

impl Barrier {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Barrier) -> Self {
        Self { core, inner }
    }

    returns! { Barrier, "let barrier = client.barrier(\"phase\", 1)?;":
        fn name() -> &Name; "assert_eq!(barrier.name().as_str(), \"phase\");"
        fn parties() -> u32; "assert_eq!(barrier.parties(), 1);"
    }

    waits! { Barrier, "let barrier = client.barrier(\"phase\", 1)?;":
        fn arrive_and_wait() -> Arrived; "assert_eq!(barrier.arrive_and_wait()?.index, 0);"

        fn arrive_and_wait_within(timeout: Duration) -> Arrived;
            "barrier.arrive_and_wait_within(Duration::from_secs(5))?;"
    }
}

/// A [`DoubleBarrier`](crate::DoubleBarrier) for threads. Each waiting thread is a member.
///
/// # Examples
///
/// ```
/// let barrier = leasehold::blocking::Client::in_memory()?.double_barrier("phase", 2)?;
/// let other = barrier.clone();
/// let other = std::thread::spawn(move || other.enter()?.leave());
/// barrier.enter()?.leave()?.into_result()?;
/// other.join().unwrap()?.into_result()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    core: Arc<Core>,
    inner: primitives::DoubleBarrier,
}

impl DoubleBarrier {
    pub(super) fn new(core: Arc<Core>, inner: primitives::DoubleBarrier) -> Self {
        Self { core, inner }
    }

    returns! { DoubleBarrier, "let barrier = client.double_barrier(\"phase\", 1)?;":
        fn name() -> &Name; "assert_eq!(barrier.name().as_str(), \"phase\");"
        fn parties() -> u32; "assert_eq!(barrier.parties(), 1);"
    }

    waits! { DoubleBarrier, "let barrier = client.double_barrier(\"phase\", 1)?;":
        fn enter() -> DoubleBarrierGuard, guard; "let guard = barrier.enter()?;"

        fn enter_within(timeout: Duration) -> DoubleBarrierGuard, guard;
            "let guard = barrier.enter_within(Duration::from_secs(5))?;"
    }

    fn guard(&self, inner: primitives::DoubleBarrierGuard) -> DoubleBarrierGuard {
        DoubleBarrierGuard { inner, core: Arc::clone(&self.core) }
    }
}

/// A [`DoubleBarrierGuard`](crate::DoubleBarrierGuard) for threads. The guard can move to another
/// thread.
///
/// # Examples
///
/// ```
/// let barrier = leasehold::blocking::Client::in_memory()?.double_barrier("phase", 1)?;
/// let guard = barrier.enter()?;
/// guard.leave()?.into_result()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the member leaves as soon as this is dropped"]
pub struct DoubleBarrierGuard {
    // This field must come before `core`, so that Rust drops it first. Its drop starts the release,
    // which the runtime thread still completes after the drop of the last `core`.
    inner: primitives::DoubleBarrierGuard,
    core: Arc<Core>,
}

impl DoubleBarrierGuard {
    returns! { DoubleBarrierGuard, "let it = client.double_barrier(\"phase\", 1)?.enter()?;":
        fn is_inside() -> bool; "assert!(it.is_inside());"
        fn arrived() -> Arrived; "assert_eq!(it.arrived().generation, 1);"
    }

    ends! { DoubleBarrierGuard, "let it = client.double_barrier(\"phase\", 1)?.enter()?;", "leaves":
        fn leave(); "it.leave()?.into_result()?;"

        fn leave_within(timeout: Duration);
            "it.leave_within(Duration::from_secs(5))?.into_result()?;"
    }

    /// Blocks until [`DoubleBarrierGuard::lost`](crate::DoubleBarrierGuard::lost) returns, and
    /// returns its result.
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync) if a task of an async runtime calls this
    /// method.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let barrier = leasehold::blocking::Client::in_memory()?.double_barrier("phase", 1)?;
    /// eprintln!("the others wait no more: {}", barrier.enter()?.lost()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lost(&self) -> Result<LostReason> {
        self.core.wait(self.inner.lost())
    }
}
