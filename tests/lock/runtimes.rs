//! Calls without a runtime, and calls on one runtime after another.

use futures_util::FutureExt;
use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
    time::{advance, sleep},
};

use leasehold::{Client, Error, QuorumClient};

use super::world::{World, door, leave, millis, secs};

/// A runtime with paused time. Each runtime has a clock of its own, so a timer of one runtime never
/// fires on another.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

#[test]
fn client_may_be_created_before_a_runtime() {
    let client = Client::in_memory();
    let lock = door(&client);
    let guard = runtime().block_on(async { lock.acquire().await.unwrap() });
    assert!(guard.is_held());
}

#[test]
fn acquire_fails_without_a_runtime() {
    let lock = door(&Client::in_memory());
    let acquired = lock.acquire().now_or_never().unwrap();
    assert!(matches!(acquired, Err(Error::NoRuntime)));
    assert!(acquired.unwrap_err().to_string().contains("tokio runtime"));
    let tried = lock.try_acquire().now_or_never().unwrap();
    assert!(matches!(tried, Err(Error::NoRuntime)));
    let ran = lock.run(async |_| ()).now_or_never().unwrap();
    assert!(matches!(ran, Err(Error::NoRuntime)));
}

#[test]
fn acquire_within_fails_without_a_runtime() {
    let lock = door(&Client::in_memory());
    let acquired = lock.acquire_within(secs(1)).now_or_never().unwrap();
    assert!(matches!(acquired, Err(Error::NoRuntime)));
    let ran = lock.run_within(secs(1), async |_| ()).now_or_never().unwrap();
    assert!(matches!(ran, Err(Error::NoRuntime)));
}

/// Former bug: these calls panicked.
#[test]
fn barrier_and_quorum_lock_fail_without_a_runtime() {
    let client = Client::in_memory();
    let barrier = client.barrier("phase", 1).unwrap();
    let arrived = barrier.arrive_and_wait_within(secs(1)).now_or_never().unwrap();
    assert!(matches!(arrived, Err(Error::NoRuntime)));
    let double = client.double_barrier("stage", 1).unwrap();
    let entered = double.enter_within(secs(1)).now_or_never().unwrap();
    assert!(matches!(entered, Err(Error::NoRuntime)));
    let inside = runtime().block_on(double.enter()).unwrap();
    let left = inside.leave_within(secs(1)).now_or_never().unwrap();
    assert!(matches!(left, Err(Error::NoRuntime)));

    let lock = QuorumClient::of([client]).unwrap().lock("door").unwrap();
    let ran = lock.run(async |_| ()).now_or_never().unwrap();
    let acquired = [lock.acquire().now_or_never(), lock.acquire_within(secs(1)).now_or_never()];
    let tried = lock.try_acquire().now_or_never().unwrap();
    let acquired = acquired.map(|it| it.unwrap().map(drop));
    for result in acquired.into_iter().chain([ran, tried.map(drop)]) {
        assert!(matches!(result, Err(Error::NoRuntime)), "{result:?}");
    }
    let guard = runtime().block_on(lock.acquire()).unwrap();
    assert_eq!(guard.lost().now_or_never(), None);
    let released = guard.release().now_or_never().unwrap();
    assert!(matches!(released, Err(Error::NoRuntime)));
}

#[test]
fn client_works_on_a_second_runtime_after_the_first() {
    // given a client that was used on a runtime that has ended
    let client = Client::in_memory();
    let lock = door(&client);
    runtime().block_on(async { leave(lock.acquire().await.unwrap()).await });

    // then the watchdog and the background releases of the client work on the next runtime
    runtime().block_on(async {
        let guard = lock.acquire().await.unwrap();
        sleep(secs(300)).await;
        assert!(guard.is_held());
        drop(guard);
        sleep(millis(1)).await;
        assert!(!lock.is_locked().await.unwrap());
    });
}

#[test]
fn second_runtime_renews_holds_of_the_first() {
    let client = Client::in_memory();
    let guard = runtime().block_on(async { door(&client).acquire().await.unwrap() });
    runtime().block_on(async {
        let window = client.lock("window").unwrap();
        drop(window.acquire().await.unwrap());
        sleep(secs(300)).await;
        assert!(guard.is_held());
    });
}

#[test]
fn guard_dropped_between_runtimes_is_released_by_the_next() {
    let world = World::new();
    let guard = runtime().block_on(async { world.door().acquire().await.unwrap() });
    drop(guard);
    runtime().block_on(async {
        drop(world.one.lock("window").unwrap().acquire().await.unwrap());
        assert!(world.other_door().acquire_within(secs(1)).await.is_ok());
    });
}

#[test]
fn guard_dropped_between_runtimes_is_released_by_shutdown() {
    let world = World::new();
    let guard = runtime().block_on(async { world.door().acquire().await.unwrap() });
    drop(guard);
    runtime().block_on(async {
        let done = world.one.shutdown(secs(1)).await;
        assert_eq!(done.pending, 0);
        assert!(world.other_door().try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn unfinished_release_of_a_runtime_is_sent_by_the_next_runtime() {
    // given a background release whose request got no reply
    let world = World::new();
    runtime().block_on(async {
        let guard = world.door().acquire().await.unwrap();
        world.store.stall();
        drop(guard);
        for _ in 0..10 {
            yield_now().await;
        }
    });

    // when the runtime of this release ends, and the client is used on another runtime
    world.store.resume();
    runtime().block_on(async {
        drop(world.one.lock("window").unwrap().acquire().await.unwrap());

        // then the client releases the lock on the second runtime
        let entered = world.other_door().acquire_within(secs(5)).await;
        assert!(entered.is_ok(), "{entered:?}");
    });
}

#[test]
fn unfinished_renewal_of_a_runtime_is_sent_by_the_next_runtime() {
    // given a renewal whose request got no reply
    let world = World::new();
    let first = runtime();
    let guard = first.block_on(async {
        let guard = world.door().acquire().await.unwrap();
        world.store.stall();
        advance(secs(11)).await;
        for _ in 0..10 {
            yield_now().await;
        }
        guard
    });
    drop(first);

    // when the runtime of this renewal ends, and the client is used on another runtime
    world.store.resume();
    runtime().block_on(async {
        drop(world.one.lock("window").unwrap().acquire().await.unwrap());

        // then the client renews the hold on the second runtime
        sleep(secs(120)).await;
        assert!(guard.is_held(), "{:?}", world.one.stats());
    });
}
