//! Simulations of an object other than a plain lock, on a simulated server. Each simulation has one
//! object: a fair lock, a read-write lock, a semaphore, an expirable semaphore, a latch, a
//! multi-lock, an election, a barrier, a double barrier, a queue or a map.
//!
//! A task *relies on* a hold while its guard says that the hold is valid. The code calls such a
//! hold a *trusted hold*, and says that the task *believes* in this hold.
//!
//! | rule | broken when |
//! |---|---|
//! | exclusion | a task relies on a fair lock or a write lock while another task relies on a hold of the same lock; the writer's own read hold is allowed |
//! | order | a fair lock is granted to an owner while another owner is the first in its wait queue |
//! | exclusion of members | two tasks rely on holds of the same member of a multi-lock |
//! | reported losses | a member is lost, and the guard of the multi-lock does not report it |
//! | one leader | two tasks rely on their leadership at the same time, or a later leader has no higher term |
//! | true records | an election returns a leader with a value that this leader has not proclaimed |
//! | arrivals count once | a generation has a member twice, or more members have passed than arrived |
//! | one claimant | two tasks rely on claims of the same element |
//! | done elements | an element that is done is claimed again, or done twice |
//! | no lost element | the push of an element was confirmed, and at the end this element is neither done nor in the queue |
//! | no lost update | the counter of a map, which grows under its lock, is lower than the number of confirmed writes, or higher than the number of confirmed and unconfirmed writes together |
//! | one computation | two callers get different values of one computed entry |
//! | true replies | an insertion returns a value that was not in the map, or that an earlier insertion returned; or more values vanish than replies were lost |
//! | one generation inside | members of two generations rely on holds of one double barrier |
//! | leaving together | a member has left a double barrier while another member of its generation relies on its hold |
//! | number of permits | guards have more permits together than the semaphore has |
//! | existing holds | a task relies on a hold that the server does not have |
//! | closed latches | a task passes a latch that was closed during the whole wait |
//! | no starvation, not of queues | a task waits for two minutes, and no hold or fault is so long |
//! | no leftovers | a queue entry, a permit or a key is left at the end |
//!
//! In these runs, the server never loses its data, because no rule could be checked after such a
//! loss. In some simulations of a queue or a map, a replica that has all data takes over. In a
//! deployment, failovers lose writes: see the simulation of a queue in `deployment.rs`.

mod barrier;
mod latch;
mod map;
mod multi;
mod queue;

use std::{future::Future, sync::Arc, time::Duration};

use leasehold_twin::{Delay, Twin};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use self::multi::MEMBERS;
use super::{
    book::{Believes, Book, TrustedHold},
    facts,
    faults::FaultInjector,
    jobs,
    judge::Judge,
    peer::Peer,
    permissions::Permissions,
    scenario::{Scenario, TIMEOUT},
    site::Site,
};
use crate::{
    Client, ReadWriteLock, Result,
    domain::Name,
    engine::{
        held::Watch,
        simulation::{in_virtual_time, trace::Trace},
    },
    store::QUEUE_KEPT_FOR,
};

/// The number of checks in which faults may begin.
const CHECKS_WITH_FAULTS: u32 = 6_000;

/// A task that waits for longer than this is starved.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Every request ends within this time, with all its retries.
const LONGEST_RETRY: Duration = Duration::from_secs(20);

/// The primitive that a simulation uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Subject {
    Fair,
    ReadWrite,
    Semaphore,
    Permits,
    Latch,
    Multi,
    Election,
    Barrier,
    Queue,
    DoubleBarrier,
    Map,
}

pub(in crate::engine::simulation) fn run(seed: u64, trace: &Arc<Trace>) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = fastrand::Rng::with_seed(seed);
    let all = [
        Subject::Fair,
        Subject::ReadWrite,
        Subject::Semaphore,
        Subject::Permits,
        Subject::Latch,
        Subject::Multi,
    ];
    let subject = all[chance.usize(..all.len())];
    let subject = match seed % 7 {
        1 => Subject::Queue,
        2 => Subject::DoubleBarrier,
        3 => Subject::Barrier,
        4 => Subject::Election,
        5 => Subject::Map,
        _ => subject,
    };
    let mut scenario = Scenario::draw(&mut chance);
    let faults = &mut scenario.faults;
    (faults.forgetting, faults.promotion, faults.permissions) = (false, false, false);
    (faults.runtimes, faults.forcing) = (false, false);
    faults.shutdowns &= subject != Subject::Latch;
    let fails_over = matches!(subject, Subject::Queue | Subject::Map) && chance.bool();
    // If another fault resumed the stopped primary early, this primary would accept a write that
    // the new primary does not have.
    faults.stops &= !fails_over;
    // Permits of a semaphore have no lease, so those of a dead process never come back. And a latch
    // that a dead process has closed stays closed.
    faults.deaths &= !matches!(subject, Subject::Semaphore | Subject::Latch);
    scenario.rounds = scenario.rounds.min(30);
    in_virtual_time(async {
        trace.log(|| format!("{subject:?}: {scenario:?}"));
        World::new(subject, scenario, fails_over, &mut chance, trace).await.live(chance).await
    })
}

