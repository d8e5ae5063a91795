//! A quorum lock on five servers, which stop, resume, reject requests and lose their data.

use std::{ops::Range, sync::Arc, time::Duration};

use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::trace::Trace;
use crate::{
    Client, MemoryStore, QuorumClient, QuorumContext, QuorumLock,
    domain::{Identity, Mutex},
};

const SERVERS: usize = 5;
const TTL: Duration = Duration::from_secs(10);
const STORY: Duration = Duration::from_secs(120);

fn millis(range: Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

/// The tasks that rely on a hold, and the contexts of these holds.
#[derive(Clone, Default)]
struct Holders(Arc<Mutex<Vec<(String, QuorumContext)>>>);

impl Holders {
    fn check_none(&self, when: &str) {
        let mut holders = self.0.lock();
        // `is_held` of a released hold returns `false`, so this line removes the entry of the hold.
        holders.retain(|(_, held)| held.is_held());
        let tasks: Vec<_> = holders.iter().map(|(task, _)| task).collect();
        assert!(tasks.is_empty(), "{when}, tasks {tasks:?} hold it");
    }
}

/// Acquires the lock again and again. Each time, checks that no other task relies on a hold, and
/// releases the lock. Returns the number of holds.
async fn contend(task: String, lock: QuorumLock, holders: Holders, trace: Arc<Trace>) -> u32 {
    let (until, mut holds) = (Instant::now() + STORY, 0);
    while Instant::now() < until {
        let Ok(guard) = lock.acquire_within(millis(100..20_000)).await else { continue };
        holds += 1;
        trace.log(|| format!("task {task} holds the lock"));
        let work = async |held: QuorumContext| {
            if held.is_held() {
                holders.check_none(&format!("while task {task} holds the lock"));
                holders.0.lock().push((task.clone(), held));
            }
            sleep(millis(0..15_000)).await;
        };
        let outcome = guard.run(work).await;
        trace.log(|| format!("task {task}: {outcome:?}"));
        sleep(millis(0..500)).await;
    }
    holds
}

/// Causes one fault after the other, each of one of three kinds. Either two servers reject every
/// request until a third server has lost its data. Or one to three servers stop. Or one server
/// loses its data. If three servers stop for a *ttl*, checks that no task relies on a hold.
async fn trouble(servers: &[MemoryStore], holders: Holders, trace: &Trace) {
    let until = Instant::now() + STORY;
    while Instant::now() < until {
        sleep(millis(500..8_000)).await;
        let mut numbers: Vec<usize> = (0..SERVERS).collect();
        fastrand::shuffle(&mut numbers);
        let (fault, stopped) = (fastrand::u8(..3), fastrand::usize(1..=3));
        let down = &numbers[1..=[2, stopped, 0][usize::from(fault)]];
        let pause = if down.is_empty() { Duration::ZERO } else { millis(100..25_000) };
        let name = ["reject requests", "stop", ""][usize::from(fault)];
        trace.log(|| format!("servers {down:?} {name} for {pause:?}"));
        for number in down {
            match fault {
                0 => servers[*number].fail("LOADING not yet"),
                _ => servers[*number].stall(),
            }
        }
        sleep(pause).await;
        if stopped == 3 && fault == 1 && pause >= TTL {
            holders.check_none("without a majority");
        }
        if fault != 1 {
            trace.log(|| format!("server {} loses its data", numbers[0]));
            servers[numbers[0]].lose_everything();
        }
        trace.log(|| "all servers work".into());
        for number in down {
            servers[*number].heal();
            servers[*number].resume();
        }
        if fault != 1 {
            // After this pause, no client relies on a hold that this server has lost. So at most
            // one server at a time lacks such holds.
            sleep(2 * TTL).await;
        }
    }
}

/// Runs the story of `seed`.
pub(super) fn run(seed: u64, trace: &Arc<Trace>) -> Result<(), String> {
    fastrand::seed(seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(live(trace))
}

async fn live(trace: &Arc<Trace>) -> Result<(), String> {
    let servers: Vec<_> = (0..SERVERS).map(|_| MemoryStore::new()).collect();
    let (mut tasks, holders) = (JoinSet::new(), Holders::default());
    for number in 0..3 {
        let clients = servers.iter().zip(0..).map(|(server, at)| {
            // Random ids would differ when the seed is run again.
            let id = format!("{number}-{at}");
            Client::builder().client(Identity::of(&*id), Arc::new(server.store(&id)))
        });
        let quorum = QuorumClient::of(clients).unwrap();
        for task in 0..fastrand::usize(1..=2) {
            let (task, lock) = (format!("{number}/{task}"), quorum.lock("door").unwrap().ttl(TTL));
            tasks.spawn(contend(task, lock, holders.clone(), Arc::clone(trace)));
        }
    }
    trouble(&servers, holders, trace).await;
    if tasks.join_all().await.into_iter().sum::<u32>() == 0 {
        return Err("no task ever held the lock".into());
    }
    // A stalled server executes its requests late, so it may grant one whose caller has given up.
    // The client must release this grant, too.
    sleep(6 * TTL).await;
    for server in &servers {
        let lock = Client::with_store(server).lock("door").unwrap();
        if let Some(left) = lock.holder().await.unwrap() {
            return Err(format!("left behind: {left:?}"));
        }
    }
    Ok(())
}
