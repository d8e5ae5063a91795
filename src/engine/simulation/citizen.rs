//! A client with its network, its clock and its gate, and what may happen to it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep},
};

use super::{
    gate::{Gate, Tasks},
    network::Network,
    oracle::Oracle,
    plot::Plot,
    story::Story,
};
use crate::{
    domain::Identity,
    engine::{Engine, clock::Clock},
    store::{Event, memory::Session},
};

/// By how many parts of a million a clock may be fast or slow: a lease has a margin of a
/// hundredth.
const DRIFT: i64 = 10_000;

/// One client.
pub(super) struct Citizen {
    pub(super) engine: Arc<Engine>,
    pub(super) network: Arc<Network>,
    pub(super) gate: Gate,
    queues: AtomicBool,
    oracle: Arc<Oracle>,
    story: Arc<Story>,
    /// How long its machine has slept, in milliseconds.
    slept: Arc<AtomicU64>,
    /// The tasks of its engine.
    engines: Tasks,
    /// Its tasks, but for those of the engine.
    tasks: Mutex<Vec<AbortHandle>>,
    is_dead: AtomicBool,
    is_shut: AtomicBool,
    runtimes: AtomicU32,
}

impl Citizen {
    /// The client with this `number`.
    pub(super) fn new(
        number: u32,
        session: Session,
        plot: &Plot,
        chance: &mut fastrand::Rng,
        oracle: &Arc<Oracle>,
        story: &Arc<Story>,
    ) -> Self {
        let (gate, client) = (Gate::open(), format!("client-{number}"));
        oracle.meets(&client, &gate);
        let (slept, drift) = (Arc::<AtomicU64>::default(), chance.i64(-DRIFT..=DRIFT));
        let chance = chance.fork();
        let network = Network::new(session, plot.weather, chance, Arc::clone(oracle), gate.clone());
        let may_queue = number >= plot.outsiders;
        network.may_queue(may_queue);
        let store = Arc::<Network>::clone(&network);
        let clock = clock(drift, Arc::clone(&slept));
        let engines = Tasks::default();
        let engine = Engine::new(Identity::of(client), store, clock, gate.spawner(&engines));
        Self {
            engine,
            network,
            gate,
            queues: AtomicBool::new(may_queue),
            oracle: Arc::clone(oracle),
            story: Arc::clone(story),
            slept,
            engines,
            tasks: Mutex::default(),
            is_dead: AtomicBool::new(false),
            is_shut: AtomicBool::new(false),
            runtimes: AtomicU32::new(0),
        }
    }

    pub(super) fn client(&self) -> &str {
        self.engine.identity.client()
    }

    fn say(&self, what: impl FnOnce() -> String) {
        self.story.say(|| format!("{} {}", self.client(), what()));
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Whether it works, and will go on doing so.
    pub(super) fn is_well(&self) -> bool {
        !self.is_dead() && !self.is_shut.load(Ordering::Relaxed)
    }

    /// Whether it may queue.
    pub(super) fn queues(&self) -> bool {
        self.queues.load(Ordering::Relaxed)
    }

    /// Has `task` end when its runtime does.
    pub(super) fn owns(&self, task: AbortHandle) {
        self.tasks.lock().unwrap().push(task);
    }

    fn ends_its_tasks(&self) {
        self.tasks.lock().unwrap().drain(..).for_each(|task| task.abort());
    }

    /// Stands still for a while, wherever it is.
    pub(super) fn is_paused(&self, time: Duration) {
        self.say(|| format!("is paused for {time:?}"));
        self.gate.close_for(time);
    }

    /// Its process is killed, wherever it stands.
    pub(super) fn dies(&self) {
        self.say(|| "dies".into());
        self.is_dead.store(true, Ordering::Relaxed);
        self.gate.close();
        self.network.cut();
        self.oracle.dies(&self.gate);
        self.ends_its_tasks();
    }

    /// Its machine is suspended; nobody else noticed how long that took.
    pub(super) fn sleeps(&self, time: Duration) {
        self.say(|| format!("has slept for {time:?}"));
        let millis = u64::try_from(time.as_millis()).unwrap();
        self.oracle.sleeps(self.client(), time, || {
            self.slept.fetch_add(millis, Ordering::Relaxed);
        });
    }

    /// Whether its story ends though it loses its runtime again.
    pub(super) fn may_lose_its_runtime(&self) -> bool {
        self.is_well() && self.runtimes.load(Ordering::Relaxed) < 5
    }

    /// Loses its runtime with all that ran there.
    pub(super) fn loses_its_runtime(&self) {
        self.runtimes.fetch_add(1, Ordering::Relaxed);
        self.say(|| "loses its runtime".into());
        self.engines.lock().unwrap().drain(..).for_each(|task| task.abort());
        self.ends_its_tasks();
    }

    /// Hears nothing for a while.
    pub(super) fn is_deaf(&self, time: Duration, troubles: &mut JoinSet<()>) {
        self.say(|| format!("is deaf for {time:?}"));
        let network = Arc::clone(&self.network);
        troubles.spawn(async move { network.deafen(time).await });
    }

    /// May queue from now on, or may not.
    pub(super) fn may_queue(&self, may: bool) {
        self.say(|| format!("may queue: {may}"));
        self.queues.store(may, Ordering::Relaxed);
        self.network.may_queue(may);
    }

    /// Is told what is not so.
    pub(super) fn is_told(&self, event: Event) {
        self.say(|| format!("is told {event:?}"));
        self.network.forge(event);
    }

    /// Is told to ask each time that it has asked, for a while.
    pub(super) fn is_flooded(&self, time: Duration, troubles: &mut JoinSet<()>) {
        self.say(|| format!("is flooded for {time:?}"));
        self.network.floods(true);
        let network = Arc::clone(&self.network);
        troubles.spawn(async move {
            sleep(time).await;
            network.floods(false);
        });
    }

    /// Is shut down.
    pub(super) fn is_shut_down(&self, patience: Duration, troubles: &mut JoinSet<()>) {
        self.say(|| format!("is shut down within {patience:?}"));
        self.is_shut.store(true, Ordering::Relaxed);
        let (engine, gate) = (Arc::clone(&self.engine), self.gate.clone());
        let (oracle, story) = (Arc::clone(&self.oracle), Arc::clone(&self.story));
        let task = troubles.spawn(async move {
            let done = gate.pass(engine.shut_down(patience)).await;
            story.say(|| format!("{} is shut: {done:?}", engine.identity.client()));
            oracle.is_shut(engine.identity.client());
        });
        self.owns(task);
    }
}

/// A clock that is fast or slow by `drift` parts of a million, on a machine that has
/// `slept` for so many milliseconds.
fn clock(drift: i64, slept: Arc<AtomicU64>) -> Clock {
    // More than a slow clock can lose: what a clock says that was slept never shrinks.
    const AHEAD: Duration = Duration::from_secs(1_000);
    let (begun, runs) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let is_running = Arc::clone(&runs);
    let clock = Clock::with(move || {
        if !is_running.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let drifted = begun.elapsed().mul_f64(drift.unsigned_abs() as f64 / 1e6);
        let ahead = AHEAD + Duration::from_millis(slept.load(Ordering::Relaxed));
        if drift < 0 { ahead - drifted } else { ahead + drifted }
    });
    runs.store(true, Ordering::Relaxed);
    clock
}
