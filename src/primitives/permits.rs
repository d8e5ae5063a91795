//! The expirable semaphore: a number of permits, each with a lease.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{
    Guard, LockContext, OnLoss, example,
    settings::{Settings, checked_timeout, on_loss, possible, settings},
};
use crate::{
    domain::{
        Claim, Counts, MOST_AT_ONCE, Name, Object, PermitId, Replicas, Share, WaitStrategy,
        checked, permits_of,
    },
    engine::{Engine, acquire::AcquireRequest, grant::LocalHandoff, held::Held},
    error::{Error, Result},
    store::permits::{self, Change},
};

/// A semaphore whose permits have leases. The permits of a dead process become free again.
///
/// An `ExpirableSemaphore` contains a name and settings. Creating an `ExpirableSemaphore` sends no
/// request. In Redisson, an `ExpirableSemaphore` is the `RPermitExpirableSemaphore` of the same
/// name.
///
/// By default, a background task renews the permits until their guard is dropped. If the holder's
/// process dies, the permits are free again at most 30 seconds later. With a fixed
/// [`lease`](Self::lease), permits are **never renewed**: they are free again when the lease is
/// over, even if the work continues.
///
/// There are no permits until a client sets their number by [`set_if_absent`](Self::set_if_absent).
/// **If the store loses its data, it loses this number.** After this loss, there are no permits
/// until a client sets the number again, and waiting clients log a warning. So call `set_if_absent`
/// before each acquisition, and not only when the program starts.
///
/// **Do not use both names `x` and `{x}`.** As in Redisson, each of these two semaphores has its
/// own number of free permits, but both semaphores share one set of leases. So if a permit of one
/// semaphore expires, it may be added to the free permits of the other semaphore.
#[doc = example!("let permits = client.expirable_semaphore(\"printers\")?;":
    "permits.set_if_absent(3).await?;",
    "",
    "let guard = permits.acquire().await?;",
    "// … the work …",
    "guard.release().await?.into_result()?;")]
#[derive(Clone)]
pub struct ExpirableSemaphore {
    engine: Arc<Engine>,
    object: Object,
    settings: Settings,
}

/// The guard of an [`ExpirableSemaphore`]. Dropping the guard releases its permits.
#[doc = example!(permits:
    "let guard = permits.acquire_many(2).await?;",
    "assert_eq!(guard.release().await?, leasehold::Release::Released);")]
pub type ExpirablePermits = Guard<ExpirableSemaphore>;

impl fmt::Debug for ExpirableSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirableSemaphore")
            .field("name", self.name())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Settings. If Redis cannot store the duration of a setting, the first acquisition returns
/// [`Error::Duration`].
impl ExpirableSemaphore {
    pub(crate) fn new(engine: Arc<Engine>, object: Object, ttl: Duration) -> Self {
        Self { engine, object, settings: Settings::new(ttl) }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    settings!("leasehold::Client", "expirable_semaphore");
    on_loss!("expirable_semaphore", run);

    /// Returns the name of the semaphore.
    #[doc = example!(permits: "assert_eq!(permits.name().as_str(), \"printers\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.name
    }

    fn request(&self, count: u32) -> Result<AcquireRequest> {
        match count {
            0 => Err(Error::ZeroCount { name: self.name().clone() }),
            1..=MOST_AT_ONCE => self.settings.request_share(&self.object, Share::Units(count)),
            _ => Err(Error::TooMany { name: self.name().clone(), most: MOST_AT_ONCE }),
        }
    }

    fn guard(&self, held: Held) -> ExpirablePermits {
        Guard::new(held, self.settings.on_loss)
    }
}