struct World {
    subject: Subject,
    scenario: Scenario,
    fails_over: bool,
    site: Site,
    trace: Arc<Trace>,
    judge: Arc<Judge>,
    peers: Vec<Arc<Peer>>,
    book: Arc<Book>,
}

/// One task of a client.
pub(super) struct Worker {
    pub(super) label: String,
    pub(super) peer: Arc<Peer>,
    pub(super) book: Arc<Book>,
    pub(super) chance: fastrand::Rng,
    pub(super) scenario: Scenario,
}

impl Worker {
    fn client(&self) -> Client {
        Client::of(Arc::clone(&self.peer.engine))
    }

    fn up_to(&mut self, millis: u64) -> Duration {
        Duration::from_millis(1 + self.chance.u64(..=millis))
    }

    async fn pause(&mut self, most: u64) {
        sleep(self.up_to(most)).await;
    }

    fn log(&self, what: impl FnOnce() -> String) {
        self.book.trace.log(|| format!("{}: {}", self.label, what()));
    }

    pub(super) async fn work(self, subject: Subject) {
        let gate = self.peer.gate.clone();
        match subject {
            Subject::Fair => gate.pass(self.use_fair_lock()).await,
            Subject::ReadWrite => gate.pass(self.use_read_write_lock()).await,
            Subject::Semaphore => gate.pass(self.use_semaphore()).await,
            Subject::Permits => gate.pass(self.use_expirable_semaphore()).await,
            Subject::Latch => Box::pin(gate.pass(self.wait_for_latch())).await,
            Subject::Multi => Box::pin(gate.pass(self.use_multi_lock())).await,
            Subject::Election => Box::pin(gate.pass(self.use_election())).await,
            Subject::Barrier => Box::pin(gate.pass(self.use_barrier())).await,
            Subject::Queue => Box::pin(gate.pass(self.use_queue())).await,
            Subject::DoubleBarrier => Box::pin(gate.pass(self.use_double_barrier())).await,
            Subject::Map => Box::pin(gate.pass(self.use_map())).await,
        }
    }

    /// Acquires by one request, with a short timeout, or with a long timeout.
    async fn acquire<G>(
        &mut self,
        once: impl Future<Output = Result<Option<G>>>,
        waiting: impl Future<Output = Result<G>>,
    ) -> Option<G> {
        let entered = match self.chance.u32(..4) {
            0 => once.await,
            1 => match timeout(self.up_to(500), waiting).await {
                Ok(entered) => entered.map(Some),
                Err(_) => Ok(None),
            },
            _ => match timeout(LONGEST_WAIT, waiting).await {
                Ok(entered) => entered.map(Some),
                Err(_) => {
                    self.book.breaks(format!("{} waits for ever", self.label));
                    Ok(None)
                }
            },
        };
        entered.unwrap_or_else(|error| {
            self.log(|| format!("does not enter: {error}"));
            None
        })
    }

    fn note_hold(&self, watch: &Watch, writer: Option<&Watch>) -> Believes {
        let writer = writer.map(|writer| writer.claim().owner.clone());
        self.book.entered(TrustedHold { writer, ..self.trusted_hold(watch) })
    }

    fn trusted_hold(&self, watch: &Watch) -> TrustedHold {
        let claim = watch.claim();
        self.log(|| format!("has `{}` as {}, {:?}", claim.object, claim.owner, claim.object.kind));
        let (watch, gate) = (watch.clone(), self.peer.gate.clone());
        TrustedHold { generation: 0, watch, writer: None, gate, acknowledged: false }
    }

