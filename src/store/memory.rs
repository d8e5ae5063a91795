//! The store in this process: the embedded default, and the one for tests.
//!
//! It means what the Redis store means, without a server, and keeps the time of
//! tokio's clock: under `tokio::time::pause` leases end in virtual time.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::watch,
    task::coop::consume_budget,
    time::{Instant, timeout},
};

use super::{Answer, Sleepers, Store, TOLD_AFTER, Wake};
use crate::domain::{
    Claim, Failure, GivenBack, Holder, Map, Name, Offer, Others, Outcome, Owner, Place, Queueing,
    Renewal, Set, Verdict, Way,
};

/// How long a stalled store is waited for: what a client on Redis waits by default.
const PATIENCE: Duration = Duration::from_secs(3);

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
    /// without its data or fails over too early. Returns whether it was held.
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
        let mut state = self.shared.state();
        let known = state.locks.keys().find(|known| known.as_str() == name).cloned();
        known.is_some_and(|name| state.take(&name, now).is_some())
    }

    /// Forgets every hold, without a word.
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
        let mut state = self.shared.state();
        state.locks.clear();
        state.queues.clear();
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
        self.shared.state().failing = Some(words.to_owned());
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
        self.shared.state().failing = None;
    }

    /// Who really holds `name`.
    #[cfg(test)]
    pub(crate) fn truth(&self, name: &Name) -> Option<Owner> {
        let now = Instant::now();
        self.shared.state().holding(name, now).map(|entry| entry.owner.clone())
    }

    /// Whether nothing is held and nobody listens.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let (state, now) = (self.shared.state(), Instant::now());
        let held = state.locks.values().any(|entry| now < entry.ends);
        !held && state.sessions.values().all(|session| session.names.is_empty())
    }

    /// Who stands in a queue.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> Vec<Owner> {
        let state = self.shared.state();
        state.queues.values().flatten().map(|waiting| waiting.owner.clone()).collect()
    }

    /// One client's way to this store.
    pub(crate) fn session(&self) -> Session {
        let mut state = self.shared.state();
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
        self.shared.state().sessions.entry(self.id).or_default().deaf = deaf;
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
            let (answer, wakes) = {
                let mut state = self.shared.state();
                state.refusal()?;
                let answer = question(&mut state, Instant::now());
                (answer, std::mem::take(&mut state.wakes))
            };
            for (sleepers, wake) in wakes {
                tell(&sleepers, wake);
            }
            Ok(answer)
        })
    }
}

fn tell(sleepers: &Weak<dyn Sleepers>, wake: Wake) {
    if let Some(sleepers) = sleepers.upgrade() {
        sleepers.wake(wake);
    }
}

impl Store for Session {
    fn acquire<'a>(&'a self, claim: &'a Claim, queue: Option<Queueing>) -> Answer<'a, Verdict> {
        self.ask(move |state, now| match state.holding(&claim.name, now) {
            Some(entry) if entry.owner != claim.owner => {
                let verdict = Verdict::Busy(entry.seen(now));
                if let Some(queueing) = queue {
                    state.queue_up(self.id, claim, queueing, now);
                }
                verdict
            }
            _ => {
                state.grant(&claim.name, &claim.owner, now + claim.ttl, now);
                if let Some(queueing) = queue {
                    state.leave_queue(claim, queueing);
                }
                Verdict::Granted
            }
        })
    }

