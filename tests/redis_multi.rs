//! The multi-lock on real servers: tests that are ported from Redisson, several servers, a cluster,
//! and the cost of the lock.
//!
//! The comment of a ported test names the test of Redisson. Where Redisson uses a Java thread, the
//! ported test uses an owner.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    common::{SOON, client, cluster, keys, ms, secs, within},
    redis_sentinel::until_replicated,
};
use leasehold::{Client, Error, LostReason, MultiLock, Release};
use testkit::{Cluster, Connection, Redis, Sentinels};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

const NAMES: [&str; 3] = ["lock1", "lock2", "lock3"];

/// Returns which of `NAMES` a client may acquire now.
async fn free(client: &Client) -> Vec<&'static str> {
    let mut free = vec![];
    for name in NAMES {
        if client.lock(name).unwrap().try_acquire().await.unwrap().is_some() {
            free.push(name);
        }
    }
    free
}

/// Ported from `RedissonMultiLockTest.testLockUnlock`, `RedissonLockReactiveTest.testMultiLock` and
/// `RedissonLockRxTest.testMultiLock`.
#[tokio::test(flavor = "multi_thread")]
async fn three_members_are_held_and_released_together() {
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let members = NAMES.map(|name| one.lock(name).unwrap().lease(secs(10)));
    let guard = MultiLock::new(members).unwrap().acquire().await.unwrap();
    assert!(guard.is_held());
    for member in guard.members() {
        assert_eq!(one.lock(member.name()).unwrap().held_by(member.owner()).await.unwrap(), 1);
    }
    assert!(free(&other).await.is_empty());
    guard.release().await.into_result().unwrap();
    assert_eq!(free(&other).await, NAMES);
}

/// Ported from `RedissonMultiLockTest.testMultiThreads`.
#[tokio::test(flavor = "multi_thread")]
async fn second_multi_lock_acquires_when_the_first_is_released() {
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.multi_lock(NAMES).unwrap().acquire().await.unwrap();
    let start = Instant::now();
    let holder = tokio::spawn(async move {
        sleep(ms(1_500)).await;
        guard.release().await.into_result()
    });
    let reversed = other.multi_lock(NAMES.iter().rev()).unwrap();
    let next = within(SOON, "the second multi-lock acquires", reversed.acquire()).await.unwrap();
    assert!(start.elapsed() >= ms(1_500));
    holder.await.unwrap().unwrap();
    next.release().await.into_result().unwrap();
    assert!(keys(&redis).is_empty(), "{:?}", keys(&redis));
}

/// Ported from `RedissonMultiLockTest.test`.
#[tokio::test(flavor = "multi_thread")]
async fn multi_locks_of_the_same_three_servers_exclude_each_other() {
    let servers = [(); 3].map(|()| Redis::start());
    let mut clients = vec![];
    for redis in servers.iter().chain(&servers) {
        clients.push(client(redis).await);
    }
    let of = |clients: &[Client]| {
        MultiLock::new(clients.iter().zip(NAMES).map(|(it, name)| it.lock(name).unwrap())).unwrap()
    };
    let (ours, theirs) = (of(&clients[..3]), of(&clients[3..]));
    let guard = ours.acquire().await.unwrap();
    assert!(theirs.try_acquire().await.unwrap().is_none());
    assert!(theirs.try_acquire().await.unwrap().is_none());
    guard.release().await.into_result().unwrap();
    theirs.try_acquire().await.unwrap().unwrap().release().await.into_result().unwrap();
}

/// Ported from `RedissonRedLockTest.testLockLeasetimeWithSeconds` and `testTryLockLeasetime`, but
/// the multi-lock requires all members.
#[tokio::test(flavor = "multi_thread")]
async fn multi_lock_of_two_servers_has_one_holder_at_a_time() {
    const TASKS: u32 = 10;
    const ROUNDS: u32 = 5;
    let servers = [Redis::start(), Redis::start()];
    let count = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let clients = [client(&servers[0]).await, client(&servers[1]).await];
        let members = (0..7).map(|at| clients[at % 2].lock(format!("lock{at}")).unwrap());
        let all = MultiLock::new(members.map(|lock| lock.lease(secs(2)))).unwrap();
        let count = Arc::clone(&count);
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let guard = match task % 2 {
                    0 => all.acquire().await.unwrap(),
                    _ => all.acquire_within(secs(30)).await.unwrap(),
                };
                let before = count.load(Relaxed);
                sleep(ms(10)).await;
                count.store(before + 1, Relaxed);
                guard.release().await.into_result().unwrap();
            }
        });
    }
    within(secs(30), "all tasks finish their rounds", tasks.join_all()).await;
    assert_eq!(count.load(Relaxed), TASKS * ROUNDS);
}

