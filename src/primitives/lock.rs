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
/// A `Lock` is a name and some settings. Creating one costs nothing and sends no request. Clone
/// it, keep it, or create another one with the same name. Java's Redisson knows it as the `RLock`
/// of the same name.
///
/// It is **not reentrant**: a task that acquires it twice waits for itself. To acquire again what
/// you hold, use the guard: [`Guard::reenter`].
///
/// Without further settings a background task renews the lock until its guard is dropped, and it
/// ends 30 seconds after its holder died. With [`lease`](Self::lease) it is **never renewed** and
/// ends after that time, whether or not the work is done.
///
/// Waiters of one process acquire in the order in which they came, and so do processes while the
/// lock is contended: [the guide][crate::docs::guide] says when.
///
/// `K` is `()`, or [`Fenced`](crate::Fenced) for a [`FencedLock`](crate::FencedLock).
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

/// Settings. The first use of the lock checks them: it returns [`Error::Duration`] for a duration
/// that Redis cannot keep.
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

    /// Returns how long a grant of this lock lasts without a renewal, and whether it is renewed.
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

/// Reentry for threads.
impl<K> Lock<K> {
    /// Reenters `holding`, once as many replicas have acknowledged it as this lock requires.
    #[cfg(feature = "blocking")]
    pub(crate) async fn enter_again(
        &self,
        holding: &LockContext,
        max_wait: ReentryTimeout,
    ) -> Result<Guard<Self>> {
        let request = self.request()?;
        let held = self.engine.enter_again(&request, holding.watch(), max_wait).await?;
        // The first guard may be a guard of a plain lock of this name.
        match request.share.tokens() > 0 && held.watch.token().is_none() {
            true => Err(Error::NoToken { name: self.name().clone() }),
            false => Ok(self.guard(held)),
        }
    }

    /// Acquires the read side while `other` holds the write side. Waits until `until`.
    pub(crate) async fn acquire_under_write(
        &self,
        other: &Watch,
        until: Option<Instant>,
    ) -> Result<Guard<Self>> {
        let lost = |reason| Error::Lost { name: self.name().clone(), reason };
        if !other.is_of(&self.engine) {
            // Later readers of this client would share a read lock next to a writer that they do
            // not know.
            return Err(Error::NotWriting { name: self.name().clone() });
        }
        other.remaining().map_err(lost)?;
        // The store now knows more than the grant, so the hold is not handed off.
        other.note_read_under_write();
        let request =
            AcquireRequest { writer: Some(other.claim().owner.clone()), ..self.request()? };
        let held = self.engine.try_acquire(&request, until).await?;
        let held =
            held.ok_or_else(|| lost(other.remaining().err().unwrap_or(LostReason::NotOwned)))?;
        Ok(self.guard(held))
    }
}

/// Acquiring.
impl<K> Lock<K> {
    /// Acquires the lock, waiting until it is free.
    ///
    /// It also waits while the store is unreachable, and retries until the store answers.
    /// [`acquire_within`](Self::acquire_within) bounds all of that.
    ///
    /// # Errors
    ///
    /// [`Error::Duration`] if a setting is invalid. [`Error::Forbidden`], [`Error::Refused`] or
    /// [`Error::WrongType`] if the store rejects the request for good; a fenced lock is refused
    /// if its counter's key holds no number. [`Error::NotReady`] if the server is full.
    /// [`Error::ShutDown`], and [`Error::NoRuntime`] outside of tokio. If the lock is
    /// [`replicated`](Self::replicated), also [`Error::NotReplicated`], [`Error::Unavailable`] if
    /// replicas could not be asked, and [`Error::Lost`] if the lease ended meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: a background task releases a grant that still arrives. A token
    /// that was drawn for it is a harmless gap. A future that is neither polled nor dropped keeps
    /// its position in this process's queue. If its request was granted, no other client can
    /// acquire the lock until the ttl is over.
    #[doc = example!(lock: "let guard = lock.acquire().await?;")]
    pub async fn acquire(&self) -> Result<Guard<Self>> {
        let request = self.request()?;
        Ok(self.guard(self.engine.acquire(&request).await?))
    }

    /// Acquires the lock, waiting for at most `timeout`.
    ///
    /// This returns within the timeout, in any state of the network. The next call starts at the
    /// end of the queue.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if another owner still held it. It names the holder, or the waiter for which the lock was reserved. [`Error::Unavailable`] if the store did not answer,
    /// [`Error::NotReady`] if it refused for now. Others as [`acquire`](Self::acquire). A timeout
    /// of zero is invalid: [`try_acquire`](Self::try_acquire) does not wait.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[doc = example!(lock: "let guard = lock.acquire_within(Duration::from_secs(5)).await?;")]
    pub async fn acquire_within(&self, timeout: Duration) -> Result<Guard<Self>> {
        self.acquire_in_time(checked_timeout(timeout)?).await
    }

    /// Acquires with a timeout that began before.
    pub(crate) async fn acquire_in_time(&self, timeout: Deadline) -> Result<Guard<Self>> {
        let request = self.request()?;
        Ok(self.guard(self.engine.acquire_within(&request, timeout).await?))
    }

