//! Acquire and release without contention.

use super::Bench;
use crate::{
    driver::{
        contender::{Contender, RAW, with_rivals},
        server,
        worker::Answer,
    },
    job::{Job, Paired},
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

/// A single task depends on the scheduler, whose latency varies: more rounds give a better median.
const TASKS: [usize; 6] = [1, 1, 1, 16, 64, 256];

pub(super) fn run(bench: &mut Bench) {
    rounds(bench, HERE, &TASKS, &with_rivals(Some(RAW)));
}

/// Measures `contenders` in turns, with each number of tasks.
pub(super) fn rounds(bench: &mut Bench, own: Own, tasks: &[usize], contenders: &[Contender]) {
    for tasks in tasks {
        bench.in_turn(bench.settings.rounds, contenders, |bench, contender| {
            let measured = pairs(bench, contender, *tasks);
            note(bench, own, contender, *tasks, measured);
        });
    }
}

/// One round of a contender, and the processor time of the server meanwhile, in seconds.
fn pairs(bench: &mut Bench, contender: Contender, tasks: usize) -> Answer<(Paired, f64)> {
    let millis = bench.settings.round.as_millis() as u64;
    let prefix = format!("own-{}", contender.library);
    // The first job warms the worker up. Its time must not be counted.
    bench.worker(contender)?;
    let before = server::cpu_seconds(&bench.redis);
    let job = Job::Pairs { tasks, names: tasks, prefix, millis, all: false };
    let paired = bench.ask::<Paired>(contender, &job)?;
    Ok((paired, server::cpu_seconds(&bench.redis) - before))
}

fn note(
    bench: &mut Bench,
    own: Own,
    contender: Contender,
    tasks: usize,
    found: Answer<(Paired, f64)>,
) {
    let column = contender.column;
    let main = if tasks == 1 { own.latency() } else { own.throughput(tasks) };
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
    bench.board.note(own.client(tasks), column, paired.cpu_ns as f64 / 1e3 / pairs);
    bench.board.note(own.of_server(tasks), column, server * 1e6 / pairs);
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

fn count(tasks: usize) -> String {
    format!("{tasks} {}", if tasks == 1 { "task" } else { "tasks" })
}
