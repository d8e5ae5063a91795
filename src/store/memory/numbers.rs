//! Numbers that nobody holds: those of semaphores, and latches.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{Session, State, semaphore::Semaphore};
use crate::{
    domain::{
        Change, Claim, Failure, GivenBack, Kind, Map, Object, Outcome, Owner, Place, ReleaseMode,
        Renewal, Taken, Verdict,
    },
    store::{Answer, RECEIPT_RESTS, unasked},
};

/// Every semaphore and latch, and what changes of them were answered.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) semaphores: Map<Object, Semaphore>,
    /// What each latch waits for that is closed.
    latches: Map<Object, i64>,
    receipts: BTreeMap<Owner, (i64, Instant)>,
}

impl Session {
    pub(super) fn acquire_permits<'a>(
        &'a self,
        claim: &'a Claim,
        place: Option<Place>,
    ) -> Answer<'a, Verdict> {
        self.ask(move |state, now| {
            let (verdict, tells) = state.semaphore(&claim.object).acquire(claim, place, now);
            if tells {
                state.announce(&claim.object, self.id, false);
            }
            verdict
        })
    }

    pub(super) fn release_permits<'a>(
        &'a self,
        claim: &'a Claim,
        mode: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        self.ask(move |state, now| {
            let semaphore = state.semaphore(&claim.object);
            let (given, tells) = semaphore.release(&claim.owner, mode, now);
            if tells {
                state.announce(&claim.object, self.id, false);
            }
            given
        })
    }

    pub(super) fn permits_of<'a>(
        &'a self,
        object: &'a Object,
        owner: &'a Owner,
    ) -> Answer<'a, u32> {
        self.ask(|state, _| state.semaphore(object).permits_of(owner))
    }

    pub(super) fn ask_latch<'a>(&'a self, claim: &'a Claim) -> Answer<'a, Verdict> {
        self.ask(|state, _| match state.number(&claim.object) {
            1.. => Verdict::Busy(Taken::UNKNOWN),
            _ => Verdict::GRANTED,
        })
    }

    pub(super) fn number_of<'a>(&'a self, object: &'a Object) -> Answer<'a, i64> {
        self.ask(|state, _| state.number(object))
    }

    pub(super) fn change_number<'a>(
        &'a self,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        let known = match change {
            Change::SetIfAbsent(_) | Change::Delete => {
                matches!(object.kind, Kind::Semaphore | Kind::Latch)
            }
            Change::Add(_) | Change::Drain => object.kind == Kind::Semaphore,
            Change::CountDown => object.kind == Kind::Latch,
            Change::Set(_) | Change::GiveBack(_) => false,
        };
        if !known {
            return unasked(object);
        }
        let changed = self.ask(move |state, now| {
            state.numbers.receipts.retain(|_, (_, at)| now < *at + RECEIPT_RESTS);
            if let Some((before, _)) = state.numbers.receipts.get(receipt) {
                return Ok(*before);
            }
            let (answer, tells) = match object.kind {
                Kind::Semaphore => state.change_semaphore(object, change)?,
                _ => state.change_latch(object, change),
            };
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

    pub(super) fn has_permits(&self, renewal: &Renewal) -> Outcome {
        let semaphore = self.numbers.semaphores.get(&renewal.object);
        match semaphore.map_or(0, |it| it.permits_of(&renewal.owner)) {
            0 => Outcome::NotOurs,
            _ => Outcome::Renewed,
        }
    }

    fn number(&self, object: &Object) -> i64 {
        match object.kind {
            Kind::Semaphore => self.numbers.semaphores.get(object).map_or(0, Semaphore::free),
            _ => self.numbers.latches.get(object).copied().unwrap_or_default(),
        }
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
        let before = self.number(object);
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
