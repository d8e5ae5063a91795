//! Decides when the client logs the state of a connection: when the state changes, and at intervals
//! while the connection is down. A connection that is lost again and again does not fill the log.

use std::time::Duration;

use tokio::time::Instant;

use crate::log_throttle::LOG_INTERVAL;

/// The log of one connection.
#[derive(Debug, Default)]
pub(super) struct Reports {
    logged_at: Option<Instant>,
    lost_at: Option<Instant>,
    /// Whether the present loss was logged.
    logged: bool,
    /// When a rejected login was last logged.
    rejection_logged_at: Option<Instant>,
    /// Losses that were not logged.
    losses: u32,
}

impl Reports {
    /// Records that the connection has been down since `now`, unless it was already down.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.lost_at.get_or_insert(now);
    }

    /// Records a loss. If it is time to log, returns the number of losses since the last log line.
    pub(crate) fn lost(&mut self, now: Instant) -> Option<u32> {
        self.lost_at = Some(now);
        self.losses += 1;
        self.logged = self.is_due(now);
        self.logged.then(|| std::mem::take(&mut self.losses))
    }

    /// Records that the connection is still down. If it is time to log, returns for how long the
    /// connection has been down. A rejected login is logged at once, because the log line about the
    /// loss does not mention it. Such a log line comes at most once in each log interval.
    pub(super) fn still_lost(&mut self, now: Instant, rejected: bool) -> Option<Duration> {
        if rejected && is_long_ago(self.rejection_logged_at, now) {
            self.logged_at = None;
            self.rejection_logged_at = Some(now);
        }
        let due = self.is_due(now);
        self.logged |= due;
        due.then(|| self.lost_for(now))
    }

    /// Records that the connection is restored. If the loss was logged, returns how long the loss
    /// lasted.
    pub(crate) fn back(&mut self, now: Instant) -> Option<Duration> {
        let lost_for = self.lost_for(now);
        self.lost_at = None;
        std::mem::take(&mut self.logged).then_some(lost_for)
    }

    /// Returns whether it is time to log. If so, notes `now` as the time of the last log line.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = is_long_ago(self.logged_at, now);
        if due {
            self.logged_at = Some(now);
        }
        due
    }

    /// Returns for how long the connection has been down.
    pub(super) fn absence(&self, now: Instant) -> Option<Duration> {
        self.lost_at.map(|at| now.saturating_duration_since(at))
    }

    /// Returns for how long the connection has been down, in whole milliseconds.
    fn lost_for(&self, now: Instant) -> Duration {
        let lost_for = self.absence(now).unwrap_or_default();
        Duration::from_millis(u64::try_from(lost_for.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Returns whether the log interval since `logged_at` is over.
fn is_long_ago(logged_at: Option<Instant>, now: Instant) -> bool {
    logged_at.is_none_or(|logged_at| now >= logged_at + LOG_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_connection_is_logged_at_once_then_rarely_and_when_back() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut reports = Reports::default();
        assert_eq!(reports.lost(at(0)), Some(1));
        let logged = (1..=35).filter(|second| reports.still_lost(at(*second), false).is_some());
        assert_eq!(logged.collect::<Vec<_>>(), [10, 20, 30]);
        assert_eq!(reports.back(at(36)), Some(Duration::from_secs(36)));
    }

    #[test]
    fn log_interval_of_an_outage_survives_a_new_supervisor() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut reports = Reports::default();
        reports.lost(at(0));
        reports.begin(at(4));
        assert_eq!(reports.still_lost(at(4), false), None);
        assert_eq!(reports.still_lost(at(10), false), Some(Duration::from_secs(10)));
        reports.back(at(11));
        reports.begin(at(20));
        assert_eq!(reports.still_lost(at(21), false), Some(Duration::from_secs(1)));
    }

    #[test]
    fn rejected_login_is_logged_at_once_then_every_ten_seconds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut reports = Reports::default();
        reports.lost(at(0));
        assert_eq!(reports.still_lost(at(1), false), None);
        let logged = (2..=35).filter(|second| reports.still_lost(at(*second), true).is_some());
        assert_eq!(logged.collect::<Vec<_>>(), [2, 12, 22, 32]);
    }

    #[test]
    fn unstable_connection_is_logged_rarely_with_a_loss_count() {
        let start = Instant::now();
        let mut reports = Reports::default();
        let mut logged = vec![];
        for tenth in 0..300 {
            let now = start + Duration::from_millis(100 * tenth);
            logged.extend(reports.lost(now));
            assert_eq!(reports.back(now).is_some(), tenth % 100 == 0, "{tenth}");
        }
        assert_eq!(logged, [1, 100, 100]);
    }
}
