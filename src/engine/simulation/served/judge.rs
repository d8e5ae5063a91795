//! What must always be true, and who watches that it is.
//!
//! | rule | broken when |
//! |---|---|
//! | one believer | two believe at once, while the server keeps its data |
//! | belief is true | somebody believes, and the server says otherwise |
//! | loss is told | a hold is over, and `lost()` does not say so soon after |
//! | no false alarm | a release tells of a loss that was none |
//! | a free lock is entered | somebody waits for a free lock, long after the last trouble |
//! | who waits is told | one who waits and may queue does not listen |
//! | the dead are passed over | a lock is given to a client that is gone |
//! | nobody's lock is freed | a lock stays held by one who has no guard |
//! | nobody is passed over | in a calm story one waits for longer than its class has to |
//! | tokens grow | a hold is entered with a token that is no greater than those before |
//! | a lock does not stay | tasks of one client pass it on for longer than they may |
//! | shut down is shut down | a client that was shut down believes, or enters |
//! | a lease goes on in sleep | a hold is believed when its machine has slept beyond its end |
//! | everything ends | a key of ours has no ttl, or is left when all is done |
//!
//! What the server forgets, or somebody else overwrites, its owner cannot know at once:
//! for as long as a lease its belief is in doubt.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

use super::{plot::Plot, records::Records, site::Site};
use crate::{
    domain::{Name, Owner},
    engine::simulation::{gate::Gate, story::Story},
    primitives::LockContext,
};

/// A free lock is entered so soon after the last trouble, if somebody waits for it.
const ENTERED: Duration = Duration::from_secs(4);

/// The same where there is no trouble: a yield window and some round trips, or the pause of a
/// client that is not subscribed.
const ENTERED_IN_CALM: Duration = Duration::from_millis(150);
const ENTERED_BY_POLLING: Duration = Duration::from_secs(1);

/// Who waits for so long is listened for.
const LISTENED: Duration = Duration::from_secs(1);

/// Connections that were lost are there again after so long.
const CONNECTED: Duration = Duration::from_secs(2);

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
    /// Clients that are gone.
    dead: BTreeSet<String>,
    /// Until when those who wait may not know what is so.
    quiet_until: Option<Instant>,
    broken: Option<String>,
    entered: u64,
}

