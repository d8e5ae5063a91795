//! The rate limiter: a number of permits for each interval.

use std::{fmt, sync::Arc, time::Duration};

use super::{example, settings::checked_timeout};
use crate::{
    domain::{Failure, Name, Rate, RatePermits},
    engine::{
        Engine,
        acquire::{
            Deadline,
            pacing::{Line, Paced},
        },
    },
    error::{Error, Result},
    metrics,
    store::{
        RedisStore,
        rate_limiter::{Change, Decision, Limiter},
    },
};

/// A number of permits for each interval, for all clients together or for each client.
///
/// A `RateLimiter` contains only a name, so creating a `RateLimiter` sends no request. In Redisson,
/// a `RateLimiter` is the `RRateLimiter` of the same name. Before the first acquisition, a client
/// has to set the rate by [`set_if_absent`](Self::set_if_absent).
///
/// The store never grants more permits in an interval than the rate allows, by the clock of the
/// server. **A permit does not become free when the work ends or the process dies**: it counts
/// until one interval after its grant. To limit how many tasks work at the same time, use an
/// [`ExpirableSemaphore`](crate::ExpirableSemaphore).
///
/// Waiting tasks of one client acquire in the order in which they came. Only the first waiting task
/// sends a request, at the moment when its permits should be free. If no task waits, tasks that
/// come at the same moment acquire in any order. Tasks of different clients also acquire in any
/// order.
///
/// Redis stores each acquisition for one interval. If there are more than about 10,000 acquisitions
/// in an interval, or if you need a limiter for each user, use a [`Throttle`](crate::Throttle).
#[doc = example!(api:
    "api.acquire(1).await?; // waits for its time",
    "assert_eq!(api.available().await?, 9);",
    "if let Err(leasehold::Error::RateLimited { retry_after, .. }) = api.try_acquire(10).await {",
    "    assert!(retry_after <= Duration::from_secs(1));",
    "}")]
#[derive(Clone)]
pub struct RateLimiter {
    engine: Arc<Engine>,
    name: Name,
    line: Arc<Line>,
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").field("name", self.name()).finish_non_exhaustive()
    }
}

impl RateLimiter {
    pub(crate) fn new(engine: Arc<Engine>, name: Name) -> Self {
        let line = engine.line("limiter", &name);
        Self { engine, name, line }
    }

    /// Returns the name of the limiter.
    #[doc = example!(api: "assert_eq!(api.name().as_str(), \"api\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    fn limiter(&self) -> Limiter<'_> {
        Limiter { name: &self.name, client: self.engine.identity.client() }
    }
}

/// Methods that acquire and release permits.
impl RateLimiter {
    /// Acquires permits, waiting until they are free.
    ///
    /// While the store is unreachable, the call waits and retries.
    ///
    /// # Errors
    ///
    /// [`Error::RateNotSet`] if no client has set a rate. [`Error::ZeroCount`] if `permits` is 0,
    /// and [`Error::TooMany`] if `permits` is greater than the rate allows in an interval.
    /// [`Error::Refused`] if the data in Redis is not the data of a rate limiter, and
    /// [`Error::WrongType`] if the key has another type. [`Error::Forbidden`] or
    /// [`Error::NotReady`] if the store rejects the request. [`Error::ShutDown`] if the client was
    /// shut down. [`Error::NoRuntime`] outside of tokio.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, its task loses its position among the waiting tasks. Before the
    /// grant, the store has no data about the task. If the store has just granted the permits,
    /// these permits count.
    #[doc = example!(api:
        "api.acquire(10).await?;",
        "api.acquire(10).await?; // a second later")]
    pub async fn acquire(&self, permits: u32) -> Result<RatePermits> {
        self.pace(permits, None).await
    }

    /// Acquires permits, waiting for at most `timeout`.
    ///
    /// If the wait would be longer than `timeout`, the call returns an error at once.
    ///
    /// If other tasks of this client wait before this task, the error may come as late as the end
    /// of the timeout.
    ///
    /// # Errors
    ///
    /// [`Error::RateLimited`] if too few permits are free within the timeout.
    /// [`Error::Unavailable`] if the store did not reply. [`Error::Duration`] if the timeout is
    /// zero: to try without waiting, use [`try_acquire`](Self::try_acquire). Other errors as for
    /// [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(api:
        "api.acquire(10).await?;",
        "let refused = api.acquire_within(1, Duration::from_millis(100)).await;",
        "assert!(refused.is_err_and(|error| error.is_busy()));")]
    pub async fn acquire_within(&self, permits: u32, timeout: Duration) -> Result<RatePermits> {
        self.pace(permits, Some(checked_timeout(timeout)?)).await
    }

    /// Acquires permits by one request, if enough permits are free now.
    ///
    /// While another task of this client waits for its permits, the call returns
    /// [`Error::RateLimited`] without a request.
    ///
    /// # Errors
    ///
    /// [`Error::RateLimited`] if too few permits are free. [`Error::Unavailable`] if the store did
    /// not reply within the [request timeout](crate::ClientBuilder::request_timeout). Other errors
    /// as for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(api:
        "api.try_acquire(10).await?;",
        "assert!(api.try_acquire(1).await.is_err());")]
    pub async fn try_acquire(&self, permits: u32) -> Result<RatePermits> {
        let it = self.wanted(permits)?;
        let line = &self.line;
        let asked = self.engine.pace_once(&self.name, line, |store| self.ask(store, &it)).await;
        metrics::decided(asked.and_then(|decided| decided)).map(|()| it)
    }

    async fn pace(&self, permits: u32, within: Option<Deadline>) -> Result<RatePermits> {
        let it = self.wanted(permits)?;
        let line = &self.line;
        let paced = self.engine.pace(&self.name, line, within, |store| self.ask(store, &it)).await;
        metrics::decided(paced.and_then(|decided| decided)).map(|()| it)
    }

    fn wanted(&self, permits: u32) -> Result<RatePermits> {
        match permits {
            0 => Err(Error::ZeroCount { name: self.name.clone() }),
            _ => Ok(RatePermits::wanted(permits)),
        }
    }

    async fn ask(
        &self,
        store: &RedisStore,
        it: &RatePermits,
    ) -> Result<Paced<Result<()>>, Failure> {
        let name = || self.name.clone();
        Ok(match self.limiter().acquire(store, it).await? {
            Decision::Wait(wait) => Paced::After(wait),
            Decision::Granted => Paced::Now(Ok(())),
            Decision::Unset => Paced::Now(Err(Error::RateNotSet { name: name() })),
            Decision::Above(rate) => {
                let most = u32::try_from(rate).unwrap_or(u32::MAX);
                Paced::Now(Err(Error::TooMany { name: name(), most }))
            }
        })
    }

    /// Releases `unused` permits of the grant `permits`, because the caller did not use them.
    ///
    /// The unused permits are free at once. If one interval has passed since the grant, all permits
    /// of this grant are free without this call.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`] if `unused` is greater than the number of granted permits. Other errors
    /// as for [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(api:
        "let permits = api.acquire(10).await?;",
        "api.release(permits, 4).await?;",
        "assert_eq!(api.available().await?, 4);")]
    pub async fn release(&self, permits: RatePermits, unused: u32) -> Result<()> {
        let (limiter, most) = (self.limiter(), permits.count());
        if unused > most {
            return Err(Error::TooMany { name: self.name.clone(), most });
        } else if unused == 0 {
            return Ok(());
        }
        let it = &permits;
        self.engine
            .ask(&self.name, |store| async move { limiter.release(store, it, unused).await })
            .await
    }
}

