//! The expirable semaphore, on the store in memory and in virtual time.

use std::{
    future::{Future, poll_fn},
    task::Poll,
    time::Duration,
};

use futures_util::future::join_all;
use leasehold::{
    Client, Error, ExpirablePermits, ExpirableSemaphore, LostReason, MemoryStore, OnLoss, Release,
    RunOutcome, WaitStrategy,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Too short for a timer. A waiter that acquires within this time was notified.
const AT_ONCE: Duration = ms(10);

/// Two clients of one store, and a semaphore with a number of permits.
struct World {
    store: MemoryStore,
    one: ExpirableSemaphore,
    other: ExpirableSemaphore,
    clients: [Client; 2],
}

impl World {
    async fn of(count: u32) -> Self {
        let store = MemoryStore::new();
        let clients = [Client::with_store(&store), Client::with_store(&store)];
        let [one, other] =
            clients.each_ref().map(|client| client.expirable_semaphore("printers").unwrap());
        one.set(count).await.unwrap();
        Self { store, one, other, clients }
    }

    /// The owner of a request of the first client. `number` is the number of the request. Request 1
    /// has set the permits.
    fn question(&self, number: u32) -> String {
        format!("{}:{number}", self.clients[0].id())
    }
}

fn waiter(
    permits: &ExpirableSemaphore,
    count: u32,
) -> JoinHandle<leasehold::Result<ExpirablePermits>> {
    let permits = permits.clone();
    tokio::spawn(async move { permits.acquire_many(count).await })
}

async fn release_guard(guard: ExpirablePermits) {
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

// Exclusion.

#[tokio::test(start_paused = true)]
async fn clients_can_hold_all_permits_and_no_more() {
    let t = World::of(3).await;
    let mut guards = Vec::new();
    for permits in [&t.one, &t.other, &t.one] {
        guards.push(permits.acquire().await.unwrap());
    }
    for permits in [&t.one, &t.other] {
        assert!(permits.try_acquire().await.unwrap().is_none());
    }
    assert_eq!(t.other.acquired().await.unwrap(), 3);
    let ids: std::collections::BTreeSet<_> =
        guards.iter().flat_map(ExpirablePermits::ids).collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn contending_tasks_never_exceed_the_permits_and_all_acquire() {
    let t = World::of(4).await;
    let held = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let tasks = (0..60_u32).map(|at| {
        let permits = if at % 2 == 0 { t.one.clone() } else { t.other.clone() };
        let (held, count) = (std::sync::Arc::clone(&held), 1 + at % 3);
        tokio::spawn(async move {
            use std::sync::atomic::Ordering::SeqCst;
            let guard = permits.acquire_many(count).await.unwrap();
            assert!(held.fetch_add(count, SeqCst) + count <= 4);
            sleep(ms(20)).await;
            held.fetch_sub(count, SeqCst);
            release_guard(guard).await;
        })
    });
    for done in join_all(tasks.collect::<Vec<_>>()).await {
        done.unwrap();
    }
    assert_eq!((t.one.available().await.unwrap(), t.one.acquired().await.unwrap()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_client_acquire_permits_in_order() {
    let t = World::of(2).await;
    let both = t.other.acquire_many(2).await.unwrap();
    let wants_both = waiter(&t.one, 2);
    sleep(AT_ONCE).await;
    let wants_one = waiter(&t.one, 1);
    sleep(AT_ONCE).await;
    t.other.release_id(both.ids()[0]).await.unwrap();
    sleep(AT_ONCE).await;
    assert!(!wants_one.is_finished(), "the waiter is behind a waiter for both permits");
    drop(both);
    let first = wants_both.await.unwrap().unwrap();
    assert!(!wants_one.is_finished());
    release_guard(first).await;
    release_guard(wants_one.await.unwrap().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn release_of_many_permits_admits_many_waiters() {
    let t = World::of(3).await;
    let all = t.other.acquire_many(3).await.unwrap();
    let waiting = [waiter(&t.one, 1), waiter(&t.one, 1), waiter(&t.one, 1)];
    sleep(secs(1)).await;
    let begun = Instant::now();
    release_guard(all).await;
    let guards = join_all(waiting).await;
    assert!(begun.elapsed() <= AT_ONCE && guards.iter().all(Result::is_ok));
}

// Waiting.

#[tokio::test(start_paused = true)]
async fn permit_release_soon_reaches_subscribed_and_polling_waiters() {
    let polling = WaitStrategy::Polling { initial: ms(1), max: ms(50) };
    for (wait_strategy, soon) in [(WaitStrategy::PubSub, AT_ONCE), (polling, ms(70))] {
        let t = World::of(1).await;
        let guard = t.one.acquire().await.unwrap();
        let waiting = waiter(&t.other.clone().wait_strategy(wait_strategy), 1);
        sleep(secs(1)).await;
        let begun = Instant::now();
        release_guard(guard).await;
        release_guard(waiting.await.unwrap().unwrap()).await;
        assert!(begun.elapsed() <= soon, "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn permit_waiter_acquires_when_the_first_permit_lease_ends() {
    let t = World::of(2).await;
    let _long = t.one.clone().lease(secs(60)).acquire().await.unwrap();
    let _short = t.one.clone().lease(ms(2_345)).acquire().await.unwrap();
    let begun = Instant::now();
    let guard = t.other.acquire().await.unwrap();
    let late = begun.elapsed().saturating_sub(ms(2_345));
    assert!(begun.elapsed() >= ms(2_345) && late <= AT_ONCE, "{:?}", begun.elapsed());
    release_guard(guard).await;
}

#[tokio::test(start_paused = true)]
async fn permit_timeout_error_names_the_semaphore() {
    let t = World::of(1).await;
    let guard = t.one.acquire().await.unwrap();
    let begun = Instant::now();
    let [first, second] = [t.other.clone(), t.other.clone()]
        .map(|permits| tokio::spawn(async move { permits.acquire_within(secs(2)).await }));
    for error in [first.await.unwrap().unwrap_err(), second.await.unwrap().unwrap_err()] {
        assert!(error.is_busy(), "{error}");
        assert_eq!(
            error.to_string(),
            "timed out after 2s waiting for `printers`; retry later, or use a longer timeout"
        );
    }
    assert_eq!(begun.elapsed(), secs(2));
    release_guard(guard).await;
}

#[tokio::test(start_paused = true)]
async fn invalid_permit_request_sends_nothing() {
    let t = World::of(1).await;
    assert!(matches!(t.one.acquire_many(0).await, Err(Error::ZeroCount { .. })));
    let most = |error: Error| match error {
        Error::TooMany { most, .. } => most,
        other => panic!("{other}"),
    };
    assert_eq!(most(t.one.try_acquire_many(7_001).await.unwrap_err()), 7_000);
    assert_eq!(most(t.one.set(u32::MAX).await.unwrap_err()), 2_147_483_647);
    assert!(matches!(t.one.acquire_within(Duration::ZERO).await, Err(Error::Duration(_))));
    let short = t.one.clone().lease(Duration::ZERO);
    assert!(matches!(short.acquire().await, Err(Error::Duration(_))));
    assert_eq!(t.one.available().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn permits_beyond_the_int_range_of_java_are_not_added() {
    let t = World::of(1).await;
    assert!(matches!(t.one.add(i32::MAX).await, Err(Error::Refused { .. })));
    t.one.add(i32::MAX - 1).await.unwrap();
    assert_eq!(t.one.total().await.unwrap(), i64::from(i32::MAX));
}

// Hand-offs.

#[tokio::test(start_paused = true)]
async fn permit_is_handed_off_without_a_request() {
    let t = World::of(3).await;
    let (both, _other) = (t.one.acquire_many(2).await.unwrap(), t.other.acquire().await.unwrap());
    let waiting = waiter(&t.one, 2);
    sleep(ms(3)).await;
    t.store.stall();
    release_guard(both).await;
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!((guard.owner().as_str(), guard.is_held()), (t.question(2).as_str(), true));
    assert_eq!(t.clients[0].stats().handed_off, 1);
    t.store.resume();
    release_guard(guard).await;
    assert_eq!(t.other.available().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn permit_returns_to_redis_when_local_handoff_time_ends() {
    let t = World::of(1).await;
    let guard = t.one.acquire().await.unwrap();
    let waiting = waiter(&t.one, 1);
    sleep(ms(20)).await;
    release_guard(guard).await;
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.owner().as_str(), t.question(3));
    release_guard(guard).await;
    assert_eq!(t.clients[0].stats().handed_off, 0);
}

/// A caller that has read the ids of its permits may pass them on, such as to `release_id`. Without
/// a hand-off, the next holder has other ids.
#[tokio::test(start_paused = true)]
async fn released_permit_is_not_handed_off_after_its_id_was_read() {
    let by_ids = |guard: &ExpirablePermits| drop(guard.ids());
    let by_owner = |guard: &ExpirablePermits| drop(guard.owner().clone());
    for look in [by_ids as fn(&ExpirablePermits), by_owner] {
        let t = World::of(1).await;
        let guard = t.one.acquire().await.unwrap();
        let waiting = waiter(&t.one, 1);
        sleep(ms(3)).await;
        look(&guard);
        let (ids, owner) = (guard.ids(), guard.owner().clone());
        release_guard(guard).await;
        let guard = waiting.await.unwrap().unwrap();
        assert!(!t.other.release_id(ids[0]).await.unwrap());
        assert_eq!(t.other.lease_of(ids[0]).await.unwrap(), None);
        assert_eq!(t.clients[0].stats().handed_off, 0);
        assert_ne!(guard.owner(), &owner);
        release_guard(guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_not_handed_off_if_lease_or_count_differs() {
    let t = World::of(2).await;
    let none = t.one.clone().local_handoff(0, secs(1));
    let cases = [
        (&t.one, &t.one.clone().ttl(secs(7)), 1),
        (&t.one, &t.one.clone().lease(secs(7)), 1),
        (&t.one.clone().lease(secs(7)), &t.one, 1),
        (&none, &none, 1),
        (&t.one, &t.one, 2),
    ];
    for ((holder, waits, count), number) in cases.into_iter().zip((3..).step_by(2)) {
        let guards = (holder.acquire().await.unwrap(), t.other.acquire().await.unwrap());
        let waiting = waiter(waits, count);
        sleep(ms(3)).await;
        drop(guards);
        let guard = waiting.await.unwrap().unwrap();
        assert_eq!(guard.owner().as_str(), t.question(number));
        release_guard(guard).await;
    }
    assert_eq!(t.clients[0].stats().handed_off, 0);
    assert_eq!(t.other.available().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn loss_of_a_handed_off_permit_reaches_its_holder() {
    let t = World::of(1).await;
    let guard = t.one.acquire().await.unwrap();
    let waiting = waiter(&t.one, 1);
    sleep(ms(3)).await;
    release_guard(guard).await;
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(t.clients[0].stats().handed_off, 1);
    sleep(secs(60)).await;
    assert!(guard.is_held(), "the client renews the permit");
    assert!(t.other.release_id(guard.ids()[0]).await.unwrap());
    assert_eq!(guard.lost().await, LostReason::NotOwned);
}

#[tokio::test(start_paused = true)]
async fn permit_granted_to_an_unpolled_waiter_is_soon_free_again() {
    for dropped in [true, false] {
        let t = World::of(1).await;
        let guard = t.one.acquire().await.unwrap();
        // given a waiter that was polled, and then does not run for a while
        let mut waits = Box::pin(t.one.acquire());
        let begun = Instant::now();
        while begun.elapsed() < ms(3) {
            assert!(futures_util::poll!(&mut waits).is_pending());
            sleep(ms(1)).await;
        }
        release_guard(guard).await;
        assert_eq!(t.clients[0].stats().handed_off, 1);
        if dropped {
            drop(waits);
            sleep(ms(1)).await;
            assert_eq!(t.other.available().await.unwrap(), 1);
        } else {
            release_guard(t.other.acquire_within(ms(100)).await.unwrap()).await;
            release_guard(waits.await.unwrap()).await;
        }
        assert_eq!(t.other.available().await.unwrap(), 1);
    }
}

// Renewal.

#[tokio::test(start_paused = true)]
async fn permits_are_renewed_as_long_as_their_guard_exists() {
    let t = World::of(2).await;
    let guard = t.one.acquire_many(2).await.unwrap();
    sleep(secs(600)).await;
    assert!(guard.is_held());
    assert_eq!(t.other.acquired().await.unwrap(), 2);
    drop(guard);
    sleep(AT_ONCE).await;
    assert_eq!(t.other.available().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn permits_report_whether_lease_or_max_hold_ended_their_hold() {
    let t = World::of(2).await;
    let begun = Instant::now();
    let fixed = t.one.clone().lease(secs(4)).acquire().await.unwrap();
    let bounded = t.one.clone().max_hold(secs(50)).acquire().await.unwrap();
    assert_eq!(fixed.lost().await, LostReason::Expired);
    assert!(begun.elapsed() <= secs(4) && begun.elapsed() > secs(3));
    assert_eq!(bounded.lost().await, LostReason::MaxHold);
    assert_eq!(begun.elapsed(), secs(50));
    assert!(!bounded.is_held() && bounded.remaining().is_none());
}

#[tokio::test(start_paused = true)]
async fn revoked_permit_is_noticed_at_the_next_renewal() {
    let t = World::of(3).await;
    let (whole, other) = (t.one.acquire_many(2).await.unwrap(), t.one.acquire().await.unwrap());
    assert!(t.other.release_id(whole.ids()[1]).await.unwrap());
    assert_eq!(whole.lost().await, LostReason::NotOwned);
    assert!(matches!(
        whole.release().await.unwrap(),
        Release::NotHeld { reason: LostReason::NotOwned, holder: None, .. }
    ));
    assert!(other.is_held());
    release_guard(other).await;
    assert_eq!(t.other.available().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn permits_are_lost_when_the_store_loses_them_or_is_silent() {
    let t = World::of(2).await;
    let guard = t.one.acquire().await.unwrap();
    assert!(t.store.lose("printers") && !t.store.lose("printers"));
    assert_eq!(guard.lost().await, LostReason::NotOwned);

    let guard = t.one.acquire().await.unwrap();
    t.store.stall();
    let begun = Instant::now();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(begun.elapsed() <= secs(30));
    t.store.resume();
    sleep(secs(30)).await;
    assert_eq!(t.other.available().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_permits_and_fails_waiters() {
    let t = World::of(2).await;
    let guard = t.one.acquire_many(2).await.unwrap();
    let waiting = waiter(&t.one, 1);
    sleep(AT_ONCE).await;
    t.clients[0].shutdown(ms(100)).await;
    assert!(matches!(waiting.await.unwrap(), Err(Error::ShutDown)));
    assert_eq!(guard.lost().await, LostReason::ShutDown);
    assert_eq!(t.other.available().await.unwrap(), 2);
}

// Cancellation.

/// The cause that delays a request for permits.
#[derive(Clone, Copy, Debug)]
enum Way {
    Free,
    Held,
    Stalled,
    Failing,
}

/// Polls `future` `polls` times, and then drops it. If `woken` is true, drops the future only after
/// something has woken it for the next poll.
async fn cut<F: Future>(future: F, polls: usize, woken: bool) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 && !woken => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn permit_request_dropped_at_any_await_leaves_nothing_behind() {
    for way in [Way::Free, Way::Held, Way::Stalled, Way::Failing] {
        for (polls, woken) in (0..40).flat_map(|polls| [(polls, false), (polls, true)]) {
            let t = World::of(2).await;
            let in_the_way = match way {
                Way::Held => Some(t.other.acquire().await.unwrap()),
                Way::Stalled => {
                    t.store.stall();
                    None
                }
                Way::Failing => {
                    t.store.fail("LOADING");
                    None
                }
                Way::Free => None,
            };
            let ends = tokio::spawn({
                let store = t.store.clone();
                async move {
                    sleep(secs(5)).await;
                    store.resume();
                    store.heal();
                    drop(in_the_way);
                }
            });
            drop(cut(t.one.acquire_many(2), polls, woken).await);
            ends.await.unwrap();
            sleep(secs(2)).await;
            assert_eq!(t.other.available().await.unwrap(), 2, "{way:?} {polls} {woken}");
            release_guard(t.one.acquire_many(2).await.unwrap()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn permit_release_dropped_at_any_await_continues() {
    for stalled in [false, true] {
        for polls in 0..20 {
            let t = World::of(1).await;
            let guard = t.one.acquire().await.unwrap();
            if stalled {
                t.store.stall();
            }
            drop(cut(guard.release(), polls, false).await);
            sleep(ms(100)).await;
            t.store.resume();
            sleep(secs(4)).await;
            assert_eq!(t.other.available().await.unwrap(), 1, "{stalled} {polls}");
        }
    }
}

// Threads.

#[cfg(feature = "blocking")]
#[test]
fn blocking_permits_are_not_reentrant_and_guards_are_send() {
    let client = leasehold::blocking::Client::in_memory().unwrap();
    let permits = client.expirable_semaphore("printers").unwrap();
    assert!(permits.set_if_absent(2).unwrap());
    let guard = permits.acquire().unwrap();
    let second = permits.acquire_within(secs(5)).unwrap();
    assert!(
        permits.try_acquire().unwrap().is_none(),
        "a thread that holds permits gets no further permit"
    );
    let waits = std::thread::spawn({
        let permits = permits.clone();
        move || permits.acquire_many(2).unwrap().release().unwrap()
    });
    std::thread::spawn(move || guard.release().unwrap().into_result().unwrap()).join().unwrap();
    drop(second);
    assert_eq!(waits.join().unwrap(), Release::Released);
    assert_eq!((permits.available().unwrap(), permits.acquired().unwrap()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn permit_extended_by_its_id_outlives_the_guards_lease() {
    let store = MemoryStore::new();
    let [here, there] =
        [(); 2].map(|()| Client::with_store(&store).expirable_semaphore("pool").unwrap());
    here.set(1).await.unwrap();
    let guard = here.clone().lease(Duration::from_secs(1)).acquire().await.unwrap();
    let id = guard.ids()[0];
    assert!(here.update_lease(id, Duration::from_secs(60)).await.unwrap());
    sleep(Duration::from_secs(2)).await;
    assert!(!guard.is_held());
    assert!(there.try_acquire().await.unwrap().is_none(), "only one holder has the permit");
    assert!(there.lease_of(id).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn permits_that_expired_in_an_outage_delay_no_shutdown() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let permits = client.expirable_semaphore("pool").unwrap();
    permits.set(1).await.unwrap();
    let guard = permits.lease(Duration::from_secs(1)).acquire().await.unwrap();
    assert_eq!(guard.ids().len(), 1);
    store.stall();
    sleep(Duration::from_secs(5)).await;
    let start = Instant::now();
    let done = client.shutdown(Duration::from_secs(20)).await;
    assert_eq!(done.pending, 0);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn work_under_permits_stops_when_they_are_lost() {
    let store = MemoryStore::new();
    let permits = Client::with_store(&store).expirable_semaphore("printers").unwrap();
    permits.set(2).await.unwrap();
    let lost = permits.run(async |_held| {
        store.lose("printers");
        std::future::pending::<()>().await;
    });
    assert!(matches!(lost.await, Err(Error::Lost { reason: LostReason::NotOwned, .. })));

    let grace = secs(60);
    let warned = permits.clone().on_loss(OnLoss::GracePeriod(grace)).acquire().await.unwrap();
    let ran = warned.run(async |held| {
        store.lose("printers");
        held.lost().await
    });
    let reason = LostReason::NotOwned;
    assert!(matches!(ran.await, RunOutcome::CompletedAfterLoss { value, .. } if value == reason));
    assert!(permits.run(async |held| held.is_held()).await.unwrap());
    assert_eq!(permits.acquired().await.unwrap(), 0);
}
