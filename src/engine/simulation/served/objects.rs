//! Runs of one other object on the simulated server: a read-write lock, a semaphore, an expirable
//! semaphore, or a latch.
//!
//! | rule | broken when |
//! |---|---|
//! | a writer is alone | a client believes in a hold while another one writes; the own reader of a writer is allowed |
//! | no more than there are | guards have more permits together than the semaphore has |
//! | belief is true | a client believes in a hold that the server does not have |
//! | closed is closed | a task passes a latch that was closed all the time |
//! | every waiter acquires | a task waits for two minutes, although no hold and no fault lasts as long |
//! | everything ends | a queue entry, a permit or a key is left at the end |
//!
//! The server of these runs loses no data, because no client could be sure of lost data.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold_twin::{Delay, Twin};
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    faults::FaultInjector,
    judge::Judge,
    peer::Peer,
    permissions::Permissions,
    scenario::{Scenario, TIMEOUT},
    site::Site,
};
use crate::{
    Client, ReadWriteLock, Result,
    domain::{Kind, Name, Owner},
    engine::{
        held::Watch,
        simulation::{gate::Gate, trace::Trace},
    },
    store::QUEUE_RESTS,
};

/// Faults occur during this time, in milliseconds.
const FAULTY_TIME: u32 = 6_000;

/// Each waiter has acquired within this time.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// No request is in flight any more after this time.
const IN_FLIGHT: Duration = Duration::from_secs(20);

/// The object of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Subject {
    ReadWrite,
    Semaphore,
    Permits,
    Latch,
}

/// Runs `seed`.
pub(in crate::engine::simulation) fn run(seed: u64, trace: &Arc<Trace>) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = fastrand::Rng::with_seed(seed);
    let all = [Subject::ReadWrite, Subject::Semaphore, Subject::Permits, Subject::Latch];
    let about = all[chance.usize(..all.len())];
    let mut scenario = Scenario::draw(&mut chance);
    let faults = &mut scenario.faults;
    (faults.forgetting, faults.promotion, faults.permissions) = (false, false, false);
    (faults.runtimes, faults.forcing) = (false, false);
    faults.shutdowns &= about != Subject::Latch;
    // Holds without a lease would stay after the death of their client.
    faults.deaths &= matches!(about, Subject::ReadWrite | Subject::Permits);
    scenario.rounds = scenario.rounds.min(30);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        trace.log(|| format!("{about:?}: {scenario:?}"));
        World::new(about, scenario, &mut chance, trace).await.live(chance).await
    })
}

struct World {
    about: Subject,
    scenario: Scenario,
    site: Site,
    trace: Arc<Trace>,
    judge: Arc<Judge>,
    peers: Vec<Arc<Peer>>,
    facts: Arc<Facts>,
}

/// The state that the rules are checked against.
struct Facts {
    site: Site,
    trace: Arc<Trace>,
    /// The number of permits.
    count: u32,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    believers: BTreeMap<u64, Believer>,
    acquired: u64,
    /// How often the latch was closed, and whether it may be open.
    closed: u64,
    may_be_open: bool,
    broken: Option<String>,
}

#[derive(Clone)]
struct Believer {
    watch: Watch,
    /// The owner of the write hold, if this hold reads under it.
    reads_under: Option<Owner>,
    gate: Gate,
}

impl Facts {
    fn note<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.known.lock().unwrap())
    }

    fn breaks(&self, rule: String) {
        self.trace.log(|| format!("RULE BROKEN: {rule}"));
        self.note(|known| known.broken.get_or_insert(rule).len());
    }

    fn check_rules(&self) -> Result<(), String> {
        self.check();
        self.note(|known| known.broken.clone()).map_or(Ok(()), Err)
    }

    /// Notes a guard, until the returned value is dropped.
    fn acquired(self: &Arc<Self>, believer: Believer) -> Believes {
        let number = self.note(|known| {
            known.acquired += 1;
            known.believers.insert(known.acquired, believer);
            known.acquired
        });
        self.check();
        Believes { facts: Arc::clone(self), number }
    }

    /// Forgets the holds of processes that have died.
    fn forgets_the_dead(&self, peers: &[Arc<Peer>]) {
        let dead = |gate: &Gate| peers.iter().any(|peer| peer.is_dead() && peer.gate.is(gate));
        self.note(|known| known.believers.retain(|_, it| !dead(&it.gate)));
    }

    fn check(&self) {
        let held = self.note(|known| {
            let held = known.believers.values().filter(|it| it.watch.remaining().is_ok());
            held.cloned().collect::<Vec<_>>()
        });
        let untrue = || held.iter().find_map(|it| untrue(&self.site.master(), &it.watch));
        let rule = together(&held).or_else(untrue).or_else(|| self.too_many(&held));
        if let Some(rule) = rule {
            self.breaks(rule);
        }
    }

    fn too_many(&self, held: &[Believer]) -> Option<String> {
        let taken: u32 = held.iter().map(|it| it.watch.claim().units()).sum();
        (taken > self.count).then(|| format!("guards have {taken} of {} permits", self.count))
    }
}

