//! Permits that expire.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{Session, State, numbers::countable};
use crate::{
    domain::{
        Change, Claim, Counts, Failure, GivenBack, Object, Others, Outcome, Owner, PermitId, Place,
        ReleaseMode, Renewal, Taken, Verdict, permits_of,
    },
    store::{
        Answer, RECEIPT_RESTS,
        questions::{Questions, unsupported},
    },
};

impl Session {
    /// Runs `question` on the permits of `object`, of which none has expired. It says, too,
    /// whether there are more free ones than before.
    fn ask_pool<'a, T: Send + 'a>(
        &'a self,
        object: &'a Object,
        question: impl FnOnce(&mut Pool, Instant) -> (T, bool) + Send + 'a,
    ) -> Answer<'a, T> {
        self.ask(move |state, now| {
            let pool = state.permits.entry(object.clone()).or_default();
            let regained = pool.reap(now);
            let (answer, more) = question(pool, now);
            if (regained || more) && pool.has_free() {
                state.announce(object, self.id, false);
            }
            answer
        })
    }
}

pub(super) struct Permits;

impl Questions<Session> for Permits {
    fn acquire<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        _: Option<Place>,
    ) -> Answer<'a, Verdict> {
        session.ask_pool(&claim.object, |pool, now| (pool.acquire(claim, now), false))
    }

    fn release<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        _: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        // One that has expired is known as such, whether or not it was counted as free.
        session.ask(move |state, now| {
            let pool = state.permits.entry(claim.object.clone()).or_default();
            let (all, any) = pool.release(claim, now);
            if any && pool.has_free() {
                state.announce(&claim.object, session.id, false);
            }
            match all {
                true => GivenBack::Freed(Others::Nobody),
                false => GivenBack::NotHeld { holder: None },
            }
        })
    }

    fn renew<'a>(&self, session: &'a Session, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        session.renew_each(renewals, State::renew_permits)
    }

    fn change<'a>(
        &self,
        session: &'a Session,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        use Change::{Add, GiveBack, Set, SetIfAbsent};
        if !matches!(change, Set(_) | SetIfAbsent(_) | Add(_) | GiveBack(_)) {
            return unsupported(object);
        }
        let changed = session.ask_pool(object, move |pool, now| {
            let before = pool.counts().free;
            let answer = pool.change(change, receipt, now);
            (answer, pool.counts().free > before)
        });
        Box::pin(async { changed.await? })
    }

    fn count<'a>(&self, session: &'a Session, object: &'a Object) -> Answer<'a, Counts> {
        session.ask_pool(object, |pool, _| (pool.counts(), false))
    }

    fn lease<'a>(
        &self,
        session: &'a Session,
        object: &'a Object,
        id: PermitId,
        lease: Option<Duration>,
    ) -> Answer<'a, Option<Duration>> {
        session.ask_pool(object, move |pool, now| (pool.lease(id, lease, now), false))
    }
}

/// The permits of one name. Pure: it is told the time.
#[derive(Default)]
pub(super) struct Pool {
    free: i64,
    set: bool,
    held: BTreeMap<PermitId, Instant>,
    /// Answers to changes, and until when they are known.
    receipts: BTreeMap<Owner, (i64, Instant)>,
}

impl State {
    fn renew_permits(&mut self, renewal: &Renewal, now: Instant) -> Outcome {
        let pool = self.permits.get_mut(&renewal.object);
        pool.map_or(Outcome::NotOurs, |pool| pool.renew(renewal, now))
    }
}

impl Pool {
    /// Counts as free what has expired. Returns whether there was any.
    pub(super) fn reap(&mut self, now: Instant) -> bool {
        let before = self.held.len();
        self.held.retain(|_, ends| now < *ends);
        self.add(before - self.held.len())
    }

    fn add(&mut self, count: usize) -> bool {
        self.free += i64::try_from(count).unwrap_or(i64::MAX);
        self.set |= count > 0;
        count > 0
    }

    /// Whether whoever waits is to be told.
    pub(super) fn has_free(&self) -> bool {
        self.free > 0
    }

    pub(super) fn acquire(&mut self, claim: &Claim, now: Instant) -> Verdict {
        let ids = || permits_of(&claim.owner, claim.share);
        let missing = ids().filter(|id| !self.held.contains_key(id)).count();
        let missing = i64::try_from(missing).unwrap_or(i64::MAX);
        if missing > self.free {
            let first = self.held.values().min();
            let at_most = first.map(|ends| *ends - now);
            return Verdict::Busy(Taken { at_most, unset: !self.set, ..Taken::UNKNOWN });
        }
        self.free -= missing;
        self.held.extend(ids().map(|id| (id, now + claim.ttl)));
        Verdict::Granted { token: None }
    }

    /// Gives permits back. Returns whether each of them was held until now, and whether there
    /// were any.
    pub(super) fn release(&mut self, claim: &Claim, now: Instant) -> (bool, bool) {
        let ids = || permits_of(&claim.owner, claim.share);
        let all = ids().all(|id| self.is_held(&id, now));
        let there = ids().filter(|id| self.held.remove(id).is_some()).count();
        (all, self.add(there))
    }

    pub(super) fn renew(&mut self, renewal: &Renewal, now: Instant) -> Outcome {
        let ids = || permits_of(&renewal.owner, renewal.share);
        if !ids().all(|id| self.is_held(&id, now)) {
            return Outcome::NotOurs;
        }
        if let Some(ttl) = renewal.ttl {
            self.held.extend(ids().map(|id| (id, now + ttl)));
        }
        Outcome::Renewed
    }

    fn is_held(&self, id: &PermitId, now: Instant) -> bool {
        self.held.get(id).is_some_and(|ends| now < *ends)
    }

    /// How many are held that have not expired.
    #[cfg(test)]
    pub(super) fn held_at(&self, now: Instant) -> usize {
        self.held.values().filter(|ends| now < **ends).count()
    }

    pub(super) fn counts(&self) -> Counts {
        let held = i64::try_from(self.held.len()).unwrap_or(i64::MAX);
        Counts { free: self.free, held, set: self.set }
    }

    pub(super) fn lease(
        &mut self,
        id: PermitId,
        lease: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        let ends = self.held.get_mut(&id)?;
        if let Some(lease) = lease {
            *ends = (*ends).max(now + lease);
        }
        Some(*ends - now)
    }

    /// Makes a change, unless it was made before.
    pub(super) fn change(
        &mut self,
        change: Change,
        receipt: &Owner,
        now: Instant,
    ) -> Result<i64, Failure> {
        self.receipts.retain(|_, (_, until)| now < *until);
        if let Some((answer, _)) = self.receipts.get(receipt) {
            return Ok(*answer);
        }
        let more = match change {
            Change::Set(count) => Some(i64::from(count) - self.free - self.counts().held),
            Change::SetIfAbsent(count) => (!self.set).then_some(count.into()),
            Change::Add(count) => Some(countable(self.free.saturating_add(count))? - self.free),
            Change::GiveBack(id) => self.held.remove(&id).map(|_| 1),
            _ => None,
        };
        self.set |= more.is_some();
        self.free += more.unwrap_or(0);
        let answer = match change {
            Change::Set(_) | Change::Add(_) => self.free,
            _ => more.is_some().into(),
        };
        self.receipts.insert(receipt.clone(), (answer, now + RECEIPT_RESTS));
        Ok(answer)
    }

    /// Forgets who holds. Returns whether anybody did.
    pub(super) fn lose(&mut self, now: Instant) -> bool {
        self.reap(now);
        let held = self.held.len();
        self.held.clear();
        self.add(held)
    }
}
