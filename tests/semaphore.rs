//! The semaphore, on the store in memory and in virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{
    Client, Error, LostReason, MemoryStore, Release, Result, RunOutcome, Semaphore, SemaphoreGuard,
};
use tokio::{
    runtime::Builder,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Too short for a poll or a timer. A waiter that acquires within this time was notified.
const AT_ONCE: Duration = millis(10);

/// Two clients of one store, and a semaphore with a number of permits.
struct World {
    store: MemoryStore,
    one: Semaphore,
    other: Semaphore,
    clients: [Client; 2],
}

async fn world(permits: u32) -> World {
    let store = MemoryStore::new();
    let clients = [Client::with_store(&store), Client::with_store(&store)];
    let [one, other] = clients.each_ref().map(|client| client.semaphore("pool").unwrap());
    assert!(one.set_if_absent(permits).await.unwrap());
    World { store, one, other, clients }
}

/// Starts a waiter for `permits` permits, and returns when the waiter has sent its first request.
async fn waiting(semaphore: &Semaphore, permits: u32) -> JoinHandle<Result<SemaphoreGuard>> {
    let semaphore = semaphore.clone();
    let waiter = tokio::spawn(async move { semaphore.acquire(permits).await });
    sleep(millis(1)).await;
    assert!(!waiter.is_finished());
    waiter
}

/// Returns the guard of a waiter, which must acquire within `limit`.
async fn entered(limit: Duration, waiter: JoinHandle<Result<SemaphoreGuard>>) -> SemaphoreGuard {
    timeout(limit, waiter).await.expect("the waiter acquires in time").unwrap().unwrap()
}

async fn back(guard: SemaphoreGuard) {
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// Former bug: each release sent a request, and the next task sent another one. 64 tasks together
/// had only 9,700 holds a second.
#[tokio::test(start_paused = true)]
async fn permits_are_handed_off_without_a_request() {
    let t = world(2).await;
    let both = t.one.acquire(2).await.unwrap();
    let waiter = waiting(&t.one, 2).await;
    t.store.stall();
    back(both).await;
    let guard = entered(AT_ONCE, waiter).await;
    assert_eq!(t.clients[0].stats().handed_off, 1);
    t.store.resume();
    back(guard).await;
    assert_eq!(t.other.available().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn semaphore_permits_are_not_handed_off_after_ten_milliseconds() {
    let t = world(1).await;
    let guard = t.one.acquire(1).await.unwrap();
    let waiter = waiting(&t.one, 1).await;
    sleep(millis(10)).await;
    back(guard).await;
    back(entered(AT_ONCE, waiter).await).await;
    assert_eq!(t.clients[0].stats().handed_off, 0);
}

#[tokio::test(start_paused = true)]
async fn permits_are_handed_off_only_to_a_request_for_the_same_number() {
    let t = world(2).await;
    let both = t.one.acquire(2).await.unwrap();
    let waiter = waiting(&t.one, 1).await;
    back(both).await;
    let guard = entered(AT_ONCE, waiter).await;
    assert_eq!((t.clients[0].stats().handed_off, t.one.available().await.unwrap()), (0, 1));
    back(guard).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_grants_its_permits_again_after_their_release() {
    let t = world(3).await;
    let (two, one) = (t.one.acquire(2).await.unwrap(), t.other.acquire(1).await.unwrap());
    assert_eq!((two.permits(), one.permits()), (2, 1));
    assert!(t.one.try_acquire(1).await.unwrap().is_none());
    back(two).await;
    assert_eq!(t.other.available().await.unwrap(), 2);
    drop(one);
    sleep(AT_ONCE).await;
    assert_eq!(t.other.available().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn zero_permits_are_refused() {
    let t = world(3).await;
    for asked in [
        t.one.acquire(0).await.map(Some),
        t.one.try_acquire(0).await,
        t.one.acquire_within(0, secs(1)).await.map(Some),
    ] {
        assert!(matches!(asked, Err(Error::ZeroCount { name }) if name.as_str() == "pool"));
    }
    let max_wait = t.one.acquire_within(1, Duration::ZERO).await;
    assert!(matches!(max_wait, Err(Error::Duration(_))));
}

#[tokio::test(start_paused = true)]
async fn missing_semaphore_has_no_permits_until_permits_are_added() {
    let pool = Client::in_memory().semaphore("pool").unwrap();
    assert!(pool.try_acquire(1).await.unwrap().is_none());
    let waiter = waiting(&pool, 2).await;
    assert_eq!(pool.add(1).await.unwrap(), 1);
    sleep(millis(1)).await;
    assert!(!waiter.is_finished());
    assert_eq!(pool.add(1).await.unwrap(), 2);
    back(entered(AT_ONCE, waiter).await).await;
}

#[tokio::test(start_paused = true)]
async fn negative_add_may_reduce_free_permits_below_zero() {
    let pool = Client::in_memory().semaphore("pool").unwrap();
    for (permits, free) in [(10, 10), (-10, 0), (4, 4), (10, 14), (-5, 9), (-14, -5), (10, 5)] {
        assert_eq!(pool.add(permits).await.unwrap(), free);
    }
    pool.acquire(5).await.unwrap().forget();
    assert_eq!(pool.available().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn drain_takes_all_free_permits() {
    let t = world(10).await;
    let _three = t.one.acquire(3).await.unwrap();
    assert_eq!(t.other.drain().await.unwrap(), 7);
    assert_eq!(t.other.drain().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn release_of_another_client_wakes_the_waiter_at_once() {
    let t = world(4).await;
    let guards = [t.one.acquire(2).await.unwrap(), t.one.acquire(2).await.unwrap()];
    let waiter = waiting(&t.other, 4).await;
    sleep(secs(60)).await;
    for guard in guards {
        assert!(!waiter.is_finished());
        back(guard).await;
    }
    assert_eq!(entered(AT_ONCE, waiter).await.permits(), 4);
}

#[tokio::test(start_paused = true)]
async fn one_release_of_permits_admits_several_waiters() {
    let t = world(3).await;
    let three = t.one.acquire(3).await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..3 {
        waiters.push(waiting(&t.other, 1).await);
    }
    back(three).await;
    let guards = join_all(waiters.into_iter().map(|waiter| entered(AT_ONCE, waiter))).await;
    assert_eq!((guards.len(), t.one.available().await.unwrap()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn local_waiters_acquire_in_order_of_arrival() {
    let t = world(2).await;
    let two = t.one.acquire(2).await.unwrap();
    let (many, few) = (waiting(&t.one, 2).await, waiting(&t.one, 1).await);
    back(two).await;
    let guard = entered(AT_ONCE, many).await;
    assert!(!few.is_finished());
    back(guard).await;
    back(entered(AT_ONCE, few).await).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_timeout_error_names_the_semaphore() {
    let t = world(1).await;
    let _all = t.one.acquire(1).await.unwrap();
    let start = Instant::now();
    let both = [t.other.acquire_within(1, secs(5)), t.other.acquire_within(1, secs(5))];
    for error in join_all(both).await.into_iter().map(Result::unwrap_err) {
        assert!(error.is_busy() && !error.is_transient());
        assert_eq!(
            error.to_string(),
            "timed out after 5s waiting for `pool`; retry later, or use a longer timeout"
        );
    }
    assert_eq!(start.elapsed(), secs(5));
}

#[tokio::test(start_paused = true)]
async fn waiter_that_gave_up_takes_no_permits_later() {
    let t = world(1).await;
    let all = t.one.acquire(1).await.unwrap();
    let waiter = waiting(&t.other, 1).await;
    waiter.abort();
    back(all).await;
    sleep(secs(10)).await;
    assert_eq!(t.one.available().await.unwrap(), 1);
    assert!(t.one.try_acquire(1).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn late_grant_of_a_cancelled_waiter_is_released() {
    let t = world(1).await;
    t.store.stall();
    assert!(timeout(millis(5), t.one.acquire(1)).await.is_err());
    t.store.resume();
    sleep(secs(10)).await;
    assert_eq!(t.other.available().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn forgotten_permits_stay_acquired_but_count_as_released() {
    let t = world(3).await;
    let guard = t.one.acquire(2).await.unwrap();
    let lost = guard.lost();
    guard.forget();
    assert_eq!(lost.await, LostReason::Released);
    sleep(secs(60)).await;
    assert_eq!(t.other.available().await.unwrap(), 1);
    assert_eq!(t.clients[0].stats().held, 0);
    assert_eq!(t.other.add(2).await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn permits_have_no_lease() {
    let t = world(1).await;
    let guard = t.one.acquire(1).await.unwrap();
    t.store.stall();
    sleep(secs(24 * 60 * 60)).await;
    assert!(guard.is_held());
    t.store.resume();
    assert_eq!(t.other.available().await.unwrap(), 0);
    back(guard).await;
}

#[tokio::test(start_paused = true)]
async fn release_to_a_deleted_semaphore_adds_no_permits() {
    let t = world(2).await;
    let guards = [t.one.acquire(1).await.unwrap(), t.one.acquire(1).await.unwrap()];
    let [first, second] = guards;
    assert!(t.other.delete().await.unwrap());
    assert!(!t.other.delete().await.unwrap());
    let gone = |release: Release| match release {
        Release::NotHeld { reason, holder: None, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(gone(first.release().await.unwrap()), LostReason::NotOwned);
    assert_eq!(t.other.available().await.unwrap(), 0);
    assert!(t.other.set_if_absent(1).await.unwrap());
    assert_eq!(gone(second.release().await.unwrap()), LostReason::NotOwned);
    assert_eq!(t.other.available().await.unwrap(), 1);
}

/// A background task releases a dropped guard, and this task ends with its runtime.
#[test]
fn permits_leak_when_a_program_ends_without_shutdown() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    for (shuts_down, free) in [(false, 2), (true, 3)] {
        let store = MemoryStore::new();
        runtime().block_on(async {
            let client = Client::with_store(&store);
            let pool = client.semaphore("pool").unwrap();
            pool.set_if_absent(3).await.unwrap();
            drop(pool.acquire(1).await.unwrap());
            if shuts_down {
                client.shutdown(secs(5)).await;
            }
        });
        let pool = Client::with_store(&store).semaphore("pool").unwrap();
        assert_eq!(runtime().block_on(pool.available()).unwrap(), free, "{shuts_down}");
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_permits() {
    let t = world(2).await;
    let guard = t.one.acquire(2).await.unwrap();
    let shutdown = t.clients[0].shutdown(millis(100)).await;
    assert_eq!((shutdown.revoked, shutdown.pending), (1, 0));
    assert_eq!(guard.lost().await, LostReason::ShutDown);
    assert_eq!(t.other.available().await.unwrap(), 2);
    assert!(matches!(t.one.acquire(1).await, Err(Error::ShutDown)));
}

/// The store may have executed a request to which it has not replied.
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_running_requests() {
    for tries in [false, true] {
        let t = world(1).await;
        let pool = t.one.clone();
        t.store.stall();
        let asks = tokio::spawn(async move {
            match tries {
                true => pool.try_acquire(1).await.map(drop),
                false => pool.acquire(1).await.map(drop),
            }
        });
        sleep(millis(1)).await;
        let shutdown = t.clients[0].shutdown(millis(100)).await;
        assert_eq!((shutdown.revoked, shutdown.pending), (0, 1), "tries: {tries}");
        t.store.resume();
        assert_eq!(t.clients[0].shutdown(secs(1)).await.pending, 0, "tries: {tries}");
        assert!(matches!(asks.await.unwrap(), Err(Error::ShutDown)));
        assert_eq!(t.other.available().await.unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_releases_in_flight() {
    let t = world(1).await;
    let guard = t.one.acquire(1).await.unwrap();
    t.store.stall();
    let release = tokio::spawn(guard.release());
    sleep(millis(1)).await;
    assert_eq!(t.clients[0].shutdown(millis(100)).await.pending, 1);
    t.store.resume();
    assert_eq!(t.clients[0].shutdown(secs(1)).await.pending, 0);
    assert_eq!(release.await.unwrap().unwrap(), Release::Released);
}

/// Waiters for one permit acquire repeatedly. Without a preference, the waiter for all permits
/// would never find enough of them free.
#[tokio::test(start_paused = true)]
async fn waiter_for_many_permits_is_not_starved_by_small_requests() {
    let t = world(4).await;
    let mut few = Vec::new();
    for n in 0..4_u64 {
        let pool = t.one.clone();
        few.push(tokio::spawn(async move {
            sleep(millis(5 * n)).await;
            loop {
                let guard = pool.acquire(1).await.unwrap();
                sleep(millis(20)).await;
                back(guard).await;
            }
        }));
    }
    sleep(millis(50)).await;
    let start = Instant::now();
    let all = timeout(secs(6), t.other.acquire(4)).await.expect("the waiter acquires").unwrap();
    // The store prefers this waiter only after it has waited for a second. Until then, other
    // waiters overtake it.
    assert!(
        start.elapsed() >= millis(900),
        "other waiters overtake this waiter in its first second: {:?}",
        start.elapsed()
    );
    back(all).await;
    few.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn longest_waiter_that_gives_up_blocks_no_other_client() {
    let t = world(4).await;
    let three = t.one.acquire(3).await.unwrap();
    let (pool, max_wait) = (t.other.clone(), millis(4_500));
    let many = tokio::spawn(async move { pool.acquire_within(4, max_wait).await });
    sleep(millis(4_400)).await;
    assert!(
        t.one.try_acquire(1).await.unwrap().is_none(),
        "the permits are kept for the longest waiter"
    );
    assert!(many.await.unwrap().is_err());
    sleep(AT_ONCE).await;
    assert!(t.one.try_acquire(1).await.unwrap().is_some());
    back(three).await;
}

#[tokio::test(start_paused = true)]
async fn oversized_request_blocks_no_other_client() {
    let t = world(2).await;
    let too_many = waiting(&t.other, 3).await;
    for _ in 0..20 {
        back(t.one.acquire_within(2, AT_ONCE).await.unwrap()).await;
        sleep(secs(1)).await;
    }
    assert!(!too_many.is_finished());
    t.one.add(1).await.unwrap();
    entered(AT_ONCE, too_many).await.forget();
}

/// The store cannot know that some permits will never be released, so the store keeps permits free
/// for the longest waiter. The store does this for at most half a minute.
#[tokio::test(start_paused = true)]
async fn longest_waiter_blocks_others_for_thirty_seconds_at_most() {
    // given permits that a dead client holds, and two clients that each wait for all permits but
    // one
    let t = world(10).await;
    let _dead = t.one.acquire(2).await.unwrap();
    let third = Client::with_store(&t.store).semaphore("pool").unwrap();
    let _many = waiting(&t.other, 9).await;
    sleep(secs(7)).await;
    let _more = waiting(&third, 9).await;
    sleep(millis(500)).await;
    assert!(
        t.one.try_acquire(1).await.unwrap().is_none(),
        "the permits are kept for the longest waiter"
    );

    // then other clients can acquire for half a minute, cannot acquire for half a minute, and so on
    let mut looks = Vec::new();
    for _ in 0..300 {
        looks.push(t.one.try_acquire(1).await.unwrap().is_some());
        sleep(secs(1)).await;
    }
    let turns: Vec<_> =
        looks.chunk_by(|one, next| one == next).map(|it| (it[0], it.len())).collect();
    assert!(turns.len() >= 9, "{turns:?}");
    for (free, seconds) in &turns[1..turns.len() - 1] {
        assert!(if *free { *seconds >= 29 } else { *seconds <= 31 }, "{turns:?}");
    }
    // and a waiter acquires at the end of a half minute in which no client can acquire
    sleep(secs(30)).await;
    for _ in 0..3 {
        back(t.one.acquire_within(1, secs(31)).await.unwrap()).await;
        sleep(secs(20)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn number_beyond_javas_int_is_refused() {
    let t = world(1).await;
    let most = |error: Error| match error {
        Error::TooMany { most, .. } => most,
        other => panic!("{other}"),
    };
    let many = u32::MAX;
    for error in [
        t.one.acquire(many).await.unwrap_err(),
        t.one.acquire_within(many, secs(1)).await.unwrap_err(),
        t.one.try_acquire(many).await.unwrap_err(),
        t.one.set_if_absent(many).await.unwrap_err(),
        t.one.add(i64::MAX).await.unwrap_err(),
        t.one.add(i64::MIN).await.unwrap_err(),
        t.one.add(-(1 << 31)).await.unwrap_err(),
    ] {
        assert_eq!(most(error), 2_147_483_647);
    }
    // The sum of all permits has the same limit.
    let sum = t.one.add((1 << 31) - 1).await.unwrap_err();
    assert!(matches!(sum, Error::Refused { .. }), "{sum:?}");
    assert_eq!(t.one.add((1 << 31) - 2).await.unwrap(), (1 << 31) - 1);
    assert_eq!(t.one.available().await.unwrap(), (1 << 31) - 1);
}

#[tokio::test(start_paused = true)]
async fn oversized_request_blocks_later_tasks_of_its_own_client() {
    let t = world(2).await;
    let too_many = waiting(&t.one, 3).await;
    let refused = t.one.acquire_within(1, secs(60)).await;
    assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    back(t.one.try_acquire(1).await.unwrap().unwrap()).await;
    // When the oversized request is dropped, the tasks behind it acquire.
    let behind = waiting(&t.one, 1).await;
    too_many.abort();
    back(entered(AT_ONCE, behind).await).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_never_hold_more_permits_than_exist() {
    let t = world(5).await;
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let worker = |n: usize| {
        let (pool, taken) = ([t.one.clone(), t.other.clone()][n % 2].clone(), taken.clone());
        tokio::spawn(async move {
            for round in 0..20_u32 {
                let permits = 1 + (round + u32::try_from(n).unwrap()) % 5;
                let guard = pool.acquire(permits).await.unwrap();
                let now = taken.fetch_add(permits, std::sync::atomic::Ordering::SeqCst) + permits;
                assert!(now <= 5, "{now} of 5");
                sleep(millis(3)).await;
                taken.fetch_sub(permits, std::sync::atomic::Ordering::SeqCst);
                back(guard).await;
            }
        })
    };
    let workers: Vec<_> = (0..16).map(worker).collect();
    for done in timeout(secs(600), join_all(workers)).await.expect("all workers acquire") {
        done.unwrap();
    }
    assert_eq!(t.one.available().await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn dropped_client_ends_despite_pending_permit_releases() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let pool = client.semaphore("pool").unwrap();
    pool.set_if_absent(3).await.unwrap();
    let guard = pool.acquire(1).await.unwrap();
    store.stall();
    drop(guard);
    sleep(Duration::from_secs(1)).await;
    drop((client, pool));
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    // For a while, the client retries its pending release, and tries to connect for this release.
    sleep(Duration::from_secs(1_200)).await;
    let server = alive();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(alive(), server, "the client no longer connects");
    store.resume();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn run_reports_that_its_semaphore_was_deleted() {
    let pool = Client::in_memory().semaphore("pool").unwrap();
    pool.set_if_absent(3).await.unwrap();
    let free = pool.run(2, async |_held| pool.available().await.unwrap()).await.unwrap();
    assert_eq!((free, pool.available().await.unwrap()), (1, 3));
    let ran = pool.acquire(1).await.unwrap().run(async |_held| pool.delete().await.unwrap());
    assert!(matches!(
        ran.await,
        RunOutcome::CompletedAfterLoss { value: true, reason: LostReason::NotOwned, .. }
    ));
}
