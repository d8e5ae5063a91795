//! What a client counts.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::domain::LostReason;

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
/// guard.release().await?.done()?;
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
    /// asking the store.
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
    /// Messages that woke a waiter.
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
    fn ended(&self) -> u64 {
        let given_back = self.released + self.releases_unanswered;
        let lost = self.lost_expired + self.lost_not_ours + self.lost_max_hold;
        given_back + lost + self.lost_shut_down
    }
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    granted: AtomicU64,
    waiting: AtomicU64,
    released: AtomicU64,
    handed_over: AtomicU64,
    releases_unanswered: AtomicU64,
    timed_out: AtomicU64,
    lost_expired: AtomicU64,
    lost_not_ours: AtomicU64,
    lost_max_hold: AtomicU64,
    lost_shut_down: AtomicU64,
    renewals: AtomicU64,
    renewals_failed: AtomicU64,
    renewal_lag: AtomicU64,
    renewal_lag_max: AtomicU64,
    wake_ups: AtomicU64,
    releases_abandoned: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl Counters {
    /// Counts a hold.
    pub(crate) fn granted(&self) {
        add(&self.granted, 1);
    }

    /// How many holds are alive.
    pub(crate) fn held(&self) -> u64 {
        self.read(0).held
    }

    /// A hold was found to be lost; given back is not lost.
    pub(crate) fn lost(&self, reason: LostReason) {
        match reason {
            LostReason::Expired => add(&self.lost_expired, 1),
            LostReason::MaxHold => add(&self.lost_max_hold, 1),
            LostReason::NotOurs => add(&self.lost_not_ours, 1),
            LostReason::Released => {}
            LostReason::ShutDown => add(&self.lost_shut_down, 1),
        }
    }

    pub(crate) fn released(&self) {
        add(&self.released, 1);
    }

    pub(crate) fn handed_over(&self) {
        add(&self.handed_over, 1);
    }

    /// A release is on its way. Unless it is answered it counts as unanswered, if
    /// it is one that `counts`: the hold was not over before.
    pub(crate) fn releasing(&self, counts: bool) -> Releasing<'_> {
        Releasing(counts.then_some(self))
    }

    /// Counts a waiter until what it returns is dropped.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        add(&self.waiting, 1);
        Waiting(self)
    }

    pub(crate) fn timed_out(&self) {
        add(&self.timed_out, 1);
    }

    pub(crate) fn renewed(&self, leases: usize, failed: usize) {
        add(&self.renewals, leases as u64);
        add(&self.renewals_failed, failed as u64);
    }

    pub(crate) fn lagged(&self, lag: Duration) {
        let micros = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        self.renewal_lag.store(micros, Ordering::Relaxed);
        self.renewal_lag_max.fetch_max(micros, Ordering::Relaxed);
    }

    pub(crate) fn woken(&self) {
        add(&self.wake_ups, 1);
    }

    pub(crate) fn release_abandoned(&self) {
        add(&self.releases_abandoned, 1);
    }

    pub(crate) fn read(&self, reconnects: u64) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = Stats {
            held: 0,
            waiting: read(&self.waiting),
            granted: 0,
            released: read(&self.released),
            handed_over: read(&self.handed_over),
            releases_unanswered: read(&self.releases_unanswered),
            timed_out: read(&self.timed_out),
            lost_expired: read(&self.lost_expired),
            lost_not_ours: read(&self.lost_not_ours),
            lost_max_hold: read(&self.lost_max_hold),
            lost_shut_down: read(&self.lost_shut_down),
            renewals: read(&self.renewals),
            renewals_failed: read(&self.renewals_failed),
            renewal_lag: Duration::from_micros(read(&self.renewal_lag)),
            renewal_lag_max: Duration::from_micros(read(&self.renewal_lag_max)),
            reconnects,
            wake_ups: read(&self.wake_ups),
            releases_abandoned: read(&self.releases_abandoned),
        };
        // Last, so that no hold is over that was not granted.
        stats.granted = read(&self.granted);
        stats.held = stats.granted.saturating_sub(stats.ended());
        stats
    }
}

/// One who waits, counted.
pub(crate) struct Waiting<'a>(&'a Counters);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A release on its way, counted when it is dropped before its answer came.
#[must_use = "the release counts as unanswered as soon as this is dropped"]
pub(crate) struct Releasing<'a>(Option<&'a Counters>);

impl Releasing<'_> {
    /// The answer is there. Returns whether it is to be counted.
    pub(crate) fn answered(mut self) -> bool {
        self.0.take().is_some()
    }
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        if let Some(counters) = self.0 {
            add(&counters.releases_unanswered, 1);
        }
    }
}
