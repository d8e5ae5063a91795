//! `try_acquire` never waits for a holder.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use leasehold::Error;

use super::world::{AT_ONCE, World, leave, secs};

#[tokio::test(start_paused = true)]
async fn try_acquire_gets_a_free_lock_and_never_waits() {
    let world = World::new();
    let start = Instant::now();
    let guard = world.door().try_acquire().await.unwrap();
    assert!(guard.is_some());
    assert!(world.other_door().try_acquire().await.unwrap().is_none());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn try_acquire_gets_a_released_lock() {
    let world = World::new();
    leave(world.door().acquire().await.unwrap()).await;
    assert!(world.other_door().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn try_acquire_waits_three_seconds_for_a_silent_store() {
    let world = World::new();
    world.store.stall();
    let start = Instant::now();
    let refused = world.door().try_acquire().await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    assert!(start.elapsed() <= secs(3) + AT_ONCE, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn try_acquire_retries_after_a_temporary_rejection() {
    let world = World::new();
    world.store.fail("LOADING Redis is loading the dataset in memory");
    let lock = world.door();
    let (tried, ()) = tokio::join!(lock.try_acquire(), async {
        sleep(secs(1)).await;
        world.store.heal();
    });
    assert!(tried.unwrap().is_some());
}
