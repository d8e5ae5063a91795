//! The rules of every run, which the judge checks. A client *relies on* a hold while its guard says
//! that the hold is valid. The code calls such a hold a *trusted hold*, and says that the client
//! *believes* in this hold.
//!
//! | rule | broken when |
//! |---|---|
//! | one trusted hold | two clients rely on holds of one lock at the same time, while the server keeps its data |
//! | a trusted hold exists | a client relies on a hold that the server does not have |
//! | loss is reported | a hold has ended, and `lost()` does not return soon after |
//! | loss is noticed | a client relies on a hold long after a failover has lost this hold |
//! | no false alarm | a release or `lost()` reports a loss that did not happen |
//! | a free lock is acquired | a waiter waits for a free lock, long after the last fault |
//! | waiters are subscribed | a waiter that may queue is not subscribed |
//! | dead clients are skipped | a lock is granted to a client that has died |
//! | no hold is left behind | a lock stays held by an owner without a guard |
//! | no waiter starves | in a calm run a waiter waits for longer than the limit of its class |
//! | tokens grow | a hold has a token that is not greater than every earlier token of the lock |
//! | a lock leaves its process | tasks of one client hand a lock off for longer than the local budget |
//! | shutdown ends all holds | a client that was shut down relies on a hold, or acquires |
//! | a lease runs during suspend | a client relies on a hold after its machine was suspended beyond the end of this hold |
//! | every key ends | a key of Leasehold has no TTL, or is left at the end |
//! | no failure without a fault | a request fails without a fault |
//! | replies come soon | `try_acquire` or a release takes long without a fault |
//!
//! A client cannot notice at once that the server lost its hold, or that a foreign client overwrote
//! the hold. So after such a fault, two holders are allowed for the time of a lease. A failover may
//! lose a write that no replica has acknowledged. It must not lose a write that all replicas have
//! acknowledged.

mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    records::Records,
    scenario::{Kind, Scenario},
    site::Site,
};
use crate::{
    LostReason,
    domain::{Name, Owner},
    engine::simulation::{gate::Gate, trace::Trace},
    error::Error,
    primitives::LockContext,
};

/// A waiter must acquire a free lock within this time after the last fault.
const ACQUIRED: Duration = Duration::from_secs(4);

/// The limits within which a waiter must acquire a free lock in a run without faults. The first
/// limit covers a yield window and some round trips. The second limit is for runs with polling
/// waiters, and covers the pause of a client that is not subscribed.
const ACQUIRED_IN_CALM: Duration = Duration::from_millis(150);
const ACQUIRED_BY_POLLING: Duration = Duration::from_secs(1);

/// The limit for a free lock in a run whose only faults are failovers and moved slots.
const ACQUIRED_AFTER_SWITCH: Duration = Duration::from_millis(1_500);

/// Clients must have reconnected within this time after a failover.
const FOLLOWED: Duration = Duration::from_secs(1);

/// `try_acquire` and a release must end within this time if there is no fault. The second limit is
/// for runs in which a connection may be silent. A client notices a silent connection only when it
/// sends a request.
const DONE: Duration = Duration::from_millis(300);
const DONE_AFTER_SILENCE: Duration = Duration::from_secs(1);

/// If a failover has lost a hold, and there is no other fault, the client must notice the loss
/// within this time.
const NOTICED: Duration = Duration::from_secs(1);

/// A waiter must be subscribed within this time.
const SUBSCRIBED: Duration = Duration::from_secs(1);

/// Clients may not notice two failovers within this time, because the first server takes over again.
const UNNOTICED: Duration = Duration::from_millis(100);

/// Clients must have reconnected within this time after their connections were lost.
const CONNECTED: Duration = Duration::from_secs(2);

/// The replicas of a shard receive a moved key within this time.
const REPLICAS_FOLLOW: Duration = Duration::from_secs(1);

/// A loss must be reported within this time.
const REPORTED: Duration = Duration::from_millis(1_300);

