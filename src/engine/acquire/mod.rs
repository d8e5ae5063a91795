//! The ways to acquire, and their common parts. Read `attempt.rs` first.

mod acknowledged;
mod attempt;
mod deadline;
pub(crate) mod following;
mod holder_info;
pub(crate) mod member;
pub(crate) mod pacing;
mod waiting;

use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    task::coop,
    time::{Instant, sleep, timeout, timeout_at},
};

use self::attempt::{Attempt, AttemptEnd};
pub(crate) use self::deadline::Deadline;
#[cfg(feature = "blocking")]
pub(crate) use self::deadline::ReentryTimeout;
#[cfg(feature = "blocking")]
use super::held::Watch;
use super::{
    Engine,
    contention::{Entrance, LinePosition, RequestSlot, WaiterSpec},
    counters::Wait,
    grant::{Grant, LeaseProfile, Terms},
    held::Held,
    hold::Hold,
    limits::nothing_came,
    tasks::pause,
    timing::{SHARING_PAST, SHARING_PAUSE},
};
use crate::{
    domain::{
        Failure, Holder, Mutex, Name, Object, Owner, Replicas, Share, Taken, WaitStrategy,
        in_millis,
    },
    error::Error,
    metrics::Acquisition,
};

/// The request of a caller: the object, how to wait for it, and how to keep it.
#[derive(Clone, Debug)]
pub(crate) struct AcquireRequest {
    pub(crate) object: Object,
    pub(crate) share: Share,
    /// For a read hold of a writer: the owner of the write hold, which must still exist.
    pub(crate) writer: Option<Owner>,
    pub(crate) ttl: Duration,
    pub(crate) terms: Terms,
    pub(crate) wait_strategy: WaitStrategy,
    /// How many replicas must have acknowledged the grant before the caller gets a guard.
    pub(crate) replicas: Option<Replicas>,
    /// Why the caller acquires the object, in words for operators.
    pub(crate) reason: Option<Arc<str>>,
}

impl AcquireRequest {
    /// Whether each hold has a token.
    fn is_fenced(&self) -> bool {
        self.share.tokens() > 0
    }

    /// Returns the lease profile that a grant must have for this request.
    fn profile(&self) -> LeaseProfile {
        let ttl = self.terms.renewed.then_some(self.ttl);
        LeaseProfile { ttl, fenced: self.is_fenced(), units: self.share.units() }
    }

    /// Whether the caller may share an existing hold.
    fn may_share(&self) -> bool {
        let Terms { renewed, max_hold, local } = self.terms;
        let as_usual = renewed && max_hold.is_none() && local.most > 0;
        as_usual && self.writer.is_none() && self.object.traits().is_shared()
    }
}

/// The last reply of the store that was not a grant, and when its request was sent.
type NotGranted = Result<(Taken, Instant), Failure>;

/// The last reply, or the time of the first request while no reply has come. This value outlives
/// the attempt, because the timeout error needs it.
type LastReply = Mutex<Option<Result<NotGranted, Instant>>>;

/// If no reply came for at least this time after the first request, the error of a timeout says
/// that the store did not reply.
pub(crate) const SILENCE: Duration = Duration::from_millis(100);

/// Yields sometimes, because a task that takes one share after another never waits. Tokio's budget
/// is not enough: it works only for tasks of tokio's runtime, but another executor may poll this
/// future.
async fn lets_others_run(request: &AcquireRequest) {
    match request.may_share() {
        true if coop::has_budget_remaining() => coop::consume_budget().await,
        true => pause().await,
        false => {}
    }
}

