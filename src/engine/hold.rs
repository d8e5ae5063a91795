//! The grant of one name to one owner, and the moment from which the client must no longer rely on
//! this grant.
//!
//! A hold does not call the store. The callers of its functions pass the replies of the store and
//! the time. One mutex guards all state that changes, except the number of shares. The mutex is a
//! leaf: no other lock is taken under it.

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
        HOLD_BACK_ONE_IN, LONG_HOLD, LONGEST_HOLD_BACK, SHARING_PAST, SHARING_PAUSE,
        SHORTEST_HOLD_BACK,
    },
};
use crate::{
    domain::{
        Claim, Ended, Ending, Holder, Lease, LostReason, Mutex, Name, Object, ReleaseMode, Renewal,
        Share, WaiterRecord,
    },
    store::LATEST_EXECUTION,
};

/// A grant while it lasts. Each guard has one share in the hold.
pub(crate) struct Hold {
    /// The grant as it was when this hold began.
    pub(super) grant: Grant,
    /// Whether the watchdog renews the lease. Otherwise the lease is fixed.
    pub(super) renewed: bool,
    pub(super) entered_at: Stamp,
    /// When the hold must end because of `max_hold`. No renewal extends this time.
    pub(super) must_end_at: Option<Stamp>,
    /// Why the caller holds the object, in words for operators.
    pub(super) reason: Option<Arc<str>>,
    state: Mutex<State>,
    /// Whether the owner of this write hold also has a read hold. The read hold may keep the lock
    /// in the store after the lease of the write hold has ended.
    read_under_write: AtomicBool,
    shares: AtomicU32,
    counters: Arc<Counters>,
}

struct State {
    /// When the request was sent that acquired or last renewed the grant. The lease counts from
    /// that time.
    leased_at: Instant,
    /// When the last renewal was sent, with or without a reply.
    asked_at: Stamp,
    /// Whether the last renewal failed.
    doubted: bool,
    /// How many events forbid a hand-off of the grant. Such an event is another share, a read hold
    /// of the same owner, or a caller that has read the ids of its permits.
    more: u32,
    /// How many guarded writes have no reply, and so may still be in flight. The store accepts such
    /// a write under any hold of the same owner.
    writes: u32,
    /// How many replicas are known to have the grant.
    replication: ReplicationStatus,
    /// Why the hold is over. Once set, the reason never changes, because a hold that is over is
    /// never valid again.
    over: Option<LostReason>,
    /// Where the claimed element goes at the end of the hold. If `None`, the element goes back to
    /// its queue.
    ending: Option<Ending>,
    /// Whether the store no longer has the hold, as far as this client knows.
    is_released_in_store: bool,
    /// Notified when `over` or `is_released_in_store` is set. `None` if no task waits for that.
    watchers: Option<Arc<Notify>>,
}

impl Hold {
    /// Creates the hold of a `grant` that was acquired at `now`.
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
            is_released_in_store: false,
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

    pub(super) fn with_reason(self, reason: Option<Arc<str>>) -> Self {
        Self { reason, ..self }
    }

    /// Whether the hold began before a request that the client sent at `moment`.
    pub(super) fn was_known_at(&self, moment: Instant) -> bool {
        self.entered_at < moment.into()
    }

    pub(crate) fn name(&self) -> &Name {
        self.grant.claim.name()
    }

    pub(crate) fn object(&self) -> &Object {
        &self.grant.claim.object
    }

    /// Returns the moment from which the client must no longer rely on the hold.
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

    /// Returns the latest moment at which the lease in the store may end. A renewal without a reply
    /// counts, because the store may have executed this renewal.
    pub(super) fn store_ends(&self) -> Instant {
        Instant::from(self.state.lock().asked_at) + self.grant.claim.ttl
    }

    /// Records that a renewal is sent at `now`.
    pub(crate) fn asks(&self, now: Instant) {
        if self.renewed {
            self.state.lock().asked_at = now.into();
        }
    }

    /// Returns when to send the next renewal.
    pub(crate) fn renew_at(&self) -> Instant {
        self.lease(&self.state.lock()).renew_at()
    }

    pub(super) fn profile(&self) -> LeaseProfile {
        let ttl = self.renewed.then_some(self.grant.claim.ttl);
        let units = self.grant.claim.units();
        LeaseProfile { ttl, fenced: self.grant.token.is_some(), units }
    }

