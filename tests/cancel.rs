//! An operation that is dropped at any of its awaits leaves no trace.
//!
//! A test polls a future n times and then drops it, for n = 0, 1, 2, … until the future completes.
//! In a second round, the test drops the future right after something has woken it for the next
//! poll. After each drop, the lock must become free in time, the counts must be zero, and the next
//! waiter must acquire.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::poll;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use leasehold::{
    Client, Error, Lock, LockGuard, LostReason, MemoryStore, MultiLock, ReadWriteLock, Release,
    Replicas, Semaphore, WaitStrategy,
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Too short for a timer. A waiter that acquires within this time was notified.
pub(crate) const AT_ONCE: Duration = millis(10);

/// The time in which the lock must be free after the store replies again. The time is long because
/// the client repeats its requests after pauses.
const AFTER_TROUBLE: Duration = secs(2);

/// How long the lock cannot be acquired.
const TROUBLE: Duration = secs(5);

/// The await at which a future is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// The number of polls before the drop.
    pub(crate) polls: usize,
    /// Whether the future is dropped only after something has woken its task for the next poll.
    woken: bool,
}

impl Cut {
    /// Polls `future` as long as the cut allows, and then drops it.
    pub(crate) async fn of<F: Future>(self, future: F) -> Option<F::Output> {
        let mut future = Box::pin(future);
        let mut left = self.polls;
        poll_fn(move |cx| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            match future.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if left == 0 && !self.woken => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// Runs `scene` with a cut at each await, until `scene` returns that the operation completed before
/// the cut. Returns the number of cuts.
pub(crate) async fn at_every_await(scene: impl AsyncFn(Cut) -> bool) -> usize {
    const FAR_TOO_MANY: usize = 500;
    let mut cuts = 0;
    for woken in [false, true] {
        let mut polls = 0;
        while !scene(Cut { polls, woken }).await {
            polls += 1;
            assert!(polls < FAR_TOO_MANY, "the scene never completes");
        }
        cuts += polls;
    }
    cuts
}

/// Two clients of one store, and the locks that they use.
struct World {
    store: MemoryStore,
    one: Client,
    other: Client,
    sides: Sides,
}

/// The lock that client `one` acquires, and a lock of the other client. The two locks exclude each
/// other.
type Sides = [fn(&Client) -> Lock; 2];

const LOCKS: Sides = [|client| client.lock("door").unwrap(); 2];
const READING: Sides = [|client| read_write(client).read(), |client| read_write(client).write()];
const WRITING: Sides = [|client| read_write(client).write(); 2];
const WRITING_BESIDE_READERS: Sides =
    [|client| read_write(client).write(), |client| read_write(client).read()];

fn read_write(client: &Client) -> ReadWriteLock {
    client.read_write_lock("door").unwrap()
}

/// The cause that delays an acquisition, until `TROUBLE` is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    Free,
    /// Another client has the lock, and this client is subscribed.
    Held,
    /// Another client has the lock, and this client polls.
    HeldPolling,
    /// The store does not reply.
    Stalled,
    /// The store does not reply, and another client has the lock.
    StalledAndHeld,
    /// The store rejects requests.
    Failing,
    /// Two other tasks of this client wait first.
    Queue,
}

const WAYS: [Way; 7] = [
    Way::Free,
    Way::Held,
    Way::HeldPolling,
    Way::Stalled,
    Way::StalledAndHeld,
    Way::Failing,
    Way::Queue,
];

impl World {
    fn new() -> Self {
        Self::of(LOCKS)
    }

    fn of(sides: Sides) -> Self {
        let store = MemoryStore::new();
        let (one, other) = (Client::with_store(&store), Client::with_store(&store));
        Self { store, one, other, sides }
    }

    fn door(&self) -> Lock {
        self.sides[0](&self.one)
    }

    fn other_door(&self) -> Lock {
        self.sides[1](&self.other)
    }

    /// Delays acquisitions by `way` until `TROUBLE` is over. Returns the lock to acquire, and a
    /// task that ends when the lock can be acquired.
    async fn block(&self, way: Way) -> (Lock, JoinHandle<()>) {
        let polling = WaitStrategy::Polling { initial: millis(700), max: secs(2) };
        let lock = match way {
            Way::HeldPolling => self.door().wait_strategy(polling),
            _ => self.door(),
        };
        let guard = match way {
            Way::Free | Way::Stalled | Way::Failing => None,
            _ => Some(self.other_door().acquire().await.unwrap()),
        };
        match way {
            Way::Stalled | Way::StalledAndHeld => self.store.stall(),
            Way::Failing => self.store.fail("LOADING Redis is loading the dataset in memory"),
            _ => {}
        }
        let mut before_us = Vec::new();
        if way == Way::Queue {
            for _ in 0..2 {
                before_us.push(tokio::spawn(short_visit(self.door())));
                sleep(millis(1)).await;
            }
        }
        let store = self.store.clone();
        let over = tokio::spawn(async move {
            if way == Way::Free {
                return;
            }
            sleep(TROUBLE).await;
            store.resume();
            store.heal();
            drop(guard);
            for visitor in before_us {
                visitor.await.unwrap();
            }
        });
        (lock, over)
    }

    /// Asserts that the lock is free within `bound`, and that the client has left no trace.
    async fn is_quiet(&self, bound: Duration, case: &str) {
        let start = Instant::now();
        let guard = self.other_door().acquire_within(secs(300)).await.unwrap();
        assert!(start.elapsed() <= bound, "{case}: free after {:?}", start.elapsed());
        assert_eq!(guard.release().await.unwrap(), Release::Released, "{case}");

        let stats = self.one.stats();
        assert_eq!((stats.held, stats.waiting), (0, 0), "{case}");
        let shutdown = self.one.shutdown(secs(300)).await;
        assert_eq!((shutdown.revoked, shutdown.pending), (0, 0), "{case}");
        assert!(!self.other_door().is_locked().await.unwrap(), "{case}");
    }
}

/// Acquires the lock, holds it for 100 ms, and releases it. Panics if the lock is not granted
/// within an hour.
async fn short_visit(lock: Lock) {
    let guard = lock.acquire_within(secs(3_600)).await.unwrap();
    sleep(millis(100)).await;
    drop(guard);
}

/// Drops `operation` on a lock at each await of the operation, with every `Way`. `waits` is true if
/// the operation waits for a holder.
async fn leaves_nothing_behind<T>(waits: bool, operation: impl AsyncFn(&Lock) -> T) {
    leaves_nothing_of(LOCKS, waits, operation).await;
}

/// Does the same as `leaves_nothing_behind`, for one side of a read-write lock.
async fn leaves_nothing_of<T>(sides: Sides, waits: bool, operation: impl AsyncFn(&Lock) -> T) {
    for way in WAYS {
        let cuts = at_every_await(async |cut| {
            // given a lock that is not free yet, and a task of this client that waits behind the
            // operation
            let world = World::of(sides);
            let (lock, way_is_free) = world.block(way).await;
            let case = format!("{way:?}, {cut:?}");

            // when the operation is dropped at one of its awaits, or completes
            let mut cutting = pin!(cut.of(operation(&lock)));
            let early = poll!(&mut cutting);
            let behind = tokio::spawn(short_visit(world.door()));
            let done = match early {
                Poll::Ready(done) => done,
                Poll::Pending => cutting.await,
            };
            let completed = done.is_some();
            drop(done);

            // then the task behind acquires without a delay, and no trace is left
            way_is_free.await.unwrap();
            let start = Instant::now();
            behind.await.unwrap();
            let bound = match way {
                Way::Free | Way::Held | Way::Queue => AT_ONCE,
                Way::HeldPolling => secs(4),
                Way::Stalled | Way::StalledAndHeld | Way::Failing => AFTER_TROUBLE,
            };
            // The time of two holds: the hold of the task behind, and the hold of the operation if
            // it completed before the cut.
            let visits = millis(200);
            assert!(start.elapsed() <= bound + visits, "{case}: {:?}", start.elapsed());
            world.is_quiet(bound, &case).await;
            completed
        })
        .await;
        // `at_every_await` has two rounds. In each round, one run must drop the operation before its
        // first poll. If the operation has to wait, another run must drop it after its first poll.
        let on_its_way = match way {
            Way::Free => false,
            Way::Stalled | Way::StalledAndHeld | Way::Failing => true,
            Way::Held | Way::HeldPolling | Way::Queue => waits,
        };
        assert!(cuts >= if on_its_way { 4 } else { 2 }, "{way:?}: {cuts}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_acquire_leaves_nothing_behind() {
    leaves_nothing_behind(true, async |lock| lock.acquire().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_acquire_within_leaves_nothing_behind() {
    leaves_nothing_behind(true, async |lock| lock.acquire_within(secs(60)).await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn timed_out_acquire_within_leaves_nothing_behind() {
    leaves_nothing_behind(true, async |lock| drop(lock.acquire_within(secs(4)).await)).await;
}

#[tokio::test(start_paused = true)]
async fn acquire_dropped_while_waiting_for_replicas_leaves_nothing() {
    let replicas = Replicas::at_least(1).within(millis(100));
    let acquire = async |lock: &Lock| drop(lock.clone().replicated(replicas).acquire().await);
    leaves_nothing_behind(true, acquire).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_try_acquire_leaves_nothing_behind() {
    leaves_nothing_behind(false, async |lock| drop(lock.try_acquire().await)).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_run_leaves_nothing_behind() {
    leaves_nothing_behind(true, async |lock| {
        lock.run(async |_held| sleep(millis(100)).await).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dropped_run_within_leaves_nothing_behind() {
    leaves_nothing_behind(true, async |lock| {
        lock.run_within(secs(60), async |_held| sleep(millis(100)).await).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dropped_try_run_leaves_nothing_behind() {
    leaves_nothing_behind(false, async |lock| {
        drop(lock.try_run(async |_held| sleep(millis(100)).await).await);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dropped_read_or_write_acquire_leaves_nothing_behind() {
    for sides in [READING, WRITING, WRITING_BESIDE_READERS] {
        leaves_nothing_of(sides, true, async |lock| lock.acquire().await.unwrap()).await;
        leaves_nothing_of(sides, false, async |lock| drop(lock.try_acquire().await)).await;
    }
}

/// The multi-lock consists of `door` and a lock on another server. In the order of members, the
/// other lock is before or after `door`.
#[tokio::test(start_paused = true)]
async fn dropped_multi_lock_acquire_leaves_nothing_behind() {
    for other in ["aisle", "foyer"] {
        let other = Client::in_memory().lock(other).unwrap();
        let both = |lock: &Lock| MultiLock::new([lock.clone(), other.clone()]).unwrap();
        leaves_nothing_behind(true, async |lock| both(lock).acquire().await.unwrap()).await;
        leaves_nothing_behind(true, async |lock| {
            drop(both(lock).acquire_within(secs(4)).await);
        })
        .await;
        leaves_nothing_behind(false, async |lock| drop(both(lock).try_acquire().await)).await;
        leaves_nothing_behind(true, async |lock| {
            both(lock).run(async |_held| sleep(millis(100)).await).await.unwrap();
        })
        .await;
        leaves_nothing_behind(true, async |lock| {
            both(lock).acquire().await.unwrap().release().await.into_result().unwrap();
        })
        .await;
        let free = other.acquire_within(AT_ONCE).await.unwrap();
        assert_eq!(free.release().await.unwrap(), Release::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_downgrade_leaves_no_hold() {
    for stalled in [false, true] {
        let cuts = at_every_await(async |cut| {
            let world = World::of(WRITING);
            let lock = read_write(&world.one);
            let writing = lock.write().acquire().await.unwrap();
            if stalled {
                world.store.stall();
            }
            let mut downgrading = pin!(cut.of(lock.downgrade(writing)));
            let early = poll!(&mut downgrading);
            sleep(millis(1)).await;
            world.store.resume();
            let done = match early {
                Poll::Ready(done) => done,
                Poll::Pending => downgrading.await,
            };
            let completed = done.is_some();
            if let Some(reading) = done {
                drop(reading.unwrap());
            }
            world.is_quiet(AFTER_TROUBLE, &format!("{stalled}, {cut:?}")).await;
            completed
        })
        .await;
        assert!(cuts >= if stalled { 3 } else { 2 }, "{cuts}");
    }
}

/// A release wakes a task, and the task is dropped before it sends its request.
mod woken_and_cancelled {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn dropped_waiter_wakes_the_next_waiter_of_its_process() {
        // given a holder of another client, and two waiters of this client
        let world = World::new();
        let guard = world.other_door().acquire().await.unwrap();
        let lock = world.door();
        let mut first = Box::pin(lock.acquire());
        assert!(poll!(&mut first).is_pending());
        assert!(poll!(&mut first).is_pending());
        let behind = world.door();
        let second = tokio::spawn(async move { behind.acquire_within(secs(3_600)).await });
        sleep(millis(1)).await;

        // when the first waiter is woken and dropped before it sends its request
        let left = Instant::now();
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        assert_eq!(world.one.stats().wake_ups, 1);
        drop(first);

        // then the second waiter acquires at once
        assert!(second.await.unwrap().unwrap().is_held());
        assert!(left.elapsed() < AT_ONCE, "{:?}", left.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_waiter_blocks_no_other_process() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let lock = world.door();
        let mut first = Box::pin(lock.acquire());
        assert!(poll!(&mut first).is_pending());
        let elsewhere = world.other_door();
        let second = tokio::spawn(async move { elsewhere.acquire_within(secs(3_600)).await });
        sleep(millis(1)).await;

        let left = Instant::now();
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        drop(first);
        assert!(second.await.unwrap().unwrap().is_held());
        assert!(left.elapsed() < AT_ONCE, "{:?}", left.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn waiter_behind_fifty_aborted_tasks_acquires_a_freed_lock() {
        // given many waiters that will be aborted, and one waiter that stays
        let world = World::new();
        let guard = world.other_door().acquire().await.unwrap();
        let mut leaving = Vec::new();
        for _ in 0..50 {
            let lock = world.door();
            leaving.push(tokio::spawn(async move { lock.acquire().await }));
        }
        let lock = world.door();
        sleep(millis(1)).await;
        let last = tokio::spawn(async move { lock.acquire_within(secs(3_600)).await });
        sleep(millis(1)).await;
        assert_eq!(world.one.stats().waiting, 51);

        // when these waiters are aborted just after the lock was released
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        let left = Instant::now();
        leaving.drain(..).for_each(|left| left.abort());

        // then the last waiter acquires at once
        assert!(last.await.unwrap().unwrap().is_held());
        assert!(left.elapsed() < AT_ONCE, "{:?}", left.elapsed());
        assert_eq!(world.one.stats().waiting, 0);
    }
}

/// A task that has received a hand-off grant is dropped before it runs.
mod handed_off_and_cancelled {
    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Result<LockGuard, Error>> + Send + 'a>>;

    /// Releases `guard`, and so hands the lock off to `waiter`. Returns `waiter`, which was not
    /// polled after the hand-off.
    async fn handed<'a>(world: &World, guard: LockGuard, mut waiter: Waiting<'a>) -> Waiting<'a> {
        assert!(poll!(&mut waiter).is_pending());
        sleep(millis(1)).await;
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        assert_eq!(world.one.stats().handed_off, 1);
        waiter
    }

    #[tokio::test(start_paused = true)]
    async fn hand_off_to_a_dropped_task_reaches_the_next_task_in_outage() {
        // given a holder, and two waiting tasks of the same client
        let world = World::new();
        let (lock, behind) = (world.door(), world.door());
        let guard = lock.acquire().await.unwrap();
        let mut first: Waiting<'_> = Box::pin(lock.acquire());
        assert!(poll!(&mut first).is_pending());
        let second = tokio::spawn(async move { behind.acquire_within(secs(3_600)).await });
        sleep(millis(1)).await;
        world.store.stall();

        // when the first waiter receives the grant and is dropped
        drop(handed(&world, guard, first).await);

        // then the second waiter has the lock by the same grant
        let left = Instant::now();
        let guard = second.await.unwrap().unwrap();
        assert!(left.elapsed() <= millis(1), "{:?}", left.elapsed());
        world.store.resume();
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        assert_eq!(world.one.stats().granted, 2);
        world.is_quiet(AT_ONCE, "two waiters after a hand-off").await;
    }

    #[tokio::test(start_paused = true)]
    async fn hand_off_to_a_dropped_task_wakes_a_task_with_another_lease() {
        let world = World::new();
        let (lock, behind) = (world.door(), world.door().lease(secs(20)));
        let guard = lock.acquire().await.unwrap();
        let mut first: Waiting<'_> = Box::pin(lock.acquire());
        assert!(poll!(&mut first).is_pending());
        let second = tokio::spawn(async move { behind.acquire_within(secs(3_600)).await });
        sleep(millis(1)).await;

        drop(handed(&world, guard, first).await);
        let left = Instant::now();
        let guard = second.await.unwrap().unwrap();
        assert!(left.elapsed() <= AT_ONCE, "{:?}", left.elapsed());
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        world.is_quiet(AT_ONCE, "a waiter with another lease").await;
    }

    #[tokio::test(start_paused = true)]
    async fn hand_off_to_a_dropped_task_reaches_a_waiting_process() {
        let world = World::new();
        let (lock, elsewhere) = (world.door(), world.other_door());
        let guard = lock.acquire().await.unwrap();
        let first: Waiting<'_> = Box::pin(lock.acquire());
        let second = tokio::spawn(async move { elsewhere.acquire_within(secs(3_600)).await });
        sleep(millis(1)).await;

        drop(handed(&world, guard, first).await);
        let left = Instant::now();
        assert!(second.await.unwrap().unwrap().is_held());
        assert!(left.elapsed() <= AT_ONCE, "{:?}", left.elapsed());
        world.is_quiet(AT_ONCE, "a waiter of another process").await;
    }

    #[tokio::test(start_paused = true)]
    async fn hand_off_to_a_dropped_task_frees_the_lock_if_no_task_waits() {
        let world = World::new();
        let lock = world.door();
        let guard = lock.acquire().await.unwrap();
        drop(handed(&world, guard, Box::pin(lock.acquire())).await);
        world.is_quiet(AT_ONCE, "no other waiter").await;
        assert_eq!(world.one.stats().granted, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn hand_off_to_a_dropped_task_is_released_after_an_outage() {
        let world = World::new();
        let lock = world.door();
        let guard = lock.acquire().await.unwrap();
        world.store.stall();
        drop(handed(&world, guard, Box::pin(lock.acquire())).await);
        sleep(TROUBLE).await;
        world.store.resume();
        world.is_quiet(AFTER_TROUBLE, "a store without replies").await;
    }

    #[tokio::test(start_paused = true)]
    async fn hand_off_skips_fifty_aborted_tasks_to_the_last_waiter() {
        let world = World::new();
        let guard = world.door().acquire().await.unwrap();
        let mut leaving = Vec::new();
        for _ in 0..50 {
            let lock = world.door();
            leaving.push(tokio::spawn(async move { lock.acquire().await }));
        }
        sleep(millis(1)).await;
        let lock = world.door();
        let last = tokio::spawn(async move { lock.acquire_within(secs(3_600)).await });
        sleep(millis(1)).await;
        world.store.stall();
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        leaving.iter().for_each(JoinHandle::abort);
        let guard = last.await.unwrap().unwrap();
        assert_eq!(world.one.stats().waiting, 0);
        world.store.resume();
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        world.is_quiet(AT_ONCE, "fifty cancelled waiters").await;
    }
}

/// The store grants a request after its caller was dropped, so the client releases the grant.
mod granted_and_cancelled {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn request_whose_caller_was_dropped_is_withdrawn() {
        // given a request to a silent store
        let world = World::new();
        world.store.stall();
        let lock = world.door();
        let mut asking = Box::pin(lock.acquire());
        assert!(poll!(&mut asking).is_pending());

        // when the caller is dropped and the store replies again
        drop(asking);
        world.store.resume();

        // then the abandoned request blocks no other client, now or later
        for _ in 0..10 {
            let guard = world.other_door().acquire_within(AT_ONCE).await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Release::Released);
            sleep(millis(700)).await;
        }
        assert_eq!(world.one.stats().granted, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn guard_in_a_dropped_join_handle_is_released() {
        let world = World::new();
        let lock = world.door();
        let task = tokio::spawn(async move { lock.acquire().await });
        sleep(millis(1)).await;
        assert!(task.is_finished());
        assert!(world.other_door().try_acquire().await.unwrap().is_none());
        drop(task);
        world.is_quiet(AT_ONCE, "a guard in a dropped join handle").await;
    }
}

mod release {
    use super::*;

    /// Returns a hold, and a waiter of the other client behind it.
    async fn held(world: &World) -> (LockGuard, JoinHandle<()>) {
        let guard = world.door().acquire().await.unwrap();
        let behind = tokio::spawn(short_visit(world.other_door()));
        sleep(millis(1)).await;
        (guard, behind)
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_release_is_completed() {
        for trouble in [None, Some(Way::Stalled), Some(Way::Failing)] {
            let cuts = at_every_await(async |cut| {
                // given a hold with a waiter, and in some cases a silent store
                let world = World::new();
                let (guard, behind) = held(&world).await;
                let lost = guard.lost();
                match trouble {
                    None => {}
                    Some(Way::Stalled) => world.store.stall(),
                    Some(_) => world.store.fail("LOADING"),
                }
                let store = world.store.clone();
                let over = tokio::spawn(async move {
                    sleep(secs(2)).await;
                    store.resume();
                    store.heal();
                });

                // when the call of `release` is dropped
                let released = cut.of(guard.release()).await;
                let case = format!("{trouble:?}, {cut:?}");
                if let Some(released) = &released {
                    assert_eq!(released.as_ref().unwrap(), &Release::Released, "{case}");
                }

                // then the client still releases the hold, as soon as the store replies
                assert_eq!(lost.await, LostReason::Released, "{case}");
                if trouble.is_some() {
                    over.await.unwrap();
                }
                let start = Instant::now();
                behind.await.unwrap();
                assert!(start.elapsed() <= AFTER_TROUBLE, "{case}: {:?}", start.elapsed());
                world.is_quiet(AFTER_TROUBLE, &case).await;
                released.is_some()
            })
            .await;
            assert!(cuts >= if trouble.is_some() { 4 } else { 2 }, "{trouble:?}: {cuts}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_release_of_one_guard_updates_the_hold_count() {
        for stalled in [false, true] {
            let cuts = at_every_await(async |cut| {
                // given a hold with two guards
                let world = World::new();
                let guard = world.door().acquire().await.unwrap();
                let again = guard.reenter().await.unwrap();
                if stalled {
                    world.store.stall();
                }
                let store = world.store.clone();
                let over = tokio::spawn(async move {
                    sleep(secs(2)).await;
                    store.resume();
                });

                // when the release of one guard is dropped
                let released = cut.of(again.release()).await;
                over.await.unwrap();
                sleep(AFTER_TROUBLE).await;

                // then the hold has one share, in this client and in the store
                let case = format!("stalled: {stalled}, {cut:?}");
                assert_eq!(guard.count(), 1, "{case}");
                let counted = world.door().held_by(guard.owner()).await.unwrap();
                assert_eq!(counted, 1, "{case}");
                assert_eq!(guard.release().await.unwrap(), Release::Released, "{case}");
                world.is_quiet(AT_ONCE, &case).await;
                released.is_some()
            })
            .await;
            assert!(cuts >= if stalled { 4 } else { 2 }, "{stalled}: {cuts}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_reenter_leaves_the_hold_count_unchanged() {
    for trouble in [None, Some(Way::Stalled), Some(Way::Failing)] {
        let cuts = at_every_await(async |cut| {
            // given a guard, and in some cases a store that does not reply or rejects requests
            let world = World::new();
            let guard = world.door().acquire().await.unwrap();
            match trouble {
                None => {}
                Some(Way::Stalled) => world.store.stall(),
                Some(_) => world.store.fail("LOADING"),
            }
            let store = world.store.clone();
            let over = tokio::spawn(async move {
                sleep(secs(2)).await;
                store.resume();
                store.heal();
            });

            // when a reentry is dropped, before or after it completes
            let entered = cut.of(guard.reenter()).await;
            let case = format!("{trouble:?}, {cut:?}");
            let completed = entered.is_some();
            if let Some(again) = entered {
                assert_eq!(again.unwrap().count(), 2, "{case}");
            }
            over.await.unwrap();
            sleep(AFTER_TROUBLE).await;

            // then the hold has one share, as before
            assert_eq!(guard.count(), 1, "{case}");
            assert_eq!(world.door().held_by(guard.owner()).await.unwrap(), 1, "{case}");
            assert!(guard.is_held(), "{case}");
            assert_eq!(guard.release().await.unwrap(), Release::Released, "{case}");
            world.is_quiet(AT_ONCE, &case).await;
            completed
        })
        .await;
        assert!(cuts >= if trouble.is_some() { 4 } else { 2 }, "{trouble:?}: {cuts}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_query_or_loss_future_does_not_change_the_hold() {
    for stalled in [false, true] {
        let cuts = at_every_await(async |cut| {
            let world = World::new();
            let lock = world.door();
            let guard = lock.acquire().await.unwrap();
            if stalled {
                world.store.stall();
            }
            let store = world.store.clone();
            let over = tokio::spawn(async move {
                sleep(secs(2)).await;
                store.resume();
            });
            let looked = cut
                .of(async {
                    (
                        lock.holder().await.unwrap().is_some(),
                        lock.is_locked().await.unwrap(),
                        lock.held_by(guard.owner()).await.unwrap(),
                    )
                })
                .await;
            assert!(looked.is_none_or(|looked| looked == (true, true, 1)));
            drop(cut.of(guard.lost()));
            over.await.unwrap();
            sleep(secs(60)).await;
            assert!(guard.is_held());
            assert_eq!(guard.release().await.unwrap(), Release::Released);
            world.is_quiet(AT_ONCE, &format!("{cut:?}")).await;
            looked.is_some()
        })
        .await;
        assert!(cuts >= if stalled { 4 } else { 2 }, "{stalled}: {cuts}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_shutdown_takes_effect_and_can_be_repeated() {
    for stalled in [false, true] {
        let cuts = at_every_await(async |cut| {
            // given a guard that is never released, and a waiter of another client
            let world = World::new();
            let guard = world.door().acquire().await.unwrap();
            let behind = tokio::spawn(short_visit(world.other_door()));
            sleep(millis(1)).await;
            if stalled {
                world.store.stall();
            }

            // when the call of `shutdown` is dropped
            let shutdown = cut.of(world.one.shutdown(millis(40))).await;
            let case = format!("stalled: {stalled}, {cut:?}");
            world.store.resume();

            // then the client stays shut down, unless the call was never polled
            if cut.polls > 0 {
                let refused = world.door().try_acquire().await;
                assert!(matches!(refused, Err(Error::ShutDown)), "{case}: {refused:?}");
            }

            // and a second shutdown revokes the guard
            let again = world.one.shutdown(secs(20)).await;
            assert_eq!(again.pending, 0, "{case}");
            assert!(!guard.is_held(), "{case}");
            let start = Instant::now();
            behind.await.unwrap();
            assert!(start.elapsed() <= AFTER_TROUBLE, "{case}: {:?}", start.elapsed());
            drop(guard);
            world.is_quiet(AT_ONCE, &case).await;
            shutdown.is_some()
        })
        .await;
        assert!(cuts >= 4, "{stalled}: {cuts}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_when_its_run_is_dropped() {
    /// Sets its flag when it is dropped.
    struct DropFlag(Arc<AtomicBool>);
    impl Drop for DropFlag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    // given work that never ends
    let world = World::new();
    let (lock, dropped) = (world.door(), Arc::new(AtomicBool::new(false)));
    let reported = DropFlag(Arc::clone(&dropped));
    let mut run = Box::pin(lock.run(async |_held| {
        let _reported = reported;
        std::future::pending::<()>().await;
    }));
    assert!(poll!(&mut run).is_pending());
    assert!(!dropped.load(Ordering::SeqCst));

    // when the run of this work is dropped, then the run drops the work and releases the lock
    drop(run);
    assert!(dropped.load(Ordering::SeqCst));
    world.is_quiet(AT_ONCE, "a dropped run").await;
}

/// Drops `operation` on a semaphore with two permits at each await of the operation. Both permits
/// are free, or another client has one of them. The store replies, or does not reply.
async fn permits_come_back<T>(operation: impl AsyncFn(&Semaphore) -> T) {
    for (taken, stalled) in [(false, false), (true, false), (false, true), (true, true)] {
        let cuts = at_every_await(async |cut| {
            let world = World::new();
            let [pool, other] =
                [&world.one, &world.other].map(|client| client.semaphore("pool").unwrap());
            pool.set_if_absent(2).await.unwrap();
            let in_the_way = other.acquire(1).await.unwrap();
            let in_the_way = taken.then_some(in_the_way);
            sleep(AT_ONCE).await;
            if stalled {
                world.store.stall();
            }
            let store = world.store.clone();
            let over = tokio::spawn(async move {
                sleep(TROUBLE).await;
                store.resume();
                drop(in_the_way);
            });
            let completed = cut.of(operation(&pool)).await.is_some();
            over.await.unwrap();
            sleep(TROUBLE).await;
            let case = format!("{taken}, {stalled}, {cut:?}");
            assert_eq!(other.available().await.unwrap(), 2, "{case}");
            let stats = world.one.stats();
            assert_eq!((stats.held, stats.waiting), (0, 0), "{case}");
            assert_eq!(world.one.shutdown(secs(300)).await.pending, 0, "{case}");
            completed
        })
        .await;
        assert!(cuts >= 2, "{taken}, {stalled}: {cuts}");
    }
}

#[tokio::test(start_paused = true)]
async fn acquire_dropped_at_any_await_returns_its_permits() {
    permits_come_back(async |pool| pool.acquire(2).await.unwrap()).await;
    permits_come_back(async |pool| pool.acquire_within(2, secs(60)).await.unwrap()).await;
    permits_come_back(async |pool| pool.try_acquire(2).await.ok().flatten()).await;
}

#[tokio::test(start_paused = true)]
async fn release_dropped_at_any_await_returns_its_permits() {
    permits_come_back(async |pool| {
        let guard = pool.acquire(2).await.unwrap();
        guard.release().await.unwrap().into_result().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dropped_latch_wait_blocks_no_waiter() {
    for stalled in [false, true] {
        let cuts = at_every_await(async |cut| {
            let world = World::new();
            let latch = world.one.latch("start").unwrap();
            latch.set(1).await.unwrap();
            if stalled {
                world.store.stall();
            }
            let (store, opens) = (world.store.clone(), latch.clone());
            let over = tokio::spawn(async move {
                sleep(TROUBLE).await;
                store.resume();
                opens.count_down().await.unwrap();
            });
            let mut cutting = pin!(cut.of(latch.wait()));
            let early = poll!(&mut cutting);
            let behind = latch.clone();
            let behind = tokio::spawn(async move { behind.wait().await });
            let completed = match early {
                Poll::Ready(done) => done.is_some(),
                Poll::Pending => cutting.await.is_some(),
            };
            over.await.unwrap();
            let passes = tokio::time::timeout(AFTER_TROUBLE, behind).await;
            passes.unwrap_or_else(|_| panic!("{stalled}, {cut:?}")).unwrap().unwrap();
            assert_eq!(world.one.stats().waiting, 0);
            assert_eq!(world.one.shutdown(secs(300)).await.pending, 0);
            completed
        })
        .await;
        assert!(cuts >= 4, "{stalled}: {cuts}");
    }
}
