//! The other primitives, each compared with Redisson's. All tasks use one name.

use super::Bench;
use crate::{
    driver::{
        contender::{Contender, FENCED, LIMITER, PERMITS, READING, SEMAPHORE},
        server,
        worker::Answer,
    },
    job::{Job, Paired},
    report::{Target, board::Case},
};

/// The number of permits of semaphores.
const PERMITS_THERE: u32 = 8;

/// Permits of a rate limiter in 100 ms. One task requests more, and many tasks request far more.
const RATE: u32 = 2_000;

/// The measurement of one kind of object.
#[derive(Clone, Copy)]
struct Kind {
    group: &'static str,
    contenders: [Contender; 2],
    /// The target with many tasks.
    target: Target,
}

pub(super) fn readers(bench: &mut Bench) {
    run(
        bench,
        Kind {
            group: "Readers of one name, tasks of one process",
            contenders: READING,
            target: Target::AtLeastOf("Redisson", 100.0),
        },
    );
}

pub(super) fn fenced(bench: &mut Bench) {
    run(
        bench,
        Kind {
            group: "One name of a fenced lock, tasks of one process",
            contenders: FENCED,
            target: Target::BeatsRivals,
        },
    );
}

pub(super) fn semaphore(bench: &mut Bench) {
    run(
        bench,
        Kind {
            group: "A semaphore of 8, tasks of one process",
            contenders: SEMAPHORE,
            target: Target::BeatsRivals,
        },
    );
}

pub(super) fn permits(bench: &mut Bench) {
    run(
        bench,
        Kind {
            group: "Permits that expire, 8 of them, tasks of one process",
            contenders: PERMITS,
            target: Target::BeatsRivals,
        },
    );
}

pub(super) fn rate_limiter(bench: &mut Bench) {
    run(
        bench,
        Kind {
            group: "One permit of a rate limiter of 2,000 in 100 ms, tasks of one process",
            contenders: LIMITER,
            target: Target::BeatsRivals,
        },
    );
}

fn run(bench: &mut Bench, kind: Kind) {
    // Those of the warm-up are not counted.
    let names = (0..16).map(|number| format!("warm-{number}"));
    names.for_each(|name| fill(bench, kind, &name));
    for tasks in [1, 64] {
        bench.in_turn(bench.settings.rounds, &kind.contenders, |bench, contender| {
            let found = measure(bench, kind, contender, tasks);
            note(bench, kind, contender, tasks, found);
        });
    }
    bench.dismiss(&kind.contenders);
    server::clear(&bench.redis);
}

/// Creates the permits of `name`, if its kind has permits.
fn fill(bench: &Bench, kind: Kind, name: &str) {
    match kind.contenders {
        SEMAPHORE | PERMITS => server::fill(&bench.redis, name, PERMITS_THERE),
        LIMITER => server::limit(&bench.redis, name, RATE),
        _ => {}
    }
}

/// One round of a contender, and the processor time of the server meanwhile, in seconds.
fn measure(
    bench: &mut Bench,
    kind: Kind,
    contender: Contender,
    tasks: usize,
) -> Answer<(Paired, f64)> {
    let millis = bench.settings.round.as_millis() as u64;
    let name = format!("all-{}-{tasks}", contender.library);
    // The first job warms the worker up. Its time must not be counted.
    bench.worker(contender)?;
    fill(bench, kind, &name);
    let before = server::cpu_seconds(&bench.redis);
    let paired = bench.ask::<Paired>(contender, &Job::Share { tasks, name, millis })?;
    Ok((paired, server::cpu_seconds(&bench.redis) - before))
}

fn note(
    bench: &mut Bench,
    kind: Kind,
    contender: Contender,
    tasks: usize,
    found: Answer<(Paired, f64)>,
) {
    let column = contender.column;
    let main = if tasks == 1 { latency(kind) } else { throughput(kind, tasks) };
    let (paired, server) = match found {
        Ok(found) => found,
        Err(why) => return bench.board.failed(main, column, &why),
    };
    let pairs = paired.pairs as f64;
    let speed = match tasks {
        1 => paired.p50_ns as f64 / 1e3,
        _ => pairs / (paired.wall_ns as f64 / 1e9),
    };
    bench.board.note(main, column, speed);
    bench.board.note(of_server(kind, tasks), column, server * 1e6 / pairs);
}

fn latency(kind: Kind) -> Case {
    Case::less(kind.group, "1 task: median of a pair", "µs").target(Target::BeatsRivals)
}

fn throughput(kind: Kind, tasks: usize) -> Case {
    Case::more(kind.group, format!("{tasks} tasks: throughput"), "pairs/s").target(kind.target)
}

fn of_server(kind: Kind, tasks: usize) -> Case {
    let what = format!("{tasks} {}: server CPU", if tasks == 1 { "task" } else { "tasks" });
    Case::less(kind.group, what, "µs/pair").target(Target::BeatsRivals)
}
