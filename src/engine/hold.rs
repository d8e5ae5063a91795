//! One owner's grant of one name, and the moment from which the client must no longer rely on it.
//!
//! It does not call the store: callers pass replies and the time. Its only lock guards all state
//! that changes, except the number of its shares, and is a leaf.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use super::{
    clock::Stamp,
    counters::Counters,
    grant::{Grant, LeaseProfile, LocalBudget, ReplicationStatus, Terms},
    timing::{
        HOLD_BACK_ONE_IN, LONG_HOLD, LONGEST_HOLD_BACK, SHARING_PAST, SHARING_RESTS,
        SHORTEST_HOLD_BACK,
    },
};
use crate::{
    domain::{
        Claim, Ended, Ending, Holder, Lease, LostReason, Mutex, Name, Object, ReleaseMode, Renewal,
        Share, WaiterRecord,
    },
    store::LATEST,
};

/// One owner's grant of one name, as its guards see it.
pub(crate) struct Hold {
    /// The grant at the time of its acquisition.
    pub(super) grant: Grant,
    /// Whether its lease is renewed, or fixed.
    pub(super) renewed: bool,
    pub(super) entered_at: Stamp,
    /// The end that no renewal extends.
    pub(super) must_end_at: Option<Stamp>,
    /// Why its caller holds it, for operators.
    pub(super) reason: Option<Arc<str>>,
    state: Mutex<State>,
    /// Whether its owner also has a read hold, which may keep the lock in the store when the lease
    /// of the write hold is over.
    read_under_write: AtomicBool,
    shares: AtomicU32,
    counters: Arc<Counters>,
}

struct State {
    /// When the request was sent that was granted or renewed last. The lease counts from then.
    leased_at: Instant,
    /// When the last renewal was sent, with or without a reply.
    asked_at: Stamp,
    /// Whether the last renewal failed.
    doubted: bool,
    /// How often it became more than its grant, by another share or by a read hold of its owner.
    more: u32,
    /// How many writes may be in flight. The store accepts each of them under any hold of the same
    /// owner.
    writes: u32,
    /// How many replicas are known to have it.
    replication: ReplicationStatus,
    /// Once it is set, it never changes: a lost hold is never held again.
    over: Option<LostReason>,
    /// How it ends, if its element does not go back to its queue.
    ending: Option<Ending>,
    /// Whether the store no longer has it, as far as this client knows.
    has_left: bool,
    /// Notified when it is over, and when it has left, if a task waits for that.
    watchers: Option<Arc<Notify>>,
}

impl Hold {
    /// Creates the hold of `grant`, acquired at `now`.
    pub(crate) fn new(grant: Grant, terms: Terms, now: Instant, counters: &Arc<Counters>) -> Self {
        counters.granted(&grant.claim);
        let Grant { leased_at, asked_at, replication, .. } = grant;
        let state = State {
            leased_at,
            asked_at,
            doubted: false,
            more: 0,
            writes: 0,
            replication,
            over: None,
            ending: None,
            has_left: false,
            watchers: None,
        };
        Self {
            grant,
            renewed: terms.renewed,
            entered_at: now.into(),
            must_end_at: terms.max_hold.map(|most| (now + most).into()),
            reason: None,
            state: Mutex::new(state),
            read_under_write: AtomicBool::new(false),
            shares: AtomicU32::new(1),
            counters: Arc::clone(counters),
        }
    }

    /// Sets the reason of its caller.
    pub(crate) fn with_reason(self, reason: Option<Arc<str>>) -> Self {
        Self { reason, ..self }
    }

    /// Whether the client knew the grant when it sent the request of `moment`.
    pub(crate) fn was_known_at(&self, moment: Instant) -> bool {
        self.entered_at < moment.into()
    }

    pub(crate) fn name(&self) -> &Name {
        self.grant.claim.name()
    }

    pub(crate) fn object(&self) -> &Object {
        &self.grant.claim.object
    }

    /// Returns the moment from which the client must not rely on it.
    pub(crate) fn ends(&self) -> Instant {
        self.earliest_end(&self.state.lock())
    }

    fn lease(&self, state: &State) -> Lease {
        Lease::new(state.leased_at, self.grant.claim.ttl)
    }

