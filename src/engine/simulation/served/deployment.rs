//! A run with several servers: a primary that sentinels watch, or a cluster. Clients use locks. In
//! one run of eight, clients use a queue instead.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use leasehold_twin::Delay;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    book::Book,
    failovers::Failovers,
    jobs,
    judge::Judge,
    objects::{self, Subject},
    peer::Peer,
    permissions::Permissions,
    scenario::{Faults, Kind, Scenario, TIMEOUT},
    server_faults::ServerFaults,
    site::Site,
    stale_connections::StaleConnections,
    work::Worker,
    world::log_commands,
};
use crate::{
    Client,
    domain::Name,
    engine::simulation::{
        in_virtual_time,
        trace::{Trace, name},
    },
    store::QUEUE_KEPT_FOR,
};

/// The longest time that a run may take, in virtual time.
const LONGEST: Duration = Duration::from_secs(900);

const FAULTY_TIME: Duration = Duration::from_secs(20);

/// The time between two checks of the rules.
const LOOKS: Duration = Duration::from_millis(25);

/// At the end of a run, each client must be able to acquire each lock within this time.
const ACQUIRED: Duration = Duration::from_secs(3);

/// Creates the servers of a run.
type Found = fn(u64, usize, Delay) -> Site;

pub(in crate::engine::simulation) fn run_sentinel(
    seed: u64,
    trace: &Arc<Trace>,
) -> Result<(), String> {
    run(seed, trace, Site::watched)
}

pub(in crate::engine::simulation) fn run_cluster(
    seed: u64,
    trace: &Arc<Trace>,
) -> Result<(), String> {
    run(seed, trace, Site::nodes)
}

fn run(seed: u64, trace: &Arc<Trace>, found: Found) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = Rng::with_seed(seed);
    let scenario = draw(&mut chance);
    let server_faults = ServerFaults::draw(&scenario, &mut chance);
    in_virtual_time(async {
        trace.log(|| format!("{scenario:?}, {server_faults:?}"));
        let site = found(chance.u64(..), scenario.replicas as usize, server_faults.lag());
        site.gossip(server_faults.gossip());
        let has_queue = seed % 8 == 5;
        World::new(scenario, site, has_queue, trace).await.live(server_faults, chance).await
    })
}

fn draw(chance: &mut Rng) -> Scenario {
    let kind = match chance.u32(..8) {
        0 => Kind::Calm,
        1..=3 => Kind::Switched,
        _ => Kind::Rough,
    };
    Scenario {
        kind,
        clients: chance.u32(2..=3),
        workers: chance.u32(1..=2),
        names: chance.u32(2..=4),
        rounds: chance.u32(5..=10),
        rest: chance.u64(200..=2_000),
        hold: chance.u64(50..=1_500),
        delay: chance.u64(..=5),
        // A multiple of 30 ms, from which `Scenario` derives that locks are not fenced and that
        // holders write nothing.
        ttl: Duration::from_millis(30 * chance.u64(100..=300)),
        polling: false,
        outsiders: 0,
        redisson: false,
        busy_poller: false,
        restless: false,
        replicas: chance.u32(1..=2),
        faults: Faults::default(),
    }
}

struct World {
    scenario: Scenario,
    site: Site,
    judge: Arc<Judge>,
    trace: Arc<Trace>,
    names: Vec<Name>,
    /// The record of the queue, if the run uses a queue instead of locks.
    book: Option<Arc<Book>>,
    peers: Vec<Arc<Peer>>,
    stale_connections: StaleConnections,
}

impl World {
    async fn new(scenario: Scenario, site: Site, has_queue: bool, trace: &Arc<Trace>) -> Self {
        if trace.is_verbose() {
            site.all().iter().for_each(|server| log_commands(server, trace));
        }
        let names: Vec<Name> = match has_queue {
            true => vec![jobs::name()],
            false => (0..scenario.names).map(name).collect(),
        };
        let judge = Judge::new(&site, trace, scenario, &names);
        let book = has_queue.then(|| Arc::new(Book::new(&site, trace, &judge, u32::MAX)));
        let mut peers = vec![];
        for number in 0..scenario.clients {
            peers.push(Arc::new(Peer::connect(number, &site, Permissions::All).await));
        }
        let way = Delay::UpTo(Duration::from_millis(scenario.delay));
        site.delay(way, way);
        let stale_connections = StaleConnections::of(&site, &scenario);
        let trace = Arc::clone(trace);
        Self { scenario, site, judge, trace, names, book, peers, stale_connections }
    }