    /// Returns how to release the hold at `now`.
    pub(super) fn release_mode(&self, now: Instant) -> ReleaseMode {
        let lost = self.state.lock().over.is_some_and(|reason| reason != LostReason::Released);
        // A `Broadcast` publishes a message even if the store no longer has the hold. So if the
        // hold may be gone, `HandOver` is used, whose script first checks whether the hold exists.
        let looks = self.grant.contended || self.grant.unsure || lost;
        match looks || self.held_for(now) >= LONG_HOLD {
            true => ReleaseMode::HandOver,
            false => ReleaseMode::Broadcast,
        }
    }

    /// Returns how long to send no request for the name after a release at `now`. In this time,
    /// busy-polling clients can acquire. If other waiters are known, there is no such pause. After
    /// short holds, the client pauses once in [`HOLD_BACK_ONE_IN`] times. The number of the grant
    /// decides when, because a counter fails for a client that alternates between names.
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

    /// Records `ending`, which decides where the claimed element goes when the hold ends.
    pub(super) fn note_ending(&self, ending: fn(u64) -> Ending) {
        self.state.lock().ending = self.grant.element.as_ref().map(|it| ending(it.taken_at));
    }

    /// Returns the claim to release. If the hold was lost, its element does not count as done. If
    /// the store still has the claim, the element goes back to its queue.
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

    pub(crate) fn renewal(&self) -> Renewal {
        let Claim { object, owner, share, .. } = self.grant.claim.clone();
        Renewal { object, owner, share, ttl: self.profile().ttl }
    }

    /// Returns for how long the client may still rely on the hold. A hold whose time has just ended
    /// is lost, even if no timer has fired yet.
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

    /// Records that the store executed the renewal that was sent at `asked_at`.
    pub(crate) fn renewed(&self, asked_at: Instant, now: Instant) {
        if self.remaining(now).is_err() {
            return;
        }
        let mut state = self.state.lock();
        state.doubted = false;
        if self.renewed {
            state.leased_at = state.leased_at.max(asked_at);
            // If the previous hold of the grant sent this renewal, `state.asked_at` is older than
            // the renewal. If a later renewal was sent, `state.asked_at` is newer. So the later of
            // the two times is kept.
            state.asked_at = state.asked_at.max(asked_at.into());
        }
    }

    /// Records that the lease in the store may end as early as `end`. If the client relied on a longer
    /// lease, it ends sooner.
    pub(crate) fn ends_in_store(&self, end: Instant) {
        let mut state = self.state.lock();
        if end < self.lease(&state).ends()
            && let Some(leased_at) = end.checked_sub(self.grant.claim.ttl)
        {
            state.leased_at = leased_at;
        }
    }

    /// Records that a guarded write is sent at `now`, unless the hold is over. The grant is not
    /// handed off until the write has its reply.
    pub(super) fn writes(&self, now: Instant) -> Result<(), LostReason> {
        self.remaining(now)?;
        let mut state = self.state.lock();
        // The grant may have been handed off between the two checks.
        state.over.map_or(Ok(()), Err)?;
        state.writes += 1;
        Ok(())
    }

    /// Records that one guarded write is no longer in flight.
    pub(super) fn write_answered(&self) {
        self.state.lock().writes -= 1;
    }

    /// Returns how many replicas are known to have the grant. `moves` says how often a server has
    /// been replaced. Only acknowledgements since the last replacement count.
    pub(super) fn replicas(&self, moves: u64) -> u32 {
        self.state.lock().replication.after(moves)
    }

    /// Records that this number of replicas had the grant after `moves` replacements of a server.
    pub(super) fn is_replicated(&self, replicas: u32, moves: u64) {
        let mut state = self.state.lock();
        let most = state.replication.after(moves).max(replicas);
        state.replication = ReplicationStatus::counted(most, moves);
    }

    /// Records that a renewal failed. The store may or may not have executed it.
    pub(crate) fn doubt(&self) {
        let first = !std::mem::replace(&mut self.state.lock().doubted, true);
        if first {
            tracing::debug!(target: "leasehold", lock = %self.name(), owner = %self.grant.claim.owner,
                "renewal of this hold failed: retrying until the lease ends");
        }
    }

    /// Whether the hold is in doubt, because its last renewal failed.
    pub(super) fn is_in_doubt(&self) -> bool {
        let state = self.state.lock();
        state.doubted && state.over.is_none()
    }

