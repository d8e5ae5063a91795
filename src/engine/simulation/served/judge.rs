//! The rules of every story. The judge checks them.
//!
//! | rule | broken when |
//! |---|---|
//! | one believer | two clients believe at once, while the server keeps its data |
//! | belief is true | a client believes in a hold that the server does not have |
//! | loss is reported | a hold has ended, and `lost()` does not return soon after |
//! | loss is noticed | a client believes in a hold long after a failover has lost it |
//! | no false alarm | a release or `lost()` reports a loss that did not happen |
//! | a free lock is acquired | a waiter waits for a free lock, long after the last fault |
//! | waiters are subscribed | a waiter that may queue is not subscribed |
//! | dead clients are skipped | a lock is reserved for a client that is gone |
//! | no hold is left behind | a lock stays held by an owner without a guard |
//! | no waiter starves | in a calm story a waiter waits for longer than the limit of its class |
//! | tokens grow | a hold has a token that is not greater than those before |
//! | a lock leaves its process | tasks of one client hand it over for longer than their budget |
//! | shutdown ends all | a client that was shut down believes, or acquires |
//! | a lease runs during suspend | a hold is believed after its machine slept beyond its end |
//! | every key ends | a key of Leasehold has no TTL, or is left at the end |
//! | no failure without a fault | a request fails without a fault |
//! | replies come soon | `try_acquire` or a release takes long without a fault |
//!
//! An owner cannot know at once what the server forgets, or what another client overwrites. Its
//! belief is in doubt for the time of a lease. A failover may forget what no replica has
//! acknowledged: what all of them have stays certain.

mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    plot::{Kind, Plot},
    records::Records,
    site::Site,
};
use crate::{
    LostReason,
    domain::{Name, Owner},
    engine::simulation::{gate::Gate, story::Story},
    error::Error,
    primitives::LockContext,
};

/// A free lock is entered so soon after the last trouble, if somebody waits for it.
const ENTERED: Duration = Duration::from_secs(4);

/// The same where there is no trouble: a yield window and some round trips, or the pause of a
/// client that is not subscribed.
const ENTERED_IN_CALM: Duration = Duration::from_millis(150);
const ENTERED_BY_POLLING: Duration = Duration::from_secs(1);

/// The same after a failover, or when a slot has moved, and nothing else was in the way.
const ENTERED_AFTER_SWITCH: Duration = Duration::from_millis(1_500);

/// Connections are there again so soon after a failover.
const FOLLOWED: Duration = Duration::from_secs(1);

/// A release that a failover lost is repeated so soon after it.
const REPEATED: Duration = Duration::from_secs(1);

/// An acquire that does not wait, and a release, are done so soon where nothing is in the way; and
/// where a connection may be silent, which is noticed when a request is sent on it.
const DONE: Duration = Duration::from_millis(300);
const DONE_AFTER_SILENCE: Duration = Duration::from_secs(1);

/// What a failover has lost is noticed so soon after it, where nothing else is in the way.
const NOTICED: Duration = Duration::from_secs(1);

/// Who waits for so long is listened for.
const LISTENED: Duration = Duration::from_secs(1);

/// Connections that were lost are there again after so long.
const CONNECTED: Duration = Duration::from_secs(2);

/// The replicas of a shard have a key that went there after so long.
const REPLICAS_FOLLOW: Duration = Duration::from_secs(1);

/// A loss is told so soon.
const TOLD: Duration = Duration::from_millis(1_300);

/// How long a stranger or a polling waiter waits for a yield window in a calm story; and if
/// several may want the same windows, which have no order.
const WINDOW_COMES: Duration = Duration::from_secs(6);
const SHARED_WINDOW_COMES: Duration = Duration::from_secs(15);

/// How one who waits learns that it may ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    /// It queues, and hears when its turn comes.
    Queues,
    /// It asks now and then, or stands behind one of its own client who does.
    Polls,
    /// It has no right to queue.
    Outside,
    /// It knows nothing of queues.
    Stranger,
}

