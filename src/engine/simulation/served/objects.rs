//! Stories of other objects than a plain lock, on the simulated server: a fair lock, a read-write
//! lock, a semaphore, permits that expire, a latch, a multi-lock, an election, a barrier; one of
//! them in each story.
//!
//! | rule | broken when |
//! |---|---|
//! | a holder of a fair lock, or a writer, is alone | somebody believes in a hold beside one who writes, and is not its own reader |
//! | order | a fair lock is granted to an owner while another one is the first in its queue |
//! | a member is held alone | two tasks believe in a hold of one member |
//! | a loss is reported | a member is lost, and the guard of all does not report it |
//! | a leader is alone | two believe that they lead, or a later leader has no higher term |
//! | a record is the leader's | a leader is returned with a value that it has not proclaimed |
//! | a barrier counts each arrival once | a generation has a member twice, or more members have passed than came |
//! | no more than there are | guards have more permits together than there are |
//! | belief is true | somebody believes, and the server does not know it |
//! | closed is closed | somebody passes a latch that was closed all the time |
//! | who waits enters | somebody waits for two minutes, though nothing lasts as long |
//! | everything ends | a place, a permit or a key is left when all is done |
//!
//! The server keeps what it has here: what it loses nobody can be sure of.

mod multi;

use std::{
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
    book::{Believer, Believes, Book},
    facts::{self, until_known},
    faults::FaultInjector,
    judge::Judge,
    peer::Peer,
    permissions::Permissions,
    scenario::{Scenario, TIMEOUT},
    site::Site,
};
use crate::{
    Client, ReadWriteLock, Result,
    domain::Name,
    engine::{held::Watch, simulation::trace::Trace},
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
    Election,
    Barrier,
}

/// Lives through the story of `seed`.
pub(in crate::engine::simulation) fn run(seed: u64, trace: &Arc<Trace>) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = fastrand::Rng::with_seed(seed);
    let all = [
        About::Fair,
        About::ReadWrite,
        About::Semaphore,
        About::Permits,
        About::Latch,
        About::Multi,
    ];
    let about = all[chance.usize(..all.len())];
    let about = match seed % 5 {
        3 => About::Barrier,
        4 => About::Election,
        _ => about,
    };
    let mut scenario = Scenario::draw(&mut chance);
    let faults = &mut scenario.faults;
    (faults.forgetting, faults.promotion, faults.permissions) = (false, false, false);
    (faults.runtimes, faults.forcing) = (false, false);
    faults.shutdowns &= about != About::Latch;
    // What has no lease dies with who has it.
    faults.deaths &= !matches!(about, About::Semaphore | About::Latch);
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
            About::Election => Box::pin(gate.pass(self.leads())).await,
            About::Barrier => Box::pin(gate.pass(self.arrives())).await,
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

    fn believes(&self, watch: &Watch, writer: Option<&Watch>) -> Believes {
        let claim = watch.claim();
        self.say(|| format!("has `{}` as {}, {:?}", claim.object, claim.owner, claim.object.kind));
        self.book.entered(Believer {
            watch: watch.clone(),
            writer: writer.map(|writer| writer.claim().owner.clone()),
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
            self.releases(guard, async |guard| drop(guard.release().await)).await;
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
                let max_wait = self.up_to(self.scenario.hold);
                let read = timeout(max_wait, lock.acquire_read_with(&guard)).await;
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

    /// Lets go of a guard, surely or in a hurry.
    async fn releases<G>(&mut self, guard: G, release: impl AsyncFnOnce(G)) {
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
            self.releases(guard, async |guard| drop(guard.release().await)).await;
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
            self.releases(guard, async |guard| drop(guard.release().await)).await;
        }
    }

    /// Leads again and again. The value that it proclaims is its owner.
    async fn leads(mut self) {
        let election = self.client().election("office").unwrap().ttl(self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            let entered = self.enters(election.try_campaign(""), election.campaign("")).await;
            let Some(leadership) = entered else { continue };
            let (watch, term) = (leadership.watch().clone(), leadership.term());
            let believes = self.believes(&watch, None);
            let last = self.book.note(|known| {
                let last = known.term;
                known.term = last.max(term);
                last
            });
            if term <= last && watch.remaining().is_ok() {
                self.book.breaks(format!("{} leads in term {term} after {last}", self.label));
            }
            drop(leadership.proclaim(leadership.owner().as_str()).await);
            self.rest(self.scenario.hold).await;
            if let Ok(Some(leader)) = election.leader().await
                && leader.value().is_some_and(|it| !it.is_empty() && it != leader.owner().as_str())
            {
                self.book.breaks(format!("{leader:?} has not proclaimed this"));
            }
            drop(believes);
            self.releases(leadership, async |it| drop(it.step_down().await)).await;
        }
    }

    /// Arrives at a barrier again and again.
    async fn arrives(mut self) {
        let barrier = self.client().barrier("phase", self.book.count).unwrap();
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            self.book.note(|known| known.arrivals += 1);
            let arrived = match self.chance.u32(..3) {
                0 => timeout(self.up_to(500), barrier.arrive_and_wait()).await.ok(),
                _ => Some(barrier.arrive_and_wait_within(self.up_to(20_000)).await),
            };
            self.say(|| format!("{arrived:?}"));
            if let Some(Ok(arrived)) = arrived {
                self.book.passed(arrived);
            }
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
            About::Fair | About::ReadWrite | About::Multi | About::Election | About::Barrier => {}
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
            About::ReadWrite | About::Latch | About::Multi | About::Election | About::Barrier => {
                Ok(self.book.count.into())
            }
        };
        let free = free.map_err(|error| error.to_string())?;
        if free != i64::from(self.book.count) {
            return Err(format!("{free} of {} permits are free", self.book.count));
        }
        let counters = ["seats", "permits", "redisson_lock_token:{office}"];
        let counter = |key: &String| counters.contains(&key.as_str());
        // Receipts and what was withdrawn are remembered for some minutes.
        let endless = self.site.master().keys_without_ttl().into_iter().filter(|key| !counter(key));
        let endless: Vec<String> = endless.collect();
        let held = [
            "gate",
            "room",
            "leasehold_semaphore:{seats}",
            "{permits}:timeout",
            "office",
            "leasehold_election:{office}",
            "leasehold_barrier__members:{phase}",
        ];
        let held = [&held[..], &MEMBERS].concat();
        let left = self.site.master().keys().into_iter().find(|key| held.contains(&key.as_str()));
        match left.or_else(|| endless.first().cloned()) {
            Some(left) => Err(format!("{left} is left on the server")),
            None => Ok(()),
        }
    }
}
