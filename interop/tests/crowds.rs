//! Contention of both languages for one lock: no increment is lost, no thread starves, and other
//! processes continue when one process dies.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use interop::{Contenders, Java, Kind, Pending, Report, Rust, Setup, Way, measured, shown, woken};
use testkit::{Monitor, Redis};

/// The share of all holds that each language must have.
const SHARE: std::ops::RangeInclusive<f64> = 0.1..=0.9;

/// The longest wait for a lock that sixteen threads request, each for some milliseconds. This bound
/// is far below a lease of 30 s.
///
/// Each thread pauses for 40 ms after a hold. The eight threads of one language therefore cannot
/// keep the lock busy, and the shares do not depend on how fast a client wakes up.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

const MILLI: Duration = Duration::from_millis(1);

/// The ttl, and so the longest time for which a killed holder blocks other threads.
const TTL: Duration = Duration::from_secs(3);

#[test]
fn java_and_rust_lose_no_increment_and_no_client_starves() {
    mixed_contenders(Kind::Lock);
}

#[test]
fn later_holds_of_java_or_rust_have_higher_tokens() {
    let (redis, counted) = mixed_contenders(Kind::Fenced);
    assert_tokens_grow(&redis, counted);
    shown("crowd: tokens in the order of holds", Way::RustToJava);
    shown("crowd: tokens in the order of holds", Way::JavaToRust);
}

/// Returns the server, and the number of holds.
fn mixed_contenders(kind: Kind) -> (Redis, u64) {
    // given two processes of each language, with four threads each
    let _alone = alone();
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let (javas, rusts) = (two(|| Java::start(&setup)), two(|| Rust::start(&setup)));
    let monitor = redis.monitor();

    // when all threads increment one counter for some seconds
    let contenders = Contenders::new("door", "counter", 4).at_most(10).hold(MILLI).rest(MILLI * 40);
    let ours =
        rusts.each_ref().map(|rust| rust.thread("crowd").of(kind).start_contenders(&contenders));
    let theirs =
        javas.each_ref().map(|java| java.thread("crowd").of(kind).start_contenders(&contenders));
    let (ours, theirs) = (ours.map(report), theirs.map(report));

    // then the counter contains all increments
    let [by_rust, by_java] = [&ours, &theirs].map(|of| of.iter().map(|it| it.total).sum::<u64>());
    let counted: u64 = redis.command(&["GET", "counter"]).text().parse().unwrap();
    assert_eq!(counted, by_rust + by_java);
    assert_one_by_one(monitor, counted);

    // and every thread acquired, no thread waited for long, and both languages had their share
    let share = by_rust as f64 / counted as f64;
    assert!(SHARE.contains(&share), "{by_rust} by Rust, {by_java} by Java");
    for report in ours.iter().chain(&theirs) {
        assert!(report.done.iter().all(|&done| done > 0), "{report:?}");
        assert!(report.max_wait < LONGEST_WAIT, "{report:?}");
    }
    tell(&format!("crowd, {kind}: share of all increments"), by_rust, by_java);
    let longest = |of: &[Report; 2]| of.iter().map(|it| it.max_wait).max().unwrap();
    woken(&format!("crowd, {kind}: longest wait"), Way::JavaToRust, longest(&ours));
    woken(&format!("crowd, {kind}: longest wait"), Way::RustToJava, longest(&theirs));
    (redis, counted)
}

#[test]
fn each_hold_of_a_handed_off_fenced_lock_has_its_own_token() {
    // given eight tasks of one Leasehold client, and two Java threads
    let _alone = alone();
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let (rust, java) = (Rust::start(&setup), Java::start(&setup));

    // when all tasks and threads contend for one lock without pauses
    let contenders = |threads| Contenders::new("door", "counter", threads).at_most(5);
    let ours = rust.thread("crowd").fenced().start_contenders(&contenders(8));
    let theirs = java.thread("crowd").fenced().start_contenders(&contenders(2));
    let (ours, theirs) = (report(ours), report(theirs));

    // then Leasehold drew tokens for several holds by one request, and each hold still has its own
    // token
    let counted: u64 = redis.command(&["GET", "counter"]).text().parse().unwrap();
    assert_eq!(counted, ours.total + theirs.total);
    assert!(theirs.total > 0, "{theirs:?}");
    let draws = redis.calls().of("incrby");
    assert!(draws * 2 < ours.total, "{draws} draws for {} holds", ours.total);
    assert_tokens_grow(&redis, counted);
    let figure = format!("{} holds, {draws} draws", ours.total);
    measured("crowd: tokens of tasks that hand off the lock", Way::JavaToRust, &figure);
    let figure = format!("{} holds", theirs.total);
    measured("crowd: tokens of tasks that hand off the lock", Way::RustToJava, &figure);
}