    async fn live(mut self, server_faults: ServerFaults, mut chance: Rng) -> Result<(), String> {
        let begun = Instant::now();
        let mut workers = JoinSet::new();
        self.spawn_workers(&mut chance, &mut workers);
        let mut failovers = Failovers {
            site: self.site.clone(),
            judge: Arc::clone(&self.judge),
            trace: Arc::clone(&self.trace),
            scenario: self.scenario,
            server_faults,
            names: self.names.clone(),
            book: self.book.clone(),
            chance,
            busy: Arc::default(),
            lasting: JoinSet::new(),
        };
        while !workers.is_empty() {
            while let Some(done) = workers.try_join_next() {
                done.or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e.to_string()) })?;
            }
            if begun.elapsed() < FAULTY_TIME {
                failovers.check(&self.peers, &mut self.stale_connections);
            }
            sleep(LOOKS).await;
            self.check_rules()?;
            if begun.elapsed() > LONGEST {
                return Err("the run does not end".into());
            }
        }
        failovers.end().await;
        self.check_end().await
    }

    fn check_rules(&mut self) -> Result<(), String> {
        match &self.book {
            Some(book) => {
                book.forgets_the_dead(&self.peers);
                book.held_up()?;
            }
            None => {
                self.judge.check();
                self.judge.broken().map_or(Ok(()), Err)?;
            }
        }
        self.stale_connections.check(&self.site, &self.peers)
    }

    fn spawn_workers(&self, chance: &mut Rng, workers: &mut JoinSet<()>) {
        for peer in &self.peers {
            for number in 0..self.scenario.workers {
                let (label, chance) = (format!("{}/{number}", peer.id), chance.fork());
                let (peer, scenario) = (Arc::clone(peer), self.scenario);
                let owner = Arc::clone(&peer);
                owner.owns(match self.book.clone() {
                    Some(book) => {
                        let worker = objects::Worker { label, peer, book, chance, scenario };
                        workers.spawn(worker.work(Subject::Queue))
                    }
                    None => {
                        let (judge, trace) = (Arc::clone(&self.judge), Arc::clone(&self.trace));
                        let worker = Worker { peer, label, judge, trace, chance, scenario };
                        workers.spawn(worker.work())
                    }
                });
            }
        }
    }

    /// Checks the end of a run, after the last fault. Each client can acquire each lock, or the
    /// queue has each element. No state is left.
    async fn check_end(mut self) -> Result<(), String> {
        self.rest(self.scenario.lease() + Duration::from_secs(7)).await?;
        match &self.book {
            Some(book) => self.take_the_rest(book).await?,
            None => self.acquire_all().await?,
        }
        self.rest(self.scenario.lease() + QUEUE_KEPT_FOR + 4 * TIMEOUT).await?;
        self.check_leftovers()?;
        self.trace.log(|| format!("the end, after {} grants", self.judge.grants()));
        Ok(())
    }

    async fn take_the_rest(&self, book: &Book) -> Result<(), String> {
        let operator = Peer::connect(self.scenario.clients, &self.site, Permissions::All).await;
        book.take_the_rest(&Client::of(Arc::clone(&operator.engine))).await
    }

    async fn acquire_all(&self) -> Result<(), String> {
        for peer in self.peers.iter().filter(|peer| !peer.is_dead()) {
            for name in &self.names {
                self.acquires(peer, name).await?;
            }
        }
        Ok(())
    }

    async fn rest(&mut self, time: Duration) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            sleep(Duration::from_millis(250)).await;
            self.check_rules()?;
        }
        Ok(())
    }

    async fn acquires(&self, peer: &Peer, name: &Name) -> Result<(), String> {
        let lock = Client::of(Arc::clone(&peer.engine)).lock(name).unwrap();
        let guard = lock.acquire_within(ACQUIRED).await;
        let guard =
            guard.map_err(|error| format!("{} cannot acquire at the end: {error}", peer.id))?;
        let released = guard.release().await.and_then(|it| it.into_result());
        released.map_err(|error| format!("{} cannot release at the end: {error}", peer.id))
    }

    fn check_leftovers(&self) -> Result<(), String> {
        for peer in self.peers.iter().filter(|peer| !peer.is_dead()) {
            let stats = peer.engine.stats();
            if (stats.held, stats.waiting) != (0, 0) || !peer.engine.is_idle() {
                return Err(format!("something is left: {:?}", peer.engine));
            }
            let channels = peer.channels();
            if !channels.is_empty() {
                return Err(format!("{} is still subscribed to {channels:?}", peer.id));
            }
            if self.scenario.is_calm() && stats.reconnects > 0 {
                return Err(format!("{} has left a healthy server", peer.id));
            }
        }
        let keys: Vec<_> = match self.book {
            // The idempotency keys of a queue expire later. A promoted replica may still have keys
            // of a slot that has moved away. No client reads these keys.
            Some(_) => self.site.of(&jobs::name()).keys_without_ttl(),
            None => self.site.masters().into_iter().flat_map(|server| server.keys()).collect(),
        };
        match keys.is_empty() {
            true => Ok(()),
            false => Err(format!("something is left on the servers: {keys:?}")),
        }
    }
}
