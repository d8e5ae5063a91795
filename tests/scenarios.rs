//! Tests that are ported from Redisson: the tests of its lock, its spin lock and its fenced lock.
//! In Redisson's terms, Leasehold's plain lock is a non-reentrant lock: each acquisition excludes
//! all others.
//!
//! A comment at each test names the test of Redisson. Where Redisson uses a Java thread, the test
//! uses an owner: a guard, or the task that has the guard. Sleeps are shorter and rounds are fewer.
//! Most tests run twice: with a subscribed waiter (`RedissonLockTest`) and with a polling waiter
//! (`RedissonSpinLockTest`).
//!
//! Tests without a counterpart:
//!
//! - `testLockUninterruptibly`: there are no threads to interrupt. The nearest case is a dropped
//!   future: see `redis_faults.rs`.
//! - `testInCluster`, `testLockFailoverInCluster`: this store has one node.
//! - `testLockListener`: Leasehold has no listeners for expired keys. `redis_wire.rs` shows which
//!   events of Leasehold's locks reach Java's listeners.
//! - `RedissonLockHeavyTest`: it measures speed, not behaviour.
//! - `testUnlockFail`: only a guard can release a lock, so no other caller can try. The tests show
//!   that a guard reports when its hold has ended.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use crate::common::{
    POLLING, SOON, client, entered, hold_by_hand, keys, ms, pttl, release_guard,
    release_one_of_two, secs, waiter, within,
};
use futures_util::future::join_all;
use leasehold::{Client, Error, FencedGuard, Lock, LostReason, Release, WaitStrategy};
use testkit::{Redis, eventually};
use tokio::time::{Instant, sleep};

/// Makes two tests of each scenario: for a subscribed waiter, and for a polling waiter.
macro_rules! both_ways {
    ($($scenario:ident)+) => {
        mod by_messages {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                super::$scenario(leasehold::WaitStrategy::PubSub).await;
            })+
        }
        mod by_polling {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                super::$scenario(super::POLLING).await;
            })+
        }
    };
}

both_ways! {
    crashed_client_blocks_others_for_one_ttl_at_most
    fixed_lease_expires_and_its_guard_reports_the_loss
    forced_release_frees_the_lock_for_all
    guard_of_a_lost_lock_releases_nothing
    hundred_clients_exclude_each_other
    lock_can_be_acquired_again_after_its_release
    reentered_lock_is_free_after_two_releases
    wait_at_a_stopped_server_fails_at_its_timeout
    try_acquire_fails_while_held_and_succeeds_after_release
    wait_succeeds_if_the_lock_is_released_in_time
    failed_wait_ends_at_its_timeout
    each_hold_of_a_fenced_lock_has_a_greater_token
    unlimited_wait_ends_with_the_release
    any_client_sees_whether_a_lock_is_held
    only_the_owner_of_a_hold_counts_as_its_holder
    sixteen_clients_lose_no_increment_under_one_lock
    tasks_of_one_client_exclude_each_other
    hold_count_matches_the_guards
    remaining_time_matches_lease_or_ttl
    released_lock_is_not_renewed
    holder_that_acquires_again_waits_like_other_tasks
}

/// A server and two clients.
struct Setup {
    redis: Redis,
    one: Client,
    other: Client,
    wait_strategy: WaitStrategy,
}

impl Setup {
    async fn new(wait_strategy: WaitStrategy) -> Self {
        let redis = Redis::start();
        let (one, other) = (client(&redis).await, client(&redis).await);
        Self { redis, one, other, wait_strategy }
    }

    fn ours(&self) -> Lock {
        self.one.lock("door").unwrap().wait_strategy(self.wait_strategy)
    }

    fn theirs(&self) -> Lock {
        self.other.lock("door").unwrap().wait_strategy(self.wait_strategy)
    }
}

// testRedisFailed
async fn wait_at_a_stopped_server_fails_at_its_timeout(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    t.redis.stop();
    let error =
        within(SOON, "`acquire_within` fails", t.ours().acquire_within(secs(3))).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}

