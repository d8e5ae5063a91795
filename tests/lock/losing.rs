//! A guard reports that its hold is lost.

use futures_util::FutureExt;
use tokio::{
    task::yield_now,
    time::{Instant, advance, sleep, timeout},
};

use leasehold::{LostReason, Release};

use super::world::{AT_ONCE, World, leave, secs};

#[tokio::test(start_paused = true)]
async fn loss_is_reported_to_every_observer() {
    let world = World::new();
    let guard = world.door().lease(secs(10)).acquire().await.unwrap();
    let early = guard.lost();
    let spawned = tokio::spawn(guard.lost());
    assert_eq!(early.await, LostReason::Expired);
    assert_eq!(guard.lost().await, LostReason::Expired);

    // and a later call of `lost` also returns the reason, even after the guard is dropped
    let late = guard.lost();
    drop(guard);
    assert_eq!(late.await, LostReason::Expired);
    assert_eq!(spawned.await.unwrap(), LostReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn release_completes_the_loss_future() {
    for dropped in [true, false] {
        let guard = World::new().door().acquire().await.unwrap();
        let watcher = tokio::spawn(guard.lost());
        sleep(secs(60)).await;
        assert!(!watcher.is_finished());
        match dropped {
            true => drop(guard),
            false => assert_eq!(guard.release().await.unwrap(), Release::Released),
        }
        assert_eq!(watcher.await.unwrap(), LostReason::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn loss_future_waits_while_the_hold_has_another_guard() {
    let guard = World::new().door().acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    let mut lost = Box::pin(guard.lost());
    drop(guard);
    assert!(timeout(secs(100), &mut lost).await.is_err());
    leave(again).await;
    assert_eq!(lost.await, LostReason::Released);
}

#[tokio::test(start_paused = true)]
async fn lost_hold_stays_lost_when_the_store_recovers() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    world.store.stall();
    assert_eq!(guard.lost().await, LostReason::Expired);
    world.store.resume();
    for _ in 0..100 {
        sleep(secs(1)).await;
        assert!(!guard.is_held());
        assert_eq!(guard.remaining(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn guard_knows_the_loss_at_once_after_a_process_pause() {
    // given a hold, and a process that does not run until the lease has ended
    let guard = World::new().door().acquire().await.unwrap();
    let lost = guard.lost();
    yield_now().await;
    assert!(advance(secs(40)).now_or_never().is_none());

    // then the first call of `is_held` returns false, although no other task has run
    assert!(!guard.is_held());
    assert_eq!(lost.now_or_never(), Some(LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn deleted_hold_is_noticed_at_the_next_renewal() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    world.store.lose("door");
    let start = Instant::now();
    assert_eq!(guard.lost().await, LostReason::NotOwned);
    assert!(start.elapsed() <= secs(10) + AT_ONCE, "{:?}", start.elapsed());
    assert_eq!(world.one.stats().lost_not_owned, 1);
}
