//! `RFairLock` and Leasehold's fair lock: one queue has the waiters of both languages.

use std::thread::sleep;
use std::time::{Duration, Instant};

use interop::{AT_ONCE, Pending, Thread, Together, Way, shown, wake_up, woken};
use testkit::{Redis, eventually};

const SECOND: Duration = Duration::from_secs(1);

const QUEUE: &str = "redisson_lock_queue:{door}";
const DEADLINES: &str = "redisson_lock_timeout:{door}";
const ALIVE: &str = "leasehold_fair__alive:{door}";

/// The owners in the queue.
fn queue(redis: &Redis) -> Vec<String> {
    redis.command(&["LRANGE", QUEUE, "0", "-1"]).texts().into_iter().map(str::to_owned).collect()
}

/// Starts a thread that waits. Returns when this thread is at the end of the queue.
fn queues(redis: &Redis, thread: &Thread) -> Pending {
    let before = queue(redis).len();
    let waiting = thread.start_lock("door");
    eventually("the waiter is in the queue", SECOND * 10, || queue(redis).len() == before + 1);
    waiting
}

/// Asserts that the owners in the queue, and no others, have a deadline in the future.
fn is_whole(redis: &Redis) {
    let now = redis.command(&["TIME"]);
    let now = now.texts()[0].parse::<f64>().unwrap() * 1_000.0;
    let owners = queue(redis);
    assert_eq!(redis.command(&["ZCARD", DEADLINES]).number(), owners.len() as i64);
    for owner in owners {
        let deadline: f64 = redis.command(&["ZSCORE", DEADLINES, &owner]).text().parse().unwrap();
        assert!(deadline > now, "{owner}: {deadline} at {now}");
    }
}

fn nothing_stays(redis: &Redis) {
    let keys = || redis.command(&["KEYS", "*"]).texts().len();
    eventually("no key is left", SECOND * 10, || keys() == 0);
}

/// Releases the first hold, and asserts that the waiters acquire in this order.
fn in_order(redis: &Redis, holder: &Thread, waiting: Vec<(Thread, Pending)>) {
    let mut left = holder.unlock("door");
    let mut waiting = waiting.into_iter().peekable();
    while let Some((thread, pending)) = waiting.next() {
        let entered = pending.wait(SECOND * 10);
        assert!(wake_up(&left, &entered) < AT_ONCE, "{:?}", wake_up(&left, &entered));
        assert!(waiting.peek().is_none_or(|(_, next)| !next.is_done()));
        is_whole(redis);
        left = thread.unlock("door");
    }
    nothing_stays(redis);
}

#[test]
fn fair_lock_serves_java_and_rust_waiters_in_order_of_arrival() {
    let both = Together::start();
    let redis = &both.redis;
    let thread = |java: bool, name: &str| match java {
        true => both.java.thread(name).fair(),
        false => both.rust.thread(name).fair(),
    };
    for (round, order) in
        [[true, false, false, true, true, false], [false, true, false, false, true, true]]
            .into_iter()
            .enumerate()
    {
        let holder = thread(round == 0, "holder");
        assert!(holder.lock("door").acquired());
        let waiting: Vec<_> = order
            .into_iter()
            .enumerate()
            .map(|(place, java)| {
                let waiter = thread(java, &format!("waiter-{place}"));
                let pending = queues(redis, &waiter);
                is_whole(redis);
                (waiter, pending)
            })
            .collect();
        in_order(redis, &holder, waiting);
    }
    shown("fair: one order for waiters of both", Way::RustToJava);
    shown("fair: one order for waiters of both", Way::JavaToRust);
}

