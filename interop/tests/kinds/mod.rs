//! The tests of kinds other than the plain lock, for every deployment.
//!
//! Each test adds a row to the table of results. Each test uses both processes, and releases all
//! its holds.

use std::thread;
use std::time::{Duration, Instant};

use interop::{AT_ONCE, Kind, Pair, Servers, Together, Way, wake_up, woken};
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);

/// One language holds the kind `held`, and the other language waits for the kind `wanted`. The
/// release wakes the waiter.
#[track_caller]
pub(crate) fn readers_and_writers_wake_each_other<S: Servers>(both: &Together<S>) {
    for (way, [held, wanted]) in WAYS.into_iter().flat_map(|way| IN_THE_WAY.map(|it| (way, it))) {
        let Pair { holder, waiter, .. } = both.pair(way, held);
        let waiter = waiter.of(wanted);
        assert!(holder.lock("book").acquired());
        assert!(
            !waiter.try_lock("book").acquired(),
            "{wanted} is refused while {held} is held, {way}"
        );
        let waiting = waiter.start_lock("book");
        both.redis.until_asleep(held, "book", 1);
        let delay = wake_up(&holder.unlock("book"), &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{wanted} is woken after {held}, {way}: {delay:?}");
        assert!(waiter.unlock("book").is_true());
        // After its last waiter, Leasehold stays subscribed for two to three seconds.
        both.redis.until_asleep(held, "book", 0);
        woken(&both.redis.row(wanted, &format!("after {held}, by message")), way, delay);
    }
}

#[track_caller]
pub(crate) fn permits_of_a_semaphore_wake_the_other<S: Servers>(both: &Together<S>) {
    for way in WAYS {
        let Pair { kind, holder, waiter, .. } = both.pair(way, Kind::Semaphore);
        assert!(holder.set_permits("pool", 3).is_true());
        assert!(holder.acquire("pool", 3).acquired());
        assert!(!waiter.try_acquire("pool", 1).acquired());
        let waiting = waiter.start_acquire("pool", 2);
        both.redis.until_asleep(kind, "pool", 1);
        let delay = wake_up(&holder.release("pool", 3), &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{way}: woken after {delay:?}");
        assert!(waiter.delete("pool").is_true());
        both.redis.until_asleep(kind, "pool", 0);
        woken(&both.redis.row(kind, "a waiter is woken by the other's release"), way, delay);
    }
}

#[track_caller]
pub(crate) fn a_latch_lets_the_other_pass<S: Servers>(both: &Together<S>) {
    for way in WAYS {
        let Pair { kind, holder, waiter, .. } = both.pair(way, Kind::Latch);
        assert!(holder.set_count("start", 1).is_true());
        assert!(!waiter.await_within("start", SECOND / 5).acquired());
        let waiting = waiter.start_await("start");
        both.redis.until_asleep(kind, "start", 1);
        assert!(!waiting.is_done());
        let opened = holder.count_down("start");
        let delay = wake_up(&opened, &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{way}: woken after {delay:?}");
        both.redis.until_asleep(kind, "start", 0);
        woken(&both.redis.row(kind, "the other passes when it is counted down"), way, delay);
    }
}

/// Tests expirable permits. The Leasehold client is in the process of the test.
#[track_caller]
pub(crate) fn permits_that_expire_go_from_one_to_the_other<S: Servers>(both: &Together<S>) {
    let client = leasehold::blocking::Client::connect(&both.redis.place()).unwrap();
    let row = format!("{}permits: a waiter is woken by a release", S::PLACE);
    let (ours, theirs) = (client.expirable_semaphore("seats").unwrap(), both.java.thread("seats"));
    assert!(ours.set_if_absent(1).unwrap());
    let guard = ours.acquire().unwrap();
    assert!(!theirs.permits("tryAcquire", "seats", json!({})).acquired());

    let waiting = theirs.start_permits("acquire", "seats", json!({}));
    both.redis.until_asleep(Kind::Semaphore, "seats", 1);
    let begun = Instant::now();
    assert_eq!(guard.release().unwrap(), leasehold::Release::Released);
    let granted = waiting.wait(SECOND * 10);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    woken(&row, Way::RustToJava, begun.elapsed());

    let waiting = thread::spawn(move || ours.acquire_within(SECOND * 30).unwrap());
    both.redis.until_asleep(Kind::Semaphore, "seats", 1);
    assert!(!waiting.is_finished());
    let begun = Instant::now();
    let permit = granted.value()["ids"][0].clone();
    assert!(theirs.permits("release", "seats", json!({ "permit": permit })).is_true());
    assert_eq!(waiting.join().unwrap().release().unwrap(), leasehold::Release::Released);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    woken(&row, Way::JavaToRust, begun.elapsed());
}

const WAYS: [Way; 2] = [Way::RustToJava, Way::JavaToRust];

/// Pairs of kinds that exclude each other.
const IN_THE_WAY: [[Kind; 2]; 3] =
    [[Kind::Read, Kind::Write], [Kind::Write, Kind::Read], [Kind::Write, Kind::Write]];
