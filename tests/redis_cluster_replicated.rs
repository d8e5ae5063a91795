//! Acknowledged grants in a cluster. Each node has its own replicas. While a client waits for an
//! acknowledgement, the grant may move to another node or be lost.

use std::{sync::Arc, time::Duration};

use crate::common::{
    SOON,
    cluster::{built, client, has, other_than, owner},
    connections, ms, release_guard, secs, within,
};
use futures_util::future::join_all;
use leasehold::{Client, Error, Lock, LockGuard, Release, Replicas, Result};
use testkit::{Cluster, Failover, Redis, eventually};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep},
};

/// The limit on a busy machine for a step that takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

const NAME: &str = "door";

/// Requires one replica, with a long timeout.
const ONE: Replicas = Replicas::at_least(1).within(PATIENCE);

/// Requires one replica, with a timeout that is too short.
const ONE_IN_VAIN: Replicas = Replicas::at_least(1).within(ms(300));

/// The only replica of the owner of `name`.
fn replica_of(cluster: &Cluster, name: &str) -> Arc<Redis> {
    cluster.replicas_of(&owner(cluster, name)).remove(0)
}

fn lock(client: &Client, name: &str, replicas: Replicas) -> Lock {
    client.lock(name).unwrap().replicated(replicas)
}

/// Starts a task that acquires `lock`. Returns the task when the master has granted the lock.
async fn granted_at(master: &Redis, lock: Lock) -> JoinHandle<Result<LockGuard>> {
    let name = lock.name().to_string();
    let task = tokio::spawn(async move { lock.acquire().await });
    eventually("the master has granted the lock", PATIENCE, || has(master, &name));
    task
}

#[track_caller]
fn is_refused<T>(answer: Result<T>, wanted: u32, got: u32) {
    match answer {
        Err(Error::NotReplicated { wanted: w, got: g, .. }) => assert_eq!((w, g), (wanted, got)),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("the lock was granted, but {got} of {wanted} replicas have it"),
    }
}

