//! The guard: a value that proves a hold, and releases this hold.

use std::{future::Future, marker::PhantomData, time::Duration};

#[cfg(feature = "blocking")]
use super::Loss;
use super::{Lock, LockContext, OnLoss, RunOutcome, example, guarded, run};
use crate::{
    domain::{Holder, LostReason, Name, Owner, Script, Value, Write},
    engine::{
        held::{Held, Watch},
        release::ReleaseResult,
    },
    error::{Error, Result},
};

/// The guard of a lock or of permits. Dropping the guard releases the lock or the permits.
///
/// `K` is the type that created the guard, such as `Lock`. For each `K`, the guard has a shorter
/// name: [`LockGuard`](crate::LockGuard), [`FencedGuard`](crate::FencedGuard),
/// [`SemaphoreGuard`](crate::SemaphoreGuard) and [`ExpirablePermits`](crate::ExpirablePermits).
///
/// After a drop, a background task releases the hold **soon**. If the release fails, the task can
/// only log the error. To release now, and to learn whether the hold lasted until the release, call
/// [`release`](Self::release). Before `main` returns, call
/// [`Client::shutdown`](crate::Client::shutdown), which completes pending releases.
///
/// A guard may move to another task or thread. A guard is not `Clone`. To get a second guard of a
/// lock, call [`reenter`](Self::reenter), which raises the hold count in Redis.
#[doc = example!(lock:
    "use leasehold::Release;",
    "let guard = lock.acquire().await?;",
    "// … the work …",
    "assert_eq!(guard.release().await?, Release::Released);")]
#[derive(Debug)]
#[must_use = "what the guard holds is released as soon as the guard is dropped"]
pub struct Guard<K> {
    pub(super) held: Held,
    on_loss: OnLoss,
    of: PhantomData<fn() -> K>,
}

/// Methods of every guard.
impl<K> Guard<K> {
    pub(crate) fn new(held: Held, on_loss: OnLoss) -> Self {
        Self { held, on_loss, of: PhantomData }
    }

    /// Returns a view of the hold. The view does not keep the hold alive.
    pub(crate) fn watch(&self) -> &Watch {
        &self.held.watch
    }

    pub(crate) fn holding(&self) -> LockContext {
        LockContext::new(self.held.watch.clone())
    }