pub(super) struct Judge {
    site: Site,
    story: Arc<Story>,
    plot: Plot,
    names: Vec<Name>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    next: u64,
    /// By the order in which they entered.
    believers: BTreeMap<u64, Believer>,
    waiters: BTreeMap<u64, Waiter>,
    locks: BTreeMap<Name, Watched>,
    records: Records,
    /// Owners whose holds were released, when, and the gates of their clients.
    released: BTreeMap<String, (Instant, Gate)>,
    /// Clients that are gone.
    dead: BTreeSet<String>,
    /// Until when those who wait may not know what is so.
    quiet_until: Option<Instant>,
    /// The same of what is in the way of every client, and of one alone.
    disturbed_until: Option<Instant>,
    cut_off_until: BTreeMap<String, Instant>,
    broken: Option<String>,
    entered: u64,
}

/// What somebody was granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Whether all replicas have acknowledged it.
    pub(super) acknowledged: bool,
    /// Whether it goes on until it is given back.
    pub(super) renews: bool,
}

/// One hold, from its grant on.
struct Believer {
    name: Name,
    since: Instant,
    terms: Terms,
    owner: Owner,
    holding: LockContext,
    gate: Gate,
    over_at: Option<Instant>,
    guard_gone: bool,
    told: bool,
}

struct Waiter {
    name: Name,
    client: String,
    gate: Gate,
    class: Class,
    since: Instant,
    /// Since when no other task of its client has entered.
    first_since: Instant,
    /// How many grants to others there were since then.
    passed_over: u32,
}

/// One lock.
#[derive(Clone)]
struct Watched {
    held_by: BTreeSet<String>,
    since: Instant,
    /// The owner of the last grant: a hand-off within a client keeps it.
    granted_to: Option<Owner>,
    /// Until when nobody can be sure who has it.
    doubtful_until: Instant,
    /// When its keys last went to another shard, whose replicas receive them later.
    moved: Option<Instant>,
    /// Until when this is so even of what replicas have acknowledged.
    forgotten_until: Instant,
    /// Until when something is in the way at its server.
    quiet_until: Instant,
    /// Until when questions may fail.
    failing_until: Instant,
    /// The longest that anybody had it.
    longest: Duration,
}

