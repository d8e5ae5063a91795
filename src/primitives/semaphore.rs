//! The semaphore: so many permits, for whoever asks.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{
    Holding, OnLoss, Ran, Release, run,
    settings::{checked_patience, checked_replicas, replicated},
};
#[cfg(test)]
use crate::engine::held::Watch;
use crate::{
    domain::{CENTURY, LostReason, MOST_PERMITS, Name, Object, Owner, Replicas, Share, WaitBy},
    engine::{
        Engine,
        acquire::Want,
        grant::{LocalTurns, Terms},
        held::Held,
        release::Left,
    },
    error::{Error, Result},
    store::semaphore::{self, Change},
};

/// A number of permits, for all processes together. Whoever has some leaves fewer to others.
///
/// A `Semaphore` is a name: making one costs nothing and touches no network. It has no
/// permits until somebody gives it some, by [`set_if_absent`](Self::set_if_absent) or
/// [`add`](Self::add). Java's Redisson knows it as the `RSemaphore` of the same name, with
/// the same number of free permits.
///
/// **A store that loses its data loses that number**: then there are no permits until somebody says
/// so again, and the log of who asks for some warns. So call it before you acquire, not at the
/// start only.
///
/// **Permits have no lease.** Those of a process that died stay taken until somebody adds
/// as many. So do those of a guard that is dropped just before the program ends: a background
/// task releases them, and it ends with the runtime. Call [`shutdown`](crate::Client::shutdown)
/// at the end of every program. [`Permits`](crate::Permits) have a lease, and come back.
///
/// **A dead client stays in the hash of holders** until somebody deletes its field there, by
/// the commands in the guide. Until then it counts as a holder for those who wait for many.
///
/// Permits that come back while a task of the same client waits for as many go to that task
/// without a request, for at most 10 ms after the store granted them. Then other processes have
/// their turn.
///
/// Tasks of one client are served in the order in which they came, however many permits
/// each wants. Between clients it is first come, first served, but one of ours that has
/// waited for a second is overtaken by no other of ours for half a minute: others leave it
/// what it wants, until it has it, or has not asked for five seconds. For the next half a
/// minute they leave nothing to anybody, since it may wait for permits of the dead; then
/// they do again. Redisson's do not know of that, and may overtake.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// let printers = client.semaphore("printers")?;
/// printers.set_if_absent(3).await?;
/// let two = printers.acquire(2).await?;
/// assert_eq!(printers.available().await?, 1);
/// assert!(printers.try_acquire(2).await?.is_none());
/// two.release().await?.done()?;
/// assert_eq!(printers.available().await?, 3);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    engine: Arc<Engine>,
    object: Object,
    replicas: Option<Replicas>,
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("name", self.name()).finish_non_exhaustive()
    }
}

impl Semaphore {
    pub(crate) fn new(engine: Arc<Engine>, object: Object) -> Self {
        Self { engine, object, replicas: None }
    }

    replicated!("leasehold::Client", "semaphore", |this, replicas| Self { replicas, ..this });

    /// The name of the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// assert_eq!(client.semaphore("printers")?.name().as_str(), "printers");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.name
    }

    /// Passes `permits` if there can be so many.
    fn possible(&self, permits: u32) -> Result<u32> {
        match permits {
            0..=MOST_PERMITS => Ok(permits),
            _ => Err(Error::TooMany { name: self.name().clone(), most: MOST_PERMITS }),
        }
    }

    fn want(&self, permits: u32) -> Result<Want> {
        if permits == 0 {
            return Err(Error::Zero { name: self.name().clone() });
        }
        let permits = self.possible(permits)?;
        let terms = Terms { renewed: false, max_hold: None, local: LocalTurns::default() };
        let replicas = checked_replicas(&self.object, self.replicas)?;
        let (object, share) = (self.object.clone(), Share::Units(permits));
        let (ttl, wait_by) = (CENTURY, WaitBy::Messages);
        Ok(Want { object, share, beside: None, ttl, terms, wait_by, replicas })
    }
}

