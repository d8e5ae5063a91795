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
const RUN_TIME: Duration = Duration::from_secs(120);

fn millis(range: Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

/// The tasks that rely on a hold, and the contexts of these holds.
type Holders = Mutex<Vec<(String, QuorumContext)>>;

fn check_none(holders: &Holders, when: &str) {
    let mut holders = holders.lock();
    // `is_held` of a released hold returns `false`, so this line removes the entry of the hold.
    holders.retain(|(_, held)| held.is_held());
    let tasks: Vec<_> = holders.iter().map(|(task, _)| task).collect();
    assert!(tasks.is_empty(), "{when}, tasks {tasks:?} hold it");
}

/// Acquires the lock again and again. Each time, checks that no other task relies on a hold, and
/// releases the lock. Returns the number of holds.
async fn contend(task: String, lock: QuorumLock, holders: Arc<Holders>, trace: Arc<Trace>) -> u32 {
    let (until, mut holds) = (Instant::now() + RUN_TIME, 0);
    while Instant::now() < until {
        let Ok(guard) = lock.acquire_within(millis(100..20_000)).await else { continue };
        holds += 1;
        trace.log(|| format!("task {task} holds the lock"));
        let work = async |held: QuorumContext| {
            if held.is_held() {
                check_none(&holders, &format!("while task {task} holds the lock"));
                holders.lock().push((task.clone(), held));
            }
            sleep(millis(0..15_000)).await;
        };
        let outcome = guard.run(work).await;
        trace.log(|| format!("task {task}: {outcome:?}"));
        sleep(millis(0..500)).await;
    }
    holds
}

/// Causes one fault after the other. Either one to three servers stop. Or one server loses its data,
/// and in half of these cases two others reject every request until then. If three servers stop for
/// a *ttl*, checks that no task relies on a hold.
async fn trouble(servers: &[MemoryStore], holders: &Holders, trace: &Trace) {
    let until = Instant::now() + RUN_TIME;
    while Instant::now() < until {
        sleep(millis(500..8_000)).await;
        let mut numbers: Vec<usize> = (0..SERVERS).collect();
        fastrand::shuffle(&mut numbers);
        let stops = fastrand::u8(..3) == 0;
        let number = if stops { fastrand::usize(1..=3) } else { 2 * fastrand::usize(..2) };
        let down = &numbers[1..=number];
        let pause = if number == 0 { Duration::ZERO } else { millis(100..25_000) };
        trace.log(|| format!("servers {down:?} fail for {pause:?}; stopped: {stops}"));
        for server in down.iter().map(|number| &servers[*number]) {
            match stops {
                true => server.stall(),
                false => server.fail("LOADING not yet"),
            }
        }
        sleep(pause).await;
        if number == 3 && pause >= TTL {
            check_none(holders, "without a majority");
        }
        if !stops {
            trace.log(|| format!("server {} loses its data", numbers[0]));
            servers[numbers[0]].lose_everything();
        }
        trace.log(|| "all servers work".into());
        for number in down {
            servers[*number].heal();
            servers[*number].resume();
        }
        if !stops {
            // After this pause, no client relies on a hold that this server has lost. So at most
            // one server at a time lacks such holds.
            sleep(2 * TTL).await;
        }
    }
}

/// Runs the simulation of `seed`.
pub(super) fn run(seed: u64, trace: &Arc<Trace>) -> Result<(), String> {
    fastrand::seed(seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(live(trace))
}

async fn live(trace: &Arc<Trace>) -> Result<(), String> {
    let servers: Vec<_> = (0..SERVERS).map(|_| MemoryStore::new()).collect();
    let (mut tasks, holders) = (JoinSet::new(), Arc::<Holders>::default());
    for number in 0..3 {
        let clients = servers.iter().zip(0..).map(|(server, at)| {
            // Random ids would differ when the seed is run again.
            let id = format!("{number}-{at}");
            Client::builder().client(Identity::of(&*id), Arc::new(server.store(&id)))
        });
        let quorum = QuorumClient::of(clients).unwrap();
        for task in 0..fastrand::usize(1..=2) {
            let (task, lock) = (format!("{number}/{task}"), quorum.lock("door").unwrap().ttl(TTL));
            tasks.spawn(contend(task, lock, Arc::clone(&holders), Arc::clone(trace)));
        }
    }
    trouble(&servers, &holders, trace).await;
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
