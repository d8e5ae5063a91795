//! The counters of a client.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::domain::{LostReason, Stats};

/// Makes the counters behind [`Stats`]. The other fields of `Stats` come from elsewhere.
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
    };
}

counters! {
    waiting, granted, released, handed_over, releases_unanswered, timed_out, lost_expired,
    lost_not_owned, lost_max_hold, lost_shut_down, renewals, renewals_failed, wake_ups,
    releases_abandoned,
}

/// A number that only grows, or one that goes up and down.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn one_less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    /// How many holds are alive.
    pub(crate) fn held(&self) -> u64 {
        self.read(0).held
    }

    /// Counts a lost hold. A released hold is not lost.
    pub(crate) fn lost(&self, reason: LostReason) {
        match reason {
            LostReason::Expired => self.lost_expired.add(1),
            LostReason::MaxHold => self.lost_max_hold.add(1),
            LostReason::NotOwned => self.lost_not_owned.add(1),
            // A release in doubt counts as unanswered.
            LostReason::Released | LostReason::InDoubt => {}
            LostReason::ShutDown => self.lost_shut_down.add(1),
        }
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
        // Read last, so that no hold counts as over before it counts as granted.
        let granted = self.granted.get();
        let held = granted.saturating_sub(counted.ended());
        Stats { held, granted, reconnects, renewal_lag, renewal_lag_max, ..counted }
    }
}
