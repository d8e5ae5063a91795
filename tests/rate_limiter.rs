//! The rate limiter and the throttle, on the store in memory and in virtual time. The first part
//! contains the tests of Redisson.

use std::{future::Future, time::Duration};

use futures_util::future::join_all;
use leasehold::{Client, Error, MemoryStore, Pace, Rate, RateLimiter, Result};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn limiter_on(store: &MemoryStore, rate: Rate) -> RateLimiter {
    let limiter = Client::with_store(store).rate_limiter("api").unwrap();
    limiter.set_if_absent(rate).await.unwrap();
    limiter
}

async fn limiter(permits: u32, interval: Duration) -> RateLimiter {
    limiter_on(&MemoryStore::new(), Rate::per(permits, interval)).await
}

fn scoped(rate: Rate, per_client: bool) -> Rate {
    if per_client { rate.per_client() } else { rate }
}

/// The time after which the rejected request would be granted.
fn retry_after<T: std::fmt::Debug>(acquired: Result<T>) -> Duration {
    match acquired.unwrap_err() {
        Error::RateLimited { retry_after, .. } => retry_after,
        error => panic!("{error:?}"),
    }
}

/// Sends `tries` requests for one permit each. Returns how many of them are granted at once.
async fn granted(limiter: &RateLimiter, tries: usize) -> usize {
    let results = join_all((0..tries).map(|_| limiter.try_acquire(1))).await;
    results.iter().filter(|it| it.is_ok()).count()
}

async fn took<T>(work: impl Future<Output = T>) -> Duration {
    let start = Instant::now();
    work.await;
    start.elapsed()
}

// Tests of Redisson.

