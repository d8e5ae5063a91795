//! `RPermitExpirableSemaphore` with Leasehold's `ExpirableSemaphore`: one language holds, waits,
//! releases or dies, and the other language observes this.

use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use interop::{AT_ONCE, Answer, Java, Redisson, Setup, Thread, Way, shown};
use leasehold::blocking::{Client, ExpirablePermits, ExpirableSemaphore};
use leasehold::{PermitId, Release};
use serde_json::{Value, json};
use testkit::{Redis, eventually};

/// A Redis server, and a client of each language.
struct Both {
    redis: Redis,
    java: Java,
    rust: ExpirableSemaphore,
}

impl Both {
    fn of(count: u32) -> Self {
        Self::with(Redisson::V4, count)
    }

    fn with(version: Redisson, count: u32) -> Self {
        let redis = Redis::start();
        let java = Java::start(&Setup::new(redis.url()).redisson(version));
        let rust = Client::connect(&redis.url()).unwrap().expirable_semaphore(NAME).unwrap();
        assert!(rust.set_if_absent(count).unwrap());
        Self { redis, java, rust }
    }

    fn thread(&self) -> Thread {
        self.java.thread("T1")
    }

    fn ask(&self, op: &str, arguments: Value) -> Answer {
        self.thread().permits(op, NAME, arguments)
    }

    fn number(&self, op: &str) -> i64 {
        self.ask(op, json!({})).number()
    }

    /// Asserts that both clients return these numbers of permits: free, held, and total.
    #[track_caller]
    fn agree(&self, expected: [i64; 3]) {
        let java = ["available", "held", "total"].map(|op| self.number(op));
        let rust =
            [self.rust.available(), self.rust.acquired(), self.rust.total()].map(Result::unwrap);
        assert_eq!((java, rust), (expected, expected));
    }

    /// Waits until `count` clients are subscribed and sleep.
    #[track_caller]
    fn until_asleep(&self, count: i64) {
        eventually("the waiters are subscribed", SECOND * 10, || {
            self.redis.command(&["PUBSUB", "NUMSUB", CHANNEL]).list()[1].number() == count
        });
        sleep(SECOND / 5);
    }

    /// Starts a Leasehold task that waits for a permit.
    fn waits(&self) -> thread::JoinHandle<ExpirablePermits> {
        let permits = self.rust.clone();
        thread::spawn(move || permits.acquire_within(SECOND * 30).unwrap())
    }
}

fn ids(answer: &Answer) -> Vec<PermitId> {
    let ids = answer.value()["ids"].as_array().expect("the reply has a list of ids").iter();
    ids.map(|id| PermitId::new(id.as_str().expect("an id is a text")).expect("the text is an id"))
        .collect()
}

fn release_guard(guard: ExpirablePermits) {
    assert_eq!(guard.release().unwrap(), Release::Released);
}

#[test]
fn permits_held_by_one_language_are_busy_for_the_other() {
    let both = Both::of(5);
    both.agree([5, 0, 5]);
    let guard = both.rust.acquire_many(2).unwrap();
    let held = ids(&both.ask("acquire", json!({ "lease_ms": 60_000 })));
    both.agree([2, 3, 5]);
    for _ in 0..2 {
        both.ask("acquire", json!({}));
    }
    assert!(both.rust.try_acquire().unwrap().is_none());
    assert!(!both.ask("tryAcquire", json!({})).acquired());
    release_guard(guard);
    assert!(both.ask("release", json!({ "permit": held[0].to_string() })).is_true());
    both.agree([3, 2, 5]);
    shown("permits: counted by both", Way::RustToJava);
    shown("permits: counted by both", Way::JavaToRust);
}

#[test]
fn java_and_rust_leave_the_same_keys() {
    // given the data that each client leaves while it holds one of two permits for a minute
    let left_by = |rust: bool| {
        let both = Both::of(2);
        let guard = rust.then(|| both.rust.clone().lease(SECOND * 60).acquire().unwrap());
        if !rust {
            both.ask("acquire", json!({ "lease_ms": 60_000 }));
        }
        let command = |words: &[&str]| both.redis.command(words);
        let mut keys: Vec<String> =
            command(&["KEYS", "*"]).texts().into_iter().map(str::to_owned).collect();
        keys.retain(|key| !key.contains("__receipt"));
        keys.sort();
        let kinds: Vec<String> =
            keys.iter().map(|it| command(&["TYPE", it]).text().into()).collect();
        let ends: Vec<i64> = keys.iter().map(|key| command(&["PTTL", key]).number()).collect();
        let free = command(&["GET", NAME]).text().to_owned();
        let length = "return #redis.call('ZRANGE', KEYS[1], 0, 0)[1]";
        let length = command(&["EVAL", length, "1", HELD]).number();
        let encoding = command(&["OBJECT", "ENCODING", NAME]).text().to_owned();
        drop(guard);
        (keys, kinds, ends, free, length, encoding)
    };
    let (ours, theirs) = (left_by(true), left_by(false));
    assert_eq!(ours, theirs);
    assert_eq!((ours.0, ours.4), (vec![NAME.to_owned(), HELD.to_owned()], 16));
    shown("permits: the same keys, types and lengths", Way::RustToJava);
    shown("permits: the same keys, types and lengths", Way::JavaToRust);
}

