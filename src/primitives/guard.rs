//! Proof that a lock was granted.

use std::{future::Future, time::Duration};

use super::{Holding, OnLoss, Ran, guarded, run};
use crate::{
    domain::{Holder, LostReason, Name, Owner, Script, Value, Write},
    engine::{
        held::{Held, Watch},
        release::Left,
    },
    error::{Error, Result},
};

/// Proof that the lock was granted, and the way to give it back.
///
/// Dropping the guard releases the lock **soon**, in the background, where an
/// error can only be logged. Call [`release`](Self::release) to release it now
/// and to learn whether it was still held.
///
/// A guard may move to another task or thread. It is not `Clone`:
/// [`reenter`](Self::reenter) makes another one, and Redis counts both.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, Release};
/// let guard = Client::in_memory().lock("orders:42")?.acquire().await?;
/// // … the work …
/// assert_eq!(guard.release().await?, Release::Released);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct LockGuard {
    held: Held,
    on_loss: OnLoss,
}

impl LockGuard {
    pub(crate) fn new(held: Held, on_loss: OnLoss) -> Self {
        Self { held, on_loss }
    }

    /// What may be known of the hold without a share in it.
    pub(crate) fn watch(&self) -> &Watch {
        &self.held.watch
    }

    pub(crate) fn holding(&self) -> Holding {
        Holding::new(self.held.watch.clone())
    }

    /// Releases the lock, and tells whether it was still ours.
    ///
    /// That it was not is an answer and no error: by then there is nothing left
    /// to undo, but the work may have overlapped with another holder's. Who would
    /// rather have an error asks for it: [`Release::done`].
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not
    /// answer within the [release timeout](crate::ClientBuilder::release_timeout):
    /// the release goes on in the background, and the lease ends by itself. [`Error::NotReady`],
    /// [`Error::Forbidden`] and
    /// [`Error::Refused`] if the store refused.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the release: it goes on in the
    /// background. One that is neither dropped nor polled to its end may keep what it was to give back.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, LostReason, Release};
    /// let lock = Client::in_memory().lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// lock.force_release().await?;
    ///
    /// let release = guard.release().await?;
    /// assert!(matches!(release, Release::AlreadyGone { reason: LostReason::NotOurs, .. }));
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<Release> {
        let name = self.name().clone();
        Ok(match self.held.release().await? {
            Left::Shares(count) => Release::StillHeld { count },
            Left::Nothing => Release::Released,
            Left::Lost { reason, holder } => Release::AlreadyGone { name, reason, holder },
        })
    }

    /// Runs `work` under this guard, gives it back, and tells all that became of
    /// it: [`Lock::run`](crate::Lock::run) for those who want the result of work
    /// whose lock was lost.
    ///
    /// Work is stopped when the lock is lost, as
    /// [`on_loss`](crate::Lock::on_loss) says. A panic of the work releases the
    /// lock, then goes on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it stands and releases the lock
    /// in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, Ran};
    /// let guard = Client::in_memory().lock("nightly-close")?.acquire().await?;
    /// match guard.run(async |_held| 6 * 7).await {
    ///     Ran::Done(answer) => assert_eq!(answer, 42),
    ///     Ran::Overran { value, reason, .. } => eprintln!("check {value}: {reason}"),
    ///     Ran::Stopped { reason, .. } => eprintln!("stopped: {reason}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn run<T, W, F>(self, work: W) -> Ran<T>
    where
        W: FnOnce(Holding) -> F,
        F: Future<Output = T>,
    {
        let on_loss = self.on_loss;
        run::run(self.held, on_loss, work).await
    }

    /// Releases the lock behind work that is done, and tells why it was lost before,
    /// if it was. Waits for that only for a moment.
    #[cfg(feature = "blocking")]
    pub(crate) async fn release_after_run(self) -> Option<LostReason> {
        run::release_after_run(self.held).await
    }

