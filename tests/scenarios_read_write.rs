//! Tests that are ported from Redisson: the tests of its read-write lock.
//!
//! A comment at each test names the test of Redisson. An owner replaces a Java thread, sleeps are
//! shorter, and rounds are fewer. Where Redisson tests its read lock as an `RLock`, the test uses
//! both sides.
//!
//! Tests without a counterpart:
//!
//! - `testInCluster`: this store has one node.
//! - `testIsHeldByCurrentThread` and similar tests of another thread: the guard is the holder.

use std::sync::{
    Arc,
    atomic::{AtomicI32, AtomicU32, Ordering::SeqCst},
};

use crate::common::{SOON, client, entered, keys, ms, release_guard, secs, waiter, within};
use futures_util::future::{join, join_all};
use leasehold::{Client, LockGuard, LostReason, ReadWriteLock, Release};
use testkit::{Redis, eventually};
use tokio::time::{Instant, sleep};

/// A server and two clients.
struct Setup {
    redis: Redis,
    one: ReadWriteLock,
    other: ReadWriteLock,
}

impl Setup {
    async fn new() -> Self {
        let redis = Redis::start();
        let [one, other] = [door(&client(&redis).await), door(&client(&redis).await)];
        Self { redis, one, other }
    }
}

fn door(client: &Client) -> ReadWriteLock {
    client.read_write_lock("door").unwrap()
}

async fn reads(lock: &ReadWriteLock) -> Option<LockGuard> {
    lock.read().try_acquire().await.unwrap()
}

async fn writes(lock: &ReadWriteLock) -> Option<LockGuard> {
    lock.write().try_acquire().await.unwrap()
}

// testReadLockIsLocked
#[tokio::test(flavor = "multi_thread")]
async fn writer_gets_a_read_hold_only_by_acquire_read_with() {
    let t = Setup::new().await;
    let writing = writes(&t.one).await.unwrap();
    assert!(!t.other.read().is_locked().await.unwrap());
    let reading = t.one.acquire_read_with(&writing).await.unwrap();
    assert!(t.other.read().is_locked().await.unwrap());
    assert!(t.other.write().is_locked().await.unwrap());
    release_guard(reading).await;
    assert!(!t.other.read().is_locked().await.unwrap());
    release_guard(writing).await;
}

// testReadLockExpirationRenewal
#[tokio::test(flavor = "multi_thread")]
async fn holds_of_fifty_readers_outlast_their_ttl() {
    let redis = Redis::start();
    let clients = join_all((0..10).map(|_| client(&redis))).await;
    let reading = clients.iter().cycle().take(50).map(|client| async {
        let guard = door(client).read().ttl(secs(2)).acquire().await.unwrap();
        sleep(secs(5)).await;
        release_share(guard).await;
    });
    within(secs(30), "all readers acquire and release", join_all(reading)).await;
    assert!(keys(&redis).is_empty());
}

/// Releases one of several guards that may share a hold.
async fn release_share(guard: LockGuard) {
    guard.release().await.unwrap().into_result().unwrap();
}

// testName
#[tokio::test(flavor = "multi_thread")]
async fn name_may_have_a_hash_tag_and_colons() {
    let redis = Redis::start();
    let lock = client(&redis).await.read_write_lock("{test}:abc:key").unwrap().read();
    let tasks = (0..10).map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move {
            for _ in 0..10 {
                release_share(lock.acquire().await.unwrap()).await;
            }
        })
    });
    join_all(tasks.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
    assert!(keys(&redis).is_empty());
}

// testReadLockLeaseTimeoutDiffThreadsWRR
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_several_clients_acquire_at_a_writers_lease_end() {
    let t = Setup::new().await;
    let began = Instant::now();
    let writing = t.one.write().lease(secs(2)).acquire().await.unwrap();
    let waiting = [waiter(t.one.read()), waiter(t.other.read())];
    for waiting in waiting {
        release_guard(entered(waiting).await).await;
    }
    assert!(began.elapsed() >= secs(2) && began.elapsed() < secs(4), "{:?}", began.elapsed());
    drop(writing);
}

