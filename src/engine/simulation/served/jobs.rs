//! The elements of a queue: where the servers have them, and the record of what happened to them.
//! Each element is pushed once.
//!
//! A failover may lose a push that not all replicas have. After a failover, an element that is done
//! may be in the queue again. An element that all replicas have had is never lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use leasehold_twin::Twin;

use crate::domain::Name;

/// The key of the queue, and the keys of its claims. The keys of the claims do not exist if no
/// element is claimed.
pub(super) const QUEUE: &str = "jobs";
const CLAIMS: &str = "leasehold_queue__claims:{jobs}";
const CLAIMANTS: &str = "leasehold_queue__claimants:{jobs}";
pub(super) const KEYS: [&str; 3] = [QUEUE, CLAIMS, CLAIMANTS];

/// Where a server has each element. The value is the owner of the claim, or empty if the element is
/// in the queue.
pub(super) type Places = BTreeMap<String, String>;

pub(super) fn name() -> Name {
    Name::new(QUEUE).unwrap()
}

/// Returns where a server has each element, and in how many milliseconds the first claim expires.
pub(super) fn state(server: &Twin) -> (Option<Places>, i64) {
    let waiting = server.list(QUEUE).unwrap_or_default();
    let claims = server.hash(CLAIMS).unwrap_or_default();
    let element = |claim: String| claim.split_once(':').unwrap().1.to_owned();
    let claimed = claims.into_iter().map(|(owner, claim)| (element(claim), owner));
    let places = waiting.into_iter().map(|it| (it, String::new())).chain(claimed).collect();
    let first = server.zset(CLAIMANTS).and_then(|claimants| Some(claimants.first()?.1));
    let ends = |millis: f64| i64::try_from(Duration::from_secs_f64(millis / 1e3).as_millis());
    (Some(places), first.map_or(i64::MAX, |first| (ends(first).unwrap() - server.millis()).max(0)))
}

/// The elements, by their known state.
#[derive(Default)]
pub(super) struct Jobs {
    /// The elements that may be in the queue. The value is true if the push was confirmed, and no
    /// failover has lost the push. Such an element must stay in the queue until it is done.
    pushed: BTreeMap<String, bool>,
    /// The elements that all replicas have had.
    acknowledged: BTreeSet<String>,
    /// The elements that are certainly done.
    done: BTreeSet<String>,
    /// For each element: how many calls of `done` have an unknown result.
    unsure: BTreeMap<String, u32>,
}

impl Jobs {
    /// Records that the element may be in the queue, and whether it must be there.
    pub(super) fn is_pushed(&mut self, element: &str, confirmed: bool) {
        self.pushed.insert(element.to_owned(), confirmed);
    }

    /// Records that a worker has claimed the element, and whether all replicas have `acknowledged`
    /// the claim. Returns the broken rule, if this element cannot be in the queue. A worker that is
    /// not `sure` may have claimed the element from a server that was replaced.
    pub(super) fn is_taken(
        &mut self,
        element: &str,
        acknowledged: bool,
        sure: bool,
    ) -> Option<String> {
        if acknowledged {
            self.acknowledged.insert(element.to_owned());
        }
        let again = sure && self.done.contains(element);
        let wrong = again || !self.pushed.contains_key(element);
        wrong.then(|| format!("{element} is taken, but it is done or was never pushed"))
    }

    /// Records that the claimant of the element begins to report it as done.
    pub(super) fn may_be_done(&mut self, element: &str) {
        *self.unsure.entry(element.to_owned()).or_default() += 1;
    }

    /// Records the reply to the report that the element is done. Returns the broken rule, if the
    /// element is done twice.
    pub(super) fn is_done(&mut self, element: &str, done: bool, sure: bool) -> Option<String> {
        self.unsure.entry(element.to_owned()).and_modify(|unsure| *unsure -= 1);
        let twice = done && !self.done.insert(element.to_owned());
        (twice && sure).then(|| format!("{element} is done twice"))
    }

    /// Records which elements a failover has lost. Returns the broken rule, if all replicas had one
    /// of these elements.
    pub(super) fn forgets(
        &mut self,
        before: &Places,
        after: &Places,
        repeats: bool,
    ) -> Option<String> {
        // These elements may be done a second time, because the new server has them in the queue.
        // If `repeats` is false, claimed elements may be done again, too, because the claimants do
        // not repeat a lost `done` in time.
        let again = after.iter().filter(|(_, owner)| owner.is_empty() || !repeats);
        for (element, _) in again {
            if self.done.remove(element) {
                self.may_be_done(element);
            }
        }
        // The replaced server may still have executed the `done` of an element that comes back. If
        // the replaced server becomes the primary again, the element is gone again.
        after.keys().filter(|it| !before.contains_key(*it)).for_each(|element| {
            self.acknowledged.remove(element);
        });
        let lost: Vec<_> = before.keys().filter(|it| !after.contains_key(*it)).collect();
        lost.iter().for_each(|element| self.is_pushed(element, false));
        let known = lost.into_iter().find(|it| self.acknowledged.contains(*it))?;
        Some(format!("a failover has lost {known}, which all replicas had"))
    }

    /// Returns the broken rule, if an element is neither done nor `left` in the queue.
    pub(super) fn are_whole(&self, left: &BTreeSet<String>) -> Result<(), String> {
        let maybe = |it: &str| self.unsure.get(it).is_some_and(|unsure| *unsure > 0);
        let known = |it: &String| left.contains(it) || self.done.contains(it) || maybe(it);
        let mut lost = self.pushed.iter().filter(|(it, confirmed)| **confirmed && !known(it));
        lost.next().map_or(Ok(()), |(element, _)| Err(format!("{element} is lost")))
    }
}
