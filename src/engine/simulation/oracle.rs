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
//! | a reservation is short | a lock waits for one who does not come |
//! | nobody is passed over | others have a lock again and again while somebody waits |
//! | a lock does not stay | tasks of one client pass it on for longer than they may |
//! | nobody is flooded | a client asks more often than messages may make it ask |
//! | shut down is shut down | somebody of a client that was shut down believes, or enters |
//! | a write is its hold's | it lands under a later hold of the same owner |
//! | replicas have it | somebody enters who wants more replicas than there are: see `worker.rs` |
//! | tokens grow | a hold enters with a token that is not greater than those before |
//! | a lease goes on in sleep | it is believed when its machine has slept beyond its end |
//! | counts return to zero | something is left when all is done |
//!
//! The store may forget a hold, or have it forced away. Its owner cannot know
//! at once, and is excused until its next renewal, or until its lease would have
//! ended where that may fail.

mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    gate::Gate,
    plot::Bounds,
    story::Story,
    waiting::{Class, Waiting},
};
use crate::{
    domain::{Kind, LostReason, Object, Owner, Renewal},
    primitives::Holding,
    store::memory::MemoryStore,
};

/// How many questions about one name a client may ask in [`FLOOD_TIME`].
const FLOOD: u32 = 60;
const FLOOD_TIME: Duration = Duration::from_millis(10);

/// How long a lock goes from task to task of one client, with a little for the clock.
const LOCAL_TIME: Duration = Duration::from_millis(12);

/// Watches one story.
pub(super) struct Oracle {
    store: MemoryStore,
    story: Arc<Story>,
    bounds: Bounds,
    names: Vec<Object>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// By the order in which they entered: one owner may have several holds, one
    /// after the other.
    believers: BTreeMap<u64, Believer>,
    /// Owners from whom the store took a hold, and until when they may not know.
    excused: BTreeMap<Owner, Instant>,
    /// Owners whose grants wait for replicas, until somebody has a guard or gives back.
    replicating: BTreeSet<Owner>,
    waiting: Waiting,
    /// The newest token of each name that somebody entered with, of those that were granted
    /// between two losses of data: a loss takes the counters, too.
    tokens: BTreeMap<(Object, u64), u64>,
    /// How often the store has forgotten everything, and how often it had when it granted.
    losses: u64,
    granted_after: BTreeMap<Owner, u64>,
    clients: BTreeMap<String, Client>,
    /// Owners to whom the store said "granted", and those who gave back.
    granted: BTreeSet<Owner>,
    gave_back: BTreeSet<Owner>,
    broken: Option<String>,
    entered: u64,
}

/// What is known of a client.
struct Client {
    gate: Gate,
    /// Until when it may not give back what it should.
    helpless_until: Option<Instant>,
    is_shut: bool,
    /// Its questions about each name, and since when they are counted.
    asked: BTreeMap<Object, (Instant, u32)>,
}

/// One hold, from its grant on.
struct Believer {
    object: Object,
    owner: Owner,
    /// Who writes, if it reads beside its own writing.
    beside: Option<Owner>,
    holding: Holding,
    gate: Gate,
    entered_at: Instant,
    /// When it was over, or its guard was gone.
    over_at: Option<Instant>,
    guard_gone_at: Option<Instant>,
    release_sent_at: Option<Instant>,
    freed: bool,
    told: bool,
    /// Whether its machine has slept, or its lease is longer than it knows: it may give up what
    /// the store still keeps.
    helpless: bool,
}

impl Believer {
    /// Whether the two cannot both be right. Those who read share one hold of their client.
    fn excludes(&self, other: &Self) -> bool {
        let alone = self.object.manner().is_exclusive() || other.object.manner().is_exclusive();
        let of_one = self.is_beside(other) || other.is_beside(self);
        self.object.name == other.object.name && alone && !of_one
    }

    fn is_beside(&self, writer: &Self) -> bool {
        self.beside.as_ref() == Some(&writer.owner)
    }
}

impl Seen {
    /// Those owners who have a guard.
    fn guarded(&self) -> BTreeSet<Owner> {
        let guarded = self.believers.values().filter(|it| it.guard_gone_at.is_none());
        guarded.map(|it| it.owner.clone()).collect()
    }
}

impl Oracle {
    pub(super) fn new(
        store: &MemoryStore,
        story: &Arc<Story>,
        bounds: Bounds,
        names: Vec<Object>,
    ) -> Arc<Self> {
        let (store, story) = (store.clone(), Arc::clone(story));
        Arc::new(Self { store, story, bounds, names, seen: Mutex::default() })
    }