    /// Releases the hold, and returns whether the hold lasted until this call.
    ///
    /// If the hold was lost before, the call returns `Ok` with [`Release::NotHeld`], because the
    /// work is already done. This work may have overlapped with the work of another holder.
    /// [`Release::into_result`] turns `NotHeld` into an error.
    ///
    /// If a failover happens during the release, the new primary may not have the hold. In this
    /// case, the call reports [`LostReason::InDoubt`], because there are two possible reasons: the
    /// old primary executed the release, or the hold was lost before.
    ///
    /// If some permits of the guard were lost, the call releases the rest. If another client has
    /// deleted the semaphore, the call releases no permits, because the release would create the
    /// semaphore again.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not reply within the [release
    /// timeout](crate::ClientBuilder::release_timeout). The release continues in the background. If
    /// the release never succeeds, the hold ends with its lease, if it has one.
    /// [`Error::NotReady`], [`Error::Forbidden`] and [`Error::Refused`] if the store rejected the
    /// request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release continues in the background. If the future is neither
    /// dropped nor polled to its end, the lock or the permits may stay held.
    #[doc = example!(lock:
        "use leasehold::{LostReason, Release};",
        "let guard = lock.acquire().await?;",
        "lock.force_release().await?;",
        "",
        "let release = guard.release().await?;",
        "assert!(matches!(release, Release::NotHeld { reason: LostReason::NotOwned, .. }));")]
    pub async fn release(self) -> Result<Release> {
        let name = self.name().clone();
        Ok(match self.held.release().await? {
            ReleaseResult::StillShared(count) => Release::StillHeld { count },
            ReleaseResult::Released => Release::Released,
            ReleaseResult::Lost { reason, holder } => Release::NotHeld { name, reason, holder },
        })
    }

    /// Runs `work` under this guard, releases the guard, and returns the outcome.
    ///
    /// If the lock is lost while the work runs, [`Lock::run`](crate::Lock::run) returns only an
    /// error. This method returns the result of the work, too, if the work completed.
    ///
    /// If the hold is lost, [`on_loss`](crate::Lock::on_loss) decides how the work stops. Work
    /// under permits of a [`Semaphore`](crate::Semaphore) is always cancelled. If the work panics,
    /// the guard is released, and the panic continues.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the work is dropped at its current await, and the guard is
    /// released in the background.
    #[doc = example!(lock:
        "use leasehold::RunOutcome;",
        "let guard = lock.acquire().await?;",
        "match guard.run(async |_held| 6 * 7).await {",
        "    RunOutcome::Completed(answer) => assert_eq!(answer, 42),",
        "    RunOutcome::CompletedAfterLoss { value, reason, .. } => eprintln!(\"check {value}: {reason}\"),",
        "    RunOutcome::Cancelled { reason, .. } => eprintln!(\"stopped: {reason}\"),",
        "}")]
    pub async fn run<T, W, F>(self, work: W) -> RunOutcome<T>
    where
        W: FnOnce(LockContext) -> F,
        F: Future<Output = T>,
    {
        run::run(self.held, self.on_loss, work).await
    }

    /// Releases the guard after the work has completed. If the hold was lost before the release,
    /// returns the name of the lock and the reason.
    #[cfg(feature = "blocking")]
    pub(crate) async fn release_after_run(self) -> Option<Loss> {
        run::release_after_run(self.held).await
    }

    /// Waits until the hold is over, and returns the reason.
    ///
    /// The future does not borrow `self`, so you can create several futures and move them. When the
    /// last guard of the hold is released, the future returns [`LostReason::Released`].
    ///
    /// The client does not renew the permits of a [`Semaphore`](crate::Semaphore), so it can notice
    /// the loss of these permits only after it has reconnected.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(lock:
        "# async fn work() { std::future::pending::<()>().await }",
        "let guard = lock.lease(Duration::from_secs(60)).acquire().await?;",
        "tokio::select! {",
        "    () = work() => {}",
        "    reason = guard.lost() => assert_eq!(reason, leasehold::LostReason::Expired),",
        "}")]
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<K> {
        self.held.watch.clone().over()
    }

    /// Returns whether this client may still rely on the hold.
    ///
    /// The call reads a clock and sends no request. After a result of `false`, all later results
    /// are `false`, too.
    #[doc = example!(lock: "assert!(lock.acquire().await?.is_held());")]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.watch.remaining().is_ok()
    }

    /// Returns the owner of the hold. No other grant of the store has the same owner.
    ///
    /// If this hold came from a hand-off within the process, the previous hold had the same owner.
    ///
    /// The [ids](Self::ids) of permits contain the owner, and the caller may use these ids later.
    /// So after this call, the permits are not handed off to another task of this process.
    #[doc = example!(lock:
        "let guard = lock.acquire().await?;",
        "assert!(guard.owner().as_str().starts_with(client.id()));")]
    #[must_use]
    pub fn owner(&self) -> &Owner {
        run::owner(&self.held.watch)
    }

    /// Returns the name of the lock or of the semaphore.
    #[doc = example!(lock: "assert_eq!(lock.acquire().await?.name().as_str(), \"orders:42\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.held.watch.claim().name()
    }

    pub(super) fn time_left(&self) -> Option<Duration> {
        self.held.watch.remaining().ok()
    }
}

