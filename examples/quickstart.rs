//! The lock in one minute: two clients, one name, and a lock that gets lost.
//!
//! `cargo run --example quickstart` needs no server. With `REDIS_URL` set, as in
//! `REDIS_URL=redis://127.0.0.1/ cargo run --example quickstart`, it runs on Redis.

use std::time::Duration;

use leasehold::{Client, Error, Lock, MemoryStore, Release};
use tokio::time::{Instant, sleep};

const NAME: &str = "quickstart/door";
const SHORT: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() {
    if let Err(error) = show().await {
        eprintln!("\n{error}");
        std::process::exit(1);
    }
}

async fn show() -> Result<(), Error> {
    let place = Place::chosen();
    println!("Leasehold on {}", place.name());
    let (ada, bob) = (place.client().await?, place.client().await?);

    println!("\n1. One holder at a time, in all processes together");
    let guard = ada.lock(NAME)?.acquire().await?;
    say("ada", &format!("holds `{NAME}` as {}", guard.owner()));
    let refused = bob.lock(NAME)?.acquire_within(SHORT).await;
    say("bob", &refused.map_or_else(|error| error.to_string(), |_| "also acquires it".into()));

    println!("\n2. A release wakes the waiter");
    let waiting = tokio::spawn(wait_for(bob.lock(NAME)?));
    sleep(SHORT).await;
    let left = Instant::now();
    let release = guard.release().await?;
    say("ada", &format!("releases it: {release:?}"));
    let (entered, release) = waiting.await.expect("waiting does not panic")?;
    let after = entered.saturating_duration_since(left);
    say("bob", &format!("acquires it {after:.1?} later, and releases it: {release:?}"));

    println!("\n3. Work under the lock");
    let lock = ada.lock(NAME)?;
    let sent = lock.run(async |_held| send_reports().await).await?;
    say("ada", &format!("sent {sent} reports while it held the lock"));

    println!("\n4. Work that loses its lock is stopped");
    // The client renews the lock after each third of its ttl, and so notices the loss.
    let lock = lock.ttl(Duration::from_millis(900));
    let began = Instant::now();
    let work = lock.run(async |held| {
        let left = held.remaining().unwrap_or_default();
        say("ada", &format!("works; the lock stays held for {left:.1?} without a renewal"));
        place.lose(&bob).await?;
        sleep(Duration::from_secs(60)).await;
        Ok::<_, Error>(())
    });
    match work.await {
        Err(Error::Lost { reason, .. }) => {
            say("ada", &format!("was stopped after {:.1?}: {reason}", began.elapsed()));
        }
        other => say("ada", &format!("was not stopped: {other:?}")),
    }

    println!("\n5. Statistics");
    for (who, client) in [("ada", &ada), ("bob", &bob)] {
        let stats = client.stats();
        say(
            who,
            &format!(
                "granted {}, released {}, timed out {}, lost {}, woken {}, held now {}",
                stats.granted,
                stats.released,
                stats.timed_out,
                stats.lost_not_owned,
                stats.wake_ups,
                stats.held,
            ),
        );
        client.shutdown(Duration::from_secs(5)).await;
    }
    Ok(())
}

/// The work: sends three reports.
async fn send_reports() -> u32 {
    sleep(SHORT).await;
    3
}

/// Waits for `lock` and releases it. Returns the time of the acquisition and the result of the
/// release.
async fn wait_for(lock: Lock) -> Result<(Instant, Release), Error> {
    say("bob", "waits");
    let guard = lock.acquire().await?;
    Ok((Instant::now(), guard.release().await?))
}

fn say(who: &str, what: &str) {
    println!("   {who}  {what}");
}

/// The place where locks are stored.
enum Place {
    Memory(MemoryStore),
    Redis(String),
}

impl Place {
    fn chosen() -> Self {
        match std::env::var("REDIS_URL") {
            Ok(url) => Self::Redis(url),
            Err(_) => Self::Memory(MemoryStore::new()),
        }
    }

    /// Returns a description without the URL, which may contain a password.
    fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "a simulated Redis (set REDIS_URL for a real one)",
            Self::Redis(_) => "Redis, at REDIS_URL",
        }
    }

    async fn client(&self) -> Result<Client, Error> {
        match self {
            Self::Memory(store) => Ok(Client::with_store(store)),
            Self::Redis(url) => Client::connect(url).await,
        }
    }

    /// Ends the hold of the lock's holder.
    async fn lose(&self, operator: &Client) -> Result<(), Error> {
        match self {
            Self::Memory(store) => {
                store.lose(NAME);
                say("***", "the store loses the lock, as after a failover");
            }
            Self::Redis(_) => {
                operator.lock(NAME)?.force_release().await?;
                say("bob", "releases the lock by force");
            }
        }
        Ok(())
    }
}
