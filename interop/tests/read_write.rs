//! `RReadWriteLock` and Leasehold's `ReadWriteLock`: readers of both languages hold together, and a
//! writer of either language excludes all others. One language notifies, releases or dies, and the
//! other language observes this. Contention is in `crowds.rs`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use interop::{
    AT_ONCE, Kind, Pair, Redisson, Thread, Together, Way, shown, since, until_asleep_on, wake_up,
    woken,
};
use leasehold::Client;
use testkit::{Redis, eventually};
use tokio::runtime::Runtime;

const WAYS: [Way; 2] = [Way::RustToJava, Way::JavaToRust];

/// Pairs of kinds that exclude each other.
const IN_THE_WAY: [[Kind; 2]; 3] =
    [[Kind::Read, Kind::Write], [Kind::Write, Kind::Read], [Kind::Write, Kind::Write]];

/// A thread of one language for the kind `held`, and a thread of the other language for the kind
/// `wanted`.
fn pair(both: &Together, way: Way, [held, wanted]: [Kind; 2]) -> [Thread; 2] {
    let Pair { holder, waiter, .. } = both.pair(way, held);
    [holder, waiter.of(wanted)]
}

fn asleep(both: &Together, count: i64) {
    until_asleep_on(&both.redis, &Kind::Read.channel("door"), count);
}

// Waiting and acquiring.

#[test]
fn waiter_is_woken_by_the_release_of_the_blocking_side() {
    for redisson in [Redisson::V4, Redisson::V3] {
        let both = Together::differing(|java| java.redisson(redisson), |rust| rust);
        for (way, kinds) in WAYS.into_iter().flat_map(|way| IN_THE_WAY.map(|it| (way, it))) {
            let [holder, waiter] = pair(&both, way, kinds);
            let mut slowest = Duration::ZERO;
            for _ in 0..3 {
                assert!(holder.lock("door").acquired());
                assert!(!waiter.try_lock("door").acquired(), "{kinds:?}, {way}");
                let waiting = waiter.start_lock("door");
                asleep(&both, 1);
                assert!(!waiting.is_done());

                let left = holder.unlock("door");

                assert!(left.is_true());
                slowest = slowest.max(wake_up(&left, &waiting.wait(SECOND * 10)));
                assert!(slowest < AT_ONCE, "{redisson:?}, {kinds:?}, {way}: {slowest:?}");
                assert!(waiter.unlock("door").is_true());
                // After its last waiter, Leasehold stays subscribed for two to three seconds.
                asleep(&both, 0);
            }
            let [held, wanted] = kinds;
            woken(&format!("read-write: {wanted} after {held}, by message"), way, slowest);
        }
    }
}

#[test]
fn waiter_acquires_when_a_lease_expires() {
    let both = Together::start();
    let cases = WAYS.into_iter().flat_map(|way| IN_THE_WAY.map(|it| (way, it)));
    let waiting: Vec<_> = cases
        .map(|(way, kinds)| {
            let name = format!("{way} {kinds:?}");
            let Pair { holder, waiter, .. } = both.pair_of(&name, way, kinds[0]);
            let waiter = waiter.of(kinds[1]);
            let held = holder.lock_for(&name, SECOND * 4);
            assert!(!waiter.try_lock_within(&name, SECOND / 2).acquired(), "{name}");
            (way, kinds, waiter.start_lock(&name), held, name, [holder, waiter])
        })
        .collect();
    for (way, [held, wanted], waiting, leased, name, [holder, waiter]) in waiting {
        let entered = waiting.wait(SECOND * 20);

        let after = since(leased.began_at(), entered.acquired_at());
        assert!((SECOND * 4..SECOND * 4 + AT_ONCE).contains(&after), "{name}: after {after:?}");
        assert!(waiter.unlock(&name).is_true());
        // The first holder no longer has the lock.
        assert!(holder.unlock(&name).failure().is_some(), "{name}");
        let late = after - SECOND * 4;
        woken(&format!("read-write: {wanted} after a lease to {held} (ms after it)"), way, late);
    }
}

