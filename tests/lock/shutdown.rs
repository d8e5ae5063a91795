//! The shutdown of a client.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use leasehold::{Error, LostReason, Release, WaitStrategy};

use super::world::{AT_ONCE, World, door, entered, gone, leave, millis, secs, waiting};

#[tokio::test(start_paused = true)]
async fn clone_of_a_client_acquires_nothing_after_shutdown() {
    let world = World::new();
    let (clone, lock) = (world.one.clone(), world.door());
    world.one.shutdown(secs(1)).await;
    for lock in [lock, door(&clone)] {
        assert!(matches!(lock.acquire().await, Err(Error::ShutDown)));
        assert!(matches!(lock.acquire_within(secs(1)).await, Err(Error::ShutDown)));
        assert!(matches!(lock.try_acquire().await, Err(Error::ShutDown)));
        assert!(matches!(lock.run(async |_| ()).await, Err(Error::ShutDown)));
    }
    assert!(world.other_door().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn shutdown_without_holds_returns_at_once() {
    let start = Instant::now();
    let shutdown = World::new().one.shutdown(secs(60)).await;
    assert_eq!((shutdown.revoked, shutdown.pending), (0, 0));
    assert!(start.elapsed() < AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn shutdown_accepts_any_timeout() {
    for max_wait in [Duration::ZERO, secs(1), Duration::MAX] {
        let shutdown = World::new().one.shutdown(max_wait).await;
        assert_eq!((shutdown.revoked, shutdown.pending), (0, 0), "{max_wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_fails_waiters_at_once() {
    // given a waiter that is subscribed, a waiter that polls, and a waiter in line behind another
    // task
    let world = World::new();
    let _guard = world.other_door().acquire().await.unwrap();
    let polling = WaitStrategy::Polling { initial: secs(10), max: secs(10) };
    let window = world.one.lock("window").unwrap();
    let _window = world.other.lock("window").unwrap().acquire().await.unwrap();
    let waiters = [
        waiting(world.door()).await,
        waiting(world.door()).await,
        waiting(window.wait_strategy(polling)).await,
    ];

    let start = Instant::now();
    world.one.shutdown(secs(60)).await;
    for waiter in waiters {
        assert!(matches!(waiter.await.unwrap(), Err(Error::ShutDown)));
    }
    assert!(start.elapsed() < AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_unanswered_requests_at_once() {
    let world = World::new();
    world.store.stall();
    let waiter = waiting(world.door()).await;
    let start = Instant::now();
    let (_, reported) = tokio::join!(world.one.shutdown(secs(60)), async {
        let reported = waiter.await.unwrap();
        (reported, start.elapsed())
    });
    assert!(matches!(reported.0, Err(Error::ShutDown)), "{:?}", reported.0);
    assert!(reported.1 < AT_ONCE, "{:?}", reported.1);
}

#[tokio::test(start_paused = true)]
async fn grant_that_arrives_after_shutdown_is_not_returned() {
    for tried in [false, true] {
        // given a request that has no reply when the client is shut down
        let world = World::new();
        world.store.stall();
        let lock = world.door();
        let asking = tokio::spawn(async move {
            match tried {
                true => lock.try_acquire().await.map(|guard| guard.is_some()),
                false => lock.acquire().await.map(|guard| guard.is_held()),
            }
        });
        sleep(millis(1)).await;
        world.one.shutdown(millis(100)).await;

        // when the store replies, then no task holds the lock
        world.store.resume();
        let answer = asking.await.unwrap();
        assert!(matches!(answer, Err(Error::ShutDown)), "{tried}: {answer:?}");
        sleep(secs(1)).await;
        assert!(!world.other_door().is_locked().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_guards_for_half_of_its_timeout() {
    // given a guard that is released within the first half of the timeout
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let (shutdown, release) = tokio::join!(world.one.shutdown(secs(10)), async {
        sleep(secs(4)).await;
        assert!(guard.is_held());
        guard.release().await.unwrap()
    });
    assert_eq!((shutdown.revoked, shutdown.pending), (0, 0));
    assert_eq!(release, Release::Released);
}

#[tokio::test(start_paused = true)]
async fn shutdown_revokes_unreleased_holds() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let window = world.one.lock("window").unwrap().acquire().await.unwrap();
    let lost = guard.lost();
    let waiter = waiting(world.other_door()).await;

    let start = Instant::now();
    let shutdown = world.one.shutdown(secs(10)).await;
    assert_eq!((shutdown.revoked, shutdown.pending), (2, 0));
    assert!(start.elapsed() < secs(5) + AT_ONCE, "{:?}", start.elapsed());
    assert_eq!(lost.await, LostReason::ShutDown);
    assert!(!guard.is_held() && !window.is_held());

    // and other clients acquire at once
    leave(entered(waiter).await).await;
    assert!(start.elapsed() < secs(5) + AT_ONCE);
    let release = guard.release().await.unwrap();
    let taken = gone(LostReason::ShutDown);
    assert_eq!(release, taken);
}

#[tokio::test(start_paused = true)]
async fn guards_are_renewed_while_shutdown_waits() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let (shutdown, ()) = tokio::join!(world.one.shutdown(secs(600)), async {
        sleep(secs(200)).await;
        assert!(guard.is_held());
        leave(guard).await;
    });
    assert_eq!(shutdown.revoked, 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_completes_background_releases() {
    let world = World::new();
    drop(world.door().acquire().await.unwrap());
    let shutdown = world.one.shutdown(secs(1)).await;
    assert_eq!(shutdown.pending, 0);
    assert!(!world.other_door().is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn shutdown_reports_pending_releases() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    world.store.stall();
    let start = Instant::now();
    let shutdown = world.one.shutdown(secs(10)).await;
    assert_eq!((shutdown.revoked, shutdown.pending), (1, 1));
    assert_eq!(start.elapsed(), secs(10));
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn second_shutdown_revokes_nothing() {
    let world = World::new();
    let _guard = world.door().acquire().await.unwrap();
    assert_eq!(world.one.shutdown(secs(1)).await.revoked, 1);
    let again = world.one.shutdown(secs(1)).await;
    assert_eq!((again.revoked, again.pending), (0, 0));
}