/// Methods that acquire permits.
impl ExpirableSemaphore {
    /// Acquires a permit, waiting until one is free.
    ///
    /// Tasks of one client acquire in the order in which they came. So if one task waits for many
    /// permits, later tasks wait behind this task. While no client has set the number of permits,
    /// the call waits, too.
    ///
    /// # Errors
    ///
    /// [`Error::Duration`] if a setting is invalid. [`Error::Forbidden`], [`Error::Refused`] or
    /// [`Error::WrongType`] if the store rejects the request and a retry cannot help.
    /// [`Error::NotReady`] if the server's memory is full. [`Error::ShutDown`] if the client was
    /// shut down. [`Error::NoRuntime`] outside of tokio. If the permits are
    /// [`replicated`](Self::replicated), the call also returns the errors of a replicated
    /// [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: if the store still grants the request of the future, a
    /// background task releases the permit, or its lease ends. If the future is neither dropped nor
    /// polled, it keeps its position among the waiters of this process.
    #[doc = example!(permits:
        "let guard = permits.acquire().await?;",
        "assert_eq!(guard.permits(), 1);")]
    pub async fn acquire(&self) -> Result<ExpirablePermits> {
        self.acquire_many(1).await
    }

    /// Acquires a permit, runs `work` under it, releases it, and returns the work's result.
    ///
    /// If the permit is lost, [`on_loss`](Self::on_loss) decides how the work stops. If the work
    /// needs several permits, or a limited wait, call another `acquire` method, and then
    /// [`Guard::run`].
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), and [`Error::Lost`] if the permit was lost while the work
    /// ran.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the work is dropped at its current await, and the permit is
    /// released in the background.
    #[doc = example!(permits:
        "assert_eq!(permits.run(async |_held| 6 * 7).await?, 42);",
        "assert_eq!(permits.available().await?, 3);")]
    pub async fn run<T, W, F>(&self, work: W) -> Result<T>
    where
        W: FnOnce(LockContext) -> F,
        F: Future<Output = T>,
    {
        self.acquire().await?.run(work).await.into_result()
    }

    /// Acquires `count` permits at the same time, under one guard.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire). [`Error::ZeroCount`] if `count` is 0, and
    /// [`Error::TooMany`] if `count` is greater than 7 000.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(permits:
        "let guard = permits.acquire_many(2).await?;",
        "assert_eq!(permits.available().await?, 1);")]
    pub async fn acquire_many(&self, count: u32) -> Result<ExpirablePermits> {
        let request = self.request(count)?;
        Ok(self.guard(self.engine.acquire(&request).await?))
    }

    /// Acquires a permit, waiting for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire). [`Error::TimedOut`] if no permit was free until the
    /// timeout. This error names no holder, because the store does not return the holders of
    /// permits. [`Error::Unavailable`] if the store did not reply. [`Error::Duration`] if the
    /// timeout is zero.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(permits: "let guard = permits.acquire_within(Duration::from_secs(5)).await?;")]
    pub async fn acquire_within(&self, timeout: Duration) -> Result<ExpirablePermits> {
        self.acquire_many_within(1, timeout).await
    }

    /// Acquires `count` permits, waiting for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`acquire_many`](Self::acquire_many) and [`acquire_within`](Self::acquire_within).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(permits:
        "let guard = permits.acquire_many_within(2, Duration::from_secs(5)).await?;")]
    pub async fn acquire_many_within(
        &self,
        count: u32,
        timeout: Duration,
    ) -> Result<ExpirablePermits> {
        let (request, timeout) = (self.request(count)?, checked_timeout(timeout)?);
        Ok(self.guard(self.engine.acquire_within(&request, timeout).await?))
    }

    /// Acquires a permit by one request. Returns `None` if no permit is free now.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire). [`Error::Unavailable`] if the store did not reply within
    /// the [request timeout](crate::ClientBuilder::request_timeout).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(permits: "assert!(permits.try_acquire().await?.is_some());")]
    pub async fn try_acquire(&self) -> Result<Option<ExpirablePermits>> {
        self.try_acquire_many(1).await
    }

    /// Acquires `count` permits if all of them are free now. Otherwise returns `None`.
    ///
    /// # Errors
    ///
    /// As for [`acquire_many`](Self::acquire_many) and [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(permits: "assert!(permits.try_acquire_many(4).await?.is_none());")]
    pub async fn try_acquire_many(&self, count: u32) -> Result<Option<ExpirablePermits>> {
        let request = self.request(count)?;
        Ok(self.engine.try_acquire(&request, None).await?.map(|held| self.guard(held)))
    }
}

