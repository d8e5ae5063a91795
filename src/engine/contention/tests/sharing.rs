//! Tests of a read hold that all readers of a process share. For the store, all these readers are
//! one reader.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake},
    thread::{self, Thread},
    time::Duration,
};

use futures_util::{future::join_all, poll};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Client, Error, LostReason, MemoryStore, ReadWriteLock, Release,
    engine::timing::{REQUESTER_IDLE_LIMIT, SHARING_PAST, SHARING_PAUSE},
};

const SOON: Duration = Duration::from_millis(2);

fn prices() -> (MemoryStore, ReadWriteLock) {
    let store = MemoryStore::new();
    let prices = Client::with_store(&store).read_write_lock("prices").unwrap();
    (store, prices)
}

#[tokio::test(start_paused = true)]
async fn reader_gets_its_own_hold_while_a_writer_waits() {
    let (_store, prices) = prices();
    let prices = prices.prefer_writers(false);
    let first = prices.read().acquire().await.unwrap();
    let writer = tokio::spawn({
        let prices = prices.clone();
        async move { drop(prices.write().acquire().await) }
    });
    sleep(SOON).await;
    let second = prices.read().acquire().await.unwrap();
    assert_ne!(first.owner(), second.owner());
    drop((first, second));
    writer.await.unwrap();
}

/// Former bug: the readers in line yielded to the writer one after the other, so their waiting
/// times added up.
#[tokio::test(start_paused = true)]
async fn readers_in_line_yield_to_a_writer_for_ten_seconds() {
    let (store, prices) = prices();
    let there = [(); 2].map(|()| Client::with_store(&store).read_write_lock("prices").unwrap());
    let _reads = there[0].read().acquire().await.unwrap();
    let writes = tokio::spawn({
        let there = there[1].clone();
        async move { drop(there.write().acquire().await) }
    });
    sleep(SOON).await;
    let (start, read) = (Instant::now(), prices.read().lease(Duration::from_secs(600)));
    let readers = join_all((0..10).map(|_| read.acquire())).await;
    assert!(readers.iter().all(Result::is_ok));
    assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
    writes.abort();
}

#[tokio::test(start_paused = true)]
async fn readers_in_line_acquire_before_a_later_writer() {
    let (store, prices) = prices();
    let there = [(); 2].map(|()| Client::with_store(&store).read_write_lock("prices").unwrap());
    let writing = there[0].write().acquire().await.unwrap();
    let read = prices.read().lease(Duration::from_secs(600));
    let in_line = tokio::spawn(async move { join_all((0..3).map(|_| read.acquire())).await });
    sleep(Duration::from_secs(1)).await;
    let late = there[1].write();
    let writes = tokio::spawn(async move { drop(late.acquire().await) });
    sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    drop(writing);
    let readers = in_line.await.unwrap();
    assert!(readers.iter().all(Result::is_ok));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    writes.abort();
}