// testReadLockLeaseTimeout
#[tokio::test(flavor = "multi_thread")]
async fn later_reader_does_not_extend_the_lease_of_another_reader() {
    let t = Setup::new().await;
    let first = t.one.read().lease(secs(2)).acquire().await.unwrap();
    sleep(ms(1_500)).await;
    let second = t.other.read().lease(secs(2)).acquire().await.unwrap();
    release_guard(second).await;
    sleep(secs(1)).await;
    release_guard(writes(&t.other).await.expect("the lease of the first reader has ended")).await;
    drop(first);
}

// testWR, testWriteReadReentrancy
#[tokio::test(flavor = "multi_thread")]
async fn writer_may_also_read_and_release_either_hold_first() {
    let t = Setup::new().await;
    let writing = writes(&t.one).await.unwrap();
    let reading = t.one.acquire_read_with(&writing).await.unwrap();
    release_guard(reading).await;
    assert!(t.other.write().is_locked().await.unwrap());
    release_guard(writing).await;
    assert!(keys(&t.redis).is_empty());

    let writing = writes(&t.one).await.unwrap();
    let reading = t.one.acquire_read_with(&writing).await.unwrap();
    assert!(reads(&t.other).await.is_none());
    release_guard(writing).await;
    assert!(writes(&t.other).await.is_none() && writes(&t.one).await.is_none());
    release_guard(reading).await;
    release_guard(writes(&t.other).await.unwrap()).await;
}

// testWriteLock, testReentrancy
#[tokio::test(flavor = "multi_thread")]
async fn reentered_writer_blocks_all_others_until_its_second_release() {
    let t = Setup::new().await;
    let writing = writes(&t.one).await.unwrap();
    let again = writing.reenter().await.unwrap();
    let other = t.other.write();
    assert!(other.is_locked().await.unwrap());
    for guard in [again, writing] {
        assert!(reads(&t.other).await.is_none() && writes(&t.other).await.is_none());
        guard.release().await.unwrap().into_result().unwrap();
    }
    let reading = reads(&t.other).await.unwrap();
    assert!(writes(&t.one).await.is_none());
    release_guard(reading).await;
    let writing = writes(&t.one).await.unwrap();
    assert!(other.force_release().await.unwrap() && !other.force_release().await.unwrap());
    drop(writing);
}

// testMultiRead
#[tokio::test(flavor = "multi_thread")]
async fn writer_waits_until_all_readers_released() {
    let t = Setup::new().await;
    let readers = [reads(&t.one).await.unwrap(), reads(&t.other).await.unwrap()];
    for reading in readers {
        assert!(writes(&t.one).await.is_none() && writes(&t.other).await.is_none());
        release_guard(reading).await;
    }
    assert!(!t.one.read().force_release().await.unwrap());
    release_guard(writes(&t.other).await.unwrap()).await;
}

// testForceUnlock
#[tokio::test(flavor = "multi_thread")]
async fn forced_release_of_one_side_leaves_the_other_side_held() {
    let t = Setup::new().await;
    let reading = reads(&t.one).await.unwrap();
    assert!(!t.other.write().force_release().await.unwrap());
    release_guard(reading).await;
    let writing = writes(&t.one).await.unwrap();
    assert!(!t.other.read().force_release().await.unwrap());
    release_guard(writing).await;
}

// testExpireRead
#[tokio::test(flavor = "multi_thread")]
async fn expired_reader_reports_the_loss_and_blocks_no_other_reader() {
    let t = Setup::new().await;
    let first = t.one.read().lease(secs(2)).acquire().await.unwrap();
    let second = reads(&t.other).await.expect("both readers may hold the lock");
    assert_eq!(
        within(SOON, "the client reports the loss", first.lost()).await,
        LostReason::Expired
    );
    // In the same situation, Redisson's `unlock` reports nothing.
    let release = first.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");
    release_guard(second).await;
}

// testExpireWrite
#[tokio::test(flavor = "multi_thread")]
async fn writer_acquires_when_the_lease_of_an_earlier_writer_ends() {
    let t = Setup::new().await;
    let began = Instant::now();
    let first = t.one.write().lease(secs(2)).acquire().await.unwrap();
    let second =
        within(SOON, "the second writer acquires", t.other.write().acquire()).await.unwrap();
    assert!(began.elapsed() >= secs(2), "{:?}", began.elapsed());
    let release = first.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");
    release_guard(second).await;
}

