//! The time from a failover until the next grant.
//!
//! Leasehold and Redisson acquire one lock after another during the same failovers. The time counts
//! from the moment at which the servers could serve again. With sentinels, this is the moment when
//! the first sentinel announces the new master. In a cluster, it is the moment when the new owner
//! of the slot accepts its first write.

use std::{
    thread,
    time::{Duration, Instant},
};

use testkit::{Cluster, Redis, Sentinels, eventually};

use super::Bench;
use crate::{
    clock,
    driver::{
        contender::{Contender, LEASEHOLD, REDISSON},
        server::Servers,
        worker::Answer,
    },
    job::{Entered, Job},
    report::{Target, board::Case},
};

const SENTINEL: &str = "The master is killed: from +switch-master to the next grant";
const CLUSTER: &str =
    "A master of a cluster is killed: from the first write of the new one to the next grant";

const BOTH: [Contender; 2] = [LEASEHOLD, REDISSON];

/// The delays of both contenders in ms, one for each failover.
type Late = [Vec<f64>; 2];

pub(super) fn by_sentinel(bench: &mut Bench) {
    let redis = Sentinels::options().down_after(SILENCE).start();
    bench.elsewhere(Servers::new(vec![]), &redis.url(), |bench| {
        let mut late = Late::default();
        for round in 0..bench.settings.failovers {
            let old = redis.master_number();
            let events = redis.listen();
            recover(bench, &mut late, &format!("door-{round}"), || {
                redis.servers()[old].stop();
                events.wait_for("+switch-master", PATIENCE).at
            });
            redis.servers()[old].start_again();
            redis.wait_until_agreed();
        }
        note(bench, SENTINEL, &late);
    });
}

pub(super) fn of_cluster(bench: &mut Bench) {
    let redis = Cluster::options().node_timeout(SILENCE).start();
    let tag = redis.key_on(&redis.masters()[0], "door");
    bench.elsewhere(Servers::new(vec![]), &redis.url(), |bench| {
        let mut late = Late::default();
        for round in 0..bench.settings.failovers {
            let old = redis.owner_of(Cluster::slot_of(&tag));
            let new = redis.replicas_of(&old).remove(0);
            recover(bench, &mut late, &format!("{{{tag}}}-{round}"), || {
                old.stop();
                first_write(&new, &format!("{{{tag}}}-probe"))
            });
            old.start_again();
            redis.wait_until_ok();
        }
        note(bench, CLUSTER, &late);
    });
}

/// Lets both contenders request locks during `fail_over`, which returns the end of the failover.
fn recover(bench: &mut Bench, late: &mut Late, name: &str, fail_over: impl FnOnce() -> Instant) {
    // Both workers are started and warmed up before either of them gets a job.
    BOTH.into_iter().for_each(|contender| drop(bench.worker(contender).map(drop)));
    let asked = BOTH.map(|contender| ask(bench, contender, name));
    thread::sleep(LEAD);
    let killed = clock::monotonic_ns();
    let over = nanos(fail_over());
    for ((contender, asked), late) in BOTH.into_iter().zip(asked).zip(late) {
        let entered = asked.and_then(|()| bench.worker(contender)?.answer::<Entered>());
        match entered {
            Ok(Entered { entered_ns }) if entered_ns > killed => {
                late.push(entered_ns.saturating_sub(over) as f64 / 1e6);
            }
            // The gap without grants ended before the failover, so the failover did not cause it.
            // The whole machine was paused.
            Ok(_) => eprintln!("bench: {}: a failover is not counted", contender.library),
            Err(why) => eprintln!("bench: {}: {why}", contender.library),
        }
    }
}

fn ask(bench: &mut Bench, contender: Contender, name: &str) -> Answer<()> {
    let prefix = format!("{name}-{}", contender.library);
    let job = Job::Outlast { prefix, gap_ms: GAP.as_millis() as u64 };
    bench.worker(contender)?.send(&job)
}

/// Returns the time at which the new master accepted its first write.
fn first_write(new: &Redis, key: &str) -> Instant {
    eventually("the new primary accepts a write", PATIENCE, || {
        !new.command(&["SET", key, "1"]).is_error()
    });
    Instant::now()
}

fn nanos(at: Instant) -> u64 {
    clock::monotonic_ns() - at.elapsed().as_nanos() as u64
}

fn note(bench: &mut Bench, group: &'static str, late: &Late) {
    for (contender, late) in BOTH.into_iter().zip(late) {
        let column = contender.column;
        if late.is_empty() {
            bench.board.failed(median(group), column, "it never entered again");
        }
        for late in late {
            bench.board.note(median(group), column, *late);
        }
        if let Some(worst) = late.iter().copied().reduce(f64::max) {
            bench.board.note(worst_of(group), column, worst);
        }
    }
}

/// The first target is for an idle machine. The second one, four times as long, is for a busy one.
fn median(group: &'static str) -> Case {
    let case = Case::less(group, "median", "ms").target(Target::AtMost(250.0));
    case.target(Target::NeverAbove(1_000.0))
}

fn worst_of(group: &'static str) -> Case {
    let case = Case::less(group, "worst", "ms").target(Target::AtMost(1_000.0));
    case.target(Target::NeverAbove(4_000.0))
}

/// The time of silence after which a master is replaced, with sentinels and in a cluster.
const SILENCE: Duration = Duration::from_secs(1);
/// A gap between two grants that is longer than this counts as the failover. Every failover takes
/// longer than this, and normally nothing else does.
const GAP: Duration = Duration::from_millis(500);
/// The time for which both contenders request locks before the failover.
const LEAD: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(30);
