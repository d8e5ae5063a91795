//! Many tasks of one process that contend for one name.

use super::Bench;
use crate::{
    driver::{
        contender::{Contender, MUTEX, with_rivals},
        worker::Answer,
    },
    job::{Contended, Job},
    report::{Target, board::Case},
};

const GROUP: &str = "One name, tasks of one process";

pub(super) fn run(bench: &mut Bench) {
    for tasks in [2, 8, 64] {
        bench.in_turn(
            bench.settings.rounds_in_process,
            &with_rivals(Some(MUTEX)),
            |bench, contender| {
                let found = contend(bench, contender, tasks);
                note(bench, contender, tasks, found);
            },
        );
    }
}

fn contend(bench: &mut Bench, contender: Contender, tasks: usize) -> Answer<Contended> {
    let name = format!("crowd-{}", contender.library);
    let millis = millis(bench);
    bench.ask(contender, &Job::Contend { tasks, name, start_ns: 0, millis, hold_us: 0, log: false })
}

/// The duration of a round. Rounds are longer than in other cases, because some libraries pause for
/// a long time between two polls.
fn millis(bench: &Bench) -> u64 {
    bench.settings.round.as_millis() as u64 * 3 / 2
}

fn note(bench: &mut Bench, contender: Contender, tasks: usize, found: Answer<Contended>) {
    let column = contender.column;
    let found = match found {
        Ok(found) => found,
        Err(why) => return bench.board.failed(hand_overs(tasks), column, &why),
    };
    let per_second = found.hand_overs as f64 / (millis(bench) as f64 / 1e3);
    let longest = found.longest_wait_ns as f64 / 1e6;
    bench.board.note(hand_overs(tasks), column, per_second);
    bench.board.note(Case::less(GROUP, of(tasks, "longest wait"), "ms"), column, longest);
    let overlaps = Case::less(GROUP, of(tasks, "overlaps"), "count").target(Target::Never);
    bench.board.note(overlaps, column, found.overlaps as f64);
}

fn hand_overs(tasks: usize) -> Case {
    let case = Case::more(GROUP, of(tasks, "hand-overs"), "per s").plot("in-process", tasks);
    let case = case.target(Target::BeatsRivals);
    if tasks < 64 { case } else { case.target(Target::AtLeastOf("Redisson", 500.0)) }
}

fn of(tasks: usize, what: &str) -> String {
    format!("{tasks} tasks: {what}")
}