/// Methods that read or change the number of permits.
impl ExpirableSemaphore {
    /// Sets the number of permits, unless a number is already set. Returns `true` if this call has
    /// set the number.
    ///
    /// # Errors
    ///
    /// As for [`available`](Self::available). [`Error::TooMany`] if `count` is greater than Java's
    /// greatest `int`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(permits:
        "assert!(!permits.set_if_absent(9).await?);",
        "assert_eq!(permits.total().await?, 3);")]
    pub async fn set_if_absent(&self, count: u32) -> Result<bool> {
        let change = Change::SetIfAbsent(possible(self.name(), count)?);
        Ok(self.change(change).await? == 1)
    }

    /// Sets the total number of permits, free and held.
    ///
    /// If more than `count` permits are held, the number of free permits is negative until enough
    /// permits are released.
    ///
    /// # Errors
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    #[doc = example!(permits:
        "permits.set(2).await?;",
        "assert_eq!(permits.total().await?, 2);")]
    pub async fn set(&self, count: u32) -> Result<()> {
        let change = Change::Set(possible(self.name(), count)?);
        self.change(change).await.map(drop)
    }

    /// Adds permits, or removes permits if `count` is negative.
    ///
    /// If more permits are removed than are free, the number of free permits becomes negative.
    ///
    /// If the client retries the request after a lost reply, the store adds the permits only once.
    /// A second call adds the permits again. After [`Error::Unavailable`], the permits may have
    /// been added, so a second call may add them twice.
    ///
    /// # Errors
    ///
    /// As for [`available`](Self::available). [`Error::Refused`] also if the result is outside the
    /// range of Java's `int`.
    ///
    /// # Cancel safety
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    #[doc = example!(permits:
        "permits.add(-1).await?;",
        "assert_eq!(permits.available().await?, 2);")]
    pub async fn add(&self, count: i32) -> Result<()> {
        self.change(Change::Add(count.into())).await.map(drop)
    }

    /// Returns the number of free permits. A permit whose lease is over is free.
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
    #[doc = example!(permits:
        "let guard = permits.acquire().await?;",
        "assert_eq!(permits.available().await?, 2);")]
    pub async fn available(&self) -> Result<i64> {
        Ok(self.counts().await?.free)
    }

    /// Returns the number of permits that all clients together hold.
    ///
    /// # Errors
    ///
    /// As for [`available`](Self::available).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(permits:
        "let guard = permits.acquire().await?;",
        "assert_eq!(permits.acquired().await?, 1);")]
    pub async fn acquired(&self) -> Result<i64> {
        Ok(self.counts().await?.held)
    }

    /// Returns the total number of permits, free and held. The number is 0 if no client has set it.
    ///
    /// # Errors
    ///
    /// As for [`available`](Self::available).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(permits:
        "let guard = permits.acquire().await?;",
        "assert_eq!(permits.total().await?, 3);")]
    pub async fn total(&self) -> Result<i64> {
        let Counts { free, held, set } = self.counts().await?;
        Ok(if set { free + held } else { 0 })
    }
}

