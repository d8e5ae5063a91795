//! Tests that are ported from Redisson: the tests of its expirable semaphore.
//!
//! A comment at each test names the test of Redisson. Two clients are the two sides of a test.
//! Where Redisson returns an id, Leasehold returns a guard. The ids of the guard have the form of
//! Redisson's ids.
//!
//! Tests without a counterpart:
//!
//! - `testGetInClusterNameMapper`: this store has one node, and the caller maps names.
//! - the half of `testGetLeaseTime` about a permit without a lease: only Java can acquire such a
//!   permit. `redis_permits.rs` shows how Leasehold reports such a permit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::common::{SOON, client, keys, ms, secs, within};
use futures_util::future::join_all;
use leasehold::{Client, Error, ExpirablePermits, ExpirableSemaphore, PermitId, Release};
use testkit::Redis;
use tokio::time::{Instant, sleep};

/// A server and two clients.
struct Setup {
    redis: Redis,
    one: ExpirableSemaphore,
    other: ExpirableSemaphore,
    client: Client,
}

impl Setup {
    async fn of(count: u32) -> Self {
        let redis = Redis::start();
        let (client, other) = (client(&redis).await, client(&redis).await);
        let [one, other] =
            [&client, &other].map(|client| client.expirable_semaphore("printers").unwrap());
        if count > 0 {
            one.set(count).await.unwrap();
        }
        Self { redis, one, other, client }
    }

    fn leased(&self, lease: Duration) -> ExpirableSemaphore {
        self.one.clone().lease(lease)
    }

    /// The numbers of free permits, of held permits, and of all permits.
    async fn counts(&self) -> [i64; 3] {
        let free = self.other.available().await.unwrap();
        [free, self.other.acquired().await.unwrap(), self.other.total().await.unwrap()]
    }
}

