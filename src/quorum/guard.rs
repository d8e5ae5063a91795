//! The guard of a quorum lock, and the context for work under the lock.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{runtime::Handle, task::AbortHandle};

use super::{
    example,
    restorer::{QuorumHold, restore},
    vote::Majority,
};
use crate::{
    domain::{LostReason, Name},
    error::{Error, Result},
    primitives::{
        Lock, LockGuard, OnLoss, Release, RunOutcome,
        run::{self, Loss},
        views,
    },
};

/// The guard of a [`QuorumLock`](super::QuorumLock). Dropping it releases the lock at all servers,
/// in the background.
///
/// The hold needs the runtime on which it was acquired. If that runtime ends, the hold ends with
/// its leases.
#[doc = example!(
    "use leasehold::Release;",
    "assert_eq!(lock.acquire().await?.release().await?, Release::Released);")]
#[derive(Debug)]
#[must_use = "what the guard holds is released as soon as the guard is dropped"]
pub struct QuorumGuard {
    hold: Arc<QuorumHold>,
    restorer: AbortHandle,
}

impl QuorumGuard {
    /// Returns the guard of a lock that a majority granted by `votes`. Its restorer awaits the
    /// `late` votes.
    pub(super) fn new(members: &Arc<[Lock]>, (votes, late): Majority) -> Self {
        let hold = Arc::new(QuorumHold::new(members));
        let late = late.into_iter().map(|vote| hold.voted(vote));
        let events = late.chain(votes.into_iter().filter_map(|vote| hold.add(vote))).collect();
        let restorer = tokio::spawn(restore(Arc::clone(&hold), events)).abort_handle();
        Self { hold, restorer }
    }

    /// Returns the name of the lock.
    #[doc = example!("assert_eq!(lock.acquire().await?.name().as_str(), \"orders:42\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.hold.name()
    }

    views! { hold, example[]:
        fn is_held() -> bool; "assert!(lock.acquire().await?.is_held());";
        fn remaining() -> Option<Duration>;
            "assert!(lock.acquire().await?.remaining().is_some_and(|left| left.as_secs() >= 28));";
        fn lost() -> LostReason, "why it ended at the server whose loss broke the majority.";
            "let guard = lock.lease(Duration::from_secs(60)).acquire().await?;",
            "assert_eq!(guard.lost().await, leasehold::LostReason::Expired);";
    }

    /// Releases the lock at all servers, and returns once a majority has released it.
    ///
    /// The releases at the other servers continue in the background until the server replies or the
    /// lease ends.
    ///
    /// # Errors
    ///
    /// The error of one server, if the missing replies decide whether a majority still had the
    /// hold. The release continues in the background. [`Error::NoRuntime`] outside of tokio.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release continues in the background.
    #[doc = example!(
        "use leasehold::Release;",
        "assert_eq!(lock.acquire().await?.release().await?, Release::Released);")]
    pub async fn release(self) -> Result<Release> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let (name, need) = (self.name().clone(), self.hold.need());
        let lost = |reason| Ok(Release::NotHeld { name, reason, holder: None });
        let over = self.hold.time_left().err();
        let mut releasing: FuturesUnordered<_> =
            self.close().into_iter().map(LockGuard::release).collect();
        let (mut released, mut reasons, mut errors) = (0, vec![], vec![]);
        while released < need
            && let Some(release) = releasing.next().await
        {
            match release {
                Ok(Release::NotHeld { reason, .. }) => reasons.push(reason),
                Ok(_) => released += 1,
                Err(error) => errors.push(error),
            }
        }
        // If these futures were dropped, background tasks would send the same releases again.
        runtime.spawn(async move { while releasing.next().await.is_some() {} });
        let silent = errors.len();
        match (over, errors.pop()) {
            (Some(reason), _) => lost(reason),
            _ if released >= need => Ok(Release::Released),
            (None, Some(error)) if released + silent >= need => Err(error),
            (None, _) => lost(reasons.first().copied().unwrap_or(LostReason::Expired)),
        }
    }

    /// Runs `work` under this guard, releases it, and returns what happened.
    ///
    /// If the hold is lost, the future of the work is dropped at its current await. If the work
    /// panics, the guard is released and the panic continues. The call waits for the release no
    /// longer than the longest [`run_release_wait`](crate::ClientBuilder::run_release_wait) of the
    /// clients.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future also drops the work at its current await. Background tasks release the
    /// lock.
    #[doc = example!(
        "let guard = lock.acquire().await?;",
        "assert_eq!(guard.run(async |_held| 6 * 7).await.into_result()?, 42);")]
    pub async fn run<T, W, F>(self, work: W) -> RunOutcome<T>
    where
        W: FnOnce(QuorumContext) -> F,
        F: Future<Output = T>,
    {
        let (context, name, lost) = (self.context(), self.name().clone(), self.lost());
        let lost = async { (name, lost.await) };
        run::under(context, lost, self.release_after_run(), OnLoss::Cancel, work).await
    }

    /// Releases the lock after work that completed. If the hold was lost before, returns the
    /// reason.
    pub(crate) async fn release_after_run(self) -> Option<Loss> {
        let waits = self.hold.members.iter().map(|it| it.engine().limits.release_after_run);
        let (limit, name) = (waits.max().unwrap_or_default(), self.name().clone());
        let release = async {
            let release = self.release().await?;
            Ok(if let Release::NotHeld { reason, .. } = release { Some(reason) } else { None })
        };
        run::release_within(limit, name, release).await
    }

    /// Returns the context for work under this guard.
    pub(crate) fn context(&self) -> QuorumContext {
        QuorumContext { hold: Arc::clone(&self.hold) }
    }

    fn close(&self) -> Vec<LockGuard> {
        self.restorer.abort();
        self.hold.close()
    }
}

impl Drop for QuorumGuard {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// The context of work that runs under the lock. It can check the hold, but cannot release it. If
/// the guard is released, a context that still exists does not keep the lock held.
#[doc = example!(
    "# async fn step() {}",
    "let work = lock.run(async |held| {",
    "    held.check()?; // before each side effect",
    "    step().await;",
    "    Ok::<(), leasehold::Error>(())",
    "});",
    "work.await??;")]
#[derive(Clone, Debug)]
pub struct QuorumContext {
    hold: Arc<QuorumHold>,
}

impl QuorumContext {
    /// Returns an error if the hold has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold has ended.
    #[doc = example!("lock.run(async |held| held.check()).await??;")]
    pub fn check(&self) -> Result<()> {
        let lost = |reason| Error::Lost { name: self.hold.name().clone(), reason };
        self.hold.time_left().map(drop).map_err(lost)
    }

    views! { hold, example[]:
        fn is_held() -> bool; "assert!(lock.run(async |held| held.is_held()).await?);";
        fn remaining() -> Option<Duration>;
            "assert!(lock.run(async |held| held.remaining()).await?.is_some());";
        fn lost() -> LostReason, "the reason, as [`QuorumGuard::lost`] does.";
            "let lost = lock.run(async |held| held.lost()).await?;",
            "assert_eq!(lost.await, leasehold::LostReason::Released);";
    }
}