    /// Leaves the lock taken until its lease ends by itself. Nobody renews it any more.
    ///
    /// For a process that ends while others are to stay out for a while, as a job that cron
    /// starts on several machines: [the guide](crate::docs::guide#a-job-that-one-machine-does).
    /// Nothing is sent, so this works while Redis is away. A lock with a fixed
    /// [`lease`](crate::Lock::lease) ends when that is over, another one within its
    /// [`ttl`](crate::Lock::ttl). [`Lock::force_release`](crate::Lock::force_release) ends it
    /// earlier; [`Client::shutdown`](crate::Client::shutdown) does not.
    ///
    /// Other guards of this hold, made by [`reenter`](Self::reenter), end with it. Readers of the
    /// same process share a hold: if others still read, it goes on with them, and they release it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// let client = leasehold::Client::in_memory();
    /// let lock = client.lock("mails/hourly")?.lease(Duration::from_secs(30 * 60));
    /// lock.acquire().await?.forget();
    /// assert!(lock.try_acquire().await?.is_none());
    /// tokio::time::sleep(Duration::from_secs(30 * 60 + 1)).await;
    /// assert!(lock.try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn forget(self) {
        self.held.abandon();
    }

    /// Enters once more: another guard of the same owner.
    ///
    /// The lock goes to others when all of them are gone. Redis shows a hold count that
    /// is one higher, as after a second `lock()` of one Java thread. A lease
    /// kept by the watchdog is renewed by this; a fixed one is not.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is over.
    /// [`Error::Unavailable`] if no answer came within the
    /// [question timeout](crate::ClientBuilder::question_timeout).
    /// [`Error::NotReady`],
    /// [`Error::Forbidden`] and
    /// [`Error::Refused`] as the store says; this guard
    /// holds on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the count as it was.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, Release};
    /// let guard = Client::in_memory().lock("orders:42")?.acquire().await?;
    /// let again = guard.reenter().await?;
    /// assert_eq!(guard.count(), 2);
    /// assert_eq!(again.release().await?, Release::StillHeld { count: 1 });
    /// assert_eq!(guard.release().await?, Release::Released);
    /// # Ok(()) }
    /// ```
    pub async fn reenter(&self) -> Result<Self> {
        Ok(Self::new(self.held.watch.reenter_in_time().await?, self.on_loss))
    }

    /// Writes to keys beside the lock, if this hold still has it **in the store**: the same step
    /// that writes looks. So what comes late writes nothing, whatever clocks say.
    ///
    /// All of `writes`, in their order, or none. The data must lie in the same Redis as the lock,
    /// and be small: it goes the way of the renewals. Without writes it only looks.
    /// [The guide](crate::docs::guide#data-in-the-same-redis) tells when this is enough.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is over, here or in the store; nothing was written. If only the
    /// store knew it, the hold is over from now on.
    /// [`Error::Unavailable`] if no answer came within the
    /// [question timeout](crate::ClientBuilder::question_timeout): it **may have been written, or
    /// be written yet**, as long as this hold lasts and no longer. It is never sent twice; giving
    /// the lock back ends the doubt.
    /// [`Error::NotReady`], [`Error::Forbidden`] and [`Error::Refused`] as the store says, the
    /// last also for a field of what is no hash, and for the key of the lock itself: nothing was
    /// written. [`Error::Duration`] for a time that cannot be kept.
    /// [`Error::HalfDone`] if the user of the server lacks a right for one of the later writes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future calls nothing back: as after [`Error::Unavailable`], it may have been
    /// written, or be written while this hold lasts.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, Error, MemoryStore, Write};
    /// let store = MemoryStore::new();
    /// let guard = Client::sharing(&store).lock("stock:42")?.acquire().await?;
    /// guard.write([Write::set("stock:42:left", "7"), Write::delete("stock:42:draft")]).await?;
    ///
    /// store.lose("stock:42"); // others may have the lock by now
    /// let late = guard.write([Write::set("stock:42:left", "6")]).await;
    /// assert!(matches!(late, Err(Error::Lost { .. })));
    /// assert_eq!(store.value("stock:42:left").as_deref(), Some(&b"7"[..]));
    /// # Ok(()) }
    /// ```
    pub async fn write(&self, writes: impl IntoIterator<Item = Write>) -> Result<()> {
        guarded::write(&self.held.watch, writes.into_iter().collect()).await
    }

    /// Runs a script of yours on the server, if this hold still has the lock there: the same
    /// script looks first.
    ///
    /// The text is the body of a function, with `KEYS` and `ARGV`. What it returns is the
    /// [`Value`], of 250 kB at most. The server does nothing else while it runs.
    ///
    /// **Redis takes nothing back**: if the script fails half way, what it wrote before stays. To
    /// say no, return a value, as `return {'NOSTOCK'}`, and not an error.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write). [`Error::HalfDone`] if the script failed or returned an error,
    /// or too long an answer. [`Error::Script`] if it cannot be run in this way: it is empty, or
    /// begins with `#!`; [`Error::Refused`] if it is no Lua.
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

    /// Waits until the hold is over, and tells why.
    ///
    /// The future borrows nothing: keep it, move it, make many of them. It also
    /// ends, with [`LostReason::Released`], when the last guard is released, so
    /// that nobody waits for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # use std::time::Duration;
    /// # async fn work() { std::future::pending::<()>().await }
    /// let lock = leasehold::Client::in_memory().lock("job")?.lease(Duration::from_secs(60));
    /// let guard = lock.acquire().await?;
    /// tokio::select! {
    ///     () = work() => {}
    ///     reason = guard.lost() => assert_eq!(reason, leasehold::LostReason::Expired),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.held.watch.clone().over()
    }

    /// Whether the lock may still be believed to be ours. Reads a clock, asks
    /// nobody; once `false` it stays `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let guard = leasehold::Client::in_memory().lock("orders:42")?.acquire().await?;
    /// assert!(guard.is_held());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.remaining().is_some()
    }

    /// How long the lock is ours without another renewal. `None` when it is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let guard = leasehold::Client::in_memory().lock("orders:42")?.acquire().await?;
    /// assert!(guard.remaining().unwrap().as_secs() >= 28);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.held.watch.remaining().ok()
    }

    /// How many guards this hold has: what Redis shows as its hold count.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let guard = leasehold::Client::in_memory().lock("orders:42")?.acquire().await?;
    /// assert_eq!(guard.count(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn count(&self) -> u32 {
        self.held.watch.count()
    }

    /// Who holds: unique to this grant. After a hand-over within the process it is the
    /// owner of the hold before.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::in_memory();
    /// let guard = client.lock("orders:42")?.acquire().await?;
    /// assert_eq!(guard.owner().as_str(), format!("{}:1", client.id()));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.held.watch.claim().owner
    }

    /// What is held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let guard = leasehold::Client::in_memory().lock("orders:42")?.acquire().await?;
    /// assert_eq!(guard.name().as_str(), "orders:42");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.held.watch.claim().name()
    }
}