    fn earliest_end(&self, state: &State) -> Instant {
        let lease = self.lease(state).ends();
        self.must_end_at.map_or(lease, |most| lease.min(most.into()))
    }

    /// Returns the latest moment at which the store ends it by itself. The store may have executed
    /// a renewal without a reply.
    pub(crate) fn store_ends(&self) -> Instant {
        Instant::from(self.state.lock().asked_at) + self.grant.claim.ttl
    }

    /// Notes that a renewal is sent at `now`.
    pub(crate) fn asks(&self, now: Instant) {
        if self.renewed {
            self.state.lock().asked_at = now.into();
        }
    }

    /// Returns when to send the next renewal.
    pub(crate) fn renew_at(&self) -> Instant {
        self.lease(&self.state.lock()).renew_at()
    }

    /// The lease profile of its grant.
    pub(super) fn profile(&self) -> LeaseProfile {
        let ttl = self.renewed.then_some(self.grant.claim.ttl);
        let units = self.grant.claim.units();
        LeaseProfile { ttl, fenced: self.grant.token.is_some(), units }
    }

    /// Returns how to release it at `now`.
    pub(super) fn release_mode(&self, now: Instant) -> ReleaseMode {
        let lost = self.state.lock().over.is_some_and(|reason| reason != LostReason::Released);
        // The plain release publishes a message even if it finds no hold. So a hold in doubt is
        // released by a script that checks first.
        let looks = self.grant.contended || self.grant.unsure || lost;
        match looks || self.held_for(now) >= LONG_HOLD {
            true => ReleaseMode::HandOver,
            false => ReleaseMode::Broadcast,
        }
    }

    /// Returns for how long its client sends no request for the name after a release at `now`, if
    /// no other waiter is known. For short holds, the number of the grant decides whether it
    /// pauses. A counter would not work if a client alternates between names.
    pub(super) fn hold_back_time(&self, now: Instant) -> Option<Duration> {
        if self.object().traits().waiter_record != WaiterRecord::QueueEntry || self.grant.contended
        {
            return None;
        }
        let in_its_turn = || fastrand::Rng::with_seed(self.grant.id).u32(..HOLD_BACK_ONE_IN) == 0;
        let rest = match self.held_for(now) {
            held if held >= LONG_HOLD => held / 50,
            held if in_its_turn() => held * HOLD_BACK_ONE_IN / 50,
            _ => return None,
        };
        (rest >= SHORTEST_HOLD_BACK).then(|| rest.min(LONGEST_HOLD_BACK))
    }

    /// Notes how it ends.
    pub(super) fn note_ending(&self, ending: Ending) {
        self.state.lock().ending = Some(ending);
    }

