//! Waiting with a timeout.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use leasehold::Error;

use super::world::{AT_ONCE, World, entered, leave, millis, secs, waiting};

#[tokio::test(start_paused = true)]
async fn timeout_error_names_the_holder_and_the_waiting_time() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let start = Instant::now();
    let timed_out = world.other_door().acquire_within(secs(5)).await.unwrap_err();
    assert_eq!(start.elapsed(), secs(5));

    let text = timed_out.to_string();
    assert!(text.contains("`door`") && text.contains(guard.owner().as_str()), "{text}");
    let Error::TimedOut { name, waited, holder, by_this_client, .. } = timed_out else {
        panic!("{text}")
    };
    assert_eq!((name.as_str(), waited, by_this_client), ("door", secs(5), false));
    assert_eq!(holder.unwrap().owner(), guard.owner());
}

/// Former bug: the error had the remaining lease from the reply to the last request, which was up
/// to several seconds old.
#[tokio::test(start_paused = true)]
async fn timeout_error_shows_the_remaining_lease_of_the_holder() {
    let world = World::new();
    let _guard = world.door().lease(secs(20)).acquire().await.unwrap();
    let timed_out = world.other_door().acquire_within(millis(1_900)).await.unwrap_err();
    let Error::TimedOut { holder: Some(holder), .. } = timed_out else { panic!("{timed_out}") };
    assert_eq!(holder.remaining(), Some(secs(20) - millis(1_900)));
}

#[tokio::test(start_paused = true)]
async fn timeout_error_says_that_this_client_holds_the_lock() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let timed_out = world.door().acquire_within(secs(5)).await.unwrap_err();
    assert!(matches!(timed_out, Error::TimedOut { by_this_client: true, .. }), "{timed_out}");
    let text = timed_out.to_string();
    let output = format!(
        "timed out after 5s waiting for `door`: held by another guard of this client, `{}`",
        guard.owner()
    );
    assert!(text.starts_with(&output), "{text}");
    // The text shows the end of the lease, which the client renews, and not the end of `max_hold`.
    assert!(text.contains("`, lease ends in 2"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn timeout_error_of_a_waiter_without_a_request_names_the_holder() {
    // given a holder in one client, and two waiters in another client
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let _first = waiting(world.other_door()).await;
    sleep(secs(1)).await;

    // when the second waiter, which never sent a request, times out
    let timed_out = world.other_door().acquire_within(millis(1_500)).await.unwrap_err();

    // then the error of the second waiter names the holder, as an error of the first waiter would
    let Error::TimedOut { waited, holder, .. } = timed_out else { panic!("{timed_out}") };
    assert_eq!(waited, millis(1_500));
    assert_eq!(holder.unwrap().owner(), guard.owner());
}

#[tokio::test(start_paused = true)]
async fn timeout_error_names_a_holder_of_this_process() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let timed_out = world.door().acquire_within(secs(1)).await.unwrap_err();
    let Error::TimedOut { holder, .. } = timed_out else { panic!("{timed_out}") };
    assert_eq!(holder.unwrap().owner(), guard.owner());
}

#[tokio::test(start_paused = true)]
async fn waiter_acquires_when_the_holder_releases_in_time() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let lock = world.other_door();
    let (entered, ()) = tokio::join!(lock.acquire_within(secs(5)), async {
        sleep(millis(4_990)).await;
        leave(guard).await;
    });
    assert!(entered.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn acquire_ends_at_its_timeout_while_the_store_is_silent() {
    for max_wait in [millis(1), millis(500), secs(5), secs(60)] {
        let world = World::new();
        world.store.stall();
        let start = Instant::now();
        let refused = world.door().acquire_within(max_wait).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
        assert!(start.elapsed() <= max_wait + AT_ONCE, "{max_wait:?}");
        assert_eq!(world.one.stats().timed_out, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_error_names_a_rejecting_store() {
    let world = World::new();
    world.store.fail("LOADING Redis is loading the dataset in memory");
    let start = Instant::now();
    let refused = world.door().acquire_within(secs(5)).await.unwrap_err();
    assert_eq!(start.elapsed(), secs(5));
    assert!(refused.to_string().contains("LOADING"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn timeout_error_names_no_old_holder_while_the_store_is_silent() {
    // given a client that waited for a former holder, and that holds the lock now
    let world = World::new();
    let former = world.other_door().acquire().await.unwrap();
    let former_owner = former.owner().clone();
    let waiter = waiting(world.door()).await;
    leave(former).await;
    let _guard = entered(waiter).await;

    // when another task of this client times out at a store that does not reply
    world.store.stall();
    let gave_up = world.door().acquire_within(secs(1)).await.unwrap_err();

    // then the error does not name the former holder
    let text = gave_up.to_string();
    assert!(!text.contains(former_owner.as_str()), "{text}");
}

#[tokio::test(start_paused = true)]
async fn zero_timeout_is_refused_with_a_hint_to_try_acquire() {
    let refused = World::new().door().acquire_within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(refused, Error::Duration(_)));
    assert!(refused.to_string().contains("`timeout`"), "{refused}");
    assert!(refused.to_string().contains("try_acquire"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn endless_timeout_waits_without_a_bound() {
    let world = World::new();
    let guard = world.door().lease(secs(2 * 24 * 60 * 60)).acquire().await.unwrap();
    let lock = world.other_door();
    let waiter = tokio::spawn(async move { lock.acquire_within(Duration::MAX).await });
    sleep(secs(24 * 60 * 60)).await;
    assert!(!waiter.is_finished());
    leave(guard).await;
    assert!(entered(waiter).await.is_held());
}

#[tokio::test(start_paused = true)]
async fn task_that_reacquires_sends_a_request_before_its_timeout() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    sleep(secs(1)).await;
    leave(guard).await;
    // After its release, this client pauses before it acquires again, so that a busy-polling client
    // can acquire. The pause would be longer than this timeout.
    let guard = world.door().acquire_within(millis(5)).await.unwrap();
    leave(guard).await;
}
