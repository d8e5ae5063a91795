//! Very many holds and waiting tasks of one client of a cluster. The test measures the cost of each
//! hold and task, and checks that none is lost. It also checks that no connection and no key
//! remains. `make limits NUMBER=n` uses n holds and n waiting tasks.

mod common;

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{cluster::built, connections, ms, secs, within};
use futures_util::{StreamExt, stream::iter};
use leasehold::{Client, Lock, LockGuard};
use testkit::{Cluster, Redis};
use tokio::{
    runtime::Handle,
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep},
};

/// The number of holds, and of waiting tasks, if `NUMBER` is not set.
const FEW: usize = 4_000;

/// How many locks a client acquires or releases at the same time.
const AT_ONCE: usize = 256;

/// The limit of one step with the largest `NUMBER`, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// If a count does not change for this long, the test fails. A busy machine is slow, but makes
/// progress.
const STANDS_STILL: Duration = Duration::from_secs(60);

/// A renewal is due after a third of the lease, and may be late by `LONGEST_LAG`.
const TTL: Duration = Duration::from_secs(30);
const LONGEST_LAG: Duration = Duration::from_secs(10);

/// The limit for the memory of one hold or waiter. The limit is far higher than needed, because
/// allocators keep some memory.
const MOST_BYTES: u64 = 16 * 1_024;

/// The number in an environment variable, if it is set.
fn output(variable: &str) -> Option<usize> {
    let output = env::var(variable).ok().filter(|output| !output.is_empty())?;
    Some(output.parse().unwrap_or_else(|_| panic!("`{variable}` is not a number")))
}

/// The memory of this process in bytes.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("the test runs on Linux");
    pages
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .expect("the second field is a number")
        * 4_096
}

/// Prints the time, and the memory that each hold or waiter has used since `before`. Fails if the
/// memory is `MOST_BYTES` or more.
#[track_caller]
fn tell(what: &str, before: u64, number: usize, took: Duration) {
    let each = memory().saturating_sub(before) / number as u64;
    println!("{number} {what}: {each} bytes each, {took:?}");
    assert!(each < MOST_BYTES, "{each} bytes");
}

fn locks(client: &Client, kind: &str, number: usize) -> Vec<Lock> {
    (0..number).map(|at| client.lock(format!("{kind}:{at}")).expect("the name is valid")).collect()
}

async fn acquire_all(locks: Vec<Lock>) -> Vec<LockGuard> {
    let acquired =
        iter(locks).map(|lock| async move { lock.acquire().await.expect("the lock is free") });
    within(PATIENCE, "the client acquires all locks", acquired.buffer_unordered(AT_ONCE).collect())
        .await
}

/// Waits until `count` is `all`, and prints the progress. Fails if the count does not change for
/// `STANDS_STILL`.
async fn until(what: &str, all: usize, count: impl Fn() -> usize + Clone + Send + 'static) {
    let (mut seen, mut since, mut reported) = (usize::MAX, Instant::now(), Instant::now());
    loop {
        let now = spawn_blocking(count.clone()).await.expect("the count does not panic");
        if now == all {
            return;
        }
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        assert!(
            since.elapsed() < STANDS_STILL,
            "{what}: the count stays at {now} and does not reach {all}"
        );
        if reported.elapsed() > secs(1) {
            println!("  {what}: {now}, of {all}");
            reported = Instant::now();
        }
        sleep(ms(50)).await;
    }
}

/// The number of channels with a subscriber, on all nodes together.
fn channels(nodes: &[Arc<Redis>]) -> usize {
    let received = |line: &str| {
        let (kind, count) = line.split_once("_channels:")?;
        count.parse::<usize>().ok().filter(|_| kind.starts_with("pubsub"))
    };
    let count = |node: &Arc<Redis>| {
        node.command(&["INFO", "stats"]).text().lines().filter_map(received).sum::<usize>()
    };
    nodes.iter().map(count).sum()
}

/// The number of connections that should not exist: each client needs two connections to each node.
fn left(nodes: &[Arc<Redis>], clients: usize) -> usize {
    nodes.iter().map(|node| connections(node).saturating_sub(2 * clients)).sum()
}

fn keys(nodes: &[Arc<Redis>]) -> usize {
    let count = |node: &Arc<Redis>| node.command(&["DBSIZE"]).number();
    nodes.iter().map(count).sum::<i64>().try_into().expect("the number of keys is not negative")
}