    /// There is a client of this name behind `gate`.
    pub(super) fn meets(&self, client: &str, gate: &Gate) {
        let asked = BTreeMap::new();
        let client_is = Client { gate: gate.clone(), helpless_until: None, is_shut: false, asked };
        self.seen.lock().unwrap().clients.insert(client.to_owned(), client_is);
    }

    /// Somebody begins to wait; over when what it returns is dropped.
    pub(super) fn waits(
        self: &Arc<Self>,
        who: &str,
        object: &Object,
        gate: &Gate,
        class: Class,
    ) -> Waits {
        let mut seen = self.seen.lock().unwrap();
        let number = seen.waiting.begins(who, &object.name, gate, class, Instant::now());
        Waits { oracle: Arc::clone(self), number }
    }

    /// Somebody has a guard, until what it returns is dropped.
    pub(super) fn entered(
        self: &Arc<Self>,
        object: &Object,
        holding: &Holding,
        gate: &Gate,
    ) -> Believes {
        self.entered_beside(object, None, holding, gate)
    }

    /// The same, of one that reads beside its own writing.
    pub(super) fn entered_beside(
        self: &Arc<Self>,
        object: &Object,
        beside: Option<Owner>,
        holding: &Holding,
        gate: &Gate,
    ) -> Believes {
        let owner = holding.owner();
        let believer = Believer {
            object: object.clone(),
            owner: owner.clone(),
            beside,
            holding: holding.clone(),
            gate: gate.clone(),
            entered_at: Instant::now(),
            over_at: None,
            guard_gone_at: None,
            release_sent_at: None,
            freed: false,
            told: false,
            helpless: false,
        };
        let mut seen = self.seen.lock().unwrap();
        seen.entered += 1;
        seen.replicating.remove(owner);
        let number = seen.entered;
        // What was handed over within a client is not to be given back by who had it.
        let before = seen.believers.values_mut().filter(|before| before.owner == *owner);
        let (mut left_early, mut again, mut stayed) = (false, false, Duration::ZERO);
        let mut first_at = None;
        for before in before {
            let first_at = *first_at.get_or_insert(before.entered_at);
            stayed = before.guard_gone_at.map_or(stayed, |gone_at| gone_at - first_at);
            left_early |= before.guard_gone_at.is_none() && !object.manner().is_shared();
            (before.freed, again) = (true, true);
        }
        seen.believers.insert(number, believer);
        seen.waiting.entered(&object.name, gate, again, Instant::now());
        if stayed > LOCAL_TIME {
            let rule = format!("{owner} stayed in its process for {stayed:?}");
            self.break_rule(&mut seen, rule);
        }
        if seen.clients.values().any(|client| client.is_shut && client.gate.is(gate)) {
            self.break_rule(&mut seen, format!("{owner} entered after its client was shut down"));
        }
        if let Some(token) = holding.token() {
            let era = seen.granted_after.get(owner).copied().unwrap_or_default();
            let known = seen.tokens.entry((object.clone(), era)).or_default();
            let newest = *known;
            *known = token.max(newest);
            // Who was forced away does not know yet, and neither does its late grant.
            if token <= newest && !seen.excused.contains_key(owner) {
                let rule = format!("{owner} entered with token {token} after {newest}");
                self.break_rule(&mut seen, rule);
            }
        }
        if left_early {
            self.break_rule(&mut seen, format!("{owner} was granted twice"));
        }
        if !holding.is_held() {
            self.break_rule(&mut seen, format!("{owner} was granted a hold that is over"));
        }
        drop(seen);
        self.look();
        Believes { oracle: Arc::clone(self), number }
    }

    /// The last guard of this hold is gone, or on its way to be released.
    fn guard_gone(&self, number: u64) {
        let (mut seen, now) = (self.seen.lock().unwrap(), Instant::now());
        if let Some(believer) = seen.believers.get_mut(&number) {
            believer.guard_gone_at.get_or_insert(now);
            let owner = believer.owner.clone();
            // Those who shared the hold owe its release from now on.
            let shared = seen.believers.values_mut().filter(|it| it.owner == owner);
            shared.filter_map(|it| it.guard_gone_at.as_mut()).for_each(|gone_at| *gone_at = now);
        }
        drop(seen);
        self.look();
    }