#[test]
fn java_and_rust_readers_share_and_exclude_all_writers() {
    let both = Together::start();
    for way in WAYS {
        let [first, second] = pair(&both, way, [Kind::Read, Kind::Read]);
        let writers = [both.java.thread("W").writes(), both.rust.thread("W").writes()];
        assert!(first.lock("door").acquired());
        let entered = second.lock("door");
        assert!(entered.waited() < AT_ONCE, "{way}: {entered:?}");
        for left in [&first, &second] {
            for writer in &writers {
                assert!(!writer.try_lock("door").acquired(), "{way}");
                assert!(!writer.is_locked("door").is_true(), "{way}: no writer has the lock");
                assert!(writer.reads().is_locked("door").is_true(), "{way}");
            }
            assert!(left.unlock("door").is_true());
        }
        for writer in &writers {
            assert!(writer.try_lock("door").acquired(), "{way}");
            assert!(writer.is_locked("door").is_true() && !first.is_locked("door").is_true());
            assert!(writer.unlock("door").is_true());
        }
        shown("read-write: both read, nobody writes", way);
    }
}

/// Redisson does not see waiting writers of Leasehold, and Leasehold does not see waiting writers
/// of Redisson.
#[test]
fn reader_yields_to_a_writer_only_if_both_use_leasehold() {
    let both = Together::start();
    let [rust, java] = [both.rust.thread("R").reads(), both.java.thread("R").reads()];
    let (rust_writes, java_writes) =
        (both.rust.thread("W").writes(), both.java.thread("W").writes());
    assert!(java.lock("door").acquired());
    let waiting = java_writes.start_lock("door");
    asleep(&both, 1);
    assert!(rust.lock("door").waited() < AT_ONCE);
    assert!(rust.unlock("door").is_true());

    let ours = rust_writes.start_lock("door");
    asleep(&both, 2);
    let late = both.java.thread("late").reads();
    assert!(late.lock("door").waited() < AT_ONCE);
    assert!(late.unlock("door").is_true());
    let yielded = rust.lock("door").waited();
    assert!((SECOND * 9..SECOND * 20).contains(&yielded), "{yielded:?}");
    assert!(rust.unlock("door").is_true());

    assert!(java.unlock("door").is_true());
    eventually("one writer has acquired", SECOND * 10, || waiting.is_done() || ours.is_done());
    let (first, second, last) = if ours.is_done() {
        (rust_writes, java_writes, waiting)
    } else {
        (java_writes, rust_writes, ours)
    };
    sleep(SECOND / 3);
    assert!(!last.is_done(), "the other writer still waits");
    assert!(first.unlock("door").is_true());
    assert!(last.wait(SECOND * 5).acquired());
    assert!(second.unlock("door").is_true());
    shown("read-write: Java's readers wait for no writer", Way::RustToJava);
    shown("read-write: Leasehold readers do not yield to waiting Java writers", Way::JavaToRust);
}

/// Readers of one process share a hold. Without a pause between their holds, a Redisson writer
/// would never acquire.
#[test]
fn redisson_writer_acquires_between_short_rust_reads() {
    let both = Together::start();
    let (runtime, url) = (Runtime::new().unwrap(), both.redis.url());
    let client = runtime.block_on(Client::connect(&url)).unwrap();
    for _ in 0..64 {
        let read = client.read_write_lock("door").unwrap().read();
        runtime.spawn(async move {
            loop {
                read.acquire().await.unwrap().release().await.unwrap().into_result().unwrap();
            }
        });
    }
    let writer = both.java.thread("W").writes();
    let slowest = (0..10).map(|_| {
        let waited = writer.start_lock("door").wait(SECOND * 20).waited();
        assert!(writer.unlock("door").is_true());
        waited
    });
    let slowest = slowest.max().unwrap();
    runtime.shutdown_background();
    assert!(slowest < SECOND * 5, "{slowest:?}");
    shown("read-write: a Redisson writer acquires between short Rust reads", Way::RustToJava);
}

// Renewal.

