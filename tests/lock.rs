//! The lock, its guard and its client, in virtual time.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinHandle, yield_now},
    time::{Instant, advance, sleep, timeout},
};

use leasehold::{
    Client, Error, Lock, LockGuard, LostReason, MemoryStore, Name, Owner, Release, Result, Stats,
    WaitBy,
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// So soon that nobody polled or waited for a timer.
const AT_ONCE: Duration = millis(10);

/// By then a waiter asks whether or not it was woken.
const SECOND_LOOK: Duration = secs(4);

/// Two clients, as if of two processes.
struct World {
    store: MemoryStore,
    one: Client,
    other: Client,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let (one, other) = (Client::sharing(&store), Client::sharing(&store));
        Self { store, one, other }
    }

    /// The lock of the one client.
    fn door(&self) -> Lock {
        door(&self.one)
    }

    /// The same lock, of the other client.
    fn other_door(&self) -> Lock {
        door(&self.other)
    }
}

/// What a release says of `door` when nobody has it now.
fn gone(reason: LostReason) -> Release {
    Release::AlreadyGone { name: Name::new("door").unwrap(), reason, holder: None }
}

fn door(client: &Client) -> Lock {
    client.lock("door").unwrap()
}

/// Gives back what is still ours.
async fn leave(guard: LockGuard) {
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// Somebody who waits for `lock`, and has asked already.
async fn waiting(lock: Lock) -> JoinHandle<Result<LockGuard>> {
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(millis(1)).await;
    assert!(!waiter.is_finished());
    waiter
}

/// Fails, rather than waiting for ever, when it is never let in.
async fn entered(waiter: JoinHandle<Result<LockGuard>>) -> LockGuard {
    timeout(secs(7 * 24 * 60 * 60), waiter).await.unwrap().unwrap().unwrap()
}

mod exclusion {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_clients_exclude_each_other() {
        let world = World::new();
        let _guard = world.door().acquire().await.unwrap();
        assert!(world.other_door().try_acquire().await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn two_tasks_of_one_client_exclude_each_other() {
        let world = World::new();
        let _guard = world.door().acquire().await.unwrap();
        assert!(world.door().try_acquire().await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_acquires_twice_waits_for_itself() {
        let world = World::new();
        let _guard = world.door().acquire().await.unwrap();
        let again = timeout(secs(300), world.door().acquire()).await;
        assert!(again.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_tasks_of_many_clients_at_most_one_is_inside() {
        // given three clients with twenty tasks each
        let store = MemoryStore::new();
        let clients: Vec<_> = (0..3).map(|_| Client::sharing(&store)).collect();
        let (inside, rounds) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let tasks = clients.iter().flat_map(|client| (0..20).map(|_| door(client)));
        let tasks = tasks.map(|lock| {
            let (inside, rounds) = (Arc::clone(&inside), Arc::clone(&rounds));
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                // then nobody else is where each of them is
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                sleep(millis(7)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                rounds.fetch_add(1, Ordering::SeqCst);
                guard.release().await.unwrap()
            })
        });

        // and each of them gets there
        let released = join_all(tasks.collect::<Vec<_>>()).await;
        assert!(released.iter().all(|it| matches!(it, Ok(Release::Released))));
        assert_eq!(rounds.load(Ordering::SeqCst), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn different_names_do_not_exclude_each_other() {
        let world = World::new();
        let _door = world.door().acquire().await.unwrap();
        let window = world.one.lock("window").unwrap();
        assert!(window.try_acquire().await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clone_of_a_lock_is_the_same_lock() {
        let lock = World::new().door();
        let _guard = lock.clone().acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn every_acquisition_has_an_owner_of_its_own_that_begins_with_the_client() {
        let world = World::new();
        let mut owners = HashSet::new();
        for _ in 0..10 {
            let guard = world.door().acquire().await.unwrap();
            assert!(guard.owner().as_str().starts_with(&format!("{}:", world.one.id())));
            owners.insert(guard.owner().clone());
            leave(guard).await;
        }
        assert_eq!(owners.len(), 10);
        assert_ne!(world.one.id(), world.other.id());
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_any_text_are_kept_apart() {
        let client = Client::in_memory();
        let long = "x".repeat(512);
        let names = ["a", "a ", "a\n", "a\0", "ключ", "🔒", "{tenant}:a", &long];
        let mut guards = Vec::new();
        for name in names {
            let guard = client.lock(name).unwrap().try_acquire().await.unwrap().unwrap();
            assert_eq!(guard.name().as_str(), name);
            guards.push(guard);
        }
        assert_eq!(client.stats().held, names.len() as u64);
    }
}

mod entering {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_was_woken_in_vain_soon_after_it_came_knows_the_holder_after_that_one() {
        // given three who wait one after the other, the second for a lease that is fixed
        let world = World::new();
        let [first, second, third] = [(); 3].map(|()| door(&Client::sharing(&world.store)));
        let guard = world.door().acquire().await.unwrap();
        let first = waiting(first).await;
        let second = waiting(second.lease(millis(400))).await;
        let third = waiting(third).await;

        // when a release wakes them all, and the next one passes the lock on
        leave(guard).await;
        leave(entered(first).await).await;
        let dies = entered(second).await;
        let held_since = Instant::now();
        std::mem::forget(dies);

        // then the third one comes when that lease ends
        let guard = entered(third).await;
        assert!(held_since.elapsed() <= millis(400) + AT_ONCE, "{:?}", held_since.elapsed());
        leave(guard).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_enters_at_once_when_the_holder_leaves() {
        for in_one_client in [true, false] {
            // given a held lock and somebody waiting for it
            let world = World::new();
            let guard = world.door().acquire().await.unwrap();
            let lock = if in_one_client { world.door() } else { world.other_door() };
            let waiter = waiting(lock).await;
            sleep(secs(60)).await;
            assert!(!waiter.is_finished());

            // when the holder leaves
            let left = Instant::now();
            leave(guard).await;

            // then the waiter enters at once, not at the next poll
            let _guard = entered(waiter).await;
            assert!(left.elapsed() < AT_ONCE, "{:?}, {in_one_client}", left.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_enters_at_once_when_the_guard_is_dropped() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let waiter = waiting(world.other_door()).await;

        let left = Instant::now();
        drop(guard);
        let _guard = entered(waiter).await;
        assert!(left.elapsed() < AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_enters_when_a_fixed_lease_ends() {
        // given a lease of ten seconds, and a holder who never gives it back
        let world = World::new();
        let start = Instant::now();
        let _guard = world.door().lease(secs(10)).acquire().await.unwrap();

        // then a waiter enters when it ends, neither before nor much later
        let _entered = world.other_door().acquire().await.unwrap();
        assert!(start.elapsed() >= secs(10));
        assert!(start.elapsed() < secs(10) + AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_of_one_process_enter_in_the_order_in_which_they_came() {
        // given ten who wait
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

        // when they enter one after the other
        leave(guard).await;
        join_all(waiters).await;
        assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_nobody_was_told_of_is_noticed_within_seconds() {
        // given a waiter behind a long lease
        let world = World::new();
        let _guard = world.door().ttl(secs(3_600)).acquire().await.unwrap();
        let waiter = waiting(world.other_door()).await;

        // when the store forgets the holder without a word
        let lost = Instant::now();
        world.store.lose("door");

        // then the waiter enters long before the lease would have ended
        let _guard = entered(waiter).await;
        assert!(lost.elapsed() < SECOND_LOOK, "{:?}", lost.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_polls_enters_within_the_longest_pause() {
        // given one who has polled for long enough to pause for as long as it may
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let polling = WaitBy::Polling { first: millis(1), longest: millis(400) };
        let waiter = waiting(world.other_door().wait_by(polling)).await;
        sleep(secs(10)).await;

        // then it enters within one pause and its jitter
        let left = Instant::now();
        leave(guard).await;
        let _guard = entered(waiter).await;
        assert!(left.elapsed() <= millis(510), "{:?}", left.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_polls_is_not_woken_by_messages() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let polling = WaitBy::Polling { first: millis(100), longest: millis(400) };
        let waiter = waiting(world.other_door().wait_by(polling)).await;
        leave(guard).await;
        drop(entered(waiter).await);
        assert_eq!(world.other.stats().wake_ups, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_listens_behind_a_holder_that_polls_enters_within_seconds() {
        let world = World::new();
        let polling = WaitBy::Polling { first: millis(1), longest: millis(100) };
        let guard = world.door().wait_by(polling).acquire().await.unwrap();
        let waiter = waiting(world.other_door()).await;

        let left = Instant::now();
        leave(guard).await;
        let _guard = entered(waiter).await;
        assert!(left.elapsed() < SECOND_LOOK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_goes_on_waiting_while_the_store_is_away() {
        for words in [None, Some("LOADING Redis is loading the dataset in memory")] {
            // given a waiter, and a store that stops to answer or refuses for a while
            let world = World::new();
            match words {
                None => world.store.stall(),
                Some(words) => world.store.fail(words),
            }
            let waiter = waiting(world.door()).await;
            sleep(secs(60)).await;
            assert!(!waiter.is_finished());

            // when it is back, then the waiter enters within two seconds
            let back = Instant::now();
            world.store.resume();
            world.store.heal();
            let guard = entered(waiter).await;
            assert!(back.elapsed() < secs(2), "{:?}", back.elapsed());
            assert_eq!(guard.release().await.unwrap(), Release::Released);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_no_that_will_stay_is_an_error_in_the_words_of_the_store() {
        let world = World::new();
        world.store.fail("OOM command not allowed when used memory > 'maxmemory'");
        let refused = world.door().acquire().await.unwrap_err();
        let Error::NotReady { name, code, message, .. } = &refused else { panic!("{refused}") };
        assert_eq!((name.as_str(), code.as_str()), ("door", "OOM"));
        assert!(message.starts_with("command not allowed"), "{message}");
        assert!(refused.to_string().contains("`door`: OOM command not allowed"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_acquisition_leaves_nothing_behind() {
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
}

mod trying {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn trying_a_free_lock_gets_it_and_trying_a_held_one_does_not_wait() {
        let world = World::new();
        let start = Instant::now();
        let guard = world.door().try_acquire().await.unwrap();
        assert!(guard.is_some());
        assert!(world.other_door().try_acquire().await.unwrap().is_none());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn trying_a_lock_that_was_given_back_gets_it() {
        let world = World::new();
        leave(world.door().acquire().await.unwrap()).await;
        assert!(world.other_door().try_acquire().await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn trying_asks_a_silent_store_for_three_seconds() {
        let world = World::new();
        world.store.stall();
        let start = Instant::now();
        let refused = world.door().try_acquire().await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
        assert!(start.elapsed() <= secs(3) + AT_ONCE, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn trying_waits_out_a_refusal_that_passes() {
        let world = World::new();
        world.store.fail("LOADING Redis is loading the dataset in memory");
        let lock = world.door();
        let (tried, ()) = tokio::join!(lock.try_acquire(), async {
            sleep(secs(1)).await;
            world.store.heal();
        });
        assert!(tried.unwrap().is_some());
    }
}

mod patience {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn when_patience_ends_the_error_names_the_holder_and_how_long_we_waited() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let start = Instant::now();
        let timed_out = world.other_door().acquire_within(secs(5)).await.unwrap_err();
        assert_eq!(start.elapsed(), secs(5));

        let text = timed_out.to_string();
        assert!(text.contains("`door`") && text.contains(guard.owner().as_str()), "{text}");
        let Error::TimedOut { name, waited, holder, by_this_client } = timed_out else {
            panic!("{text}")
        };
        assert_eq!((name.as_str(), waited, by_this_client), ("door", secs(5), false));
        assert_eq!(holder.unwrap().owner(), guard.owner());
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_waits_for_its_own_lock_is_told_that_it_is_its_own() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let timed_out = world.door().acquire_within(secs(5)).await.unwrap_err();
        assert!(matches!(timed_out, Error::TimedOut { by_this_client: true, .. }), "{timed_out}");
        let text = timed_out.to_string();
        let said =
            format!("`door` was still held after 5s by this client itself, `{}`", guard.owner());
        assert!(text.starts_with(&said), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_waits_behind_another_of_its_process_learns_of_the_holder_too() {
        // given a holder elsewhere and two waiters here
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let _first = waiting(world.other_door()).await;
        sleep(secs(1)).await;

        // when the second one gives up, which never asked the store itself
        let timed_out = world.other_door().acquire_within(millis(1_500)).await.unwrap_err();

        // then it knows as much as the first
        let Error::TimedOut { waited, holder, .. } = timed_out else { panic!("{timed_out}") };
        assert_eq!(waited, millis(1_500));
        assert_eq!(holder.unwrap().owner(), guard.owner());
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_holder_is_of_this_process_it_is_named_as_well() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let timed_out = world.door().acquire_within(secs(1)).await.unwrap_err();
        let Error::TimedOut { holder, .. } = timed_out else { panic!("{timed_out}") };
        assert_eq!(holder.unwrap().owner(), guard.owner());
    }

    #[tokio::test(start_paused = true)]
    async fn patience_is_enough_when_the_holder_leaves_in_time() {
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
    async fn patience_ends_in_time_whatever_the_store_does() {
        for patience in [millis(1), millis(500), secs(5), secs(60)] {
            let world = World::new();
            world.store.stall();
            let start = Instant::now();
            let refused = world.door().acquire_within(patience).await.unwrap_err();
            assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
            assert!(start.elapsed() <= patience + AT_ONCE, "{patience:?}");
            assert_eq!(world.one.stats().timed_out, 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_refuses_for_a_while_is_named_when_patience_ends() {
        let world = World::new();
        world.store.fail("LOADING Redis is loading the dataset in memory");
        let start = Instant::now();
        let refused = world.door().acquire_within(secs(5)).await.unwrap_err();
        assert_eq!(start.elapsed(), secs(5));
        assert!(refused.to_string().contains("LOADING"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_former_holder_is_not_named_when_the_store_does_not_answer() {
        // given that we waited for another client, which left, and hold the lock now
        let world = World::new();
        let former = world.other_door().acquire().await.unwrap();
        let former_owner = former.owner().clone();
        let waiter = waiting(world.door()).await;
        leave(former).await;
        let _guard = entered(waiter).await;

        // when somebody of our process runs out of patience with a silent store
        world.store.stall();
        let gave_up = world.door().acquire_within(secs(1)).await.unwrap_err();

        // then it does not say that the one who left still holds the lock
        let text = gave_up.to_string();
        assert!(!text.contains(former_owner.as_str()), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_patience_at_all_is_refused_with_a_hint_to_try_acquire() {
        let refused = World::new().door().acquire_within(Duration::ZERO).await.unwrap_err();
        assert!(matches!(refused, Error::Duration(_)));
        assert!(refused.to_string().contains("`patience`"), "{refused}");
        assert!(refused.to_string().contains("try_acquire"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn endless_patience_waits_like_no_bound_at_all() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let lock = world.other_door();
        let waiter = tokio::spawn(async move { lock.acquire_within(Duration::MAX).await });
        sleep(secs(24 * 60 * 60)).await;
        assert!(!waiter.is_finished());
        leave(guard).await;
        assert!(entered(waiter).await.is_held());
    }
}

mod giving_back {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_reentry_is_counted_and_each_release_counts_back() {
        let lock = World::new().door();
        let first = lock.acquire().await.unwrap();
        let second = first.reenter().await.unwrap();
        let third = second.reenter().await.unwrap();
        assert_eq!(lock.held_by(first.owner()).await.unwrap(), 3);
        assert_eq!((first.count(), third.count()), (3, 3));
        assert_eq!(first.owner(), third.owner());

        // in any order
        assert_eq!(first.release().await.unwrap(), Release::StillHeld { count: 2 });
        assert_eq!(lock.holder().await.unwrap().unwrap().count(), 2);
        assert_eq!(third.release().await.unwrap(), Release::StillHeld { count: 1 });
        assert!(second.is_held());
        assert_eq!(second.release().await.unwrap(), Release::Released);
        assert!(!lock.is_locked().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_reentry_is_counted_back_as_well() {
        let lock = World::new().door();
        let guard = lock.acquire().await.unwrap();
        drop(guard.reenter().await.unwrap());
        sleep(millis(1)).await;
        assert_eq!(guard.count(), 1);
        assert_eq!(lock.held_by(guard.owner()).await.unwrap(), 1);
        assert!(guard.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn reentries_at_the_same_time_are_all_counted_also_by_the_store() {
        for stalled in [false, true] {
            for round in 0..20 {
                // given reentries that are asked for at the same time
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

                // then each counts, in whatever order the store heard of them
                assert_eq!(guard.count(), 3);
                let counted = lock.held_by(guard.owner()).await.unwrap();
                assert_eq!(counted, 3, "stalled: {stalled}, round {round}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reentry_renews_the_lease_that_the_watchdog_keeps() {
        let lock = World::new().door();
        let guard = lock.acquire().await.unwrap();
        sleep(secs(5)).await;
        let _again = guard.reenter().await.unwrap();
        assert!(guard.remaining().unwrap() > secs(29));
        assert_eq!(lock.holder().await.unwrap().unwrap().remaining(), Some(secs(30)));
    }

    #[tokio::test(start_paused = true)]
    async fn reentry_after_the_end_is_refused_with_the_reason() {
        let world = World::new();
        let guard = world.door().lease(secs(1)).acquire().await.unwrap();
        sleep(secs(2)).await;
        let refused = guard.reenter().await.unwrap_err();
        assert!(matches!(refused, Error::Lost { reason: LostReason::Expired, .. }), "{refused}");

        let guard = world.door().acquire().await.unwrap();
        world.store.lose("door");
        let refused = guard.reenter().await.unwrap_err();
        assert!(matches!(refused, Error::Lost { reason: LostReason::NotOurs, .. }), "{refused}");
        assert!(!guard.is_held());
        assert_eq!(guard.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reentry_that_the_store_refuses_leaves_the_guard_as_it_was() {
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
    async fn releasing_after_the_lease_ended_says_that_it_expired() {
        let guard = World::new().door().lease(secs(1)).acquire().await.unwrap();
        sleep(secs(2)).await;
        let expired = gone(LostReason::Expired);
        assert_eq!(guard.release().await.unwrap(), expired);
    }

    #[tokio::test(start_paused = true)]
    async fn releasing_what_somebody_else_holds_now_names_who_that_is() {
        // given a hold that ended, for whatever reason, and another that came after it
        for reason in [LostReason::Expired, LostReason::NotOurs] {
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

            // then the release tells both
            let release = guard.release().await.unwrap();
            let Release::AlreadyGone { reason: told, holder, .. } = release else {
                panic!("{release:?}")
            };
            assert_eq!(told, reason);
            assert_eq!(holder.unwrap().owner(), next.owner());

            // and leaves the other one alone
            assert!(world.door().is_locked().await.unwrap());
            assert_eq!(next.release().await.unwrap(), Release::Released);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_a_lost_guard_leaves_the_next_holder_alone() {
        let world = World::new();
        let guard = world.door().lease(secs(1)).acquire().await.unwrap();
        sleep(secs(2)).await;
        let next = world.other_door().acquire().await.unwrap();
        drop(guard);
        sleep(secs(10)).await;
        assert_eq!(next.release().await.unwrap(), Release::Released);
    }

    #[tokio::test(start_paused = true)]
    async fn every_share_of_a_lost_hold_learns_that_it_was_lost() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let again = guard.reenter().await.unwrap();
        world.store.lose("door");
        assert_eq!(guard.lost().await, LostReason::NotOurs);
        for guard in [guard, again] {
            let release = guard.release().await.unwrap();
            let gone = gone(LostReason::NotOurs);
            assert_eq!(release, gone);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_is_not_answered_goes_on_in_the_background() {
        // given a store that stops to answer
        let world = World::new();
        let guard = world.door().ttl(secs(300)).acquire().await.unwrap();
        world.store.stall();

        // then the release gives up before long
        let start = Instant::now();
        let refused = guard.release().await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
        assert!(start.elapsed() >= secs(5) && start.elapsed() < secs(7), "{:?}", start.elapsed());

        // and is made when the store is back
        world.store.resume();
        let entered = world.other_door().acquire_within(secs(2)).await;
        assert!(entered.is_ok(), "{entered:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_is_answered_late_is_a_release() {
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
    async fn a_release_that_the_store_refuses_is_an_error_and_the_lease_ends_by_itself() {
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
    async fn a_guard_may_be_dropped_on_a_thread_without_a_runtime() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        std::thread::spawn(move || drop(guard)).join().unwrap();
        assert!(world.other_door().acquire_within(AT_ONCE).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_guard_outlives_the_client_that_made_it() {
        let store = MemoryStore::new();
        let guard = door(&Client::sharing(&store)).acquire().await.unwrap();
        sleep(secs(300)).await;
        assert!(guard.is_held());
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }

    #[tokio::test(start_paused = true)]
    async fn a_guard_dropped_after_its_client_still_frees_the_lock() {
        let store = MemoryStore::new();
        let guard = door(&Client::sharing(&store)).acquire().await.unwrap();
        drop(guard);
        assert!(door(&Client::sharing(&store)).acquire_within(AT_ONCE).await.is_ok());
    }
}

/// Within one client the grant goes from hold to hold.
mod handing_over {
    use super::*;

    /// So soon that the store had no time to be asked.
    const WITHOUT_ASKING: Duration = millis(1);

    impl World {
        /// A lock that may stay with the one client for longer than a test takes.
        fn staying(&self) -> Lock {
            self.door().local_turns(1_000, secs(7 * 24 * 60 * 60))
        }

        fn handed_over(&self) -> u64 {
            self.one.stats().handed_over
        }
    }

    /// What `waiter` gets, which nobody needs to ask for.
    async fn handed(waiter: JoinHandle<Result<LockGuard>>) -> LockGuard {
        let entered = timeout(WITHOUT_ASKING, waiter).await;
        entered.expect("it enters without asking").unwrap().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_task_enters_though_the_store_does_not_answer() {
        // given a holder and two who wait behind it
        let world = World::new();
        let guard = world.staying().acquire().await.unwrap();
        let second = waiting(world.staying()).await;
        let third = waiting(world.staying()).await;
        world.store.stall();

        // when it is released, and then dropped
        leave(guard).await;
        let guard = handed(second).await;
        drop(guard);
        let guard = handed(third).await;

        // then nobody needed the store
        assert_eq!((world.handed_over(), world.one.stats().granted), (2, 3));
        world.store.resume();
        leave(guard).await;
        assert!(!world.door().is_locked().await.unwrap());
        assert_eq!(world.one.stats().released, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn others_see_a_lock_that_is_held_once_by_who_holds_it() {
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

        // and what it has left is what it was granted, no more
        let (theirs, ours) = (holder.remaining().unwrap(), guard.remaining().unwrap());
        assert!(ours <= theirs && theirs < secs(28), "{ours:?}, {theirs:?}");
        assert!(world.other_door().try_acquire().await.unwrap().is_none());
        leave(guard).await;
        leave(world.other_door().try_acquire().await.unwrap().unwrap()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_before_was_released_and_the_next_is_held() {
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
    async fn who_wants_another_kind_of_hold_asks_for_it_and_enters_at_once() {
        let world = World::new();
        let plain = || world.staying();
        let polling = WaitBy::Polling { first: millis(500), longest: secs(1) };
        for (held, wanted, time) in [
            (plain(), plain().ttl(secs(20)), secs(20)),
            (plain(), plain().lease(secs(30)), secs(30)),
            (plain(), plain().wait_by(polling), secs(30)),
            (plain().ttl(secs(20)), plain(), secs(30)),
            (plain().lease(secs(30)), plain(), secs(30)),
            (plain().lease(secs(30)), plain().lease(secs(30)), secs(30)),
            (plain().wait_by(polling), plain(), secs(30)),
        ] {
            let guard = held.acquire().await.unwrap();
            let waiter = waiting(wanted.clone()).await;
            sleep(secs(5)).await;
            let released = Instant::now();
            leave(guard).await;
            let guard = entered(waiter).await;
            assert!(released.elapsed() < AT_ONCE, "{wanted:?}: {:?}", released.elapsed());
            assert_eq!(world.handed_over(), 0, "{wanted:?}");

            // and has all of the time that it asked for
            let holder = world.door().holder().await.unwrap().unwrap();
            assert!(holder.remaining().unwrap() > time - AT_ONCE, "{wanted:?}: {holder}");
            leave(guard).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_so_many_turns_another_client_has_its_own() {
        // given four tasks of one client, and one of another that came last
        let world = World::new();
        let lock = world.door().local_turns(2, secs(3_600));
        let guard = lock.acquire().await.unwrap();
        let mut here = Vec::new();
        for _ in 0..3 {
            here.push(waiting(lock.clone()).await);
        }
        let elsewhere = waiting(world.other_door()).await;
        let mut here = here.into_iter();

        // when the lock has been handed over twice
        leave(guard).await;
        let guard = handed(here.next().unwrap()).await;
        leave(guard).await;
        let guard = handed(here.next().unwrap()).await;
        leave(guard).await;

        // then the other client has it, and the first one again after that
        let guard = handed(elsewhere).await;
        assert_eq!(world.handed_over(), 2);
        let last = here.next().unwrap();
        assert!(!last.is_finished());
        leave(guard).await;
        leave(entered(last).await).await;
    }

    #[tokio::test(start_paused = true)]
    async fn after_so_long_another_client_has_its_turn() {
        let world = World::new();
        let lock = world.door().local_turns(1_000, millis(50));
        let guard = lock.acquire().await.unwrap();
        let (second, third) = (waiting(lock.clone()).await, waiting(lock.clone()).await);
        let elsewhere = waiting(world.other_door()).await;

        sleep(millis(30)).await;
        leave(guard).await;
        let guard = handed(second).await;
        assert_eq!(world.handed_over(), 1);
        sleep(millis(30)).await;
        leave(guard).await;
        let guard = handed(elsewhere).await;
        assert_eq!(world.handed_over(), 1);
        assert!(!third.is_finished());
        leave(guard).await;
        leave(entered(third).await).await;
    }

    #[tokio::test(start_paused = true)]
    async fn two_busy_clients_share_the_lock() {
        // given five tasks of each client that always want the lock
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

        // then each has about half of it
        sleep(secs(10)).await;
        tasks.iter().for_each(JoinHandle::abort);
        let [ours, theirs] = counts.map(|count| count.load(Ordering::SeqCst));
        assert!(ours > 1_000 && theirs > 1_000, "{ours}, {theirs}");
        assert!(ours.abs_diff(theirs) < 500, "{ours}, {theirs}");
        assert!(world.handed_over() > 500, "{}", world.handed_over());
    }

    #[tokio::test(start_paused = true)]
    async fn with_no_turns_or_no_time_the_lock_does_not_stay() {
        let world = World::new();
        for (most, time) in [(0, secs(3_600)), (1_000, Duration::ZERO)] {
            let lock = world.door().local_turns(most, time);
            let guard = lock.acquire().await.unwrap();
            let second = waiting(lock.clone()).await;
            leave(guard).await;
            leave(entered(second).await).await;
        }
        assert_eq!(world.handed_over(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_handed_over_is_renewed() {
        let world = World::new();
        let lock = world.staying().ttl(secs(3));
        let guard = lock.acquire().await.unwrap();
        let second = waiting(lock.clone()).await;
        leave(guard).await;
        let guard = handed(second).await;
        assert_eq!(world.handed_over(), 1);
        for _ in 0..20 {
            sleep(secs(1)).await;
            assert!(guard.is_held());
            assert!(world.other_door().try_acquire().await.unwrap().is_none());
        }
        assert!((19..=21).contains(&world.one.stats().renewals), "{:?}", world.one.stats());
        leave(guard).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_handed_over_is_lost_as_any_other() {
        for reason in [LostReason::NotOurs, LostReason::Expired] {
            let world = World::new();
            let lock = world.staying().ttl(secs(3));
            let granted = Instant::now();
            let guard = lock.acquire().await.unwrap();
            let second = waiting(lock.clone()).await;
            sleep(millis(500)).await;
            leave(guard).await;
            let guard = handed(second).await;
            match reason {
                LostReason::NotOurs => drop(world.store.lose("door")),
                _ => world.store.stall(),
            }

            // then it is told at the renewal, or at the end of what was granted, which
            // was renewed when somebody began to wait
            assert_eq!(guard.lost().await, reason);
            let told = if reason == LostReason::NotOurs { secs(1) } else { millis(2_968) };
            assert!(granted.elapsed() >= told, "{reason}: {:?}", granted.elapsed());
            assert!(granted.elapsed() < told + millis(50), "{reason}: {:?}", granted.elapsed());
            assert!(!guard.is_held());
            world.store.resume();
            let released = guard.release().await.unwrap();
            assert!(matches!(released, Release::AlreadyGone { .. }), "{released:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_lost_is_not_handed_over() {
        let world = World::new();
        let guard = world.staying().acquire().await.unwrap();
        let second = waiting(world.staying()).await;
        world.store.lose("door");
        assert_eq!(guard.lost().await, LostReason::NotOurs);
        let released = guard.release().await.unwrap();
        assert!(matches!(released, Release::AlreadyGone { .. }), "{released:?}");
        leave(entered(second).await).await;
        assert_eq!(world.handed_over(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_due_for_renewal_is_not_handed_over() {
        // given a hold whose renewal is not answered
        let world = World::new();
        let lock = world.staying().ttl(secs(3));
        let guard = lock.acquire().await.unwrap();
        let second = waiting(lock.clone()).await;
        world.store.stall();
        sleep(millis(1_500)).await;

        // then its release waits for the store, and so does the next
        let releasing = tokio::spawn(guard.release());
        sleep(millis(500)).await;
        assert!(!second.is_finished() && !releasing.is_finished());
        world.store.resume();
        assert_eq!(releasing.await.unwrap().unwrap(), Release::Released);
        leave(entered(second).await).await;
        assert_eq!(world.handed_over(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_entered_twice_is_not_handed_over() {
        let world = World::new();
        let guard = world.staying().acquire().await.unwrap();
        let second = waiting(world.staying()).await;
        let again = guard.reenter().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Release::StillHeld { count: 1 });
        leave(again).await;
        let guard = entered(second).await;
        assert_eq!(world.other_door().held_by(guard.owner()).await.unwrap(), 1);
        assert_eq!(world.handed_over(), 0);
        leave(guard).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_handed_over_can_be_entered_again() {
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
    async fn max_hold_counts_from_the_own_entry() {
        let world = World::new();
        let lock = world.staying().max_hold(secs(8));
        let guard = lock.acquire().await.unwrap();
        let second = waiting(lock.clone()).await;
        sleep(secs(6)).await;
        leave(guard).await;

        let begun = Instant::now();
        let guard = handed(second).await;
        assert_eq!(world.handed_over(), 1);
        assert_eq!(guard.lost().await, LostReason::MaxHold);
        let held = begun.elapsed();
        assert!(held >= secs(8) && held < secs(8) + AT_ONCE, "{held:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_shut_down_before_it_knows_gives_the_lock_back() {
        // given one who was handed the lock, and has not run since
        let world = World::new();
        let guard = world.staying().acquire().await.unwrap();
        let second = waiting(world.staying()).await;
        let elsewhere = waiting(world.other_door()).await;
        leave(guard).await;
        assert_eq!(world.handed_over(), 1);
        assert!(!second.is_finished());

        // when its client is shut down
        let shutdown = world.one.shutdown(secs(10)).await;

        // then it does not enter, and nobody is kept out
        assert!(matches!(second.await.unwrap(), Err(Error::ShutDown)));
        assert_eq!((shutdown.taken_back, shutdown.unsettled), (0, 0));
        leave(handed(elsewhere).await).await;
        assert_eq!(world.one.stats().held, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_during_shutdown_hands_over_to_nobody() {
        let world = World::new();
        let guard = world.staying().acquire().await.unwrap();
        let second = waiting(world.staying()).await;
        let client = world.one.clone();
        let shutdown = tokio::spawn(async move { client.shutdown(secs(10)).await });
        sleep(millis(1)).await;
        assert!(matches!(second.await.unwrap(), Err(Error::ShutDown)));
        leave(guard).await;
        let shutdown = shutdown.await.unwrap();
        assert_eq!((shutdown.taken_back, shutdown.unsettled), (0, 0));
        assert_eq!(world.handed_over(), 0);
        leave(world.other_door().try_acquire().await.unwrap().unwrap()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_handed_over_is_taken_back_by_shutdown() {
        let world = World::new();
        let guard = world.staying().acquire().await.unwrap();
        let second = waiting(world.staying()).await;
        leave(guard).await;
        let guard = handed(second).await;
        let shutdown = world.one.shutdown(secs(10)).await;
        assert_eq!((shutdown.taken_back, shutdown.unsettled), (1, 0));
        assert_eq!(guard.lost().await, LostReason::ShutDown);
        leave(world.other_door().try_acquire().await.unwrap().unwrap()).await;
    }
}

mod keeping {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_keeps_a_lock_as_long_as_its_guard_lives() {
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
    async fn a_lease_is_renewed_each_third_of_its_ttl_and_not_more_often() {
        let world = World::new();
        let _guard = world.door().ttl(secs(9)).acquire().await.unwrap();
        sleep(secs(300)).await;
        let renewals = world.one.stats().renewals;
        assert!((95..=101).contains(&renewals), "{renewals}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_default_ttl_is_thirty_seconds_and_a_client_may_have_another() {
        for (client, ttl) in
            [(Client::in_memory(), secs(30)), (Client::builder().ttl(secs(7)).in_memory(), secs(7))]
        {
            let lock = door(&client);
            let _guard = lock.acquire().await.unwrap();
            assert_eq!(lock.holder().await.unwrap().unwrap().remaining(), Some(ttl));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_renewed_after_its_guard_is_gone() {
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
    async fn a_holder_believes_in_its_lease_for_less_than_the_store_does() {
        let lock = World::new().door().lease(secs(10));
        let guard = lock.acquire().await.unwrap();
        let believed = guard.remaining().unwrap();
        assert!(believed < secs(10) && believed > secs(9), "{believed:?}");

        // and stops to believe before anybody else can enter
        assert_eq!(guard.lost().await, LostReason::Expired);
        assert!(lock.is_locked().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_lease_ends_in_time_and_is_never_renewed() {
        let world = World::new();
        let start = Instant::now();
        let guard = world.door().lease(secs(10)).acquire().await.unwrap();

        // not by re-entry either
        sleep(secs(8)).await;
        let again = guard.reenter().await.unwrap();
        assert!(again.remaining().unwrap() <= secs(2));
        assert_eq!(guard.lost().await, LostReason::Expired);
        assert!(start.elapsed() <= secs(10));
        assert!(!again.is_held());
        assert_eq!(world.one.stats().lost_expired, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn looking_after_a_fixed_lease_is_not_counted_as_renewing_it() {
        let world = World::new();
        let _guard = world.door().lease(secs(60)).acquire().await.unwrap();
        sleep(secs(50)).await;
        assert_eq!(world.one.stats().renewals, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_lease_that_is_lost_is_told_before_it_ends() {
        let world = World::new();
        let guard = world.door().lease(secs(3_600)).acquire().await.unwrap();
        world.store.lose("door");
        let start = Instant::now();
        assert_eq!(guard.lost().await, LostReason::NotOurs);
        assert!(start.elapsed() <= secs(1_201), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_hold_ends_in_time_although_it_could_be_renewed() {
        let world = World::new();
        let start = Instant::now();
        let guard = world.door().max_hold(secs(100)).acquire().await.unwrap();
        assert_eq!(guard.lost().await, LostReason::MaxHold);
        assert_eq!(start.elapsed().as_secs(), 100);
        assert!(!guard.is_held());

        // others enter at the latest one ttl later, although the guard never goes
        let _entered = world.other_door().acquire().await.unwrap();
        assert!(start.elapsed() <= secs(130) + AT_ONCE, "{:?}", start.elapsed());
        let release = guard.release().await.unwrap();
        assert!(
            matches!(release, Release::AlreadyGone { reason: LostReason::MaxHold, .. }),
            "{release:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_longest_hold_others_enter_as_soon_as_the_guard_goes() {
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
    async fn of_a_lease_and_a_longest_hold_the_shorter_one_counts() {
        let lock = World::new().door();
        let guard = lock.clone().lease(secs(5)).max_hold(secs(50)).acquire().await.unwrap();
        assert_eq!(guard.lost().await, LostReason::Expired);
        drop(guard);
        let guard = lock.lease(secs(50)).max_hold(secs(5)).acquire().await.unwrap();
        assert_eq!(guard.lost().await, LostReason::MaxHold);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_in_doubt_but_not_lost_while_the_store_is_away_for_less_than_its_lease() {
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

            // and goes on when the store is back
            sleep(secs(300)).await;
            assert!(guard.is_held(), "{words:?}");
            assert!(world.one.stats().renewals_failed > 0);
            assert_eq!(guard.release().await.unwrap(), Release::Released);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_ends_by_its_own_clock_while_the_store_is_silent() {
        let world = World::new();
        let start = Instant::now();
        let guard = world.door().acquire().await.unwrap();
        world.store.stall();
        assert_eq!(guard.lost().await, LostReason::Expired);
        assert!(start.elapsed() < secs(30), "{:?}", start.elapsed());
        assert!(start.elapsed() > secs(29), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn many_holds_are_all_kept() {
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
    async fn the_shortest_and_the_longest_durations_work() {
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
}

mod losing {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn loss_is_told_to_everybody_who_asks_however_often_and_without_the_guard() {
        let world = World::new();
        let guard = world.door().lease(secs(10)).acquire().await.unwrap();
        let early = guard.lost();
        let spawned = tokio::spawn(guard.lost());
        assert_eq!(early.await, LostReason::Expired);
        assert_eq!(guard.lost().await, LostReason::Expired);

        // also to those who ask later, and those who ask when the guard is gone
        let late = guard.lost();
        drop(guard);
        assert_eq!(late.await, LostReason::Expired);
        assert_eq!(spawned.await.unwrap(), LostReason::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_ends_the_wait_for_a_loss() {
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
    async fn the_wait_for_a_loss_goes_on_while_another_share_is_left() {
        let guard = World::new().door().acquire().await.unwrap();
        let again = guard.reenter().await.unwrap();
        let mut lost = Box::pin(guard.lost());
        drop(guard);
        assert!(timeout(secs(100), &mut lost).await.is_err());
        leave(again).await;
        assert_eq!(lost.await, LostReason::Released);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_lost_is_never_held_again() {
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
    async fn after_a_pause_of_the_process_the_guard_knows_before_any_timer_does() {
        // given a hold, and a process that is stopped for longer than its lease
        let guard = World::new().door().acquire().await.unwrap();
        let lost = guard.lost();
        yield_now().await;
        assert!(advance(secs(40)).now_or_never().is_none());

        // then the first look tells that it is over, before any other task ran
        assert!(!guard.is_held());
        assert_eq!(lost.now_or_never(), Some(LostReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_hold_is_told_at_the_next_renewal() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        world.store.lose("door");
        let start = Instant::now();
        assert_eq!(guard.lost().await, LostReason::NotOurs);
        assert!(start.elapsed() <= secs(10) + AT_ONCE, "{:?}", start.elapsed());
        assert_eq!(world.one.stats().lost_not_ours, 1);
    }
}

mod forcing {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn forcing_a_release_says_whether_the_lock_was_held() {
        let world = World::new();
        let _guard = world.door().acquire().await.unwrap();
        assert!(world.other_door().force_release().await.unwrap());
        assert!(!world.other_door().force_release().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_forced_release_is_told_to_the_holder_at_its_next_renewal() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let start = Instant::now();
        world.other_door().force_release().await.unwrap();
        assert_eq!(guard.lost().await, LostReason::NotOurs);
        assert!(start.elapsed() <= secs(10) + AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_forced_release_is_told_at_once_to_a_holder_whose_process_waits_too() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let waiter = waiting(world.door()).await;
        sleep(secs(1)).await;

        let start = Instant::now();
        world.other_door().force_release().await.unwrap();
        assert_eq!(guard.lost().await, LostReason::NotOurs);
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        drop(entered(waiter).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_forced_release_lets_a_waiter_in_at_once() {
        let world = World::new();
        let _guard = world.door().acquire().await.unwrap();
        let waiter = waiting(world.other_door()).await;
        let start = Instant::now();
        assert!(world.door().force_release().await.unwrap());
        assert!(entered(waiter).await.is_held());
        assert!(start.elapsed() < AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn forcing_on_a_silent_store_fails_and_is_not_made_up_for_later() {
        let world = World::new();
        world.store.stall();
        let refused = world.door().force_release().await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
        world.store.resume();
        let guard = world.door().acquire().await.unwrap();
        sleep(secs(60)).await;
        assert!(guard.is_held());
    }
}

mod looking {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_holder_is_shown_with_its_count_and_what_is_left_of_its_lease() {
        let world = World::new();
        let guard = world.door().lease(secs(100)).acquire().await.unwrap();
        let _again = guard.reenter().await.unwrap();
        sleep(secs(40)).await;

        let holder = world.other_door().holder().await.unwrap().unwrap();
        assert_eq!(holder.owner(), guard.owner());
        assert_eq!(holder.count(), 2);
        let left = holder.remaining().unwrap();
        assert!(left <= secs(60) && left > secs(60) - AT_ONCE, "{left:?}");
        assert!(holder.to_string().contains(guard.owner().as_str()), "{holder}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_free_lock_has_no_holder() {
        let lock = World::new().door();
        assert_eq!(lock.holder().await.unwrap(), None);
        assert!(!lock.is_locked().await.unwrap());

        let _guard = lock.clone().lease(secs(1)).acquire().await.unwrap();
        assert!(lock.is_locked().await.unwrap());
        sleep(secs(2)).await;
        assert!(!lock.is_locked().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn whether_an_owner_holds_can_be_asked_by_anybody() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let lock = world.other_door();
        assert_eq!(lock.held_by(guard.owner()).await.unwrap(), 1);
        assert_eq!(lock.held_by(&Owner::new("somebody:1").unwrap()).await.unwrap(), 0);
        let owner = guard.owner().clone();
        leave(guard).await;
        assert_eq!(lock.held_by(&owner).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn looking_at_a_silent_store_fails_in_three_seconds() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        world.store.stall();
        let lock = world.other_door();
        let start = Instant::now();
        let (holder, locked, held) =
            tokio::join!(lock.holder(), lock.is_locked(), lock.held_by(guard.owner()));
        for error in [holder.err(), locked.err(), held.err()] {
            assert!(matches!(error, Some(Error::Unavailable { .. })), "{error:?}");
        }
        assert!(start.elapsed() <= secs(3) + AT_ONCE, "{:?}", start.elapsed());
    }
}

mod settings {
    use super::*;

    async fn refusal(lock: &Lock) -> String {
        let refused = lock.acquire().await.unwrap_err();
        assert!(matches!(refused, Error::Duration(_)), "{refused}");

        // however it is acquired
        let text = refused.to_string();
        let within = lock.acquire_within(secs(1)).await.unwrap_err();
        let tried = lock.try_acquire().await.unwrap_err();
        let run = lock.run(async |_| ()).await.unwrap_err();
        for other in [within, tried, run] {
            assert_eq!(other.to_string(), text);
        }
        text
    }

    #[tokio::test(start_paused = true)]
    async fn durations_that_redis_cannot_tell_from_none_are_refused_by_name_and_rule() {
        let lock = World::new().door();
        let poll = |first, longest| WaitBy::Polling { first, longest };
        for short in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999)] {
            for (setting, lock) in [
                ("ttl", lock.clone().ttl(short)),
                ("lease", lock.clone().lease(short)),
                ("max_hold", lock.clone().max_hold(short)),
                ("first pause of polling", lock.clone().wait_by(poll(short, secs(1)))),
                ("longest pause of polling", lock.clone().wait_by(poll(secs(1), short))),
            ] {
                let text = refusal(&lock).await;
                assert!(text.contains(&format!("`{setting}`")), "{setting}: {text}");
                assert!(text.contains("at least 1 ms"), "{setting}: {text}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn durations_that_redis_cannot_store_are_refused_by_name_and_rule() {
        let lock = World::new().door();
        for (setting, lock) in [
            ("ttl", lock.clone().ttl(Duration::MAX)),
            ("lease", lock.clone().lease(Duration::MAX)),
            ("max_hold", lock.clone().max_hold(Duration::MAX)),
        ] {
            let text = refusal(&lock).await;
            assert!(text.contains(&format!("`{setting}`")), "{setting}: {text}");
            assert!(text.contains("at most 100 years"), "{setting}: {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bad_ttl_of_the_client_is_refused_as_well() {
        let client = Client::builder().ttl(Duration::ZERO).in_memory();
        assert!(refusal(&door(&client)).await.contains("`ttl`"));
    }

    #[test]
    fn names_that_cannot_be_stored_are_refused_with_what_to_do() {
        let client = Client::in_memory();
        let too_long = "x".repeat(513);
        for (name, advice) in
            [("", "at least one character"), (&too_long, "512 bytes"), ("a{b", "hash tag")]
        {
            let refused = client.lock(name).unwrap_err();
            assert!(matches!(refused, Error::Name(_)));
            assert!(refused.to_string().contains(advice), "{refused}");
        }
    }
}

mod stats {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_new_client_has_done_nothing() {
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
    async fn patience_that_ran_out_is_counted() {
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
            (stats.lost_expired, stats.lost_not_ours, stats.lost_max_hold, stats.lost_shut_down)
        };

        // by a lease that ends
        let guard = world.door().lease(secs(1)).acquire().await.unwrap();
        guard.lost().await;
        drop(guard.release().await.unwrap());
        assert_eq!(lost(world.one.stats()), (1, 0, 0, 0));

        // by a store that forgets, told by a renewal and told by the release
        let guard = world.door().acquire().await.unwrap();
        world.store.lose_everything();
        guard.lost().await;
        drop(guard.release().await.unwrap());
        let guard = world.door().acquire().await.unwrap();
        world.store.lose_everything();
        drop(guard.release().await.unwrap());
        assert_eq!(lost(world.one.stats()), (1, 2, 0, 0));

        // by the longest hold
        let guard = world.door().max_hold(secs(1)).acquire().await.unwrap();
        guard.lost().await;
        drop(guard);
        assert_eq!(lost(world.one.stats()), (1, 2, 1, 0));

        // by a shutdown
        let guard = world.door().acquire().await.unwrap();
        world.one.shutdown(millis(10)).await;
        drop(guard);
        assert_eq!(lost(world.one.stats()), (1, 2, 1, 1));

        // and none of these was a release, nor is alive
        assert_eq!((world.one.stats().released, world.one.stats().held), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_are_counted_with_those_that_failed() {
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
    async fn a_renewal_that_is_sent_late_is_seen() {
        // given a hold, and a runtime that was busy for fifteen seconds
        let world = World::new();
        let _guard = world.door().acquire().await.unwrap();
        sleep(secs(1)).await;
        advance(secs(15)).await;
        sleep(millis(1)).await;

        // then its renewal, planned for the tenth second, was late
        let stats = world.one.stats();
        let late = secs(6)..secs(7);
        assert!(late.contains(&stats.renewal_lag), "{:?}", stats.renewal_lag);

        // and the greatest delay stays known when the next one is in time
        sleep(secs(15)).await;
        let stats = world.one.stats();
        assert!(stats.renewal_lag < millis(100), "{:?}", stats.renewal_lag);
        assert!(late.contains(&stats.renewal_lag_max), "{:?}", stats.renewal_lag_max);
    }

    #[tokio::test(start_paused = true)]
    async fn one_message_wakes_a_process_once_however_many_wait_in_it() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let _waiters = (waiting(world.other_door()).await, waiting(world.other_door()).await);
        leave(guard).await;
        sleep(millis(1)).await;
        assert_eq!(world.other.stats().wake_ups, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_is_given_up_is_counted() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        world.store.stall();
        drop(guard);
        sleep(secs(60)).await;
        assert_eq!(world.one.stats().releases_abandoned, 1);
    }
}

mod shutdown {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_it_nothing_new_is_acquired_by_any_clone() {
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
    async fn it_takes_no_time_when_there_is_nothing_to_do() {
        let start = Instant::now();
        let shutdown = World::new().one.shutdown(secs(60)).await;
        assert_eq!((shutdown.taken_back, shutdown.unsettled), (0, 0));
        assert!(start.elapsed() < AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn any_patience_will_do() {
        for patience in [Duration::ZERO, secs(1), Duration::MAX] {
            let shutdown = World::new().one.shutdown(patience).await;
            assert_eq!((shutdown.taken_back, shutdown.unsettled), (0, 0), "{patience:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_are_told_at_once() {
        // given waiters: by messages, by polling, and one in the queue behind another
        let world = World::new();
        let _guard = world.other_door().acquire().await.unwrap();
        let polling = WaitBy::Polling { first: secs(10), longest: secs(10) };
        let window = world.one.lock("window").unwrap();
        let _window = world.other.lock("window").unwrap().acquire().await.unwrap();
        let waiters = [
            waiting(world.door()).await,
            waiting(world.door()).await,
            waiting(window.wait_by(polling)).await,
        ];

        let start = Instant::now();
        world.one.shutdown(secs(60)).await;
        for waiter in waiters {
            assert!(matches!(waiter.await.unwrap(), Err(Error::ShutDown)));
        }
        assert!(start.elapsed() < AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn those_whose_question_the_store_does_not_answer_are_told_at_once_too() {
        let world = World::new();
        world.store.stall();
        let waiter = waiting(world.door()).await;
        let start = Instant::now();
        let (_, told) = tokio::join!(world.one.shutdown(secs(60)), async {
            let told = waiter.await.unwrap();
            (told, start.elapsed())
        });
        assert!(matches!(told.0, Err(Error::ShutDown)), "{:?}", told.0);
        assert!(told.1 < AT_ONCE, "{:?}", told.1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_is_answered_after_it_is_no_grant() {
        for tried in [false, true] {
            // given a question that is on its way when the client is shut down
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

            // when the store answers, then nobody is granted anything
            world.store.resume();
            let answer = asking.await.unwrap();
            assert!(matches!(answer, Err(Error::ShutDown)), "{tried}: {answer:?}");
            sleep(secs(1)).await;
            assert!(!world.other_door().is_locked().await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_for_guards_for_half_of_its_time() {
        // given one guard that comes back in that time
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let (shutdown, release) = tokio::join!(world.one.shutdown(secs(10)), async {
            sleep(secs(4)).await;
            assert!(guard.is_held());
            guard.release().await.unwrap()
        });
        assert_eq!((shutdown.taken_back, shutdown.unsettled), (0, 0));
        assert_eq!(release, Release::Released);
    }

    #[tokio::test(start_paused = true)]
    async fn it_takes_back_what_does_not_come_back() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let window = world.one.lock("window").unwrap().acquire().await.unwrap();
        let lost = guard.lost();
        let waiter = waiting(world.other_door()).await;

        let start = Instant::now();
        let shutdown = world.one.shutdown(secs(10)).await;
        assert_eq!((shutdown.taken_back, shutdown.unsettled), (2, 0));
        assert!(start.elapsed() < secs(5) + AT_ONCE, "{:?}", start.elapsed());
        assert_eq!(lost.await, LostReason::ShutDown);
        assert!(!guard.is_held() && !window.is_held());

        // so that others enter at once
        leave(entered(waiter).await).await;
        assert!(start.elapsed() < secs(5) + AT_ONCE);
        let release = guard.release().await.unwrap();
        let taken = gone(LostReason::ShutDown);
        assert_eq!(release, taken);
    }

    #[tokio::test(start_paused = true)]
    async fn guards_are_renewed_while_it_waits_for_them() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let (shutdown, ()) = tokio::join!(world.one.shutdown(secs(600)), async {
            sleep(secs(200)).await;
            assert!(guard.is_held());
            leave(guard).await;
        });
        assert_eq!(shutdown.taken_back, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn it_makes_the_releases_that_nobody_waits_for() {
        let world = World::new();
        drop(world.door().acquire().await.unwrap());
        let shutdown = world.one.shutdown(secs(1)).await;
        assert_eq!(shutdown.unsettled, 0);
        assert!(!world.other_door().is_locked().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn it_reports_what_it_could_not_release_in_time() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        world.store.stall();
        let start = Instant::now();
        let shutdown = world.one.shutdown(secs(10)).await;
        assert_eq!((shutdown.taken_back, shutdown.unsettled), (1, 1));
        assert_eq!(start.elapsed(), secs(10));
        assert!(!guard.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn twice_is_as_good_as_once() {
        let world = World::new();
        let _guard = world.door().acquire().await.unwrap();
        assert_eq!(world.one.shutdown(secs(1)).await.taken_back, 1);
        let again = world.one.shutdown(secs(1)).await;
        assert_eq!((again.taken_back, again.unsettled), (0, 0));
    }
}

/// Without a runtime, and with one after another.
mod runtimes {
    use super::*;

    /// A runtime whose time is paused. Each has a time of its own, so nothing
    /// sleeps on one that is to be followed by another.
    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
    }

    #[test]
    fn a_client_may_be_made_before_there_is_a_runtime() {
        let client = Client::in_memory();
        let lock = door(&client);
        let guard = runtime().block_on(async { lock.acquire().await.unwrap() });
        assert!(guard.is_held());
    }

    #[test]
    fn acquiring_without_a_runtime_is_an_error_that_says_so() {
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
    fn acquiring_with_patience_without_a_runtime_is_the_same_error() {
        let lock = door(&Client::in_memory());
        let acquired = lock.acquire_within(secs(1)).now_or_never().unwrap();
        assert!(matches!(acquired, Err(Error::NoRuntime)));
        let ran = lock.run_within(secs(1), async |_| ()).now_or_never().unwrap();
        assert!(matches!(ran, Err(Error::NoRuntime)));
    }

    #[test]
    fn a_client_works_on_a_second_runtime_when_the_first_one_is_gone() {
        // given a client that was used on a runtime that is gone
        let client = Client::in_memory();
        let lock = door(&client);
        runtime().block_on(async { leave(lock.acquire().await.unwrap()).await });

        // then its watchdog works on the next one, and its background releases too
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
    fn a_hold_of_the_first_runtime_is_kept_by_the_second() {
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
    fn a_guard_dropped_between_two_runtimes_is_released_by_the_second() {
        let world = World::new();
        let guard = runtime().block_on(async { world.door().acquire().await.unwrap() });
        drop(guard);
        runtime().block_on(async {
            drop(world.one.lock("window").unwrap().acquire().await.unwrap());
            assert!(world.other_door().acquire_within(secs(1)).await.is_ok());
        });
    }

    #[test]
    fn a_release_that_the_first_runtime_took_down_with_it_is_made_by_the_second() {
        // given a background release that is on its way to a store that hangs
        let world = World::new();
        runtime().block_on(async {
            let guard = world.door().acquire().await.unwrap();
            world.store.stall();
            drop(guard);
            for _ in 0..10 {
                yield_now().await;
            }
        });

        // when its runtime is gone, and the client is used on another one
        world.store.resume();
        runtime().block_on(async {
            drop(world.one.lock("window").unwrap().acquire().await.unwrap());

            // then it is made there
            let entered = world.other_door().acquire_within(secs(5)).await;
            assert!(entered.is_ok(), "{entered:?}");
        });
    }

    #[test]
    fn a_renewal_that_the_first_runtime_took_down_with_it_is_made_by_the_second() {
        // given a renewal that is on its way to a store that hangs
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

        // when its runtime is gone, and the client is used on another one
        world.store.resume();
        runtime().block_on(async {
            drop(world.one.lock("window").unwrap().acquire().await.unwrap());

            // then the hold is kept there
            sleep(secs(120)).await;
            assert!(guard.is_held(), "{:?}", world.one.stats());
        });
    }
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lock_of_one_client_excludes_a_guard_of_another() {
    let world = World::new();
    let guard = world.other_door().acquire().await.unwrap();
    let lock = world.door();
    let (ran, ()) = tokio::join!(lock.run(async |_| Instant::now()), async {
        sleep(secs(5)).await;
        leave(guard).await;
    });
    let began = ran.unwrap();
    assert!(began.elapsed() < AT_ONCE);
}