    /// Returns the claim to release. If the hold was lost, its element is not done: it goes back,
    /// if the store still has it.
    pub(super) fn claim_at_end(&self) -> Cow<'_, Claim> {
        let state = self.state.lock();
        let lost = state.over.is_some_and(|reason| reason != LostReason::Released);
        match state.ending.filter(|_| !lost) {
            Some(ending) => {
                Cow::Owned(Claim { share: Share::Element(ending), ..self.grant.claim.clone() })
            }
            None => Cow::Borrowed(&self.grant.claim),
        }
    }

    /// Returns the request that renews it.
    pub(crate) fn renewal(&self) -> Renewal {
        let Claim { object, owner, share, .. } = self.grant.claim.clone();
        Renewal { object, owner, share, ttl: self.profile().ttl }
    }

    /// Returns for how long the client may still rely on it. A hold whose time has just ended is
    /// lost, even if no timer has fired yet.
    pub(crate) fn remaining(&self, now: Instant) -> Result<Duration, LostReason> {
        let state = self.state.lock();
        if let Some(reason) = state.over {
            return Err(reason);
        }
        let left = self.earliest_end(&state).saturating_duration_since(now);
        if !left.is_zero() {
            return Ok(left);
        }
        let reason = match self.must_end_at {
            Some(most) if now >= most.into() => LostReason::MaxHold,
            _ => LostReason::Expired,
        };
        self.set_over(state, reason, now);
        Err(reason)
    }

    /// Notes that the store executed the renewal that was sent at `asked_at`.
    pub(crate) fn renewed(&self, asked_at: Instant, now: Instant) {
        if self.remaining(now).is_err() {
            return;
        }
        let mut state = self.state.lock();
        state.doubted = false;
        if self.renewed {
            state.leased_at = state.leased_at.max(asked_at);
            // The previous hold of the grant may have sent it.
            state.asked_at = state.asked_at.max(asked_at.into());
        }
    }

    /// Notes that a write is sent under it at `now`, if it is not over. Its grant goes to no other
    /// hold until the write has its reply.
    pub(super) fn writes(&self, now: Instant) -> Result<(), LostReason> {
        self.remaining(now)?;
        let mut state = self.state.lock();
        // Its grant may have gone to another hold in between.
        state.over.map_or(Ok(()), Err)?;
        state.writes += 1;
        Ok(())
    }

    /// Notes that one of its writes is no longer in flight.
    pub(super) fn write_answered(&self) {
        self.state.lock().writes -= 1;
    }

    /// How many replicas are known to have it after this number of `moves`.
    pub(super) fn replicas(&self, moves: u64) -> u32 {
        self.state.lock().replication.after(moves)
    }

    /// Notes that this number of replicas had it after this number of `moves`.
    pub(super) fn is_replicated(&self, replicas: u32, moves: u64) {
        let mut state = self.state.lock();
        let most = state.replication.after(moves).max(replicas);
        state.replication = ReplicationStatus::counted(most, moves);
    }

    /// Notes that it is unknown whether the store renewed it.
    pub(crate) fn doubt(&self) {
        let first = !std::mem::replace(&mut self.state.lock().doubted, true);
        if first {
            tracing::debug!(target: "leasehold", lock = %self.name(), owner = %self.grant.claim.owner,
                "hold in doubt: renewal failed, retrying until the lease ends");
        }
    }

    /// Whether it is unknown if the store executed the last renewal.
    pub(super) fn is_in_doubt(&self) -> bool {
        let state = self.state.lock();
        state.doubted && state.over.is_none()
    }

    /// Ends it at `now`, unless it is over already: then returns why.
    pub(crate) fn end(&self, reason: LostReason, now: Instant) -> Result<(), LostReason> {
        let state = self.state.lock();
        if let Some(before) = state.over {
            return Err(before);
        }
        self.set_over(state, reason, now);
        Ok(())
    }

    fn set_over(&self, mut state: MutexGuard<'_, State>, reason: LostReason, now: Instant) {
        state.over = Some(reason);
        let watchers = state.watchers.take();
        drop(state);
        if reason != LostReason::Released {
            self.found_lost(reason, now);
        }
        if let Some(watchers) = watchers {
            watchers.notify_waiters();
        }
    }

    /// Ends it as released, if the next hold of this client can use its unchanged grant, and other
    /// clients do not wait too long.
    pub(super) fn pass_on(&self, now: Instant) -> bool {
        let state = self.state.lock();
        let may = self.may_stay(now) && self.is_as_granted(&state, now);
        if may {
            self.set_over(state, LostReason::Released, now);
            self.counts(Ended::Released, now);
        }
        may
    }

    /// The grant for the next hold, if it is still valid at `now`.
    pub(super) fn grant_for_next(&self, now: Instant) -> Option<Grant> {
        let state = self.state.lock();
        let (leased_at, asked_at, replication) =
            (state.leased_at, state.asked_at, state.replication);
        let budget =
            LocalBudget { turns: self.grant.budget.turns.saturating_sub(1), ..self.grant.budget };
        // A task waited in this process, so clients elsewhere may wait, too.
        let token = self.grant.token.and_then(|token| token.checked_add(1));
        let before = self.grant.clone();
        let next =
            Grant { leased_at, asked_at, replication, budget, token, contended: true, ..before };
        (now < self.lease(&state).ends()).then_some(next)
    }

    /// Whether another hold of this process may have its grant.
    fn may_stay(&self, now: Instant) -> bool {
        self.grant.budget.turns > 0 && self.grant.budget.until > now.into()
    }

    /// Whether the next hold would need no change in the store.
    fn is_as_granted(&self, state: &State, now: Instant) -> bool {
        let must_end = self.must_end_at.is_some_and(|most| now >= most.into());
        let fresh = now < self.lease(state).renew_at() && !must_end;
        let sound = state.over.is_none() && !state.doubted && state.more == 0;
        // Permits of a semaphore have no lease that could end.
        let lasts = self.renewed || self.grant.claim.is_number();
        lasts && fresh && sound && state.writes == 0
    }

    /// Notes that the store knows more of it than its grant. Its grant does not go to another hold.
    pub(super) fn note_more(&self) {
        self.state.lock().more += 1;
    }

    /// The same, and a read hold of its owner may keep it in the store when its own lease is over.
    pub(super) fn note_read_under_write(&self) {
        self.read_under_write.store(true, Ordering::Release);
        self.note_more();
    }

    /// Whether its name stays known until the store has replied to its release. A read hold of a
    /// writer may be shared only after this reply, because until then a guarded write may reach the
    /// store.
    pub(super) fn leaves_when_answered(&self) -> bool {
        self.object().traits().is_shared() || self.is_read_under_write()
    }

    /// Whether its own lease has ended, even if the store may keep it.
    pub(super) fn outlives_itself(&self) -> bool {
        let over = self.state.lock().over;
        let by_time = matches!(over, Some(LostReason::Expired | LostReason::MaxHold));
        self.is_read_under_write() && by_time
    }

    fn is_read_under_write(&self) -> bool {
        self.read_under_write.load(Ordering::Acquire)
    }

    /// Returns until when a release makes sense that is requested at `now`.
    pub(super) fn pending_until(&self, now: Instant) -> Instant {
        let (read_under_write, ends) = (self.is_read_under_write(), self.store_ends());
        if read_under_write { ends.max(now + LATEST) } else { ends }
    }

    /// Whether waiters that come now may share it without a request.
    pub(super) fn may_be_shared(&self, now: Instant) -> bool {
        let state = self.state.lock();
        let sound = state.over.is_none() && !state.doubted && self.must_end_at.is_none();
        let fresh = now < self.lease(&state).renew_at();
        let few = state.more < self.grant.budget.turns;
        self.renewed && sound && fresh && few && self.may_stay(now)
    }

    /// Whether it will end soon, so that a waiter that comes at `now` and may not share it should
    /// wait. Either its release is in flight, or its limits for sharing are reached.
    pub(super) fn is_about_to_leave(&self, now: Instant) -> bool {
        let past = now.checked_duration_since(self.grant.budget.until.into());
        let just_past = past.is_some_and(|past| past < SHARING_PAST);
        let state = self.state.lock();
        let shared = state.more > 0 && (just_past || state.more >= self.grant.budget.turns);
        !state.has_left && (state.over.is_some() || shared)
    }

    /// Waits until it is released in the store, and then for as long as waiters that it excluded
    /// may acquire. It does not wait for a reader that continues.
    pub(super) async fn leaves_a_window(&self) {
        let left = timeout(SHARING_PAST, self.notified_of(|state| state.has_left)).await;
        if left.is_ok() && self.state.lock().more > 0 {
            sleep(SHARING_RESTS).await;
        }
    }

    /// Notes that the store no longer has it, or will end it by itself.
    pub(super) fn has_left(&self) {
        let mut state = self.state.lock();
        state.has_left = true;
        let watchers = state.watchers.take();
        drop(state);
        watchers.iter().for_each(|watchers| watchers.notify_waiters());
    }

    /// Returns the reply to a request for the name at `now`.
    pub(super) fn as_holder(&self, now: Instant) -> Option<Holder> {
        let remaining = self.remaining(now).ok()?;
        Some(Holder::new(self.grant.claim.owner.clone(), self.shares(), Some(remaining)))
    }

    /// Counts its end at `now`.
    pub(super) fn counts(&self, ended: Ended, now: Instant) {
        self.counters.ended(&self.grant.claim, ended, || self.held_for(now));
    }

    pub(super) fn found_lost(&self, reason: LostReason, now: Instant) {
        self.counts(Ended::Lost(reason), now);
        tracing::warn!(target: "leasehold", lock = %self.name(),
            owner = %self.grant.claim.owner, %reason, "hold lost");
    }

    /// Waits until it is over.
    pub(super) async fn ended(&self) {
        self.notified_of(|state| state.over.is_some()).await;
    }

    async fn notified_of(&self, it_is: impl Fn(&State) -> bool) {
        loop {
            let watchers = {
                let mut state = self.state.lock();
                if it_is(&state) {
                    return;
                }
                Arc::clone(state.watchers.get_or_insert_default()).notified_owned()
            };
            watchers.await;
        }
    }

    /// How many shares it has.
    pub(super) fn shares(&self) -> u32 {
        self.shares.load(Ordering::Acquire)
    }

    /// Counts another share, unless the last one was released. Returns the number of shares.
    pub(super) fn one_more_share(&self) -> Option<u32> {
        let more = |shares| (shares > 0).then_some(shares + 1);
        let before = self.shares.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        self.state.lock().more += u32::from(before.is_ok());
        before.ok().map(|before| before + 1)
    }

    /// Counts one share less. Returns how many are left.
    pub(super) fn one_share_less(&self) -> u32 {
        self.shares.fetch_sub(1, Ordering::AcqRel) - 1
    }

    /// Counts one share less, unless it is the last one. Returns how many are left.
    pub(super) fn one_share_less_of_many(&self) -> Option<u32> {
        let less = |shares| (shares > 1).then(|| shares - 1);
        let before = self.shares.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        before.ok().map(|before| before - 1)
    }

    /// For how long it has been held at `now`.
    pub(super) fn held_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.entered_at.into())
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", &self.grant.claim.object.name)
            .field("owner", &self.grant.claim.owner)
            .field("over", &self.state.lock().over)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::{
        Client, Lock, MemoryStore,
        engine::Engine,
        store::{Event, Subscriber},
    };

    const SOON: Duration = Duration::from_millis(2);

    /// Readers of a client that share a hold for long, and its engine.
    fn readers() -> (MemoryStore, Arc<Engine>, Lock) {
        let memory = MemoryStore::new();
        let engine = Engine::on(&memory, "one");
        let prices = Client::of(Arc::clone(&engine)).read_write_lock("prices").unwrap();
        let read = prices.read().local_handoff(10, Duration::from_secs(3600));
        (memory, engine, read)
    }

    /// A reader that joins a hold gets at least two thirds of its lease.
    #[tokio::test(start_paused = true)]
    async fn hold_due_for_renewal_is_not_shared() {
        let (memory, _engine, read) = readers();
        let first = read.acquire().await.unwrap();
        memory.stall();
        sleep(Duration::from_secs(10) - SOON).await;
        assert_eq!(read.acquire().await.unwrap().owner(), first.owner());
        sleep(2 * SOON).await;
        assert!(read.acquire_within(SOON).await.is_err(), "it asks for itself");
        memory.resume();
        sleep(SOON).await;
        assert_eq!(read.acquire().await.unwrap().owner(), first.owner());
    }

    /// A polling waiter, which no other client can see, acquires in these pauses.
    #[tokio::test(start_paused = true)]
    async fn client_pauses_for_a_fiftieth_of_its_short_holds() {
        let lock = Client::with_store(&MemoryStore::new()).lock("orders").unwrap();
        let held = Duration::from_millis(20);
        let start = Instant::now();
        for _ in 0..800 {
            let guard = lock.acquire().await.unwrap();
            sleep(held).await;
            guard.release().await.unwrap().into_result().unwrap();
        }
        let rested = start.elapsed() - 800 * held;
        assert!((8 * held..32 * held).contains(&rested), "{rested:?} of 320 ms");
    }

    /// It may be lost with the data of a server that has failed over.
    #[tokio::test(start_paused = true)]
    async fn hold_in_doubt_is_not_shared() {
        let (memory, engine, read) = readers();
        let first = read.acquire().await.unwrap();
        sleep(Duration::from_secs(5)).await;
        memory.fail("LOADING Redis is loading the dataset in memory");
        engine.receive(Event::Back);
        sleep(SOON).await;
        assert!(read.try_acquire().await.is_err(), "it asks for itself");
        memory.heal();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(read.acquire().await.unwrap().owner(), first.owner());
    }
}
