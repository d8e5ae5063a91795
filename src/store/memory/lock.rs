//! The lock in memory: who holds it, and who has it next.

use std::{collections::BTreeMap, num::NonZero, time::Duration};

use tokio::time::Instant;

use super::{
    HEAD_START, Listening, Session, State,
    queue::{Queue, Turn},
};
use crate::{
    domain::{
        Change, Claim, GivenBack, Holder, Object, Others, Outcome, Owner, Place, ReleaseMode,
        Renewal, Token, Value, Verdict, Work,
    },
    store::{
        Answer, Event,
        questions::{Questions, unsupported},
    },
};

pub(super) struct Locks;

impl Questions<Session> for Locks {
    fn acquire<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        place: Option<Place>,
    ) -> Answer<'a, Verdict> {
        session.ask(move |state, now| state.lock(session.id, claim, place, now))
    }

    fn recount<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        session.ask(move |state, now| state.recount_lock(claim, count, ttl, now))
    }

    fn release<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        mode: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        session.ask(move |state, now| state.unlock(session.id, claim, mode, now))
    }

    fn renew<'a>(&self, session: &'a Session, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        session.renew_each(renewals, State::renew_lock)
    }

    fn guarded<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        work: &'a Work,
    ) -> Answer<'a, Option<Value>> {
        let Claim { object, owner, .. } = claim;
        session.work_if(|state, now| state.held_by(object, owner, now).is_some(), work)
    }

    fn holder<'a>(&self, session: &'a Session, object: &'a Object) -> Answer<'a, Option<Holder>> {
        session.ask(|state, now| state.holding(object, now).map(|entry| entry.seen(now)))
    }

    fn held_by<'a>(
        &self,
        session: &'a Session,
        object: &'a Object,
        owner: &'a Owner,
    ) -> Answer<'a, u32> {
        session.ask(|state, now| state.held_by(object, owner, now).map_or(0, |entry| entry.count))
    }

    fn force_release<'a>(&self, session: &'a Session, object: &'a Object) -> Answer<'a, bool> {
        session.ask(|state, now| state.force_lock(session.id, object, now))
    }

    fn change<'a>(
        &self,
        session: &'a Session,
        object: &'a Object,
        change: Change,
        _receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        match change {
            Change::RaiseToken(least) => session.ask(move |state, _| {
                let last = state.tokens.entry(object.clone()).or_default();
                *last = least.max(*last);
                last.cast_signed()
            }),
            _ => unsupported(object),
        }
    }
}

impl State {
    fn lock(&mut self, session: u64, claim: &Claim, place: Option<Place>, now: Instant) -> Verdict {
        match self.holding(&claim.object, now) {
            Some(entry) if entry.owner != claim.owner => {
                let verdict = Verdict::Busy(entry.seen(now).into());
                if let Some(place) = place {
                    self.queue_up(session, claim, place, now);
                }
                verdict
            }
            _ => {
                self.grant(&claim.object, &claim.owner, now + claim.ttl, now);
                if place.is_some() {
                    self.leave_queue(claim, now);
                }
                Verdict::Granted { token: self.draw(claim) }
            }
        }
    }

    fn recount_lock(
        &mut self,
        claim: &Claim,
        count: u32,
        ttl: Option<Duration>,
        now: Instant,
    ) -> Outcome {
        match self.held_by(&claim.object, &claim.owner, now) {
            Some(entry) => {
                entry.count = count;
                entry.renew(ttl, now)
            }
            None => Outcome::NotOurs,
        }
    }

    fn unlock(
        &mut self,
        session: u64,
        claim: &Claim,
        mode: ReleaseMode,
        now: Instant,
    ) -> GivenBack {
        let left = mode != ReleaseMode::Broadcast && self.leave_queue(claim, now);
        if self.held_by(&claim.object, &claim.owner, now).is_none() {
            let holder = self.holding(&claim.object, now).map(|entry| entry.seen(now));
            if left && holder.is_none() {
                // Who has gone may have been told that it is free.
                self.tell_first(&claim.object);
            }
            return GivenBack::NotHeld { holder };
        }
        self.locks.remove(&claim.object);
        GivenBack::Freed(match mode {
            ReleaseMode::Broadcast if self.announce(&claim.object, session, false) => {
                Others::Listeners
            }
            ReleaseMode::Broadcast => Others::Nobody,
            ReleaseMode::HandOver | ReleaseMode::Forget | ReleaseMode::Leave => {
                self.hand_over(&claim.object, session, now)
            }
        })
    }

    fn renew_lock(&mut self, renewal: &Renewal, now: Instant) -> Outcome {
        match self.held_by(&renewal.object, &renewal.owner, now) {
            Some(entry) => entry.renew(renewal.ttl, now),
            None => Outcome::NotOurs,
        }
    }

    fn force_lock(&mut self, session: u64, object: &Object, now: Instant) -> bool {
        let held = self.take(object, now).is_some();
        if held {
            self.announce(object, session, false);
        }
        held
    }

    /// Draws the tokens of `claim`. Returns the first.
    fn draw(&mut self, claim: &Claim) -> Option<Token> {
        let first = NonZero::new(u64::from(claim.tokens())).map(|_| claim.object.clone())?;
        let last = self.tokens.entry(first).or_default();
        let first = last.saturating_add(1);
        *last = last.saturating_add(claim.tokens().into());
        NonZero::new(first)
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
    pub(super) fn holding(&mut self, object: &Object, now: Instant) -> Option<&mut Entry> {
        self.locks.get_mut(object).filter(|entry| now < entry.ends)
    }

    fn held_by(&mut self, object: &Object, owner: &Owner, now: Instant) -> Option<&mut Entry> {
        self.holding(object, now).filter(|entry| entry.owner == *owner)
    }

    pub(super) fn take(&mut self, object: &Object, now: Instant) -> Option<Entry> {
        self.locks.remove(object).filter(|entry| now < entry.ends)
    }
}

/// Whether this client hears when its turn comes.
fn hears(sessions: &BTreeMap<u64, Listening>, session: u64, object: &Object) -> bool {
    sessions.get(&session).is_some_and(|it| !it.queueless && it.subscriber(object).is_some())
}

pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) count: u32,
    pub(super) ends: Instant,
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
