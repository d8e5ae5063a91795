//! The contract of every store for the wait queue of a lock.

use std::time::Duration;

use tokio::{
    join,
    time::{Instant, sleep},
};

use super::{Bench, NOW, ask_event, freed};
use crate::{
    domain::{Place, ReleaseMode, ReleaseReply, RemoteWaiters, Verdict},
    store::{Event, RESERVATION, WARNED_AFTER},
};

/// Runs every case on `bench`.
pub(super) async fn all(bench: &Bench) {
    release_reserves_the_lock_for_the_queue_head(bench).await;
    reservation_is_short_and_removes_its_entry(bench).await;
    repeated_request_keeps_its_entry_until_it_leaves(bench).await;
    release_notifies_all_if_the_queue_is_empty(bench).await;
    grant_removes_the_queue_entry(bench).await;
    unsubscribed_entry_is_skipped(bench).await;
    leaving_notified_waiter_wakes_the_next(bench).await;
    long_waiter_polls_when_another_client_got_the_lock(bench).await;
    contended_lock_has_yield_windows(bench).await;
    waiter_delayed_by_a_yield_window_acquires_next(bench).await;
    names_with_one_hash_tag_have_separate_queues(bench).await;
}

async fn release_reserves_the_lock_for_the_queue_head(t: &Bench) {
    let [held, first, second] = t.held("turns").await;
    t.queue(&first).await;
    t.queue(&second).await;

    // The second waiter sends its request while the lock is reserved for the first waiter.
    let ((), busy) = join!(t.hand_over_to(&first, &held), t.one.acquire(&second, None));
    assert!(matches!(busy.unwrap(), Verdict::Busy(_)));
    t.received(&ask_event(&held, NOW), 1).await;

    // the notified client sends a request, and holds the lock for its whole ttl
    assert_eq!(t.other.acquire(&first, Some(Place::Listening)).await.unwrap(), Verdict::GRANTED);
    assert_eq!(t.one.held_by(&held.object, &first.owner).await.unwrap(), 1);
    let left = t.one.holder(&held.object).await.unwrap().unwrap().remaining().unwrap();
    assert!(left > RESERVATION, "{left:?}");

    t.hand_over(&first).await;
    t.received(&ask_event(&held, NOW), 2).await;
    assert_eq!(t.other.acquire(&second, Some(Place::Listening)).await.unwrap(), Verdict::GRANTED);
    t.received(&freed(&held), 0).await;
    t.release_without_successor(&second).await;
    t.received(&freed(&held), 1).await;
    t.other.unlisten(&held.object);
}

async fn reservation_is_short_and_removes_its_entry(t: &Bench) {
    let [held, next] = t.held("reserved").await;
    t.queue(&next).await;
    let left = t.hand_over(&held).await.unwrap().remaining().unwrap();
    assert!(left <= RESERVATION, "{left:?}");
    sleep(RESERVATION + Duration::from_millis(20)).await;
    assert_eq!(t.owner_of(&held).await, None);

    // the notified client sends no request, so the next release does not reserve the lock for this
    // client again
    t.grant(&held).await;
    t.release_without_successor(&held).await;
    t.other.unlisten(&held.object);
}

async fn repeated_request_keeps_its_entry_until_it_leaves(t: &Bench) {
    let [held, first, second, third] = t.held("places").await;
    for claim in [&first, &second, &third] {
        t.queue(claim).await;
    }
    t.queue(&second).await;
    t.queue_by(&second, Place::Kept).await;
    let left = t.other.release(&first, ReleaseMode::HandOver).await.unwrap();
    assert!(matches!(left, ReleaseReply::NotHeld { holder: Some(_) }), "{left:?}");

    for (gives, next) in [(&held, &second), (&second, &third)] {
        t.hand_over_to(next, gives).await;
        assert_eq!(t.other.acquire(next, Some(Place::Kept)).await.unwrap(), Verdict::GRANTED);
    }
    t.release_without_successor(&third).await;
    t.other.unlisten(&held.object);
}

async fn release_notifies_all_if_the_queue_is_empty(t: &Bench) {
    let [claim] = t.held("nobody-queues").await;
    t.hand_over(&claim).await;
    t.received(&freed(&claim), 1).await;
    assert_eq!(t.owner_of(&claim).await, None);
    t.other.unlisten(&claim.object);
}

async fn grant_removes_the_queue_entry(t: &Bench) {
    for place in [Place::Listening, Place::Kept] {
        let [held, next, last] = t.held(&format!("asked-for-{place:?}")).await;
        t.queue(&next).await;
        t.broadcast(&held).await;
        assert_eq!(t.other.acquire(&next, Some(place)).await.unwrap(), Verdict::GRANTED);
        // the entry of `next` is gone, so the next hand-over finds an empty queue
        t.broadcast(&next).await;
        t.grant(&last).await;
        t.release_without_successor(&last).await;
        t.other.unlisten(&held.object);
    }
}

async fn unsubscribed_entry_is_skipped(t: &Bench) {
    let [held, gone] = t.held("gone").await;
    t.queue(&gone).await;
    t.other.unlisten(&held.object);
    let limit = Instant::now() + Duration::from_secs(10);
    // The server counts the client as a subscriber until it has executed the unsubscribe.
    while t.hand_over(&held).await.is_some() {
        assert!(
            Instant::now() < limit,
            "the lock is still reserved for a client that unsubscribed"
        );
        t.broadcast(&gone).await;
        t.grant(&held).await;
        t.queue(&gone).await;
        sleep(Duration::from_millis(10)).await;
    }
}

