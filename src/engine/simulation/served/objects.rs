//! Stories of other objects than a plain lock, on the simulated server: a fair lock, a read-write
//! lock, a semaphore, permits that expire, a latch, a multi-lock; one of them in each story.
//!
//! | rule | broken when |
//! |---|---|
//! | a holder of a fair lock, or a writer, is alone | somebody believes in a hold beside one who writes, and is not its own reader |
//! | order | a fair lock is granted to an owner while another one is the first in its queue |
//! | a member is held alone | two tasks believe in a hold of one member |
//! | a loss is reported | a member is lost, and the guard of all does not report it |
//! | no more than there are | guards have more permits together than there are |
//! | belief is true | somebody believes, and the server does not know it |
//! | closed is closed | somebody passes a latch that was closed all the time |
//! | who waits enters | somebody waits for two minutes, though nothing lasts as long |
//! | everything ends | a place, a permit or a key is left when all is done |
//!
//! The server keeps what it has here: what it loses nobody can be sure of.

mod multi;

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

use self::multi::MEMBERS;
use super::{
    facts::{self, until_known, untrue},
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

/// For so long there is trouble.
const TROUBLED: u32 = 6_000;

/// By then anybody who waits has entered.
const SURELY: Duration = Duration::from_secs(120);

/// By then nothing that was asked for is on its way any more.
const SETTLED: Duration = Duration::from_secs(20);

/// What a story is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum About {
    Fair,
    ReadWrite,
    Semaphore,
    Permits,
    Latch,
    Multi,
}

/// Lives through the story of `seed`.
pub(in crate::engine::simulation) fn run(seed: u64, trace: &Arc<Trace>) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = fastrand::Rng::with_seed(seed);
    let all = [About::Fair, About::ReadWrite, About::Semaphore, About::Permits, About::Latch, About::Multi];
    let about = all[chance.usize(..all.len())];
    let mut scenario = Scenario::draw(&mut chance);
    let faults = &mut scenario.faults;
    (faults.forgetting, faults.promotion, faults.permissions) = (false, false, false);
    (faults.runtimes, faults.forcing) = (false, false);
    faults.shutdowns &= about != About::Latch;
    // What has no lease dies with who has it.
    faults.deaths &= matches!(about, About::Fair | About::ReadWrite | About::Permits | About::Multi);
    scenario.rounds = scenario.rounds.min(30);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        trace.log(|| format!("{about:?}: {scenario:?}"));
        World::new(about, scenario, &mut chance, trace).await.live(chance).await
    })
}

struct World {
    about: About,
    scenario: Scenario,
    site: Site,
    trace: Arc<Trace>,
    judge: Arc<Judge>,
    peers: Vec<Arc<Peer>>,
    book: Arc<Book>,
}

/// What is known to be so.
struct Book {
    site: Site,
    trace: Arc<Trace>,
    /// How many permits there are.
    count: u32,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    believers: BTreeMap<u64, Believer>,
    entered: u64,
    /// How often the latch was closed, and whether it may be open.
    closed: u64,
    may_be_open: bool,
    broken: Option<String>,
}

#[derive(Clone)]
struct Believer {
    watch: Watch,
    /// Who writes, if it reads beside its own writing.
    beside: Option<Owner>,
    gate: Gate,
}

impl Book {
    fn note<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.known.lock().unwrap())
    }

    fn breaks(&self, rule: String) {
        self.trace.log(|| format!("RULE BROKEN: {rule}"));
        self.note(|known| known.broken.get_or_insert(rule).len());
    }

    fn held_up(&self) -> Result<(), String> {
        self.look();
        self.note(|known| known.broken.clone()).map_or(Ok(()), Err)
    }

    /// Somebody has a guard, until what it returns is dropped.
    fn entered(self: &Arc<Self>, believer: Believer) -> Believes {
        let number = self.note(|known| {
            known.entered += 1;
            known.believers.insert(known.entered, believer);
            known.entered
        });
        self.look();
        Believes { book: Arc::clone(self), number }
    }

    /// Forgets those of processes that are gone.
    fn forgets_the_dead(&self, peers: &[Arc<Peer>]) {
        let dead = |gate: &Gate| peers.iter().any(|peer| peer.is_dead() && peer.gate.is(gate));
        self.note(|known| known.believers.retain(|_, it| !dead(&it.gate)));
    }

    fn look(&self) {
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
        let permits = held.iter().filter(|it| it.watch.claim().object.kind != Kind::Lock);
        let taken: u32 = permits.map(|it| it.watch.claim().units()).sum();
        (taken > self.count).then(|| format!("{taken} of {} permits are believed in", self.count))
    }
}

