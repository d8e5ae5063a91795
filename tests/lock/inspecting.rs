//! Reading the state of a lock without acquiring it.

use tokio::time::{Instant, sleep};

use leasehold::{Error, Owner};

use super::world::{AT_ONCE, World, leave, secs};

#[tokio::test(start_paused = true)]
async fn holder_shows_its_hold_count_and_remaining_lease() {
    let world = World::new();
    let guard = world.door().lease(secs(100)).acquire().await.unwrap();
    let _again = guard.reenter().await.unwrap();
    sleep(secs(40)).await;

    let holder = world.other_door().holder().await.unwrap().unwrap();
    assert_eq!(holder.owner(), guard.owner());
    assert_eq!(holder.count(), 2);
    let left = holder.remaining().unwrap();
    assert!(left <= secs(60) && left > secs(60) - AT_ONCE, "{left:?}");
    assert!(holder.to_string().contains(guard.owner().as_str()), "{holder}");
}

#[tokio::test(start_paused = true)]
async fn free_lock_has_no_holder() {
    let lock = World::new().door();
    assert_eq!(lock.holder().await.unwrap(), None);
    assert!(!lock.is_locked().await.unwrap());

    let _guard = lock.clone().lease(secs(1)).acquire().await.unwrap();
    assert!(lock.is_locked().await.unwrap());
    sleep(secs(2)).await;
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn any_client_can_check_whether_an_owner_holds_the_lock() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let lock = world.other_door();
    assert_eq!(lock.held_by(guard.owner()).await.unwrap(), 1);
    assert_eq!(lock.held_by(&Owner::new("somebody:1").unwrap()).await.unwrap(), 0);
    let owner = guard.owner().clone();
    leave(guard).await;
    assert_eq!(lock.held_by(&owner).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn inspection_of_a_silent_store_fails_in_three_seconds() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    world.store.stall();
    let lock = world.other_door();
    let start = Instant::now();
    let (holder, locked, held) =
        tokio::join!(lock.holder(), lock.is_locked(), lock.held_by(guard.owner()));
    for error in [holder.err(), locked.err(), held.err()] {
        assert!(matches!(error, Some(Error::Unavailable { .. })), "{error:?}");
    }
    assert!(start.elapsed() <= secs(3) + AT_ONCE, "{:?}", start.elapsed());
}
