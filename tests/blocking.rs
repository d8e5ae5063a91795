//! The API for threads.
#![cfg(feature = "blocking")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Barrier,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime::Builder,
    task::{block_in_place, spawn_blocking},
    time::Instant,
};

use leasehold::{
    Error, LostReason, MemoryStore, Release, Result, RunOutcome, WaitStrategy,
    blocking::{Client, Lock, LockGuard, MultiLock, OwnedLockGuard},
};

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A limit that no step of a test reaches, even on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// Two clients of one store, like the clients of two processes.
struct World {
    store: MemoryStore,
    one: Client,
    other: Client,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let (one, other) =
            (Client::with_store(&store).unwrap(), Client::with_store(&store).unwrap());
        Self { store, one, other }
    }

    fn door(&self) -> Lock {
        self.one.lock("door").unwrap()
    }

    fn other_door(&self) -> Lock {
        self.other.lock("door").unwrap()
    }
}

/// Runs `work` on a new thread, and returns its result.
fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Whether another thread could acquire `lock` now.
fn is_free(lock: &Lock) -> bool {
    elsewhere(|| lock.try_acquire().unwrap().is_some())
}

fn leave(guard: LockGuard) {
    assert_eq!(guard.release().unwrap(), Release::Released);
}

fn leave_owned(guard: OwnedLockGuard) {
    assert_eq!(guard.release().unwrap(), Release::Released);
}

/// Waits until `condition` is true. Fails after `LONG`.
fn eventually(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "the condition did not become true");
        thread::sleep(millis(2));
    }
}

mod acquiring {
    use super::*;

    #[test]
    fn two_clients_on_one_thread_exclude_each_other() {
        let world = World::new();
        let guard = world.door().acquire().unwrap();
        assert!(world.other_door().try_acquire().unwrap().is_none());
        leave(guard);
        assert!(world.other_door().try_acquire().unwrap().is_some());
    }

    #[test]
    fn held_blocking_lock_excludes_another_thread() {
        let lock = World::new().door();
        let guard = lock.acquire().unwrap();
        assert!(!is_free(&lock));
        leave(guard);
        assert!(is_free(&lock));
    }

    #[test]
    fn waiter_acquires_when_the_holder_releases() {
        for owned in [false, true] {
            let world = World::new();
            let guard = world.door().acquire().unwrap();
            let lock = world.other_door();
            thread::scope(|scope| {
                let waiter = scope.spawn(|| match owned {
                    false => leave(lock.acquire_within(LONG).unwrap()),
                    true => leave_owned(lock.acquire_owned_within(LONG).unwrap()),
                });
                eventually(|| world.other.stats().waiting == 1);
                assert!(!waiter.is_finished());
                let left = Instant::now();
                leave(guard);
                waiter.join().unwrap();
                // A message woke the waiter, because the timer of the waiter takes two seconds or
                // more.
                assert!(left.elapsed() < millis(1_500), "{:?}", left.elapsed());
            });
        }
    }

    #[test]
    fn timeout_error_names_the_holder() {
        let world = World::new();
        let guard = world.door().acquire().unwrap();
        let lock = world.other_door();
        for gave_up in
            [lock.acquire_within(millis(30)).err(), lock.acquire_owned_within(millis(30)).err()]
        {
            let Some(Error::TimedOut { waited, holder, .. }) = gave_up else {
                panic!("{gave_up:?}")
            };
            assert!(waited >= millis(30));
            assert_eq!(holder.unwrap().owner(), guard.owner());
        }
        assert!(matches!(lock.acquire_within(Duration::ZERO), Err(Error::Duration(_))));
    }

    #[test]
    fn free_lock_is_acquired_within_the_timeout() {
        let lock = World::new().door();
        leave(lock.acquire_within(LONG).unwrap());
        leave_owned(lock.acquire_owned_within(LONG).unwrap());
        leave_owned(lock.try_acquire_owned().unwrap().unwrap());
    }

