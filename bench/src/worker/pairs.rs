//! Acquire and release without contention.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{Outcome, libraries::Library};
use crate::{clock, figures::percentile, job::Paired};

/// Lets each task acquire and release its names one after the other, for `millis`. If `all` is
/// true, each task also continues until it has used all of its names.
pub(super) async fn run<L: Library>(
    library: L,
    shares: Vec<Vec<String>>,
    millis: u64,
    all: bool,
) -> Outcome<Paired> {
    let (cpu, start) = (clock::cpu_ns(), Instant::now());
    let end = start + Duration::from_millis(millis);
    let mut set = JoinSet::new();
    for share in shares {
        let least = if all { share.len() } else { 1 };
        set.spawn(go_round(library.clone(), share, end, least));
    }
    let durations: Outcome<Vec<_>> = set.join_all().await.into_iter().collect();
    let (wall, cpu) = (start.elapsed(), clock::cpu_ns() - cpu);
    Ok(summary(durations?.concat(), wall, cpu))
}

/// The names of each task. No two tasks share a name.
pub(super) fn shares(prefix: &str, tasks: usize, names: usize) -> Vec<Vec<String>> {
    let share = |task| (task..names).step_by(tasks).map(|number| format!("{prefix}-{number}"));
    (0..tasks).map(|task| share(task).collect()).collect()
}

/// Acquires and releases until `end`, and at least `least` times.
async fn go_round<L: Library>(
    library: L,
    names: Vec<String>,
    end: Instant,
    least: usize,
) -> Outcome<Vec<u64>> {
    let mut durations = vec![];
    let mut asked = Instant::now();
    for name in names.iter().cycle() {
        let held = library.acquire(name).await?;
        library.release(held).await?;
        let now = Instant::now();
        durations.push((now - asked).as_nanos() as u64);
        asked = now;
        if now >= end && durations.len() >= least {
            break;
        }
    }
    Ok(durations)
}

fn summary(mut durations: Vec<u64>, wall: Duration, cpu_ns: u64) -> Paired {
    Paired {
        pairs: durations.len() as u64,
        wall_ns: wall.as_nanos() as u64,
        cpu_ns,
        p50_ns: percentile(&mut durations, 0.5),
        p99_ns: percentile(&mut durations, 0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_belongs_to_exactly_one_worker() {
        let mut all = shares("n", 3, 7).concat();
        all.sort();
        assert_eq!(all, ["n-0", "n-1", "n-2", "n-3", "n-4", "n-5", "n-6"]);
    }
}
