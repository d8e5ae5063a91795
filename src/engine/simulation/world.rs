//! One story: its weather, its clients, its troubles, and its end.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{
    runtime::Builder,
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep},
};

use super::{
    gate::Gate,
    network::{COMMAND_TIMEOUT, Network, Weather},
    oracle::{Bounds, Oracle},
    worker::Worker,
};
use crate::{
    Client, MemoryStore,
    domain::{Identity, Name},
    engine::{
        Engine,
        clock::Clock,
        timing::{ECHO, LONGEST_WAIT_UNHEARD, LOOK_AGAIN},
    },
    store::Store,
};

/// How long a story may take at most, in virtual time.
const LONGEST: Duration = Duration::from_secs(900);

/// What happened, line by line.
#[derive(Debug, Default)]
pub(super) struct Story {
    text: Mutex<String>,
    aloud: bool,
    begun: Mutex<Option<Instant>>,
}

impl Story {
    pub(super) fn new(aloud: bool) -> Arc<Self> {
        Arc::new(Self { aloud, ..Self::default() })
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        let begun = *self.begun.lock().unwrap().get_or_insert_with(Instant::now);
        let line = format!("{:>9.3} s  {}", begun.elapsed().as_secs_f64(), what());
        if self.aloud {
            println!("{line}");
        }
        writeln!(self.text.lock().unwrap(), "{line}").unwrap();
    }

    pub(super) fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }
}

/// What kind of story it is: the calmer, the tighter the bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mood {
    /// Nothing goes wrong but what the workers do themselves.
    Calm,
    /// The connection for messages is lost now and then.
    Deaf,
    /// Anything goes wrong.
    Rough,
}

#[derive(Clone, Copy, Debug)]
struct Plot {
    mood: Mood,
    weather: Weather,
    clients: u32,
    workers: u32,
    names: u32,
    rounds: u32,
    ttl: Duration,
    /// Whether clients are paused.
    pauses: bool,
    /// Whether clients die.
    deaths: bool,
    /// Whether the store forgets, or locks are forced away.
    forgetting: bool,
}

impl Plot {
    fn draw(chance: &mut fastrand::Rng) -> Self {
        let mood = match chance.u32(..4) {
            0 => Mood::Calm,
            1 => Mood::Deaf,
            _ => Mood::Rough,
        };
        let rough = mood == Mood::Rough;
        let mut up_to = |most: u32| if rough { chance.u32(..=most) } else { 0 };
        let weather = Weather {
            lose_request: up_to(120),
            lose_reply: up_to(120),
            double: up_to(100),
            refuse: up_to(30),
            lose_message: up_to(300),
            delay: 0,
        };
        let delay = if rough && chance.bool() { 300 } else { 8 };
        Self {
            mood,
            weather: Weather { delay: chance.u64(..=delay), ..weather },
            clients: chance.u32(2..=4),
            workers: chance.u32(1..=3),
            names: chance.u32(1..=2),
            rounds: chance.u32(3..=10),
            ttl: Duration::from_millis(chance.u64(1_500..=5_000)),
            pauses: rough && chance.bool(),
            deaths: chance.u32(..4) == 0,
            forgetting: chance.u32(..3) == 0,
        }
    }

    /// How soon things have to happen.
    fn bounds(&self) -> Bounds {
        let prompt = ECHO + Duration::from_millis(8 * self.weather.delay + 60);
        // A lease may be up to two seconds longer than half of the ttl.
        let lease = self.ttl + Duration::from_secs(2);
        let lossy = Duration::from_secs(30);
        // A withdrawal may overtake what it withdraws, and looks again later. Where
        // requests are executed much later still, the lease ends what they did.
        let bounds = |entered, freed, excused| Bounds {
            entered,
            freed,
            excused,
            lease,
            told: Duration::from_millis(1_300),
            rough: self.mood == Mood::Rough,
        };
        match self.mood {
            Mood::Calm => bounds(prompt, prompt + LOOK_AGAIN[0], lease / 3 + prompt),
            Mood::Deaf => {
                let unheard = LONGEST_WAIT_UNHEARD.mul_f64(1.25) + prompt;
                bounds(unheard, unheard + LOOK_AGAIN[0], lease / 3 + prompt)
            }
            Mood::Rough => bounds(lossy, lease + lossy, lease),
        }
    }
}

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

/// The locks of a story.
pub(super) fn name(number: u32) -> Name {
    Name::new(format!("name-{number}")).unwrap()
}

struct World {
    plot: Plot,
    store: MemoryStore,
    oracle: Arc<Oracle>,
    story: Arc<Story>,
    citizens: Vec<Citizen>,
}

/// A client with its network and its gate.
struct Citizen {
    engine: Arc<Engine>,
    network: Arc<Network>,
    gate: Gate,
    workers: Mutex<Vec<AbortHandle>>,
}

