//! The guards in a simulation of one object, and the rules about them: see `objects.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

use super::{
    entries::Entries,
    facts::untrue,
    jobs::{self, Jobs, Places},
    judge::Judge,
    peer::Peer,
    site::Site,
};
use crate::{
    Arrived, Client,
    domain::{Kind, Owner},
    engine::{
        held::Watch,
        simulation::{gate::Gate, trace::Trace},
    },
};

/// The facts that the tasks of a simulation share.
pub(super) struct Book {
    pub(super) site: Site,
    pub(super) trace: Arc<Trace>,
    /// The judge, which knows when a failover may have lost writes.
    pub(super) judge: Arc<Judge>,
    /// The number of permits.
    pub(super) count: u32,
    pub(super) known: Mutex<Known>,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) trusted_holds: BTreeMap<u64, TrustedHold>,
    pub(super) entered: u64,
    /// The number of times that the latch was closed, and whether it may be open.
    pub(super) closed: u64,
    pub(super) may_be_open: bool,
    /// `arrivals`: how often a task has begun to arrive at the barrier. `passed`: by generation,
    /// the indexes of the members that have passed.
    pub(super) arrivals: u64,
    pub(super) passed: BTreeMap<u64, BTreeSet<u32>>,
    /// The last term of a leader.
    pub(super) term: u64,
    pub(super) jobs: Jobs,
    pub(super) entries: Entries,
    pub(super) broken: Option<String>,
}

#[derive(Clone)]
pub(super) struct TrustedHold {
    /// For a member inside a double barrier: its generation.
    pub(super) generation: u64,
    pub(super) watch: Watch,
    /// If this is a read hold of a writer, the owner of the write hold.
    pub(super) writer: Option<Owner>,
    pub(super) gate: Gate,
    /// Whether all replicas have acknowledged the grant.
    pub(super) acknowledged: bool,
}

impl Book {
    pub(super) fn new(site: &Site, trace: &Arc<Trace>, judge: &Arc<Judge>, count: u32) -> Self {
        let (site, trace, judge) = (site.clone(), Arc::clone(trace), Arc::clone(judge));
        Self { site, trace, judge, count, known: Mutex::default() }
    }

    pub(super) fn note<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.known.lock().unwrap())
    }

    /// Records an event, and the rule that this event breaks, if there is one.
    pub(super) fn checks(&self, event: impl FnOnce(&mut Known) -> Option<String>) {
        self.note(event).into_iter().for_each(|rule| self.breaks(rule));
    }

    pub(super) fn breaks(&self, rule: String) {
        self.trace.log(|| format!("RULE BROKEN: {rule}"));
        self.note(|known| known.broken.get_or_insert(rule).len());
    }

    pub(super) fn held_up(&self) -> Result<(), String> {
        self.look();
        self.note(|known| known.broken.clone()).map_or(Ok(()), Err)
    }

    /// Records a guard, until the returned value is dropped.
    pub(super) fn entered(self: &Arc<Self>, trusted_hold: TrustedHold) -> Believes {
        let number = self.note(|known| {
            known.entered += 1;
            known.trusted_holds.insert(known.entered, trusted_hold);
            known.entered
        });
        self.look();
        Believes { book: Arc::clone(self), number }
    }

    /// Forgets the guards of processes that have ended.
    pub(super) fn forgets_the_dead(&self, peers: &[Arc<Peer>]) {
        let dead = |gate: &Gate| peers.iter().any(|peer| peer.is_dead() && peer.gate.is(gate));
        self.note(|known| known.trusted_holds.retain(|_, it| !dead(&it.gate)));
    }

    pub(super) fn look(&self) {
        let held = self.note(|known| {
            let held = known.trusted_holds.values().filter(|it| it.watch.remaining().is_ok());
            held.filter(|it| self.is_kept(it)).cloned().collect::<Vec<_>>()
        });
        let untrue = || held.iter().find_map(|it| untrue(&self.site, &it.watch));
        let rule = together(&held)
            .or_else(|| mixed(&held))
            .or_else(|| same_element(&held))
            .or_else(untrue)
            .or_else(|| self.too_many(&held));
        if let Some(rule) = rule {
            self.breaks(rule);
        }
    }

    /// Returns whether no failover has lost this grant.
    fn is_kept(&self, trusted_hold: &TrustedHold) -> bool {
        let name = trusted_hold.watch.claim().name();
        self.judge.is_sure(name, trusted_hold.acknowledged, Instant::now())
    }

    /// Records that the barrier has opened for a member.
    pub(super) fn passed(&self, arrived: Arrived) {
        let Arrived { generation, index, .. } = arrived;
        let broken = self.note(|known| {
            let is_first = known.passed.entry(generation).or_default().insert(index);
            let opened_by = generation * u64::from(self.count);
            !is_first || index >= self.count || opened_by > known.arrivals
        });
        if broken {
            self.breaks(format!("a barrier of {} opens for {arrived:?}", self.count));
        }
    }

    /// Records that all members of a generation have left a double barrier.
    pub(super) fn left(&self, generation: u64) {
        let inside = self.note(|known| {
            let mut all = known.trusted_holds.values();
            all.any(|it| it.generation == generation && it.watch.remaining().is_ok())
        });
        if inside {
            self.breaks(format!("a member of generation {generation} is still inside"));
        }
    }

    fn too_many(&self, held: &[TrustedHold]) -> Option<String> {
        let permits = held.iter().filter(|it| it.watch.claim().object.kind != Kind::Lock);
        let taken: u32 = permits.map(|it| it.watch.claim().units()).sum();
        (taken > self.count).then(|| format!("{taken} of {} permits are believed in", self.count))
    }
}

