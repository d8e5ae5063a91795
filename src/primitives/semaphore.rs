//! The semaphore: a number of permits without leases.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{
    Guard, LockContext, OnLoss, example,
    settings::{checked_timeout, possible, replicated, request_without_lease},
};
use crate::{
    domain::{Name, Object, Replicas, Share},
    engine::{Engine, acquire::AcquireRequest, held::Held},
    error::{Error, Result},
    store::semaphore::{self, Change},
};

/// A number of permits. **A process that crashes keeps its permits for ever.**
///
/// Use [`ExpirableSemaphore`](crate::ExpirableSemaphore) unless Redisson clients use this
/// semaphore. Its permits have a lease, so they come back. Permits of a `Semaphore` come back only
/// when a client [adds](Self::add) the same number. A guard that is dropped just before the program
/// ends leaks its permits, too, because the background task that releases them ends with the
/// runtime. Call [`shutdown`](crate::Client::shutdown) at the end of every program.
///
/// A `Semaphore` is a name: creating one costs nothing and sends no request. Java's Redisson
/// knows it as the `RSemaphore` of the same name, with the same number of free permits. It has no
/// permits until a client sets them by [`set_if_absent`](Self::set_if_absent) or
/// [`add`](Self::add).
///
/// **A store that loses its data loses that number.** There are no permits until a client sets
/// them again, and waiting clients log a warning. So call `set_if_absent` before you acquire, not
/// only at the start.
///
/// **A dead client stays in the hash of holders** until an operator deletes its field, by the
/// commands in the guide. Until then it counts as a holder for waiters that want many permits.
///
/// Released permits go to a waiting task of the same client that wants as many, without a
/// request, for at most 10 ms after the store granted them. Then waiters of other processes
/// acquire.
///
/// Tasks of one client acquire in the order in which they came, however many permits each wants.
/// Between clients the first request gets the permits. If a client of this crate has waited for 1
/// s, the other clients of this crate leave its permits to it for 30 s, until it has them, or has
/// sent no request for 5 s. In the next 30 s they do not, because it may wait for permits of dead
/// clients. Then they do so again, and so on. Redisson clients may overtake it.
#[doc = example!(printers:
    "let two = printers.acquire(2).await?;",
    "assert_eq!(printers.available().await?, 1);",
    "assert!(printers.try_acquire(2).await?.is_none());",
    "two.release().await?.into_result()?;",
    "assert_eq!(printers.available().await?, 3);")]
#[derive(Clone)]
pub struct Semaphore {
    engine: Arc<Engine>,
    object: Object,
    replicas: Option<Replicas>,
}

/// The guard of a [`Semaphore`]. **If the runtime ends before its release, its permits leak.**
///
/// Call [`shutdown`](crate::Client::shutdown) before `main` returns: it completes the releases
/// that are pending.
#[doc = example!(printers:
    "let guard = printers.acquire(2).await?;",
    "assert_eq!(guard.permits(), 2);",
    "assert_eq!(guard.release().await?, leasehold::Release::Released);")]
pub type SemaphoreGuard = Guard<Semaphore>;

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("name", self.name()).finish_non_exhaustive()
    }
}

impl Semaphore {
    pub(crate) fn new(engine: Arc<Engine>, object: Object) -> Self {
        Self { engine, object, replicas: None }
    }

    replicated!("leasehold::Client", "semaphore", |this, replicas| Self { replicas, ..this });

    /// Returns the name of the semaphore.
    #[doc = example!(printers: "assert_eq!(printers.name().as_str(), \"printers\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.name
    }

    fn request(&self, permits: u32) -> Result<AcquireRequest> {
        if permits == 0 {
            return Err(Error::ZeroCount { name: self.name().clone() });
        }
        let share = Share::Units(possible(self.name(), permits)?);
        request_without_lease(&self.object, share, self.replicas)
    }
}

fn guard(held: Held) -> SemaphoreGuard {
    Guard::new(held, OnLoss::default())
}

/// Acquiring.
impl Semaphore {
    /// Acquires `permits` permits, waiting until they are free.
    ///
    /// It also waits while the store is unreachable, and while there are fewer permits in all.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCount`] for no permits, [`Error::TooMany`] beyond Java's `int`.
    /// [`Error::Forbidden`], [`Error::Refused`] or [`Error::WrongType`] if the store rejects the
    /// request for good. [`Error::NotReady`] if the server is full. [`Error::ShutDown`], and
    /// [`Error::NoRuntime`] outside of tokio. If they are [`replicated`](Self::replicated), those
    /// of [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: a background task releases permits that still arrive. A future
    /// that is neither polled nor dropped keeps its position in this process's queue, and the
    /// permits that its request was granted.
    #[doc = example!(printers: "let guard = printers.acquire(1).await?;")]
    pub async fn acquire(&self, permits: u32) -> Result<SemaphoreGuard> {
        let request = self.request(permits)?;
        Ok(guard(self.engine.acquire(&request).await?))
    }

