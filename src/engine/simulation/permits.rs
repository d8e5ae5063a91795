//! A story of permits that expire: the same clients, over the same network.
//!
//! | rule | broken when |
//! |---|---|
//! | no more than there are | clients believe at once in more permits than there are |
//! | free permits are taken | somebody waits though enough of them have been free for long |
//! | nobody's permits are free | in an orderly story one is held for a second that nobody has, asks for or gives back |
//! | no false alarm | a release tells of a loss, and nobody took anything |
//! | a permit is nobody's twice | when all is done there are more or fewer than there should be |
//! | what is over comes back | when every lease is over one of them is not free |
//! | nobody is flooded, counts return to zero | as in every story |

use std::{
    collections::BTreeMap,
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
    plot::{COMMAND_TIMEOUT, LONGEST_POLL, Mood, Plot},
    story::Story,
};
use crate::{
    Client, LostReason, Permits, PermitsGuard, Release, WaitBy,
    domain::{Kind, Object},
    engine::held::Watch,
    error::Error,
    store::memory::MemoryStore,
};

const NAME: &str = "pool";

/// By then what nobody has is free, where nothing is lost.
const NOBODYS: Duration = Duration::from_secs(1);

/// Lives through the story of `seed`.
pub(super) fn run(seed: u64, story: &Arc<Story>) -> Result<(), String> {
    fastrand::seed(seed);
    let mut chance = fastrand::Rng::with_seed(seed);
    let plot = Plot::draw(&mut chance);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let pool = Arc::new(Pool::new(plot, &mut chance, story));
        story.say(|| format!("{} permits, {plot:?}", pool.count));
        pool.live(chance).await
    })
}

/// The permits of a story, and what is known of those who want them.
struct Pool {
    plot: Plot,
    count: u32,
    /// Whether somebody adds permits, and takes some away.
    meddled_with: bool,
    store: MemoryStore,
    oracle: Arc<Oracle>,
    story: Arc<Story>,
    citizens: Vec<Arc<Citizen>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    believers: BTreeMap<u64, Believer>,
    /// How many permits each of those wants who wait, of which client.
    waiting: BTreeMap<u64, (u32, u32)>,
    /// How many each of those may have who try, or give back.
    busy: BTreeMap<u64, u32>,
    /// Since when more are held than anybody may have.
    nobodys_since: Option<Instant>,
    /// Since when enough are free for anybody who waits, and nobody has come in.
    free_since: Option<Instant>,
    entered: u64,
    numbers: u64,
    /// How many there are more, or less; and of how many nobody knows.
    added: i64,
    unsure: Vec<i64>,
    broken: Option<String>,
}

struct Believer {
    watch: Watch,
    permits: u32,
}

impl Pool {
    fn new(plot: Plot, chance: &mut fastrand::Rng, story: &Arc<Story>) -> Self {
        let store = MemoryStore::new();
        let oracle = Oracle::new(&store, story, plot.bounds(), Vec::new());
        let citizen = |number| Citizen::new(number, store.session(), &plot, chance, &oracle, story);
        let citizens = (0..plot.clients).map(citizen).map(Arc::new).collect();
        let (count, meddled_with) = (chance.u32(1..=4), plot.troubles.forgetting);
        let (story, known) = (Arc::clone(story), Mutex::default());
        Self { plot, count, meddled_with, store, oracle, story, citizens, known }
    }

    async fn live(self: Arc<Self>, mut chance: fastrand::Rng) -> Result<(), String> {
        let operator = Client::on(&self.store).permits(NAME).unwrap();
        operator.set(self.count).await.unwrap();
        let (mut workers, mut troubles) = (JoinSet::new(), JoinSet::new());
        for citizen in &self.citizens {
            for number in 0..self.plot.workers {
                let worker = Worker {
                    pool: Arc::clone(&self),
                    citizen: Arc::clone(citizen),
                    label: format!("{}/{number}", citizen.client()),
                    chance: chance.fork(),
                };
                citizen.owns(workers.spawn(worker.work()));
            }
        }
        while !workers.is_empty() {
            while let Some(done) = workers.try_join_next() {
                done.or_else(|e| if e.is_cancelled() { Ok(()) } else { Err(e.to_string()) })?;
            }
            self.trouble(&mut chance, &mut troubles);
            sleep(Duration::from_millis(5)).await;
            self.look();
            let broken = self.known.lock().unwrap().broken.clone();
            if let Some(rule) = broken.or_else(|| self.oracle.broken()) {
                return Err(rule);
            }
        }
        while troubles.join_next().await.is_some() {}
        self.settle(&operator).await
    }

    /// Makes trouble, now and then.
    fn trouble(self: &Arc<Self>, chance: &mut fastrand::Rng, troubles: &mut JoinSet<()>) {
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
        if does.shutdowns && chance.u32(..800) == 0 && citizen.is_well() {
            citizen.is_shut_down(time / 5, troubles);
        }
        if does.forgery && chance.u32(..500) == 0 {
            citizen.is_flooded(time / 50, troubles);
        }
        if self.meddled_with && chance.u32(..100) == 0 && citizen.is_well() {
            let (pool, citizen) = (Arc::clone(self), Arc::clone(citizen));
            let change = if chance.bool() { 1 } else { -1 };
            let task = async move { pool.meddle(&citizen, change, time).await };
            troubles.spawn(task);
        }
    }

