//! What the real Redisson does that nobody would expect, and that whoever shares locks with it
//! must know.

use std::thread::sleep;
use std::time::Duration;

use interop::{Java, Redisson, Rust, Setup, Together};
use testkit::{Redis, eventually};

/// `lock()` after `lock(1500 ms)` on one `RLock` asks for 1500 ms, not for the watchdog's 30 s,
/// and its first renewal comes only after a third of the latter.
#[test]
fn rlock_object_remembers_its_last_lease() {
    for redisson in [Redisson::V4, Redisson::V3] {
        let both = Together::differing(|java| java.redisson(redisson), |rust| rust);
        let (java, rust) = (both.java.thread("T1"), both.rust.thread("T1"));
        assert!(java.lock_for("door", MILLI * 1_500).acquired());
        eventually("the lease ends", SECOND * 3, || !rust.is_locked("door").is_true());

        assert!(java.lock("door").acquired());

        let ttl = rust.remain_time_to_live("door").number();
        assert!((1..=1_500).contains(&ttl), "{redisson:?}: {ttl}");
        assert!(rust.try_lock_within("door", SECOND * 5).acquired(), "{redisson:?}");
        assert!(java.unlock("door").failed_with("IllegalMonitorStateException"));

        // Another object of the same name knows nothing of it.
        assert!(rust.unlock("door").is_true());
        let other = both.java.thread("T2");
        assert!(other.lock("door").acquired());
        let ttl = rust.remain_time_to_live("door").number();
        assert!((25_000..=30_000).contains(&ttl), "{redisson:?}: {ttl}");
    }
}

/// The same, with a lock that was given back: a full `unlock()` makes it forget.
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
fn lease_of_zero_means_the_watchdog() {
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

/// Each `lock()` and `unlock()` leaves a timer that renews whatever is held later.
#[test]
fn redisson_4_7_renews_more_often_the_more_it_has_locked() {
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
        // The first one is the acquisition's.
        renewals.count() - 1
    };

    for (redisson, before) in [(Redisson::V3, 0), (Redisson::V3, 10), (Redisson::V4, 0)] {
        let count = renewals(redisson, before);
        assert!((2..=4).contains(&count), "{redisson:?} after {before}: {count}");
    }
    let count = renewals(Redisson::V4, 10);
    assert!(count >= 20, "after ten locks: {count}");
}

/// Redisson 3.29 asks again after a response timeout, and its script counts each time: one
/// `unlock()` does not free the lock then.
#[test]
fn redisson_3_29_asks_twice_and_counts_two() {
    let redis = Redis::start();
    let java = Java::start(&impatient(&redis).redisson(Redisson::V3));
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
    assert!(!rust.thread("T1").try_lock("door").acquired(), "free after one unlock");
}

/// Redisson 4.7 does not ask again, and throws. The server executes the command all the same:
/// the lock is held by nobody for the rest of its lease.
#[test]
fn redisson_4_7_may_leave_an_orphan_when_it_throws() {
    let redis = Redis::start();
    let java = Java::start(&impatient(&redis).watchdog(SECOND * 3));
    let rust = Rust::start(&Setup::new(redis.url()));
    let thread = java.thread("T1");
    assert!(thread.lock("warm").acquired());

    redis.pause();
    let pending = thread.start_lock("door");
    sleep(SECOND);
    redis.resume();

    assert!(pending.wait(SECOND * 10).failed_with("RedisResponseTimeoutException"));
    eventually("the server has executed it", SECOND * 10, || redis_holds(&redis, "door"));
    assert_eq!(redis.command(&["HVALS", "door"]).texts(), ["1"]);
    // It is not renewed, so it ends.
    assert!(rust.thread("T1").try_lock_within("door", SECOND * 10).acquired());
}

/// Its own thread takes it for a hold of its own, and gives one of two back.
#[test]
fn reentered_orphan_hold_is_never_free() {
    // given a thread whose lock() has thrown, and left an orphan for three seconds
    let redis = Redis::start();
    let java = Java::start(&impatient(&redis).watchdog(SECOND * 3));
    let rust = Rust::start(&Setup::new(redis.url()));
    let thread = java.thread("T1");
    assert!(thread.lock("warm").acquired());
    redis.pause();
    let pending = thread.start_lock("door");
    sleep(SECOND);
    redis.resume();
    assert!(pending.wait(SECOND * 10).failed_with("RedisResponseTimeoutException"));
    eventually("the server has executed it", SECOND * 10, || redis_holds(&redis, "door"));

    // when it comes back each second, and gives back what it has
    let waiting = rust.thread("T1").start_lock("door");
    for _ in 0..8 {
        assert!(thread.lock("door").acquired());
        assert!(thread.unlock("door").is_true());
        // then the lock is held all the same
        assert_eq!(redis.command(&["HVALS", "door"]).texts(), ["1"]);
        sleep(SECOND);
        assert!(!waiting.is_done());
    }

    // and when it rests for a lease it is free
    assert!(waiting.wait(SECOND * 10).acquired());
}

/// Neither the end of a process nor `redisson.shutdown()` gives a lock back.
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

/// A holder whose lock was deleted goes on as if nothing had happened, until it asks.
#[test]
fn redisson_reports_no_lost_lock() {
    let both = Together::with(|setup| setup.watchdog(SECOND * 3));
    let (java, rust) = (both.java.thread("T1"), both.rust.thread("T1"));
    assert!(java.lock("theirs").acquired());
    assert!(rust.lock("ours").acquired());
    let lost = rust.start_lost("ours");

    both.redis.command(&["DEL", "theirs", "ours"]);

    // We are told by the next renewal; Java only stops to renew.
    assert_eq!(lost.wait(SECOND * 10).value(), "NotOwned");
    sleep(SECOND);
    assert!(!redis_holds(&both.redis, "theirs"));
    assert!(java.unlock("theirs").failed_with("IllegalMonitorStateException"));
}

fn impatient(redis: &Redis) -> Setup {
    Setup::new(redis.url()).timeout(MILLI * 300).retry_attempts(2)
}

fn redis_holds(redis: &Redis, name: &str) -> bool {
    redis.command(&["EXISTS", name]).number() == 1
}

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
