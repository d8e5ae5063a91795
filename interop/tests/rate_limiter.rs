//! `RRateLimiter` and Leasehold's `RateLimiter` share one rate, one window and the same keys, byte
//! for byte.

use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use interop::{Answer, Java, Setup, Thread, Way, shown};
use leasehold::blocking::{Client, RateLimiter};
use leasehold::{Error, Rate};
use serde_json::{Value, json};
use testkit::{Redis, Reply};

const SECOND: Duration = Duration::from_secs(1);
const NAME: &str = "api";

/// A server, and a client of each language.
struct Both {
    redis: Redis,
    java: Java,
    client: Client,
    rust: RateLimiter,
}

impl Both {
    fn start() -> Self {
        let redis = Redis::start();
        let java = Java::start(&Setup::new(redis.url()));
        let client = Client::connect(&redis.url()).unwrap();
        let rust = client.rate_limiter(NAME).unwrap();
        Self { redis, java, client, rust }
    }

    fn ask(&self, op: &str, arguments: Value) -> Answer {
        let thread: Thread = self.java.thread("T1");
        thread.limiter(op, NAME, arguments)
    }

    fn java_takes(&self, permits: u32) -> bool {
        self.ask("tryAcquire", json!({ "permits": permits })).is_true()
    }

    fn rust_takes(&self, permits: u32) -> bool {
        match self.rust.try_acquire(permits) {
            Ok(_) => true,
            Err(Error::RateLimited { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Asserts that both clients see `free` free permits.
    #[track_caller]
    fn both_see(&self, free: i64) {
        let rust = i64::try_from(self.rust.available().unwrap()).unwrap();
        assert_eq!((rust, self.ask("available", json!({})).number()), (free, free));
    }

    /// Returns the keys with their values, but without random bytes and times.
    fn data(&self, id: &str) -> Vec<String> {
        const READ: &str = "local all = {} for _, key in ipairs(redis.call('KEYS', '*api*')) do \
            local kind, shows = redis.call('TYPE', key).ok, '' \
            if kind == 'string' then shows = redis.call('GET', key) \
            elseif kind == 'hash' then \
            shows = table.concat(redis.call('HMGET', key, 'rate', 'interval', 'type', \
            'keepAliveTime'), ' ') .. ' of ' .. redis.call('HLEN', key) \
            else for _, it in ipairs(redis.call('ZRANGE', key, 0, -1)) do \
            local id, permits = struct.unpack('Bc0I', it) \
            shows = shows .. #it .. ' ' .. #id .. ' ' .. permits .. ';' end end \
            table.insert(all, key .. ' ' .. kind .. ' ' .. shows) end return all";
        let reply = self.redis.command(&["EVAL", READ, "0"]);
        let mut data: Vec<_> = reply.list().iter().map(Reply::text).map(str::to_owned).collect();
        data.retain(|it| !it.starts_with("leasehold_rate_limiter__receipt:"));
        data.iter_mut().for_each(|it| *it = it.replace(id, "ID"));
        data.sort();
        data
    }
}

fn rate(per_client: bool) -> Rate {
    let rate = Rate::per(10, 5 * SECOND);
    if per_client { rate.per_client() } else { rate }
}

#[test]
fn java_and_rust_limiters_write_the_same_bytes() {
    let both = Both::start();
    for per_client in [false, true] {
        both.redis.command(&["FLUSHALL"]);
        let arguments = json!({ "rate": 10, "interval_ms": 5_000, "per_client": per_client });
        assert!(both.ask("trySetRate", arguments).is_true());
        assert!(both.java_takes(3) && both.java_takes(1));
        let mut java = both.data(both.java.id());
        both.redis.command(&["FLUSHALL"]);
        assert!(both.rust.set_if_absent(rate(per_client)).unwrap());
        assert!(both.rust_takes(3) && both.rust_takes(1));
        let mut rust = both.data(both.client.id());
        // Members of the same millisecond may have any order.
        let sorted = |data: &mut Vec<String>| {
            data.iter_mut().for_each(|it| *it = it.replace("21 16 1;21 16 3;", "21 16 3;21 16 1;"));
        };
        sorted(&mut java);
        sorted(&mut rust);
        assert_eq!(rust, java);
        assert_eq!(java.len(), 3, "{java:?}");
    }
    shown("rate limiter: keys, fields and members are the same", Way::RustToJava);
    shown("rate limiter: keys, fields and members are the same", Way::JavaToRust);
}

#[test]
fn rate_that_one_language_sets_applies_to_the_other() {
    let both = Both::start();
    let error = both
        .ask("tryAcquire", json!({}))
        .failure()
        .expect("Java throws an exception")
        .message
        .clone();
    assert!(error.contains("RateLimiter is not initialized"), "{error}");
    assert!(matches!(both.rust.try_acquire(1), Err(Error::RateNotSet { .. })));
    let five = json!({ "rate": 5, "interval_ms": 2_000, "per_client": true });
    assert!(both.ask("trySetRate", five).is_true());
    assert!(!both.rust.set_if_absent(rate(false)).unwrap());
    assert_eq!(both.rust.config().unwrap(), Some(Rate::per(5, 2 * SECOND).per_client()));
    assert!(matches!(both.rust.try_acquire(6), Err(Error::TooMany { most: 5, .. })));
    shown("rate limiter: a rate applies to both", Way::JavaToRust);

    both.rust.set(rate(false)).unwrap();
    assert!(!both.ask("trySetRate", json!({ "rate": 5, "interval_ms": 2_000 })).is_true());
    assert_eq!(both.ask("config", json!({})).value(), &json!([10, 5_000, false]));
    let error = both
        .ask("tryAcquire", json!({ "permits": 11 }))
        .failure()
        .expect("Java throws an exception")
        .message
        .clone();
    assert!(error.contains("Requested permits amount cannot exceed defined rate"), "{error}");
    // Permits that were acquired before an update of the rate still count for both clients.
    assert!(both.java_takes(8));
    assert!(both.rust.update(Rate::per(20, 5 * SECOND)).unwrap());
    both.both_see(12);
    both.ask("setRate", json!({ "rate": 7, "interval_ms": 5_000 }));
    both.both_see(7);
    assert!(both.rust.delete().unwrap());
    assert_eq!(both.data("none"), [""; 0]);
    shown("rate limiter: a rate applies to both", Way::RustToJava);
}

#[test]
fn java_and_rust_acquire_from_the_same_rate_window() {
    let both = Both::start();
    both.rust.set(Rate::per(5, 2 * SECOND)).unwrap();
    for turn in 0..3 {
        assert!(both.java_takes(2) && both.rust_takes(3), "{turn}");
        assert!(!both.java_takes(1) && !both.rust_takes(1), "{turn}");
        sleep(2 * SECOND + SECOND / 20);
    }
    // Each client waits until the permits of the other client are free again.
    for way in [Way::RustToJava, Way::JavaToRust] {
        let start = Instant::now();
        match way {
            Way::RustToJava => {
                assert!(both.rust_takes(5));
                assert!(both.ask("acquire", json!({ "permits": 5 })).is_true());
            }
            Way::JavaToRust => both.rust.acquire(5).map(drop).unwrap(),
        }
        let waited = start.elapsed();
        assert!(waited > SECOND * 19 / 10 && waited < SECOND * 3, "{way}: {waited:?}");
    }
    shown("rate limiter: one window for both, and each waits for the other", Way::RustToJava);
    shown("rate limiter: one window for both, and each waits for the other", Way::JavaToRust);
}

#[test]
fn clients_of_both_languages_never_exceed_the_rate() {
    let both = Both::start();
    both.rust.set(Rate::per(20, SECOND)).unwrap();
    let limiters: Vec<_> = (0..4).map(|_| both.rust.clone()).collect();
    let threads: Vec<_> = (0..4).map(|n| both.java.thread(&format!("T{n}"))).collect();
    let start = Instant::now();
    let over = || start.elapsed() > SECOND * 4;
    // Each thread retries until the time has passed, because a Redisson client may starve.
    let granted = |taken: &dyn Fn() -> bool| {
        std::iter::from_fn(|| (!over()).then(taken)).filter(|taken| *taken).count()
    };
    let total: usize = scope(|scope| {
        let rust = limiters
            .iter()
            .map(|limiter| scope.spawn(|| granted(&|| limiter.acquire_within(1, SECOND).is_ok())));
        let rust: Vec<_> = rust.collect();
        let java = threads.iter().map(|thread| {
            let one = json!({ "permits": 1, "wait_ms": 1_000 });
            let taken = move || thread.limiter("tryAcquire", NAME, one.clone()).is_true();
            scope.spawn(move || granted(&taken))
        });
        let java: Vec<_> = java.collect();
        rust.into_iter().chain(java).map(|it| it.join().unwrap()).sum()
    });
    let most = 20 * (usize::try_from(start.elapsed().as_secs()).unwrap() + 1);
    assert!((60..=most).contains(&total), "{total} of {most}");
    shown("rate limiter: crowds of both keep the rate", Way::RustToJava);
    shown("rate limiter: crowds of both keep the rate", Way::JavaToRust);
}

#[test]
fn released_rate_permits_are_free_for_the_other_language() {
    let both = Both::start();
    both.rust.set(Rate::per(10, 2 * SECOND)).unwrap();
    let permits = both.rust.acquire(5).unwrap();
    both.both_see(5);
    both.rust.release(permits, 3).unwrap();
    both.both_see(8);
    shown("rate limiter: unused permits are free for both", Way::RustToJava);
    assert!(both.java_takes(4));
    assert!(both.ask("release", json!({ "permits": 4 })).is_true());
    both.both_see(8);
    sleep(2 * SECOND + SECOND / 20);
    assert_eq!(both.rust.available().unwrap(), 10);
    shown("rate limiter: unused permits are free for both", Way::JavaToRust);
}

#[test]
fn idle_rate_limiter_expires_for_java_and_rust() {
    let both = Both::start();
    // Each client takes a permit 1.5 s before the limiter expires.
    both.rust.set(Rate::per(3, SECOND).idle_ttl(4 * SECOND)).unwrap();
    for _ in 0..2 {
        sleep(SECOND * 5 / 2);
        assert!(both.java_takes(1));
        sleep(SECOND * 5 / 2);
        assert!(both.rust_takes(1));
    }
    assert_eq!(both.data("none").len(), 3);
    sleep(SECOND * 9 / 2);
    assert_eq!(both.data("none"), [""; 0]);
    shown("rate limiter: it expires for both when it is idle", Way::RustToJava);
    shown("rate limiter: it expires for both when it is idle", Way::JavaToRust);
}

/// The limiter has a counter, but no set of acquired permits. Redisson's script fails until
/// Leasehold has sent a request.
#[test]
fn rust_repairs_a_stale_limiter_counter_that_java_rejects() {
    let both = Both::start();
    both.rust.set(Rate::per(10, 5 * SECOND)).unwrap();
    both.redis.command(&["SET", "{api}:value", "2"]);
    let error = both
        .ask("tryAcquire", json!({ "permits": 3 }))
        .failure()
        .expect("Java throws an exception")
        .message
        .clone();
    assert!(error.contains("perform arithmetic on"), "{error}");
    assert!(both.rust_takes(1));
    assert!(both.java_takes(9) && !both.java_takes(1));
    shown("rate limiter: a counter without a window is repaired", Way::RustToJava);
}
