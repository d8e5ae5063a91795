//! One clock for all processes of this machine: `CLOCK_MONOTONIC`, which is Java's
//! `System.nanoTime()` on Linux.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub type Nanos = u64;

/// The time now.
#[must_use]
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// A duration in nanoseconds.
#[must_use]
pub fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The time from `earlier` to `later`, or zero if `later` is not later.
#[must_use]
pub fn since(earlier: Nanos, later: Nanos) -> Duration {
    Duration::from_nanos(later.saturating_sub(earlier))
}