// testForceUnlock
async fn forced_release_frees_the_lock_for_all(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let guard = t.ours().acquire().await.unwrap();
    assert!(t.ours().force_release().await.unwrap());
    assert!(!t.ours().is_locked().await.unwrap());
    assert!(!t.theirs().is_locked().await.unwrap());
    release_guard(t.theirs().try_acquire().await.unwrap().unwrap()).await;
    drop(guard);
}

// testExpire
async fn fixed_lease_expires_and_its_guard_reports_the_loss(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let start = Instant::now();
    let guard = t.ours().lease(secs(2)).acquire().await.unwrap();

    let entered = within(SOON, "the client acquires when the lease ends", t.theirs().acquire())
        .await
        .unwrap();
    assert!(start.elapsed() >= secs(2), "{:?}", start.elapsed());

    match guard.release().await.unwrap() {
        Release::NotHeld { reason: LostReason::Expired, holder: Some(holder), .. } => {
            assert_eq!(holder.owner(), entered.owner());
        }
        other => panic!("{other:?}"),
    }
    release_guard(entered).await;
}

// testRemainTimeToLive
async fn remaining_time_matches_lease_or_ttl(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let remaining = async || t.theirs().holder().await.unwrap().unwrap().remaining().unwrap();

    let guard = t.ours().lease(secs(3_600)).acquire().await.unwrap();
    let left = remaining().await;
    assert!(left > secs(3_590) && left <= secs(3_600), "{left:?}");
    release_guard(guard).await;
    assert_eq!(pttl(&t.redis, "door"), -2);
    assert_eq!(t.theirs().holder().await.unwrap(), None);

    let guard = t.ours().acquire().await.unwrap();
    let left = remaining().await;
    assert!(left > secs(20) && left <= secs(30), "{left:?}");
    release_guard(guard).await;
}

// testAutoExpire
async fn crashed_client_blocks_others_for_one_ttl_at_most(wait_strategy: WaitStrategy) {
    // given a holder that renews for longer than its ttl
    let t = Setup::new(wait_strategy).await;
    let (gone, goes) = std::sync::mpsc::channel();
    let url = t.redis.url();
    let holder = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let guard = runtime.block_on(async {
            let client = Client::connect(&url).await.unwrap();
            let guard = client.lock("door").unwrap().ttl(secs(2)).acquire().await.unwrap();
            sleep(secs(3)).await;
            guard
        });
        // when the runtime of the holder ends without a release
        runtime.shutdown_background();
        gone.send(()).unwrap();
        drop(guard);
    });
    eventually("the lock is held", SOON, || keys(&t.redis) == ["door"]);
    let waiting = waiter(t.ours());
    tokio::task::spawn_blocking(move || goes.recv().unwrap()).await.unwrap();
    assert!(!waiting.is_finished());

    // then the lock is free after the rest of the ttl
    release_guard(entered(waiting).await).await;
    holder.join().unwrap();
}

// testGetHoldCount
async fn hold_count_matches_the_guards(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let guard = t.ours().acquire().await.unwrap();
    let owner = guard.owner().clone();
    let count = async || t.theirs().held_by(&owner).await.unwrap();
    assert_eq!((count().await, guard.count()), (1, 1));

    let again = guard.reenter().await.unwrap();
    assert_eq!((count().await, guard.count()), (2, 2));
    release_one_of_two(again).await;
    assert_eq!((count().await, guard.count()), (1, 1));
    release_guard(guard).await;
    assert_eq!(count().await, 0);
}

// testIsHeldByCurrentThread, testIsHeldByCurrentThreadOtherThread
async fn only_the_owner_of_a_hold_counts_as_its_holder(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let other = t.other.lock("window").unwrap().acquire().await.unwrap();
    assert_eq!(t.ours().held_by(other.owner()).await.unwrap(), 0);

    let guard = t.ours().acquire().await.unwrap();
    assert!(guard.is_held());
    assert_eq!(t.ours().held_by(guard.owner()).await.unwrap(), 1);
    assert_eq!(t.ours().held_by(other.owner()).await.unwrap(), 0);
    let owner = guard.owner().clone();
    release_guard(guard).await;
    assert_eq!(t.ours().held_by(&owner).await.unwrap(), 0);
    release_guard(other).await;
}