// testAutoExpire
#[tokio::test(flavor = "multi_thread")]
async fn each_side_of_a_dead_client_is_free_after_one_ttl() {
    for reads in [true, false] {
        let t = Setup::new().await;
        let url = t.redis.url();
        let holder = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let guard = runtime.block_on(async {
                let lock = door(&Client::connect(&url).await.unwrap());
                let side = if reads { lock.read() } else { lock.write() };
                side.ttl(secs(2)).acquire().await.unwrap()
            });
            runtime.shutdown_background();
            guard
        });
        eventually("the lock is held", SOON, || !keys(&t.redis).is_empty());
        release_guard(entered(waiter(t.other.write())).await).await;
        drop(holder.join().unwrap());
    }
}

// testHoldCount
#[tokio::test(flavor = "multi_thread")]
async fn hold_count_of_writers_is_in_redis_and_of_readers_is_local() {
    let t = Setup::new().await;
    let guard = writes(&t.one).await.unwrap();
    let owner = guard.owner().clone();
    let counts =
        async |guard: &LockGuard| (guard.count(), t.other.write().held_by(&owner).await.unwrap());
    assert_eq!(counts(&guard).await, (1, 1));
    let again = guard.reenter().await.unwrap();
    assert_eq!(counts(&guard).await, (2, 2));
    crate::common::release_one_of_two(again).await;
    assert_eq!(counts(&guard).await, (1, 1));
    release_guard(guard).await;
    assert_eq!(t.other.write().held_by(&owner).await.unwrap(), 0);

    let guard = reads(&t.one).await.unwrap();
    let owner = guard.owner().clone();
    let again = guard.reenter().await.unwrap();
    // Redisson counts 2 in the store, and has a key for each of the two holds.
    assert_eq!((guard.count(), t.other.read().held_by(&owner).await.unwrap()), (2, 1));
    release_share(again).await;
    assert_eq!((guard.count(), t.other.read().held_by(&owner).await.unwrap()), (1, 1));
    release_guard(guard).await;
    assert_eq!(t.other.read().held_by(&owner).await.unwrap(), 0);
}

// testIsLocked, testIsLockedOtherThread, testLockUnlock
#[tokio::test(flavor = "multi_thread")]
async fn any_client_can_inspect_a_side_and_release_it_by_force() {
    let t = Setup::new().await;
    for _ in 0..2 {
        let reading = reads(&t.one).await.unwrap();
        assert!(t.other.read().is_locked().await.unwrap());
        assert!(!t.other.write().is_locked().await.unwrap());
        release_guard(reading).await;
        let writing = writes(&t.one).await.unwrap();
        assert!(!t.other.read().is_locked().await.unwrap());
        assert!(t.other.write().is_locked().await.unwrap());
        release_guard(writing).await;
    }
    assert!(!t.other.read().is_locked().await.unwrap());
    assert!(!t.other.write().is_locked().await.unwrap());
}

// testUnlockFail
#[tokio::test(flavor = "multi_thread")]
async fn revoked_guard_releases_no_other_hold() {
    let t = Setup::new().await;
    let old = reads(&t.one).await.unwrap();
    t.other.read().force_release().await.unwrap();
    let new = writes(&t.other).await.unwrap();
    let release = old.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");
    release_guard(new).await;
}

/// The numbers of readers and of writers that hold the lock now, as the tasks count themselves.
#[derive(Default)]
struct Room {
    readers: AtomicI32,
    writers: AtomicI32,
    rounds: AtomicU32,
    most_readers: AtomicI32,
}

impl Room {
    async fn read(&self) {
        let readers = self.readers.fetch_add(1, SeqCst) + 1;
        self.most_readers.fetch_max(readers, SeqCst);
        assert_eq!(self.writers.load(SeqCst), 0, "no writer is inside while a task reads");
        sleep(ms(1)).await;
        self.readers.fetch_sub(1, SeqCst);
    }

    async fn write(&self) {
        assert_eq!(self.writers.fetch_add(1, SeqCst), 0, "only one writer is inside");
        assert_eq!(self.readers.load(SeqCst), 0, "no reader is inside while a task writes");
        tokio::task::yield_now().await;
        self.writers.fetch_sub(1, SeqCst);
    }
}

