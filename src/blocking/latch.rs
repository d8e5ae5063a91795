//! The latch, for threads.

use std::{sync::Arc, time::Duration};

use super::{
    face::{returns, waits},
    waiting::Core,
};
use crate::{Name, error::Result, primitives};

/// A [`Latch`](crate::Latch) for threads.
///
/// # Examples
///
/// ```
/// let ready = leasehold::blocking::Client::in_memory()?.latch("workers-ready")?;
/// ready.set(1)?;
/// let worker = ready.clone();
/// std::thread::spawn(move || worker.count_down());
/// ready.wait()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Latch {
    core: Arc<Core>,
    inner: primitives::Latch,
}

impl Latch {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Latch) -> Self {
        Self { core, inner }
    }

    returns! { Latch, "let ready = client.latch(\"workers-ready\")?;":
        fn name() -> &Name; "assert_eq!(ready.name().as_str(), \"workers-ready\");"
    }

    waits! { Latch, "let ready = client.latch(\"workers-ready\")?;":
        fn wait() -> (); "ready.wait()?; // no client has set it"

        fn wait_within(timeout: Duration) -> ();
            "ready.set(1)?;"
            "assert!(ready.wait_within(Duration::from_millis(10)).is_err());"

        fn set(count: u32) -> bool; "assert!(ready.set(2)?);"

        fn count_down() -> u64; "ready.set(2)?;" "assert_eq!(ready.count_down()?, 1);"

        fn count() -> u64; "assert_eq!(ready.count()?, 0);"

        fn delete() -> bool; "assert!(!ready.delete()?);"
    }
}
