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

/// The tasks that rely on a hold, each with the context of its hold.
type Holders = Mutex<Vec<(String, QuorumContext)>>;

fn check_none(holders: &Holders, when: &str) {
    let mut holders = holders.lock();
    // Removes the entries of released holds, too.
    holders.retain(|(_, held)| held.is_held());
    let tasks: Vec<_> = holders.iter().map(|(task, _)| task).collect();
    assert!(tasks.is_empty(), "{when}, tasks {tasks:?} hold the lock");
}

/// Acquires and releases the lock again and again. During each hold, checks that no other task
/// relies on a hold. Returns the number of holds.
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

/// Causes one fault after the other. Either one to three servers stop, or one server loses its
/// data. In half of the latter cases, two other servers reject every request before. If three
/// servers stop for a *ttl*, checks that no task relies on a hold.
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
        let fail = |server: &MemoryStore| server.fail("LOADING not yet");
        let fault = if stops { MemoryStore::stall } else { fail };
        down.iter().for_each(|number| fault(&servers[*number]));
        sleep(pause).await;
        if number == 3 && pause >= TTL {
            check_none(holders, "without a majority");
        }
        if !stops {
            trace.log(|| format!("server {} loses its data", numbers[0]));
            servers[numbers[0]].lose_everything();
        }
        servers.iter().for_each(MemoryStore::heal);
        servers.iter().for_each(MemoryStore::resume);
        if !stops {
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
    // A stalled server may grant a request late, after its caller has stopped waiting. The client
    // must release this grant, too.
    sleep(6 * TTL).await;
    for server in &servers {
        let lock = Client::with_store(server).lock("door").unwrap();
        assert_eq!(lock.holder().await.unwrap(), None, "left behind");
    }
    Ok(())
}
