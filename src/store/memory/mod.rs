//! A double of the store, for the unit tests of the engine and the first simulated world.
//!
//! It answers in this process what the scripts answer on a server. The conformance tests hold
//! both to the same. It keeps the time of tokio's clock.

mod data;
mod listening;
mod lock;
mod numbers;
mod permits;
mod queue;
mod read_write;
mod semaphore;
mod shared;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::{task::coop::consume_budget, time::Instant};

use self::{
    data::Data, listening::Listening, lock::Entry, numbers::Numbers, permits::Pool, queue::Queue,
    read_write::ReadWrite, shared::Shared,
};
use super::{Answer, Event, Store, Subscriber, questions::Questions};
use crate::domain::{
    About, Change, Claim, Counts, Failure, GivenBack, Holder, Kind, Map, Name, Object, Outcome,
    Owner, PermitId, Place, ReleaseMode, Renewal, Replicas, Role, Value, Verdict, Work,
};

/// For so long those who do not queue ask first where nobody else queues.
const HEAD_START: Duration = Duration::from_millis(2);

/// Locks kept in this process, to be shared by several clients.
///
/// For programs that need no server, and for tests: a test can make it lose a
/// hold, stall or fail, to see what the program does then. Clones are the same
/// store.
#[derive(Clone, Default)]
pub(crate) struct MemoryStore {
    shared: Arc<Shared>,
}

impl MemoryStore {
    /// A store of its own, with nothing in it.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Forgets who holds `name`, without a word, as Redis does when it restarts
    /// without its data or fails over too early. Of a semaphore nothing is left; permits that
    /// were held are free then. Returns whether it was held.
    pub(crate) fn lose(&self, name: &str) -> bool {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        let mut semaphores = state.numbers.semaphores.iter_mut();
        let semaphore = semaphores.find(|(known, _)| known.name.as_str() == name);
        let had_permits = semaphore.is_some_and(|(_, semaphore)| semaphore.lose());
        let known = state.locks.keys().find(|known| known.name.as_str() == name).cloned();
        let lock = known.is_some_and(|name| state.take(&name, now).is_some());
        let pools = state.permits.iter_mut().filter(|(known, _)| known.name.as_str() == name);
        let leased = pools.fold(false, |lost, (_, pool)| pool.lose(now) || lost);
        state.lose_read_write(name, now) || lock || had_permits || leased
    }

    /// Forgets every hold, without a word, all that was written, and every token: those begin
    /// anew; every semaphore and latch, and of permits how many there are.
    pub(crate) fn lose_everything(&self) {
        let mut state = self.shared.state.lock();
        state.locks.clear();
        state.queues.clear();
        state.tokens.clear();
        state.read_writes.clear();
        state.data.clear();
        state.numbers = Numbers::default();
        state.permits.clear();
    }

    /// Stops answering, as a server that hangs: a request that is not answered
    /// within 3 seconds is given up by its client.
    pub(crate) fn stall(&self) {
        self.shared.stalled.send_replace(true);
    }

    /// Answers again, also those who still wait.
    pub(crate) fn resume(&self) {
        self.shared.given_up.store(false, Ordering::Relaxed);
        self.shared.stalled.send_replace(false);
    }

    /// Has so many replicas acknowledge what is granted, from now on, at once. None by default,
    /// as a server that stands alone: see [`Lock::replicated`](crate::Lock::replicated).
    pub(crate) fn set_replicas(&self, number: u32) {
        self.shared.replicas.send_replace(number);
    }

    /// Refuses every request with these words, as Redis would: an error code first.
    pub(crate) fn fail(&self, words: &str) {
        self.shared.state.lock().failing = Some(words.to_owned());
    }

    /// Ends what [`fail`](Self::fail) began.
    pub(crate) fn heal(&self) {
        self.shared.state.lock().failing = None;
    }