    #[test]
    fn blocking_lock_is_renewed_while_its_thread_sleeps() {
        // given a lock whose ttl is shorter than the work of its holder
        let world = World::new();
        let guard = world.door().ttl(millis(3_000)).acquire().unwrap();
        thread::sleep(millis(4_000));
        assert!(guard.is_held());
        leave(guard);
    }

    #[test]
    fn blocking_lock_has_the_settings_of_the_async_lock() {
        let world = World::new();
        let lock = world.door();
        assert_eq!(lock.name().as_str(), "door");
        let guard = lock.clone().lease(millis(40)).acquire().unwrap();
        assert_eq!(guard.lost().unwrap(), LostReason::Expired);
        drop(guard);
        let guard = lock.clone().max_hold(millis(40)).acquire().unwrap();
        assert_eq!(guard.lost().unwrap(), LostReason::MaxHold);
        drop(guard);
        let polling = WaitStrategy::Polling { initial: Duration::ZERO, max: millis(1) };
        assert!(matches!(lock.clone().wait_strategy(polling).acquire(), Err(Error::Duration(_))));
        assert!(matches!(lock.ttl(Duration::ZERO).acquire(), Err(Error::Duration(_))));
        assert!(matches!(world.one.lock(""), Err(Error::Name(_))));
    }

    #[test]
    fn threads_of_many_clients_exclude_each_other() {
        // given eight threads, two for each client, and a counter that each step reads and then
        // writes
        const THREADS: u32 = 8;
        const ROUNDS: u32 = 200;
        let store = MemoryStore::new();
        let clients: Vec<_> = (0..4).map(|_| Client::with_store(&store).unwrap()).collect();
        let counter = AtomicU32::new(0);
        thread::scope(|scope| {
            for n in 0..THREADS {
                let lock = clients[n as usize % clients.len()].lock("counter").unwrap();
                let counter = &counter;
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let guard = lock.acquire_within(LONG).unwrap();
                        let before = counter.load(Ordering::Relaxed);
                        thread::yield_now();
                        counter.store(before + 1, Ordering::Relaxed);
                        leave(guard);
                    }
                });
            }
        });

        // then no increment was lost
        assert_eq!(counter.load(Ordering::Relaxed), THREADS * ROUNDS);
    }
}

mod reentry {
    use super::*;

    #[test]
    fn thread_reenters_its_lock_by_every_method() {
        let world = World::new();
        let lock = world.door();
        let first = lock.acquire().unwrap();
        let second = world.one.lock("door").unwrap().acquire().unwrap();
        let third = lock.acquire_within(millis(10)).unwrap();
        let fourth = lock.try_acquire().unwrap().unwrap();
        let fifth = third.reenter().unwrap();
        assert_eq!(first.owner(), fifth.owner());
        assert_eq!(first.count(), 5);
        assert_eq!(lock.held_by(first.owner()).unwrap(), 5);

        // and the lock is free when all guards are released or dropped, in any order
        assert_eq!(first.release().unwrap(), Release::StillHeld { count: 4 });
        assert_eq!(third.release().unwrap(), Release::StillHeld { count: 3 });
        drop(second);
        assert_eq!(fifth.release().unwrap(), Release::StillHeld { count: 1 });
        assert!(!is_free(&lock));
        leave(fourth);
        assert!(is_free(&lock));
    }

    #[test]
    fn reentry_works_after_the_first_guard_is_dropped() {
        let lock = World::new().door();
        let first = lock.acquire().unwrap();
        let second = lock.acquire().unwrap();
        assert_eq!(first.release().unwrap(), Release::StillHeld { count: 1 });
        let third = lock.try_acquire().unwrap().unwrap();
        assert_eq!(third.owner(), second.owner());
        assert_eq!(third.count(), 2);
    }

    /// Returns `lock` with limits that let threads share a hold for a minute. Even a busy machine
    /// starts a thread within this time.
    fn shared_long(lock: Lock) -> Lock {
        lock.local_handoff(10_000, Duration::from_secs(60))
    }