/// Methods of a guard of a lock.
impl<K> Guard<Lock<K>> {
    /// Leaves the lock held until its lease ends, without further renewals.
    ///
    /// A process can call this method before it ends, so that other processes cannot acquire the
    /// lock for a while. For example, cron starts a job on several machines, but only one machine
    /// should run the job: see [the guide](crate::docs::guide::recipes#cron-job). The call sends no
    /// request, so it works while Redis is unreachable.
    ///
    /// A lock with a fixed [`lease`](crate::Lock::lease) stays held until that lease ends. Any
    /// other lock stays held for at most its [`ttl`](crate::Lock::ttl).
    /// [`Lock::force_release`](crate::Lock::force_release) frees the lock earlier.
    /// [`Client::shutdown`](crate::Client::shutdown) does not free it.
    ///
    /// The call also ends the other guards of this hold, which [`reenter`](Self::reenter) created:
    /// they no longer prove a hold. Readers of one process share a hold. If other readers still
    /// share this hold, the call only drops this guard. The hold then continues until the last
    /// reader releases it.
    #[doc = example!(lock:
        "let lock = lock.lease(Duration::from_secs(30 * 60));",
        "lock.acquire().await?.forget();",
        "assert!(lock.try_acquire().await?.is_none());",
        "tokio::time::sleep(Duration::from_secs(30 * 60 + 1)).await;",
        "assert!(lock.try_acquire().await?.is_some());")]
    pub fn forget(self) {
        self.held.abandon();
    }

    /// Acquires the lock once more for the same owner, and returns a second guard.
    ///
    /// The lock is free when all guards of this hold are released. The call raises the hold count
    /// in Redis by one, as a second `lock()` of the same Java thread does. The call also renews the
    /// lease, unless the lease is fixed. The second guard has the same token.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is over. [`Error::Unavailable`] if no reply came within the
    /// [request timeout](crate::ClientBuilder::request_timeout). [`Error::NotReady`],
    /// [`Error::Forbidden`] and [`Error::Refused`] if the store rejected the request. After an
    /// error other than `Lost`, this guard keeps its hold.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the hold count returns to its earlier value.
    #[doc = example!(lock:
        "use leasehold::Release;",
        "let guard = lock.acquire().await?;",
        "let again = guard.reenter().await?;",
        "assert_eq!(guard.count(), 2);",
        "assert_eq!(again.release().await?, Release::StillHeld { count: 1 });",
        "assert_eq!(guard.release().await?, Release::Released);")]
    pub async fn reenter(&self) -> Result<Self> {
        Ok(Self::new(self.held.watch.reenter_in_time().await?, self.on_loss))
    }

    /// Writes to other keys of this Redis, if the hold still exists **in the store**.
    ///
    /// One script checks the hold and executes the writes. So a write after the end of the hold
    /// changes nothing, whatever the clocks show. The script executes all of `writes` in their
    /// order, or none of them. If `writes` is empty, the script only checks the hold. Keep the data
    /// small, because renewals use the same connection. [The
    /// guide](crate::docs::guide::correctness#guarded-writes) describes when this protection is
    /// enough.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] if the hold is over, in this process or in the store. Nothing was written.
    /// - [`Error::Unavailable`] if no reply came within the [request
    ///   timeout](crate::ClientBuilder::request_timeout). In this case, the write **may have
    ///   happened, or may still happen** while this hold lasts. The client never sends the write
    ///   twice. After a release of the lock, the write cannot happen.
    /// - [`Error::NotReady`], [`Error::Forbidden`] and [`Error::Refused`] if the store rejected the
    ///   request. Nothing was written. For example, `Refused` is the error of a write to the key of
    ///   the lock, or to a field of a key that is not a hash.
    /// - [`Error::Duration`] if a time in `writes` is invalid.
    /// - [`Error::PartialWrite`] if the Redis user has the ACL permission for the first writes, but
    ///   not for a later write. The first writes stay.
    /// - [`Error::Unsupported`] for the guard of a read lock, because other readers share the hold.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the write may have happened, or may still happen while this hold
    /// lasts.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, Error, MemoryStore, Write};
    /// let store = MemoryStore::new();
    /// let guard = Client::with_store(&store).lock("stock:42")?.acquire().await?;
    /// guard.write([Write::set("stock:42:left", "7"), Write::delete("stock:42:draft")]).await?;
    ///
    /// store.lose("stock:42"); // another client may have acquired the lock by now
    /// let late = guard.write([Write::set("stock:42:left", "6")]).await;
    /// assert!(matches!(late, Err(Error::Lost { .. })));
    /// assert_eq!(store.value("stock:42:left").as_deref(), Some(&b"7"[..]));
    /// # Ok(()) }
    /// ```
    pub async fn write(&self, writes: impl IntoIterator<Item = Write>) -> Result<()> {
        guarded::write(&self.held.watch, writes.into_iter().collect()).await
    }

    /// Runs your Lua script on the server, if this hold still exists in the store.
    ///
    /// The server checks the hold and runs your script in one step. The text of your script becomes
    /// the body of a Lua function with the parameters `KEYS` and `ARGV`. The call returns the
    /// result of this function as a [`Value`] of at most 250 kB. While the script runs, the server
    /// executes no other command.
    ///
    /// **Redis does not roll back**: if the script fails half way, its earlier writes stay. If the
    /// script decides not to make a change, let it return a value, such as `return {'NOSTOCK'}`,
    /// instead of an error.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write). [`Error::PartialWrite`] if the script failed, returned an
    /// error, or returned a value that is too long. [`Error::Script`] if the text is empty or
    /// begins with `#!`. [`Error::Refused`] if the text is not valid Lua.
    ///
    /// # Cancel safety
    ///
    /// As for [`write`](Self::write).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// use leasehold::Script;
    /// let guard = client.lock("stock:42")?.acquire().await?;
    /// let take = Script::new("return redis.call('DECRBY', KEYS[1], ARGV[1])");
    /// let left = guard.eval(take.key("stock:42:left").arg("2")).await?;
    /// println!("{:?} are left", left.as_int());
    /// # Ok(()) }
    /// ```
    pub async fn eval(&self, script: Script) -> Result<Value> {
        guarded::eval(&self.held.watch, script).await
    }

    /// Returns how long the hold lasts without another renewal, or `None` if it is lost.
    #[doc = example!(lock: "assert!(lock.acquire().await?.remaining().is_some_and(|left| left.as_secs() >= 28));")]
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.time_left()
    }

    /// Returns how many guards this hold has. In Redis, this number is the hold count.
    #[doc = example!(lock: "assert_eq!(lock.acquire().await?.count(), 1);")]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.held.watch.count()
    }
}

