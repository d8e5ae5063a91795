//! Several processes with many tasks each, all of which contend for one name.

use std::time::Duration;

use super::Bench;
use crate::{
    driver::{
        contender::{Contender, with_rivals},
        group::ContentionPlan,
        log::VisitLog,
        worker::Answer,
    },
    report::{Target, board::Case},
};

const GROUP: &str = "One name, 4 processes with 16 tasks each, 20 µs inside";

pub(super) fn run(bench: &mut Bench) {
    let rounds = bench.settings.rounds_of_processes;
    bench.in_turn(rounds, &with_rivals(None), |bench, contender| {
        let found = measure(bench, contender);
        note(bench, contender, found);
    });
}

fn measure(bench: &mut Bench, contender: Contender) -> Answer<(VisitLog, Duration)> {
    let name = format!("mixed-{}", contender.library);
    let length = bench.settings.round_of_processes;
    let plan = ContentionPlan { processes: 4, tasks: 16, name, length, hold_us: 20 };
    bench.contend(contender, &plan)
}

fn note(bench: &mut Bench, contender: Contender, found: Answer<(VisitLog, Duration)>) {
    let column = contender.column;
    let hand_overs = Case::more(GROUP, "hand-overs, all processes", "per s");
    let hand_overs = hand_overs.target(Target::BeatsRivals);
    let (log, longest) = match found {
        Ok(found) => found,
        Err(why) => return bench.board.failed(hand_overs, column, &why),
    };
    bench.board.note(hand_overs, column, log.hand_overs() as f64 / log.seconds());
    let (most, least) = log.luckiest_and_unluckiest();
    bench.board.note(less("share of the luckiest process", "%"), column, most);
    let unluckiest = Case::more(GROUP, "share of the unluckiest process", "%");
    bench.board.note(unluckiest, column, least);
    bench.board.note(less("longest wait", "ms"), column, longest.as_secs_f64() * 1e3);
    let overlaps = less("overlaps", "count").target(Target::Never);
    bench.board.note(overlaps, column, log.overlaps() as f64);
}

fn less(what: &str, unit: &'static str) -> Case {
    Case::less(GROUP, what, unit)
}
