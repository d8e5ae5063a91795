//! The lock: one holder at a time.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Guard, LockContext, OnLoss, example,
    settings::{Settings, checked_timeout, on_loss, settings},
};
#[cfg(feature = "blocking")]
use crate::engine::acquire::ReentryTimeout;
use crate::{
    domain::{
        CENTURY, Claim, Holder, LostReason, Name, Object, Owner, Replicas, WaitStrategy, checked,
    },
    engine::{
        Engine,
        acquire::{AcquireRequest, Deadline},
        grant::LocalHandoff,
        held::{Held, Watch},
    },
    error::{Error, Result},
};

/// A lock with at most one holder at a time, in all processes together.
///
/// A `Lock` contains a name and settings. Creating a `Lock` sends no request, so you may keep a
/// `Lock`, clone it, or create a new `Lock` for each use. In Redisson, a `Lock` is the `RLock` of
/// the same name.
///
/// A `Lock` is **not reentrant**: a task that acquires it twice waits for itself for ever. If your
/// task already holds the lock, call [`Guard::reenter`] on its guard instead.
///
/// By default, a background task renews the hold until its guard is dropped. If the holder's
/// process dies, the lock is free at most 30 seconds later. With a fixed [`lease`](Self::lease),
/// the hold is **never renewed**: it ends when the lease is over, even if the work continues.
///
/// Waiters of one process acquire in the order in which they came. While the lock is contended,
/// waiters of different processes also acquire in this order, with exceptions that [the
/// guide][crate::docs::guide] describes.
///
/// `K` is `()` for a plain lock, and [`Fenced`](crate::Fenced) for a
/// [`FencedLock`](crate::FencedLock).
///
/// # Examples
///
/// Wait for the lock, work, release it:
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// let guard = client.lock("orders:42")?.acquire().await?;
/// // … the work …
/// guard.release().await?.into_result()?;
/// # Ok(()) }
/// ```
///
/// Skip the work if another process is already doing it:
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// if let Some(guard) = client.lock("reports/daily")?.try_acquire().await? {
///     // … the work …
///     guard.release().await?.into_result()?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Lock<K = ()> {
    pub(super) engine: Arc<Engine>,
    pub(super) object: Object,
    pub(super) settings: Settings,
    pub(super) kind: PhantomData<fn() -> K>,
}

/// The guard of a [`Lock`], or of one side of a [`ReadWriteLock`](crate::ReadWriteLock).
pub type LockGuard = Guard<Lock>;

impl<K> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", self.name())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Lock {
    pub(crate) fn new(engine: Arc<Engine>, object: Object, ttl: Duration) -> Self {
        Self { engine, object, settings: Settings::new(ttl), kind: PhantomData }
    }
}

/// Settings. If Redis cannot store the duration of a setting, the first acquisition returns
/// [`Error::Duration`].
impl<K> Lock<K> {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    settings!("leasehold::Client", "lock");
    on_loss!("lock", run);