async fn release_guard(guard: ExpirablePermits) {
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// An id that no permit has.
fn unknown() -> PermitId {
    PermitId::new("0f1e2d3c4b5a69788796a5b4c3d2e1f0").unwrap()
}

// testUpdateLeaseTime
#[tokio::test(flavor = "multi_thread")]
async fn permit_lease_can_be_changed_until_it_ends() {
    let t = Setup::of(1).await;
    assert!(!t.other.update_lease(unknown(), secs(3)).await.unwrap());
    let guard = t.leased(ms(500)).acquire().await.unwrap();
    let id = guard.ids()[0];
    assert!(t.other.update_lease(id, secs(2)).await.unwrap());
    let start = Instant::now();
    sleep(secs(1)).await;
    if start.elapsed() < ms(1_800) {
        assert_eq!(t.other.available().await.unwrap(), 0);
    }
    sleep(ms(1_300)).await;
    assert_eq!(t.other.available().await.unwrap(), 1);
    assert!(!t.other.update_lease(id, secs(3)).await.unwrap());
}

// testNotExistent
#[tokio::test(flavor = "multi_thread")]
async fn semaphore_has_no_permits_until_they_are_set() {
    let t = Setup::of(0).await;
    assert_eq!(t.counts().await, [0, 0, 0]);
    assert!(t.one.try_acquire().await.unwrap().is_none());
    assert!(keys(&t.redis).is_empty());
}

// testAvailablePermits, testAcquiredPermits, testGetPermits
#[tokio::test(flavor = "multi_thread")]
async fn free_held_and_total_permits_add_up() {
    let t = Setup::of(2).await;
    let leased = t.leased(secs(4));
    assert_eq!(t.counts().await, [2, 0, 2]);
    let first = leased.acquire().await.unwrap();
    assert_eq!(t.counts().await, [1, 1, 2]);
    let second = leased.acquire().await.unwrap();
    assert_eq!(t.counts().await, [0, 2, 2]);
    let third = t.other.acquire_within(secs(2)).await;
    assert!(third.unwrap_err().is_busy());
    sleep(ms(2_100)).await;
    assert_eq!(t.counts().await, [2, 0, 2]);
    release_guard(leased.acquire().await.unwrap()).await;
    assert_eq!(t.counts().await, [2, 0, 2]);
    drop((first, second));
}

// testExpiration
#[tokio::test(flavor = "multi_thread")]
async fn expiry_of_a_semaphore_key_also_removes_its_permits() {
    let t = Setup::of(10).await;
    t.redis.command(&["PEXPIRE", "printers", "1500"]);
    let guard = t.leased(secs(60)).acquire().await.unwrap();
    assert_eq!(keys(&t.redis).len(), 2 + 1, "the third key is the receipt of `set`");
    sleep(ms(2_000)).await;
    let left = keys(&t.redis);
    assert!(left.iter().all(|key| key.starts_with("leasehold_permits__receipt")), "{left:?}");
    drop(guard);
}

// testExpire, testExpireTryAcquire
#[tokio::test(flavor = "multi_thread")]
async fn waiter_acquires_when_a_lease_ends() {
    let t = Setup::of(1).await;
    let first = t.leased(secs(2)).acquire().await.unwrap();
    let begun = Instant::now();
    let second =
        within(SOON, "the client acquires when the lease ends", t.other.acquire()).await.unwrap();
    assert!(begun.elapsed() > ms(1_800), "{:?}", begun.elapsed());
    assert!(!t.one.release_id(first.ids()[0]).await.unwrap());
    assert!(matches!(first.release().await.unwrap(), Release::NotHeld { .. }));
    release_guard(second).await;
}

// testTrySetPermits
#[tokio::test(flavor = "multi_thread")]
async fn number_of_permits_is_set_once() {
    let t = Setup::of(0).await;
    assert!(t.one.set_if_absent(10).await.unwrap());
    assert_eq!(t.other.available().await.unwrap(), 10);
    assert!(!t.other.set_if_absent(15).await.unwrap());
    assert_eq!(t.one.available().await.unwrap(), 10);
}

// testAddPermits
#[tokio::test(flavor = "multi_thread")]
async fn permits_are_added_and_removed() {
    let t = Setup::of(10).await;
    for (more, free) in [(5, 15), (-10, 5), (-10, -5)] {
        t.one.add(more).await.unwrap();
        assert_eq!(t.other.available().await.unwrap(), free);
    }
}

// testBlockingAcquire
#[tokio::test(flavor = "multi_thread")]
async fn waiter_without_free_permits_waits_for_a_release() {
    let t = Setup::of(1).await;
    let guard = t.one.acquire().await.unwrap();
    assert_eq!(guard.ids()[0].to_string().len(), 32);
    let waits = tokio::spawn({
        let other = t.other.clone();
        async move { other.acquire().await }
    });
    sleep(ms(200)).await;
    assert!(!waits.is_finished());
    release_guard(guard).await;
    let guard = within(SOON, "the waiter acquires", waits).await.unwrap().unwrap();
    assert_eq!(t.one.available().await.unwrap(), 0);
    release_guard(guard).await;
    assert_eq!(t.one.available().await.unwrap(), 1);
}

// testBlockingAcquireMany
#[tokio::test(flavor = "multi_thread")]
async fn many_permits_are_acquired_and_released_together() {
    let t = Setup::of(10).await;
    let guard = t.one.acquire_many(6).await.unwrap();
    assert_eq!((guard.ids().len(), t.other.available().await.unwrap()), (6, 4));
    release_guard(guard).await;
    assert_eq!(t.other.available().await.unwrap(), 10);
}

// testTryAcquire
#[tokio::test(flavor = "multi_thread")]
async fn try_acquire_fails_and_wait_succeeds_while_permits_are_held() {
    let t = Setup::of(1).await;
    let guard = t.one.try_acquire().await.unwrap().unwrap();
    assert!(t.other.try_acquire().await.unwrap().is_none());
    let begun = Instant::now();
    let (second, ()) = tokio::join!(t.other.acquire_within(SOON), async {
        sleep(ms(500)).await;
        release_guard(guard).await;
    });
    assert!(begun.elapsed() >= ms(450));
    release_guard(second.unwrap()).await;
}

// testTryAcquireMany
#[tokio::test(flavor = "multi_thread")]
async fn try_acquire_of_many_permits_gets_all_or_none() {
    let t = Setup::of(10).await;
    let four = t.one.try_acquire_many(4).await.unwrap().unwrap();
    let five = t.other.try_acquire_many(5).await.unwrap().unwrap();
    assert!(t.one.try_acquire_many(2).await.unwrap().is_none());
    assert_eq!(t.one.available().await.unwrap(), 1);
    release_guard(four).await;
    release_guard(five).await;
}

// testReleaseWithoutPermits
#[tokio::test(flavor = "multi_thread")]
async fn invalid_or_unheld_permit_id_is_not_released() {
    let t = Setup::of(1).await;
    let refused = PermitId::new("1234").map_err(Error::from).unwrap_err();
    assert!(matches!(refused, Error::PermitId(_)));
    assert!(!t.one.release_id(unknown()).await.unwrap());
    assert_eq!(t.one.available().await.unwrap(), 1);
}

// testReleaseExpired
#[tokio::test(flavor = "multi_thread")]
async fn release_after_the_lease_reports_the_expiry() {
    let t = Setup::of(1).await;
    let guard = t.leased(ms(100)).acquire().await.unwrap();
    let id = guard.ids()[0];
    sleep(ms(300)).await;
    assert!(!t.other.release_id(id).await.unwrap());
    assert!(guard.release().await.unwrap().into_result().is_err());
    assert_eq!(t.other.available().await.unwrap(), 1);
}

/// Lets each client increment a number `times` times under the only permit.
async fn count_up(clients: usize, times: i64) {
    let t = Setup::of(1).await;
    let counted = Arc::new(AtomicI64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..clients {
        let (permits, counted) =
            (client(&t.redis).await.expirable_semaphore("printers").unwrap(), Arc::clone(&counted));
        tasks.push(tokio::spawn(async move {
            for _ in 0..times {
                let guard = permits.acquire().await.unwrap();
                let before = counted.load(SeqCst);
                tokio::task::yield_now().await;
                counted.store(before + 1, SeqCst);
                release_guard(guard).await;
            }
        }));
    }
    within(secs(120), "all tasks have counted", join_all(tasks)).await;
    assert_eq!(counted.load(SeqCst), i64::try_from(clients).unwrap() * times);
    assert_eq!(t.counts().await, [1, 0, 1]);
}

// testConcurrency_SingleInstance
#[tokio::test(flavor = "multi_thread")]
async fn hundred_clients_lose_no_increment_under_one_permit() {
    count_up(100, 1).await;
}

// testConcurrencyLoop_MultiInstance
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_clients_lose_no_increment_under_one_permit() {
    count_up(16, 100).await;
}

// testAcquire
#[tokio::test(flavor = "multi_thread")]
async fn free_permit_is_granted_at_once() {
    let t = Setup::of(1).await;
    release_guard(
        within(SOON, "the client acquires the free permit", t.leased(secs(5)).acquire())
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(t.client.stats().granted, 1);
}

// testRelease, testAcquireAsyncMany, testReleaseAsyncMany
#[tokio::test(flavor = "multi_thread")]
async fn each_release_returns_its_permits_once() {
    let t = Setup::of(10).await;
    let (four, two) = (t.one.acquire_many(4).await.unwrap(), t.one.acquire_many(2).await.unwrap());
    assert_eq!(t.other.available().await.unwrap(), 4);
    let ids = four.ids();
    release_guard(four).await;
    assert_eq!(t.other.available().await.unwrap(), 8);
    release_guard(two).await;
    assert_eq!(t.other.available().await.unwrap(), 10);
    for id in ids {
        assert!(!t.one.release_id(id).await.unwrap());
    }
    assert_eq!(t.counts().await, [10, 0, 10]);
}

// testReleaseManyExpiredDoesNotThrow, testTryReleaseManyExpired
#[tokio::test(flavor = "multi_thread")]
async fn expired_permits_are_free_and_release_reports_the_expiry() {
    let t = Setup::of(10).await;
    let six = t.leased(ms(200)).acquire_many(6).await.unwrap();
    sleep(ms(500)).await;
    let one = t.other.acquire().await.unwrap();
    assert_eq!(t.one.available().await.unwrap(), 9);
    assert!(matches!(six.release().await.unwrap(), Release::NotHeld { .. }));
    release_guard(one).await;
    assert_eq!(t.counts().await, [10, 0, 10]);
}

// testGetLeaseTime
#[tokio::test(flavor = "multi_thread")]
async fn remaining_lease_of_a_permit_is_found_by_its_id() {
    let t = Setup::of(1).await;
    assert_eq!(t.other.lease_of(unknown()).await.unwrap(), None);
    let guard = t.leased(ms(1_100)).acquire().await.unwrap();
    let id = guard.ids()[0];
    sleep(ms(100)).await;
    let left = t.other.lease_of(id).await.unwrap();
    assert!(left.is_none_or(|left| left <= secs(1)), "{left:?}");
    sleep(ms(1_200)).await;
    assert_eq!(t.other.lease_of(id).await.unwrap(), None);
    assert_eq!(t.other.available().await.unwrap(), 1);
}

// testConcurrencyMultiPermits
#[tokio::test(flavor = "multi_thread")]
async fn two_waiters_for_all_permits_acquire_one_after_the_other() {
    let t = Setup::of(2).await;
    let all = async |permits: &ExpirableSemaphore| {
        let guard = permits.acquire_many_within(2, SOON).await.unwrap();
        sleep(ms(100)).await;
        release_guard(guard).await;
    };
    let begun = Instant::now();
    tokio::join!(all(&t.one), all(&t.other));
    assert!(begun.elapsed() >= ms(200), "the clients hold the permits one after the other");
}
