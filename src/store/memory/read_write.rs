//! Read-write locks in memory: who reads, who writes, and who waits to write.

use std::{collections::BTreeMap, mem, time::Duration};

use tokio::time::Instant;

use super::{HEAD_START, Session, State};
use crate::{
    domain::{
        Claim, GivenBack, Holder, Kind, Object, Others, Outcome, Owner, Place, ReleaseMode,
        Renewal, Share, Taken, Value, Verdict, Work,
    },
    store::{Answer, COURTESY_TURN, KNOWN_FOR, questions::Questions},
};

/// One read-write lock.
#[derive(Default)]
pub(super) struct ReadWrite {
    readers: BTreeMap<Owner, Instant>,
    writer: Option<Writer>,
    waits_to_write: BTreeMap<Owner, Waits>,
}

struct Writer {
    owner: Owner,
    count: u32,
    ends: Instant,
}

/// Of one who waits to write: since when, and until when it counts.
struct Waits {
    since: Instant,
    until: Instant,
}

impl ReadWrite {
    /// Forgets what is over at `now`.
    fn sweep(&mut self, now: Instant) {
        self.readers.retain(|_, ends| now < *ends);
        self.waits_to_write.retain(|_, waits| now < waits.until);
        self.writer.take_if(|writer| now >= writer.ends);
    }

    fn is_of_no_use(&self) -> bool {
        self.readers.is_empty() && self.writer.is_none() && self.waits_to_write.is_empty()
    }

    /// Whether nobody has it.
    #[cfg(test)]
    pub(super) fn is_past(&self, now: Instant) -> bool {
        let writes = self.writer.as_ref().is_some_and(|writer| now < writer.ends);
        !writes && self.readers.values().all(|ends| now >= *ends)
    }

    fn writer(&self, now: Instant) -> Option<Holder> {
        let Writer { owner, count, ends } = self.writer.as_ref()?;
        Some(Holder { owner: owner.clone(), count: *count, remaining: Some(*ends - now) })
    }

    /// A reader, and how long the last of them reads.
    fn reader(&self, now: Instant) -> Option<Holder> {
        let (owner, _) = self.readers.first_key_value()?;
        let last = self.readers.values().max()?;
        Some(Holder { owner: owner.clone(), count: 1, remaining: Some(*last - now) })
    }

    fn read(&mut self, claim: &Claim, beside: Option<&Owner>, now: Instant) -> Verdict {
        let reads = self.readers.contains_key(&claim.owner);
        let writes = |owner: &Owner| self.writer.as_ref().is_some_and(|it| it.owner == *owner);
        let beside = beside.map(writes);
        if beside == Some(false) && !reads {
            let other = self.writer(now).or_else(|| self.reader(now));
            return Verdict::Busy(other.map_or(Taken::UNKNOWN, Taken::from));
        }
        if let Some(writer) = self.writer(now).filter(|_| beside.is_none()) {
            return Verdict::Busy(writer.into());
        }
        if let Some(first) = self.courtesy(claim, now).filter(|_| !reads && beside.is_none()) {
            return Verdict::Busy(first.into());
        }
        self.readers.insert(claim.owner.clone(), now + claim.ttl);
        Verdict::Granted { token: None }
    }

    /// Who goes first, of those who came before to write, if the claim lets it and its turn is not
    /// over. Its turns begin when it came.
    fn courtesy(&self, claim: &Claim, now: Instant) -> Option<Holder> {
        let Share::Behind { waited } = claim.share else { return None };
        let waited = Duration::from_millis(waited.into());
        let before = self.waits_to_write.iter().filter(|(_, it)| it.since + waited <= now);
        let (owner, first) = before.min_by_key(|(_, it)| it.since)?;
        let turns = (now - first.since).as_millis() / COURTESY_TURN.as_millis();
        let turn_ends = first.since + COURTESY_TURN * u32::try_from(turns + 1).ok()?;
        let remaining = Some(first.until.min(turn_ends) - now);
        turns.is_multiple_of(2).then(|| Holder { owner: owner.clone(), count: 0, remaining })
    }

    fn write(&mut self, claim: &Claim, waits: bool, now: Instant) -> Verdict {
        let Claim { owner, ttl, .. } = claim;
        let other = self.writer(now).or_else(|| self.reader(now));
        let is_writer = self.writer.as_ref().is_some_and(|it| it.owner == *owner);
        if let Some(other) = other.filter(|_| !is_writer) {
            if waits {
                let until = now + KNOWN_FOR;
                let known = self.waits_to_write.entry(owner.clone());
                known.or_insert(Waits { since: now, until }).until = until;
            }
            return Verdict::Busy(other.into());
        }
        self.waits_to_write.remove(owner);
        self.writer = Some(Writer { owner: owner.clone(), count: 1, ends: now + *ttl });
        Verdict::Granted { token: None }
    }

