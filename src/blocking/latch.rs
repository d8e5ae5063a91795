//! The latch, for threads.

use std::{sync::Arc, time::Duration};

use super::waiting::Core;
use crate::{Name, error::Result, primitives};

/// As [`Latch`](crate::Latch), for threads.
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
    latch: primitives::Latch,
}

impl Latch {
    pub(super) fn new(core: Arc<Core>, latch: primitives::Latch) -> Self {
        Self { core, latch }
    }

    /// As [`Latch::name`](crate::Latch::name).
    ///
    /// # Examples
    ///
    /// ```
    /// # let ready = leasehold::blocking::Client::in_memory()?.latch("workers-ready")?;
    /// assert_eq!(ready.name().as_str(), "workers-ready");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.latch.name()
    }

    /// As [`Latch::wait`](crate::Latch::wait).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let ready = leasehold::blocking::Client::in_memory()?.latch("workers-ready")?;
    /// ready.wait()?; // nobody has set it
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn wait(&self) -> Result<()> {
        self.core.wait(self.latch.wait())?
    }

    /// As [`Latch::wait_within`](crate::Latch::wait_within).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let ready = leasehold::blocking::Client::in_memory()?.latch("workers-ready")?;
    /// # use std::time::Duration;
    /// ready.set(1)?;
    /// assert!(ready.wait_within(Duration::from_millis(10)).is_err());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn wait_within(&self, patience: Duration) -> Result<()> {
        self.core.wait(self.latch.wait_within(patience))?
    }

    /// As [`Latch::set`](crate::Latch::set).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let ready = leasehold::blocking::Client::in_memory()?.latch("workers-ready")?;
    /// assert!(ready.set(2)?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn set(&self, count: u32) -> Result<bool> {
        self.core.wait(self.latch.set(count))?
    }

    /// As [`Latch::count_down`](crate::Latch::count_down).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let ready = leasehold::blocking::Client::in_memory()?.latch("workers-ready")?;
    /// ready.set(2)?;
    /// assert_eq!(ready.count_down()?, 1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn count_down(&self) -> Result<u64> {
        self.core.wait(self.latch.count_down())?
    }

    /// As [`Latch::count`](crate::Latch::count).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let ready = leasehold::blocking::Client::in_memory()?.latch("workers-ready")?;
    /// assert_eq!(ready.count()?, 0);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn count(&self) -> Result<u64> {
        self.core.wait(self.latch.count())?
    }

    /// As [`Latch::delete`](crate::Latch::delete).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let ready = leasehold::blocking::Client::in_memory()?.latch("workers-ready")?;
    /// assert!(!ready.delete()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn delete(&self) -> Result<bool> {
        self.core.wait(self.latch.delete())?
    }
}
