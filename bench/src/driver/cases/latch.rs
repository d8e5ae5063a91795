//! The time from the opening of a latch until all waiters know it.

use super::Bench;
use crate::{
    driver::contender::{LEASEHOLD, REDISSON},
    job::{Delays, Job},
    report::{Target, board::Case},
};

const GROUP: &str = "A latch that opens, tasks of one process";

const WAITERS: usize = 64;

pub(super) fn run(bench: &mut Bench) {
    let mut turn = 0;
    bench.in_turn(bench.settings.rounds, &[LEASEHOLD, REDISSON], |bench, contender| {
        turn += 1;
        let job = Job::Wake { tasks: WAITERS, name: format!("latch-{turn}") };
        match bench.ask::<Delays>(contender, &job) {
            Ok(delays) => {
                bench.board.note(
                    case("half of them"),
                    contender.column,
                    delays.p50_ns as f64 / 1e3,
                );
                bench.board.note(case("the last"), contender.column, delays.p99_ns as f64 / 1e3);
            }
            Err(why) => bench.board.failed(case("the last"), contender.column, &why),
        }
    });
}

fn case(of: &str) -> Case {
    Case::less(GROUP, format!("{WAITERS} waiters: until {of} know"), "µs")
        .target(Target::BeatsRivals)
}