#[test]
fn release_wakes_the_queue_head_of_the_other_language() {
    let both = Together::start();
    for (way, holder, waiter) in [
        (Way::RustToJava, both.rust.thread("holder").fair(), both.java.thread("waiter").fair()),
        (Way::JavaToRust, both.java.thread("holder").fair(), both.rust.thread("waiter").fair()),
    ] {
        assert!(holder.lock("door").acquired());
        assert!(!waiter.try_lock("door").acquired());
        assert!(queue(&both.redis).is_empty(), "a try leaves no queue entry");
        let waiting = queues(&both.redis, &waiter);
        // After this pause, the waiter is subscribed.
        sleep(SECOND / 2);
        let left = holder.unlock("door");
        let delay = wake_up(&left, &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{way}: {delay:?}");
        assert!(waiter.unlock("door").is_true());
        woken("fair: the head is woken by a release", way, delay);
        nothing_stays(&both.redis);
    }
}

#[test]
fn timed_out_waiter_leaves_the_queue_of_both_languages() {
    let both = Together::start();
    for (way, leaves, next) in [
        (Way::RustToJava, both.rust.thread("leaves").fair(), both.java.thread("next").fair()),
        (Way::JavaToRust, both.java.thread("leaves").fair(), both.rust.thread("next").fair()),
    ] {
        let holder = both.rust.thread("holder").fair();
        assert!(holder.lock("door").acquired());
        let short = leaves.start_try_lock_within("door", SECOND);
        eventually("the first waiter is in the queue", SECOND, || queue(&both.redis).len() == 1);
        let waiting = queues(&both.redis, &next);
        assert!(!short.wait(SECOND * 10).acquired());
        eventually("the first waiter leaves the queue", SECOND, || queue(&both.redis).len() == 1);
        is_whole(&both.redis);
        in_order(&both.redis, &holder, vec![(next, waiting)]);
        shown("fair: a waiter that times out leaves the queue", way);
    }
}

/// Another Leasehold process drops the dead waiter, and notifies the Java waiter behind it.
#[test]
fn killed_rust_waiter_leaves_the_fair_queue_within_seconds() {
    let mut both = Together::start();
    let (holder, java) = (both.java.thread("holder").fair(), both.java.thread("waiter").fair());
    let other = interop::Rust::start(&interop::Setup::new(both.redis.url()));
    let rust = other.thread("waiter").fair();
    assert!(holder.lock("door").acquired());
    let dead = queues(&both.redis, &both.rust.thread("dead").fair());
    let (first, second) = (queues(&both.redis, &java), queues(&both.redis, &rust));
    both.rust.kill();
    drop(dead);

    let start = Instant::now();
    assert!(holder.unlock("door").is_true());
    // With only Java clients, the dead waiter would block the queue for minutes.
    assert!(first.wait(SECOND * 20).acquired());
    assert!(start.elapsed() < SECOND * 9, "{:?}", start.elapsed());
    assert!(!second.is_done());
    is_whole(&both.redis);
    in_order(&both.redis, &java, vec![(rust, second)]);
    shown("fair: a dead waiter of Leasehold is dropped", Way::JavaToRust);
}

#[test]
fn killed_java_waiter_leaves_the_fair_queue_after_its_timeout() {
    let mut both = Together::start();
    let (holder, rust) = (both.rust.thread("holder").fair(), both.rust.thread("waiter").fair());
    assert!(holder.lock_for("door", SECOND * 2).acquired());
    let dead = both.java.thread("dead").fair().start_try_lock_within("door", SECOND * 4);
    eventually("the Java waiter is in the queue", SECOND, || queue(&both.redis).len() == 1);
    let waiting = queues(&both.redis, &rust);
    both.java.kill();
    drop(dead);

    // The dead waiter is dropped at its deadline. This deadline is the sum of the rest of the lease
    // and the timeout of the waiter.
    let start = Instant::now();
    let entered = waiting.wait(SECOND * 20);
    assert!(entered.acquired());
    assert!((3..9).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert!(rust.unlock("door").is_true());
    nothing_stays(&both.redis);
    shown("fair: a dead waiter of Redisson is dropped", Way::JavaToRust);
}

#[test]
fn fair_locks_and_plain_locks_exclude_each_other() {
    let both = Together::start();
    for (way, fair, plain) in [
        (Way::RustToJava, both.rust.thread("fair").fair(), both.java.thread("plain")),
        (Way::JavaToRust, both.java.thread("fair").fair(), both.rust.thread("plain")),
    ] {
        assert!(fair.lock("door").acquired());
        assert!(!plain.try_lock("door").acquired());
        assert!(fair.unlock("door").is_true());
        assert!(plain.lock("door").acquired());
        assert!(!fair.try_lock("door").acquired());
        assert!(plain.unlock("door").is_true());
        shown("fair: excludes plain locks", way);
    }
}

#[test]
fn fair_rust_waiter_uses_redissons_keys_and_one_heartbeat_key() {
    let both = Together::start();
    let holder = both.java.thread("holder").fair();
    assert!(holder.lock("door").acquired());
    let waiting = queues(&both.redis, &both.rust.thread("waiter").fair());
    let mut keys: Vec<_> =
        both.redis.command(&["KEYS", "*"]).texts().into_iter().map(str::to_owned).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["door", ALIVE, QUEUE, DEADLINES]);
    assert!(both.redis.command(&["PTTL", ALIVE]).number() > 0);
    assert!(holder.unlock("door").is_true());
    assert!(waiting.wait(SECOND * 10).acquired());
    assert!(both.rust.thread("waiter").fair().unlock("door").is_true());
    nothing_stays(&both.redis);
}
