//! Semaphores and latches, over the same engine and network: how many may be in, and who may
//! pass.
//!
//! | rule | broken when |
//! |---|---|
//! | no more than there are | guards have more permits together than the semaphore has |
//! | permits come back | some are taken, or too many are free, when all is done |
//! | nobody starves | one who waits for many does not enter, though those for few rest never |
//! | closed is closed | somebody passes a latch that was closed all the time |
//! | open is open | somebody waits though it has opened |
//!
//! Requests are lost and late, and asked again; but none is doubled on the way: what is
//! asked twice by a network, long after it was answered and given back, nobody can tell.

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    citizen::Citizen,
    oracle::Oracle,
    plot::{Mood, Plot},
    story::Story,
};
use crate::{Client, Latch, Semaphore, store::memory::MemoryStore};

/// By then anybody who can enter or pass has done so.
const SURELY: Duration = Duration::from_secs(120);

/// By then nothing that was asked for is on its way any more.
const SETTLED: Duration = Duration::from_secs(20);

/// By then one who waits for all permits has them, in calm weather, whoever wants some: it
/// is overtaken for a second, and then waits until those are back that are out.
const PATIENCE: Duration = Duration::from_secs(6);

/// Lives through the story of `seed`.
pub(super) fn run(seed: u64, story: &Arc<Story>) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut plot = Plot::draw(&mut chance);
    plot.weather.double = 0;
    plot.weather.late = true;
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        story.say(|| format!("{plot:?}"));
        let world = World::new(plot, &mut chance, story);
        match chance.u32(..3) {
            0 => world.permits(chance).await,
            1 => world.crowd(chance).await,
            _ => world.latch(chance).await,
        }
    })
}

struct World {
    plot: Plot,
    store: MemoryStore,
    citizens: Vec<Arc<Citizen>>,
    facts: Facts,
}

/// What is known to be so.
#[derive(Clone)]
struct Facts(Arc<Mutex<Known>>, Arc<Story>);

#[derive(Default)]
struct Known {
    /// How many permits guards have, and how many there are, at least and at most.
    taken: i64,
    least: i64,
    most: i64,
    /// How often the latch was closed, and whether it may be open.
    closed: u64,
    may_be_open: bool,
    broken: Option<String>,
}

impl Facts {
    fn note<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn entered(&self, who: &str, permits: u32) {
        self.1.say(|| format!("{who} has {permits}"));
        self.note(|known| {
            known.taken += i64::from(permits);
            if known.taken > known.most {
                let rule = format!("{who} enters: {} of {} are taken", known.taken, known.most);
                known.broken.get_or_insert(rule);
            }
        });
    }

    fn leaves(&self, who: &str, permits: u32) {
        self.1.say(|| format!("{who} gives {permits} back"));
        self.note(|known| known.taken -= i64::from(permits));
    }

    fn held(&self) -> Result<(), String> {
        self.note(|known| known.broken.take().map_or(Ok(()), Err))
    }
}

/// One task of a client.
struct Worker {
    label: String,
    citizen: Arc<Citizen>,
    facts: Facts,
    chance: fastrand::Rng,
    plot: Plot,
}

impl Worker {
    fn semaphore(&self) -> Semaphore {
        Client::of(Arc::clone(&self.citizen.engine)).semaphore("pool").unwrap()
    }

    fn latch(&self) -> Latch {
        Client::of(Arc::clone(&self.citizen.engine)).latch("start").unwrap()
    }

    async fn rest(&mut self, most: u64) {
        sleep(Duration::from_millis(1 + self.chance.u64(..=most))).await;
    }

    /// Wants permits again and again, and gives them back in every way.
    async fn takes_permits(mut self, there_are: u32) {
        let semaphore = self.semaphore();
        for _ in 0..self.plot.rounds {
            self.rest(self.plot.rest).await;
            let wanted = self.chance.u32(1..=there_are);
            let patience = Duration::from_millis(self.chance.u64(1..=8_000));
            let guard = match self.chance.u32(..4) {
                0 => semaphore.try_acquire(wanted).await.ok().flatten(),
                1 => timeout(patience, semaphore.acquire(wanted)).await.ok().and_then(Result::ok),
                _ => semaphore.acquire_within(wanted, patience).await.ok(),
            };
            let Some(guard) = guard else { continue };
            self.facts.entered(&self.label, wanted);
            self.rest(self.plot.hold).await;
            self.facts.leaves(&self.label, wanted);
            match self.chance.u32(..4) {
                0 => drop(guard),
                1 => {
                    guard.forget();
                    self.brings_back(&semaphore, wanted).await;
                }
                _ => drop(guard.release().await),
            }
        }
    }

