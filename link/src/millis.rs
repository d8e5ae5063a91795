//! Durations in milliseconds, as commands of Redis need them.

use std::time::Duration;

/// Converts `time` to whole milliseconds, rounded up. Rounding down could let a server end a lease
/// before its client does.
#[inline]
#[must_use]
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_rounded_up_to_milliseconds() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(30_000)), 30_000);
        assert_eq!(millis(Duration::from_micros(1_500)), 2);
    }
}
