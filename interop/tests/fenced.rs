//! `RFencedLock` and Leasehold's fenced lock: each hold of either language has a higher token than
//! the hold before. `lock.rs` has the tests of waits, grants and ends, and `crowds.rs` has the
//! tests of contention.

use std::thread::sleep;
use std::time::Duration;

use interop::{
    AT_ONCE, Kind, Pair, Pending, Redisson, Setup, Thread, Together, Way, shown, since, wake_up,
    woken,
};
use testkit::{Redis, eventually};

// Growing tokens.

#[test]
fn tokens_grow_across_java_and_rust_holders() {
    for redisson in [Redisson::V4, Redisson::V3] {
        let both = Together::differing(|java| java.redisson(redisson), |rust| rust);
        let sides = [both.java.thread("T1").fenced(), both.rust.thread("T1").fenced()];
        let mut last = enters(&sides[0]);
        for round in 0..10 {
            let (holder, next) = (&sides[round % 2], &sides[(round + 1) % 2]);
            let waiting = next.start_lock("door");
            assert!(holder.unlock("door").is_true());
            assert!(waiting.wait(SECOND * 10).acquired());
            let token = next.token("door");
            assert!(token > last, "{redisson:?}: {token} after {last}");
            last = token;
        }
        assert_eq!(counter(&both.redis), last, "each hold has drawn one token");
    }
    shown("fenced: tokens grow with each holder", Way::RustToJava);
    shown("fenced: tokens grow with each holder", Way::JavaToRust);
}

/// `RedissonFencedLockTest.testTokenIncrease`. In Leasehold, a reentry keeps the token of its hold.
#[test]
fn java_token_grows_per_lock_call_and_rust_token_per_hold() {
    let both = Together::start();
    let java = both.java.thread("T1").fenced();
    assert_eq!(java.start_lock_and_get_token("door").wait(SECOND * 5).number(), 1);
    assert_eq!(java.start_lock_and_get_token("door").wait(SECOND * 5).number(), 2);
    assert!(java.lock("door").acquired());
    assert_eq!(java.token("door"), 3);
    assert!(java.lock_for("door", SECOND * 10).acquired());
    assert_eq!(java.token("door"), 4);
    assert_eq!(java.start_try_lock_and_get_token("door").wait(SECOND * 5).number(), 5);
    for _ in 0..5 {
        assert!(java.unlock("door").is_true());
    }

    let rust = both.rust.thread("T1").fenced();
    assert_eq!(enters(&rust), 6);
    assert_eq!(enters(&rust), 6, "a reentry keeps the token");
    assert_eq!(rust.hold_count("door").number(), 2);
    for _ in 0..2 {
        assert!(rust.unlock("door").is_true());
    }
    assert_eq!(enters(&rust), 7);
    assert!(rust.unlock("door").is_true());
    shown("fenced: RedissonFencedLockTest.testTokenIncrease", Way::JavaToRust);
}

#[test]
fn java_reads_the_last_token_and_rust_the_token_of_its_hold() {
    // given four tasks of one Leasehold client that wait for a Java holder
    let both = Together::start();
    let java = both.java.thread("T1").fenced();
    assert_eq!(enters(&java), 1);
    let tasks = ["T1", "T2", "T3", "T4"].map(|name| both.rust.thread(name).fenced());
    let mut waiting: Vec<_> = tasks.iter().map(|task| (task, task.start_lock("door"))).collect();
    eventually("all tasks wait", SECOND * 10, || both.rust.waiting() == 4);
    both.until_asleep("door", 1);

    // when the first task acquires, and also draws tokens for the tasks behind it
    assert!(java.unlock("door").is_true());
    let first = one_enters(&mut waiting);

    // then Java returns the last of these tokens, and Leasehold returns the token of the hold
    let drawn = java.token("door");
    assert_eq!(drawn, counter(&both.redis));
    assert!((2..drawn).contains(&first.token("door")), "{} of {drawn}", first.token("door"));

    // and the next token of Java is higher than all these tokens, used or not, and all tokens grow
    waiting.push((&java, java.start_lock("door")));
    let (mut last, mut holder) = (first.token("door"), first);
    while !waiting.is_empty() {
        assert!(holder.unlock("door").is_true());
        holder = one_enters(&mut waiting);
        let token = holder.token("door");
        assert!(token > last, "{token} after {last}");
        assert!(token > drawn || !std::ptr::eq(holder, &java), "{token} of {drawn}");
        last = token;
    }
    assert!(holder.unlock("door").is_true());
    shown("fenced: getToken() returns the last drawn token", Way::RustToJava);
}

