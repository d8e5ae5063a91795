//! One story: its clients, its troubles, and its end.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    citizen::Citizen,
    oracle::Oracle,
    plot::{COMMAND_TIMEOUT, Locks, Mood, Plot, REPLICAS},
    story::{Story, object},
    worker::Worker,
};
use crate::{
    domain::{Kind, Object},
    store::memory::MemoryStore,
    store::{Event, Hears, QUEUE_RESTS, Store},
};

/// How long a story may take at most, in virtual time.
const LONGEST: Duration = Duration::from_secs(900);

/// Lives through the story of `seed`.
pub(super) fn run(seed: u64, story: &Arc<Story>) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = fastrand::Rng::with_seed(seed);
    let plot = Plot::draw(&mut chance);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        story.say(|| format!("{plot:?}"));
        World::new(plot, &mut chance, story).live(chance).await
    })
}

struct World {
    plot: Plot,
    store: MemoryStore,
    oracle: Arc<Oracle>,
    story: Arc<Story>,
    citizens: Vec<Arc<Citizen>>,
    names: Vec<Object>,
}

impl World {
    fn new(plot: Plot, chance: &mut fastrand::Rng, story: &Arc<Story>) -> Self {
        let store = MemoryStore::new();
        store.set_replicas(REPLICAS);
        let kind = if plot.locks() == Locks::ReadWrite { Kind::Write } else { Kind::Lock };
        let names = (0..plot.names).map(|number| Object { kind, ..object(number) });
        let names: Vec<Object> = names.collect();
        let oracle = Oracle::new(&store, story, plot.bounds(), names.clone());
        let citizen = |number| Citizen::new(number, store.session(), &plot, chance, &oracle, story);
        let citizens = (0..plot.clients).map(citizen).map(Arc::new).collect();
        Self { plot, store, oracle, story: Arc::clone(story), citizens, names }
    }

