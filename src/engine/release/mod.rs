//! Releases a hold: by a hand-off, by a release that the caller awaits, or in the background.
//! `engine/pending.rs` keeps the pending releases. The loop in `background.rs` completes them.

pub(crate) mod background;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Engine,
    contention::NameRegistry,
    core::Core,
    hold::Hold,
    limits::{Limits, within},
    pending::PendingRelease,
    retry::{Answered, RetryIf, retry_while},
    tasks::OnDrop,
};
use crate::{
    domain::{
        Claim, Ended, Failure, Holder, LostReason, Outcome, ReleaseMode, ReleaseReply,
        RemoteWaiters,
    },
    error::Error,
};

/// The result of a release.
pub(crate) enum ReleaseResult {
    /// The hold continues, with this number of other shares.
    StillShared(u32),
    /// The hold lasted until its release.
    Released,
    /// The hold was over before the release.
    Lost { reason: LostReason, holder: Option<Holder> },
}

impl Engine {
    /// Releases `hold` in the store after its last share was released. `believed` says whether this
    /// client still relied on the hold at `now`.
    pub(super) async fn free(
        &self,
        hold: &Arc<Hold>,
        believed: Result<Duration, LostReason>,
        now: Instant,
    ) -> Result<ReleaseResult, Error> {
        if let Err(reason) = believed
            && !self.core.store.is_up()
        {
            // If the store is unreachable, a known loss is returned without waiting for the store.
            self.free_in_background(hold, now);
            return Ok(ReleaseResult::Lost { reason, holder: None });
        }
        self.watchdog.unwatch(hold.grant.id);
        // Without a reply, the background task continues the release, but waiters of this process
        // may send requests at once. For some holds, waiters must wait until the reply.
        let leaves = OnDrop::new(|| {
            if !hold.ends_with_release_reply() {
                self.contention.left(hold);
            }
        });
        // The hold ends before the request, because the store may grant the lock to another client
        // after the release.
        let ended = hold.end(LostReason::Released, now);
        // Another thread may have ended the hold since `believed` was true.
        let believed = believed.and_then(|left| ended.map(|()| left));
        let counts = ended.is_ok();
        let unanswered = OnDrop::new(|| {
            if counts {
                hold.counts(Ended::Unanswered, self.core.clock.now());
            }
        });
        let Limits { release, release_after_run, .. } = self.limits;
        let limit = if believed.is_ok() { release } else { release_after_run };
        let given = self.release_in_store(hold, now, limit).await;
        if given.is_ok() {
            leaves.cancel();
            self.contention.left(hold);
        }
        tracing::debug!(target: "leasehold", lock = %hold.name(), owner = %hold.grant.claim.owner,
            held = ?hold.held_for(self.core.clock.now()), result = ?given, "release completed");

        let left = match given {
            // If the client already knew of a loss, the caller gets that loss and not this failure.
            Err(failure) if believed.is_ok() => return Err(self.error(hold.name(), failure)),
            Ok(None) if believed.is_ok() => {
                return Ok(ReleaseResult::Lost { reason: LostReason::InDoubt, holder: None });
            }
            Ok(Some(ReleaseReply::Freed(_))) if believed.is_ok() => ReleaseResult::Released,
            given => {
                // The lease may have ended during the request.
                let ends_now = |left| self.core.clock.now() >= now + left;
                let reason = match believed {
                    Ok(left) if ends_now(left) => LostReason::Expired,
                    Ok(_) => LostReason::NotOwned,
                    Err(reason) => reason,
                };
                ReleaseResult::Lost {
                    reason,
                    holder: given.ok().flatten().and_then(ReleaseReply::holder),
                }
            }
        };
        unanswered.cancel();
        match left {
            _ if !counts => {}
            ReleaseResult::Lost { reason, .. } => hold.found_lost(reason, self.core.clock.now()),
            _ => hold.counts(Ended::Released, now),
        }
        Ok(left)
    }