#[test]
fn java_and_rust_continue_when_one_client_of_each_dies() {
    // given two processes of each language, with four threads each
    let _alone = alone();
    let redis = Redis::start();
    let setup = Setup::new(redis.url()).watchdog(TTL);
    let [java, mut doomed_java] = two(|| Java::start(&setup));
    let [rust, mut doomed_rust] = two(|| Rust::start(&setup));
    let monitor = redis.monitor();
    let contenders = Contenders::new("door", "counter", 4).at_most(14).hold(MILLI).rest(MILLI * 40);
    let (ours, theirs) = (
        rust.thread("crowd").start_contenders(&contenders),
        java.thread("crowd").start_contenders(&contenders),
    );
    let forgotten: [Pending; 2] = [
        doomed_rust.thread("crowd").start_contenders(&contenders),
        doomed_java.thread("crowd").start_contenders(&contenders),
    ];

    // when one process of each language is killed during its work
    let counted = || redis.command(&["GET", "counter"]).text().parse::<u64>().unwrap();
    sleep(Duration::from_secs(2));
    drop(forgotten);
    doomed_rust.kill();
    sleep(Duration::from_secs(4));
    let after_one = counted();
    doomed_java.kill();
    let (ours, theirs) = (report(ours), report(theirs));

    // then no increment is lost, neither of a dead process nor of a living one
    let all = counted();
    assert!(all > after_one, "the count grows after {after_one}");
    assert!(
        ours.total + theirs.total < all,
        "the dead processes have counted, too: {ours:?} {theirs:?}"
    );
    assert_one_by_one(monitor, all);

    // and the living processes continue, after at most one ttl for each dead process
    let share = ours.total as f64 / (ours.total + theirs.total) as f64;
    assert!(SHARE.contains(&share), "{ours:?} {theirs:?}");
    for report in [&ours, &theirs] {
        assert!(report.done.iter().all(|&done| done > 0), "{report:?}");
        assert!(report.max_wait < TTL + LONGEST_WAIT, "{report:?}");
    }
    tell("crowd: share of the living processes, one of each killed", ours.total, theirs.total);
    woken("crowd: longest wait, one of each killed", Way::JavaToRust, ours.max_wait);
    woken("crowd: longest wait, one of each killed", Way::RustToJava, theirs.max_wait);
}

#[test]
fn java_and_rust_with_spin_locks_lose_no_increment() {
    let _alone = alone();
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let (java, rust) = (Java::start(&setup), Rust::start(&setup));
    let monitor = redis.monitor();

    // A spin lock has no queue. So the test does not check shares, and each thread does a fixed
    // number of rounds.
    let contenders = Contenders::new("door", "counter", 2).rounds(150).hold(MILLI);
    let ours = rust.thread("crowd").spin().start_contenders(&contenders);
    let theirs = java.thread("crowd").spin().start_contenders(&contenders);
    let (ours, theirs) = (report(ours), report(theirs));

    assert_eq!((ours.total, theirs.total), (300, 300));
    assert_one_by_one(monitor, 600);
    shown("crowd: spin locks lose nothing", Way::RustToJava);
    shown("crowd: spin locks lose nothing", Way::JavaToRust);
}

