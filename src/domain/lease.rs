//! How long a holder may rely on its lease, and which durations can be a TTL in Redis.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest TTL in Redis.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest duration: 100 years. It overflows no clock of Redis, Java or Rust.
pub(crate) const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The lease of a grant. For the holder, the lease starts at the time of the request.
///
/// The server starts the lease later, when it executes the request. So a lease that starts with the
/// request ends in this client before it ends in the server. The margin allows for a clock of the
/// client that runs slower than the clock of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lease {
    pub(crate) asked_at: Instant,
    pub(crate) ttl: Duration,
}

impl Lease {
    pub(crate) fn new(asked_at: Instant, ttl: Duration) -> Self {
        Self { asked_at, ttl }
    }

    /// Returns the moment after which the holder must not rely on the lease.
    pub(crate) fn ends(&self) -> Instant {
        self.asked_at + self.ttl - margin(self.ttl)
    }

    /// Returns when to renew the lease: after a third of the lease, so that two renewals may fail.
    pub(crate) fn renew_at(&self) -> Instant {
        self.asked_at + self.ttl / 3
    }
}

/// Returns the part at the end of a lease that the holder does not use. This part is 2 ms and 1 %
/// of the lease, but at most a quarter of the lease.
fn margin(ttl: Duration) -> Duration {
    (Duration::from_millis(2) + ttl / 100).min(ttl / 4)
}

/// Returns `duration` if it can be a TTL in Redis.
pub(crate) fn checked(
    setting: &'static str,
    duration: Duration,
) -> Result<Duration, InvalidDuration> {
    match duration {
        d if d < SHORTEST => Err(InvalidDuration { setting, given: d, rule: "at least 1 ms" }),
        d if d > CENTURY => Err(InvalidDuration { setting, given: d, rule: "at most 100 years" }),
        d => Ok(d),
    }
}

/// A duration that a setting does not allow, and the rule that the duration breaks.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() {
/// use std::time::Duration;
/// let lock = leasehold::Client::in_memory().lock("orders:42").unwrap().ttl(Duration::ZERO);
/// let refused = lock.acquire().await.unwrap_err();
/// assert_eq!(refused.to_string(), "invalid `ttl`: 0ns is not allowed; use at least 1 ms");
/// # }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("invalid `{setting}`: {given:?} is not allowed; use {rule}")]
pub struct InvalidDuration {
    pub(crate) setting: &'static str,
    pub(crate) given: Duration,
    pub(crate) rule: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_deadline_is_earlier_than_one_ttl_after_the_request() {
        let asked_at = Instant::now();
        for millis in [1, 2, 10, 1_000, 30_000, 86_400_000] {
            let ttl = Duration::from_millis(millis);
            let lease = Lease::new(asked_at, ttl);
            assert!(lease.ends() < asked_at + ttl);
            assert!(lease.ends() >= asked_at + ttl * 3 / 4);
            assert!(lease.renew_at() < lease.ends());
        }
    }

    #[test]
    fn duration_is_refused_when_redis_cannot_keep_it() {
        for good in [SHORTEST, Duration::from_micros(1_500), CENTURY] {
            assert_eq!(checked("ttl", good), Ok(good));
        }
        for bad in [Duration::ZERO, Duration::from_nanos(999_999), Duration::MAX] {
            assert_eq!(checked("ttl", bad).unwrap_err().given, bad);
        }
    }

    #[test]
    fn longest_lease_does_not_overflow_a_clock() {
        let lease = Lease::new(Instant::now(), CENTURY);
        assert!(lease.ends() > lease.renew_at());
    }
}