    /// Somebody adds a permit, or takes one away.
    async fn meddle(&self, citizen: &Citizen, change: i32, time: Duration) {
        let permits = Client::of(Arc::clone(&citizen.engine)).permits(NAME).unwrap();
        let added = timeout(time, citizen.gate.pass(permits.add(change))).await;
        self.story.say(|| format!("{} adds {change}: {added:?}", citizen.client()));
        let mut known = self.known.lock().unwrap();
        match added {
            Ok(Ok(())) => known.added += i64::from(change),
            _ => known.unsure.push(change.into()),
        }
    }

    /// How many there may be: at least and at most.
    fn bounds(&self, known: &Known) -> (i64, i64) {
        let (fewest, most) = known.unsure.iter().fold((0, 0), |(fewest, most), change| {
            (fewest + change.min(&0), most + change.max(&0))
        });
        let certain = i64::from(self.count) + known.added;
        (certain + fewest, certain + most)
    }

    fn breaks(&self, known: &mut Known, rule: String) {
        self.story.say(|| format!("RULE BROKEN: {rule}"));
        known.broken.get_or_insert(rule);
    }

    /// Looks whether everything is as it must be.
    fn look(&self) {
        let known = &mut *self.known.lock().unwrap();
        // Where permits come and go nobody can say how many there were at a moment.
        let believed = known.believers.values().filter(|it| it.watch.remaining().is_ok());
        let believed: u32 = believed.map(|it| it.permits).sum();
        if believed > self.count && !self.meddled_with {
            let rule = format!("{believed} of {} permits are believed in", self.count);
            self.breaks(known, rule);
        }
        self.look_for_nobodys(known);
        let most = known.waiting.values().map(|(_, permits)| *permits).max();
        let free = self.store.counts(&Object::of(Kind::Permits, NAME)).free;
        known.free_since = match most {
            Some(most) if free >= most.into() => known.free_since.or_else(|| Some(Instant::now())),
            _ => None,
        };
        if let Some(since) = known.free_since.filter(|_| self.plot.is_orderly())
            && since.elapsed() > self.plot.bounds().entered
        {
            let rule = format!("{free} are free, and {most:?} is waited for");
            self.breaks(known, rule);
        }
    }

    /// Looks whether some are held that nobody has, asks for or gives back: those of a guard are
    /// its own until it goes, and of each client one asks at a time who waits.
    fn look_for_nobodys(&self, known: &mut Known) {
        let mut asking = BTreeMap::<u32, u32>::new();
        for (client, permits) in known.waiting.values() {
            let most = asking.entry(*client).or_default();
            *most = (*most).max(*permits);
        }
        let had = known.believers.values().map(|it| it.permits);
        let may: u32 = had.chain(asking.into_values()).chain(known.busy.values().copied()).sum();
        let held = self.store.held(&Object::of(Kind::Permits, NAME));
        known.nobodys_since = match held > may as usize {
            true => known.nobodys_since.or_else(|| Some(Instant::now())),
            false => None,
        };
        let since = known.nobodys_since.filter(|_| self.plot.is_orderly());
        if since.is_some_and(|since| since.elapsed() > NOBODYS) {
            let rule = format!("{held} are held, and {may} may be somebody's");
            self.breaks(known, rule);
        }
    }

    /// After everybody has gone all permits are free.
    async fn settle(&self, operator: &Permits) -> Result<(), String> {
        sleep(Duration::from_secs(6) + self.plot.bounds().lease * 2 + 4 * COMMAND_TIMEOUT).await;
        let (free, held) =
            (operator.available().await.unwrap(), operator.acquired().await.unwrap());
        let (fewest, most) = self.bounds(&self.known.lock().unwrap());
        if held != 0 || free < fewest || free > most {
            let rule = format!("{free} are free and {held} held of {fewest} to {most}");
            return Err(rule);
        }
        for citizen in self.citizens.iter().filter(|citizen| !citizen.is_dead()) {
            let stats = citizen.engine.stats();
            if (stats.held, stats.waiting) != (0, 0) || !citizen.engine.is_idle() {
                return Err(format!("something is left: {:?}", citizen.engine));
            }
        }
        self.story.say(|| format!("the end, after {} grants", self.known.lock().unwrap().entered));
        self.oracle.broken().map_or(Ok(()), Err)
    }

    /// Notes something by a number until what it returns is dropped.
    fn notes(self: &Arc<Self>, note: impl FnOnce(&mut Known, u64)) -> Noted {
        let mut known = self.known.lock().unwrap();
        known.numbers += 1;
        let number = known.numbers;
        note(&mut known, number);
        Noted { pool: Arc::clone(self), number }
    }