    /// Acquires the lock if it is free now, and returns `None` if it is not.
    ///
    /// It sends one request and does not join the queue. In a loop it may never acquire a lock
    /// that others wait for: wait with [`acquire_within`](Self::acquire_within).
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
    #[doc = example!(lock:
        "let first = lock.try_acquire().await?;",
        "let second = lock.try_acquire().await?;",
        "assert!(first.is_some() && second.is_none());")]
    pub async fn try_acquire(&self) -> Result<Option<Guard<Self>>> {
        self.try_acquire_until(None).await
    }

    /// Does the same, but waits for no reply after `until`.
    pub(super) async fn try_acquire_until(
        &self,
        until: Option<Instant>,
    ) -> Result<Option<Guard<Self>>> {
        let request = self.request()?;
        Ok(self.engine.try_acquire(&request, until).await?.map(|held| self.guard(held)))
    }

    /// Acquires the lock, runs `work` under it, releases it, and returns the work's result.
    ///
    /// If this returns a result, the lock was held from beginning to end, by this client's clock
    /// and the last reply of the store. Otherwise it returns an error.
    ///
    /// If the lock is lost, the work stops as [`on_loss`](Self::on_loss) says. A panic of the
    /// work releases the lock, then continues. The result waits for the release no longer than the
    /// [run release wait](crate::ClientBuilder::run_release_wait).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); then the work did not start. [`Error::Lost`], with the
    /// reason, if the lock was lost while it ran. To learn whether such work was cancelled or
    /// completed, and to have its result, run it under a guard: [`Guard::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work at its current await and releases the lock in the
    /// background.
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

    /// Does what [`run`](Self::run) does, but waits for the lock at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`acquire_within`](Self::acquire_within), and [`Error::Lost`].
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
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

    /// Does what [`run`](Self::run) does if the lock is free now, and else returns `None`.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), and [`Error::Lost`].
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
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

/// Requests about the lock that need no hold. A waiter for which a release has reserved the lock,
/// for at most 750 ms, counts as its holder.
impl<K> Lock<K> {
    /// Returns whether an owner holds the lock, or has it reserved.
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(lock: "assert!(!lock.is_locked().await?);")]
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.engine.holder(&self.object).await?.is_some())
    }

    /// Returns the holder of the lock, its hold count and its remaining lease.
    ///
    /// If this client has an [`application`](crate::ClientBuilder::application), a second request
    /// reads what the holder's client publishes: see [`Holder::client`]. If that request fails, the
    /// holder is returned without it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [request timeout](crate::ClientBuilder::request_timeout). [`Error::NotReady`],
    /// [`Error::Forbidden`], [`Error::Refused`] and [`Error::WrongType`] as the store says.
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

    /// Returns how many times `owner` holds the lock or has it reserved: 0 if it does not.
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder).
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

    /// Takes the lock from its holder, wakes a waiter, and returns whether it was held.
    ///
    /// **The holder continues to work** until it notices: at once if its process also waits for
    /// this lock, at its next renewal otherwise.
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder). After [`Error::Unavailable`] it may have happened. It is not
    /// retried, because that might take the lock from the next holder.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(lock:
        "let guard = lock.acquire().await?;",
        "assert!(lock.force_release().await?);",
        "assert!(!lock.is_locked().await?);")]
    pub async fn force_release(&self) -> Result<bool> {
        self.engine.force_release(&self.object).await
    }

    /// Gives the hold of `owner` this lease, from now on, and returns whether `owner` holds.
    ///
    /// It is for a hold without a guard in this process, such as one that another process
    /// [forgot](LockGuard::forget).
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder), and [`Error::Duration`] if the lease is invalid.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(lock:
        "let guard = lock.clone().lease(Duration::from_secs(60)).acquire().await?;",
        "let owner = guard.owner().clone();",
        "guard.forget();",
        "assert!(lock.renew_owner(&owner, Duration::from_secs(600)).await?);")]
    pub async fn renew_owner(&self, owner: &Owner, lease: Duration) -> Result<bool> {
        let claim = self.claim_of(owner, checked("lease", lease)?);
        self.engine.renew_hold(claim).await
    }

    /// Releases the hold of `owner`, whatever its count, and returns whether `owner` held.
    ///
    /// It is for a hold without a guard in this process: see [`renew_owner`](Self::renew_owner). Unlike
    /// [`force_release`](Self::force_release), it never ends the hold of another owner.
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder). After [`Error::Unavailable`] it may have happened. It is not
    /// retried, because the reply would be `false`.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(lock:
        "let guard = lock.clone().lease(Duration::from_secs(60)).acquire().await?;",
        "let owner = guard.owner().clone();",
        "guard.forget();",
        "assert!(lock.release_owner(&owner).await?);",
        "assert!(!lock.release_owner(&owner).await?);")]
    pub async fn release_owner(&self, owner: &Owner) -> Result<bool> {
        self.engine.release_hold(&self.claim_of(owner, CENTURY)).await
    }

    /// Does what [`release_owner`](Self::release_owner) does to the hold of another program, and
    /// records it.
    ///
    /// The record, a [`ForcedRelease`](crate::ForcedRelease), is written before the release, with the
    /// name, the owner, the time and `by`, up to 256 characters. Redis keeps the last 100 of all
    /// locks: see [`Client::forced_releases`](crate::Client::forced_releases).
    ///
    /// **The holder continues to work** until it notices, as after
    /// [`force_release`](Self::force_release).
    ///
    /// # Errors
    ///
    /// As [`release_owner`](Self::release_owner). If the record cannot be written, nothing is
    /// released.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
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