/// How a waiter learns that it should send a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    /// The waiter has a queue entry, and is notified at the head of the wait queue.
    Queues,
    /// The waiter polls, or is in line behind a polling task of its client.
    Polls,
    /// The waiter has no permission to write the wait queue.
    Outside,
    /// The waiter is a foreign client, which does not use the wait queue.
    Foreign,
}

pub(super) struct Judge {
    site: Site,
    trace: Arc<Trace>,
    scenario: Scenario,
    names: Vec<Name>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    next: u64,
    /// The holds, in the order of their grants.
    trusted_holds: BTreeMap<u64, TrustedHold>,
    waiters: BTreeMap<u64, Waiter>,
    locks: BTreeMap<Name, Watched>,
    records: Records,
    /// The owners whose holds were released, the time of the release, and the gates of their
    /// clients.
    released: BTreeMap<String, (Instant, Gate)>,
    dead: BTreeSet<String>,
    /// Until when a fault may keep waiters from acquiring.
    quiet_until: Option<Instant>,
    /// `disturbed_until`: until when a fault disturbs every client. `cut_off_until`: for each
    /// client, until when a fault disturbs only this client.
    disturbed_until: Option<Instant>,
    cut_off_until: BTreeMap<String, Instant>,
    /// Until when a client that has lost its connections cannot find the primary.
    misled_until: Option<Instant>,
    broken: Option<String>,
    acquired: u64,
}

/// The conditions of one grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Whether all replicas have acknowledged the grant.
    pub(super) acknowledged: bool,
    /// Whether the watchdog renews the hold.
    pub(super) renews: bool,
}

/// One hold, from its grant on.
struct TrustedHold {
    name: Name,
    since: Instant,
    terms: Terms,
    owner: Owner,
    holding: LockContext,
    gate: Gate,
    over_at: Option<Instant>,
    guard_gone: bool,
    loss_reported: bool,
}

struct Waiter {
    name: Name,
    client: String,
    gate: Gate,
    class: Class,
    since: Instant,
    /// When this wait began, or when this client last got a grant, whichever is later.
    first_since: Instant,
    /// The number of grants to other clients since `first_since`.
    passed_over: u32,
}

/// The state of one lock.
#[derive(Clone)]
struct Watched {
    held_by: BTreeSet<String>,
    since: Instant,
    /// The owner of the last grant. A hand-off within a client keeps this owner.
    granted_to: Option<Owner>,
    /// Until when a second holder of the lock is allowed because of a fault.
    doubtful_until: Instant,
    /// When the keys of the lock last moved to another shard. The replicas of that shard receive
    /// the keys later.
    moved: Option<Instant>,
    /// When the server of the lock last failed over.
    failed_over: Option<Instant>,
    /// Until when a second holder is allowed even if replicas have acknowledged the first grant.
    forgotten_until: Instant,
    /// Until when a fault disturbs the server of the lock.
    quiet_until: Instant,
    /// Until when requests may fail.
    failing_until: Instant,
    /// The longest hold of this lock.
    longest: Duration,
}

