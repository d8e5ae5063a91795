//! What was left to one who asks, when its client closes.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::client_of;
use crate::{
    Client, MemoryStore, Permits,
    domain::{Kind, Object},
    engine::Engine,
};

/// A pool of one permit.
async fn pool() -> (MemoryStore, Arc<Engine>, Permits) {
    let store = MemoryStore::new();
    let engine = client_of(&store);
    let permits = Client::of(Arc::clone(&engine)).permits("pool").unwrap();
    permits.set(1).await.unwrap();
    (store, engine, permits)
}

fn held(store: &MemoryStore) -> i64 {
    store.counts(&Object::of(Kind::Permits, "pool")).held
}

#[tokio::test(start_paused = true)]
async fn what_was_left_to_one_who_asks_is_given_back_when_the_client_closes() {
    let (_store, engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    let mut waits = Box::pin(permits.acquire());
    assert!(timeout(Duration::from_millis(1), &mut waits).await.is_err());
    guard.release().await.unwrap();
    assert_eq!((engine.stats().handed_over, engine.core.debts.owed()), (1, 0));

    engine.core.open.close();
    engine.contention.close();
    assert_eq!(engine.core.debts.owed(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_to_anybody_when_the_client_is_closed() {
    let (store, engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    let mut waits = Box::pin(permits.acquire());
    assert!(timeout(Duration::from_millis(1), &mut waits).await.is_err());
    engine.core.open.close();
    engine.contention.close();
    guard.release().await.unwrap();
    assert_eq!((engine.stats().handed_over, held(&store)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_back_what_was_left_to_one_who_has_not_seen_it() {
    let (store, engine, permits) = pool().await;
    let guard = permits.acquire().await.unwrap();
    let other = permits.clone();
    let waits = tokio::spawn(async move { other.acquire().await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    guard.release().await.unwrap();
    assert_eq!(engine.stats().handed_over, 1);
    let (taken_back, unsettled) = engine.shut_down(Duration::from_secs(5)).await;
    assert_eq!((taken_back, unsettled, held(&store)), (0, 0, 0));
    assert!(waits.await.unwrap().is_err());
}
