//! The throttle: permits at an even pace, stored in one small key.

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

/// Permits at an even pace, for up to millions of names. Each name has one small key in Redis,
/// which expires.
///
/// A throttle uses the generic cell rate algorithm: it grants a burst at once, and then one permit
/// after another. A [`RateLimiter`](crate::RateLimiter), in contrast, may grant all permits of its
/// rate at once, and then none until the interval ends. Redisson has no throttle. The pace is a
/// setting of the program and is not stored in Redis, so use the same pace in all clients.
///
/// Permits become free only with time, even if the future to which they were granted was dropped.
/// If the client retries a request after a lost reply, the store counts the permits once. If the
/// store has granted permits to another request in between, it counts the permits of the retried
/// request twice.
#[doc = example!(user:
    "let quota = user.try_acquire(1).await?;",
    "assert_eq!(quota.remaining, 4);",
    "user.acquire(5).await?; // the fifth permit is free in 100 ms")]
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

    /// Acquires permits, waiting until they are free.
    ///
    /// Waiting tasks of one client acquire in the order in which they came. While the store is
    /// unreachable, the call waits and retries.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCount`] if `permits` is 0, and [`Error::TooMany`] if `permits` is greater than
    /// the burst. Other errors as for [`RateLimiter::acquire`](crate::RateLimiter::acquire).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, its task loses its position among the waiting tasks. If the store
    /// has just granted the permits, these permits count.
    #[doc = example!(user: "user.acquire(5).await?;", "user.acquire(1).await?; // 100 ms later")]
    pub async fn acquire(&self, permits: u32) -> Result<Quota> {
        self.pace(permits, None).await
    }

    /// Acquires permits, waiting for at most `timeout`.
    ///
    /// If the wait would be longer than `timeout`, the call returns an error at once.
    ///
    /// # Errors
    ///
    /// [`Error::RateLimited`] if too few permits are free within the timeout. Other errors as for
    /// [`RateLimiter::acquire_within`](crate::RateLimiter::acquire_within).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(user:
        "user.acquire(5).await?;",
        "assert!(user.acquire_within(1, Duration::from_millis(99)).await.is_err());",
        "user.acquire_within(1, Duration::from_millis(110)).await?;")]
    pub async fn acquire_within(&self, permits: u32, timeout: Duration) -> Result<Quota> {
        self.pace(permits, Some(checked_timeout(timeout)?)).await
    }

    /// Acquires permits by one request, if enough permits are free now.
    ///
    /// # Errors
    ///
    /// [`Error::RateLimited`] if too few permits are free. Other errors as for
    /// [`RateLimiter::try_acquire`](crate::RateLimiter::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
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