    /// Somebody who watched this hold was told that it is over.
    pub(super) fn told(&self, number: u64, reason: LostReason) {
        let mut seen = self.seen.lock().unwrap();
        let Some(believer) = seen.believers.get_mut(&number) else { return };
        believer.told = true;
        if reason == LostReason::ShutDown {
            // The client gives it back, and not its guard.
            believer.guard_gone_at.get_or_insert_with(Instant::now);
        }
        if believer.holding.is_held() {
            let owner = believer.owner.clone();
            self.break_rule(&mut seen, format!("{owner} was told of a loss and still believes"));
        }
    }

    /// The process behind `gate` is gone: it believes nothing and waits for nothing.
    pub(super) fn dies(&self, gate: &Gate) {
        let mut seen = self.seen.lock().unwrap();
        // What it held, or was given, ends by its lease.
        seen.believers.retain(|_, believer| !believer.gate.is(gate));
        seen.waiting.dies(gate);
    }

    /// The store forgets everything, and wakes nobody.
    pub(super) fn forgets(&self) {
        self.seen.lock().unwrap().losses += 1;
        for object in &self.names {
            // Those who wait find out when they ask again.
            self.nobody_hears_for(object, self.bounds.unheard);
            self.forced(object);
        }
    }

    /// That `name` becomes free now may wake nobody for `time`; nor may it wake those who
    /// wait behind a hold of their own client, before that is renewed.
    pub(super) fn nobody_hears_for(&self, object: &Object, time: Duration) {
        let until = Instant::now() + time.max(self.bounds.excused + self.bounds.entered);
        self.seen.lock().unwrap().waiting.nobody_hears(&object.name, until);
    }

    /// A request about `name` failed, and is tried again after a while.
    pub(super) fn trouble(&self, object: &Object) {
        const LONGEST_PAUSE: Duration = Duration::from_millis(1_300);
        let until = Instant::now() + LONGEST_PAUSE;
        self.seen.lock().unwrap().waiting.nobody_hears(&object.name, until);
    }

    /// One that has the turn of its client does not go on for `time`: what it was granted
    /// meanwhile ends by its lease.
    pub(super) fn dozes(&self, object: &Object, time: Duration) {
        self.nobody_hears_for(object, time + self.bounds.lease + self.bounds.unheard);
    }

    /// A client asks whether replicas have what `owner` was granted: until then it is renewed.
    pub(super) fn asks_replicas(&self, owner: &Owner) {
        self.seen.lock().unwrap().replicating.insert(owner.clone());
    }

    /// A client asks for `name`.
    pub(super) fn asking(&self, owner: &Owner, object: &Object) {
        let (mut seen, now) = (self.seen.lock().unwrap(), Instant::now());
        let Some(client) = seen.clients.get_mut(client_of(owner)) else { return };
        let (since, times) = client.asked.entry(object.clone()).or_insert((now, 0));
        if now >= *since + FLOOD_TIME {
            (*since, *times) = (now, 0);
        }
        *times += 1;
        if *times > FLOOD {
            self.break_rule(&mut seen, format!("{owner} asks for `{object}` again and again"));
        }
    }

    /// What is of use only to who reads the story.
    pub(super) fn aside(&self, what: impl FnOnce() -> String) {
        self.story.aside(what);
    }

    /// The store granted a lock to `owner`. If that one has entered already its question was
    /// doubled, and the lease is longer than its client can know.
    pub(super) fn granted(&self, owner: &Owner) {
        let mut seen = self.seen.lock().unwrap();
        seen.granted.insert(owner.clone());
        let losses = seen.losses;
        seen.granted_after.insert(owner.clone(), losses);
        let doubled = seen.believers.values_mut().filter(|it| it.owner == *owner);
        doubled.for_each(|it| it.helpless = true);
    }

    /// The store took back what `owner` had.
    pub(super) fn given_back(&self, owner: &Owner) {
        self.seen.lock().unwrap().gave_back.insert(owner.clone());
    }

    /// The client was shut down: nobody of it believes any more.
    pub(super) fn is_shut(&self, client: &str) {
        let mut seen = self.seen.lock().unwrap();
        let Some(client) = seen.clients.get_mut(client) else { return };
        client.is_shut = true;
        drop(seen);
        self.look();
    }