impl Judge {
    pub(super) fn new(
        site: &Site,
        trace: &Arc<Trace>,
        scenario: Scenario,
        names: &[Name],
    ) -> Arc<Self> {
        let now = Instant::now();
        let watched = Watched {
            held_by: BTreeSet::new(),
            since: now,
            granted_to: None,
            doubtful_until: now,
            moved: None,
            failed_over: None,
            forgotten_until: now,
            quiet_until: now,
            failing_until: now,
            longest: Duration::ZERO,
        };
        let locks = names.iter().map(|name| (name.clone(), watched.clone())).collect();
        let seen = Mutex::new(Seen { locks, ..Seen::default() });
        let (site, trace) = (site.clone(), Arc::clone(trace));
        Arc::new(Self { site, trace, scenario, names: names.to_vec(), seen })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Records a fault that lasts for `lasts`.
    pub(super) fn fault(&self, lasts: Duration) {
        let mut seen = self.seen();
        let until = seen.over(lasts) + self.connected();
        seen.quiet_until = seen.quiet_until.max(Some(until));
        seen.disturbed_until = seen.disturbed_until.max(Some(until));
    }

    /// Records a fault of one client that lasts for `lasts`.
    pub(super) fn client_fault(&self, client: &str, lasts: Duration) {
        let mut seen = self.seen();
        let until = seen.over(lasts) + self.connected();
        seen.quiet_until = seen.quiet_until.max(Some(until));
        let known = seen.cut_off_until.entry(client.to_owned()).or_insert(until);
        *known = until.max(*known);
    }

    /// Records that for `lasts`, clients reach only sentinels that do not know the primary. Clients
    /// that are already connected to the primary do not notice this. A client that has a fault now
    /// may have missed the failover. Such a client cannot find the primary.
    pub(super) fn misleads(&self, lasts: Duration) {
        let (now, seen) = (Instant::now(), &mut *self.seen());
        seen.misled_until = Some(now + lasts);
        let until = now + lasts + self.connected();
        for cut_off_until in seen.cut_off_until.values_mut().filter(|it| **it > now) {
            *cut_off_until = until;
            seen.quiet_until = seen.quiet_until.max(Some(until));
        }
    }

    /// Records a fault that disturbs only the waiters and holders of `name`.
    pub(super) fn fault_of(&self, name: &Name, lasts: Duration) {
        let until = Instant::now() + lasts + self.connected();
        if let Some(lock) = self.seen().locks.get_mut(name) {
            lock.quiet_until = lock.quiet_until.max(until);
            lock.failing_until = lock.failing_until.max(until);
        }
    }

    /// Records a failover of the server of `name`, which disturbs clients for `lasts`. If this
    /// server takes over again before clients have followed the last failover, they do not notice
    /// either failover. Then a lost release is not repeated, and its lease must end.
    pub(super) fn fails_over(&self, name: &Name, lasts: Duration) {
        let now = Instant::now();
        let before = self.seen().locks.get_mut(name).and_then(|it| it.failed_over.replace(now));
        let is_noticed = before.is_none_or(|at| now >= at + UNNOTICED);
        self.fault_of(name, if is_noticed { lasts } else { lasts + self.scenario.lease() });
    }

    /// Records that for `lasts`, `name` moves to another server. Meanwhile some requests take
    /// longer, but no request may fail.
    pub(super) fn moves(&self, name: &Name, lasts: Duration) {
        let until = Instant::now() + lasts + self.connected();
        if let Some(lock) = self.seen().locks.get_mut(name) {
            lock.quiet_until = lock.quiet_until.max(until);
            lock.moved = Some(Instant::now());
        }
    }

    fn connected(&self) -> Duration {
        if self.scenario.kind == Kind::Switched { FOLLOWED } else { CONNECTED }
    }

    /// Records that within the time `lasts`, the server may forget the holder of `name`.
    pub(super) fn doubts(&self, name: &Name, lasts: Duration) {
        self.fault_of(name, lasts);
        let until = Instant::now() + lasts + self.scenario.lease();
        if let Some(lock) = self.seen().locks.get_mut(name) {
            lock.doubtful_until = lock.doubtful_until.max(until);
            // If the name moved lately, the replicas that acknowledged the grant belong to the
            // previous shard. So the replicas of the new shard may lack the grant.
            if lock.moved.is_some_and(|at| at.elapsed() < REPLICAS_FOLLOW) {
                lock.forgotten_until = lock.doubtful_until;
            }
        }
    }

    /// Records that within the time `lasts`, the server may forget the holder of `name`, even if
    /// replicas have acknowledged the grant.
    pub(super) fn forgets(&self, name: &Name, lasts: Duration) {
        self.doubts(name, lasts);
        self.may_expire(name, lasts);
    }

    /// Records that within the time `lasts`, the lease of `name` may end at the server before its
    /// holder knows, although no other fault disturbs the clients.
    pub(super) fn may_expire(&self, name: &Name, lasts: Duration) {
        let until = Instant::now() + lasts + self.scenario.lease();
        if let Some(lock) = self.seen().locks.get_mut(name) {
            lock.doubtful_until = lock.doubtful_until.max(until);
            lock.forgotten_until = lock.forgotten_until.max(until);
        }
    }

    /// Returns whether the servers still have everything that was written about `name` after
    /// `since`. `acknowledged` says that all replicas have these writes.
    pub(super) fn is_sure(&self, name: &Name, acknowledged: bool, since: Instant) -> bool {
        self.seen().locks.get(name).is_none_or(|lock| match acknowledged {
            true => lock.forgotten_until < since,
            false => lock.doubtful_until < since,
        })
    }

    pub(super) fn doubts_all(&self, lasts: Duration) {
        self.names.iter().for_each(|name| self.doubts(name, lasts));
    }

    /// Records a waiter, until the returned value is dropped.
    pub(super) fn waits(
        self: &Arc<Self>,
        name: &Name,
        client: &str,
        gate: &Gate,
        class: Class,
    ) -> Waits {
        let (mut seen, now) = (self.seen(), Instant::now());
        let waiter = Waiter {
            name: name.clone(),
            client: client.to_owned(),
            gate: gate.clone(),
            class,
            since: now,
            first_since: now,
            passed_over: 0,
        };
        seen.next += 1;
        let number = seen.next;
        seen.waiters.insert(number, waiter);
        Waits { judge: Arc::clone(self), number }
    }

    /// Records a guard, until the returned value is dropped.
    pub(super) fn acquired(
        self: &Arc<Self>,
        name: &Name,
        holding: &LockContext,
        gate: &Gate,
        terms: Terms,
    ) -> Believes {
        let trusted_hold = TrustedHold {
            name: name.clone(),
            since: Instant::now(),
            terms,
            owner: holding.owner().clone(),
            holding: holding.clone(),
            gate: gate.clone(),
            over_at: None,
            guard_gone: false,
            loss_reported: false,
        };
        let mut seen = self.seen();
        (seen.next, seen.acquired) = (seen.next + 1, seen.acquired + 1);
        let number = seen.next;
        seen.trusted_holds.insert(number, trusted_hold);
        seen.passes_over(name, gate, Some(holding.owner()));
        let meddles = seen.locks.get(name).is_none_or(|it| it.doubtful_until >= Instant::now());
        if let Some(rule) = seen.records.acquires(name, holding, gate, meddles) {
            self.break_rule(&mut seen, rule);
        }
        if !holding.is_held() {
            self.break_rule(&mut seen, format!("{} acquires a hold that is over", holding.owner()));
        }
        drop(seen);
        self.check();
        Believes { judge: Arc::clone(self), number }
    }

    /// Records that a foreign client has acquired.
    pub(super) fn foreign_client_acquired(&self, name: &Name, gate: &Gate) {
        self.seen().passes_over(name, gate, None);
    }

    /// Records that `lost()` of this hold has returned.
    pub(super) fn loss_reported(&self, number: u64, reason: LostReason) {
        let mut seen = self.seen();
        let Some(trusted_hold) = seen.trusted_holds.get_mut(&number) else { return };
        trusted_hold.loss_reported = true;
        let (owner, is_held) = (trusted_hold.owner.clone(), trusted_hold.holding.is_held());
        let gate = trusted_hold.gate.clone();
        if is_held {
            self.break_rule(
                &mut seen,
                format!("{owner} still believes after the report of a loss"),
            );
        }
        if reason == LostReason::Released {
            seen.released.insert(owner.to_string(), (Instant::now(), gate));
        }
        if seen.is_untrue(number, reason, &self.scenario) {
            self.break_rule(&mut seen, format!("{owner} lost its hold without a cause: {reason}"));
        }
    }

    /// Records that an acquisition of `name` has failed.
    pub(super) fn failed(&self, name: &Name, error: &Error) {
        let (mut seen, now) = (self.seen(), Instant::now());
        let failing = seen.locks.get(name).map(|lock| lock.failing_until);
        let is_disturbed = failing.max(seen.quiet_until).is_none_or(|until| now <= until);
        let is_calm = self.scenario.kind != Kind::Rough;
        let is_expected = match error {
            Error::Lost { .. } => true,
            Error::NotReplicated { .. } => is_disturbed || !is_calm,
            _ => is_disturbed,
        };
        if self.scenario.is_deployed() && !is_expected {
            self.break_rule(&mut seen, format!("failed without a fault: {error}"));
        }
    }

    /// Records that a client behind `gate` has finished an operation that began at `since`, and
    /// that does not wait for another client.
    pub(super) fn done(&self, name: &Name, gate: &Gate, since: Instant) {
        let mut seen = self.seen();
        let is_quiet = seen.quiet_since(name) < since && gate.opens() <= since;
        let most = if self.scenario.kind == Kind::Rough { DONE_AFTER_SILENCE } else { DONE };
        let took = since.elapsed();
        if self.scenario.is_deployed() && is_quiet && took > most {
            self.break_rule(&mut seen, format!("took {took:?} for `{name}` without a fault"));
        }
    }

    /// Records that the process behind `gate` has died: its holds and its waiters do not count any
    /// more.
    pub(super) fn dies(&self, client: &str, gate: &Gate) {
        let mut seen = self.seen();
        seen.dead.insert(client.to_owned());
        seen.trusted_holds.retain(|_, trusted_hold| !trusted_hold.gate.is(gate));
        seen.waiters.retain(|_, waiter| !waiter.gate.is(gate));
    }

    /// Suspends the machine behind `gate` for `time`. A hold that ends in this time must be over
    /// when the machine wakes.
    pub(super) fn sleeps(&self, gate: &Gate, time: Duration, sleep: impl FnOnce()) {
        // After the suspension, the client releases the holds that the server still has.
        self.fault(self.scenario.lease());
        let mut seen = self.seen();
        let of_machine = seen.trusted_holds.values().filter(|it| it.gate.is(gate));
        let ends = |it: &&TrustedHold| it.holding.remaining().is_some_and(|left| left <= time);
        let ending: Vec<LockContext> =
            of_machine.filter(ends).map(|it| it.holding.clone()).collect();
        sleep();
        if let Some(holding) = ending.iter().find(|it| it.is_held()) {
            let rule = format!(
                "the lease of {} did not run while its machine was suspended",
                holding.owner()
            );
            self.break_rule(&mut seen, rule);
        }
    }

    /// Records that the client behind `gate` was shut down.
    pub(super) fn is_shut(&self, gate: &Gate) {
        self.seen().records.shuts(gate);
        self.check();
    }

    /// Records that a release reported a loss: the server did not have the hold that began at
    /// `since`.
    pub(super) fn found_lost(&self, name: &Name, owner: &Owner, since: Instant) {
        let mut seen = self.seen();
        if seen.locks.get(name).is_none_or(|lock| lock.doubtful_until < since) {
            self.break_rule(
                &mut seen,
                format!("{owner} got a report of a loss that did not happen"),
            );
        }
    }

    /// Checks every rule.
    pub(super) fn check(&self) {
        let (mut seen, now) = (self.seen(), Instant::now());
        for name in &self.names {
            seen.note(name, self.site.state(name).0, now);
        }
        let rule = seen.false_belief(now);
        let rule = rule.or_else(|| seen.unreported_loss(now));
        let (scenario, shards) = (&self.scenario, self.site.shards());
        let asks_at_once = scenario.kind == Kind::Switched && shards == 1;
        let rule = rule.or_else(|| seen.unnoticed_loss(now).filter(|_| asks_at_once));
        let acquired = acquired(&self.scenario);
        let rule =
            rule.or_else(|| self.names.iter().find_map(|name| seen.idle_lock(name, acquired, now)));
        let rule =
            rule.or_else(|| self.names.iter().find_map(|name| seen.granted_to_dead(name, now)));
        let rule = rule.or_else(|| self.unsubscribed_waiter(&seen, now));
        let leftover = |it| seen.leftover(it, scenario, shards, now);
        let rule = rule.or_else(|| self.names.iter().find_map(leftover));
        let rule = rule.or_else(|| seen.starved_waiter(&self.scenario, now));
        let mut keys = self.site.masters().into_iter().flat_map(|it| it.keys_without_ttl());
        let endless = || keys.find(|key| !outlives(key)).map(|key| format!("{key} has no ttl"));
        let rule = rule.or_else(endless);
        if let Some(rule) = rule {
            self.break_rule(&mut seen, rule);
        }
        seen.trusted_holds.retain(|_, it| !(it.loss_reported && it.guard_gone));
    }

    /// Returns the broken rule, if a waiter that may queue is not subscribed.
    fn unsubscribed_waiter(&self, seen: &Seen, now: Instant) -> Option<String> {
        if self.scenario.faults.permissions || self.scenario.faults.refusals {
            return None;
        }
        // A task that awaits acknowledgements counts as a waiter, but has the lock and needs no
        // subscription. So the time counts from the last moment at which its client had the lock.
        let had = |it: &Waiter| match self.scenario.is_deployed() {
            true => seen.had_at(&it.name, &it.client, now),
            false => it.since,
        };
        let waits = |it: &&Waiter| {
            it.class == Class::Queues
                && now > it.since.max(had(it)) + SUBSCRIBED
                && !seen.is_disturbed(&it.name, now)
        };
        let mut waiters = seen.waiters.values().filter(waits);
        let channel = |it: &Waiter| format!("leasehold_lock__waiter:{{{}}}:{}", it.name, it.client);
        let subscribed = |it: &Waiter| self.site.of(&it.name).subscribers(&channel(it)) > 0;
        let waiter = waiters.find(|it| !subscribed(it))?;
        Some(format!("{} waits for `{}` and is not subscribed", waiter.client, waiter.name))
    }

    fn break_rule(&self, seen: &mut Seen, rule: String) {
        self.trace.log(|| format!("RULE BROKEN: {rule}"));
        seen.broken.get_or_insert(rule);
    }

    pub(super) fn broken(&self) -> Option<String> {
        self.seen().broken.clone()
    }

    pub(super) fn grants(&self) -> u64 {
        self.seen().acquired
    }
}

/// The ending of the keys that holders write.
pub(super) const DATA: &str = ":data";

/// Returns whether a key may be left after the run: the tokens of a name, or the data that holders
/// write.
pub(super) fn outlives(key: &str) -> bool {
    key.starts_with("redisson_lock_token") || key.ends_with(DATA)
}

/// Returns within which time a waiter must acquire a free lock.
fn acquired(scenario: &Scenario) -> Duration {
    match scenario.is_calm() {
        false if scenario.kind == Kind::Switched => ACQUIRED_AFTER_SWITCH,
        false => ACQUIRED,
        true if scenario.polling || scenario.outsiders > 0 => ACQUIRED_BY_POLLING,
        true => ACQUIRED_IN_CALM,
    }
}

/// A recorded waiter. Dropping this value removes the waiter.
pub(super) struct Waits {
    judge: Arc<Judge>,
    number: u64,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.judge.seen().waiters.remove(&self.number);
    }
}

/// A recorded guard. Dropping this value records that the guard is gone.
pub(super) struct Believes {
    judge: Arc<Judge>,
    number: u64,
}

impl Believes {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Believes {
    fn drop(&mut self) {
        let seen = &mut *self.judge.seen();
        if let Some(trusted_hold) = seen.trusted_holds.get_mut(&self.number) {
            trusted_hold.guard_gone = true;
            trusted_hold.over_at.get_or_insert_with(Instant::now);
            seen.records.leaves(&trusted_hold.owner);
        }
    }
}
