//! The rate limiter and the throttle, for threads.

use std::{sync::Arc, time::Duration};

use super::{
    face::{returns, waits},
    waiting::Core,
};
use crate::{Name, Quota, Rate, RatePermits, error::Result, primitives};

/// A [`RateLimiter`](crate::RateLimiter) for threads.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// let api = leasehold::blocking::Client::in_memory()?.rate_limiter("api")?;
/// api.set_if_absent(leasehold::Rate::per(10, Duration::from_secs(1)))?;
/// api.acquire(1)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimiter {
    core: Arc<Core>,
    inner: primitives::RateLimiter,
}

impl RateLimiter {
    pub(super) fn new(core: Arc<Core>, inner: primitives::RateLimiter) -> Self {
        Self { core, inner }
    }

    returns! { RateLimiter, "let api = client.rate_limiter(\"api\")?;":
        fn name() -> &Name; "assert_eq!(api.name().as_str(), \"api\");"
    }

    waits! { RateLimiter, "let api = client.rate_limiter(\"api\")?; \
        let rate = leasehold::Rate::per(10, Duration::from_secs(60)); api.set_if_absent(rate)?;":
        fn acquire(permits: u32) -> RatePermits; "api.acquire(1)?;"

        fn acquire_within(permits: u32, timeout: Duration) -> RatePermits;
            "api.acquire_within(1, Duration::from_secs(5))?;"

        fn try_acquire(permits: u32) -> RatePermits; "api.try_acquire(1)?;"

        fn release(permits: RatePermits, unused: u32) -> ();
            "let permits = api.acquire(3)?;" "api.release(permits, 3)?;"

        fn set_if_absent(rate: Rate) -> bool; "assert!(!api.set_if_absent(rate)?);"

        fn set(rate: Rate) -> (); "api.set(rate)?;"

        fn update(rate: Rate) -> bool; "assert!(api.update(rate)?);"

        fn config() -> Option<Rate>; "assert_eq!(api.config()?, Some(rate));"

        fn available() -> u64; "assert_eq!(api.available()?, 10);"

        fn delete() -> bool; "assert!(api.delete()?);"
    }
}

/// A [`Throttle`](crate::Throttle) for threads.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// let pace = leasehold::Pace::per(10, Duration::from_secs(1));
/// let user = leasehold::blocking::Client::in_memory()?.throttle("user:7", pace)?;
/// user.acquire(1)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Throttle {
    core: Arc<Core>,
    inner: primitives::Throttle,
}

impl Throttle {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Throttle) -> Self {
        Self { core, inner }
    }

    returns! { Throttle, "let pace = leasehold::Pace::per(10, Duration::from_secs(1)); \
        let user = client.throttle(\"user:7\", pace)?;":
        fn name() -> &Name; "assert_eq!(user.name().as_str(), \"user:7\");"
    }

    waits! { Throttle, "let pace = leasehold::Pace::per(10, Duration::from_secs(1)); \
        let user = client.throttle(\"user:7\", pace)?;":
        fn acquire(permits: u32) -> Quota; "assert_eq!(user.acquire(1)?.remaining, 9);"

        fn acquire_within(permits: u32, timeout: Duration) -> Quota;
            "user.acquire_within(1, Duration::from_secs(5))?;"

        fn try_acquire(permits: u32) -> Quota; "user.try_acquire(1)?;"
    }
}
