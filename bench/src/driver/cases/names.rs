//! The cost of acquiring and releasing, for various numbers of names.

use super::Bench;
use crate::{
    driver::contender::{Contender, LEASEHOLD, RAW},
    figures::deviation,
    job::{Job, Paired},
    report::{Target, board::Case},
};

const GROUP: &str = "Acquire and release, going round many names";

const ONE: &[usize] = &[1, 10, 100, 1_000, 10_000];
/// The numbers of names of sixteen tasks. Each number is at least sixteen, because no two tasks
/// share a name.
const SIXTEEN: &[usize] = &[16, 100, 1_000, 10_000, 100_000];

pub(super) fn run(bench: &mut Bench) {
    let rounds = bench.settings.rounds;
    // The figures of a single task vary with the latency of the scheduler, so a single task gets
    // more rounds.
    series(bench, 2 * rounds, 1, "names-1", ONE);
    series(bench, rounds, 16, "names-16", SIXTEEN);
}

fn series(
    bench: &mut Bench,
    rounds: usize,
    tasks: usize,
    plot: &'static str,
    sizes: &'static [usize],
) {
    let most = bench.settings.most_names;
    // In each round, each contender runs once with each number of names, because these runs are
    // compared with each other.
    bench.in_turn(rounds, &[LEASEHOLD, RAW], |bench, contender| {
        for names in sizes.iter().filter(|names| **names <= most) {
            measure(bench, contender, case(tasks, plot, *names), tasks, *names);
        }
    });
    for contender in [LEASEHOLD, RAW] {
        note_deviation(bench, contender, tasks, plot);
    }
}

fn measure(bench: &mut Bench, contender: Contender, case: Case, tasks: usize, names: usize) {
    let millis = bench.settings.round.as_millis() as u64 / 4;
    let prefix = "round".to_owned();
    let job = Job::Pairs { tasks, names, prefix, millis, all: true };
    match bench.ask::<Paired>(contender, &job) {
        Ok(paired) => {
            let micros = paired.wall_ns as f64 / 1e3 / paired.pairs as f64;
            bench.board.note(case, contender.column, micros);
        }
        Err(why) => bench.board.failed(case, contender.column, &why),
    }
}

/// Records how much the number of names changes the best round. With medians, a slow round would
/// hide this effect.
fn note_deviation(bench: &mut Bench, contender: Contender, tasks: usize, plot: &str) {
    let is_of = |case: &&Case| case.plotted.is_some_and(|(its, _)| its == plot);
    let cases = bench.board.cases.iter().filter(is_of);
    let costs: Vec<_> = cases.filter_map(|case| case.least(contender.column)).collect();
    let name = format!("{tasks} at a time: the farthest best round from their median");
    let case = Case::less(GROUP, name, "%").target(Target::AtMost(15.0));
    bench.board.note(case, contender.column, deviation(&costs));
}

fn case(tasks: usize, plot: &'static str, names: usize) -> Case {
    Case::less(GROUP, format!("{tasks} at a time, names: {names}"), "µs/pair").plot(plot, names)
}