    /// Adds permits that were forgotten.
    async fn brings_back(&mut self, semaphore: &Semaphore, permits: u32) {
        let permits = i64::from(permits);
        self.facts.note(|known| {
            (known.least, known.most) = (known.least - permits, known.most - permits);
        });
        self.rest(self.plot.hold).await;
        // Nobody but us has forgotten as many: they are there from when we begin to ask.
        self.facts.note(|known| known.most += permits);
        if semaphore.add(permits).await.is_ok() {
            self.facts.note(|known| known.least += permits);
        }
    }

    /// Has one permit all the time, almost.
    async fn never_rests(mut self) {
        let semaphore = self.semaphore();
        loop {
            let Ok(guard) = semaphore.acquire(1).await else { return };
            self.facts.entered(&self.label, 1);
            self.rest(20).await;
            self.facts.leaves(&self.label, 1);
            drop(guard.release().await);
        }
    }

    /// Waits for a latch again and again.
    async fn passes(mut self) {
        let latch = self.latch();
        for _ in 0..self.plot.rounds {
            self.rest(self.plot.rest).await;
            let before = self.facts.note(|known| (known.closed, known.may_be_open));
            if self.chance.u32(..5) == 0 {
                let impatience = Duration::from_millis(self.chance.u64(1..=500));
                if !matches!(timeout(impatience, latch.wait()).await, Ok(Ok(()))) {
                    continue;
                }
            } else {
                match timeout(SURELY, latch.wait()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return self.breaks(error.to_string()),
                    Err(_) => return self.breaks("waits for ever".into()),
                }
            }
            self.facts.1.say(|| format!("{} passes", self.label));
            let after = self.facts.note(|known| (known.closed, known.may_be_open));
            if before == after && !after.1 {
                self.breaks("passes a closed latch".into());
            }
        }
    }

    fn breaks(&self, rule: String) {
        let rule = format!("{} {rule}", self.label);
        self.facts.note(|known| known.broken.get_or_insert(rule).clone());
    }

    /// Closes a latch and counts it down, again and again.
    async fn counts(mut self) {
        let latch = self.latch();
        for _ in 0..self.plot.rounds {
            until_known(|| latch.set(3)).await;
            self.facts.note(|known| {
                (known.closed, known.may_be_open) = (known.closed + 1, false);
            });
            self.facts.1.say(|| "closed".into());
            while until_known(|| latch.count()).await > 0 {
                self.rest(self.plot.rest).await;
                if until_known(|| latch.count()).await <= 1 {
                    self.facts.note(|known| known.may_be_open = true);
                }
                let left = latch.count_down().await;
                self.facts.1.say(|| format!("counted down: {left:?}"));
                if left.is_err() {
                    sleep(SETTLED).await;
                }
            }
        }
    }
}

/// Asks until there is an answer; nothing of it is on its way any more then.
async fn until_known<T, F: Future<Output = crate::Result<T>>>(ask: impl Fn() -> F) -> T {
    loop {
        if let Ok(answer) = ask().await {
            return answer;
        }
        sleep(SETTLED).await;
    }
}

impl World {
    fn new(plot: Plot, chance: &mut fastrand::Rng, story: &Arc<Story>) -> Self {
        let store = MemoryStore::new();
        let oracle = Oracle::new(&store, story, plot.bounds(), Vec::new());
        let citizen = |number| Citizen::new(number, store.session(), &plot, chance, &oracle, story);
        let citizens = (0..plot.clients).map(citizen).map(Arc::new).collect();
        Self { plot, store, citizens, facts: Facts(Arc::default(), Arc::clone(story)) }
    }

    fn workers(&self, chance: &mut fastrand::Rng) -> Vec<Worker> {
        let worker = |number: usize| {
            let citizen = Arc::clone(&self.citizens[number % self.citizens.len()]);
            let label = format!("{}/{}", citizen.client(), number / self.citizens.len());
            let (facts, chance) = (self.facts.clone(), chance.fork());
            Worker { label, citizen, facts, chance, plot: self.plot }
        };
        let all = self.citizens.len() * self.plot.workers as usize;
        (0..all).map(worker).collect()
    }

