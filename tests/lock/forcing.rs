//! An operator releases a lock that another client holds.

use tokio::time::{Instant, sleep};

use leasehold::{Error, LostReason, Owner};

use super::world::{AT_ONCE, World, entered, secs, waiting};

#[tokio::test(start_paused = true)]
async fn forced_release_returns_whether_the_lock_was_held() {
    let world = World::new();
    let _guard = world.door().acquire().await.unwrap();
    assert!(world.other_door().force_release().await.unwrap());
    assert!(!world.other_door().force_release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn holder_notices_a_forced_release_at_its_next_renewal() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let start = Instant::now();
    world.other_door().force_release().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::NotOwned);
    assert!(start.elapsed() <= secs(10) + AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn holder_with_a_local_waiter_notices_a_forced_release_at_once() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let waiter = waiting(world.door()).await;
    sleep(secs(1)).await;

    let start = Instant::now();
    world.other_door().force_release().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::NotOwned);
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    drop(entered(waiter).await);
}

#[tokio::test(start_paused = true)]
async fn forced_release_admits_a_waiter_at_once() {
    let world = World::new();
    let _guard = world.door().acquire().await.unwrap();
    let waiter = waiting(world.other_door()).await;
    let start = Instant::now();
    assert!(world.door().force_release().await.unwrap());
    assert!(entered(waiter).await.is_held());
    assert!(start.elapsed() < AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn forced_release_on_a_silent_store_fails_and_is_not_retried() {
    let world = World::new();
    world.store.stall();
    let refused = world.door().force_release().await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    world.store.resume();
    let guard = world.door().acquire().await.unwrap();
    sleep(secs(60)).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn renew_owner_and_release_owner_act_on_a_forgotten_hold() {
    let world = World::new();
    let guard = world.door().lease(secs(10)).acquire().await.unwrap();
    let (owner, other) = (guard.owner().clone(), Owner::new("other:1").unwrap());
    guard.forget();
    let door = world.other_door();
    sleep(secs(6)).await;
    assert!(door.renew_owner(&owner, secs(60)).await.unwrap());
    assert!(!door.renew_owner(&other, secs(60)).await.unwrap());
    sleep(secs(50)).await;
    assert!(!door.release_owner(&other).await.unwrap());
    assert_eq!(door.held_by(&owner).await.unwrap(), 1);
    assert!(door.release_owner(&owner).await.unwrap());
    assert!(!door.release_owner(&owner).await.unwrap() && !door.is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn release_owner_wakes_a_waiter() {
    let world = World::new();
    let guard = world.door().lease(secs(600)).acquire().await.unwrap();
    let owner = guard.owner().clone();
    guard.forget();
    let door = world.other_door();
    let waiting = tokio::spawn(async move { world.door().acquire().await });
    sleep(secs(1)).await;
    assert!(door.release_owner(&owner).await.unwrap());
    let start = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    assert!(start.elapsed() <= secs(1));
}