    fn recount<'a>(
        &'a self,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        self.ask(move |state, now| match state.held_by(&claim.name, &claim.owner, now) {
            Some(entry) => {
                entry.count = count;
                entry.renew(ttl, now)
            }
            None => Outcome::NotOurs,
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, way: Way) -> Answer<'a, GivenBack> {
        self.ask(move |state, now| {
            if let Way::InTurn { stood: Some(stood), .. } = way
                && state.leave_queue(claim, stood)
            {
                state.tell_first(&claim.name, now);
            }
            if state.held_by(&claim.name, &claim.owner, now).is_none() {
                let holder = state.holding(&claim.name, now).map(|entry| entry.seen(now));
                return GivenBack::NotHeld { holder };
            }
            state.locks.remove(&claim.name);
            let passed_on = match way {
                Way::InTurn { passes: 0, .. } => state.tell_first(&claim.name, now),
                Way::InTurn { passes, .. } => state.grant_next(claim, passes, now),
                Way::Openly => false,
            };
            let told = !passed_on && claim.announced;
            let others = told && state.announce(&claim.name, self.id);
            GivenBack::Freed(match others && way == Way::Openly {
                true => Others::Listeners,
                false => Others::Nobody,
            })
        })
    }

    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        self.ask(move |state, now| {
            let outcome =
                |renewal: &Renewal| match state.held_by(&renewal.name, &renewal.owner, now) {
                    Some(entry) => entry.renew(renewal.ttl, now),
                    None => Outcome::NotOurs,
                };
            renewals.iter().map(outcome).collect()
        })
    }

    fn holder<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Holder>> {
        self.ask(|state, now| state.holding(name, now).map(|entry| entry.seen(now)))
    }

    fn held_by<'a>(&'a self, name: &'a Name, owner: &'a Owner) -> Answer<'a, u32> {
        self.ask(|state, now| state.held_by(name, owner, now).map_or(0, |entry| entry.count))
    }

    fn force_release<'a>(&'a self, name: &'a Name) -> Answer<'a, bool> {
        self.ask(|state, now| {
            let held = state.take(name, now).is_some();
            if held {
                state.announce(name, self.id);
            }
            held
        })
    }

    fn listen(&self, name: &Name) {
        let mut state = self.shared.state();
        let listening = state.sessions.entry(self.id).or_default();
        listening.names.insert(name.clone());
        let sleepers = listening.sleepers.clone();
        drop(state);
        if let Some(sleepers) = sleepers {
            tell(&sleepers, Wake::Listening(name.clone()));
        }
    }

    fn unlisten(&self, name: &Name) {
        self.shared.state().sessions.entry(self.id).or_default().names.remove(name);
    }

    fn wake(&self, sleepers: Weak<dyn Sleepers>) {
        self.shared.state().sessions.entry(self.id).or_default().sleepers = Some(sleepers);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.state().sessions.remove(&self.id);
    }
}

struct Shared {
    state: Mutex<State>,
    stalled: watch::Sender<bool>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the store is stalled, as long as a client has patience.
    async fn answering(&self) -> Result<(), Failure> {
        if !*self.stalled.borrow() {
            return Ok(());
        }
        let mut stalled = self.stalled.subscribe();
        match timeout(PATIENCE, stalled.wait_for(|stalled| !stalled)).await {
            Ok(_) => Ok(()),
            Err(elapsed) => Err(Failure::unanswered(elapsed)),
        }
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self { state: Mutex::default(), stalled: watch::Sender::new(false) }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    locks: Map<Name, Entry>,
    queues: Map<Name, VecDeque<Waiting>>,
    sessions: BTreeMap<u64, Listening>,
    next_session: u64,
    /// With so many holds it is time to look for expired ones.
    sweep_at: usize,
    /// Whom the present question wakes, told when the lock on the state is off.
    wakes: Vec<(Weak<dyn Sleepers>, Wake)>,
    failing: Option<String>,
}

#[derive(Default)]
struct Listening {
    /// Whether it cannot be told anything.
    deaf: bool,
    names: Set<Name>,
    sleepers: Option<Weak<dyn Sleepers>>,
}

impl Listening {
    /// Whom to tell, if they can be told.
    fn sleepers(&self) -> Option<Weak<dyn Sleepers>> {
        self.sleepers.clone().filter(|sleepers| !self.deaf && sleepers.strong_count() > 0)
    }
}

impl State {
    fn refusal(&self) -> Result<(), Failure> {
        let Some(words) = &self.failing else { return Ok(()) };
        let (code, message) = words.split_once(' ').unwrap_or((words, ""));
        Err(Failure::refused(code, message))
    }

    fn grant(&mut self, name: &Name, owner: &Owner, ends: Instant, now: Instant) {
        // What has expired goes when it may be as much as what has not.
        if self.locks.len() > self.sweep_at {
            self.locks.retain(|_, entry| now < entry.ends);
            self.sweep_at = 64 + 2 * self.locks.len();
        }
        self.locks.insert(name.clone(), Entry { owner: owner.clone(), count: 1, ends });
    }

    /// Takes the place of an earlier question, or the last one.
    fn queue_up(&mut self, session: u64, claim: &Claim, queueing: Queueing, now: Instant) {
        let Queueing { place, before } = queueing;
        let queue = self.queues.entry(claim.name.clone()).or_default();
        let stands = |at: Place| queue.iter().position(|it| it.is(&claim.owner, at));
        match stands(place).or_else(|| before.and_then(stands)) {
            Some(index) => queue[index].place = place,
            None => {
                let owner = claim.owner.clone();
                queue.push_back(Waiting { session, owner, place, since: now });
            }
        }
    }

