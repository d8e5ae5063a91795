//! The quorum lock on simulated servers, in virtual time.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use leasehold::{
    Client, Error, Lock, LostReason, MemoryStore, QuorumClient, QuorumGuard, QuorumLock, Release,
    RunOutcome, Write, blocking,
};
use tokio::time::{Instant, sleep};

use crate::{
    cancel::at_every_await,
    common::{ms, secs},
};

const TTL: Duration = secs(30);

/// Independent servers, and the quorum lock `door` of any number of clients.
struct Setup {
    servers: Vec<MemoryStore>,
}

impl Setup {
    fn new(servers: usize) -> Self {
        Self { servers: (0..servers).map(|_| MemoryStore::new()).collect() }
    }

    /// Acquires once while all servers are new, so that each of them has stored that it was used.
    async fn known(servers: usize) -> Self {
        let setup = Self::new(servers);
        drop(setup.acquire().await);
        sleep(secs(1)).await;
        setup
    }

    /// The lock of a new client.
    fn lock(&self) -> QuorumLock {
        let clients = self.servers.iter().map(Client::with_store);
        QuorumClient::of(clients).unwrap().lock("door").unwrap()
    }

    /// The lock at one server.
    fn plain(&self, server: usize) -> Lock {
        Client::with_store(&self.servers[server]).lock("door").unwrap()
    }

    async fn acquire(&self) -> QuorumGuard {
        self.waits().await.1
    }

    fn stop(&self, servers: Range<usize>) {
        self.servers[servers].iter().for_each(MemoryStore::stall);
    }

    /// After 100 ms, checks that the lock is held at `number` servers.
    async fn is_held_at(&self, number: usize) {
        sleep(ms(100)).await;
        let held = (0..self.servers.len()).map(async |at| self.plain(at).is_locked().await);
        let held = join_all(held).await.into_iter().map(Result::unwrap);
        assert_eq!(held.filter(|is_held| *is_held).count(), number);
    }

    /// Lets a new client acquire the lock. Returns how long the client waited, and its guard.
    async fn waits(&self) -> (Duration, QuorumGuard) {
        let start = Instant::now();
        let guard = self.lock().acquire_within(secs(60)).await.unwrap();
        (start.elapsed(), guard)
    }
}

#[tokio::test(start_paused = true)]
async fn quorum_lock_without_a_majority_returns_an_error() {
    let setup = Setup::known(5).await;
    setup.stop(0..3);
    let waited = setup.lock().acquire_within(secs(5)).await.unwrap_err();
    // `one` and `other` may each get the grant of one of the two working servers. Then the other
    // server is busy for both of them, and the error must still be `Unavailable`.
    let (one, other) = (setup.lock(), setup.lock());
    let mut errors = vec![waited, setup.lock().acquire_within(ms(200)).await.unwrap_err()];
    for _ in 0..5 {
        let both = tokio::join!(one.try_acquire(), other.try_acquire());
        errors.extend([both.0.unwrap_err(), both.1.unwrap_err()]);
    }
    assert!(errors.iter().all(|it| matches!(it, Error::Unavailable { .. })), "{errors:?}");
    setup.servers[..3].iter().for_each(MemoryStore::resume);
    sleep(secs(1)).await;

    setup.servers[1].lose_everything();
    setup.stop(2..4);
    let error = setup.lock().try_acquire().await.unwrap_err();
    let text = "at most 2 of 5 servers can vote, but 3 must grant the lock; server 2: the server \
                is new, or the loss of its data was noticed less than one lease ago, so its vote \
                does not count; retry after one lease; server 3: ";
    assert!(error.to_string().contains(text), "{error}");
    setup.servers[2..4].iter().for_each(MemoryStore::resume);

    for (words, kind) in [("NOPERM no permission", "Forbidden"), ("OOM not allowed", "NotReady")] {
        setup.servers[..2].iter().for_each(|server| server.fail(words));
        drop(setup.acquire().await);
        sleep(secs(1)).await;
        setup.servers[2].fail(words);
        let error = setup.lock().acquire_within(TTL).await.unwrap_err();
        assert!(format!("{error:?}").starts_with(kind), "{error:?}");
        setup.servers[2].heal();
    }
}

