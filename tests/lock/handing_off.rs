//! Within one client, a grant passes from one hold to the next.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use leasehold::{Error, Lock, LockGuard, LostReason, Release, Result, WaitStrategy};

use super::world::{AT_ONCE, World, door, entered, leave, millis, secs, waiting};

/// Too short for a request. A task that acquires within this time got a hand-off grant.
const WITHOUT_ASKING: Duration = millis(1);

impl World {
    /// A lock whose grant one client may hand off for longer than a test takes.
    fn staying(&self) -> Lock {
        self.door().local_handoff(1_000, secs(7 * 24 * 60 * 60))
    }

    fn handed_off(&self) -> u64 {
        self.one.stats().handed_off
    }
}

/// Returns the guard of `waiter`, which must acquire without a request.
async fn handed(waiter: JoinHandle<Result<LockGuard>>) -> LockGuard {
    let entered = timeout(WITHOUT_ASKING, waiter).await;
    entered.expect("the waiter acquires without a request").unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn hand_off_works_while_the_store_is_silent() {
    // given a holder, and two waiters of its client
    let world = World::new();
    let guard = world.staying().acquire().await.unwrap();
    let second = waiting(world.staying()).await;
    let third = waiting(world.staying()).await;
    world.store.stall();

    // when the first guard is released, and the second guard is dropped
    leave(guard).await;
    let guard = handed(second).await;
    drop(guard);
    let guard = handed(third).await;

    // then both waiters acquired without a request
    assert_eq!((world.handed_off(), world.one.stats().granted), (2, 3));
    world.store.resume();
    leave(guard).await;
    assert!(!world.door().is_locked().await.unwrap());
    assert_eq!(world.one.stats().released, 3);
}

#[tokio::test(start_paused = true)]
async fn other_clients_see_an_unchanged_holder_during_hand_offs() {
    let world = World::new();
    let guard = world.staying().acquire().await.unwrap();
    let second = waiting(world.staying()).await;
    sleep(secs(3)).await;

    leave(guard).await;
    assert!(world.other_door().try_acquire().await.unwrap().is_none());
    let guard = handed(second).await;
    let holder = world.other_door().holder().await.unwrap().unwrap();
    assert_eq!((holder.owner(), holder.count()), (guard.owner(), 1));
    assert_eq!(world.other_door().held_by(guard.owner()).await.unwrap(), 1);

    // and the guard has at most the remaining time that other clients see, because a hand-off does
    // not renew the lease
    let (theirs, ours) = (holder.remaining().unwrap(), guard.remaining().unwrap());
    assert!(ours <= theirs && theirs < secs(28), "{ours:?}, {theirs:?}");
    assert!(world.other_door().try_acquire().await.unwrap().is_none());
    leave(guard).await;
    leave(world.other_door().try_acquire().await.unwrap().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn hand_off_reports_a_release_and_a_new_hold() {
    let world = World::new();
    let guard = world.staying().acquire().await.unwrap();
    let lost = guard.lost();
    let second = waiting(world.staying()).await;
    leave(guard).await;
    assert_eq!(lost.await, LostReason::Released);

    let guard = handed(second).await;
    let mut lost = Box::pin(guard.lost());
    assert!(guard.is_held() && (&mut lost).now_or_never().is_none());
    let stats = world.one.stats();
    assert_eq!((stats.held, stats.granted, stats.released), (1, 2, 1));
    leave(guard).await;
    assert_eq!(lost.await, LostReason::Released);
}

#[tokio::test(start_paused = true)]
async fn task_with_another_profile_requests_its_own_grant() {
    let world = World::new();
    let plain = || world.staying();
    for (held, wanted, time) in [
        (plain(), plain().ttl(secs(20)), secs(20)),
        (plain(), plain().lease(secs(30)), secs(30)),
        (plain().ttl(secs(20)), plain(), secs(30)),
        (plain().lease(secs(30)), plain(), secs(30)),
        (plain().lease(secs(30)), plain().lease(secs(30)), secs(30)),
    ] {
        let guard = held.acquire().await.unwrap();
        let waiter = waiting(wanted.clone()).await;
        sleep(secs(5)).await;
        let released = Instant::now();
        leave(guard).await;
        let guard = entered(waiter).await;
        assert!(released.elapsed() < AT_ONCE, "{wanted:?}: {:?}", released.elapsed());
        assert_eq!(world.handed_off(), 0, "{wanted:?}");

        // and then the waiter has the whole lease that its own profile requests
        let holder = world.door().holder().await.unwrap().unwrap();
        assert!(holder.remaining().unwrap() > time - AT_ONCE, "{wanted:?}: {holder}");
        leave(guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn polling_and_subscribed_waiters_hand_the_lock_to_each_other() {
    let world = World::new();
    let polling = || {
        world.staying().wait_strategy(WaitStrategy::Polling { initial: millis(500), max: secs(1) })
    };
    for (held, wanted) in [(world.staying(), polling()), (polling(), world.staying())] {
        let before = world.handed_off();
        let guard = held.acquire().await.unwrap();
        let waiter = waiting(wanted).await;
        leave(guard).await;
        leave(handed(waiter).await).await;
        assert_eq!(world.handed_off(), before + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn other_client_acquires_after_the_limit_of_hand_offs() {
    // given four waiting tasks of one client, and then a waiting task of another client
    let world = World::new();
    let lock = world.door().local_handoff(2, secs(3_600));
    let guard = lock.acquire().await.unwrap();
    let mut here = Vec::new();
    for _ in 0..3 {
        here.push(waiting(lock.clone()).await);
    }
    let elsewhere = waiting(world.other_door()).await;
    let mut here = here.into_iter();

    // when the first client has handed the lock over twice
    leave(guard).await;
    let guard = handed(here.next().unwrap()).await;
    leave(guard).await;
    let guard = handed(here.next().unwrap()).await;
    leave(guard).await;

    // then the other client acquires, and after its release, the last task of the first client
    // acquires
    let guard = handed(elsewhere).await;
    assert_eq!(world.handed_off(), 2);
    let last = here.next().unwrap();
    assert!(!last.is_finished());
    leave(guard).await;
    leave(entered(last).await).await;
}

#[tokio::test(start_paused = true)]
async fn other_client_acquires_after_the_time_limit_of_hand_offs() {
    let world = World::new();
    let lock = world.door().local_handoff(1_000, millis(50));
    let guard = lock.acquire().await.unwrap();
    let (second, third) = (waiting(lock.clone()).await, waiting(lock.clone()).await);
    let elsewhere = waiting(world.other_door()).await;

    sleep(millis(30)).await;
    leave(guard).await;
    let guard = handed(second).await;
    assert_eq!(world.handed_off(), 1);
    sleep(millis(30)).await;
    leave(guard).await;
    let guard = handed(elsewhere).await;
    assert_eq!(world.handed_off(), 1);
    assert!(!third.is_finished());
    leave(guard).await;
    leave(entered(third).await).await;
}

#[tokio::test(start_paused = true)]
async fn two_busy_clients_share_the_lock() {
    // given two clients, each with five tasks that acquire the lock again after each release
    let world = World::new();
    let counts = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    let mut tasks = Vec::new();
    for (client, count) in [&world.one, &world.other].into_iter().zip(&counts) {
        for _ in 0..5 {
            let (lock, count) = (door(client), Arc::clone(count));
            tasks.push(tokio::spawn(async move {
                loop {
                    let guard = lock.acquire().await.unwrap();
                    count.fetch_add(1, Ordering::SeqCst);
                    sleep(millis(1)).await;
                    leave(guard).await;
                }
            }));
        }
    }

    // then each client acquires about half of the time
    sleep(secs(10)).await;
    tasks.iter().for_each(JoinHandle::abort);
    let [ours, theirs] = counts.map(|count| count.load(Ordering::SeqCst));
    assert!(ours > 1_000 && theirs > 1_000, "{ours}, {theirs}");
    assert!(ours.abs_diff(theirs) < 500, "{ours}, {theirs}");
    assert!(world.handed_off() > 500, "{}", world.handed_off());
}

#[tokio::test(start_paused = true)]
async fn zero_local_handoff_disables_hand_off() {
    let world = World::new();
    for (most, time) in [(0, secs(3_600)), (1_000, Duration::ZERO)] {
        let lock = world.door().local_handoff(most, time);
        let guard = lock.acquire().await.unwrap();
        let second = waiting(lock.clone()).await;
        leave(guard).await;
        leave(entered(second).await).await;
    }
    assert_eq!(world.handed_off(), 0);
}

#[tokio::test(start_paused = true)]
async fn handed_off_hold_is_renewed() {
    let world = World::new();
    let lock = world.staying().ttl(secs(3));
    let guard = lock.acquire().await.unwrap();
    let second = waiting(lock.clone()).await;
    leave(guard).await;
    let guard = handed(second).await;
    assert_eq!(world.handed_off(), 1);
    for _ in 0..20 {
        sleep(secs(1)).await;
        assert!(guard.is_held());
        assert!(world.other_door().try_acquire().await.unwrap().is_none());
    }
    assert!((19..=21).contains(&world.one.stats().renewals), "{:?}", world.one.stats());
    leave(guard).await;
}

#[tokio::test(start_paused = true)]
async fn loss_of_a_handed_off_hold_is_reported() {
    for reason in [LostReason::NotOwned, LostReason::Expired] {
        let world = World::new();
        let lock = world.staying().ttl(secs(3));
        let granted = Instant::now();
        let guard = lock.acquire().await.unwrap();
        let second = waiting(lock.clone()).await;
        sleep(millis(500)).await;
        leave(guard).await;
        let guard = handed(second).await;
        match reason {
            LostReason::NotOwned => drop(world.store.lose("door")),
            _ => world.store.stall(),
        }

        // then the client reports the loss. If the store lost the hold, the next renewal notices
        // the loss. If the store is silent, the hold ends at the local deadline
        assert_eq!(guard.lost().await, reason);
        let reported = if reason == LostReason::NotOwned { secs(1) } else { millis(2_968) };
        assert!(granted.elapsed() >= reported, "{reason}: {:?}", granted.elapsed());
        assert!(granted.elapsed() < reported + millis(50), "{reason}: {:?}", granted.elapsed());
        assert!(!guard.is_held());
        world.store.resume();
        let released = guard.release().await.unwrap();
        assert!(matches!(released, Release::NotHeld { .. }), "{released:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_hold_is_not_handed_off() {
    let world = World::new();
    let guard = world.staying().acquire().await.unwrap();
    let second = waiting(world.staying()).await;
    world.store.lose("door");
    assert_eq!(guard.lost().await, LostReason::NotOwned);
    let released = guard.release().await.unwrap();
    assert!(matches!(released, Release::NotHeld { .. }), "{released:?}");
    leave(entered(second).await).await;
    assert_eq!(world.handed_off(), 0);
}

#[tokio::test(start_paused = true)]
async fn hold_due_for_renewal_is_not_handed_off() {
    // given a hold whose renewal got no reply
    let world = World::new();
    let lock = world.staying().ttl(secs(3));
    let guard = lock.acquire().await.unwrap();
    let second = waiting(lock.clone()).await;
    world.store.stall();
    sleep(millis(1_500)).await;

    // then the release waits for the store, and the next waiter waits, too
    let releasing = tokio::spawn(guard.release());
    sleep(millis(500)).await;
    assert!(!second.is_finished() && !releasing.is_finished());
    world.store.resume();
    assert_eq!(releasing.await.unwrap().unwrap(), Release::Released);
    leave(entered(second).await).await;
    assert_eq!(world.handed_off(), 0);
}

#[tokio::test(start_paused = true)]
async fn reentered_hold_is_not_handed_off() {
    let world = World::new();
    let guard = world.staying().acquire().await.unwrap();
    let second = waiting(world.staying()).await;
    let again = guard.reenter().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::StillHeld { count: 1 });
    leave(again).await;
    let guard = entered(second).await;
    assert_eq!(world.other_door().held_by(guard.owner()).await.unwrap(), 1);
    assert_eq!(world.handed_off(), 0);
    leave(guard).await;
}

#[tokio::test(start_paused = true)]
async fn handed_off_hold_can_be_reentered() {
    let world = World::new();
    let guard = world.staying().acquire().await.unwrap();
    let second = waiting(world.staying()).await;
    leave(guard).await;
    let guard = handed(second).await;
    let again = guard.reenter().await.unwrap();
    assert_eq!(world.other_door().held_by(guard.owner()).await.unwrap(), 2);
    assert_eq!(again.release().await.unwrap(), Release::StillHeld { count: 1 });
    leave(guard).await;
    assert!(!world.other_door().is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn max_hold_of_a_handed_off_hold_starts_at_its_hand_off() {
    let world = World::new();
    let lock = world.staying().max_hold(secs(8));
    let guard = lock.acquire().await.unwrap();
    let second = waiting(lock.clone()).await;
    sleep(secs(6)).await;
    leave(guard).await;

    let begun = Instant::now();
    let guard = handed(second).await;
    assert_eq!(world.handed_off(), 1);
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    let held = begun.elapsed();
    assert!(held >= secs(8) && held < secs(8) + AT_ONCE, "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_a_grant_that_was_just_handed_off() {
    // given a task that received the grant by a hand-off, and that has not run since
    let world = World::new();
    let guard = world.staying().acquire().await.unwrap();
    let second = waiting(world.staying()).await;
    let elsewhere = waiting(world.other_door()).await;
    leave(guard).await;
    assert_eq!(world.handed_off(), 1);
    assert!(!second.is_finished());

    // when the client of this task is shut down
    let shutdown = world.one.shutdown(secs(10)).await;

    // then the task does not acquire, and it blocks no other waiter
    assert!(matches!(second.await.unwrap(), Err(Error::ShutDown)));
    assert_eq!((shutdown.revoked, shutdown.pending), (0, 0));
    leave(handed(elsewhere).await).await;
    assert_eq!(world.one.stats().held, 0);
}

#[tokio::test(start_paused = true)]
async fn release_during_shutdown_hands_off_to_no_task() {
    let world = World::new();
    let guard = world.staying().acquire().await.unwrap();
    let second = waiting(world.staying()).await;
    let client = world.one.clone();
    let shutdown = tokio::spawn(async move { client.shutdown(secs(10)).await });
    sleep(millis(1)).await;
    assert!(matches!(second.await.unwrap(), Err(Error::ShutDown)));
    leave(guard).await;
    let shutdown = shutdown.await.unwrap();
    assert_eq!((shutdown.revoked, shutdown.pending), (0, 0));
    assert_eq!(world.handed_off(), 0);
    leave(world.other_door().try_acquire().await.unwrap().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_a_handed_off_hold() {
    let world = World::new();
    let guard = world.staying().acquire().await.unwrap();
    let second = waiting(world.staying()).await;
    leave(guard).await;
    let guard = handed(second).await;
    let shutdown = world.one.shutdown(secs(10)).await;
    assert_eq!((shutdown.revoked, shutdown.pending), (1, 0));
    assert_eq!(guard.lost().await, LostReason::ShutDown);
    leave(world.other_door().try_acquire().await.unwrap().unwrap()).await;
}