    /// Acquires permits, runs `work` under them, releases them, and returns the work's result.
    ///
    /// To limit the wait, call `acquire_within`, then [`Guard::run`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Error::Lost`] if the permits were lost meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work at its current await and releases in the background.
    #[doc = example!(printers:
        "assert_eq!(printers.run(2, async |_held| 6 * 7).await?, 42);",
        "assert_eq!(printers.available().await?, 3);")]
    pub async fn run<T, W, F>(&self, permits: u32, work: W) -> Result<T>
    where
        W: FnOnce(LockContext) -> F,
        F: Future<Output = T>,
    {
        self.acquire(permits).await?.run(work).await.into_result()
    }

    /// Acquires `permits` permits, waiting for at most `timeout`.
    ///
    /// This returns within the timeout, in any state of the network.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if there were still too few. [`Error::Unavailable`] if the store did
    /// not answer, [`Error::NotReady`] if it refused for now. Others as
    /// [`acquire`](Self::acquire). A timeout of zero is invalid:
    /// [`try_acquire`](Self::try_acquire) does not wait.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[doc = example!(printers:
        "let waited = printers.acquire_within(4, Duration::from_secs(5)).await;",
        "assert!(waited.is_err_and(|error| error.is_busy()));")]
    pub async fn acquire_within(&self, permits: u32, timeout: Duration) -> Result<SemaphoreGuard> {
        let (request, timeout) = (self.request(permits)?, checked_timeout(timeout)?);
        Ok(guard(self.engine.acquire_within(&request, timeout).await?))
    }

    /// Acquires `permits` permits if they are free now, by one request.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [request timeout](crate::ClientBuilder::request_timeout). Others as
    /// [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[doc = example!(printers: "assert!(printers.try_acquire(4).await?.is_none());")]
    pub async fn try_acquire(&self, permits: u32) -> Result<Option<SemaphoreGuard>> {
        let request = self.request(permits)?;
        Ok(self.engine.try_acquire(&request, None).await?.map(guard))
    }
}

/// The number of permits.
impl Semaphore {
    /// Sets the number of permits, unless it is set, and returns whether it did.
    ///
    /// Guards of an earlier semaphore, which was deleted, have no permits of this one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [request timeout](crate::ClientBuilder::request_timeout); it may have happened.
    /// [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and [`Error::WrongType`] as
    /// the store says. [`Error::TooMany`] beyond Java's `int`.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(printers:
        "assert!(!printers.set_if_absent(20).await?);",
        "assert_eq!(printers.available().await?, 3);")]
    pub async fn set_if_absent(&self, permits: u32) -> Result<bool> {
        let change = Change::SetIfAbsent(possible(self.name(), permits)?);
        Ok(self.change(change).await? == 1)
    }

    /// Adds permits, or removes some if the number is negative, and returns the free ones.
    ///
    /// It may remove permits that are held. Then the number of free permits is negative.
    ///
    /// A request that is retried after a lost reply counts once. A second call adds again, also
    /// after [`Error::Unavailable`], after which it may have happened.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent). [`Error::Refused`] if the result is beyond
    /// Java's `int`.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(printers:
        "assert_eq!(printers.add(1).await?, 4);",
        "assert_eq!(printers.add(-5).await?, -1);")]
    pub async fn add(&self, permits: i64) -> Result<i64> {
        possible(self.name(), u32::try_from(permits.unsigned_abs()).unwrap_or(u32::MAX))?;
        self.change(Change::Add(permits)).await
    }

    /// Removes all free permits, and returns how many there were.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(printers:
        "assert_eq!(printers.drain().await?, 3);",
        "assert_eq!(printers.drain().await?, 0);")]
    pub async fn drain(&self) -> Result<u64> {
        self.change(Change::Drain).await.map(i64::unsigned_abs)
    }

    /// Returns the number of free permits. It is negative if held permits were removed.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(printers: "assert_eq!(printers.available().await?, 3);")]
    pub async fn available(&self) -> Result<i64> {
        self.engine.ask(self.name(), |store| semaphore::available(store, self.name())).await
    }

    /// Deletes the semaphore, and returns whether there was one.
    ///
    /// Guards have no permits of the next semaphore of this name, if this crate creates it.
    /// Waiters keep waiting.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(printers:
        "assert!(printers.delete().await?);",
        "assert_eq!(printers.available().await?, 0);")]
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.change(Change::Delete).await? == 1)
    }

    async fn change(&self, change: Change) -> Result<i64> {
        let (name, receipt) = (self.name(), self.engine.receipt());
        self.engine.change(name, |store| semaphore::change(store, name, change, &receipt)).await
    }
}

impl Guard<Semaphore> {
    /// Leaves the permits acquired. Another process may return them by [`Semaphore::add`].
    ///
    /// A background task removes this holder from the store.
    #[doc = example!(printers:
        "printers.acquire(2).await?.forget();",
        "assert_eq!(printers.available().await?, 1);",
        "printers.add(2).await?;")]
    pub fn forget(self) {
        self.held.forget();
    }

    /// Returns the number of permits that this guard holds.
    #[doc = example!(printers: "assert_eq!(printers.acquire(2).await?.permits(), 2);")]
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.held.watch.claim().units()
    }
}
