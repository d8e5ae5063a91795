//! The quorum lock on simulated servers, in virtual time.

use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::FutureExt;
use leasehold::{
    Client, Error, LostReason, MemoryStore, QuorumClient, QuorumGuard, QuorumLock, Release,
    RunOutcome,
};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

/// Independent servers, and the quorum lock `door` of any number of clients.
struct Setup<const N: usize> {
    servers: [MemoryStore; N],
}

impl<const N: usize> Setup<N> {
    fn new() -> Self {
        Self { servers: std::array::from_fn(|_| MemoryStore::new()) }
    }

    /// The lock of a new client.
    fn lock(&self) -> QuorumLock {
        let clients = self.servers.iter().map(Client::with_store);
        QuorumClient::of(clients).unwrap().lock("door").unwrap()
    }

    /// The number of servers that have the lock as held.
    async fn held_at(&self) -> usize {
        let mut held = 0;
        for server in &self.servers {
            let lock = Client::with_store(server).lock("door").unwrap();
            held += usize::from(lock.is_locked().await.unwrap());
        }
        held
    }

    /// Acquires once while all servers are new, so that each of them has stored that it was used.
    async fn known() -> Self {
        let setup = Self::new();
        drop(acquire(&setup.lock()).await);
        sleep(SECOND).await;
        setup
    }
}

