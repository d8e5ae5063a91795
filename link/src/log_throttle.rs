//! Limits how often a problem is logged. Counts how often the problem happened since the last log
//! line.

use std::time::Duration;

use tokio::time::Instant;

use crate::mutex::Mutex;

/// The shortest time between two log lines about the same problem.
pub const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// When a problem was last logged, and how often the problem has happened since.
#[derive(Debug, Default)]
pub struct LogThrottle(Mutex<(Option<Instant>, u64)>);

impl LogThrottle {
    /// Returns a throttle that has logged nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new((None, 0)))
    }

    /// Counts the problem at `now`. If the problem must be logged, returns how often it happened
    /// since the last log line.
    pub fn once_more(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        state.1 += 1;
        if state.0.is_some_and(|at| now < at + LOG_INTERVAL) {
            return None;
        }
        state.0 = Some(now);
        Some(std::mem::take(&mut state.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_throttle_logs_the_first_event_and_later_only_a_count() {
        let (log_throttle, now) = (LogThrottle::default(), Instant::now());
        assert_eq!(log_throttle.once_more(now), Some(1));
        assert_eq!(log_throttle.once_more(now), None);
        assert_eq!(log_throttle.once_more(now + LOG_INTERVAL / 2), None);
        assert_eq!(log_throttle.once_more(now + LOG_INTERVAL), Some(3));
        assert_eq!(log_throttle.once_more(now + LOG_INTERVAL), None);
    }
}