/// Returns the broken rule, if members of two generations are inside a double barrier.
fn mixed(held: &[TrustedHold]) -> Option<String> {
    let first = held.first()?.generation;
    let other = held.iter().find(|it| it.generation != first)?.generation;
    Some(format!("generations {first} and {other} are inside"))
}

/// Returns the broken rule, if two tasks have holds of which one excludes the other.
fn together(held: &[TrustedHold]) -> Option<String> {
    let owner = |it: &TrustedHold| it.watch.claim().owner.clone();
    let alone = |it: &&TrustedHold| it.watch.claim().object.traits().is_exclusive();
    let mut pairs = held
        .iter()
        .filter(alone)
        .flat_map(|one| held.iter().map(move |other| (one, other)))
        .filter(|(one, other)| one.watch.claim().name() == other.watch.claim().name());
    let pair =
        pairs.find(|(one, other)| owner(other) != owner(one) && other.writer != Some(owner(one)));
    pair.map(|(one, other)| format!("{} is not alone: {} believes too", owner(one), owner(other)))
}

/// Returns the broken rule, if two tasks rely on claims of one element.
fn same_element(held: &[TrustedHold]) -> Option<String> {
    let mut elements = BTreeSet::new();
    let all = held.iter().filter_map(|it| it.watch.element());
    let mut again = all.filter(|element| !elements.insert(&element.bytes));
    again
        .next()
        .map(|element| format!("two tasks believe in a claim of {}", element.bytes.escape_ascii()))
}

/// A recorded guard. Dropping this value removes the guard.
pub(super) struct Believes {
    pub(super) book: Arc<Book>,
    pub(super) number: u64,
}

impl Drop for Believes {
    fn drop(&mut self) {
        self.book.note(|known| known.trusted_holds.remove(&self.number));
    }
}

/// The elements of a queue.
impl Book {
    /// Returns whether no failover has lost a write that a server executed after `since`. If the
    /// result is `false`, callers look at the data of the servers.
    pub(super) fn is_sure(&self, acknowledged: bool, since: Instant) -> bool {
        self.judge.is_sure(&jobs::name(), acknowledged, since)
    }

    /// Returns whether a primary has the element. While the slot moves, any primary may have it.
    pub(super) fn has(&self, element: &str) -> bool {
        let mut all = self.site.masters().into_iter().filter_map(|it| jobs::state(&it).0);
        all.any(|places| places.contains_key(element))
    }

    pub(super) fn takes(&self, element: &str, acknowledged: bool, since: Instant) {
        let sure = self.is_sure(acknowledged, since);
        self.checks(|known| known.jobs.is_taken(element, acknowledged, sure));
    }

    /// Records a failover. The old server had the elements `before`, and the new server has the
    /// elements `after`. `repeats` says whether each client repeats a forgotten `done` in time.
    pub(super) fn fails_over(&self, before: &Places, after: &Places, repeats: bool) {
        let sure = self.is_sure(true, Instant::now());
        self.checks(|known| known.jobs.forgets(before, after, repeats).filter(|_| sure));
    }

    /// Takes the remaining elements, and compares them with the record.
    pub(super) async fn take_the_rest(&self, client: &Client) -> Result<(), String> {
        let jobs = client.queue::<String>(jobs::QUEUE).unwrap();
        let mut left = BTreeSet::new();
        let since = Instant::now();
        while let Some(element) = jobs.pop().await.map_err(|error| error.to_string())? {
            self.takes(&element, false, since);
            if !left.insert(element.clone()) {
                return Err(format!("{element} is in the queue twice"));
            }
        }
        self.held_up()?;
        self.note(|known| known.jobs.are_whole(&left))
    }
}