#[test]
fn rust_grant_reserves_tokens_for_up_to_64_waiting_tasks() {
    for (tasks, drawn) in [(1, 1), (4, 4), (70, 64)] {
        let both = Together::start();
        let java = both.java.thread("T1").fenced();
        assert_eq!(enters(&java), 1);
        let tasks: Vec<_> =
            (0..tasks).map(|task| both.rust.thread(&format!("T{task}")).fenced()).collect();
        let mut waiting = tasks.iter().map(|task| (task, task.start_lock("door"))).collect();
        eventually("all tasks wait", SECOND * 10, || both.rust.waiting() == tasks.len() as u64);
        both.until_asleep("door", 1);

        assert!(java.unlock("door").is_true());

        assert_eq!(one_enters(&mut waiting).token("door"), 2);
        assert_eq!(counter(&both.redis), 1 + drawn, "{} tasks", tasks.len());
    }
}

// The end of holds.

#[test]
fn holder_after_a_killed_holder_gets_a_higher_token() {
    for way in [Way::RustToJava, Way::JavaToRust] {
        let mut both = Together::with(|setup| setup.watchdog(SECOND * 3));
        let Pair { holder, waiter, .. } = both.pair(way, Kind::Fenced);
        let token = enters(&holder);

        both.kill_holder(way);

        let entered = waiter.try_lock_within("door", SECOND * 5);
        assert!(entered.acquired(), "{way}");
        assert!(waiter.token("door") > token, "{way}");
        shown("fenced: kill -9 of the holder, then a greater token", way);
    }
}

#[test]
fn forced_release_keeps_the_token_counter() {
    let both = Together::start();
    for way in [Way::RustToJava, Way::JavaToRust] {
        for by in [Kind::Fenced, Kind::Lock] {
            // given a holder
            let Pair { holder, waiter, .. } = both.pair(way, Kind::Fenced);
            let token = enters(&holder);

            // when the other language releases the lock by force, through a plain lock or a fenced
            // lock
            assert!(waiter.of(by).force_unlock("door").is_true(), "{way}");

            // then the counter is unchanged, and the next token is higher
            assert_eq!(counter(&both.redis), token, "{way}");
            assert!(enters(&waiter) > token, "{way}");
            assert!(holder.unlock("door").failure().is_some(), "{way}");
            assert!(waiter.unlock("door").is_true());
        }
        shown("fenced: a forced release keeps the counter", way);
    }
}

// Plain and fenced locks of the same name.

#[test]
fn fenced_and_plain_lock_of_a_name_exclude_and_wake_each_other() {
    let both = Together::start();
    for way in [Way::RustToJava, Way::JavaToRust] {
        for [held, wanted] in [[Kind::Fenced, Kind::Lock], [Kind::Lock, Kind::Fenced]] {
            let Pair { holder, waiter, .. } = both.pair(way, held);
            let waiter = waiter.of(wanted);
            let before = counter(&both.redis);
            assert!(holder.lock("door").acquired());
            assert!(!waiter.try_lock("door").acquired(), "{way}: {held}, then {wanted}");
            let waiting = waiter.start_lock("door");
            both.until_asleep("door", 1);

            let delay = wake_up(&holder.unlock("door"), &waiting.wait(SECOND * 10));

            assert!(delay < AT_ONCE, "{way}: {held}, then {wanted}: woken after {delay:?}");
            assert!(waiter.unlock("door").is_true());
            // Only the fenced hold has drawn a token.
            assert_eq!(counter(&both.redis), before + 1, "{way}: {held}, then {wanted}");
            woken(&format!("fenced: {wanted} after {held}"), way, delay);
        }
    }
}

// The key of the counter.

#[test]
fn token_counter_key_keeps_the_hash_tag_of_the_lock_name() {
    let both = Together::start();
    let (java, rust) = (both.java.thread("T1").fenced(), both.rust.thread("T1").fenced());
    for (name, counter) in [
        ("{tag}door", "redisson_lock_token:{tag}door"),
        ("door {tag}", "redisson_lock_token:door {tag}"),
        ("a b: ключ", "redisson_lock_token:{a b: ключ}"),
    ] {
        for (side, count) in [(&java, "1"), (&rust, "2")] {
            assert!(side.lock(name).acquired());
            assert_eq!(both.redis.command(&["GET", counter]).text(), count, "{name}");
            assert!(side.unlock(name).is_true());
        }
    }
    shown("fenced: names with hash tags, spaces, other alphabets", Way::RustToJava);
    shown("fenced: names with hash tags, spaces, other alphabets", Way::JavaToRust);
}

/// If the counter is lost, tokens start again at 1. The counter must therefore never be deleted,
/// and must have no TTL.
#[test]
fn deleted_token_counter_restarts_at_one_in_java_and_rust() {
    let both = Together::start();
    let (java, rust) = (both.java.thread("T1").fenced(), both.rust.thread("T1").fenced());
    for [one, other] in [[&java, &rust], [&rust, &java]] {
        assert_eq!(enters(one), 1);
        assert!(one.unlock("door").is_true());
        assert_eq!(enters(other), 2);
        assert!(other.unlock("door").is_true());
        both.redis.command(&["DEL", COUNTER]);
    }
}

