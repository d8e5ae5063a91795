//! Settings of Redisson that change the wire format, and an older Redisson.

use std::time::{Duration, Instant};

use interop::{
    AT_ONCE, Java, Kind, Pair, Protocol, Redisson, Rust, Setup, Together, Way, shown, wake_up,
    woken,
};
use testkit::{Redis, eventually};

#[test]
fn redisson_name_mapper_prefix_is_part_of_the_redis_key() {
    // given a Java client that adds a prefix to every name
    let both = Together::differing(|java| java.name_prefix("shop:"), |rust| rust);
    let (java, rust) = (both.java.thread("T1"), both.rust.thread("T1"));

    // then Java's `door` is Leasehold's `shop:door`, and Java's release notifies Leasehold
    assert!(java.lock("door").acquired());
    assert_eq!(both.redis.command(&["KEYS", "*"]).texts(), ["shop:door"]);
    assert!(rust.try_lock("door").acquired(), "Leasehold's `door` is another lock");
    let waiting = rust.start_lock("shop:door");
    both.until_asleep("shop:door", 1);
    let delay = wake_up(&java.unlock("door"), &waiting.wait(SECOND * 10));
    assert!(delay < AT_ONCE, "woken after {delay:?}");
    woken("settings: NameMapper", Way::JavaToRust, delay);

    // and the release of Leasehold's `shop:door` notifies Java's `door`
    assert!(java.is_locked("door").is_true());
    let waiting = java.start_lock("door");
    both.until_asleep("shop:door", 1);
    let delay = wake_up(&rust.unlock("shop:door"), &waiting.wait(SECOND * 10));
    assert!(delay < AT_ONCE, "woken after {delay:?}");
    woken("settings: NameMapper", Way::RustToJava, delay);
    assert!(java.unlock("door").is_true());

    // and the name of a fenced lock's counter contains the prefix
    for (side, name) in [(java.fenced(), "door"), (rust.fenced(), "shop:door")] {
        assert!(side.lock(name).acquired());
        assert!(side.unlock(name).is_true());
    }
    assert_eq!(both.redis.command(&["GET", "redisson_lock_token:{shop:door}"]).text(), "2");
}