#[tokio::test(start_paused = true)]
async fn limiter_expires_after_its_idle_ttl() {
    let store = MemoryStore::new();
    let limiter = limiter_on(&store, Rate::per(3, secs(1)).idle_ttl(secs(2))).await;
    sleep(secs(1)).await;
    limiter.acquire(3).await.unwrap();
    sleep(millis(1_900)).await;
    assert_eq!(limiter.available().await.unwrap(), 3);
    sleep(millis(200)).await;
    assert_eq!(limiter.config().await.unwrap(), None);
    assert!(matches!(limiter.try_acquire(1).await, Err(Error::RateNotSet { .. })));
    let short = Rate::per(1, secs(2)).idle_ttl(secs(1));
    let error = limiter.update(short).await.unwrap_err();
    assert!(matches!(error, Error::Duration(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn rate_of_five_per_second_grants_five_of_ten_requests() {
    let limiter = limiter(5, secs(1)).await;
    for _ in 0..3 {
        assert_eq!(granted(&limiter, 10).await, 5);
        sleep(secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn window_slides_with_each_acquisition() {
    let limiter = limiter(2, secs(5)).await;
    limiter.try_acquire(1).await.unwrap();
    sleep(secs(4)).await;
    limiter.try_acquire(1).await.unwrap();
    sleep(secs(1)).await;
    limiter.try_acquire(1).await.unwrap();
    assert_eq!(retry_after(limiter.try_acquire(1).await), secs(4));
}

#[tokio::test(start_paused = true)]
async fn rate_acquire_returns_as_soon_as_its_permits_are_free() {
    let limiter = limiter(1, secs(5)).await;
    let ten = async {
        for _ in 0..10 {
            limiter.acquire(1).await.unwrap();
        }
    };
    let took = took(ten).await;
    // Each of the nine waits ends 10 ms after the permit is free, so that Redisson clients can
    // acquire first.
    assert!(took >= millis(45_090) && took < millis(45_200), "{took:?}");
    assert!(limiter.try_acquire(1).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn request_for_more_than_the_rate_is_refused_at_once() {
    let limiter = limiter(10, secs(1)).await;
    let error = limiter.acquire(20).await.unwrap_err();
    assert!(matches!(error, Error::TooMany { most: 10, .. }), "{error}");
    assert!(matches!(limiter.acquire(0).await, Err(Error::ZeroCount { .. })));
}

#[tokio::test(start_paused = true)]
async fn rate_limiter_set_forgets_acquired_permits() {
    for per_client in [false, true] {
        let rate = |permits| scoped(Rate::per(permits, secs(1)), per_client);
        let limiter = limiter_on(&MemoryStore::new(), rate(10)).await;
        for permits in [10, 20, 10, 20] {
            limiter.set(rate(permits)).await.unwrap();
            limiter.acquire(1).await.unwrap();
            assert_eq!(limiter.available().await.unwrap(), u64::from(permits) - 1);
            assert_eq!(limiter.config().await.unwrap(), Some(rate(permits)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limiter_update_keeps_permits_acquired_in_the_new_window() {
    for per_client in [false, true] {
        let rate = |permits, interval| scoped(Rate::per(permits, interval), per_client);
        let store = MemoryStore::new();
        let limiter = Client::with_store(&store).rate_limiter("api").unwrap();
        assert!(!limiter.update(rate(10, secs(5))).await.unwrap());
        for (used, changed, waits, left) in [
            (3, rate(20, secs(5)), 0, 17),
            (2, rate(10, secs(5)), 0, 8),
            (8, rate(10, secs(5)), 0, 2),
            (8, rate(5, secs(5)), 0, 0),
            (5, rate(10, secs(1)), 2, 10),
        ] {
            limiter.set(rate(10, secs(5))).await.unwrap();
            limiter.acquire(used).await.unwrap();
            sleep(secs(waits)).await;
            assert!(limiter.update(changed).await.unwrap());
            assert_eq!(limiter.available().await.unwrap(), left, "{changed:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn released_permits_are_free_again() {
    let limiter = limiter(10, secs(1)).await;
    let permits = limiter.acquire(3).await.unwrap();
    assert_eq!(limiter.available().await.unwrap(), 7);
    limiter.release(permits, 3).await.unwrap();
    assert_eq!(limiter.available().await.unwrap(), 10);
    let permits = limiter.acquire(4).await.unwrap();
    assert!(matches!(limiter.release(permits, 5).await, Err(Error::TooMany { most: 4, .. })));
    // In this sequence, Redisson granted 13 permits within a second.
    sleep(secs(2)).await;
    let permits = limiter.acquire(3).await.unwrap();
    limiter.release(permits, 3).await.unwrap();
    sleep(millis(100)).await;
    limiter.acquire(10).await.unwrap();
    sleep(millis(900)).await;
    assert_eq!(retry_after(limiter.try_acquire(1).await), millis(100));
}

#[tokio::test(start_paused = true)]
async fn deleted_limiter_has_no_rate() {
    let limiter = limiter(1, secs(5)).await;
    limiter.acquire(1).await.unwrap();
    let waiter = waiting(&limiter, 1).await;
    assert!(limiter.delete().await.unwrap());
    assert!(!limiter.delete().await.unwrap());
    assert!(matches!(waiter.await.unwrap(), Err(Error::RateNotSet { .. })));
    assert!(matches!(limiter.available().await, Err(Error::RateNotSet { .. })));
}

// Tests of Leasehold.

/// Starts a task that waits for permits.
async fn waiting(limiter: &RateLimiter, permits: u32) -> JoinHandle<Result<()>> {
    let limiter = limiter.clone();
    let waiter = tokio::spawn(async move { limiter.acquire(permits).await.map(drop) });
    sleep(millis(1)).await;
    assert!(!waiter.is_finished());
    waiter
}

#[tokio::test(start_paused = true)]
async fn rate_request_is_refused_at_once_if_its_wait_is_too_long() {
    let limiter = limiter(10, secs(10)).await;
    limiter.acquire(4).await.unwrap();
    sleep(secs(3)).await;
    limiter.acquire(6).await.unwrap();
    let start = Instant::now();
    for (permits, wait) in [(1, secs(7)), (4, secs(7)), (5, secs(10))] {
        assert_eq!(retry_after(limiter.acquire_within(permits, millis(6_999)).await), wait);
        assert_eq!(retry_after(limiter.try_acquire(permits).await), wait);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    limiter.acquire_within(4, millis(7_001)).await.unwrap();
    assert!(start.elapsed() >= secs(7) && start.elapsed() <= millis(7_001));
    assert!(limiter.acquire_within(1, Duration::ZERO).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn tasks_get_permits_in_order() {
    let limiter = limiter(4, secs(1)).await;
    limiter.acquire(4).await.unwrap();
    let (large, small) = (waiting(&limiter, 4).await, waiting(&limiter, 1).await);
    // The first waiter is `large`. No other task overtakes `large`, so the client rejects these
    // calls without a request.
    assert!(retry_after(limiter.try_acquire(1).await) > millis(990));
    assert!(retry_after(limiter.acquire_within(1, millis(500)).await) > millis(990));
    sleep(millis(1_050)).await;
    assert!(large.is_finished() && !small.is_finished());
    sleep(secs(1)).await;
    assert!(small.is_finished());
}

#[tokio::test(start_paused = true)]
async fn rate_waiter_acquires_at_once_when_the_waiter_before_leaves() {
    let limiter = limiter(4, secs(60)).await;
    limiter.acquire(3).await.unwrap();
    let (large, small) = (waiting(&limiter, 4).await, waiting(&limiter, 1).await);
    large.abort();
    timeout(millis(10), small).await.expect("the waiter acquires at once").unwrap().unwrap();
    assert_eq!(limiter.available().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn rate_waiter_continues_after_an_outage_of_the_store() {
    let store = MemoryStore::new();
    let limiter = limiter_on(&store, Rate::per(1, secs(1))).await;
    limiter.acquire(1).await.unwrap();
    let waiter = waiting(&limiter, 1).await;
    store.stall();
    sleep(secs(60)).await;
    let error = limiter.available().await.unwrap_err();
    assert!(error.is_transient() && !waiter.is_finished(), "{error}");
    store.resume();
    timeout(secs(4), waiter)
        .await
        .expect("the waiter acquires when it repeats its request")
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_a_wait_for_a_rate() {
    let client = Client::in_memory();
    let limiter = client.rate_limiter("api").unwrap();
    limiter.set_if_absent(Rate::per(1, secs(60))).await.unwrap();
    limiter.acquire(1).await.unwrap();
    let waiters = [waiting(&limiter, 1).await, waiting(&limiter, 1).await];
    assert_eq!(client.shutdown(secs(1)).await.pending, 0);
    for waiter in waiters {
        assert!(matches!(waiter.await.unwrap(), Err(Error::ShutDown)));
    }
}

#[tokio::test(start_paused = true)]
async fn clients_share_a_rate_unless_the_rate_is_per_client() {
    let store = MemoryStore::new();
    let one = limiter_on(&store, Rate::per(2, secs(60))).await;
    let other = limiter_on(&store, Rate::per(9, secs(1))).await;
    assert_eq!(other.config().await.unwrap(), Some(Rate::per(2, secs(60))));
    one.acquire(2).await.unwrap();
    assert!(retry_after(other.try_acquire(1).await) <= secs(60));
    one.set(Rate::per(2, secs(60)).per_client()).await.unwrap();
    one.acquire(2).await.unwrap();
    other.acquire(2).await.unwrap();
    assert!(one.try_acquire(1).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn invalid_or_unset_rates_are_refused() {
    let limiter = Client::in_memory().rate_limiter("api").unwrap();
    let zero = limiter.set(Rate::per(0, secs(1))).await.unwrap_err();
    assert!(matches!(zero, Error::ZeroCount { .. }), "{zero}");
    let short = limiter.set(Rate::per(1, Duration::from_micros(1))).await.unwrap_err();
    assert!(matches!(short, Error::Duration(_)), "{short}");
    let unset = limiter.acquire(1).await.unwrap_err();
    assert_eq!(
        unset.to_string(),
        "cannot acquire permits of `api`: no rate is set; call set_if_absent"
    );
}

#[tokio::test(start_paused = true)]
async fn throttle_grants_at_even_intervals_and_in_order() {
    let client = Client::in_memory();
    let throttle = client.throttle("user:7", Pace::per(10, secs(1)).burst(2)).unwrap();
    assert_eq!(throttle.try_acquire(2).await.unwrap().remaining, 0);
    let wait = retry_after(throttle.try_acquire(1).await);
    assert!(wait > millis(99) && wait <= millis(100), "{wait:?}");
    let ten = async { join_all((0..10).map(|_| throttle.acquire(1))).await };
    let took = took(ten).await;
    assert!(took >= secs(1) && took < millis(1_150), "{took:?}");
    assert!(matches!(throttle.acquire(3).await, Err(Error::TooMany { most: 2, .. })));
    assert!(matches!(throttle.acquire(0).await, Err(Error::ZeroCount { .. })));
    for pace in [Pace::per(0, secs(1)), Pace::per(1, Duration::ZERO)] {
        assert!(client.throttle("user:7", pace).is_err(), "{pace:?}");
    }
    sleep(secs(1)).await;
    assert_eq!(throttle.acquire(1).await.unwrap().remaining, 1);
}
