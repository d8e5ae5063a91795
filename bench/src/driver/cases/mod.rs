//! The cases: one file per group.

mod expiry;
mod in_process;
mod limits;
mod mixed;
mod names;
mod processes;
mod readers;
mod uncontended;
mod waiting;
mod watchdog;

use super::Bench;

/// A group of cases, measured and noted.
type Group = fn(&mut Bench);

/// All groups, by the names that `ONLY` knows.
pub(super) const ALL: [(&str, Group); 10] = [
    ("limits", limits::run),
    ("uncontended", uncontended::run),
    ("in-process", in_process::run),
    ("readers", readers::run),
    ("processes", processes::run),
    ("mixed", mixed::run),
    ("expiry", expiry::run),
    ("names", names::run),
    ("waiting", waiting::run),
    ("watchdog", watchdog::run),
];