    /// Hands the grant of `hold` off to the next waiter of this process, if possible. The waiter
    /// must be able to use the grant, and the local budget must allow a hand-off. Returns whether
    /// the grant was handed off.
    pub(super) fn pass_on(&self, hold: &Arc<Hold>, now: Instant) -> bool {
        if !self.contention.pass_on(hold, now) {
            return false;
        }
        tracing::debug!(target: "leasehold", lock = %hold.name(), owner = %hold.grant.claim.owner,
            held = ?hold.held_for(now), "lock released: handed off to another task of this \
                                         client");
        self.core.counters.handed_off(&hold.grant.claim);
        true
    }

    /// Releases `hold` in the background.
    pub(super) fn free_in_background(&self, hold: &Arc<Hold>, now: Instant) {
        self.watchdog.unwatch(hold.grant.id);
        tracing::debug!(target: "leasehold", lock = %hold.name(), owner = %hold.grant.claim.owner,
            held = ?hold.held_for(now), "background release started");
        if hold.end(LostReason::Released, now).is_ok() {
            hold.counts(Ended::Released, now);
        }
        self.core.pending.queue(PendingRelease::of(hold, hold.release_mode(now), now));
        if !hold.ends_with_release_reply() {
            self.contention.left(hold);
        }
    }

    /// Ends `hold`, and removes it from the store in the background. Its permits stay acquired.
    pub(super) fn forget(&self, hold: &Arc<Hold>) {
        self.watchdog.unwatch(hold.grant.id);
        let now = self.core.clock.now();
        if hold.end(LostReason::Released, now).is_ok() {
            hold.counts(Ended::Released, now);
            self.core.pending.queue(PendingRelease::of(hold, ReleaseMode::Forget, now));
        }
        self.contention.left(hold);
    }

    /// Ends `hold` in this client only. The store keeps the hold until its lease ends.
    pub(super) fn abandon(&self, hold: &Arc<Hold>) {
        self.watchdog.unwatch(hold.grant.id);
        let now = self.core.clock.now();
        if hold.end(LostReason::Released, now).is_ok() {
            hold.counts(Ended::Released, now);
        }
        self.contention.left(hold);
    }

    /// Ends and releases `hold` because the client is shut down. If the hold is already over, does
    /// nothing, because another hold may have the grant. Returns whether this call ended the hold.
    pub(super) fn take_back(&self, hold: &Arc<Hold>) -> bool {
        let now = self.core.clock.now();
        if hold.end(LostReason::ShutDown, now).is_err() {
            return false;
        }
        self.watchdog.unwatch(hold.grant.id);
        self.core.pending.queue(PendingRelease::of(hold, hold.release_mode(now), now));
        self.contention.left(hold);
        true
    }

    /// Releases `hold` in the store, and waits for the reply for at most `limit`. After that, the
    /// background task continues the release. The background task also repeats the release if a
    /// late grant may follow. Returns `None` if the server was replaced meanwhile, and it is
    /// unknown whether the old server released the hold.
    async fn release_in_store(
        &self,
        hold: &Arc<Hold>,
        now: Instant,
        limit: Duration,
    ) -> Result<Option<ReleaseReply>, Failure> {
        let mode = hold.release_mode(now);
        let _asks = self.asks();
        let promise = OnDrop::new(|| self.core.pending.queue(PendingRelease::of(hold, mode, now)));
        let until = hold.store_ends().min(now + limit);
        let retry_if = Failure::is_temporary_for_release;
        let moves = self.core.moves();
        let claim = hold.claim_at_end();
        let given = pin!(release(&self.core, &claim, mode, retry_if, (now, until)));
        let given = within(limit, given).await?;
        if !hold.grant.unsure {
            promise.cancel();
        }
        match given {
            // For this kind of object, the store recognizes a repeated release. So `NotHeld` proves
            // that no earlier request released the hold.
            Answered { answer, .. } if hold.object().traits().recognizes_releases() => {
                Ok(Some(answer))
            }
            // Either the old server executed an earlier request, or the hold was lost with the old
            // server.
            Answered { answer: ReleaseReply::NotHeld { .. }, unsure: true, .. }
                if self.core.moves() != moves =>
            {
                Ok(None)
            }
            // The earlier request without a reply was executed, so this request found no hold.
            Answered { answer: ReleaseReply::NotHeld { .. }, unsure: true, .. } => {
                Ok(Some(ReleaseReply::Freed(RemoteWaiters::Nobody)))
            }
            Answered { answer, .. } => {
                if let ReleaseReply::Freed(others) = answer {
                    self.contention.note(hold.object(), others);
                }
                if answer == ReleaseReply::Freed(RemoteWaiters::Nobody)
                    && let Some(rest) = hold.hold_back_time(now)
                {
                    self.contention.hold_back(hold.object(), self.core.clock.now() + rest);
                }
                Ok(Some(answer))
            }
        }
    }

