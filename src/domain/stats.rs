//! What one client counts, as its users see it.

use std::time::Duration;

/// What one client has done so far, and does now.
///
/// Counters only grow; `held` and `waiting` go up and down. Every hold is
/// counted once, whatever became of it:
///
/// ```text
/// granted = held + released + releases_unanswered
///         + lost_expired + lost_not_ours + lost_max_hold + lost_shut_down
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
    /// Holds that are alive now: not known to be lost, and not released, or the
    /// release is on its way.
    pub held: u64,
    /// Callers that wait for a lock now.
    pub waiting: u64,
    /// Acquisitions that succeeded.
    pub granted: u64,
    /// Holds that were given back while they were ours; dropped guards among
    /// them, whose releases are made in the background.
    pub released: u64,
    /// Those of `released` that went to the next waiter of this client without
    /// asking the store, and readers that joined others of this client.
    pub handed_over: u64,
    /// Holds whose release was cancelled, or refused, or brought no answer: the
    /// background goes on with it.
    pub releases_unanswered: u64,
    /// Acquisitions that ran out of patience while somebody else held.
    pub timed_out: u64,
    /// Holds that ended before they were given back because their lease did.
    pub lost_expired: u64,
    /// Holds that the store no longer knew as ours.
    pub lost_not_ours: u64,
    /// Holds that reached their `max_hold`.
    pub lost_max_hold: u64,
    /// Holds that a shutdown took back.
    pub lost_shut_down: u64,
    /// Leases that were renewed.
    pub renewals: u64,
    /// Renewals that were not answered or were refused, and are tried again.
    pub renewals_failed: u64,
    /// How much later than planned the last renewal was sent.
    pub renewal_lag: Duration,
    /// The greatest such delay so far.
    pub renewal_lag_max: Duration,
    /// Times that a connection was lost and made again.
    pub reconnects: u64,
    /// Messages that woke a waiter, or came while it was asking.
    pub wake_ups: u64,
    /// Releases that nobody waited for and that could not be made: their leases end by themselves.
    pub releases_abandoned: u64,
}

impl Stats {
    /// Every number with its name, for an exporter. Times are in seconds, and
    /// their names say so.
    ///
    /// # Examples
    ///
    /// ```
    /// let stats = leasehold::Client::in_memory().stats();
    /// let page: String =
    ///     stats.iter().map(|(name, value)| format!("leasehold_{name} {value}\n")).collect();
    /// assert!(page.contains("leasehold_held 0\n"));
    /// assert!(page.contains("leasehold_renewal_lag_seconds 0\n"));
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let counts = [
            ("held", self.held),
            ("waiting", self.waiting),
            ("granted", self.granted),
            ("released", self.released),
            ("handed_over", self.handed_over),
            ("releases_unanswered", self.releases_unanswered),
            ("timed_out", self.timed_out),
            ("lost_expired", self.lost_expired),
            ("lost_not_ours", self.lost_not_ours),
            ("lost_max_hold", self.lost_max_hold),
            ("lost_shut_down", self.lost_shut_down),
            ("renewals", self.renewals),
            ("renewals_failed", self.renewals_failed),
            ("reconnects", self.reconnects),
            ("wake_ups", self.wake_ups),
            ("releases_abandoned", self.releases_abandoned),
        ];
        let times = [
            ("renewal_lag_seconds", self.renewal_lag.as_secs_f64()),
            ("renewal_lag_max_seconds", self.renewal_lag_max.as_secs_f64()),
        ];
        counts.into_iter().map(|(name, count)| (name, count as f64)).chain(times)
    }

    /// Holds that are over.
    pub(crate) fn ended(&self) -> u64 {
        let given_back = self.released + self.releases_unanswered;
        let lost = self.lost_expired + self.lost_not_ours + self.lost_max_hold;
        given_back + lost + self.lost_shut_down
    }
}
