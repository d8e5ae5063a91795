//! Asks for locks whatever happens to the servers.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Outcome, libraries::Library};
use crate::{clock, job::Entered};

/// Between two locks: nobody needs the whole machine to be there in time.
const PAUSE: Duration = Duration::from_millis(2);

/// Acquires and releases until there was no grant for `gap`, and returns when the one came
/// that ended it. Each lock has a name of its own: a release may be lost.
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
        // What cannot be given back now ends with its lease.
        library.release(held).await.ok();
    }
    Err("there are no more numbers".into())
}
