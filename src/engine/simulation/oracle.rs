//! What must always be true, and who watches that it is.
//!
//! | rule | broken when |
//! |---|---|
//! | one believer | two owners believe at once that they hold one name |
//! | belief is true | somebody believes, and the store says otherwise |
//! | loss is told | a hold is over, and `lost()` does not say so soon after |
//! | no false alarm | a release tells of a loss that was none |
//! | no renewal without a guard | a request to renew leaves after the guard has gone |
//! | what is owed is asked for | nobody asks any more to release a hold without a guard |
//! | nobody's lock is freed | a lock that nobody wants any more stays held |
//! | a free lock is entered | somebody waits for a free lock for too long |
//! | counts return to zero | something is left when all is done |
//!
//! The store may forget a hold, or have it forced away. Its owner cannot know
//! at once, and is excused until its next renewal, or until its lease would have
//! ended where that may fail.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;

use super::{gate::Gate, world::Story};
use crate::{
    domain::{Name, Owner, Renewal},
    engine::timing::LONGEST_WAIT,
    primitives::Holding,
    store::memory::MemoryStore,
};

/// How soon things have to happen under the weather of a story.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// A free lock is entered, if somebody waits for it.
    pub(super) entered: Duration,
    /// A lock of nobody is given back.
    pub(super) freed: Duration,
    /// A loss is told, counted from when it happened or the client ran again.
    pub(super) told: Duration,
    /// Somebody whose hold the store forgot learns of it.
    pub(super) excused: Duration,
    /// The longest lease in the story.
    pub(super) lease: Duration,
    /// Whether anything may go wrong.
    pub(super) rough: bool,
}

/// How long a release may pause before it is tried again: until it is known to
/// be unanswered, and the longest pause after that.
const ASKED_AGAIN: Duration = Duration::from_millis(2 * 500 + 1_250 + 300 + 50);

/// Watches one story.
pub(super) struct Oracle {
    store: MemoryStore,
    story: Arc<Story>,
    bounds: Bounds,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// By the order in which they entered: one owner may have several holds, one
    /// after the other.
    believers: BTreeMap<u64, Believer>,
    /// Owners from whom the store took a hold, and until when they may not know.
    excused: BTreeMap<Owner, Instant>,
    waiters: BTreeMap<u64, Waiter>,
    next_waiter: u64,
    /// Since when a name is free, or held by nobody who wants it.
    idle: BTreeMap<Name, (Idle, Instant)>,
    /// Until when a free lock may have woken nobody.
    quiet_until: Option<Instant>,
    broken: Option<String>,
    entered: u64,
}

/// One hold, from its grant on.
struct Believer {
    name: Name,
    owner: Owner,
    holding: Holding,
    gate: Gate,
    /// When it was over, or its guard was gone.
    over_at: Option<Instant>,
    guard_gone_at: Option<Instant>,
    release_sent_at: Option<Instant>,
    freed: bool,
    told: bool,
}

impl Seen {
    /// The last hold of `owner`.
    fn last(&self, owner: &Owner) -> Option<&Believer> {
        self.believers.values().rev().find(|believer| believer.owner == *owner)
    }
}

struct Waiter {
    name: Name,
    since: Instant,
    gate: Gate,
}

/// Why a name is of no use to those who wait for it.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Idle {
    Free,
    OfNobody(Owner),
}

impl Oracle {
    pub(super) fn new(store: &MemoryStore, story: &Arc<Story>, bounds: Bounds) -> Arc<Self> {
        let (store, story) = (store.clone(), Arc::clone(story));
        Arc::new(Self { store, story, bounds, seen: Mutex::default() })
    }

    /// Somebody begins to wait; over when what it returns is dropped.
    pub(super) fn waits(self: &Arc<Self>, name: &Name, gate: &Gate) -> Waits {
        let mut seen = self.seen.lock().unwrap();
        let number = seen.next_waiter;
        seen.next_waiter += 1;
        let waiter = Waiter { name: name.clone(), since: Instant::now(), gate: gate.clone() };
        seen.waiters.insert(number, waiter);
        Waits { oracle: Arc::clone(self), number }
    }

    pub(super) fn anything_may_go_wrong(&self) -> bool {
        self.bounds.rough
    }

