//! `run` and similar methods: the result of the work, and the state of the lock.

use std::{
    future::{pending, poll_fn},
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep};

use leasehold::{
    Client, Error, Lock, LockContext, LostReason, MemoryStore, Name, OnLoss, QuorumClient, Result,
    RunOutcome,
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Too short for a timer. A waiter that acquires within this time was notified.
const AT_ONCE: Duration = Duration::from_millis(10);

/// A lock, the same lock of another client, and the store of both.
struct World {
    store: MemoryStore,
    client: Client,
    lock: Lock,
    elsewhere: Lock,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let client = Client::with_store(&store);
        let lock = client.lock("job").unwrap();
        let elsewhere = Client::with_store(&store).lock("job").unwrap();
        Self { store, client, lock, elsewhere }
    }

    /// Asserts that the lock is free now, and that the client counts no hold and no waiter.
    async fn is_free(&self) {
        assert!(self.elsewhere.acquire_within(AT_ONCE).await.is_ok());
        assert_eq!((self.client.stats().held, self.client.stats().waiting), (0, 0));
    }
}

/// Runs `work` under `lock`. Returns the result of the work, even if the lock was lost.
async fn in_full<T, F>(lock: &Lock, work: impl FnOnce(LockContext) -> F) -> Result<RunOutcome<T>>
where
    F: Future<Output = T>,
{
    Ok(lock.acquire().await?.run(work).await)
}

fn job() -> Name {
    Name::new("job").unwrap()
}

fn stopped<T>(reason: LostReason) -> RunOutcome<T> {
    RunOutcome::Cancelled { name: job(), reason }
}

fn overran<T>(value: T, reason: LostReason) -> RunOutcome<T> {
    RunOutcome::CompletedAfterLoss { name: job(), value, reason }
}

/// Sets its flag when it is dropped.
struct DropFlag(Arc<AtomicBool>);

impl DropFlag {
    fn new() -> (Self, Arc<AtomicBool>) {
        let dropped = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&dropped)), dropped)
    }
}

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

mod done {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn run_holds_the_lock_and_releases_it() {
        let world = World::new();
        let ran = world.lock.run(async |held: LockContext| {
            assert!(held.is_held());
            assert!(world.elsewhere.try_acquire().await.unwrap().is_none());
            "done"
        });
        assert_eq!(ran.await.unwrap(), "done");
        world.is_free().await;
    }

