//! The rules that are looked at whenever something happens.

use std::time::Duration;

use tokio::time::Instant;

use super::{Believer, Oracle, Seen, client_of};
use crate::{
    domain::Object,
    engine::simulation::waiting::{Circumstances, Use},
};

impl Oracle {
    /// One believer at a time, or many who read, and the store agrees.
    pub(super) fn belief(&self, seen: &Seen, now: Instant) -> Option<String> {
        let mut holders: Vec<&Believer> = Vec::new();
        for believer in seen.believers.values() {
            if !believer.holding.is_held() {
                continue;
            }
            let owner = &believer.owner;
            let truth = self.store.truth(&believer.object);
            let is_true = truth.contains(owner);
            match seen.excused.get(owner) {
                Some(until) if !is_true && now <= *until => continue,
                _ if is_true => {}
                _ => {
                    let object = &believer.object;
                    return Some(format!(
                        "{owner} believes in `{object}`, which is held by {truth:?}"
                    ));
                }
            }
            if let Some(other) = holders.iter().find(|other| other.excludes(believer)) {
                let (other, object) = (&other.owner, &believer.object);
                return Some(format!("{owner} and {other} both believe in `{object}`"));
            }
            holders.push(believer);
        }
        None
    }

    /// Nobody believes whose client was shut down.
    pub(super) fn shut(&self, seen: &Seen) -> Option<String> {
        let shut = |it: &&Believer| {
            seen.clients.values().any(|client| client.is_shut && client.gate.is(&it.gate))
        };
        let believer = seen.believers.values().filter(shut).find(|it| it.holding.is_held())?;
        Some(format!("{} believes though its client was shut down", believer.owner))
    }

    /// Who waits for `lost()` is told when a hold is over.
    pub(super) fn telling(&self, seen: &mut Seen, now: Instant) -> Option<String> {
        for believer in seen.believers.values_mut() {
            if believer.told || believer.holding.is_held() {
                continue;
            }
            let since =
                believer.over_at.get_or_insert(now).max(&mut believer.gate.opens()).to_owned();
            if now > since + self.bounds.told {
                return Some(format!("{} lost its hold and was not told", believer.owner));
            }
        }
        None
    }

    /// A hold without a guard is asked to be released, again and again.
    pub(super) fn giving_back(&self, seen: &mut Seen, now: Instant) -> Option<String> {
        let shared = seen.guarded();
        for believer in seen.believers.values_mut().filter(|it| !shared.contains(&it.owner)) {
            let owner = &believer.owner;
            let Some(gone_at) = believer.guard_gone_at else { continue };
            // Given back once it may come again: a request to acquire was doubled.
            believer.freed |= !self.store.truth(&believer.object).contains(owner);
            let asked_at = believer.release_sent_at.unwrap_or(gone_at).max(believer.gate.opens());
            if now > asked_at + self.bounds.asked_again && !believer.freed && !believer.helpless {
                return Some(format!("nobody gives back the hold of {owner} any more"));
            }
        }
        None
    }

    /// Those who wait enter in time.
    pub(super) fn waiting(&self, seen: &mut Seen, now: Instant) -> Option<String> {
        for object in &self.names {
            let used = self.used(seen, object);
            let lately = |since: Instant| since.checked_sub(Duration::from_secs(1));
            let since = seen.waiting.since(&object.name).and_then(lately).unwrap_or(now);
            let stopped = seen.clients.values().filter(|it| it.gate.was_closed_after(since));
            let last = seen.waiting.last(&object.name);
            let given_back = last.is_none_or(|last| seen.gave_back.contains(last));
            let helpless = match &used {
                Use::OfNobody(owner) => seen.clients.get(client_of(owner)).is_none_or(|it| {
                    it.gate.was_closed_after(since) || it.helpless_until > Some(since)
                }),
                _ => false,
            };
            let stopped = u32::try_from(stopped.count()).unwrap();
            let how = Circumstances { now, stopped, given_back, helpless };
            if let Some(rule) = seen.waiting.look(&object.name, used, &self.bounds, how) {
                return Some(rule);
            }
        }
        None
    }

    fn used(&self, seen: &Seen, object: &Object) -> Use {
        let owners = self.store.truth(object);
        let guarded = seen.guarded();
        if let Some(owner) = owners.iter().find(|owner| guarded.contains(*owner)) {
            // Its guard is there, or will be told.
            return Use::Held(owner.clone());
        }
        let Some(owner) = owners.into_iter().next() else { return Use::Free };
        match seen.granted.contains(&owner) {
            true => Use::OfNobody(owner),
            false => Use::Reserved(owner),
        }
    }
}
