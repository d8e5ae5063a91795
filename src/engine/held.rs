//! A grant while it lasts.
//!
//! A [`Hold`] is one owner's grant, with the moment when it must no longer be
//! believed. A [`Held`] is one guard's share in it: re-entry makes another
//! share, and the last one that goes gives the hold back.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{
    Engine,
    releases::{Debt, recount},
    stats::Counters,
};
use crate::{
    domain::{Claim, GivenBack, Holder, Lease, LostReason, Name, Outcome, Renewal},
    error::Error,
};

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
            state: Mutex::new(State { lease, doubted: false, over: None }),
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

    /// When the store ends it by itself, as far as we know.
    pub(super) fn lease_ends(&self) -> Instant {
        self.state().lease.ends()
    }

    /// What is owed to the store for it.
    pub(crate) fn debt(&self) -> Debt {
        let (claim, until) = (self.claim.clone(), self.lease_ends());
        Debt::Release { claim, until, late: self.unsure }
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

    fn found_lost(&self, reason: LostReason) {
        self.counters.lost(reason);
        tracing::warn!(target: "leasehold", lock = %self.claim.name, owner = %self.claim.owner,
            %reason, "lost");
    }

    /// Waits until it is over.
    async fn ended(&self) -> LostReason {
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
    fn one_more_share(&self) -> Option<u32> {
        let more = |shares| (shares > 0).then_some(shares + 1);
        let before = self.shares.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        before.ok().map(|before| before + 1)
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

/// What a release found.
#[derive(Debug)]
pub(crate) enum Left {
    /// Other shares of the hold are still there.
    Shares(u32),
    /// It was ours, and is free now.
    Nothing,
    /// It was over before.
    Lost { reason: LostReason, holder: Option<Holder> },
}

/// One share in a hold. Dropped without [`release`](Self::release) it is given
/// back in the background.
pub(crate) struct Held {
    hold: Arc<Hold>,
    engine: Arc<Engine>,
    given_back: bool,
}

impl Held {
    pub(crate) fn new(hold: Arc<Hold>, engine: &Arc<Engine>) -> Self {
        Self { hold, engine: Arc::clone(engine), given_back: false }
    }

    pub(crate) fn claim(&self) -> &Claim {
        self.hold.claim()
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch { hold: Arc::clone(&self.hold), engine: Arc::clone(&self.engine) }
    }

    /// Gives the share back, now.
    pub(crate) async fn release(mut self) -> Result<Left, Error> {
        self.given_back = true;
        let believed = self.hold.remaining(self.engine.clock.now());
        if self.leave() {
            return self.free(believed).await;
        }
        if let Err(reason) = believed {
            return Ok(Left::Lost { reason, holder: None });
        }
        let left = self.hold.shares();
        let told = self.engine.tell_count(&self.hold).await;
        told.map_err(|failure| Error::about(self.hold.name(), failure))?;
        Ok(Left::Shares(left))
    }

    async fn free(&self, believed: Result<Duration, LostReason>) -> Result<Left, Error> {
        let hold = &self.hold;
        // Before the store can grant it to somebody else.
        hold.end(LostReason::Released);
        let asked_at = self.engine.clock.now();
        let given = self.engine.give_back(hold).await;
        let now = self.engine.clock.now();
        let held = now - hold.entered_at;
        tracing::debug!(target: "leasehold", lock = %hold.name(), owner = %hold.claim.owner,
            ?held, ?given, "release");

        let given = given.map_err(|failure| Error::about(hold.name(), failure))?;
        match (believed, given) {
            (Ok(_), GivenBack::Freed) => {
                hold.counters.released();
                Ok(Left::Nothing)
            }
            (Ok(left), GivenBack::NotHeld { holder }) => {
                // It may have ended while we asked.
                let reason = match now < asked_at + left {
                    true => LostReason::NotOurs,
                    false => LostReason::Expired,
                };
                hold.found_lost(reason);
                Ok(Left::Lost { reason, holder })
            }
            (Err(reason), GivenBack::NotHeld { holder }) => Ok(Left::Lost { reason, holder }),
            (Err(reason), GivenBack::Freed) => Ok(Left::Lost { reason, holder: None }),
        }
    }

    /// Takes this share off the hold. Returns whether it was the last one.
    fn leave(&self) -> bool {
        let is_last = self.hold.shares.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            self.engine.keeper.unwatch(&self.hold);
            self.engine.turns.left(&self.hold);
        }
        is_last
    }

    /// Gives the last share back without waiting for it.
    fn free_in_background(&self) {
        let held = self.engine.clock.now() - self.hold.entered_at;
        tracing::debug!(target: "leasehold", lock = %self.hold.name(),
            owner = %self.hold.claim.owner, ?held, "release, in the background");
        if self.hold.end(LostReason::Released) == LostReason::Released {
            self.hold.counters.released();
        }
        self.engine.releases.owe(self.hold.debt());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        let believed = self.hold.remaining(self.engine.clock.now());
        if self.leave() {
            self.free_in_background();
        } else if believed.is_ok() {
            self.engine.releases.owe(Debt::Recount { hold: Arc::clone(&self.hold) });
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.hold, f)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.hold, f)
    }
}

/// Sees a hold without a share in it.
#[derive(Clone)]
pub(crate) struct Watch {
    hold: Arc<Hold>,
    engine: Arc<Engine>,
}

impl Watch {
    pub(crate) fn claim(&self) -> &Claim {
        self.hold.claim()
    }

    pub(crate) fn count(&self) -> u32 {
        self.hold.shares()
    }

    /// Takes another share: the count in the store grows by one.
    pub(crate) async fn reenter(&self) -> Result<Held, Error> {
        let (hold, engine) = (&self.hold, &self.engine);
        let ended = |reason| Error::Lost { name: hold.name().clone(), reason };
        self.remaining().map_err(ended)?;
        hold.one_more_share().ok_or_else(|| ended(LostReason::Released))?;

        // From here on dropping it takes the share back.
        let share = Held::new(Arc::clone(hold), engine);
        let asked_at = engine.clock.now();
        let ttl = hold.renewal().ttl;
        match recount(&engine.store, &engine.clock, hold, ttl, hold.ends()).await {
            Ok(Outcome::Renewed) => {
                hold.renewed(asked_at, engine.clock.now());
                self.remaining().map_err(ended)?;
                Ok(share)
            }
            Ok(_) => Err(ended(hold.end(LostReason::NotOurs))),
            Err(failure) => Err(Error::about(hold.name(), failure)),
        }
    }

    /// How long the hold may still be believed.
    pub(crate) fn remaining(&self) -> Result<Duration, LostReason> {
        self.hold.remaining(self.engine.clock.now())
    }

    /// Waits until the hold is over. Each look at it reads the clock first: after
    /// a pause of the process the clock knows before any timer does.
    pub(crate) async fn over(self) -> LostReason {
        let mut told = pin!(self.hold.ended());
        poll_fn(|cx| match self.remaining() {
            Ok(_) => told.as_mut().poll(cx),
            Err(reason) => Poll::Ready(reason),
        })
        .await
    }
}
