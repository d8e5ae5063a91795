//! The rules, which are checked against the recorded events.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use super::{ACQUIRED, Class, NOTICED, REPORTED, Seen, TrustedHold, Waiter, Watched};
use crate::{
    LostReason,
    domain::{Name, Owner},
    engine::simulation::{gate::Gate, served::scenario::Scenario},
};

/// If a failover has lost a release, the client must repeat the release within this time.
const REPEATED: Duration = Duration::from_secs(1);

/// The same limit in a cluster, where a client without requests notices the failover only when it
/// refreshes the topology.
const REPEATED_IN_CLUSTER: Duration = Duration::from_millis(7_500);

/// The longest wait of a foreign client or a polling waiter for a yield window in a calm run. The
/// second limit is for several such waiters, which acquire in the same windows without an order.
const WINDOW_COMES: Duration = Duration::from_secs(6);
const SHARED_WINDOW_COMES: Duration = Duration::from_secs(15);

impl Seen {
    /// Returns the end of a fault that begins now and lasts for `lasts`. A client that lost its
    /// connections cannot find the primary before `misled_until`.
    pub(super) fn over(&self, lasts: Duration) -> Instant {
        let over = Instant::now() + lasts;
        self.misled_until.map_or(over, |until| until.max(over))
    }

    /// Records that a client behind `gate` acquired `name`, as `owner` if it is a Leasehold client.
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

    /// Checks that at most one client relies on a hold of a name at a time, and that the server has
    /// this hold.
    pub(super) fn false_belief(&self, now: Instant) -> Option<String> {
        let mut believed: BTreeMap<&Name, &Owner> = BTreeMap::new();
        for trusted_hold in self.trusted_holds.values().filter(|it| it.holding.is_held()) {
            let TrustedHold { name, owner, gate, .. } = trusted_hold;
            if self.records.is_shut(gate) {
                return Some(format!("{owner} believes after its shutdown"));
            }
            let is_sure = |lock: &&Watched| match trusted_hold.terms.acknowledged {
                true => lock.forgotten_until < now,
                false => lock.doubtful_until < now,
            };
            let Some(lock) = self.locks.get(name).filter(is_sure) else { continue };
            if let Some(other) = believed.insert(name, owner) {
                return Some(format!("{owner} and {other} both believe in `{name}`"));
            }
            if !lock.held_by.contains(owner.as_str()) {
                let truth = &lock.held_by;
                return Some(format!("{owner} believes in `{name}`, which is held by {truth:?}"));
            }
        }
        None
    }

    /// Checks that no client relies for long on a hold that the server does not have.
    pub(super) fn unnoticed_loss(&self, now: Instant) -> Option<String> {
        let is_late = |it: &&TrustedHold| {
            let Some(lock) = self.locks.get(&it.name) else { return false };
            let since = lock.since.max(self.quiet_since(&it.name)).max(it.since);
            let is_lost = !lock.held_by.contains(it.owner.as_str());
            it.holding.is_held() && is_lost && now > since + NOTICED
        };
        let late = self.trusted_holds.values().find(is_late)?;
        Some(format!("{} believes in `{}`, which was lost long ago", late.owner, late.name))
    }

    /// Checks that `lost()` returns soon after a hold is over.
    pub(super) fn unreported_loss(&mut self, now: Instant) -> Option<String> {
        for it in
            self.trusted_holds.values_mut().filter(|it| !it.loss_reported && !it.holding.is_held())
        {
            let since = *it.over_at.get_or_insert(now);
            if now > since.max(it.gate.opens()) + REPORTED {
                return Some(format!("{} lost its hold, and `lost()` did not return", it.owner));
            }
        }
        None
    }

    /// Checks that a free lock does not stay free while a waiter waits for it.
    pub(super) fn idle_lock(
        &self,
        name: &Name,
        acquired: Duration,
        now: Instant,
    ) -> Option<String> {
        let lock = self.locks.get(name).filter(|lock| lock.held_by.is_empty())?;
        // A grant in a migrating slot does not remove the queue entry of its client. If the next
        // release notifies that client, the other waiters send requests only when their wait for a
        // message ends.
        let acquired = if lock.moved.is_some() { ACQUIRED.max(acquired) } else { acquired };
        let waits = |it: &&Waiter| it.name == *name;
        let waiters = self.waiters.values().filter(waits);
        let since = waiters.map(|it| it.since.max(it.gate.opens())).min()?;
        let since = since.max(lock.since).max(lock.doubtful_until);
        let too_long = now > self.quiet_since(name).max(since) + acquired;
        too_long.then(|| format!("a waiter waits for `{name}`, which is free"))
    }

    /// Returns the last time at which `client` may have held `name`.
    pub(super) fn had_at(&self, name: &Name, client: &str, now: Instant) -> Instant {
        let of_client = |it: &String| it.rsplit_once(':').is_some_and(|it| it.0 == client);
        let is_others = |lock: &&Watched| !lock.held_by.iter().any(of_client);
        self.locks.get(name).filter(is_others).map_or(now, |lock| lock.since)
    }

    /// Returns since when no fault disturbs `name`. If a fault disturbs `name` now, this time is in
    /// the future.
    pub(super) fn quiet_since(&self, name: &Name) -> Instant {
        let lock = self.locks.get(name).map(|lock| lock.quiet_until);
        lock.max(self.quiet_until).unwrap_or_else(Instant::now)
    }