/// The result of a release.
#[doc = example!(lock:
    "use leasehold::Release;",
    "let guard = lock.acquire().await?;",
    "match guard.release().await? {",
    "    Release::Released => println!(\"released\"),",
    "    Release::StillHeld { count } => println!(\"{count} guards are left\"),",
    "    Release::NotHeld { reason, .. } => eprintln!(\"check the result: {reason}\"),",
    "    _ => {}",
    "}")]
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "the hold may have been lost before: `into_result()` makes that an error"]
#[non_exhaustive]
pub enum Release {
    /// The hold had ended before this release. The work may have overlapped with the work of
    /// another holder.
    NotHeld {
        /// The name of the object that was no longer held.
        name: Name,
        /// Why the hold was over.
        reason: LostReason,
        /// The current holder, or the waiter for which the lock is reserved. `None` if the store
        /// returned neither of them.
        holder: Option<Holder>,
    },
    /// The hold lasted until this release. The lock is now free, or was passed to the next waiter.
    Released,
    /// The hold continues, because it has other guards.
    StillHeld {
        /// The number of the other guards.
        count: u32,
    },
}

impl Release {
    /// Returns an error if the hold was lost before the release.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold was lost before the release.
    #[doc = example!(lock:
        "lock.acquire().await?.release().await?.into_result()?;",
        "",
        "let guard = lock.acquire().await?;",
        "lock.force_release().await?;",
        "assert!(guard.release().await?.into_result().is_err());")]
    pub fn into_result(self) -> Result<()> {
        match self {
            Self::NotHeld { name, reason, .. } => Err(Error::Lost { name, reason }),
            Self::Released | Self::StillHeld { .. } => Ok(()),
        }
    }
}