#[tokio::test(flavor = "multi_thread")]
async fn death_of_one_server_is_a_loss_of_its_member() {
    let (here, there) = (Redis::start(), Redis::start());
    let healthy = client(&here).await;
    let builder = Client::builder().ttl(secs(2)).release_timeout(ms(500));
    let dying = builder.connect(&there.url()).await.unwrap();
    let members = [healthy.lock("lock1").unwrap(), dying.lock("lock2").unwrap()];
    let guard = MultiLock::new(members).unwrap().acquire().await.unwrap();
    drop(there);
    let (name, reason) = within(SOON, "the guard reports the loss of a member", guard.lost()).await;
    assert_eq!((name.as_str(), reason), ("lock2", LostReason::Expired));

    let release = guard.release().await;
    let [(_, first), (_, second)] = release.members() else { panic!("{release:?}") };
    assert!(matches!(first, Ok(Release::Released)), "{first:?}");
    assert!(!matches!(second, Ok(Release::Released)), "{second:?}");
    assert!(keys(&here).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn multi_lock_spans_the_nodes_of_a_cluster() {
    let cluster = Cluster::options().replicas(0).start();
    let (one, other) = (cluster::client(&cluster).await, cluster::client(&cluster).await);
    let names: Vec<_> = cluster.masters().iter().map(|node| cluster.key_on(node, "door")).collect();
    let guard = one.multi_lock(&names).unwrap().acquire().await.unwrap();
    assert_eq!(guard.members().len(), 3);
    for name in &names {
        assert!(other.lock(name).unwrap().try_acquire().await.unwrap().is_none());
    }
    let next = other.multi_lock(names.iter().rev()).unwrap();
    let error = next.acquire_within(ms(300)).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    let waiter = tokio::spawn(async move { next.acquire().await });
    sleep(ms(300)).await;
    guard.release().await.into_result().unwrap();
    let guard = within(SOON, "the waiter acquires the multi-lock", waiter).await.unwrap().unwrap();
    guard.release().await.into_result().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn multi_hold_survives_a_failover_of_sentinels() {
    let site = Sentinels::start();
    let one = Client::builder().ttl(secs(3)).connect(&site.url()).await.unwrap();
    let other = Client::connect(&site.url()).await.unwrap();
    let guard = one.multi_lock(NAMES).unwrap().acquire().await.unwrap();
    until_replicated(&site);
    site.fail_over();
    // Without a renewal at the new primary, the hold would end.
    sleep(secs(4)).await;
    assert!(guard.is_held());
    let next = other.multi_lock(NAMES.iter().rev()).unwrap();
    assert!(next.try_acquire().await.unwrap().is_none());
    guard.release().await.into_result().unwrap();
    let next = within(SOON, "the other client acquires", next.acquire()).await.unwrap();
    next.release().await.into_result().unwrap();
}

// The cost of a multi-lock.

/// How many times the server has read from a connection.
fn reads(connection: &mut Connection) -> u64 {
    let info = connection.command(&["INFO", "stats"]);
    let reads = info.text().lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
    reads.expect("Redis counts reads").parse().unwrap()
}

/// The test has one thread, so the writer of the connection runs only after all members have queued
/// their requests.
#[tokio::test]
async fn multi_lock_acquires_and_releases_by_one_socket_write_each() {
    const MEMBERS: usize = 10;
    let redis = Redis::start();
    let client = client(&redis).await;
    let names: Vec<_> = (0..MEMBERS).map(|number| format!("lock{number}")).collect();
    let all = client.multi_lock(&names).unwrap();
    // This acquisition loads the scripts.
    all.acquire().await.unwrap().release().await.into_result().unwrap();

    let calls = redis.calls();
    let mut connection = Connection::open(redis.port());
    // Closing a connection also counts as a read. The pause lets the server read the end of the
    // previous connection.
    sleep(ms(200)).await;
    let before = reads(&mut connection);
    let guard = all.acquire().await.unwrap();
    let acquired = reads(&mut connection);
    guard.release().await.into_result().unwrap();
    let released = reads(&mut connection);
    let calls = redis.calls().since(&calls);
    // In each difference, one of the two reads is the request for the count.
    assert_eq!((acquired - before, released - acquired), (2, 2));
    let of = |command| calls.of(command);
    let members = MEMBERS as u64;
    assert_eq!([of("evalsha"), of("hdel"), of("publish")], [members; 3], "{calls}");
}
