//! Many tasks that contend for one name.

use std::{
    hint,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{Outcome, libraries::Library};
use crate::{clock, job::Contended};

/// The settings of a [`Job::Contend`](crate::job::Job::Contend).
pub(super) struct ContendingTasks {
    pub(super) tasks: usize,
    pub(super) name: String,
    pub(super) start_ns: u64,
    pub(super) millis: u64,
    pub(super) hold_us: u64,
    pub(super) log: bool,
}

/// Counts the acquisitions, hand-overs and overlaps of all tasks of this process.
#[derive(Default)]
struct Inside {
    occupied: AtomicBool,
    /// The task that acquired last, counted from 1.
    last: AtomicU64,
    entries: AtomicU64,
    hand_overs: AtomicU64,
    overlaps: AtomicU64,
}

impl Inside {
    fn enter(&self, task: u64) {
        if self.occupied.swap(true, Ordering::SeqCst) {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        let last = self.last.swap(task, Ordering::Relaxed);
        if last != 0 && last != task {
            self.hand_overs.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn leave(&self) {
        self.occupied.store(false, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Visits {
    log: Vec<(u64, u64, u64)>,
    longest_wait_ns: u64,
}

pub(super) async fn run<L: Library>(library: L, contending: ContendingTasks) -> Outcome<Contended> {
    tokio::time::sleep(clock::until(contending.start_ns)).await;
    let cpu = clock::cpu_ns();
    let end = Instant::now() + Duration::from_millis(contending.millis);
    let (inside, contending) = (Arc::new(Inside::default()), Arc::new(contending));
    let mut set = JoinSet::new();
    for task in 1..=contending.tasks as u64 {
        set.spawn(visit(library.clone(), Arc::clone(&contending), Arc::clone(&inside), task, end));
    }
    let visits: Outcome<Vec<_>> = set.join_all().await.into_iter().collect();
    Ok(summary(&inside, visits?, clock::cpu_ns() - cpu))
}

/// Acquires and releases repeatedly. A lock that is granted after the end is released and not
/// counted.
async fn visit<L: Library>(
    library: L,
    contending: Arc<ContendingTasks>,
    inside: Arc<Inside>,
    task: u64,
    end: Instant,
) -> Outcome<Visits> {
    let mut visits = Visits::default();
    loop {
        let asked = Instant::now();
        let held = library.acquire(&contending.name).await?;
        let entered = Instant::now();
        if entered >= end {
            library.release(held).await?;
            return Ok(visits);
        }
        let waited = (entered - asked).as_nanos() as u64;
        visits.longest_wait_ns = visits.longest_wait_ns.max(waited);
        stay(&contending, &inside, task, &mut visits);
        library.release(held).await?;
    }
}

fn stay(contending: &ContendingTasks, inside: &Inside, task: u64, visits: &mut Visits) {
    let entered = if contending.log { clock::monotonic_ns() } else { 0 };
    inside.enter(task);
    spin(Duration::from_micros(contending.hold_us));
    inside.leave();
    if contending.log {
        visits.log.push((task, entered, clock::monotonic_ns()));
    }
}

fn spin(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < duration {
        hint::spin_loop();
    }
}

fn summary(inside: &Inside, visits: Vec<Visits>, cpu_ns: u64) -> Contended {
    Contended {
        entries: inside.entries.load(Ordering::Relaxed),
        hand_overs: inside.hand_overs.load(Ordering::Relaxed),
        overlaps: inside.overlaps.load(Ordering::Relaxed),
        longest_wait_ns: visits.iter().map(|visits| visits.longest_wait_ns).max().unwrap_or(0),
        cpu_ns,
        log: visits.into_iter().flat_map(|visits| visits.log).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_over_is_counted_only_if_a_different_task_acquires() {
        let inside = Inside::default();
        for task in [1, 1, 2, 2, 1] {
            inside.enter(task);
            inside.leave();
        }
        assert_eq!(inside.entries.into_inner(), 5);
        assert_eq!(inside.hand_overs.into_inner(), 2);
        assert_eq!(inside.overlaps.into_inner(), 0);
    }

    #[test]
    fn two_concurrent_holders_count_as_an_overlap() {
        let inside = Inside::default();
        inside.enter(1);
        inside.enter(2);
        assert_eq!(inside.overlaps.into_inner(), 1);
    }
}
