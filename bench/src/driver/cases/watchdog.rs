//! What it costs to keep many locks.

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

/// Ours: each is a member of one sorted set. Redisson does not renew its own.
const OUR_PERMITS: Contender = PERMITS[0];

const LOCKS: &str = "locks";

/// What the names begin with: of the first hold, and of those that are counted.
const FIRST: &str = "first";
const KEPT: &str = "kept";

const KEPT_PERMITS: usize = 10_000;

const NO_WATCHDOG: &str = "has no watchdog of its own";

/// What one library needs to keep its locks.
struct Kept {
    idled: Idled,
    server_seconds: f64,
    longest_script_us: f64,
    bytes_each: f64,
}

pub(super) fn run(bench: &mut Bench) {
    for &count in bench.settings.holds {
        for contender in [LEASEHOLD, REDISSON, RLOCK] {
            match keep(bench, contender, count) {
                Ok(kept) => note(bench, contender, count, &kept),
                Err(why) => bench.board.failed(client(LOCKS, count), contender.column, &why),
            }
            server::clear(&bench.redis);
        }
        for contender in [RSLOCK, REDSYNC, REDISLOCK] {
            let all = [client(LOCKS, count), of_server(LOCKS, count), script(LOCKS, count)];
            for case in all.into_iter().chain([bytes(LOCKS, count)]) {
                bench.board.absent(case, contender.column, NO_WATCHDOG);
            }
        }
    }
}

/// The same for permits of one name.
pub(super) fn permits(bench: &mut Bench) {
    match keep(bench, OUR_PERMITS, KEPT_PERMITS) {
        Ok(kept) => note(bench, OUR_PERMITS, KEPT_PERMITS, &kept),
        Err(why) => {
            let case = client("permits", KEPT_PERMITS);
            bench.board.failed(case, OUR_PERMITS.column, &why);
        }
    }
    server::clear(&bench.redis);
}

fn keep(bench: &Bench, contender: Contender, count: usize) -> Answer<Kept> {
    let mut weighed = None;
    if contender.language == Language::Rust {
        // Counting costs time, so it is another process whose time is measured.
        weighed = Some(hold(bench, contender, count, true)?.1);
        server::clear(&bench.redis);
    }
    let (mut worker, bytes) = hold(bench, contender, count, false)?;
    // What acquiring has left to do is done by then.
    thread::sleep(Duration::from_millis(500));
    let (idled, server_seconds, longest_script_us) = watch(bench, &mut worker)?;
    match there(bench, contender) {
        there if there < count as i64 => Err(format!("only {there} of {count} were kept")),
        _ => {
            let bytes_each = weighed.unwrap_or(bytes) / count as f64;
            Ok(Kept { idled, server_seconds, longest_script_us, bytes_each })
        }
    }
}

/// How many the server knows of.
fn there(bench: &Bench, contender: Contender) -> i64 {
    match contender {
        OUR_PERMITS => server::taken(&bench.redis, KEPT),
        _ => server::keys(&bench.redis),
    }
}

/// A process with `count` holds, and the bytes that they take.
fn hold(bench: &Bench, contender: Contender, count: usize, weigh: bool) -> Answer<(Worker, f64)> {
    let ttl = bench.settings.watched_ttl;
    let launch = Launch { weigh, ttl, ..bench.launch.clone() };
    let mut worker = launch.start(contender)?.ready()?;
    if contender == OUR_PERMITS {
        server::fill(&bench.redis, FIRST, 1);
        server::fill(&bench.redis, KEPT, count as u32);
    }
    let ttl_ms = ttl.as_millis() as u64;
    // The first hold makes what all of them share.
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

fn note(bench: &mut Bench, contender: Contender, count: usize, kept: &Kept) {
    let column = contender.column;
    let what = if contender == OUR_PERMITS { "permits" } else { LOCKS };
    let seconds = kept.idled.wall_ns as f64 / 1e9;
    bench.board.note(client(what, count), column, kept.idled.cpu_ns as f64 / 1e7 / seconds);
    bench.board.note(of_server(what, count), column, kept.server_seconds * 100.0 / seconds);
    bench.board.note(script(what, count), column, kept.longest_script_us / 1e3);
    bench.board.note(bytes(what, count), column, kept.bytes_each);
    if let (OURS, Some(lag)) = (column, kept.idled.lag_ns) {
        let half = bench.settings.watched_ttl.as_secs_f64() * 1e3 / 2.0;
        let case =
            less(what, count, "greatest lag of a renewal", "ms").target(Target::AtMost(half));
        bench.board.note(case, column, lag as f64 / 1e6);
    }
}

fn client(what: &str, count: usize) -> Case {
    let case = less(what, count, "client CPU", "% of a core").target(Target::AtMost(3.0));
    if what == LOCKS { case.plot("watchdog-client", count) } else { case }
}

fn of_server(what: &str, count: usize) -> Case {
    let case = less(what, count, "server CPU", "% of a core").target(Target::AtMost(3.0));
    if what == LOCKS { case.plot("watchdog-server", count) } else { case }
}

fn script(what: &str, count: usize) -> Case {
    less(what, count, "longest script", "ms").target(Target::AtMost(1.0))
}

fn bytes(what: &str, count: usize) -> Case {
    less(what, count, "memory of the client", "bytes each").target(Target::AtMost(512.0))
}

fn less(what: &str, count: usize, figure: &str, unit: &'static str) -> Case {
    Case::less(GROUP, format!("{count} {what}: {figure}"), unit)
}
