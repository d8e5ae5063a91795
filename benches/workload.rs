//! A fixed amount of work on a simulated server, for counting instructions.
//!
//! The number of instructions varies less from run to run than the duration does.
//! `benches/instructions.sh` counts the instructions, and compares the counts with
//! `benches/instructions.txt`.

use std::{env, future::Future, time::Duration};

use leasehold::{Client, Lock};
use tokio::task::{JoinSet, yield_now};

/// How many times each kind of work is done.
const TIMES: usize = 5_000;

/// A lease that outlasts the work, even while valgrind slows the work down.
const LEASE: Duration = Duration::from_secs(3_600);

/// The number of tasks that share the work of `hand_overs`.
const TASKS: usize = 64;

fn main() {
    #[cfg(feature = "metrics")]
    metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder().unwrap();
    match env::args().nth(1).as_deref() {
        Some("pairs") => run(pairs()),
        Some("hand-overs") => run(hand_overs()),
        Some("holds") => run(holds()),
        Some("start") => run(start()),
        // `cargo bench` and `cargo test` start this program with flags of their own.
        _ => println!("pairs, hand-overs, holds or start: see benches/instructions.sh"),
    }
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work);
}

/// Connects, loads the scripts of all primitives, and acquires and releases once. `instructions.sh`
/// subtracts these instructions from those of every other kind of work.
async fn start() {
    let lock = Client::in_memory().lock("orders:42").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap().into_result().unwrap();
}

/// Acquires and releases a lock repeatedly.
async fn pairs() {
    let lock = Client::in_memory().lock("orders:42").unwrap();
    for _ in 0..TIMES {
        lock.acquire().await.unwrap().release().await.unwrap().into_result().unwrap();
    }
}

/// Hands a lock off from task to task.
async fn hand_overs() {
    let client = Client::in_memory();
    let always = |lock: Lock| lock.local_handoff(u32::MAX, Duration::from_secs(3_600));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let lock = always(client.lock("orders:42").unwrap());
        tasks.spawn(async move {
            for _ in 0..TIMES / TASKS {
                let guard = lock.acquire().await.unwrap();
                // During this await, the other tasks begin to wait for the lock.
                yield_now().await;
                guard.release().await.unwrap().into_result().unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let handed_off = client.stats().handed_off as usize;
    assert!(handed_off > TIMES * 9 / 10, "only {handed_off} grants were handed off");
}

/// Holds many locks at the same time.
async fn holds() {
    let client = Client::in_memory();
    let mut guards = Vec::with_capacity(TIMES);
    for number in 0..TIMES {
        // A fixed lease is never renewed. The number of renewals would depend on the machine.
        let lock = client.lock(format!("orders:{number}")).unwrap().lease(LEASE);
        guards.push(lock.acquire().await.unwrap());
    }
    assert_eq!(client.stats().held as usize, TIMES);
    for guard in guards {
        guard.release().await.unwrap().into_result().unwrap();
    }
}
