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
        let times = [
            ("renewal_lag_seconds", self.renewal_lag.as_secs_f64()),
            ("renewal_lag_max_seconds", self.renewal_lag_max.as_secs_f64()),
        ];
        self.counts().map(|(name, count)| (name, count as f64)).chain(times)
    }

    /// Holds that are over.
    fn ended(&self) -> u64 {
        let given_back = self.released + self.releases_unanswered;
        let lost = self.lost_expired + self.lost_not_ours + self.lost_max_hold;
        given_back + lost + self.lost_shut_down
    }
}

/// Makes the counters behind [`Stats`], and their names. What stands in `Stats` and not here
/// is told besides.
macro_rules! counters {
    ($($count:ident,)+) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(super) $count: Count,)+
            renewal_lag: AtomicU64,
            renewal_lag_max: AtomicU64,
        }

        impl Counters {
            fn counted(&self) -> Stats {
                Stats { $($count: self.$count.get(),)+ ..Stats::default() }
            }
        }

        impl Stats {
            fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                let told = [("held", self.held), ("reconnects", self.reconnects)];
                told.into_iter().chain([$((stringify!($count), self.$count),)+])
            }
        }
    };
}

counters! {
    waiting, granted, released, handed_over, releases_unanswered, timed_out, lost_expired,
    lost_not_ours, lost_max_hold, lost_shut_down, renewals, renewals_failed, wake_ups,
    releases_abandoned,
}

/// A number that grows, and one that goes up and down.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one until what it returns is dropped.
    pub(super) fn while_kept(&self) -> Counted<'_> {
        self.add(1);
        Counted(self)
    }
}

/// One who is counted.
pub(super) struct Counted<'a>(&'a Count);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    /// How many holds are alive.
    pub(crate) fn held(&self) -> u64 {
        self.read(0).held
    }

    /// A hold was found to be lost; given back is not lost.
    pub(crate) fn lost(&self, reason: LostReason) {
        match reason {
            LostReason::Expired => self.lost_expired.add(1),
            LostReason::MaxHold => self.lost_max_hold.add(1),
            LostReason::NotOurs => self.lost_not_ours.add(1),
            LostReason::Released => {}
            LostReason::ShutDown => self.lost_shut_down.add(1),
        }
    }

    /// A release is on its way. Unless it is answered it counts as unanswered, if
    /// it is one that `counts`: the hold was not over before.
    pub(crate) fn releasing(&self, counts: bool) -> Releasing<'_> {
        Releasing(counts.then_some(self))
    }

    pub(crate) fn lagged(&self, lag: Duration) {
        let micros = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        self.renewal_lag.store(micros, Ordering::Relaxed);
        self.renewal_lag_max.fetch_max(micros, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, reconnects: u64) -> Stats {
        let lag = |of: &AtomicU64| Duration::from_micros(of.load(Ordering::Relaxed));
        let (renewal_lag, renewal_lag_max) = (lag(&self.renewal_lag), lag(&self.renewal_lag_max));
        let counted = self.counted();
        // Read last, so that no hold is over that was not granted.
        let granted = self.granted.get();
        let held = granted.saturating_sub(counted.ended());
        Stats { held, granted, reconnects, renewal_lag, renewal_lag_max, ..counted }
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
            counters.releases_unanswered.add(1);
        }
    }
}
