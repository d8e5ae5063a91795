//! A quorum lock on five servers, which stop, resume, reject requests and lose their data.

use std::{ops::Range, sync::Arc, time::Duration};

use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::trace::Trace;
use crate::{Client, MemoryStore, QuorumClient, QuorumContext, QuorumLock, domain::Mutex};

const SERVERS: usize = 5;
const TTL: Duration = Duration::from_secs(10);
const STORY: Duration = Duration::from_secs(120);

/// The numbers of the clients that rely on a hold, and the contexts of these holds.
type Believers = Arc<Mutex<Vec<(usize, QuorumContext)>>>;

fn millis(range: Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

/// Acquires the lock again and again. Each time, checks that no other client relies on a hold, and
/// releases the lock. Returns the number of holds.
async fn contend(number: usize, lock: QuorumLock, believers: Believers, until: Instant) -> u32 {
    let mut holds = 0;
    while Instant::now() < until {
        let Ok(guard) = lock.acquire_within(millis(100..20_000)).await else { continue };
        holds += 1;
        let believes = Arc::clone(&believers);
        let outcome = guard.run(async move |held| {
            if held.is_held() {
                // The context of a released hold returns `false`, so its entry goes here.
                let mut others = believes.lock();
                others.retain(|(_, other)| other.is_held());
                let names: Vec<_> = others.iter().map(|(other, _)| *other).collect();
                assert!(names.is_empty(), "client {number} and {names:?} hold the lock");
                others.push((number, held));
            }
            sleep(millis(0..15_000)).await;
        });
        drop(outcome.await);
        sleep(millis(0..500)).await;
    }
    holds
}

/// Repeats one of three faults: two servers reject every request until a third one has lost its
/// data; one or two servers stop; a server loses its data. Three servers with their data always run.
async fn trouble(servers: &[MemoryStore], until: Instant, trace: &Trace) {
    while Instant::now() < until {
        sleep(millis(500..8_000)).await;
        let mut numbers: Vec<usize> = (0..SERVERS).collect();
        fastrand::shuffle(&mut numbers);
        let (fault, stopped) = (fastrand::u8(..3), fastrand::usize(1..=2));
        trace.log(|| format!("fault {fault} at servers {numbers:?}"));
        let down = numbers[1..3].iter().map(|number| &servers[*number]);
        match fault {
            0 => down.clone().for_each(|server| server.fail("LOADING not yet")),
            1 => down.clone().take(stopped).for_each(MemoryStore::stall),
            _ => {}
        }
        if fault < 2 {
            sleep(millis(100..25_000)).await;
        }
        if fault != 1 {
            servers[numbers[0]].lose_everything();
        }
        down.clone().for_each(MemoryStore::heal);
        down.for_each(MemoryStore::resume);
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

async fn live(trace: &Trace) -> Result<(), String> {
    let servers: Vec<_> = (0..SERVERS).map(|_| MemoryStore::new()).collect();
    let (until, believers) = (Instant::now() + STORY, Believers::default());
    let mut clients = JoinSet::new();
    for number in 0..3 {
        let quorum = QuorumClient::of(servers.iter().map(Client::with_store)).unwrap();
        for _ in 0..fastrand::usize(1..=2) {
            let lock = quorum.lock("door").unwrap().ttl(TTL);
            clients.spawn(contend(number, lock, Arc::clone(&believers), until));
        }
    }
    trouble(&servers, until, trace).await;
    if clients.join_all().await.into_iter().sum::<u32>() == 0 {
        return Err("no client ever held the lock".into());
    }
    // A server that was stopped may grant a late request. The client must release this grant, too.
    sleep(6 * TTL).await;
    for server in &servers {
        let lock = Client::with_store(server).lock("door").unwrap();
        if let Some(left) = lock.holder().await.unwrap() {
            return Err(format!("left behind: {left:?}"));
        }
    }
    Ok(())
}
