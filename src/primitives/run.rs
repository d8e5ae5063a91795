//! Work that stops when the lock is lost.

use std::{
    future::Future,
    num::NonZero,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::Pin,
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{runtime::Handle, time::timeout};

use super::guarded;
use crate::{
    domain::{LostReason, Name, Owner, Script, Value, Write},
    engine::{
        held::{Held, Watch},
        release::Left,
    },
    error::{Error, Result},
};

/// What happens to work whose lock is lost while it runs.
///
/// Stopping work does not undo what it has already sent: only a check where the
/// write lands does.
///
/// # Examples
///
/// ```
/// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// use leasehold::OnLoss;
/// let grace = Duration::from_secs(2);
/// let lock = client.lock("nightly-close")?.on_loss(OnLoss::Signal { grace });
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum OnLoss {
    /// The work is dropped at the await where it stands.
    #[default]
    Drop,
    /// The work goes on for so long, and can learn of it by [`Holding::lost`];
    /// then it is dropped.
    Signal {
        /// How long it may go on.
        grace: Duration,
    },
}

/// What became of work that ran under a guard: see
/// [`LockGuard::run`](crate::LockGuard::run).
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, Ran};
/// let guard = Client::in_memory().lock("nightly-close")?.acquire().await?;
/// match guard.run(async |_held| 6 * 7).await {
///     Ran::Done(answer) => assert_eq!(answer, 42),
///     Ran::Overran { value, reason, .. } => eprintln!("check {value}: {reason}"),
///     Ran::Stopped { reason, .. } => eprintln!("stopped: {reason}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "the lock may have been lost while the work ran: `done()` makes that an error"]
pub enum Ran<T> {
    /// The work was done, and the lock was ours from beginning to end, as far as this
    /// client's clock and the last answer of the store tell. A store that is silent for
    /// longer than the [run release timeout](crate::ClientBuilder::run_release_timeout)
    /// confirms it later, or not.
    Done(T),
    /// The work was done, but the lock was lost meanwhile: somebody else may
    /// have been at the same work.
    Overran {
        /// The lock that was lost.
        name: Name,
        /// What the work returned.
        value: T,
        /// Why the lock was lost.
        reason: LostReason,
    },
    /// The lock was lost, and the work was stopped.
    Stopped {
        /// The lock that was lost.
        name: Name,
        /// Why the lock was lost.
        reason: LostReason,
    },
}

impl<T> Ran<T> {
    /// What became of work that was done, and whose lock may be `lost`.
    pub(crate) fn of(value: T, name: Name, lost: Option<LostReason>) -> Self {
        match lost {
            None => Self::Done(value),
            Some(reason) => Self::Overran { name, value, reason },
        }
    }

    /// The result of work that was protected from beginning to end.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let guard = leasehold::Client::in_memory().lock("nightly-close")?.acquire().await?;
    /// assert_eq!(guard.run(async |_held| 6 * 7).await.done()?, 42);
    /// # Ok(()) }
    /// ```
    pub fn done(self) -> Result<T> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Overran { name, reason, .. } | Self::Stopped { name, reason } => {
                Err(Error::Lost { name, reason })
            }
        }
    }
}

/// What work may know of the lock that it runs under. Cheap to clone; it cannot
/// release the lock, and does not keep it.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # async fn step() {}
/// let lock = leasehold::Client::in_memory().lock("nightly-close")?;
/// let work = lock.run(async |held| {
///     for _ in 0..3 {
///         held.check()?; // before each side effect
///         step().await;
///     }
///     Ok::<(), leasehold::Error>(())
/// });
/// work.await??; // the lock's error, then the work's own
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Holding {
    watch: Watch,
}

impl Holding {
    pub(crate) fn new(watch: Watch) -> Self {
        Self { watch }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Writes to keys beside the lock, as [`LockGuard::write`](crate::LockGuard::write) does.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::Write;
    /// let lock = leasehold::Client::in_memory().lock("nightly-close")?;
    /// lock.run(async |held| held.write([Write::set("closed", "yes")]).await).await??;
    /// # Ok(()) }
    /// ```
    pub async fn write(&self, writes: impl IntoIterator<Item = Write>) -> Result<()> {
        guarded::write(&self.watch, writes.into_iter().collect()).await
    }

    /// Runs a script of yours on the server, as [`LockGuard::eval`](crate::LockGuard::eval) does.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(lock: leasehold::Lock) -> Result<(), leasehold::Error> {
    /// use leasehold::Script;
    /// let count = Script::new("return redis.call('INCR', KEYS[1])").key("closings");
    /// let closings = lock.run(async |held| held.eval(count).await).await??;
    /// println!("{:?} closings", closings.as_int());
    /// # Ok(()) }
    /// ```
    pub async fn eval(&self, script: Script) -> Result<Value> {
        guarded::eval(&self.watch, script).await
    }

    /// Waits until the hold is over, as [`LockGuard::lost`](crate::LockGuard::lost) does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let lock = leasehold::Client::in_memory().lock("nightly-close")?;
    /// let lost = lock.run(async |held| held.lost()).await?;
    /// assert_eq!(lost.await, leasehold::LostReason::Released);
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.watch.clone().over()
    }

