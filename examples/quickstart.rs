//! The lock in one minute: two clients, one name, and a lock that gets lost.
//!
//! `cargo run --example quickstart` needs no server. With `REDIS_URL` set, as in
//! `REDIS_URL=redis://127.0.0.1/ cargo run --example quickstart`, the same
//! happens on Redis.

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
    println!("Leasehold on {}", place.said());
    let (ada, bob) = (place.client().await?, place.client().await?);

    println!("\n1. One holder at a time, in all processes together");
    let guard = ada.lock(NAME)?.acquire().await?;
    say("ada", &format!("holds `{NAME}` as {}", guard.owner()));
    let refused = bob.lock(NAME)?.acquire_within(SHORT).await;
    say("bob", &refused.map_or_else(|error| error.to_string(), |_| "entered as well".into()));

    println!("\n2. Whoever waits is woken by the release");
    let waiting = tokio::spawn(wait_for(bob.lock(NAME)?));
    sleep(SHORT).await;
    let left = Instant::now();
    let release = guard.release().await?;
    say("ada", &format!("gives it back: {release:?}"));
    let (entered, release) = waiting.await.expect("waiting does not panic")?;
    let after = entered.saturating_duration_since(left);
    say("bob", &format!("enters {after:.1?} after that, and gives it back: {release:?}"));

    println!("\n3. Work under the lock");
    let lock = ada.lock(NAME)?;
    let answer = lock.run(async |_held| 6 * 7).await?;
    say("ada", &format!("did it, protected from beginning to end: {answer}"));

    println!("\n4. Work that loses its lock is stopped");
    // Renewed each third of its ttl: that is when the loss is found out.
    let lock = lock.ttl(Duration::from_millis(900));
    let began = Instant::now();
    let work = lock.run(async |held| {
        let left = held.remaining().unwrap_or_default();
        say("ada", &format!("works, safe for another {left:.1?} without a renewal"));
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

    println!("\n5. What the clients counted");
    for (who, client) in [("ada", &ada), ("bob", &bob)] {
        let stats = client.stats();
        say(
            who,
            &format!(
                "granted {}, released {}, timed out {}, lost {}, woken {}, held now {}",
                stats.granted,
                stats.released,
                stats.timed_out,
                stats.lost_not_ours,
                stats.wake_ups,
                stats.held,
            ),
        );
        client.shutdown(Duration::from_secs(5)).await;
    }
    Ok(())
}

/// Waits for `lock` and gives it back. Tells when it was ours, and whether still.
async fn wait_for(lock: Lock) -> Result<(Instant, Release), Error> {
    say("bob", "waits");
    let guard = lock.acquire().await?;
    Ok((Instant::now(), guard.release().await?))
}

fn say(who: &str, what: &str) {
    println!("   {who}  {what}");
}

/// Where the locks live.
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

    /// Does not show the URL: it may hold a password.
    fn said(&self) -> &'static str {
        match self {
            Self::Memory(_) => "the store in this process (set REDIS_URL for Redis)",
            Self::Redis(_) => "Redis, at REDIS_URL",
        }
    }

    async fn client(&self) -> Result<Client, Error> {
        match self {
            Self::Memory(store) => Ok(Client::with_store(store)),
            Self::Redis(url) => Client::connect(url).await,
        }
    }

    /// Takes the lock away from whoever holds it.
    async fn lose(&self, operator: &Client) -> Result<(), Error> {
        match self {
            Self::Memory(store) => {
                store.lose(NAME);
                say("***", "the store forgets the lock, as after a failover");
            }
            Self::Redis(_) => {
                operator.lock(NAME)?.force_release().await?;
                say("bob", "takes the lock away: force_release");
            }
        }
        Ok(())
    }
}
