//! Waiters of this process for one name queue here; one of them speaks to Redis.
//!
//! A thousand tasks that want one lock cost Redis one waiter. They take turns in
//! the order in which they came. Who is granted the lock keeps the turn as long
//! as the hold lasts: nobody here need ask what is known.
//!
//! When the hold ends, its grant may go to the next one along with the turn, so
//! that Redis need not be asked at all: see [`Baton`].

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    Engine,
    hold::{Grant, Hold},
    releases::Debt,
    wakeups::{Hub, Listener},
};
use crate::domain::{Claim, Holder, Map, Name, Owner};

/// The queues of one client.
#[derive(Debug)]
pub(crate) struct Turns {
    hub: Arc<Hub>,
    queues: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    of: Map<Name, Queue>,
    closed: bool,
}

/// One name: who has it here, and, if there is more to know of it, what.
#[derive(Debug, Default)]
struct Queue {
    /// Whether somebody has the turn.
    taken: bool,
    /// Whether this client has a grant, believed or on its way to the next hold.
    granted: bool,
    /// The hold that this client believes in.
    held: Weak<Hold>,
    /// Most names are only held. This keeps what is known of them small.
    crowd: Option<Box<Crowd>>,
}

/// Who waits for a name here, and what is known of who has it elsewhere.
#[derive(Debug, Default)]
struct Crowd {
    waiting: BTreeMap<u64, Waiter>,
    last_ticket: u64,
    /// Hears of releases, for whoever has the turn.
    listener: Option<Arc<Listener>>,
    /// Who had the lock when somebody last asked.
    seen: Option<Holder>,
    /// Whose grant is on its way to the next hold.
    passing: Option<Owner>,
}

#[derive(Debug)]
struct Waiter {
    sender: oneshot::Sender<Turn>,
    wants: Fits,
}

/// What a grant is like, or must be like to be of use to a waiter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Fits {
    /// The ttl that its lease is renewed to; a fixed lease fits nobody but who
    /// asked for it.
    pub(crate) ttl: Option<Duration>,
    /// Whether its release is announced.
    pub(crate) announced: bool,
}

impl Fits {
    fn fits(self, other: Self) -> bool {
        self == other && self.ttl.is_some()
    }
}

impl Queue {
    fn is_of_use(&self) -> bool {
        self.taken || self.granted
    }

    fn crowd(&mut self) -> &mut Crowd {
        self.crowd.get_or_insert_default()
    }

    fn is_of(&self, owner: &Owner) -> bool {
        let passing = self.crowd.as_ref().and_then(|crowd| crowd.passing.as_ref());
        let of_hold = || self.held.upgrade().is_some_and(|hold| hold.claim().owner == *owner);
        self.granted && (passing == Some(owner) || of_hold())
    }
}

impl Turns {
    pub(crate) fn new(hub: &Arc<Hub>) -> Arc<Self> {
        Arc::new(Self { hub: Arc::clone(hub), queues: Mutex::default() })
    }

    /// Waits until it is our turn to ask for `name`; `None` when the client is
    /// shut down.
    pub(crate) async fn wait(self: &Arc<Self>, name: &Name, wants: Fits) -> Option<Turn> {
        match self.take_or_queue(name, wants)? {
            Ok(turn) => Some(turn),
            Err((mut place, turn)) => {
                let turn = turn.await.ok();
                // We were called up: it is not ours to give up any more.
                place.ticket = None;
                turn
            }
        }
    }