// testIsLocked, testIsLockedOtherThread
async fn any_client_sees_whether_a_lock_is_held(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let seen =
        async || (t.ours().is_locked().await.unwrap(), t.theirs().is_locked().await.unwrap());
    assert_eq!(seen().await, (false, false));
    let guard = t.ours().acquire().await.unwrap();
    assert_eq!(seen().await, (true, true));
    release_guard(guard).await;
    assert_eq!(seen().await, (false, false));
}

// testUnlockFail
async fn guard_of_a_lost_lock_releases_nothing(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let old = t.ours().acquire().await.unwrap();
    t.ours().force_release().await.unwrap();
    let new = t.theirs().acquire().await.unwrap();

    let release = old.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");
    assert_eq!(t.ours().held_by(new.owner()).await.unwrap(), 1);
    release_guard(new).await;
}

// testLockUnlock
async fn lock_can_be_acquired_again_after_its_release(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let lock = t.ours();
    for _ in 0..2 {
        release_guard(lock.acquire().await.unwrap()).await;
    }
}

// testReentrancy
async fn reentered_lock_is_free_after_two_releases(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let guard = t.ours().try_acquire().await.unwrap().unwrap();
    let again = guard.reenter().await.unwrap();
    release_one_of_two(again).await;
    assert!(t.theirs().try_acquire().await.unwrap().is_none());
    assert!(t.ours().try_acquire().await.unwrap().is_none());
    release_guard(guard).await;
    release_guard(t.theirs().try_acquire().await.unwrap().unwrap()).await;
}

