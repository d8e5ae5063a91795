//! When a waiter acquires: in order, soon after a release, and at the latest at the end of a lease.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use leasehold::{Client, Error, MemoryStore, Release, WaitStrategy};

use super::world::{AT_ONCE, SECOND_LOOK, World, door, entered, leave, millis, secs, waiting};

#[tokio::test(start_paused = true)]
async fn waiter_acquires_when_the_lease_of_a_later_holder_ends() {
    // given three waiters in order, the second with a fixed lease
    let world = World::new();
    let [first, second, third] = [(); 3].map(|()| door(&Client::with_store(&world.store)));
    let guard = world.door().acquire().await.unwrap();
    let first = waiting(first).await;
    let second = waiting(second.lease(millis(400))).await;
    let third = waiting(third).await;

    // when the holder releases, the first waiter acquires and releases, and the second waiter never
    // releases
    leave(guard).await;
    leave(entered(first).await).await;
    let dies = entered(second).await;
    let held_since = Instant::now();
    std::mem::forget(dies);

    // then the third waiter acquires when the fixed lease of the second ends
    let guard = entered(third).await;
    assert!(held_since.elapsed() <= millis(400) + AT_ONCE, "{:?}", held_since.elapsed());
    leave(guard).await;
}

#[tokio::test(start_paused = true)]
async fn waiter_acquires_at_once_when_the_holder_releases() {
    for in_one_client in [true, false] {
        // given a held lock and a waiter
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let lock = if in_one_client { world.door() } else { world.other_door() };
        let waiter = waiting(lock).await;
        sleep(secs(60)).await;
        assert!(!waiter.is_finished());

        // when the holder releases
        let left = Instant::now();
        leave(guard).await;

        // then the waiter acquires at once, and not at its next poll
        let _guard = entered(waiter).await;
        assert!(left.elapsed() < AT_ONCE, "{:?}, {in_one_client}", left.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_acquires_at_once_when_the_guard_is_dropped() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let waiter = waiting(world.other_door()).await;

    let left = Instant::now();
    drop(guard);
    let _guard = entered(waiter).await;
    assert!(left.elapsed() < AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn waiter_acquires_when_a_fixed_lease_ends() {
    // given a lease of ten seconds, and a holder that never releases the lock
    let world = World::new();
    let start = Instant::now();
    let _guard = world.door().lease(secs(10)).acquire().await.unwrap();

    // then a waiter acquires when the lease ends, neither before nor much later
    let _entered = world.other_door().acquire().await.unwrap();
    assert!(start.elapsed() >= secs(10));
    assert!(start.elapsed() < secs(10) + AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn waiters_of_one_process_acquire_in_order() {
    // given ten waiters
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for n in 0..10 {
        let (lock, order) = (world.door(), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(n);
            guard.release().await.unwrap()
        }));
        sleep(millis(1)).await;
    }

    // then the waiters acquire one after the other, in the order in which they began to wait
    leave(guard).await;
    join_all(waiters).await;
    assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn unnotified_release_is_noticed_within_seconds() {
    // given a waiter behind a long lease
    let world = World::new();
    let _guard = world.door().ttl(secs(3_600)).acquire().await.unwrap();
    let waiter = waiting(world.other_door()).await;

    // when the store loses the hold and publishes no message
    let lost = Instant::now();
    world.store.lose("door");

    // then the waiter acquires long before the lease would have ended
    let _guard = entered(waiter).await;
    assert!(lost.elapsed() < SECOND_LOOK, "{:?}", lost.elapsed());
}

#[tokio::test(start_paused = true)]
async fn polling_waiter_acquires_within_the_longest_pause() {
    // given a polling waiter that has waited until its pauses reached their maximum
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let polling = WaitStrategy::Polling { initial: millis(1), max: millis(400) };
    let waiter = waiting(world.other_door().wait_strategy(polling)).await;
    sleep(secs(10)).await;

    // then the waiter acquires within one pause and its jitter
    let left = Instant::now();
    leave(guard).await;
    let _guard = entered(waiter).await;
    assert!(left.elapsed() <= millis(510), "{:?}", left.elapsed());
}

#[tokio::test(start_paused = true)]
async fn polling_waiter_is_not_woken_by_notifications() {
    let world = World::new();
    let guard = world.door().acquire().await.unwrap();
    let polling = WaitStrategy::Polling { initial: millis(100), max: millis(400) };
    let waiter = waiting(world.other_door().wait_strategy(polling)).await;
    leave(guard).await;
    drop(entered(waiter).await);
    assert_eq!(world.other.stats().wake_ups, 0);
}

#[tokio::test(start_paused = true)]
async fn release_of_a_polling_client_soon_reaches_subscribed_waiters() {
    let world = World::new();
    let polling = WaitStrategy::Polling { initial: millis(1), max: millis(100) };
    let guard = world.door().wait_strategy(polling).acquire().await.unwrap();
    let waiter = waiting(world.other_door()).await;

    let left = Instant::now();
    leave(guard).await;
    let _guard = entered(waiter).await;
    assert!(left.elapsed() < SECOND_LOOK);
}

#[tokio::test(start_paused = true)]
async fn waiter_keeps_waiting_while_the_store_is_unreachable() {
    for words in [None, Some("LOADING Redis is loading the dataset in memory")] {
        // given a waiter, and a store that is silent or rejects requests for a while
        let world = World::new();
        match words {
            None => world.store.stall(),
            Some(words) => world.store.fail(words),
        }
        let waiter = waiting(world.door()).await;
        sleep(secs(60)).await;
        assert!(!waiter.is_finished());

        // when the store works again, then the waiter acquires within the longest pause
        let back = Instant::now();
        world.store.resume();
        world.store.heal();
        let guard = entered(waiter).await;
        assert!(back.elapsed() < millis(1_250) + AT_ONCE, "{:?}", back.elapsed());
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_acquires_at_once_when_the_first_connection_is_up() {
    // given a server that is silent from the beginning, and waiters of three clients
    let store = MemoryStore::new();
    store.stall();
    let locks = ["a", "b", "c"].map(|name| Client::with_store(&store).lock(name).unwrap());
    let waiters = join_all(locks.map(waiting)).await;

    // when the server replies after 26 s. Then the clients connect for the sixth time, and each
    // waiter is in a pause of about a second after its eighth request
    sleep(secs(26)).await;
    let back = Instant::now();
    store.resume();

    // then the waiters acquire at once, and not after their pauses
    join_all(waiters.into_iter().map(entered)).await;
    assert!(back.elapsed() < AT_ONCE, "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn permanent_rejection_returns_the_message_of_the_store() {
    let world = World::new();
    world.store.fail("OOM command not allowed when used memory > 'maxmemory'");
    let refused = world.door().acquire().await.unwrap_err();
    let Error::NotReady { name, code, message, .. } = &refused else { panic!("{refused}") };
    assert_eq!((name.as_str(), code.as_str()), ("door", "OOM"));
    assert!(message.starts_with("command not allowed"), "{message}");
    assert!(refused.to_string().contains("`door`: OOM command not allowed"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn refused_acquisition_leaves_no_key() {
    let world = World::new();
    world.store.fail("NOPERM no permission");
    for refused in [
        world.door().acquire().await.err(),
        world.door().acquire_within(secs(1)).await.err(),
        world.door().try_acquire().await.err(),
    ] {
        assert!(matches!(refused, Some(Error::Forbidden { .. })), "{refused:?}");
    }
    world.store.heal();
    assert!(world.other_door().try_acquire().await.unwrap().is_some());
    assert_eq!((world.one.stats().held, world.one.stats().waiting), (0, 0));
}