/// Returns a text about two holds that exclude each other.
fn together(held: &[Believer]) -> Option<String> {
    let owner = |it: &Believer| it.watch.claim().owner.clone();
    let writers = held.iter().filter(|it| it.watch.claim().object.kind == Kind::Write);
    let mut pairs = writers.flat_map(|writer| held.iter().map(move |other| (writer, other)));
    let pair = pairs.find(|(writer, other)| {
        owner(other) != owner(writer) && other.reads_under != Some(owner(writer))
    });
    pair.map(|(one, other)| format!("{} writes while {} holds", owner(one), owner(other)))
}

/// Returns a text about a hold that the server does not know.
fn untrue(server: &Twin, watch: &Watch) -> Option<String> {
    let claim = watch.claim();
    let (name, owner) = (claim.name(), claim.owner.as_str());
    let (key, field) = match claim.object.kind {
        Kind::Read => (name.to_string(), owner.to_owned()),
        Kind::Write => (name.to_string(), format!("{owner}:write")),
        Kind::Semaphore => (format!("leasehold_semaphore:{{{name}}}"), owner.to_owned()),
        Kind::Permits | Kind::Lock | Kind::Latch => return None,
    };
    let known = server.hash(&key).unwrap_or_default();
    (!known.contains_key(&field)).then(|| format!("{owner} believes in `{name}`: {known:?}"))
}

/// A guard, until this is dropped.
struct Believes {
    facts: Arc<Facts>,
    number: u64,
}

impl Drop for Believes {
    fn drop(&mut self) {
        self.facts.note(|known| known.believers.remove(&self.number));
    }
}

/// One task of a client.
struct Worker {
    label: String,
    peer: Arc<Peer>,
    facts: Arc<Facts>,
    chance: fastrand::Rng,
    scenario: Scenario,
}

impl Worker {
    fn client(&self) -> Client {
        Client::of(Arc::clone(&self.peer.engine))
    }

    fn up_to(&mut self, millis: u64) -> Duration {
        Duration::from_millis(1 + self.chance.u64(..=millis))
    }

    async fn rest(&mut self, most: u64) {
        sleep(self.up_to(most)).await;
    }

    fn log(&self, what: impl FnOnce() -> String) {
        self.facts.trace.log(|| format!("{}: {}", self.label, what()));
    }

    async fn works(self, about: Subject) {
        let gate = self.peer.gate.clone();
        match about {
            Subject::ReadWrite => gate.pass(self.reads_and_writes()).await,
            Subject::Semaphore => gate.pass(self.uses_semaphore()).await,
            Subject::Permits => gate.pass(self.uses_expirable_permits()).await,
            Subject::Latch => Box::pin(gate.pass(self.passes())).await,
        }
    }

    /// Acquires by one request, with a short timeout, or without a timeout.
    async fn acquires<G>(
        &mut self,
        once: impl Future<Output = Result<Option<G>>>,
        surely: impl Future<Output = Result<G>>,
    ) -> Option<G> {
        let acquired = match self.chance.u32(..4) {
            0 => once.await,
            1 => match timeout(self.up_to(500), surely).await {
                Ok(acquired) => acquired.map(Some),
                Err(_) => Ok(None),
            },
            _ => match timeout(LONGEST_WAIT, surely).await {
                Ok(acquired) => acquired.map(Some),
                Err(_) => {
                    self.facts.breaks(format!("{} does not acquire", self.label));
                    Ok(None)
                }
            },
        };
        acquired.unwrap_or_else(|error| {
            self.log(|| format!("does not acquire: {error}"));
            None
        })
    }

    fn believes(&self, watch: &Watch, reads_under: Option<&Watch>) -> Believes {
        let claim = watch.claim();
        self.log(|| format!("has `{}` as {}, {:?}", claim.object, claim.owner, claim.object.kind));
        self.facts.acquired(Believer {
            watch: watch.clone(),
            reads_under: reads_under.map(|writer| writer.claim().owner.clone()),
            gate: self.peer.gate.clone(),
        })
    }

