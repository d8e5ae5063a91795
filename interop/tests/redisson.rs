//! Surprising behaviour of Redisson, for users who share locks with it.

use std::thread::sleep;
use std::time::Duration;

use interop::{Java, Redisson, Rust, Setup, Together};
use testkit::{Redis, Sentinels, eventually};

/// If `lock()` follows `lock(1500 ms)` on the same `RLock`, `lock()` requests a lease of 1500 ms,
/// and not the 30 s of the watchdog. The first renewal comes only after a third of 30 s.
#[test]
fn rlock_object_remembers_its_last_lease() {
    for redisson in [Redisson::V4, Redisson::V3] {
        let both = Together::differing(|java| java.redisson(redisson), |rust| rust);
        let (java, rust) = (both.java.thread("T1"), both.rust.thread("T1"));
        assert!(java.lock_for("door", MILLI * 1_500).acquired());
        eventually("the lease expires", SECOND * 3, || !rust.is_locked("door").is_true());

        assert!(java.lock("door").acquired());

        let ttl = rust.remain_time_to_live("door").number();
        assert!((1..=1_500).contains(&ttl), "{redisson:?}: {ttl}");
        assert!(rust.try_lock_within("door", SECOND * 5).acquired(), "{redisson:?}");
        assert!(java.unlock("door").failed_with("IllegalMonitorStateException"));

        // Another `RLock` object with the same name does not remember the lease.
        assert!(rust.unlock("door").is_true());
        let other = both.java.thread("T2");
        assert!(other.lock("door").acquired());
        let ttl = rust.remain_time_to_live("door").number();
        assert!((25_000..=30_000).contains(&ttl), "{redisson:?}: {ttl}");
    }
}

/// After a full `unlock()`, the same `RLock` forgets the lease.
#[test]
fn rlock_object_forgets_its_lease_when_it_is_unlocked() {
    let both = Together::start();
    let java = both.java.thread("T1");
    assert!(java.lock_for("door", MILLI * 1_500).acquired());
    assert!(java.unlock("door").is_true());

    assert!(java.lock("door").acquired());

    let ttl = both.rust.thread("T1").remain_time_to_live("door").number();
    assert!((25_000..=30_000).contains(&ttl), "{ttl}");
}

#[test]
fn redisson_watchdog_renews_a_lock_with_a_lease_of_zero() {
    for redisson in [Redisson::V4, Redisson::V3] {
        let redis = Redis::start();
        let java = Java::start(&Setup::new(redis.url()).redisson(redisson).watchdog(SECOND * 3));
        let thread = java.thread("T1");
        assert!(thread.lock_for("door", Duration::ZERO).acquired());
        assert!(thread.try_lock_within_for("window", Duration::ZERO, Duration::ZERO).acquired());

        sleep(SECOND * 4);

        for name in ["door", "window"] {
            assert!(redis_holds(&redis, name), "{redisson:?}: {name} was not renewed");
        }
    }
}

/// Each pair of `lock()` and `unlock()` leaves a timer, and each timer renews every later hold.
#[test]
fn redisson_4_7_renews_more_often_after_earlier_holds() {
    let renewals = |redisson, before: u32| {
        let redis = Redis::start();
        let setup = Setup::new(redis.url()).redisson(redisson).watchdog(SECOND * 3);
        let java = Java::start(&setup);
        let thread = java.thread("T1");
        for _ in 0..before {
            assert!(thread.lock("door").acquired());
            assert!(thread.unlock("door").is_true());
        }
        let monitor = redis.monitor();
        assert!(thread.lock("door").acquired());
        sleep(MILLI * 3_500);
        let lines = monitor.stop();
        let renewals =
            lines.iter().filter(|line| line.contains(" lua] ") && line.contains("pexpire"));
        // The first `PEXPIRE` belongs to the acquisition.
        renewals.count() - 1
    };

    for (redisson, before) in [(Redisson::V3, 0), (Redisson::V3, 10), (Redisson::V4, 0)] {
        let count = renewals(redisson, before);
        assert!((2..=4).contains(&count), "{redisson:?} after {before}: {count}");
    }
    let count = renewals(Redisson::V4, 10);
    assert!(count >= 20, "after ten locks: {count}");
}

/// After a response timeout, Redisson 3.29 repeats the request, and its script counts both
/// requests. A single `unlock()` then does not free the lock.
#[test]
fn redisson_3_29_counts_a_repeated_request_twice() {
    let redis = Redis::start();
    let java = Java::start(&impatient(&redis.url()).redisson(Redisson::V3));
    let rust = Rust::start(&Setup::new(redis.url()));
    let thread = java.thread("T1");
    assert!(thread.lock("warm").acquired());

    redis.pause();
    let pending = thread.start_lock("door");
    sleep(SECOND);
    redis.resume();

    assert!(pending.wait(SECOND * 10).acquired());
    let count: u32 = redis.command(&["HVALS", "door"]).texts()[0].parse().unwrap();
    assert!(count >= 2, "{count}");
    assert!(thread.unlock("door").is_true());
    assert!(
        !rust.thread("T1").try_lock("door").acquired(),
        "the lock is still held after one unlock"
    );
}

