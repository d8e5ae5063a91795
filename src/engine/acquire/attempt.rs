//! This is the waiting loop of every primitive: read this file first.
//!
//! The task has the request slot of the name: it alone sends requests, for all waiters of the name
//! in this process. If the store grants its first request, the grant becomes a hold. Otherwise the
//! task subscribes to the name. Then the task sends a second request, because the lock may have
//! been released before the subscription. From the second request on, the store adds a queue entry.
//! The task waits for a notification or for the end of the holder's lease, whichever is first. If
//! neither comes, the task repeats the request after a few seconds at most. If the attempt is
//! dropped, a background task withdraws its request.
//!
//! A notification only sets the time of the next request. The task relies only on replies.
//!
//! A latch has no hold. `until_open` sends requests in the same way, but needs no withdrawal. The
//! reply that a latch is open is valid for all tasks that were in line when the request was sent.
//!
//! The caller may drop the attempt at every await. If the store may still grant the request, a
//! pending release withdraws the request and removes the queue entry. The request slot goes to the
//! next task in line.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use tracing::Instrument;

use super::{AcquireRequest, LastReply, waiting::Waiting};
use crate::{
    domain::{
        Backoff, Claim, Element, Failure, Lease, Place, ReleaseMode, Taken, Token, Verdict,
        WaitStrategy, WaiterRecord,
    },
    engine::{
        Engine,
        contention::{Inbox, LinePosition, RequestSlot},
        grant::{Grant, LocalBudget, ReplicationStatus},
        held::Held,
        pending::{PendingRelease, Withdrawal},
        timing::{BACKOFF, LONGEST_WAIT_UNNOTIFIED, NEXT_TICK},
    },
    error::Error,
    store::{LATEST_EXECUTION, SubscriptionLevel},
};

/// One running acquisition.
pub(super) struct Attempt<'a> {
    engine: &'a Arc<Engine>,
    request: &'a AcquireRequest,
    claim: Claim,
    /// The request slot of the task. `None` for a caller that does not wait, such as `try_acquire`.
    slot: Option<RequestSlot>,
    /// The lease of the request that may still be granted, if there is one.
    asked: Option<Lease>,
    /// Whether `Core::asking` counts this attempt, so that a shutdown waits for its reply.
    counted: bool,
    /// If no connection was up when the last request began: how many connections had been lost
    /// then. As long as no connection has come up since, the request was not sent.
    unsent: Option<u64>,
    /// Whether an earlier request got no reply. The store may still grant that request.
    unsure: bool,
    /// When the holder's lease ends, according to the last reply.
    free_at: Option<Instant>,
    /// Whether a notification caused the current request.
    notified: bool,
    inbox: Option<Arc<Inbox>>,
    waiting: Waiting,
    /// A clone of `Core::waited_for`, by which the client counts the tasks that repeat requests.
    waited_for: Option<Arc<()>>,
    last_reply: &'a LastReply,
}

/// The result of one request.
pub(super) enum Asked {
    Busy(Taken),
    Granted(Granted),
    Failed(Failure),
}

enum AttemptResult {
    Granted(Granted),
    /// The task has received a hand-off grant, which is now a hold.
    TakenOver(Held),
    /// The task has lost the request slot, and has no grant.
    PassedBy(LinePosition),
}

/// The end of an attempt that does not fail.
pub(super) enum AttemptEnd<T> {
    Acquired(T),
    /// For too long, no executor polled the task, so the next task has the request slot. The task
    /// must join the line again.
    PassedBy(LinePosition),
}

