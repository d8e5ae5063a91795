//! The lock, for threads.

use std::{rc::Rc, sync::Arc, time::Duration};

use super::{
    LockGuard, OwnedLockGuard,
    reentry::{Entered, Key},
    waiting::Core,
};
use crate::{
    Holder, Holding, Name, Owner, Replicas, WaitBy,
    engine::{acquire::Patience, grant::LocalTurns},
    error::{Error, Result},
    primitives::{
        self, LockGuard as AsyncGuard,
        settings::{Settings, checked_patience, replicated, settings},
    },
};

/// As [`Lock`](crate::Lock), for threads.
///
/// It is **reentrant by thread**: what a thread holds it may acquire again, with
/// [`acquire`](Self::acquire) and its kin. The settings of the first acquisition
/// stay in force.
///
/// # Examples
///
/// ```
/// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
/// let guard = lock.acquire()?;
/// let other = std::thread::spawn(move || lock.try_acquire().map(|guard| guard.is_some()));
/// assert!(!other.join().unwrap()?);
/// guard.release()?.done()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    core: Arc<Core>,
    lock: primitives::Lock,
}

/// Settings, as those of [`Lock`](crate::Lock).
impl Lock {
    pub(super) fn new(core: Arc<Core>, lock: primitives::Lock) -> Self {
        Self { core, lock }
    }

    pub(super) fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        self.lock = self.lock.set(change);
        self
    }

    settings!("leasehold::blocking::Client", "lock");
    replicated!("leasehold::blocking::Client", "lock", |this, replicas| {
        this.set(|settings| settings.replicas = replicas)
    });

    /// As [`Lock::name`](crate::Lock::name).
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// assert_eq!(lock.name().as_str(), "orders:42");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.lock.name()
    }
}

/// Acquiring, with the thread as the owner.
impl Lock {
    /// As [`Lock::acquire`](crate::Lock::acquire), but enters again what this
    /// thread holds.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = leasehold::blocking::Client::in_memory()?.lock("orders:42")?.acquire()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire(&self) -> Result<LockGuard> {
        match self.enter_again(Patience::Endless)? {
            Some(guard) => Ok(guard),
            None => Ok(self.entered(self.core.wait(self.lock.acquire())??)),
        }
    }

    /// As [`Lock::acquire_within`](crate::Lock::acquire_within), but enters
    /// again what this thread holds.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.acquire_within(Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_within(&self, patience: Duration) -> Result<LockGuard> {
        let patience = checked_patience(patience)?;
        match self.enter_again(Patience::Within(patience))? {
            Some(guard) => Ok(guard),
            None => Ok(self.entered(self.core.wait(self.lock.acquire_in_time(patience))??)),
        }
    }

    /// As [`Lock::try_acquire`](crate::Lock::try_acquire), but enters again what
    /// this thread holds.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// assert!(lock.try_acquire()?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        match self.enter_again(Patience::Once)? {
            Some(guard) => Ok(Some(guard)),
            None => {
                let guard = self.core.wait(self.lock.try_acquire())??;
                Ok(guard.map(|guard| self.entered(guard)))
            }
        }
    }

    fn key(&self) -> Key {
        (self.core.client().id().into(), self.lock.object().clone())
    }

    /// Another guard of what this thread holds, if it does.
    fn enter_again(&self, patience: Patience) -> Result<Option<LockGuard>> {
        let Some(entered) = Entered::find(&self.key()) else { return self.enter_beside(patience) };
        match self.core.wait(self.lock.enter_again(&entered.holding, patience))? {
            Ok(guard) => Ok(Some(self.guard(guard, entered))),
            // Over in this very moment: acquire it anew, unless the other side is yet there.
            Err(Error::Lost { .. }) => self.enter_beside(patience),
            Err(error) => Err(error),
        }
    }

    /// What this thread may have of one side because it holds the other.
    fn enter_beside(&self, patience: Patience) -> Result<Option<LockGuard>> {
        let (client, object) = self.key();
        let other = object.other_side().and_then(|side| Entered::find(&(client, side)));
        match other {
            None => Ok(None),
            Some(writing) if object.manner().is_shared() => {
                let beside = self.lock.beside(writing.holding.watch(), patience.until());
                Ok(Some(self.entered(self.core.wait(beside)??)))
            }
            Some(_) => Err(Error::Upgrade { name: object.name }),
        }
    }

    fn entered(&self, guard: AsyncGuard) -> LockGuard {
        let entered = Entered::by(self.key(), &guard);
        self.guard(guard, entered)
    }

    fn guard(&self, guard: AsyncGuard, entered: Rc<Entered>) -> LockGuard {
        LockGuard::new(guard, &self.core, entered)
    }
}

