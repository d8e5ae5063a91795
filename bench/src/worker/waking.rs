//! The time from the opening of a latch until all waiters know it.

use std::time::Duration;

use leasehold::Latch;
use tokio::{task::JoinSet, time::sleep};

use super::{Outcome, libraries::Library};
use crate::{clock, figures::percentile, job::Delays};

/// The time in which all waiters are subscribed.
const SETTLE: Duration = Duration::from_millis(200);

pub(super) async fn wake<L: Library>(library: &L, tasks: usize, name: &str) -> Outcome<Delays> {
    let latch = library.latch(name)?;
    latch.set(1).await?;
    let mut waiters = JoinSet::new();
    for _ in 0..tasks {
        waiters.spawn(woken(latch.clone()));
    }
    sleep(SETTLE).await;
    let opens = clock::monotonic_ns();
    latch.count_down().await?;
    let woken: Outcome<Vec<u64>> = waiters.join_all().await.into_iter().collect();
    let mut delays: Vec<u64> = woken?.iter().map(|at| at.saturating_sub(opens)).collect();
    Ok(Delays { p50_ns: percentile(&mut delays, 0.5), p99_ns: percentile(&mut delays, 0.99) })
}

async fn woken(latch: Latch) -> Outcome<u64> {
    latch.wait().await?;
    Ok(clock::monotonic_ns())
}