    async fn use_fair_lock(mut self) {
        let lock = self.client().fair_lock("gate").unwrap().ttl(self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            let Some(guard) = self.acquire(lock.try_acquire(), lock.acquire()).await else {
                continue;
            };
            let believes = self.note_hold(guard.watch(), None);
            self.pause(self.scenario.hold).await;
            drop(believes);
            self.release(guard, async |guard| drop(guard.release().await)).await;
        }
    }

    async fn use_read_write_lock(mut self) {
        let name = Name::new("room").unwrap();
        let lock = ReadWriteLock::new(Arc::clone(&self.peer.engine), name, self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            let writes = self.chance.u32(..3) == 0;
            let side = if writes { lock.write() } else { lock.read() }.ttl(self.scenario.ttl);
            let Some(guard) = self.acquire(side.try_acquire(), side.acquire()).await else {
                continue;
            };
            let writing = guard.watch().clone();
            let believes = self.note_hold(&writing, None);
            self.pause(self.scenario.hold).await;
            let mut reading = vec![];
            for _ in 0..if writes { self.chance.u32(..3) } else { 0 } {
                let max_wait = self.up_to(self.scenario.hold);
                let read = timeout(max_wait, lock.acquire_read_with(&guard)).await;
                let Ok(Ok(guard)) = read else { continue };
                reading.push((self.note_hold(guard.watch(), Some(&writing)), guard));
            }
            drop(believes);
            self.release(guard, async |guard| drop(guard.release().await)).await;
            for (believes, guard) in reading {
                self.pause(self.scenario.hold).await;
                drop(believes);
                self.release(guard, async |guard| drop(guard.release().await)).await;
            }
        }
    }

    /// Releases a hold by dropping its guard, by a release with a short timeout, or by a release
    /// without a timeout.
    async fn release<G>(&mut self, guard: G, release: impl AsyncFnOnce(G)) {
        match self.chance.u32(..4) {
            0 => drop(guard),
            1 => drop(timeout(self.up_to(50), release(guard)).await),
            _ => release(guard).await,
        }
    }

    async fn use_semaphore(mut self) {
        let seats = self.client().semaphore("seats").unwrap();
        for _ in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            let wanted = self.chance.u32(1..=self.book.count);
            let entered = self.acquire(seats.try_acquire(wanted), seats.acquire(wanted)).await;
            let Some(guard) = entered else { continue };
            let believes = self.note_hold(guard.watch(), None);
            self.pause(self.scenario.hold).await;
            drop(believes);
            self.release(guard, async |guard| drop(guard.release().await)).await;
        }
    }

    async fn use_expirable_semaphore(mut self) {
        let permits = self.client().expirable_semaphore("permits").unwrap().ttl(self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            let wanted = if self.chance.bool() { 1 } else { self.chance.u32(1..=self.book.count) };
            let once = permits.try_acquire_many(wanted);
            let Some(guard) = self.acquire(once, permits.acquire_many(wanted)).await else {
                continue;
            };
            let believes = self.note_hold(guard.watch(), None);
            self.pause(self.scenario.hold).await;
            drop(believes);
            self.release(guard, async |guard| drop(guard.release().await)).await;
        }
    }

    /// Becomes the leader repeatedly. Each leader proclaims its owner as the value.
    async fn use_election(mut self) {
        let election = self.client().election("office").unwrap().ttl(self.scenario.ttl);
        for _ in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            let entered = self.acquire(election.try_campaign(""), election.campaign("")).await;
            let Some(leadership) = entered else { continue };
            let (watch, term) = (leadership.watch().clone(), leadership.term());
            let believes = self.note_hold(&watch, None);
            let last = self.book.note(|known| {
                let last = known.term;
                known.term = last.max(term);
                last
            });
            if term <= last && watch.remaining().is_ok() {
                self.book.breaks(format!("{} leads in term {term} after {last}", self.label));
            }
            drop(leadership.proclaim(leadership.owner().as_str()).await);
            self.pause(self.scenario.hold).await;
            if let Ok(Some(leader)) = election.leader().await
                && leader.value().is_some_and(|it| !it.is_empty() && it != leader.owner().as_str())
            {
                self.book.breaks(format!("{leader:?} has not proclaimed this"));
            }
            drop(believes);
            self.release(leadership, async |it| drop(it.step_down().await)).await;
        }
    }
}