    async fn reads_and_writes(mut self) {
        let name = Name::new("room").unwrap();
        let lock = ReadWriteLock::new(Arc::clone(&self.peer.engine), name, self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let writes = self.chance.u32(..3) == 0;
            let side = if writes { lock.write() } else { lock.read() }.ttl(self.scenario.ttl);
            let Some(guard) = self.acquires(side.try_acquire(), side.acquire()).await else {
                continue;
            };
            let writing = guard.watch().clone();
            let believes = self.believes(&writing, None);
            self.rest(self.scenario.hold).await;
            let mut reading = vec![];
            for _ in 0..if writes { self.chance.u32(..3) } else { 0 } {
                let time = self.up_to(self.scenario.hold);
                let read = timeout(time, lock.acquire_read_with(&guard)).await;
                let Ok(Ok(guard)) = read else { continue };
                reading.push((self.believes(guard.watch(), Some(&writing)), guard));
            }
            drop(believes);
            self.releases(guard, async |guard| drop(guard.release().await)).await;
            for (believes, guard) in reading {
                self.rest(self.scenario.hold).await;
                drop(believes);
                self.releases(guard, async |guard| drop(guard.release().await)).await;
            }
        }
    }

    /// Releases a guard. Sometimes the call is cancelled.
    async fn releases<G>(&mut self, guard: G, release: impl AsyncFnOnce(G)) {
        match self.chance.u32(..4) {
            0 => drop(guard),
            1 => drop(timeout(self.up_to(50), release(guard)).await),
            _ => release(guard).await,
        }
    }

    async fn uses_semaphore(mut self) {
        let seats = self.client().semaphore("seats").unwrap();
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let wanted = self.chance.u32(1..=self.facts.count);
            let acquired = self.acquires(seats.try_acquire(wanted), seats.acquire(wanted)).await;
            let Some(guard) = acquired else { continue };
            let believes = self.believes(guard.watch(), None);
            self.rest(self.scenario.hold).await;
            drop(believes);
            self.releases(guard, async |guard| drop(guard.release().await)).await;
        }
    }

    async fn uses_expirable_permits(mut self) {
        let permits = self.client().expirable_semaphore("permits").unwrap().ttl(self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let wanted = if self.chance.bool() { 1 } else { self.chance.u32(1..=self.facts.count) };
            let once = permits.try_acquire_many(wanted);
            let Some(guard) = self.acquires(once, permits.acquire_many(wanted)).await else {
                continue;
            };
            let believes = self.believes(guard.watch(), None);
            self.rest(self.scenario.hold).await;
            drop(believes);
            self.releases(guard, async |guard| drop(guard.release().await)).await;
        }
    }

    /// Waits for a latch again and again.
    async fn passes(mut self) {
        let latch = self.client().latch("start").unwrap();
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let before = self.facts.note(|known| (known.closed, known.may_be_open));
            let once = async { Ok((latch.count().await? == 0).then_some(())) };
            if self.acquires(once, latch.wait()).await.is_none() {
                continue;
            }
            let after = self.facts.note(|known| (known.closed, known.may_be_open));
            if before == after && !after.1 {
                self.facts.breaks(format!("{} passes a closed latch", self.label));
            }
        }
    }

    /// Closes the latch and counts it down, again and again.
    async fn counts(mut self) {
        let latch = self.client().latch("start").unwrap();
        for _ in 0..self.scenario.rounds {
            until_known(|| latch.set(3)).await;
            self.facts.note(|known| {
                (known.closed, known.may_be_open) = (known.closed + 1, false);
            });
            self.log(|| "closes".into());
            loop {
                self.rest(self.scenario.rest).await;
                let left = until_known(|| latch.count()).await;
                if left <= 1 {
                    self.facts.note(|known| known.may_be_open = true);
                }
                let counted = latch.count_down().await;
                self.log(|| format!("counts down, of {left}: {counted:?}"));
                if counted.is_err() {
                    sleep(IN_FLIGHT).await;
                }
                if until_known(|| latch.count()).await == 0 {
                    break;
                }
            }
        }
    }
}

/// Repeats the request until it has a reply. After that no earlier request is in flight.
async fn until_known<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> T {
    loop {
        if let Ok(answer) = ask().await {
            return answer;
        }
        sleep(IN_FLIGHT).await;
    }
}

