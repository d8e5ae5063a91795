//! A worker that runs in many processes, but works in only one of them: the leader.
//!
//! Run this example in two terminals with the same `REDIS_URL`, and kill the process that leads.
//! Without `REDIS_URL`, the two "processes" are two tasks of this process, and the first leader
//! steps down.
//!
//! ```text
//! leader [NAME]
//! ```

use std::time::Duration;

use leasehold::{Client, Election, Error, LockContext, MemoryStore, RunOutcome};
use tokio::time::sleep;

/// If a leader dies, another process leads within this time.
const TTL: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Error> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        let client = Client::connect(&url).await?;
        let name = std::env::args().nth(1).unwrap_or_else(|| std::process::id().to_string());
        let worked = tokio::select! {
            worked = work_while_leading(&name, client.election("outbox")?, u32::MAX) => worked,
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
        // The shutdown ends the leadership, so that another process leads at once.
        client.shutdown(Duration::from_secs(5)).await;
        return worked;
    }
    let store = MemoryStore::new();
    let [one, other] = [(); 2].map(|()| Client::with_store(&store));
    let (first, second) = tokio::join!(
        work_while_leading("one", one.election("outbox")?, 2),
        work_while_leading("other", other.election("outbox")?, 2),
    );
    first.and(second)
}

/// Leads as long as possible, and campaigns again after a loss. Ends after `rounds` rounds.
async fn work_while_leading(name: &str, election: Election, rounds: u32) -> Result<(), Error> {
    let election = election.ttl(TTL);
    loop {
        // Waits until no other process leads.
        let leadership = match election.campaign(name).await {
            Ok(leadership) => leadership,
            Err(error) if error.is_transient() => {
                eprintln!("{name:>5}: cannot campaign: {error}");
                sleep(Duration::from_secs(1)).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        println!("{name:>5}: leads in term {}", leadership.term());
        let ended = leadership.run(async |held| send_outbox(name, &held, rounds).await).await;
        let RunOutcome::Cancelled { reason, .. } = ended else {
            println!("{name:>5}: steps down");
            return Ok(());
        };
        println!("{name:>5}: leads no longer: {reason}");
    }
}

/// The work of the leader. If the leadership is lost, it stops at its current `await`.
async fn send_outbox(name: &str, held: &LockContext, rounds: u32) {
    let term = held.token().unwrap_or_default();
    for round in 1..=rounds {
        // If the receiver rejects lower terms, it rejects a leader that was paused and replaced.
        println!("{name:>5}: sends batch {round} with term {term}");
        sleep(Duration::from_millis(200)).await;
    }
}