/// After a response timeout, Redisson 4.7 throws an exception, and does not repeat the request. The
/// server still executes the request. The lock stays held until its lease ends, but no thread knows
/// of this hold.
#[test]
fn redisson_4_7_leaves_the_lock_held_after_a_call_times_out() {
    let redis = Redis::start();
    let java = Java::start(&impatient(&redis.url()).watchdog(SECOND * 3));
    let rust = Rust::start(&Setup::new(redis.url()));
    let thread = java.thread("T1");
    assert!(thread.lock("warm").acquired());

    redis.pause();
    let pending = thread.start_lock("door");
    sleep(SECOND);
    redis.resume();

    assert!(pending.wait(SECOND * 10).failed_with("RedisResponseTimeoutException"));
    eventually("the server has executed the request", SECOND * 10, || redis_holds(&redis, "door"));
    assert_eq!(redis.command(&["HVALS", "door"]).texts(), ["1"]);
    // No client renews this hold, so it ends with its lease.
    assert!(rust.thread("T1").try_lock_within("door", SECOND * 10).acquired());
}

/// With replicas, Redisson 4.7 sends the script and `WAIT` as one batch. It repeats the batch after
/// a response timeout, or if its connection was closed. The script counts both requests, so a
/// single `unlock()` does not free the lock.
#[test]
fn redisson_4_7_with_replicas_counts_a_repeated_request_twice() {
    let redis = Sentinels::options().replicas(1).start();
    let [primary, replica] = redis.servers() else { panic!("there is one replica") };
    let java = Java::start(&impatient(&redis.url()));
    let rust = Rust::start(&Setup::new(redis.url()));
    let (java, rust) = (java.thread("T1"), rust.thread("T1"));
    let count = |name| primary.command(&["HVALS", name]).texts()[0].parse::<u32>().unwrap();
    assert!(java.lock("warm").acquired());

    // when the server replies late
    primary.pause();
    let pending = java.start_lock("timeout");
    sleep(SECOND * 3);
    primary.resume();
    assert!(pending.wait(SECOND * 20).acquired());

    // and when a connection is closed that waits for the replica
    replica.pause();
    let pending = java.start_lock("closed");
    eventually("the script was executed", SECOND * 10, || redis_holds(primary, "closed"));
    primary.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    replica.resume();
    assert!(pending.wait(SECOND * 20).acquired());

    // then the lock is still held after a release
    for name in ["timeout", "closed"] {
        assert!(count(name) >= 2, "{name}");
        assert!(java.unlock(name).is_true());
        assert!(!rust.try_lock(name).acquired(), "{name} is free");
    }
}

/// The call that timed out has left a hold. If the thread acquires again, the hold count becomes 2,
/// and a release makes the count 1. So the lock stays held.
#[test]
fn redisson_never_frees_a_reentered_hold_of_a_timed_out_call() {
    // given a thread whose `lock()` has thrown, but has left a hold with a lease of three seconds
    let redis = Redis::start();
    let java = Java::start(&impatient(&redis.url()).watchdog(SECOND * 3));
    let rust = Rust::start(&Setup::new(redis.url()));
    let thread = java.thread("T1");
    assert!(thread.lock("warm").acquired());
    redis.pause();
    let pending = thread.start_lock("door");
    sleep(SECOND);
    redis.resume();
    assert!(pending.wait(SECOND * 10).failed_with("RedisResponseTimeoutException"));
    eventually("the server has executed the request", SECOND * 10, || redis_holds(&redis, "door"));

    // when the thread acquires and releases every second
    let waiting = rust.thread("T1").start_lock("door");
    for _ in 0..8 {
        assert!(thread.lock("door").acquired());
        assert!(thread.unlock("door").is_true());
        // then the lock is still held after each release
        assert_eq!(redis.command(&["HVALS", "door"]).texts(), ["1"]);
        sleep(SECOND);
        assert!(!waiting.is_done());
    }

    // and when the thread pauses for a lease, the lock is free
    assert!(waiting.wait(SECOND * 10).acquired());
}

/// Neither the end of a process nor `redisson.shutdown()` releases a lock.
#[test]
fn redisson_shutdown_leaves_locks_to_their_leases() {
    let redis = Redis::start();
    let setup = Setup::new(redis.url()).watchdog(SECOND * 3);
    let (java, rust) = (Java::start(&setup), Rust::start(&setup));
    assert!(java.thread("T1").lock("door").acquired());

    assert!(java.shutdown().success());

    assert!(!rust.thread("T1").try_lock("door").acquired());
    assert!(rust.thread("T1").try_lock_within("door", SECOND * 10).acquired());
}

/// If a lock was deleted, its Java holder notices the loss only when it calls Redisson.
#[test]
fn redisson_reports_no_lost_lock() {
    let both = Together::with(|setup| setup.watchdog(SECOND * 3));
    let (java, rust) = (both.java.thread("T1"), both.rust.thread("T1"));
    assert!(java.lock("theirs").acquired());
    assert!(rust.lock("ours").acquired());
    let lost = rust.start_lost("ours");

    both.redis.command(&["DEL", "theirs", "ours"]);

    // Leasehold notices the loss at the next renewal. Java only stops renewing.
    assert_eq!(lost.wait(SECOND * 10).value(), "NotOwned");
    sleep(SECOND);
    assert!(!redis_holds(&both.redis, "theirs"));
    assert!(java.unlock("theirs").failed_with("IllegalMonitorStateException"));
}

fn impatient(url: &str) -> Setup {
    Setup::new(url).timeout(MILLI * 300).retry_attempts(2)
}

fn redis_holds(redis: &Redis, name: &str) -> bool {
    redis.command(&["EXISTS", name]).number() == 1
}

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
