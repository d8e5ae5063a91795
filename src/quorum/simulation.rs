//! Simulations of several clients and five servers, each from a seed. The servers stop, resume and
//! lose their data.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{QuorumClient, QuorumLock};
use crate::{MemoryStore, client::Client, domain::Mutex};

const SERVERS: usize = 5;
const TTL: Duration = Duration::from_secs(10);
const STORY: Duration = Duration::from_secs(120);

/// The numbers of the clients that rely on a hold, and the contexts of these holds.
type Believers = Arc<Mutex<Vec<(usize, super::guard::QuorumContext)>>>;

fn millis(range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

/// Acquires the lock again and again. Each time, checks that no other client relies on a hold, and
/// releases the lock.
async fn contend(number: usize, lock: QuorumLock, believers: Believers, until: Instant) -> u32 {
    let mut holds = 0;
    while Instant::now() < until {
        let Ok(guard) = lock.acquire_within(millis(100..20_000)).await else { continue };
        holds += 1;
        let believes = Arc::clone(&believers);
        let outcome = guard.run(async move |held| {
            if held.is_held() {
                let mut others = believes.lock();
                others.retain(|(_, other)| other.is_held());
                let names: Vec<_> = others.iter().map(|(other, _)| *other).collect();
                assert!(names.is_empty(), "client {number} holds the lock beside {names:?}");
                others.push((number, held));
            }
            sleep(millis(0..15_000)).await;
        });
        // The entry in `believers` need not be removed, because the context of a released hold
        // returns `is_held() == false`.
        drop(outcome.await);
        sleep(millis(0..500)).await;
    }
    holds
}

/// Stops at most two servers at a time, or deletes the data of one server. So three servers with
/// their data always run.
async fn trouble(servers: &[MemoryStore], until: Instant) {
    while Instant::now() < until {
        sleep(millis(500..8_000)).await;
        let mut numbers: Vec<usize> = (0..SERVERS).collect();
        fastrand::shuffle(&mut numbers);
        let kind = fastrand::u8(..3);
        if kind == 0 {
            // Two servers reject every request. Before they work again, a third server loses its
            // data.
            let rejecting = &numbers[1..=2];
            rejecting.iter().for_each(|number| servers[*number].fail("LOADING not yet"));
            sleep(millis(100..25_000)).await;
            servers[numbers[0]].lose_everything();
            rejecting.iter().for_each(|number| servers[*number].heal());
            sleep(2 * TTL).await;
        } else if kind == 1 {
            let stopped = &numbers[..fastrand::usize(1..=2)];
            stopped.iter().for_each(|number| servers[*number].stall());
            sleep(millis(100..25_000)).await;
            stopped.iter().for_each(|number| servers[*number].resume());
        } else {
            servers[numbers[0]].lose_everything();
            // After this pause, no client relies on a hold that this server has lost. So at most
            // one server at a time lacks such holds.
            sleep(2 * TTL).await;
        }
    }
}

async fn tell(seed: u64) -> u32 {
    fastrand::seed(seed);
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
    trouble(&servers, until).await;
    let holds = clients.join_all().await.into_iter().sum();
    // A server that was stopped may grant a late request. The client must release this grant, too.
    sleep(6 * TTL).await;
    for server in &servers {
        let left = Client::with_store(server).lock("door").unwrap().holder().await.unwrap();
        assert!(left.is_none(), "left behind: {left:?}");
    }
    holds
}

#[test]
fn simulated_quorum_lock_has_one_holder_at_a_time() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let only = number("LEASEHOLD_SEED");
    let seeds = match only {
        Some(seed) => seed..seed + 1,
        None => 0..number("LEASEHOLD_SEEDS").unwrap_or(25),
    };
    let mut holds = 0;
    for seed in seeds {
        let reported = std::panic::catch_unwind(|| runtime().block_on(tell(seed)));
        holds += reported.unwrap_or_else(|_| panic!("a rule is broken at seed {seed}"));
    }
    assert!(holds > 0 || only.is_some());
    println!("{holds} holds, one at a time");
}