    async fn live(self, mut chance: fastrand::Rng) -> Result<(), String> {
        let begun = Instant::now();
        let (mut workers, mut troubles) = (JoinSet::new(), JoinSet::new());
        for citizen in &self.citizens {
            self.hire(citizen, self.plot.rounds, &mut chance, &mut workers);
        }
        while !workers.is_empty() {
            while let Some(done) = workers.try_join_next() {
                done.or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e.to_string()) })?;
            }
            self.trouble(&mut chance, &mut workers, &mut troubles);
            sleep(Duration::from_millis(5)).await;
            self.oracle.look();
            if let Some(rule) = self.oracle.broken() {
                return Err(rule);
            }
            if begun.elapsed() > LONGEST {
                return Err("the story does not end".into());
            }
        }
        while troubles.join_next().await.is_some() {}
        self.settle().await
    }

    /// Has workers work for `citizen`.
    fn hire(
        &self,
        citizen: &Arc<Citizen>,
        rounds: u32,
        chance: &mut fastrand::Rng,
        workers: &mut JoinSet<()>,
    ) {
        for number in 0..self.plot.workers {
            let worker = Worker {
                citizen: Arc::clone(citizen),
                label: format!("{}/{number}", citizen.client()),
                oracle: Arc::clone(&self.oracle),
                story: Arc::clone(&self.story),
                chance: chance.fork(),
                rounds,
                plot: self.plot,
            };
            citizen.owns(workers.spawn(worker.work()));
        }
    }

    /// Makes trouble, now and then.
    fn trouble(
        &self,
        chance: &mut fastrand::Rng,
        workers: &mut JoinSet<()>,
        troubles: &mut JoinSet<()>,
    ) {
        let citizen = &self.citizens[chance.usize(..self.citizens.len())];
        let time = Duration::from_millis(chance.u64(1..=10_000));
        if citizen.is_dead() {
            return;
        }
        let does = self.plot.troubles;
        if does.pauses && chance.u32(..400) == 0 {
            citizen.is_paused(time);
        }
        if does.deaths && chance.u32(..600) == 0 {
            return citizen.dies();
        }
        if self.plot.mood != Mood::Calm && chance.u32(..400) == 0 {
            citizen.is_deaf(time, troubles);
        }
        if does.rights && chance.u32(..300) == 0 {
            citizen.may_queue(chance.bool());
        }
        if does.suspensions && chance.u32(..500) == 0 {
            citizen.sleeps(time);
        }
        if does.runtimes && chance.u32(..400) == 0 && citizen.may_lose_its_runtime() {
            citizen.loses_its_runtime();
            self.hire(citizen, 3, chance, workers);
        }
        if does.shutdowns && chance.u32(..800) == 0 && citizen.is_well() {
            let patience = if chance.bool() { Duration::ZERO } else { time / 5 };
            citizen.is_shut_down(patience, troubles);
        }
        if does.forgery {
            self.forge(citizen, chance, troubles);
        }
        if does.forgetting {
            self.forget(chance);
        }
    }

    /// Somebody in the store makes things up.
    fn forge(&self, citizen: &Citizen, chance: &mut fastrand::Rng, troubles: &mut JoinSet<()>) {
        if chance.u32(..500) == 0 {
            citizen.is_flooded(Duration::from_millis(chance.u64(..200)), troubles);
        }
        if chance.u32(..20) > 0 {
            return;
        }
        let object = object(chance.u32(..self.plot.names + 1));
        let hears = [Hears::Nothing, Hears::Releases, Hears::Turns][chance.usize(..3)];
        let kinds = if self.plot.mood == Mood::Rough { 5 } else { 3 };
        let is_known = self.names.iter().any(|known| known.name == object.name);
        citizen.is_told(match chance.u32(..kinds) {
            0 if !is_known => Event::Moved,
            0 => Event::Ask { object, after: Duration::ZERO },
            1 => Event::Ask { object, after: Duration::from_millis(chance.u64(..100_000_000)) },
            2 => Event::Freed { object, queue_told: chance.bool() },
            3 => Event::Hears(object, hears),
            _ => Event::SubscriptionsLost,
        });
    }

    /// The store forgets, or somebody takes a lock away.
    fn forget(&self, chance: &mut fastrand::Rng) {
        if chance.u32(..1_500) == 0 {
            self.story.say(|| "the store forgets everything".into());
            self.oracle.forgets();
            self.store.lose_everything();
        }
        if chance.u32(..1_500) == 0 {
            let object = &self.names[chance.usize(..self.names.len())];
            self.story.say(|| format!("{object} is forced away"));
            self.oracle.forced_away(object);
            if self.citizens.iter().any(|citizen| citizen.network.is_deaf()) {
                self.oracle.nobody_hears_for(object, Duration::ZERO);
            }
            for side in [Some(object.clone()), object.other_side()].into_iter().flatten() {
                let forced = self.store.session().force_release(&side).now_or_never();
                forced.expect("the operator is at the store").unwrap();
            }
        }
    }

    /// After everybody has gone nothing may be left.
    async fn settle(self) -> Result<(), String> {
        // Withdrawals look again for so long.
        sleep(Duration::from_secs(6) + self.plot.bounds().entered).await;
        let orderly = self.plot.mood != Mood::Rough && !self.plot.has_ghosts();
        if orderly {
            self.nobody_queues()?;
        }
        // What they miss ends by itself.
        sleep(self.plot.bounds().lease + QUEUE_RESTS + 4 * COMMAND_TIMEOUT).await;
        self.oracle.look();
        if let Some(rule) = self.oracle.broken() {
            return Err(rule);
        }
        for citizen in self.citizens.iter().filter(|citizen| !citizen.is_dead()) {
            let stats = citizen.engine.stats();
            if (stats.held, stats.waiting) != (0, 0) || !citizen.engine.is_idle() {
                return Err(format!("something is left: {:?}", citizen.engine));
            }
        }
        if !self.store.is_idle() {
            return Err(format!("something is left in the store: {:?}", self.store));
        }
        self.nobody_queues()?;
        self.story.say(|| format!("the end, after {} grants", self.oracle.grants()));
        Ok(())
    }

    fn nobody_queues(&self) -> Result<(), String> {
        let queued = self.store.queued();
        match queued.is_empty() {
            true => Ok(()),
            false => Err(format!("somebody is left in a queue: {queued:?}")),
        }
    }
}
