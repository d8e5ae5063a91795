//! The cases. Each file has one group.

mod cluster;
mod election;
mod expiry;
mod fair;
mod in_process;
mod latch;
mod limits;
mod mixed;
mod names;
mod other_primitives;
mod processes;
mod recovery;
mod round;
mod uncontended;
mod wait;
mod waiting;
mod watchdog;

use super::Bench;

/// Measures a group of cases and records the figures.
type Group = fn(&mut Bench);

/// All groups, by their names for `ONLY`.
pub(super) const ALL: [(&str, Group); 29] = [
    ("limits", limits::run),
    ("uncontended", uncontended::run),
    ("in-process", in_process::run),
    ("readers", |bench| other_primitives::run(bench, other_primitives::READERS)),
    ("fenced", |bench| other_primitives::run(bench, other_primitives::FENCED_LOCK)),
    ("semaphore", |bench| other_primitives::run(bench, other_primitives::SEMAPHORES)),
    ("permits", |bench| other_primitives::run(bench, other_primitives::EXPIRING)),
    ("rate-limiter", |bench| other_primitives::run(bench, other_primitives::RATE_LIMITER)),
    ("fair", |bench| other_primitives::run(bench, other_primitives::FAIR_LOCK)),
    ("fair-processes", fair::run),
    ("multi", |bench| other_primitives::run(bench, other_primitives::MULTI_LOCK)),
    ("quorum", other_primitives::quorum),
    ("election", election::run),
    ("latch", latch::run),
    ("barrier", latch::barriers),
    ("map", |bench| other_primitives::run(bench, other_primitives::MAP_ENTRY)),
    ("set", |bench| other_primitives::run(bench, other_primitives::SET_ELEMENT)),
    ("queue", |bench| other_primitives::run(bench, other_primitives::CLAIMS)),
    ("processes", processes::run),
    ("mixed", mixed::run),
    ("expiry", expiry::run),
    ("names", names::run),
    ("waiting", waiting::run),
    ("watchdog", watchdog::run),
    ("permits-kept", watchdog::permits),
    ("replica-wait", wait::run),
    ("cluster", cluster::run),
    ("sentinel-failover", recovery::by_sentinel),
    ("cluster-failover", recovery::of_cluster),
];