// testContendingThreadBlocksAndAcquiresOnRelease, testSameThreadReacquireThrows,
// testCrossInstanceSameThreadReentryThrows, of RedissonNonReentrantLockTest and
// RedissonNonReentrantFairLockTest
async fn holder_that_acquires_again_waits_like_other_tasks(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let lock = t.ours();
    let guard = lock.acquire().await.unwrap();

    // The second call uses the same `Lock` value or another `Lock` value of this name.
    for again in [lock, t.ours()] {
        assert!(again.try_acquire().await.unwrap().is_none());
        match again.acquire_within(ms(100)).await.unwrap_err() {
            Error::TimedOut { holder: Some(holder), .. } => {
                assert_eq!(holder.owner(), guard.owner());
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(t.theirs().held_by(guard.owner()).await.unwrap(), 1);
    }

    // A wait without a timeout ends when the holder releases once.
    let waiting = waiter(t.ours());
    sleep(ms(300)).await;
    assert!(!waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
    assert!(!t.theirs().is_locked().await.unwrap());
}

// RedissonFencedLockTest.testTokenIncrease
async fn each_hold_of_a_fenced_lock_has_a_greater_token(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let lock = |client: &Client| client.fenced_lock("door").unwrap().wait_strategy(wait_strategy);
    let (ours, theirs) = (lock(&t.one), lock(&t.other));
    let mut tokens = vec![];
    let mut release_guard = async |guard: FencedGuard| {
        tokens.push(guard.token());
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    };

    release_guard(ours.acquire().await.unwrap()).await;
    release_guard(theirs.acquire().await.unwrap()).await;
    release_guard(ours.clone().lease(secs(10)).acquire().await.unwrap()).await;
    release_guard(theirs.acquire_within(secs(1)).await.unwrap()).await;
    release_guard(ours.try_acquire().await.unwrap().unwrap()).await;
    assert_eq!(tokens, [1, 2, 3, 4, 5]);

    // For a reentry, Java draws a new token, and Leasehold keeps the token of the hold.
    let guard = ours.acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    assert_eq!((guard.token(), again.token()), (6, 6));
}

// ReadLockEntryTest.shouldHaveNoThreadsAfterNonReentrantAcquireAndRelease,
// shouldHaveNoThreadsAfterReentrantAcquireAndRelease
async fn released_lock_is_not_renewed(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let lock = t.ours().ttl(secs(1));
    release_guard(lock.acquire().await.unwrap()).await;
    let guard = lock.acquire().await.unwrap();
    release_one_of_two(guard.reenter().await.unwrap()).await;
    release_guard(guard).await;

    // The client does not even try to renew the hold of another program.
    hold_by_hand(&t.redis, "door", "java:1", secs(60));
    let before = t.redis.calls();
    sleep(secs(2)).await;
    assert_eq!(t.redis.calls().since(&before).of("evalsha"), 0);
}

/// A counter that is wrong if its writers do not exclude each other.
#[derive(Default)]
struct Fragile {
    count: AtomicU32,
    counting: AtomicBool,
}

impl Fragile {
    /// Adds one: reads the count, waits, and writes it.
    async fn count(&self) {
        assert!(!self.counting.swap(true, Relaxed), "only one task counts at a time");
        let before = self.count.load(Relaxed);
        tokio::task::yield_now().await;
        self.count.store(before + 1, Relaxed);
        self.counting.store(false, Relaxed);
    }
}

/// Lets each client count `rounds` times under the lock. Returns the count.
async fn count_together(clients: Vec<Client>, rounds: u32, wait_strategy: WaitStrategy) -> u32 {
    let number = Arc::<Fragile>::default();
    let counting = clients.into_iter().map(|client| {
        let number = Arc::clone(&number);
        tokio::spawn(async move {
            for _ in 0..rounds {
                let lock = client.lock("door").unwrap().wait_strategy(wait_strategy);
                let guard = lock.acquire().await.unwrap();
                number.count().await;
                release_guard(guard).await;
            }
        })
    });
    let counting = join_all(counting.collect::<Vec<_>>());
    let done = within(secs(180), "all tasks have counted", counting).await;
    done.into_iter().for_each(Result::unwrap);
    number.count.load(Relaxed)
}

// testConcurrency_SingleInstance
async fn tasks_of_one_client_exclude_each_other(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let tasks = vec![t.one.clone(); 15];
    assert_eq!(count_together(tasks, 1, wait_strategy).await, 15);
    assert!(keys(&t.redis).is_empty());
}

// testConcurrencyLoop_MultiInstance
async fn sixteen_clients_lose_no_increment_under_one_lock(wait_strategy: WaitStrategy) {
    let redis = Redis::start();
    let clients = join_all((0..16).map(|_| client(&redis))).await;
    assert_eq!(count_together(clients, 100, wait_strategy).await, 1_600);
    assert!(keys(&redis).is_empty());
}

// testConcurrency_MultiInstance
async fn hundred_clients_exclude_each_other(wait_strategy: WaitStrategy) {
    let redis = Redis::start();
    let clients = join_all((0..100).map(|_| client(&redis))).await;
    assert_eq!(count_together(clients, 1, wait_strategy).await, 100);
    assert!(keys(&redis).is_empty());
}

// testTryLockAsync
async fn unlimited_wait_ends_with_the_release(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let guard = t.ours().acquire().await.unwrap();
    let waiting = waiter(t.theirs());
    sleep(ms(500)).await;
    assert!(!waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

// testTimedTryLockAsync
async fn wait_succeeds_if_the_lock_is_released_in_time(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let guard = t.ours().acquire().await.unwrap();
    let theirs = t.theirs().lease(secs(30));
    let waiting = tokio::spawn(async move { theirs.acquire_within(secs(5)).await });
    sleep(ms(500)).await;
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

// testTryLockAsyncWaitTime
async fn failed_wait_ends_at_its_timeout(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let guard = t.ours().acquire().await.unwrap();
    let start = Instant::now();
    let error = t.theirs().acquire_within(secs(1)).await.unwrap_err();
    assert!(start.elapsed() >= secs(1) && start.elapsed() < secs(3), "{:?}", start.elapsed());
    match error {
        Error::TimedOut { holder: Some(holder), .. } => assert_eq!(holder.owner(), guard.owner()),
        other => panic!("{other:?}"),
    }
    release_guard(guard).await;
}

// testTryLockAsyncFailed, testTryLockAsyncSucceed
async fn try_acquire_fails_while_held_and_succeeds_after_release(wait_strategy: WaitStrategy) {
    let t = Setup::new(wait_strategy).await;
    let guard = t.ours().acquire().await.unwrap();
    assert!(t.theirs().try_acquire().await.unwrap().is_none());
    release_guard(guard).await;
    release_guard(t.theirs().try_acquire().await.unwrap().unwrap()).await;
}

// testSubscriptionsPerConnection
#[tokio::test(flavor = "multi_thread")]
async fn tasks_on_few_names_leave_no_subscription() {
    // given 32 tasks that acquire 5 locks, a thousand times in all
    let redis = Redis::start();
    let client = client(&redis).await;
    let tasks = (0..32).map(|task| {
        let client = client.clone();
        tokio::spawn(async move {
            for round in 0..32 {
                let lock = client.lock(format!("door-{}", (task + round) % 5)).unwrap();
                let guard = lock.acquire().await.unwrap();
                sleep(ms(fastrand::u64(0..5))).await;
                release_guard(guard).await;
            }
        })
    });
    let tasks = join_all(tasks.collect::<Vec<_>>());
    let done = within(secs(60), "all tasks end", tasks).await;
    done.into_iter().for_each(Result::unwrap);

    eventually("no client is subscribed", SOON, || {
        redis.command(&["PUBSUB", "CHANNELS", "*_lock__*"]).list().is_empty()
    });
    let stats = client.stats();
    assert_eq!((stats.held, stats.waiting, stats.granted), (0, 0, 32 * 32));
}

// Similar to testWriteLockAfterTimeout of RedissonLockExpirationRenewalTest
#[tokio::test(flavor = "multi_thread")]
async fn lock_acquired_after_a_data_loss_is_renewed() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let lock = client.lock("door").unwrap().ttl(secs(3));
    let lost = lock.acquire().await.unwrap();
    redis.restart();
    sleep(secs(4)).await;
    let release = lost.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");

    for _ in 0..2 {
        let guard = lock.acquire().await.unwrap();
        sleep(secs(4)).await;
        assert_eq!(lock.held_by(guard.owner()).await.unwrap(), 1);
        release_guard(guard).await;
    }
}

/// Returns the first five pauses of a polling waiter, in milliseconds.
async fn pauses(initial: std::time::Duration, max: std::time::Duration) -> Vec<f64> {
    // given a polling waiter for a lock that stays held
    let redis = Redis::start();
    let client = client(&redis).await;
    hold_by_hand(&redis, "door", "java:1", secs(60));
    let monitor = redis.monitor();
    let strategy = WaitStrategy::Polling { initial, max };
    let waiting = waiter(client.lock("door").unwrap().wait_strategy(strategy));
    eventually("the waiter has sent six requests", secs(10), || redis.calls().of("evalsha") >= 6);
    waiting.abort();

    let lines = monitor.stop();
    let asked = lines.iter().filter(|line| line.contains("EVALSHA"));
    let asked: Vec<f64> =
        asked.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    asked.windows(2).take(5).map(|pair| (pair[1] - pair[0]) * 1e3).collect()
}

/// Asserts that each pause is as long as planned. A jitter may shorten it by a quarter, and a busy
/// machine may lengthen it.
fn pauses_are(pauses: &[f64], planned: [f64; 5]) {
    assert_eq!(pauses.len(), planned.len(), "{pauses:?}");
    assert!(pauses.iter().zip(planned).all(|(it, least)| *it >= least * 0.75 - 1.0), "{pauses:?}");
    assert!(pauses.iter().sum::<f64>() < 5_000.0, "{pauses:?}");
}

// LockOptionsTest.testExponentialBackoff
#[tokio::test(flavor = "multi_thread")]
async fn polling_pause_doubles_up_to_the_longest_pause() {
    pauses_are(&pauses(ms(100), ms(400)).await, [100.0, 200.0, 400.0, 400.0, 400.0]);
}

// LockOptionsTest.testConstantBackoff. If the pauses doubled, they would take seven to nine
// seconds.
#[tokio::test(flavor = "multi_thread")]
async fn polling_pause_is_constant_if_initial_and_max_are_equal() {
    pauses_are(&pauses(ms(300), ms(300)).await, [300.0; 5]);
}
