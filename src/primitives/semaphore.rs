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

/// A semaphore whose permits have no leases. **A process that crashes keeps its permits for ever.**
///
/// If no Redisson client uses this semaphore, use an
/// [`ExpirableSemaphore`](crate::ExpirableSemaphore) instead. The permits of an
/// `ExpirableSemaphore` have leases, so the permits of a dead process become free again. If a
/// process crashes while it holds permits of a `Semaphore`, these permits become free only when a
/// client [adds](Self::add) the same number of permits.
///
/// If a guard is dropped just before the program ends, its permits may leak, too. The background
/// task that would release them ends with the runtime. So call
/// [`shutdown`](crate::Client::shutdown) at the end of every program.
///
/// A `Semaphore` contains only a name, so creating a `Semaphore` sends no request. In Redisson, a
/// `Semaphore` is the `RSemaphore` of the same name, with the same number of free permits. A
/// semaphore has no permits until a client sets their number by
/// [`set_if_absent`](Self::set_if_absent) or [`add`](Self::add).
///
/// **If the store loses its data, it loses the number of permits.** After this loss, there are no
/// permits until a client sets the number again, and waiting clients log a warning. So call
/// `set_if_absent` before each acquisition, and not only when the program starts.
///
/// Redis keeps a hash of the holders. **A dead client stays in this hash** until an operator
/// deletes the field of this client, by the commands in the guide. Until then, the dead client
/// counts as a holder. So other clients may let a waiter go first although this waiter needs the
/// permits of the dead client.
///
/// In the first 10 ms after a grant, released permits are handed off to a waiting task of the same
/// client that wants the same number of permits. This hand-off needs no request. After these 10 ms,
/// the client releases permits in the store, so waiters of other processes can acquire.
///
/// Tasks of one client acquire in the order in which they came, even if they want different numbers
/// of permits. Between clients, the first request that finds enough free permits gets them.
///
/// A waiter that wants many permits must not wait for ever. So after a wait of 1 s, the other
/// Leasehold clients let this waiter go first for at most 30 s. This period ends earlier if the
/// waiter has its permits, or has sent no request for 5 s. In the following 30 s, all clients
/// acquire as usual, because the waiter may wait for permits of dead clients. The two periods
/// alternate. Redisson clients never let a waiter go first.
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

/// The guard of a [`Semaphore`]. **If the runtime ends before the release, the permits leak.**
///
/// Before `main` returns, call [`shutdown`](crate::Client::shutdown), which completes pending
/// releases.
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

/// Methods that acquire permits.
impl Semaphore {
    /// Acquires `permits` permits, waiting until they are free.
    ///
    /// The call also waits while the store is unreachable, and while the semaphore has fewer than
    /// `permits` permits in total.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCount`] if `permits` is 0. [`Error::TooMany`] if `permits` is greater than
    /// Java's greatest `int`. [`Error::Forbidden`], [`Error::Refused`] or [`Error::WrongType`] if
    /// the store rejects the request and a retry cannot help. [`Error::NotReady`] if the server's
    /// memory is full. [`Error::ShutDown`] if the client was shut down. [`Error::NoRuntime`]
    /// outside of tokio. If the permits are [`replicated`](Self::replicated), the call also returns
    /// the errors of a replicated [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: if the store still grants the request of the future, a
    /// background task releases the permits. If the future is neither dropped nor polled, it keeps
    /// its position among the waiters of this process. It also keeps the permits that the store has
    /// granted.
    #[doc = example!(printers: "let guard = printers.acquire(1).await?;")]
    pub async fn acquire(&self, permits: u32) -> Result<SemaphoreGuard> {
        let request = self.request(permits)?;
        Ok(guard(self.engine.acquire(&request).await?))
    }

