//! The cost of waiting for a replica, and its effect on locks that do not wait for one.

use testkit::Redis;

use super::Bench;
use crate::{
    driver::{
        contender::{Contender, REPLICATED, UNREPLICATED},
        server::Servers,
        worker::Answer,
    },
    job::{Job, Paired},
    report::{
        Target,
        board::{Case, LIMIT},
    },
};

const ACKNOWLEDGED: &str =
    "Acquire and release when one replica has it; limit: SET and WAIT 1 in one write, then DEL";
const PLAIN: &str = "Plain locks while the replica stands still and 16 tasks of the client wait for it; limit: nobody waits";

pub(super) fn run(bench: &mut Bench) {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let url = master.url().trim_end_matches('/').to_owned();
    bench.elsewhere(Servers::one(master), &url, |bench| {
        for tasks in [1, 64] {
            rounds(bench, ACKNOWLEDGED, tasks, &REPLICATED, Target::AtMostOf(LIMIT, 2.0));
        }
        replica.pause();
        for tasks in [1, 64] {
            rounds(bench, PLAIN, tasks, &UNREPLICATED, Target::AtMostOf(LIMIT, 1.15));
        }
        replica.resume();
    });
}

fn rounds(
    bench: &mut Bench,
    group: &'static str,
    tasks: usize,
    contenders: &[Contender],
    target: Target,
) {
    bench.in_turn(bench.settings.rounds, contenders, |bench, contender| {
        let found = pairs(bench, contender, tasks);
        note(bench, group, tasks, contender, target, found);
    });
}

fn pairs(bench: &mut Bench, contender: Contender, tasks: usize) -> Answer<Paired> {
    let millis = bench.settings.round.as_millis() as u64;
    let prefix = format!("own-{}", contender.library);
    bench.ask(contender, &Job::Pairs { tasks, names: tasks, prefix, millis, all: false })
}

fn note(
    bench: &mut Bench,
    group: &'static str,
    tasks: usize,
    contender: Contender,
    target: Target,
    found: Answer<Paired>,
) {
    let column = contender.column;
    let many = if tasks == 1 { "task" } else { "tasks" };
    let median = Case::less(group, format!("{tasks} {many}: median of a pair"), "µs");
    let median = median.target(target);
    match found {
        Ok(paired) => {
            bench.board.note(median, column, paired.p50_ns as f64 / 1e3);
            let throughput = Case::more(group, format!("{tasks} {many}: throughput"), "pairs/s");
            let per_second = paired.pairs as f64 / (paired.wall_ns as f64 / 1e9);
            bench.board.note(throughput, column, per_second);
        }
        Err(why) => bench.board.failed(median, column, &why),
    }
}