/// What became of a released guard.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, Release};
/// let guard = Client::in_memory().lock("orders:42")?.acquire().await?;
/// match guard.release().await? {
///     Release::Released => println!("done"),
///     Release::StillHeld { count } => println!("{count} guards are left"),
///     Release::AlreadyGone { reason, .. } => eprintln!("check the result: {reason}"),
///     _ => {}
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "the lock may have been lost before: `done()` makes that an error"]
#[non_exhaustive]
pub enum Release {
    /// The hold was over before: the work may have overlapped with another's.
    AlreadyGone {
        /// What was no longer held.
        name: Name,
        /// Why it was over.
        reason: LostReason,
        /// Who holds the lock now, or has it reserved, if anybody does.
        holder: Option<Holder>,
    },
    /// It was ours until now. It is free, or the next waiter's already.
    Released,
    /// Other guards of the same owner hold on.
    StillHeld {
        /// How many.
        count: u32,
    },
}

impl Release {
    /// Passes if the lock was ours until it was released.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it was not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let lock = leasehold::Client::in_memory().lock("orders:42")?;
    /// lock.acquire().await?.release().await?.done()?;
    ///
    /// let guard = lock.acquire().await?;
    /// lock.force_release().await?;
    /// assert!(guard.release().await?.done().is_err());
    /// # Ok(()) }
    /// ```
    pub fn done(self) -> Result<()> {
        match self {
            Self::AlreadyGone { name, reason, .. } => Err(Error::Lost { name, reason }),
            Self::Released | Self::StillHeld { .. } => Ok(()),
        }
    }
}