#[tokio::test(start_paused = true)]
async fn unyielding_reader_waits_behind_a_yielding_reader_in_line() {
    for (behind, least, most) in [(false, 0, 1), (true, 5, 11)] {
        let (store, here) = prices();
        let there = [(); 2].map(|()| Client::with_store(&store).read_write_lock("prices").unwrap());
        let _reads = there[0].read().acquire().await.unwrap();
        let write = there[1].write();
        let writes = tokio::spawn(async move { drop(write.acquire().await) });
        sleep(SOON).await;
        let yields = here.read();
        let yields = behind.then(|| tokio::spawn(async move { drop(yields.acquire().await) }));
        sleep(SOON).await;
        let start = Instant::now();
        drop(here.clone().prefer_writers(false).read().acquire().await.unwrap());
        let waited = start.elapsed().as_secs();
        assert!((least..most).contains(&waited), "{behind}: {waited}");
        writes.abort();
        yields.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[tokio::test(start_paused = true)]
async fn read_hold_of_a_writer_is_not_shared_during_its_write_hold() {
    let (_store, prices) = prices();
    let writing = prices.write().acquire().await.unwrap();
    let reading = prices.acquire_read_with(&writing).await.unwrap();
    assert!(prices.read().try_acquire().await.unwrap().is_none(), "the writer still has the lock");
    drop(writing);
    sleep(SOON).await;
    let other = prices.read().try_acquire().await.unwrap().unwrap();
    assert_eq!(reading.owner(), other.owner());
}

/// Former bug: another task shared the read hold of a writer before the store had executed a
/// guarded write of that writer.
#[tokio::test(start_paused = true)]
async fn read_hold_of_a_writer_is_shared_after_its_write_hold_ended() {
    for ends in ["dropped", "release cancelled", "release unanswered", "lease over"] {
        let (store, prices) = prices();
        let lease = Duration::from_secs(if ends == "lease over" { 1 } else { 30 });
        let writing = prices.write().lease(lease).acquire().await.unwrap();
        let reading = prices.acquire_read_with(&writing).await.unwrap();
        store.stall();
        match ends {
            "dropped" => drop(writing),
            "release cancelled" => assert!(timeout(SOON, writing.release()).await.is_err()),
            "release unanswered" => assert!(writing.release().await.is_err()),
            _ => drop(writing.lost().await),
        }
        assert!(timeout(SOON, prices.read().acquire()).await.is_err(), "{ends}");

        store.resume();
        let other = timeout(SOON, prices.read().acquire()).await.unwrap().unwrap();
        assert!(reading.is_held() && other.is_held(), "{ends}");
    }
}

#[tokio::test(start_paused = true)]
async fn write_hold_with_a_read_hold_is_not_handed_off() {
    let (_store, prices) = prices();
    let writing = prices.write().acquire().await.unwrap();
    let next = tokio::spawn({
        let prices = prices.clone();
        async move { prices.write().acquire().await.unwrap() }
    });
    sleep(SOON).await;
    let reading = prices.acquire_read_with(&writing).await.unwrap();
    drop(writing);
    sleep(SOON).await;
    assert!(!next.is_finished(), "the next writer waits for the read hold");
    drop(reading);
    drop(next.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn lock_is_free_when_both_read_holds_of_a_former_writer_end() {
    let (store, here) = prices();
    let there = Client::with_store(&store).read_write_lock("prices").unwrap();
    let writing = here.write().acquire().await.unwrap();
    let first = here.acquire_read_with(&writing).await.unwrap();
    let second = here.downgrade(writing).await.unwrap();
    drop(first);
    sleep(SOON).await;
    assert!(second.is_held());
    assert!(
        there.write().try_acquire().await.unwrap().is_none(),
        "a writer is refused while there is a reader"
    );
    drop(second);
    sleep(SOON).await;
    assert!(there.write().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn acquire_read_with_refuses_the_write_guard_of_another_client() {
    let (store, prices) = prices();
    let there = Client::with_store(&store).read_write_lock("prices").unwrap();
    let writing = there.write().acquire().await.unwrap();
    let refused = prices.acquire_read_with(&writing).await.unwrap_err();
    assert!(matches!(refused, Error::NotWriting { .. }), "{refused}");
    assert!(prices.read().try_acquire().await.unwrap().is_none(), "the writer still has the lock");
}

#[tokio::test(start_paused = true)]
async fn reader_does_not_join_a_lost_read_hold() {
    let (store, prices) = prices();
    let first = prices.read().acquire().await.unwrap();
    let second = prices.read().acquire().await.unwrap();
    store.lose("prices");
    // The release of the last share finds that the hold is lost.
    drop(first);
    let gone = second.release().await.unwrap();
    assert!(gone.into_result().is_err());
    let third = prices.read().acquire().await.unwrap();
    assert!(third.is_held());
}

/// With many readers that do not pause between their reads, there are moments with only one reader
/// left.
#[tokio::test(start_paused = true)]
async fn readers_with_short_holds_share_one_request() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let reads = Arc::new(AtomicU32::new(0));
    let tasks = (0..64).map(|_| {
        let (read, reads) = (client.read_write_lock("prices").unwrap().read(), Arc::clone(&reads));
        tokio::spawn(async move {
            while reads.fetch_add(1, Ordering::Relaxed) < 10_000 {
                read.acquire().await.unwrap().release().await.unwrap().into_result().unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    // Sometimes all readers yield at the same time, and the hold ends.
    assert!(client.stats().granted < 10, "{:?}", client.stats());
}

/// Before the last reader releases the hold, it pauses, so that other tasks can join. The future of
/// the release may be dropped during this pause.
#[tokio::test(start_paused = true)]
async fn dropped_release_of_the_last_reader_completes() {
    let (store, here) = prices();
    let there = Client::with_store(&store).read_write_lock("prices").unwrap();
    let guard = here.read().acquire().await.unwrap();
    let mut release = Box::pin(guard.release());
    assert!(futures_util::poll!(&mut release).is_pending());
    drop(release);
    drop(timeout(SOON, there.write().acquire()).await.expect("no reader has the lock").unwrap());
}

/// Other tasks of the runtime must run, even if a reader never stops.
#[tokio::test(start_paused = true)]
async fn repeated_shared_reads_let_other_tasks_run() {
    let (_store, here) = prices();
    let _beside = here.read().acquire().await.unwrap();
    let reads = async {
        for _ in 0..10_000 {
            drop(here.read().acquire().await.unwrap());
        }
    };
    tokio::select! {
        biased;
        () = reads => panic!("no other task ran during ten thousand reads"),
        () = tokio::task::yield_now() => {}
    }
}

/// Former bug: a task took its share before it yielded, so an unpolled task kept its share.
#[tokio::test(start_paused = true)]
async fn unpolled_yielding_reader_keeps_no_read_hold() {
    let (store, here) = prices();
    let there = Client::with_store(&store).read_write_lock("prices").unwrap();
    let second = here.read().acquire().await.unwrap();
    let read = here.read();
    let paused = loop {
        let mut asks = Box::pin(read.acquire());
        match futures_util::poll!(&mut asks) {
            Poll::Ready(guard) => drop(guard),
            Poll::Pending => break asks,
        }
    };
    second.release().await.unwrap().into_result().unwrap();
    drop(timeout(SOON, there.write().acquire()).await.expect("no reader has the lock").unwrap());
    drop(paused);
}

#[tokio::test(start_paused = true)]
async fn release_reports_that_a_shutdown_ended_the_read_hold() {
    for another_joins in [false, true] {
        let client = Client::with_store(&MemoryStore::new());
        let read = client.read_write_lock("prices").unwrap().read();
        let mut release = Box::pin(read.acquire().await.unwrap().release());
        assert!(futures_util::poll!(&mut release).is_pending());
        let _other = if another_joins { Some(read.acquire().await.unwrap()) } else { None };
        client.shutdown(SOON).await;
        let left = release.await.unwrap();
        let shut_down = |reason| reason == LostReason::ShutDown;
        assert!(matches!(left, Release::NotHeld { reason, .. } if shut_down(reason)), "{left:?}");
    }
}

/// `tokio::task::yield_now` wakes its task only when a worker thread is free. In this test, the
/// only worker thread is blocked, so a release must yield in another way.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn release_wakes_its_task_while_the_only_worker_is_blocked() {
    let (_store, here) = prices();
    // The local budget is long, so that it does not end on a busy machine.
    let read = here.read().local_handoff(10, Duration::from_secs(3_600));
    let guard = read.acquire().await.unwrap();
    let (sender, notices) = std::sync::mpsc::channel();
    tokio::spawn(async move {
        let mut release = Box::pin(guard.release());
        let mut polls = 0;
        // The first poll lets other tasks join. The second poll sends a request, which needs the
        // runtime.
        let asks = wait_for(std::future::poll_fn(|cx| {
            polls += 1;
            let waits = release.as_mut().poll(cx).is_pending();
            if waits && polls == 1 { Poll::Pending } else { Poll::Ready(waits) }
        }));
        sender.send(asks).unwrap();
    });
    assert_eq!(notices.recv().unwrap(), Some(true));
}

/// Polls `future` for at most ten seconds, as an executor without other tasks does.
fn wait_for<T>(future: impl Future<Output = T>) -> Option<T> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = std::pin::pin!(future);
    let waker = Arc::new(Unpark(thread::current())).into();
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return Some(done),
            Poll::Pending => thread::park_timeout(Duration::from_secs(10)),
        }
    }
    None
}

/// Without a pause between two read holds, a waiter that is woken only by releases would never
/// acquire.
#[tokio::test(start_paused = true)]
async fn reader_pauses_between_a_shared_hold_and_a_new_read_hold() {
    let (_store, here) = prices();
    let read = here.read();
    let came = async |after| {
        let sharing = [read.acquire().await.unwrap(), read.acquire().await.unwrap()];
        sleep(Duration::from_millis(after)).await;
        let start = Instant::now();
        let next = read.acquire().await.unwrap();
        assert_eq!(next.owner() == sharing[0].owner(), after < 10, "{after} ms");
        start.elapsed()
    };
    assert_eq!(came(9).await, Duration::ZERO);
    // if a reader keeps its share, the next reader waits for `SHARING_PAST`
    assert_eq!(came(11).await, SHARING_PAST);
    // a hold whose budget ended long ago causes no pause
    assert_eq!(came(21).await, Duration::ZERO);
    // and a hold that no task has shared causes no pause
    let alone = read.acquire().await.unwrap();
    sleep(Duration::from_millis(11)).await;
    let start = Instant::now();
    assert_ne!(read.acquire().await.unwrap().owner(), alone.owner());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Former bug: a reader waited for a fixed time only. With 64 tasks on a busy machine, the next
/// hold then began before the previous hold had ended.
#[tokio::test(start_paused = true)]
async fn reader_waits_for_the_release_of_a_shared_hold_and_pauses() {
    for tries in [false, true] {
        let (store, here) = prices();
        let read = here.read();
        let sharing = [read.acquire().await.unwrap(), read.acquire().await.unwrap()];
        sleep(Duration::from_millis(11)).await;
        let start = Instant::now();
        let next = tokio::spawn({
            let read = read.clone();
            async move {
                match tries {
                    true => read.try_acquire().await.unwrap().unwrap(),
                    false => read.acquire().await.unwrap(),
                }
            }
        });
        sleep(Duration::from_millis(5)).await;
        for guard in sharing {
            guard.release().await.unwrap().into_result().unwrap();
        }
        let there = Client::with_store(&store).read_write_lock("prices").unwrap();
        let writing = there.write().try_acquire().await.unwrap().unwrap();
        writing.release().await.unwrap().into_result().unwrap();
        let _next = next.await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(5) + SHARING_PAUSE);
    }
}

/// A dropped guard is released in the background. Former bug: a task that came at once sent its
/// request before that release. So each read hold overlapped with the next read hold, for ever.
#[tokio::test(start_paused = true)]
async fn reader_sends_its_request_after_a_dropped_guard_is_released() {
    let (_store, here) = prices();
    let read = here.read();
    let before = read.acquire().await.unwrap();
    sleep(Duration::from_millis(11)).await;
    let owner = before.owner().clone();
    drop(before);
    let mut next = Box::pin(read.acquire());
    assert!(poll!(&mut next).is_pending());
    assert_eq!(read.holder().await.unwrap().map(|holder| holder.owner().clone()), Some(owner));
    // If the task had sent its request before the release, it would have the reply by now.
    assert!(poll!(&mut next).is_pending());
    let start = Instant::now();
    drop(next.await.unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Former bug: a task that paused for other clients counted as waiting for a reply. It lost its
/// request slot only after six seconds.
#[tokio::test(start_paused = true)]
async fn unpolled_pausing_task_delays_the_next_task_only_briefly() {
    let (_store, here) = prices();
    let read = here.read();
    let _sharing = [read.acquire().await.unwrap(), read.acquire().await.unwrap()];
    sleep(Duration::from_millis(11)).await;
    let mut rests = Box::pin(read.acquire());
    assert!(poll!(&mut rests).is_pending());
    let start = Instant::now();
    let next = read.acquire().await.unwrap();
    assert!(start.elapsed() <= 2 * REQUESTER_IDLE_LIMIT, "{:?}", start.elapsed());
    // and the paused task shares the hold of the next task
    assert_eq!(rests.await.unwrap().owner(), next.owner());
}

#[tokio::test(start_paused = true)]
async fn shared_hold_is_limited_by_local_handoff() {
    let (_store, prices) = prices();
    let read = prices.read().local_handoff(3, Duration::from_secs(3_600));
    let mut guard = read.acquire().await.unwrap();
    let owner = guard.owner().clone();
    for joined in 1..=4 {
        let next = read.acquire().await.unwrap();
        assert_eq!(next.owner() == &owner, joined <= 3, "{joined}");
        std::mem::replace(&mut guard, next).release().await.unwrap().into_result().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn yielding_reader_joins_no_shared_hold_after_shutdown_began() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let read = client.read_write_lock("prices").unwrap().read();
    let second = read.acquire().await.unwrap();
    let paused = loop {
        let mut asks = Box::pin(read.try_acquire());
        match poll!(&mut asks) {
            Poll::Ready(guard) => drop(guard),
            Poll::Pending => break asks,
        }
    };
    let closing = tokio::spawn(async move { client.shutdown(Duration::from_secs(2)).await });
    tokio::task::yield_now().await;
    assert!(matches!(paused.await, Err(Error::ShutDown)));
    drop(second);
    closing.await.unwrap();
}

/// If a task has used up its tokio budget, tokio wakes the task only when a worker thread is free.
/// In this test, the only worker thread is blocked.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn read_hold_is_shared_under_a_non_tokio_executor() {
    let (_store, here) = prices();
    let read = here.read().local_handoff(10_000, Duration::from_secs(60));
    let _beside = read.acquire().await.unwrap();
    let (sender, notices) = std::sync::mpsc::channel();
    tokio::spawn(async move {
        let had = (0..1_000).take_while(|_| wait_for(read.acquire()).is_some_and(|it| it.is_ok()));
        sender.send(had.count()).unwrap();
    });
    assert_eq!(notices.recv().unwrap(), 1_000);
}