    /// Lets all of `work` end, whatever happens to the clients meanwhile.
    async fn live(&self, mut work: JoinSet<()>, mut chance: fastrand::Rng) -> Result<(), String> {
        let mut troubles = JoinSet::new();
        while !work.is_empty() {
            while let Some(done) = work.try_join_next() {
                done.map_err(|error| error.to_string())?;
            }
            sleep(Duration::from_millis(5)).await;
            self.facts.held()?;
            let citizen = &self.citizens[chance.usize(..self.citizens.len())];
            let time = Duration::from_millis(chance.u64(1..=5_000));
            if self.plot.troubles.pauses && chance.u32(..400) == 0 {
                citizen.is_paused(time);
            }
            if self.plot.mood != Mood::Calm && chance.u32(..400) == 0 {
                citizen.is_deaf(time, &mut troubles);
            }
        }
        while troubles.join_next().await.is_some() {}
        // Withdrawals look again for so long, and are asked again.
        sleep(Duration::from_secs(60)).await;
        self.facts.held()
    }

    async fn permits(self, mut chance: fastrand::Rng) -> Result<(), String> {
        let there_are = chance.u32(1..=4);
        self.has(there_are).await;
        let mut work = JoinSet::new();
        for worker in self.workers(&mut chance) {
            let gate = worker.citizen.gate.clone();
            work.spawn(async move { gate.pass(worker.takes_permits(there_are)).await });
        }
        self.live(work, chance).await?;
        self.all_came_back().await
    }

    /// One wants them all, and the others one each, again and again.
    async fn crowd(mut self, mut chance: fastrand::Rng) -> Result<(), String> {
        self.plot.workers = 3;
        let there_are = chance.u32(2..=3);
        self.has(there_are).await;
        let mut workers = self.workers(&mut chance);
        let patient = workers.swap_remove(0);
        // Those of its own client stand in line behind it.
        let patients = patient.citizen.client().to_owned();
        workers.retain(|worker| worker.citizen.client() != patients);
        let crowd: Vec<_> =
            workers.into_iter().map(|worker| tokio::spawn(worker.never_rests())).collect();
        for _ in 0..2 {
            sleep(Duration::from_millis(100)).await;
            let (began, semaphore) = (Instant::now(), patient.semaphore());
            let entered = timeout(SURELY, semaphore.acquire(there_are)).await;
            let waited = began.elapsed();
            let late = self.plot.mood == Mood::Calm && waited > PATIENCE;
            let Some(Ok(guard)) = entered.ok().filter(|_| !late) else {
                return Err(format!("one who wants {there_are} waited for {waited:?}"));
            };
            patient.facts.entered(&patient.label, there_are);
            patient.facts.leaves(&patient.label, there_are);
            drop(guard);
        }
        self.facts.held()?;
        crowd.iter().for_each(tokio::task::JoinHandle::abort);
        sleep(Duration::from_secs(60)).await;
        self.all_came_back().await
    }

    async fn latch(self, mut chance: fastrand::Rng) -> Result<(), String> {
        let mut workers = self.workers(&mut chance);
        let counter = workers.swap_remove(0);
        self.facts.note(|known| known.may_be_open = true);
        let mut work = JoinSet::new();
        let gate = counter.citizen.gate.clone();
        work.spawn(async move { gate.pass(counter.counts()).await });
        for worker in workers {
            let gate = worker.citizen.gate.clone();
            work.spawn(async move { gate.pass(worker.passes()).await });
        }
        self.live(work, chance).await?;
        self.nothing_is_left()
    }

    async fn has(&self, permits: u32) {
        let semaphore = Client::on(&self.store).semaphore("pool").unwrap();
        semaphore.set_if_absent(permits).await.unwrap();
        let permits = permits.into();
        self.facts.note(|known| {
            (known.least, known.most) = (permits, permits);
        });
    }

    async fn all_came_back(&self) -> Result<(), String> {
        let semaphore = Client::on(&self.store).semaphore("pool").unwrap();
        let free = semaphore.available().await.unwrap();
        let (least, most) = self.facts.note(|known| (known.least, known.most));
        if free < least || free > most {
            return Err(format!("{free} are free, of {least} to {most}"));
        }
        self.nothing_is_left()
    }

    fn nothing_is_left(&self) -> Result<(), String> {
        for citizen in &self.citizens {
            let stats = citizen.engine.stats();
            if (stats.held, stats.waiting) != (0, 0) || !citizen.engine.is_idle() {
                return Err(format!("something is left: {:?}", citizen.engine));
            }
        }
        match self.store.is_idle() {
            true => Ok(()),
            false => Err(format!("something is left in the store: {:?}", self.store)),
        }
    }
}
