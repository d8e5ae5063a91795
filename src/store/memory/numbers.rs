//! Numbers that nobody holds: those of semaphores, and latches.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{Session, State, semaphore::Semaphore};
use crate::{
    domain::{
        Change, Claim, Failure, GivenBack, MOST_PERMITS, Map, Object, Outcome, Owner, Place,
        ReleaseMode, Renewal, Taken, Verdict,
    },
    store::{
        Answer, RECEIPT_RESTS,
        questions::{Questions, unsupported},
    },
};

/// Every semaphore and latch, and what changes of them were answered.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) semaphores: Map<Object, Semaphore>,
    /// What each latch waits for that is closed.
    latches: Map<Object, i64>,
    receipts: BTreeMap<Owner, (i64, Instant)>,
}

pub(super) struct Semaphores;

impl Questions<Session> for Semaphores {
    fn acquire<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        place: Option<Place>,
    ) -> Answer<'a, Verdict> {
        session.ask(move |state, now| {
            let (verdict, tells) = state.semaphore(&claim.object).acquire(claim, place, now);
            if tells {
                state.announce(&claim.object, session.id, false);
            }
            verdict
        })
    }

    fn release<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        mode: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        session.ask(move |state, now| {
            let semaphore = state.semaphore(&claim.object);
            let (given, tells) = semaphore.release(&claim.owner, mode, now);
            if tells {
                state.announce(&claim.object, session.id, false);
            }
            given
        })
    }

    fn renew<'a>(&self, session: &'a Session, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        session.renew_each(renewals, |state, renewal, _| state.has_permits(renewal))
    }

    fn held_by<'a>(
        &self,
        session: &'a Session,
        object: &'a Object,
        owner: &'a Owner,
    ) -> Answer<'a, u32> {
        session.ask(|state, _| state.semaphore(object).held_by(owner))
    }

    fn number<'a>(&self, session: &'a Session, object: &'a Object) -> Answer<'a, i64> {
        session.ask(|state, _| state.numbers.semaphores.get(object).map_or(0, Semaphore::free))
    }

    fn change<'a>(
        &self,
        session: &'a Session,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        match change {
            Change::SetIfAbsent(_) | Change::Add(_) | Change::Drain | Change::Delete => session
                .change_once(object, receipt, move |state| state.change_semaphore(object, change)),
            _ => unsupported(object),
        }
    }
}

pub(super) struct Latches;

impl Questions<Session> for Latches {
    fn acquire<'a>(
        &self,
        session: &'a Session,
        claim: &'a Claim,
        _: Option<Place>,
    ) -> Answer<'a, Verdict> {
        session.ask(|state, _| match state.latch(&claim.object) {
            1.. => Verdict::Busy(Taken::UNKNOWN),
            _ => Verdict::GRANTED,
        })
    }

    fn number<'a>(&self, session: &'a Session, object: &'a Object) -> Answer<'a, i64> {
        session.ask(|state, _| state.latch(object))
    }

    fn change<'a>(
        &self,
        session: &'a Session,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        match change {
            Change::SetIfAbsent(_) | Change::CountDown | Change::Delete => {
                let change = move |state: &mut State| Ok(state.change_latch(object, change));
                session.change_once(object, receipt, change)
            }
            _ => unsupported(object),
        }
    }
}

impl Session {
    /// Makes a change, unless it was made before. It says, too, whether who waits is told.
    fn change_once<'a>(
        &'a self,
        object: &'a Object,
        receipt: &'a Owner,
        change: impl FnOnce(&mut State) -> Result<(i64, bool), Failure> + Send + 'a,
    ) -> Answer<'a, i64> {
        let changed = self.ask(move |state, now| {
            state.numbers.receipts.retain(|_, (_, at)| now < *at + RECEIPT_RESTS);
            if let Some((before, _)) = state.numbers.receipts.get(receipt) {
                return Ok(*before);
            }
            let (answer, tells) = change(state)?;
            if tells {
                state.announce(object, self.id, false);
            }
            state.numbers.receipts.insert(receipt.clone(), (answer, now));
            Ok(answer)
        });
        Box::pin(async { changed.await? })
    }
}

impl State {
    fn semaphore(&mut self, object: &Object) -> &mut Semaphore {
        self.numbers.semaphores.entry(object.clone()).or_default()
    }

    fn has_permits(&self, renewal: &Renewal) -> Outcome {
        let semaphore = self.numbers.semaphores.get(&renewal.object);
        match semaphore.map_or(0, |it| it.held_by(&renewal.owner)) {
            0 => Outcome::NotOurs,
            _ => Outcome::Renewed,
        }
    }

    /// What this latch waits for.
    fn latch(&self, object: &Object) -> i64 {
        self.numbers.latches.get(object).copied().unwrap_or_default()
    }

    /// Returns the answer, and whether who waits is told.
    fn change_semaphore(
        &mut self,
        object: &Object,
        change: Change,
    ) -> Result<(i64, bool), Failure> {
        let semaphore = self.semaphore(object);
        Ok(match change {
            Change::SetIfAbsent(permits) => {
                let made = semaphore.set_if_absent(permits);
                (made.into(), made)
            }
            Change::Add(permits) => {
                let free = semaphore.add(permits)?;
                (free, free >= 0)
            }
            Change::Delete => (semaphore.delete().into(), false),
            _ => (semaphore.drain(), false),
        })
    }

    /// The same of a latch.
    fn change_latch(&mut self, object: &Object, change: Change) -> (i64, bool) {
        let before = self.latch(object);
        let latches = &mut self.numbers.latches;
        match change {
            Change::SetIfAbsent(count) if before <= 0 => {
                latches.insert(object.clone(), count.into());
                (1, true)
            }
            Change::CountDown if before > 1 => {
                latches.insert(object.clone(), before - 1);
                (before - 1, false)
            }
            Change::CountDown => (0, latches.remove(object).is_some()),
            Change::Delete => {
                let had = latches.remove(object).is_some();
                (had.into(), had)
            }
            _ => (0, false),
        }
    }
}

/// Passes a number that Java can count to.
pub(super) fn countable(number: i64) -> Result<i64, Failure> {
    match number.unsigned_abs() <= MOST_PERMITS.into() {
        true => Ok(number),
        false => Err(Failure::refused("ERR", "Java counts from -2147483647 to 2147483647")),
    }
}