    /// The turn if nobody has it, else a place in the queue.
    fn take_or_queue<'a>(
        self: &'a Arc<Self>,
        name: &'a Name,
        wants: Fits,
    ) -> Option<Result<Turn, Queued<'a>>> {
        let mut queues = self.queues();
        if queues.closed {
            return None;
        }
        let queue = queues.of.entry(name.clone()).or_default();
        if !queue.taken {
            queue.taken = true;
            drop(queues);
            let (turns, name) = (Arc::clone(self), name.clone());
            return Some(Ok(Turn(Some(Right { turns, name, baton: None }))));
        }
        let (sender, receiver) = oneshot::channel();
        let crowd = queue.crowd();
        crowd.last_ticket += 1;
        let ticket = crowd.last_ticket;
        crowd.waiting.insert(ticket, Waiter { sender, wants });
        // Who polls does so because there may be no messages.
        let deaf = crowd.listener.is_none() && wants.announced;
        drop(queues);
        if deaf {
            // Who holds it here learns at once if it is taken away by force.
            self.listen(name);
        }
        Some(Err((Place { turns: self, name, ticket: Some(ticket) }, receiver)))
    }

    /// Hears of releases of `name` from now on, as long as somebody waits here.
    fn listen(&self, name: &Name) -> Option<Arc<Listener>> {
        self.keep_listener(name, self.hub.listen(name))
    }

    fn keep_listener(&self, name: &Name, listener: Listener) -> Option<Arc<Listener>> {
        let listener = Arc::new(listener);
        let mut queues = self.queues();
        let crowd = queues.of.get_mut(name)?.crowd();
        Some(Arc::clone(crowd.listener.get_or_insert(listener)))
    }

    /// The next waiter in the queue of `name`; if there is none, the turn is free.
    fn next_waiter(&self, name: &Name) -> Option<Waiter> {
        let mut queues = self.queues();
        let queue = queues.of.get_mut(name)?;
        let next = queue.crowd.as_mut().and_then(|crowd| crowd.waiting.pop_first());
        let mut listener = None;
        if next.is_none() {
            queue.taken = false;
            listener = queue.crowd.as_mut().and_then(|crowd| crowd.listener.take());
            if !queue.is_of_use() {
                queues.of.remove(name);
            }
        }
        drop(queues);
        drop(listener);
        next.map(|(_, waiter)| waiter)
    }

    /// Whether a grant like this fits who is next in the queue of `name`.
    pub(crate) fn next_fits(&self, name: &Name, grant: Fits) -> bool {
        let queues = self.queues();
        let crowd = queues.of.get(name).and_then(|queue| queue.crowd.as_ref());
        let next = crowd.and_then(|crowd| crowd.waiting.first_key_value());
        next.is_some_and(|(_, waiter)| waiter.wants.fits(grant))
    }

    /// Who has `name`, as far as this client knows.
    pub(crate) fn seen(&self, name: &Name, now: Instant) -> Option<Holder> {
        let (held, seen) = {
            let queues = self.queues();
            let queue = queues.of.get(name)?;
            let seen = queue.crowd.as_ref().and_then(|crowd| crowd.seen.clone());
            (queue.held.upgrade(), seen)
        };
        held.and_then(|hold| hold.as_holder(now)).or(seen)
    }

    /// The hold of `name` that this client believes in.
    pub(crate) fn held(&self, name: &Name) -> Option<Arc<Hold>> {
        self.queues().of.get(name)?.held.upgrade()
    }

    /// Notes that this client was granted `hold` when it asked at `asked_at`.
    /// Returns the hold that this makes a thing of the past.
    pub(crate) fn entered(&self, hold: &Arc<Hold>, asked_at: Instant) -> Option<Arc<Hold>> {
        let mut queues = self.queues();
        let queue = queues.of.entry(hold.name().clone()).or_default();
        queue.granted = true;
        let before = std::mem::replace(&mut queue.held, Arc::downgrade(hold)).upgrade();
        // Without a crowd nobody is left to hear anything.
        let crowd = queue.crowd.take_if(|crowd| crowd.waiting.is_empty());
        if let Some(crowd) = &mut queue.crowd {
            (crowd.seen, crowd.passing) = (None, None);
        }
        drop(queues);
        drop(crowd);
        before.filter(|hold| hold.was_known_at(asked_at))
    }

    /// Notes who had `name` when we asked at `asked_at`. Returns the hold that
    /// this makes a thing of the past.
    pub(crate) fn saw(&self, name: &Name, holder: &Holder, asked_at: Instant) -> Option<Arc<Hold>> {
        let mut queues = self.queues();
        let queue = queues.of.get_mut(name)?;
        queue.crowd().seen = Some(holder.clone());
        let held = queue.held.upgrade()?;
        // An answer that was on its way while we were granted says nothing.
        (held.was_known_at(asked_at) && held.claim().owner != holder.owner).then_some(held)
    }

    /// Whether this client has been granted `name` as `owner`.
    pub(crate) fn owns(&self, name: &Name, owner: &Owner) -> bool {
        self.queues().of.get(name).is_some_and(|queue| queue.is_of(owner))
    }

    /// Notes that the grant of `claim` is on its way to the next hold.
    pub(crate) fn passes(&self, claim: &Claim) {
        if let Some(queue) = self.queues().of.get_mut(&claim.name) {
            queue.crowd().passing = Some(claim.owner.clone());
        }
    }

    /// Notes that the grant of `claim` is given back to the store.
    pub(crate) fn left(&self, claim: &Claim) {
        let mut queues = self.queues();
        let Some(queue) = queues.of.get_mut(&claim.name) else { return };
        if queue.is_of(&claim.owner) {
            (queue.held, queue.granted) = (Weak::new(), false);
        }
        if !queue.is_of_use() {
            queues.of.remove(&claim.name);
        }
    }

    /// Sends everybody away, now and later.
    pub(crate) fn close(&self) {
        let mut queues = self.queues();
        queues.closed = true;
        let crowds = queues.of.values_mut().filter_map(|queue| queue.crowd.as_mut());
        let waiting: Vec<_> = crowds.map(|crowd| std::mem::take(&mut crowd.waiting)).collect();
        drop(queues);
        drop(waiting);
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.queues().of.is_empty()
    }
}