/// Acquiring, with the guard as the owner.
impl Lock {
    /// As [`Lock::acquire`](crate::Lock::acquire): the guard may move to another
    /// thread, and a thread that acquires twice waits for itself.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.acquire_owned()?;
    /// assert!(lock.try_acquire()?.is_none());
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_owned(&self) -> Result<OwnedLockGuard> {
        let guard = self.core.wait(self.lock.acquire())??;
        Ok(OwnedLockGuard::new(guard, &self.core))
    }

    /// As [`Lock::acquire_within`](crate::Lock::acquire_within), for a guard
    /// that may move.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.acquire_owned_within(Duration::from_secs(5))?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn acquire_owned_within(&self, patience: Duration) -> Result<OwnedLockGuard> {
        let guard = self.core.wait(self.lock.acquire_within(patience))??;
        Ok(OwnedLockGuard::new(guard, &self.core))
    }

    /// As [`Lock::try_acquire`](crate::Lock::try_acquire), for a guard that may
    /// move.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// assert!(lock.try_acquire_owned()?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_acquire_owned(&self) -> Result<Option<OwnedLockGuard>> {
        let guard = self.core.wait(self.lock.try_acquire())??;
        Ok(guard.map(|guard| OwnedLockGuard::new(guard, &self.core)))
    }
}

/// Working under the lock.
///
/// A thread cannot be stopped from outside: work looks at its [`Holding`] before
/// each side effect. There is no [`on_loss`](crate::Lock::on_loss) here.
impl Lock {
    /// As [`Lock::run`](crate::Lock::run).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Error::Lost`] if
    /// the lock was lost meanwhile: [`LockGuard::run`] has the result of such work.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("nightly-close")?;
    /// let answer = lock.run(|held| held.check().map(|()| 6 * 7))??;
    /// assert_eq!(answer, 42);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(&self, work: impl FnOnce(&Holding) -> T) -> Result<T> {
        self.acquire()?.run(work).done()
    }

    /// As [`Lock::run_within`](crate::Lock::run_within).
    ///
    /// # Errors
    ///
    /// As [`acquire_within`](Self::acquire_within), and
    /// [`Error::Lost`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("nightly-close")?;
    /// assert_eq!(lock.run_within(Duration::from_secs(5), |_held| "done")?, "done");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run_within<T>(&self, patience: Duration, work: impl FnOnce(&Holding) -> T) -> Result<T> {
        self.acquire_within(patience)?.run(work).done()
    }

    /// As [`Lock::try_run`](crate::Lock::try_run).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), and
    /// [`Error::Lost`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("cron/cleanup")?;
    /// assert!(lock.try_run(|_held| ())?.is_some());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn try_run<T>(&self, work: impl FnOnce(&Holding) -> T) -> Result<Option<T>> {
        self.try_acquire()?.map(|guard| guard.run(work).done()).transpose()
    }
}