    /// Counts a request in flight until the returned value is dropped. A shutdown waits until then.
    fn asks(&self) -> OnDrop<impl FnOnce()> {
        self.core.begins_to_ask();
        OnDrop::new(|| self.core.has_asked())
    }

    /// Sends the number of shares of `hold` to the store.
    pub(super) async fn send_count(&self, hold: &Arc<Hold>) -> Result<Outcome, Failure> {
        let pending = || PendingRelease::Recount { hold: Arc::clone(hold) };
        let _asks = self.asks();
        let promise = OnDrop::new(|| self.core.pending.queue(pending()));
        let limit = self.limits.release;
        let until = hold.store_ends().min(self.core.clock.now() + limit);
        let retry_if = Failure::is_temporary_for_release;
        let sent = pin!(recount(&self.core, &self.contention, hold, None, retry_if, until));
        let outcome = within(limit, sent).await?;
        promise.cancel();
        Ok(outcome)
    }
}

/// Sends the release of `claim` until a reply comes, or `retry_if` forbids another retry.
async fn release(
    core: &Core,
    claim: &Claim,
    mode: ReleaseMode,
    retry_if: RetryIf,
    (now, until): (Instant, Instant),
) -> Result<Answered<ReleaseReply>, Failure> {
    let moves = AtomicU64::default();
    let release = || {
        moves.store(core.moves(), Ordering::Relaxed);
        core.store.release(claim, mode)
    };
    let given = retry_while(retry_if, &core.clock, until, release).await?;
    let asked_at = given.again_at.unwrap_or(now);
    core.has_released(claim, mode, asked_at, moves.load(Ordering::Relaxed));
    Ok(given)
}