#[test]
fn readers_and_writers_are_renewed_while_they_hold() {
    let both = Together::with(|setup| setup.watchdog(SECOND * 3));
    let cases: Vec<_> = WAYS
        .into_iter()
        .flat_map(|way| IN_THE_WAY.map(|it| (way, it)))
        .map(|(way, kinds)| (format!("{way} {kinds:?}"), way, kinds))
        .collect();
    for (name, way, kinds) in &cases {
        assert!(pair(&both, *way, *kinds)[0].lock(name).acquired());
    }
    // 9 s are three ttls.
    let began = Instant::now();
    while began.elapsed() < SECOND * 9 {
        for (name, way, kinds) in &cases {
            let [holder, waiter] = pair(&both, *way, *kinds);
            let ttl = waiter.of(kinds[0]).remain_time_to_live(name).number();
            assert!((1..=3_000).contains(&ttl), "{name}: {ttl}");
            assert!(!waiter.try_lock(name).acquired(), "{name}: after {:?}", began.elapsed());
            assert!(holder.is_held(name).is_true());
        }
        sleep(SECOND / 4);
    }
    for (name, way, kinds) in &cases {
        let [holder, waiter] = pair(&both, *way, *kinds);
        assert!(holder.unlock(name).is_true(), "{name}");
        assert!(waiter.try_lock(name).acquired(), "{name}");
        assert!(waiter.unlock(name).is_true());
        shown("read-write: the watchdog renews both sides for three ttls", *way);
    }
}

// Killed processes.

#[test]
fn killed_reader_or_writer_blocks_waiters_until_its_lease_ends() {
    for (way, kinds) in WAYS.into_iter().flat_map(|way| IN_THE_WAY.map(|it| (way, it))) {
        let mut both = Together::with(|setup| setup.watchdog(SECOND * 3));
        let [holder, waiter] = pair(&both, way, kinds);
        assert!(holder.lock("door").acquired());
        let waiting = waiter.start_lock("door");
        asleep(&both, 1);

        both.kill_holder(way);
        let killed = Instant::now();
        let left = both.redis.command(&["PTTL", "door"]).number();
        assert!((1..=3_000).contains(&left), "{kinds:?}, {way}: {left}");
        let left = Duration::from_millis(left.unsigned_abs());

        assert!(waiting.wait(SECOND * 10).acquired(), "{kinds:?}, {way}");
        let late = killed.elapsed().saturating_sub(left);
        assert!(killed.elapsed() + SECOND / 50 >= left, "{kinds:?}, {way}");
        assert!(late < AT_ONCE, "{kinds:?}, {way}: {late:?} after the end");
        let [held, wanted] = kinds;
        woken(&format!("read-write: kill -9 of a holder of {held}, then {wanted}"), way, late);
    }
}

/// `testMultiInstanceZombieReadLockPerformance` of Redisson's read-write lock. This test shows why
/// each reader has a key for its own lease.
#[test]
fn killed_reader_expires_while_the_other_language_reads() {
    for way in WAYS {
        // given a reader of each language
        let mut both = Together::with(|setup| setup.watchdog(SECOND * 3));
        let [dies, reads] = pair(&both, way, [Kind::Read, Kind::Read]);
        assert!(dies.lock("door").acquired());
        assert!(reads.lock("door").acquired());

        // when one reader is killed, and its lease has ended
        both.kill_holder(way);
        sleep(SECOND * 4);

        // then the other reader still reads, and after its release the dead reader blocks no writer
        assert!(reads.is_held("door").is_true());
        let writer = reads.of(Kind::Write);
        assert!(!writer.try_lock("door").acquired(), "{way}");
        assert!(reads.unlock("door").is_true());
        let entered = writer.try_lock("door");
        assert!(entered.acquired(), "{way}: {:?}", fields(&both.redis));
        assert!(writer.unlock("door").is_true());
        shown("read-write: a dead reader expires while others read", way);
    }
}

// Downgrade.

#[test]
fn downgrade_admits_readers_of_the_other_language() {
    let both = Together::start();
    for way in WAYS {
        let [writer, reader] = pair(&both, way, [Kind::Write, Kind::Read]);
        assert!(writer.lock("door").acquired());
        assert!(writer.reads().lock("door").acquired());
        let waiting = reader.start_lock("door");
        asleep(&both, 1);
        assert!(!waiting.is_done());

        let down = writer.unlock("door");

        assert!(down.is_true());
        let delay = wake_up(&down, &waiting.wait(SECOND * 10));
        let bound = match way {
            Way::RustToJava => AT_ONCE,
            // Redisson publishes no message for a downgrade, so Leasehold repeats its request by
            // its timer.
            Way::JavaToRust => SECOND * 5,
        };
        assert!(delay < bound, "{way}: {delay:?}");
        assert!(!reader.of(Kind::Write).try_lock("door").acquired());
        assert!(writer.reads().unlock("door").is_true());
        assert!(reader.unlock("door").is_true());
        assert_eq!(both.redis.command(&["EXISTS", "door"]).number(), 0, "{way}");
        woken("read-write: downgrade lets readers in", way, delay);
    }
}