#[test]
fn permit_release_wakes_the_waiter_of_the_other_language() {
    let both = Both::of(1);
    let guard = both.rust.acquire().unwrap();
    let waiting = both.thread().start_permits("acquire", NAME, json!({}));
    both.until_asleep(1);
    assert!(!waiting.is_done());
    let begun = Instant::now();
    release_guard(guard);
    let held = ids(&waiting.wait(SECOND * 10));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    shown("permits: a waiter is woken by a release", Way::RustToJava);

    let waiting = both.waits();
    both.until_asleep(1);
    assert!(!waiting.is_finished());
    let begun = Instant::now();
    assert!(both.ask("release", json!({ "permit": held[0].to_string() })).is_true());
    release_guard(waiting.join().unwrap());
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    shown("permits: a waiter is woken by a release", Way::JavaToRust);
    both.agree([1, 0, 1]);
}

#[test]
fn rust_release_wakes_one_java_waiter_per_permit() {
    let both = Both::of(3);
    let guard = both.rust.acquire_many(3).unwrap();
    let threads = ["A", "B", "C"].map(|name| both.java.thread(name));
    let waiting = threads.map(|thread| thread.start_permits("acquire", NAME, json!({})));
    both.until_asleep(1);
    let begun = Instant::now();
    release_guard(guard);
    for waiting in waiting {
        assert!(waiting.wait(SECOND * 10).acquired());
    }
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    both.agree([0, 3, 3]);
    shown("permits: one release wakes many", Way::RustToJava);
}