    /// When `owner` stops reading, if it reads.
    fn reads_until(&mut self, owner: &Owner) -> Option<&mut Instant> {
        self.readers.get_mut(owner)
    }

    /// The hold of `owner`, if it writes.
    fn writer_mut(&mut self, owner: &Owner) -> Option<&mut Writer> {
        self.writer.as_mut().filter(|writer| writer.owner == *owner)
    }

    fn writes_until(&mut self, owner: &Owner) -> Option<&mut Instant> {
        self.writer_mut(owner).map(|writer| &mut writer.ends)
    }

    /// Whether who waits is told, if `owner` has read.
    fn stop_reading(&mut self, owner: &Owner) -> Option<bool> {
        self.readers.remove(owner)?;
        Some(self.readers.is_empty() && self.writer.is_none())
    }

    /// The same, if it has written.
    fn stop_writing(&mut self, owner: &Owner) -> Option<bool> {
        self.writer.take_if(|writer| writer.owner == *owner).map(|_| true)
    }

    /// Takes out whoever reads. Returns whether anybody did.
    fn force_readers(&mut self) -> bool {
        !mem::take(&mut self.readers).is_empty()
    }

    /// Takes out whoever writes: those beside it read on.
    fn force_writer(&mut self) -> bool {
        self.writer.take().is_some()
    }
}

/// Sets the end of a hold, if there is one.
fn renew(ends: Option<&mut Instant>, ttl: Option<Duration>, now: Instant) -> Outcome {
    match (ends, ttl) {
        (Some(ends), Some(ttl)) => {
            *ends = now + ttl;
            Outcome::Renewed
        }
        (Some(_), None) => Outcome::Renewed,
        (None, _) => Outcome::NotOurs,
    }
}

impl Session {
    fn ask_read_write<'a, T: Send + 'a>(
        &'a self,
        object: &'a Object,
        question: impl FnOnce(&mut ReadWrite, Instant) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        self.ask(move |state, now| state.of_read_write(object, now, |lock| question(lock, now)))
    }
}

/// The reading side.
pub(super) struct Readers;

impl Questions<Session> for Readers {
    fn acquire<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        _: Option<Place>,
    ) -> Answer<'a, Verdict> {
        session.ask_read_write(&claim.object, |lock, now| lock.read(claim, None, now))
    }

    fn acquire_beside<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        writer: &'a Owner,
    ) -> Answer<'a, Verdict> {
        session.ask_read_write(&claim.object, |lock, now| lock.read(claim, Some(writer), now))
    }

    /// Those who share it are one reader to the store.
    fn recount<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        _: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        let Claim { object, owner, .. } = claim;
        session.ask_read_write(object, move |lock, now| renew(lock.reads_until(owner), ttl, now))
    }

    fn release<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        _: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        session.ask(|state, now| state.leave(claim, now, ReadWrite::stop_reading, session.id).0)
    }

    fn renew<'a>(&self, session: &'a Session, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        session.renew_each(renewals, |state, Renewal { object, owner, ttl, .. }, now| {
            state.of_read_write(object, now, |lock| renew(lock.reads_until(owner), *ttl, now))
        })
    }

    fn holder<'a>(&self, session: &'a Session, object: &'a Object) -> Answer<'a, Option<Holder>> {
        session.ask_read_write(object, |lock, now| lock.reader(now))
    }

    fn held_by<'a>(
        &self,
        session: &'a Session,
        object: &'a Object,
        owner: &'a Owner,
    ) -> Answer<'a, u32> {
        session.ask_read_write(object, |lock, _| lock.reads_until(owner).is_some().into())
    }

    fn force_release<'a>(&self, session: &'a Session, object: &'a Object) -> Answer<'a, bool> {
        session.ask(|state, now| state.force_out(object, now, ReadWrite::force_readers))
    }
}

/// The writing side.
pub(super) struct Writers;