/// Methods that read or change the rate.
impl RateLimiter {
    /// Sets the rate, unless a rate is already set. Returns `true` if this call has set the rate.
    ///
    /// If a rate is set, **the old rate stays**. To change it, use [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCount`] if the rate has 0 permits. [`Error::Duration`] if a time in `rate` is
    /// out of range. [`Error::Unavailable`] if the store did not reply within the [request
    /// timeout](crate::ClientBuilder::request_timeout). In this case, the change may have happened.
    /// [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and [`Error::WrongType`] if
    /// the store rejects the request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(api:
        "assert!(!api.set_if_absent(leasehold::Rate::per(20, Duration::from_secs(1))).await?);",
        "assert_eq!(api.available().await?, 10);")]
    pub async fn set_if_absent(&self, rate: Rate) -> Result<bool> {
        self.change(Change::SetIfAbsent(self.checked(rate)?)).await
    }

    /// Sets the rate, and forgets all acquisitions.
    ///
    /// **After each call, all permits of the rate are free again.**
    ///
    /// # Errors
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(api:
        "api.acquire(10).await?;",
        "api.set(leasehold::Rate::per(20, Duration::from_secs(1))).await?;",
        "assert_eq!(api.available().await?, 20);")]
    pub async fn set(&self, rate: Rate) -> Result<()> {
        self.change(Change::Set(self.checked(rate)?)).await.map(drop)
    }

    /// Changes the rate if a rate is set. Returns whether a rate was set.
    ///
    /// Permits that were acquired before still count, unless the call changes [`Rate::per_client`].
    ///
    /// # Errors
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(api:
        "api.acquire(3).await?;",
        "assert!(api.update(leasehold::Rate::per(20, Duration::from_secs(1))).await?);",
        "assert_eq!(api.available().await?, 17);")]
    pub async fn update(&self, rate: Rate) -> Result<bool> {
        self.change(Change::Update(self.checked(rate)?)).await
    }

    /// Returns the rate, or `None` if no client has set a rate.
    ///
    /// # Errors
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(api: "assert_eq!(api.config().await?.map(|rate| rate.permits), Some(10));")]
    pub async fn config(&self) -> Result<Option<Rate>> {
        let limiter = self.limiter();
        let ask = |store| async move { limiter.rate(store).await };
        self.engine.ask(&self.name, ask).await
    }

    /// Returns the number of free permits.
    ///
    /// # Errors
    ///
    /// [`Error::RateNotSet`] if no client has set a rate. Other errors as for
    /// [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(api: "assert_eq!(api.available().await?, 10);")]
    pub async fn available(&self) -> Result<u64> {
        let limiter = self.limiter();
        let ask = |store| async move { limiter.available(store).await };
        let free = self.engine.ask(&self.name, ask).await?;
        free.ok_or_else(|| Error::RateNotSet { name: self.name.clone() })
    }

    /// Deletes the limiter with its rate, and returns whether the limiter existed.
    ///
    /// Waiting tasks return [`Error::RateNotSet`] after their next request.
    ///
    /// # Errors
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(api:
        "assert!(api.delete().await?);",
        "assert_eq!(api.config().await?, None);")]
    pub async fn delete(&self) -> Result<bool> {
        self.change(Change::Delete).await
    }

    fn checked(&self, rate: Rate) -> Result<Rate> {
        match rate.permits {
            0 => Err(Error::ZeroCount { name: self.name.clone() }),
            _ => Ok(rate.checked()?),
        }
    }

    async fn change(&self, change: Change) -> Result<bool> {
        let (limiter, receipt) = (self.limiter(), &self.engine.receipt());
        let ask = |store| async move { limiter.change(store, change, receipt).await };
        self.engine.change(&self.name, ask).await
    }
}