    /// Whether the lock may still be believed to be ours.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let lock = leasehold::Client::in_memory().lock("nightly-close")?;
    /// assert!(lock.run(async |held| held.is_held()).await?);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.remaining().is_some()
    }

    /// Passes if the lock is ours.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it is not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let lock = leasehold::Client::in_memory().lock("nightly-close")?;
    /// lock.run(async |held| held.check()).await??;
    /// # Ok(()) }
    /// ```
    pub fn check(&self) -> Result<()> {
        let lost = |reason| Error::Lost { name: self.name().clone(), reason };
        self.watch.remaining().map(drop).map_err(lost)
    }

    /// How long the lock is ours without another renewal.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let lock = leasehold::Client::in_memory().lock("nightly-close")?;
    /// let left = lock.run(async |held| held.remaining()).await?;
    /// assert!(left.is_some_and(|left| left.as_secs() >= 28));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.watch.remaining().ok()
    }

    /// The number of this hold, if its lock is a [`FencedLock`](crate::FencedLock).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// assert_eq!(client.lock("orders:42")?.run(async |held| held.token()).await?, None);
    /// assert!(client.fenced("orders:42")?.run(async |held| held.token()).await?.is_some());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.watch.token().map(NonZero::get)
    }

    /// Returns the [`token`](Self::token) as SQL's `bigint` has it, which is signed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let bigint = client.fenced("orders:42")?.run(async |held| held.token_i64()).await?;
    /// assert_eq!(bigint, Some(1_i64));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn token_i64(&self) -> Option<i64> {
        self.token().map(u64::cast_signed)
    }

    /// Who holds.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let lock = leasehold::Client::in_memory().lock("nightly-close")?;
    /// let owner = lock.run(async |held| held.owner().clone()).await?;
    /// assert!(owner.as_str().ends_with(":1"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        // The ids of permits are made of it: see `PermitsGuard::owner`.
        if self.watch.claim().units() > 0 {
            self.watch.note_more();
        }
        &self.watch.claim().owner
    }

    /// What is held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let lock = leasehold::Client::in_memory().lock("nightly-close")?;
    /// let name = lock.run(async |held| held.name().clone()).await?;
    /// assert_eq!(name.as_str(), "nightly-close");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.watch.claim().name()
    }
}

/// Runs `work` under `held`, then gives it back.
pub(super) async fn run<T, W, F>(held: Held, on_loss: OnLoss, work: W) -> Ran<T>
where
    W: FnOnce(Holding) -> F,
    F: Future<Output = T>,
{
    let (holding, name) = (Holding::new(held.watch.clone()), held.watch.claim().name().clone());
    let lost = holding.lost();
    // The call of the closure may panic as well as the future that it makes.
    let work = async move { work(holding).await };
    let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());

    let reason = tokio::select! {
        biased;
        reason = lost => reason,
        done = work.as_mut() => return finish(held, done).await,
    };
    // Whatever the work has is gone before anybody else can enter.
    let value = wind_up(on_loss, work).await;
    // What is left of it in the store, as after `max_hold`, goes in the background: a
    // loss is told at once.
    drop(held);
    match value {
        Some(Ok(value)) => Ran::Overran { name, value, reason },
        Some(Err(panic)) => resume_unwind(panic),
        None => Ran::Stopped { name, reason },
    }
}

/// Lets work whose lock is lost come to an end, as far as it may.
async fn wind_up<T>(on_loss: OnLoss, work: Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    match on_loss {
        OnLoss::Drop => None,
        OnLoss::Signal { grace } => at_most(grace, work).await,
    }
}

/// Waits for `future` no longer than `limit`, and not at all where there are no timers.
async fn at_most<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    Handle::try_current().ok()?;
    timeout(limit, future).await.ok()
}

async fn finish<T>(held: Held, done: std::thread::Result<T>) -> Ran<T> {
    let name = held.watch.claim().name().clone();
    let lost = release_after_run(held).await;
    match done {
        Ok(value) => Ran::of(value, name, lost),
        Err(panic) => resume_unwind(panic),
    }
}

/// Gives back what is held behind work that is done, and returns why it was lost before, if it
/// was. Waits for that only for a moment.
pub(crate) async fn release_after_run(held: Held) -> Option<LostReason> {
    let (name, limit) = (held.watch.claim().name().clone(), held.release_after_run());
    let released = at_most(limit, held.release()).await;
    let silent = || Err(Error::silent(name.clone(), format!("no answer within {limit:?}")));
    match released.unwrap_or_else(silent) {
        Ok(Left::Lost { reason, .. }) => Some(reason),
        Ok(Left::Nothing | Left::Shares(_)) => None,
        // It was ours when the work was done; the rest is done in the background.
        Err(error) => {
            tracing::warn!(target: "leasehold", lock = %name, %error, "not released yet");
            None
        }
    }
}
