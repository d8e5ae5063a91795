//! One run: its clients, its server, and the checks at its end.

use std::{sync::Arc, time::Duration};

use leasehold_twin::{Delay, Twin};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    faults::FaultInjector,
    foreign_clients::{ForeignClient, Forger, Waiting},
    judge::{Judge, outlives},
    peer::Peer,
    permissions::Permissions,
    scenario::{Kind, REPLICAS, Scenario, TIMEOUT},
    site::Site,
    work::Worker,
};
use crate::{
    domain::Name,
    engine::simulation::{
        in_virtual_time,
        trace::{Trace, name},
    },
    store::QUEUE_KEPT_FOR,
};

/// The longest time that a run may take, in virtual time.
const LONGEST: Duration = Duration::from_secs(900);

const FAULTY_TIME: Duration = Duration::from_secs(30);

/// After the runtime of a client has ended, each of its new tasks works for this number of rounds.
const ROUNDS_AGAIN: u32 = 3;

/// The highest average number of scripts per grant, in tenths. A grant takes two requests of the
/// waiter and one release, and sometimes another request.
const SCRIPTS: u64 = 32;

pub(in crate::engine::simulation) fn run(seed: u64, trace: &Arc<Trace>) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = fastrand::Rng::with_seed(seed);
    let scenario = Scenario::draw(&mut chance);
    in_virtual_time(async {
        trace.log(|| format!("{scenario:?}"));
        World::new(scenario, &mut chance, trace).await.live(chance).await
    })
}

pub(super) fn log_commands(server: &Twin, trace: &Arc<Trace>) {
    let trace = Arc::clone(trace);
    server.watch(move |it| {
        if !it.in_script {
            trace.log(|| format!("{it:?}"));
        }
    });
}

struct World {
    scenario: Scenario,
    site: Site,
    judge: Arc<Judge>,
    trace: Arc<Trace>,
    peers: Vec<Arc<Peer>>,
}

impl World {
    async fn new(scenario: Scenario, chance: &mut fastrand::Rng, trace: &Arc<Trace>) -> Self {
        let master = Twin::new(chance.u64(..));
        let lag = Delay::UpTo(Duration::from_millis(chance.u64(..=500)));
        let replica = scenario.faults.promotion.then(|| master.replica(lag));
        if scenario.replicates() {
            master.acknowledge_as(REPLICAS as usize);
        }
        let site = Site::new(master, replica);
        if trace.is_verbose() {
            site.all().iter().for_each(|server| log_commands(server, trace));
        }
        let names: Vec<Name> = (0..scenario.names).map(name).collect();
        let judge = Judge::new(&site, trace, scenario, &names);
        let mut peers = vec![];
        for number in 0..scenario.clients {
            let outside = number < scenario.outsiders;
            let permissions =
                if outside { Permissions::OnlyRedissonChannels } else { Permissions::All };
            peers.push(Arc::new(Peer::connect(number, &site, permissions).await));
        }
        let way = Delay::UpTo(Duration::from_millis(scenario.delay));
        site.delay(way, way);
        Self { scenario, site, judge, trace: Arc::clone(trace), peers }
    }