impl World {
    async fn new(
        subject: Subject,
        scenario: Scenario,
        fails_over: bool,
        chance: &mut fastrand::Rng,
        trace: &Arc<Trace>,
    ) -> Self {
        let master = Twin::new(chance.u64(..));
        let replica = fails_over.then(|| master.replica(Delay::Fixed(Duration::ZERO)));
        let site = Site::new(master, replica);
        let judge = Judge::new(&site, trace, scenario, &[]);
        let mut peers = vec![];
        for number in 0..scenario.clients {
            peers.push(Arc::new(Peer::connect(number, &site, Permissions::All).await));
        }
        let count = chance.u32(1..=4);
        let client = Client::of(Arc::clone(&peers[0].engine));
        match subject {
            Subject::Fair
            | Subject::ReadWrite
            | Subject::Multi
            | Subject::Election
            | Subject::Barrier
            | Subject::DoubleBarrier
            | Subject::Queue
            | Subject::Map => {}
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
        let book = Arc::new(Book::new(&site, trace, &judge, count));
        let trace = Arc::clone(trace);
        if subject == Subject::Fair {
            let breaks = Arc::clone(&book);
            facts::watch_order(&site.master(), "gate", move |rule| breaks.breaks(rule));
        }
        Self { subject, scenario, fails_over, site, trace, judge, peers, book }
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
            if looks < CHECKS_WITH_FAULTS {
                faults.check(&self.peers);
                if self.fails_over && chance.u32(..1_000) == 0 {
                    self.trace.log(|| "the replica takes over, if it has all writes".into());
                    self.site.fail_over_in_step().await;
                }
            }
            looks += 1;
            self.book.forgets_the_dead(&self.peers);
            sleep(Duration::from_millis(5)).await;
            self.book.held_up()?;
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
                    book: Arc::clone(&self.book),
                    chance: chance.fork(),
                    scenario: self.scenario,
                };
                let counts = self.subject == Subject::Latch && workers.is_empty();
                let gate = peer.gate.clone();
                peer.owns(match counts {
                    true => {
                        workers.spawn(async move { gate.pass(worker.count_latch_down()).await })
                    }
                    false => workers.spawn(worker.work(self.subject)),
                });
            }
        }
    }

    /// After the last task has ended, checks that the object is free, and that no state is left.
    async fn check_end(self) -> Result<(), String> {
        // Within this time, releases are retried, and leases end.
        sleep(3 * LONGEST_RETRY + self.scenario.lease() + QUEUE_KEPT_FOR + 4 * TIMEOUT).await;
        self.book.held_up()?;
        for peer in self.peers.iter().filter(|peer| !peer.is_dead()) {
            let stats = peer.engine.stats();
            if (stats.held, stats.waiting) != (0, 0) || !peer.engine.is_idle() {
                return Err(format!("something is left: {:?}", peer.engine));
            }
        }
        self.check_all_free().await
    }

    async fn check_all_free(&self) -> Result<(), String> {
        let operator = Peer::connect(self.scenario.clients, &self.site, Permissions::All).await;
        let client = Client::of(Arc::clone(&operator.engine));
        let free = match self.subject {
            Subject::Semaphore => client.semaphore("seats").unwrap().available().await,
            Subject::Permits => client.expirable_semaphore("permits").unwrap().available().await,
            // This acquisition removes dead waiters from the wait queue.
            Subject::Fair => {
                let lock = client.fair_lock("gate").unwrap();
                lock.run_within(LONGEST_RETRY, async |_held| self.book.count.into()).await
            }
            Subject::Queue => {
                self.book.take_the_rest(&client).await?;
                Ok(self.book.count.into())
            }
            Subject::Map => {
                map::remove_all(&client, &self.book).await?;
                Ok(self.book.count.into())
            }
            Subject::ReadWrite
            | Subject::Latch
            | Subject::Multi
            | Subject::Election
            | Subject::Barrier
            | Subject::DoubleBarrier => Ok(self.book.count.into()),
        };
        let free = free.map_err(|error| error.to_string())?;
        if free != i64::from(self.book.count) {
            return Err(format!("{free} of {} permits are free", self.book.count));
        }
        let counters = ["seats", "permits", "redisson_lock_token:{office}"];
        let counter = |key: &String| counters.contains(&key.as_str());
        // Keys with a TTL may stay: idempotency keys and records of withdrawn requests exist for
        // some minutes.
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
            "leasehold_barrier__inside:{phase}",
        ];
        let held = [&held[..], &MEMBERS, &jobs::KEYS].concat();
        let left = self.site.master().keys().into_iter().find(|key| held.contains(&key.as_str()));
        match left.or_else(|| endless.first().cloned()) {
            Some(left) => Err(format!("{left} is left on the server")),
            None => Ok(()),
        }
    }
}
