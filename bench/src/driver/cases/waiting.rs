//! The memory of a waiting task.

use super::Bench;
use crate::{
    driver::{
        contender::{Contender, LEASEHOLD, MUTEX, with_rivals},
        server,
        worker::{Answer, Launch},
    },
    job::{Entered, Grown, Job},
    report::{Target, board::Case},
};

const GROUP: &str = "Tasks that wait for one name, held by another process";

const TOO_MANY: &str = "that number of callers that poll, or are slow to start, would measure the load, not the memory";

/// How many waiters start before the measurement. No library's pool has this many connections, so
/// all connections exist afterwards.
const FIRST: usize = 100;

/// The lease of the holder, which lasts longer than the case.
const LEASE_MS: u64 = 600_000;

pub(super) fn run(bench: &mut Bench) {
    for &tasks in bench.settings.waiting {
        for contender in with_rivals(Some(MUTEX)) {
            if tasks > bench.settings.waiting_of_rivals
                && contender != LEASEHOLD
                && contender != MUTEX
            {
                bench.board.absent(case(tasks), contender.column, TOO_MANY);
                continue;
            }
            match weigh(bench, contender, tasks) {
                Ok(bytes) => bench.board.note(case(tasks), contender.column, bytes),
                Err(why) => bench.board.failed(case(tasks), contender.column, &why),
            }
        }
    }
    server::clear(&bench.redis);
}

/// Returns the bytes for each task. Then the process and all of its tasks end.
fn weigh(bench: &mut Bench, contender: Contender, tasks: usize) -> Answer<f64> {
    let name = format!("door-{}-{tasks}", contender.library);
    let launch = Launch { weigh: true, ..bench.launch.clone() };
    let mut worker = launch.start(contender)?.ready()?;
    let seize = Job::Seize { name: name.clone(), lease_ms: LEASE_MS };
    if contender == MUTEX {
        worker.ask::<Entered>(&seize)?;
    } else {
        bench.ask::<Entered>(contender, &seize)?;
    }
    // The first waiters create shared state, such as connections, which does not count.
    worker.ask::<Grown>(&Job::Wait { tasks: FIRST, name: name.clone() })?;
    let grown: Grown = worker.ask(&Job::Wait { tasks, name })?;
    Ok(grown.bytes as f64 / tasks as f64)
}

fn case(tasks: usize) -> Case {
    let case = Case::less(GROUP, format!("{tasks} waiting"), "bytes each");
    case.target(Target::BeatsRivals).plot("waiting", tasks)
}
