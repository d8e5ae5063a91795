//! Tests that are ported from Redisson: the tests of its semaphore and its latch.
//!
//! A comment at each test names the tests of Redisson. Sleeps are shorter and rounds are fewer.
//!
//! Tests with another result, as `docs/comparison.md` explains:
//!
//! - `testZero`: a request for zero permits is an error.
//! - `testTrySetPermits` with a time: Leasehold gives a semaphore no TTL, but keeps a TTL that
//!   another program has set.
//! - `testReleaseIfExists`: a release to a deleted semaphore adds no permits.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::common::{SOON, client, ms, pttl, secs, within};
use futures_util::future::join_all;
use leasehold::{Error, Latch, Release, Semaphore};
use testkit::Redis;
use tokio::time::{Instant, sleep};

async fn pool(redis: &Redis) -> Semaphore {
    client(redis).await.semaphore("pool").unwrap()
}

async fn latch(redis: &Redis) -> Latch {
    client(redis).await.latch("start").unwrap()
}

/// testZero
#[tokio::test(flavor = "multi_thread")]
async fn zero_permits_are_an_error() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    assert!(matches!(pool.acquire_within(0, secs(600)).await, Err(Error::ZeroCount { .. })));
    assert_eq!(pool.available().await.unwrap(), 0);
}

/// testAcquireWithoutSetPermits, testReleaseWithoutPermits
#[tokio::test(flavor = "multi_thread")]
async fn permits_added_to_a_missing_semaphore_create_the_semaphore() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    assert_eq!(pool.add(1).await.unwrap(), 1);
    assert_eq!(pool.add(1).await.unwrap(), 2);
    let guard = within(SOON, "the client acquires two permits", pool.acquire(2)).await.unwrap();
    assert_eq!(guard.permits(), 2);
    guard.release().await.unwrap().into_result().unwrap();
}

/// testTrySetPermits
#[tokio::test(flavor = "multi_thread")]
async fn set_if_absent_sets_permits_once_and_keeps_a_key_expiry() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    assert!(pool.set_if_absent(10).await.unwrap());
    assert_eq!(pool.available().await.unwrap(), 10);
    assert!(!pool.set_if_absent(15).await.unwrap());
    assert_eq!(pool.available().await.unwrap(), 10);
    assert!(pool.delete().await.unwrap());
    assert!(pool.set_if_absent(10).await.unwrap());

    redis.command(&["PEXPIRE", "pool", "20000"]);
    let guard = pool.acquire(4).await.unwrap();
    guard.release().await.unwrap().into_result().unwrap();
    pool.add(1).await.unwrap();
    pool.drain().await.unwrap();
    assert!(pttl(&redis, "pool") > 0);
    redis.command(&["PEXPIRE", "pool", "1"]);
    sleep(ms(20)).await;
    assert!(pool.set_if_absent(1).await.unwrap());
}

/// testAddPermits, testReducePermits
#[tokio::test(flavor = "multi_thread")]
async fn permits_are_added_and_removed() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    for (permits, free) in [(10, 10), (-10, 0), (4, 4), (10, 14), (-5, 9), (-9, 0), (-5, -5)] {
        assert_eq!(pool.add(permits).await.unwrap(), free);
        assert_eq!(pool.available().await.unwrap(), free);
    }
    assert_eq!(pool.add(10).await.unwrap(), 5);
    let _five = pool.acquire(5).await.unwrap();
    assert_eq!(pool.available().await.unwrap(), 0);
}

/// testBlockingAcquire, testBlockingNAcquire
#[tokio::test(flavor = "multi_thread")]
async fn waiter_for_many_permits_acquires_when_all_are_released() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(5).await.unwrap();
    let (three, one, other) = (
        pool.acquire(3).await.unwrap(),
        pool.acquire(1).await.unwrap(),
        pool.acquire(1).await.unwrap(),
    );
    assert!(pool.try_acquire(1).await.unwrap().is_none());
    let start = Instant::now();
    three.release().await.unwrap().into_result().unwrap();
    let waits = {
        let pool = pool.clone();
        tokio::spawn(async move { pool.acquire(5).await })
    };
    for guard in [one, other] {
        sleep(ms(300)).await;
        assert!(!waits.is_finished());
        guard.release().await.unwrap().into_result().unwrap();
    }
    let five = within(SOON, "the waiter acquires five permits", waits).await.unwrap().unwrap();
    assert!(start.elapsed() >= ms(600));
    assert_eq!(pool.available().await.unwrap(), 0);
    assert!(pool.try_acquire(1).await.unwrap().is_none());
    five.release().await.unwrap().into_result().unwrap();
}

/// testDrainPermits
#[tokio::test(flavor = "multi_thread")]
async fn drain_takes_all_free_permits() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    assert_eq!(pool.drain().await.unwrap(), 0);
    pool.set_if_absent(10).await.unwrap();
    let _three = pool.acquire(3).await.unwrap();
    assert_eq!(pool.drain().await.unwrap(), 7);
    assert_eq!(pool.drain().await.unwrap(), 0);
    assert_eq!(pool.available().await.unwrap(), 0);
}