/// Asserts that another client can acquire `name` now.
async fn is_free(cluster: &Cluster, name: &str) {
    let other = client(cluster).await;
    release_guard(
        within(PATIENCE, "another client acquires the lock", other.lock(name).unwrap().acquire())
            .await
            .unwrap(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grant_is_acknowledged_by_replicas_of_its_own_node() {
    let cluster = Cluster::start();
    let client = client(&cluster).await;
    for master in cluster.masters() {
        let replica = cluster.replicas_of(&master).remove(0);
        for number in 0..5 {
            let name = cluster.key_on(&master, &format!("door:{number}:"));
            let guard = lock(&client, &name, ONE).acquire().await.unwrap();
            assert!(has(&replica, &name));
            release_guard(guard).await;
        }
        let name = cluster.key_on(&master, "two:");
        let two = Replicas::at_least(2).within(secs(2));
        is_refused(lock(&client, &name, two).acquire().await, 2, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_replica_affects_only_grants_of_its_node() {
    let cluster = Cluster::start();
    let client = client(&cluster).await;
    let elsewhere = cluster.key_on(&other_than(&cluster, NAME), "elsewhere");
    let replica = replica_of(&cluster, NAME);
    replica.pause();
    let begun = Instant::now();
    is_refused(lock(&client, NAME, ONE_IN_VAIN).acquire().await, 1, 0);
    assert!(begun.elapsed() >= ms(300));
    is_free(&cluster, NAME).await;

    let waits = granted_at(&owner(&cluster, NAME), lock(&client, NAME, ONE)).await;
    for _ in 0..50 {
        let guard = lock(&client, &elsewhere, ONE).acquire().await.unwrap();
        release_guard(guard).await;
        let plain = client.lock(format!("{{{NAME}}}:plain")).unwrap();
        release_guard(plain.acquire().await.unwrap()).await;
    }
    assert!(!waits.is_finished(), "the replica of this master is stopped");
    replica.resume();
    let guard =
        within(PATIENCE, "the replica acknowledges the grant", waits).await.unwrap().unwrap();
    assert!(has(&replica, NAME));
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_replicated_locks_share_wait_commands_of_a_node() {
    const LOCKS: usize = 96;
    let cluster = Cluster::start();
    let client = client(&cluster).await;
    let waits = || cluster.masters().iter().map(|it| it.calls().of("wait")).collect::<Vec<_>>();
    release_guard(lock(&client, NAME, ONE).acquire().await.unwrap()).await;
    let before = waits();
    let acquire = |number| {
        let lock = lock(&client, &format!("door:{number}"), ONE);
        async move { lock.acquire().await.unwrap() }
    };
    let guards =
        within(PATIENCE, "the replicas acknowledge all grants", join_all((0..LOCKS).map(acquire)))
            .await;
    for guard in &guards {
        let name = guard.name().as_str();
        assert!(has(&replica_of(&cluster, name), name));
    }
    let asked: u64 = waits().iter().zip(before).map(|(after, before)| after - before).sum();
    assert!((3..=48).contains(&asked), "{asked} WAIT commands for {LOCKS} grants");
    for master in cluster.masters() {
        assert!(connections(&master) <= 3, "{}", connections(&master));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_grant_can_be_replicated_in_a_cluster() {
    let cluster = Cluster::start();
    let client = built(&cluster, Client::builder().replicated(ONE)).await;
    let tagged = |kind: &str| format!("{{{NAME}}}:{kind}");
    client.expirable_semaphore(tagged("permits")).unwrap().set(1).await.unwrap();
    client.semaphore(tagged("pool")).unwrap().set_if_absent(1).await.unwrap();
    let prices = client.read_write_lock(tagged("prices")).unwrap();
    drop(client.fenced_lock(tagged("fenced")).unwrap().acquire().await.unwrap());
    let writing = prices.write().acquire().await.unwrap();
    let reading = prices.downgrade(writing).await.unwrap();
    drop((
        reading,
        client.expirable_semaphore(tagged("permits")).unwrap().acquire().await.unwrap(),
    ));
    drop(client.semaphore(tagged("pool")).unwrap().acquire(1).await.unwrap());

    replica_of(&cluster, NAME).pause();
    let client = built(&cluster, Client::builder().replicated(ONE_IN_VAIN)).await;
    let (permits, pool) =
        (client.expirable_semaphore(tagged("permits")), client.semaphore(tagged("pool")));
    let (permits, pool) = (permits.unwrap(), pool.unwrap());
    is_refused(client.fenced_lock(tagged("fenced")).unwrap().acquire().await, 1, 0);
    is_refused(prices.clone().replicated(ONE_IN_VAIN).read().acquire().await, 1, 0);
    is_refused(client.read_write_lock(tagged("prices")).unwrap().write().acquire().await, 1, 0);
    is_refused(permits.acquire().await, 1, 0);
    is_refused(pool.acquire(1).await, 1, 0);
    assert_eq!(permits.available().await.unwrap(), 1);
    assert_eq!(pool.available().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicated_lock_needs_one_more_permission_in_a_cluster() {
    let cluster = Cluster::start();
    cluster.user("dumb", &["~*", "&*", "+@all", "-wait"]);
    let client = built(&cluster, Client::builder().credentials("dumb", "secret")).await;
    let refused =
        within(SOON, "`acquire` fails", lock(&client, NAME, ONE).acquire()).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Forbidden { command: Some(it), .. } if it == "WAIT"),
        "{refused:?}"
    );
    is_free(&cluster, NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_client_leaves_no_replica_connections() {
    let cluster = Cluster::start();
    let client = client(&cluster).await;
    for master in cluster.masters() {
        let before = connections(&master);
        let name = cluster.key_on(&master, NAME);
        release_guard(lock(&client, &name, ONE).acquire().await.unwrap()).await;
        assert_eq!(connections(&master), before + 1);
    }
    client.shutdown(SOON).await;
    drop(client);
    let are_alone = || cluster.nodes().iter().all(|node| connections(node) == 0);
    eventually("no client is connected any more", PATIENCE, are_alone);
    let tasks = tokio::runtime::Handle::current().metrics();
    eventually("no task is left", PATIENCE, || tasks.num_alive_tasks() == 0);
}

// Failovers.

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_lock_survives_the_death_of_its_node() {
    let cluster = Cluster::options().impatient().start();
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let (master, replica) = (owner(&cluster, NAME), replica_of(&cluster, NAME));
    let guard = lock(&one, NAME, ONE).acquire().await.unwrap();
    master.stop();
    let is_master = || replica.command(&["ROLE"]).list()[0].text() == "master";
    eventually("the replica is promoted", PATIENCE, is_master);
    let seen = other.lock(NAME).unwrap();
    let busy = within(PATIENCE, "`acquire_within` times out", seen.acquire_within(secs(5))).await;
    assert!(matches!(busy, Err(Error::TimedOut { .. })), "{busy:?}");
    assert_eq!(seen.holder().await.unwrap().unwrap().owner(), guard.owner());
    release_guard(guard).await;
    is_free(&cluster, NAME).await;
}

/// After the failover, the new primary does not have the grant, and replicas of the old primary do
/// not count.
#[tokio::test(flavor = "multi_thread")]
async fn unacknowledged_grant_lost_by_a_failover_is_not_returned() {
    let cluster = Cluster::options().links().start();
    let url = cluster.url();
    let client = Client::connect(&url).await.unwrap();
    let (master, replica) = (owner(&cluster, NAME), replica_of(&cluster, NAME));
    let [from, to] = [&master, &replica].map(|node| cluster.name_of(node));
    release_guard(lock(&client, NAME, ONE).acquire().await.unwrap()).await;
    // The replica must have received the release, so that it has no key when the link is cut.
    replica.catch_up_with(&master);
    cluster.links().cut(&from, &to);
    let waits = granted_at(&master, lock(&client, NAME, ONE)).await;
    sleep(ms(300)).await;
    assert!(!has(&replica, NAME) && !waits.is_finished());

    replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    is_refused(within(PATIENCE, "`acquire` fails", waits).await.unwrap(), 1, 0);
    let free = client.lock(NAME).unwrap();
    release_guard(within(PATIENCE, "the client acquires", free.acquire()).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn grant_is_acknowledged_by_replicas_of_the_new_primary() {
    let cluster = Arc::new(Cluster::start());
    let client = client(&cluster).await;
    let (master, replica) = (owner(&cluster, NAME), replica_of(&cluster, NAME));
    let two = Replicas::at_least(2).within(PATIENCE);
    let waits = granted_at(&master, lock(&client, NAME, two)).await;
    let (moved, promoted) = (Arc::clone(&cluster), Arc::clone(&replica));
    let added = spawn_blocking(move || {
        moved.fail_over(&promoted, Failover::Agreed);
        moved.wait_until_ok();
        assert!(!waits.is_finished(), "the master has only one replica");
        (moved.add_replica_of(&promoted), waits)
    });
    let (added, waits) = added.await.unwrap();
    let guard =
        within(PATIENCE, "two replicas acknowledge the grant", waits).await.unwrap().unwrap();
    assert!(has(&master, NAME) && has(&added, NAME));
    release_guard(guard).await;
}

// Migrating slots.

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn moved_grant_is_acknowledged_by_replicas_of_the_new_node() {
    let cluster = Arc::new(Cluster::start());
    let client = client(&cluster).await;
    let (from, to) = (owner(&cluster, NAME), other_than(&cluster, NAME));
    let [of_from, of_to] = [&from, &to].map(|it| cluster.replicas_of(it).remove(0));
    // The test stops the replica instead of pausing it, because a Valkey server cannot move a slot
    // while one of its replicas is paused.
    of_from.stop();
    let waits = granted_at(&from, lock(&client, NAME, ONE)).await;
    let moved = Arc::clone(&cluster);
    spawn_blocking(move || moved.move_slot(Cluster::slot_of(NAME), &to)).await.unwrap();
    let guard = within(PATIENCE, "the replica of the new node acknowledges the grant", waits)
        .await
        .unwrap()
        .unwrap();
    assert!(has(&of_to, NAME));
    release_guard(guard).await;
}

/// The new node has the grant of the old node, but the replica of the new node does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_of_a_node_that_has_lost_the_slot_do_not_count() {
    let cluster = Arc::new(Cluster::start());
    let client = client(&cluster).await;
    let (from, to) = (owner(&cluster, NAME), other_than(&cluster, NAME));
    let [of_from, of_to] = [&from, &to].map(|it| cluster.replicas_of(it).remove(0));
    of_from.stop();
    of_to.stop();
    let soon = Replicas::at_least(1).within(secs(8));
    let waits = granted_at(&from, lock(&client, NAME, soon)).await;
    let moved = Arc::clone(&cluster);
    spawn_blocking(move || moved.move_slot(Cluster::slot_of(NAME), &to)).await.unwrap();
    of_from.start_again();
    of_from.catch_up_with(&from);
    is_refused(within(PATIENCE, "`acquire` fails", waits).await.unwrap(), 1, 0);
    of_to.start_again();
    is_free(&cluster, NAME).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn new_grant_in_a_migrating_slot_is_replicated_by_the_new_node() {
    let cluster = Cluster::start();
    let client = client(&cluster).await;
    let (from, to) = (owner(&cluster, NAME), other_than(&cluster, NAME));
    let [of_from, of_to] = [&from, &to].map(|it| cluster.replicas_of(it).remove(0));
    let stays = format!("{{{NAME}}}:stays");
    let held = client.lock(&stays).unwrap().acquire().await.unwrap();
    let moving = cluster.moving(Cluster::slot_of(NAME), &to);
    moving.open();
    // The client has a connection to the old node, and opens a connection to the future owner.
    let again = lock(&client, NAME, ONE).acquire().await.unwrap();
    assert!(has(&of_to, NAME) && !has(&of_from, NAME));
    assert!(has(&of_from, &stays));
    moving.carry_all();
    moving.close();
    release_guard(again).await;
    release_guard(held).await;
}

/// Former bug: the script removed the field, to add it again. With the last field, the script also
/// removed the key. The old owner of a migrating slot cannot create the key again, so the permit
/// was neither held nor free.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_are_counted_again_for_a_permit_in_a_migrating_slot() {
    let cluster = Cluster::start();
    let client = client(&cluster).await;
    let two = Replicas::at_least(2).within(PATIENCE * 2);
    let permits = client.expirable_semaphore(NAME).unwrap().replicated(two);
    permits.set(1).await.unwrap();
    let master = owner(&cluster, NAME);
    let before = master.calls();
    let waits = tokio::spawn({
        let permits = permits.clone();
        async move { permits.acquire().await }
    });
    let waited_for = || master.calls().since(&before).of("wait") > 0;
    eventually("the client sends WAIT", PATIENCE, waited_for);
    let moving = cluster.moving(Cluster::slot_of(NAME), &other_than(&cluster, NAME));
    moving.open();
    master.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let asked_again = || master.calls().since(&before).of("wait") > 1;
    eventually("the client sends WAIT again", PATIENCE, asked_again);
    let _second = cluster.add_replica_of(&master);
    let guard =
        within(PATIENCE, "two replicas acknowledge the permit", waits).await.unwrap().unwrap();
    assert_eq!(permits.acquired().await.unwrap(), 1);
    moving.call_off();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert_eq!(permits.available().await.unwrap(), 1);
}

#[cfg(feature = "blocking")]
#[test]
fn blocking_lock_waits_for_replicas_in_a_cluster() {
    let cluster = Cluster::start();
    let client = leasehold::blocking::Client::connect(&cluster.url()).unwrap();
    let lock = client.lock(NAME).unwrap().replicated(ONE);
    lock.acquire().unwrap().release().unwrap().into_result().unwrap();
    replica_of(&cluster, NAME).pause();
    is_refused(lock.replicated(ONE_IN_VAIN).acquire(), 1, 0);
    assert!(!has(&owner(&cluster, NAME), NAME));
}
