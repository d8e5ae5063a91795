//! The hold of a quorum lock: its guard, its contexts, and its restorer.
//!
//! The watchdog of each client renews the grant at its server. The restorer is a task that adds
//! grants that arrive after the majority. If the grant of a server ends, for example because the
//! server was down or has lost its data, the restorer requests the lock there again.
//!
//! If a server no longer has a grant, it has lost its data, or a client has released the grant by
//! force. So the restorer first waits for one *ttl*. By then, a forced release at the other servers
//! has ended the hold.

use std::{future, sync::Arc, task::Poll, time::Duration};

use futures_util::{
    FutureExt, TryFutureExt,
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{runtime::Handle, sync::watch, time::sleep};

use super::vote::{Majority, PendingVote, ask, majority};
use crate::{
    domain::{LostReason, Mutex, Name, spread},
    engine::timing::NEXT_TICK,
    error::{Error, Result},
    primitives::{
        Lock, LockGuard, OnLoss, Release, RunOutcome, context_views, example, group_guard,
        run::{self, Loss},
    },
};

/// If a server has not granted the lock, the restorer requests it there again after about this
/// pause. The pause is random, so that another client does not always have the lock at that moment.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The guard of a [`QuorumLock`](super::QuorumLock). Dropping it releases the lock at all servers,
/// in the background.
///
/// If the runtime on which it was acquired ends, the hold may end with its leases: lost grants are
/// no longer requested again.
#[doc = example!(quorum: "lock.acquire().await?.release().await?.into_result()?;")]
#[derive(Debug)]
#[must_use = "what the guard holds is released as soon as the guard is dropped"]
pub struct QuorumGuard {
    context: QuorumContext,
}

impl QuorumGuard {
    /// Returns the guard of a lock that a majority granted by `votes`, and starts its restorer. The
    /// restorer also awaits the `late` votes. When the hold ends, the restorer drops all grants.
    pub(super) fn new(members: &Arc<[Lock]>, (mut votes, late): Majority) -> Self {
        let mut grants: Vec<_> = members.iter().map(|_| None).collect();
        for (number, vote) in &mut votes {
            grants[*number] = vote.as_mut().ok().and_then(|reply| reply.grant.take());
        }
        let (members, grants) = (Arc::clone(members), Mutex::new(grants));
        let hold = Arc::new(QuorumHold { members, grants, over: watch::Sender::new(None) });
        let (restored, mut over) = (Arc::clone(&hold), hold.over.subscribe());
        tokio::spawn(async move {
            let votes = votes.into_iter().map(|vote| future::ready(vote).boxed()).chain(late);
            tokio::select! {
                // The hold may have ended before this task was polled for the first time.
                biased;
                _ = over.wait_for(Option::is_some) => {}
                _ = join_all(votes.map(|vote| restored.keep(vote))) => {}
            }
            drop(restored.close(LostReason::Released));
        });
        Self { context: QuorumContext { hold } }
    }

    /// Returns the name of the lock.
    #[doc = example!(quorum: "assert_eq!(lock.acquire().await?.name().as_str(), \"orders:42\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.context.hold.members[0].name()
    }

    group_guard!(
        quorum.hold,
        QuorumContext,
        |_| OnLoss::Cancel,
        "If the hold is lost, the future of the work is dropped at its current await.",
        LostReason = |(_, reason)| reason,
        "why it ended at one of the servers.";
        "let guard = lock.lease(Duration::from_secs(60)).acquire().await?;",
        "assert_eq!(guard.lost().await, leasehold::LostReason::Expired);"
    );

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
    #[doc = example!(quorum:
        "use leasehold::Release;",
        "assert_eq!(lock.acquire().await?.release().await?, Release::Released);")]
    pub async fn release(self) -> Result<Release> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let (hold, name) = (&self.context.hold, self.name().clone());
        let not_held = |reason| Ok(Release::NotHeld { name, reason, holder: None });
        // If the loss is known, the silence of a server must not delay it.
        if let Err((_, reason)) = hold.time_left() {
            return not_held(reason);
        }
        let need = majority(hold.members.len());
        let grants = hold.close(LostReason::Released).into_iter();
        let mut releasing: FuturesUnordered<_> = grants.map(LockGuard::release).collect();
        let (mut released, mut reasons, mut errors) = (0, vec![], vec![]);
        // If too few replies are missing for a majority, the loss is certain.
        while released < need
            && released + errors.len() + releasing.len() >= need
            && let Some(release) = releasing.next().await
        {
            match release {
                Ok(Release::NotHeld { reason, .. }) => reasons.push(reason),
                Ok(_) => released += 1,
                Err(error) => errors.push(error),
            }
        }
        // If these futures were dropped, background tasks would send the same releases again.
        runtime.spawn(releasing.collect::<Vec<_>>());
        match released + errors.len() {
            _ if released >= need => Ok(Release::Released),
            able if able >= need => Err(errors.swap_remove(0)),
            _ => not_held(reasons.first().copied().unwrap_or(LostReason::Expired)),
        }
    }

    /// Releases the lock after its work has completed. If the hold was lost before, returns its
    /// name and the reason.
    pub(crate) async fn release_after_run(self) -> Option<Loss> {
        let waits = self.context.hold.members.iter().map(|it| it.engine().limits.release_after_run);
        let (limit, name) = (waits.max().unwrap_or_default(), self.name().clone());
        let release = self.release().map_ok(|release| match release {
            Release::NotHeld { reason, .. } => Some(reason),
            _ => None,
        });
        run::release_within(limit, name, release).await
    }
}

