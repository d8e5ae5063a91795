//! The effect of a release, and of a release that fails.

use tokio::time::{Instant, sleep};

use leasehold::{Client, Error, LostReason, MemoryStore, Release};

use super::world::{AT_ONCE, World, door, gone, leave, millis, secs};

#[tokio::test(start_paused = true)]
async fn hold_count_grows_by_each_reentry_and_falls_by_each_release() {
    let lock = World::new().door();
    let first = lock.acquire().await.unwrap();
    let second = first.reenter().await.unwrap();
    let third = second.reenter().await.unwrap();
    assert_eq!(lock.held_by(first.owner()).await.unwrap(), 3);
    assert_eq!((first.count(), third.count()), (3, 3));
    assert_eq!(first.owner(), third.owner());

    // the order of the releases does not matter
    assert_eq!(first.release().await.unwrap(), Release::StillHeld { count: 2 });
    assert_eq!(lock.holder().await.unwrap().unwrap().count(), 2);
    assert_eq!(third.release().await.unwrap(), Release::StillHeld { count: 1 });
    assert!(second.is_held());
    assert_eq!(second.release().await.unwrap(), Release::Released);
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn task_that_reacquires_pauses_for_2_percent_of_a_long_hold() {
    let lock = World::new().door();
    for (held, left) in [(millis(40), millis(0)), (millis(100), millis(2)), (secs(9), millis(8))] {
        let guard = lock.acquire().await.unwrap();
        sleep(held).await;
        leave(guard).await;
        let begun = Instant::now();
        leave(lock.acquire().await.unwrap()).await;
        assert!(begun.elapsed() >= left && begun.elapsed() <= left + millis(1), "after {held:?}");
        sleep(secs(3)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_reacquires_pauses_for_2_percent_of_short_holds() {
    let lock = World::new().door();
    let (held, mut rested, mut longest) = (millis(20), millis(0), millis(0));
    for _ in 0..800 {
        let guard = lock.acquire().await.unwrap();
        sleep(held).await;
        leave(guard).await;
        let begun = Instant::now();
        drop(lock.acquire().await.unwrap());
        sleep(secs(2)).await;
        let took = begun.elapsed() - secs(2);
        (rested, longest) = (rested + took, longest.max(took));
    }
    let share = rested.as_secs_f64() / (held * 800).as_secs_f64();
    assert!((0.01..0.03).contains(&share), "{share}");
    assert!(longest > millis(4) && longest <= millis(9), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn dropped_reentry_restores_the_hold_count() {
    let lock = World::new().door();
    let guard = lock.acquire().await.unwrap();
    drop(guard.reenter().await.unwrap());
    sleep(millis(1)).await;
    assert_eq!(guard.count(), 1);
    assert_eq!(lock.held_by(guard.owner()).await.unwrap(), 1);
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn concurrent_reentries_are_all_counted_by_client_and_store() {
    for stalled in [false, true] {
        for round in 0..20 {
            // given concurrent reentries
            let world = World::new();
            let lock = world.door();
            let guard = lock.acquire().await.unwrap();
            if stalled {
                world.store.stall();
            }
            let reentries = async { tokio::join!(guard.reenter(), guard.reenter()) };
            let ((second, third), ()) = tokio::join!(reentries, async {
                sleep(millis(100)).await;
                world.store.resume();
            });
            let (_second, _third) = (second.unwrap(), third.unwrap());

            // then every reentry counts, in whatever order the store executes the requests
            assert_eq!(guard.count(), 3);
            let counted = lock.held_by(guard.owner()).await.unwrap();
            assert_eq!(counted, 3, "stalled: {stalled}, round {round}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reentry_renews_a_lease_that_is_not_fixed() {
    let lock = World::new().door();
    let guard = lock.acquire().await.unwrap();
    sleep(secs(5)).await;
    let _again = guard.reenter().await.unwrap();
    assert!(guard.remaining().unwrap() > secs(29));
    assert_eq!(lock.holder().await.unwrap().unwrap().remaining(), Some(secs(30)));
}

#[tokio::test(start_paused = true)]
async fn reentry_after_the_loss_is_refused_with_the_reason() {
    let world = World::new();
    let guard = world.door().lease(secs(1)).acquire().await.unwrap();
    sleep(secs(2)).await;
    let refused = guard.reenter().await.unwrap_err();
    assert!(matches!(refused, Error::Lost { reason: LostReason::Expired, .. }), "{refused}");

    let guard = world.door().acquire().await.unwrap();
    world.store.lose("door");
    let refused = guard.reenter().await.unwrap_err();
    assert!(matches!(refused, Error::Lost { reason: LostReason::NotOwned, .. }), "{refused}");
    assert!(!guard.is_held());
    assert_eq!(guard.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn refused_reentry_leaves_the_guard_unchanged() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    world.store.fail("NOPERM no permission");
    let refused = guard.reenter().await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused}");
    world.store.heal();
    assert_eq!(guard.count(), 1);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn release_after_lease_end_returns_expired() {
    let guard = World::new().door().lease(secs(1)).acquire().await.unwrap();
    sleep(secs(2)).await;
    let expired = gone(LostReason::Expired);
    assert_eq!(guard.release().await.unwrap(), expired);
}

#[tokio::test(start_paused = true)]
async fn release_of_a_lost_lock_names_the_new_holder() {
    // given, for each of two reasons, a hold that was lost, and a later hold of another task
    for reason in [LostReason::Expired, LostReason::NotOwned] {
        let world = World::new();
        let guard = match reason {
            LostReason::Expired => world.door().lease(secs(1)).acquire().await.unwrap(),
            _ => world.door().acquire().await.unwrap(),
        };
        match reason {
            LostReason::Expired => sleep(secs(2)).await,
            _ => assert!(world.store.lose("door")),
        }
        let next = world.other_door().acquire().await.unwrap();

        // then the release returns the reason and the new holder
        let release = guard.release().await.unwrap();
        let Release::NotHeld { reason: reported, holder, .. } = release else {
            panic!("{release:?}")
        };
        assert_eq!(reported, reason);
        assert_eq!(holder.unwrap().owner(), next.owner());

        // and does not release the new hold
        assert!(world.door().is_locked().await.unwrap());
        assert_eq!(next.release().await.unwrap(), Release::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn drop_of_a_lost_guard_does_not_release_the_next_hold() {
    let world = World::new();
    let guard = world.door().lease(secs(1)).acquire().await.unwrap();
    sleep(secs(2)).await;
    let next = world.other_door().acquire().await.unwrap();
    drop(guard);
    sleep(secs(10)).await;
    assert_eq!(next.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn every_guard_of_a_lost_hold_reports_the_loss() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    world.store.lose("door");
    assert_eq!(guard.lost().await, LostReason::NotOwned);
    for guard in [guard, again] {
        let release = guard.release().await.unwrap();
        let gone = gone(LostReason::NotOwned);
        assert_eq!(release, gone);
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_release_continues_in_the_background() {
    // given a store that does not reply
    let world = World::new();
    let guard = world.door().ttl(secs(300)).acquire().await.unwrap();
    world.store.stall();

    // then the call of `release` fails soon
    let start = Instant::now();
    let refused = guard.release().await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    assert!(start.elapsed() >= secs(5) && start.elapsed() < secs(7), "{:?}", start.elapsed());

    // and the client releases in the background when the store replies again
    world.store.resume();
    let entered = world.other_door().acquire_within(secs(2)).await;
    assert!(entered.is_ok(), "{entered:?}");
}

#[tokio::test(start_paused = true)]
async fn release_with_a_late_reply_succeeds() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    world.store.stall();
    let (released, ()) = tokio::join!(guard.release(), async {
        sleep(secs(2)).await;
        world.store.resume();
    });
    assert_eq!(released.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn rejected_release_is_an_error_and_the_lease_expires() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    world.store.fail("NOPERM no permission");
    let refused = guard.release().await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused}");

    world.store.heal();
    let start = Instant::now();
    let _entered = world.other_door().acquire().await.unwrap();
    assert!(start.elapsed() <= secs(30) + AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn guard_may_be_dropped_on_a_thread_without_a_runtime() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert!(world.other_door().acquire_within(AT_ONCE).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn guard_outlives_the_client_that_made_it() {
    let store = MemoryStore::new();
    let guard = door(&Client::with_store(&store)).acquire().await.unwrap();
    sleep(secs(300)).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn guard_dropped_after_its_client_still_frees_the_lock() {
    let store = MemoryStore::new();
    let guard = door(&Client::with_store(&store)).acquire().await.unwrap();
    drop(guard);
    assert!(door(&Client::with_store(&store)).acquire_within(AT_ONCE).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn lock_of_a_forgotten_guard_stays_held_until_its_lease_ends() {
    let store = MemoryStore::new();
    let [mine, yours] = [(); 2].map(|()| Client::with_store(&store));
    let lease = secs(300);
    for (fixed, lasts) in [(true, lease), (false, secs(30))] {
        let lock = mine.lock("job").unwrap();
        let lock = if fixed { lock.lease(lease) } else { lock };
        let guard = lock.acquire().await.unwrap();
        let (again, lost) = (guard.reenter().await.unwrap(), guard.lost());
        guard.forget();
        assert_eq!((lost.await, again.is_held()), (LostReason::Released, false));
        drop(again);
        assert_eq!(mine.stats().held, 0);
        for client in [&mine, &yours] {
            assert!(client.lock("job").unwrap().try_acquire().await.unwrap().is_none());
        }
        // and the client does not renew the forgotten hold
        sleep(lasts - millis(1)).await;
        assert!(yours.lock("job").unwrap().is_locked().await.unwrap());
        sleep(millis(2)).await;
        let next = yours.lock("job").unwrap().try_acquire().await.unwrap();
        next.unwrap().release().await.unwrap().into_result().unwrap();
    }
    // and a shutdown does not release the forgotten hold
    mine.lock("job").unwrap().acquire().await.unwrap().forget();
    let shutdown = mine.shutdown(secs(1)).await;
    assert_eq!((shutdown.revoked, shutdown.pending), (0, 0));
    assert!(yours.lock("job").unwrap().is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn shared_read_hold_stays_when_one_guard_is_forgotten() {
    let prices = Client::in_memory().read_write_lock("prices").unwrap();
    let (one, other) = (prices.read().acquire().await.unwrap(), prices.read().acquire().await);
    one.forget();
    let other = other.unwrap();
    assert!(other.is_held());
    other.release().await.unwrap().into_result().unwrap();
    assert!(prices.write().try_acquire().await.unwrap().is_some());
}