impl World {
    async fn new(
        about: Subject,
        scenario: Scenario,
        chance: &mut fastrand::Rng,
        trace: &Arc<Trace>,
    ) -> Self {
        let site = Site::new(Twin::new(chance.u64(..)), None);
        let judge = Judge::new(&site, trace, scenario, &[]);
        let mut peers = vec![];
        for number in 0..scenario.clients {
            peers.push(Arc::new(Peer::connect(number, &site, Permissions::All).await));
        }
        let count = chance.u32(1..=4);
        let client = Client::of(Arc::clone(&peers[0].engine));
        match about {
            Subject::ReadWrite => {}
            Subject::Semaphore => {
                client.semaphore("seats").unwrap().set_if_absent(count).await.unwrap();
            }
            Subject::Permits => {
                client.expirable_semaphore("permits").unwrap().set(count).await.unwrap();
            }
            Subject::Latch => drop(client.latch("start").unwrap().set(1).await.unwrap()),
        }
        let way = Delay::UpTo(Duration::from_millis(scenario.delay));
        site.delay(way, way);
        let (trace, known) = (Arc::clone(trace), Mutex::default());
        let facts = Facts { site: site.clone(), trace: Arc::clone(&trace), count, known };
        Self { about, scenario, site, trace, judge, peers, facts: Arc::new(facts) }
    }

    async fn live(self, mut chance: fastrand::Rng) -> Result<(), String> {
        let mut workers = JoinSet::new();
        self.spawn_workers(&mut chance, &mut workers);
        let mut faults = FaultInjector {
            site: self.site.clone(),
            judge: Arc::clone(&self.judge),
            trace: Arc::clone(&self.trace),
            scenario: self.scenario,
            chance: chance.fork(),
            lasting: JoinSet::new(),
            without_runtime: vec![],
        };
        let mut looks = 0;
        while !workers.is_empty() {
            while let Some(done) = workers.try_join_next() {
                done.or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e.to_string()) })?;
            }
            if looks < FAULTY_TIME {
                faults.check(&self.peers);
            }
            looks += 1;
            self.facts.forgets_the_dead(&self.peers);
            sleep(Duration::from_millis(5)).await;
            self.facts.check_rules()?;
        }
        faults.end().await;
        self.check_end().await
    }

    fn spawn_workers(&self, chance: &mut fastrand::Rng, workers: &mut JoinSet<()>) {
        for number in 0..self.scenario.workers {
            for peer in &self.peers {
                let worker = Worker {
                    label: format!("{}/{number}", peer.id),
                    peer: Arc::clone(peer),
                    facts: Arc::clone(&self.facts),
                    chance: chance.fork(),
                    scenario: self.scenario,
                };
                let counts = self.about == Subject::Latch && workers.is_empty();
                let gate = peer.gate.clone();
                peer.owns(match counts {
                    true => workers.spawn(async move { gate.pass(worker.counts()).await }),
                    false => workers.spawn(worker.works(self.about)),
                });
            }
        }
    }

    /// Checks at the end that everything is free and no key is left.
    async fn check_end(self) -> Result<(), String> {
        // Withdrawals are repeated for this time, and leases end.
        sleep(3 * IN_FLIGHT + self.scenario.lease() + QUEUE_RESTS + 4 * TIMEOUT).await;
        self.facts.check_rules()?;
        for peer in self.peers.iter().filter(|peer| !peer.is_dead()) {
            let stats = peer.engine.stats();
            if (stats.held, stats.waiting) != (0, 0) || !peer.engine.is_idle() {
                return Err(format!("something is left: {:?}", peer.engine));
            }
        }
        self.all_is_free().await
    }

    async fn all_is_free(&self) -> Result<(), String> {
        let operator = Peer::connect(self.scenario.clients, &self.site, Permissions::All).await;
        let client = Client::of(Arc::clone(&operator.engine));
        let free = match self.about {
            Subject::Semaphore => client.semaphore("seats").unwrap().available().await,
            Subject::Permits => client.expirable_semaphore("permits").unwrap().available().await,
            Subject::ReadWrite | Subject::Latch => Ok(self.facts.count.into()),
        };
        let free = free.map_err(|error| error.to_string())?;
        if free != i64::from(self.facts.count) {
            return Err(format!("{free} of {} permits are free", self.facts.count));
        }
        let counter = |key: &String| matches!(key.as_str(), "seats" | "permits");
        // Idempotency keys and withdrawn owners are kept for some minutes.
        let endless = self.site.master().keys_without_ttl().into_iter().filter(|key| !counter(key));
        let endless: Vec<String> = endless.collect();
        let held = ["room", "leasehold_semaphore:{seats}", "{permits}:timeout"];
        let left = self.site.master().keys().into_iter().find(|key| held.contains(&key.as_str()));
        match left.or_else(|| endless.first().cloned()) {
            Some(left) => Err(format!("{left} is left on the server")),
            None => Ok(()),
        }
    }
}