/// testReleaseAcquire, testReleaseIfExists
#[tokio::test(flavor = "multi_thread")]
async fn released_permits_return_unless_the_semaphore_is_deleted() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(10).await.unwrap();
    let (one, five) = (pool.acquire(1).await.unwrap(), pool.acquire(5).await.unwrap());
    assert_eq!(pool.available().await.unwrap(), 4);
    five.release().await.unwrap().into_result().unwrap();
    assert_eq!(pool.available().await.unwrap(), 9);
    pool.delete().await.unwrap();
    assert!(matches!(one.release().await.unwrap(), Release::NotHeld { .. }));
    assert_eq!(redis.command(&["EXISTS", "pool"]).number(), 0);
}

/// Lets each client increment a non-atomic number `rounds` times, under one permit or under all
/// permits.
async fn crowd(clients: usize, rounds: u32, permits: u32, all: impl Fn(u32) -> u32 + Copy) {
    let redis = Redis::start();
    let mut pools = Vec::new();
    for _ in 0..clients {
        pools.push(pool(&redis).await);
    }
    pools[0].set_if_absent(permits).await.unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let work = pools.into_iter().map(|pool| {
        let (count, wanted) = (Arc::clone(&count), (0..rounds).map(all).collect::<Vec<_>>());
        tokio::spawn(async move {
            for permits in wanted {
                let guard = pool.acquire(permits).await.unwrap();
                let before = count.load(Relaxed);
                tokio::task::yield_now().await;
                count.store(before + 1, Relaxed);
                guard.release().await.unwrap().into_result().unwrap();
            }
        })
    });
    let work: Vec<_> = work.collect();
    let wanted = u32::try_from(work.len()).unwrap() * rounds;
    for done in within(secs(120), "all tasks finish their rounds", join_all(work)).await {
        done.unwrap();
    }
    assert_eq!(count.load(Relaxed), wanted);
}

/// testConcurrency_SingleInstance, testConcurrency_MultiInstance_1_permits,
/// testConcurrencyLoop_MultiInstance
#[tokio::test(flavor = "multi_thread")]
async fn tasks_under_one_permit_lose_no_increment() {
    crowd(1, 15, 1, |_| 1).await;
    crowd(16, 20, 1, |_| 1).await;
}

/// testConcurrencyLoopMax_MultiInstance
#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_take_all_permits_lose_no_increment() {
    const MANY: u32 = i32::MAX as u32;
    crowd(4, 10, MANY, |_| MANY).await;
}

/// testAwaitTimeout, testAwaitTimeoutFail
#[tokio::test(flavor = "multi_thread")]
async fn latch_wait_ends_when_the_latch_opens_or_at_its_timeout() {
    let redis = Redis::start();
    let (latch, other) = (latch(&redis).await, latch(&redis).await);
    latch.set(1).await.unwrap();
    assert!(latch.wait_within(secs(2)).await.unwrap_err().is_busy());
    let waits = tokio::spawn(async move { latch.wait_within(secs(10)).await });
    sleep(ms(300)).await;
    other.count_down().await.unwrap();
    within(SOON, "the waiter passes the latch", waits).await.unwrap().unwrap();
}

/// testCountDown, testCount
#[tokio::test(flavor = "multi_thread")]
async fn latch_counts_down_to_zero_and_no_further() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    assert_eq!(latch.count().await.unwrap(), 0);
    latch.wait().await.unwrap();
    latch.set(2).await.unwrap();
    for left in [1, 0, 0, 0] {
        latch.count_down().await.unwrap();
        assert_eq!(latch.count().await.unwrap(), left);
    }
    latch.wait().await.unwrap();
    latch.wait().await.unwrap();
}

/// testDelete, testDeleteFailed, testTrySetCount
#[tokio::test(flavor = "multi_thread")]
async fn second_set_or_delete_of_a_latch_changes_nothing() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    assert!(!latch.delete().await.unwrap());
    assert!(latch.set(1).await.unwrap());
    assert!(!latch.set(2).await.unwrap());
    assert_eq!(latch.count().await.unwrap(), 1);
    assert!(latch.delete().await.unwrap());
    assert!(!latch.delete().await.unwrap());
}

/// testSingleCountDownAwait_SingleInstance, testOnZeroMessageAllListenersExecuted
#[tokio::test(flavor = "multi_thread")]
async fn fifty_waiting_tasks_pass_the_latch_after_fifty_count_downs() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    latch.set(50).await.unwrap();
    let tasks = (0..50).flat_map(|_| {
        let (waits, counts) = (latch.clone(), latch.clone());
        let waiter = tokio::spawn(async move {
            waits.wait().await.unwrap();
            waits.count().await.unwrap()
        });
        let counter = tokio::spawn(async move { counts.count_down().await.map(|_| 0).unwrap() });
        [waiter, counter]
    });
    for seen in within(secs(10), "all tasks end", join_all(tasks)).await {
        assert_eq!(seen.unwrap(), 0);
    }
}