    /// Lets another thread share the hold, releases `ours`, the share of this thread, and then
    /// calls `work`.
    fn while_another_thread_shares(read: &Lock, ours: LockGuard, work: impl FnOnce()) {
        let (reads, others) = mpsc::channel();
        let (over, end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let theirs = read.acquire().unwrap();
                reads.send(theirs.owner().clone()).unwrap();
                end.recv().unwrap_err();
                drop(theirs);
            });
            assert_eq!(others.recv().unwrap(), *ours.owner());
            leave(ours);
            // The drop of `_over` ends the other thread's hold, even if `work` panics.
            let _over = over;
            work();
        });
    }

    /// Former bug: a thread counted as a reader as long as any thread of its client read.
    #[test]
    fn thread_may_write_after_it_released_its_read_hold() {
        let prices = World::new().one.read_write_lock("prices").unwrap();
        let (read, write) = (shared_long(prices.read()), prices.write());
        while_another_thread_shares(&read, read.acquire().unwrap(), || {
            assert!(write.acquire_within(millis(300)).unwrap_err().is_busy());
            assert!(write.try_acquire().unwrap().is_none());
        });
        leave(write.acquire().unwrap());
    }

    /// Former bug: the threads of one client that shared a read hold acquired it again and again,
    /// and no writer ever acquired.
    #[test]
    fn second_read_of_a_thread_waits_behind_a_writer() {
        let world = World::new();
        let prices = world.one.read_write_lock("prices").unwrap();
        let (read, write) = (shared_long(prices.read()), prices.write());
        thread::scope(|scope| {
            while_another_thread_shares(&read, read.acquire().unwrap(), || {
                scope.spawn(|| leave(write.acquire().unwrap()));
                eventually(|| world.one.stats().waiting == 1);
                assert!(read.try_acquire().unwrap().is_none());
            });
        });
        leave(read.acquire().unwrap());
    }

    #[test]
    fn thread_holds_locks_of_different_names_separately() {
        let world = World::new();
        let door = world.door().acquire().unwrap();
        let window = world.one.lock("window").unwrap().acquire().unwrap();
        assert_ne!(door.owner(), window.owner());
        assert_eq!((door.count(), window.count()), (1, 1));
    }

    #[test]
    fn each_hold_of_a_thread_has_a_new_owner() {
        let lock = World::new().door();
        let guard = lock.acquire().unwrap();
        let before = guard.owner().clone();
        leave(guard);
        assert_ne!(*lock.acquire().unwrap().owner(), before);
    }

    #[test]
    fn fair_lock_is_reentrant_and_serves_threads_in_order() {
        let world = World::new();
        let [one, other] = [&world.one, &world.other].map(|it| it.fair_lock("door").unwrap());
        let guard = one.acquire().unwrap();
        let again = one.acquire().unwrap();
        assert_eq!((again.owner(), again.count()), (guard.owner(), 2));
        let (order, entered) = mpsc::channel();
        let waiting = |client: &Client| client.stats().waiting;
        thread::scope(|scope| {
            for (place, lock) in [&other, &one, &one, &other].into_iter().enumerate() {
                let order = order.clone();
                let before = waiting(&world.one) + waiting(&world.other);
                scope.spawn(move || {
                    let guard = lock.acquire().unwrap();
                    order.send(place).unwrap();
                    leave(guard);
                });
                eventually(|| waiting(&world.one) + waiting(&world.other) > before);
                // After this pause, the thread has the reply to its request. So the thread has its
                // queue position.
                thread::sleep(millis(100));
            }
            assert!(matches!(again.release().unwrap(), Release::StillHeld { .. }));
            leave(guard);
        });
        drop(order);
        assert_eq!(entered.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn thread_gets_a_new_hold_instead_of_reentering_a_lost_hold() {
        // given a guard whose lease has ended
        let world = World::new();
        let lock = world.door();
        let lost = lock.clone().lease(millis(30)).acquire().unwrap();
        assert_eq!(lost.lost().unwrap(), LostReason::Expired);
        eventually(|| !lock.is_locked().unwrap());

        // then the thread gets a new hold
        let next = lock.acquire().unwrap();
        assert_ne!(next.owner(), lost.owner());
        assert_eq!(next.count(), 1);

        // and the thread still has the new hold when the lost guard is dropped
        drop(lost);
        let again = lock.try_acquire().unwrap().unwrap();
        assert_eq!(again.owner(), next.owner());
    }

    #[test]
    fn thread_waits_instead_of_reentering_after_an_unseen_loss() {
        // given a thread whose hold the store forgot, and another holder
        let world = World::new();
        let lock = world.door();
        let lost = lock.acquire().unwrap();
        assert!(world.store.lose("door"));
        let guard = world.other_door().acquire_owned().unwrap();

        // then the thread waits like any other thread
        assert!(lock.try_acquire().unwrap().is_none());
        assert!(!lost.is_held());
        leave_owned(guard);
        assert!(lock.try_acquire().unwrap().is_some());
    }

    #[test]
    fn acquire_does_not_reenter_an_owned_guard() {
        let lock = World::new().door();
        let guard = lock.acquire_owned().unwrap();
        assert!(lock.try_acquire().unwrap().is_none());
        assert!(matches!(lock.acquire_within(millis(20)), Err(Error::TimedOut { .. })));
        assert!(lock.try_acquire_owned().unwrap().is_none());

        // only a call of `reenter` on the guard reenters
        let again = guard.reenter().unwrap();
        assert_eq!((again.count(), again.owner()), (2, guard.owner()));
    }

    #[test]
    fn acquire_owned_does_not_reenter_a_hold_of_the_thread() {
        let lock = World::new().door();
        let _guard = lock.acquire().unwrap();
        assert!(lock.try_acquire_owned().unwrap().is_none());
    }
}

mod guards {
    use super::*;

    #[test]
    fn owned_guard_moves_between_threads() {
        let lock = World::new().door();
        let guard = lock.acquire_owned().unwrap();
        let guard = elsewhere(move || {
            assert!(guard.is_held());
            guard
        });
        assert!(!is_free(&lock));
        elsewhere(move || leave_owned(guard));
        assert!(is_free(&lock));
    }

    #[test]
    fn dropped_guard_frees_the_lock() {
        let world = World::new();
        drop(world.door().acquire().unwrap());
        leave_owned(world.other_door().acquire_owned_within(LONG).unwrap());
        drop(world.door().acquire_owned().unwrap());
        leave_owned(world.other_door().acquire_owned_within(LONG).unwrap());
    }

    #[test]
    fn guard_dropped_with_its_client_frees_the_lock() {
        for owned in [false, true] {
            // given a long lease, and a guard that is the last handle of its client
            let store = MemoryStore::new();
            let lock = Client::with_store(&store).unwrap().lock("door").unwrap();
            let lock = lock.lease(Duration::from_secs(3_600));
            match owned {
                false => {
                    let guard = lock.acquire().unwrap();
                    drop(lock);
                    drop(guard);
                }
                true => {
                    let guard = lock.acquire_owned().unwrap();
                    drop(lock);
                    drop(guard);
                }
            }

            // then another client acquires soon
            let other = Client::with_store(&store).unwrap().lock("door").unwrap();
            assert!(other.acquire_within(LONG).is_ok());
        }
    }

    #[test]
    fn guard_outlives_its_client() {
        let guard = Client::in_memory().unwrap().lock("door").unwrap();
        let guard = guard.ttl(millis(3_000)).acquire().unwrap();
        thread::sleep(millis(4_000));
        assert!(guard.is_held());
        leave(guard);
    }

    #[test]
    fn guard_shows_its_name_owner_count_and_remaining_time() {
        let lock = World::new().door().lease(LONG);
        let guard = lock.acquire().unwrap();
        let holder = lock.holder().unwrap().unwrap();
        assert_eq!((guard.name(), guard.owner()), (lock.name(), holder.owner()));
        assert_eq!((guard.count(), holder.count()), (1, 1));
        assert!(guard.remaining().unwrap() < LONG);
        assert!(guard.is_held());
    }

    #[test]
    fn loss_wakes_threads_that_wait_for_it() {
        let world = World::new();
        let guard = world.door().ttl(millis(3_000)).acquire().unwrap();
        assert_eq!(guard.lost_within(millis(20)).unwrap(), None);
        assert!(world.store.lose("door"));
        assert_eq!(guard.lost().unwrap(), LostReason::NotOwned);
        assert_eq!(guard.lost_within(millis(20)).unwrap(), Some(LostReason::NotOwned));
        assert!(!guard.is_held());
        assert_eq!(guard.remaining(), None);
        let name = world.door().name().clone();
        let gone = Release::NotHeld { name, reason: LostReason::NotOwned, holder: None };
        assert_eq!(guard.release().unwrap(), gone);
    }

    #[test]
    fn wait_for_a_loss_accepts_any_timeout() {
        let guard = World::new().door().lease(millis(40)).acquire().unwrap();
        assert_eq!(guard.lost_within(Duration::ZERO).unwrap(), None);
        assert_eq!(guard.lost_within(Duration::MAX).unwrap(), Some(LostReason::Expired));
    }

    #[test]
    fn another_thread_learns_of_the_loss_of_an_owned_guard() {
        let lock = World::new().door().lease(millis(60));
        let guard = lock.acquire_owned().unwrap();
        let reported = elsewhere(|| guard.lost().unwrap());
        assert_eq!(reported, LostReason::Expired);
    }

    #[test]
    fn panicking_thread_frees_its_lock() {
        let world = World::new();
        let lock = world.door();
        let panicked = thread::spawn(move || {
            let _guard = lock.acquire().unwrap();
            resume_unwind(Box::new("oh"));
        });
        assert!(panicked.join().is_err());
        assert!(world.other_door().acquire_within(LONG).is_ok());
    }

    #[test]
    fn guard_in_a_thread_local_frees_the_lock_when_its_thread_ends() {
        // given a guard in a thread local. When the thread ends and drops the guard, other thread
        // locals may already be destroyed.
        thread_local! {
            static KEPT: std::cell::RefCell<Option<LockGuard>> = const { std::cell::RefCell::new(None) };
        }
        let world = World::new();
        let lock = world.door();
        elsewhere(|| KEPT.set(Some(lock.acquire().unwrap())));
        assert!(world.other_door().acquire_within(LONG).is_ok());
    }
}

mod looking {
    use super::*;

    #[test]
    fn lock_state_is_visible_without_a_hold() {
        let world = World::new();
        let lock = world.other_door();
        assert!(!lock.is_locked().unwrap());
        assert_eq!(lock.holder().unwrap(), None);
        let guard = world.door().acquire().unwrap();
        assert!(lock.is_locked().unwrap());
        assert_eq!(lock.held_by(guard.owner()).unwrap(), 1);
        assert_eq!(lock.holder().unwrap().unwrap().owner(), guard.owner());
    }

    #[test]
    fn forced_release_frees_the_lock() {
        let world = World::new();
        let guard = world.door().acquire().unwrap();
        assert!(world.other_door().force_release().unwrap());
        assert!(!world.other_door().force_release().unwrap());
        let release = guard.release().unwrap();
        assert!(matches!(release, Release::NotHeld { reason: LostReason::NotOwned, .. }));
    }

    #[test]
    fn client_stats_count_held_granted_and_released_locks() {
        let world = World::new();
        let guard = world.door().acquire().unwrap();
        assert_eq!((world.one.stats().held, world.one.stats().granted), (1, 1));
        leave(guard);
        assert_eq!((world.one.stats().held, world.one.stats().released), (0, 1));
        assert_ne!(world.one.id(), world.other.id());
    }
}

mod running {
    use super::*;

    #[test]
    fn run_holds_the_lock_and_releases_it() {
        let lock = World::new().door();
        let ran = lock.run(|held| {
            assert!(!is_free(&lock));
            held.check().map(|()| 42)
        });
        assert!(matches!(ran.unwrap(), Ok(42)));
        assert!(is_free(&lock));
        assert_eq!(lock.run_within(LONG, |_held| 1).unwrap(), 1);
        assert_eq!(lock.try_run(|_held| 2).unwrap(), Some(2));
        assert!(is_free(&lock));
    }

    #[test]
    fn work_under_a_lock_may_acquire_the_same_lock_again() {
        let lock = World::new().door();
        let ran = lock.run(|_held| {
            let guard = lock.acquire().unwrap();
            assert_eq!(guard.count(), 2);
            let inner = lock.run(|held| lock.held_by(held.owner()).unwrap());
            assert_eq!(inner.unwrap(), 3);
            assert_eq!(lock.try_run(|_held| ()).unwrap(), Some(()));
            guard.release().unwrap()
        });
        assert_eq!(ran.unwrap(), Release::StillHeld { count: 1 });
        assert!(is_free(&lock));
    }

    #[test]
    fn work_does_not_start_while_another_owner_holds_the_lock() {
        let world = World::new();
        let _guard = world.door().acquire().unwrap();
        let lock = world.other_door();
        assert_eq!(lock.try_run(|_held| unreachable!("the lock is held")).unwrap(), None::<()>);
        let ran: Result<()> = lock.run_within(millis(20), |_held| unreachable!("the lock is held"));
        assert!(ran.is_err());
    }

    #[test]
    fn blocking_run_returns_the_loss_of_its_lock() {
        let world = World::new();
        let name = world.door().name().clone();
        let guard = world.door().acquire().unwrap();
        let ran = guard.run(|held| {
            assert!(world.store.lose("door"));
            held.is_held()
        });
        let (reported, reason) = (name.clone(), LostReason::NotOwned);
        assert_eq!(ran, RunOutcome::CompletedAfterLoss { name: reported, value: true, reason });

        let guard = world.door().lease(millis(20)).acquire_owned().unwrap();
        let ran = guard.run(|held| {
            thread::sleep(millis(40));
            held.check().is_ok()
        });
        assert_eq!(
            ran,
            RunOutcome::CompletedAfterLoss { name, value: false, reason: LostReason::Expired }
        );

        let ran = world.door().run(|_held| world.store.lose("door"));
        assert!(matches!(ran, Err(Error::Lost { reason: LostReason::NotOwned, .. })), "{ran:?}");
    }

    #[test]
    fn panic_of_the_work_releases_the_lock_and_reaches_the_caller() {
        let lock = World::new().door();
        let run = || lock.run(|_held| -> () { resume_unwind(Box::new(42)) });
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&42));
        assert!(is_free(&lock));
    }
}