/// Looking at the lock from outside.
impl Lock {
    /// As [`Lock::is_locked`](crate::Lock::is_locked).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// assert!(!lock.is_locked()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn is_locked(&self) -> Result<bool> {
        self.core.wait(self.lock.is_locked())?
    }

    /// As [`Lock::holder`](crate::Lock::holder).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.acquire()?;
    /// assert_eq!(lock.holder()?.expect("it is held").owner(), guard.owner());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn holder(&self) -> Result<Option<Holder>> {
        self.core.wait(self.lock.holder())?
    }

    /// As [`Lock::held_by`](crate::Lock::held_by).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.acquire()?;
    /// assert_eq!(lock.held_by(guard.owner())?, 1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn held_by(&self, owner: &Owner) -> Result<u32> {
        self.core.wait(self.lock.held_by(owner))?
    }

    /// As [`Lock::force_release`](crate::Lock::force_release).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InsideAsync`].
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = leasehold::blocking::Client::in_memory()?.lock("orders:42")?;
    /// let guard = lock.acquire()?;
    /// assert!(lock.force_release()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn force_release(&self) -> Result<bool> {
        self.core.wait(self.lock.force_release())?
    }
}

impl Lock {
    pub(super) fn raise_token(&self, least: u64) -> Result<u64> {
        self.core.wait(self.lock.raise_token(least))?
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::{MemoryStore, blocking::Client};

    const SOON: Duration = Duration::from_millis(20);

    /// It waited for itself: what it read was left to it by who took away what it wrote.
    #[test]
    fn a_thread_that_reads_on_when_its_writing_was_taken_away_is_refused_to_write() {
        let store = MemoryStore::new();
        let [ours, theirs] = [(); 2].map(|()| Client::sharing(&store).unwrap());
        let prices = ours.read_write("prices").unwrap();
        let writing = prices.write().acquire().unwrap();
        let reading = prices.read().acquire().unwrap();
        assert!(theirs.read_write("prices").unwrap().write().force_release().unwrap());
        let refused = prices.write().acquire_within(SOON).unwrap_err();
        assert!(matches!(refused, Error::Upgrade { .. }), "{refused:?}");
        assert!(reading.is_held() && !writing.is_held());

        drop((writing, reading));
        prices.write().acquire().unwrap().release().unwrap().done().unwrap();
    }

    /// Its replicas were waited for by their own time alone, and the answer until the lease ended.
    #[test]
    fn who_enters_again_waits_no_longer_than_its_patience() {
        const LONG: Duration = Duration::from_secs(30);
        let store = MemoryStore::new();
        let client = Client::sharing(&store).unwrap();
        let (door, prices) = (client.lock("door").unwrap(), client.read_write("prices").unwrap());
        let (_first, _writing) = (door.acquire().unwrap(), prices.write().acquire().unwrap());
        let begun = Instant::now();
        for lock in [&door, &prices.read()] {
            let wants = lock.clone().replicated(Replicas::at_least(1).within(LONG));
            let refused = wants.acquire_within(SOON).unwrap_err();
            assert!(matches!(refused, Error::NotReplicated { got: 0, .. }), "{refused:?}");
        }
        store.stall();
        for lock in [&door, &prices.read()] {
            let refused = lock.acquire_within(SOON).unwrap_err();
            assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        let refused = door.try_acquire().unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
        assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
    }

    /// It was entered as it was, though its caller wanted more than whoever entered first.
    #[test]
    fn what_too_few_replicas_have_is_not_entered_again_by_who_wants_more() {
        let store = MemoryStore::new();
        let door = Client::sharing(&store).unwrap().lock("door").unwrap();
        let first = door.acquire().unwrap();
        let wants = door.replicated(Replicas::at_least(1).within(SOON));
        for refused in [
            wants.acquire().unwrap_err(),
            wants.acquire_within(20 * SOON).unwrap_err(),
            wants.try_acquire().unwrap_err(),
        ] {
            assert!(matches!(refused, Error::NotReplicated { got: 0, .. }), "{refused:?}");
        }
        assert_eq!((first.is_held(), first.count()), (true, 1));

        store.set_replicas(1);
        let again = wants.acquire().unwrap();
        assert_eq!((again.owner(), again.count()), (first.owner(), 2));
        // What they have they are asked about once.
        store.set_replicas(0);
        assert_eq!(wants.try_acquire().unwrap().unwrap().count(), 3);
    }
}