    /// Returns the name of the lock.
    #[doc = example!(lock: "assert_eq!(lock.name().as_str(), \"orders:42\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.name
    }

    /// Returns whether this lock requires at least `number` replicas.
    #[cfg(test)]
    pub(crate) fn wants_replicas(&self, number: u32) -> bool {
        self.settings.replicas.is_some_and(|replicas| replicas.least >= number)
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the lease of a grant of this lock, and whether the watchdog renews it.
    pub(crate) fn terms(&self) -> (Duration, bool) {
        (self.settings.lease.unwrap_or(self.settings.ttl), self.settings.lease.is_none())
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    fn request(&self) -> Result<AcquireRequest> {
        self.settings.request(&self.engine.for_task(&self.object))
    }

    fn guard(&self, held: Held) -> Guard<Self> {
        Guard::new(held, self.settings.on_loss)
    }
}

/// Methods that the blocking API and [`ReadWriteLock`](super::ReadWriteLock) use to join an
/// existing hold.
impl<K> Lock<K> {
    /// Reenters the hold of `holding`. If this lock is replicated, waits until enough replicas have
    /// acknowledged the hold.
    #[cfg(feature = "blocking")]
    pub(crate) async fn enter_again(
        &self,
        holding: &LockContext,
        max_wait: ReentryTimeout,
    ) -> Result<Guard<Self>> {
        let request = self.request()?;
        let held = self.engine.enter_again(&request, holding.watch(), max_wait).await?;
        // If the thread first acquired this name as a plain lock, the hold has no token.
        match request.share.tokens() > 0 && held.watch.token().is_none() {
            true => Err(Error::NoToken { name: self.name().clone() }),
            false => Ok(self.guard(held)),
        }
    }

    /// Acquires the read side during the write hold `other`. Waits for the reply until `until` at
    /// the latest.
    pub(crate) async fn acquire_under_write(
        &self,
        other: &Watch,
        until: Option<Instant>,
    ) -> Result<Guard<Self>> {
        let lost = |reason| Error::Lost { name: self.name().clone(), reason };
        if !other.is_of(&self.engine) {
            // Tasks of one client share a read hold. If `other` belongs to another client, this
            // client has no record of the writer. So later readers of this client would join the
            // read hold while the writer still writes.
            return Err(Error::NotWriting { name: self.name().clone() });
        }
        other.remaining().map_err(lost)?;
        // From now on, the owner of the write hold may also have a read hold in the store. After a
        // hand-off, the next task would have no record of this read hold. So the write hold is not
        // handed off.
        other.note_read_under_write();
        let request =
            AcquireRequest { writer: Some(other.claim().owner.clone()), ..self.request()? };
        let held = self.engine.try_acquire(&request, until).await?;
        let held =
            held.ok_or_else(|| lost(other.remaining().err().unwrap_or(LostReason::NotOwned)))?;
        Ok(self.guard(held))
    }
}

/// Methods that acquire the lock.
impl<K> Lock<K> {
    /// Acquires the lock, waiting until it is free.
    ///
    /// While the store is unreachable, the call waits and retries. To limit the wait, use
    /// [`acquire_within`](Self::acquire_within).
    ///
    /// # Errors
    ///
    /// [`Error::Duration`] if a setting is invalid. [`Error::Forbidden`], [`Error::Refused`] or
    /// [`Error::WrongType`] if the store rejects the request and a retry cannot help. For example,
    /// a fenced lock returns [`Error::Refused`] if the key of its token counter holds no number.
    /// [`Error::NotReady`] if the server's memory is full. [`Error::ShutDown`] if the client was
    /// shut down. [`Error::NoRuntime`] outside of tokio.
    ///
    /// A [`replicated`](Self::replicated) lock has three more errors. [`Error::NotReplicated`] if
    /// too few replicas acknowledged the grant. [`Error::Unavailable`] if the client could not
    /// request the number of acknowledgements. [`Error::Lost`] if the lease ended before enough
    /// replicas acknowledged the grant.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: if the store still grants the request of the future, a
    /// background task releases the lock. A fencing token of this grant stays unused, which does no
    /// harm. If the future is neither dropped nor polled, it keeps its position among the waiters
    /// of this process. If the store then grants the request of the future, no other client can
    /// acquire the lock until the ttl is over.
    #[doc = example!(lock: "let guard = lock.acquire().await?;")]
    pub async fn acquire(&self) -> Result<Guard<Self>> {
        let request = self.request()?;
        Ok(self.guard(self.engine.acquire(&request).await?))
    }

    /// Acquires the lock, waiting for at most `timeout`.
    ///
    /// The call returns within the timeout, in any state of the network. After a timeout, the next
    /// call starts at the end of the wait queue.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if another owner held the lock until the timeout. The error names the
    /// holder, or the waiter for which the lock was reserved. [`Error::Unavailable`] if the store
    /// did not reply. [`Error::NotReady`] if the server replied that it was not ready, for example
    /// during a failover. [`Error::Duration`] if the timeout is zero: to try without waiting, use
    /// [`try_acquire`](Self::try_acquire). Other errors as for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(lock: "let guard = lock.acquire_within(Duration::from_secs(5)).await?;")]
    pub async fn acquire_within(&self, timeout: Duration) -> Result<Guard<Self>> {
        self.acquire_in_time(checked_timeout(timeout)?).await
    }

    /// Acquires the lock with a timeout that has already begun.
    pub(crate) async fn acquire_in_time(&self, timeout: Deadline) -> Result<Guard<Self>> {
        let request = self.request()?;
        Ok(self.guard(self.engine.acquire_within(&request, timeout).await?))
    }

    /// Acquires the lock if it is free now, and returns `None` if it is not.
    ///
    /// The call sends one request and does not join the wait queue. So a loop of these calls may
    /// never acquire a lock for which other clients wait. To wait, use
    /// [`acquire_within`](Self::acquire_within).
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
    #[doc = example!(lock:
        "let first = lock.try_acquire().await?;",
        "let second = lock.try_acquire().await?;",
        "assert!(first.is_some() && second.is_none());")]
    pub async fn try_acquire(&self) -> Result<Option<Guard<Self>>> {
        self.try_acquire_until(None).await
    }

    /// Does what [`try_acquire`](Self::try_acquire) does, but waits for the reply until `until` at
    /// the latest.
    pub(super) async fn try_acquire_until(
        &self,
        until: Option<Instant>,
    ) -> Result<Option<Guard<Self>>> {
        let request = self.request()?;
        Ok(self.engine.try_acquire(&request, until).await?.map(|held| self.guard(held)))
    }

    /// Acquires the lock, runs `work` under it, releases it, and returns the work's result.
    ///
    /// If the call returns the result of the work, the lock was held while the work ran. The client
    /// concludes this from its clock and from the last reply of the store. Otherwise the call
    /// returns an error.
    ///
    /// If the lock is lost, [`on_loss`](Self::on_loss) decides how the work stops. If the work
    /// panics, the lock is released, and the panic continues. After the work, the call waits for
    /// the release, but no longer than the [run release
    /// wait](crate::ClientBuilder::run_release_wait).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire). If one of these errors occurs, the work did not start.
    /// [`Error::Lost`], with the reason, if the lock was lost while the work ran. This error does
    /// not show whether the work completed. If you need this information, or the result of work
    /// that completed after a loss, use [`Guard::run`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the work is dropped at its current await, and the lock is released
    /// in the background.
    #[doc = example!(lock:
        "let sum = lock.run(async |_held| (1..=4).sum::<i32>()).await?;",
        "assert_eq!(sum, 10);")]
    pub async fn run<T, W, F>(&self, work: W) -> Result<T>
    where
        W: FnOnce(LockContext) -> F,
        F: Future<Output = T>,
    {
        self.acquire().await?.run(work).await.into_result()
    }

    /// Does what [`run`](Self::run) does, but waits for the lock for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`acquire_within`](Self::acquire_within), and [`Error::Lost`] as for
    /// [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    #[doc = example!(lock:
        "let timeout = Duration::from_secs(5);",
        "assert_eq!(lock.run_within(timeout, async |_held| \"done\").await?, \"done\");")]
    pub async fn run_within<T, W, F>(&self, timeout: Duration, work: W) -> Result<T>
    where
        W: FnOnce(LockContext) -> F,
        F: Future<Output = T>,
    {
        self.acquire_within(timeout).await?.run(work).await.into_result()
    }

    /// Does what [`run`](Self::run) does if the lock is free now. Otherwise returns `None`.
    ///
    /// # Errors
    ///
    /// As for [`try_acquire`](Self::try_acquire), and [`Error::Lost`] as for [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    #[doc = example!(lock:
        "let elsewhere = lock.acquire().await?;",
        "assert!(lock.try_run(async |_held| ()).await?.is_none());")]
    pub async fn try_run<T, W, F>(&self, work: W) -> Result<Option<T>>
    where
        W: FnOnce(LockContext) -> F,
        F: Future<Output = T>,
    {
        match self.try_acquire().await? {
            Some(guard) => guard.run(work).await.into_result().map(Some),
            None => Ok(None),
        }
    }
}