/// One hold, from its grant on.
struct Believer {
    name: Name,
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
        let until = Instant::now() + lasts + CONNECTED;
        let mut seen = self.seen();
        seen.quiet_until = seen.quiet_until.max(Some(until));
    }

    /// The server forgets, for so long, who has `name`.
    pub(super) fn doubts(&self, name: &Name, lasts: Duration) {
        self.trouble(lasts);
        let until = Instant::now() + lasts + self.plot.lease();
        if let Some(lock) = self.seen().locks.get_mut(name) {
            lock.doubtful_until = lock.doubtful_until.max(until);
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
    ) -> Believes {
        let believer = Believer {
            name: name.clone(),
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
    pub(super) fn told(&self, number: u64) {
        let mut seen = self.seen();
        let Some(believer) = seen.believers.get_mut(&number) else { return };
        believer.told = true;
        if believer.holding.is_held() {
            let owner = believer.owner.clone();
            self.break_rule(&mut seen, format!("{owner} was told of a loss and still believes"));
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
        let master = self.site.master();
        for name in &self.names {
            let holders = master.hash(name.as_str()).unwrap_or_default().into_keys().collect();
            seen.note(name, holders, now);
        }
        let rule = seen.belief(now);
        let rule = rule.or_else(|| seen.telling(now));
        let entered = entered(&self.plot);
        let rule =
            rule.or_else(|| self.names.iter().find_map(|name| seen.idle(name, entered, now)));
        let rule =
            rule.or_else(|| self.names.iter().find_map(|name| seen.given_to_dead(name, now)));
        let rule = rule.or_else(|| self.deaf(&seen, now));
        let lease = self.plot.lease();
        let rule = rule.or_else(|| self.names.iter().find_map(|it| seen.ghost(it, lease, now)));
        let rule = rule.or_else(|| seen.unfair(&self.plot, now));
        let endless = || {
            let mut keys = master.keys_without_ttl().into_iter();
            keys.find(|key| !outlives(key)).map(|key| format!("{key} has no ttl"))
        };
        let rule = rule.or_else(endless);
        if let Some(rule) = rule {
            self.break_rule(&mut seen, rule);
        }
        seen.believers.retain(|_, it| !(it.told && it.guard_gone));
    }

    /// Who waits and may queue is listened for.
    fn deaf(&self, seen: &Seen, now: Instant) -> Option<String> {
        if self.plot.troubles.rights || self.plot.troubles.refusals || seen.is_troubled(now) {
            return None;
        }
        let waits = |it: &&Waiter| it.class == Class::Queues && now > it.since + LISTENED;
        let mut waiters = seen.waiters.values().filter(waits);
        let master = self.site.master();
        let channel = |it: &Waiter| format!("leasehold_lock__waiter:{{{}}}:{}", it.name, it.client);
        let deaf = waiters.find(|it| master.subscribers(&channel(it)) == 0)?;
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

impl Seen {
    /// A client behind `gate` acquired `name`, as `owner` if it is one of Leasehold.
    fn passes_over(&mut self, name: &Name, gate: &Gate, owner: Option<&Owner>) {
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

    fn note(&mut self, name: &Name, held_by: BTreeSet<String>, now: Instant) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if !lock.held_by.is_empty() {
            lock.longest = lock.longest.max(now - lock.since);
        }
        if lock.held_by != held_by {
            (lock.held_by, lock.since) = (held_by, now);
        }
    }

    /// One believer at a time, and the server agrees.
    fn belief(&self, now: Instant) -> Option<String> {
        let mut believed: BTreeMap<&Name, &Owner> = BTreeMap::new();
        for believer in self.believers.values().filter(|it| it.holding.is_held()) {
            let Believer { name, owner, gate, .. } = believer;
            if self.records.is_shut(gate) {
                return Some(format!("{owner} believes after its shutdown"));
            }
            let lock = self.locks.get(name).filter(|lock| lock.doubtful_until < now);
            let Some(lock) = lock else { continue };
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

    /// Who waits for `lost()` is told when a hold is over.
    fn telling(&mut self, now: Instant) -> Option<String> {
        for it in self.believers.values_mut().filter(|it| !it.told && !it.holding.is_held()) {
            let since = *it.over_at.get_or_insert(now);
            if now > since.max(it.gate.opens()) + TOLD {
                return Some(format!("{} lost its hold and was not told", it.owner));
            }
        }
        None
    }

    /// A free lock does not stay so while somebody waits.
    fn idle(&self, name: &Name, entered: Duration, now: Instant) -> Option<String> {
        let lock = self.locks.get(name).filter(|lock| lock.held_by.is_empty())?;
        let waits = |it: &&Waiter| it.name == *name;
        let waiters = self.waiters.values().filter(waits);
        let since = waiters.map(|it| it.since.max(it.gate.opens())).min()?;
        let since = since.max(lock.since).max(lock.doubtful_until);
        let too_long = Some(now) > self.quiet_until.max(Some(since)).map(|at| at + entered);
        too_long.then(|| format!("somebody waits for `{name}`, which is free"))
    }

    /// Whether something was in the way lately.
    fn is_troubled(&self, now: Instant) -> bool {
        self.quiet_until.is_some_and(|until| now <= until)
    }

    /// A lock does not go to a client that is gone, when the server knows that.
    fn given_to_dead(&self, name: &Name, now: Instant) -> Option<String> {
        let lock = self.locks.get(name).filter(|it| it.since == now && !self.is_troubled(now))?;
        let client = |owner: &String| owner.rsplit_once(':').map_or("", |it| it.0).to_owned();
        let dead = lock.held_by.iter().find(|owner| self.dead.contains(&client(owner)))?;
        Some(format!("`{name}` is given to {dead}, whose client is gone"))
    }

    /// A lock of ours does not stay held without a guard.
    fn ghost(&self, name: &Name, lease: Duration, now: Instant) -> Option<String> {
        let lock = self.locks.get(name)?;
        let guarded = |owner: &str| {
            let mut all = self.believers.values();
            all.any(|it| it.owner.as_str() == owner && !it.guard_gone)
        };
        let ghost = lock.held_by.iter().find(|it| it.starts_with("client-") && !guarded(it))?;
        let gone = self.believers.values().filter(|it| it.owner.as_str() == ghost);
        let since = gone.filter_map(|it| it.over_at).max().unwrap_or(lock.since).max(lock.since);
        let too_long = Some(now) > self.quiet_until.max(Some(since)).map(|at| at + lease + ENTERED);
        too_long.then(|| format!("`{name}` stays with {ghost}, who has no guard"))
    }

    /// Nobody waits for longer than its class has to, where nothing disturbs the order.
    fn unfair(&self, plot: &Plot, now: Instant) -> Option<String> {
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

    fn is_passed_over(&self, waiter: &Waiter, plot: &Plot, now: Instant) -> bool {
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