impl Drop for QuorumGuard {
    fn drop(&mut self) {
        drop(self.context.hold.close(LostReason::Released));
    }
}

/// A view of the hold, for work that runs under a [`QuorumLock`](super::QuorumLock).
///
/// A `QuorumContext` cannot release the lock, and the lock may be released while a `QuorumContext`
/// exists.
#[doc = example!(quorum:
    "lock.run(async |held| {",
    "    held.check()?; // before each side effect",
    "    Ok::<(), leasehold::Error>(())",
    "}).await??;")]
#[derive(Clone, Debug)]
pub struct QuorumContext {
    hold: Arc<QuorumHold>,
}

impl QuorumContext {
    context_views!(
        quorum.hold,
        LostReason = |(_, reason)| reason,
        "the reason, as [`QuorumGuard::lost`] does.";
        "let lost = lock.run(async |held| held.lost()).await?;",
        "assert_eq!(lost.await, leasehold::LostReason::Released);"
    );
}

/// The hold of a quorum lock, which its guard, its contexts and its restorer share.
#[derive(Debug)]
struct QuorumHold {
    members: Arc<[Lock]>,
    /// The grant of each server. When the hold is over, no grant may be added.
    grants: Mutex<Vec<Option<LockGuard>>>,
    /// Why the hold is over. Once this is set, it never changes.
    over: watch::Sender<Option<LostReason>>,
}

impl QuorumHold {
    /// Waits until the hold has ended. Each poll first reads the clock, because the timers may be
    /// late after a pause of the process. The runtime of the restorer may have been shut down, so a
    /// timer also ends the wait when the leases end. Without a runtime, there is no timer.
    fn named_loss(self: &Arc<Self>) -> impl Future<Output = Loss> + Send + use<> {
        let (hold, mut over) = (Arc::clone(self), self.over.subscribe());
        async move {
            loop {
                let left = hold.time_left().unwrap_or_default();
                tokio::select! {
                    biased;
                    loss = future::poll_fn(|_| {
                        hold.time_left().err().map_or(Poll::Pending, Poll::Ready)
                    }) => return loss,
                    _ = over.wait_for(Option::is_some) => {}
                    () = async { sleep(left + NEXT_TICK).await },
                        if Handle::try_current().is_ok() => {}
                }
            }
        }
    }

    /// Returns how long a majority of the grants lasts without another renewal, or why the hold has
    /// ended. If the grants are no longer a majority, ends the hold.
    fn time_left(&self) -> Result<Duration, Loss> {
        self.time_left_by(&self.grants.lock())
    }

    fn time_left_by(&self, grants: &[Option<LockGuard>]) -> Result<Duration, Loss> {
        let loss = |reason| (self.members[0].name().clone(), reason);
        if let Some(reason) = *self.over.borrow() {
            return Err(loss(reason));
        }
        let mut left: Vec<_> = grants.iter().flatten().filter_map(LockGuard::remaining).collect();
        left.sort_unstable();
        left.len().checked_sub(majority(self.members.len())).map(|at| left[at]).ok_or_else(|| {
            let lost = grants.iter().flatten().find_map(|it| it.watch().remaining().err());
            let reason = lost.unwrap_or(LostReason::Expired);
            self.end(reason);
            loss(reason)
        })
    }

    /// Ends the hold, and returns its grants in reverse order: the grant of the first server comes
    /// last.
    ///
    /// Waiters wait at the first server at which the lock is held. So the release is sent to this
    /// server last. When it wakes a waiter, the lock is usually free at the other servers.
    fn close(&self, reason: LostReason) -> Vec<LockGuard> {
        let mut grants = self.grants.lock();
        self.end(reason);
        grants.iter_mut().rev().filter_map(Option::take).collect()
    }

