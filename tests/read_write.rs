//! The read-write lock in virtual time: shared holds, the order of readers and writers, and the
//! limits of the preference of writers.

use std::time::Duration;

use leasehold::{Client, Error, LostReason, MemoryStore, ReadWriteLock, Release, WaitStrategy};
use tokio::time::{Instant, sleep, timeout};

const SOON: Duration = Duration::from_millis(5);

/// A store, and one read-write lock of two clients.
fn prices() -> (MemoryStore, ReadWriteLock, ReadWriteLock) {
    let store = MemoryStore::new();
    let [one, other] =
        [(); 2].map(|()| Client::with_store(&store).read_write_lock("prices").unwrap());
    (store, one, other)
}

#[tokio::test(start_paused = true)]
async fn readers_of_one_process_are_one_reader_in_the_store() {
    let (_store, here, there) = prices();
    let mut guards = Vec::new();
    for _ in 0..100 {
        guards.push(here.read().acquire().await.unwrap());
    }
    let owner = guards[0].owner().clone();
    assert!(guards.iter().all(|guard| *guard.owner() == owner));
    assert_eq!(there.read().held_by(&owner).await.unwrap(), 1);
    // each task releases its share, and the last task releases the hold
    let last = guards.pop().unwrap();
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        assert!(last.is_held());
    }
    assert!(there.write().try_acquire().await.unwrap().is_none());
    assert_eq!(last.release().await.unwrap(), Release::Released);
    assert!(there.write().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn read_hold_is_shared_for_the_local_handoff_time() {
    let (_store, prices, _) = prices();
    let first = prices.read().acquire().await.unwrap();
    sleep(Duration::from_millis(9)).await;
    let second = prices.read().acquire().await.unwrap();
    assert_eq!(first.owner(), second.owner());
    sleep(Duration::from_millis(2)).await;
    let third = prices.read().acquire().await.unwrap();
    assert_ne!(first.owner(), third.owner());
    // A lock whose `local_handoff` is 0 never shares a hold.
    let alone = prices.read().local_handoff(0, Duration::ZERO).acquire().await.unwrap();
    assert_ne!(alone.owner(), prices.read().acquire().await.unwrap().owner());
}

#[tokio::test(start_paused = true)]
async fn read_hold_is_shared_up_to_the_local_handoff_count() {
    let (_store, prices, _) = prices();
    let few = prices.read().local_handoff(2, Duration::from_secs(60));
    let mut guards = Vec::new();
    for _ in 0..4 {
        guards.push(few.acquire().await.unwrap());
    }
    let sharing = guards.iter().filter(|guard| guard.owner() == guards[0].owner());
    assert_eq!(sharing.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn reader_with_another_lease_profile_gets_its_own_hold() {
    let (_store, prices, _) = prices();
    let first = prices.read().acquire().await.unwrap();
    let minute = Duration::from_secs(60);
    for read in [prices.read().lease(minute), prices.read().max_hold(minute)] {
        let other = read.acquire().await.unwrap();
        assert_ne!(first.owner(), other.owner());
    }
    assert_eq!(first.owner(), prices.read().acquire().await.unwrap().owner());
    let longer = prices.read().ttl(minute);
    let [one, other] = [longer.acquire().await.unwrap(), longer.acquire().await.unwrap()];
    assert!(first.owner() != one.owner() && one.owner() == other.owner());
}

#[tokio::test(start_paused = true)]
async fn try_acquire_shares_a_read_hold() {
    let (store, prices, _) = prices();
    let first = prices.read().acquire().await.unwrap();
    store.fail("OOM nothing is answered");
    let second = prices.read().try_acquire().await.unwrap().unwrap();
    assert_eq!(first.owner(), second.owner());
    store.heal();
}

#[tokio::test(start_paused = true)]
async fn waiting_readers_share_the_grant_of_one_request() {
    let (_store, here, there) = prices();
    let writing = there.write().acquire().await.unwrap();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let here = here.clone();
            tokio::spawn(async move { here.read().acquire().await.unwrap() })
        })
        .collect();
    sleep(SOON).await;
    let start = Instant::now();
    writing.release().await.unwrap().into_result().unwrap();
    let mut guards = Vec::new();
    for reader in waiting {
        guards.push(reader.await.unwrap());
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(guards.iter().all(|guard| guard.owner() == guards[0].owner()));
}

#[tokio::test(start_paused = true)]
async fn waiting_writer_precedes_later_readers() {
    for same_client in [true, false] {
        let (_store, here, there) = prices();
        let writers = if same_client { &here } else { &there }.clone();
        let first = here.read().acquire().await.unwrap();
        let writer = tokio::spawn(async move { writers.write().acquire().await.unwrap() });
        sleep(SOON).await;
        assert!(here.read().try_acquire().await.unwrap().is_none() || !same_client);
        let late = tokio::spawn({
            let here = here.clone();
            // This reader shares no hold, and sends its own request.
            async move { here.read().local_handoff(0, Duration::ZERO).acquire().await.unwrap() }
        });
        sleep(SOON).await;
        assert!(!writer.is_finished() && !late.is_finished());
        drop(first);
        sleep(SOON).await;
        assert!(writer.is_finished() && !late.is_finished(), "same client: {same_client}");
        drop(writer.await.unwrap());
        drop(
            timeout(SOON, late)
                .await
                .expect("the late reader acquires when all earlier waiters have released")
                .unwrap(),
        );
    }
}

#[tokio::test(start_paused = true)]
async fn writer_that_sends_no_requests_delays_readers_for_5_seconds() {
    let (store, here, there) = prices();
    let first = here.read().acquire().await.unwrap();
    // A writer that waits, and that sends no further request for 30 s.
    let rarely = Duration::from_secs(30);
    let writes =
        there.write().wait_strategy(WaitStrategy::Polling { initial: rarely, max: rarely });
    let writer = tokio::spawn(async move { writes.acquire().await.map(drop) });
    sleep(Duration::from_millis(50)).await;

    let reads = Client::with_store(&store).read_write_lock("prices").unwrap().read();
    let start = Instant::now();
    let second = tokio::spawn(async move { reads.acquire().await.map(drop) });
    sleep(Duration::from_millis(900)).await;
    drop(first);
    second.await.unwrap().unwrap();
    let waited = start.elapsed();
    assert!(
        waited >= Duration::from_millis(4_900) && waited < Duration::from_millis(5_050),
        "{waited:?}"
    );
    writer.abort();
}

#[tokio::test(start_paused = true)]
async fn reader_yields_for_ten_seconds_at_most() {
    let (_store, here, there) = prices();
    let first = here.read().acquire().await.unwrap();
    let writer = tokio::spawn({
        let there = there.clone();
        async move { there.write().acquire().await.unwrap() }
    });
    sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    let second = here.read().acquire().await.unwrap();
    // The ten seconds begin when the writer begins to wait.
    assert!(start.elapsed() >= Duration::from_millis(9_900), "{:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_millis(10_100), "{:?}", start.elapsed());
    drop((first, second));
    drop(timeout(SOON, writer).await.expect("no reader holds the lock any more").unwrap());
}

#[tokio::test(start_paused = true)]
async fn half_of_readers_with_short_timeouts_pass_a_waiting_writer() {
    let (store, here, there) = prices();
    let _long = here.read().acquire().await.unwrap();
    let writer = tokio::spawn(async move { there.write().acquire().await.map(drop) });
    sleep(SOON).await;
    let reads = Client::with_store(&store).read_write_lock("prices").unwrap().read();
    let max_wait = Duration::from_millis(500);
    let (mut entered, mut refused) = (0, 0);
    for _ in 0..80 {
        let began = Instant::now();
        match reads.acquire_within(max_wait).await {
            Ok(guard) => {
                entered += 1;
                drop(guard);
            }
            Err(Error::TimedOut { holder: Some(first), by_this_client: false, .. }) => {
                refused += 1;
                assert_eq!(first.count(), 0, "the first client waits to write");
            }
            Err(other) => panic!("{other}"),
        }
        sleep(max_wait.saturating_sub(began.elapsed())).await;
    }
    assert!((38..=42).contains(&entered), "{entered} of {}", entered + refused);
    writer.abort();
}

#[tokio::test(start_paused = true)]
async fn reader_acquires_before_a_later_writer() {
    let (store, here, there) = prices();
    let writing = here.write().acquire().await.unwrap();
    let reader = tokio::spawn(async move { there.read().acquire().await.unwrap() });
    sleep(SOON).await;
    let last = Client::with_store(&store).read_write_lock("prices").unwrap();
    // This writer receives no message of the release, so the reader sends its request first.
    let rarely = Duration::from_secs(3);
    let last = last.write().wait_strategy(WaitStrategy::Polling { initial: rarely, max: rarely });
    let writer = tokio::spawn(async move { last.acquire().await.unwrap() });
    sleep(SOON).await;
    drop(writing);
    drop(timeout(SOON, reader).await.expect("the reader acquires before the last writer").unwrap());
    drop(writer.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn overlapping_long_readers_do_not_block_a_writer() {
    let (store, here, there) = prices();
    let long = Duration::from_secs(3);
    let readers = [(here, Duration::ZERO), (there, Duration::from_secs(2))].map(|(lock, after)| {
        tokio::spawn(async move {
            sleep(after).await;
            loop {
                let reading = lock.read().acquire().await.unwrap();
                sleep(long).await;
                drop(reading);
            }
        })
    });
    sleep(Duration::from_millis(2_500)).await;
    let writes = Client::with_store(&store).read_write_lock("prices").unwrap().write();
    let start = Instant::now();
    let writing = writes.acquire_within(Duration::from_secs(60)).await;
    drop(writing.expect("the readers let the writer acquire first"));
    assert!(start.elapsed() <= long, "{:?}", start.elapsed());
    readers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn write_guard_of_a_lost_hold_cannot_acquire_a_read_hold() {
    let (store, here, there) = prices();
    let writing = here.write().acquire().await.unwrap();
    assert!(store.lose("prices"));
    drop(there.write().acquire().await.unwrap());
    let error = here.acquire_read_with(&writing).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn readers_without_writer_preference_do_not_wait_for_writers() {
    let (_store, here, there) = prices();
    let first = here.read().acquire().await.unwrap();
    let write = there.write();
    let mut writes = Box::pin(write.acquire());
    assert!(timeout(SOON, &mut writes).await.is_err());
    let here = here.prefer_writers(false);
    let second = timeout(SOON, here.read().local_handoff(0, SOON).acquire()).await;
    drop((first, second.expect("the reader acquires at once").unwrap()));
    drop(timeout(SOON, writes).await.expect("no reader holds the lock any more").unwrap());
}

#[tokio::test(start_paused = true)]
async fn waiting_writer_that_gives_up_blocks_no_reader() {
    let (_store, here, there) = prices();
    let _first = here.read().acquire().await.unwrap();
    let max_wait = Duration::from_millis(100);
    let late = tokio::spawn({
        let there = there.clone();
        async move {
            sleep(SOON).await;
            let start = Instant::now();
            drop(there.read().acquire().await.unwrap());
            start.elapsed()
        }
    });
    let gave_up = here.write().acquire_within(max_wait).await.unwrap_err();
    assert!(matches!(gave_up, Error::TimedOut { by_this_client: true, .. }), "{gave_up}");
    let waited = late.await.unwrap();
    assert!(waited >= max_wait - 2 * SOON && waited < max_wait + SOON, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn next_writer_waits_until_a_downgraded_reader_has_released() {
    let (_store, here, there) = prices();
    let writing = here.write().acquire().await.unwrap();
    let next = tokio::spawn({
        let here = here.clone();
        async move { here.write().acquire().await.unwrap() }
    });
    sleep(SOON).await;
    let reading = here.downgrade(writing).await.unwrap();
    sleep(SOON).await;
    assert!(!next.is_finished(), "the writer waits until the reader has released");
    assert!(reading.is_held());
    let beside = there.prefer_writers(false).read().try_acquire().await.unwrap();
    drop((reading, beside.expect("two readers may hold the lock at once")));
    drop(timeout(SOON, next).await.expect("no reader holds the lock any more").unwrap());
}

#[tokio::test(start_paused = true)]
async fn downgrade_admits_waiting_readers() {
    let (_store, here, there) = prices();
    let writing = here.write().acquire().await.unwrap();
    let reader = tokio::spawn(async move { there.read().acquire().await.unwrap() });
    sleep(SOON).await;
    let start = Instant::now();
    let reading = here.downgrade(writing).await.unwrap();
    drop(reader.await.unwrap());
    assert!(start.elapsed() < SOON && reading.is_held());
}

#[tokio::test(start_paused = true)]
async fn only_a_writer_can_downgrade() {
    let (store, here, _) = prices();
    let reading = here.read().acquire().await.unwrap();
    let error = here.downgrade(reading).await.unwrap_err();
    assert!(matches!(error, Error::NotWriting { .. }), "{error}");
    let stock = Client::with_store(&store).read_write_lock("stock").unwrap();
    let other = stock.write().acquire().await.unwrap();
    let error = here.acquire_read_with(&other).await.unwrap_err();
    assert!(matches!(error, Error::NotWriting { .. }), "{error}");

    let writing = here.write().acquire().await.unwrap();
    store.lose_everything();
    let error = here.downgrade(writing).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::NotOwned, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn loss_reaches_every_reader_of_a_shared_hold() {
    let (_store, here, there) = prices();
    let guards = [here.read().acquire().await.unwrap(), here.read().acquire().await.unwrap()];
    assert!(there.read().force_release().await.unwrap());
    for guard in &guards {
        let reported = timeout(Duration::from_secs(11), guard.lost()).await;
        assert_eq!(reported, Ok(LostReason::NotOwned));
    }
    let [one, other] = guards;
    for guard in [one, other] {
        let released = guard.release().await.unwrap();
        assert!(matches!(released, Release::NotHeld { .. }), "{released:?}");
    }
    assert!(here.write().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn read_hold_is_renewed_until_its_client_is_shut_down() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let here = client.read_write_lock("prices").unwrap();
    let there = Client::with_store(&store).read_write_lock("prices").unwrap();
    let guard = here.read().acquire().await.unwrap();
    sleep(Duration::from_secs(100)).await;
    assert!(guard.is_held() && there.write().try_acquire().await.unwrap().is_none());
    client.shutdown(Duration::ZERO).await;
    assert!(!guard.is_held());
    assert!(timeout(Duration::from_secs(1), there.write().acquire()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn polling_waiters_acquire_the_read_and_the_write_side() {
    let (_store, here, there) = prices();
    let polling =
        WaitStrategy::Polling { initial: Duration::from_millis(1), max: Duration::from_millis(8) };
    let writing = here.write().wait_strategy(polling).acquire().await.unwrap();
    let reader = tokio::spawn({
        let there = there.clone();
        async move { there.read().wait_strategy(polling).acquire().await.unwrap() }
    });
    sleep(Duration::from_millis(50)).await;
    drop(writing);
    drop(timeout(Duration::from_millis(50), reader).await.unwrap().unwrap());
    assert!(here.write().wait_strategy(polling).acquire().await.is_ok());
}