/// Sends the number of shares of `hold` to the store, until the store has the current number. If
/// the hold is gone, every task with a share is notified.
pub(crate) async fn recount(
    core: &Core,
    contention: &NameRegistry,
    hold: &Hold,
    ttl: Option<Duration>,
    retry_if: RetryIf,
    until: Instant,
) -> Result<Outcome, Failure> {
    let sent = AtomicU32::default();
    // Each request sends the number of shares at the time of the request.
    let send = || async {
        let shares = hold.shares();
        sent.store(shares, Ordering::Relaxed);
        match shares {
            // No share is left: the release ends the whole hold.
            0 => Ok(Outcome::Renewed),
            _ => core.store.recount(&hold.grant.claim, shares, ttl).await,
        }
    };
    loop {
        let outcome = retry_while(retry_if, &core.clock, until, send).await?.answer;
        if outcome != Outcome::Renewed {
            contention.disown(hold);
            return Ok(outcome);
        }
        // Another task may have sent another number meanwhile, and the store may have executed the
        // two requests in either order. So the number is sent again if it has changed.
        if hold.shares() == sent.load(Ordering::Relaxed) {
            return Ok(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_twin::{Cut, Delay, Twin};
    use tokio::time::timeout;

    use crate::{
        Client, LockGuard, Release, RunOutcome,
        domain::{Ending, Identity, Mutex},
        engine::{Engine, clock::Clock, tasks::here},
        store::redis::{Connector, RedisStore, Settings},
    };

    use super::*;

    /// Returns a client of the server in `current`, and a guard of its lock.
    async fn holder(current: &Arc<Mutex<Twin>>) -> (Client, LockGuard) {
        let at = Arc::clone(current);
        let connector = Connector::by(move || {
            let server = at.lock().clone();
            async move { server.connect().await }
        });
        let command_timeout = Duration::from_millis(200);
        let settings = Settings { command_timeout, ..Settings::default() };
        let store = RedisStore::connect_by(connector, &settings, "one").await.unwrap();
        let clock = Clock::with(|| Duration::ZERO);
        let engine = Engine::new(Identity::of("one"), Arc::new(store), clock, here());
        let client = Client::of(engine);
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        (client, guard)
    }

    /// Former bug: another thread ended the claim after `done` had looked at it. Then `done` gave the
    /// element back, and returned `Released`.
    #[tokio::test(start_paused = true)]
    async fn done_reports_a_claim_that_ends_while_done_begins() {
        let engine = Engine::on(&crate::MemoryStore::new(), "one");
        let jobs = Client::of(Arc::clone(&engine)).queue::<String>("jobs").unwrap();
        for is_shut_down in [true, false] {
            jobs.push("a").await.unwrap();
            let claim = jobs.claim().await.unwrap();
            claim.watch().note_ending(Ending::Done);
            let (hold, now) = (claim.watch().hold(), engine.core.clock.now());
            let believed = hold.remaining(now);
            match is_shut_down {
                true => assert!(engine.take_back(hold)),
                false => hold.end(LostReason::MaxHold, now).unwrap(),
            }
            let release = engine.free(hold, believed, now).await.unwrap();
            assert_eq!(jobs.pop().await.unwrap().as_deref(), Some("a"));
            assert!(matches!(release, ReleaseResult::Lost { .. }));
        }
    }

    /// Former bug: a new server that never had the hold replied `NotHeld`. The client took this
    /// reply as proof that the old server had executed the release.
    #[tokio::test(start_paused = true)]
    async fn release_is_in_doubt_when_the_new_server_never_had_the_hold() {
        // given a holder whose server hangs
        let old = Twin::new(1);
        let current = Arc::new(Mutex::new(old.clone()));
        let (client, guard) = holder(&current).await;
        old.stop();

        // when an empty server replaces the hung server during the release
        *current.lock() = Twin::new(2);
        let release = guard.release().await.unwrap();

        // then it is unknown whether the hold was released or lost
        let reason = LostReason::InDoubt;
        assert!(
            matches!(release, Release::NotHeld { reason: it, .. } if it == reason),
            "{release:?}"
        );
        let error = release.into_result().unwrap_err();
        assert!(error.to_string().contains("the hold may have been lost"), "{error}");
        assert!(!error.is_transient());
        let stats = client.stats();
        assert_eq!((stats.released, stats.releases_unanswered), (0, 1));
    }

    /// Former bug: the result was `Completed`, although the hold may have been lost.
    #[tokio::test(start_paused = true)]
    async fn run_reports_a_loss_when_the_new_server_never_had_the_hold() {
        // given work under a lock
        let old = Twin::new(1);
        let current = Arc::new(Mutex::new(old.clone()));
        let (_client, guard) = holder(&current).await;

        // when the server hangs at the end of the work, and is replaced by an empty server
        let ran = guard.run(async |_| {
            old.stop();
            *current.lock() = Twin::new(2);
        });

        // then the result says that the hold may have been lost during the work
        let reason = LostReason::InDoubt;
        let ran = ran.await;
        assert!(
            matches!(ran, RunOutcome::CompletedAfterLoss { reason: it, .. } if it == reason),
            "{ran:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn release_succeeds_when_its_first_reply_is_lost() {
        let server = Twin::new(1);
        let (_client, guard) = holder(&Arc::new(Mutex::new(server.clone()))).await;
        server.delay(Delay::Fixed(Duration::from_millis(10)), Delay::None);
        let mut release = Box::pin(guard.release());
        assert!(
            timeout(Duration::from_millis(5), &mut release).await.is_err(),
            "the request is sent and has no reply yet"
        );
        server.cut(Cut::Replies, |_| true);
        release.await.unwrap().into_result().unwrap();
    }
}
