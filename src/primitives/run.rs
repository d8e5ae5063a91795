//! Runs work under a lock, and stops the work when the lock is lost.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::Pin,
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{runtime::Handle, time::timeout};

use super::{context_views, example, guarded};
use crate::{
    domain::{Kind, LostReason, Name, Owner, Script, Value, Write},
    engine::{
        held::{Held, Watch},
        release::ReleaseResult,
    },
    error::{Error, Result},
};

/// How `run` stops the work when its lock is lost.
///
/// Requests that the work has already sent still arrive after the work was stopped. Only the
/// receiver of a late write can reject it: see [`fence`](crate::fence).
#[doc = example!(lock:
    "use leasehold::OnLoss;",
    "let lock = lock.on_loss(OnLoss::GracePeriod(Duration::from_secs(2)));")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum OnLoss {
    /// Drops the work at its current await.
    #[default]
    Cancel,
    /// Lets the work continue for this time, then drops the work. The work can notice the loss by
    /// [`LockContext::lost`].
    GracePeriod(Duration),
}

/// The outcome of work that ran under a guard: see [`Guard::run`](crate::Guard::run).
#[doc = example!(lock:
    "use leasehold::RunOutcome;",
    "let guard = lock.acquire().await?;",
    "match guard.run(async |_held| 6 * 7).await {",
    "    RunOutcome::Completed(answer) => assert_eq!(answer, 42),",
    "    RunOutcome::CompletedAfterLoss { value, reason, .. } => eprintln!(\"check {value}: {reason}\"),",
    "    RunOutcome::Cancelled { reason, .. } => eprintln!(\"stopped: {reason}\"),",
    "}")]
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "the lock may have been lost while the work ran: `into_result()` makes that an error"]
pub enum RunOutcome<T> {
    /// The work completed, and the lock was held while it ran.
    ///
    /// The client concludes from its clock and from the last reply of the store that the lock was
    /// held. If the store did not reply to the release within the [run release
    /// wait](crate::ClientBuilder::run_release_wait), a background task continues the release.
    Completed(T),
    /// The work completed, but the lock was lost, or perhaps lost in a failover.
    ///
    /// Another holder may have worked at the same time.
    CompletedAfterLoss {
        /// The name of the lost lock.
        name: Name,
        /// The result of the work.
        value: T,
        /// Why the lock was lost.
        reason: LostReason,
    },
    /// The lock was lost, and the work was dropped.
    Cancelled {
        /// The name of the lost lock.
        name: Name,
        /// Why the lock was lost.
        reason: LostReason,
    },
}

impl<T> RunOutcome<T> {
    /// Returns the outcome of work that completed. `lost` is the loss of its lock, if the lock was
    /// lost.
    pub(crate) fn of(value: T, lost: Option<Loss>) -> Self {
        match lost {
            None => Self::Completed(value),
            Some((name, reason)) => Self::CompletedAfterLoss { name, value, reason },
        }
    }

    /// Returns the work's result if the lock was held while the work ran.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost while the work ran.
    #[doc = example!(lock:
        "let guard = lock.acquire().await?;",
        "assert_eq!(guard.run(async |_held| 6 * 7).await.into_result()?, 42);")]
    pub fn into_result(self) -> Result<T> {
        match self {
            Self::Completed(value) => Ok(value),
            Self::CompletedAfterLoss { name, reason, .. } | Self::Cancelled { name, reason } => {
                Err(Error::Lost { name, reason })
            }
        }
    }
}

/// A view of the hold, for work that runs under this hold.
///
/// A `LockContext` is cheap to clone. A `LockContext` cannot release the lock, and does not keep
/// the lock held.
#[doc = example!(lock:
    "# async fn step() {}",
    "let work = lock.run(async |held| {",
    "    for _ in 0..3 {",
    "        held.check()?; // check before each side effect",
    "        step().await;",
    "    }",
    "    Ok::<(), leasehold::Error>(())",
    "});",
    "work.await??; // first the error of the lock, then the error of the work")]
#[derive(Clone, Debug)]
pub struct LockContext {
    pub(super) watch: Watch,
}

impl LockContext {
    pub(crate) fn new(watch: Watch) -> Self {
        Self { watch }
    }

    /// Waits until the hold is over. Returns the name of the lock and the reason.
    pub(super) fn named_loss(&self) -> impl Future<Output = Loss> + Send + use<> {
        let (name, lost) = (self.name().clone(), self.watch.clone().over());
        async move { (name, lost.await) }
    }

    /// Returns how long the hold lasts without another renewal, or the loss of the hold.
    pub(super) fn time_left(&self) -> Result<Duration, Loss> {
        self.watch.remaining().map_err(|reason| (self.name().clone(), reason))
    }

