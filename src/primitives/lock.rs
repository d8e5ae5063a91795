//! The lock: one holder at a time.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Holding, LockGuard, OnLoss,
    settings::{Settings, checked_patience, on_loss, replicated, settings},
};
#[cfg(feature = "blocking")]
use crate::engine::acquire::Patience;
use crate::{
    domain::{Holder, LostReason, MOST_TOKEN, Name, Object, Owner, Replicas, WaitBy},
    engine::{
        Engine,
        acquire::{Want, Within},
        grant::LocalTurns,
        held::{Held, Watch},
    },
    error::{Error, Result},
    store,
};

/// A lock that at most one holder has at a time, in all processes together.
///
/// A `Lock` is a name and some settings: making one costs nothing and touches
/// no network. Clone it, keep it, or make another of the same name. Java's
/// Redisson knows it as the `RLock` of the same name.
///
/// It is **not reentrant**: a task that acquires it twice waits for itself. To
/// enter again what you hold, ask the guard: [`LockGuard::reenter`].
///
/// Without further settings a background task renews the lock until its guard
/// goes, and it ends 30 seconds after its holder died. With
/// [`lease`](Self::lease) it is **never renewed** and ends after that time,
/// whether or not the work is done.
///
/// Waiters of one process are served in the order in which they came, and so are
/// processes while the lock is contended: [the guide][crate::docs::guide] says when.
///
/// # Examples
///
/// Wait for the lock, work, give it back:
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// let guard = client.lock("orders:42")?.acquire().await?;
/// // … the work …
/// guard.release().await?.done()?;
/// # Ok(()) }
/// ```
///
/// Skip the work if another process is already at it:
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// if let Some(guard) = client.lock("reports/daily")?.try_acquire().await? {
///     // … the work …
///     guard.release().await?.done()?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Lock {
    engine: Arc<Engine>,
    object: Object,
    settings: Settings,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", self.name())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Settings. They are checked when the lock is used first: a duration that
/// Redis cannot keep is refused with [`Error::Duration`].
impl Lock {
    pub(crate) fn new(engine: Arc<Engine>, object: Object, ttl: Duration) -> Self {
        Self { engine, object, settings: Settings::new(ttl) }
    }

    pub(crate) fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    settings!("leasehold::Client", "lock");
    on_loss!("lock");
    replicated!("leasehold::Client", "lock", |this, replicas| {
        this.set(|settings| settings.replicas = replicas)
    });

    /// The name of the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// assert_eq!(client.lock("orders:42")?.name().as_str(), "orders:42");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.name
    }

    /// Enters once more what is held, of which as many replicas must know as this lock wants.
    #[cfg(feature = "blocking")]
    pub(crate) async fn enter_again(
        &self,
        holding: &Holding,
        patience: Patience,
    ) -> Result<LockGuard> {
        let want = self.want()?;
        Ok(self.guard(self.engine.enter_again(&want, holding.watch(), patience).await?))
    }

    /// Reads beside the one that writes, as long as it does. Nothing is waited for after `until`.
    pub(crate) async fn beside(&self, other: &Watch, until: Option<Instant>) -> Result<LockGuard> {
        let lost = |reason| Error::Lost { name: self.name().clone(), reason };
        if !other.is_of(&self.engine) {
            // Who comes here next to read would share a hold beside a writer that it does not know.
            return Err(Error::NotWriting { name: self.name().clone() });
        }
        other.remaining().map_err(lost)?;
        // From here on it is more than a grant, and does not go to the next one here.
        other.note_beside();
        let want = Want { beside: Some(other.claim().owner.clone()), ..self.want()? };
        let held = self.engine.try_acquire(&want, until).await?;
        let held =
            held.ok_or_else(|| lost(other.remaining().err().unwrap_or(LostReason::NotOurs)))?;
        Ok(self.guard(held))
    }

    /// Whether it wants so many replicas.
    #[cfg(test)]
    pub(crate) fn wants_replicas(&self, number: u32) -> bool {
        self.settings.replicas.is_some_and(|replicas| replicas.least >= number)
    }

    #[cfg(any(feature = "blocking", test))]
    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    fn want(&self) -> Result<Want> {
        self.settings.want(&self.object)
    }

    fn guard(&self, held: Held) -> LockGuard {
        LockGuard::new(held, self.settings.on_loss)
    }
}

