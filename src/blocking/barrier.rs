//! The barrier, for threads.

use std::{sync::Arc, time::Duration};

use super::{
    face::{returns, waits},
    waiting::Core,
};
use crate::{Arrived, Name, error::Result, primitives};

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
