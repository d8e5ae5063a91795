//! A replacement for cron: each run of a job happens only once, on one of the machines.
//!
//! Run this example in two terminals with the same `REDIS_URL`. Without `REDIS_URL`, the two
//! "machines" are two tasks of this process.
//!
//! A map contains the time of the last run of each job. The program writes this time under the lock
//! of the job, and only if it still holds the lock. So a run that has started on one machine starts
//! on no other machine. This is true even if the clocks of the machines differ, or if the machine
//! dies during the run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{Client, Error, Map, MemoryStore, RunOutcome};
use tokio::time::sleep;

const JOB: &str = "nightly-close";

/// The period is a second, so that you can watch the example. A nightly job would have a period of
/// a day.
const PERIOD: Duration = Duration::from_secs(1);

/// How far the clock of the other machine is behind. This time is longer than the work, so the
/// other machine starts when the run has already ended.
const BEHIND: Duration = Duration::from_millis(300);

/// The example ends after this number of runs. A real program continues until it is stopped.
const TIMES: usize = 4;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let (one, other) = match std::env::var("REDIS_URL") {
        Ok(url) => (Client::connect(&url).await?, Client::connect(&url).await?),
        Err(_) => {
            let store = MemoryStore::new();
            (Client::with_store(&store), Client::with_store(&store))
        }
    };
    let (first, second) = tokio::join!(
        schedule("one", one.map("cron/last-runs")?, Duration::ZERO),
        schedule("other", other.map("cron/last-runs")?, BEHIND),
    );
    first.and(second)
}

async fn schedule(
    machine: &str,
    last_runs: Map<String, u64>,
    behind: Duration,
) -> Result<(), Error> {
    for _ in 0..TIMES {
        let time = next_time(behind).await;
        // A single failure, such as a restart of Redis, does not end the schedule.
        match run_once(machine, &last_runs, time).await {
            Ok(true) => {}
            Ok(false) => println!("{machine:>5}: {JOB} of {time} belongs to another machine"),
            Err(error) => eprintln!("{machine:>5}: {JOB} of {time} failed: {error}"),
        }
    }
    Ok(())
}

/// Sleeps until the next multiple of the period, and returns its number.
#[expect(clippy::disallowed_methods, reason = "a schedule has dates; no lease depends on them")]
async fn next_time(behind: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = now.saturating_sub(behind);
    let number = now.as_secs() / PERIOD.as_secs() + 1;
    sleep(Duration::from_secs(number * PERIOD.as_secs()).saturating_sub(now)).await;
    number
}

/// Runs the job unless another machine has started this run. Returns whether this machine has run
/// the job.
async fn run_once(machine: &str, last: &Map<String, u64>, time: u64) -> Result<bool, Error> {
    // If a run hangs, it loses the lock after two periods.
    let lock = last.lock(JOB)?.max_hold(2 * PERIOD);
    let Some(guard) = lock.try_acquire().await? else {
        return Ok(false); // Another machine is executing this run, or the run before it.
    };
    if last.get(JOB).await?.is_some_and(|last| last >= time) {
        guard.release().await?.into_result()?;
        return Ok(false);
    }
    // The run is recorded before it starts, so it happens at most once. If a run must happen at
    // least once, record the run after the work.
    guard.write([last.insertion(JOB, &time)?]).await?;
    match guard.run(async |_held| close(machine, time).await).await {
        RunOutcome::Cancelled { reason, .. } => println!("{machine:>5}: stopped: {reason}"),
        _ => println!("{machine:>5}: {JOB} of {time} is done"),
    }
    Ok(true)
}

/// The work. If the lock is lost, the work may stop at any `await`.
async fn close(machine: &str, time: u64) {
    println!("{machine:>5}: {JOB} of {time} starts");
    sleep(Duration::from_millis(200)).await;
}
