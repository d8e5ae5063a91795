//! Simulated runs of several clients and five servers, by seed. The servers stop, resume and lose
//! their data.

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

/// The numbers of the clients that rely on a hold.
type Believers = Arc<Mutex<Vec<(usize, super::guard::QuorumContext)>>>;

fn millis(range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

/// Repeatedly acquires, checks that no other client relies on a hold, and releases.
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
        // The context of a released hold reports no hold.
        drop(outcome.await);
        sleep(millis(0..500)).await;
    }
    holds
}

/// Stops at most two servers at a time, or deletes the data of one. So a majority always runs with
/// its data.
async fn trouble(servers: &[MemoryStore], until: Instant) {
    while Instant::now() < until {
        sleep(millis(500..8_000)).await;
        let mut numbers: Vec<usize> = (0..SERVERS).collect();
        fastrand::shuffle(&mut numbers);
        let kind = fastrand::u8(..3);
        if kind == 0 {
            // Two servers reject everything. A third loses its data before they work again.
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
            // Only one server at a time lacks holds on which clients may still rely.
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
    // A stopped server may grant a late request. That grant must be released, too.
    sleep(6 * TTL).await;
    for server in &servers {
        let left = Client::with_store(server).lock("door").unwrap().holder().await.unwrap();
        assert!(left.is_none(), "left behind: {left:?}");
    }
    holds
}

#[test]
fn one_client_at_a_time_relies_on_a_hold() {
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
