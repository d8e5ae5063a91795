//! Acquire and release without contention.

use super::{
    Bench,
    round::{Round, count},
};
use crate::{
    driver::{
        contender::{Contender, RAW, with_rivals},
        worker::Answer,
    },
    job::Job,
    report::{
        Target,
        board::{Case, LIMIT},
    },
};

/// The group of the cases, and their plot.
#[derive(Clone, Copy)]
pub(super) struct Own {
    pub(super) group: &'static str,
    /// The plot that shows the throughput, if there is one.
    pub(super) plot: Option<&'static str>,
}

const HERE: Own =
    Own { group: "Acquire and release, every task its own name", plot: Some("throughput") };

/// The figures of a single task vary with the latency of the scheduler. So the case with one task
/// runs more often, for a better median.
const TASKS: [usize; 6] = [1, 1, 1, 16, 64, 256];

pub(super) fn run(bench: &mut Bench) {
    rounds(bench, HERE, &TASKS, &with_rivals(Some(RAW)));
}

/// Measures `contenders` in turn, with each number of tasks.
pub(super) fn rounds(bench: &mut Bench, own: Own, tasks: &[usize], contenders: &[Contender]) {
    for tasks in tasks {
        bench.in_turn(bench.settings.rounds, contenders, |bench, contender| {
            let measured = pairs(bench, contender, *tasks);
            note(bench, own, contender, *tasks, measured);
        });
    }
}

fn pairs(bench: &mut Bench, contender: Contender, tasks: usize) -> Answer<Round> {
    let millis = bench.settings.round.as_millis() as u64;
    let prefix = format!("own-{}", contender.library);
    Round::run(bench, contender, &Job::Pairs { tasks, names: tasks, prefix, millis, all: false })
}

fn note(bench: &mut Bench, own: Own, contender: Contender, tasks: usize, found: Answer<Round>) {
    let column = contender.column;
    let main = if tasks == 1 { own.latency() } else { own.throughput(tasks) };
    match found {
        Ok(round) => {
            bench.board.note(main, column, round.speed(tasks));
            bench.board.note(own.client(tasks), column, round.client_cpu());
            bench.board.note(own.of_server(tasks), column, round.server_cpu());
        }
        Err(why) => bench.board.failed(main, column, &why),
    }
}

impl Own {
    fn latency(self) -> Case {
        let case = Case::less(self.group, "1 task: median of a pair", "µs");
        case.target(Target::AtMostOf(LIMIT, 1.1)).target(Target::BeatsRivals)
    }

    fn throughput(self, tasks: usize) -> Case {
        let case = Case::more(self.group, format!("{tasks} tasks: throughput"), "pairs/s");
        let case = case.target(Target::BeatsRivals);
        let case = if tasks < 64 { case } else { case.target(Target::AtLeastOf(LIMIT, 0.85)) };
        match self.plot {
            Some(plot) => case.plot(plot, tasks),
            None => case,
        }
    }

    fn client(self, tasks: usize) -> Case {
        let case = Case::less(self.group, format!("{}: client CPU", count(tasks)), "µs/pair");
        case.target(Target::AtMostOf(LIMIT, 1.3))
    }

    fn of_server(self, tasks: usize) -> Case {
        let case = Case::less(self.group, format!("{}: server CPU", count(tasks)), "µs/pair");
        case.target(Target::AtMostOf("Redisson", 0.6))
    }
}
