//! The time from the opening of a latch or a barrier until all waiters have passed.

use std::{future::Future, time::Duration};

use leasehold::{Barrier, Client, DoubleBarrier, Latch};
use tokio::{task::JoinSet, time::sleep};

use super::Outcome;
use crate::{
    clock,
    figures::percentile,
    job::{Delays, Gate},
};

/// After this time, all waiters are subscribed.
const SETTLE: Duration = Duration::from_millis(200);

pub(super) async fn wake(client: &Client, gate: Gate, tasks: usize, name: &str) -> Outcome<Delays> {
    let parties = u32::try_from(tasks)? + 1;
    match gate {
        Gate::Latch => {
            let latch = client.latch(name)?;
            latch.set(1).await?;
            let waits = || pass_latch(latch.clone());
            woken(tasks, waits, async { Ok(latch.count_down().await.map(drop)?) }).await
        }
        Gate::Barrier => {
            let barrier = client.barrier(name, parties)?;
            let opens = async { pass_barrier(barrier.clone()).await.map(drop) };
            woken(tasks, || pass_barrier(barrier.clone()), opens).await
        }
        Gate::DoubleBarrier => {
            let barrier = client.double_barrier(name, parties)?;
            let opens = async { pass_double_barrier(barrier.clone()).await.map(drop) };
            woken(tasks, || pass_double_barrier(barrier.clone()), opens).await
        }
    }
}

/// Starts tasks that wait, and opens the gate. Each `wait` returns when its task has passed the
/// gate.
async fn woken<W>(
    tasks: usize,
    wait: impl Fn() -> W,
    opens: impl Future<Output = Outcome<()>>,
) -> Outcome<Delays>
where
    W: Future<Output = Outcome<u64>> + Send + 'static,
{
    let mut waiters = JoinSet::new();
    for _ in 0..tasks {
        waiters.spawn(wait());
    }
    sleep(SETTLE).await;
    let opened = clock::monotonic_ns();
    opens.await?;
    let woken: Outcome<Vec<u64>> = waiters.join_all().await.into_iter().collect();
    let mut delays: Vec<u64> = woken?.iter().map(|at| at.saturating_sub(opened)).collect();
    Ok(Delays { p50_ns: percentile(&mut delays, 0.5), p99_ns: percentile(&mut delays, 0.99) })
}

async fn pass_latch(latch: Latch) -> Outcome<u64> {
    latch.wait().await?;
    Ok(clock::monotonic_ns())
}

async fn pass_barrier(barrier: Barrier) -> Outcome<u64> {
    barrier.arrive_and_wait().await?;
    Ok(clock::monotonic_ns())
}

async fn pass_double_barrier(barrier: DoubleBarrier) -> Outcome<u64> {
    let inside = barrier.enter().await?;
    let passed = clock::monotonic_ns();
    inside.leave().await?.into_result()?;
    Ok(passed)
}
