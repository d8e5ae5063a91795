//! The latch, on the store in memory and in virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{Client, Error, Latch, MemoryStore, Result};
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

/// Too short for a poll or a timer. A waiter that continues within this time was notified.
const AT_ONCE: Duration = millis(10);

/// Two handles of one latch, from two clients of one store.
fn two() -> [Latch; 2] {
    let store = MemoryStore::new();
    [(); 2].map(|()| Client::with_store(&store).latch("start").unwrap())
}

/// Starts a waiter, and returns when the waiter has sent its first request.
async fn waiting(latch: &Latch) -> JoinHandle<Result<()>> {
    let latch = latch.clone();
    let waiter = tokio::spawn(async move { latch.wait().await });
    sleep(millis(1)).await;
    assert!(!waiter.is_finished());
    waiter
}

async fn passes(waiter: JoinHandle<Result<()>>) {
    timeout(AT_ONCE, waiter).await.expect("the waiter passes at once").unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn unset_latch_is_open() {
    let [latch, _] = two();
    assert_eq!(latch.count().await.unwrap(), 0);
    latch.wait().await.unwrap();
    latch.wait_within(secs(1)).await.unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert!(!latch.delete().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn latch_can_be_set_again_after_it_opened() {
    let [latch, other] = two();
    for _ in 0..2 {
        assert!(latch.set(2).await.unwrap());
        assert!(!other.set(3).await.unwrap());
        let waiter = waiting(&latch).await;
        assert_eq!(other.count_down().await.unwrap(), 1);
        sleep(secs(60)).await;
        assert!(!waiter.is_finished());
        assert_eq!(other.count_down().await.unwrap(), 0);
        passes(waiter).await;
    }
    assert!(matches!(latch.set(0).await, Err(Error::ZeroCount { .. })));
}

#[tokio::test(start_paused = true)]
async fn open_latch_wakes_all_waiters_of_every_client() {
    let [latch, other] = two();
    latch.set(1).await.unwrap();
    let mut waiters = Vec::new();
    for n in 0..1_000 {
        let latch = [&latch, &other][n % 2].clone();
        waiters.push(tokio::spawn(async move { latch.wait().await }));
    }
    sleep(secs(1)).await;
    other.count_down().await.unwrap();
    join_all(waiters.into_iter().map(passes)).await;
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_latch_times_out_while_it_is_closed() {
    let [latch, _] = two();
    latch.set(1).await.unwrap();
    let start = Instant::now();
    let three = [(); 3].map(|()| latch.wait_within(millis(500)));
    for error in join_all(three).await.into_iter().map(Result::unwrap_err) {
        assert!(error.is_busy());
        assert_eq!(
            error.to_string(),
            "timed out after 500ms waiting for `start`; retry later, or use a longer timeout"
        );
    }
    assert_eq!(start.elapsed(), millis(500));
    assert!(matches!(latch.wait_within(Duration::ZERO).await, Err(Error::Duration(_))));

    // and a waiter with a longer timeout passes when the latch opens
    let waiter = tokio::spawn({
        let latch = latch.clone();
        async move { latch.wait_within(millis(550)).await }
    });
    sleep(millis(500)).await;
    latch.count_down().await.unwrap();
    passes(waiter).await;
}

#[tokio::test(start_paused = true)]
async fn waiter_passes_when_the_latch_is_deleted() {
    let [latch, other] = two();
    latch.set(5).await.unwrap();
    let waiter = waiting(&other).await;
    assert!(latch.delete().await.unwrap());
    passes(waiter).await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_latch_waiter_blocks_no_waiter() {
    let [latch, other] = two();
    latch.set(1).await.unwrap();
    let (first, second, third) =
        (waiting(&latch).await, waiting(&latch).await, waiting(&latch).await);
    first.abort();
    sleep(millis(1)).await;
    other.count_down().await.unwrap();
    passes(second).await;
    passes(third).await;
}

#[tokio::test(start_paused = true)]
async fn latch_waiters_continue_after_an_outage_of_the_store() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let latch = client.latch("start").unwrap();
    latch.set(1).await.unwrap();
    let waiters = [waiting(&latch).await, waiting(&latch).await];
    store.stall();
    sleep(secs(60)).await;
    store.resume();
    latch.count_down().await.unwrap();
    for waiter in waiters {
        timeout(secs(4), waiter)
            .await
            .expect("the waiter passes when it repeats its request")
            .unwrap()
            .unwrap();
    }
    // and the client counts no waiter and no hold, and has no pending release
    let stats = client.stats();
    assert_eq!((stats.waiting, stats.granted, stats.held), (0, 0, 0));
    assert_eq!(client.shutdown(secs(1)).await.pending, 0);
    assert!(matches!(latch.wait().await, Err(Error::ShutDown)));
}