/// Acquiring.
impl Lock {
    /// Waits until the lock is ours, as long as it takes.
    ///
    /// Also as long as the store is away: it is asked again until it answers.
    /// [`acquire_within`](Self::acquire_within) bounds all of that.
    ///
    /// # Errors
    ///
    /// [`Error::Duration`] if a setting cannot be kept;
    /// [`Error::Forbidden`],
    /// [`Error::Refused`] or
    /// [`Error::WrongType`] if the store rejects the
    /// request for good; [`Error::NotReady`] if the server
    /// is full; [`Error::ShutDown`], and
    /// [`Error::NoRuntime`] outside of tokio. Of a lock that is [`replicated`](Self::replicated),
    /// [`Error::NotReplicated`]; [`Error::Unavailable`] if replicas could not be asked, and
    /// [`Error::Lost`] if the lease ended meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind: a grant that was on its way
    /// is given back in the background. But poll it or drop it: a future that is
    /// neither keeps its place in this process's queue, and if its question was
    /// granted the lock is nobody's until the ttl is over.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let guard = client.lock("orders:42")?.acquire().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<LockGuard> {
        let want = self.want()?;
        Ok(self.guard(self.engine.acquire(&want).await?))
    }

    /// Waits until the lock is ours, but no longer than `patience`: whatever the
    /// network does, this returns by then. Its place in the queue goes with it: the
    /// next call begins at the end.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if somebody else still had
    /// it; it names the holder, or the waiter for whom the lock was reserved for a
    /// moment. [`Error::Unavailable`]
    /// if the store did not answer, [`Error::NotReady`]
    /// if it refused for now. Others as [`acquire`](Self::acquire). A
    /// patience of zero is refused: [`try_acquire`](Self::try_acquire) asks once.
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
    /// use std::time::Duration;
    /// let guard = client.lock("orders:42")?.acquire_within(Duration::from_secs(5)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire_within(&self, patience: Duration) -> Result<LockGuard> {
        self.acquire_in_time(checked_patience(patience)?).await
    }

    /// The same with a patience that began before.
    pub(crate) async fn acquire_in_time(&self, patience: Within) -> Result<LockGuard> {
        let want = self.want()?;
        Ok(self.guard(self.engine.acquire_within(&want, patience).await?))
    }

    /// Takes the lock if it is free now: one question, one answer.
    ///
    /// It has no place in the queue. In a loop it may never enter a lock that others
    /// wait for: wait with [`acquire_within`](Self::acquire_within).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not
    /// answer within the
    /// [question timeout](crate::ClientBuilder::question_timeout). Others as [`acquire`](Self::acquire).
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
    /// let first = client.lock("orders:42")?.try_acquire().await?;
    /// let second = client.lock("orders:42")?.try_acquire().await?;
    /// assert!(first.is_some() && second.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        let want = self.want()?;
        Ok(self.engine.try_acquire(&want, None).await?.map(|held| self.guard(held)))
    }

    /// Waits for the lock, runs `work` under it, gives it back, and returns what
    /// the work returned. It was protected from beginning to end, as far as this
    /// client's clock and the last answer of the store tell, or this is an error.
    ///
    /// Work is stopped when the lock is lost, as [`on_loss`](Self::on_loss)
    /// says. A panic of the work releases the lock, then goes on. The result waits
    /// for the release no longer than the
    /// [run release timeout](crate::ClientBuilder::run_release_timeout).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); then the work was not begun.
    /// [`Error::Lost`], with the reason, if the lock was lost
    /// while it ran. To know whether such work was stopped or went on to its end,
    /// and to have its result all the same, run it under a guard:
    /// [`LockGuard::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it stands and releases the lock
    /// in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let lock = client.lock("nightly-close")?;
    /// let sum = lock.run(async |_held| (1..=4).sum::<i32>()).await?;
    /// assert_eq!(sum, 10);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, W, F>(&self, work: W) -> Result<T>
    where
        W: FnOnce(Holding) -> F,
        F: Future<Output = T>,
    {
        self.acquire().await?.run(work).await.done()
    }

    /// As [`run`](Self::run), but waits for the lock no longer than `patience`.
    ///
    /// # Errors
    ///
    /// As [`acquire_within`](Self::acquire_within), and
    /// [`Error::Lost`].
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// use std::time::Duration;
    /// let lock = client.lock("job")?;
    /// assert_eq!(lock.run_within(Duration::from_secs(5), async |_held| "done").await?, "done");
    /// # Ok(()) }
    /// ```
    pub async fn run_within<T, W, F>(&self, patience: Duration, work: W) -> Result<T>
    where
        W: FnOnce(Holding) -> F,
        F: Future<Output = T>,
    {
        self.acquire_within(patience).await?.run(work).await.done()
    }

    /// As [`run`](Self::run) if the lock is free now; else `None`, and the work
    /// is not begun.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), and
    /// [`Error::Lost`].
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let lock = client.lock("cron/cleanup")?;
    /// let elsewhere = lock.acquire().await?;
    /// assert!(lock.try_run(async |_held| ()).await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn try_run<T, W, F>(&self, work: W) -> Result<Option<T>>
    where
        W: FnOnce(Holding) -> F,
        F: Future<Output = T>,
    {
        match self.try_acquire().await? {
            Some(guard) => guard.run(work).await.done().map(Some),
            None => Ok(None),
        }
    }
}

