//! The cost of many locks that are renewed.

use std::{thread, time::Duration};

use super::Bench;
use crate::{
    driver::{
        contender::{
            Contender, LEASEHOLD, Language, PERMITS, REDISLOCK, REDISSON, REDSYNC, RLOCK, RSLOCK,
        },
        server,
        worker::{Answer, Launch, Worker},
    },
    job::{Grown, Idled, Job},
    report::{
        Target,
        board::{Case, OURS},
    },
};

const GROUP: &str = "Locks that are kept by a watchdog";

/// Permits of Leasehold, each of which is a member of one sorted set. Redisson does not renew
/// permits.
const OUR_PERMITS: Contender = PERMITS[0];

pub(super) const LOCKS: &str = "locks";

/// The prefix of the name of the first hold, which is not counted. `KEPT` is the prefix for the
/// holds that are counted.
const FIRST: &str = "first";
const KEPT: &str = "kept";

const KEPT_PERMITS: usize = 10_000;

const NO_WATCHDOG: &str = "has no watchdog of its own";

/// The kind of the holds, and the group of the figures.
#[derive(Clone, Copy)]
pub(super) struct Many {
    pub(super) group: &'static str,
    pub(super) what: &'static str,
    pub(super) count: usize,
}

/// The cost of the holds of one library.
struct Kept {
    idled: Idled,
    server_seconds: f64,
    longest_script_us: f64,
    bytes_each: f64,
    /// The number of holds that the server has at the end.
    there: usize,
}

pub(super) fn run(bench: &mut Bench) {
    for &count in bench.settings.holds {
        let many = Many { group: GROUP, what: LOCKS, count };
        locks(bench, many, &[LEASEHOLD, REDISSON, RLOCK]);
        for contender in [RSLOCK, REDSYNC, REDISLOCK] {
            for case in [many.client(), many.of_server(), many.script(), many.bytes()] {
                bench.board.absent(case, contender.column, NO_WATCHDOG);
            }
        }
    }
}

/// Measures permits of one name, instead of locks.
pub(super) fn permits(bench: &mut Bench) {
    let many = Many { group: GROUP, what: "permits", count: KEPT_PERMITS };
    locks(bench, many, &[OUR_PERMITS]);
}

/// Lets each of `contenders` keep `count` holds renewed.
pub(super) fn locks(bench: &mut Bench, many: Many, contenders: &[Contender]) {
    for contender in contenders {
        match keep(bench, *contender, many.count) {
            Ok(kept) if kept.there < many.count => note_lost(bench, *contender, many, kept.there),
            Ok(kept) => note(bench, *contender, many, &kept),
            Err(why) => bench.board.failed(many.client(), contender.column, &why),
        }
        server::clear(&bench.redis);
    }
}

fn keep(bench: &Bench, contender: Contender, count: usize) -> Answer<Kept> {
    let mut weighed = None;
    if contender.language == Language::Rust {
        // Counting memory costs time, so another process measures the time.
        weighed = Some(hold(bench, contender, count, true)?.1);
        server::clear(&bench.redis);
    }
    let (mut worker, bytes) = hold(bench, contender, count, false)?;
    // During this pause, all work that acquisitions leave behind ends.
    thread::sleep(Duration::from_millis(500));
    let (idled, server_seconds, longest_script_us) = watch(bench, &mut worker)?;
    let bytes_each = weighed.unwrap_or(bytes) / count as f64;
    let there = there(bench, contender);
    Ok(Kept { idled, server_seconds, longest_script_us, bytes_each, there })
}

/// The number of holds that the server has.
fn there(bench: &Bench, contender: Contender) -> usize {
    let there = match contender {
        OUR_PERMITS => server::taken(&bench.redis, KEPT),
        _ => server::keys(&bench.redis),
    };
    there.unsigned_abs() as usize
}

/// Starts a process with `count` holds. Returns the process, and the bytes that the holds use.
fn hold(bench: &Bench, contender: Contender, count: usize, weigh: bool) -> Answer<(Worker, f64)> {
    let ttl = bench.settings.watched_ttl;
    let launch = Launch { weigh, ttl, ..bench.launch.clone() };
    let mut worker = launch.start(contender)?.ready()?;
    if contender == OUR_PERMITS {
        server::fill(&bench.redis, FIRST, 1);
        server::fill(&bench.redis, KEPT, count as u32);
    }
    let ttl_ms = ttl.as_millis() as u64;
    // The first hold creates shared state, which does not count.
    worker.ask::<Grown>(&Job::Hold { count: 1, prefix: FIRST.to_owned(), ttl_ms })?;
    let grown: Grown = worker.ask(&Job::Hold { count, prefix: KEPT.to_owned(), ttl_ms })?;
    Ok((worker, grown.bytes as f64))
}

fn watch(bench: &Bench, worker: &mut Worker) -> Answer<(Idled, f64, f64)> {
    server::watch_slow_commands(&bench.redis);
    let before = server::cpu_seconds(&bench.redis);
    let millis = bench.settings.watched().as_millis() as u64;
    let idled = worker.ask(&Job::Idle { millis })?;
    let seconds = server::cpu_seconds(&bench.redis) - before;
    Ok((idled, seconds, server::longest_script(&bench.redis)))
}

fn note(bench: &mut Bench, contender: Contender, many: Many, kept: &Kept) {
    let column = contender.column;
    let seconds = kept.idled.wall_ns as f64 / 1e9;
    bench.board.note(many.client(), column, kept.idled.cpu_ns as f64 / 1e7 / seconds);
    bench.board.note(many.of_server(), column, kept.server_seconds * 100.0 / seconds);
    bench.board.note(many.script(), column, kept.longest_script_us / 1e3);
    bench.board.note(many.bytes(), column, kept.bytes_each);
    if let (OURS, Some(lag)) = (column, kept.idled.lag_ns) {
        let half = bench.settings.watched_ttl.as_secs_f64() * 1e3 / 2.0;
        let case = many.less("greatest lag of a renewal", "ms").target(Target::AtMost(half));
        bench.board.note(case, column, lag as f64 / 1e6);
    }
}

/// Records that a library has lost holds. If the library is Leasehold, the run fails.
fn note_lost(bench: &mut Bench, contender: Contender, many: Many, there: usize) {
    let why = format!("it kept only {there} of {}", many.count);
    match contender.column {
        OURS => bench.board.failed(many.client(), OURS, &why),
        other => bench.board.absent(many.client(), other, &why),
    }
}

impl Many {
    fn client(self) -> Case {
        let case = self.less("client CPU", "% of a core").target(Target::AtMost(3.0));
        self.plotted(case, "watchdog-client")
    }

    fn of_server(self) -> Case {
        let case = self.less("server CPU", "% of a core").target(Target::AtMost(3.0));
        self.plotted(case, "watchdog-server")
    }

    fn script(self) -> Case {
        self.less("longest script", "ms").target(Target::AtMost(1.0))
    }

    fn bytes(self) -> Case {
        self.less("memory of the client", "bytes each").target(Target::AtMost(512.0))
    }

    fn less(self, figure: &str, unit: &'static str) -> Case {
        Case::less(self.group, format!("{} {}: {figure}", self.count, self.what), unit)
    }

    /// Adds `case` to the plot if the case is about locks on one server.
    fn plotted(self, case: Case, plot: &'static str) -> Case {
        let shown = self.group == GROUP && self.what == LOCKS;
        if shown { case.plot(plot, self.count) } else { case }
    }
}
