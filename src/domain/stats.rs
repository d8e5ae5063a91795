//! The counters of one client.

use std::time::Duration;

/// The counters of one client.
///
/// `held`, `waiting` and `renewal_lag` are current values. All other values only grow. Each granted
/// hold is counted once on the right side of this equation:
///
/// ```text
/// granted = held + released + releases_unanswered
///         + lost_expired + lost_not_owned + lost_max_hold + lost_shut_down
/// ```
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// let client = leasehold::Client::in_memory();
/// let guard = client.lock("orders:42")?.acquire().await?;
/// assert_eq!((client.stats().granted, client.stats().held), (1, 1));
/// guard.release().await?.into_result()?;
/// assert_eq!((client.stats().released, client.stats().held), (1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Current holds. A hold counts until its guard is dropped, until its release ends, or until
    /// the client knows that it is lost.
    pub held: u64,
    /// Callers that wait for a lock now.
    pub waiting: u64,
    /// Acquisitions that succeeded.
    pub granted: u64,
    /// Holds that lasted until their release. Dropped guards count, too, because a background task
    /// releases them.
    pub released: u64,
    /// Holds that began without a request: by a hand-off within this client, or because a reader
    /// joined a read hold of this client.
    pub handed_off: u64,
    /// Releases that were cancelled, rejected, or got no reply, and releases in doubt. A background
    /// task continues a release, unless it is in doubt.
    pub releases_unanswered: u64,
    /// Acquisitions whose timeout elapsed while another owner held the object.
    pub timed_out: u64,
    /// Holds whose lease ended before their release.
    pub lost_expired: u64,
    /// Holds that the store no longer had, because a client released them by force, or because
    /// Redis lost their data.
    pub lost_not_owned: u64,
    /// Holds that reached their `max_hold`.
    pub lost_max_hold: u64,
    /// Holds that a shutdown ended.
    pub lost_shut_down: u64,
    /// Leases that were renewed.
    pub renewals: u64,
    /// Renewals that got no reply or were rejected. The watchdog retries them.
    pub renewals_failed: u64,
    /// The delay of the last renewal behind its schedule. The value is 0 after two minutes without
    /// a renewal.
    pub renewal_lag: Duration,
    /// The maximum of `renewal_lag` so far.
    pub renewal_lag_max: Duration,
    /// How often a lost connection was restored.
    pub reconnects: u64,
    /// Notifications that woke a waiter, or arrived while the request of the waiter was in flight.
    pub wake_ups: u64,
    /// Background releases that failed until the leases of their holds had ended. The client no
    /// longer retries them.
    pub releases_abandoned: u64,
}

impl Stats {
    /// Returns a page in the text format of Prometheus.
    ///
    /// The feature `metrics` uses the same names, and adds durations and a label for the kind of an
    /// object. Therefore serve either this page or the page of that feature, not both.
    ///
    /// # Examples
    ///
    /// ```
    /// let page = leasehold::Client::in_memory().stats().prometheus();
    /// assert!(page.contains("# TYPE leasehold_hold_active gauge\nleasehold_hold_active 0\n"));
    /// assert!(page.contains("\nleasehold_losses_total{reason=\"not_owned\"} 0\n"));
    /// ```
    #[must_use]
    pub fn prometheus(&self) -> String {
        format!(
            include_str!("stats.prom"),
            held = self.held,
            waiting = self.waiting,
            granted = self.granted,
            timed_out = self.timed_out,
            released = self.released,
            lost_expired = self.lost_expired,
            lost_not_owned = self.lost_not_owned,
            lost_max_hold = self.lost_max_hold,
            lost_shut_down = self.lost_shut_down,
            handed_off = self.handed_off,
            renewals = self.renewals,
            renewals_failed = self.renewals_failed,
            releases_unanswered = self.releases_unanswered,
            releases_abandoned = self.releases_abandoned,
            wake_ups = self.wake_ups,
            reconnects = self.reconnects,
            renewal_lag = self.renewal_lag.as_secs_f64(),
            renewal_lag_max = self.renewal_lag_max.as_secs_f64(),
        )
    }

    /// Returns how many holds have ended.
    pub(crate) fn ended(&self) -> u64 {
        let released = self.released + self.releases_unanswered;
        let lost = self.lost_expired + self.lost_not_owned + self.lost_max_hold;
        released + lost + self.lost_shut_down
    }
}
