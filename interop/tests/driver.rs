//! Tests of the driver itself, with real Redisson clients and a real Redis server.

use std::thread::sleep;
use std::time::{Duration, Instant};

use interop::{AT_ONCE, Contenders, Java, Protocol, Redisson, Report, Setup};
use testkit::{Redis, eventually};

#[test]
fn both_redisson_versions_start_and_lock() {
    let redis = Redis::start();
    for (redisson, version) in [(Redisson::V3, "3.29.0"), (Redisson::V4, "4.7.0")] {
        let java = Java::start(&setup(&redis).redisson(redisson));

        assert_eq!(java.version(), version);
        assert!(java.thread("T1").lock("door").acquired());
        assert!(java.thread("T1").unlock("door").is_true());
    }
}

#[test]
fn redisson_identifies_a_holder_by_process_and_thread() {
    let redis = Redis::start();
    let java = Java::start(&setup(&redis));
    let (one, other) = (java.thread("T1"), java.thread("T2"));
    let owner = format!("{}:{}", java.id(), one.id());

    // when a thread locks twice
    assert!(one.lock("door").acquired());
    assert!(one.lock_for("door", SECOND * 20).acquired());

    // then the owner in Redis has the id of this thread, and only this thread holds the lock
    assert_eq!(redis.command(&["HGETALL", "door"]).texts(), [owner.as_str(), "2"]);
    assert_eq!(one.hold_count("door").number(), 2);
    assert!(one.is_held("door").is_true());
    assert!(other.is_held_by_thread("door", one.id()).is_true());
    assert!(!other.is_held("door").is_true());
    assert!(!other.try_lock("door").acquired());
    assert_ne!(one.id(), other.id());
    assert!((1..=20_000).contains(&other.remain_time_to_live("door").number()));

    // and the lock is free after two unlocks
    assert!(one.unlock("door").is_true());
    assert!(other.is_locked("door").is_true());
    assert!(one.unlock("door").is_true());
    assert!(!other.is_locked("door").is_true());
    assert_eq!(other.remain_time_to_live("door").number(), -2);
}

#[test]
fn waiter_acquires_when_the_holder_releases() {
    for redisson in BOTH {
        // given a lock that would be held for half a minute, and a waiter
        let redis = Redis::start();
        let java = Java::start(&setup(&redis).redisson(redisson));
        assert!(java.thread("T1").lock("door").acquired());
        let waiter = java.thread("T2").start_lock("door");
        until_somebody_listens(&redis);
        assert!(!waiter.is_done());

        // when the holder releases
        let left = java.thread("T1").unlock("door");

        // then the waiter acquires at once, and both replies have their times
        let entered = waiter.wait(SECOND * 5);
        assert!(entered.acquired());
        assert!(entered.waited() > Duration::ZERO);
        let delay = entered.acquired_at().duration_since(left.began_at()).unwrap();
        assert!(delay < AT_ONCE, "woken after {delay:?}");
    }
}

#[test]
fn bounded_wait_ends_without_the_lock() {
    let redis = Redis::start();
    let java = Java::start(&setup(&redis));
    assert!(java.thread("T1").lock("door").acquired());

    let answer = java.thread("T2").try_lock_within("door", SECOND / 5);
    assert!(!answer.acquired());
    assert!(answer.waited() >= SECOND / 5);

    let answer = java.thread("T2").try_lock_within_for("door", SECOND / 5, SECOND);
    assert!(!answer.acquired());
}

#[test]
fn only_the_owning_java_thread_may_unlock() {
    for redisson in BOTH {
        let redis = Redis::start();
        let java = Java::start(&setup(&redis).redisson(redisson));
        assert!(java.thread("T1").lock("door").acquired());

        let answer = java.thread("T2").unlock("door");
        assert!(answer.failed_with("IllegalMonitorStateException"), "{answer:?}");
        assert!(java.thread("T1").is_held("door").is_true());

        // Other tests check the effects of a forced release. This test checks only the result of
        // the call.
        assert!(java.thread("T2").force_unlock("door").is_true());
        assert!(!java.thread("T2").force_unlock("door").is_true());
        let answer = java.thread("T1").unlock("door");
        assert!(answer.failed_with("IllegalMonitorStateException"), "{answer:?}");
    }
}

#[test]
fn redisson_renews_a_lock_until_its_process_dies() {
    for redisson in BOTH {
        // given a lock that has outlived its lease of three seconds
        let redis = Redis::start();
        let mut java = Java::start(&setup(&redis).redisson(redisson).watchdog(SECOND * 3));
        assert!(java.thread("T1").lock("door").acquired());
        sleep(SECOND * 4);
        assert!(java.thread("T1").is_held("door").is_true());

        // when the process dies
        java.kill();

        // then the lock is still held, for at most one lease
        assert!((1..=3_000).contains(&redis.command(&["PTTL", "door"]).number()));
        eventually("the lock expires", SECOND * 4, || is_free(&redis, "door"));
    }
}

#[test]
fn fixed_lease_of_redisson_expires_without_a_release() {
    let redis = Redis::start();
    let java = Java::start(&setup(&redis).watchdog(SECOND * 3));
    assert!(java.thread("T1").lock_for("door", SECOND / 2).acquired());
    assert!(!is_free(&redis, "door"));

    sleep(SECOND);

    assert!(is_free(&redis, "door"));
    assert!(java.thread("T1").unlock("door").failed_with("IllegalMonitorStateException"));
}