    /// Who really holds `object`, or the other side of it.
    #[cfg(test)]
    pub(crate) fn truth(&self, object: &Object) -> Vec<Owner> {
        let (mut state, now) = (self.shared.state.lock(), Instant::now());
        let holder = state.holding(object, now).map(|entry| entry.owner.clone());
        let sides = object.other_side().map(|_| state.readers_and_writer(object, now));
        holder.into_iter().chain(sides.into_iter().flatten()).collect()
    }

    /// How many permits there really are.
    #[cfg(test)]
    pub(crate) fn counts(&self, object: &Object) -> Counts {
        self.shared.state.lock().permits.get(object).map(Pool::counts).unwrap_or_default()
    }

    /// How many permits are really held now.
    #[cfg(test)]
    pub(crate) fn held(&self, object: &Object) -> usize {
        let (state, now) = (self.shared.state.lock(), Instant::now());
        state.permits.get(object).map_or(0, |pool| pool.held_at(now))
    }

    /// Whether nothing is held and nobody listens.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let (state, now) = (self.shared.state.lock(), Instant::now());
        let taken = state.numbers.semaphores.values().map(semaphore::Semaphore::taken);
        let locks = state.locks.values().any(|entry| now < entry.ends);
        let read = state.read_writes.values().any(|lock| !lock.is_past(now));
        let leased = state.permits.values().any(|pool| pool.counts().held > 0);
        let held = locks || read || leased || taken.sum::<u32>() > 0;
        !held && state.sessions.values().all(|session| session.objects.is_empty())
    }

    /// Who stands in a queue.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> Vec<Owner> {
        let (state, now) = (self.shared.state.lock(), Instant::now());
        let queues = state.queues.values().filter(|queue| !queue.is_past(now));
        queues.flat_map(Queue::owners).cloned().collect()
    }

    /// One client's way to this store.
    pub(crate) fn session(&self) -> Session {
        let mut state = self.shared.state.lock();
        let id = state.next_session;
        state.next_session += 1;
        state.sessions.insert(id, Listening::default());
        Session { id, shared: Arc::clone(&self.shared) }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

/// One client's way to a [`MemoryStore`], and what it listens to.
#[derive(Debug)]
pub(crate) struct Session {
    id: u64,
    shared: Arc<Shared>,
}

impl Session {
    /// Cuts it off from what the store tells, or ends that.
    #[cfg(test)]
    pub(crate) fn deafen(&self, deaf: bool) {
        self.shared.state.lock().sessions.entry(self.id).or_default().deaf = deaf;
    }

    /// Whether it may queue. If not it hears of releases alone.
    #[cfg(test)]
    pub(crate) fn may_queue(&self, may: bool) {
        self.shared.state.lock().sessions.entry(self.id).or_default().queueless = !may;
    }

    /// Who answers for this kind. Nothing else here tells one from another.
    fn of(kind: Kind) -> &'static dyn Questions<Self> {
        match kind {
            Kind::Lock => &lock::Locks,
            Kind::Read => &read_write::Readers,
            Kind::Write => &read_write::Writers,
            Kind::Semaphore => &numbers::Semaphores,
            Kind::Latch => &numbers::Latches,
            Kind::Permits => &permits::Permits,
        }
    }

    /// Renews one by one.
    fn renew_each<'a>(
        &'a self,
        renewals: &'a [Renewal],
        renew: impl Fn(&mut State, &Renewal, Instant) -> Outcome + Send + 'a,
    ) -> Answer<'a, Vec<Outcome>> {
        self.ask(move |state, now| renewals.iter().map(|it| renew(state, it, now)).collect())
    }

    /// Does `work` if the claim's owner holds then.
    fn work_if<'a>(
        &'a self,
        holds: impl FnOnce(&mut State, Instant) -> bool + Send + 'a,
        work: &'a Work,
    ) -> Answer<'a, Option<Value>> {
        let done = self.ask(move |state, now| match holds(state, now) {
            true => state.data.make(work, now).map(Some),
            false => Ok(None),
        });
        Box::pin(async move { done.await? })
    }

    /// Runs `question` on the locks when the store answers at all.
    fn ask<'a, T: Send + 'a>(
        &'a self,
        question: impl FnOnce(&mut State, Instant) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            // Nothing else here waits for anything: others are to run as well.
            consume_budget().await;
            self.shared.answering().await?;
            let (answer, events) = {
                let mut state = self.shared.state.lock();
                state.refusal()?;
                let answer = question(&mut state, Instant::now());
                (answer, std::mem::take(&mut state.events))
            };
            for (subscriber, event) in events {
                tell(&subscriber, event);
            }
            Ok(answer)
        })
    }
}