/// The right to ask for one name, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Right>);

#[derive(Debug)]
struct Right {
    turns: Arc<Turns>,
    name: Name,
    /// In a box: each hold keeps its turn, and few are handed over.
    baton: Option<Box<Baton>>,
}

impl Turn {
    /// The way to hear of releases, from now on.
    pub(crate) fn listen(&self) -> Option<Arc<Listener>> {
        let right = self.0.as_ref()?;
        self.listener().or_else(|| right.turns.listen(&right.name))
    }

    /// The way to hear of releases, if they are heard already.
    pub(crate) fn listener(&self) -> Option<Arc<Listener>> {
        let Right { turns, name, .. } = self.0.as_ref()?;
        let known = {
            let queues = turns.queues();
            let crowd = queues.of.get(name).and_then(|queue| queue.crowd.as_ref());
            crowd.and_then(|crowd| crowd.listener.clone())
        };
        known.or_else(|| turns.keep_listener(name, turns.hub.join(name)?))
    }

    /// What the hold before left to us, if it did.
    pub(crate) fn baton(&mut self) -> Option<Baton> {
        self.0.as_mut()?.baton.take().map(|baton| *baton)
    }

    /// Gives the turn to the next waiter, and `baton` with it.
    pub(crate) fn pass_on(mut self, baton: Baton) {
        if let Some(right) = &mut self.0 {
            right.baton = Some(Box::new(baton));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(right) = self.0.take() {
            right.pass_on();
        }
    }
}

impl Right {
    /// Gives the right to the next waiter that is still there, if there is one.
    fn pass_on(mut self) {
        while let Some(next) = self.turns.next_waiter(&self.name) {
            // What does not fit is given back to the store.
            self.baton = self.baton.filter(|baton| baton.fits(next.wants));
            let Err(mut refused) = next.sender.send(Turn(Some(self))) else { return };
            let Some(right) = refused.0.take() else { return };
            self = right;
        }
    }
}

/// A grant on its way from one hold to the next. Who drops it gives the lock
/// back to the store.
#[derive(Debug)]
pub(crate) struct Baton {
    grant: Option<Grant>,
    engine: Arc<Engine>,
}

impl Baton {
    pub(crate) fn new(grant: Grant, engine: &Arc<Engine>) -> Self {
        Self { grant: Some(grant), engine: Arc::clone(engine) }
    }

    fn fits(&self, wants: Fits) -> bool {
        let of =
            |grant: &Grant| Fits { ttl: Some(grant.claim.ttl), announced: grant.claim.announced };
        self.grant.as_ref().is_some_and(|grant| wants.fits(of(grant)))
    }

    /// The grant, if it may still be believed at `now`.
    pub(crate) fn take(mut self, now: Instant) -> Option<Grant> {
        self.grant.take_if(|grant| now < grant.lease.ends())
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.engine.keeper.unwatch(grant.id);
            self.engine.turns.left(&grant.claim);
            self.engine.releases.owe(Debt::of_grant(&grant));
        }
    }
}

/// A place in a queue, given up when it is dropped.
struct Place<'a> {
    turns: &'a Turns,
    name: &'a Name,
    ticket: Option<u64>,
}

