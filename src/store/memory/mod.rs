//! The store in this process: the embedded default, and the one for tests.
//!
//! It means what the Redis store means, without a server, and keeps the time of
//! tokio's clock: under `tokio::time::pause` leases end in virtual time.

mod listening;
mod permits;
mod queue;
mod shared;

use std::{
    collections::BTreeMap,
    fmt,
    num::NonZero,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{task::coop::consume_budget, time::Instant};

use self::{
    listening::Listening,
    permits::Pool,
    queue::{Queue, Turn},
    shared::Shared,
};
use super::{Answer, Event, Store, Subscriber, unasked};
use crate::domain::{
    About, Change, Claim, Counts, Failure, GivenBack, Holder, Kind, Map, Object, Others, Outcome,
    Owner, PermitId, Place, ReleaseMode, Renewal, Role, Token, Verdict,
};

/// For so long those who do not queue ask first where nobody else queues.
const HEAD_START: Duration = Duration::from_millis(2);

/// Locks kept in this process, to be shared by several clients.
///
/// For programs that need no server, and for tests: a test can make it lose a
/// hold, stall or fail, to see what the program does then. Clones are the same
/// store.
///
/// # Examples
///
/// What does my job do when its lock is lost?
///
/// ```
/// use leasehold::{Client, LostReason, MemoryStore};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let store = MemoryStore::new();
/// let client = Client::sharing(&store);
///
/// let guard = client.lock("nightly-close")?.acquire().await?;
/// store.lose("nightly-close"); // as a failover would
///
/// // the next renewal finds out: ten seconds later, at once under a paused clock
/// assert_eq!(guard.lost().await, LostReason::NotOurs);
/// assert!(!guard.is_held());
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

impl MemoryStore {
    /// A store of its own, with nothing in it.
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// let one = leasehold::Client::sharing(&store);
    /// let other = leasehold::Client::sharing(&store);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets who holds `name`, without a word, as Redis does when it restarts
    /// without its data or fails over too early. Returns whether it was held. Permits that
    /// were held are free then.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, MemoryStore, Release};
    /// let store = MemoryStore::new();
    /// let guard = Client::sharing(&store).lock("job")?.acquire().await?;
    /// assert!(store.lose("job"));
    /// assert!(matches!(guard.release().await?, Release::AlreadyGone { .. }));
    /// # Ok(()) }
    /// ```
    pub fn lose(&self, name: &str) -> bool {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        let known = state.locks.keys().find(|known| known.name.as_str() == name).cloned();
        let pools = state.permits.iter_mut().filter(|(known, _)| known.name.as_str() == name);
        let permits = pools.fold(false, |lost, (_, pool)| pool.lose(now) || lost);
        known.is_some_and(|name| state.take(&name, now).is_some()) || permits
    }

    /// Forgets every hold, without a word, and every token: those begin anew. Of permits it is
    /// forgotten how many there are.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let store = leasehold::MemoryStore::new();
    /// let lock = leasehold::Client::sharing(&store).lock("job")?;
    /// let guard = lock.acquire().await?;
    /// store.lose_everything();
    /// assert!(!lock.is_locked().await?);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn lose_everything(&self) {
        let mut state = self.shared.state.lock();
        state.locks.clear();
        state.queues.clear();
        state.tokens.clear();
        state.permits.clear();
    }

    /// Stops answering, as a server that hangs: a request that is not answered
    /// within 3 seconds is given up by its client.
    ///
    /// # Examples
    ///
    /// A hold that cannot be renewed ends by the holder's own clock:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, LostReason, MemoryStore};
    /// let store = MemoryStore::new();
    /// let guard = Client::sharing(&store).lock("job")?.acquire().await?;
    /// store.stall();
    /// assert_eq!(guard.lost().await, LostReason::Expired);
    /// # Ok(()) }
    /// ```
    pub fn stall(&self) {
        self.shared.stalled.send_replace(true);
    }

    /// Answers again, also those who still wait.
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// store.stall();
    /// store.resume();
    /// ```
    pub fn resume(&self) {
        self.shared.stalled.send_replace(false);
    }

    /// Refuses every request with these words, as Redis would: an error code first.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let store = leasehold::MemoryStore::new();
    /// let lock = leasehold::Client::sharing(&store).lock("job")?;
    /// store.fail("OOM command not allowed");
    /// assert!(matches!(lock.acquire().await, Err(leasehold::Error::NotReady { .. })));
    /// # Ok(()) }
    /// ```
    pub fn fail(&self, words: &str) {
        self.shared.state.lock().failing = Some(words.to_owned());
    }

    /// Ends what [`fail`](Self::fail) began.
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// store.fail("LOADING Redis is loading the dataset in memory");
    /// store.heal();
    /// ```
    pub fn heal(&self) {
        self.shared.state.lock().failing = None;
    }

    /// Who really holds `name`.
    #[cfg(test)]
    pub(crate) fn truth(&self, object: &Object) -> Option<Owner> {
        let now = Instant::now();
        self.shared.state.lock().holding(object, now).map(|entry| entry.owner.clone())
    }

    /// How many permits there really are.
    #[cfg(test)]
    pub(crate) fn counts(&self, object: &Object) -> Counts {
        self.shared.state.lock().permits.get(object).map(Pool::counts).unwrap_or_default()
    }

    /// Whether nothing is held and nobody listens.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let (state, now) = (self.shared.state.lock(), Instant::now());
        let held = state.locks.values().any(|entry| now < entry.ends);
        let permits = state.permits.values().any(|pool| pool.counts().held > 0);
        !held && !permits && state.sessions.values().all(|session| session.objects.is_empty())
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
        if claim.object.kind == Kind::Permits {
            return self.acquire_leased(claim);
        }
        self.ask(move |state, now| match state.holding(&claim.object, now) {
            Some(entry) if entry.owner != claim.owner => {
                let verdict = Verdict::Busy(entry.seen(now).into());
                if let Some(place) = place {
                    state.queue_up(self.id, claim, place, now);
                }
                verdict
            }
            _ => {
                state.grant(&claim.object, &claim.owner, now + claim.ttl, now);
                if place.is_some() {
                    state.leave_queue(claim, now);
                }
                Verdict::Granted { token: state.draw(claim) }
            }
        })
    }

    fn recount<'a>(
        &'a self,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        if claim.object.kind != Kind::Lock {
            return unasked(&claim.object);
        }
        self.ask(move |state, now| match state.held_by(&claim.object, &claim.owner, now) {
            Some(entry) => {
                entry.count = count;
                entry.renew(ttl, now)
            }
            None => Outcome::NotOurs,
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, mode: ReleaseMode) -> Answer<'a, GivenBack> {
        if claim.object.kind == Kind::Permits {
            return self.release_leased(claim);
        }
        self.ask(move |state, now| {
            let left = mode == ReleaseMode::HandOver && state.leave_queue(claim, now);
            if state.held_by(&claim.object, &claim.owner, now).is_none() {
                let holder = state.holding(&claim.object, now).map(|entry| entry.seen(now));
                if left && holder.is_none() {
                    // Who has gone may have been told that it is free.
                    state.tell_first(&claim.object);
                }
                return GivenBack::NotHeld { holder };
            }
            state.locks.remove(&claim.object);
            GivenBack::Freed(match mode {
                ReleaseMode::Broadcast if state.announce(&claim.object, self.id, false) => {
                    Others::Listeners
                }
                ReleaseMode::Broadcast => Others::Nobody,
                ReleaseMode::HandOver => state.hand_over(&claim.object, self.id, now),
            })
        })
    }

    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        self.ask(move |state, now| {
            renewals.iter().map(|renewal| state.renew(renewal, now)).collect()
        })
    }

    fn holder<'a>(&'a self, object: &'a Object) -> Answer<'a, Option<Holder>> {
        self.ask(|state, now| state.holding(object, now).map(|entry| entry.seen(now)))
    }

    fn held_by<'a>(&'a self, object: &'a Object, owner: &'a Owner) -> Answer<'a, u32> {
        self.ask(|state, now| state.held_by(object, owner, now).map_or(0, |entry| entry.count))
    }

    fn force_release<'a>(&'a self, object: &'a Object) -> Answer<'a, bool> {
        self.ask(|state, now| {
            let held = state.take(object, now).is_some();
            if held {
                state.announce(object, self.id, false);
            }
            held
        })
    }

    fn change<'a>(
        &'a self,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        match object.kind {
            Kind::Lock => unasked(object),
            Kind::Permits => self.change_leased(object, change, receipt),
        }
    }

    fn count<'a>(&'a self, object: &'a Object) -> Answer<'a, Counts> {
        match object.kind {
            Kind::Lock => unasked(object),
            Kind::Permits => self.count_leased(object),
        }
    }

    fn lease<'a>(
        &'a self,
        object: &'a Object,
        id: PermitId,
        lease: Option<Duration>,
    ) -> Answer<'a, Option<Duration>> {
        match object.kind {
            Kind::Lock => unasked(object),
            Kind::Permits => self.permit_lease(object, id, lease),
        }
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
    queues: Map<Object, Queue>,
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
    /// Draws the tokens of `claim`. Returns the first.
    fn draw(&mut self, claim: &Claim) -> Option<Token> {
        let first = NonZero::new(u64::from(claim.tokens())).map(|_| claim.object.clone())?;
        let last = self.tokens.entry(first).or_default();
        let first = last.saturating_add(1);
        *last = last.saturating_add(claim.tokens().into());
        NonZero::new(first)
    }

    fn refusal(&self) -> Result<(), Failure> {
        let Some(words) = &self.failing else { return Ok(()) };
        let (code, message) = words.split_once(' ').unwrap_or((words, ""));
        Err(Failure::refused(code, message))
    }

    fn grant(&mut self, object: &Object, owner: &Owner, ends: Instant, now: Instant) {
        // What has expired goes when it may be as much as what has not.
        if self.locks.len() > self.sweep_at {
            self.locks.retain(|_, entry| now < entry.ends);
            self.sweep_at = 64 + 2 * self.locks.len();
        }
        self.locks.insert(object.clone(), Entry { owner: owner.clone(), count: 1, ends });
    }

    fn queue_up(&mut self, session: u64, claim: &Claim, place: Place, now: Instant) {
        if place == Place::Kept {
            return;
        }
        let queue = self.queues.entry(claim.object.clone()).or_insert_with(|| Queue::new(now));
        if queue.is_past(now) {
            *queue = Queue::new(now);
        }
        queue.enter(session, &claim.owner, place, now);
    }

    /// Takes the place of who claims. Returns whether it had one.
    fn leave_queue(&mut self, claim: &Claim, now: Instant) -> bool {
        let Some(queue) = self.queues.get_mut(&claim.object) else { return false };
        let had = !queue.is_past(now) && queue.leave(&claim.owner);
        if queue.is_past(now) {
            self.queues.remove(&claim.object);
        }
        had
    }

    /// Lets the first in the queue of `name` ask now.
    fn tell_first(&mut self, object: &Object) {
        let (queues, sessions) = (&mut self.queues, &self.sessions);
        let first =
            queues.get_mut(object).and_then(|queue| queue.first(|it| hears(sessions, it, object)));
        if let Some(session) = first.map(|first| first.session) {
            self.ask(object, session, Duration::ZERO);
        }
    }

    /// Tells a client to ask for `name` after so long.
    fn ask(&mut self, object: &Object, session: u64, after: Duration) {
        let listening = self.sessions.get(&session);
        let subscriber = listening.and_then(|listening| listening.subscriber(object));
        let event = Event::Ask { object: object.clone(), after };
        self.events.extend(subscriber.map(|subscriber| (subscriber, event)));
    }

    /// Gives the lock, which is free, to whom it is due.
    fn hand_over(&mut self, object: &Object, session: u64, now: Instant) -> Others {
        if self.queues.get(object).is_some_and(|queue| queue.is_past(now)) {
            self.queues.remove(object);
        }
        let outsiders = self.sessions.values();
        let outsiders =
            outsiders.filter(|it| it.queueless).any(|it| it.subscriber(object).is_some());
        let (queues, sessions) = (&mut self.queues, &self.sessions);
        let turn = queues.get_mut(object).map_or(Turn::Nobodys, |queue| {
            queue.turn(outsiders, |session| hears(sessions, session, object), now)
        });
        match turn {
            Turn::Nobodys => {
                if self.queues.get(object).is_some_and(Queue::is_empty) {
                    self.queues.remove(object);
                }
                self.announce(object, session, false);
                match outsiders {
                    true => Others::Outsiders(HEAD_START),
                    // Those who poll and have had their turn lately.
                    false if self.queues.contains_key(object) => Others::Listeners,
                    false => Others::Nobody,
                }
            }
            Turn::Reserved { next, time } => {
                self.grant(object, &next.owner, now + time, now);
                // One who polls may hear by now.
                self.ask(object, next.session, Duration::ZERO);
                self.warn(object, 0, now);
                Others::Nobody
            }
            Turn::Gap { next, time } => {
                self.announce(object, session, true);
                self.ask(object, next.session, time);
                self.warn(object, 1, now);
                Others::Next(time)
            }
        }
    }

    /// Has those behind look who has the lock now.
    fn warn(&mut self, object: &Object, behind: usize, now: Instant) {
        let next = self.queues.get(object).map(|queue| queue.warned(behind, now));
        for (session, after) in next.unwrap_or_default() {
            self.ask(object, session, after);
        }
    }

    /// The hold on `name` if it has not expired.
    fn holding(&mut self, object: &Object, now: Instant) -> Option<&mut Entry> {
        self.locks.get_mut(object).filter(|entry| now < entry.ends)
    }

    fn held_by(&mut self, object: &Object, owner: &Owner, now: Instant) -> Option<&mut Entry> {
        self.holding(object, now).filter(|entry| entry.owner == *owner)
    }

    fn take(&mut self, object: &Object, now: Instant) -> Option<Entry> {
        self.locks.remove(object).filter(|entry| now < entry.ends)
    }

    fn renew(&mut self, renewal: &Renewal, now: Instant) -> Outcome {
        if let Some(pool) = self.permits.get_mut(&renewal.object) {
            return pool.renew(renewal, now);
        }
        match self.held_by(&renewal.object, &renewal.owner, now) {
            Some(entry) => entry.renew(renewal.ttl, now),
            None => Outcome::NotOurs,
        }
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

/// Whether this client hears when its turn comes.
fn hears(sessions: &BTreeMap<u64, Listening>, session: u64, object: &Object) -> bool {
    sessions.get(&session).is_some_and(|it| !it.queueless && it.subscriber(object).is_some())
}

struct Entry {
    owner: Owner,
    count: u32,
    ends: Instant,
}

impl Entry {
    fn renew(&mut self, ttl: Option<Duration>, now: Instant) -> Outcome {
        if let Some(ttl) = ttl {
            self.ends = now + ttl;
        }
        Outcome::Renewed
    }

    fn seen(&self, now: Instant) -> Holder {
        Holder { owner: self.owner.clone(), count: self.count, remaining: Some(self.ends - now) }
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
