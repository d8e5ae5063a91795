//! A Redis server or a deployment, with a process of each language.

use std::thread::sleep;
use std::time::{Duration, SystemTime};

use testkit::{Redis, eventually};

use crate::answer::Answer;
use crate::java::Java;
use crate::kind::Kind;
use crate::rust::Rust;
use crate::servers::Servers;
use crate::setup::Setup;
use crate::table::Way;
use crate::thread::Thread;

/// A Redis server or a deployment, and a process of each language that uses it.
#[derive(Debug)]
pub struct Together<S = Redis> {
    /// The servers.
    pub redis: S,
    /// The process with Redisson.
    pub java: Java,
    /// The process with Leasehold.
    pub rust: Rust,
}

/// A holder in one language and a waiter in the other language.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The languages of the holder and of the waiter.
    pub way: Way,
    /// The kind of the locks.
    pub kind: Kind,
    /// The holder.
    pub holder: Thread,
    /// The waiter.
    pub waiter: Thread,
}

/// The limit for an event that is immediate, even on a busy machine. A client that misses a message
/// acts later than `AT_ONCE`. Leasehold repeats its request after 2.3 to 3.8 s. Redisson repeats
/// its request when the lease that it has read has ended.
pub const AT_ONCE: Duration = Duration::from_secs(2);

/// The combinations of plain and fenced locks, in both directions.
pub const EACH_WAY: [(Way, Kind); 4] = [
    (Way::RustToJava, Kind::Lock),
    (Way::RustToJava, Kind::Fenced),
    (Way::JavaToRust, Kind::Lock),
    (Way::JavaToRust, Kind::Fenced),
];

impl Together {
    /// Starts a Redis server and both processes, with a watchdog of 30 s.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with(|setup| setup)
    }

    /// Starts a Redis server and both processes. `more` changes the settings of both processes.
    #[must_use]
    #[track_caller]
    pub fn with(more: impl Fn(Setup) -> Setup) -> Self {
        Self::differing(&more, &more)
    }

    /// Starts a Redis server and both processes. Each function changes the settings of one process.
    #[must_use]
    #[track_caller]
    pub fn differing(java: impl Fn(Setup) -> Setup, rust: impl Fn(Setup) -> Setup) -> Self {
        Self::on_differing(Redis::start(), java, rust)
    }
}

impl<S: Servers> Together<S> {
    /// Starts both processes on these servers, with a watchdog of 30 s.
    #[must_use]
    #[track_caller]
    pub fn on(redis: S) -> Self {
        Self::on_with(redis, |setup| setup)
    }

    /// Starts both processes on these servers. `more` changes the settings of both processes.
    #[must_use]
    #[track_caller]
    pub fn on_with(redis: S, more: impl Fn(Setup) -> Setup) -> Self {
        Self::on_differing(redis, &more, &more)
    }

    /// Starts both processes on these servers. Each function changes the settings of one process.
    #[must_use]
    #[track_caller]
    pub fn on_differing(
        redis: S,
        java: impl Fn(Setup) -> Setup,
        rust: impl Fn(Setup) -> Setup,
    ) -> Self {
        let java = Java::start(&java(Setup::new(redis.place())));
        let rust = Rust::start(&rust(Setup::new(redis.place())));
        Self { redis, java, rust }
    }

    /// Returns a Rust holder with a Java waiter, and a Java holder with a Rust waiter.
    #[must_use]
    pub fn both_ways(&self) -> [Pair; 2] {
        [Way::RustToJava, Way::JavaToRust].map(|way| self.pair(way, Kind::Lock))
    }

    /// Returns a holder and a waiter for each direction, with plain locks and with fenced locks.
    #[must_use]
    pub fn each_way(&self) -> [Pair; 4] {
        EACH_WAY.map(|(way, kind)| self.pair(way, kind))
    }

    /// Returns a holder and a waiter for one direction and one kind. Both threads are called
    /// `pair`.
    #[must_use]
    pub fn pair(&self, way: Way, kind: Kind) -> Pair {
        self.pair_of("pair", way, kind)
    }

    /// Returns a holder and a waiter for one direction and one kind. The name of both threads is
    /// `threads`.
    #[must_use]
    pub fn pair_of(&self, threads: &str, way: Way, kind: Kind) -> Pair {
        let [java, rust] =
            [self.java.thread(threads), self.rust.thread(threads)].map(|thread| thread.of(kind));
        match way {
            Way::RustToJava => Pair { way, kind, holder: rust, waiter: java },
            Way::JavaToRust => Pair { way, kind, holder: java, waiter: rust },
        }
    }

    /// Kills the process of the holder.
    pub fn kill_holder(&mut self, way: Way) {
        match way {
            Way::RustToJava => self.rust.kill(),
            Way::JavaToRust => self.java.kill(),
        }
    }

    /// Kills the process of the waiter.
    pub fn kill_waiter(&mut self, way: Way) {
        match way {
            Way::RustToJava => self.java.kill(),
            Way::JavaToRust => self.rust.kill(),
        }
    }

    /// Waits until `count` clients are subscribed to the channel of `name`, have sent one more
    /// request, and sleep.
    #[track_caller]
    pub fn until_asleep(&self, name: &str, count: i64) {
        self.redis.until_asleep(Kind::Lock, name, count);
    }
}

/// Waits until `count` clients are subscribed to the channel of `name`, have sent one more request,
/// and sleep.
#[track_caller]
pub fn until_asleep(redis: &Redis, name: &str, count: i64) {
    until_asleep_on(redis, &Kind::Lock.channel(name), count);
}

/// Waits until `count` clients are subscribed to `channel`, have sent one more request, and sleep.
#[track_caller]
pub fn until_asleep_on(redis: &Redis, channel: &str, count: i64) {
    eventually("the waiters are subscribed", Duration::from_secs(10), || {
        redis.command(&["PUBSUB", "NUMSUB", channel]).list()[1].number() == count
    });
    sleep(Duration::from_millis(200));
}

/// The time from the call that freed the lock to the grant of the waiter.
///
/// # Panics
///
/// If the grant came before the call, because both threads then held the lock at the same time.
#[must_use]
#[track_caller]
pub fn wake_up(left: &Answer, entered: &Answer) -> Duration {
    assert!(entered.acquired(), "{entered:?}");
    since(left.began_at(), entered.acquired_at())
}

/// The time from `earlier` to `later`.
///
/// # Panics
///
/// If `later` is not later.
#[must_use]
#[track_caller]
pub fn since(earlier: SystemTime, later: SystemTime) -> Duration {
    later
        .duration_since(earlier)
        .unwrap_or_else(|e| panic!("`later` is earlier by {:?}", e.duration()))
}
