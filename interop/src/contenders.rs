//! Many threads that increment one counter under one lock.

use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::{Answer, text, whole};

/// Many threads of one process that increment one counter under one lock.
///
/// The counter is a plain number in Redis, read by GET and written by SET. The counter is on the
/// server of the lock, or on [another server](crate::Setup::counts_on). If two holders overlap, an
/// increment may be lost. In this case, the counter is less than the sum of all [`Report::total`]s.
///
/// With a fenced lock, each holder also appends its token to the list `counter:tokens`. So the list
/// has the order of the holds.
///
/// With a read lock, no thread increments the counter. Each reader counts itself in
/// `counter:readers`, and checks that the counter does not change. A writer checks that there is no
/// reader. If two readers hold at the same time, one of them creates the key `counter:beside`.
///
/// A process requires a bound: [`rounds`](Self::rounds), [`at_most`](Self::at_most) or
/// [`until_stopped`](Self::until_stopped).
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

/// The result of [`Contenders`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// How many times each thread has incremented the counter.
    pub done: Vec<u64>,
    /// How many times all threads together have incremented the counter.
    pub total: u64,
    /// The longest wait for the lock.
    pub max_wait: Duration,
    /// The sum of all waits for the lock.
    pub total_wait: Duration,
    /// The time from the start of the first thread to the end of the last one.
    pub elapsed: Duration,
    /// The rejections that a [stubborn](Contenders::stubborn) run received.
    pub refusals: Vec<String>,
}

impl Contenders {
    /// Returns `threads` contenders that increment `counter` under `lock`.
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

    /// Sets how many times each thread increments the counter. Default: without end.
    #[must_use]
    pub fn rounds(mut self, rounds: u64) -> Self {
        self.rounds = Some(rounds);
        self
    }

    /// Sets after how many seconds no thread starts another round. Default: no limit.
    #[must_use]
    pub fn at_most(mut self, seconds: u64) -> Self {
        self.seconds = Some(seconds);
        self
    }

    /// Sets how long each holder pauses between GET and SET. Default: no pause.
    #[must_use]
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Sets how long each thread pauses after its release. Default: no pause.
    ///
    /// Without a pause, the threads that wake first hold the lock most of the time.
    #[must_use]
    pub fn rest(mut self, rest: Duration) -> Self {
        self.rest = rest;
        self
    }

    /// Makes the threads continue until the key `counter:over` exists. The threads count their
    /// rounds in `counter:rust` or `counter:java`.
    #[must_use]
    pub fn until_stopped(mut self) -> Self {
        self.until_stopped = true;
        self
    }

    /// Makes the threads continue if a server rejects a request. The threads repeat a rejected
    /// acquisition, but not a rejected release. A thread in Java releases again if Redisson counted
    /// its acquisition twice, and reports this as a rejection. By default, a rejection ends the run.
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
            "until_stopped": self.until_stopped,
        })
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Report {
    /// Reads the reply to a run.
    ///
    /// # Panics
    ///
    /// If `answer` is not the reply to a run, or if a thread threw an exception.
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
