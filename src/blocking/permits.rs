//! Permits that expire, for threads.

use std::{sync::Arc, time::Duration};

use super::waiting::Core;
use crate::{
    Holding, LostReason, Name, Owner, PermitId, Ran, Release, Replicas, WaitBy,
    engine::grant::LocalTurns,
    error::Result,
    primitives::{
        self, permit_settings,
        settings::{Settings, replicated},
    },
};

/// As [`Permits`](crate::Permits), for threads. A thread is no identity here: each acquisition
/// is one of its own, and its guard may move.
///
/// # Examples
///
/// ```
/// # let client = leasehold::blocking::Client::in_memory()?;
/// let permits = client.permits("printers")?;
/// permits.set(3)?;
/// let guard = permits.acquire()?;
/// std::thread::spawn(move || guard.release()).join().unwrap()?.done()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Permits {
    core: Arc<Core>,
    permits: primitives::Permits,
}

/// Settings, as those of [`Permits`](crate::Permits).
impl Permits {
    pub(super) fn new(core: Arc<Core>, permits: primitives::Permits) -> Self {
        Self { core, permits }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        self.permits = self.permits.with(change);
        self
    }

    permit_settings!("leasehold::blocking::Client");
    replicated!("leasehold::blocking::Client", "permits", |this, replicas| {
        this.with(|settings| settings.replicas = replicas)
    });

    /// As [`Permits::name`](crate::Permits::name).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// assert_eq!(permits.name().as_str(), "printers");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.permits.name()
    }

    fn guard(&self, guard: primitives::PermitsGuard) -> PermitsGuard {
        PermitsGuard { guard, core: Arc::clone(&self.core) }
    }
}

/// Acquiring.
impl Permits {
    /// As [`Permits::acquire`](crate::Permits::acquire).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert_eq!(guard.permits(), 1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire(&self) -> Result<PermitsGuard> {
        Ok(self.guard(self.core.wait(self.permits.acquire())??))
    }

    /// As [`Permits::run`](crate::Permits::run): the work cannot be stopped from outside.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// assert_eq!(permits.run(|_held| 6 * 7)?, 42);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(&self, work: impl FnOnce(&Holding) -> T) -> Result<T> {
        self.acquire()?.run(work).done()
    }

    /// As [`Permits::acquire_many`](crate::Permits::acquire_many).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire_many(2)?;
    /// assert_eq!(permits.available()?, 1);
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_many(&self, count: u32) -> Result<PermitsGuard> {
        Ok(self.guard(self.core.wait(self.permits.acquire_many(count))??))
    }

    /// As [`Permits::acquire_within`](crate::Permits::acquire_within).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// use std::time::Duration;
    /// let guard = permits.acquire_within(Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_within(&self, patience: Duration) -> Result<PermitsGuard> {
        Ok(self.guard(self.core.wait(self.permits.acquire_within(patience))??))
    }

    /// As [`Permits::acquire_many_within`](crate::Permits::acquire_many_within).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// use std::time::Duration;
    /// let guard = permits.acquire_many_within(2, Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_many_within(&self, count: u32, patience: Duration) -> Result<PermitsGuard> {
        Ok(self.guard(self.core.wait(self.permits.acquire_many_within(count, patience))??))
    }

    /// As [`Permits::try_acquire`](crate::Permits::try_acquire).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// assert!(permits.try_acquire()?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire(&self) -> Result<Option<PermitsGuard>> {
        Ok(self.core.wait(self.permits.try_acquire())??.map(|guard| self.guard(guard)))
    }

    /// As [`Permits::try_acquire_many`](crate::Permits::try_acquire_many).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// assert!(permits.try_acquire_many(4)?.is_none());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire_many(&self, count: u32) -> Result<Option<PermitsGuard>> {
        Ok(self.core.wait(self.permits.try_acquire_many(count))??.map(|guard| self.guard(guard)))
    }
}

/// How many there are.
impl Permits {
    /// As [`Permits::set_if_absent`](crate::Permits::set_if_absent).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// assert!(!permits.set_if_absent(9)?);
    /// assert_eq!(permits.total()?, 3);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn set_if_absent(&self, count: u32) -> Result<bool> {
        self.core.wait(self.permits.set_if_absent(count))?
    }

    /// As [`Permits::set`](crate::Permits::set).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// permits.set(2)?;
    /// assert_eq!(permits.total()?, 2);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn set(&self, count: u32) -> Result<()> {
        self.core.wait(self.permits.set(count))?
    }

    /// As [`Permits::add`](crate::Permits::add).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// permits.add(-1)?;
    /// assert_eq!(permits.available()?, 2);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn add(&self, count: i32) -> Result<()> {
        self.core.wait(self.permits.add(count))?
    }

    /// As [`Permits::available`](crate::Permits::available).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert_eq!(permits.available()?, 2);
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn available(&self) -> Result<i64> {
        self.core.wait(self.permits.available())?
    }

    /// As [`Permits::acquired`](crate::Permits::acquired).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert_eq!(permits.acquired()?, 1);
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquired(&self) -> Result<i64> {
        self.core.wait(self.permits.acquired())?
    }

    /// As [`Permits::total`](crate::Permits::total).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert_eq!(permits.total()?, 3);
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn total(&self) -> Result<i64> {
        self.core.wait(self.permits.total())?
    }
}

