//! One semaphore. It decides as the scripts in `lua/semaphore/` do, which say why.
//!
//! Pure: it is told the time.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::{
    domain::{Claim, GivenBack, Others, Owner, Place, ReleaseMode, Taken, Verdict},
    store::{LATEST, PATIENT_RESTS},
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
}

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

    pub(super) fn acquire(&mut self, claim: &Claim, place: Option<Place>, now: Instant) -> Verdict {
        self.patient.take_if(|patient| now >= patient.rests_until);
        if self.holders.contains_key(&claim.owner) {
            return Verdict::GRANTED;
        }
        if self.withdrawn.get(&claim.owner).is_some_and(|until| now < *until) {
            return Verdict::Busy(Taken::UNKNOWN);
        }
        let since = match place {
            Some(Place::Waited(time)) => now.checked_sub(time),
            _ => None,
        };
        let wanted = i64::from(claim.units());
        let before = self.patient.as_ref().filter(|patient| {
            patient.owner != claim.owner && since.is_none_or(|since| patient.since <= since)
        });
        let left = before.map_or(0, |patient| i64::from(patient.permits));
        if self.free() - left < wanted {
            let at_most = before.filter(|_| self.free() >= wanted);
            let at_most = at_most.map(|patient| patient.rests_until - now);
            if let (None, Some(since)) = (before, since) {
                self.be_patient(claim, since, now);
            }
            return Verdict::Busy(Taken { at_most, ..Taken::UNKNOWN });
        }
        self.patient.take_if(|patient| patient.owner == claim.owner);
        self.free = Some(self.free() - wanted);
        self.holders.insert(claim.owner.clone(), claim.units());
        Verdict::GRANTED
    }

    /// Notes who waits longest, in vain. One who wants more than there are, as far as we can
    /// see, keeps nobody out.
    fn be_patient(&mut self, claim: &Claim, since: Instant, now: Instant) {
        let (owner, permits) = (claim.owner.clone(), claim.units());
        let all: i64 = self.holders.values().map(|permits| i64::from(*permits)).sum();
        if self.free() + all < i64::from(permits) {
            self.patient.take_if(|patient| patient.owner == owner);
            return;
        }
        self.patient = Some(Patient { owner, permits, since, rests_until: now + PATIENT_RESTS });
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
        self.withdrawn.retain(|_, until| now < *until);
        self.withdrawn.insert(owner.clone(), now + LATEST);
        let was_patient = self.patient.take_if(|patient| patient.owner == *owner).is_some();
        let given = if had.is_some() { given } else { GivenBack::NotHeld { holder: None } };
        (given, was_patient && self.free() > 0)
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
    pub(super) fn add(&mut self, permits: i64) -> i64 {
        let free = self.free().saturating_add(permits);
        *self.free.insert(free)
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