    /// Somebody was granted a lock. Returns the number of the hold.
    pub(super) fn entered(&self, name: &Name, holding: &Holding, gate: &Gate) -> u64 {
        let owner = holding.owner();
        let believer = Believer {
            name: name.clone(),
            owner: owner.clone(),
            holding: holding.clone(),
            gate: gate.clone(),
            over_at: None,
            guard_gone_at: None,
            release_sent_at: None,
            freed: false,
            told: false,
        };
        let mut seen = self.seen.lock().unwrap();
        seen.entered += 1;
        let number = seen.entered;
        // What was handed over within a client is not to be given back by who had it.
        let before = seen.believers.values_mut().filter(|before| before.owner == *owner);
        let mut left_early = false;
        for before in before {
            left_early |= before.guard_gone_at.is_none();
            before.freed = true;
        }
        seen.believers.insert(number, believer);
        if left_early {
            self.break_rule(&mut seen, format!("{owner} was granted twice"));
        }
        if !holding.is_held() {
            self.break_rule(&mut seen, format!("{owner} was granted a hold that is over"));
        }
        drop(seen);
        self.look();
        number
    }

    /// The last guard of this hold is gone, or on its way to be released.
    pub(super) fn guard_gone(&self, number: u64) {
        if let Some(believer) = self.seen.lock().unwrap().believers.get_mut(&number) {
            believer.guard_gone_at.get_or_insert_with(Instant::now);
        }
        self.look();
    }

    /// Somebody who watched this hold was told that it is over.
    pub(super) fn told(&self, number: u64) {
        let mut seen = self.seen.lock().unwrap();
        let Some(believer) = seen.believers.get_mut(&number) else { return };
        believer.told = true;
        if believer.holding.is_held() {
            let owner = believer.owner.clone();
            self.break_rule(&mut seen, format!("{owner} was told of a loss and still believes"));
        }
    }

    /// The process behind `gate` is gone: it believes nothing and waits for nothing.
    pub(super) fn dies(&self, gate: &Gate) {
        let mut seen = self.seen.lock().unwrap();
        seen.believers.retain(|_, believer| !believer.gate.is(gate));
        seen.waiters.retain(|_, waiter| !waiter.gate.is(gate));
        // What it held, or was offered, ends by its lease, and wakes nobody.
        drop(seen);
        self.nobody_hears_for(self.bounds.lease + LONGEST_WAIT.mul_f64(1.25));
    }

    /// The store forgets all of `names`, and wakes nobody.
    pub(super) fn forgets(&self, names: &[Name]) {
        // Those who wait find out when they ask again.
        self.nobody_hears_for(LONGEST_WAIT.mul_f64(1.25));
        names.iter().for_each(|name| self.forced(name));
    }

    /// What becomes free now may wake nobody for `time`; nor may it wake those who
    /// wait behind a hold of their own client, before that is renewed.
    pub(super) fn nobody_hears_for(&self, time: Duration) {
        let until = Instant::now() + time.max(self.bounds.excused + self.bounds.entered);
        let quiet_until = &mut self.seen.lock().unwrap().quiet_until;
        *quiet_until = (*quiet_until).max(Some(until));
    }

    /// `name` is taken from whoever holds it, whether or not they know yet that
    /// they do, so that they are excused.
    pub(super) fn forced(&self, name: &Name) {
        if let Some(owner) = self.store.truth(name) {
            let until = Instant::now() + self.bounds.excused;
            self.seen.lock().unwrap().excused.insert(owner, until);
        }
    }

    /// A release of `owner` found that the store did not know it.
    pub(super) fn found_lost(&self, owner: &Owner) {
        let mut seen = self.seen.lock().unwrap();
        if !seen.excused.contains_key(owner) {
            self.break_rule(&mut seen, format!("{owner} was told of a loss that was none"));
        }
    }

    /// A request to release leaves a client.
    pub(super) fn releasing(&self, owner: &Owner) {
        self.story.say(|| format!("{owner} asks to be released"));
        let mut seen = self.seen.lock().unwrap();
        let last = seen.believers.values_mut().rev().find(|believer| believer.owner == *owner);
        if let Some(believer) = last {
            believer.release_sent_at = Some(Instant::now());
        }
    }

    /// A request to renew leaves a client.
    pub(super) fn renewing(&self, renewals: &[Renewal]) {
        let mut seen = self.seen.lock().unwrap();
        let gone = renewals.iter().find(|renewal| {
            let believer = seen.last(&renewal.owner);
            believer
                .is_none_or(|believer| believer.guard_gone_at.is_some_and(|at| at < Instant::now()))
        });
        if let Some(gone) = gone.map(|renewal| renewal.owner.clone()) {
            self.break_rule(&mut seen, format!("{gone} is renewed after its guard has gone"));
        }
    }

