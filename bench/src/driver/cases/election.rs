//! An election with a leader and a hot standby: the time until the standby leads.

use std::{thread::sleep, time::Duration};

use super::Bench;
use crate::{
    clock,
    driver::{
        contender::{Contender, ELECTION},
        group::ContentionPlan,
        log::p50_and_p99,
        worker::{Answer, Launch, Worker},
    },
    job::{Entered, Grown, Job},
    report::{Target, board::Case},
};

const GROUP: &str = "An election, a leader and a standby of two processes; Redisson: a fenced lock";

/// The lease of the leader that is killed.
const TTL: Duration = Duration::from_secs(3);

/// After this time, the standby waits.
const SETTLE: Duration = Duration::from_millis(500);

pub(super) fn run(bench: &mut Bench) {
    bench.in_turn(bench.settings.rounds, &ELECTION, |bench, contender| {
        let found = hand_over(bench, contender);
        note(bench, contender, stepped_down(), found);
    });
    let rounds = 0..bench.settings.rounds;
    for (round, contender) in rounds.flat_map(|it| ELECTION.map(|contender| (it, contender))) {
        let found = crash(bench, contender, round);
        note(bench, contender, killed(), found);
    }
    bench.dismiss(&ELECTION);
}

/// The median time from the start of a step-down until the standby leads, in µs.
fn hand_over(bench: &mut Bench, contender: Contender) -> Answer<f64> {
    let (name, length) =
        (format!("turns-{}", contender.library), bench.settings.round_of_processes);
    let plan = ContentionPlan { processes: 2, tasks: 1, name, length, hold_us: 200 };
    let between = bench.contend(contender, &plan)?.0.between_processes();
    if between.is_empty() {
        return Err("no process ever took over from the other".to_owned());
    }
    Ok(p50_and_p99(between).0)
}

/// The time from the death of a leader until the standby leads, in ms.
fn crash(bench: &mut Bench, contender: Contender, round: usize) -> Answer<f64> {
    let prefix = format!("crash-{}-{round}", contender.library);
    let launch = Launch { ttl: TTL, ..bench.launch.clone() };
    let mut leader = launch.start(contender).and_then(Worker::ready)?;
    let ttl_ms = TTL.as_millis() as u64;
    leader.ask::<Grown>(&Job::Hold { count: 1, prefix: prefix.clone(), ttl_ms })?;
    let standby = bench.worker(contender)?;
    standby.send(&Job::Enter { name: format!("{prefix}-0") })?;
    // In each round, another part of the lease has passed when the leader is killed.
    sleep(SETTLE + TTL / 10 * (round as u32 % 10));
    let died = clock::monotonic_ns();
    drop(leader);
    let entered = bench.worker(contender)?.answer::<Entered>()?.entered_ns;
    Ok(entered.saturating_sub(died) as f64 / 1e6)
}

fn note(bench: &mut Bench, contender: Contender, case: Case, found: Answer<f64>) {
    match found {
        Ok(time) => bench.board.note(case, contender.column, time),
        Err(why) => bench.board.failed(case, contender.column, &why),
    }
}

fn stepped_down() -> Case {
    Case::less(GROUP, "the leader steps down: until the standby leads, median", "µs")
        .target(Target::BeatsRivals)
}

fn killed() -> Case {
    Case::less(GROUP, "the leader is killed, its lease is 3 s: until the standby leads", "ms")
}
