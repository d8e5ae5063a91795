//! Jobs with long holds or with waiting tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;

use super::{Outcome, libraries::Library};
use crate::{
    clock,
    job::{Entered, Grown, Idled},
};

/// How many acquisitions run at the same time while many holds are created.
const TOGETHER: usize = 64;

/// The time after which all tasks wait. This time is used if the library does not count its waiting
/// tasks.
const SETTLE: Duration = Duration::from_millis(500);

pub(super) async fn hold<L: Library>(
    library: &L,
    count: usize,
    prefix: &str,
    ttl_ms: u64,
) -> Outcome<Vec<L::Held>> {
    let ttl = Duration::from_millis(ttl_ms);
    let mut held = Vec::with_capacity(count);
    let one = |number| async move { library.hold(&format!("{prefix}-{number}"), ttl).await };
    let mut all = stream::iter((0..count).map(one)).buffer_unordered(TOGETHER);
    while let Some(guard) = all.try_next().await? {
        held.push(guard);
    }
    Ok(held)
}

pub(super) async fn seize<L: Library>(
    library: &L,
    name: &str,
    lease_ms: u64,
) -> Outcome<(L::Held, Entered)> {
    let held = library.seize(name, Duration::from_millis(lease_ms)).await?;
    Ok((held, Entered { entered_ns: clock::monotonic_ns() }))
}

pub(super) async fn enter<L: Library>(library: &L, name: &str) -> Outcome<Entered> {
    let held = library.acquire(name).await?;
    let entered = Entered { entered_ns: clock::monotonic_ns() };
    library.release(held).await?;
    Ok(entered)
}

pub(super) async fn idle<L: Library>(library: &L, millis: u64) -> Idled {
    let (cpu, start) = (clock::cpu_ns(), Instant::now());
    sleep(Duration::from_millis(millis)).await;
    Idled {
        wall_ns: start.elapsed().as_nanos() as u64,
        cpu_ns: clock::cpu_ns() - cpu,
        lag_ns: library.lag().map(|lag| lag.as_nanos() as u64),
    }
}

/// Tasks that wait until the process ends.
#[derive(Clone, Default)]
pub(super) struct Waiters {
    /// The number of tasks that no longer wait.
    ended: Arc<AtomicU64>,
}

impl Waiters {
    /// Starts tasks, and returns when all of them wait.
    pub(super) async fn join<L: Library>(&self, library: &L, tasks: usize, name: &str) {
        let name: Arc<str> = name.into();
        for _ in 0..tasks {
            let (library, name) = (library.clone(), Arc::clone(&name));
            let ended = Arc::clone(&self.ended);
            // The task is not awaited, because it waits until the process ends.
            drop(tokio::spawn(async move {
                drop(library.acquire(&name).await);
                ended.fetch_add(1, Ordering::Relaxed);
            }));
        }
        while library.waiting().is_some_and(|waiting| waiting < tasks as u64) {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(SETTLE).await;
    }

    pub(super) fn check(&self) -> Outcome<()> {
        match self.ended.load(Ordering::Relaxed) {
            0 => Ok(()),
            ended => Err(format!("{ended} callers did not wait").into()),
        }
    }
}

/// The growth in bytes between two measurements, or 0 in a process that does not count memory.
pub(super) fn grown(before: Option<i64>, after: Option<i64>) -> Grown {
    Grown { bytes: after.zip(before).map_or(0, |(after, before)| after - before) }
}
