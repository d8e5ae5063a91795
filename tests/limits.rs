//! How long a caller waits for one reply. Each limit is a setting of the client.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, sleep};

use leasehold::{Client, ClientBuilder, Error, Lock, LostReason, MemoryStore, RunOutcome};

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A lock of a client whose settings `set` has changed, and the store of the client.
fn world(set: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (MemoryStore, Lock) {
    let store = MemoryStore::new();
    let lock = set(Client::builder()).with_store(&store).lock("door").unwrap();
    (store, lock)
}

/// Asserts that `asked` fails with `Unavailable` after `limit`.
async fn is_silent_for<T>(limit: Duration, asked: impl Future<Output = Result<T, Error>>) {
    let start = Instant::now();
    let error = asked.await.err().expect("the server does not reply");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let took = start.elapsed();
    assert!(took >= limit && took < limit + millis(2), "{took:?}: {error}");
}

#[tokio::test(start_paused = true)]
async fn request_timeout_limits_single_requests() {
    let defaults = world(|builder| builder);
    let hasty = world(|builder| builder.request_timeout(millis(200)));
    for ((store, lock), limit) in [(defaults, secs(3)), (hasty, millis(200))] {
        store.stall();
        is_silent_for(limit, lock.try_acquire()).await;
        is_silent_for(limit, lock.try_run(async |_held| unreachable!("the lock is not acquired")))
            .await;
        is_silent_for(limit, lock.holder()).await;
        is_silent_for(limit, lock.is_locked()).await;
        is_silent_for(limit, lock.force_release()).await;
    }
}

/// Former bug: a reentry waited until the lease ended.
#[tokio::test(start_paused = true)]
async fn reenter_fails_after_the_request_timeout() {
    let (store, lock) = world(|builder| builder);
    let guard = lock.ttl(secs(120)).acquire().await.unwrap();
    store.stall();
    is_silent_for(secs(3), guard.reenter()).await;
    assert!(guard.is_held());
    store.resume();
    sleep(millis(1)).await;
    assert_eq!((guard.count(), guard.reenter().await.unwrap().count()), (1, 2));
}

/// An idempotency key exists for a minute. A retry after this minute could count a change twice.
#[tokio::test(start_paused = true)]
async fn change_is_retried_for_half_the_ttl_of_its_idempotency_key() {
    let store = MemoryStore::new();
    let client = Client::builder().request_timeout(secs(600)).with_store(&store);
    let (pool, latch) = (client.semaphore("pool").unwrap(), client.latch("start").unwrap());
    let permits = client.expirable_semaphore("printers").unwrap();
    store.stall();
    let start = Instant::now();
    assert!(pool.add(1).await.is_err() && start.elapsed() <= secs(30));
    assert!(latch.count_down().await.is_err() && start.elapsed() <= secs(60));
    assert!(permits.add(1).await.is_err() && start.elapsed() <= secs(90));
    assert!(start.elapsed() > secs(80), "{:?}", start.elapsed());
    assert!(pool.available().await.is_err() && start.elapsed() > secs(600));
}

#[tokio::test(start_paused = true)]
async fn release_timeout_limits_the_call_and_release_continues() {
    let (store, lock) = world(|builder| builder.release_timeout(millis(200)));
    let guard = lock.acquire().await.unwrap();
    store.stall();
    is_silent_for(millis(200), guard.release()).await;

    // and the same is true for the release of one of two guards
    store.resume();
    let guard = lock.acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    store.stall();
    is_silent_for(millis(200), again.release()).await;
    store.resume();
    assert!(guard.release().await.unwrap().into_result().is_ok());
    sleep(millis(1)).await;
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn run_release_wait_limits_the_wait_for_a_silent_store() {
    let defaults = world(|builder| builder);
    let hasty = world(|builder| builder.run_release_wait(millis(20)));
    for ((store, lock), limit) in [(defaults, millis(500)), (hasty, millis(20))] {
        let start = Instant::now();
        let answer = lock.run(async |_held| {
            sleep(millis(100)).await;
            store.stall();
            42
        });
        assert_eq!(answer.await.unwrap(), 42);
        let waited = start.elapsed() - millis(100);
        assert!(waited >= limit && waited < limit + millis(2), "{waited:?}");

        // and the client releases the lock soon after the store replies again
        store.resume();
        let elsewhere = Client::with_store(&store).lock("door").unwrap();
        assert!(elsewhere.acquire_within(secs(2)).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn loss_is_notified_at_once_while_the_store_is_silent() {
    let (store, lock) = world(|builder| builder);
    let lock = lock.max_hold(secs(10));
    let start = Instant::now();
    let ran = lock.acquire().await.unwrap().run(async |_held| {
        store.stall();
        std::future::pending::<()>().await;
    });
    assert!(matches!(ran.await, RunOutcome::Cancelled { reason: LostReason::MaxHold, .. }));
    assert!(start.elapsed() <= secs(10) + millis(2), "{:?}", start.elapsed());

    // and the client releases the lock in the store soon after the store replies again
    store.resume();
    let elsewhere = Client::with_store(&store).lock("door").unwrap();
    assert!(elsewhere.acquire_within(secs(2)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn client_works_with_timeouts_of_zero_and_of_the_maximum() {
    for limit in [Duration::ZERO, Duration::MAX] {
        let (_store, lock) = world(|builder| {
            builder.request_timeout(limit).release_timeout(limit).run_release_wait(limit)
        });
        assert!(lock.try_acquire().await.unwrap().unwrap().release().await.is_ok());
        assert_eq!(lock.run(async |_held| 42).await.unwrap(), 42);
        assert!(lock.holder().await.unwrap().is_none());
    }
}

#[test]
fn request_fails_without_a_runtime() {
    let (_store, lock) = world(|builder| builder);
    let forced = lock.force_release().now_or_never().unwrap();
    assert!(matches!(forced, Err(Error::NoRuntime)), "{forced:?}");
    let holder = lock.holder().now_or_never().unwrap();
    assert!(matches!(holder, Err(Error::NoRuntime)), "{holder:?}");
}

#[test]
fn work_that_is_polled_without_a_runtime_completes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (_store, lock) = world(|builder| builder);
    let guard = runtime.block_on(lock.acquire()).unwrap();
    assert_eq!(guard.run(async |_held| 42).now_or_never().unwrap(), RunOutcome::Completed(42));
    let next = runtime.block_on(lock.acquire_within(secs(2)));
    assert!(next.is_ok());
}

#[cfg(feature = "blocking")]
#[test]
fn timeout_settings_apply_to_the_blocking_api() {
    let store = MemoryStore::new();
    let builder = leasehold::blocking::Client::builder().request_timeout(millis(50));
    let lock = builder.with_store(&store).unwrap().lock("door").unwrap();
    store.stall();
    let error = lock.try_acquire().unwrap_err();
    assert!(error.to_string().contains("50ms"), "{error}");
}