#[test]
fn redisson_spin_lock_waiter_acquires_without_a_notification() {
    for redisson in BOTH {
        // given a spin lock, and a thread that waits for it
        let redis = Redis::start();
        let java = Java::start(&setup(&redis).redisson(redisson));
        let (one, other) = (java.thread("T1").spin(), java.thread("T2").spin());
        let monitor = redis.monitor();
        assert!(one.lock("door").acquired());
        let waiter = other.start_lock("door");
        sleep(SECOND / 2);
        assert!(!waiter.is_done());

        // when the holder releases
        assert!(one.unlock("door").is_true());

        // then the waiting thread acquires, and no message was sent or awaited
        assert!(waiter.wait(SECOND * 5).acquired());
        let lines = monitor.stop().join("\n").to_ascii_uppercase();
        assert!(lines.contains("REDISSON_UNLOCK_LATCH"), "{lines}");
        assert!(!lines.contains("SUBSCRIBE"), "{lines}");
        assert!(!lines.contains("\"PUBLISH\""), "{lines}");
    }
}

#[test]
fn java_threads_under_one_lock_lose_no_increment() {
    for redisson in BOTH {
        let redis = Redis::start();
        let java = Java::start(&setup(&redis).redisson(redisson));

        let contenders = Contenders::new("door", "counter", 4).rounds(100);
        let report = java.thread("T1").contend(&contenders, SECOND * 30);

        assert_eq!(report.done, [100; 4]);
        assert_eq!(report.total, 400);
        assert!(report.total_wait >= report.max_wait);
        assert_eq!(redis.command(&["GET", "counter"]).text(), "400");
    }
}

#[test]
fn java_threads_under_two_different_locks_lose_increments() {
    // given two groups of contenders with one counter, but with two locks
    let redis = Redis::start();
    let java = Java::start(&setup(&redis));
    let contenders =
        |door| Contenders::new(door, "counter", 1).at_most(1).hold(Duration::from_millis(2));

    // when both groups of contenders run
    let one = java.thread("T1").start_contenders(&contenders("front door"));
    let other = java.thread("T2").start_contenders(&contenders("back door"));
    let [one, other] =
        [one, other].map(|contenders| Report::read(&contenders.wait(SECOND * 30)).total);

    // then the counter shows that holds of the two locks overlapped
    let counted: u64 = redis.command(&["GET", "counter"]).text().parse().unwrap();
    assert!(counted < one + other, "{counted} of {one} + {other}");
}

#[test]
fn java_interrupt_ends_the_wait_of_a_thread() {
    let redis = Redis::start();
    let java = Java::start(&setup(&redis));
    assert!(java.thread("T1").lock("door").acquired());
    let waiter = java.thread("T2").start_lock_interruptibly("door");
    until_somebody_listens(&redis);

    assert!(java.thread("T2").interrupt());

    assert!(waiter.wait(SECOND * 5).failed_with("InterruptedException"));
    // A thread that executes no call is not interrupted.
    assert!(!java.thread("T2").interrupt());
    assert!(!java.thread("T2").try_lock("door").acquired());
}

#[test]
fn java_shutdown_leaves_a_lock_held_until_its_lease_ends() {
    let redis = Redis::start();
    let java = Java::start(&setup(&redis));
    assert!(java.thread("T1").lock("door").acquired());

    assert!(java.shutdown().success());

    assert!(!is_free(&redis, "door"));
}

#[test]
fn settings_of_the_java_driver_take_effect_in_redis() {
    for redisson in BOTH {
        let redis = Redis::options().password("secret").start();
        let monitor = redis.monitor();
        let java = Java::start(
            &setup(&redis)
                .redisson(redisson)
                .credentials("default", "secret")
                .database(3)
                .name_prefix("test:")
                .protocol(Protocol::Resp3)
                .script_cache(false)
                .timeout(SECOND * 2)
                .retry_attempts(1)
                .watchdog(SECOND * 9),
        );

        assert!(java.thread("T1").lock("door").acquired());
        assert!(java.thread("T1").unlock("door").is_true());
        let lines = monitor.stop();

        // The script that acquires gets the name, the lease and the owner as arguments.
        let owner = format!("{}:{}", java.id(), java.thread("T1").id());
        let end = format!(r#""1" "test:door" "9000" "{owner}""#);
        assert!(
            lines.iter().any(|l| l.contains(r#""EVAL" "#) && l.ends_with(&end)),
            "no `{end}` in {lines:#?}"
        );
        assert!(lines.iter().any(|l| l.contains("[3 ")), "{lines:#?}");
        assert!(lines.iter().any(|l| l.contains(r#""HELLO" "3""#)), "{lines:#?}");
        assert!(!lines.iter().any(|l| l.contains("EVALSHA")), "{lines:#?}");
    }
}

#[test]
#[should_panic(expected = "the process ended during")]
fn call_to_a_dead_java_process_fails() {
    let redis = Redis::start();
    let mut java = Java::start(&setup(&redis));
    let thread = java.thread("T1");

    java.kill();

    let started = Instant::now();
    _ = thread.lock("door");
    unreachable!("the lock call returned after {:?}", started.elapsed());
}

#[test]
#[should_panic(expected = "Redisson does not start")]
fn java_driver_reports_an_unreachable_redis() {
    let redis = Redis::start();
    let setup = setup(&redis);
    drop(redis);

    _ = Java::start(&setup);
}

fn setup(redis: &Redis) -> Setup {
    Setup::new(redis.url())
}

fn is_free(redis: &Redis, name: &str) -> bool {
    redis.command(&["EXISTS", name]).number() == 0
}

/// Waits until a waiter is subscribed, has sent one more request, and sleeps.
fn until_somebody_listens(redis: &Redis) {
    eventually("a waiter is subscribed", SECOND * 10, || {
        redis.command(&["PUBSUB", "CHANNELS"]).list().len() == 1
    });
    sleep(SECOND / 5);
}

const BOTH: [Redisson; 2] = [Redisson::V3, Redisson::V4];
const SECOND: Duration = Duration::from_secs(1);