    /// Ends the hold at `now`. If the hold is already over, returns the earlier reason as an error.
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

    /// Ends the hold as released, if its grant can be handed off. The next hold must be able to use
    /// the grant without a change in the store, and the local budget must allow a hand-off. Returns
    /// whether the hold ended.
    pub(super) fn pass_on(&self, now: Instant) -> bool {
        let state = self.state.lock();
        let may = self.may_stay(now) && self.is_as_granted(&state, now);
        if may {
            self.set_over(state, LostReason::Released, now);
            self.counts(Ended::Released, now);
        }
        may
    }

    /// Returns the grant for the next hold, if its lease is still valid at `now`.
    pub(super) fn grant_for_next(&self, now: Instant) -> Option<Grant> {
        let state = self.state.lock();
        let (leased_at, asked_at, replication) =
            (state.leased_at, state.asked_at, state.replication);
        let budget =
            LocalBudget { turns: self.grant.budget.turns.saturating_sub(1), ..self.grant.budget };
        // `contended` is set: a task of this process waited, so other clients may wait, too.
        let token = self.grant.token.and_then(|token| token.checked_add(1));
        let before = self.grant.clone();
        let next =
            Grant { leased_at, asked_at, replication, budget, token, contended: true, ..before };
        (now < self.lease(&state).ends()).then_some(next)
    }

    /// Whether the local budget allows another hold of this grant.
    fn may_stay(&self, now: Instant) -> bool {
        self.grant.budget.turns > 0 && self.grant.budget.until > now.into()
    }

    /// Whether the next hold can use the grant without a change in the store.
    fn is_as_granted(&self, state: &State, now: Instant) -> bool {
        let must_end = self.must_end_at.is_some_and(|most| now >= most.into());
        let fresh = now < self.lease(state).renew_at() && !must_end;
        let sound = state.over.is_none() && !state.doubted && state.more == 0;
        // The permits of a plain semaphore have no lease that could end.
        let lasts = self.renewed || self.grant.claim.is_number();
        lasts && fresh && sound && state.writes == 0
    }

    /// Forbids a hand-off of the grant, because its owner may be used for more than this hold.
    pub(super) fn forbid_handoff(&self) {
        self.state.lock().more += 1;
    }

    /// Records a read hold of the same owner. The read hold may keep the lock in the store after
    /// the lease of this hold has ended. So the grant of this hold is not handed off.
    pub(super) fn note_read_under_write(&self) {
        self.read_under_write.store(true, Ordering::Release);
        self.forbid_handoff();
    }

    /// Whether the hold counts as present until the store has replied to its release. If the owner
    /// of a write hold also has a read hold, other tasks may share the read hold only after this
    /// reply. Before this reply, a guarded write may still reach the store.
    pub(super) fn ends_with_release_reply(&self) -> bool {
        self.object().traits().is_shared() || self.is_read_under_write()
    }

    /// Whether the lease of this write hold has ended, but a read hold of the same owner may keep
    /// the lock in the store.
    pub(super) fn may_outlast_its_lease(&self) -> bool {
        let over = self.state.lock().over;
        let by_time = matches!(over, Some(LostReason::Expired | LostReason::MaxHold));
        self.is_read_under_write() && by_time
    }

    fn is_read_under_write(&self) -> bool {
        self.read_under_write.load(Ordering::Acquire)
    }

    /// Returns until when to retry a release that is requested at `now`.
    pub(super) fn pending_until(&self, now: Instant) -> Instant {
        let (read_under_write, ends) = (self.is_read_under_write(), self.store_ends());
        if read_under_write { ends.max(now + LATEST_EXECUTION) } else { ends }
    }

    /// Whether a waiter that comes at `now` may share the hold without a request.
    pub(super) fn may_be_shared(&self, now: Instant) -> bool {
        let state = self.state.lock();
        let sound = state.over.is_none() && !state.doubted && self.must_end_at.is_none();
        let fresh = now < self.lease(&state).renew_at();
        let few = state.more < self.grant.budget.turns;
        self.renewed && sound && fresh && few && self.may_stay(now)
    }

    /// Whether the hold will end soon: its release is in flight, or a limit of sharing is reached.
    /// A waiter that comes at `now` and may not share the hold should wait for this end.
    pub(super) fn is_ending(&self, now: Instant) -> bool {
        let past = now.checked_duration_since(self.grant.budget.until.into());
        let just_past = past.is_some_and(|past| past < SHARING_PAST);
        let state = self.state.lock();
        let shared = state.more > 0 && (just_past || state.more >= self.grant.budget.turns);
        !state.is_released_in_store && (state.over.is_some() || shared)
    }

