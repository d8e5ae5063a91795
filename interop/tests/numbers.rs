//! Semaphores and latches of both languages use the same number and the same channel, and notify
//! each other. In Java, these are `RSemaphore` and `RCountDownLatch`.

use std::thread::sleep;
use std::time::Duration;

use interop::{
    AT_ONCE, Contenders, Java, Kind, Pair, Report, Rust, Setup, Together, Way, shown, wake_up,
    woken,
};
use testkit::{Monitor, Redis, eventually};

const SECOND: Duration = Duration::from_secs(1);
const SEMAPHORE: &str = "redisson_sc:{pool}";
const LATCH: &str = "redisson_countdownlatch__channel__{start}";

/// Returns a holder and a waiter for each direction, with semaphores.
fn semaphores(both: &Together) -> [Pair; 2] {
    [Way::RustToJava, Way::JavaToRust].map(|way| both.pair(way, Kind::Semaphore))
}

/// Returns a holder and a waiter for each direction, with latches.
fn latches(both: &Together) -> [Pair; 2] {
    [Way::RustToJava, Way::JavaToRust].map(|way| both.pair(way, Kind::Latch))
}

/// Waits until a client is subscribed to `channel`, has sent one more request, and sleeps.
#[track_caller]
fn until_asleep(redis: &Redis, channel: &str) {
    eventually("a waiter is subscribed", SECOND * 10, || {
        redis.command(&["PUBSUB", "NUMSUB", channel]).list()[1].number() == 1
    });
    sleep(SECOND / 5);
}

