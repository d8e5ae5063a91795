//! Processes that pass one lock to each other.

use super::{Bench, limits::Pair};
use crate::{
    driver::{
        contender::{Contender, Language, REDISSON, with_rivals},
        group::ContentionPlan,
        log::{VisitLog, p50_and_p99},
        server,
        worker::Answer,
    },
    report::{
        Target,
        board::{Case, LIMIT},
    },
};

const GROUP: &str = "One name, one task in each of many processes, 200 µs inside";

const NO_HAND_OVER: &str = "no process ever took over from another";

const NO_ROOM: &str = "32 JVMs do not fit beside each other on a small machine";

/// The number of JVMs that fit in the memory.
const MOST_JVMS: usize = 8;

pub(super) fn run(bench: &mut Bench) {
    // JVMs warm up for a long time, so all of them start here, and only once. If the JVMs do not
    // fit in the memory, later cases report this error.
    bench.group_of(REDISSON, MOST_JVMS).ok();
    for processes in [2, 8, 32] {
        for contender in with_rivals(None) {
            if contender.language == Language::Java && processes > MOST_JVMS {
                bench.board.absent(median(processes), contender.column, NO_ROOM);
            }
        }
        rounds(bench, processes);
    }
}

fn rounds(bench: &mut Bench, processes: usize) {
    let fits = |it: &Contender| it.language != Language::Java || processes <= MOST_JVMS;
    let contenders: Vec<_> = with_rivals(None).into_iter().filter(fits).collect();
    let mut pair = Pair::start(bench);
    for _ in 0..bench.settings.rounds_of_processes {
        note_limit(bench, &mut pair, processes);
        for contender in &contenders {
            let found = measure(bench, *contender, processes);
            note(bench, *contender, processes, found);
        }
    }
}

/// Returns the visits, and the number of commands that the server executed for them.
fn measure(bench: &mut Bench, contender: Contender, processes: usize) -> Answer<(VisitLog, u64)> {
    let (name, length) =
        (format!("between-{}", contender.library), bench.settings.round_of_processes);
    let plan = ContentionPlan { processes, tasks: 1, name, length, hold_us: 200 };
    bench.group_of(contender, processes)?;
    let before = server::commands(&bench.redis);
    let (log, _) = bench.contend(contender, &plan)?;
    Ok((log, server::commands(&bench.redis) - before))
}

fn note_limit(bench: &mut Bench, pair: &mut Answer<Pair>, processes: usize) {
    let found = pair.as_mut().map_err(|why| why.clone()).and_then(Pair::measure);
    match found {
        Ok(found) => {
            let least = found.message_us + found.round_trip_us;
            bench.board.note(median(processes), LIMIT, least);
        }
        Err(why) => bench.board.failed(median(processes), LIMIT, &why),
    }
}

fn note(bench: &mut Bench, contender: Contender, processes: usize, found: Answer<(VisitLog, u64)>) {
    let column = contender.column;
    let (log, commands) = match found {
        Ok(found) => found,
        Err(why) => return bench.board.failed(median(processes), column, &why),
    };
    let between = log.between_processes();
    let hand_overs = between.len() as f64;
    bench.board.note(per_second(processes), column, hand_overs / log.seconds());
    note_commands(bench, column, processes, commands as f64 / hand_overs);
    let each = less(processes, "server commands per entry", "count");
    bench.board.note(each, column, commands as f64 / log.entries() as f64);
    note_delays(bench, column, processes, between);
    note_shares(bench, column, processes, &log);
}

fn note_commands(bench: &mut Bench, column: &'static str, processes: usize, each: f64) {
    let case = less(processes, "server commands per hand-over", "count");
    let case = case.plot("commands", processes);
    match each.is_finite() {
        true => bench.board.note(case, column, each),
        false => bench.board.absent(case, column, NO_HAND_OVER),
    }
}

fn note_delays(bench: &mut Bench, column: &'static str, processes: usize, between: Vec<u64>) {
    let p99 = less(processes, "hand-over, p99", "µs");
    if between.is_empty() {
        bench.board.absent(median(processes), column, NO_HAND_OVER);
        return bench.board.absent(p99, column, NO_HAND_OVER);
    }
    let (middle, long) = p50_and_p99(between);
    bench.board.note(median(processes), column, middle);
    bench.board.note(p99, column, long);
}

fn note_shares(bench: &mut Bench, column: &'static str, processes: usize, log: &VisitLog) {
    let (most, least) = log.luckiest_and_unluckiest();
    bench.board.note(less(processes, "share of the luckiest", "%"), column, most);
    let unluckiest = Case::more(GROUP, of(processes, "share of the unluckiest"), "%");
    bench.board.note(unluckiest, column, least);
    let jain = Case::more(GROUP, of(processes, "Jain's index of the shares"), "0–1");
    bench.board.note(jain, column, log.jain());
    let overlaps = less(processes, "overlaps", "count").target(Target::Never);
    bench.board.note(overlaps, column, log.overlaps() as f64);
}

fn median(processes: usize) -> Case {
    let case = less(processes, "hand-over, median", "µs").plot("hand-over", processes);
    case.target(Target::AtMostOf(LIMIT, 1.4)).target(Target::BeatsRivals)
}

fn per_second(processes: usize) -> Case {
    let case = Case::more(GROUP, of(processes, "hand-overs"), "per s");
    case.plot("hand-overs", processes).target(Target::BeatsRivals)
}

fn less(processes: usize, what: &str, unit: &'static str) -> Case {
    Case::less(GROUP, of(processes, what), unit)
}

fn of(processes: usize, what: &str) -> String {
    format!("{processes} processes: {what}")
}
