//! Tests that are ported from Redisson: the tests of its fair lock, in virtual time.
//!
//! A comment at each test names the test of Redisson. Where Redisson uses a Java thread, the test
//! uses a task. Redisson's tests of scripts, `…Drift_Descrete`, are in
//! `src/store/redis/kinds/fair/tests.rs`. Redisson's tests of keys are in the same file and in
//! `src/store/redis/keys.rs` (`testNameMapper`).

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use futures_util::future::join_all;
use leasehold::{Client, Error, Lock, MemoryStore, Release, WaitStrategy};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::common::{POLLING, ms, release_guard, release_one_of_two, secs};

/// A store, and clients that wait for one lock.
struct Setup {
    locks: Vec<Lock>,
    order: Arc<Mutex<Vec<usize>>>,
}

impl Setup {
    fn new(clients: usize) -> Self {
        let store = MemoryStore::new();
        let lock = |_| Client::with_store(&store).fair_lock("door").unwrap();
        Self { locks: (0..clients).map(lock).collect(), order: Arc::default() }
    }

    /// The lock of a task. The clients are assigned to tasks in rotation.
    fn lock(&self, task: usize) -> Lock {
        self.locks[task % self.locks.len()].clone()
    }

    /// Starts a task that acquires the lock, and holds it for `time`.
    fn holds(&self, task: usize, lock: Lock, time: std::time::Duration) -> JoinHandle<()> {
        let order = Arc::clone(&self.order);
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(task);
            sleep(time).await;
            release_guard(guard).await;
        })
    }

    fn order(&self) -> Vec<usize> {
        self.order.lock().unwrap().clone()
    }
}

/// `testLeaseTimeout`: no holder releases.
#[tokio::test(start_paused = true)]
async fn fair_waiters_acquire_in_order_when_each_lease_expires() {
    let (t, start) = (Setup::new(3), Instant::now());
    let tasks = (0..8).map(|task| {
        let (lock, order) = (t.lock(task).lease(secs(1)), Arc::clone(&t.order));
        tokio::spawn(async move {
            sleep(ms(100) * u32::try_from(task).unwrap()).await;
            let guard = lock.acquire_within(secs(10)).await.unwrap();
            order.lock().unwrap().push(task);
            // 60 s are long enough for all leases to end.
            sleep(secs(60)).await;
            drop(guard);
        })
    });
    let tasks: Vec<_> = tasks.collect();
    while t.order().len() < 8 {
        sleep(ms(10)).await;
    }
    assert!(start.elapsed() < secs(11), "{:?}", start.elapsed());
    assert_eq!(t.order(), (0..8).collect::<Vec<_>>());
    tasks.iter().for_each(JoinHandle::abort);
}

/// `testConcurrency_MultiInstance_Ordering`.
#[tokio::test(start_paused = true)]
async fn tasks_of_several_clients_acquire_in_order_of_arrival() {
    for strategy in [WaitStrategy::PubSub, POLLING] {
        let (t, start) = (Setup::new(4), Instant::now());
        let mut tasks = vec![];
        for task in 0..16 {
            tasks.push(t.holds(task, t.lock(task).wait_strategy(strategy), secs(1)));
            sleep(ms(10)).await;
        }
        join_all(tasks).await;
        assert_eq!(t.order(), (0..16).collect::<Vec<_>>());
        assert!(start.elapsed() < secs(45), "{:?}", start.elapsed());
    }
}

/// Waiters of one client and of other clients acquire in one common order.
#[tokio::test(start_paused = true)]
async fn release_serves_remote_waiters_before_later_local_tasks() {
    let t = Setup::new(2);
    let guard = t.lock(0).acquire().await.unwrap();
    let mut tasks = vec![];
    for task in [1, 0, 2, 4, 3] {
        tasks.push(t.holds(task, t.lock(task), ms(5)));
        sleep(ms(20)).await;
    }
    release_guard(guard).await;
    join_all(tasks).await;
    assert_eq!(t.order(), [1, 0, 2, 4, 3]);
}

