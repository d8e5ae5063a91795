//! One semaphore. It decides as the scripts in `lua/semaphore/` do, which say why.
//!
//! Pure: it is told the time.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::numbers::countable;
use crate::{
    domain::{Claim, Failure, GivenBack, Others, Owner, Place, ReleaseMode, Taken, Verdict},
    store::{LATEST, PATIENT_RESTS, PATIENT_TURN},
};

/// One semaphore, and what is known of one that there is no more.
#[derive(Debug, Default)]
pub(super) struct Semaphore {
    /// How many permits are free, if there are any at all.
    free: Option<i64>,
    holders: BTreeMap<Owner, u32>,
    /// Until when the questions of these are refused.
    withdrawn: BTreeMap<Owner, Instant>,
    patient: Option<Patient>,
    /// Since when permits are left to one or another.
    turn_began: Option<Instant>,
}

/// So many holders are counted to see how many permits may be free at once.
const MOST_COUNTED: usize = 1_000;

/// Who waits longest.
#[derive(Debug)]
struct Patient {
    owner: Owner,
    permits: u32,
    since: Instant,
    /// When it is forgotten, unless it asks.
    rests_until: Instant,
}

impl Semaphore {
    pub(super) fn free(&self) -> i64 {
        self.free.unwrap_or_default()
    }

    pub(super) fn held_by(&self, owner: &Owner) -> u32 {
        self.holders.get(owner).copied().unwrap_or_default()
    }

    /// Returns the answer, and whether who waits is to ask.
    pub(super) fn acquire(
        &mut self,
        claim: &Claim,
        place: Option<Place>,
        now: Instant,
    ) -> (Verdict, bool) {
        self.patient.take_if(|patient| now >= patient.rests_until);
        self.turn_began.take_if(|began| now >= *began + 2 * PATIENT_TURN);
        if self.holders.contains_key(&claim.owner) {
            return (Verdict::GRANTED, false);
        }
        if self.withdrawn.get(&claim.owner).is_some_and(|until| now < *until) {
            return (Verdict::Busy(Taken::UNKNOWN), false);
        }
        let turn_ends = self.turn_began.unwrap_or(now) + PATIENT_TURN;
        let since = match place {
            Some(Place::Waited(time)) => now.checked_sub(time),
            _ => None,
        };
        let wanted = i64::from(claim.units());
        let before = self.patient.as_ref().filter(|patient| {
            let first =
                patient.owner != claim.owner && since.is_none_or(|since| patient.since <= since);
            first && now < turn_ends
        });
        let left = before.map_or(0, |patient| i64::from(patient.permits));
        if self.free() - left < wanted {
            let at_most = before.filter(|_| self.free() >= wanted);
            let at_most = at_most.map(|patient| patient.rests_until.min(turn_ends) - now);
            let tells = match (before, since) {
                (None, Some(since)) => {
                    !self.be_patient(claim, since, now) && self.leaves(&claim.owner)
                }
                _ => false,
            };
            return (
                Verdict::Busy(Taken { at_most, unset: self.free.is_none(), ..Taken::UNKNOWN }),
                tells,
            );
        }
        if self.patient.take_if(|patient| patient.owner == claim.owner).is_some() {
            self.turn_began = None;
        }
        self.free = Some(self.free() - wanted);
        self.holders.insert(claim.owner.clone(), claim.units());
        (Verdict::GRANTED, false)
    }

    /// Notes who waits longest, in vain. Not if the turn is over, or if it wants more than
    /// there are, as far as we can see. Returns whether it is noted.
    fn be_patient(&mut self, claim: &Claim, since: Instant, now: Instant) -> bool {
        let began = self.turn_began.unwrap_or(now);
        if now >= began + PATIENT_TURN || !self.may_be_free(claim.units()) {
            return false;
        }
        let (owner, permits) = (claim.owner.clone(), claim.units());
        self.patient = Some(Patient { owner, permits, since, rests_until: now + PATIENT_RESTS });
        self.turn_began = Some(began);
        true
    }

    /// Whether as many may be free at once, as far as we can see.
    fn may_be_free(&self, permits: u32) -> bool {
        let all: i64 = self.holders.values().map(|permits| i64::from(*permits)).sum();
        self.holders.len() <= MOST_COUNTED && self.free() + all >= i64::from(permits)
    }

    /// Leaves to the others what was left to this one. Returns whether they are to ask.
    fn leaves(&mut self, owner: &Owner) -> bool {
        let was_patient = self.patient.take_if(|patient| patient.owner == *owner).is_some();
        was_patient && self.free() > 0
    }

    /// Gives back what `owner` has. Returns whether who waits is to ask, too.
    pub(super) fn release(
        &mut self,
        owner: &Owner,
        mode: ReleaseMode,
        now: Instant,
    ) -> (GivenBack, bool) {
        let had = self.holders.remove(owner);
        let given = GivenBack::Freed(Others::Nobody);
        if let Some(permits) = had.filter(|_| mode != ReleaseMode::Forget) {
            return match &mut self.free {
                Some(free) => {
                    *free += i64::from(permits);
                    (given, *free >= 0)
                }
                None => (GivenBack::NotHeld { holder: None }, false),
            };
        }
        if mode != ReleaseMode::Leave {
            self.withdrawn.retain(|_, until| now < *until);
            self.withdrawn.insert(owner.clone(), now + LATEST);
        }
        let given = if had.is_some() { given } else { GivenBack::NotHeld { holder: None } };
        (given, self.leaves(owner))
    }

    /// Makes it one with so many permits, unless it is one. Whoever has any of one before
    /// has none of this. Returns whether it did.
    pub(super) fn set_if_absent(&mut self, permits: u32) -> bool {
        let absent = self.free.is_none();
        if absent {
            self.free = Some(permits.into());
            self.holders.clear();
        }
        absent
    }

    /// Adds permits, or takes some away. Returns how many are free then.
    pub(super) fn add(&mut self, permits: i64) -> Result<i64, Failure> {
        let free = countable(self.free().saturating_add(permits))?;
        Ok(*self.free.insert(free))
    }

    /// Takes all free permits away. Returns how many there were.
    pub(super) fn drain(&mut self) -> i64 {
        let free = self.free().max(0);
        self.free = self.free.map(|it| it - free);
        free
    }

    /// Removes it, and who has permits. Returns whether there was one.
    pub(super) fn delete(&mut self) -> bool {
        self.holders.clear();
        self.free.take().is_some()
    }

    /// The same; whether anybody had permits.
    pub(super) fn lose(&mut self) -> bool {
        let had = !self.holders.is_empty();
        self.delete() && had
    }

    /// How many permits are taken.
    #[cfg(test)]
    pub(super) fn taken(&self) -> u32 {
        self.holders.values().sum()
    }
}
