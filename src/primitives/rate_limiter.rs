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

/// A number of permits for each interval, of all clients together or of each client.
///
/// A `RateLimiter` is a name: creating one costs nothing and sends no request. Java's Redisson
/// knows it as the `RRateLimiter` of the same name. A client has to set the rate first, by
/// [`set_if_absent`](Self::set_if_absent).
///
/// In no interval are more permits granted than the rate has, by the clock of the server. **A
/// permit does not come back when the work ends or its process dies**: it leaves the window after
/// the interval. To limit work at the same time, use an
/// [`ExpirableSemaphore`](crate::ExpirableSemaphore).
///
/// Tasks of one client acquire in order. Only the first of them sends requests, when its permits
/// are free. Tasks that come at the same moment while no task waits have no order. Different
/// clients have no order either.
///
/// Redis stores each acquisition for the interval. If that is more than about 10,000, or a limiter
/// for each user is needed, use a [`Throttle`](crate::Throttle).
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

/// Acquiring.
impl RateLimiter {
    /// Acquires permits, waiting until they are free, also while the store is unreachable.
    ///
    /// # Errors
    ///
    /// [`Error::RateNotSet`] if no client has set a rate. [`Error::ZeroCount`] for no permits, and
    /// [`Error::TooMany`] for more than the rate has. [`Error::Refused`] if the data has another
    /// form, and [`Error::WrongType`] if the name is something else. [`Error::Forbidden`] or
    /// [`Error::NotReady`] as the store says. [`Error::ShutDown`], and [`Error::NoRuntime`]
    /// outside of tokio.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its position. Nothing is in the store until the permits are
    /// granted. If they were just granted, they count.
    #[doc = example!(api:
        "api.acquire(10).await?;",
        "api.acquire(10).await?; // a second later")]
    pub async fn acquire(&self, permits: u32) -> Result<RatePermits> {
        self.pace(permits, None).await
    }

    /// Acquires permits, waiting for at most `timeout`. If the wait would be longer, it does not
    /// wait.
    ///
    /// A task behind others in this client may get the error only when its timeout ends.
    ///
    /// # Errors
    ///
    /// [`Error::RateLimited`] if too few are free in time. [`Error::Unavailable`] if the store did
    /// not answer. Others as [`acquire`](Self::acquire). A timeout of zero is invalid:
    /// [`try_acquire`](Self::try_acquire) does not wait.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[doc = example!(api:
        "api.acquire(10).await?;",
        "let refused = api.acquire_within(1, Duration::from_millis(100)).await;",
        "assert!(refused.is_err_and(|error| error.is_busy()));")]
    pub async fn acquire_within(&self, permits: u32, timeout: Duration) -> Result<RatePermits> {
        self.pace(permits, Some(checked_timeout(timeout)?)).await
    }

    /// Acquires permits if they are free now, by one request.
    ///
    /// While another task of this client waits, it is refused without a request.
    ///
    /// # Errors
    ///
    /// [`Error::RateLimited`] if too few are free. Others as [`acquire`](Self::acquire), and
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [request timeout](crate::ClientBuilder::request_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
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

    /// Releases `unused` of these permits.
    ///
    /// They are free at once. Permits that have left the window are free anyway.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`] for more than were granted. Others as
    /// [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
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

/// The rate.
impl RateLimiter {
    /// Sets the rate, unless it is set, and returns whether it did. Otherwise **the old rate
    /// stays**: see [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCount`] for a rate of 0, [`Error::Duration`] if a time cannot be kept.
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [request timeout](crate::ClientBuilder::request_timeout); it may have happened.
    /// [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and [`Error::WrongType`] as
    /// the store says.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(api:
        "assert!(!api.set_if_absent(leasehold::Rate::per(20, Duration::from_secs(1))).await?);",
        "assert_eq!(api.available().await?, 10);")]
    pub async fn set_if_absent(&self, rate: Rate) -> Result<bool> {
        self.change(Change::SetIfAbsent(self.checked(rate)?)).await
    }

    /// Sets the rate, and forgets what was acquired. **With each call a whole rate is free again.**
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(api:
        "api.acquire(10).await?;",
        "api.set(leasehold::Rate::per(20, Duration::from_secs(1))).await?;",
        "assert_eq!(api.available().await?, 20);")]
    pub async fn set(&self, rate: Rate) -> Result<()> {
        self.change(Change::Set(self.checked(rate)?)).await.map(drop)
    }

    /// Changes the rate if it is set, and returns whether it was. Acquired permits still count,
    /// unless [`Rate::per_client`] changes.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(api:
        "api.acquire(3).await?;",
        "assert!(api.update(leasehold::Rate::per(20, Duration::from_secs(1))).await?);",
        "assert_eq!(api.available().await?, 17);")]
    pub async fn update(&self, rate: Rate) -> Result<bool> {
        self.change(Change::Update(self.checked(rate)?)).await
    }

    /// Returns the rate. `None` if no client has set one.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
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
    /// [`Error::RateNotSet`] if no client has set a rate. Others as
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

    /// Deletes the limiter with its rate, and returns whether there was one. Waiters get
    /// [`Error::RateNotSet`] when they ask next.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
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
