//! A quorum lock on five servers, which stop, resume, reject requests, lose replies and lose their
//! data, while an operator releases the lock by force.

use std::{ops::Range, sync::Arc, time::Duration};

use leasehold_twin::{Cut, Delay, Twin};
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::trace::Trace;
use crate::{
    Client, QuorumClient, QuorumContext, QuorumLock, RunOutcome,
    domain::{Identity, Mutex},
    store::RedisStore,
};

const SERVERS: usize = 5;
const TTL: Duration = Duration::from_secs(10);
const RUN_TIME: Duration = Duration::from_secs(120);
/// A vote takes less than this time.
const VOTE: Duration = Duration::from_secs(1);

fn millis(range: Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

/// The latest work of a task.
struct Work {
    task: String,
    held: QuorumContext,
    granted: Instant,
}

/// The start and the end of a forced release.
#[derive(Clone, Copy)]
struct Forced {
    start: Instant,
    end: Instant,
    /// Whether the lock was held at all servers. Then each hold from before `start` has ended.
    was_whole: bool,
}

#[derive(Default)]
struct Judge {
    works: Vec<Work>,
    forced: Option<Forced>,
}

impl Judge {
    /// Checks that no task relies on a hold. After a forced release, the client of a hold notices
    /// the loss within a *ttl*.
    fn check_none(&self, when: &str) {
        let (now, forced) = (Instant::now(), self.forced);
        let noticing = forced.filter(|forced| now < forced.end + TTL + VOTE);
        let excused = |it: &Work| noticing.is_some_and(|forced| it.granted < forced.end + VOTE);
        let wrong = self.works.iter().filter(|work| work.held.is_held() && !excused(work));
        let tasks: Vec<_> = wrong.map(|work| &work.task).collect();
        assert!(tasks.is_empty(), "{when}, tasks {tasks:?} hold the lock");
    }

    fn begins(&mut self, task: &str, held: QuorumContext) {
        self.works.retain(|work| work.task != task);
        if held.is_held() {
            self.check_none(&format!("while task {task} holds the lock"));
            self.works.push(Work { task: task.to_owned(), held, granted: Instant::now() });
        }
    }

    /// Returns whether the hold of the task has ended before the end of its work. After a forced
    /// release, no fault follows for a *ttl*, so that the servers report it.
    fn is_lost(&self, task: &str) -> bool {
        let is_forced =
            |work: &Work| self.forced.is_some_and(|it| it.was_whole && work.granted < it.start);
        self.works.iter().any(|work| work.task == task && (!work.held.is_held() || is_forced(work)))
    }
}

/// The servers, and what all tasks share.
struct World {
    servers: Vec<Twin>,
    judge: Mutex<Judge>,
    trace: Arc<Trace>,
    /// Whether all locks have a fixed lease of one *ttl*.
    is_fixed: bool,
}

impl World {
    /// Returns the lock of a client. Random ids would differ when the seed is run again.
    fn lock(&self, client: &str) -> QuorumLock {
        let clients = self.servers.iter().zip(0..).map(|(server, at)| {
            let id = format!("{client}-{at}");
            let store = RedisStore::simulated(server, &id);
            Client::builder().client(Identity::of(&*id), store.into())
        });
        let lock = QuorumClient::of(clients).unwrap().lock("door").unwrap();
        if self.is_fixed { lock.lease(TTL) } else { lock.ttl(TTL) }
    }

    /// Acquires and releases the lock again and again. During each hold, checks that no other task
    /// relies on a hold. Returns the number of holds.
    async fn contend(self: Arc<Self>, task: String, lock: QuorumLock) -> u32 {
        let (until, mut holds) = (Instant::now() + RUN_TIME, 0);
        while Instant::now() < until {
            let Ok(guard) = lock.acquire_within(millis(100..20_000)).await else { continue };
            holds += 1;
            self.trace.log(|| format!("task {task} holds the lock"));
            let work = async |held: QuorumContext| {
                self.judge.lock().begins(&task, held);
                sleep(millis(0..15_000)).await;
                self.judge.lock().is_lost(&task)
            };
            let outcome = guard.run(work).await;
            self.trace.log(|| format!("task {task}: {outcome:?}"));
            let is_wrong = matches!(outcome, RunOutcome::Completed(true));
            assert!(!is_wrong, "task {task} completed its work, but had lost the lock");
            sleep(millis(0..500)).await;
        }
        holds
    }

    /// Causes one fault after the other, and sometimes a forced release before a fault.
    async fn trouble(&self) {
        let (until, operator) = (Instant::now() + RUN_TIME, self.lock("operator"));
        // If a server lost its data during the first vote, it would look like a new server.
        sleep(2 * VOTE).await;
        while Instant::now() < until {
            sleep(millis(500..8_000)).await;
            if fastrand::u8(..3) == 0 {
                let start = Instant::now();
                let forced = |end, was_whole| {
                    self.judge.lock().forced = Some(Forced { start, end, was_whole });
                };
                forced(start + TTL, false);
                let freed = operator.force_release().await;
                self.trace.log(|| format!("the lock is released by force: {freed:?}"));
                forced(Instant::now(), freed.is_ok_and(|servers| servers == SERVERS));
                sleep(TTL + VOTE).await;
            }
            self.fault().await;
        }
    }

    /// One to three servers stop or lose their replies, or one server loses its data. In half of the
    /// latter cases, two other servers reject every request before. If three servers stop for a
    /// *ttl*, checks that no task relies on a hold.
    async fn fault(&self) {
        let mut servers: Vec<_> = self.servers.iter().zip(0..SERVERS).collect();
        fastrand::shuffle(&mut servers);
        let kind = fastrand::usize(..4);
        let number = if kind < 2 { fastrand::usize(1..=3) } else { 2 * fastrand::usize(..2) };
        let (down, loser) = (&servers[1..=number], servers[0]);
        let pause = if number == 0 { Duration::ZERO } else { millis(100..25_000) };
        let name = ["stop", "lose their replies", "reject requests", "reject requests"][kind];
        let numbers: Vec<_> = down.iter().map(|(_, number)| number).collect();
        self.trace.log(|| format!("servers {numbers:?} {name} for {pause:?}"));
        for (server, _) in down {
            match kind {
                0 => server.stop(),
                1 => drop(server.cut(Cut::Replies, |_| true)),
                _ => server.fail(Some("LOADING not yet")),
            }
        }
        sleep(pause).await;
        if kind == 0 && number == 3 && pause >= TTL {
            self.judge.lock().check_none("without a majority");
        }
        if kind >= 2 {
            self.trace.log(|| format!("server {} loses its data", loser.1));
            loser.0.forget_everything();
        }
        for server in &self.servers {
            server.fail(None);
            server.resume();
        }
        if kind >= 2 {
            // After this pause, no client relies on a hold that this server has lost. So at most
            // one server at a time lacks such holds.
            sleep(2 * TTL).await;
        }
    }
}

pub(super) fn run(seed: u64, trace: &Arc<Trace>) -> Result<(), String> {
    fastrand::seed(seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(live(trace))
}

async fn live(trace: &Arc<Trace>) -> Result<(), String> {
    let servers: Vec<_> = (0..SERVERS).map(|_| Twin::new(fastrand::u64(..))).collect();
    let is_slow = fastrand::bool();
    for server in servers.iter().filter(|_| is_slow) {
        server.delay(Delay::UpTo(millis(1..100)), Delay::UpTo(millis(1..100)));
    }
    let (judge, trace) = (Mutex::default(), Arc::clone(trace));
    let world = Arc::new(World { servers, judge, trace, is_fixed: fastrand::u8(..4) == 0 });
    let mut tasks = JoinSet::new();
    for number in 0..3 {
        let lock = world.lock(&number.to_string());
        for task in 0..fastrand::usize(1..=2) {
            tasks.spawn(Arc::clone(&world).contend(format!("{number}/{task}"), lock.clone()));
        }
    }
    world.trouble().await;
    if tasks.join_all().await.into_iter().sum::<u32>() == 0 {
        return Err("no task ever held the lock".into());
    }
    // A stalled server may grant a request late, after its caller has stopped waiting. The client
    // must release this grant, too.
    sleep(6 * TTL).await;
    for server in &world.servers {
        let client = Client::builder()
            .client(Identity::of("judge"), RedisStore::simulated(server, "judge").into());
        assert_eq!(client.lock("door").unwrap().holder().await.unwrap(), None, "left behind");
    }
    Ok(())
}
