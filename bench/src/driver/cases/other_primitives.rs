//! The primitives other than locks, each compared with the same primitive of Redisson. All tasks
//! use one name.

use std::sync::Arc;

use testkit::Redis;

use super::{
    Bench,
    round::{Round, count},
};
use crate::{
    driver::{
        contender::{
            Contender, FAIR, FENCED, LIMITER, MAP, MULTI, PERMITS, QUEUE, QUORUM, READING,
            SEMAPHORE, SET,
        },
        server::{self, Servers},
        worker::Answer,
    },
    job::Job,
    report::{Target, board::Case},
};

/// The number of permits of semaphores.
const PERMITS_THERE: u32 = 8;

/// The permits of a rate limiter for each 100 ms. One task requests more permits, and many tasks
/// request far more.
const RATE: u32 = 2_000;

/// The number of servers of a quorum.
const SERVERS: usize = 3;

/// The measurement of one kind of object.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    group: &'static str,
    contenders: &'static [Contender],
    tasks: &'static [usize],
    /// The target with many tasks, if Redisson has the same operations.
    target: Option<Target>,
}

const fn kind(group: &'static str, contenders: &'static [Contender]) -> Kind {
    Kind { group, contenders, tasks: &[1, 64], target: Some(Target::BeatsRivals) }
}

pub(super) const READERS: Kind = Kind {
    target: Some(Target::AtLeastOf("Redisson", 100.0)),
    ..kind("Readers of one name, tasks of one process", &READING)
};

pub(super) const FENCED_LOCK: Kind =
    kind("One name of a fenced lock, tasks of one process", &FENCED);

pub(super) const SEMAPHORES: Kind = kind("A semaphore of 8, tasks of one process", &SEMAPHORE);

pub(super) const EXPIRING: Kind =
    kind("Permits that expire, 8 of them, tasks of one process", &PERMITS);

pub(super) const RATE_LIMITER: Kind =
    kind("One permit of a rate limiter of 2,000 in 100 ms, tasks of one process", &LIMITER);

pub(super) const FAIR_LOCK: Kind = kind("One name of a fair lock, tasks of one process", &FAIR);

pub(super) const MULTI_LOCK: Kind =
    kind("One multi-lock of two names, tasks of one process", &MULTI);

const QUORUM_LOCK: Kind = kind("One name of a quorum of 3 servers, tasks of one process", &QUORUM);

pub(super) const MAP_ENTRY: Kind =
    kind("A map: insert an entry and get it, tasks of one process", &MAP);

pub(super) const SET_ELEMENT: Kind =
    kind("A set: insert an element and remove it, tasks of one process", &SET);

/// These cases have no target, because Redisson has no claims. If a worker dies after Redisson's
/// `poll`, the polled element is lost.
pub(super) const CLAIMS: Kind = Kind {
    tasks: &[1, 16, 64],
    target: None,
    ..kind(
        "A queue: push an element, claim one, done; Redisson: offer and poll; rsmq: send, receive, delete",
        &QUEUE,
    )
};

pub(super) fn quorum(bench: &mut Bench) {
    let redis: Vec<_> = (0..SERVERS).map(|_| Arc::new(Redis::start())).collect();
    let urls: Vec<_> = redis.iter().map(|it| it.url().trim_end_matches('/').to_owned()).collect();
    bench.elsewhere(Servers::new(redis), &urls.join(","), |bench| run(bench, QUORUM_LOCK));
}

pub(super) fn run(bench: &mut Bench, kind: Kind) {
    // The names for the warm-up. The figures do not include the warm-up.
    let names = (0..16).map(|number| format!("warm-{number}"));
    names.for_each(|name| fill(bench, kind, &name));
    for tasks in kind.tasks.iter().copied() {
        bench.in_turn(bench.settings.rounds, kind.contenders, |bench, contender| {
            let found = measure(bench, kind, contender, tasks);
            note(bench, kind, contender, tasks, found);
        });
    }
    bench.dismiss(kind.contenders);
    server::clear(&bench.redis);
}

/// Creates the permits of `name`, if its kind has permits.
fn fill(bench: &Bench, kind: Kind, name: &str) {
    let is = |contenders: &[Contender]| kind.contenders == contenders;
    if is(&SEMAPHORE) || is(&PERMITS) {
        server::fill(&bench.redis, name, PERMITS_THERE);
    } else if is(&LIMITER) {
        server::limit(&bench.redis, name, RATE);
    }
}

fn measure(bench: &mut Bench, kind: Kind, contender: Contender, tasks: usize) -> Answer<Round> {
    let millis = bench.settings.round.as_millis() as u64;
    let name = format!("all-{}-{tasks}", contender.library);
    bench.worker(contender)?;
    fill(bench, kind, &name);
    Round::run(bench, contender, &Job::Share { tasks, name, millis })
}

fn note(bench: &mut Bench, kind: Kind, contender: Contender, tasks: usize, found: Answer<Round>) {
    let column = contender.column;
    let main = if tasks == 1 { latency(kind) } else { throughput(kind, tasks) };
    match found {
        Ok(round) => {
            bench.board.note(main, column, round.speed(tasks));
            bench.board.note(of_server(kind, tasks), column, round.server_cpu());
            bench.board.note(commands(kind, tasks), column, round.commands());
        }
        Err(why) => bench.board.failed(main, column, &why),
    }
}

fn latency(kind: Kind) -> Case {
    kind.beating(Case::less(kind.group, "1 task: median of a pair", "µs"))
}

fn throughput(kind: Kind, tasks: usize) -> Case {
    let case = Case::more(kind.group, format!("{tasks} tasks: throughput"), "pairs/s");
    kind.target.into_iter().fold(case, Case::target)
}

fn of_server(kind: Kind, tasks: usize) -> Case {
    let what = format!("{}: server CPU", count(tasks));
    kind.beating(Case::less(kind.group, what, "µs/pair"))
}

impl Kind {
    /// Adds the target of beating Redisson to `case`, if this kind has a target.
    fn beating(self, case: Case) -> Case {
        if self.target.is_some() { case.target(Target::BeatsRivals) } else { case }
    }
}

fn commands(kind: Kind, tasks: usize) -> Case {
    Case::less(kind.group, format!("{}: server commands per pair", count(tasks)), "count")
}
