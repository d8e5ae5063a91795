//! Tests of hand-off grants that are offered to a task while it sleeps or waits for a reply.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Client, ExpirableSemaphore, MemoryStore,
    engine::{Engine, timing::HANDOFF_LIMIT},
};

const SOON: Duration = Duration::from_millis(1);

/// Creates a pool of one permit.
async fn pool() -> (MemoryStore, Arc<Engine>, ExpirableSemaphore) {
    let store = MemoryStore::new();
    let engine = Engine::on(&store, "client");
    let permits = Client::of(Arc::clone(&engine)).expirable_semaphore("pool").unwrap();
    permits.set(1).await.unwrap();
    (store, engine, permits)
}

async fn held(store: &MemoryStore) -> i64 {
    Client::with_store(store).expirable_semaphore("pool").unwrap().acquired().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn offered_grant_is_released_when_the_client_shuts_down() {
    let (_store, engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    let mut waits = Box::pin(permits.acquire());
    assert!(timeout(SOON, &mut waits).await.is_err());
    guard.release().await.unwrap().into_result().unwrap();
    assert_eq!((engine.stats().handed_off, engine.core.pending.queued()), (1, 0));

    engine.core.open.close();
    engine.contention.close();
    assert_eq!(engine.core.pending.queued(), 1);
}

#[tokio::test(start_paused = true)]
async fn client_hands_off_nothing_after_its_shutdown() {
    let (store, engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    let mut waits = Box::pin(permits.acquire());
    assert!(timeout(SOON, &mut waits).await.is_err());
    engine.core.open.close();
    engine.contention.close();
    guard.release().await.unwrap().into_result().unwrap();
    assert_eq!((engine.stats().handed_off, held(&store).await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_a_hand_off_grant_that_no_task_took() {
    let (store, engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    let other = permits.clone();
    let waits = tokio::spawn(async move { other.acquire().await });
    sleep(SOON).await;
    guard.release().await.unwrap().into_result().unwrap();
    assert_eq!(engine.stats().handed_off, 1);
    let (revoked, pending) = engine.shut_down(Duration::from_secs(5)).await;
    assert_eq!((revoked, pending, held(&store).await), (0, 0, 0));
    assert!(waits.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn offered_grant_goes_to_the_next_task_when_the_first_leaves() {
    let (_store, _engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    // The public `guard.owner()` would prevent a hand-off.
    let owner = guard.watch().claim().owner.clone();
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(permits.acquire()));
    for waits in [&mut first, &mut second] {
        assert!(timeout(SOON, waits).await.is_err());
    }
    guard.release().await.unwrap().into_result().unwrap();
    drop(first);
    let next = second.now_or_never().expect("the second task has acquired").unwrap();
    assert_eq!(next.owner(), &owner);
}

#[tokio::test(start_paused = true)]
async fn offered_grant_is_released_when_no_task_takes_it() {
    let (store, _engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    let mut waits = Box::pin(permits.acquire());
    assert!(timeout(SOON, &mut waits).await.is_err());
    guard.release().await.unwrap().into_result().unwrap();
    assert_eq!(held(&store).await, 1);
    sleep(2 * HANDOFF_LIMIT).await;
    assert_eq!(held(&store).await, 0);
}

#[tokio::test(start_paused = true)]
async fn waiter_does_not_use_an_offered_grant_that_the_store_lost() {
    let (_store, engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    let hold = engine.watchdog.holds().remove(0);
    let mut waits = Box::pin(permits.acquire());
    assert!(timeout(SOON, &mut waits).await.is_err());
    guard.release().await.unwrap().into_result().unwrap();
    engine.contention.disown(&hold);
    assert!(timeout(SOON, &mut waits).await.is_err(), "the waiter needs a request to the store");
}

#[tokio::test(start_paused = true)]
async fn shutdown_counts_running_requests_as_pending() {
    let (store, engine, permits) = pool().await;
    store.stall();
    let asks = tokio::spawn(async move { permits.acquire().await });
    sleep(SOON).await;
    assert_eq!(engine.shut_down(100 * SOON).await, (0, 1));
    store.resume();
    assert_eq!(engine.shut_down(100 * SOON).await, (0, 0));
    assert!(asks.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn unpolled_waiter_without_a_grant_delays_no_shutdown() {
    let (_store, engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    let mut waits = Box::pin(permits.acquire());
    assert!(timeout(SOON, &mut waits).await.is_err());
    drop(guard);
    let start = Instant::now();
    assert_eq!(engine.shut_down(Duration::from_secs(5)).await, (0, 0));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}
