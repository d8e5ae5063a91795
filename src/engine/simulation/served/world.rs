//! One story: its clients, its server, and its end.

use std::{sync::Arc, time::Duration};

use leasehold_twin::{Delay, Twin};
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    judge::{Judge, outlives},
    peer::Peer,
    plot::{Kind, PATIENCE, Plot, REPLICAS},
    rights::Rights,
    site::Site,
    strangers::{Forger, Stranger, Waits},
    troubles::Troubles,
    work::Worker,
};
use crate::{
    domain::Name,
    engine::simulation::story::{Story, name},
    store::QUEUE_RESTS,
};

/// How long a story may take at most, in virtual time.
const LONGEST: Duration = Duration::from_secs(900);

/// For so long there is trouble.
const TROUBLED: Duration = Duration::from_secs(30);

/// How often each task that works for a client on its next runtime wants a lock.
const ROUNDS_AGAIN: u32 = 3;

/// How many scripts a hand-over may take, in tenths: two questions and the hand-over
/// itself, and now and then a look.
const SCRIPTS: u64 = 32;

/// Lives through the story of `seed`.
pub(in crate::engine::simulation) fn run(seed: u64, story: &Arc<Story>) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = fastrand::Rng::with_seed(seed);
    let plot = Plot::draw(&mut chance);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        story.say(|| format!("{plot:?}"));
        World::new(plot, &mut chance, story).await.live(chance).await
    })
}

/// Tells what `server` is asked.
pub(super) fn tell(server: &Twin, story: &Arc<Story>) {
    let story = Arc::clone(story);
    server.watch(move |it| {
        if !it.in_script {
            story.say(|| format!("{it:?}"));
        }
    });
}

struct World {
    plot: Plot,
    site: Site,
    judge: Arc<Judge>,
    story: Arc<Story>,
    peers: Vec<Arc<Peer>>,
}

impl World {
    async fn new(plot: Plot, chance: &mut fastrand::Rng, story: &Arc<Story>) -> Self {
        let master = Twin::new(chance.u64(..));
        let lag = Delay::UpTo(Duration::from_millis(chance.u64(..=500)));
        let replica = plot.troubles.promotion.then(|| master.replica(lag));
        if plot.replicates() {
            master.acknowledge_as(REPLICAS as usize);
        }
        let site = Site::new(master, replica);
        if story.is_aloud() {
            site.all().iter().for_each(|server| tell(server, story));
        }
        let names: Vec<Name> = (0..plot.names).map(name).collect();
        let judge = Judge::new(&site, story, plot, &names);
        let mut peers = vec![];
        for number in 0..plot.clients {
            let outside = number < plot.outsiders;
            let rights = if outside { Rights::NoChannelsOfOurs } else { Rights::All };
            peers.push(Arc::new(Peer::connect(number, &site, rights).await));
        }
        let way = Delay::UpTo(Duration::from_millis(plot.delay));
        site.delay(way, way);
        Self { plot, site, judge, story: Arc::clone(story), peers }
    }

