//! The settings of rate limiters and throttles, and the permits of one request.

use std::time::Duration;

use uuid::Uuid;

use super::{InvalidDuration, checked};

/// The settings of a [`RateLimiter`](crate::RateLimiter).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// let rate = leasehold::Rate::per(10, Duration::from_secs(1)).per_client();
/// assert!(rate.permits == 10 && rate.per_client && rate.idle_ttl.is_none());
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Rate {
    /// How many permits each interval has.
    pub permits: u64,
    /// The length of an interval. Redis counts in milliseconds.
    pub interval: Duration,
    /// Whether each client gets its own `permits`. If not, all clients share the permits.
    pub per_client: bool,
    /// If the limiter gets no request for this time, Redis removes it and its rate.
    pub idle_ttl: Option<Duration>,
}

impl Rate {
    /// Creates a rate of `permits` in each interval. All clients share these permits. The rate
    /// never expires.
    ///
    /// # Examples
    ///
    /// ```
    /// let rate = leasehold::Rate::per(10, std::time::Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn per(permits: u32, interval: Duration) -> Self {
        Self { permits: permits.into(), interval, per_client: false, idle_ttl: None }
    }

    /// Gives each client its own permits. Redis removes the state of a client that sends no request
    /// for two intervals, or for the `idle_ttl` if the rate has one.
    ///
    /// # Examples
    ///
    /// ```
    /// let rate = leasehold::Rate::per(10, std::time::Duration::from_secs(1)).per_client();
    /// ```
    #[must_use]
    pub fn per_client(self) -> Self {
        Self { per_client: true, ..self }
    }

    /// Makes Redis remove the limiter and its rate after this time without a request. The time must
    /// be at least the interval.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let rate = leasehold::Rate::per(10, Duration::from_secs(1)).idle_ttl(Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn idle_ttl(self, idle_ttl: Duration) -> Self {
        Self { idle_ttl: Some(idle_ttl), ..self }
    }

    /// Returns the rate if its durations are valid.
    pub(crate) fn checked(self) -> Result<Self, InvalidDuration> {
        checked("interval", self.interval)?;
        let idle = self.idle_ttl.map(|idle| checked("idle_ttl", idle)).transpose()?;
        match idle.filter(|idle| *idle < self.interval) {
            Some(given) => {
                let rule = "at least the interval";
                Err(InvalidDuration { setting: "idle_ttl", given, rule })
            }
            None => Ok(self),
        }
    }
}

/// The pace of a [`Throttle`](crate::Throttle).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// let pace = leasehold::Pace::per(10, Duration::from_secs(1)).burst(5);
/// assert_eq!((pace.spacing, pace.burst), (Duration::from_millis(100), 5));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Pace {
    /// The time from one permit to the next. Redis counts in microseconds.
    pub spacing: Duration,
    /// How many permits can be granted at the same time.
    pub burst: u32,
}

impl Pace {
    /// Creates a pace of `permits` in each interval. The burst is also `permits`.
    ///
    /// # Examples
    ///
    /// ```
    /// let pace = leasehold::Pace::per(600, std::time::Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn per(permits: u32, interval: Duration) -> Self {
        // The spacing is rounded up, so that the pace is never faster than requested.
        let micros = interval.as_micros().div_ceil(permits.max(1).into());
        let spacing = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        Self { spacing, burst: permits }
    }

    /// Sets how many permits can be granted at the same time.
    ///
    /// # Examples
    ///
    /// ```
    /// let pace = leasehold::Pace::per(600, std::time::Duration::from_secs(60)).burst(10);
    /// ```
    #[must_use]
    pub fn burst(self, burst: u32) -> Self {
        Self { burst, ..self }
    }

    /// Returns the pace if its durations are valid.
    pub(crate) fn checked(self) -> Result<Self, InvalidDuration> {
        let full = checked("burst of a throttle", self.spacing.saturating_mul(self.burst))?;
        match self.spacing < Duration::from_micros(1) {
            true => {
                let rule = "at least one microsecond from one permit to the next";
                Err(InvalidDuration { setting: "interval of a throttle", given: full, rule })
            }
            false => Ok(self),
        }
    }

    /// Returns the free permits, if the whole burst will be free after `full_in`.
    pub(crate) fn quota(self, full_in: Duration) -> Quota {
        let free = (self.spacing * self.burst).saturating_sub(full_in).as_nanos();
        let remaining = free / self.spacing.as_nanos().max(1);
        Quota { remaining: u32::try_from(remaining).unwrap_or(u32::MAX), full_in }
    }
}

/// The free permits of a [`Throttle`](crate::Throttle) after a grant, for the HTTP headers
/// `RateLimit-*`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// let pace = leasehold::Pace::per(10, Duration::from_secs(1)).burst(5);
/// let quota = leasehold::Client::in_memory().throttle("user:7", pace)?.try_acquire(2).await?;
/// assert_eq!((quota.remaining, quota.full_in), (3, Duration::from_millis(200)));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Quota {
    /// How many permits are free now.
    pub remaining: u32,
    /// After this time, the whole burst is free.
    pub full_in: Duration,
}

/// Permits that a [`RateLimiter`](crate::RateLimiter) granted. Drop this value, or pass it to
/// [`RateLimiter::release`](crate::RateLimiter::release) to return unused permits.
///
/// # Examples
///
/// ```
/// # async fn demo(api: leasehold::RateLimiter) -> Result<(), leasehold::Error> {
/// let permits = api.acquire(3).await?;
/// assert_eq!(permits.count(), 3);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RatePermits {
    /// The id by which the store recognizes a repeated request.
    pub(crate) id: Uuid,
    permits: u32,
}

impl RatePermits {
    /// Creates a request for this number of permits.
    pub(crate) fn wanted(permits: u32) -> Self {
        Self { id: Uuid::new_v4(), permits }
    }

    /// Returns how many permits were granted.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn demo(api: leasehold::RateLimiter) -> Result<(), leasehold::Error> {
    /// assert_eq!(api.acquire(3).await?.count(), 3);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn count(&self) -> u32 {
        self.permits
    }
}