async fn leaving_notified_waiter_wakes_the_next(t: &Bench) {
    let [held, first, second] = t.held("notified-and-gone").await;
    t.queue(&first).await;
    t.queue(&second).await;
    // the first waiter leaves while the lock is reserved for it
    join!(t.hand_over_to(&first, &held), t.hand_over_to(&second, &first));
    t.received(&ask_event(&held, NOW), 2).await;

    // the first waiter leaves while the lock is free
    let [held, first, second] = t.held("free-and-gone").await;
    t.queue(&first).await;
    t.queue(&second).await;
    t.broadcast(&held).await;
    let left = t.other.release(&first, ReleaseMode::HandOver).await.unwrap();
    assert_eq!(left, ReleaseReply::NotHeld { holder: None });
    t.received(&freed(&held), 2).await;
    t.other.unlisten(&held.object);
}

async fn long_waiter_polls_when_another_client_got_the_lock(t: &Bench) {
    let [held, first, second] = t.held("second").await;
    let look = ask_event(&held, RESERVATION);
    t.queue(&first).await;
    sleep(WARNED_AFTER + Duration::from_millis(20)).await;
    let came = Instant::now();
    t.queue(&second).await;
    // a release does not notify `second` if it joined the queue recently
    t.hand_over(&held).await;
    let lately = came.elapsed() < WARNED_AFTER;
    t.grant(&first).await;
    t.queue(&held).await;
    sleep(WARNED_AFTER + Duration::from_millis(20)).await;
    let given = t.one.release(&first, ReleaseMode::HandOver).await.unwrap();
    assert!(matches!(given, ReleaseReply::Freed(_)), "{given:?}");
    t.until_received(1, |event| *event == look).await;
    assert!(t.count(&look) == 1 || !lately, "notified too often");
    t.other.unlisten(&held.object);
}

async fn contended_lock_has_yield_windows(t: &Bench) {
    let [mut held, mut next] = t.held("on-and-on").await;
    let began = Instant::now();
    let (mut gaps, mut reserved) = (0, 0);
    while gaps == 0 || began.elapsed() < Duration::from_millis(1_500) {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "no yield window, {reserved} reservations"
        );
        t.queue(&next).await;
        match t.one.release(&held, ReleaseMode::HandOver).await.unwrap() {
            ReleaseReply::Freed(RemoteWaiters::Nobody) => reserved += 1,
            ReleaseReply::Freed(RemoteWaiters::Next(gap)) => {
                assert!(gap >= Duration::from_millis(2) && gap <= Duration::from_millis(16));
                assert_eq!(t.owner_of(&held).await, None);
                gaps += 1;
                let (short, long) = (Duration::from_millis(2), Duration::from_millis(16));
                let of_a_gap = |event: &Event| {
                    matches!(event, Event::Ask { object, after }
                        if *object == held.object && *after >= short && *after <= long)
                };
                t.until_received(gaps, of_a_gap).await;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(t.other.acquire(&next, Some(Place::Kept)).await.unwrap(), Verdict::GRANTED);
        sleep(Duration::from_millis(5)).await;
        std::mem::swap(&mut held, &mut next);
    }
    // Windows take at most a fiftieth of the time, which is 2 ms in 100 ms, or 16 ms in 800 ms.
    // After a window, the next release always reserves the lock.
    let most = usize::try_from(began.elapsed().as_millis() / 100).unwrap() + 1;
    assert!(gaps <= most && reserved > gaps, "{gaps} yield windows, {reserved} reservations");
    t.broadcast(&held).await;
    t.other.unlisten(&held.object);
}

async fn waiter_delayed_by_a_yield_window_acquires_next(t: &Bench) {
    // The holds are so long that a window is due at each release.
    let long = Duration::from_millis(850);
    let [held, first, second, third] = t.held("passed-over").await;
    t.queue(&first).await;
    t.queue(&second).await;
    t.hand_over_to(&first, &held).await;
    t.grant(&first).await;
    sleep(long).await;
    t.yields(&first).await;

    // A client without a queue entry acquires the lock in that window. The release of this client
    // reserves the lock for `second`, which the window has delayed.
    t.grant(&held).await;
    t.queue(&third).await;
    sleep(long).await;
    t.hand_over_to(&second, &held).await;

    // No window has delayed `third`, so a window may open before `third` acquires.
    t.grant(&second).await;
    sleep(long).await;
    t.yields(&second).await;
    assert_eq!(t.other.acquire(&third, Some(Place::Kept)).await.unwrap(), Verdict::GRANTED);
    t.broadcast(&third).await;
    t.other.unlisten(&held.object);
}

async fn names_with_one_hash_tag_have_separate_queues(t: &Bench) {
    let [plain] = t.held("tagged").await;
    let [braced, waits] = t.held("{tagged}").await;
    t.queue(&waits).await;
    t.release_without_successor(&plain).await;
    t.hand_over_to(&waits, &braced).await;
    t.received(&ask_event(&plain, NOW), 0).await;
    t.received(&ask_event(&braced, NOW), 1).await;
    [&plain, &braced].iter().for_each(|claim| t.other.unlisten(&claim.object));
}