async fn acquire(lock: &QuorumLock) -> QuorumGuard {
    lock.acquire_within(10 * SECOND).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_servers_grant_and_release_the_lock() {
    let setup = Setup::<5>::new();
    let guard = acquire(&setup.lock()).await;
    sleep(SECOND).await;
    assert!(guard.is_held());
    assert_eq!(setup.held_at().await, 5);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    sleep(SECOND).await;
    assert_eq!(setup.held_at().await, 0);
}

#[tokio::test(start_paused = true)]
async fn majority_grants_while_two_of_five_servers_are_stopped() {
    let setup = Setup::<5>::known().await;
    setup.servers[..2].iter().for_each(MemoryStore::stall);
    let (lock, start) = (setup.lock(), Instant::now());
    let guard = acquire(&lock).await;
    assert!(start.elapsed() < SECOND / 10, "{:?}", start.elapsed());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(start.elapsed() < SECOND / 10, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn quorum_lock_is_unavailable_with_a_minority_of_servers() {
    let setup = Setup::<5>::known().await;
    setup.servers[..3].iter().for_each(MemoryStore::stall);
    let error = setup.lock().acquire_within(5 * SECOND).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(
        error.to_string().contains("only 2 of 5 servers voted, but 3 must grant the lock"),
        "{error}"
    );
    let error = setup.lock().try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn waiter_acquires_when_the_holder_releases() {
    let setup = Setup::<5>::new();
    let guard = acquire(&setup.lock()).await;
    let lock = setup.lock();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let error = lock.acquire_within(SECOND).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");

    let waiter = tokio::spawn(async move { (acquire(&lock).await, Instant::now()) });
    sleep(3 * SECOND).await;
    let released = Instant::now();
    guard.release().await.unwrap().into_result().unwrap();
    let (next, entered) = waiter.await.unwrap();
    assert!(next.is_held());
    assert!(entered - released < SECOND / 10, "{:?}", entered - released);
}

#[tokio::test(start_paused = true)]
async fn timed_out_caller_gets_its_wait_in_whole_milliseconds() {
    let setup = Setup::<3>::new();
    let _guard = acquire(&setup.lock()).await;
    let (lock, start) = (setup.lock(), Instant::now());
    let between = tokio::time::advance(Duration::from_micros(300));
    let (acquired, ()) = tokio::join!(lock.acquire_within(SECOND), between);
    let error = acquired.unwrap_err();
    let Error::TimedOut { waited, .. } = error else { panic!("{error}") };
    let left_out = start.elapsed() - waited;
    assert_eq!(waited.subsec_nanos() % 1_000_000, 0, "{waited:?}");
    assert!(!left_out.is_zero() && left_out < Duration::from_millis(1), "{left_out:?}");
}

#[tokio::test(start_paused = true)]
async fn minority_of_grants_is_released_at_once() {
    let setup = Setup::<3>::new();
    let others: Vec<_> = setup.servers[..2].iter().map(Client::with_store).collect();
    let first = others[0].lock("door").unwrap().acquire().await.unwrap();
    let second = others[1].lock("door").unwrap().acquire().await.unwrap();
    assert!(setup.lock().try_acquire().await.unwrap().is_none());
    sleep(SECOND / 10).await;
    assert_eq!(setup.held_at().await, 2);
    drop((first, second));
}

#[tokio::test(start_paused = true)]
async fn quorum_hold_is_restored_at_a_server_that_lost_its_data() {
    let setup = Setup::<3>::new();
    let guard = acquire(&setup.lock()).await;
    for server in [2, 0, 1] {
        sleep(SECOND).await;
        setup.servers[server].lose_everything();
        assert_eq!(setup.held_at().await, 2);
        sleep(TTL).await;
        assert!(guard.is_held());
        assert_eq!(setup.held_at().await, 3);
    }
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn server_that_was_stopped_at_the_grant_joins_the_hold() {
    let setup = Setup::<3>::known().await;
    setup.servers[1].stall();
    let guard = acquire(&setup.lock()).await;
    sleep(SECOND).await;
    setup.servers[1].resume();
    sleep(TTL).await;
    assert_eq!(setup.held_at().await, 3);
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn quorum_hold_is_lost_when_the_majority_is_lost() {
    let setup = Setup::<5>::new();
    let guard = acquire(&setup.lock()).await;
    setup.servers[..3].iter().for_each(MemoryStore::lose_everything);
    assert_eq!(guard.lost().await, LostReason::NotOwned);
    assert!(!guard.is_held() && guard.remaining().is_none());
    let release = guard.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { reason: LostReason::NotOwned, .. }));
}

/// Server 0 has lost its data, and servers 3 and 4 never granted the lock. So no majority is left,
/// whatever servers 1 and 2 would reply.
#[tokio::test(start_paused = true)]
async fn release_reports_a_certain_loss_though_servers_are_silent() {
    let setup = Setup::<5>::known().await;
    setup.servers[3..].iter().for_each(|server| server.fail("LOADING not yet"));
    let guard = acquire(&setup.lock()).await;
    setup.servers[0].lose_everything();
    setup.servers[1..3].iter().for_each(MemoryStore::stall);
    let release = guard.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { reason: LostReason::NotOwned, .. }));
}

#[tokio::test(start_paused = true)]
async fn hold_expires_when_no_majority_replies() {
    let setup = Setup::<3>::new();
    let (guard, start) = (acquire(&setup.lock()).await, Instant::now());
    setup.servers[..2].iter().for_each(MemoryStore::stall);
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(start.elapsed() < TTL, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn server_that_lost_its_data_has_no_vote_for_one_lease() {
    // The holder has the votes of the first two servers.
    let setup = Setup::<3>::known().await;
    setup.servers[2].fail("LOADING Redis is loading the dataset in memory");
    let guard = acquire(&setup.lock()).await;

    // The second server loses its data, and the third one works again. These two must not form a
    // majority for another client.
    setup.servers[1].lose_everything();
    setup.servers[2].heal();
    let other = setup.lock();
    let start = Instant::now();
    while guard.is_held() && start.elapsed() < 20 * SECOND {
        assert!(other.try_acquire().await.unwrap().is_none());
        sleep(SECOND / 10).await;
    }
    assert!(guard.is_held(), "the holder got the emptied server again");
}

/// The servers are new, so a server that has lost its data looks like one that was never used.
#[tokio::test(start_paused = true)]
async fn empty_server_has_no_vote_if_another_server_was_silent() {
    let setup = Setup::<3>::new();
    setup.servers[2].stall();
    let (lock, start) = (setup.lock(), Instant::now());
    let guard = lock.acquire_within(60 * SECOND).await.unwrap();
    assert!(start.elapsed() >= TTL, "{:?}", start.elapsed());

    setup.servers[1].lose_everything();
    setup.servers[2].resume();
    let other = setup.lock();
    let start = Instant::now();
    while guard.is_held() && start.elapsed() < 20 * SECOND {
        assert!(other.try_acquire().await.ok().flatten().is_none());
        sleep(SECOND / 10).await;
    }
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn callers_on_new_servers_do_not_wait_for_a_lease() {
    let setup = Setup::<3>::new();
    let first = Client::with_store(&setup.servers[0]).lock("door").unwrap();
    let second = Client::with_store(&setup.servers[1]).lock("door").unwrap();
    let held = (first.acquire().await.unwrap(), second.acquire().await.unwrap());
    assert!(setup.lock().try_acquire().await.unwrap().is_none());
    drop(held);
    assert!(setup.lock().acquire_within(5 * SECOND).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn server_that_lost_its_data_votes_again_after_one_lease() {
    let setup = Setup::<3>::known().await;
    setup.servers[1].lose_everything();
    setup.servers[2].stall();
    let (lock, start) = (setup.lock(), Instant::now());
    let guard = lock.acquire_within(60 * SECOND).await.unwrap();
    let waited = start.elapsed();
    assert!(waited >= TTL && waited < TTL + 5 * SECOND, "{waited:?}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn fixed_lease_is_not_renewed() {
    let setup = Setup::<3>::new();
    let (lock, start) = (setup.lock().lease(5 * SECOND), Instant::now());
    let guard = acquire(&lock).await;
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(start.elapsed() < 5 * SECOND + SECOND / 10);
    sleep(TTL).await;
    assert_eq!(setup.held_at().await, 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_acquire_leaves_no_grant() {
    let setup = Setup::<5>::new();
    for step in 0..40 {
        let lock = setup.lock();
        let acquiring = tokio::spawn(async move { lock.acquire().await });
        for _ in 0..step {
            tokio::task::yield_now().await;
        }
        acquiring.abort();
        drop(acquiring.await);
        sleep(SECOND).await;
        assert_eq!(setup.held_at().await, 0, "after {step} steps");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_guard_releases_all_servers() {
    let setup = Setup::<5>::new();
    drop(acquire(&setup.lock()).await);
    sleep(SECOND).await;
    assert_eq!(setup.held_at().await, 0);
}

#[tokio::test(start_paused = true)]
async fn work_stops_when_the_hold_is_lost() {
    let setup = Setup::<3>::new();
    let lock = setup.lock();
    let guard = acquire(&lock).await;
    let work = tokio::spawn(guard.run(async |held| held.lost().await));
    sleep(SECOND).await;
    assert_eq!(lock.force_release().await.unwrap(), 3);
    let outcome = work.await.unwrap();
    assert!(matches!(outcome, RunOutcome::Cancelled { reason: LostReason::NotOwned, .. }));
    assert!(lock.run(async |held| held.check().is_ok()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn result_of_work_does_not_wait_for_silent_servers() {
    for limit in [None, Some(SECOND / 50)] {
        let setup = Setup::<3>::known().await;
        let builder = || match limit {
            None => Client::builder(),
            Some(limit) => Client::builder().run_release_wait(limit),
        };
        let clients = setup.servers.iter().map(|server| builder().with_store(server));
        let lock = QuorumClient::of(clients).unwrap().lock("door").unwrap();
        let guard = acquire(&lock).await;
        sleep(SECOND).await;
        let stopped = &setup.servers[..2];
        stopped.iter().for_each(MemoryStore::stall);
        let (limit, start) = (limit.unwrap_or(SECOND / 2), Instant::now());
        assert_eq!(guard.run(async |_held| 42).await, RunOutcome::Completed(42));
        let waited = start.elapsed();
        assert!(waited >= limit && waited < limit + SECOND / 100, "{waited:?}");

        stopped.iter().for_each(MemoryStore::resume);
        sleep(SECOND).await;
        assert_eq!(setup.held_at().await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_work_releases_the_lock_and_continues() {
    let setup = Setup::<3>::known().await;
    let guard = acquire(&setup.lock()).await;
    sleep(SECOND).await;
    let run = guard.run(async |_held| resume_unwind(Box::new(42)));
    let panic: Box<_> =
        AssertUnwindSafe(run).catch_unwind().await.map(|_: RunOutcome<()>| ()).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&42));
    let held = setup.servers.iter().filter(|server| server.lose("door")).count();
    assert!(held < 2, "a majority has released the lock: {held}");
}

#[tokio::test(start_paused = true)]
async fn rejection_by_a_majority_is_returned_as_an_error() {
    let setup = Setup::<3>::known().await;
    setup.servers[0].fail("NOPERM this user has no permissions");
    assert!(setup.lock().acquire_within(SECOND).await.is_ok());
    sleep(SECOND).await;
    setup.servers[1].fail("NOPERM this user has no permissions");
    let error = setup.lock().acquire().await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn clients_that_split_the_votes_make_progress() {
    let setup = Setup::<5>::new();
    let start = Instant::now();
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let lock = setup.lock();
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = lock.acquire().await.unwrap();
                    sleep(Duration::from_millis(1)).await;
                    assert_eq!(guard.release().await.unwrap(), Release::Released);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let each = start.elapsed() / 120;
    assert!(each < SECOND / 5, "{each:?} for each hold");
}

// Tests of Redisson's `RedissonRedLock`. Each Java thread is a task with a client of its own.

/// Ported from `RedissonRedLockTest.testLockLeasetimeWithSeconds`, `testLockLeasetimeWithMinutes`
/// and `testTryLockLeasetime`.
#[tokio::test(start_paused = true)]
async fn tasks_with_leases_hold_one_at_a_time() {
    const ROUNDS: u32 = 5;
    for lease in [2 * SECOND, 60 * SECOND] {
        let (setup, count) = (Setup::<3>::known().await, Arc::new(AtomicU32::new(0)));
        let tasks: Vec<_> = (0..10)
            .map(|task| {
                let (lock, count) = (setup.lock().lease(lease), Arc::clone(&count));
                tokio::spawn(async move {
                    for _ in 0..ROUNDS {
                        let guard = match task % 2 {
                            0 => lock.acquire().await.unwrap(),
                            _ => lock.acquire_within(120 * SECOND).await.unwrap(),
                        };
                        let before = count.load(Relaxed);
                        sleep(SECOND).await;
                        count.store(before + 1, Relaxed);
                        assert_eq!(guard.release().await.unwrap(), Release::Released);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(count.load(Relaxed), 10 * ROUNDS, "{lease:?}");
    }
}

/// Ported from `RedissonRedLockTest.testLockFailed`, `testLockSuccess2`, `testMultiThreads` and
/// `test`.
#[tokio::test(start_paused = true)]
async fn lock_held_at_a_minority_is_granted_and_at_a_majority_not() {
    let setup = Setup::<3>::known().await;
    let [first, second, _] = setup.servers.each_ref().map(Client::with_store);
    let one = first.lock("door").unwrap().acquire().await.unwrap();
    let guard = setup.lock().acquire_within(SECOND / 2).await.unwrap();
    sleep(3 * SECOND).await;
    assert_eq!(guard.release().await.unwrap(), Release::Released);

    let other = second.lock("door").unwrap().acquire().await.unwrap();
    for _ in 0..2 {
        assert!(setup.lock().try_acquire().await.unwrap().is_none());
    }
    let lock = setup.lock();
    let waiter = tokio::spawn(async move { acquire(&lock).await });
    sleep(3 * SECOND).await;
    assert!(!waiter.is_finished());
    drop((one, other));
    assert!(waiter.await.unwrap().is_held());
}

#[test]
fn quorum_without_a_server_is_refused() {
    let error = QuorumClient::of([]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid URL: the list of servers is empty; list three or five servers"
    );
}
