//! A job that every machine starts and only one of them does.
//!
//! Run it in two terminals with the same `REDIS_URL`. Without one the two
//! "machines" are two tasks of this process.

use std::time::Duration;

use leasehold::{Client, Error, Lock, MemoryStore};
use tokio::time::sleep;

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
        nightly_close("one", one.lock("cron/nightly-close")?),
        nightly_close("other", other.lock("cron/nightly-close")?),
    );
    first.and(second)
}

async fn nightly_close(machine: &str, lock: Lock) -> Result<(), Error> {
    // A job that hangs gives the lock up after an hour.
    let lock = lock.max_hold(Duration::from_secs(60 * 60));
    let ran = lock.try_run(async |held| {
        for step in ["freeze", "sum up", "report"] {
            held.check()?; // before each side effect
            println!("{machine:>5}: {step}");
            sleep(Duration::from_millis(200)).await;
        }
        Ok::<(), Error>(())
    });
    match ran.await {
        Ok(Some(done)) => done,
        Ok(None) => {
            println!("{machine:>5}: somebody else is at it");
            Ok(())
        }
        Err(Error::Lost { reason, .. }) => {
            println!("{machine:>5}: stopped: {reason}");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