impl Citizen {
    /// Its process is killed, wherever it stands.
    fn dies(&self, oracle: &Oracle) {
        self.gate.close();
        self.network.cut();
        oracle.dies(&self.gate);
        self.workers.lock().unwrap().drain(..).for_each(|worker| worker.abort());
    }

    fn is_dead(&self) -> bool {
        self.workers.lock().unwrap().is_empty()
    }
}

impl World {
    fn new(plot: Plot, chance: &mut fastrand::Rng, story: &Arc<Story>) -> Self {
        let store = MemoryStore::new();
        let oracle = Oracle::new(&store, story, plot.bounds());
        let citizens = (0..plot.clients).map(|number| {
            let (session, oracle) = (store.session(), Arc::clone(&oracle));
            let gate = Gate::open();
            let network = Network::new(session, plot.weather, chance.fork(), oracle, gate.clone());
            let identity = Identity::of(format!("client-{number}"));
            let awake = Clock::with(|| Duration::ZERO);
            let engine =
                Engine::new(identity, Arc::<Network>::clone(&network), awake, gate.spawner());
            Citizen { engine, network, gate, workers: Mutex::default() }
        });
        let citizens = citizens.collect();
        Self { plot, store, oracle, story: Arc::clone(story), citizens }
    }

    async fn live(self, mut chance: fastrand::Rng) -> Result<(), String> {
        let begun = Instant::now();
        let mut workers = self.hire(&mut chance);
        let mut troubles = JoinSet::new();
        while !workers.is_empty() {
            while let Some(done) = workers.try_join_next() {
                done.or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e.to_string()) })?;
            }
            self.trouble(&mut chance, &mut troubles);
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

    fn hire(&self, chance: &mut fastrand::Rng) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        for (number, citizen) in self.citizens.iter().enumerate() {
            for task in 0..self.plot.workers {
                let worker = Worker {
                    client: Client::of(Arc::clone(&citizen.engine)),
                    label: format!("client-{number}/{task}"),
                    gate: citizen.gate.clone(),
                    oracle: Arc::clone(&self.oracle),
                    story: Arc::clone(&self.story),
                    chance: chance.fork(),
                    names: self.plot.names,
                    rounds: self.plot.rounds,
                    ttl: self.plot.ttl,
                };
                citizen.workers.lock().unwrap().push(workers.spawn(worker.work()));
            }
        }
        workers
    }

    /// Makes trouble, now and then.
    fn trouble(&self, chance: &mut fastrand::Rng, troubles: &mut JoinSet<()>) {
        let citizen = &self.citizens[chance.usize(..self.citizens.len())];
        let client = citizen.engine.identity.client();
        let time = Duration::from_millis(chance.u64(1..=2 * 5_000));
        if self.plot.pauses && chance.u32(..400) == 0 {
            self.story.say(|| format!("{client} is paused for {time:?}"));
            citizen.gate.close_for(time);
        }
        if self.plot.deaths && chance.u32(..600) == 0 {
            self.story.say(|| format!("{client} dies"));
            citizen.dies(&self.oracle);
        }
        if self.plot.mood != Mood::Calm && chance.u32(..400) == 0 {
            self.story.say(|| format!("{client} is deaf for {time:?}"));
            let network = Arc::clone(&citizen.network);
            troubles.spawn(async move { network.deafen(time).await });
        }
        if self.plot.forgetting && chance.u32(..1_500) == 0 {
            self.story.say(|| "the store forgets everything".into());
            let names: Vec<_> = (0..self.plot.names).map(name).collect();
            self.oracle.forgets(&names);
            self.store.lose_everything();
        }
        if self.plot.forgetting && chance.u32(..1_500) == 0 {
            let name = name(chance.u32(..self.plot.names));
            self.story.say(|| format!("{name} is forced away"));
            self.oracle.forced(&name);
            if self.citizens.iter().any(|citizen| citizen.network.is_deaf()) {
                self.oracle.nobody_hears_for(Duration::ZERO);
            }
            let forced = self.store.session().force_release(&name).now_or_never();
            forced.expect("the operator is at the store").unwrap();
        }
    }

    /// After everybody has gone nothing may be left.
    async fn settle(self) -> Result<(), String> {
        // Withdrawals look again for so long, and what they miss ends by itself.
        sleep(self.plot.bounds().lease + Duration::from_secs(10) + 4 * COMMAND_TIMEOUT).await;
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
        // Elsewhere a question may come so late that nobody withdraws it any more.
        let orderly = self.plot.mood == Mood::Calm && !self.plot.deaths;
        let queued = self.store.queued();
        if orderly && !queued.is_empty() {
            return Err(format!("somebody is left in a queue: {queued:?}"));
        }
        self.story.say(|| format!("the end, after {} grants", self.oracle.grants()));
        Ok(())
    }
}
