//! The time from the end of a paused holder's lease until a waiter acquires.

use super::Bench;
use crate::{
    clock,
    driver::{
        contender::{Contender, with_rivals},
        server,
        worker::{Answer, Worker},
    },
    job::{Entered, Job},
    report::{Target, board::Case},
};

const GROUP: &str = "The holder stands still, and its lease of 1 s ends";

const LEASE_MS: u64 = 1_000;

pub(super) fn run(bench: &mut Bench) {
    let contenders = with_rivals(None);
    let mut holders: Vec<_> = contenders.iter().map(|it| bench.launch.start(*it)).collect();
    holders = holders.into_iter().map(|it| it.and_then(Worker::ready)).collect();
    for round in 0..bench.settings.rounds {
        // All contenders wait at the same time, because each needs little processor time.
        let ends: Vec<_> = contenders
            .iter()
            .zip(&mut holders)
            .map(|(contender, holder)| seize(bench, *contender, holder, round))
            .collect();
        for ((contender, holder), end) in contenders.iter().zip(&holders).zip(ends) {
            note(bench, *contender, end);
            if let Ok(holder) = holder {
                holder.resume();
            }
        }
    }
}

/// Lets one process acquire the lock and pause, while another process waits for the lock. Returns
/// the time at which the lease ends.
fn seize(
    bench: &mut Bench,
    contender: Contender,
    holder: &mut Answer<Worker>,
    round: usize,
) -> Answer<u64> {
    let name = format!("silent-{}-{round}", contender.library);
    let holder = holder.as_mut().map_err(|why| why.clone())?;
    holder.ask::<Entered>(&Job::Seize { name: name.clone(), lease_ms: LEASE_MS })?;
    let asked = clock::monotonic_ns();
    let left = server::pttl(&bench.redis, &name).ok_or("the lock has no end")?;
    holder.pause();
    bench.worker(contender)?.send(&Job::Enter { name })?;
    Ok(asked + left.unsigned_abs() * 1_000_000)
}

fn note(bench: &mut Bench, contender: Contender, end: Answer<u64>) {
    let entered = end.and_then(|end| Ok((end, bench.worker(contender)?.answer::<Entered>()?)));
    match entered {
        Ok((end, entered)) => {
            let late = entered.entered_ns as f64 - end as f64;
            bench.board.note(case(), contender.column, late / 1e6);
        }
        Err(why) => bench.board.failed(case(), contender.column, &why),
    }
}

fn case() -> Case {
    Case::less(GROUP, "from the end of the lease to the entry", "ms").target(Target::BeatsRivals)
}