    pub(super) fn is_disturbed(&self, name: &Name, now: Instant) -> bool {
        now <= self.quiet_since(name)
    }

    /// Returns whether no fault explains the loss of the hold with this `number` for `reason`.
    pub(super) fn is_untrue(&self, number: u64, reason: LostReason, scenario: &Scenario) -> bool {
        let Some(it) = self.trusted_holds.get(&number) else { return false };
        let Some(lock) = self.locks.get(&it.name) else { return false };
        let is_sure = lock.doubtful_until < it.since;
        let is_quiet = self.quiet_since(&it.name) < it.since && it.gate.opens() <= it.since;
        match reason {
            LostReason::NotOwned => is_sure,
            LostReason::Expired => scenario.is_deployed() && it.terms.renews && is_sure && is_quiet,
            _ => false,
        }
    }

    /// Checks that the server grants no lock to a client that has died before.
    pub(super) fn granted_to_dead(&self, name: &Name, now: Instant) -> Option<String> {
        let is_new = |it: &&Watched| it.since == now && !self.is_disturbed(name, now);
        let lock = self.locks.get(name).filter(is_new)?;
        let dead = lock.held_by.iter().find(|owner| self.is_dead(owner))?;
        Some(format!("`{name}` is granted to {dead}, whose client is gone"))
    }

    fn is_dead(&self, owner: &str) -> bool {
        self.dead.contains(client_of(owner))
    }

    /// Returns since when no fault disturbs the client of `owner`, which releases `name`.
    fn releases_since(&self, name: &Name, owner: &str) -> Option<Instant> {
        let lock = self.locks.get(name).map(|lock| lock.quiet_until);
        let client = self.cut_off_until.get(client_of(owner)).copied();
        lock.max(self.disturbed_until).max(client)
    }

    /// Checks that a lock does not stay held by an owner without a guard. After a failover has lost
    /// a release, the client must repeat the release in time.
    pub(super) fn leftover(
        &self,
        name: &Name,
        scenario: &Scenario,
        shards: usize,
        now: Instant,
    ) -> Option<String> {
        let lock = self.locks.get(name)?;
        let guarded = |owner: &str| {
            let mut all = self.trusted_holds.values();
            all.any(|it| it.owner.as_str() == owner && !it.guard_gone)
        };
        let leftover = lock.held_by.iter().find(|it| it.starts_with("client-") && !guarded(it))?;
        let gone = self.trusted_holds.values().filter(|it| it.owner.as_str() == leftover);
        let since = gone.filter_map(|it| it.over_at).max().unwrap_or(lock.since).max(lock.since);
        let repeats = scenario.is_deployed() && !self.is_dead(leftover);
        let repeated = if shards == 1 { REPEATED } else { REPEATED_IN_CLUSTER };
        let (quiet, since, stays) = match self.released.get(leftover).filter(|_| repeats) {
            Some((at, gate)) => {
                let quiet = self.releases_since(name, leftover).unwrap_or(since);
                (quiet, since.max(*at).max(gate.opens()), repeated)
            }
            None => (self.quiet_since(name), since, scenario.lease() + ACQUIRED),
        };
        let too_long = now > quiet.max(since) + stays;
        too_long.then(|| format!("`{name}` stays held by {leftover}, which has no guard"))
    }

    /// Checks that in a calm run, no waiter waits for longer than the limit of its class.
    pub(super) fn starved_waiter(&self, scenario: &Scenario, now: Instant) -> Option<String> {
        if !scenario.is_calm() {
            return None;
        }
        let waiter = self.waiters.values().find(|it| self.is_passed_over(it, scenario, now))?;
        let Waiter { name, class, passed_over, first_since, .. } = waiter;
        let waited = now - *first_since;
        Some(format!(
            "{class:?} waits for `{name}` for {waited:?}, passed over {passed_over} times"
        ))
    }

    pub(super) fn is_passed_over(
        &self,
        waiter: &Waiter,
        scenario: &Scenario,
        now: Instant,
    ) -> bool {
        let waited = now - waiter.first_since;
        let longest = self.locks.get(&waiter.name).map_or(Duration::ZERO, |lock| lock.longest);
        let others =
            scenario.redisson || scenario.busy_poller || scenario.polling || scenario.outsiders > 0;
        match waiter.class {
            Class::Queues => waiter.passed_over > if others { 80 } else { scenario.clients + 8 },
            Class::Outside => waiter.passed_over > 40 + 10 * scenario.clients,
            // The holders before this waiter may hold the lock for long.
            Class::Polls | Class::Foreign => waited > window_comes(scenario) + 4 * longest,
        }
    }
}

fn client_of(owner: &str) -> &str {
    owner.rsplit_once(':').map_or("", |it| it.0)
}

/// Returns the longest time for which a waiter without a queue entry may wait for a yield window.
fn window_comes(scenario: &Scenario) -> Duration {
    let pollers = scenario.polling && !scenario.restless;
    match pollers || scenario.outsiders > 0 || scenario.redisson && scenario.busy_poller {
        true => SHARED_WINDOW_COMES,
        false => WINDOW_COMES,
    }
}