impl Engine {
    /// Counts a caller as waiting until the returned value is dropped.
    fn waits(&self, request: &AcquireRequest) -> Wait<'_> {
        self.core.counters.waits(&request.object, request.is_fenced())
    }

    /// Acquires `request`, waiting without a bound.
    pub(crate) async fn acquire(self: &Arc<Self>, request: &AcquireRequest) -> Result<Held, Error> {
        let wait = self.waits(request);
        let acquired = self.acquire_noting(request, &LastReply::default(), None).await;
        let held = wait.ended(acquired)?;
        match request.replicas {
            Some(replicas) => self.acknowledged(replicas, held, None).await,
            None => Ok(held),
        }
    }

    /// Takes one more share in the hold of `watch`, and waits until enough replicas for `request`
    /// have acknowledged the hold.
    #[cfg(feature = "blocking")]
    pub(crate) async fn enter_again(
        self: &Arc<Self>,
        request: &AcquireRequest,
        watch: &Watch,
        max_wait: ReentryTimeout,
    ) -> Result<Held, Error> {
        self.reachable(&request.object.name)?;
        let unanswered = |limit| Err(self.unanswered(&request.object.name, limit, None));
        let again = match max_wait.for_reply(self.limits.request) {
            None => watch.reenter().await,
            Some(limit) => {
                timeout(limit, watch.reenter()).await.unwrap_or_else(|_| unanswered(limit))
            }
        }?;
        match request.replicas {
            Some(replicas) => self.acknowledged(replicas, again, max_wait.until()).await,
            None => Ok(again),
        }
    }

    /// Acquires `request` by the end of `deadline`.
    pub(crate) async fn acquire_within(
        self: &Arc<Self>,
        request: &AcquireRequest,
        deadline: Deadline,
    ) -> Result<Held, Error> {
        // `ready` comes before the timer: without a runtime, `ready` returns an error, but the
        // timer would panic.
        self.ready()?;
        let (Deadline { since, until }, last_reply) = (deadline, LastReply::default());
        let wait = self.waits(request);
        let acquired = tokio::select! {
            biased;
            acquired = timeout_at(until, self.acquire_noting(request, &last_reply, Some(until))) => acquired,
            never = self.read_holder_info(&request.object, deadline) => match never {},
        };
        let gave_up = |_| Err(self.gave_up(&request.object, since.elapsed(), &last_reply));
        let held = wait.ended(acquired.unwrap_or_else(gave_up))?;
        match request.replicas {
            Some(replicas) => self.acknowledged(replicas, held, Some(until)).await,
            None => Ok(held),
        }
    }

    /// Waits until the object of `request`, such as a latch, is open. The caller gets no hold.
    pub(crate) async fn pass(self: &Arc<Self>, request: &AcquireRequest) -> Result<(), Error> {
        let wait = self.waits(request);
        wait.ended(self.pass_noting(request, &LastReply::default()).await)
    }

    /// Waits until the object of `request` is open, but not beyond `deadline`.
    pub(crate) async fn pass_within(
        self: &Arc<Self>,
        request: &AcquireRequest,
        deadline: Deadline,
    ) -> Result<(), Error> {
        self.ready()?;
        let (Deadline { since, until }, last_reply) = (deadline, LastReply::default());
        let wait = self.waits(request);
        let passed = timeout_at(until, self.pass_noting(request, &last_reply)).await;
        let gave_up = |_| Err(self.gave_up(&request.object, since.elapsed(), &last_reply));
        wait.ended(passed.unwrap_or_else(gave_up))
    }

    /// Acquires `request` if its object is free now. If a request fails and a retry can help,
    /// retries until the request timeout or `until`, whichever is first.
    pub(crate) async fn try_acquire(
        self: &Arc<Self>,
        request: &AcquireRequest,
        until: Option<Instant>,
    ) -> Result<Option<Held>, Error> {
        let asked = {
            let mut acquisition = Acquisition::tries(&request.object, request.is_fenced());
            let asked = self.ask_once(request, until).await;
            match &asked {
                Ok(None) => acquisition.is_busy(),
                asked => acquisition.ended(asked),
            }
            asked
        };
        match (asked?, request.replicas) {
            (Some(held), Some(replicas)) => {
                self.acknowledged(replicas, held, until).await.map(Some)
            }
            (held, _) => Ok(held),
        }
    }

    async fn ask_once(
        self: &Arc<Self>,
        request: &AcquireRequest,
        until: Option<Instant>,
    ) -> Result<Option<Held>, Error> {
        lets_others_run(request).await;
        self.ready()?;
        if let Some(hold) = self.shared_by_now(request).await? {
            return Ok(Some(self.share(hold)));
        }
        let (last_reply, question) = (LastReply::default(), self.limits.request);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = left.map_or(question, |left| left.min(question));
        match timeout(limit, Attempt::new(self, request, &last_reply, None).run()).await {
            Ok(Ok(AttemptEnd::Acquired(held))) => Ok(Some(held)),
            Ok(Ok(AttemptEnd::PassedBy(_)) | Err(Error::TimedOut { .. })) => Ok(None),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.unanswered(
                &request.object.name,
                limit,
                last_reply.lock().take().and_then(Result::ok),
            )),
        }
    }

    async fn acquire_noting(
        self: &Arc<Self>,
        request: &AcquireRequest,
        last_reply: &LastReply,
        until: Option<Instant>,
    ) -> Result<Held, Error> {
        lets_others_run(request).await;
        self.ready()?;
        self.reachable(&request.object.name)?;
        let mut position = None;
        loop {
            let mut slot = match self.slot(request, position).await? {
                Entrance::Slot(slot) => slot,
                Entrance::Shared(hold) => return Ok(self.share(hold)),
                // A waiter for a hold cannot use the reply to another waiter.
                Entrance::Answered => continue,
            };
            if let Some(handoff) = slot.handoff.take() {
                let now = self.core.clock.now();
                if let Some(grant) = handoff.take(now) {
                    tracing::debug!(target: "leasehold", lock = %request.object.name, owner = %grant.claim.owner,
                        "lock granted: handed off by another task of this client");
                    return self.enter(request, grant, Some(slot), now, true);
                }
            }
            let past = self.about_to_leave(request);
            if (past.is_some() || slot.head_start.is_some())
                && !Box::pin(self.lets_others_ask(&slot, past, until)).await?
            {
                position = Some(slot.position);
                continue;
            }
            // The attempt is boxed, so that a future that waits for the request slot is small. The
            // attempt boxes its own waits, so that the attempt is small if the store grants the
            // first request.
            match Box::pin(Attempt::new(self, request, last_reply, Some(slot)).run()).await? {
                AttemptEnd::Acquired(held) => return Ok(held),
                AttemptEnd::PassedBy(before) => position = Some(before),
            }
        }
    }

    /// Takes a share in the current hold, without waiting for a request slot. If that hold is about
    /// to end, waits for this end, and tries to take a share in the next hold.
    async fn shared_by_now(&self, request: &AcquireRequest) -> Result<Option<Arc<Hold>>, Error> {
        if !request.may_share() {
            return Ok(None);
        }
        let share = || self.contention.share(&request.object, request.profile());
        if let Some(hold) = share() {
            return Ok(Some(hold));
        }
        let Some(past) = self.about_to_leave(request) else { return Ok(None) };
        Box::pin(self.unless_closed(past.leaves_a_window())).await?;
        Ok(share())
    }

    /// Returns the current hold, if it will end soon and `request` may no longer share it.
    fn about_to_leave(&self, request: &AcquireRequest) -> Option<Arc<Hold>> {
        request.may_share().then(|| self.contention.about_to_leave(&request.object))?
    }

    /// Lets other waiters send their requests first: waiters without a queue entry, and waiters
    /// that the ending hold `past` has excluded. Without a pause between shared read holds,
    /// Redisson's writers would never acquire. Returns whether this task still has the request
    /// slot.
    async fn lets_others_ask(
        &self,
        slot: &RequestSlot,
        past: Option<Arc<Hold>>,
        until: Option<Instant>,
    ) -> Result<bool, Error> {
        let others_first = slot.head_start.unwrap_or_default();
        let window = past.as_ref().map_or(Duration::ZERO, |_| SHARING_PAST + SHARING_PAUSE);
        // A caller with a short timeout must still have time for its own request.
        let max_wait = until.map(|until| until.saturating_duration_since(Instant::now()) / 4);
        let longest = (others_first + window).min(max_wait.unwrap_or(Duration::MAX));
        slot.note_sleep(self.core.clock.now() + longest);
        let rest = async {
            sleep(others_first).await;
            if let Some(past) = past {
                past.leaves_a_window().await;
            }
        };
        self.unless_closed(timeout(longest, rest)).await?.ok();
        Ok(slot.goes_on())
    }

    /// Returns the share of this task in `hold`, which another task has acquired. `Entries::share`
    /// has already counted this share.
    fn share(self: &Arc<Self>, hold: Arc<Hold>) -> Held {
        tracing::debug!(target: "leasehold", lock = %hold.name(), owner = %hold.grant.claim.owner,
            "lock granted: joined the hold of another task of this client");
        self.core.counters.handed_off(&hold.grant.claim);
        Held::new(hold, self)
    }

    async fn pass_noting(
        self: &Arc<Self>,
        request: &AcquireRequest,
        last_reply: &LastReply,
    ) -> Result<(), Error> {
        self.ready()?;
        self.reachable(&request.object.name)?;
        let mut position = None;
        loop {
            let Entrance::Slot(slot) = self.slot(request, position).await? else { return Ok(()) };
            match Box::pin(Attempt::new(self, request, last_reply, Some(slot)).until_open()).await?
            {
                AttemptEnd::Acquired(()) => return Ok(()),
                AttemptEnd::PassedBy(before) => position = Some(before),
            }
        }
    }

    /// Waits for the request slot. If the task had the slot before and lost it, `again` is the
    /// earlier position of the task.
    async fn slot(
        self: &Arc<Self>,
        request: &AcquireRequest,
        again: Option<LinePosition>,
    ) -> Result<Entrance, Error> {
        let listens = request.wait_strategy == WaitStrategy::PubSub;
        let spec = WaiterSpec {
            profile: request.profile(),
            listens,
            may_share: request.may_share(),
            again,
        };
        let entrance = self.contention.slot(&request.object, &spec, || self.revive()).await;
        let closed = || if self.core.open.is_closed() { Error::ShutDown } else { Error::NoRuntime };
        entrance.ok_or_else(closed)
    }

    /// Makes a hold for `request` from a grant. The grant is new, or is `taken_over` from an
    /// earlier hold. Fails if the client was shut down before the hold was registered.
    fn enter(
        self: &Arc<Self>,
        request: &AcquireRequest,
        grant: Grant,
        slot: Option<RequestSlot>,
        now: Instant,
        taken_over: bool,
    ) -> Result<Held, Error> {
        let hold = Hold::new(grant, request.terms, now, &self.core.counters);
        let hold = Arc::new(hold.with_reason(request.reason.clone()));
        self.contention.entered(&hold, slot);
        self.watchdog.watch(&hold, taken_over);
        if self.core.open.is_closed() {
            self.take_back(&hold);
            return Err(Error::ShutDown);
        }
        // The background task renews the lease, but its runtime may have ended meanwhile. This call
        // restarts the task.
        self.revive();
        Ok(Held::new(hold, self))
    }

    pub(super) fn next_grant(&self) -> u64 {
        self.grants.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the error for a caller whose timeout ended after `waited`.
    fn gave_up(&self, object: &Object, waited: Duration, last_reply: &LastReply) -> Error {
        let now = self.core.clock.now();
        let last_reply = last_reply.lock().take();
        let silent = |asked_at: &Instant| now.saturating_duration_since(*asked_at) >= SILENCE;
        let asked = matches!(&last_reply, Some(Err(asked_at)) if silent(asked_at));
        let output = last_reply.and_then(Result::ok);
        // A waiter that sent no request uses the last reply to another waiter of this client,
        // unless the store has become unavailable since. If this client has the hold itself, no
        // reply is needed.
        let here = || self.contention.grant(object).is_some();
        let knows = || here() || !asked && self.core.store.unavailability(&object.name).is_none();
        let seen = || {
            let holder = self.contention.seen(object, now).filter(|_| knows())?;
            Some(Ok((Taken { holder, ..Taken::UNKNOWN }, now)))
        };
        match output.or_else(seen) {
            Some(Ok((taken, asked_at))) => {
                self.core.counters.timed_out();
                let after = |it: Holder| it.after(now.saturating_duration_since(asked_at));
                let holder = taken.holder.map(after);
                self.busy(object, waited, Taken { holder, ..taken })
            }
            output => self.unanswered(&object.name, waited, output),
        }
    }

    /// Returns the error for a lock that was `taken` until the timeout. If a hold of this client
    /// blocks the caller, the error names that hold.
    fn busy(&self, object: &Object, waited: Duration, taken: Taken) -> Error {
        let Taken { holder, unset, .. } = taken;
        let own = self.contention.own_blocking_hold(object, self.core.clock.now());
        let of_this_client = |holder: &Holder| self.identity.is_of(holder.owner());
        let held_here =
            |holder: &Holder| of_this_client(holder) && self.may_be_held_here(object, holder);
        let by_this_client = own.is_some() || holder.as_ref().is_some_and(held_here);
        let mut holder = own.or(holder);
        if let Some(holder) = &mut holder {
            holder.client = self.contention.client_of(object, &holder.owner);
        }
        let (name, waited) = (object.name.clone(), in_millis(waited));
        Error::TimedOut { name, waited, holder, by_this_client, unset }
    }

    /// Whether this client may still have a guard of `holder`, which is one of its owners. If not,
    /// the server has missed a release, and still names the owner of an earlier hold.
    fn may_be_held_here(&self, object: &Object, holder: &Holder) -> bool {
        let for_holder = object.task.as_ref().map(|_| object.for_task(holder.owner().clone()));
        let object = for_holder.as_ref().unwrap_or(object);
        !object.traits().is_exclusive() || self.contention.grant(object).is_some()
    }

    /// Returns the error for a store that did not reply for `waited`. `last_reply` is the reply
    /// before this silence.
    fn unanswered(&self, name: &Name, waited: Duration, last_reply: Option<NotGranted>) -> Error {
        // The current failure of the store is newer than `last_reply`.
        match (self.core.store.unavailability(name), last_reply) {
            (Some(refused @ Failure::Refused { .. }), _) => Error::about(name, refused),
            (None, Some(Err(failure))) => Error::about(name, failure),
            _ => self.error(name, nothing_came(in_millis(waited))),
        }
    }

    /// Waits for `something`, unless the client is shut down first.
    async fn unless_closed<T>(&self, something: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            biased;
            done = something => Ok(done),
            _ = self.core.open.acquire() => Err(Error::ShutDown),
        }
    }
}