#[test]
fn rust_works_with_redisson_with_and_without_script_cache() {
    for (on, scenario) in
        [(true, "settings: useScriptCache on"), (false, "settings: useScriptCache off")]
    {
        let both = Together::differing(|java| java.script_cache(on), |rust| rust);
        let monitor = both.redis.monitor();
        wakes_each_way(&both, "door", scenario);

        let by_text = monitor.stop().iter().filter(|line| line.contains(r#""EVAL" "#)).count();
        // Redisson loads each script before it first calls it by hash.
        assert_eq!(by_text > 0, !on, "{by_text} calls by text");
    }
}

#[test]
fn java_and_rust_reload_scripts_that_the_server_forgot() {
    let both = Together::start();
    for Pair { way, holder, waiter, .. } in both.both_ways() {
        assert!(holder.lock("door").acquired());
        let waiting = waiter.start_lock("door");
        both.until_asleep("door", 1);
        assert_eq!(both.redis.command(&["SCRIPT", "FLUSH"]).text(), "OK");

        let delay = wake_up(&holder.unlock("door"), &waiting.wait(SECOND * 10));

        assert!(delay < AT_ONCE, "{way}: woken after {delay:?}");
        assert!(waiter.unlock("door").is_true());
        woken("settings: the server lost all scripts", way, delay);
    }
}

#[test]
fn java_and_rust_watchdogs_each_renew_with_their_own_ttl() {
    // given a ttl of six seconds in one client, and of three seconds in the other client
    for (java_ttl, rust_ttl) in [(6, 3), (3, 6)] {
        let (java_ttl, rust_ttl) = (SECOND * java_ttl, SECOND * rust_ttl);
        let both = Together::differing(|it| it.watchdog(java_ttl), |it| it.watchdog(rust_ttl));
        let (java, rust) = (both.java.thread("T1"), both.rust.thread("T1"));
        assert!(java.lock("theirs").acquired());
        assert!(rust.lock("ours").acquired());

        // when both locks have been renewed for some time, then each lock has the ttl of its own
        // client
        let names = [("theirs", java_ttl), ("ours", rust_ttl)];
        let mut most = [Duration::ZERO; 2];
        let began = Instant::now();
        while began.elapsed() < SECOND * 5 {
            for ((name, ttl), most) in names.into_iter().zip(&mut most) {
                let left = both.redis.command(&["PTTL", name]).number();
                let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
                assert!(!left.is_zero() && left <= ttl, "{name}: {left:?} of {ttl:?}");
                if began.elapsed() > SECOND * 5 / 2 {
                    *most = left.max(*most);
                }
            }
            std::thread::sleep(SECOND / 10);
        }
        for ((name, ttl), most) in names.into_iter().zip(most) {
            assert!(most > ttl * 4 / 5, "{name}: {most:?} of {ttl:?}");
        }
        wakes_each_way(&both, "door", "settings: another lockWatchdogTimeout");
    }
}

#[test]
fn java_and_rust_wake_each_other_if_java_uses_resp2_or_resp3() {
    for (protocol, scenario) in
        [(Protocol::Resp2, "settings: RESP2 in Java"), (Protocol::Resp3, "settings: RESP3 in Java")]
    {
        let both = Together::differing(|java| java.protocol(protocol), |rust| rust);
        wakes_each_way(&both, "door", scenario);
    }
}

#[test]
fn locks_of_two_databases_are_separate_but_share_messages() {
    // given both clients in database 3, and another Leasehold client in database 0
    let both = Together::with(|setup| setup.database(3));
    let outside = Rust::start(&Setup::new(both.redis.url()));
    wakes_each_way(&both, "door", "settings: database 3");

    // when a lock of the same name is released in database 0, while clients of both languages wait
    // in database 3
    let (java, rust) = (both.java.thread("T1"), both.rust.thread("T1"));
    assert!(java.lock("door").acquired());
    let waiting = [both.java.thread("T2").start_lock("door"), rust.start_lock("door")];
    both.until_asleep("door", 2);
    assert!(outside.thread("T1").lock("door").acquired());
    assert!(outside.thread("T1").unlock("door").is_true());

    // then both waiters are notified, but do not acquire
    std::thread::sleep(SECOND / 2);
    assert!(waiting.iter().all(|it| !it.is_done()));
    assert!(java.unlock("door").is_true());
    eventually("one waiter has acquired", SECOND * 10, || waiting.iter().any(|it| it.is_done()));
}

#[test]
fn documented_permissions_suffice_for_both_languages() {
    // given users with the permissions that the protocol page lists for one lock
    let both = with_users(&JAVA_RIGHTS, &RUST_RIGHTS);

    // then each user can use all methods of that lock
    wakes(both.both_ways(), &both, "door", "settings: ACL users");
    for side in [both.java.thread("T1"), both.rust.thread("T1")] {
        assert!(side.lock("door").acquired());
        assert!(side.lock("door").acquired());
        assert_eq!(side.hold_count("door").number(), 2);
        assert!(side.is_held("door").is_true());
        assert!(side.remain_time_to_live("door").number() > 0);
        assert!(side.unlock("door").is_true());
        assert!(side.force_unlock("door").is_true());
        assert!(!side.is_locked("door").is_true());
        _ = side.unlock("door").failure().expect("the lock was released by force");
    }
    let refused = both.redis.command(&["ACL", "LOG"]);
    assert!(refused.list().is_empty(), "{refused:?}");

    // but no method of another lock
    assert!(both.rust.thread("T2").lock("window").failed_with("Forbidden"));
    assert!(both.java.thread("T2").lock("window").failure().is_some());
}

#[test]
fn fenced_lock_needs_permissions_for_its_counter() {
    // given users with the permissions that the protocol page lists for one plain lock
    let both = with_users(&JAVA_RIGHTS, &RUST_RIGHTS);
    let (java, rust) = (both.java.thread("T1").fenced(), both.rust.thread("T1").fenced());

    // then both users cannot acquire a fenced lock, and the rejected requests block no client
    assert!(java.lock("door").failure().is_some());
    assert!(rust.lock("door").failed_with("Forbidden"));
    assert!(!rust.is_locked("door").is_true());

    // and with two more permissions, both users can acquire the fenced lock
    for (user, rights) in [("java", JAVA_FENCED_RIGHTS), ("rust", RUST_FENCED_RIGHTS)] {
        let more = both.redis.command(&["ACL", "SETUSER", user, rights[0], rights[1]]);
        assert_eq!(more.text(), "OK");
    }
    assert_eq!(both.redis.command(&["ACL", "LOG", "RESET"]).text(), "OK");
    wakes_each_way(&both, "door", "settings: ACL users of a fenced lock");
    for side in [java, rust] {
        assert!(side.lock("door").acquired());
        assert!(side.force_unlock("door").is_true());
        _ = side.unlock("door").failure().expect("the lock was released by force");
    }
    let refused = both.redis.command(&["ACL", "LOG"]);
    assert!(refused.list().is_empty(), "{refused:?}");
}

#[test]
fn fenced_lock_needs_no_wait_queue_permissions() {
    let own = [QUEUE_RIGHT, YIELD_RIGHT, COUNTING_RIGHT, WAITERS_RIGHT];
    let rust = RUST_RIGHTS.into_iter().chain(RUST_FENCED_RIGHTS);
    let rust: Vec<_> = rust.filter(|it| !own.contains(it)).collect();
    let both = with_users(&[&JAVA_RIGHTS[..], &JAVA_FENCED_RIGHTS].concat(), &rust);
    wakes_each_way(&both, "door", "settings: ACL users of a fenced lock without a queue");
}

/// A server whose users `java` and `rust` have exactly these permissions.
#[track_caller]
fn with_users(java: &[&str], rust: &[&str]) -> Together {
    let redis = Redis::start();
    for (name, rights) in [("java", java), ("rust", rust)] {
        let words = [&["ACL", "SETUSER", name, "reset", "on", ">secret"], rights].concat();
        assert_eq!(redis.command(&words).text(), "OK");
    }
    let setup = |name| Setup::new(redis.url()).credentials(name, "secret");
    Together { java: Java::start(&setup("java")), rust: Rust::start(&setup("rust")), redis }
}

#[test]
fn release_wakes_clients_that_lack_wait_queue_permissions() {
    let own = [QUEUE_RIGHT, YIELD_RIGHT, COUNTING_RIGHT, WAITERS_RIGHT];
    let commands: Vec<[&str; 1]> = QUEUE_COMMANDS.map(|it| [it]).into();
    let alone = own.map(|it| [it]);
    let each = alone.iter().chain(&commands).map(|one| one.as_slice());
    for missing in [own.as_slice()].into_iter().chain(each) {
        // given two Leasehold clients whose user may not use the queue, and a Java client
        let redis = Redis::start();
        let rights: Vec<_> = RUST_RIGHTS.into_iter().filter(|it| !missing.contains(it)).collect();
        let mut words = vec!["ACL", "SETUSER", "rust", "reset", "on", ">secret"];
        words.extend(rights);
        assert_eq!(redis.command(&words).text(), "OK");
        let setup = Setup::new(redis.url());
        let ours = || Rust::start(&setup.clone().credentials("rust", "secret"));
        let (rust, other) = (ours(), ours());
        let both = Together { java: Java::start(&setup), rust, redis };

        // when these clients wait for each other, then a release wakes each of them at once
        wakes(both.both_ways(), &both, "door", "settings: ACL users without a queue");
        let (one, other) = (both.rust.thread("T1"), other.thread("T1"));
        for (holder, waiter) in [(&one, &other), (&other, &one)] {
            assert!(holder.try_lock_within("door", SECOND * 10).acquired(), "without {missing:?}");
            let waiting = waiter.start_lock("door");
            std::thread::sleep(SECOND / 2);
            let left = holder.unlock("door");
            assert!(left.is_true(), "without {missing:?}: {left:?}");
            let delay = wake_up(&left, &waiting.wait(SECOND * 10));
            assert!(delay < AT_ONCE, "without {missing:?}: woken after {delay:?}");
            assert!(waiter.unlock("door").is_true());
        }
    }
}

#[test]
fn redisson_codec_does_not_change_the_bytes_of_a_lock() {
    for codec in
        ["org.redisson.client.codec.StringCodec", "org.redisson.client.codec.ByteArrayCodec"]
    {
        let both = Together::differing(|java| java.codec(codec), |rust| rust);
        assert!(both.java.thread("T1").lock("door").acquired());
        let fields = both.redis.command(&["HGETALL", "door"]);
        let owner = format!("{}:{}", both.java.id(), both.java.thread("T1").id());
        assert_eq!(fields.texts(), [owner.as_str(), "1"]);
        assert!(both.java.thread("T1").unlock("door").is_true());
        wakes_each_way(&both, "door", "settings: another codec");
    }
}

#[test]
fn redisson_3_and_rust_exclude_and_wake_each_other() {
    let both = Together::differing(|java| java.redisson(Redisson::V3), |rust| rust);
    assert_eq!(both.java.version(), "3.29.0");
    wakes_each_way(&both, "door", "redisson 3.29: woken by the holder's message");

    for Pair { way, holder, waiter, .. } in both.both_ways() {
        // A thread that acquires three times must release three times.
        for _ in 0..3 {
            assert!(holder.lock("door").acquired());
        }
        let waiting = waiter.start_lock("door");
        both.until_asleep("door", 1);
        assert!(holder.unlock("door").is_true());
        assert!(holder.unlock("door").is_true());
        std::thread::sleep(SECOND / 3);
        assert!(!waiting.is_done(), "{way}");
        let delay = wake_up(&holder.unlock("door"), &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{way}: woken after {delay:?}");

        // After a forced release, the release of the old holder is rejected.
        assert!(holder.force_unlock("door").is_true());
        assert!(waiter.unlock("door").failure().is_some(), "{way}");
        assert!(!holder.is_locked("door").is_true());
        woken("redisson 3.29: three holds, three releases", way, delay);

        // Spin locks exclude each other.
        assert!(holder.spin().lock("door").acquired());
        assert!(!waiter.spin().try_lock_within("door", SECOND / 4).acquired(), "{way}");
        assert!(holder.spin().unlock("door").is_true());
        assert!(waiter.spin().try_lock("door").acquired());
        assert!(waiter.spin().unlock("door").is_true());
        shown("redisson 3.29: forced release, rejected release, spin locks", way);
    }
}

#[test]
fn lock_is_free_after_the_death_of_redisson_3_or_leasehold() {
    for way in [Way::RustToJava, Way::JavaToRust] {
        // given a holder with a ttl of three seconds, whose lock was renewed for longer than this
        // ttl
        let mut both = Together::differing(
            |java| java.redisson(Redisson::V3).watchdog(SECOND * 3),
            |rust| rust.watchdog(SECOND * 3),
        );
        let Pair { holder, waiter, .. } = both.pair(way, Kind::Lock);
        assert!(holder.lock("door").acquired());
        let waiting = waiter.start_lock("door");
        std::thread::sleep(SECOND * 5);
        assert!(!waiting.is_done(), "{way}: not renewed");

        // when its process is killed
        let killed = Instant::now();
        both.kill_holder(way);

        // then the lease ends, and the waiter acquires
        assert!(waiting.wait(SECOND * 10).acquired());
        let after = killed.elapsed();
        assert!(after < SECOND * 3 + AT_ONCE, "{way}: after {after:?}");
        shown("redisson 3.29: renewal, then kill -9 of the holder", way);
    }
}

/// Checks plain and fenced locks in both directions: the holder excludes the waiter, and its
/// release notifies the waiter.
#[track_caller]
fn wakes_each_way(both: &Together, name: &str, scenario: &str) {
    wakes(both.each_way(), both, name, scenario);
}

#[track_caller]
fn wakes(pairs: impl IntoIterator<Item = Pair>, both: &Together, name: &str, scenario: &str) {
    let mut last = 0;
    for Pair { way, kind, holder, waiter } in pairs {
        assert!(holder.lock(name).acquired());
        assert!(!waiter.try_lock(name).acquired(), "{kind}, {way}: {scenario}");
        let waiting = waiter.start_lock(name);
        both.until_asleep(name, 1);

        let delay = wake_up(&holder.unlock(name), &waiting.wait(SECOND * 10));

        assert!(delay < AT_ONCE, "{kind}, {way}, {scenario}: woken after {delay:?}");
        if kind == Kind::Fenced {
            let token = waiter.token(name);
            assert!(token > last, "{way}, {scenario}: {token} after {last}");
            last = token;
        }
        assert!(waiter.unlock(name).is_true());
        let of_kind = if kind == Kind::Fenced { ", fenced" } else { "" };
        woken(&format!("{scenario}{of_kind}"), way, delay);
    }
}

/// The permissions that Redisson 4.7 needs for a lock `door`.
const JAVA_RIGHTS: [&str; 22] = [
    "~door",
    // Redisson's release passes the channel as a key.
    "~redisson_lock__channel:{door}",
    "~redisson_unlock_latch:{door}:*",
    // Redisson reads these keys when it connects.
    "~test1",
    "~test2",
    "&redisson_lock__channel:{door}",
    "+ping",
    "+eval",
    "+evalsha",
    "+script|load",
    "+get",
    "+set",
    "+del",
    "+exists",
    "+hexists",
    "+hget",
    "+hincrby",
    "+pexpire",
    "+pttl",
    "+publish",
    "+subscribe",
    "+unsubscribe",
];

/// The permissions that Leasehold needs for a lock `door`.
const RUST_RIGHTS: [&str; 34] = [
    "~door",
    QUEUE_RIGHT,
    YIELD_RIGHT,
    "&redisson_lock__channel:{door}",
    COUNTING_RIGHT,
    WAITERS_RIGHT,
    "+hello",
    "+ping",
    "+client|setname",
    // Leasehold sends `INFO` when it connects, to detect an eviction policy. The client also works
    // without this permission.
    "+info",
    "+eval",
    "+evalsha",
    "+script|load",
    "+hexists",
    "+hget",
    "+hscan",
    "+hset",
    "+hdel",
    "+hlen",
    "+del",
    "+pexpire",
    "+pttl",
    "+publish",
    "+subscribe",
    "+unsubscribe",
    QUEUE_COMMANDS[0],
    QUEUE_COMMANDS[1],
    QUEUE_COMMANDS[2],
    QUEUE_COMMANDS[3],
    QUEUE_COMMANDS[4],
    QUEUE_COMMANDS[5],
    QUEUE_COMMANDS[6],
    QUEUE_COMMANDS[7],
    QUEUE_COMMANDS[8],
];

/// The additional permissions for a fenced lock.
const JAVA_FENCED_RIGHTS: [&str; 2] = ["~redisson_lock_token:{door}", "+incr"];
const RUST_FENCED_RIGHTS: [&str; 2] = ["~redisson_lock_token:{door}", "+incrby"];

/// A permission that only the queue needs.
const QUEUE_RIGHT: &str = "~leasehold_lock__queue:{door}";
const YIELD_RIGHT: &str = "~leasehold_lock__yield:{door}";
const COUNTING_RIGHT: &str = "&leasehold_lock__channel:{door}";
const WAITERS_RIGHT: &str = "&leasehold_lock__waiter:{door}:*";
const QUEUE_COMMANDS: [&str; 9] =
    ["+exists", "+get", "+pubsub|numsub", "+set", "+time", "+zadd", "+zpopmin", "+zrange", "+zrem"];

const SECOND: Duration = Duration::from_secs(1);
