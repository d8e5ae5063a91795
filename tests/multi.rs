//! The multi-lock, on stores in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use leasehold::{
    Client, Error, Lock, LostReason, MemoryStore, MultiGuard, MultiLock, OnLoss, Release,
    RunOutcome,
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Too short for the timer of a waiter. A waiter that acquires within this time was notified.
const AT_ONCE: Duration = millis(10);

/// Two clients of one store.
struct World {
    store: MemoryStore,
    one: Client,
    other: Client,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let (one, other) = (Client::with_store(&store), Client::with_store(&store));
        Self { store, one, other }
    }

    fn all(&self) -> MultiLock {
        self.one.multi_lock(["a", "b", "c"]).unwrap()
    }

    fn other_lock(&self, name: &str) -> Lock {
        self.other.lock(name).unwrap()
    }

    /// Asserts that these members are free now, and that the client counts no waiter and no hold.
    async fn is_free(&self, names: &[&str]) {
        for name in names {
            let guard = self.other_lock(name).acquire_within(AT_ONCE).await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Release::Released);
        }
        assert_eq!((self.one.stats().held, self.one.stats().waiting), (0, 0));
    }
}

/// A lock of a client with its own store.
fn elsewhere(name: &str) -> (MemoryStore, Lock) {
    let store = MemoryStore::new();
    let lock = Client::with_store(&store).lock(name).unwrap();
    (store, lock)
}

fn names(guard: &MultiGuard) -> Vec<&str> {
    guard.members().iter().map(|member| member.name().as_str()).collect()
}

// All members or no member.