    #[cfg(any(test, feature = "blocking"))]
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Writes to other keys, if the lock is still held in the store. Does the same as
    /// [`Guard::write`](crate::Guard::write).
    ///
    /// # Errors
    ///
    /// As for [`Guard::write`](crate::Guard::write).
    ///
    /// # Cancel safety
    ///
    /// As for [`Guard::write`](crate::Guard::write).
    #[doc = example!(lock:
        "use leasehold::Write;",
        "lock.run(async |held| held.write([Write::set(\"closed\", \"yes\")]).await).await??;")]
    pub async fn write(&self, writes: impl IntoIterator<Item = Write>) -> Result<()> {
        guarded::write(&self.watch, writes.into_iter().collect()).await
    }

    /// Runs your Lua script, if the lock is still held in the store. Does the same as
    /// [`Guard::eval`](crate::Guard::eval).
    ///
    /// # Errors
    ///
    /// As for [`Guard::eval`](crate::Guard::eval).
    ///
    /// # Cancel safety
    ///
    /// As for [`Guard::eval`](crate::Guard::eval).
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

    context_views!(
        lock,
        LostReason = |(_, reason)| reason,
        "the reason, as [`Guard::lost`](super::Guard::lost) does.";
        "let lost = lock.run(async |held| held.lost()).await?;",
        "assert_eq!(lost.await, leasehold::LostReason::Released);"
    );

    /// Returns the owner of the hold.
    #[doc = example!(lock:
        "let owner = lock.run(async |held| held.owner().clone()).await?;",
        "assert!(owner.as_str().ends_with(\":1\"));")]
    #[must_use]
    pub fn owner(&self) -> &Owner {
        owner(&self.watch)
    }

    /// Returns the name of the lock or of the semaphore.
    #[doc = example!(lock:
        "let name = lock.run(async |held| held.name().clone()).await?;",
        "assert_eq!(name.as_str(), \"orders:42\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.watch.claim().name()
    }
}

/// Returns the owner of a hold, for a user of this crate.
pub(super) fn owner(watch: &Watch) -> &Owner {
    let claim = watch.claim();
    // The ids of permits are made from the owner, so the user may use these ids from now on.
    // Permits with known ids must not be handed off to another task.
    if claim.object.kind == Kind::Permits {
        watch.forbid_handoff();
    }
    &claim.owner
}

/// The name of a lost lock, and the reason of the loss.
pub(crate) type Loss = (Name, LostReason);

/// Runs `work` under `held`, then releases `held`.
pub(super) async fn run<T, W, F>(held: Held, on_loss: OnLoss, work: W) -> RunOutcome<T>
where
    W: FnOnce(LockContext) -> F,
    F: Future<Output = T>,
{
    let context = LockContext::new(held.watch.clone());
    let lost = context.named_loss();
    under(context, lost, release_after_run(held), on_loss, work).await
}

/// Runs `work` with `context`, then awaits `release`. If `lost` completes before the work, stops
/// the work, then drops `release`, which owns the hold.
pub(crate) async fn under<T, C, W, F>(
    context: C,
    lost: impl Future<Output = Loss>,
    release: impl Future<Output = Option<Loss>>,
    on_loss: OnLoss,
    work: W,
) -> RunOutcome<T>
where
    W: FnOnce(C) -> F,
    F: Future<Output = T>,
{
    // The closure is called inside the block, so a panic of the closure is caught, too.
    let work = async move { work(context).await };
    let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());

    let (name, reason) = tokio::select! {
        biased;
        lost = lost => lost,
        done = work.as_mut() => {
            let lost = release.await;
            return done.map_or_else(|panic| resume_unwind(panic), |value| RunOutcome::of(value, lost));
        }
    };
    // The work is dropped before `release`, because another holder can acquire when `release` is
    // dropped.
    let value = wind_up(on_loss, work).await;
    // The store may still have the hold, for example after `max_hold`. The drop lets a background
    // task release the hold, so that the caller gets the outcome at once.
    drop(release);
    match value {
        Some(Ok(value)) => RunOutcome::CompletedAfterLoss { name, value, reason },
        Some(Err(panic)) => resume_unwind(panic),
        None => RunOutcome::Cancelled { name, reason },
    }
}

/// Drops work whose lock was lost, at once or after the grace period. Returns the result of the
/// work, if the work completed.
async fn wind_up<T>(on_loss: OnLoss, work: Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    match on_loss {
        OnLoss::Cancel => None,
        OnLoss::GracePeriod(grace) => at_most(grace, work).await,
    }
}

/// Waits for `future` for at most `limit`. Outside of a runtime there are no timers, so the
/// function returns `None` at once.
async fn at_most<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    Handle::try_current().ok()?;
    timeout(limit, future).await.ok()
}

/// Releases `held` after the work has completed. If the hold was lost before the release, returns
/// the name of the lock and the reason.
pub(super) async fn release_after_run(held: Held) -> Option<Loss> {
    let (name, limit) = (held.watch.claim().name().clone(), held.release_after_run());
    // A known loss must not be forgotten because the store is silent. A background task releases
    // the hold.
    if let Err(reason) = held.watch.remaining() {
        return Some((name, reason));
    }
    let release = async {
        Ok(match held.release().await? {
            ReleaseResult::Lost { reason, .. } => Some(reason),
            ReleaseResult::Released | ReleaseResult::StillShared(_) => None,
        })
    };
    release_within(limit, name, release).await
}

/// Awaits `release` for at most `limit`, the run release wait. If the hold was lost before the
/// release, returns the name of the lock and the reason.
pub(crate) async fn release_within(
    limit: Duration,
    name: Name,
    release: impl Future<Output = Result<Option<LostReason>>>,
) -> Option<Loss> {
    let silent = || Err(Error::silent(name.clone(), format!("no reply within {limit:?}")));
    match at_most(limit, release).await.unwrap_or_else(silent) {
        Ok(lost) => lost.map(|reason| (name, reason)),
        // The hold lasted until the work completed, so this error is not a loss. A background task
        // continues the release.
        Err(error) => {
            tracing::warn!(target: "leasehold", lock = %name, %error,
                "release not confirmed after the work: retrying in the background");
            None
        }
    }
}