impl Judge {
    pub(super) fn new(site: &Site, story: &Arc<Story>, plot: Plot, names: &[Name]) -> Arc<Self> {
        let now = Instant::now();
        let watched = Watched {
            held_by: BTreeSet::new(),
            since: now,
            granted_to: None,
            doubtful_until: now,
            moved: None,
            forgotten_until: now,
            quiet_until: now,
            failing_until: now,
            longest: Duration::ZERO,
        };
        let locks = names.iter().map(|name| (name.clone(), watched.clone())).collect();
        let seen = Mutex::new(Seen { locks, ..Seen::default() });
        let (site, story) = (site.clone(), Arc::clone(story));
        Arc::new(Self { site, story, plot, names: names.to_vec(), seen })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Something is in the way for so long.
    pub(super) fn trouble(&self, lasts: Duration) {
        let until = Instant::now() + lasts + self.connected();
        let mut seen = self.seen();
        seen.quiet_until = seen.quiet_until.max(Some(until));
        seen.disturbed_until = seen.disturbed_until.max(Some(until));
    }

    /// Something is in the way of one client for so long.
    pub(super) fn trouble_of_client(&self, client: &str, lasts: Duration) {
        let until = Instant::now() + lasts + self.connected();
        let mut seen = self.seen();
        seen.quiet_until = seen.quiet_until.max(Some(until));
        let known = seen.cut_off_until.entry(client.to_owned()).or_insert(until);
        *known = until.max(*known);
    }

    /// Something is in the way of those alone who want `name`.
    pub(super) fn trouble_of(&self, name: &Name, lasts: Duration) {
        let until = Instant::now() + lasts + self.connected();
        if let Some(lock) = self.seen().locks.get_mut(name) {
            lock.quiet_until = lock.quiet_until.max(until);
            lock.failing_until = lock.failing_until.max(until);
        }
    }

    /// `name` goes to another server for so long: that slows some down, and fails nobody.
    pub(super) fn moves(&self, name: &Name, lasts: Duration) {
        let until = Instant::now() + lasts + self.connected();
        if let Some(lock) = self.seen().locks.get_mut(name) {
            lock.quiet_until = lock.quiet_until.max(until);
            lock.moved = Some(Instant::now());
        }
    }

    fn connected(&self) -> Duration {
        if self.plot.kind == Kind::Switched { FOLLOWED } else { CONNECTED }
    }

    /// The server forgets, for so long, who has `name`.
    pub(super) fn doubts(&self, name: &Name, lasts: Duration) {
        self.trouble_of(name, lasts);
        let until = Instant::now() + lasts + self.plot.lease();
        if let Some(lock) = self.seen().locks.get_mut(name) {
            lock.doubtful_until = lock.doubtful_until.max(until);
            // The replicas that acknowledged it were those of another primary.
            if lock.moved.is_some_and(|at| at.elapsed() < REPLICAS_FOLLOW) {
                lock.forgotten_until = lock.doubtful_until;
            }
        }
    }

    /// As [`doubts`](Self::doubts), and what replicas have acknowledged is no surer.
    pub(super) fn forgets(&self, name: &Name, lasts: Duration) {
        self.doubts(name, lasts);
        if let Some(lock) = self.seen().locks.get_mut(name) {
            lock.forgotten_until = lock.doubtful_until;
        }
    }

    pub(super) fn doubts_all(&self, lasts: Duration) {
        self.names.iter().for_each(|name| self.doubts(name, lasts));
    }

    /// Somebody begins to wait; over when what it returns is dropped.
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

    /// Somebody has a guard, until what it returns is dropped.
    pub(super) fn entered(
        self: &Arc<Self>,
        name: &Name,
        holding: &LockContext,
        gate: &Gate,
        terms: Terms,
    ) -> Believes {
        let believer = Believer {
            name: name.clone(),
            since: Instant::now(),
            terms,
            owner: holding.owner().clone(),
            holding: holding.clone(),
            gate: gate.clone(),
            over_at: None,
            guard_gone: false,
            told: false,
        };
        let mut seen = self.seen();
        (seen.next, seen.entered) = (seen.next + 1, seen.entered + 1);
        let number = seen.next;
        seen.believers.insert(number, believer);
        seen.passes_over(name, gate, Some(holding.owner()));
        let meddles = seen.locks.get(name).is_none_or(|it| it.doubtful_until >= Instant::now());
        if let Some(rule) = seen.records.enters(name, holding, gate, meddles) {
            self.break_rule(&mut seen, rule);
        }
        if !holding.is_held() {
            self.break_rule(&mut seen, format!("{} enters what is over", holding.owner()));
        }
        drop(seen);
        self.look();
        Believes { judge: Arc::clone(self), number }
    }

    /// One who is none of us has entered.
    pub(super) fn stranger_entered(&self, name: &Name, gate: &Gate) {
        self.seen().passes_over(name, gate, None);
    }

    /// Somebody who watched this hold was told that it is over.
    pub(super) fn told(&self, number: u64, reason: LostReason) {
        let mut seen = self.seen();
        let Some(believer) = seen.believers.get_mut(&number) else { return };
        believer.told = true;
        let (owner, is_held) = (believer.owner.clone(), believer.holding.is_held());
        let gate = believer.gate.clone();
        if is_held {
            self.break_rule(&mut seen, format!("{owner} was told of a loss and still believes"));
        }
        if reason == LostReason::Released {
            seen.released.insert(owner.to_string(), (Instant::now(), gate));
        }
        if seen.is_untrue(number, reason, &self.plot) {
            self.break_rule(&mut seen, format!("{owner} was told without a cause: {reason}"));
        }
    }

    /// Somebody who wanted `name` is told why it has not got it.
    pub(super) fn failed(&self, name: &Name, error: &Error) {
        let (mut seen, now) = (self.seen(), Instant::now());
        let failing = seen.locks.get(name).map(|lock| lock.failing_until);
        let is_troubled = failing.max(seen.quiet_until).is_none_or(|until| now <= until);
        let is_calm = self.plot.kind != Kind::Rough;
        let is_expected = match error {
            Error::Lost { .. } => true,
            Error::NotReplicated { .. } => is_troubled || !is_calm,
            _ => is_troubled,
        };
        if self.plot.is_deployed() && !is_expected {
            self.break_rule(&mut seen, format!("nothing is in the way: {error}"));
        }
    }

    /// A client behind `gate` has finished what it began at `since`, and which waits for nobody.
    pub(super) fn done(&self, name: &Name, gate: &Gate, since: Instant) {
        let mut seen = self.seen();
        let is_quiet = seen.quiet_since(name) < since && gate.opens() <= since;
        let most = if self.plot.kind == Kind::Rough { DONE_AFTER_SILENCE } else { DONE };
        let took = since.elapsed();
        if self.plot.is_deployed() && is_quiet && took > most {
            self.break_rule(
                &mut seen,
                format!("nothing is in the way, and `{name}` took {took:?}"),
            );
        }
    }

    /// The process behind `gate` is gone: it believes nothing and waits for nothing.
    pub(super) fn dies(&self, client: &str, gate: &Gate) {
        let mut seen = self.seen();
        seen.dead.insert(client.to_owned());
        seen.believers.retain(|_, believer| !believer.gate.is(gate));
        seen.waiters.retain(|_, waiter| !waiter.gate.is(gate));
    }

    /// The machine behind `gate` sleeps for `time`: what ends meanwhile is over when it wakes.
    pub(super) fn sleeps(&self, gate: &Gate, time: Duration, sleep: impl FnOnce()) {
        // It gives back what the server still keeps.
        self.trouble(self.plot.lease());
        let mut seen = self.seen();
        let of_machine = seen.believers.values().filter(|it| it.gate.is(gate));
        let ends = |it: &&Believer| it.holding.remaining().is_some_and(|left| left <= time);
        let ending: Vec<LockContext> =
            of_machine.filter(ends).map(|it| it.holding.clone()).collect();
        sleep();
        if let Some(holding) = ending.iter().find(|it| it.is_held()) {
            let rule = format!("the lease of {} stood still in its sleep", holding.owner());
            self.break_rule(&mut seen, rule);
        }
    }

    /// The client behind `gate` was shut down.
    pub(super) fn is_shut(&self, gate: &Gate) {
        self.seen().records.shuts(gate);
        self.look();
    }

    /// A release found that the server did not know the hold that began at `since`.
    pub(super) fn found_lost(&self, name: &Name, owner: &Owner, since: Instant) {
        let mut seen = self.seen();
        if seen.locks.get(name).is_none_or(|lock| lock.doubtful_until < since) {
            self.break_rule(&mut seen, format!("{owner} was told of a loss that was none"));
        }
    }

    /// Looks whether everything is as it must be.
    pub(super) fn look(&self) {
        let (mut seen, now) = (self.seen(), Instant::now());
        for name in &self.names {
            seen.note(name, self.site.state(name).0, now);
        }
        let rule = seen.belief(now);
        let rule = rule.or_else(|| seen.telling(now));
        let asks_at_once = self.plot.kind == Kind::Switched && self.site.shards() == 1;
        let rule = rule.or_else(|| seen.late(now).filter(|_| asks_at_once));
        let entered = entered(&self.plot);
        let rule =
            rule.or_else(|| self.names.iter().find_map(|name| seen.idle(name, entered, now)));
        let rule =
            rule.or_else(|| self.names.iter().find_map(|name| seen.given_to_dead(name, now)));
        let rule = rule.or_else(|| self.deaf(&seen, now));
        let rule =
            rule.or_else(|| self.names.iter().find_map(|it| seen.ghost(it, &self.plot, now)));
        let rule = rule.or_else(|| seen.unfair(&self.plot, now));
        let mut keys = self.site.masters().into_iter().flat_map(|it| it.keys_without_ttl());
        let endless = || keys.find(|key| !outlives(key)).map(|key| format!("{key} has no ttl"));
        let rule = rule.or_else(endless);
        if let Some(rule) = rule {
            self.break_rule(&mut seen, rule);
        }
        seen.believers.retain(|_, it| !(it.told && it.guard_gone));
    }

    /// Who waits and may queue is listened for.
    fn deaf(&self, seen: &Seen, now: Instant) -> Option<String> {
        if self.plot.troubles.rights || self.plot.troubles.refusals {
            return None;
        }
        // While replicas are waited for who waits has the lock.
        let had = |it: &Waiter| match self.plot.is_deployed() {
            true => seen.had_at(&it.name, &it.client, now),
            false => it.since,
        };
        let waits = |it: &&Waiter| {
            it.class == Class::Queues
                && now > it.since.max(had(it)) + LISTENED
                && !seen.is_troubled(&it.name, now)
        };
        let mut waiters = seen.waiters.values().filter(waits);
        let channel = |it: &Waiter| format!("leasehold_lock__waiter:{{{}}}:{}", it.name, it.client);
        let listens = |it: &Waiter| self.site.of(&it.name).subscribers(&channel(it)) > 0;
        let deaf = waiters.find(|it| !listens(it))?;
        Some(format!("{} waits for `{}` and does not listen", deaf.client, deaf.name))
    }

    fn break_rule(&self, seen: &mut Seen, rule: String) {
        self.story.say(|| format!("RULE BROKEN: {rule}"));
        seen.broken.get_or_insert(rule);
    }

    pub(super) fn broken(&self) -> Option<String> {
        self.seen().broken.clone()
    }

    /// How many grants there were.
    pub(super) fn grants(&self) -> u64 {
        self.seen().entered
    }
}

/// How the keys end that holders write.
pub(super) const DATA: &str = ":data";

/// Whether a key is to outlive the story: the tokens of a name, or what holders write.
pub(super) fn outlives(key: &str) -> bool {
    key.starts_with("redisson_lock_token") || key.ends_with(DATA)
}

/// How soon a waiter that does not queue enters in a yield window.
fn window_comes(plot: &Plot) -> Duration {
    let pollers = plot.polling && !plot.restless;
    match pollers || plot.outsiders > 0 || plot.redisson && plot.spinner {
        true => SHARED_WINDOW_COMES,
        false => WINDOW_COMES,
    }
}

/// How soon a free lock is entered.
fn entered(plot: &Plot) -> Duration {
    match plot.is_calm() {
        false if plot.kind == Kind::Switched => ENTERED_AFTER_SWITCH,
        false => ENTERED,
        true if plot.polling || plot.outsiders > 0 => ENTERED_BY_POLLING,
        true => ENTERED_IN_CALM,
    }
}

/// One who waits, until it is dropped.
pub(super) struct Waits {
    judge: Arc<Judge>,
    number: u64,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.judge.seen().waiters.remove(&self.number);
    }
}

/// One who has a guard, until it is dropped.
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
        if let Some(believer) = seen.believers.get_mut(&self.number) {
            believer.guard_gone = true;
            believer.over_at.get_or_insert_with(Instant::now);
            seen.records.leaves(&believer.owner);
        }
    }
}