mod inside_async {
    use super::*;

    fn is_refused<T: std::fmt::Debug>(result: Result<T>) {
        let Err(refused) = result else { panic!("{result:?}") };
        assert!(matches!(refused, Error::InsideAsync), "{refused}");
        assert!(refused.to_string().contains("spawn_blocking"), "{refused}");
    }

    /// A client and a guard that can move to another thread. Both are created where blocking is
    /// allowed.
    fn made_elsewhere() -> (Client, OwnedLockGuard) {
        elsewhere(|| {
            let client = Client::in_memory().unwrap();
            let guard = client.lock("door").unwrap().acquire_owned().unwrap();
            (client, guard)
        })
    }

    fn every_method_refuses() {
        let store = MemoryStore::new();
        is_refused(Client::in_memory());
        is_refused(Client::with_store(&store));
        is_refused(Client::builder().with_store(&store));
        is_refused(Client::connect("redis://127.0.0.1:1/"));

        let (client, guard) = made_elsewhere();
        let lock = client.lock("window").unwrap();
        is_refused(lock.acquire());
        is_refused(lock.acquire_within(LONG));
        is_refused(lock.try_acquire());
        is_refused(lock.acquire_owned());
        is_refused(lock.acquire_owned_within(LONG));
        is_refused(lock.try_acquire_owned());
        is_refused(lock.run(|_held| ()));
        is_refused(lock.run_within(LONG, |_held| ()));
        is_refused(lock.try_run(|_held| ()));
        is_refused(lock.is_locked());
        is_refused(lock.holder());
        is_refused(lock.held_by(guard.owner()));
        is_refused(lock.force_release());
        is_refused(guard.reenter());
        is_refused(guard.lost());
        is_refused(guard.lost_within(LONG));
        is_refused(client.shutdown(LONG));

        // methods still work if they read only local state
        assert!(guard.is_held());
        assert_eq!((guard.count(), client.stats().held), (1, 1));

        // and the client completes the release in the background, although the call was rejected
        is_refused(guard.release());
        elsewhere(|| assert!(client.lock("door").unwrap().acquire_within(LONG).is_ok()));
        assert_eq!(client.stats().waiting, 0);
    }