/// Acquiring.
impl Semaphore {
    /// Waits until so many permits are ours, as long as it takes; also as long as the store
    /// is away, and as long as there are fewer permits at all.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] for no permits, [`Error::TooMany`] beyond what Java counts to.
    /// [`Error::Forbidden`], [`Error::Refused`] or [`Error::WrongType`] if the store rejects the request for good; [`Error::NotReady`]
    /// if the server is full; [`Error::ShutDown`], and [`Error::NoRuntime`] outside of tokio. If
    /// they are [`replicated`](Self::replicated), those of [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind: permits that were on their way are given
    /// back in the background. But poll it or drop it: a future that is neither keeps its
    /// place in this process's line, and what its question was granted.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let printers = client.semaphore("printers")?;
    /// printers.set_if_absent(3).await?;
    /// let guard = printers.acquire(1).await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self, permits: u32) -> Result<SemaphoreGuard> {
        let want = self.want(permits)?;
        Ok(SemaphoreGuard { held: self.engine.acquire(&want).await? })
    }

    /// Runs `work` under so many permits, and gives them back. Waits for them as long as it takes.
    ///
    /// For a bounded wait, acquire first: [`SemaphoreGuard::run`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Error::Lost`] if the permits were lost meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it stands, and the permits are given back in the
    /// background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let printers = client.semaphore("printers")?;
    /// printers.set_if_absent(3).await?;
    /// assert_eq!(printers.run(2, async |_held| 6 * 7).await?, 42);
    /// assert_eq!(printers.available().await?, 3);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, W, F>(&self, permits: u32, work: W) -> Result<T>
    where
        W: FnOnce(Holding) -> F,
        F: Future<Output = T>,
    {
        self.acquire(permits).await?.run(work).await.done()
    }

    /// Waits until so many permits are ours, but no longer than `patience`: whatever the
    /// network does, this returns by then.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if there were still too few. [`Error::Unavailable`] if the store
    /// did not answer, [`Error::NotReady`] if it refused for now. Others as
    /// [`acquire`](Self::acquire). A patience of zero is refused:
    /// [`try_acquire`](Self::try_acquire) asks once.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// use std::time::Duration;
    /// let printers = client.semaphore("printers")?;
    /// printers.set_if_absent(3).await?;
    /// let waited = printers.acquire_within(4, Duration::from_secs(5)).await;
    /// assert!(waited.is_err_and(|error| error.is_busy()));
    /// # Ok(()) }
    /// ```
    pub async fn acquire_within(&self, permits: u32, patience: Duration) -> Result<SemaphoreGuard> {
        let (want, patience) = (self.want(permits)?, checked_patience(patience)?);
        Ok(SemaphoreGuard { held: self.engine.acquire_within(&want, patience).await? })
    }

    /// Takes so many permits if they are free now: one question, one answer.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [question timeout](crate::ClientBuilder::question_timeout). Others as
    /// [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let printers = client.semaphore("printers")?;
    /// assert!(printers.try_acquire(1).await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self, permits: u32) -> Result<Option<SemaphoreGuard>> {
        let want = self.want(permits)?;
        let held = self.engine.try_acquire(&want, None).await?;
        Ok(held.map(|held| SemaphoreGuard { held }))
    }
}

/// How many permits there are.
impl Semaphore {
    /// Makes it a semaphore with so many permits, unless it is one already. Returns whether
    /// it did. Guards of one before, which was deleted, have no permits of this one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [question timeout](crate::ClientBuilder::question_timeout): it may have happened.
    /// [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and
    /// [`Error::WrongType`] as it says. [`Error::TooMany`] beyond what Java counts to.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let printers = client.semaphore("printers")?;
    /// assert!(printers.set_if_absent(10).await?);
    /// assert!(!printers.set_if_absent(20).await?);
    /// assert_eq!(printers.available().await?, 10);
    /// # Ok(()) }
    /// ```
    pub async fn set_if_absent(&self, permits: u32) -> Result<bool> {
        let change = Change::SetIfAbsent(self.possible(permits)?);
        Ok(self.change(change).await? == 1)
    }

    /// Adds so many permits, or takes some away if the number is negative: also those that
    /// are taken, so that fewer than none may be free. Returns how many are free then.
    ///
    /// A request that we repeat because its answer was lost counts once. A second call adds
    /// again, also after [`Error::Unavailable`], after which it may have happened.
    ///
    /// A request that is repeated because its answer was lost counts once.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent); [`Error::Refused`] if more would be free, or
    /// fewer, than Java can count.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let printers = client.semaphore("printers")?;
    /// assert_eq!(printers.add(3).await?, 3);
    /// assert_eq!(printers.add(-5).await?, -2);
    /// # Ok(()) }
    /// ```
    pub async fn add(&self, permits: i64) -> Result<i64> {
        self.possible(u32::try_from(permits.unsigned_abs()).unwrap_or(u32::MAX))?;
        self.change(Change::Add(permits)).await
    }

    /// Takes all free permits away. Returns how many there were.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let printers = client.semaphore("printers")?;
    /// printers.add(3).await?;
    /// assert_eq!(printers.drain().await?, 3);
    /// assert_eq!(printers.drain().await?, 0);
    /// # Ok(()) }
    /// ```
    pub async fn drain(&self) -> Result<u64> {
        self.change(Change::Drain).await.map(i64::unsigned_abs)
    }

    /// How many permits are free now. Fewer than none if some were taken away that are held.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// assert_eq!(client.semaphore("printers")?.available().await?, 0);
    /// # Ok(()) }
    /// ```
    pub async fn available(&self) -> Result<i64> {
        self.engine.ask(self.name(), |store| semaphore::available(store, self.name())).await
    }

    /// Removes the semaphore. Returns whether there was one. Who has permits has none of
    /// the next semaphore of this name, if this crate makes it; who waits goes on waiting.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let printers = client.semaphore("printers")?;
    /// printers.set_if_absent(3).await?;
    /// assert!(printers.delete().await?);
    /// assert_eq!(printers.available().await?, 0);
    /// # Ok(()) }
    /// ```
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.change(Change::Delete).await? == 1)
    }

    async fn change(&self, change: Change) -> Result<i64> {
        let (name, receipt) = (self.name(), self.engine.receipt());
        self.engine.change(name, |store| semaphore::change(store, name, change, &receipt)).await
    }
}