    /// Looks whether everything is as it must be.
    pub(super) fn look(&self) {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap();
        let rule = self.belief(&seen, now).or_else(|| self.telling(&mut seen, now));
        let rule = rule.or_else(|| self.waiting(&mut seen, now));
        let rule = rule.or_else(|| self.giving_back(&mut seen, now));
        if let Some(rule) = rule {
            self.break_rule(&mut seen, rule);
        }
        seen.believers.retain(|_, it| {
            !(it.told && it.guard_gone_at.is_some_and(|at| now > at + self.bounds.lease))
        });
    }

    /// One believer at a time, and the store agrees.
    fn belief(&self, seen: &Seen, now: Instant) -> Option<String> {
        let mut holders: BTreeMap<&Name, &Owner> = BTreeMap::new();
        for believer in seen.believers.values() {
            if !believer.holding.is_held() {
                continue;
            }
            let owner = &believer.owner;
            let truth = self.store.truth(&believer.name);
            let is_true = truth.as_ref() == Some(owner);
            match seen.excused.get(owner) {
                Some(until) if !is_true && now <= *until => continue,
                _ if is_true => {}
                _ => {
                    let name = &believer.name;
                    return Some(format!(
                        "{owner} believes in `{name}`, which is held by {truth:?}"
                    ));
                }
            }
            if let Some(other) = holders.insert(&believer.name, owner) {
                return Some(format!("{owner} and {other} both believe in `{}`", believer.name));
            }
        }
        None
    }

    /// Who waits for `lost()` is told when a hold is over.
    fn telling(&self, seen: &mut Seen, now: Instant) -> Option<String> {
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
    fn giving_back(&self, seen: &mut Seen, now: Instant) -> Option<String> {
        for believer in seen.believers.values_mut() {
            let owner = &believer.owner;
            let Some(gone_at) = believer.guard_gone_at else { continue };
            // Given back once it may come again: a request to acquire was doubled.
            believer.freed |= self.store.truth(&believer.name).as_ref() != Some(owner);
            let asked_at = believer.release_sent_at.unwrap_or(gone_at).max(believer.gate.opens());
            if now > asked_at + ASKED_AGAIN && !believer.freed {
                return Some(format!("nobody gives back the hold of {owner} any more"));
            }
        }
        None
    }

    /// A lock that is free, or of nobody, does not stay so while somebody waits.
    fn waiting(&self, seen: &mut Seen, now: Instant) -> Option<String> {
        let names: Vec<Name> = seen.waiters.values().map(|waiter| waiter.name.clone()).collect();
        seen.idle.retain(|name, _| names.contains(name));
        for name in names {
            let Some(idle) = self.idle(seen, &name) else {
                seen.idle.remove(&name);
                continue;
            };
            let (since_what, since) =
                seen.idle.entry(name.clone()).or_insert_with(|| (idle.clone(), now));
            if *since_what != idle {
                (*since_what, *since) = (idle.clone(), now);
            }
            let since = seen.quiet_until.unwrap_or(*since).max(*since);
            let ready = |waiter: &&Waiter| waiter.name == name;
            let waited =
                seen.waiters.values().filter(ready).map(|it| it.since.max(it.gate.opens()));
            let Some(first) = waited.min() else { continue };
            let limit = match idle {
                Idle::Free => self.bounds.entered,
                Idle::OfNobody(_) => self.bounds.freed,
            };
            if now > since.max(first) + limit {
                return Some(format!(
                    "somebody waits for `{name}`, which is {idle:?}, for {limit:?}"
                ));
            }
        }
        None
    }

    fn idle(&self, seen: &Seen, name: &Name) -> Option<Idle> {
        match self.store.truth(name) {
            None => Some(Idle::Free),
            Some(owner) => match seen.last(&owner) {
                // Its guard is there, or will be told.
                Some(believer) if believer.guard_gone_at.is_none() => None,
                _ => Some(Idle::OfNobody(owner)),
            },
        }
    }

    fn break_rule(&self, seen: &mut Seen, rule: String) {
        self.story.say(|| format!("RULE BROKEN: {rule}"));
        seen.broken.get_or_insert(rule);
    }

    pub(super) fn broken(&self) -> Option<String> {
        self.seen.lock().unwrap().broken.clone()
    }

    /// How many grants there were.
    pub(super) fn grants(&self) -> u64 {
        self.seen.lock().unwrap().entered
    }
}

/// One who waits, until it is dropped.
pub(super) struct Waits {
    oracle: Arc<Oracle>,
    number: u64,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.oracle.seen.lock().unwrap().waiters.remove(&self.number);
    }
}