fn tell(subscriber: &Weak<dyn Subscriber>, event: Event) {
    if let Some(subscriber) = subscriber.upgrade() {
        subscriber.hear(event);
    }
}

impl Store for Session {
    fn acquire<'a>(&'a self, claim: &'a Claim, place: Option<Place>) -> Answer<'a, Verdict> {
        Self::of(claim.object.kind).acquire(self, claim, place)
    }

    fn acquire_beside<'a>(&'a self, claim: &'a Claim, writer: &'a Owner) -> Answer<'a, Verdict> {
        Self::of(claim.object.kind).acquire_beside(self, claim, writer)
    }

    fn recount<'a>(
        &'a self,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        Self::of(claim.object.kind).recount(self, claim, count, ttl)
    }

    fn release<'a>(&'a self, claim: &'a Claim, mode: ReleaseMode) -> Answer<'a, GivenBack> {
        Self::of(claim.object.kind).release(self, claim, mode)
    }

    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        match renewals.first() {
            Some(first) => Self::of(first.object.kind).renew(self, renewals),
            None => self.ask(|_, _| Vec::new()),
        }
    }

    fn replicated<'a>(&'a self, claim: &'a Claim, wanted: Replicas) -> Answer<'a, u32> {
        Box::pin(async move {
            let Claim { object, owner, share, .. } = claim.clone();
            let renewal = Renewal { object, owner, share, ttl: None };
            match Self::of(claim.object.kind).renew(self, &[renewal]).await?.first() {
                Some(Outcome::Renewed) => Ok(self.shared.replicas(wanted).await),
                _ => Ok(0),
            }
        })
    }

    fn guarded<'a>(&'a self, claim: &'a Claim, work: &'a Work) -> Answer<'a, Option<Value>> {
        Self::of(claim.object.kind).guarded(self, claim, work)
    }

    fn holder<'a>(&'a self, object: &'a Object) -> Answer<'a, Option<Holder>> {
        Self::of(object.kind).holder(self, object)
    }

    fn held_by<'a>(&'a self, object: &'a Object, owner: &'a Owner) -> Answer<'a, u32> {
        Self::of(object.kind).held_by(self, object, owner)
    }

    fn force_release<'a>(&'a self, object: &'a Object) -> Answer<'a, bool> {
        Self::of(object.kind).force_release(self, object)
    }

    fn number<'a>(&'a self, object: &'a Object) -> Answer<'a, i64> {
        Self::of(object.kind).number(self, object)
    }

    fn change<'a>(
        &'a self,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        Self::of(object.kind).change(self, object, change, receipt)
    }

    fn count<'a>(&'a self, object: &'a Object) -> Answer<'a, Counts> {
        Self::of(object.kind).count(self, object)
    }

    fn lease<'a>(
        &'a self,
        object: &'a Object,
        id: PermitId,
        lease: Option<Duration>,
    ) -> Answer<'a, Option<Duration>> {
        Self::of(object.kind).lease(self, object, id, lease)
    }

    fn listen(&self, object: &Object) {
        let mut state = self.shared.state.lock();
        let listening = state.sessions.entry(self.id).or_default();
        listening.objects.insert(object.clone());
        let (hears, subscriber) = (listening.hears(object), listening.subscriber.clone());
        drop(state);
        if let Some(subscriber) = subscriber {
            tell(&subscriber, Event::Hears(object.clone(), hears));
        }
    }

    fn unlisten(&self, object: &Object) {
        self.shared.state.lock().sessions.entry(self.id).or_default().objects.remove(object);
    }

    fn tell(&self, subscriber: Weak<dyn Subscriber>) {
        self.shared.state.lock().sessions.entry(self.id).or_default().subscriber = Some(subscriber);
    }

    fn unreachable(&self, _name: &Name) -> Option<Failure> {
        let given_up = self.shared.given_up.load(Ordering::Relaxed);
        given_up.then(|| Failure::unreachable("the store is stalled"))
    }

    fn look(&self) -> Answer<'_, About> {
        self.ask(|_, _| About { role: Some(Role::Primary), ..About::default() })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.state.lock().sessions.remove(&self.id);
    }
}

