//! The counters of a client.

use tokio::time::{advance, sleep};

use leasehold::{Client, Stats};

use super::world::{World, entered, leave, millis, secs, waiting};

#[tokio::test(start_paused = true)]
async fn new_client_has_zero_counters() {
    assert_eq!(Client::in_memory().stats(), Stats::default());
}

#[tokio::test(start_paused = true)]
async fn holds_and_waiters_are_counted_while_they_last() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    assert_eq!((world.one.stats().held, world.one.stats().waiting), (1, 0));

    let first = waiting(world.door()).await;
    let second = waiting(world.door()).await;
    assert_eq!(world.one.stats().waiting, 2);
    first.abort();
    sleep(millis(1)).await;
    assert_eq!(world.one.stats().waiting, 1);

    drop((guard, again));
    let guard = entered(second).await;
    assert_eq!((world.one.stats().held, world.one.stats().waiting), (1, 0));
    leave(guard).await;
    assert_eq!((world.one.stats().held, world.one.stats().waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn grants_and_releases_are_counted_once_each() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    drop(guard.reenter().await.unwrap());
    leave(guard).await;
    drop(world.door().try_acquire().await.unwrap());
    sleep(millis(1)).await;
    world.door().run(async |_| ()).await.unwrap();
    let stats = world.one.stats();
    assert_eq!((stats.granted, stats.released), (3, 3));
    assert_eq!(world.other.stats(), Stats::default());
}

#[tokio::test(start_paused = true)]
async fn timeouts_are_counted() {
    let world = World::new();
    let _guard = world.door().acquire().await.unwrap();
    assert!(world.other_door().acquire_within(secs(1)).await.is_err());
    assert!(world.other_door().try_acquire().await.unwrap().is_none());
    assert_eq!((world.one.stats().timed_out, world.other.stats().timed_out), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn losses_are_counted_by_their_reason_and_only_once() {
    let world = World::new();
    let lost = |stats: Stats| {
        (stats.lost_expired, stats.lost_not_owned, stats.lost_max_hold, stats.lost_shut_down)
    };

    // a lease that ended
    let guard = world.door().lease(secs(1)).acquire().await.unwrap();
    guard.lost().await;
    drop(guard.release().await.unwrap());
    assert_eq!(lost(world.one.stats()), (1, 0, 0, 0));

    // a hold that the store lost, reported by a renewal and by a release
    let guard = world.door().acquire().await.unwrap();
    world.store.lose_everything();
    guard.lost().await;
    drop(guard.release().await.unwrap());
    let guard = world.door().acquire().await.unwrap();
    world.store.lose_everything();
    drop(guard.release().await.unwrap());
    assert_eq!(lost(world.one.stats()), (1, 2, 0, 0));

    // a hold that lasted for `max_hold`
    let guard = world.door().max_hold(secs(1)).acquire().await.unwrap();
    guard.lost().await;
    drop(guard);
    assert_eq!(lost(world.one.stats()), (1, 2, 1, 0));

    // a hold that a shutdown revoked
    let guard = world.door().acquire().await.unwrap();
    world.one.shutdown(millis(10)).await;
    drop(guard);
    assert_eq!(lost(world.one.stats()), (1, 2, 1, 1));

    // and no lost hold counts as a release, or as held
    assert_eq!((world.one.stats().released, world.one.stats().held), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn stats_count_successful_and_failed_renewals() {
    let world = World::new();
    let _guard = world.door().acquire().await.unwrap();
    sleep(secs(15)).await;
    assert_eq!((world.one.stats().renewals, world.one.stats().renewals_failed), (1, 0));
    world.store.fail("LOADING");
    sleep(secs(10)).await;
    let failed = world.one.stats().renewals_failed;
    assert!(failed > 0);
    assert_eq!(world.one.stats().renewals, 1);
    world.store.heal();
    sleep(secs(10)).await;
    assert!(world.one.stats().renewals > 1);
}

#[tokio::test(start_paused = true)]
async fn late_renewal_is_counted() {
    // given a hold, and a runtime that was busy for fifteen seconds
    let world = World::new();
    let _guard = world.door().acquire().await.unwrap();
    sleep(secs(1)).await;
    advance(secs(15)).await;
    sleep(millis(1)).await;

    // then the renewal that was due at 10 s came 6 s late. The client reads two clocks one after
    // the other, so it may measure a little less.
    let stats = world.one.stats();
    let late = millis(5_900)..secs(7);
    assert!(late.contains(&stats.renewal_lag), "{:?}", stats.renewal_lag);

    // and the maximum stays when the next renewal is in time
    sleep(secs(15)).await;
    let stats = world.one.stats();
    assert!(stats.renewal_lag < millis(100), "{:?}", stats.renewal_lag);
    assert!(late.contains(&stats.renewal_lag_max), "{:?}", stats.renewal_lag_max);
}

#[tokio::test(start_paused = true)]
async fn message_wakes_one_waiter_of_a_process() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let _waiters = (waiting(world.other_door()).await, waiting(world.other_door()).await);
    leave(guard).await;
    sleep(millis(1)).await;
    assert_eq!(world.other.stats().wake_ups, 1);
}

#[tokio::test(start_paused = true)]
async fn abandoned_release_is_counted() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    world.store.stall();
    drop(guard);
    sleep(secs(60)).await;
    assert_eq!(world.one.stats().releases_abandoned, 1);
}