/// A grant of the store: its lease, its first token or its element, and when the reply came.
pub(super) struct Granted {
    lease: Lease,
    token: Option<Token>,
    element: Option<Arc<Element>>,
    now: Instant,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        engine: &'a Arc<Engine>,
        request: &'a AcquireRequest,
        last_reply: &'a LastReply,
        slot: Option<RequestSlot>,
    ) -> Self {
        let waiting = Waiting::since_when(
            slot.as_ref().and_then(|slot| slot.position.since).map(Instant::from),
        );
        Self {
            engine,
            request,
            claim: Claim {
                object: request.object.clone(),
                owner: request.object.task_owner().unwrap_or_else(|| engine.identity.fresh_owner()),
                ttl: request.ttl,
                share: request.share,
            },
            slot,
            asked: None,
            counted: false,
            unsent: None,
            unsure: false,
            free_at: None,
            notified: false,
            inbox: None,
            waiting,
            waited_for: None,
            last_reply,
        }
    }

    /// Sends requests until the store grants one, or a failure is permanent. Also ends when the
    /// task gets a hand-off grant or loses the request slot. Without a request slot, returns
    /// [`Error::TimedOut`] if the object is busy. This function is not an `async fn`, because the
    /// future of an `async fn` would contain the attempt twice. Such a future would be too large
    /// for malloc's fast path.
    pub(super) fn run(mut self) -> impl Future<Output = Result<AttemptEnd<Held>, Error>> {
        let span = tracing::debug_span!(target: "leasehold", "acquire",
            lock = %self.claim.name(), owner = %self.claim.owner);
        let held = async move {
            match self.until_granted().await? {
                AttemptResult::Granted(granted) => self.enter(granted).map(AttemptEnd::Acquired),
                AttemptResult::TakenOver(held) => Ok(AttemptEnd::Acquired(held)),
                AttemptResult::PassedBy(position) => Ok(AttemptEnd::PassedBy(position)),
            }
        };
        held.instrument(span)
    }

    /// Sends requests until the latch is open. The last reply is also valid for all tasks that were
    /// in line when its request was sent.
    pub(super) async fn until_open(mut self) -> Result<AttemptEnd<()>, Error> {
        if let AttemptResult::PassedBy(position) = self.until_granted().await? {
            return Ok(AttemptEnd::PassedBy(position));
        }
        self.slot.iter().for_each(RequestSlot::answer_those_before);
        Ok(AttemptEnd::Acquired(()))
    }

    async fn until_granted(&mut self) -> Result<AttemptResult, Error> {
        let (engine, mut backoff) = (self.engine, Backoff::default());
        loop {
            match self.ask().await? {
                Asked::Granted(granted) => return Ok(AttemptResult::Granted(granted)),
                Asked::Busy(taken) if self.slot.is_none() => {
                    return Err(engine.busy(&self.claim.object, Duration::ZERO, taken));
                }
                Asked::Busy(taken) => {
                    let holder = taken.holder.as_ref().map(tracing::field::display);
                    tracing::debug!(target: "leasehold", holder, "acquisition started to wait");
                    Box::pin(engine.unless_closed(self.wait())).await?;
                }
                Asked::Failed(failure) => {
                    Box::pin(self.pause_after(failure, &mut backoff)).await?;
                }
            }
            if let Some(held) = self.take_over() {
                return held.map(AttemptResult::TakenOver);
            }
            if let Some(position) = self.is_passed_by() {
                return Ok(AttemptResult::PassedBy(position));
            }
        }
    }

    /// If the task lost the request slot, returns its position in line.
    fn is_passed_by(&self) -> Option<LinePosition> {
        let slot = self.slot.as_ref().filter(|slot| !slot.goes_on())?;
        Some(slot.position.waits_since(self.waiting.since()))
    }

    /// If a retry can help, pauses before the next request. Otherwise returns the failure.
    async fn pause_after(&mut self, failure: Failure, backoff: &mut Backoff) -> Result<(), Error> {
        let engine = self.engine;
        if !engine.retry_if()(&failure) {
            return Err(Error::about(&self.request.object.name, failure));
        }
        if let Some(times) = engine.cannot_ask.once_more(engine.core.clock.now()) {
            tracing::warn!(target: "leasehold", %failure, times,
                "acquisition request failed: retrying");
        }
        self.is_to_ask_again();
        let pause = self.waiting.unhurried(backoff.next(BACKOFF));
        match self.note_sleep(pause) {
            true => engine.unless_closed(engine.wait_for_store(pause)).await,
            false => Ok(()),
        }
    }

    /// Sends one request. If the client is shut down meanwhile, the call returns an error, and the
    /// drop of the attempt withdraws the request.
    async fn ask(&mut self) -> Result<Asked, Error> {
        let engine = self.engine;
        self.counts(self.claim.object.traits().is_held());
        if engine.core.open.is_closed() {
            return Err(Error::ShutDown);
        }
        engine.reachable(self.claim.name())?;
        // The background task must run, because it may have to withdraw the request.
        engine.revive();
        let lease = Lease::new(engine.core.clock.now(), self.claim.ttl);
        let place = self.place(lease.asked_at);
        let waited = self.waiting.for_so_long(lease.asked_at);
        let in_line = || engine.contention.in_line(&self.claim.object);
        self.claim.share = self.request.share.now(waited, in_line);
        if let Some(slot) = self.slot.as_mut().filter(|_| !self.claim.object.traits().is_held()) {
            slot.asks();
        }
        self.asked = Some(lease);
        self.last_reply.lock().get_or_insert(Err(lease.asked_at));
        self.unsent = (!engine.core.store.is_up()).then(|| engine.core.store.losses());
        let store = &engine.core.store;
        let asked = async {
            match &self.request.writer {
                None => store.acquire(&self.claim, place).await,
                Some(writer) => store.acquire_read_under_write(&self.claim, writer).await,
            }
        };
        let verdict = engine.unless_closed(asked).await?;
        let asked = self.weigh(verdict, lease);
        self.counts(self.counted && self.asked.is_some());
        Ok(asked)
    }

    /// Records whether a grant may still come. If so, a shutdown waits for the reply.
    fn counts(&mut self, asks: bool) {
        match (std::mem::replace(&mut self.counted, asks), asks) {
            (false, true) => self.engine.core.begins_to_ask(),
            (true, false) => self.engine.core.has_asked(),
            (true, true) | (false, false) => {}
        }
    }

    /// Returns what the next request leaves in the store if it is rejected, such as a queue entry.
    fn place(&mut self, now: Instant) -> Option<Place> {
        let slot = self.slot.as_ref()?;
        match self.claim.object.traits().waiter_record {
            WaiterRecord::QueueEntry => {}
            WaiterRecord::ExpiringEntry | WaiterRecord::EntryPerTask => {
                return Some(self.waiting.is_known(now));
            }
            WaiterRecord::WaitingTime => return self.waiting.waited(now),
            WaiterRecord::Nothing | WaiterRecord::Unannounced => return None,
        }
        if self.request.wait_strategy == WaitStrategy::PubSub && self.inbox.is_none() {
            self.inbox = slot.inbox.clone();
        }
        let level = self.inbox.as_ref().map_or(SubscriptionLevel::Nothing, |inbox| inbox.level());
        let place = self.waiting.place(level, now);
        if let Some(inbox) = &self.inbox {
            inbox.queues(place == Some(Place::Listening));
        }
        place
    }

    /// Interprets the reply `verdict` to a request with `lease`. If the lease of a grant has
    /// already ended, the grant counts as a missing reply.
    fn weigh(&mut self, verdict: Result<Verdict, Failure>, lease: Lease) -> Asked {
        let (engine, now) = (self.engine, self.engine.core.clock.now());
        let too_late = || {
            format!(
                "the reply arrived after the granted lease of {:?} had ended; use a longer ttl",
                self.claim.ttl
            )
        };
        let verdict = match verdict {
            Ok(Verdict::Granted { .. }) if now >= lease.ends() => {
                Err(Failure::unanswered(too_late()))
            }
            verdict => verdict,
        };
        let asked = match verdict {
            Ok(Verdict::Granted { token, element }) => {
                return Asked::Granted(Granted { lease, token, element, now });
            }
            Ok(Verdict::Busy(taken)) => {
                let holder = taken.holder.as_ref();
                engine.contention.note_holder(&self.claim.object, holder, lease.asked_at);
                *self.last_reply.lock() = Some(Ok(Ok((taken.clone(), lease.asked_at))));
                self.waiting.in_vain(lease.asked_at, self.notified);
                self.free_at = taken.at_most.map(|left| lease.asked_at + left);
                Asked::Busy(taken)
            }
            Err(failure) => {
                self.unsure |= failure.may_have_happened();
                *self.last_reply.lock() = Some(Ok(Err(failure.clone())));
                Asked::Failed(failure)
            }
        };
        self.waiting.answered_after(now.saturating_duration_since(lease.asked_at));
        if !self.unsure {
            self.asked = None;
        }
        asked
    }

    /// Makes a hold from the grant. If the client was shut down, releases the grant instead.
    fn enter(&mut self, granted: Granted) -> Result<Held, Error> {
        let Granted { lease, token, element, now } = granted;
        self.asked = None;
        let waited = std::mem::take(&mut self.waiting);
        let (since, refused) = (waited.since(), waited.was_refused());
        tracing::debug!(target: "leasehold", lock = %self.claim.name(), owner = %self.claim.owner,
            waited = ?now.saturating_duration_since(since.unwrap_or(lease.asked_at)), "lock granted");
        let grant = Grant {
            id: self.engine.next_grant(),
            claim: self.claim.clone(),
            leased_at: lease.asked_at,
            asked_at: lease.asked_at.into(),
            replication: ReplicationStatus::default(),
            unsure: self.unsure,
            contended: refused || self.engine.contention.is_contended(&self.claim.object),
            budget: self.budget(now),
            token,
            element,
        };
        self.engine.enter(self.request, grant, self.slot.take(), now, false)
    }

    /// Makes a hold from the hand-off grant, if another task has offered such a grant.
    fn take_over(&mut self) -> Option<Result<Held, Error>> {
        let (engine, now) = (self.engine, self.engine.core.clock.now());
        let grant = self.slot.as_ref()?.offered()?.take(now)?;
        tracing::debug!(target: "leasehold", lock = %self.claim.name(), owner = %grant.claim.owner,
            "lock granted: handed off by another task of this client");
        Some(engine.enter(self.request, grant, self.slot.take(), now, true))
    }

    /// Returns the local budget of the grant. Each hold of a fenced lock needs a token, so the
    /// number of tokens that came with the grant limits the hand-offs.
    fn budget(&self, now: Instant) -> LocalBudget {
        let budget = self.request.terms.local.from(now);
        match self.claim.tokens().checked_sub(1) {
            Some(more) => LocalBudget { turns: budget.turns.min(more), ..budget },
            None => budget,
        }
    }

    /// Whether the last request, or an earlier request, may have reached the store.
    fn may_have_been_sent(&self) -> bool {
        let store = &self.engine.core.store;
        let still_down = |losses| !store.is_up() && store.losses() == losses;
        self.unsure || !self.unsent.is_some_and(still_down)
    }

    /// Waits until the next request may get a different reply.
    async fn wait(&mut self) {
        // The store rounds the rest of a lease down to the millisecond, so `free_at` may be almost
        // 1 ms too early. In that time, the pause of at least 1 ms (`max`) prevents a stream of
        // requests.
        let left = |at: Instant| at.saturating_duration_since(self.engine.core.clock.now());
        let expiry = self.free_at.map(|at| left(at).max(NEXT_TICK));
        let polls = matches!(self.request.wait_strategy, WaitStrategy::Polling { .. });
        let alive = match self.claim.object.traits().waiter_record {
            WaiterRecord::EntryPerTask => self.waiting.to_stay_alive(),
            WaiterRecord::Unannounced if !polls => self.waiting.for_the_unannounced(),
            WaiterRecord::Unannounced
            | WaiterRecord::QueueEntry
            | WaiterRecord::ExpiringEntry
            | WaiterRecord::WaitingTime
            | WaiterRecord::Nothing => Duration::MAX,
        };
        let at_most = |limit: Duration| expiry.map_or(limit, |expiry| expiry.min(limit)).min(alive);
        if let WaitStrategy::Polling { initial: first, max: longest } = self.request.wait_strategy {
            let pause = at_most(self.waiting.for_poll(first, longest));
            if self.note_sleep(pause) {
                sleep(pause).await;
            }
            return;
        }
        self.inbox =
            self.inbox.take().or_else(|| Some(self.slot.as_ref()?.listen(self.request.profile())));
        self.is_to_ask_again();
        let Some(inbox) = &self.inbox else {
            return sleep(at_most(LONGEST_WAIT_UNNOTIFIED)).await;
        };
        if let Some(rest) = self.waiting.pause_despite_notification() {
            sleep(rest).await;
        }
        if inbox.level() == SubscriptionLevel::Nothing {
            // The background task of the connection may have ended with its runtime. This call
            // restarts the task.
            self.engine.core.store.keep_up();
        }
        let limit = at_most(self.waiting.for_messages(inbox.level(), self.engine.core.clock.now()));
        if self.note_sleep(limit) {
            self.notified = inbox.until_notified(Instant::now() + limit).await;
        }
    }

    /// Counts this task among the tasks that repeat requests, and records their number.
    fn is_to_ask_again(&mut self) {
        let core = &self.engine.core;
        self.waited_for.get_or_insert_with(|| Arc::clone(&core.waited_for));
        self.waiting.is_one_of(core.names_waited_for());
    }

    /// Records that the task sleeps for `pause`. Returns `false` if the task lost the request slot.
    fn note_sleep(&self, pause: Duration) -> bool {
        let until = self.engine.core.clock.now() + pause;
        self.slot.as_ref().is_none_or(|slot| slot.note_sleep(until))
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.withdraw();
        self.counts(false);
    }
}

impl Attempt<'_> {
    /// Withdraws the request if the store may still grant it, and removes the queue entry.
    fn withdraw(&self) {
        let asked_at = self.asked.filter(|_| self.may_have_been_sent()).map(|lease| lease.asked_at);
        let held = self.claim.object.traits().is_held();
        let queued = self.waiting.may_have_place();
        if !held || asked_at.is_none() && !queued {
            return;
        }
        // The lease begins when the store executes the request, at most `LATEST_EXECUTION` after
        // the request was sent.
        let begins = asked_at
            .map_or_else(|| self.engine.core.clock.now(), |asked_at| asked_at + LATEST_EXECUTION);
        let mode = if asked_at.is_some() { ReleaseMode::HandOver } else { ReleaseMode::Leave };
        self.engine.core.pending.queue(PendingRelease::Release(Withdrawal {
            claim: self.claim.clone(),
            grant: None,
            mode,
            until: begins + self.claim.ttl,
            looks: asked_at.map(|_| 0),
            hold: None,
            more: queued || self.unsure,
        }));
    }
}