    /// The machine of a client sleeps for `time`, as its clock will say. What has ended
    /// meanwhile may be given back once, and not be tried again.
    pub(super) fn sleeps(&self, client: &str, time: Duration, sleep: impl FnOnce()) {
        let mut seen = self.seen.lock().unwrap();
        let until = Instant::now() + self.bounds.lease;
        let Some(client) = seen.clients.get_mut(client) else { return };
        client.helpless_until = client.helpless_until.max(Some(until));
        let gate = client.gate.clone();
        let of_client = |it: &&mut Believer| it.gate.is(&gate);
        let left = |it: &Believer| it.holding.remaining();
        let before: Vec<u64> = (seen.believers.iter())
            .filter(|(_, it)| it.gate.is(&gate) && left(it).is_some_and(|left| left <= time))
            .map(|(number, _)| *number)
            .collect();
        seen.believers.values_mut().filter(of_client).for_each(|it| it.helpless = true);
        sleep();
        let still = before.iter().find(|number| seen.believers[*number].holding.is_held());
        if let Some(owner) = still.map(|number| seen.believers[number].owner.clone()) {
            self.break_rule(&mut seen, format!("the lease of {owner} stood still in its sleep"));
        }
        drop(seen);
        for object in &self.names {
            self.nobody_hears_for(object, self.bounds.lease + self.bounds.unheard);
        }
    }

    /// `name` is taken from whoever holds it, whether or not they know yet that
    /// they do, so that they are excused.
    pub(super) fn forced(&self, object: &Object) {
        for owner in self.store.truth(object) {
            let until = Instant::now() + self.bounds.excused;
            self.seen.lock().unwrap().excused.insert(owner, until);
        }
    }

    /// `name` is taken from whoever holds it, and everybody who listens is told.
    pub(super) fn forced_away(&self, object: &Object) {
        self.forced(object);
        self.store.truth(object).iter().for_each(|owner| self.given_back(owner));
    }

    /// A release of `owner` found that the store did not know it.
    pub(super) fn found_lost(&self, owner: &Owner) {
        let mut seen = self.seen.lock().unwrap();
        if !seen.excused.contains_key(owner) {
            self.break_rule(&mut seen, format!("{owner} was told of a loss that was none"));
        }
    }

    /// The number of the last hold of `owner`.
    pub(super) fn last_hold(&self, owner: &Owner) -> Option<u64> {
        let seen = self.seen.lock().unwrap();
        let last = seen.believers.iter().rev().find(|(_, believer)| believer.owner == *owner);
        last.map(|(number, _)| *number)
    }

    /// What was asked for under `hold` of `owner` is written now.
    pub(super) fn written(&self, owner: &Owner, hold: Option<u64>) {
        if self.last_hold(owner).is_some_and(|last| Some(last) != hold) {
            let rule = format!("a write of {owner} landed under the hold behind it");
            self.break_rule(&mut self.seen.lock().unwrap(), rule);
        }
    }

    /// A request to release leaves a client.
    pub(super) fn releasing(&self, owner: &Owner) {
        self.story.say(|| format!("{owner} asks to be released"));
        let mut seen = self.seen.lock().unwrap();
        seen.replicating.remove(owner);
        let last = seen.believers.values_mut().rev().find(|believer| believer.owner == *owner);
        if let Some(believer) = last {
            believer.release_sent_at = Some(Instant::now());
        }
    }

    /// A request to renew leaves a client.
    pub(super) fn renewing(&self, renewals: &[Renewal]) {
        let (mut seen, now) = (self.seen.lock().unwrap(), Instant::now());
        let waits = |it: &&Renewal| seen.replicating.contains(&it.owner);
        let known = |it: &&Renewal| it.object.kind != Kind::Permits && !waits(it);
        let gone = renewals.iter().filter(known).find(|renewal| {
            let mut of_owner = seen.believers.values().filter(|it| it.owner == renewal.owner);
            of_owner.all(|it| it.guard_gone_at.is_some_and(|at| at < now))
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
        let rule = rule.or_else(|| self.shut(&seen));
        let rule = rule.or_else(|| self.waiting(&mut seen, now));
        let rule = rule.or_else(|| self.giving_back(&mut seen, now));
        if let Some(rule) = rule {
            self.break_rule(&mut seen, rule);
        }
        seen.believers.retain(|_, it| {
            !(it.told && it.guard_gone_at.is_some_and(|at| now > at + self.bounds.lease))
        });
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
        self.oracle.seen.lock().unwrap().waiting.ends(self.number);
    }
}

/// One who has a guard, until it is dropped.
pub(super) struct Believes {
    oracle: Arc<Oracle>,
    number: u64,
}

impl Believes {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Believes {
    fn drop(&mut self) {
        self.oracle.guard_gone(self.number);
    }
}

/// The client whose owner this is.
fn client_of(owner: &Owner) -> &str {
    owner.as_str().rsplit_once(':').map_or("", |(client, _)| client)
}