/// Two who cannot both be right.
fn together(held: &[Believer]) -> Option<String> {
    let owner = |it: &Believer| it.watch.claim().owner.clone();
    let alone = |it: &&Believer| it.watch.claim().object.traits().is_exclusive();
    let mut pairs = held
        .iter()
        .filter(alone)
        .flat_map(|one| held.iter().map(move |other| (one, other)))
        .filter(|(one, other)| one.watch.claim().name() == other.watch.claim().name());
    let pair =
        pairs.find(|(one, other)| owner(other) != owner(one) && other.beside != Some(owner(one)));
    pair.map(|(one, other)| format!("{} is not alone: {} believes too", owner(one), owner(other)))
}

/// One who has a guard, until it is dropped.
struct Believes {
    book: Arc<Book>,
    number: u64,
}

impl Drop for Believes {
    fn drop(&mut self) {
        self.book.note(|known| known.believers.remove(&self.number));
    }
}

/// One task of a client.
struct Worker {
    label: String,
    peer: Arc<Peer>,
    book: Arc<Book>,
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

    fn say(&self, what: impl FnOnce() -> String) {
        self.book.trace.log(|| format!("{}: {}", self.label, what()));
    }

    async fn works(self, about: About) {
        let gate = self.peer.gate.clone();
        match about {
            About::Fair => gate.pass(self.takes_turns()).await,
            About::ReadWrite => gate.pass(self.reads_and_writes()).await,
            About::Semaphore => gate.pass(self.takes_seats()).await,
            About::Permits => gate.pass(self.takes_permits()).await,
            About::Latch => Box::pin(gate.pass(self.passes())).await,
            About::Multi => Box::pin(gate.pass(self.holds_several())).await,
        }
    }

    /// Enters by one question, with little patience, or surely.
    async fn enters<G>(
        &mut self,
        once: impl Future<Output = Result<Option<G>>>,
        surely: impl Future<Output = Result<G>>,
    ) -> Option<G> {
        let entered = match self.chance.u32(..4) {
            0 => once.await,
            1 => match timeout(self.up_to(500), surely).await {
                Ok(entered) => entered.map(Some),
                Err(_) => Ok(None),
            },
            _ => match timeout(SURELY, surely).await {
                Ok(entered) => entered.map(Some),
                Err(_) => {
                    self.book.breaks(format!("{} waits for ever", self.label));
                    Ok(None)
                }
            },
        };
        entered.unwrap_or_else(|error| {
            self.say(|| format!("does not enter: {error}"));
            None
        })
    }

    fn believes(&self, watch: &Watch, beside: Option<&Watch>) -> Believes {
        let claim = watch.claim();
        self.say(|| format!("has `{}` as {}, {:?}", claim.object, claim.owner, claim.object.kind));
        self.book.entered(Believer {
            watch: watch.clone(),
            beside: beside.map(|writer| writer.claim().owner.clone()),
            gate: self.peer.gate.clone(),
        })
    }

    async fn takes_turns(mut self) {
        let lock = self.client().fair_lock("gate").unwrap().ttl(self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let Some(guard) = self.enters(lock.try_acquire(), lock.acquire()).await else {
                continue;
            };
            let believes = self.believes(guard.watch(), None);
            self.rest(self.scenario.hold).await;
            drop(believes);
            self.gives_back(guard, async |guard| drop(guard.release().await)).await;
        }
    }

