//! Readers of one read-write lock, where nobody writes.

use super::Bench;
use crate::{
    driver::{
        contender::{Contender, LEASEHOLD, REDISSON},
        server,
        worker::Answer,
    },
    job::{Job, Paired},
    report::{Target, board::Case},
};

const GROUP: &str = "Readers of one name, tasks of one process";

pub(super) fn run(bench: &mut Bench) {
    for tasks in [1, 64] {
        bench.in_turn(bench.settings.rounds, &[LEASEHOLD, REDISSON], |bench, contender| {
            let found = read(bench, contender, tasks);
            note(bench, contender, tasks, found);
        });
    }
}

/// A round of one contender, and the seconds that the server worked for it.
fn read(bench: &mut Bench, contender: Contender, tasks: usize) -> Answer<(Paired, f64)> {
    let millis = bench.settings.round.as_millis() as u64;
    let name = format!("read-{}", contender.library);
    // The first job of a worker is to warm up; that must not be counted.
    bench.worker(contender)?;
    let before = server::cpu_seconds(&bench.redis);
    let paired = bench.ask::<Paired>(contender, &Job::Read { tasks, name, millis })?;
    Ok((paired, server::cpu_seconds(&bench.redis) - before))
}

fn note(bench: &mut Bench, contender: Contender, tasks: usize, found: Answer<(Paired, f64)>) {
    let column = contender.column;
    let main = if tasks == 1 { latency() } else { throughput(tasks) };
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
    bench.board.note(of_server(tasks), column, server * 1e6 / pairs);
}

fn latency() -> Case {
    Case::less(GROUP, "1 task: median of a pair", "µs").target(Target::BeatsRivals)
}

fn throughput(tasks: usize) -> Case {
    let case = Case::more(GROUP, format!("{tasks} tasks: throughput"), "pairs/s");
    case.target(Target::AtLeastOf("Redisson", 100.0))
}

fn of_server(tasks: usize) -> Case {
    let what = format!("{tasks} {}: server CPU", if tasks == 1 { "task" } else { "tasks" });
    Case::less(GROUP, what, "µs/pair").target(Target::BeatsRivals)
}