/// Permits that are ours.
///
/// Dropping the guard gives them back **soon**, in the background, where an error can only
/// be logged. Call [`release`](Self::release) to give them back now, and
/// [`forget`](Self::forget) to leave them taken.
///
/// **If the runtime ends first, they stay taken for ever.** Call
/// [`shutdown`](crate::Client::shutdown) before `main` returns: it completes such releases.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// # client.semaphore("printers")?.set_if_absent(3).await?;
/// let guard = client.semaphore("printers")?.acquire(2).await?;
/// assert_eq!(guard.permits(), 2);
/// assert_eq!(guard.release().await?, leasehold::Release::Released);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the permits are given back as soon as the guard is dropped"]
pub struct SemaphoreGuard {
    held: Held,
}

impl SemaphoreGuard {
    #[cfg(test)]
    pub(crate) fn watch(&self) -> &Watch {
        &self.held.watch
    }

    /// Gives the permits back, and tells whether they were still ours.
    ///
    /// They are not if the semaphore was deleted, or Redis has lost what it knew. Then
    /// nothing is given back: that would make permits of nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [release timeout](crate::ClientBuilder::release_timeout): the release goes on in the
    /// background. [`Error::NotReady`], [`Error::Forbidden`] and [`Error::Refused`] if the
    /// store refused.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the release: it goes on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// use leasehold::{LostReason, Release};
    /// let printers = client.semaphore("printers")?;
    /// printers.set_if_absent(3).await?;
    /// let guard = printers.acquire(2).await?;
    /// printers.delete().await?;
    /// let release = guard.release().await?;
    /// assert!(matches!(release, Release::AlreadyGone { reason: LostReason::NotOurs, .. }));
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<Release> {
        let name = self.name().clone();
        Ok(match self.held.release().await? {
            Left::Shares(count) => Release::StillHeld { count },
            Left::Nothing => Release::Released,
            Left::Lost { reason, holder } => Release::AlreadyGone { name, reason, holder },
        })
    }

    /// Runs `work` under these permits, and gives them back.
    ///
    /// As [`LockGuard::run`](crate::LockGuard::run): work whose permits are lost is dropped.
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::run`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # client.semaphore("printers")?.set_if_absent(3).await?;
    /// let guard = client.semaphore("printers")?.acquire(2).await?;
    /// assert_eq!(guard.run(async |_held| 6 * 7).await.done()?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, W, F>(self, work: W) -> Ran<T>
    where
        W: FnOnce(Holding) -> F,
        F: Future<Output = T>,
    {
        run::run(self.held, OnLoss::default(), work).await
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn holding(&self) -> Holding {
        Holding::new(self.held.watch.clone())
    }

    #[cfg(feature = "blocking")]
    pub(crate) async fn release_after_run(self) -> Option<LostReason> {
        run::release_after_run(self.held).await
    }

    /// Leaves the permits taken, for somebody else to give back by [`Semaphore::add`]. The
    /// store is told in the background that they are nobody's.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let printers = client.semaphore("printers")?;
    /// printers.set_if_absent(3).await?;
    /// printers.acquire(2).await?.forget();
    /// assert_eq!(printers.available().await?, 1);
    /// printers.add(2).await?;
    /// # Ok(()) }
    /// ```
    pub fn forget(self) {
        self.held.forget();
    }

    /// How many permits they are.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # client.semaphore("printers")?.set_if_absent(3).await?;
    /// assert_eq!(client.semaphore("printers")?.acquire(2).await?.permits(), 2);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.held.watch.claim().units()
    }

    /// Waits until the permits are not ours any more, and tells why: also, with
    /// [`LostReason::Released`], when they are given back.
    ///
    /// Without a lease nobody asks whether they still are, but after the connection was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # client.semaphore("printers")?.set_if_absent(3).await?;
    /// let guard = client.semaphore("printers")?.acquire(2).await?;
    /// let lost = guard.lost();
    /// drop(guard);
    /// assert_eq!(lost.await, leasehold::LostReason::Released);
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.held.watch.clone().over()
    }

    /// Whether the permits may still be believed to be ours.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # client.semaphore("printers")?.set_if_absent(3).await?;
    /// assert!(client.semaphore("printers")?.acquire(2).await?.is_held());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.watch.remaining().is_ok()
    }

    /// Who has them: unique to this guard.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # client.semaphore("printers")?.set_if_absent(3).await?;
    /// let guard = client.semaphore("printers")?.acquire(2).await?;
    /// assert_eq!(guard.owner().as_str(), format!("{}:2", client.id()));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.held.watch.claim().owner
    }

    /// The name of the semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # client.semaphore("printers")?.set_if_absent(3).await?;
    /// assert_eq!(client.semaphore("printers")?.acquire(2).await?.name().as_str(), "printers");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.held.watch.claim().name()
    }
}