    async fn reads_and_writes(mut self) {
        let name = Name::new("room").unwrap();
        let lock = ReadWriteLock::new(Arc::clone(&self.peer.engine), name, self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let writes = self.chance.u32(..3) == 0;
            let side = if writes { lock.write() } else { lock.read() }.ttl(self.scenario.ttl);
            let Some(guard) = self.enters(side.try_acquire(), side.acquire()).await else {
                continue;
            };
            let writing = guard.watch().clone();
            let believes = self.believes(&writing, None);
            self.rest(self.scenario.hold).await;
            let mut reading = vec![];
            for _ in 0..if writes { self.chance.u32(..3) } else { 0 } {
                let patience = self.up_to(self.scenario.hold);
                let read = timeout(patience, lock.acquire_read_with(&guard)).await;
                let Ok(Ok(guard)) = read else { continue };
                reading.push((self.believes(guard.watch(), Some(&writing)), guard));
            }
            drop(believes);
            self.gives_back(guard, async |guard| drop(guard.release().await)).await;
            for (believes, guard) in reading {
                self.rest(self.scenario.hold).await;
                drop(believes);
                self.gives_back(guard, async |guard| drop(guard.release().await)).await;
            }
        }
    }

    /// Lets go of a guard, surely or in a hurry.
    async fn gives_back<G>(&mut self, guard: G, release: impl AsyncFnOnce(G)) {
        match self.chance.u32(..4) {
            0 => drop(guard),
            1 => drop(timeout(self.up_to(50), release(guard)).await),
            _ => release(guard).await,
        }
    }

    async fn takes_seats(mut self) {
        let seats = self.client().semaphore("seats").unwrap();
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let wanted = self.chance.u32(1..=self.book.count);
            let entered = self.enters(seats.try_acquire(wanted), seats.acquire(wanted)).await;
            let Some(guard) = entered else { continue };
            let believes = self.believes(guard.watch(), None);
            self.rest(self.scenario.hold).await;
            drop(believes);
            self.gives_back(guard, async |guard| drop(guard.release().await)).await;
        }
    }

    async fn takes_permits(mut self) {
        let permits = self.client().expirable_semaphore("permits").unwrap().ttl(self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let wanted = if self.chance.bool() { 1 } else { self.chance.u32(1..=self.book.count) };
            let once = permits.try_acquire_many(wanted);
            let Some(guard) = self.enters(once, permits.acquire_many(wanted)).await else {
                continue;
            };
            let believes = self.believes(guard.watch(), None);
            self.rest(self.scenario.hold).await;
            drop(believes);
            self.gives_back(guard, async |guard| drop(guard.release().await)).await;
        }
    }

    /// Waits for a latch again and again.
    async fn passes(mut self) {
        let latch = self.client().latch("start").unwrap();
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let before = self.book.note(|known| (known.closed, known.may_be_open));
            let once = async { Ok((latch.count().await? == 0).then_some(())) };
            if self.enters(once, latch.wait()).await.is_none() {
                continue;
            }
            let after = self.book.note(|known| (known.closed, known.may_be_open));
            if before == after && !after.1 {
                self.book.breaks(format!("{} passes a closed latch", self.label));
            }
        }
    }

    /// Closes the latch and counts it down, again and again.
    async fn counts(mut self) {
        let latch = self.client().latch("start").unwrap();
        for _ in 0..self.scenario.rounds {
            until_known(SETTLED, || latch.set(3)).await;
            self.book.note(|known| {
                (known.closed, known.may_be_open) = (known.closed + 1, false);
            });
            self.say(|| "closes".into());
            loop {
                self.rest(self.scenario.rest).await;
                let left = until_known(SETTLED, || latch.count()).await;
                if left <= 1 {
                    self.book.note(|known| known.may_be_open = true);
                }
                let counted = latch.count_down().await;
                self.say(|| format!("counts down, of {left}: {counted:?}"));
                if counted.is_err() {
                    sleep(SETTLED).await;
                }
                if until_known(SETTLED, || latch.count()).await == 0 {
                    break;
                }
            }
        }
    }
}