/// Permits that are held elsewhere, by their ids.
impl Permits {
    /// As [`Permits::release_id`](crate::Permits::release_id).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// let id = guard.ids()[0];
    /// assert!(permits.release_id(id)?);
    /// assert!(!permits.release_id(id)?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn release_id(&self, id: PermitId) -> Result<bool> {
        self.core.wait(self.permits.release_id(id))?
    }

    /// As [`Permits::update_lease`](crate::Permits::update_lease).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// use std::time::Duration;
    /// let guard = permits.acquire()?;
    /// assert!(permits.update_lease(guard.ids()[0], Duration::from_secs(60))?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool> {
        self.core.wait(self.permits.update_lease(id, lease))?
    }

    /// As [`Permits::lease_of`](crate::Permits::lease_of).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// let left = permits.lease_of(guard.ids()[0])?;
    /// assert!(left.is_some_and(|left| left.as_secs() >= 29));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lease_of(&self, id: PermitId) -> Result<Option<Duration>> {
        self.core.wait(self.permits.lease_of(id))?
    }
}

/// As [`PermitsGuard`](crate::PermitsGuard), for threads. It may move to another one.
///
/// # Examples
///
/// ```
/// # let client = leasehold::blocking::Client::in_memory()?;
/// # let permits = client.permits("printers")?;
/// # permits.set(3)?;
/// let guard = permits.acquire()?;
/// assert_eq!(guard.release()?, leasehold::Release::Released);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the permits are given back as soon as the guard is dropped"]
pub struct PermitsGuard {
    // Dropped before the core: its release is the last thing to be made.
    guard: primitives::PermitsGuard,
    core: Arc<Core>,
}

impl PermitsGuard {
    /// As [`PermitsGuard::release`](crate::PermitsGuard::release).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// guard.release()?.done()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn release(self) -> Result<Release> {
        let Self { guard, core } = self;
        core.wait(guard.release())?
    }

    /// As [`PermitsGuard::run`](crate::PermitsGuard::run): [`Ran::Stopped`] does not
    /// occur, since a thread cannot be stopped from outside.
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire_many(2)?;
    /// assert_eq!(guard.run(|_held| 6 * 7).done()?, 42);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(self, work: impl FnOnce(&Holding) -> T) -> Ran<T> {
        let Self { guard, core } = self;
        core.run(guard.holding(), work, guard.release_after_run())
    }

    /// As [`PermitsGuard::lost`](crate::PermitsGuard::lost).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// permits.release_id(guard.ids()[0])?;
    /// # use std::time::Duration;
    /// # assert_eq!(guard.lost_within(Duration::from_millis(20))?, None);
    /// # if false {
    /// guard.lost()?; // when it is renewed next
    /// # }
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
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// use std::time::Duration;
    /// assert_eq!(guard.lost_within(Duration::from_millis(20))?, None);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lost_within(&self, patience: Duration) -> Result<Option<LostReason>> {
        let lost = self.guard.lost();
        self.core.wait(async move { tokio::time::timeout(patience, lost).await.ok() })
    }

    /// As [`PermitsGuard::ids`](crate::PermitsGuard::ids).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert_eq!(guard.ids().len(), 1);
    /// assert_eq!(guard.ids()[0].to_string().len(), 32);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn ids(&self) -> Vec<PermitId> {
        self.guard.ids()
    }

    /// As [`PermitsGuard::permits`](crate::PermitsGuard::permits).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert_eq!(guard.permits(), 1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.guard.permits()
    }

    /// As [`PermitsGuard::is_held`](crate::PermitsGuard::is_held).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert!(guard.is_held());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// As [`PermitsGuard::remaining`](crate::PermitsGuard::remaining).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert!(guard.remaining().unwrap().as_secs() >= 28);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.guard.remaining()
    }

    /// As [`PermitsGuard::owner`](crate::PermitsGuard::owner).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert!(guard.owner().as_str().starts_with(client.id()));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.guard.owner()
    }

    /// As [`PermitsGuard::name`](crate::PermitsGuard::name).
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = leasehold::blocking::Client::in_memory()?;
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3)?;
    /// let guard = permits.acquire()?;
    /// assert_eq!(guard.name().as_str(), "printers");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.guard.name()
    }
}