#[derive(Default)]
struct State {
    locks: Map<Object, Entry>,
    /// The last token that was drawn for each name. They grow for ever, as in Redis.
    tokens: Map<Object, u64>,
    numbers: Numbers,
    queues: Map<Object, Queue>,
    read_writes: Map<Name, ReadWrite>,
    data: Data,
    permits: Map<Object, Pool>,
    sessions: BTreeMap<u64, Listening>,
    next_session: u64,
    /// With so many holds it is time to look for expired ones.
    sweep_at: usize,
    /// What the present question tells, when the lock on the state is off.
    events: Vec<(Weak<dyn Subscriber>, Event)>,
    failing: Option<String>,
}

impl State {
    fn refusal(&self) -> Result<(), Failure> {
        let Some(words) = &self.failing else { return Ok(()) };
        let (code, message) = words.split_once(' ').unwrap_or((words, ""));
        Err(Failure::refused(code, message))
    }

    /// Tells those who listen that `name` is free. Returns whether others do than who
    /// says so.
    fn announce(&mut self, object: &Object, session: u64, queue_told: bool) -> bool {
        let listeners =
            self.sessions.iter().filter(|(_, listening)| listening.objects.contains(object));
        let others = listeners.clone().any(|(id, _)| *id != session);
        let subscribers = listeners.filter_map(|(_, listening)| listening.subscriber(object));
        let event = Event::Freed { object: object.clone(), queue_told };
        self.events.extend(subscribers.map(|subscriber| (subscriber, event.clone())));
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance::{self, Bench};

    #[tokio::test(start_paused = true)]
    async fn it_conforms() {
        let store = MemoryStore::new();
        let (one, other) = (Arc::new(store.session()), Arc::new(store.session()));
        conformance::all(&Bench::new(one, other, "other")).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_in_vain_keeps_nobody_out_for_longer_than_a_turn() {
        let store = MemoryStore::new();
        let (one, other) = (Arc::new(store.session()), Arc::new(store.session()));
        let bench = Bench::new(one, other, "other");
        conformance::semaphore::a_waiter_in_vain_keeps_nobody_out_for_longer_than_a_turn(&bench)
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_store_is_waited_for_until_patience_ends() {
        // given a store that does not answer
        let store = MemoryStore::new();
        let session = store.session();
        store.stall();

        // then a question fails when patience ends, without saying that nothing happened
        let asked = Instant::now();
        let name = Object::lock("door");
        let failure = session.holder(&name).await.unwrap_err();
        assert!(failure.may_have_happened());
        assert_eq!(asked.elapsed(), shared::PATIENCE);

        // and one that is resumed in time is answered
        let (answer, ()) = tokio::join!(session.holder(&name), async {
            tokio::time::sleep(shared::PATIENCE / 2).await;
            store.resume();
        });
        assert_eq!(answer.unwrap(), None);
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_not_told() {
        let store = MemoryStore::new();
        drop(store.session());
        assert!(store.shared.state.lock().sessions.is_empty());
    }
}