/// Starts `number` tasks that wait for `locks` in rotation, and waits until the servers have the
/// subscriptions of all tasks. Returns the tasks, and the count of the tasks that have acquired.
async fn wait_for(
    locks: &[Lock],
    number: usize,
    nodes: &[Arc<Redis>],
) -> (JoinSet<()>, Arc<AtomicUsize>) {
    let (mut tasks, entered) = (JoinSet::new(), Arc::<AtomicUsize>::default());
    for lock in locks.iter().cycle().take(number) {
        let (lock, entered) = (lock.clone(), Arc::clone(&entered));
        tasks.spawn(async move {
            let guard = lock.acquire().await.expect("the waiter acquires");
            entered.fetch_add(1, Ordering::Relaxed);
            drop(guard);
        });
    }
    // Each name has three channels: for releases, for the queue, and for this client alone. Without
    // sharded channels there is no queue, so there is only the channel for releases.
    let queues = !nodes[0].command(&["PUBSUB", "SHARDCHANNELS"]).is_error();
    let (all, nodes) = (if queues { 3 } else { 1 } * locks.len(), nodes.to_vec());
    until("subscribed channels", all, move || channels(&nodes)).await;
    (tasks, entered)
}

async fn release_guard(held: Vec<LockGuard>) {
    let given = iter(held).map(LockGuard::release).buffer_unordered(AT_ONCE);
    given.for_each(|released| async { drop(released.expect("the server replies")) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_holds_and_waiters_leave_nothing_behind() {
    let number = output("LEASEHOLD_LIMITS").unwrap_or(FEW);
    let names = output("LEASEHOLD_LIMITS_NAMES").unwrap_or(number).min(number);
    let cluster = Cluster::options().replicas(0).start();
    let nodes = cluster.nodes();
    let patient = Client::builder().ttl(secs(3_600)).release_timeout(PATIENCE);
    let other = built(&cluster, patient).await;
    let others = acquire_all(locks(&other, "wanted", names)).await;

    // when one client has `number` holds, and as many of its tasks wait for other names
    let client = built(&cluster, Client::builder().ttl(TTL)).await;
    let (before, begun) = (memory(), Instant::now());
    let held = acquire_all(locks(&client, "held", number)).await;
    tell("holds", before, number, begun.elapsed());
    let (before, begun) = (memory(), Instant::now());
    let (mut waits, entered) = wait_for(&locks(&client, "wanted", names), number, &nodes).await;
    tell("waiting tasks", before, number, begun.elapsed());

    // then the client keeps all holds, and renews them in time
    let (stats, all) = (client.clone(), number as u64);
    let renewed = client.stats().renewals + all;
    until("missing renewals", 0, move || {
        let stats = stats.stats();
        assert_eq!(stats.held, all, "{stats:?}");
        renewed
            .saturating_sub(stats.renewals)
            .try_into()
            .expect("the number of renewals fits into `usize`")
    })
    .await;
    let stats = client.stats();
    println!("the latest renewal was {:?} late", stats.renewal_lag_max);
    assert!(stats.renewal_lag_max < LONGEST_LAG && stats.waiting == all, "{stats:?}");
    assert!(held.iter().all(LockGuard::is_held), "{stats:?}");
    // A topology refresh may open another connection for a moment.
    let all_nodes = nodes.clone();
    until("connections beyond two per client and node", 0, move || left(&all_nodes, 2)).await;

    // and each waiter acquires when its lock is released
    let begun = Instant::now();
    let given = tokio::spawn(release_guard(others));
    until("waiters that have acquired", number, move || entered.load(Ordering::Relaxed)).await;
    while let Some(done) = waits.join_next().await {
        done.expect("the waiter does not panic");
    }
    given.await.expect("all locks are released");
    println!("{number} waiters have acquired: {:?}", begun.elapsed());
    assert!(held.iter().all(LockGuard::is_held));

    // and no connection is left when the clients are dropped
    drop(held);
    for client in [client, other] {
        assert_eq!(client.shutdown(PATIENCE).await.pending, 0);
    }
    until("remaining keys, connections and channels", 0, move || {
        keys(&nodes) + left(&nodes, 0) + channels(&nodes)
    })
    .await;
    let tasks = Handle::current().metrics();
    until("remaining tasks", 0, move || tasks.num_alive_tasks()).await;
}