    #[tokio::test]
    async fn blocking_methods_return_an_error_in_a_current_thread_runtime() {
        every_method_refuses();
        tokio::spawn(async { every_method_refuses() }).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn blocking_methods_return_an_error_in_a_multi_thread_runtime() {
        every_method_refuses();
        tokio::spawn(async { every_method_refuses() }).await.unwrap();
    }

    #[tokio::test]
    async fn blocking_methods_return_an_error_in_a_local_task() {
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                tokio::task::spawn_local(async { every_method_refuses() }).await.unwrap();
            })
            .await;
    }

    #[test]
    fn release_refused_in_an_async_context_still_frees_the_lock() {
        let world = World::new();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let guard = world.door().acquire().unwrap();
        runtime.block_on(async {
            is_refused(world.door().acquire());
            is_refused(guard.reenter());
            is_refused(guard.lost_within(LONG));
            is_refused(guard.release());
        });
        assert!(world.other_door().acquire_within(LONG).is_ok());
    }

    #[tokio::test]
    async fn dropping_a_guard_does_not_block_and_frees_the_lock() {
        let (client, guard) = made_elsewhere();
        drop(guard);
        elsewhere(|| assert!(client.lock("door").unwrap().acquire_within(LONG).is_ok()));
    }

    #[tokio::test]
    async fn dropping_the_last_client_and_guard_does_not_block() {
        let (client, guard) = made_elsewhere();
        drop((client, guard));
    }

    #[tokio::test]
    async fn blocking_api_works_in_spawn_blocking() {
        let worked = spawn_blocking(|| {
            let world = World::new();
            let guard = world.door().acquire().unwrap();
            assert_eq!(world.door().acquire().unwrap().count(), 2);
            assert!(world.other_door().try_acquire().unwrap().is_none());
            leave(guard);
            world.other_door().run(|held| held.is_held()).unwrap()
        });
        assert!(worked.await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn blocking_api_works_in_block_in_place() {
        let world = block_in_place(World::new);
        block_in_place(|| leave(world.door().acquire().unwrap()));
    }

    #[tokio::test]
    async fn refused_blocking_call_keeps_the_coop_budget_of_the_task() {
        // given a task whose calls are rejected repeatedly
        let (client, _guard) = made_elsewhere();
        let lock = client.lock("door").unwrap();
        for _ in 0..10 {
            is_refused(lock.try_acquire());
        }

        // then the task can await as before
        let (sender, receiver) = tokio::sync::oneshot::channel();
        tokio::spawn(async move { sender.send(42).unwrap() });
        assert_eq!(receiver.await.unwrap(), 42);
    }
}

mod shutdown {
    use super::*;

    #[test]
    fn shutdown_revokes_unreleased_holds() {
        let world = World::new();
        let guard = world.door().acquire().unwrap();
        let shutdown = world.one.shutdown(millis(2_000)).unwrap();
        assert_eq!((shutdown.revoked, shutdown.pending), (1, 0));
        assert_eq!(guard.lost().unwrap(), LostReason::ShutDown);
        assert!(matches!(world.door().acquire(), Err(Error::ShutDown)));
        assert!(world.other_door().try_acquire().unwrap().is_some());
    }

    #[test]
    fn shutdown_fails_waiting_threads() {
        let world = World::new();
        let _guard = world.other_door().acquire().unwrap();
        let lock = world.door();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| lock.acquire().map(drop));
            eventually(|| world.one.stats().waiting == 1);
            world.one.shutdown(millis(20)).unwrap();
            assert!(matches!(waiter.join().unwrap(), Err(Error::ShutDown)));
        });
    }
}