    /// Gives up a place. Returns whether it was in the queue.
    fn leave_queue(&mut self, claim: &Claim, stood: Queueing) -> bool {
        let Some(queue) = self.queues.get_mut(&claim.name) else { return false };
        let (places, before) = ([Some(stood.place), stood.before], queue.len());
        let stands = |it: &Waiting| places.iter().flatten().any(|at| it.is(&claim.owner, *at));
        queue.retain(|waiting| !stands(waiting));
        let has_left = queue.len() < before;
        if queue.is_empty() {
            self.queues.remove(&claim.name);
        }
        has_left
    }

    /// Lets the first in the queue of `name` ask anew, if it has waited since `before`.
    /// Returns whether somebody was told.
    fn tell_first(&mut self, name: &Name, before: Instant) -> bool {
        let first = self.queues.get(name).and_then(VecDeque::front);
        let session = first.filter(|first| first.since <= before).map(|first| first.session);
        let session = session.and_then(|session| self.sessions.get(&session));
        let sleepers = session.and_then(Listening::sleepers);
        let is_told = sleepers.is_some();
        self.wakes.extend(sleepers.map(|it| (it, Wake::Released(name.clone()))));
        is_told
    }

    /// Grants the lock of `claim` to the first in its queue that can be told.
    /// Returns whether there was one.
    fn grant_next(&mut self, claim: &Claim, passes: u32, now: Instant) -> bool {
        let name = &claim.name;
        while let Some(next) = self.queues.get_mut(name).and_then(VecDeque::pop_front) {
            let Waiting { session, owner, place, .. } = next;
            // A question that came twice, or late, may have left a place behind.
            let session = self.sessions.get(&session).filter(|_| owner != claim.owner);
            let Some(sleepers) = session.and_then(Listening::sleepers) else { continue };
            self.grant(name, &owner, now + place.offer, now);
            let offer = Offer { name: name.clone(), owner, number: place.number, passes };
            self.wakes.push((sleepers, Wake::Granted(offer)));
            if let Some(before) = now.checked_sub(TOLD_AFTER) {
                self.tell_first(name, before);
            }
            return true;
        }
        self.queues.remove(name);
        false
    }

    /// The hold on `name` if it has not expired.
    fn holding(&mut self, name: &Name, now: Instant) -> Option<&mut Entry> {
        self.locks.get_mut(name).filter(|entry| now < entry.ends)
    }

    fn held_by(&mut self, name: &Name, owner: &Owner, now: Instant) -> Option<&mut Entry> {
        self.holding(name, now).filter(|entry| entry.owner == *owner)
    }

    fn take(&mut self, name: &Name, now: Instant) -> Option<Entry> {
        self.locks.remove(name).filter(|entry| now < entry.ends)
    }

    /// Wakes those who listen. Returns whether others do than who says so.
    fn announce(&mut self, name: &Name, session: u64) -> bool {
        let listeners =
            self.sessions.iter().filter(|(_, listening)| listening.names.contains(name));
        let others = listeners.clone().any(|(id, _)| *id != session);
        let sleepers = listeners.filter_map(|(_, listening)| listening.sleepers());
        self.wakes.extend(sleepers.map(|it| (it, Wake::Released(name.clone()))));
        others
    }
}

struct Entry {
    owner: Owner,
    count: u32,
    ends: Instant,
}

/// One who queues.
struct Waiting {
    session: u64,
    owner: Owner,
    place: Place,
    since: Instant,
}

impl Waiting {
    fn is(&self, owner: &Owner, place: Place) -> bool {
        self.owner == *owner && self.place == place
    }
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
        let name = Name::new("door").unwrap();
        let failure = session.holder(&name).await.unwrap_err();
        assert!(failure.may_have_happened());
        assert_eq!(asked.elapsed(), PATIENCE);

        // and one that is resumed in time is answered
        let (answer, ()) = tokio::join!(session.holder(&name), async {
            tokio::time::sleep(PATIENCE / 2).await;
            store.resume();
        });
        assert_eq!(answer.unwrap(), None);
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_not_told() {
        let store = MemoryStore::new();
        drop(store.session());
        assert!(store.shared.state().sessions.is_empty());
    }
}