    fn end(&self, reason: LostReason) {
        self.over.send_if_modified(|over| over.is_none() && over.replace(reason).is_none());
    }

    /// Adds the grant of the vote, if it has one. If the hold has no grant of the server, requests
    /// the lock there again. A hold with a fixed lease is neither renewed nor requested again.
    async fn keep(&self, mut asking: PendingVote) {
        loop {
            let (number, vote) = asking.await;
            let (ttl, is_renewed) = self.members[number].terms();
            let grant = vote.ok().and_then(|it| it.grant);
            let lost = {
                let mut grants = self.grants.lock();
                // If the majority ended before this grant, another client may have held the lock.
                if grant.is_some() && self.time_left_by(&grants).is_ok() {
                    grants[number] = grant;
                }
                grants[number].as_ref().map(LockGuard::lost)
            };
            let pause = match lost {
                None => spread(RETRY_PAUSE.min(ttl / 3)),
                Some(lost) => {
                    let reason = lost.await;
                    if self.time_left().is_err() {
                        return;
                    }
                    self.grants.lock()[number] = None;
                    if reason == LostReason::NotOwned { ttl } else { Duration::ZERO }
                }
            };
            if !is_renewed {
                return;
            }
            sleep(pause).await;
            asking = ask(&self.members, number, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{runtime::Builder, time::Instant};

    use super::*;
    use crate::{Client, MemoryStore, QuorumClient};

    /// A hold may end before its restorer runs for the first time.
    #[tokio::test(start_paused = true)]
    async fn restorer_ends_with_its_hold() {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let quorum = QuorumClient::of([(); 3].map(|()| Client::in_memory())).unwrap();
        let renewed = quorum.lock("door").unwrap();
        for lock in [renewed.clone(), renewed.lease(Duration::from_secs(60))] {
            drop(lock.acquire().await.unwrap());
            sleep(Duration::from_secs(1)).await;
            let (granted, before) = (|| quorum.clients()[0].stats().granted, tasks());
            lock.acquire().await.unwrap().release().await.unwrap().into_result().unwrap();
            let after = granted();
            sleep(Duration::from_secs(10)).await;
            assert_eq!((granted(), tasks()), (after, before));
        }
    }

    /// Former bug: a grant that arrived after the majority had ended continued the hold. If the
    /// process had been paused, another client could have held the lock in between.
    #[tokio::test(start_paused = true)]
    async fn late_grant_does_not_continue_an_ended_hold() {
        let lock =
            |seconds| Client::in_memory().lock("door").unwrap().lease(Duration::from_secs(seconds));
        let members: Arc<[Lock]> = [9, 1, 9].map(lock).into();
        let grant = async |at: usize| members[at].try_acquire().await.unwrap();
        let grants = Mutex::new(vec![None, grant(1).await, grant(2).await]);
        let hold = QuorumHold { members, grants, over: watch::Sender::new(None) };
        sleep(Duration::from_secs(1)).await;
        let start = Instant::now();
        hold.keep(ask(&hold.members, 0, None)).await;
        assert!(start.elapsed() < Duration::from_secs(1), "the grant was not added");
    }

    /// The first two of three servers stop, so the holder renews its hold only at the third one. The
    /// runtime of the restorer ends, so only a timer notices the loss.
    #[test]
    fn remaining_time_is_that_of_a_majority() {
        let runtime = || Builder::new_current_thread().enable_time().start_paused(true).build();
        let servers = [(); 3].map(|()| MemoryStore::new());
        let quorum = QuorumClient::of(servers.each_ref().map(Client::with_store)).unwrap();
        let guard = runtime().unwrap().block_on(async {
            let guard = quorum.lock("door").unwrap().acquire().await.unwrap();
            servers[..2].iter().for_each(MemoryStore::stall);
            sleep(Duration::from_secs(20)).await;
            assert!(guard.remaining().unwrap() <= Duration::from_secs(10), "{guard:?}");
            guard
        });
        runtime().unwrap().block_on(async {
            let (left, start) = (guard.remaining().unwrap(), Instant::now());
            let lost = tokio::time::timeout(Duration::from_secs(60), guard.lost()).await;
            assert_eq!(lost, Ok(LostReason::Expired));
            assert!(start.elapsed().abs_diff(left) < Duration::from_millis(10), "{left:?}");
        });
    }
}
