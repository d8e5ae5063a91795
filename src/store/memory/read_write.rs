//! Read-write locks in memory: who reads, who writes, and who waits to write.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{HEAD_START, State};
use crate::{
    domain::{
        Claim, GivenBack, Holder, Kind, Object, Others, Outcome, Owner, Place, Renewal, Share,
        Taken, Verdict,
    },
    store::KNOWN_FOR,
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

    fn read(&mut self, claim: &Claim, now: Instant) -> Verdict {
        let reads = self.readers.contains_key(&claim.owner);
        let writes = |owner: &Owner| self.writer.as_ref().is_some_and(|it| it.owner == *owner);
        let beside = claim.beside.as_ref().map(writes);
        if beside == Some(false) && !reads {
            let other = self.writer(now).or_else(|| self.reader(now));
            return Verdict::Busy(other.map_or(Taken::UNKNOWN, Taken::from));
        }
        if let Some(writer) = self.writer(now).filter(|_| beside.is_none()) {
            return Verdict::Busy(writer.into());
        }
        if let Some(at_most) = self.courtesy(claim, now).filter(|_| !reads && beside.is_none()) {
            return Verdict::Busy(Taken { holder: None, at_most: Some(at_most) });
        }
        self.readers.insert(claim.owner.clone(), now + claim.ttl);
        Verdict::Granted { token: None }
    }

    /// For how long the first one counts who came before to write, if the claim lets it go first.
    fn courtesy(&self, claim: &Claim, now: Instant) -> Option<Duration> {
        let Share::Beside { yields: Some(waited) } = claim.share else { return None };
        let before = self.waits_to_write.values().filter(|it| it.since + waited <= now);
        before.min_by_key(|it| it.since).map(|it| it.until - now)
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

    fn is_held(&self, object: &Object) -> bool {
        match object.kind {
            Kind::Write => self.writer.is_some(),
            _ => self.writer.is_none() && !self.readers.is_empty(),
        }
    }

    /// When the hold of `owner` ends, if it has one.
    fn ends(&mut self, object: &Object, owner: &Owner) -> Option<&mut Instant> {
        match object.kind {
            Kind::Write => {
                let writer = self.writer.as_mut().filter(|writer| writer.owner == *owner)?;
                Some(&mut writer.ends)
            }
            _ => self.readers.get_mut(owner),
        }
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

    pub(super) fn read_or_write(
        &mut self,
        claim: &Claim,
        place: Option<Place>,
        now: Instant,
    ) -> Verdict {
        self.of_read_write(&claim.object, now, |lock| match claim.object.kind {
            Kind::Write => lock.write(claim, place.is_some(), now),
            _ => lock.read(claim, now),
        })
    }

    pub(super) fn stop_reading_or_writing(
        &mut self,
        session: u64,
        claim: &Claim,
        now: Instant,
    ) -> GivenBack {
        let Claim { object, owner, .. } = claim;
        let (given, told) = self.of_read_write(object, now, |lock| {
            let held = lock.ends(object, owner).is_some();
            let waited = lock.waits_to_write.remove(owner).is_some();
            if !held {
                let holder = lock.writer(now).or_else(|| lock.reader(now));
                // Readers have let it go first.
                return (GivenBack::NotHeld { holder }, waited);
            }
            let told = match object.kind {
                Kind::Write => lock.writer.take().is_some(),
                _ => {
                    lock.readers.remove(owner);
                    lock.readers.is_empty() && lock.writer.is_none()
                }
            };
            (GivenBack::Freed(Others::Nobody), told)
        });
        let others = told && self.announce_both(object, session);
        match given {
            GivenBack::Freed(_) if others && object.kind == Kind::Write => {
                GivenBack::Freed(Others::Outsiders(HEAD_START))
            }
            given => given,
        }
    }

    pub(super) fn renew_reader_or_writer(&mut self, renewal: &Renewal, now: Instant) -> Outcome {
        let Renewal { object, owner, ttl, .. } = renewal;
        self.of_read_write(object, now, |lock| match (lock.ends(object, owner), ttl) {
            (Some(ends), Some(ttl)) => {
                *ends = now + *ttl;
                Outcome::Renewed
            }
            (Some(_), None) => Outcome::Renewed,
            (None, _) => Outcome::NotOurs,
        })
    }

    pub(super) fn recount_writer(
        &mut self,
        claim: &Claim,
        count: u32,
        ttl: Option<Duration>,
        now: Instant,
    ) -> Outcome {
        let Claim { object, owner, .. } = claim;
        self.of_read_write(object, now, |lock| {
            if let Some(writer) = lock.writer.as_mut().filter(|writer| writer.owner == *owner) {
                writer.count = count;
            }
        });
        let (object, owner, share) = (object.clone(), owner.clone(), claim.share);
        let renewal = Renewal { object, owner, share, ttl };
        self.renew_reader_or_writer(&renewal, now)
    }

    pub(super) fn reader_or_writer(&mut self, object: &Object, now: Instant) -> Option<Holder> {
        self.of_read_write(object, now, |lock| match object.kind {
            Kind::Write => lock.writer(now),
            _ => lock.reader(now),
        })
    }

    pub(super) fn reads_or_writes(&mut self, object: &Object, owner: &Owner, now: Instant) -> u32 {
        self.of_read_write(object, now, |lock| match object.kind {
            Kind::Write => {
                lock.writer.as_ref().filter(|it| it.owner == *owner).map_or(0, |it| it.count)
            }
            _ => u32::from(lock.readers.contains_key(owner)),
        })
    }

    pub(super) fn force_readers_or_writer(&mut self, object: &Object, now: Instant) -> bool {
        let held = self.of_read_write(object, now, |lock| {
            let held = lock.is_held(object);
            if held {
                lock.writer = None;
                lock.readers.clear();
            }
            held
        });
        if held {
            self.announce_both(object, u64::MAX);
        }
        held
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