/// Operations on one permit by its id, whichever client holds it.
impl ExpirableSemaphore {
    /// Releases the permit `id`, wakes a waiter, and returns whether the permit was held.
    ///
    /// **The holder continues to work** until it notices the loss at its next renewal.
    ///
    /// # Errors
    ///
    /// As for [`available`](Self::available).
    ///
    /// # Cancel safety
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    #[doc = example!(permits:
        "let guard = permits.acquire().await?;",
        "let id = guard.ids()[0];",
        "assert!(permits.release_id(id).await?);",
        "assert!(!permits.release_id(id).await?);")]
    pub async fn release_id(&self, id: PermitId) -> Result<bool> {
        Ok(self.change(Change::Release(id)).await? == 1)
    }

    /// Extends the lease of the permit `id` to at least `lease` from now. Returns whether the
    /// permit is held.
    ///
    /// The call never shortens a lease, because the holder relies on its length. To take a permit
    /// from its holder, use [`release_id`](Self::release_id). At its next renewal, the holder sets
    /// the lease to its own ttl again.
    ///
    /// # Errors
    ///
    /// As for [`available`](Self::available), and [`Error::Duration`] if `lease` is invalid.
    ///
    /// # Cancel safety
    ///
    /// As for [`set_if_absent`](Self::set_if_absent).
    #[doc = example!(permits:
        "let guard = permits.acquire().await?;",
        "assert!(permits.update_lease(guard.ids()[0], Duration::from_secs(60)).await?);")]
    pub async fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool> {
        let lease = checked("lease", lease)?;
        Ok(self.time_left(id, Some(lease)).await?.is_some())
    }

    /// Returns the remaining lease of the permit `id`. Returns `None` if the permit is not held.
    ///
    /// If a Redisson client holds the permit without a lease, the result is [`Duration::MAX`].
    ///
    /// # Errors
    ///
    /// As for [`available`](Self::available).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(permits:
        "let guard = permits.acquire().await?;",
        "let left = permits.lease_of(guard.ids()[0]).await?;",
        "assert!(left.is_some_and(|left| left.as_secs() >= 29));")]
    pub async fn lease_of(&self, id: PermitId) -> Result<Option<Duration>> {
        self.time_left(id, None).await
    }

    async fn time_left(&self, id: PermitId, lease: Option<Duration>) -> Result<Option<Duration>> {
        let name = self.name();
        self.engine.ask(name, |store| permits::lease(store, name, id, lease)).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.engine.ask(self.name(), |store| permits::count(store, self.name())).await
    }

    async fn change(&self, change: Change) -> Result<i64> {
        let (name, receipt) = (self.name(), self.engine.receipt());
        self.engine.change(name, |store| permits::change(store, name, change, &receipt)).await
    }
}

impl Guard<ExpirableSemaphore> {
    /// Returns the ids of the permits of this guard.
    ///
    /// The caller may use the ids later. So after a call of this method or of
    /// [`owner`](Self::owner), the client releases the permits in the store, and does not hand them
    /// off to another task of this process. The store never grants the same id again.
    #[doc = example!(permits:
        "let guard = permits.acquire().await?;",
        "assert_eq!(guard.ids().len(), 1);",
        "assert_eq!(guard.ids()[0].to_string().len(), 32);")]
    #[must_use]
    pub fn ids(&self) -> Vec<PermitId> {
        self.held.watch.forbid_handoff();
        let Claim { owner, share, .. } = self.held.watch.claim();
        permits_of(owner, *share).collect()
    }

    /// Returns the number of permits that this guard holds.
    #[doc = example!(permits: "assert_eq!(permits.acquire().await?.permits(), 1);")]
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.held.watch.claim().units()
    }

    /// Returns how long the permits last without another renewal, or `None` if they are lost.
    #[doc = example!(permits:
        "assert!(permits.acquire().await?.remaining().is_some());")]
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.time_left()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Client, MemoryStore};

    #[tokio::test(start_paused = true)]
    async fn permit_is_not_handed_off_after_its_id_was_read() {
        for (seen, handed_off) in [(false, 1), (true, 0)] {
            let client = Client::with_store(&MemoryStore::new());
            let permits = client.expirable_semaphore("printers").unwrap();
            permits.set(1).await.unwrap();
            let guard = permits.acquire().await.unwrap();
            let waiting = tokio::spawn(async move { permits.acquire().await });
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            if seen {
                assert_eq!(guard.ids().len(), 1);
            }
            guard.release().await.unwrap().into_result().unwrap();
            drop(waiting.await.unwrap().unwrap());
            assert_eq!(client.stats().handed_off, handed_off);
        }
    }
}