/// Requests about the lock that need no hold. A release may reserve the lock for a waiter, for at
/// most 750 ms. During this time, these requests treat the waiter as the holder.
impl<K> Lock<K> {
    /// Returns whether the lock is held, or reserved for a waiter.
    ///
    /// # Errors
    ///
    /// As for [`holder`](Self::holder).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(lock: "assert!(!lock.is_locked().await?);")]
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.engine.holder(&self.object).await?.is_some())
    }

    /// Returns the holder of the lock, or `None` if the lock is free. The result includes the hold
    /// count and the remaining lease.
    ///
    /// If this client has an [`application`](crate::ClientBuilder::application), a second request
    /// reads the client info that the holder's client publishes: see [`Holder::client`]. If the
    /// second request fails, the call returns the holder without client info.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not reply within the [request
    /// timeout](crate::ClientBuilder::request_timeout). [`Error::NotReady`], [`Error::Forbidden`],
    /// [`Error::Refused`] and [`Error::WrongType`] if the store rejects the request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(lock:
        "let guard = lock.acquire().await?;",
        "let holder = lock.holder().await?;",
        "assert!(holder.is_some_and(|holder| holder.owner() == guard.owner()));")]
    pub async fn holder(&self) -> Result<Option<Holder>> {
        self.engine.known_holder(&self.object).await
    }

    /// Returns the hold count of `owner`, or 0 if `owner` does not hold the lock.
    ///
    /// If the lock is reserved for `owner`, the count is 1.
    ///
    /// # Errors
    ///
    /// As for [`holder`](Self::holder).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(lock:
        "let guard = lock.acquire().await?;",
        "let again = guard.reenter().await?;",
        "assert_eq!(lock.held_by(guard.owner()).await?, 2);")]
    pub async fn held_by(&self, owner: &Owner) -> Result<u32> {
        self.engine.held_by(&self.object, owner).await
    }

    /// Ends the current hold, wakes a waiter, and returns whether the lock was held.
    ///
    /// **The holder continues to work** until it notices the loss. If another task of its process
    /// waits for this lock, the holder notices the loss at once. Otherwise the holder notices the
    /// loss at its next renewal.
    ///
    /// # Errors
    ///
    /// As for [`holder`](Self::holder). After [`Error::Unavailable`], the lock may have been
    /// released. The client does not retry the request, because a retry might end the hold of the
    /// next holder.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(lock:
        "let guard = lock.acquire().await?;",
        "assert!(lock.force_release().await?);",
        "assert!(!lock.is_locked().await?);")]
    pub async fn force_release(&self) -> Result<bool> {
        self.engine.force_release(&self.object).await
    }

    /// Sets the lease of the hold of `owner` to `lease` from now. Returns whether `owner` holds the
    /// lock.
    ///
    /// Use this method for a hold that has no guard in this process. For example, another process
    /// has called [`forget`](LockGuard::forget) on its guard. If a read-write lock has other
    /// holders, a shorter lease takes effect when these holders have released the lock.
    ///
    /// # Errors
    ///
    /// As for [`holder`](Self::holder), and [`Error::Duration`] if the lease is invalid.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(lock:
        "let guard = lock.clone().lease(Duration::from_secs(60)).acquire().await?;",
        "let owner = guard.owner().clone();",
        "guard.forget();",
        "assert!(lock.renew_owner(&owner, Duration::from_secs(600)).await?);")]
    pub async fn renew_owner(&self, owner: &Owner, lease: Duration) -> Result<bool> {
        let claim = self.claim_of(owner, checked("lease", lease)?);
        self.engine.renew_hold(claim).await
    }

    /// Releases the hold of `owner`, whatever its hold count. Returns whether `owner` held the
    /// lock.
    ///
    /// Use this method for a hold that has no guard in this process: see
    /// [`renew_owner`](Self::renew_owner). Unlike [`force_release`](Self::force_release), the call
    /// never ends the hold of another owner.
    ///
    /// # Errors
    ///
    /// As for [`holder`](Self::holder). After [`Error::Unavailable`], the hold may have been
    /// released. The client does not retry the request, because the reply to a retry would be
    /// `false` if the first request released the hold.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(lock:
        "let guard = lock.clone().lease(Duration::from_secs(60)).acquire().await?;",
        "let owner = guard.owner().clone();",
        "guard.forget();",
        "assert!(lock.release_owner(&owner).await?);",
        "assert!(!lock.release_owner(&owner).await?);")]
    pub async fn release_owner(&self, owner: &Owner) -> Result<bool> {
        self.engine.release_hold(&self.claim_of(owner, CENTURY)).await
    }

    /// Releases the hold of `owner`, and records the release for operators.
    ///
    /// Use this method instead of [`release_owner`](Self::release_owner) if another program still
    /// works under the hold.
    ///
    /// The call first writes a record, a [`ForcedRelease`](crate::ForcedRelease). The record has
    /// the name of the lock, the owner, the time, and at most 256 characters of `by`, which names
    /// the operator. Redis keeps the last 100 records of all locks together: see
    /// [`Client::forced_releases`](crate::Client::forced_releases).
    ///
    /// **The holder continues to work** until it notices the loss, as after
    /// [`force_release`](Self::force_release).
    ///
    /// # Errors
    ///
    /// As for [`release_owner`](Self::release_owner). If the record cannot be written, the hold is
    /// not released.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(lock:
        "let guard = lock.acquire().await?;",
        "assert!(lock.force_release_owner(guard.owner(), \"root on web-7\").await?);")]
    pub async fn force_release_owner(&self, owner: &Owner, by: &str) -> Result<bool> {
        self.engine.force_release_hold(&self.claim_of(owner, CENTURY), by).await
    }

    fn claim_of(&self, owner: &Owner, ttl: Duration) -> Claim {
        let share = self.settings.share;
        Claim { object: self.object.clone(), owner: owner.clone(), ttl, share }
    }
}