    async fn live(self, mut chance: fastrand::Rng) -> Result<(), String> {
        let begun = Instant::now();
        let before = self.site.evals();
        let (mut workers, mut foreign_clients) = (JoinSet::new(), JoinSet::new());
        self.spawn_workers(&mut chance, &mut workers);
        self.spawn_foreign_clients(&mut chance, &mut foreign_clients);
        let mut faults = self.faults(&mut chance);
        while !workers.is_empty() {
            while let Some(done) = workers.try_join_next() {
                done.or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e.to_string()) })?;
            }
            if begun.elapsed() < FAULTY_TIME {
                faults.check(&self.peers);
            }
            let without_runtime = faults.without_runtime.drain(..);
            for peer in without_runtime.filter(|peer| !peer.is_dead()) {
                self.spawn_workers_of(&peer, ROUNDS_AGAIN, &mut chance, &mut workers);
            }
            sleep(Duration::from_millis(5)).await;
            self.check_rules()?;
            if begun.elapsed() > LONGEST {
                return Err("the run does not end".into());
            }
        }
        self.check_script_count(self.site.evals() - before)?;
        faults.end().await;
        foreign_clients.shutdown().await;
        self.check_end().await
    }

    fn check_rules(&self) -> Result<(), String> {
        self.judge.check();
        self.judge.broken().map_or(Ok(()), Err)
    }

    fn faults(&self, chance: &mut fastrand::Rng) -> FaultInjector {
        FaultInjector {
            site: self.site.clone(),
            judge: Arc::clone(&self.judge),
            trace: Arc::clone(&self.trace),
            scenario: self.scenario,
            chance: chance.fork(),
            lasting: JoinSet::new(),
            without_runtime: vec![],
        }
    }

    fn spawn_workers(&self, chance: &mut fastrand::Rng, workers: &mut JoinSet<()>) {
        for peer in &self.peers {
            self.spawn_workers_of(peer, self.scenario.rounds, chance, workers);
        }
    }

    fn spawn_workers_of(
        &self,
        peer: &Arc<Peer>,
        rounds: u32,
        chance: &mut fastrand::Rng,
        workers: &mut JoinSet<()>,
    ) {
        for number in 0..self.scenario.workers {
            let worker = Worker {
                peer: Arc::clone(peer),
                label: format!("{}/{number}", peer.id),
                judge: Arc::clone(&self.judge),
                trace: Arc::clone(&self.trace),
                chance: chance.fork(),
                scenario: Scenario { rounds, ..self.scenario },
            };
            peer.owns(workers.spawn(worker.work()));
        }
    }

    fn spawn_foreign_clients(&self, chance: &mut fastrand::Rng, foreign_clients: &mut JoinSet<()>) {
        let Scenario { redisson, busy_poller, .. } = self.scenario;
        let present = [(redisson, Waiting::Subscribed), (busy_poller, Waiting::BusyPolling)];
        for (_, waits) in present.into_iter().filter(|(present, _)| *present) {
            let foreign_client = ForeignClient {
                site: self.site.clone(),
                judge: Arc::clone(&self.judge),
                trace: Arc::clone(&self.trace),
                chance: chance.fork(),
                waits,
                rounds: self.scenario.rounds,
                hold: self.scenario.hold,
            };
            foreign_clients.spawn(foreign_client.work());
        }
        if self.scenario.faults.forger {
            let forger = Forger {
                site: self.site.clone(),
                judge: Arc::clone(&self.judge),
                trace: Arc::clone(&self.trace),
                chance: chance.fork(),
                names: self.scenario.names,
                clients: self.scenario.clients,
            };
            foreign_clients.spawn(forger.work());
        }
    }

    /// Checks that a grant in a crowd takes few scripts on average.
    fn check_script_count(&self, scripts: u64) -> Result<(), String> {
        let grants = self.judge.grants();
        let dear = self.scenario.kind == Kind::Crowd && 10 * scripts > SCRIPTS * grants + 100;
        match dear {
            true => Err(format!("{grants} grants took {scripts} scripts")),
            false => Ok(()),
        }
    }

    /// Checks at the end that no queue entry, no hold and no key is left.
    async fn check_end(self) -> Result<(), String> {
        // Within this time, withdrawals are repeated, and unused subscriptions end.
        sleep(Duration::from_secs(7)).await;
        if self.scenario.is_calm() {
            self.check_queues()?;
        }
        sleep(self.scenario.lease() + QUEUE_KEPT_FOR + 4 * TIMEOUT).await;
        self.check_rules()?;
        self.check_leftovers()?;
        let scripts = self.site.evals();
        let grants = self.judge.grants();
        self.trace.log(|| format!("the end, after {grants} grants by {scripts} scripts"));
        Ok(())
    }

    /// Checks that no client is left in a wait queue.
    fn check_queues(&self) -> Result<(), String> {
        let master = self.site.master();
        let queues = master.keys().into_iter().filter_map(|key| master.zset(&key));
        match queues.flatten().next() {
            Some((entry, _)) => Err(format!("{entry} is left in a queue")),
            None => Ok(()),
        }
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
        }
        let mut keys = self.site.master().keys();
        keys.retain(|key| !outlives(key));
        match keys.is_empty() {
            true => Ok(()),
            false => Err(format!("something is left on the server: {keys:?}")),
        }
    }
}