impl Questions<Session> for Writers {
    fn acquire<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        place: Option<Place>,
    ) -> Answer<'a, Verdict> {
        session
            .ask_read_write(&claim.object, move |lock, now| lock.write(claim, place.is_some(), now))
    }

    fn recount<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        let Claim { object, owner, .. } = claim;
        session.ask_read_write(object, move |lock, now| {
            if let Some(writer) = lock.writer_mut(owner) {
                writer.count = count;
            }
            renew(lock.writes_until(owner), ttl, now)
        })
    }

    fn release<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        _: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        session.ask(|state, now| {
            match state.leave(claim, now, ReadWrite::stop_writing, session.id) {
                (GivenBack::Freed(_), true) => GivenBack::Freed(Others::Outsiders(HEAD_START)),
                (given, _) => given,
            }
        })
    }

    fn renew<'a>(&self, session: &'a Session, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        session.renew_each(renewals, |state, Renewal { object, owner, ttl, .. }, now| {
            state.of_read_write(object, now, |lock| renew(lock.writes_until(owner), *ttl, now))
        })
    }

    fn guarded<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        work: &'a Work,
    ) -> Answer<'a, Option<Value>> {
        let Claim { object, owner, .. } = claim;
        let writes = |state: &mut State, now| {
            state.of_read_write(object, now, |lock| lock.writer_mut(owner).is_some())
        };
        session.work_if(writes, work)
    }

    fn holder<'a>(&self, session: &'a Session, object: &'a Object) -> Answer<'a, Option<Holder>> {
        session.ask_read_write(object, |lock, now| lock.writer(now))
    }

    fn held_by<'a>(
        &self,
        session: &'a Session,
        object: &'a Object,
        owner: &'a Owner,
    ) -> Answer<'a, u32> {
        session.ask_read_write(object, |lock, _| lock.writer_mut(owner).map_or(0, |it| it.count))
    }

    fn force_release<'a>(&self, session: &'a Session, object: &'a Object) -> Answer<'a, bool> {
        session.ask(|state, now| state.force_out(object, now, ReadWrite::force_writer))
    }
}

impl State {
    fn read_write(&mut self, object: &Object, now: Instant) -> &mut ReadWrite {
        let lock = self.read_writes.entry(object.name.clone()).or_default();
        lock.sweep(now);
        lock
    }

    /// Answers a question about a lock, of which nothing is kept when it is of no use.
    fn of_read_write<T>(
        &mut self,
        object: &Object,
        now: Instant,
        question: impl FnOnce(&mut ReadWrite) -> T,
    ) -> T {
        let lock = self.read_write(object, now);
        let answer = question(lock);
        if lock.is_of_no_use() {
            self.read_writes.remove(&object.name);
        }
        answer
    }

    /// Takes the claim's owner out, by what `stop` says. Tells besides whether others than
    /// `session` hear of it.
    fn leave(
        &mut self,
        claim: &Claim,
        now: Instant,
        stop: impl FnOnce(&mut ReadWrite, &Owner) -> Option<bool>,
        session: u64,
    ) -> (GivenBack, bool) {
        let Claim { object, owner, .. } = claim;
        let (given, told) = self.of_read_write(object, now, |lock| {
            let stopped = stop(lock, owner);
            let waited = lock.waits_to_write.remove(owner).is_some();
            let Some(told) = stopped else {
                let holder = lock.writer(now).or_else(|| lock.reader(now));
                // Readers have let it go first.
                return (GivenBack::NotHeld { holder }, waited);
            };
            (GivenBack::Freed(Others::Nobody), told)
        });
        let others = told && self.announce_both(object, session);
        (given, others)
    }

    /// Takes those out whom `force` takes, and tells it if others may enter now.
    fn force_out(
        &mut self,
        object: &Object,
        now: Instant,
        force: impl FnOnce(&mut ReadWrite) -> bool,
    ) -> bool {
        let question = |lock: &mut ReadWrite| (force(lock), lock.writer.is_none());
        let (forced, may_enter) = self.of_read_write(object, now, question);
        if forced && may_enter {
            self.announce_both(object, u64::MAX);
        }
        forced
    }

    #[cfg(test)]
    pub(super) fn readers_and_writer(&mut self, object: &Object, now: Instant) -> Vec<Owner> {
        self.of_read_write(object, now, |lock| {
            let writer = lock.writer.iter().map(|writer| writer.owner.clone());
            writer.chain(lock.readers.keys().cloned()).collect()
        })
    }

    /// Forgets who reads or writes. Returns whether anybody did.
    pub(super) fn lose_read_write(&mut self, name: &str, now: Instant) -> bool {
        let known = self.read_writes.keys().find(|known| known.as_str() == name).cloned();
        let lost = known.and_then(|name| self.read_writes.remove(&name));
        lost.is_some_and(|mut lock| {
            lock.sweep(now);
            lock.writer.is_some() || !lock.readers.is_empty()
        })
    }

    /// Readers and writers share a channel. Returns whether others than `session` listen.
    fn announce_both(&mut self, object: &Object, session: u64) -> bool {
        let both = [Kind::Read, Kind::Write]
            .map(|kind| self.announce(&Object { kind, name: object.name.clone() }, session, false));
        both.contains(&true)
    }
}