    async fn live(self, mut chance: fastrand::Rng) -> Result<(), String> {
        let begun = Instant::now();
        let before = self.site.evals();
        let (mut workers, mut strangers) = (JoinSet::new(), JoinSet::new());
        self.hire(&mut chance, &mut workers);
        self.invite(&mut chance, &mut strangers);
        let mut troubles = self.troubles(&mut chance);
        while !workers.is_empty() {
            while let Some(done) = workers.try_join_next() {
                done.or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e.to_string()) })?;
            }
            if begun.elapsed() < TROUBLED {
                troubles.look(&self.peers);
            }
            let without_runtime = troubles.without_runtime.drain(..);
            for peer in without_runtime.filter(|peer| !peer.is_dead()) {
                self.hire_for(&peer, ROUNDS_AGAIN, &mut chance, &mut workers);
            }
            sleep(Duration::from_millis(5)).await;
            self.held_up()?;
            if begun.elapsed() > LONGEST {
                return Err("the story does not end".into());
            }
        }
        self.cheap(self.site.evals() - before)?;
        troubles.end().await;
        strangers.shutdown().await;
        self.settle().await
    }

    /// Whether every rule has held so far.
    fn held_up(&self) -> Result<(), String> {
        self.judge.look();
        self.judge.broken().map_or(Ok(()), Err)
    }

    fn troubles(&self, chance: &mut fastrand::Rng) -> Troubles {
        Troubles {
            site: self.site.clone(),
            judge: Arc::clone(&self.judge),
            story: Arc::clone(&self.story),
            plot: self.plot,
            chance: chance.fork(),
            lasting: JoinSet::new(),
            without_runtime: vec![],
        }
    }

    /// Has workers work for all clients.
    fn hire(&self, chance: &mut fastrand::Rng, workers: &mut JoinSet<()>) {
        for peer in &self.peers {
            self.hire_for(peer, self.plot.rounds, chance, workers);
        }
    }

    /// Has workers work for `peer`.
    fn hire_for(
        &self,
        peer: &Arc<Peer>,
        rounds: u32,
        chance: &mut fastrand::Rng,
        workers: &mut JoinSet<()>,
    ) {
        for number in 0..self.plot.workers {
            let worker = Worker {
                peer: Arc::clone(peer),
                label: format!("{}/{number}", peer.id),
                judge: Arc::clone(&self.judge),
                story: Arc::clone(&self.story),
                chance: chance.fork(),
                plot: Plot { rounds, ..self.plot },
            };
            peer.owns(workers.spawn(worker.work()));
        }
    }

    /// Lets others onto the server.
    fn invite(&self, chance: &mut fastrand::Rng, strangers: &mut JoinSet<()>) {
        let Plot { redisson, spinner, .. } = self.plot;
        let invited = [(redisson, Waits::Listening), (spinner, Waits::Spinning)];
        for (_, waits) in invited.into_iter().filter(|(invited, _)| *invited) {
            let stranger = Stranger {
                site: self.site.clone(),
                judge: Arc::clone(&self.judge),
                story: Arc::clone(&self.story),
                chance: chance.fork(),
                waits,
                rounds: self.plot.rounds,
                hold: self.plot.hold,
            };
            strangers.spawn(stranger.work());
        }
        if self.plot.troubles.forger {
            let forger = Forger {
                site: self.site.clone(),
                judge: Arc::clone(&self.judge),
                story: Arc::clone(&self.story),
                chance: chance.fork(),
                names: self.plot.names,
                clients: self.plot.clients,
            };
            strangers.spawn(forger.work());
        }
    }

    /// Each hand-over of a crowd takes few scripts.
    fn cheap(&self, scripts: u64) -> Result<(), String> {
        let grants = self.judge.grants();
        let dear = self.plot.kind == Kind::Crowd && 10 * scripts > SCRIPTS * grants + 100;
        match dear {
            true => Err(format!("{grants} grants took {scripts} scripts")),
            false => Ok(()),
        }
    }

    /// After everybody has gone nothing may be left.
    async fn settle(self) -> Result<(), String> {
        // Withdrawals look again for so long, and names are listened to.
        sleep(Duration::from_secs(7)).await;
        if self.plot.is_calm() {
            self.nobody_queues()?;
        }
        sleep(self.plot.lease() + QUEUE_RESTS + 4 * PATIENCE).await;
        self.held_up()?;
        self.nothing_is_left()?;
        let scripts = self.site.evals();
        let grants = self.judge.grants();
        self.story.say(|| format!("the end, after {grants} grants by {scripts} scripts"));
        Ok(())
    }

    /// A queue may stay for a while, but nobody in it.
    fn nobody_queues(&self) -> Result<(), String> {
        let master = self.site.master();
        let queues = master.keys().into_iter().filter_map(|key| master.zset(&key));
        let mut places = queues.flatten().map(|(member, _)| member);
        match places.find(|it| !matches!(it.as_str(), "gap" | "turn")) {
            Some(place) => Err(format!("{place} is left in a queue")),
            None => Ok(()),
        }
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
        }
        let mut keys = self.site.master().keys();
        keys.retain(|key| !outlives(key));
        match keys.is_empty() {
            true => Ok(()),
            false => Err(format!("something is left on the server: {keys:?}")),
        }
    }
}