/// `testMultipleLocks`, `testConcurrency_SingleInstance` and `testConcurrency_MultiInstance`.
#[tokio::test(start_paused = true)]
async fn five_hundred_tasks_each_hold_once_within_three_minutes() {
    let (t, start) = (Setup::new(5), Instant::now());
    let tasks = (0..500).map(|task| t.holds(task, t.lock(task), ms(200)));
    join_all(tasks.collect::<Vec<_>>()).await;
    let mut seen = t.order();
    seen.sort_unstable();
    assert_eq!(seen, (0..500).collect::<Vec<_>>());
    // If the tasks hold the lock one after the other, they need a hundred seconds.
    assert!((secs(100)..secs(180)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

/// `testConcurrencyLoop_MultiInstance`: each client creates a lock value for each hold.
#[tokio::test(start_paused = true)]
async fn sixteen_clients_lose_no_increment_under_a_fair_lock() {
    let (store, held) = (MemoryStore::new(), Arc::new(AtomicU32::new(0)));
    let tasks = (0..16).map(|_| {
        let (client, held) = (Client::with_store(&store), Arc::clone(&held));
        tokio::spawn(async move {
            for _ in 0..100 {
                let guard = client.fair_lock("door").unwrap().acquire().await.unwrap();
                let before = held.load(Relaxed);
                sleep(ms(10)).await;
                held.store(before + 1, Relaxed);
                release_guard(guard).await;
            }
        })
    });
    join_all(tasks.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
    assert_eq!(held.load(Relaxed), 1_600);
}

/// `testLockAcquiredTimeoutDrift`: each of many tasks tries three times, for three seconds.
#[tokio::test(start_paused = true)]
async fn all_waiters_acquire_when_timed_out_waiters_retry() {
    let t = Setup::new(3);
    let tasks = (0..60).map(|task| {
        let lock = t.lock(task);
        tokio::spawn(async move {
            for _ in 0..3 {
                match lock.acquire_within(secs(3)).await {
                    Ok(guard) => {
                        sleep(ms(100)).await;
                        release_guard(guard).await;
                        return true;
                    }
                    Err(error) => assert!(matches!(error, Error::TimedOut { .. }), "{error}"),
                }
            }
            false
        })
    });
    let acquired = join_all(tasks.collect::<Vec<_>>()).await;
    assert_eq!(acquired.into_iter().filter(|it| matches!(it, Ok(true))).count(), 60);
}

/// `testExpire`: the first holder releases after its lease has ended.
#[tokio::test(start_paused = true)]
async fn expired_lease_admits_the_next_waiter_and_release_reports_it() {
    let t = Setup::new(2);
    let expired = t.lock(0).lease(secs(2)).acquire().await.unwrap();
    let start = Instant::now();
    let next = t.lock(1).acquire().await.unwrap();
    assert!(start.elapsed() < ms(2_020), "{:?}", start.elapsed());
    assert!(!expired.is_held());
    release_guard(next).await;
    assert!(matches!(expired.release().await.unwrap(), Release::NotHeld { .. }));
}

/// `testAutoExpire`: the client dies.
#[tokio::test(start_paused = true)]
async fn lock_of_a_dead_client_is_free_after_its_ttl() {
    let store = MemoryStore::new();
    let [dead, next] = [(); 2].map(|()| Client::with_store(&store).fair_lock("door").unwrap());
    let guard = dead.clone().lease(secs(30)).acquire().await.unwrap();
    std::mem::forget(guard);
    let start = Instant::now();
    release_guard(next.acquire().await.unwrap()).await;
    assert!(start.elapsed() < secs(31), "{:?}", start.elapsed());
}

/// `testForceUnlock`, and `testUnlockFail`: the guard of a lost hold releases nothing.
#[tokio::test(start_paused = true)]
async fn forced_release_of_a_fair_lock_admits_the_first_waiter() {
    let t = Setup::new(3);
    let guard = t.lock(0).acquire().await.unwrap();
    let mut tasks = vec![];
    for task in [1, 2] {
        tasks.push(t.holds(task, t.lock(task), ms(5)));
        sleep(ms(10)).await;
    }
    assert!(t.lock(2).force_release().await.unwrap());
    join_all(tasks).await;
    assert_eq!(t.order(), [1, 2]);
    assert!(!t.lock(2).force_release().await.unwrap());
    assert!(matches!(guard.release().await.unwrap(), Release::NotHeld { .. }));
}

/// `testGetHoldCount`, `testReentrancy`, `testIsLocked`, `testIsLockedOtherThread`,
/// `testIsHeldByCurrentThread`, `testIsHeldByCurrentThreadOtherThread` and `testLockUnlock`.
#[tokio::test(start_paused = true)]
async fn reentered_lock_is_free_after_two_releases() {
    let t = Setup::new(2);
    let (ours, theirs) = (t.lock(0), t.lock(1));
    for _ in 0..2 {
        assert!(!theirs.is_locked().await.unwrap());
        let guard = ours.acquire().await.unwrap();
        let again = guard.reenter().await.unwrap();
        assert!(theirs.is_locked().await.unwrap());
        assert_eq!(theirs.held_by(guard.owner()).await.unwrap(), 2);
        release_one_of_two(again).await;
        assert_eq!(ours.held_by(guard.owner()).await.unwrap(), 1);
        assert!(theirs.try_acquire().await.unwrap().is_none());
        let error = ours.acquire_within(ms(100)).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { by_this_client: true, .. }), "{error:?}");
        release_guard(guard).await;
    }
}

// Waiters that leave.

#[derive(Clone, Copy, Debug)]
enum Leaves {
    Dropped,
    TimedOut,
    Unpolled,
}

#[tokio::test(start_paused = true)]
async fn leaving_fair_waiter_delays_the_next_waiter_by_7_s_at_most() {
    for (leaves, at_most) in
        [(Leaves::Dropped, ms(50)), (Leaves::TimedOut, ms(50)), (Leaves::Unpolled, ms(6_950))]
    {
        let t = Setup::new(3);
        let guard = t.lock(0).acquire().await.unwrap();
        let lock = t.lock(1);
        let mut first = Box::pin(lock.acquire_within(match leaves {
            Leaves::TimedOut => secs(1),
            Leaves::Dropped | Leaves::Unpolled => secs(600),
        }));
        assert!(tokio::time::timeout(ms(10), &mut first).await.is_err());
        let next = t.holds(2, t.lock(2), ms(0));
        match leaves {
            Leaves::Dropped => drop(first),
            Leaves::TimedOut => drop(first.await.unwrap_err()),
            Leaves::Unpolled => std::mem::forget(first),
        }
        sleep(ms(500)).await;
        let start = Instant::now();
        release_guard(guard).await;
        next.await.unwrap();
        assert!(start.elapsed() <= at_most, "{leaves:?}: {:?}", start.elapsed());
    }
}