/// Stops `monitor`, and returns the messages on channels of Redisson.
fn output(monitor: Monitor) -> Vec<String> {
    let lines = monitor.stop();
    let output = lines.iter().filter_map(|line| line.split_once(r#""PUBLISH" "redisson"#));
    output.map(|(_, words)| format!("redisson{}", words.replace('"', ""))).collect()
}

#[test]
fn semaphore_release_wakes_a_waiter_of_the_other_language() {
    let both = Together::start();
    for Pair { way, holder, waiter, .. } in semaphores(&both) {
        holder.set_permits("pool", 3);
        let mut slowest = Duration::ZERO;
        for _ in 0..5 {
            assert!(holder.acquire("pool", 3).acquired());
            let waiting = waiter.start_acquire("pool", 2);
            until_asleep(&both.redis, SEMAPHORE);
            let left = holder.release("pool", 3);
            slowest = slowest.max(wake_up(&left, &waiting.wait(SECOND * 10)));
            assert!(slowest < AT_ONCE, "{way}: woken after {slowest:?}");
            assert_eq!(holder.free_permits("pool"), 1);
            assert!(waiter.release("pool", 2).is_true());
        }
        assert!(waiter.delete("pool").is_true());
        woken(
            "semaphore: a waiter is woken by the release of the other (slowest of 5)",
            way,
            slowest,
        );
    }
}

#[test]
fn java_and_rust_count_the_same_semaphore_permits() {
    let both = Together::start();
    for Pair { way, holder, waiter, .. } in semaphores(&both) {
        assert!(holder.set_permits("pool", 10).is_true());
        assert!(!waiter.set_permits("pool", 5).is_true());
        assert!(holder.acquire("pool", 4).acquired());
        assert_eq!(waiter.free_permits("pool"), 6);
        assert!(!waiter.try_acquire("pool", 7).acquired());
        assert!(!waiter.acquire_within("pool", 7, SECOND / 2).acquired());
        assert!(waiter.try_acquire("pool", 6).acquired());
        assert!(holder.add_permits("pool", -5).is_true());
        assert_eq!(waiter.free_permits("pool"), -5);
        assert!(waiter.release("pool", 6).is_true());
        assert!(holder.release("pool", 4).is_true());
        assert_eq!(holder.drain_permits("pool"), 5);
        assert_eq!(waiter.drain_permits("pool"), 0);
        // A client may release permits that the other client holds.
        assert!(holder.release("pool", 2).is_true());
        assert!(waiter.delete("pool").is_true());
        assert_eq!(holder.free_permits("pool"), 0);
        shown("semaphore: one number of permits, also below 0", way);
    }
}

#[test]
fn semaphore_calls_return_the_same_numbers_in_java_and_rust() {
    let both = Together::start();
    let mut reported = Vec::new();
    for Pair { holder, .. } in semaphores(&both) {
        let monitor = both.redis.monitor();
        let number = || both.redis.command(&["GET", "pool"]).text().to_owned();
        let mut numbers = Vec::new();
        holder.set_permits("pool", 3);
        numbers.push(number());
        holder.acquire("pool", 2);
        numbers.push(number());
        holder.release("pool", 2);
        holder.add_permits("pool", 4);
        numbers.push(number());
        holder.drain_permits("pool");
        numbers.push(number());
        assert_eq!(both.redis.command(&["PTTL", "pool"]).number(), -1);
        holder.delete("pool");
        reported.push((numbers, output(monitor)));
    }
    assert_eq!(reported[0], reported[1]);
    assert_eq!(reported[0].1, [3, 3, 7].map(|free| format!("{SEMAPHORE} {free}")));
    shown("record: a semaphore is one number, published on one channel", Way::RustToJava);
    shown("record: a semaphore is one number, published on one channel", Way::JavaToRust);
}

#[test]
fn negative_permit_counts_are_not_published_to_java_waiters() {
    let both = Together::start();
    let [pair, _] = semaphores(&both);
    let (rust, java) = (pair.holder, pair.waiter);
    rust.set_permits("pool", 1);
    assert!(rust.acquire("pool", 1).acquired());
    let waiting = java.start_acquire("pool", 1);
    until_asleep(&both.redis, SEMAPHORE);
    let monitor = both.redis.monitor();
    assert!(rust.add_permits("pool", -2).is_true());
    assert!(rust.add_permits("pool", 2).is_true());
    assert!(rust.release("pool", 1).is_true());
    assert!(waiting.wait(SECOND * 10).acquired());
    assert_eq!(output(monitor)[..2], [0, 1].map(|free| format!("{SEMAPHORE} {free}")));
    shown("semaphore: no number below 0 is published", Way::RustToJava);
}

#[test]
fn java_and_rust_with_one_permit_lose_no_increment() {
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let (java, rust) = (Java::start(&setup), Rust::start(&setup));
    redis.command(&["SET", "pool", "1"]);
    let contenders =
        Contenders::new("pool", "counter", 3).rounds(60).hold(Duration::from_millis(1));
    let ours = rust.thread("crowd").semaphores().start_contenders(&contenders);
    let theirs = java.thread("crowd").semaphores().start_contenders(&contenders);
    let [ours, theirs] = [ours, theirs].map(|it| Report::read(&it.wait(SECOND * 50)));
    assert_eq!((ours.total, theirs.total), (180, 180));
    assert_eq!(redis.command(&["GET", "counter"]).text(), "360");
    assert_eq!(redis.command(&["GET", "pool"]).text(), "1");
    shown("crowd: one permit of a semaphore loses nothing", Way::RustToJava);
    shown("crowd: one permit of a semaphore loses nothing", Way::JavaToRust);
}

#[test]
fn semaphore_permits_of_a_killed_process_stay_acquired() {
    let Together { redis, mut java, mut rust } = Together::start();
    let (ours, theirs) = (rust.thread("T1").semaphores(), java.thread("T1").semaphores());
    ours.set_permits("pool", 2);
    assert!(ours.acquire("pool", 2).acquired());
    rust.kill();
    sleep(SECOND);
    assert!(!theirs.try_acquire("pool", 1).acquired());
    assert!(theirs.add_permits("pool", 2).is_true());
    assert!(theirs.acquire("pool", 2).acquired());
    assert_eq!(redis.command(&["GET", "pool"]).text(), "0");

    // The other direction: Java holds the permits, and is killed.
    let rust = Rust::start(&Setup::new(redis.url()));
    let ours = rust.thread("T1").semaphores();
    let waiting = ours.start_acquire("pool", 2);
    until_asleep(&redis, SEMAPHORE);
    java.kill();
    sleep(SECOND);
    assert!(!waiting.is_done());
    assert!(rust.thread("T2").semaphores().add_permits("pool", 2).is_true());
    assert!(waiting.wait(SECOND * 10).acquired());
    shown("semaphore: permits of a killed process stay acquired", Way::RustToJava);
    shown("semaphore: permits of a killed process stay acquired", Way::JavaToRust);
}

#[test]
fn waiter_passes_a_latch_that_the_other_language_opens() {
    let both = Together::start();
    for Pair { way, holder, waiter, .. } in latches(&both) {
        assert!(holder.set_count("start", 2).is_true());
        assert!(!waiter.set_count("start", 5).is_true());
        assert!(!waiter.await_within("start", SECOND / 2).acquired());
        let waiting = waiter.start_await("start");
        until_asleep(&both.redis, LATCH);
        assert!(holder.count_down("start").is_true());
        assert_eq!(holder.count("start"), 1);
        assert!(!waiting.is_done());
        let opened = holder.count_down("start");
        let delay = wake_up(&opened, &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{way}: woken after {delay:?}");
        assert_eq!((holder.count("start"), waiter.count("start")), (0, 0));
        assert!(waiter.count_down("start").is_true());
        assert!(waiter.start_await("start").wait(SECOND * 5).acquired());
        woken("latch: a waiter passes when the other counts it down", way, delay);
    }
}

#[test]
fn latch_calls_return_the_same_numbers_in_java_and_rust() {
    let both = Together::start();
    let mut reported = Vec::new();
    for Pair { holder, .. } in latches(&both) {
        let monitor = both.redis.monitor();
        holder.set_count("start", 2);
        let number = both.redis.command(&["GET", "start"]).text().to_owned();
        holder.count_down("start");
        holder.count_down("start");
        holder.count_down("start");
        assert_eq!(both.redis.command(&["EXISTS", "start"]).number(), 0);
        reported.push((number, output(monitor)));
    }
    assert_eq!(reported[0], reported[1]);
    assert_eq!(reported[0].1, [1, 0].map(|message| format!("{LATCH} {message}")));
    shown("record: a latch is one number, published on one channel", Way::RustToJava);
    shown("record: a latch is one number, published on one channel", Way::JavaToRust);
}

/// Redisson's own `delete()` of a latch does not wake waiters. Leasehold's `delete` wakes them.
#[test]
fn deleted_latch_wakes_waiters_of_the_other_language() {
    let both = Together::start();
    for Pair { way, holder, waiter, .. } in latches(&both) {
        assert!(holder.set_count("start", 2).is_true());
        let waiting = waiter.start_await("start");
        until_asleep(&both.redis, LATCH);
        let deleted = holder.delete("start");
        assert!(deleted.is_true());
        let delay = wake_up(&deleted, &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{way}: woken after {delay:?}");
        // A new latch is closed for both clients.
        assert!(holder.set_count("start", 1).is_true());
        assert!(!waiter.await_within("start", SECOND / 2).acquired());
        assert!(holder.count_down("start").is_true());
        woken("latch: a waiter passes when the other language deletes it", way, delay);
    }
}