#[test]
fn java_and_rust_acquire_a_permit_when_its_lease_ends() {
    let both = Both::of(1);
    let lease = SECOND * 2;
    let begun = Instant::now();
    let guard = both.rust.clone().lease(lease).acquire().unwrap();
    let id = ids(&both.ask("acquire", json!({ "lease_ms": 6_000 })))[0];
    assert!((lease * 9 / 10..lease * 5).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert!(guard.release().unwrap().into_result().is_err());
    shown("permits: a lease ends", Way::RustToJava);

    let begun = Instant::now();
    release_guard(both.rust.acquire_within(SECOND * 20).unwrap());
    assert!((lease * 9 / 10..lease * 5).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert!(!both.ask("tryRelease", json!({ "permit": id.to_string() })).is_true());
    both.agree([1, 0, 1]);
    shown("permits: a lease ends", Way::JavaToRust);
}

#[test]
fn java_and_rust_manage_each_others_permits_by_id() {
    let both = Both::of(2);
    let guard = both.rust.acquire().unwrap();
    let ours = guard.ids()[0].to_string();
    assert!(both.ask("updateLease", json!({ "permit": ours, "lease_ms": 60_000 })).is_true());
    let left = both.rust.lease_of(guard.ids()[0]).unwrap().unwrap();
    assert!(left > SECOND * 50, "{left:?}");
    assert!(both.ask("tryRelease", json!({ "permit": ours })).is_true());
    assert!(guard.release().unwrap().into_result().is_err(), "Java has released the permit");
    shown("permits: known by their ids", Way::RustToJava);

    let theirs = ids(&both.ask("acquire", json!({})))[0];
    assert_eq!(
        both.rust.lease_of(theirs).unwrap(),
        Some(Duration::MAX),
        "a permit without a lease never expires"
    );
    assert!(both.rust.update_lease(theirs, SECOND * 60).unwrap());
    assert!(both.rust.release_id(theirs).unwrap());
    let released = both.ask("release", json!({ "permit": theirs.to_string() }));
    assert!(released.failure().is_some(), "Java cannot release a permit that is not held");
    both.agree([2, 0, 2]);
    shown("permits: known by their ids", Way::JavaToRust);
}

#[test]
fn java_and_rust_acquire_many_permits_by_one_call() {
    let both = Both::of(4);
    let theirs = ids(&both.ask("acquire", json!({ "count": 3 })));
    assert_eq!(theirs.len(), 3);
    assert!(both.rust.try_acquire_many(2).unwrap().is_none());
    for id in theirs {
        assert!(both.rust.release_id(id).unwrap());
    }
    let guard = both.rust.acquire_many(4).unwrap();
    let waiting = both.thread().start_permits("acquire", NAME, json!({ "count": 4 }));
    both.until_asleep(1);
    release_guard(guard);
    assert_eq!(ids(&waiting.wait(SECOND * 10)).len(), 4);
    shown("permits: many at once", Way::RustToJava);
    shown("permits: many at once", Way::JavaToRust);
}

#[test]
fn java_and_rust_accept_a_negative_number_of_free_permits() {
    let both = Both::of(2);
    assert!(!both.ask("trySet", json!({ "count": 9 })).is_true());
    both.ask("add", json!({ "count": 1 }));
    both.rust.add(2).unwrap();
    both.agree([5, 0, 5]);
    let guard = both.rust.acquire_many(5).unwrap();
    both.rust.set(1).unwrap();
    both.agree([-4, 5, 1]);

    // given a Java waiter, and released permits while the number of free permits is negative
    let waiting = both.thread().start_permits("acquire", NAME, json!({}));
    both.until_asleep(1);
    for id in &guard.ids()[..4] {
        both.rust.release_id(*id).unwrap();
    }
    assert!(!waiting.is_done());
    // then the release that makes a permit free notifies the Java waiter
    both.rust.release_id(guard.ids()[4]).unwrap();
    assert!(waiting.wait(SECOND * 10).acquired());
    shown("permits: the number of free permits is below 0", Way::RustToJava);
}

#[test]
fn permits_of_a_killed_java_process_expire() {
    let both = Both::of(1);
    both.ask("acquire", json!({ "lease_ms": 3_000 }));
    let waiting = both.waits();
    both.until_asleep(1);
    let Both { mut java, rust, redis: _redis } = both;
    let begun = Instant::now();
    java.kill();
    release_guard(waiting.join().unwrap());
    assert!(begun.elapsed() < SECOND * 10, "{:?}", begun.elapsed());
    assert_eq!(rust.available().unwrap(), 1);
    shown("permits: the holder is killed", Way::JavaToRust);
}

/// Many threads of both languages. A number in Redis counts how many of these threads hold a permit
/// at the same time.
fn contenders(version: Redisson, count: u32) {
    const THREADS: u32 = 6;
    const ROUNDS: u32 = 60;
    let both = Both::with(version, count);
    let arguments = json!({ "gauge": "inside", "threads": THREADS, "rounds": ROUNDS });
    let theirs = both.thread().start_permits("crowd", NAME, arguments);
    let ours: Vec<_> = (0..THREADS)
        .map(|_| {
            let (permits, port) = (both.rust.clone(), both.redis.port());
            thread::spawn(move || {
                let mut redis = testkit::Connection::open(port);
                let mut most = 0;
                for _ in 0..ROUNDS {
                    let guard = permits.acquire_within(SECOND * 60).unwrap();
                    most = most.max(redis.command(&["INCR", "inside"]).number());
                    sleep(Duration::from_micros(500));
                    redis.command(&["DECR", "inside"]);
                    release_guard(guard);
                }
                most
            })
        })
        .collect();
    let ours = ours.into_iter().map(|thread| thread.join().unwrap()).max().unwrap();
    let theirs = theirs.wait(SECOND * 120);
    let most = theirs.value()["most"].as_i64().unwrap().max(ours);
    assert_eq!(theirs.value()["done"], THREADS * ROUNDS);
    assert!(most <= i64::from(count), "{most} threads were inside, {count} are allowed");
    let all = i64::from(count);
    both.agree([all, 0, all]);
}

#[test]
fn java_and_rust_never_hold_more_permits_than_exist() {
    contenders(Redisson::V4, 1);
    contenders(Redisson::V4, 3);
    shown("permits: a mixed crowd, one and three at a time", Way::RustToJava);
    shown("permits: a mixed crowd, one and three at a time", Way::JavaToRust);
}

#[test]
fn redisson_3_29_and_rust_never_hold_more_permits_than_exist() {
    contenders(Redisson::V3, 2);
    shown("permits: a mixed crowd with 3.29", Way::JavaToRust);
}

const NAME: &str = "printers";
const HELD: &str = "{printers}:timeout";
const CHANNEL: &str = "redisson_sc:{printers}";
const SECOND: Duration = Duration::from_secs(1);
