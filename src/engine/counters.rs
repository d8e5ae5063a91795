//! The counters of a client. Their methods also feed the recorder of the feature `metrics`.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    domain::{Claim, Ended, LostReason, Object, Stats},
    error::Error,
    metrics::{self, Acquisition},
};

/// Declares a counter for each listed field of [`Stats`]. `Counters::read` sets the other fields.
macro_rules! counters {
    ($($count:ident,)+) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($count: Count,)+
            renewal_lag: AtomicU64,
            renewal_lag_max: AtomicU64,
        }

        impl Counters {
            fn counted(&self) -> Stats {
                Stats { $($count: self.$count.get(),)+ ..Stats::default() }
            }
        }
    };
}

counters! {
    waiting, granted, released, handed_off, releases_unanswered, timed_out, lost_expired,
    lost_not_owned, lost_max_hold, lost_shut_down, renewals, renewals_failed, wake_ups,
    releases_abandoned,
}

/// A counter or a gauge.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn one_less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    /// Returns how many holds this client has now.
    pub(crate) fn held(&self) -> u64 {
        self.read(0).held
    }

    pub(super) fn granted(&self, claim: &Claim) {
        self.granted.add(1);
        metrics::hold_began(claim);
    }

    /// Counts the end of a hold that lasted for `held`.
    pub(super) fn ended(&self, claim: &Claim, ended: Ended, held: impl FnOnce() -> Duration) {
        let (count, outcome) = match ended {
            Ended::Released => (&self.released, "released"),
            Ended::Unanswered => (&self.releases_unanswered, "unanswered"),
            Ended::Lost(LostReason::Expired) => (&self.lost_expired, "expired"),
            Ended::Lost(LostReason::MaxHold) => (&self.lost_max_hold, "max_hold"),
            Ended::Lost(LostReason::NotOwned) => (&self.lost_not_owned, "not_owned"),
            Ended::Lost(LostReason::ShutDown) => (&self.lost_shut_down, "shut_down"),
            // `Released` is not a loss. A release in doubt counts as `Unanswered`.
            Ended::Lost(LostReason::Released | LostReason::InDoubt) => return,
        };
        count.add(1);
        metrics::hold_ended(claim, ended, outcome, held);
    }

    /// Counts a hold that began by a hand-off, without a request.
    pub(super) fn handed_off(&self, claim: &Claim) {
        self.handed_off.add(1);
        metrics::handed_off(claim);
    }

    /// Counts an acquisition as waiting until the returned value is dropped.
    pub(super) fn waits(&self, object: &Object, fenced: bool) -> Wait<'_> {
        self.waiting.add(1);
        Wait { counters: self, acquisition: Acquisition::waits(object, fenced) }
    }

    pub(super) fn timed_out(&self) {
        self.timed_out.add(1);
    }

    pub(super) fn renewed(&self, renewed: usize, failed: usize) {
        self.renewals.add(renewed);
        self.renewals_failed.add(failed);
        metrics::renewed(renewed, failed);
    }

    /// Counts a notification that woke a waiter.
    pub(super) fn woken(&self) {
        self.wake_ups.add(1);
        metrics::woken();
    }

    /// Counts a background release that was given up.
    pub(super) fn release_abandoned(&self, claim: &Claim) {
        self.releases_abandoned.add(1);
        metrics::release_abandoned(claim);
    }

    pub(super) fn lagged(&self, lag: Duration) {
        let micros = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        self.renewal_lag.store(micros, Ordering::Relaxed);
        let before = self.renewal_lag_max.fetch_max(micros, Ordering::Relaxed);
        metrics::lagged(lag, || Duration::from_micros(before.max(micros)));
    }

    pub(crate) fn read(&self, reconnects: u64) -> Stats {
        let lag = |of: &AtomicU64| Duration::from_micros(of.load(Ordering::Relaxed));
        let (renewal_lag, renewal_lag_max) = (lag(&self.renewal_lag), lag(&self.renewal_lag_max));
        let counted = self.counted();
        // `granted` is read last, so that it includes every hold that counts as ended.
        let granted = self.granted.get();
        let held = granted.saturating_sub(counted.ended());
        Stats { held, granted, reconnects, renewal_lag, renewal_lag_max, ..counted }
    }
}

/// An acquisition that counts as waiting until this value is dropped.
pub(super) struct Wait<'a> {
    counters: &'a Counters,
    acquisition: Acquisition,
}

impl Wait<'_> {
    /// Counts the end of the wait with this result, and returns the result.
    pub(super) fn ended<T>(mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.acquisition.ended(&result);
        result
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.counters.waiting.one_less();
    }
}
