//! The watchdog renews current holds, and no others.

use tokio::time::{Instant, sleep};

use leasehold::{Client, LockGuard, LostReason, Release};

use super::world::{AT_ONCE, World, door, entered, millis, secs, waiting};

#[tokio::test(start_paused = true)]
async fn watchdog_renews_as_long_as_the_guard_exists() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    for _ in 0..60 {
        sleep(secs(60)).await;
        assert!(guard.is_held());
        assert!(world.other_door().try_acquire().await.unwrap().is_none());
    }
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn lease_is_renewed_each_third_of_its_ttl() {
    let world = World::new();
    let _guard = world.door().ttl(secs(9)).acquire().await.unwrap();
    sleep(secs(300)).await;
    let renewals = world.one.stats().renewals;
    assert!((95..=101).contains(&renewals), "{renewals}");
}

#[tokio::test(start_paused = true)]
async fn default_ttl_is_thirty_seconds_unless_the_client_sets_it() {
    for (client, ttl) in
        [(Client::in_memory(), secs(30)), (Client::builder().ttl(secs(7)).in_memory(), secs(7))]
    {
        let lock = door(&client);
        let _guard = lock.acquire().await.unwrap();
        assert_eq!(lock.holder().await.unwrap().unwrap().remaining(), Some(ttl));
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_guard_is_not_renewed() {
    for released in [true, false] {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        sleep(secs(60)).await;
        match released {
            true => assert_eq!(guard.release().await.unwrap(), Release::Released),
            false => drop(guard),
        }
        let before = world.one.stats().renewals;
        assert!(before > 0);
        sleep(secs(300)).await;
        assert_eq!(world.one.stats().renewals, before);
    }
}

#[tokio::test(start_paused = true)]
async fn local_deadline_is_before_the_lease_end_in_the_store() {
    let lock = World::new().door().lease(secs(10));
    let guard = lock.acquire().await.unwrap();
    let believed = guard.remaining().unwrap();
    assert!(believed < secs(10) && believed > secs(9), "{believed:?}");

    // and the holder stops trusting its hold before another client can acquire
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(lock.is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn fixed_lease_ends_in_time_and_is_never_renewed() {
    let world = World::new();
    let start = Instant::now();
    let guard = world.door().lease(secs(10)).acquire().await.unwrap();

    // and a reentry does not renew the fixed lease
    sleep(secs(8)).await;
    let again = guard.reenter().await.unwrap();
    assert!(again.remaining().unwrap() <= secs(2));
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(start.elapsed() <= secs(10));
    assert!(!again.is_held());
    assert_eq!(world.one.stats().lost_expired, 1);
}

#[tokio::test(start_paused = true)]
async fn check_of_a_fixed_lease_is_not_counted_as_a_renewal() {
    let world = World::new();
    let _guard = world.door().lease(secs(60)).acquire().await.unwrap();
    sleep(secs(50)).await;
    assert_eq!(world.one.stats().renewals, 0);
}

#[tokio::test(start_paused = true)]
async fn loss_of_a_fixed_lease_is_reported_before_its_end() {
    let world = World::new();
    let guard = world.door().lease(secs(3_600)).acquire().await.unwrap();
    world.store.lose("door");
    let start = Instant::now();
    assert_eq!(guard.lost().await, LostReason::NotOwned);
    assert!(start.elapsed() <= secs(1_201), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_renewable_hold() {
    let world = World::new();
    let start = Instant::now();
    let guard = world.door().max_hold(secs(100)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    assert_eq!(start.elapsed().as_secs(), 100);
    assert!(!guard.is_held());

    // other clients acquire at most one ttl later, even if the guard is never dropped
    let _entered = world.other_door().acquire().await.unwrap();
    assert!(start.elapsed() <= secs(130) + AT_ONCE, "{:?}", start.elapsed());
    let release = guard.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { reason: LostReason::MaxHold, .. }), "{release:?}");
}

#[tokio::test(start_paused = true)]
async fn waiter_acquires_when_a_guard_is_dropped_after_max_hold() {
    let world = World::new();
    let guard = world.door().max_hold(secs(100)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    let waiter = waiting(world.other_door()).await;
    let left = Instant::now();
    drop(guard);
    drop(entered(waiter).await);
    assert!(left.elapsed() < AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn hold_ends_after_the_shorter_of_lease_and_max_hold() {
    let lock = World::new().door();
    let guard = lock.clone().lease(secs(5)).max_hold(secs(50)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Expired);
    drop(guard);
    let guard = lock.lease(secs(50)).max_hold(secs(5)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
}

#[tokio::test(start_paused = true)]
async fn short_outage_leaves_a_hold_in_doubt() {
    for words in [None, Some("LOADING"), Some("NOPERM no permission")] {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        match words {
            None => world.store.stall(),
            Some(words) => world.store.fail(words),
        }
        sleep(secs(28)).await;
        assert!(guard.is_held());
        world.store.resume();
        world.store.heal();

        // and the hold continues when the store recovers
        sleep(secs(300)).await;
        assert!(guard.is_held(), "{words:?}");
        assert!(world.one.stats().renewals_failed > 0);
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn hold_ends_at_its_local_deadline_while_the_store_is_silent() {
    let world = World::new();
    let start = Instant::now();
    let guard = world.door().acquire().await.unwrap();
    world.store.stall();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(start.elapsed() < secs(30), "{:?}", start.elapsed());
    assert!(start.elapsed() > secs(29), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn many_holds_are_all_renewed() {
    let client = Client::in_memory();
    let mut guards = Vec::new();
    for n in 0..1_000 {
        guards.push(client.lock(format!("seat {n}")).unwrap().acquire().await.unwrap());
    }
    sleep(secs(300)).await;
    assert!(guards.iter().all(LockGuard::is_held));
    drop(guards);
    assert_eq!(client.stats().held, 0);
}

#[tokio::test(start_paused = true)]
async fn shortest_and_longest_lease_durations_work() {
    let lock = World::new().door();
    let century = secs(100 * 365 * 24 * 60 * 60);
    for lock in [lock.clone().ttl(century), lock.clone().lease(century), lock.clone()] {
        let guard = lock.max_hold(century).acquire().await.unwrap();
        assert!(guard.is_held());
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
    let guard = lock.lease(millis(1)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Expired);
}
