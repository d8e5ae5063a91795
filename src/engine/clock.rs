//! The clock of leases. It also counts the time for which the machine is suspended.
//!
//! This clock is based on tokio's `Instant`, because tests can pause the time of tokio. But on
//! Linux, an `Instant` does not count the time for which the machine is suspended, although a lease
//! in Redis goes on. So this clock adds the suspended time.

use std::{
    num::NonZero,
    sync::{Arc, LazyLock},
    time::Duration,
};

use tokio::time::Instant;

use crate::domain::CENTURY;

/// A moment, as nanoseconds since a moment in the distant past. A stamp needs half the space of an
/// [`Instant`]. Stamps make a hold 80 bytes smaller, but cost 2 to 3 % more instructions for each
/// hold. So a field that is read often remains an `Instant`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Stamp(NonZero<u64>);

static BASE: LazyLock<Instant> = LazyLock::new(|| {
    let now = Instant::now();
    now.checked_sub(CENTURY).unwrap_or(now)
});

impl From<Instant> for Stamp {
    fn from(moment: Instant) -> Self {
        let since = moment.saturating_duration_since(*BASE).as_nanos();
        Self(NonZero::<u64>::MIN.saturating_add(u64::try_from(since).unwrap_or(u64::MAX)))
    }
}

impl From<Stamp> for Instant {
    fn from(stamp: Stamp) -> Self {
        *BASE + Duration::from_nanos(stamp.0.get() - 1)
    }
}

/// A suspended time below this limit counts as zero. The suspended time is the difference between
/// two clocks of the machine, which are read one after the other. A small difference may be only
/// the time between the two readings.
const BETWEEN_READINGS: Nanos = 1_000_000;

/// Nanoseconds as an integer, because every operation reads the clock, and a `Duration` takes 25
/// instructions more.
type Nanos = i64;

#[derive(Clone)]
pub(crate) struct Clock {
    slept: Arc<dyn Fn() -> Nanos + Send + Sync>,
    slept_before: Nanos,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self::reading(slept_since_boot)
    }

    /// Returns a clock for a machine that was suspended for the time that `slept` returns.
    #[cfg(test)]
    pub(crate) fn with(slept: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self::reading(move || slept().as_nanos().try_into().unwrap_or(Nanos::MAX))
    }

    fn reading(slept: impl Fn() -> Nanos + Send + Sync + 'static) -> Self {
        // If the thread is stopped during a call of `slept`, the result is too small. So the larger
        // result of two calls is taken.
        let slept_before = slept().max(slept());
        Self { slept: Arc::new(slept), slept_before }
    }

    pub(crate) fn now(&self) -> Instant {
        let (now, slept) = (Instant::now(), (self.slept)() - self.slept_before);
        match slept {
            ..BETWEEN_READINGS => now,
            slept => now + Duration::from_nanos(slept.unsigned_abs()),
        }
    }

    /// Converts `moment`, a time of this clock, to the time at which a tokio timer must fire. If
    /// the machine is suspended before then, the timer fires late.
    pub(crate) fn timer(&self, moment: Instant) -> Instant {
        Instant::now() + moment.saturating_duration_since(self.now())
    }
}

/// Returns how long the machine has been suspended since its start.
#[cfg(target_os = "linux")]
fn slept_since_boot() -> Nanos {
    use rustix::time::{ClockId, clock_gettime};

    let read = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec as Nanos * 1_000_000_000 + now.tv_nsec as Nanos
    };
    // The boot time is read first. In the other order, a stop of the thread between the two
    // readings would look like a suspension.
    let with_sleep = read(ClockId::Boottime);
    with_sleep - read(ClockId::Monotonic)
}

/// Returns 0, because this crate measures suspensions only on Linux.
#[cfg(not(target_os = "linux"))]
fn slept_since_boot() -> Nanos {
    0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static SLEPT: Cell<Duration> = const { Cell::new(Duration::from_secs(7)) };
    }

    #[tokio::test(start_paused = true)]
    async fn clock_runs_while_the_machine_is_suspended() {
        // given a clock
        let clock = Clock::with(|| SLEPT.get());
        let start = clock.now();

        // when the machine is awake for a second and asleep for an hour
        tokio::time::advance(Duration::from_secs(1)).await;
        SLEPT.set(SLEPT.get() + Duration::from_secs(3_600));

        // then the clock has counted both times
        assert_eq!(clock.now() - start, Duration::from_secs(3_601));

        // and a timer for a past moment fires now
        assert_eq!(clock.timer(start + Duration::from_secs(60)), Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn clock_ignores_jitter_below_a_millisecond() {
        let clock = Clock::with(|| SLEPT.get());
        let start = clock.now();
        for apart in [12, 4_225, 999_999].map(Duration::from_nanos) {
            SLEPT.set(SLEPT.get() + apart);
            assert_eq!(clock.now(), start);
            SLEPT.set(SLEPT.get() - 2 * apart);
            assert_eq!(clock.now(), start);
            SLEPT.set(SLEPT.get() + apart);
        }
    }

    #[test]
    fn stamp_converts_back_to_the_same_instant() {
        let now = Instant::now();
        let century = Duration::from_secs(100 * 365 * 24 * 60 * 60);
        let (before, after) = (now - Duration::from_nanos(1), now + century);
        for moment in [now, before, after] {
            assert_eq!(Instant::from(Stamp::from(moment)), moment);
        }
        assert!(Stamp::from(before) < now.into() && Stamp::from(now) < after.into());
        assert_eq!(size_of::<Option<Stamp>>(), 8);
    }

    #[test]
    fn clock_readings_in_quick_succession_show_no_suspension() {
        let before = slept_since_boot();
        assert!(slept_since_boot().saturating_sub(before) < 1_000_000_000);
    }
}
