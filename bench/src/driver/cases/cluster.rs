//! The cost of locks in a cluster of three masters.

use testkit::Cluster;

use super::{
    Bench,
    uncontended::{self, Own},
    watchdog::{self, Many},
};
use crate::{
    driver::{
        contender::{Contender, LEASEHOLD, RAW, REDISSON},
        group::ContentionPlan,
        log::{VisitLog, p50_and_p99},
        server::Servers,
        worker::Answer,
    },
    report::{Target, board::Case},
};

const PAIRS: &str = "Cluster of 3: acquire and release, every task its own name";
const BETWEEN: &str = "Cluster of 3: one name, one task in each of 2 processes, 200 µs inside";
const KEPT: &str = "Cluster of 3: locks over all slots that are kept by a watchdog";

/// With this number of names, nearly half of the slots have at least one name.
const HOLDS: usize = 10_000;

pub(super) fn run(bench: &mut Bench) {
    let cluster = Cluster::options().replicas(0).start();
    bench.elsewhere(Servers::new(cluster.masters()), &cluster.url(), |bench| {
        let own = Own { group: PAIRS, plot: None };
        uncontended::rounds(bench, own, &[1, 64], &[LEASEHOLD, RAW, REDISSON]);
        let rounds = bench.settings.rounds_of_processes;
        bench.in_turn(rounds, &[LEASEHOLD, REDISSON], |bench, contender| {
            let found = contend(bench, contender);
            note(bench, contender, found);
        });
        let many = Many { group: KEPT, what: watchdog::LOCKS, count: HOLDS };
        watchdog::locks(bench, many, &[LEASEHOLD, REDISSON]);
    });
}

fn contend(bench: &mut Bench, contender: Contender) -> Answer<VisitLog> {
    let name = format!("between-{}", contender.library);
    let length = bench.settings.round_of_processes;
    let plan = ContentionPlan { processes: 2, tasks: 1, name, length, hold_us: 200 };
    Ok(bench.contend(contender, &plan)?.0)
}

fn note(bench: &mut Bench, contender: Contender, found: Answer<VisitLog>) {
    let column = contender.column;
    let per_second = Case::more(BETWEEN, "hand-overs", "per s").target(Target::BeatsRivals);
    let log = match found {
        Ok(log) => log,
        Err(why) => return bench.board.failed(per_second, column, &why),
    };
    let between = log.between_processes();
    bench.board.note(per_second, column, between.len() as f64 / log.seconds());
    if !between.is_empty() {
        let (median, p99) = p50_and_p99(between);
        let case = less("hand-over, median", "µs").target(Target::BeatsRivals);
        bench.board.note(case, column, median);
        bench.board.note(less("hand-over, p99", "µs"), column, p99);
    }
    let overlaps = less("overlaps", "count").target(Target::Never);
    bench.board.note(overlaps, column, log.overlaps() as f64);
}

fn less(what: &str, unit: &'static str) -> Case {
    Case::less(BETWEEN, what, unit)
}
