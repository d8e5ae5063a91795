//! Acquires locks despite failures of the servers.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Outcome, libraries::Library};
use crate::{clock, job::Entered};

/// The pause between two locks, in which other processes can run.
const PAUSE: Duration = Duration::from_millis(2);

/// Acquires and releases until there was no grant for `gap`. Returns the time of the next grant.
/// Each lock has a new name, because a failover may lose a release.
pub(super) async fn run<L: Library>(library: &L, prefix: &str, gap: Duration) -> Outcome<Entered> {
    let mut last = Instant::now();
    for number in 0_u64.. {
        sleep(PAUSE).await;
        let Ok(held) = library.acquire(&format!("{prefix}-{number}")).await else { continue };
        let (entered_ns, now) = (clock::monotonic_ns(), Instant::now());
        if now - last > gap {
            return Ok(Entered { entered_ns });
        }
        last = now;
        // If the release fails, the lock ends with its lease.
        library.release(held).await.ok();
    }
    Err("there are no more numbers".into())
}