#[tokio::test(start_paused = true)]
async fn multi_lock_holds_all_members_until_its_release() {
    let world = World::new();
    let guard = world.all().acquire().await.unwrap();
    assert_eq!(names(&guard), ["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        assert!(world.other_lock(name).try_acquire().await.unwrap().is_none());
    }
    assert!(guard.is_held() && guard.remaining().is_some());
    let release = guard.release().await;
    assert!(release.members().iter().all(|(_, result)| matches!(result, Ok(Release::Released))));
    release.into_result().unwrap();
    world.is_free(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn multi_lock_try_acquire_keeps_no_member_if_a_member_is_held() {
    for busy in ["a", "b", "c"] {
        let world = World::new();
        let held = world.other_lock(busy).acquire().await.unwrap();
        assert!(world.all().try_acquire().await.unwrap().is_none());
        // The members that are not busy are free as soon as the call returns.
        for name in ["a", "b", "c"].iter().filter(|name| **name != busy) {
            assert!(world.other_lock(name).try_acquire().await.unwrap().is_some(), "{name}");
        }
        held.release().await.unwrap().into_result().unwrap();
        assert!(world.all().try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn multi_lock_keeps_no_member_after_its_timeout() {
    for busy in ["a", "b", "c"] {
        let world = World::new();
        let held = world.other_lock(busy).acquire().await.unwrap();
        let start = Instant::now();
        let error = world.all().acquire_within(millis(2_700)).await.unwrap_err();
        assert_eq!(start.elapsed(), millis(2_700));
        let Error::TimedOut { name, waited, holder, .. } = error else { panic!("{error}") };
        assert_eq!((name.as_str(), waited), (busy, millis(2_700)));
        assert_eq!(holder.unwrap().owner(), held.owner());
        drop(held);
        sleep(AT_ONCE).await;
        world.is_free(&["a", "b", "c"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn error_of_one_member_releases_the_other_members() {
    for tried in [true, false] {
        let world = World::new();
        let (store, broken) = elsewhere("b");
        store.fail("NOPERM this user has no permissions to run the 'evalsha' command");
        let both = MultiLock::new([world.one.lock("a").unwrap(), broken]).unwrap();
        let error = match tried {
            true => both.try_acquire().await.map(drop).unwrap_err(),
            false => both.acquire().await.map(drop).unwrap_err(),
        };
        assert!(matches!(&error, Error::Forbidden { name, .. } if name.as_str() == "b"), "{error}");
        assert!(world.other_lock("a").try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn error_of_an_awaited_member_releases_the_other_members() {
    let world = World::new();
    let (store, broken) = elsewhere("b");
    let held = Client::with_store(&store).lock("b").unwrap().acquire().await.unwrap();
    let both = MultiLock::new([world.one.lock("a").unwrap(), broken]).unwrap();
    let waiter = tokio::spawn(async move { both.acquire().await.map(drop) });
    sleep(millis(100)).await;
    store.fail("WRONGTYPE Operation against a key holding the wrong kind of value");
    drop(held);
    let error = timeout(secs(60), waiter).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, Error::WrongType { .. } | Error::Refused { .. }), "{error}");
    world.is_free(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn acquire_waits_while_the_store_of_a_member_is_not_ready() {
    for words in [Some("LOADING Redis is loading the dataset in memory"), None] {
        let world = World::new();
        let (store, late) = elsewhere("b");
        match words {
            Some(words) => store.fail(words),
            None => store.stall(),
        }
        let both = MultiLock::new([world.one.lock("a").unwrap(), late]).unwrap();
        let waiter = tokio::spawn(async move { both.acquire().await });
        sleep(secs(20)).await;
        // The waiting multi-lock does not hold the other member.
        assert!(world.other_lock("a").try_acquire().await.unwrap().is_some());
        match words {
            Some(_) => store.heal(),
            None => store.resume(),
        }
        let guard = timeout(secs(10), waiter).await.unwrap().unwrap().unwrap();
        assert!(guard.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn multi_lock_timeout_is_exact_when_a_store_is_silent() {
    let world = World::new();
    let (store, silent) = elsewhere("b");
    store.stall();
    let both = MultiLock::new([world.one.lock("a").unwrap(), silent]).unwrap();
    for limit in [millis(50), millis(4_100)] {
        let start = Instant::now();
        let error = both.acquire_within(limit).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert_eq!(start.elapsed(), limit);
        sleep(AT_ONCE).await;
        world.is_free(&["a"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn member_lost_during_the_wait_is_acquired_again() {
    let world = World::new();
    let short = world.one.lock("a").unwrap().lease(millis(50));
    let both = MultiLock::new([short, world.one.lock("b").unwrap()]).unwrap();
    let held = world.other_lock("b").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { both.acquire().await.unwrap() });
    // During this pause, the lease of "a" ends before the waiting multi-lock would release "a"
    // itself.
    sleep(millis(150)).await;
    drop(held);
    let guard = timeout(secs(1), waiter).await.unwrap().unwrap();
    assert!(guard.is_held());
    assert!(world.other_lock("a").try_acquire().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn multi_lock_reacquires_a_member_lost_before_its_last_grant() {
    let world = World::new();
    let (store, slow) = elsewhere("b");
    let short = world.one.lock("a").unwrap().lease(millis(50));
    let both = MultiLock::new([short, slow]).unwrap();
    store.stall();
    let waiter = tokio::spawn(async move { both.try_acquire().await.unwrap() });
    sleep(millis(100)).await;
    store.resume();
    assert!(waiter.await.unwrap().expect("both locks are free").is_held());
}

#[tokio::test(start_paused = true)]
async fn member_is_soon_released_when_another_members_server_hangs() {
    for silent in ["a", "c"] {
        let world = World::new();
        let (store, silent) = elsewhere(silent);
        let both = MultiLock::new([silent, world.one.lock("b").unwrap()]).unwrap();
        store.stall();
        let waiter = both.clone();
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        let other = world.other_lock("b").acquire_within(millis(1_100)).await.unwrap();
        other.release().await.unwrap().into_result().unwrap();
        let start = Instant::now();
        let error = both.try_acquire().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(start.elapsed() <= millis(600), "{:?}", start.elapsed());
        store.resume();
        assert!(timeout(secs(10), waiter).await.unwrap().unwrap().unwrap().is_held());
    }
}

// Waiting for a member.

#[tokio::test(start_paused = true)]
async fn waiting_multi_lock_keeps_no_member_for_long() {
    let world = World::new();
    let held = world.other_lock("b").acquire().await.unwrap();
    let all = world.all();
    let waiter = tokio::spawn(async move { all.acquire().await.unwrap() });
    // The multi-lock waits for "b". It does not hold "c", the member after "b". It releases "a",
    // the member before "b", within a second.
    sleep(AT_ONCE).await;
    assert!(world.other_lock("c").try_acquire().await.unwrap().is_some());
    sleep(secs(1)).await;
    assert!(world.other_lock("a").try_acquire().await.unwrap().is_some());
    drop(held);
    let guard = timeout(AT_ONCE, waiter).await.unwrap().unwrap();
    assert_eq!(names(&guard), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn multi_locks_in_opposite_orders_make_progress() {
    const ROUNDS: u32 = 50;
    let world = World::new();
    let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"], ["c", "a", "b"]];
    let count = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for client in [&world.one, &world.other] {
        for order in orders {
            let (lock, count) = (client.multi_lock(order).unwrap(), Arc::clone(&count));
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = lock.acquire().await.unwrap();
                    let before = count.load(Relaxed);
                    sleep(millis(1)).await;
                    count.store(before + 1, Relaxed);
                    guard.release().await.into_result().unwrap();
                }
            });
        }
    }
    timeout(secs(60), tasks.join_all()).await.unwrap();
    assert_eq!(count.load(Relaxed), 8 * ROUNDS);
}

#[tokio::test(start_paused = true)]
async fn multi_locks_with_members_in_a_ring_make_progress() {
    let world = World::new();
    let mut tasks = JoinSet::new();
    for pair in [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]] {
        for client in [&world.one, &world.other] {
            let lock = client.multi_lock(pair).unwrap();
            tasks.spawn(async move {
                for _ in 0..50 {
                    let guard = lock.acquire().await.unwrap();
                    sleep(millis(1)).await;
                    guard.release().await.into_result().unwrap();
                }
            });
        }
    }
    timeout(secs(60), tasks.join_all()).await.unwrap();
}

/// A client that ignores the order of members holds "b" and waits for "a". The multi-lock holds "a"
/// and waits for "b".
#[tokio::test(start_paused = true)]
async fn multi_lock_does_not_deadlock_with_locks_in_opposite_order() {
    let world = World::new();
    let outer = world.other_lock("b").acquire().await.unwrap();
    let both = world.one.multi_lock(["a", "b"]).unwrap();
    let waiter = tokio::spawn(async move { both.acquire().await.unwrap() });
    sleep(AT_ONCE).await;
    assert!(world.other_lock("a").try_acquire().await.unwrap().is_none());
    let start = Instant::now();
    let inner = world.other_lock("a").acquire_within(secs(2)).await.unwrap();
    assert!(start.elapsed() < secs(1), "{:?}", start.elapsed());
    inner.release().await.unwrap().into_result().unwrap();
    outer.release().await.unwrap().into_result().unwrap();
    assert!(timeout(secs(1), waiter).await.unwrap().unwrap().is_held());
}

/// Four other clients always queue at each member. Each of them holds the member for 20 ms.
#[tokio::test(start_paused = true)]
async fn multi_lock_acquires_while_other_clients_queue_at_each_member() {
    let store = MemoryStore::new();
    let mut singles = JoinSet::new();
    for name in ["a", "b"] {
        for _ in 0..4 {
            let lock = Client::with_store(&store).lock(name).unwrap();
            singles.spawn(async move {
                loop {
                    let guard = lock.acquire().await.unwrap();
                    sleep(millis(20)).await;
                    guard.release().await.unwrap().into_result().unwrap();
                }
            });
        }
    }
    sleep(secs(2)).await;
    let both = Client::with_store(&store).multi_lock(["a", "b"]).unwrap();
    for round in 0..20 {
        let guard = both.acquire_within(secs(5)).await;
        let guard = guard.unwrap_or_else(|error| panic!("round {round}: {error}"));
        guard.release().await.into_result().unwrap();
    }
}

// The list of members.

#[tokio::test(start_paused = true)]
async fn multi_lock_acquires_a_repeated_member_once() {
    let client = Client::in_memory();
    let twice = client.multi_lock(["a", "b", "a"]).unwrap();
    assert_eq!(names(&twice.acquire_within(secs(1)).await.unwrap()), ["a", "b"]);

    // If two members have the same name, the multi-lock keeps the member with tokens.
    let fenced = || Lock::from(client.fenced_lock("f").unwrap());
    let plain = || client.lock("f").unwrap();
    for members in [[fenced(), plain()], [plain(), fenced()]] {
        let guard = MultiLock::new(members).unwrap().acquire_within(secs(1)).await.unwrap();
        assert!(guard.member("f").unwrap().token().is_some());
        guard.release().await.into_result().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn multi_lock_refuses_members_that_exclude_each_other() {
    let client = Client::in_memory();
    let both = client.read_write_lock("a").unwrap();
    for members in [
        [both.read(), both.write()],
        [both.write(), client.lock("a").unwrap()],
        [client.lock("a").unwrap(), both.read()],
    ] {
        let error = MultiLock::new(members).unwrap_err();
        assert!(matches!(&error, Error::ConflictingMembers { name } if name.as_str() == "a"));
    }
    assert!(matches!(client.multi_lock([""; 0]), Err(Error::NoMembers)));
    assert!(matches!(client.multi_lock(["a", ""]), Err(Error::Name(_))));
}

#[tokio::test(start_paused = true)]
async fn members_on_two_servers_may_have_the_same_name() {
    let ((_one, here), (_other, there)) = (elsewhere("a"), elsewhere("a"));
    let both = MultiLock::new([here.clone(), there.clone()]).unwrap();
    let guard = both.acquire().await.unwrap();
    assert_eq!(names(&guard), ["a", "a"]);
    for lock in [&here, &there] {
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    guard.release().await.into_result().unwrap();
    let held = there.acquire().await.unwrap();
    assert!(both.try_acquire().await.unwrap().is_none());
    held.release().await.unwrap().into_result().unwrap();
    assert!(both.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn several_multi_locks_may_hold_the_same_read_sides() {
    let world = World::new();
    let of = |client: &Client| {
        let (stock, own) = (client.read_write_lock("stock").unwrap(), client.id().to_owned());
        MultiLock::new([stock.read(), client.lock(own).unwrap()]).unwrap()
    };
    let _one = of(&world.one).try_acquire().await.unwrap().unwrap();
    let _other = of(&world.other).try_acquire().await.unwrap().unwrap();
    let writing = world.other.read_write_lock("stock").unwrap().write();
    assert!(writing.try_acquire().await.unwrap().is_none());
}

// Loss and release of members.

#[tokio::test(start_paused = true)]
async fn loss_of_one_member_is_reported_with_its_name() {
    let world = World::new();
    let short = world.one.lock("b").unwrap().lease(secs(10));
    let both = MultiLock::new([world.one.lock("a").unwrap(), short]).unwrap();
    let guard = both.acquire().await.unwrap();
    assert!(guard.remaining().is_some_and(|left| left < secs(10)));
    let (name, reason) = timeout(secs(11), guard.lost()).await.unwrap();
    assert_eq!((name.as_str(), reason), ("b", LostReason::Expired));
    assert!(!guard.is_held() && guard.remaining().is_none());
    assert!(guard.member("a").unwrap().is_held());

    let release = guard.release().await;
    let [(_, first), (_, second)] = release.members() else { panic!("{release:?}") };
    assert!(matches!(first, Ok(Release::Released)), "{first:?}");
    assert!(matches!(second, Ok(Release::NotHeld { .. })), "{second:?}");
    let error = release.into_result().unwrap_err();
    assert!(matches!(error, Error::Lost { name, .. } if name.as_str() == "b"));
    world.is_free(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn release_frees_all_members_though_one_store_is_silent() {
    let world = World::new();
    let (store, silent) = elsewhere("a");
    let both = MultiLock::new([silent, world.one.lock("b").unwrap()]).unwrap();
    let guard = both.acquire().await.unwrap();
    store.stall();
    let release = tokio::spawn(guard.release());
    sleep(AT_ONCE).await;
    assert!(world.other_lock("b").try_acquire().await.unwrap().is_some());
    let release = release.await.unwrap();
    let [(_, first), (_, second)] = release.members() else { panic!("{release:?}") };
    assert!(matches!(first, Err(Error::Unavailable { .. })), "{first:?}");
    assert!(matches!(second, Ok(Release::Released)), "{second:?}");
    // The client releases the member at the silent store in the background.
    store.resume();
    let again = Client::with_store(&store).lock("a").unwrap();
    assert!(again.acquire_within(secs(2)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn dropped_guard_releases_all_members() {
    let world = World::new();
    let guard = world.all().acquire().await.unwrap();
    let lost = guard.lost();
    drop(guard);
    assert_eq!(lost.await.1, LostReason::Released);
    sleep(AT_ONCE).await;
    world.is_free(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn work_stops_when_one_member_is_lost() {
    let world = World::new();
    let store = world.store.clone();
    let guard = world.all().acquire().await.unwrap();
    let work = guard.run(async |held| {
        store.lose("b");
        sleep(secs(3_600)).await;
        held.check()
    });
    let outcome = timeout(secs(30), work).await.unwrap();
    let RunOutcome::Cancelled { name, reason } = outcome else { panic!("{outcome:?}") };
    assert_eq!((name.as_str(), reason), ("b", LostReason::NotOwned));
    sleep(AT_ONCE).await;
    world.is_free(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn work_gets_a_grace_period_when_one_member_is_lost() {
    let world = World::new();
    let short = world.one.lock("b").unwrap().lease(secs(2));
    let both = MultiLock::new([world.one.lock("a").unwrap(), short]).unwrap();
    let both = both.on_loss(OnLoss::GracePeriod(secs(1)));
    let outcome = both.acquire().await.unwrap().run(async |held| held.lost().await).await;
    let RunOutcome::CompletedAfterLoss { name, value, reason } = outcome else { panic!() };
    assert_eq!((&name, reason), (&value.0, value.1));
    assert_eq!((name.as_str(), reason), ("b", LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn completed_work_reports_a_member_lost_before_its_release() {
    let world = World::new();
    let store = world.store.clone();
    let result = world.all().run(async |_held| store.lose("c")).await;
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::Lost { name, .. } if name.as_str() == "c"), "{error}");
    assert_eq!(world.all().run(async |held| held.members().len()).await.unwrap(), 3);
    world.is_free(&["a", "b", "c"]).await;
}