    #[tokio::test(start_paused = true)]
    async fn lock_is_renewed_during_long_work() {
        let world = World::new();
        world.lock.run(async |_held| sleep(secs(3_600)).await).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn run_returns_the_error_of_its_work_as_the_result() {
        let world = World::new();
        let ran = world.lock.run(async |_held| "seven".parse::<u8>()).await.unwrap();
        let error = ran.unwrap_err();
        assert_eq!(error.to_string(), "invalid digit found in string");
        world.is_free().await;
    }

    #[tokio::test(start_paused = true)]
    async fn work_may_borrow_its_environment() {
        let world = World::new();
        let mut steps = Vec::new();
        let ran = world.lock.run(async |_held| {
            steps.push(1);
            sleep(secs(1)).await;
            steps.push(2);
        });
        ran.await.unwrap();
        assert_eq!(steps, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn work_may_run_in_a_task_of_its_own() {
        let world = World::new();
        let lock = world.lock.clone();
        let task = tokio::spawn(async move {
            lock.run(async |held| {
                sleep(secs(1)).await;
                held.is_held()
            })
            .await
        });
        assert!(task.await.unwrap().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_borrows_may_run_in_a_task_of_its_own() {
        let lock = World::new().lock;
        let task = tokio::spawn(async move {
            let text = String::from("borrowed");
            let ran = lock.run_within(secs(1), async |_held| {
                sleep(secs(1)).await;
                text.len()
            });
            let ran = ran.await.unwrap();
            let tried = lock.try_run(async |held: LockContext| {
                sleep(secs(1)).await;
                held.owner().as_str().len() + text.len()
            });
            (ran, tried.await.unwrap().is_some())
        });
        assert_eq!(task.await.unwrap(), (8, true));
    }

    #[tokio::test(start_paused = true)]
    async fn plain_closure_that_returns_a_future_works() {
        let ran = World::new().lock.run(|held| async move { held.check().is_ok() }).await;
        assert!(ran.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn run_returns_its_result_though_the_release_is_unanswered() {
        let world = World::new();
        let ran = world.lock.run(async |_held| {
            world.store.stall();
            42
        });
        assert_eq!(ran.await.unwrap(), 42);
        world.store.resume();
        assert!(world.elsewhere.acquire_within(secs(2)).await.is_ok());
    }
}

/// Functions that call `run`, in separate tasks. Most of these tests check only that the functions
/// compile.
mod wrapped {
    use super::*;

    /// Runs `work`, and returns how long this took. The trait bounds are the same as the bounds of
    /// `run`.
    async fn timed<T, F>(lock: &Lock, work: impl FnOnce(LockContext) -> F) -> Result<(T, Duration)>
    where
        F: Future<Output = T>,
    {
        let start = Instant::now();
        Ok((lock.run(work).await?, start.elapsed()))
    }

    /// Takes an asynchronous closure by the trait `AsyncFnOnce`.
    async fn once<T>(lock: &Lock, work: impl AsyncFnOnce(&LockContext) -> T) -> Result<T> {
        lock.run(async |held| work(&held).await).await
    }

    /// Runs `work`, and runs it again if the store loses the lock.
    async fn patiently<T, F>(lock: &Lock, mut work: impl FnMut(LockContext) -> F) -> Result<T>
    where
        F: Future<Output = T>,
    {
        loop {
            match lock.run(&mut work).await {
                Err(Error::Lost { reason: LostReason::NotOwned, .. }) => sleep(secs(1)).await,
                ran => return ran,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn future_of_a_function_that_runs_work_may_be_spawned() {
        let lock = World::new().lock;
        let task = tokio::spawn(async move {
            let text = String::from("borrowed");
            let work = async |held: LockContext| {
                sleep(secs(1)).await;
                held.check().map(|()| text.len())
            };
            timed(&lock, work).await
        });
        let (length, took) = task.await.unwrap().unwrap();
        assert_eq!((length.unwrap(), took), (8, secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn future_of_a_helper_with_an_async_closure_may_be_spawned() {
        let lock = World::new().lock;
        let task = tokio::spawn(async move {
            let text = String::from("borrowed");
            let work = async |held: &LockContext| {
                sleep(secs(1)).await;
                held.check().map(|()| text.len())
            };
            once(&lock, work).await
        });
        assert_eq!(task.await.unwrap().unwrap().unwrap(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn future_of_a_recursive_helper_may_be_spawned() {
        let World { store, lock, .. } = World::new();
        let task = tokio::spawn(async move {
            let (text, times) = (String::from("borrowed"), Mutex::new(0));
            let (text, times) = (&text, &times);
            let work = |held: LockContext| {
                let lost = std::mem::replace(&mut *times.lock().unwrap(), 1) == 0;
                let store = store.clone();
                async move {
                    if lost {
                        store.lose(held.name().as_str());
                    }
                    sleep(secs(1)).await;
                    text.len()
                }
            };
            patiently(&lock, work).await
        });
        assert_eq!(task.await.unwrap().unwrap(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn work_under_one_lock_may_run_work_under_another_lock() {
        let World { client, lock, .. } = World::new();
        let task = tokio::spawn(async move {
            let inner = client.lock("inner")?;
            let ran = lock.run(async |outer| {
                let both = async |held: LockContext| (outer.name().clone(), held.name().clone());
                inner.run(both).await
            });
            ran.await?
        });
        let (outer, inner) = task.await.unwrap().unwrap();
        assert_eq!((outer.as_str(), inner.as_str()), ("job", "inner"));
    }
}

mod waiting {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_waits_for_the_lock() {
        let world = World::new();
        let guard = world.elsewhere.acquire().await.unwrap();
        let start = Instant::now();
        let (ran, ()) = tokio::join!(world.lock.run(async |_held| start.elapsed()), async {
            sleep(secs(60)).await;
            drop(guard);
        });
        let began = ran.unwrap();
        assert!(began >= secs(60) && began < secs(60) + AT_ONCE, "{began:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn work_does_not_start_when_the_timeout_ends_first() {
        let world = World::new();
        let guard = world.elsewhere.acquire().await.unwrap();
        let ran =
            world.lock.run_within(secs(5), async |_held| unreachable!("the lock is held")).await;
        let Err(Error::TimedOut { waited, holder, .. }) = ran else { panic!("{ran:?}") };
        assert_eq!(waited, secs(5));
        assert_eq!(holder.unwrap().owner(), guard.owner());
    }

    #[tokio::test(start_paused = true)]
    async fn run_within_limits_the_wait_and_not_the_work() {
        let ran = World::new().lock.run_within(secs(5), async |_held| sleep(secs(60)).await).await;
        ran.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn try_run_skips_the_work_when_the_lock_is_held() {
        let world = World::new();
        let _guard = world.elsewhere.acquire().await.unwrap();
        let ran = world.lock.try_run(async |_held| unreachable!("the lock is held")).await;
        assert_eq!(ran.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn try_run_runs_the_work_when_the_lock_is_free() {
        let world = World::new();
        let ran = world.lock.try_run(async |_held| 42).await;
        assert_eq!(ran.unwrap(), Some(42));
        world.is_free().await;
    }

    #[tokio::test(start_paused = true)]
    async fn work_does_not_start_when_the_store_rejects() {
        let world = World::new();
        world.store.fail("NOPERM no permission");
        let ran: Result<RunOutcome<()>> =
            world.lock.run(async |_held| unreachable!("the server refuses the acquisition")).await;
        assert!(matches!(ran, Err(Error::Forbidden { .. })), "{ran:?}");
    }
}

mod lost {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_of_a_lost_lock_is_dropped_at_its_await() {
        // given work that takes longer than its lease
        let world = World::new();
        let (reported, dropped) = DropFlag::new();
        let start = Instant::now();
        let lock = world.lock.clone().lease(secs(10));
        let ran = in_full(&lock, async |_held| {
            let _reported = reported;
            pending::<()>().await;
        });

        // then the work is stopped when the lease ends
        assert_eq!(ran.await.unwrap(), stopped(LostReason::Expired));
        assert!(dropped.load(Ordering::SeqCst));
        assert!(start.elapsed() <= secs(10), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_loss_stops_the_work_with_its_reason() {
        let world = World::new();
        let lock = world.lock.clone();
        let (forced, lost) = (world.elsewhere.clone(), world.store.clone());

        let bounded = lock.clone().max_hold(secs(60));
        let ran = in_full(&bounded, async |_held| pending::<()>().await);
        assert_eq!(ran.await.unwrap(), stopped(LostReason::MaxHold));

        let ran = in_full(&lock, async |_held| {
            assert!(forced.force_release().await.unwrap());
            pending::<()>().await;
        });
        assert_eq!(ran.await.unwrap(), stopped(LostReason::NotOwned));

        let ran = in_full(&lock, async |_held| {
            lost.lose_everything();
            pending::<()>().await;
        });
        assert_eq!(ran.await.unwrap(), stopped(LostReason::NotOwned));

        let client = world.client.clone();
        let shutdown = tokio::spawn(async move {
            sleep(secs(1)).await;
            client.shutdown(secs(2)).await
        });
        let ran = in_full(&lock, async |_held| pending::<()>().await);
        assert_eq!(ran.await.unwrap(), stopped(LostReason::ShutDown));
        assert_eq!(shutdown.await.unwrap().revoked, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_work_ends_before_the_next_grant() {
        /// A value that the work owns, and that is dropped with the work, like the tasks of a
        /// `JoinSet`.
        struct Part<'a>(&'a Mutex<Vec<&'static str>>);
        impl Drop for Part<'_> {
            fn drop(&mut self) {
                self.0.lock().unwrap().push("the work is gone");
            }
        }

        // given work that hangs beyond `max_hold`, while the store rejects requests
        let world = World::new();
        let order = Mutex::new(Vec::new());
        let part = Part(&order);
        let lock = world.lock.clone().max_hold(secs(15));
        let ran = in_full(&lock, async |_held| {
            let _part = part;
            sleep(secs(14)).await;
            world.store.fail("LOADING");
            pending::<()>().await;
        });

        // when the store recovers, and another client acquires
        let (ran, ()) = tokio::join!(ran, async {
            sleep(secs(17)).await;
            world.store.heal();
            world.elsewhere.force_release().await.unwrap();
            let _guard = world.elsewhere.acquire().await.unwrap();
            order.lock().unwrap().push("the next one enters");
        });
        assert_eq!(ran.unwrap(), stopped(LostReason::MaxHold));

        // then the work was dropped before the other client acquired
        assert_eq!(*order.lock().unwrap(), ["the work is gone", "the next one enters"]);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_work_is_dropped_at_once_with_a_silent_store() {
        let world = World::new();
        let start = Instant::now();
        /// Records when it was dropped.
        struct Part<'a>(Instant, &'a Mutex<Option<Duration>>);
        impl Drop for Part<'_> {
            fn drop(&mut self) {
                *self.1.lock().unwrap() = Some(self.0.elapsed());
            }
        }
        let dropped = Mutex::new(None);
        let part = Part(start, &dropped);
        let ran = in_full(&world.lock, async |_held| {
            let _part = part;
            world.store.stall();
            pending::<()>().await;
        });
        assert_eq!(ran.await.unwrap(), stopped(LostReason::Expired));
        let dropped = dropped.lock().unwrap().unwrap();
        assert!(dropped <= secs(30), "{dropped:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn lock_is_free_after_its_work_was_cancelled() {
        let world = World::new();
        let lock = world.lock.clone().max_hold(secs(5));
        let ran = in_full(&lock, async |_held| pending::<()>().await);
        assert!(matches!(ran.await.unwrap(), RunOutcome::Cancelled { .. }));
        world.is_free().await;
    }

    #[tokio::test(start_paused = true)]
    async fn completed_work_reports_the_loss_of_its_lock() {
        // given a loss that no task has noticed when the work ends
        let world = World::new();
        let ran = in_full(&world.lock, async |_held| {
            world.store.lose("job");
            42
        });
        let ran = ran.await.unwrap();
        assert_eq!(ran, overran(42, LostReason::NotOwned));

        // then the result does not count as the result of protected work
        let lost = ran.into_result().unwrap_err();
        assert!(
            matches!(&lost, Error::Lost { name, reason: LostReason::NotOwned } if name == world.lock.name())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_blocks_past_its_lease_does_not_count_as_completed() {
        // given work that does not await while its lease ends
        let world = World::new();
        let lock = world.lock.clone().lease(secs(10));
        let ran = in_full(&lock, async |held: LockContext| {
            assert!(tokio::time::advance(secs(20)).now_or_never().is_none());
            held.is_held()
        });
        let ran = ran.await.unwrap();
        assert_eq!(ran, overran(false, LostReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn run_returns_the_loss_when_its_work_was_cancelled() {
        let world = World::new();
        let ran = world.lock.clone().lease(secs(1)).run(async |_held| pending::<u8>().await).await;
        assert_eq!(
            ran.unwrap_err().to_string(),
            "hold of `job` ended: the lease ended without a renewal; check the result of the work"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn each_run_method_returns_a_loss_with_its_reason() {
        let World { store, lock, .. } = World::new();
        let losing = async |_held| store.lose("job");
        for ran in [
            lock.run(losing).await,
            lock.run_within(secs(1), losing).await,
            lock.try_run(losing).await.map(Option::unwrap_or_default),
        ] {
            let lost = matches!(&ran, Err(Error::Lost { name, reason: LostReason::NotOwned })
                if name == lock.name());
            assert!(lost, "{ran:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_notifies_the_work_it_cancels() {
        let World { client, lock, .. } = World::new();
        let (ran, shutdown) = tokio::join!(lock.run(async |_held| pending::<()>().await), async {
            sleep(secs(1)).await;
            client.shutdown(secs(1)).await
        });
        assert!(matches!(ran, Err(Error::Lost { reason: LostReason::ShutDown, .. })), "{ran:?}");
        assert_eq!(shutdown.revoked, 1);
    }
}

mod signalled {
    use super::*;

    const GRACE: OnLoss = OnLoss::GracePeriod(secs(5));

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_in_the_grace_period_keeps_its_result() {
        let world = World::new();
        let lock = world.lock.clone().lease(secs(10)).on_loss(GRACE);
        let ran = in_full(&lock, async |held: LockContext| {
            let reason = held.lost().await;
            sleep(secs(4)).await;
            ("wound up", reason)
        });
        let value = ("wound up", LostReason::Expired);
        assert_eq!(ran.await.unwrap(), overran(value, LostReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_work_is_dropped_after_the_grace_period() {
        let world = World::new();
        let (reported, dropped) = DropFlag::new();
        let start = Instant::now();
        let lock = world.lock.clone().lease(secs(10)).on_loss(GRACE);
        let ran = in_full(&lock, async |_held| {
            let _reported = reported;
            pending::<()>().await;
        });
        assert_eq!(ran.await.unwrap(), stopped(LostReason::Expired));
        assert!(dropped.load(Ordering::SeqCst));
        let took = start.elapsed();
        assert!(took > secs(14) && took <= secs(15) + AT_ONCE, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn completed_work_is_not_affected_by_the_on_loss_setting() {
        let ran = World::new().lock.on_loss(GRACE).run(async |_held| 42).await;
        assert_eq!(ran.unwrap(), 42);
    }

    #[tokio::test(start_paused = true)]
    async fn panic_in_the_grace_period_reaches_the_caller() {
        let world = World::new();
        let lock = world.lock.clone().max_hold(secs(10)).on_loss(GRACE);
        let run = lock.run(async |held: LockContext| {
            held.lost().await;
            resume_unwind(Box::new("in its grace"));
        });
        let panic = AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"in its grace"));
        world.is_free().await;
    }

    #[tokio::test(start_paused = true)]
    async fn grace_period_may_be_zero_or_without_a_bound() {
        for grace in [Duration::ZERO, Duration::MAX] {
            let lock = World::new().lock.lease(secs(10)).on_loss(OnLoss::GracePeriod(grace));
            let ran = in_full(&lock, async |_held| sleep(secs(60)).await).await.unwrap();
            let reason = LostReason::Expired;
            match grace {
                Duration::ZERO => assert_eq!(ran, stopped(reason)),
                _ => assert_eq!(ran, overran((), reason)),
            }
        }
    }
}

mod panics {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn panic_of_the_work_releases_the_lock_and_reaches_the_caller() {
        let world = World::new();
        let run = world.lock.run(async |_held| {
            sleep(secs(1)).await;
            resume_unwind(Box::new(42));
        });
        let panic = AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&42));

        // The lock is already free when the panic reaches the caller.
        assert!(world.elsewhere.try_acquire().await.unwrap().is_some());
        world.is_free().await;
    }

    #[tokio::test(start_paused = true)]
    async fn closure_panic_releases_the_lock_and_reaches_the_caller() {
        let world = World::new();
        let run = world.lock.run(|_held| -> std::future::Ready<()> { resume_unwind(Box::new(43)) });
        let panic = AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&43));
        assert!(world.elsewhere.try_acquire().await.unwrap().is_some());
        world.is_free().await;
    }

    #[tokio::test(start_paused = true)]
    async fn panic_in_run_within_or_try_run_frees_the_lock() {
        let world = World::new();
        let panicking = async |_held: LockContext| -> () { resume_unwind(Box::new("oh")) };
        let within = AssertUnwindSafe(world.lock.run_within(secs(1), panicking)).catch_unwind();
        assert!(within.await.is_err());
        let tried = AssertUnwindSafe(world.lock.try_run(panicking)).catch_unwind();
        assert!(tried.await.is_err());
        world.is_free().await;
    }

    #[tokio::test(start_paused = true)]
    async fn panic_reaches_the_caller_while_the_store_is_silent() {
        let world = World::new();
        let run = world.lock.run(async |_held| {
            world.store.stall();
            resume_unwind(Box::new("oh"));
        });
        assert!(AssertUnwindSafe(run).catch_unwind().await.is_err());
        world.store.resume();
        assert!(world.elsewhere.acquire_within(secs(2)).await.is_ok());
    }
}

mod holding {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lock_context_shows_the_owner_and_the_remaining_time() {
        let world = World::new();
        let lock = world.lock.clone().lease(secs(10));
        let ran = lock.run(async |held: LockContext| {
            let holder = world.elsewhere.holder().await.unwrap().unwrap();
            assert_eq!(holder.owner(), held.owner());
            let left = held.remaining().unwrap();
            assert!(left < secs(10) && left > secs(9), "{left:?}");
            assert!(held.is_held());
            held.check()
        });
        assert!(matches!(ran.await.unwrap(), Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn lock_context_reports_the_loss_by_every_method() {
        let world = World::new();
        let grace = OnLoss::GracePeriod(secs(5));
        let lock = world.lock.clone().lease(secs(10)).on_loss(grace);
        let ran = in_full(&lock, async |held: LockContext| {
            let clone = held.clone();
            assert_eq!(held.lost().await, LostReason::Expired);
            assert_eq!(clone.lost().await, LostReason::Expired);
            assert!(!held.is_held());
            assert_eq!(held.remaining(), None);
            held.check().unwrap_err()
        });
        let ran = ran.await.unwrap();
        let RunOutcome::CompletedAfterLoss { value: Error::Lost { name, reason }, .. } = &ran
        else {
            panic!("{ran:?}")
        };
        assert_eq!((name.as_str(), *reason), ("job", LostReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_or_kept_lock_context_does_not_change_the_hold() {
        // given a context that outlives the work
        let world = World::new();
        let ran = world.lock.run(async |held: LockContext| {
            drop(held.clone());
            sleep(secs(1)).await;
            assert!(held.is_held());
            held
        });
        let held = ran.await.unwrap();

        // then the lock is free nevertheless, and the context reports the end of the hold
        world.is_free().await;
        assert!(!held.is_held());
        assert_eq!(held.lost().await, LostReason::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn runs_of_many_tasks_exclude_each_other() {
    let store = MemoryStore::new();
    let inside = Arc::new(AtomicBool::new(false));
    let runs = (0..30).map(|n| {
        let lock = match n % 3 {
            0 => Client::with_store(&store).lock("job").unwrap().on_loss(OnLoss::default()),
            _ => Client::with_store(&store).lock("job").unwrap(),
        };
        let inside = Arc::clone(&inside);
        tokio::spawn(async move {
            lock.run(async |_held| {
                assert!(!inside.swap(true, Ordering::SeqCst));
                sleep(Duration::from_millis(50)).await;
                inside.store(false, Ordering::SeqCst);
            })
            .await
        })
    });
    for run in runs.collect::<Vec<_>>() {
        run.await.unwrap().unwrap();
    }
}

/// Former bug: if the whole process had been paused, and the store was silent, the work of about
/// every second lost hold counted as completed.
#[tokio::test]
async fn run_reports_a_loss_during_a_pause_of_the_process() {
    let (lease, pause) = (Duration::from_millis(40), Duration::from_millis(60));
    for _ in 0..10 {
        let stores = [(); 3].map(|()| MemoryStore::new());
        let builder = Client::builder().run_release_wait(AT_ONCE);
        let clients = stores.each_ref().map(|store| builder.clone().with_store(store));
        let lock = clients[0].lock("alone").unwrap().lease(lease);
        let quorum = QuorumClient::of(clients).unwrap().lock("job").unwrap().lease(lease);

        let guard = lock.acquire().await.unwrap();
        stores[0].stall();
        let alone = guard.run(async |_held| std::thread::sleep(pause)).await;
        stores[0].resume();
        let guard = quorum.acquire().await.unwrap();
        stores.iter().for_each(MemoryStore::stall);
        let of_quorum = guard.run(async |_held| std::thread::sleep(pause)).await;
        for outcome in [alone, of_quorum] {
            let lost = outcome.into_result().unwrap_err();
            assert!(matches!(lost, Error::Lost { reason: LostReason::Expired, .. }), "{lost}");
        }
    }
}

/// Former bug: the work of a quorum hold continued until a timer ran. The work wakes itself, so the
/// runtime runs no timer between the pause and the next poll. Before the pause, the other tasks of
/// the hold begin to wait for their timers.
#[tokio::test]
async fn work_stops_at_its_first_await_after_a_pause() {
    let (lease, pause) = (Duration::from_millis(40), Duration::from_millis(60));
    let clients = [(); 3].map(|()| Client::in_memory());
    let lock = clients[0].lock("alone").unwrap().lease(lease);
    let quorum = QuorumClient::of(clients).unwrap().lock("job").unwrap().lease(lease);
    let work = async move || {
        sleep(Duration::from_millis(1)).await;
        std::thread::sleep(pause);
        let mut is_woken = false;
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if std::mem::replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    };
    let outcomes = tokio::spawn(async move {
        let alone = lock.acquire().await.unwrap().run(async |_held| work().await).await;
        [alone, quorum.acquire().await.unwrap().run(async |_held| work().await).await]
    });
    for outcome in outcomes.await.unwrap() {
        let RunOutcome::Cancelled { reason, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(reason, LostReason::Expired);
    }
}