/// Looking at the lock from outside.
impl Lock {
    /// Whether anybody holds the lock now, or a release has reserved it for the next
    /// waiter, for 750 ms at most.
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder).
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
    /// assert!(!client.lock("orders:42")?.is_locked().await?);
    /// # Ok(()) }
    /// ```
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.holder().await?.is_some())
    }

    /// Who holds the lock now, how many times, and for how long without renewal. A
    /// waiter for whom a release has reserved it, for 750 ms at most, looks like a holder.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not
    /// answer within the
    /// [question timeout](crate::ClientBuilder::question_timeout); [`Error::NotReady`],
    /// [`Error::Forbidden`],
    /// [`Error::Refused`] and
    /// [`Error::WrongType`] as it says.
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
    /// let lock = client.lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// let holder = lock.holder().await?.expect("it is held");
    /// assert_eq!(holder.owner(), guard.owner());
    /// # Ok(()) }
    /// ```
    pub async fn holder(&self) -> Result<Option<Holder>> {
        self.engine.holder(&self.object).await
    }

    /// How many times `owner` holds the lock now, or has it reserved, for 750 ms at most:
    /// 0 if it does not.
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder).
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
    /// let lock = client.lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// let again = guard.reenter().await?;
    /// assert_eq!(lock.held_by(guard.owner()).await?, 2);
    /// # Ok(()) }
    /// ```
    pub async fn held_by(&self, owner: &Owner) -> Result<u32> {
        self.engine.held_by(&self.object, owner).await
    }

    /// Takes the lock from whoever holds it, and wakes a waiter. Returns
    /// whether it was held.
    ///
    /// **The holder goes on working** until it notices: at once if its process
    /// also waits for this lock, at its next renewal otherwise.
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder). After [`Error::Unavailable`]
    /// it may have happened, and it is not tried again: that might take the
    /// lock from the next one.
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
    /// let lock = client.lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// assert!(lock.force_release().await?);
    /// assert!(!lock.is_locked().await?);
    /// # Ok(()) }
    /// ```
    pub async fn force_release(&self) -> Result<bool> {
        self.engine.force_release(&self.object).await
    }

    /// Raises the counter of tokens: see [`FencedLock::raise_token`](super::FencedLock).
    pub(crate) async fn raise_token(&self, least: u64) -> Result<u64> {
        if least > MOST_TOKEN {
            return Err(Error::TokenTooHigh { name: self.name().clone(), most: MOST_TOKEN });
        }
        let name = self.name();
        let raise = |store| store::lock::raise_token(store, name, least);
        let counter = self.engine.ask(name, raise).await?;
        Ok(counter.unsigned_abs())
    }
}