impl World {
    async fn new(
        about: About,
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
            About::Fair | About::ReadWrite | About::Multi => {}
            About::Semaphore => {
                client.semaphore("seats").unwrap().set_if_absent(count).await.unwrap();
            }
            About::Permits => {
                client.expirable_semaphore("permits").unwrap().set(count).await.unwrap();
            }
            About::Latch => drop(client.latch("start").unwrap().set(1).await.unwrap()),
        }
        let way = Delay::UpTo(Duration::from_millis(scenario.delay));
        site.delay(way, way);
        let (trace, known) = (Arc::clone(trace), Mutex::default());
        let book = Arc::new(Book { site: site.clone(), trace: Arc::clone(&trace), count, known });
        if about == About::Fair {
            let breaks = Arc::clone(&book);
            facts::watch_order(&site.master(), "gate", move |rule| breaks.breaks(rule));
        }
        Self { about, scenario, site, trace, judge, peers, book }
    }

    async fn live(self, mut chance: fastrand::Rng) -> Result<(), String> {
        let mut workers = JoinSet::new();
        self.hire(&mut chance, &mut workers);
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
            if looks < TROUBLED {
                faults.check(&self.peers);
            }
            looks += 1;
            self.book.forgets_the_dead(&self.peers);
            sleep(Duration::from_millis(5)).await;
            self.book.held_up()?;
        }
        faults.end().await;
        self.settle().await
    }

    fn hire(&self, chance: &mut fastrand::Rng, workers: &mut JoinSet<()>) {
        for number in 0..self.scenario.workers {
            for peer in &self.peers {
                let worker = Worker {
                    label: format!("{}/{number}", peer.id),
                    peer: Arc::clone(peer),
                    book: Arc::clone(&self.book),
                    chance: chance.fork(),
                    scenario: self.scenario,
                };
                let counts = self.about == About::Latch && workers.is_empty();
                let gate = peer.gate.clone();
                peer.owns(match counts {
                    true => workers.spawn(async move { gate.pass(worker.counts()).await }),
                    false => workers.spawn(worker.works(self.about)),
                });
            }
        }
    }

    /// After everybody has gone everything is free, and nothing is left.
    async fn settle(self) -> Result<(), String> {
        // Releases look again for so long, and leases end.
        sleep(3 * SETTLED + self.scenario.lease() + QUEUE_RESTS + 4 * TIMEOUT).await;
        self.book.held_up()?;
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
            About::Semaphore => client.semaphore("seats").unwrap().available().await,
            About::Permits => client.expirable_semaphore("permits").unwrap().available().await,
            // It drops dead waiters.
            About::Fair => {
                let lock = client.fair_lock("gate").unwrap();
                lock.run_within(SETTLED, async |_held| self.book.count.into()).await
            }
            About::ReadWrite | About::Latch | About::Multi => Ok(self.book.count.into()),
        };
        let free = free.map_err(|error| error.to_string())?;
        if free != i64::from(self.book.count) {
            return Err(format!("{free} of {} permits are free", self.book.count));
        }
        let counter = |key: &String| matches!(key.as_str(), "seats" | "permits");
        // Receipts and what was withdrawn are remembered for some minutes.
        let endless = self.site.master().keys_without_ttl().into_iter().filter(|key| !counter(key));
        let endless: Vec<String> = endless.collect();
        let held = ["gate", "room", "leasehold_semaphore:{seats}", "{permits}:timeout"];
        let held = [&held[..], &MEMBERS].concat();
        let left = self.site.master().keys().into_iter().find(|key| held.contains(&key.as_str()));
        match left.or_else(|| endless.first().cloned()) {
            Some(left) => Err(format!("{left} is left on the server")),
            None => Ok(()),
        }
    }
}