    fn waits(self: &Arc<Self>, citizen: &Citizen, permits: u32) -> Noted {
        let client = self.citizens.iter().position(|it| std::ptr::eq(&**it, citizen));
        let client = client.and_then(|client| u32::try_from(client).ok()).unwrap_or(u32::MAX);
        self.notes(|known, number| {
            known.waiting.insert(number, (client, permits));
        })
    }

    fn is_busy(self: &Arc<Self>, permits: u32) -> Noted {
        self.notes(|known, number| {
            known.busy.insert(number, permits);
        })
    }

    fn entered(self: &Arc<Self>, guard: &PermitsGuard) -> Noted {
        let (watch, permits) = (guard.watch(), guard.permits());
        let noted = self.notes(|known, number| {
            known.believers.insert(number, Believer { watch, permits });
            known.free_since = None;
            known.entered += 1;
        });
        self.look();
        noted
    }
}

/// One who waits, or believes, until it is dropped.
struct Noted {
    pool: Arc<Pool>,
    number: u64,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut known = self.pool.known.lock().unwrap();
        known.believers.remove(&self.number);
        known.waiting.remove(&self.number);
        known.busy.remove(&self.number);
    }
}

/// A task that wants permits now and then.
struct Worker {
    pool: Arc<Pool>,
    citizen: Arc<Citizen>,
    label: String,
    chance: fastrand::Rng,
}

impl Worker {
    async fn work(mut self) {
        let gate = self.citizen.gate.clone();
        let rounds = self.pool.plot.rounds;
        gate.pass(async move {
            for _ in 0..rounds {
                sleep(Duration::from_millis(1) + self.up_to(self.pool.plot.rest)).await;
                self.round().await;
            }
        })
        .await;
    }

    fn up_to(&mut self, millis: u64) -> Duration {
        Duration::from_millis(self.chance.u64(..=millis))
    }

    fn say(&self, what: &str) {
        self.pool.story.say(|| format!("{}: {what}", self.label));
    }

    fn permits(&mut self) -> Permits {
        let client = Client::of(Arc::clone(&self.citizen.engine));
        let ttl = self.pool.plot.ttl;
        let permits = client.permits(NAME).unwrap().ttl(ttl);
        let permits = match self.chance.u32(..8) {
            0 | 1 => permits.lease(ttl / 2 + self.up_to(2_000)),
            2 => permits.max_hold(Duration::from_millis(50) + self.up_to(2_000)),
            _ => permits,
        };
        match self.pool.plot.polling && self.chance.u32(..4) == 0 {
            true => permits.wait_by(WaitBy::Polling {
                first: Duration::from_millis(1),
                longest: LONGEST_POLL,
            }),
            false => permits,
        }
    }

    async fn round(&mut self) {
        let permits = self.permits();
        let count = match self.chance.u32(..3) {
            0 => self.chance.u32(1..=self.pool.count),
            _ => 1,
        };
        let Some(guard) = self.enter(&permits, count).await else { return };
        self.say(&format!("enters with {count} as {}", guard.watch().claim().owner));
        // Gone before the guard, wherever this ends.
        let believes = self.pool.entered(&guard);
        let time = match self.chance.u32(..6) {
            0 => self.up_to(30 * self.pool.plot.hold),
            _ => self.up_to(self.pool.plot.hold),
        };
        sleep(time).await;
        let _busy = self.pool.is_busy(count);
        drop(believes);
        self.leave(guard).await;
    }

    async fn enter(&mut self, permits: &Permits, count: u32) -> Option<PermitsGuard> {
        let patience = Duration::from_millis(1) + self.up_to(4_000);
        let way = self.chance.u32(..5);
        let waits = match way {
            0 => self.pool.is_busy(count),
            _ => self.pool.waits(&self.citizen, count),
        };
        let entered = match way {
            0 => permits.try_acquire_many(count).await,
            1 => permits.acquire_many_within(count, patience).await.map(Some),
            2 => match timeout(patience / 8, permits.acquire_many(count)).await {
                Ok(entered) => entered.map(Some),
                Err(_) => Ok(None),
            },
            // Where permits are taken away for good there may never be so many again.
            _ if self.pool.meddled_with => {
                permits.acquire_many_within(count, 2 * patience).await.map(Some)
            }
            _ => permits.acquire_many(count).await.map(Some),
        };
        drop(waits);
        entered.unwrap_or_else(|error| {
            self.say(&format!("does not enter: {error}"));
            let shut = matches!(error, Error::ShutDown) && self.citizen.is_well();
            assert!(!shut && !matches!(error, Error::NoRuntime), "{error}");
            None
        })
    }

    async fn leave(&mut self, guard: PermitsGuard) {
        let owner = guard.watch().claim().owner.clone();
        match self.chance.u32(..4) {
            0 => drop(guard),
            1 => drop(timeout(self.up_to(50), guard.release()).await),
            _ => {
                let released = guard.release().await;
                self.say(&format!("gives back {owner}: {released:?}"));
                if let Ok(Release::AlreadyGone { reason: LostReason::NotOurs, .. }) = released {
                    let known = &mut *self.pool.known.lock().unwrap();
                    let rule = format!("{owner} was told of a loss that was none");
                    self.pool.breaks(known, rule);
                }
            }
        }
    }
}