    /// Acquires permits, runs `work` under them, releases them, and returns the work's result.
    ///
    /// To limit the wait for permits, call [`acquire_within`](Self::acquire_within), and then
    /// [`Guard::run`].
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), and [`Error::Lost`] if the permits were lost while the
    /// work ran.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the work is dropped at its current await, and the permits are
    /// released in the background.
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
    /// The call returns within the timeout, in any state of the network.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if too few permits were free until the timeout. [`Error::Unavailable`]
    /// if the store did not reply. [`Error::NotReady`] if the server replied that it was not ready,
    /// for example during a failover. [`Error::Duration`] if the timeout is zero: to try without
    /// waiting, use [`try_acquire`](Self::try_acquire). Other errors as for
    /// [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(printers:
        "let waited = printers.acquire_within(4, Duration::from_secs(5)).await;",
        "assert!(waited.is_err_and(|error| error.is_busy()));")]
    pub async fn acquire_within(&self, permits: u32, timeout: Duration) -> Result<SemaphoreGuard> {
        let (request, timeout) = (self.request(permits)?, checked_timeout(timeout)?);
        Ok(guard(self.engine.acquire_within(&request, timeout).await?))
    }

    /// Acquires `permits` permits by one request. Returns `None` if too few permits are free now.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not reply within the [request
    /// timeout](crate::ClientBuilder::request_timeout). Other errors as for
    /// [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(printers: "assert!(printers.try_acquire(4).await?.is_none());")]
    pub async fn try_acquire(&self, permits: u32) -> Result<Option<SemaphoreGuard>> {
        let request = self.request(permits)?;
        Ok(self.engine.try_acquire(&request, None).await?.map(guard))
    }
}

/// Methods that read or change the number of permits.
impl Semaphore {
    /// Sets the number of permits, unless a number is already set. Returns `true` if this call has
    /// set the number.
    ///
    /// If an earlier semaphore of this name was deleted, the guards of the deleted semaphore have
    /// no permits of the new semaphore. The release of such a guard adds no permits.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not reply within the [request
    /// timeout](crate::ClientBuilder::request_timeout). In this case, the change may have happened.
    /// [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and [`Error::WrongType`] if
    /// the store rejects the request. [`Error::TooMany`] if `permits` is greater than Java's
    /// greatest `int`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(printers:
        "assert!(!printers.set_if_absent(20).await?);",
        "assert_eq!(printers.available().await?, 3);")]
    pub async fn set_if_absent(&self, permits: u32) -> Result<bool> {
        let change = Change::SetIfAbsent(possible(self.name(), permits)?);
        Ok(self.change(change).await? == 1)
    }

    /// Adds permits, or removes permits if `permits` is negative. Returns the number of free
    /// permits.
    ///
    /// If more permits are removed than are free, the number of free permits becomes negative.
    ///
    /// If the client retries the request after a lost reply, the store adds the permits only once.
    /// A second call adds the permits again. After [`Error::Unavailable`], the permits may have
    /// been added, so a second call may add them twice.
    ///
    /// # Errors
    ///
    /// As for [`set_if_absent`](Self::set_if_absent). [`Error::Refused`] if the result is outside
    /// the range of Java's `int`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(printers:
        "assert_eq!(printers.add(1).await?, 4);",
        "assert_eq!(printers.add(-5).await?, -1);")]
    pub async fn add(&self, permits: i64) -> Result<i64> {
        possible(self.name(), u32::try_from(permits.unsigned_abs()).unwrap_or(u32::MAX))?;
        self.change(Change::Add(permits)).await
    }

    /// Removes all free permits, and returns their number.
    ///
    /// # Errors
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(printers:
        "assert_eq!(printers.drain().await?, 3);",
        "assert_eq!(printers.drain().await?, 0);")]
    pub async fn drain(&self) -> Result<u64> {
        self.change(Change::Drain).await.map(i64::unsigned_abs)
    }

    /// Returns the number of free permits. The number is negative if more permits were removed than
    /// were free.
    ///
    /// # Errors
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(printers: "assert_eq!(printers.available().await?, 3);")]
    pub async fn available(&self) -> Result<i64> {
        self.engine.ask(self.name(), |store| semaphore::available(store, self.name())).await
    }

    /// Deletes the semaphore, and returns whether the semaphore existed.
    ///
    /// Waiters keep waiting. If a Leasehold client creates the next semaphore of this name, the
    /// guards of the deleted semaphore have no permits of the new semaphore.
    ///
    /// # Errors
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
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
    /// Drops the guard without a release, so the permits stay acquired. Any client can later add
    /// the same number of permits by [`Semaphore::add`].
    ///
    /// A background task removes this holder from the hash of holders in Redis.
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