    /// Waits until the hold is released in the store. If readers shared the hold, then also waits for
    /// `SHARING_PAUSE`, in which a writer may acquire. If a reader keeps the hold for longer than
    /// `SHARING_PAST`, stops waiting.
    pub(super) async fn leaves_a_window(&self) {
        let left =
            timeout(SHARING_PAST, self.notified_of(|state| state.is_released_in_store)).await;
        if left.is_ok() && self.state.lock().more > 0 {
            sleep(SHARING_PAUSE).await;
        }
    }

    /// Records that the store no longer has the hold, or will end the hold without a request.
    pub(super) fn is_released_in_store(&self) {
        let mut state = self.state.lock();
        state.is_released_in_store = true;
        let watchers = state.watchers.take();
        drop(state);
        watchers.iter().for_each(|watchers| watchers.notify_waiters());
    }

    /// Returns the holder that the store would name in a reply at `now`.
    pub(super) fn as_holder(&self, now: Instant) -> Option<Holder> {
        let remaining = self.remaining(now).ok()?;
        Some(Holder::new(self.grant.claim.owner.clone(), self.shares(), Some(remaining)))
    }

    /// Counts the end of the hold at `now`.
    pub(super) fn counts(&self, ended: Ended, now: Instant) {
        self.counters.ended(&self.grant.claim, ended, || self.held_for(now));
    }

    pub(super) fn found_lost(&self, reason: LostReason, now: Instant) {
        self.counts(Ended::Lost(reason), now);
        tracing::warn!(target: "leasehold", lock = %self.name(),
            owner = %self.grant.claim.owner, %reason, "hold lost");
    }

    /// Waits until the hold is over.
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

    pub(super) fn shares(&self) -> u32 {
        self.shares.load(Ordering::Acquire)
    }

    /// Counts another share, unless the last share was released. Returns the number of shares.
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

    /// Counts one share less, unless only one share is left. Returns how many are left.
    pub(super) fn one_share_less_of_many(&self) -> Option<u32> {
        let less = |shares| (shares > 1).then(|| shares - 1);
        let before = self.shares.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        before.ok().map(|before| before - 1)
    }

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

    /// Returns a store, the engine of a client, and a read lock whose holds may be shared for an
    /// hour.
    fn readers() -> (MemoryStore, Arc<Engine>, Lock) {
        let memory = MemoryStore::new();
        let engine = Engine::on(&memory, "one");
        let prices = Client::of(Arc::clone(&engine)).read_write_lock("prices").unwrap();
        let read = prices.read().local_handoff(10, Duration::from_secs(3600));
        (memory, engine, read)
    }

    /// A reader that joins a hold can use at least two thirds of the lease of this hold.
    #[tokio::test(start_paused = true)]
    async fn reader_does_not_join_a_hold_that_is_due_for_renewal() {
        let (memory, _engine, read) = readers();
        let first = read.acquire().await.unwrap();
        memory.stall();
        sleep(Duration::from_secs(10) - SOON).await;
        assert_eq!(read.acquire().await.unwrap().owner(), first.owner());
        sleep(2 * SOON).await;
        assert!(read.acquire_within(SOON).await.is_err(), "the reader sends its own request");
        memory.resume();
        sleep(SOON).await;
        assert_eq!(read.acquire().await.unwrap().owner(), first.owner());
    }

    /// A polling waiter has no queue entry, so the holder does not know of this waiter. The waiter
    /// can acquire only in the pauses of the holder.
    #[tokio::test(start_paused = true)]
    async fn pauses_of_a_client_add_up_to_2_percent_of_short_holds() {
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

    /// A hold in doubt may be lost with the data of a failed server.
    #[tokio::test(start_paused = true)]
    async fn reader_does_not_join_a_hold_in_doubt() {
        let (memory, engine, read) = readers();
        let first = read.acquire().await.unwrap();
        sleep(Duration::from_secs(5)).await;
        memory.fail("LOADING Redis is loading the dataset in memory");
        engine.receive(Event::Back);
        sleep(SOON).await;
        assert!(read.try_acquire().await.is_err(), "the reader sends its own request");
        memory.heal();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(read.acquire().await.unwrap().owner(), first.owner());
    }
}
