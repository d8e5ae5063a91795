//! One owner's grant of one name, and the moment when it must no longer be
//! believed.
//!
//! It knows no store: it is told what was answered, and what time it is.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::stats::Counters;
use crate::domain::{Claim, Lease, LostReason, Name, Renewal};

/// One owner's grant of one name.
pub(crate) struct Hold {
    /// Tells it from the client's other holds.
    id: u64,
    claim: Claim,
    /// Whether its lease is renewed, or fixed.
    renewed: bool,
    /// Whether a request to acquire it may still be on its way to the store.
    unsure: bool,
    entered_at: Instant,
    must_end_at: Option<Instant>,
    state: Mutex<State>,
    over: Notify,
    shares: AtomicU32,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct State {
    lease: Lease,
    /// When more time was last asked for, answered or not.
    asked_at: Instant,
    /// Whether the last renewal failed.
    doubted: bool,
    /// Once set it never changes: what is lost is never held again.
    over: Option<LostReason>,
}

/// What the store granted, and when we knew.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) claim: Claim,
    pub(crate) lease: Lease,
    pub(crate) entered_at: Instant,
    /// Whether an earlier question for it went unanswered.
    pub(crate) unsure: bool,
}

/// How a hold is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Whether its lease is renewed.
    pub(crate) renewed: bool,
    /// How long it may be held at all.
    pub(crate) max_hold: Option<Duration>,
}

impl Hold {
    pub(crate) fn new(grant: Grant, terms: Terms, counters: &Arc<Counters>) -> Self {
        let Grant { claim, lease, entered_at, unsure } = grant;
        Self {
            id: counters.granted(),
            claim,
            renewed: terms.renewed,
            unsure,
            entered_at,
            must_end_at: terms.max_hold.map(|most| entered_at + most),
            state: Mutex::new(State {
                lease,
                asked_at: lease.asked_at,
                doubted: false,
                over: None,
            }),
            over: Notify::new(),
            shares: AtomicU32::new(1),
            counters: Arc::clone(counters),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Whether a question asked at `moment` was asked by one who knew of the grant.
    pub(crate) fn was_known_at(&self, moment: Instant) -> bool {
        self.entered_at < moment
    }

    pub(crate) fn name(&self) -> &Name {
        &self.claim.name
    }

    /// From this moment on it must not be believed.
    pub(crate) fn ends(&self) -> Instant {
        self.earliest_end(&self.state())
    }

    fn earliest_end(&self, state: &State) -> Instant {
        let lease = state.lease.ends();
        self.must_end_at.map_or(lease, |most| lease.min(most))
    }

    /// By when the store has ended it by itself, at the latest: a renewal that was
    /// not answered may have been executed.
    pub(crate) fn store_ends(&self) -> Instant {
        self.state().asked_at + self.claim.ttl
    }

    /// Notes that the store is asked for more time at `now`.
    pub(crate) fn asks(&self, now: Instant) {
        if self.renewed {
            self.state().asked_at = now;
        }
    }

    /// When to ask the store about it again.
    pub(crate) fn renew_at(&self) -> Instant {
        self.state().lease.renew_at()
    }

    /// Whether a request to acquire it may still be on its way to the store.
    pub(super) fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// Whether its lease is renewed, or fixed.
    pub(crate) fn is_renewed(&self) -> bool {
        self.renewed
    }

    /// The question to keep it alive with.
    pub(crate) fn renewal(&self) -> Renewal {
        let Claim { name, owner, ttl, .. } = &self.claim;
        let ttl = self.renewed.then_some(*ttl);
        Renewal { name: name.clone(), owner: owner.clone(), ttl }
    }

    /// How long it may still be believed, if at all. Reads as lost what has
    /// just ended, whether or not a timer was in time to say so.
    pub(crate) fn remaining(&self, now: Instant) -> Result<Duration, LostReason> {
        let mut state = self.state();
        if let Some(reason) = state.over {
            return Err(reason);
        }
        let ends = self.earliest_end(&state);
        if now < ends {
            return Ok(ends - now);
        }
        let reason = match self.must_end_at {
            Some(most) if now >= most => LostReason::MaxHold,
            _ => LostReason::Expired,
        };
        self.set_over(&mut state, reason);
        Err(reason)
    }

    /// Notes that the store renewed it when asked at `asked_at`.
    pub(crate) fn renewed(&self, asked_at: Instant, now: Instant) {
        if self.remaining(now).is_err() {
            return;
        }
        let mut state = self.state();
        state.doubted = false;
        if self.renewed && asked_at > state.lease.asked_at {
            state.lease = Lease::new(asked_at, self.claim.ttl);
        }
    }

    /// Notes that nobody knows whether the store renewed it.
    pub(crate) fn doubt(&self) {
        let first = !std::mem::replace(&mut self.state().doubted, true);
        if first {
            tracing::warn!(target: "leasehold", lock = %self.name(), owner = %self.claim.owner,
                "in doubt: a renewal failed and is tried again until the lease ends");
        }
    }

    /// Ends it, unless it is over already. Returns why it is over.
    pub(crate) fn end(&self, reason: LostReason) -> LostReason {
        let mut state = self.state();
        if let Some(before) = state.over {
            return before;
        }
        self.set_over(&mut state, reason);
        reason
    }

    fn set_over(&self, state: &mut State, reason: LostReason) {
        state.over = Some(reason);
        self.over.notify_waiters();
        self.counters.ended();
        if reason != LostReason::Released {
            self.found_lost(reason);
        }
    }

    pub(super) fn found_lost(&self, reason: LostReason) {
        self.counters.lost(reason);
        tracing::warn!(target: "leasehold", lock = %self.claim.name, owner = %self.claim.owner,
            %reason, "lost");
    }

    /// Waits until it is over.
    pub(super) async fn ended(&self) -> LostReason {
        loop {
            let told = self.over.notified();
            if let Some(reason) = self.state().over {
                return reason;
            }
            told.await;
        }
    }

    /// How many shares it has.
    pub(super) fn shares(&self) -> u32 {
        self.shares.load(Ordering::Acquire)
    }

    /// Counts one more share, unless the last one is gone. Returns how many there are.
    pub(super) fn one_more_share(&self) -> Option<u32> {
        let more = |shares| (shares > 0).then_some(shares + 1);
        let before = self.shares.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        before.ok().map(|before| before + 1)
    }

    /// Counts one share less. Returns whether it was the last one.
    pub(super) fn one_share_less(&self) -> bool {
        self.shares.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// For how long it has been held at `now`.
    pub(super) fn held_for(&self, now: Instant) -> Duration {
        now - self.entered_at
    }

    /// Gives back what was ours to the end.
    pub(super) fn was_released(&self) {
        self.counters.released();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", &self.claim.name)
            .field("owner", &self.claim.owner)
            .field("over", &self.state().over)
            .finish_non_exhaustive()
    }
}
