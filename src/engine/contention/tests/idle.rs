//! Tests of a task that has the request slot, but is not polled.

use std::{pin::pin, time::Duration};

use futures_util::poll;
use tokio::time::{sleep, timeout};

use super::*;
use crate::{ExpirableSemaphore, Latch};

const SOON: Duration = Duration::from_millis(2);
const IN_TIME: Duration = Duration::from_secs(3);

/// Waits a moment, and checks that `future` is still pending.
async fn waits<T>(future: Pin<&mut impl Future<Output = T>>) {
    assert!(timeout(SOON, future).await.is_err());
}

fn latches() -> [Latch; 2] {
    let store = MemoryStore::new();
    [(); 2].map(|()| Client::with_store(&store).latch("start").unwrap())
}

#[tokio::test(start_paused = true)]
async fn unpolled_latch_waiter_delays_no_later_waiter() {
    let [latch, operator] = latches();
    operator.set(1).await.unwrap();
    let mut first = pin!(latch.wait());
    waits(first.as_mut()).await;
    operator.count_down().await.unwrap();
    timeout(IN_TIME, latch.wait()).await.unwrap().unwrap();
    // and the first waiter passes, too, when it is polled
    timeout(SOON, first).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiter_that_never_reads_its_reply_delays_others_briefly() {
    let [latch, operator] = latches();
    operator.set(1).await.unwrap();
    let mut first = pin!(latch.wait());
    // This one poll only sends the request.
    assert!(poll!(first.as_mut()).is_pending());
    operator.count_down().await.unwrap();
    let max_wait = REPLY_IDLE_LIMIT + IN_TIME;
    timeout(max_wait, latch.wait()).await.unwrap().unwrap();
    timeout(SOON, first).await.unwrap().unwrap();
}

async fn pool(permits: u32) -> [ExpirableSemaphore; 2] {
    let store = MemoryStore::new();
    let pools = [(); 2].map(|()| Client::with_store(&store).expirable_semaphore("pool").unwrap());
    pools[0].set(permits).await.unwrap();
    pools
}

#[tokio::test(start_paused = true)]
async fn unpolled_waiter_gets_the_permit_after_the_next_waiter() {
    let [here, there] = pool(1).await;
    let taken = there.acquire().await.unwrap();
    let mut first = Box::pin(here.acquire());
    waits(first.as_mut()).await;
    let acquires = || {
        let here = here.clone();
        tokio::spawn(async move { here.acquire().await.unwrap() })
    };
    let second = acquires();
    sleep(SOON).await;
    taken.release().await.unwrap().into_result().unwrap();
    let second = timeout(IN_TIME, second).await.unwrap().unwrap();
    // The sleeping task is the first in line again.
    let third = acquires();
    waits(first.as_mut()).await;
    second.release().await.unwrap().into_result().unwrap();
    let first = timeout(SOON, first).await.unwrap().unwrap();
    assert!(!third.is_finished());
    first.release().await.unwrap().into_result().unwrap();
    drop(timeout(IN_TIME, third).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn unpolled_waiter_is_first_again_when_it_is_polled() {
    let store = MemoryStore::new();
    let [here, there] = [(); 2].map(|()| Client::with_store(&store).lock("door").unwrap());
    let taken = there.acquire().await.unwrap();
    let mut first = Box::pin(here.acquire());
    waits(first.as_mut()).await;
    let (mut second, mut third) = (Box::pin(here.acquire()), Box::pin(here.acquire()));
    waits(second.as_mut()).await;
    waits(third.as_mut()).await;
    taken.release().await.unwrap().into_result().unwrap();
    let guard = timeout(IN_TIME, second).await.unwrap().unwrap();
    waits(first.as_mut()).await;
    guard.release().await.unwrap().into_result().unwrap();
    let first = timeout(SOON, first).await.unwrap().unwrap();
    assert!(third.as_mut().now_or_never().is_none(), "the third task waits while the lock is held");
    first.release().await.unwrap().into_result().unwrap();
    drop(timeout(IN_TIME, third).await.unwrap().unwrap());
}

/// The first of two tasks has the request slot, and loses the slot to the second task.
#[tokio::test(start_paused = true)]
async fn late_grant_is_kept_by_a_task_that_lost_its_request_slot() {
    let (engine, contention, name) = door();
    let first = contention.line(&name, PLAIN, true, || true).await.unwrap();
    let second = in_line(&contention, &name);
    for _ in 0..7 {
        advance(REQUESTER_IDLE_LIMIT).await;
        contention.check_due_names();
    }
    let second = second.now_or_never().expect("the second task is woken").unwrap();
    assert!(!first.goes_on() && second.goes_on());
    let hold = entered(&engine, grant(&engine, &name, Instant::now()), Some(first));
    assert_eq!(contention.grant(&name), Some(hold.grant.id));
    assert!(second.goes_on());

    // and the grant of this hold is not handed off while another task has the slot
    assert!(!contention.pass_on(&hold, Instant::now()));
    contention.left(&hold);
    assert!(second.goes_on());
}

#[tokio::test(start_paused = true)]
async fn task_that_lost_its_request_slot_takes_no_later_notification() {
    let (_engine, contention, name) = door();
    let first = contention.line(&name, PLAIN, true, || true).await.unwrap();
    let before = first.listen(PLAIN);
    assert!(
        before.until_notified(Instant::now() + SOON).await,
        "the task is notified of its subscription"
    );
    first.note_sleep(Instant::now());
    let second = in_line(&contention, &name);
    for _ in 0..2 {
        advance(REQUESTER_IDLE_LIMIT).await;
        contention.check_due_names();
    }
    let second = second.now_or_never().expect("the second task is woken").unwrap();
    let inbox = second.listen(PLAIN);
    assert_eq!(inbox.level(), SubscriptionLevel::Turns);
    contention.receive(Event::Freed { object: name.clone(), queue_notified: false });
    assert!(
        before.until_notified(Instant::now()).await,
        "the first task is notified that it lost its request slot"
    );
    assert!(inbox.until_notified(Instant::now()).await);
    drop(first);
    assert!(second.goes_on());
}

#[tokio::test(start_paused = true)]
async fn task_keeps_its_request_slot_until_its_planned_request() {
    let (_engine, contention, name) = door();
    let first = contention.line(&name, PLAIN, true, || true).await.unwrap();
    assert!(
        first.listen(PLAIN).until_notified(Instant::now() + SOON).await,
        "the task is notified of its subscription"
    );
    first.note_sleep(Instant::now() + TTL);
    let second = in_line(&contention, &name);
    for _ in 0..9 {
        advance(TTL / 10).await;
        contention.check_due_names();
    }
    assert!(second.now_or_never().is_none() && first.goes_on());
}
