//! The time from the opening of a latch or a barrier until all waiters have passed.

use super::Bench;
use crate::{
    driver::{
        contender::{Contender, LEASEHOLD, REDISSON},
        server,
        worker::Answer,
    },
    job::{Delays, Gate, Job},
    report::{Target, board::Case},
};

const LATCH: &str = "A latch that opens, tasks of one process";
const BARRIER: &str = "A barrier that opens, tasks of one process; Redisson: a latch";
const DOUBLE_BARRIER: &str = "A double barrier that all enter and leave, tasks of one process";

const WAITERS: usize = 64;

pub(super) fn run(bench: &mut Bench) {
    measure(bench, LATCH, Gate::Latch, &[LEASEHOLD, REDISSON]);
}

/// Measures barriers. Redisson has no barrier, so its figures are those of a latch.
pub(super) fn barriers(bench: &mut Bench) {
    measure(bench, BARRIER, Gate::Barrier, &[LEASEHOLD, REDISSON]);
    measure(bench, DOUBLE_BARRIER, Gate::DoubleBarrier, &[LEASEHOLD]);
}

fn measure(bench: &mut Bench, group: &'static str, gate: Gate, contenders: &[Contender]) {
    let mut turn = 0;
    bench.in_turn(bench.settings.rounds, contenders, |bench, contender| {
        turn += 1;
        let name = format!("{gate:?}-{turn}");
        let woken = wake(bench, contender, Job::Wake { tasks: WAITERS, name, gate });
        note(bench, group, contender, woken);
    });
}

/// Returns the delays, and the number of commands that the server executed.
fn wake(bench: &mut Bench, contender: Contender, job: Job) -> Answer<(Delays, u64)> {
    bench.worker(contender)?;
    let before = server::commands(&bench.redis);
    let delays = bench.ask(contender, &job)?;
    Ok((delays, server::commands(&bench.redis) - before))
}

fn note(
    bench: &mut Bench,
    group: &'static str,
    contender: Contender,
    woken: Answer<(Delays, u64)>,
) {
    let column = contender.column;
    let case = |of: &str| {
        Case::less(group, format!("{WAITERS} waiters: until {of} know"), "µs")
            .target(Target::BeatsRivals)
    };
    match woken {
        Ok((delays, commands)) => {
            bench.board.note(case("half of them"), column, delays.p50_ns as f64 / 1e3);
            bench.board.note(case("the last"), column, delays.p99_ns as f64 / 1e3);
            let each =
                Case::less(group, format!("{WAITERS} waiters: server commands each"), "count");
            bench.board.note(each, column, commands as f64 / (WAITERS + 1) as f64);
        }
        Err(why) => bench.board.failed(case("the last"), column, &why),
    }
}
