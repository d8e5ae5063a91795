//! Many threads that add to one counter under one lock.

use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::{Answer, text, whole};

/// Many threads of one process that add to one counter under one lock.
///
/// The counter is a plain number in Redis, read by GET and written by SET: where the lock is, or
/// [elsewhere](crate::Setup::counts_on).
/// Whenever two holders overlap, in whatever processes, an addition can be
/// lost, and the counter ends below the sum of all [`Report::total`]s.
///
/// Under a fenced lock each holder also appends its token to the list
/// `counter:tokens`, which so has them in the order of the holds.
///
/// Under a read lock nobody adds: who reads is counted in `counter:readers`, and must see one
/// number as long as it reads. Who adds under a write lock must see nobody read. Once two have
/// read at once there is a key `counter:beside`.
///
/// It goes on for ever unless [`rounds`](Self::rounds),
/// [`at_most`](Self::at_most) or [`until_stopped`](Self::until_told) bounds it, so a process insists on one of them.
#[derive(Clone, Debug)]
pub struct Contenders {
    pub(crate) lock: String,
    counter: String,
    threads: u32,
    rounds: Option<u64>,
    seconds: Option<u64>,
    hold: Duration,
    rest: Duration,
    stubborn: bool,
    until_stopped: bool,
}

/// What a [`Contenders`] did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// The additions of each thread.
    pub done: Vec<u64>,
    /// The additions of all threads.
    pub total: u64,
    /// The longest wait for the lock.
    pub max_wait: Duration,
    /// All waits for the lock together.
    pub total_wait: Duration,
    /// From the start of the first thread to the end of the last.
    pub elapsed: Duration,
    /// What a [stubborn](Contenders::stubborn) one was told by servers that refused.
    pub refusals: Vec<String>,
}

impl Contenders {
    /// A crowd of `threads` that adds to `counter` under `lock`.
    #[must_use]
    pub fn new(lock: &str, counter: &str, threads: u32) -> Self {
        Self {
            lock: lock.to_owned(),
            counter: counter.to_owned(),
            threads,
            rounds: None,
            seconds: None,
            hold: Duration::ZERO,
            rest: Duration::ZERO,
            stubborn: false,
            until_stopped: false,
        }
    }

    /// Sets how often each thread adds. Default: no end.
    #[must_use]
    pub fn rounds(mut self, rounds: u64) -> Self {
        self.rounds = Some(rounds);
        self
    }

    /// Sets the number of seconds after which no thread begins another round. Default: no end.
    #[must_use]
    pub fn at_most(mut self, seconds: u64) -> Self {
        self.seconds = Some(seconds);
        self
    }

    /// Sets how long each holder rests between GET and SET. Default: not at all.
    #[must_use]
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Sets how long each thread rests after it has given the lock back. Default: not at all.
    ///
    /// Without a rest the threads that are woken fastest have the lock most of the time.
    #[must_use]
    pub fn rest(mut self, rest: Duration) -> Self {
        self.rest = rest;
        self
    }

    /// Goes on until there is a key `counter:over`, and counts its rounds in `counter:rust` or
    /// `counter:java` until then. Default: no end.
    #[must_use]
    pub fn until_stopped(mut self) -> Self {
        self.until_stopped = true;
        self
    }

    /// Goes on when the servers of the lock refuse: asks again for what was not granted, and forgets
    /// what could not be given back. Default: a refusal ends the crowd.
    #[must_use]
    pub fn stubborn(mut self) -> Self {
        self.stubborn = true;
        self
    }

    pub(crate) fn arguments(&self) -> Value {
        json!({
            "counter": self.counter,
            "threads": self.threads,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "hold_us": micros(self.hold),
            "rest_us": micros(self.rest),
            "stubborn": self.stubborn,
            "until_told": self.until_stopped,
        })
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Report {
    /// Reads the answer to a crowd.
    ///
    /// # Panics
    ///
    /// If it is not one, or a thread of the crowd saw an exception.
    #[must_use]
    #[track_caller]
    pub fn read(answer: &Answer) -> Self {
        let value = answer.value();
        let number = |field: &str| whole(&value[field]).unsigned_abs();
        let list = |field: &str| value[field].as_array().cloned().unwrap_or_default();
        Self {
            done: list("done").iter().map(|n| whole(n).unsigned_abs()).collect(),
            total: number("total"),
            max_wait: Duration::from_millis(number("max_wait_ms")),
            total_wait: Duration::from_millis(number("total_wait_ms")),
            elapsed: Duration::from_millis(number("elapsed_ms")),
            refusals: list("refusals").iter().map(text).collect(),
        }
    }
}
