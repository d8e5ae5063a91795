//! The cases: one file per group.

mod cluster;
mod expiry;
mod in_process;
mod latch;
mod limits;
mod mixed;
mod names;
mod other_primitives;
mod processes;
mod recovery;
mod uncontended;
mod wait;
mod waiting;
mod watchdog;

use super::Bench;

/// Measures a group of cases and notes the figures.
type Group = fn(&mut Bench);

/// All groups, by the names that `ONLY` accepts.
pub(super) const ALL: [(&str, Group); 20] = [
    ("limits", limits::run),
    ("uncontended", uncontended::run),
    ("in-process", in_process::run),
    ("readers", other_primitives::readers),
    ("fenced", other_primitives::fenced),
    ("semaphore", other_primitives::semaphore),
    ("permits", other_primitives::permits),
    ("rate-limiter", other_primitives::rate_limiter),
    ("latch", latch::run),
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