/// Redisson publishes no message for a downgrade. So waiting readers wait for the rest of the
/// lease, which is half a minute by default.
#[test]
fn java_downgrade_wakes_no_waiter() {
    let both = Together::start();
    let (writer, reader) = (both.java.thread("W").writes(), both.java.thread("R").reads());
    let held = writer.lock_for("door", SECOND * 12);
    assert!(writer.reads().lock_for("door", SECOND * 30).acquired());
    let waiting = reader.start_lock("door");
    asleep(&both, 1);
    assert!(writer.unlock("door").is_true());
    sleep(SECOND);
    assert!(!waiting.is_done(), "{held:?}");
    both.redis.command(&["PUBLISH", &Kind::Read.channel("door"), "1"]);
    assert!(waiting.wait(SECOND * 5).acquired());
    assert!(reader.unlock("door").is_true());
    assert!(writer.reads().unlock("door").is_true());
}

/// Ported from `testWR` and `testWriteReadReentrancy`.
#[test]
fn writer_that_releases_its_read_hold_keeps_its_write_hold() {
    let both = Together::start();
    for way in WAYS {
        let [writer, other] = pair(&both, way, [Kind::Write, Kind::Read]);
        assert!(writer.lock("door").acquired());
        assert!(writer.reads().lock("door").acquired());
        assert!(writer.reads().unlock("door").is_true());
        assert!(writer.is_held("door").is_true() && !other.try_lock("door").acquired(), "{way}");
        assert!(writer.unlock("door").is_true());
        assert!(other.try_lock("door").acquired(), "{way}");
        assert!(other.unlock("door").is_true());
        shown("read-write: a writer releases its read hold and keeps writing", way);
    }
}

// Reentry.

#[test]
fn java_readers_reenter_while_rust_readers_share_one_hold() {
    let both = Together::start();
    let (java, rust) = (both.java.thread("R").reads(), both.rust.thread("R").reads());
    for count in 1..=3 {
        assert!(java.lock("door").acquired() && rust.lock("door").acquired());
        assert_eq!(java.hold_count("door").number(), count);
        // In Redis, all Leasehold readers of a process are one reader.
        assert_eq!(rust.hold_count("door").number(), 1);
    }
    let leases = both.redis.command(&["KEYS", "{door}:*:rwlock_timeout:*"]);
    assert_eq!(leases.list().len(), 3 + 1);
    for left in (0..=2).rev() {
        assert!(rust.unlock("door").is_true());
        assert_eq!(rust.hold_count("door").number(), i64::from(left > 0));
        assert_eq!(java.hold_count("door").number(), 3);
    }
    for left in (0..=2).rev() {
        let ttl = both.redis.command(&["PTTL", "door"]).number();
        assert!(ttl > 20_000, "{ttl}");
        assert!(java.unlock("door").is_true());
        assert_eq!(java.hold_count("door").number(), left);
    }
    assert!(both.redis.command(&["KEYS", "{door}*"]).list().is_empty());

    for writer in [both.java.thread("W").writes(), both.rust.thread("W").writes()] {
        for count in 1..=3 {
            assert!(writer.lock("door").acquired());
            assert_eq!(writer.hold_count("door").number(), count);
        }
        for left in (0..=2).rev() {
            assert!(!rust.try_lock("door").acquired() && !java.try_lock("door").acquired());
            assert!(writer.unlock("door").is_true());
            assert_eq!(writer.hold_count("door").number(), left);
        }
        assert!(rust.try_lock("door").acquired() && java.try_lock("door").acquired());
        assert!(rust.unlock("door").is_true() && java.unlock("door").is_true());
    }
    shown("read-write: re-entry beside the other language", Way::RustToJava);
    shown("read-write: re-entry beside the other language", Way::JavaToRust);
}