/// Of four servers, three are a majority.
#[tokio::test(start_paused = true)]
async fn quorum_of_one_or_four_servers_needs_a_majority() {
    for (servers, stopped) in [(1, 0), (4, 1)] {
        let setup = Setup::known(servers).await;
        setup.stop(0..stopped);
        let guard = setup.acquire().await;
        assert!(setup.lock().try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap().into_result().unwrap();
        setup.acquire().await.release().await.unwrap().into_result().unwrap();
        setup.stop(0..stopped + 1);
        let error = setup.lock().try_acquire().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn quorum_hold_ends_with_its_majority_or_its_lease() {
    let lose: fn(&MemoryStore) = MemoryStore::lose_everything;
    for (change, servers, lease, reason) in [
        (lose, 0..3, None, LostReason::NotOwned),
        (MemoryStore::stall, 0..3, None, LostReason::Expired),
        (lose, 4..5, Some(secs(20)), LostReason::Expired),
    ] {
        let (setup, start) = (Setup::new(5), Instant::now());
        let lock = lease.map_or_else(|| setup.lock(), |lease| setup.lock().lease(lease));
        let guard = lock.acquire().await.unwrap();
        sleep(ms(100)).await;
        setup.servers[servers].iter().for_each(change);
        assert_eq!(guard.lost().await, reason);
        assert!(start.elapsed() < lease.unwrap_or(TTL) + ms(200), "{:?}", start.elapsed());
        assert!(!guard.is_held() && guard.remaining().is_none());
        if reason == LostReason::NotOwned || lease.is_some() {
            // The guard still exists, and must not keep the lock at the other servers.
            setup.is_held_at(0).await;
        }
        let release = guard.release().await.unwrap();
        assert!(matches!(release, Release::NotHeld { reason: it, .. } if it == reason));
        // After three servers have lost their data, they have no vote for a lease.
        setup.servers.iter().for_each(MemoryStore::resume);
        let least = if reason == LostReason::NotOwned { TTL } else { Duration::ZERO };
        let (waited, _guard) = setup.waits().await;
        assert!(waited >= least && waited < least + secs(5), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_renewed_quorum_hold_is_requested_again() {
    for (lease, held) in [(None, 5), (Some(secs(20)), 4)] {
        let setup = Setup::known(5).await;
        setup.stop(4..5);
        let lock = lease.map_or_else(|| setup.lock(), |lease| setup.lock().lease(lease));
        let _guard = lock.acquire().await.unwrap();
        sleep(secs(1)).await;
        setup.servers[4].resume();
        sleep(secs(5)).await;
        setup.is_held_at(held).await;
    }
}

/// Server 0 has lost its data, and servers 1 and 2 are silent. If servers 3 and 4 never granted the
/// lock, no majority is left, whatever servers 1 and 2 would reply. Otherwise their replies decide.
#[tokio::test(start_paused = true)]
async fn release_reports_a_loss_if_silent_servers_cannot_change_it() {
    for (not_ready, is_certain) in [(3..5, true), (5..5, false)] {
        let setup = Setup::known(5).await;
        setup.servers[not_ready].iter().for_each(|server| server.fail("LOADING not yet"));
        let guard = setup.acquire().await;
        sleep(ms(100)).await;
        setup.servers[0].lose_everything();
        setup.stop(1..3);
        match guard.release().await {
            Ok(Release::NotHeld { reason: LostReason::NotOwned, .. }) => assert!(is_certain),
            Err(Error::Unavailable { .. }) => assert!(!is_certain),
            other => panic!("{other:?}"),
        }
    }
}

/// Former bug: the work of a lost hold counted as completed if one server was silent.
#[tokio::test(start_paused = true)]
async fn run_reports_a_loss_that_a_silent_server_cannot_change() {
    let setup = Setup::known(3).await;
    let guard = setup.acquire().await;
    sleep(ms(100)).await;
    setup.stop(2..3);
    assert!(setup.servers[..2].iter().all(|server| server.lose("door")));
    let _other = setup.acquire().await;
    let outcome = guard.run(async |_held| 42).await;
    let RunOutcome::CompletedAfterLoss { value: 42, .. } = outcome else { panic!("{outcome:?}") };
}

/// Former bug: the client of one server that was shut down failed every call.
#[test]
fn threads_acquire_until_a_majority_of_the_clients_is_shut_down() {
    let servers = [(); 3].map(|()| MemoryStore::new());
    let clients = servers.each_ref().map(|server| blocking::Client::with_store(server).unwrap());
    let quorum = blocking::QuorumClient::of(clients).unwrap();
    // All servers must vote while they are new.
    drop(quorum.lock("door").unwrap().acquire().unwrap());
    for (client, is_usable) in [(0, true), (1, false)] {
        quorum.clients()[client].shutdown(secs(1)).unwrap();
        let acquired = quorum.lock("door").unwrap().acquire_within(secs(1));
        assert_eq!(acquired.is_ok(), is_usable, "{acquired:?}");
    }
}

/// The exception of the guarantees: two clients rely on a hold.
#[tokio::test(start_paused = true)]
async fn servers_that_all_lost_their_data_grant_the_lock_at_once() {
    let setup = Setup::known(3).await;
    let guard = setup.acquire().await;
    sleep(secs(1)).await;
    setup.servers.iter().for_each(MemoryStore::lose_everything);
    let other = setup.acquire().await;
    assert!(guard.is_held() && other.is_held());
    assert_eq!(guard.lost().await, LostReason::NotOwned);
    assert!(other.is_held());
}

/// Two servers were not ready for a while, so the holder renews its grants at different times.
#[tokio::test(start_paused = true)]
async fn holder_does_not_take_the_lock_back_after_a_forced_release() {
    let setup = Setup::known(3).await;
    let is_down = async |server: usize, time: Duration| {
        setup.servers[server].fail("LOADING not yet");
        sleep(time).await;
        setup.servers[server].heal();
    };
    let (guard, ()) = tokio::join!(setup.acquire(), is_down(2, secs(6)));
    sleep(secs(3)).await;
    is_down(1, secs(4)).await;
    sleep(secs(2)).await;
    for server in 0..3 {
        assert!(setup.plain(server).force_release().await.unwrap());
    }
    setup.acquire().await.release().await.unwrap().into_result().unwrap();
    let work = guard.run(async |held| held.lost().await);
    let outcome = tokio::time::timeout(2 * TTL, work).await.unwrap();
    assert!(matches!(outcome, RunOutcome::Cancelled { reason: LostReason::NotOwned, .. }));
    setup.is_held_at(0).await;
}

/// When a client stored the time, the clocks of all servers were in the year 2096.
#[tokio::test(start_paused = true)]
async fn clocks_that_are_set_back_delay_a_vote_by_one_lease() {
    let setup = Setup::new(3);
    for server in 0..3 {
        let guard = setup.plain(server).acquire().await.unwrap();
        guard.write([Write::set("leasehold_quorum__since", "4000000000000")]).await.unwrap();
    }
    sleep(secs(1)).await;
    setup.stop(2..3);
    let (waited, guard) = setup.waits().await;
    assert!(guard.is_held() && waited >= TTL && waited < TTL + secs(5), "{waited:?}");
}

/// The holder has the votes of the first two servers. If the servers are new, a server that has
/// lost its data looks like one that was never used.
#[tokio::test(start_paused = true)]
async fn server_that_lost_its_data_has_no_vote_for_one_lease() {
    for (is_new, is_silent) in [(false, false), (false, true), (true, true)] {
        let setup = if is_new { Setup::new(3) } else { Setup::known(3).await };
        match is_silent {
            true => setup.stop(2..3),
            false => setup.servers[2].fail("LOADING Redis is loading the dataset in memory"),
        }
        let (waited, guard) = setup.waits().await;
        assert_eq!(waited >= TTL, is_new, "{waited:?}");

        // The second server loses its data, and the third one works again. These two must not form
        // a majority for another client, and the second server must grant the lock to the holder.
        setup.servers[1].lose_everything();
        setup.servers[2].heal();
        setup.servers[2].resume();
        let (other, start) = (setup.lock(), Instant::now());
        while start.elapsed() < secs(20) {
            assert!(other.try_acquire().await.ok().flatten().is_none());
            assert!(guard.is_held(), "{:?}", start.elapsed());
            sleep(ms(100)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_acquire_leaves_no_grant() {
    let setup = Setup::new(5);
    let cuts = at_every_await(async |cut| {
        let lock = setup.lock();
        let is_acquired = cut.of(lock.acquire()).await.is_some();
        setup.is_held_at(0).await;
        is_acquired
    });
    assert!(cuts.await > 0);
}

#[tokio::test(start_paused = true)]
async fn result_of_work_does_not_wait_for_silent_servers() {
    for (builder, limit) in
        [(Client::builder(), ms(500)), (Client::builder().run_release_wait(ms(20)), ms(20))]
    {
        let setup = Setup::known(3).await;
        let clients = setup.servers.iter().map(|server| builder.clone().with_store(server));
        let lock = QuorumClient::of(clients).unwrap().lock("door").unwrap();
        let guard = lock.acquire().await.unwrap();
        setup.is_held_at(3).await;
        setup.stop(0..2);
        let start = Instant::now();
        assert_eq!(guard.run(async |_held| 42).await, RunOutcome::Completed(42));
        let waited = start.elapsed();
        assert!(waited >= limit && waited < limit + ms(10), "{waited:?}");
        setup.servers[..2].iter().for_each(MemoryStore::resume);
        sleep(secs(1)).await;
        setup.is_held_at(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_work_releases_the_lock_and_reaches_the_caller() {
    let setup = Setup::known(3).await;
    let guard = setup.acquire().await;
    sleep(secs(1)).await;
    let run = guard.run::<(), _, _>(async |_held| resume_unwind(Box::new(42)));
    let panic = AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&42));
    let held = setup.servers.iter().filter(|server| server.lose("door")).count();
    assert!(held < 2, "fewer than two of the three servers still hold the lock: {held}");
}

/// Clients with leases are ported from `RedissonRedLockTest.testLockLeasetimeWithSeconds`,
/// `testLockLeasetimeWithMinutes` and `testTryLockLeasetime`.
#[tokio::test(start_paused = true)]
async fn clients_that_split_the_votes_make_progress_one_at_a_time() {
    for (lease, work) in [(None, ms(1)), (Some(secs(2)), secs(1)), (Some(secs(60)), secs(1))] {
        let (setup, count, start) = (Setup::new(5), AtomicU32::new(0), Instant::now());
        join_all((0..12).map(async |_| {
            let lock = lease.map_or_else(|| setup.lock(), |lease| setup.lock().lease(lease));
            for _ in 0..10 {
                let guard = lock.acquire_within(secs(300)).await.unwrap();
                let before = count.load(Relaxed);
                sleep(work).await;
                count.store(before + 1, Relaxed);
                guard.release().await.unwrap().into_result().unwrap();
            }
        }))
        .await;
        assert_eq!(count.load(Relaxed), 120, "{lease:?}");
        let each = start.elapsed() / 120;
        assert!(each < work + ms(200), "{each:?} for each hold");
    }
}

/// Ported from `RedissonRedLockTest.testLockFailed`, `testLockSuccess2`, `testMultiThreads` and
/// `test`.
#[tokio::test(start_paused = true)]
async fn quorum_lock_is_granted_unless_a_majority_is_held() {
    let setup = Setup::new(3);
    let (_one, other) = (setup.plain(0).acquire().await, setup.plain(1).acquire().await);
    assert!(setup.lock().try_acquire().await.unwrap().is_none());
    setup.is_held_at(2).await;
    let lock = setup.lock();
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    sleep(secs(3)).await;
    assert!(!waiter.is_finished());
    drop(other);
    // The waiter waits at the first server, which stays held, and asks all servers within seconds.
    let free = Instant::now();
    waiter.await.unwrap().release().await.unwrap().into_result().unwrap();
    assert!(free.elapsed() < secs(4), "{:?}", free.elapsed());
    assert!(setup.waits().await.0 < secs(1));
}
