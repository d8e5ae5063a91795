//! Very many holds, and very many tasks that wait, of one client of a cluster: what they take, that
//! none is lost, and that nothing is left. `make limits NUMBER=n` has so many of each.
#![cfg(feature = "redis")]

mod common;

use std::{env, sync::Arc, time::Duration};

use common::{cluster::built, connections, secs, within};
use futures_util::{StreamExt, stream::iter};
use leasehold::{Client, Lock, LockGuard, Result};
use testkit::{Cluster, Redis, eventually};
use tokio::{
    runtime::Handle,
    task::{JoinHandle, spawn_blocking},
    time::Instant,
};

/// So many of each, unless somebody says so.
const FEW: usize = 4_000;

/// So many are acquired at the same time.
const AT_ONCE: usize = 256;

/// A busy machine with a hundred thousand of each may take so long for one step.
const PATIENCE: Duration = Duration::from_secs(600);

/// How late a renewal may come, which is due when a third of the lease is over.
const TTL: Duration = Duration::from_secs(30);
const LATEST: Duration = Duration::from_secs(10);

/// Much more than is needed. Allocators keep some.
const MOST_BYTES: u64 = 16 * 1_024;

fn number() -> usize {
    let said = env::var("LEASEHOLD_LIMITS").ok().filter(|said| !said.is_empty());
    said.map_or(FEW, |said| said.parse().expect("LEASEHOLD_LIMITS is a number"))
}

/// How many bytes this process has in memory.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("it is a number")
        * 4_096
}

/// What each of so many has taken since there were `before`, and how long it took.
#[track_caller]
fn tell(what: &str, before: u64, number: usize, took: Duration) {
    let each = memory().saturating_sub(before) / number as u64;
    println!("{number} {what}: {each} bytes each, {took:?}");
    assert!(each < MOST_BYTES, "{each} bytes");
}

fn locks(client: &Client, kind: &str, number: usize) -> Vec<Lock> {
    (0..number).map(|at| client.lock(format!("{kind}:{at}")).expect("it is a name")).collect()
}

async fn acquire_all(locks: Vec<Lock>) -> Vec<LockGuard> {
    let acquired = iter(locks).map(|lock| async move { lock.acquire().await.expect("it is free") });
    within(PATIENCE, "all are held", acquired.buffer_unordered(AT_ONCE).collect()).await
}

async fn until(what: &'static str, done: impl Fn() -> bool + Send + 'static) {
    spawn_blocking(move || eventually(what, PATIENCE, done)).await.expect("it comes");
}

/// On how many channels somebody listens.
fn channels(nodes: &[Arc<Redis>]) -> usize {
    let count = |node: &Arc<Redis>| {
        let info = node.command(&["INFO", "stats"]);
        let line = info.text().lines().find_map(|it| it.strip_prefix("pubsubshard_channels:"));
        line.and_then(|it| it.parse::<usize>().ok()).expect("it says so")
    };
    nodes.iter().map(count).sum()
}

/// Tasks that wait for each of `locks`, when the servers know of all.
async fn wait_for(locks: Vec<Lock>, nodes: &[Arc<Redis>]) -> Vec<JoinHandle<Result<LockGuard>>> {
    // Each listens where it is released, where those queue, and where it is told its turn.
    let (all, nodes) = (3 * locks.len(), nodes.to_vec());
    let task = |lock: Lock| tokio::spawn(async move { lock.acquire().await });
    let tasks = locks.into_iter().map(task).collect();
    until("all are heard", move || channels(&nodes) >= all).await;
    tasks
}

/// Gives all of `held` back, and sees each of `waits` enter.
async fn pass_on(held: Vec<LockGuard>, waits: Vec<JoinHandle<Result<LockGuard>>>) {
    let given = iter(held).map(LockGuard::release).buffer_unordered(AT_ONCE);
    let given =
        tokio::spawn(given.for_each(|released| async { drop(released.expect("it answers")) }));
    for wait in waits {
        let entered = within(PATIENCE, "it enters", wait).await.expect("it does not panic");
        drop(entered.expect("it enters"));
    }
    given.await.expect("all are given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_holds_and_tasks_that_wait_of_one_client_are_kept_and_leave_nothing() {
    let number = number();
    let cluster = Cluster::options().replicas(0).start();
    let nodes = cluster.nodes();
    let patient = Client::builder().ttl(secs(3_600)).release_timeout(PATIENCE);
    let other = built(&cluster, patient).await;
    let others = acquire_all(locks(&other, "wanted", number)).await;

    // when one client has so many, and waits for as many
    let client = built(&cluster, Client::builder().ttl(TTL)).await;
    let (before, begun) = (memory(), Instant::now());
    let held = acquire_all(locks(&client, "held", number)).await;
    tell("holds", before, number, begun.elapsed());
    let (before, begun) = (memory(), Instant::now());
    let waits = wait_for(locks(&client, "wanted", number), &nodes).await;
    tell("tasks that wait", before, number, begun.elapsed());
    assert!(nodes.iter().all(|node| connections(node) <= 4), "at most two of each client");

    // then all holds are kept, in time
    let (stats, all) = (client.clone(), number as u64);
    let renewed = client.stats().renewals + all;
    let is_over = move || stats.stats().renewals >= renewed || stats.stats().held < all;
    until("all are renewed once more", is_over).await;
    let stats = client.stats();
    println!("the latest renewal was {:?} late", stats.renewal_lag_max);
    assert!(stats.renewal_lag_max < LATEST && stats.waiting == all, "{stats:?}");
    assert!(held.iter().all(LockGuard::is_held), "{stats:?}");

    // and each who waits enters when it can
    let begun = Instant::now();
    pass_on(others, waits).await;
    println!("{number} hand-overs: {:?}", begun.elapsed());
    assert!(held.iter().all(LockGuard::is_held));

    // and nothing is left when the clients are gone
    drop(held);
    for client in [client, other] {
        assert_eq!(client.shutdown(PATIENCE).await.unsettled, 0);
    }
    until("nobody is connected or listens, and the last queue has gone", move || {
        let is_empty = |node: &Arc<Redis>| node.command(&["DBSIZE"]).number() == 0;
        nodes.iter().all(|node| connections(node) == 0 && is_empty(node)) && channels(&nodes) == 0
    })
    .await;
    let tasks = Handle::current().metrics();
    until("no task is left", move || tasks.num_alive_tasks() == 0).await;
}