#[test]
fn short_lived_threads_may_share_a_client() {
    // given a client, and threads that start at the same time
    let (client, barrier) = (Client::in_memory().unwrap(), Arc::new(Barrier::new(4)));
    let inside = Arc::new(AtomicU32::new(0));
    let (sender, alone) = mpsc::channel();
    for _ in 0..4 {
        let (client, barrier, sender) = (client.clone(), Arc::clone(&barrier), sender.clone());
        let inside = Arc::clone(&inside);
        thread::spawn(move || {
            barrier.wait();
            let guard = client.lock("door").unwrap().acquire().unwrap();
            sender.send(inside.fetch_add(1, Ordering::SeqCst) == 0).unwrap();
            inside.fetch_sub(1, Ordering::SeqCst);
            leave(guard);
        });
    }
    drop(sender);

    // then each thread held the lock once, and no other thread held it at that time
    assert_eq!(alone.iter().collect::<Vec<_>>(), [true; 4]);
    assert_eq!(client.stats().granted, 4);
}

// Semaphores and latches.

#[test]
fn thread_acquires_permits_that_another_thread_releases() {
    let client = Client::in_memory().unwrap();
    let pool = client.semaphore("pool").unwrap();
    pool.set_if_absent(2).unwrap();
    let two = pool.acquire(2).unwrap();
    assert!(pool.try_acquire(1).unwrap().is_none());
    assert!(pool.acquire_within(1, Duration::from_millis(20)).unwrap_err().is_busy());
    let waiter = {
        let pool = pool.clone();
        thread::spawn(move || pool.acquire(1).unwrap().release().unwrap().into_result())
    };
    two.release().unwrap().into_result().unwrap();
    waiter.join().unwrap().unwrap();
    assert_eq!(pool.available().unwrap(), 2);
    let guard = pool.acquire(2).unwrap();
    assert_eq!(guard.lost_within(Duration::from_millis(20)).unwrap(), None);
    drop(guard);
    drop(pool);
    client.shutdown(Duration::from_secs(5)).unwrap();
}