type Queued<'a> = (Place<'a>, oneshot::Receiver<Turn>);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut queues = self.turns.queues();
        let crowd = queues.of.get_mut(self.name).and_then(|queue| queue.crowd.as_mut());
        crowd.and_then(|crowd| crowd.waiting.remove(&ticket));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::{
        domain::{Identity, Lease},
        engine::{clock::Clock, hold::LocalTurns, tasks::Spawner},
        store::memory::MemoryStore,
    };

    const PLAIN: Fits = Fits { ttl: Some(Duration::from_secs(30)), announced: true };

    fn door() -> (Arc<Turns>, Name) {
        let store = Arc::new(MemoryStore::new().session());
        let hub = Hub::new(store, Arc::default());
        (Turns::new(&hub), Name::new("door").unwrap())
    }

    #[tokio::test]
    async fn turns_are_taken_in_the_order_of_coming() {
        // given one who has the turn and two who wait
        let (turns, name) = door();
        let turn = turns.wait(&name, PLAIN).await;
        let (mut first, mut second) =
            (Box::pin(turns.wait(&name, PLAIN)), Box::pin(turns.wait(&name, PLAIN)));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());

        // when the turn is over, the first has it and the second still waits
        drop(turn);
        assert!((&mut second).now_or_never().is_none());
        let turn = (&mut first).now_or_never().unwrap();
        drop(turn);
        assert!((&mut second).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_waiter_who_leaves_is_passed_over_and_leaves_nothing_behind() {
        let (turns, name) = door();
        let turn = turns.wait(&name, PLAIN).await;
        let (mut first, mut second) =
            (Box::pin(turns.wait(&name, PLAIN)), Box::pin(turns.wait(&name, PLAIN)));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());

        // one leaves while waiting
        drop(first);
        let waiting = |queue: &Queue| queue.crowd.as_ref().unwrap().waiting.len();
        assert_eq!(turns.queues().of.get(&name).map(waiting), Some(1));

        // the other one after it was given the turn, before it knew
        drop(turn);
        drop(second);
        assert!(turns.is_idle());
    }

    #[tokio::test]
    async fn who_waits_is_sent_away_when_the_client_is_shut_down() {
        let (turns, name) = door();
        let _turn = turns.wait(&name, PLAIN).await;
        let mut waiting = Box::pin(turns.wait(&name, PLAIN));
        assert!((&mut waiting).now_or_never().is_none());
        turns.close();
        assert!(waiting.now_or_never().unwrap().is_none());
        assert!(turns.wait(&name, PLAIN).await.is_none());
    }

    fn client() -> Arc<Engine> {
        let store = Arc::new(MemoryStore::new().session());
        Engine::new(Identity::of("client"), store, Clock::new(), Spawner::here())
    }

    fn grant(engine: &Engine, ttl: Duration) -> Grant {
        let (name, owner) = (Name::new("door").unwrap(), engine.identity.fresh_owner());
        let now = Instant::now();
        Grant {
            id: 1,
            claim: Claim { name, owner, ttl, announced: true },
            lease: Lease::new(now, ttl),
            asked_at: now.into(),
            unsure: false,
            stay: LocalTurns::default().from(now),
            passes: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_that_has_ended_on_its_way_is_given_back() {
        let (engine, ttl) = (client(), Duration::from_secs(1));
        let baton = || Baton::new(grant(&engine, ttl), &engine);
        assert!(baton().take(Instant::now()).is_some());
        assert_eq!(engine.releases.owed(), 0);
        assert!(baton().take(Instant::now() + ttl).is_none());
        assert_eq!(engine.releases.owed(), 1);
    }

    #[tokio::test]
    async fn a_grant_that_nobody_takes_is_given_back() {
        let engine = client();
        drop(Baton::new(grant(&engine, Duration::from_secs(1)), &engine));
        assert_eq!(engine.releases.owed(), 1);
    }

    #[test]
    fn a_grant_fits_who_wants_the_same() {
        let longer = Fits { ttl: Some(Duration::from_secs(31)), ..PLAIN };
        let fixed = Fits { ttl: None, ..PLAIN };
        assert!(PLAIN.fits(PLAIN));
        for other in [longer, fixed, Fits { announced: false, ..PLAIN }] {
            assert!(!PLAIN.fits(other) && !other.fits(PLAIN));
        }
        assert!(!fixed.fits(fixed), "a fixed lease begins when it is granted");
    }

    #[tokio::test]
    async fn different_names_do_not_wait_for_each_other() {
        let (turns, name) = door();
        let _turn = turns.wait(&name, PLAIN).await;
        let other = Name::new("window").unwrap();
        assert!(turns.wait(&other, PLAIN).now_or_never().is_some());
    }
}
