//! A story of several servers: a primary that sentinels watch, or a cluster.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use leasehold_twin::Delay;
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    allegiance::Allegiance,
    failovers::Failovers,
    hardships::Hardships,
    judge::Judge,
    peer::Peer,
    plot::{Kind, PATIENCE, Plot, Troubles},
    rights::Rights,
    site::Site,
    work::Worker,
    world::tell,
};
use crate::{
    Client,
    domain::Name,
    engine::simulation::story::{Story, name},
    store::QUEUE_RESTS,
};

/// How long a story may take at most, in virtual time.
const LONGEST: Duration = Duration::from_secs(900);

/// For so long there is trouble.
const TROUBLED: Duration = Duration::from_secs(20);

/// How often the rules are looked at.
const LOOKS: Duration = Duration::from_millis(25);

/// In the end each client enters each lock within this time.
const ENTERED: Duration = Duration::from_secs(3);

/// How the servers of a story belong together.
type Found = fn(u64, usize, Delay) -> Site;

/// Lives through the story of `seed`, with sentinels.
pub(in crate::engine::simulation) fn run_sentinel(
    seed: u64,
    story: &Arc<Story>,
) -> Result<(), String> {
    run(seed, story, Site::watched)
}

/// Lives through the story of `seed`, in a cluster.
pub(in crate::engine::simulation) fn run_cluster(
    seed: u64,
    story: &Arc<Story>,
) -> Result<(), String> {
    run(seed, story, Site::nodes)
}

fn run(seed: u64, story: &Arc<Story>, found: Found) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = Rng::with_seed(seed);
    let plot = draw(&mut chance);
    let hardships = Hardships::draw(&plot, &mut chance);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        story.say(|| format!("{plot:?}, {hardships:?}"));
        let site = found(chance.u64(..), plot.replicas as usize, hardships.lag());
        site.gossip(hardships.gossip());
        World::new(plot, site, story).await.live(hardships, chance).await
    })
}

/// What kind of story it is.
fn draw(chance: &mut Rng) -> Plot {
    let kind = match chance.u32(..8) {
        0 => Kind::Calm,
        1..=3 => Kind::Switched,
        _ => Kind::Rough,
    };
    Plot {
        kind,
        clients: chance.u32(2..=3),
        workers: chance.u32(1..=2),
        names: chance.u32(2..=4),
        rounds: chance.u32(5..=10),
        rest: chance.u64(200..=2_000),
        hold: chance.u64(50..=1_500),
        delay: chance.u64(..=5),
        // Neither fenced nor written under: see `Plot`.
        ttl: Duration::from_millis(30 * chance.u64(100..=300)),
        polling: false,
        outsiders: 0,
        redisson: false,
        spinner: false,
        restless: false,
        replicas: chance.u32(1..=2),
        troubles: Troubles::default(),
    }
}

struct World {
    plot: Plot,
    site: Site,
    judge: Arc<Judge>,
    story: Arc<Story>,
    names: Vec<Name>,
    peers: Vec<Arc<Peer>>,
    allegiance: Allegiance,
}

impl World {
    async fn new(plot: Plot, site: Site, story: &Arc<Story>) -> Self {
        if story.is_aloud() {
            site.all().iter().for_each(|server| tell(server, story));
        }
        let names: Vec<Name> = (0..plot.names).map(name).collect();
        let judge = Judge::new(&site, story, plot, &names);
        let mut peers = vec![];
        for number in 0..plot.clients {
            peers.push(Arc::new(Peer::connect(number, &site, Rights::All).await));
        }
        let way = Delay::UpTo(Duration::from_millis(plot.delay));
        site.delay(way, way);
        let allegiance = Allegiance::of(&site, &plot);
        Self { plot, site, judge, story: Arc::clone(story), names, peers, allegiance }
    }

    async fn live(mut self, hardships: Hardships, mut chance: Rng) -> Result<(), String> {
        let begun = Instant::now();
        let mut workers = JoinSet::new();
        self.hire(&mut chance, &mut workers);
        let mut failovers = Failovers {
            site: self.site.clone(),
            judge: Arc::clone(&self.judge),
            story: Arc::clone(&self.story),
            plot: self.plot,
            hardships,
            names: self.names.clone(),
            chance,
            busy: Arc::default(),
            lasting: JoinSet::new(),
        };
        while !workers.is_empty() {
            while let Some(done) = workers.try_join_next() {
                done.or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e.to_string()) })?;
            }
            if begun.elapsed() < TROUBLED {
                failovers.look(&self.peers, &mut self.allegiance);
            }
            sleep(LOOKS).await;
            self.held_up()?;
            if begun.elapsed() > LONGEST {
                return Err("the story does not end".into());
            }
        }
        failovers.end().await;
        self.settle().await
    }

    /// Whether every rule has held so far.
    fn held_up(&mut self) -> Result<(), String> {
        self.judge.look();
        self.judge.broken().map_or(Ok(()), Err)?;
        self.allegiance.look(&self.site, &self.peers)
    }

    /// Has workers work for all clients.
    fn hire(&self, chance: &mut Rng, workers: &mut JoinSet<()>) {
        for peer in &self.peers {
            for number in 0..self.plot.workers {
                let worker = Worker {
                    peer: Arc::clone(peer),
                    label: format!("{}/{number}", peer.id),
                    judge: Arc::clone(&self.judge),
                    story: Arc::clone(&self.story),
                    chance: chance.fork(),
                    plot: self.plot,
                };
                peer.owns(workers.spawn(worker.work()));
            }
        }
    }

    /// When nothing is in the way any more each client enters each lock, and leaves nothing.
    async fn settle(mut self) -> Result<(), String> {
        self.rest(self.plot.lease() + Duration::from_secs(7)).await?;
        for peer in self.peers.iter().filter(|peer| !peer.is_dead()) {
            for name in &self.names {
                self.enters(peer, name).await?;
            }
        }
        self.rest(self.plot.lease() + QUEUE_RESTS + 4 * PATIENCE).await?;
        self.nothing_is_left()?;
        self.story.say(|| format!("the end, after {} grants", self.judge.grants()));
        Ok(())
    }

    async fn rest(&mut self, time: Duration) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            sleep(Duration::from_millis(250)).await;
            self.held_up()?;
        }
        Ok(())
    }

    async fn enters(&self, peer: &Peer, name: &Name) -> Result<(), String> {
        let lock = Client::of(Arc::clone(&peer.engine)).lock(name).unwrap();
        let guard = lock.acquire_within(ENTERED).await;
        let guard = guard.map_err(|error| format!("{} ends outside: {error}", peer.id))?;
        let released = guard.release().await.and_then(|it| it.into_result());
        released.map_err(|error| format!("{} ends inside: {error}", peer.id))
    }

    fn nothing_is_left(&self) -> Result<(), String> {
        for peer in self.peers.iter().filter(|peer| !peer.is_dead()) {
            let stats = peer.engine.stats();
            if (stats.held, stats.waiting) != (0, 0) || !peer.engine.is_idle() {
                return Err(format!("something is left: {:?}", peer.engine));
            }
            let channels = peer.channels();
            if !channels.is_empty() {
                return Err(format!("{} still listens to {channels:?}", peer.id));
            }
            if self.plot.is_calm() && stats.reconnects > 0 {
                return Err(format!("{} has left a server that is well", peer.id));
            }
        }
        let keys: Vec<_> = self.site.masters().into_iter().flat_map(|it| it.keys()).collect();
        match keys.is_empty() {
            true => Ok(()),
            false => Err(format!("something is left on the servers: {keys:?}")),
        }
    }
}
