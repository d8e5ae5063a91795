//! Several of a kind at once: servers start in parallel.

use std::panic::resume_unwind;
use std::thread;

/// What `make` returns for each number below `count`, in order, each made in a thread.
///
/// # Panics
///
/// As `make` does.
pub(crate) fn side_by_side<T: Send>(count: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let make = &make;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || make(number))).collect();
        let made = threads.into_iter().map(|thread| thread.join());
        made.map(|made| made.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
