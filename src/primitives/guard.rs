//! A guard: the proof that something was granted, and the way to release it.

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

/// The guard of a lock or of permits. Dropping it releases them.
///
/// `K` is the type that granted it. Each of these guards has a shorter name:
/// [`LockGuard`](crate::LockGuard), [`FencedGuard`](crate::FencedGuard),
/// [`SemaphoreGuard`](crate::SemaphoreGuard) and [`ExpirablePermits`](crate::ExpirablePermits).
///
/// Dropping the guard releases **soon**, in a background task that can only log an error. Call
/// [`release`](Self::release) to release now and to learn whether it was still held. Call
/// [`Client::shutdown`](crate::Client::shutdown) before `main` returns: it completes the releases
/// that are pending.
///
/// A guard may move to another task or thread. It is not `Clone`:
/// [`reenter`](Self::reenter) makes another guard of a lock, and Redis counts both.
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

    /// Returns the hold, to watch it without keeping it.
    pub(crate) fn watch(&self) -> &Watch {
        &self.held.watch
    }

    pub(crate) fn holding(&self) -> LockContext {
        LockContext::new(self.held.watch.clone())
    }

    /// Releases what is held, and returns whether it was still held.
    ///
    /// If the hold was lost before the release, this is a result and not an error, because the work
    /// is already done. It may have overlapped with that of another holder.
    /// [`Release::into_result`] turns the result into an error.
    ///
    /// After a failover during the release, [`LostReason::InDoubt`] reports that the new server
    /// does not know the hold: the one before released it, or it was lost.
    ///
    /// If some of several permits were lost, the others are still released. If the semaphore was
    /// deleted meanwhile, no permits are released, because that would create permits.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [release timeout](crate::ClientBuilder::release_timeout). The release continues in the
    /// background, and a lease ends by itself. [`Error::NotReady`], [`Error::Forbidden`] and
    /// [`Error::Refused`] if the store refused.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the release: it continues in the background. A future that
    /// is neither dropped nor polled to its end may keep what it was to release.
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

    /// Runs `work` under this guard, releases it, and returns everything that happened.
    ///
    /// [`Lock::run`](crate::Lock::run) returns an error if the lock was lost. This method also
    /// returns the result of such work.
    ///
    /// If the hold is lost, the work stops as [`on_loss`](crate::Lock::on_loss) says. Work under
    /// a plain semaphore is cancelled. A panic of the work releases the guard, then continues.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work at its current await and releases in the background.
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

    /// Releases after work that completed, and returns why the hold was lost before, if it was.
    #[cfg(feature = "blocking")]
    pub(crate) async fn release_after_run(self) -> Option<Loss> {
        run::release_after_run(self.held).await
    }

    /// Waits until the hold is over, and returns why.
    ///
    /// The future borrows nothing, so you can keep and move it, and create several. It also returns
    /// when the last guard of the hold is released, with [`LostReason::Released`].
    ///
    /// The permits of a plain semaphore are not renewed. The client checks them only after it
    /// reconnects.
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
    /// It reads a clock and sends no request. Once `false`, it stays `false`.
    #[doc = example!(lock: "assert!(lock.acquire().await?.is_held());")]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.watch.remaining().is_ok()
    }

    /// Returns the owner of the hold, which is unique to this grant.
    ///
    /// After a hand-off within the process, the owner is that of the previous hold. The
    /// [ids](Self::ids) of permits contain their owner. After the owner was read, the permits do
    /// not pass to another task of this process.
    #[doc = example!(lock:
        "let guard = lock.acquire().await?;",
        "assert!(guard.owner().as_str().starts_with(client.id()));")]
    #[must_use]
    pub fn owner(&self) -> &Owner {
        run::owner(&self.held.watch)
    }

    /// Returns the name of what is held.
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
    /// Leaves the lock held until its lease ends. Nothing renews it any more.
    ///
    /// With this, a process that ends can exclude others for a while, such as a job that cron
    /// starts on several machines: [the guide](crate::docs::guide::recipes#cron-job). It sends no
    /// request, so it works while Redis is unreachable. A lock with a fixed
    /// [`lease`](crate::Lock::lease) ends after this lease, and any other lock within its
    /// [`ttl`](crate::Lock::ttl). [`Lock::force_release`](crate::Lock::force_release) ends it
    /// earlier; [`Client::shutdown`](crate::Client::shutdown) does not.
    ///
    /// Other guards of this hold, made by [`reenter`](Self::reenter), end with it. Readers of one
    /// process share a hold: if others still read, the hold continues, and they release it.
    #[doc = example!(lock:
        "let lock = lock.lease(Duration::from_secs(30 * 60));",
        "lock.acquire().await?.forget();",
        "assert!(lock.try_acquire().await?.is_none());",
        "tokio::time::sleep(Duration::from_secs(30 * 60 + 1)).await;",
        "assert!(lock.try_acquire().await?.is_some());")]
    pub fn forget(self) {
        self.held.abandon();
    }

    /// Acquires the lock once more for the same owner, and returns another guard.
    ///
    /// The lock is free when all of its guards are released. In Redis, the hold count is one
    /// higher, as after a second `lock()` of one Java thread. This also renews the lease, unless it
    /// is fixed. The new guard has the same token.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is over. [`Error::Unavailable`] if no reply came within the
    /// [request timeout](crate::ClientBuilder::request_timeout). [`Error::NotReady`],
    /// [`Error::Forbidden`] and [`Error::Refused`] as the store says. This guard keeps its hold.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the count as it was.
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

    /// Writes to other keys of the same Redis, if the lock is still held **in the store**.
    ///
    /// One script checks the lock and writes, so a late write changes nothing, and this does not
    /// depend on clocks. It executes all of `writes` in their order, or none. Without writes it
    /// only checks the lock. Keep the data small, because renewals use the same connection. [The
    /// guide](crate::docs::guide::correctness#guarded-writes) says when this is enough.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is over, in this process or in the store; nothing was written.
    /// [`Error::Unavailable`] if no reply came within the
    /// [request timeout](crate::ClientBuilder::request_timeout). Then the write **may have
    /// happened, or happen yet**, as long as this hold lasts. It is never sent twice, and after a
    /// release of the lock it cannot happen any more. [`Error::NotReady`], [`Error::Forbidden`] and
    /// [`Error::Refused`] as the store says; nothing was written. The last one also refuses a field
    /// of a key that is not a hash, and the key of the lock itself. [`Error::Duration`] for an
    /// invalid time. [`Error::PartialWrite`] if the user lacks the ACL permission for one of the
    /// later writes.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the write may have happened, or may still happen while this hold
    /// lasts, as after [`Error::Unavailable`].
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
    /// store.lose("stock:42"); // others may have acquired the lock by now
    /// let late = guard.write([Write::set("stock:42:left", "6")]).await;
    /// assert!(matches!(late, Err(Error::Lost { .. })));
    /// assert_eq!(store.value("stock:42:left").as_deref(), Some(&b"7"[..]));
    /// # Ok(()) }
    /// ```
    pub async fn write(&self, writes: impl IntoIterator<Item = Write>) -> Result<()> {
        guarded::write(&self.held.watch, writes.into_iter().collect()).await
    }

    /// Runs a script of yours on the server, if the lock is still held there.
    ///
    /// The same script checks the lock first. The text is the body of a Lua function with `KEYS`
    /// and `ARGV`. Its result is the [`Value`], of at most 250 kB. The server does nothing else
    /// while it runs.
    ///
    /// **Redis does not roll back**: if the script fails half way, its earlier writes stay. To
    /// reject something, return a value, such as `return {'NOSTOCK'}`, and not an error.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write). [`Error::PartialWrite`] if the script failed, returned an error or
    /// a reply that is too long. [`Error::Script`] if the text is empty or begins with `#!`.
    /// [`Error::Refused`] if it is not valid Lua.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
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

    /// Returns how long the hold lasts without another renewal: `None` if it is lost.
    #[doc = example!(lock: "assert!(lock.acquire().await?.remaining().is_some_and(|left| left.as_secs() >= 28));")]
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.time_left()
    }

    /// Returns how many guards this hold has. Redis shows it as the hold count.
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
    /// The hold had ended before this release: the work may have overlapped with that of another holder.
    NotHeld {
        /// The name of the object that was no longer held.
        name: Name,
        /// Why the hold was over.
        reason: LostReason,
        /// The current holder, or the waiter for which the lock is reserved, if there is one.
        holder: Option<Holder>,
    },
    /// The hold lasted until this release. The lock is free, or the next waiter has it.
    Released,
    /// Other guards of the same owner keep the hold.
    StillHeld {
        /// The number of these guards.
        count: u32,
    },
}

impl Release {
    /// Returns an error if the hold was lost before the release.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it was.
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