#[test]
fn threads_wait_at_a_latch_until_its_count_is_zero() {
    let ready = Client::in_memory().unwrap().latch("ready").unwrap();
    ready.set(2).unwrap();
    assert!(ready.wait_within(Duration::from_millis(20)).unwrap_err().is_busy());
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let ready = ready.clone();
            thread::spawn(move || ready.wait())
        })
        .collect();
    assert_eq!(ready.count_down().unwrap(), 1);
    assert_eq!(ready.count_down().unwrap(), 0);
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
}

/// A multi-lock waits on the runtime of one of its clients. The end of this client must not end the
/// renewals of the other client.
#[test]
fn hold_is_renewed_when_a_client_of_a_past_multi_lock_ends() {
    for first_stays in [true, false] {
        let clients = [(); 2].map(|()| Client::builder().ttl(millis(300)).in_memory().unwrap());
        let locks = [0, 1].map(|at| clients[at].lock(format!("door{at}")).unwrap());
        let both = MultiLock::new(locks.clone()).unwrap();
        both.acquire().unwrap().release().unwrap().into_result().unwrap();

        let ([first, second], [one, other]) = (clients, locks);
        let ((_stays, door), gone) = match first_stays {
            true => ((first, one), (second, other)),
            false => ((second, other), (first, one)),
        };
        let guard = door.acquire_owned().unwrap();
        // One client and its runtime end.
        drop((both, gone));
        thread::sleep(millis(1_000));
        assert!(guard.is_held(), "{first_stays}");
    }
}

#[test]
fn multi_lock_acquires_and_releases_all_members() {
    let world = World::new();
    let both = world.one.multi_lock(["a", "b"]).unwrap();
    let guard = both.acquire_within(LONG).unwrap();
    assert!(both.try_acquire().unwrap().is_none());
    let others = ["a", "b"].map(|name| world.other.lock(name).unwrap());
    assert!(!others.iter().any(is_free));
    elsewhere(|| guard.release()).unwrap().into_result().unwrap();
    assert!(others.iter().all(is_free));
    let lost = both.run(|held| {
        world.store.lose("b");
        held.members().len()
    });
    assert!(matches!(lost, Err(Error::Lost { name, .. }) if name.as_str() == "b"));
    assert!(others.iter().all(is_free));
}