/// `testConcurrency_MultiInstance` of Redisson's read-write lock: no reader holds during a write,
/// no writer holds during a read, and readers of both languages hold at the same time.
#[test]
fn java_and_rust_readers_share_and_writers_are_alone() {
    // given two processes of each language
    let _alone = alone();
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let (javas, rusts) = (two(|| Java::start(&setup)), two(|| Rust::start(&setup)));
    let monitor = redis.monitor();

    // when four threads of each process read, and two threads write, for some seconds. Redisson's
    // readers overtake writers. With shorter rests, some reader always holds on a busy machine, and
    // the writers in Java starve.
    let contenders = |threads| {
        Contenders::new("door", "counter", threads).at_most(8).hold(MILLI).rest(MILLI * 150)
    };
    let both = |name: &str| {
        let (java, rust) = (javas.each_ref(), rusts.each_ref());
        [rust.map(|it| it.thread(name)), java.map(|it| it.thread(name))]
    };
    let [readers, writers] = [both("readers"), both("writers")];
    let reading = readers
        .each_ref()
        .map(|of| of.each_ref().map(|it| it.reads().start_contenders(&contenders(4))));
    let writing = writers
        .each_ref()
        .map(|of| of.each_ref().map(|it| it.writes().start_contenders(&contenders(2))));
    let (reading, writing) = (reading.map(|of| of.map(report)), writing.map(|of| of.map(report)));

    // then each writer was the only holder, as all writers and readers have checked
    let total = |of: &[Report; 2]| of.iter().map(|it| it.total).sum::<u64>();
    let counted: u64 = redis.command(&["GET", "counter"]).text().parse().unwrap();
    assert_eq!(counted, total(&writing[0]) + total(&writing[1]));
    assert_one_by_one(monitor, counted);
    assert_eq!(redis.command(&["GET", "counter:readers"]).text(), "0");
    assert_eq!(
        redis.command(&["GET", "counter:beside"]).text(),
        "seen",
        "two threads have read at the same time"
    );
    // and every thread took part
    for report in reading.iter().chain(&writing).flatten() {
        assert!(report.done.iter().all(|&done| done > 0), "{report:?}");
        assert!(report.max_wait < LONGEST_WAIT, "{report:?}");
    }
    tell("crowd, read-write: share of all reads", total(&reading[0]), total(&reading[1]));
    tell("crowd, read-write: share of all writes", total(&writing[0]), total(&writing[1]));
}

/// Asserts that each `SET` of the counter was one more than the previous one. This proves that each
/// holder has seen the increment of the holder before.
#[track_caller]
fn assert_one_by_one(monitor: Monitor, counted: u64) {
    let lines = monitor.stop();
    let set = lines.iter().filter_map(|line| line.split_once(r#""SET" "counter" ""#));
    let set: Vec<u64> = set.map(|(_, n)| n.trim_end_matches('"').parse().unwrap()).collect();
    let expected: Vec<u64> = (1..=counted).collect();
    let differ = set.iter().zip(&expected).find(|(set, expected)| set != expected);
    assert_eq!(differ, None, "(set, expected)");
    assert_eq!(set.len(), expected.len());
}

/// Asserts that each hold had a higher token than the hold before.
#[track_caller]
fn assert_tokens_grow(redis: &Redis, holds: u64) {
    let tokens = redis.command(&["LRANGE", "counter:tokens", "0", "-1"]);
    let tokens: Vec<u64> = tokens.texts().iter().map(|token| token.parse().unwrap()).collect();
    let fall = tokens.windows(2).find(|pair| pair[0] >= pair[1]);
    assert_eq!((fall, tokens.len() as u64), (None, holds));
}

/// Lets only one of these tests run at a time, because two of them would overload the machine.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn two<T>(start: impl Fn() -> T) -> [T; 2] {
    [start(), start()]
}

#[track_caller]
fn report(contenders: Pending) -> Report {
    Report::read(&contenders.wait(Duration::from_secs(40)))
}

fn tell(scenario: &str, by_rust: u64, by_java: u64) {
    let percent = |part: u64| format!("{} %", part * 100 / (by_rust + by_java));
    // The table has one column for each direction. In these rows, a column is for the language
    // that acquires.
    measured(scenario, Way::RustToJava, &format!("Java {}", percent(by_java)));
    measured(scenario, Way::JavaToRust, &format!("Rust {}", percent(by_rust)));
}
