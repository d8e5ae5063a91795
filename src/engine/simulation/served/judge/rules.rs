//! Each rule, by what was seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Believer, Class, ENTERED, NOTICED, REPEATED, Seen, TOLD, Waiter, Watched, window_comes,
};
use crate::{
    LostReason,
    domain::{Name, Owner},
    engine::simulation::{gate::Gate, served::plot::Plot},
};

impl Seen {
    /// A client behind `gate` acquired `name`, as `owner` if it is one of Leasehold.
    pub(super) fn passes_over(&mut self, name: &Name, gate: &Gate, owner: Option<&Owner>) {
        let now = Instant::now();
        let before = self.locks.get_mut(name).map(|lock| &mut lock.granted_to);
        let before = before.and_then(|it| std::mem::replace(it, owner.cloned()));
        let is_hand_off = owner.is_some() && before.as_ref() == owner;
        for waiter in self.waiters.values_mut().filter(|waiter| waiter.name == *name) {
            match waiter.gate.is(gate) {
                true => (waiter.passed_over, waiter.first_since) = (0, now),
                false => waiter.passed_over += u32::from(!is_hand_off),
            }
        }
    }

    pub(super) fn note(&mut self, name: &Name, held_by: BTreeSet<String>, now: Instant) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if !lock.held_by.is_empty() {
            lock.longest = lock.longest.max(now - lock.since);
        }
        if lock.held_by != held_by {
            (lock.held_by, lock.since) = (held_by, now);
        }
    }

    /// One believer at a time, and the server agrees.
    pub(super) fn belief(&self, now: Instant) -> Option<String> {
        let mut believed: BTreeMap<&Name, &Owner> = BTreeMap::new();
        for believer in self.believers.values().filter(|it| it.holding.is_held()) {
            let Believer { name, owner, gate, .. } = believer;
            if self.records.is_shut(gate) {
                return Some(format!("{owner} believes after its shutdown"));
            }
            let is_sure = |lock: &&Watched| match believer.terms.acknowledged {
                true => lock.forgotten_until < now,
                false => lock.doubtful_until < now,
            };
            let Some(lock) = self.locks.get(name).filter(is_sure) else { continue };
            if let Some(other) = believed.insert(name, owner) {
                return Some(format!("{owner} and {other} both believe in `{name}`"));
            }
            if !lock.held_by.contains(owner.as_str()) {
                let truth = &lock.held_by;
                return Some(format!("{owner} believes in `{name}`, which {truth:?} has"));
            }
        }
        None
    }

    /// Nobody believes for long in what nobody has any more.
    pub(super) fn late(&self, now: Instant) -> Option<String> {
        let is_late = |it: &&Believer| {
            let Some(lock) = self.locks.get(&it.name) else { return false };
            let since = lock.since.max(self.quiet_since(&it.name)).max(it.since);
            let is_lost = !lock.held_by.contains(it.owner.as_str());
            it.holding.is_held() && is_lost && now > since + NOTICED
        };
        let late = self.believers.values().find(is_late)?;
        Some(format!("{} believes in `{}`, which was lost long ago", late.owner, late.name))
    }

    /// Who waits for `lost()` is told when a hold is over.
    pub(super) fn telling(&mut self, now: Instant) -> Option<String> {
        for it in self.believers.values_mut().filter(|it| !it.told && !it.holding.is_held()) {
            let since = *it.over_at.get_or_insert(now);
            if now > since.max(it.gate.opens()) + TOLD {
                return Some(format!("{} lost its hold and was not told", it.owner));
            }
        }
        None
    }

    /// A free lock does not stay so while somebody waits.
    pub(super) fn idle(&self, name: &Name, entered: Duration, now: Instant) -> Option<String> {
        let lock = self.locks.get(name).filter(|lock| lock.held_by.is_empty())?;
        let waits = |it: &&Waiter| it.name == *name;
        let waiters = self.waiters.values().filter(waits);
        let since = waiters.map(|it| it.since.max(it.gate.opens())).min()?;
        let since = since.max(lock.since).max(lock.doubtful_until);
        let too_long = now > self.quiet_since(name).max(since) + entered;
        too_long.then(|| format!("somebody waits for `{name}`, which is free"))
    }

    /// When `client` may have had `name` last.
    pub(super) fn had_at(&self, name: &Name, client: &str, now: Instant) -> Instant {
        let of_client = |it: &String| it.rsplit_once(':').is_some_and(|it| it.0 == client);
        let is_others = |lock: &&Watched| !lock.held_by.iter().any(of_client);
        self.locks.get(name).filter(is_others).map_or(now, |lock| lock.since)
    }

    /// Since when nothing is in the way of those who want `name`, or will be.
    pub(super) fn quiet_since(&self, name: &Name) -> Instant {
        let lock = self.locks.get(name).map(|lock| lock.quiet_until);
        lock.max(self.quiet_until).unwrap_or_else(Instant::now)
    }

    /// Whether something was in the way of `name` lately.
    pub(super) fn is_troubled(&self, name: &Name, now: Instant) -> bool {
        now <= self.quiet_since(name)
    }

    /// Whether the hold with this `number` was well, and is over for that `reason`.
    pub(super) fn is_untrue(&self, number: u64, reason: LostReason, plot: &Plot) -> bool {
        let Some(it) = self.believers.get(&number) else { return false };
        let Some(lock) = self.locks.get(&it.name) else { return false };
        let is_sure = lock.doubtful_until < it.since;
        let is_quiet = self.quiet_since(&it.name) < it.since && it.gate.opens() <= it.since;
        match reason {
            LostReason::NotOwned => is_sure,
            LostReason::Expired => plot.is_deployed() && it.terms.renews && is_sure && is_quiet,
            _ => false,
        }
    }

    /// A lock does not go to a client that is gone, when the server knows that.
    pub(super) fn given_to_dead(&self, name: &Name, now: Instant) -> Option<String> {
        let is_new = |it: &&Watched| it.since == now && !self.is_troubled(name, now);
        let lock = self.locks.get(name).filter(is_new)?;
        let dead = lock.held_by.iter().find(|owner| self.is_dead(owner))?;
        Some(format!("`{name}` is given to {dead}, whose client is gone"))
    }

    fn is_dead(&self, owner: &str) -> bool {
        self.dead.contains(client_of(owner))
    }

    /// Since when nothing is in the way of the client that releases `name`.
    fn releases_since(&self, name: &Name, owner: &str) -> Option<Instant> {
        let lock = self.locks.get(name).map(|lock| lock.quiet_until);
        let client = self.cut_off_until.get(client_of(owner)).copied();
        lock.max(self.disturbed_until).max(client)
    }

    /// A lock of ours does not stay held without a guard.
    pub(super) fn ghost(&self, name: &Name, plot: &Plot, now: Instant) -> Option<String> {
        let lock = self.locks.get(name)?;
        let guarded = |owner: &str| {
            let mut all = self.believers.values();
            all.any(|it| it.owner.as_str() == owner && !it.guard_gone)
        };
        let ghost = lock.held_by.iter().find(|it| it.starts_with("client-") && !guarded(it))?;
        let gone = self.believers.values().filter(|it| it.owner.as_str() == ghost);
        let since = gone.filter_map(|it| it.over_at).max().unwrap_or(lock.since).max(lock.since);
        let repeats = plot.is_deployed() && !self.is_dead(ghost);
        let (quiet, since, stays) = match self.released.get(ghost).filter(|_| repeats) {
            Some((at, gate)) => {
                let quiet = self.releases_since(name, ghost).unwrap_or(since);
                (quiet, since.max(*at).max(gate.opens()), REPEATED)
            }
            None => (self.quiet_since(name), since, plot.lease() + ENTERED),
        };
        let too_long = now > quiet.max(since) + stays;
        too_long.then(|| format!("`{name}` stays with {ghost}, who has no guard"))
    }

    /// Nobody waits for longer than its class has to, where nothing disturbs the order.
    pub(super) fn unfair(&self, plot: &Plot, now: Instant) -> Option<String> {
        if !plot.is_calm() {
            return None;
        }
        let waiter = self.waiters.values().find(|it| self.is_passed_over(it, plot, now))?;
        let Waiter { name, class, passed_over, first_since, .. } = waiter;
        let waited = now - *first_since;
        Some(format!(
            "{class:?} waits for `{name}` for {waited:?}, passed over {passed_over} times"
        ))
    }

    pub(super) fn is_passed_over(&self, waiter: &Waiter, plot: &Plot, now: Instant) -> bool {
        let waited = now - waiter.first_since;
        let longest = self.locks.get(&waiter.name).map_or(Duration::ZERO, |lock| lock.longest);
        let others = plot.redisson || plot.spinner || plot.polling || plot.outsiders > 0;
        match waiter.class {
            Class::Queues => waiter.passed_over > if others { 80 } else { plot.clients + 8 },
            Class::Outside => waiter.passed_over > 40 + 10 * plot.clients,
            // Those before it may hold for long.
            Class::Polls | Class::Stranger => waited > window_comes(plot) + 4 * longest,
        }
    }
}

/// The client of an owner.
fn client_of(owner: &str) -> &str {
    owner.rsplit_once(':').map_or("", |it| it.0)
}