/// One reader releases while a reader of the other language stays. The lock must last as long as
/// the longest remaining lease.
#[test]
fn reader_release_keeps_the_longest_lease_of_other_readers() {
    let both = Together::start();
    for way in WAYS {
        let [stays, leaves] = pair(&both, way, [Kind::Read, Kind::Read]);
        assert!(stays.lock_for("door", SECOND * 9).acquired());
        assert!(leaves.lock("door").acquired());
        let ttl = both.redis.command(&["PTTL", "door"]).number();
        assert!(ttl > 20_000, "{way}: {ttl}");
        assert!(leaves.unlock("door").is_true());
        let ttl = both.redis.command(&["PTTL", "door"]).number();
        assert!((2_000..=9_000).contains(&ttl), "{way}: {ttl}");
        assert!(stays.unlock("door").is_true());
        shown("read-write: the lock lasts as long as the remaining leases", way);
    }
}

// Forced releases.

/// Ported from `testForceUnlock`.
#[test]
fn forced_release_ends_only_the_given_side_and_wakes_waiters() {
    let both = Together::start();
    for (way, kinds) in WAYS.into_iter().flat_map(|way| IN_THE_WAY.map(|it| (way, it))) {
        let [holder, waiter] = pair(&both, way, kinds);
        assert!(holder.lock("door").acquired());
        let other_side = if kinds[0] == Kind::Read { Kind::Write } else { Kind::Read };
        assert!(!waiter.of(other_side).force_unlock("door").is_true(), "{kinds:?}, {way}");
        assert!(holder.is_held("door").is_true());
        let waiting = waiter.start_lock("door");
        asleep(&both, 1);

        // when a third client of the holder's language releases the holder by force
        let third = match way {
            Way::RustToJava => both.rust.thread("third"),
            Way::JavaToRust => both.java.thread("third"),
        };
        let forced = third.of(kinds[0]).force_unlock("door");

        assert!(forced.is_true(), "{kinds:?}, {way}");
        let delay = wake_up(&forced, &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{kinds:?}, {way}: {delay:?}");
        assert!(holder.unlock("door").failure().is_some(), "{kinds:?}, {way}");
        // The waiter holds now. The third client also releases the lock of the waiter by force.
        assert!(third.of(kinds[1]).force_unlock("door").is_true(), "{kinds:?}, {way}");
        assert!(waiter.unlock("door").failure().is_some(), "{kinds:?}, {way}");
        asleep(&both, 0);
        let [held, wanted] = kinds;
        woken(&format!("read-write: force of {held} wakes a waiter to {wanted}"), way, delay);
    }
}

// Keys.

#[test]
fn java_and_rust_leave_the_same_keys() {
    let [java, rust] = [Way::JavaToRust, Way::RustToJava].map(|way| {
        let both = Together::start();
        let [one, other] = ["T1", "T2"].map(|name| match way {
            Way::JavaToRust => both.java.thread(name),
            Way::RustToJava => both.rust.thread(name),
        });
        let mut steps = Vec::new();
        let mut look = |step: &'static str| steps.push((step, keys(&both.redis)));
        let (reads, writes) = (one.reads(), one.writes());
        assert!(reads.lock("door").acquired());
        look("one reads");
        assert!(other.reads().lock_for("door", SECOND * 12).acquired());
        look("another one with a lease");
        assert!(reads.unlock("door").is_true());
        look("the first one left");
        assert!(other.reads().unlock("door").is_true());
        look("and the other one");
        assert!(writes.lock("door").acquired());
        look("one writes");
        assert!(writes.lock("door").acquired());
        look("twice");
        assert!(writes.unlock("door").is_true());
        look("once");
        assert!(reads.lock("door").acquired());
        look("and reads");
        assert!(writes.unlock("door").is_true());
        look("and writes no longer");
        assert!(reads.unlock("door").is_true());
        look("nor reads");
        assert!(writes.lock_for("door", SECOND * 12).acquired());
        look("writes with a lease");
        assert!(writes.unlock("door").is_true());
        look("no longer");
        steps
    });
    for (ours, theirs) in rust.iter().zip(&java) {
        // A Redisson writer that reenters adds the lease to the rest of the former lease.
        let (step, theirs) =
            (theirs.0, theirs.1.join("\n").replace("ends in 60000", "ends in 30000"));
        assert_eq!((ours.0, ours.1.join("\n")), (step, theirs));
    }
    let read = "door: hash <owner>=1 mode=read, ends in 30000".to_owned();
    let lease = "{door}:<owner>:rwlock_timeout:1: string 1, ends in 30000".to_owned();
    assert_eq!(rust[0].1, [read, lease]);
    assert_eq!(rust[4].1, ["door: hash <owner>:write=1 mode=write, ends in 30000"]);
    shown("read-write: keys, fields and ttls after each step", Way::RustToJava);
    shown("read-write: keys, fields and ttls after each step", Way::JavaToRust);
}

#[test]
fn name_with_a_hash_tag_gets_no_added_braces() {
    let both = Together::start();
    for name in ["{tag}door", "door {tag}", "a b: ключ"] {
        for way in WAYS {
            let [holder, waiter] = pair(&both, way, [Kind::Read, Kind::Write]);
            assert!(holder.lock(name).acquired());
            let tagged = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
            let leases = both.redis.command(&["KEYS", "*rwlock_timeout:1"]);
            assert!(leases.texts()[0].starts_with(&format!("{tagged}:")), "{leases:?}");
            let waiting = waiter.start_lock(name);
            until_asleep_on(&both.redis, &format!("redisson_rwlock:{tagged}"), 1);
            let delay = wake_up(&holder.unlock(name), &waiting.wait(SECOND * 10));
            assert!(delay < AT_ONCE, "{name}, {way}: {delay:?}");
            assert!(waiter.unlock(name).is_true());
            woken("read-write: names with hash tags, spaces, other alphabets", way, delay);
        }
    }
}

/// A name must be used for only one kind. Redisson's plain lock and its write lock treat each
/// other's hash as held. But Redisson's read lock is granted although the hash is of a plain lock.
#[test]
fn plain_lock_excludes_rust_but_not_java_readers_of_its_name() {
    let both = Together::start();
    assert!(both.java.thread("L").lock("door").acquired());
    for side in [Kind::Read, Kind::Write] {
        assert!(!both.rust.thread("T").of(side).try_lock("door").acquired());
    }
    assert!(both.java.thread("T").reads().try_lock("door").acquired());
    shown("read-write: a plain lock of the name excludes Rust readers", Way::JavaToRust);
}

/// Every key with its fields and its TTL, except Redisson's latches.
fn keys(redis: &Redis) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for key in redis.command(&["KEYS", "*"]).texts() {
        let ttl = redis.command(&["PTTL", key]).number();
        // Rounds the TTL up, because this test reads it a moment after the request.
        let ends = match ttl {
            50_000.. => 60_000,
            25_000.. => 30_000,
            7_000..=12_000 => 12_000,
            ttl => ttl,
        };
        let content = match redis.command(&["TYPE", key]).text() {
            "hash" => fields(redis).join(" "),
            _ => redis.command(&["GET", key]).text().to_owned(),
        };
        let kind = redis.command(&["TYPE", key]).text().to_owned();
        if !key.contains("unlock_latch") {
            lines.push(format!("{}: {kind} {content}, ends in {ends}", without_owner(key)));
        }
    }
    lines.sort();
    lines
}

/// The fields and values of the lock's hash, sorted.
fn fields(redis: &Redis) -> Vec<String> {
    let all = redis.command(&["HGETALL", "door"]);
    let texts = all.texts();
    let pairs = texts.chunks(2).map(|it| format!("{}={}", without_owner(it[0]), it[1]));
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort();
    pairs
}

/// Replaces a uuid and the number after it by `<owner>`.
fn without_owner(text: &str) -> String {
    let is_uuid = |at: usize| {
        let uuid = text.get(at..at + 37).filter(|uuid| uuid.ends_with(':'));
        uuid.is_some_and(|uuid| uuid.matches('-').count() == 4 && !uuid.contains(['{', '}']))
    };
    let Some(at) = (0..text.len()).find(|&at| is_uuid(at)) else { return text.to_owned() };
    let number = text[at + 37..].find(|c: char| !c.is_ascii_digit());
    format!("{}<owner>{}", &text[..at], number.map_or("", |end| &text[at + 37 + end..]))
}

const SECOND: Duration = Duration::from_secs(1);
