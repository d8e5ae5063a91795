//! A quorum lock on five servers, which stop, resume, reject requests, lose replies and lose their
//! data.

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use leasehold_twin::{Cut, Delay, Twin};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{in_virtual_time, trace::Trace};
use crate::{
    Client, QuorumClient, QuorumContext, QuorumLock, RunOutcome,
    domain::{Identity, Mutex},
    store::RedisStore,
};

const SERVERS: usize = 5;
const MAJORITY: usize = 3;
const TTL: Duration = Duration::from_secs(10);
const RUN_TIME: Duration = Duration::from_secs(120);

fn millis(range: Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

/// The servers, and what all tasks share.
struct World {
    servers: Vec<Twin>,
    /// Each task that has held the lock, and its latest hold.
    holds: Mutex<BTreeMap<String, QuorumContext>>,
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

    /// Checks that no task relies on a hold.
    fn check_none(&self, when: &str) {
        let holds = self.holds.lock();
        let tasks: Vec<_> =
            holds.iter().filter(|(_, held)| held.is_held()).map(|(task, _)| task).collect();
        assert!(tasks.is_empty(), "{when}, tasks {tasks:?} hold the lock");
    }

    /// Returns how many servers have a hold of the client of this task.
    fn grants_of(&self, task: &str) -> usize {
        let client = task.split('/').next().unwrap();
        let is_own = |(server, at): &(&Twin, usize)| {
            let holds = server.hash("door").unwrap_or_default();
            holds.iter().any(|(owner, _)| owner.starts_with(&format!("{client}-{at}:")))
        };
        self.servers.iter().zip(0..).filter(is_own).count()
    }

    /// Acquires and releases the lock again and again. During each hold, checks that no other task
    /// relies on a hold.
    async fn contend(self: Arc<Self>, task: String, lock: QuorumLock) {
        let until = Instant::now() + RUN_TIME;
        while Instant::now() < until {
            let Ok(guard) = lock.acquire_within(millis(100..20_000)).await else { continue };
            self.trace.log(|| format!("task {task} holds the lock"));
            let work = async |held: QuorumContext| {
                self.holds.lock().remove(&task);
                if held.is_held() {
                    self.check_none(&format!("while task {task} holds the lock"));
                }
                self.holds.lock().insert(task.clone(), held.clone());
                sleep(millis(0..15_000)).await;
                !held.is_held() || self.grants_of(&task) < MAJORITY
            };
            let outcome = guard.run(work).await;
            self.trace.log(|| format!("task {task}: {outcome:?}"));
            assert!(!matches!(outcome, RunOutcome::Completed(true)), "{task} had lost the lock");
            sleep(millis(0..500)).await;
        }
    }

    /// One to three servers stop or lose their replies, or one to three servers lose their data. In
    /// some of the latter cases, two other servers reject every request before. If three servers
    /// stop for a *ttl*, checks that no task relies on a hold.
    async fn fault(&self) {
        let mut servers: Vec<_> = self.servers.iter().zip(0..SERVERS).collect();
        fastrand::shuffle(&mut servers);
        let kind = fastrand::usize(..4).min(2);
        let number =
            if kind < 2 { fastrand::usize(1..=MAJORITY) } else { 2 * fastrand::usize(..2) };
        let losers = if number == 0 { fastrand::usize(1..=MAJORITY) } else { 1 };
        let pause = if number == 0 { Duration::ZERO } else { millis(100..25_000) };
        for (server, number) in &servers[1..=number] {
            let name = ["stops", "loses its replies", "rejects requests"][kind];
            self.trace.log(|| format!("server {number} {name} for {pause:?}"));
            match kind {
                0 => server.stop(),
                1 => drop(server.cut(Cut::Replies, |_| true)),
                _ => server.fail(Some("LOADING not yet")),
            }
        }
        sleep(pause).await;
        if kind == 0 && number == MAJORITY && pause >= TTL {
            self.check_none("without a majority");
        }
        for server in &self.servers {
            server.fail(None);
            server.resume();
        }
        if kind == 2 {
            for (server, number) in &servers[..losers] {
                self.trace.log(|| format!("server {number} loses its data"));
                server.forget_everything();
            }
            // After this pause, no client relies on a hold that these servers have lost.
            sleep(2 * TTL).await;
        }
    }
}

pub(super) fn run(seed: u64, trace: &Arc<Trace>) -> Result<(), String> {
    fastrand::seed(seed);
    in_virtual_time(live(trace))
}

async fn live(trace: &Arc<Trace>) -> Result<(), String> {
    let servers: Vec<_> = (0..SERVERS).map(|_| Twin::new(fastrand::u64(..))).collect();
    let is_slow = fastrand::bool();
    for server in servers.iter().filter(|_| is_slow) {
        server.delay(Delay::UpTo(millis(1..100)), Delay::UpTo(millis(1..100)));
    }
    let (holds, trace) = (Mutex::default(), Arc::clone(trace));
    let world = Arc::new(World { servers, holds, trace, is_fixed: fastrand::u8(..4) == 0 });
    let mut tasks = JoinSet::new();
    for number in 0..3 {
        let lock = world.lock(&number.to_string());
        for task in 0..fastrand::usize(1..=2) {
            tasks.spawn(Arc::clone(&world).contend(format!("{number}/{task}"), lock.clone()));
        }
    }
    // If a server lost its data during the first vote, it would look like a new server.
    sleep(Duration::from_secs(2)).await;
    let until = Instant::now() + RUN_TIME;
    while Instant::now() < until {
        sleep(millis(500..8_000)).await;
        world.fault().await;
    }
    tasks.join_all().await;
    if world.holds.lock().is_empty() {
        return Err("no task ever held the lock".into());
    }
    // A stalled server may grant a request late, after its caller has stopped waiting. The client
    // must release this grant, too.
    sleep(6 * TTL).await;
    for server in &world.servers {
        assert_eq!(server.hash("door"), None, "left behind");
    }
    Ok(())
}