/// Lets each client read or write at random, `rounds` times. Returns the number of all holds.
async fn at_random(clients: Vec<Client>, rounds: u32) -> u32 {
    let room = Arc::<Room>::default();
    let tasks = clients.into_iter().map(|client| {
        let room = Arc::clone(&room);
        tokio::spawn(async move {
            let lock = door(&client);
            for _ in 0..rounds {
                let guard = if fastrand::bool() {
                    let guard = lock.read().acquire().await.unwrap();
                    room.read().await;
                    guard
                } else {
                    let guard = lock.write().acquire().await.unwrap();
                    room.write().await;
                    guard
                };
                release_share(guard).await;
                room.rounds.fetch_add(1, SeqCst);
            }
        })
    });
    let all = join_all(tasks.collect::<Vec<_>>());
    let done = within(secs(180), "all tasks end", all).await;
    done.into_iter().for_each(Result::unwrap);
    assert!(room.most_readers.load(SeqCst) > 1, "several readers were inside at once");
    room.rounds.load(SeqCst)
}

// testConcurrency_SingleInstance
#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_client_read_together_and_write_alone() {
    let redis = Redis::start();
    let tasks = vec![client(&redis).await; 15];
    assert_eq!(at_random(tasks, 20).await, 15 * 20);
    assert!(keys(&redis).is_empty());
}

// testConcurrencyLoop_MultiInstance
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_clients_share_reads_and_write_alone() {
    let redis = Redis::start();
    let clients = join_all((0..16).map(|_| client(&redis))).await;
    assert_eq!(at_random(clients, 100).await, 1_600);
    assert!(keys(&redis).is_empty());
}

// testConcurrency_MultiInstance
#[tokio::test(flavor = "multi_thread")]
async fn hundred_clients_read_together_and_write_alone() {
    let redis = Redis::start();
    let clients = join_all((0..100).map(|_| client(&redis))).await;
    assert_eq!(at_random(clients, 1).await, 100);
    assert!(keys(&redis).is_empty());
}

// testMultiInstanceZombieReadLockPerformance
#[tokio::test(flavor = "multi_thread")]
async fn dead_readers_block_a_writer_for_one_ttl_at_most() {
    for (dead, least, most) in [(16, secs(0), secs(2)), (20, secs(1), secs(5))] {
        // given dead readers that had acquired three times each, and a reader that lives
        let t = Setup::new().await;
        let fill = "redis.call('HSET', KEYS[1], 'mode', 'read') \
                    for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'dead:' .. i, 3) end \
                    redis.call('PEXPIRE', KEYS[1], 1000)";
        t.redis.command(&["EVAL", fill, "1", "door", &dead.to_string()]);
        let reading = t.one.read().ttl(secs(3)).acquire().await.unwrap();
        let waiting = waiter(t.other.write());
        eventually("the server knows the waiting writer", SOON, || {
            t.redis.command(&["EXISTS", "leasehold_rwlock__writers:{door}"]).number() == 1
        });

        // when the living reader releases
        let began = Instant::now();
        release_guard(reading).await;

        // then the writer acquires at once if this release has removed all dead readers. Otherwise
        // the writer acquires when the lease of the lock ends
        release_guard(entered(waiting).await).await;
        let took = began.elapsed();
        assert!(took >= least && took < most, "{dead}: {took:?}");
    }
}

// testReadLockAfterTimeout, testWriteLockAfterTimeout, of RedissonLockExpirationRenewalTest
#[tokio::test(flavor = "multi_thread")]
async fn read_or_write_hold_after_a_data_loss_is_renewed() {
    let side_is_kept = async |reads| {
        let t = Setup::new().await;
        let side = if reads { t.one.read() } else { t.one.write() }.ttl(secs(3));
        let lost = side.acquire().await.unwrap();
        t.redis.restart();
        sleep(secs(4)).await;
        let release = lost.release().await.unwrap();
        assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");

        let guard = side.acquire().await.unwrap();
        sleep(secs(4)).await;
        assert_eq!(side.held_by(guard.owner()).await.unwrap(), 1);
        release_guard(guard).await;
    };
    join(side_is_kept(true), side_is_kept(false)).await;
}
