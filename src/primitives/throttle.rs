//! The throttle: permits at an even pace, in one small key.

use std::{fmt, sync::Arc, time::Duration};

use super::{example, settings::checked_timeout};
use crate::{
    domain::{Failure, Name, Pace, Quota, RatePermits},
    engine::{
        Engine,
        acquire::{
            Deadline,
            pacing::{Line, Paced},
        },
    },
    error::{Error, Result},
    metrics,
    store::{RedisStore, rate_limiter::throttle},
};

/// Permits at an even pace, for millions of names. Each name has one small key, which expires.
///
/// This is the generic cell rate algorithm. A [`RateLimiter`](crate::RateLimiter) grants the whole
/// rate at once and then nothing until the interval ends; a throttle grants a burst at once and
/// then one permit after another. Redisson has no such object. The pace is set in the program and
/// not in Redis, so use the same pace in all clients.
///
/// Permits come back only with time, also those that were granted to a dropped future. A request
/// that is retried after a lost reply counts once, unless another client was granted permits
/// meanwhile.
#[doc = example!(user:
    "let quota = user.try_acquire(1).await?;",
    "assert_eq!(quota.remaining, 4);",
    "user.acquire(5).await?; // the fifth is free in 100 ms")]
#[derive(Clone)]
pub struct Throttle {
    engine: Arc<Engine>,
    name: Name,
    line: Arc<Line>,
    pace: Pace,
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("name", self.name()).finish_non_exhaustive()
    }
}

impl Throttle {
    pub(crate) fn new(engine: Arc<Engine>, name: Name, pace: Pace) -> Result<Self> {
        if pace.burst == 0 {
            return Err(Error::ZeroCount { name });
        }
        let pace = pace.checked()?;
        let line = engine.line("throttle", &name);
        Ok(Self { engine, name, line, pace })
    }

    /// Returns the name of the throttle.
    #[doc = example!(user: "assert_eq!(user.name().as_str(), \"user:7\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Acquires permits, waiting until they are free, also while the store is unreachable.
    ///
    /// Tasks of one client are served in the order in which they came.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCount`] for no permits, [`Error::TooMany`] for more than the burst. Others as
    /// [`RateLimiter::acquire`](crate::RateLimiter::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its position. If the permits were just granted, they count.
    #[doc = example!(user: "user.acquire(5).await?;", "user.acquire(1).await?; // 100 ms later")]
    pub async fn acquire(&self, permits: u32) -> Result<Quota> {
        self.pace(permits, None).await
    }

    /// Acquires permits, waiting for at most `timeout`. If the wait would be longer, it does not
    /// wait.
    ///
    /// # Errors
    ///
    /// [`Error::RateLimited`] if too few are free in time. Others as
    /// [`RateLimiter::acquire_within`](crate::RateLimiter::acquire_within).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[doc = example!(user:
        "user.acquire(5).await?;",
        "assert!(user.acquire_within(1, Duration::from_millis(99)).await.is_err());",
        "user.acquire_within(1, Duration::from_millis(110)).await?;")]
    pub async fn acquire_within(&self, permits: u32, timeout: Duration) -> Result<Quota> {
        self.pace(permits, Some(checked_timeout(timeout)?)).await
    }

    /// Acquires permits if they are free now, by one request.
    ///
    /// # Errors
    ///
    /// [`Error::RateLimited`] if too few are free. Others as
    /// [`RateLimiter::try_acquire`](crate::RateLimiter::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[doc = example!(user:
        "user.try_acquire(5).await?;",
        "let refused = user.try_acquire(1).await;",
        "assert!(refused.is_err_and(|error| error.is_busy()));")]
    pub async fn try_acquire(&self, permits: u32) -> Result<Quota> {
        let it = self.wanted(permits)?;
        let line = &self.line;
        let asked = self.engine.pace_once(&self.name, line, |store| self.ask(store, &it)).await;
        metrics::decided(asked)
    }

    async fn pace(&self, permits: u32, within: Option<Deadline>) -> Result<Quota> {
        let it = self.wanted(permits)?;
        let line = &self.line;
        let paced = self.engine.pace(&self.name, line, within, |store| self.ask(store, &it)).await;
        metrics::decided(paced)
    }

    fn wanted(&self, permits: u32) -> Result<RatePermits> {
        let (name, most) = (|| self.name.clone(), self.pace.burst);
        match permits {
            0 => Err(Error::ZeroCount { name: name() }),
            _ if permits > most => Err(Error::TooMany { name: name(), most }),
            _ => Ok(RatePermits::wanted(permits)),
        }
    }

    async fn ask(&self, store: &RedisStore, it: &RatePermits) -> Result<Paced<Quota>, Failure> {
        let (wait, full_in) = throttle(store, &self.name, it, self.pace).await?;
        Ok(match wait.is_zero() {
            true => Paced::Now(self.pace.quota(full_in)),
            false => Paced::After(wait),
        })
    }
}