#[test]
fn acquisition_fails_when_the_token_counter_is_invalid_or_full() {
    let both = Together::start();
    both.redis.command(&["SET", COUNTER, "many"]);
    for side in [both.java.thread("T1").fenced(), both.rust.thread("T1").fenced()] {
        let refused = side.lock("door");
        let failure = refused.failure().expect("the lock call fails without a token");
        let reported = ["not an integer", "not a counter of fencing tokens"];
        assert!(reported.iter().any(|words| failure.message.contains(words)), "{failure:?}");
        assert!(!side.is_locked("door").is_true());
    }
    // From 2^53 on, numbers in Lua are not exact. Leasehold then rejects each acquisition, and Java
    // continues.
    both.redis.command(&["SET", COUNTER, "9007199254740992"]);
    let refused = both.rust.thread("T1").fenced().lock("door");
    assert!(refused.failed_with("Refused"), "{refused:?}");
    assert!(!both.rust.thread("T1").is_locked("door").is_true());
    assert!(enters(&both.java.thread("T1").fenced()) > 9_007_199_254_740_992);
    shown("fenced: a counter that cannot count", Way::RustToJava);
    shown("fenced: a counter that cannot count", Way::JavaToRust);
}

// Surprising behaviour of Redisson's fenced lock.

/// Redisson renews the lock as if no lease had been requested.
#[test]
fn redisson_lock_and_get_token_ignores_its_lease_argument() {
    for redisson in [Redisson::V4, Redisson::V3] {
        let setup = |java: Setup| java.redisson(redisson).watchdog(SECOND * 3);
        let both = Together::differing(setup, |rust| rust);
        let java = both.java.thread("T1").fenced();
        let locked = java.start_lock_and_get_token_for("door", SECOND).wait(SECOND * 5);
        assert_eq!(locked.number(), 1);
        // Four seconds are longer than the lease, and longer than the ttl.
        sleep(SECOND * 4);
        assert!(java.is_held("door").is_true(), "{redisson:?}");
        assert!(!both.rust.thread("T1").try_lock("door").acquired(), "{redisson:?}");
    }
}

/// `tryLockAndGetToken()` waits without an end, like `lockAndGetToken()`. With a wait time,
/// `tryLockAndGetToken()` waits for at most that time.
#[test]
fn redisson_try_lock_and_get_token_waits_without_a_bound() {
    for redisson in [Redisson::V4, Redisson::V3] {
        let both = Together::differing(|java| java.redisson(redisson), |rust| rust);
        let (java, rust) = (both.java.thread("T1").fenced(), both.rust.thread("T1").fenced());
        let token = enters(&rust);
        let tried = java.start_try_lock_and_get_token_within("door", SECOND / 2);
        let refused = tried.wait(SECOND * 5);
        assert!(refused.value().is_null(), "{redisson:?}: {refused:?}");

        let waiting = java.start_try_lock_and_get_token("door");
        both.until_asleep("door", 1);
        assert!(!waiting.is_done(), "{redisson:?}");

        let left = rust.unlock("door");
        let entered = waiting.wait(SECOND * 10);
        let delay = since(left.began_at(), entered.at());
        assert!(delay < AT_ONCE, "{redisson:?}: woken after {delay:?}");
        assert!(entered.number() > token, "{redisson:?}");
    }
}

/// If the key has no TTL, Redisson's script returns −1, which looks like a grant. So two threads
/// would hold the lock at the same time. A lock must therefore always have a TTL.
#[test]
fn redisson_mistakes_a_held_lock_without_a_ttl_for_a_grant() {
    for redisson in [Redisson::V4, Redisson::V3] {
        let both = Together::differing(|java| java.redisson(redisson), |rust| rust);
        both.redis.command(&["HSET", "door", "somebody:1", "1"]);

        let java = both.java.thread("T1").fenced();
        let entered = java.start_lock_and_get_token("door").wait(SECOND * 5);

        assert_eq!(entered.number(), -1, "{redisson:?}");
        assert!(!java.is_held("door").is_true(), "{redisson:?}");
        // Leasehold treats the lock as held.
        let rust = both.rust.thread("T1").fenced();
        assert!(!rust.try_lock("door").acquired(), "{redisson:?}");
    }
}

/// Acquires, and returns the token.
#[track_caller]
fn enters(thread: &Thread) -> i64 {
    assert!(thread.lock("door").acquired());
    thread.token("door")
}

/// Waits until one of the waiters has acquired.
#[track_caller]
fn one_enters<'a>(waiting: &mut Vec<(&'a Thread, Pending)>) -> &'a Thread {
    eventually("one waiter has acquired", SECOND * 10, || {
        waiting.iter().any(|(_, pending)| pending.is_done())
    });
    let first = waiting.iter().position(|(_, pending)| pending.is_done()).unwrap();
    let (thread, pending) = waiting.remove(first);
    assert!(pending.wait(SECOND).acquired());
    thread
}

/// The value of the counter, which is the last drawn token.
fn counter(redis: &Redis) -> i64 {
    let last = redis.command(&["GET", COUNTER]);
    if last.is_nil() { 0 } else { last.text().parse().unwrap() }
}

const COUNTER: &str = "redisson_lock_token:{door}";
const SECOND: Duration = Duration::from_secs(1);
