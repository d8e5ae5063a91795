//! Processes that pass one fair lock to each other.

use super::Bench;
use crate::{
    driver::{
        contender::{Contender, FAIR, Language},
        group::ContentionPlan,
        log::{VisitLog, p50_and_p99},
        server,
        worker::Answer,
    },
    report::{Target, board::Case},
};

const GROUP: &str = "One fair lock, one task in each of many processes, 200 µs inside; Redisson: up to 8 JVMs with a thread for each";

const MOST_JVMS: usize = 8;

pub(super) fn run(bench: &mut Bench) {
    for waiters in [2, 8, 64] {
        bench.in_turn(bench.settings.rounds_of_processes, &FAIR, |bench, contender| {
            let found = measure(bench, contender, waiters);
            note(bench, contender, waiters, found);
        });
    }
}

/// Returns the visits, and the number of commands that the server executed for them.
fn measure(bench: &mut Bench, contender: Contender, waiters: usize) -> Answer<(VisitLog, u64)> {
    let is_java = contender.language == Language::Java;
    let processes = if is_java { waiters.min(MOST_JVMS) } else { waiters };
    let (name, length) =
        (format!("fair-{}-{waiters}", contender.library), bench.settings.round_of_processes);
    let plan = ContentionPlan { processes, tasks: waiters / processes, name, length, hold_us: 200 };
    bench.group_of(contender, processes)?;
    let before = server::commands(&bench.redis);
    let (visits, _) = bench.contend(contender, &plan)?;
    Ok((visits, server::commands(&bench.redis) - before))
}

fn note(bench: &mut Bench, contender: Contender, waiters: usize, found: Answer<(VisitLog, u64)>) {
    let column = contender.column;
    let less = |what: &str, unit| Case::less(GROUP, format!("{waiters} waiters: {what}"), unit);
    let median = less("hand-over, median", "µs").target(Target::BeatsRivals);
    let (visits, commands) = match found {
        Ok(found) => found,
        Err(why) => return bench.board.failed(median, column, &why),
    };
    let entries = visits.entries() as f64;
    let (middle, long) = p50_and_p99(visits.between_processes());
    bench.board.note(median, column, middle);
    bench.board.note(less("hand-over, p99", "µs"), column, long);
    let rate = Case::more(GROUP, format!("{waiters} waiters: entries"), "per s");
    bench.board.note(rate.target(Target::BeatsRivals), column, entries / visits.seconds());
    // While other tasks wait, a fair lock is never granted to its last holder again. So each grant
    // is for another task. After the end of the round, each task has one more grant, which is not
    // counted as an entry.
    let grants = entries + waiters as f64;
    let each = less("server commands per grant", "count").target(Target::BeatsRivals);
    bench.board.note(each, column, commands as f64 / grants);
    let overlaps = less("overlaps", "count").target(Target::Never);
    bench.board.note(overlaps, column, visits.overlaps() as f64);
}
