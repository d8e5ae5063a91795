//! The fenced lock: each hold has a number that grows, for those who receive its writes.

use std::{future::Future, ops::Deref, time::Duration};

use super::{
    Holding, Lock, LockGuard, OnLoss, Ran, Release,
    settings::{Settings, on_loss, replicated, settings},
};
use crate::{
    domain::{Replicas, Share, WaitBy},
    engine::grant::LocalTurns,
    error::{Error, Result},
};

/// A [`Lock`] whose holds are numbered: each has a token that is greater than that of every
/// hold before it, in all processes and languages, as long as Redis keeps the counter.
///
/// **A failover may forget the last tokens**, as it may forget the last grants: then the new primary
/// hands them out again, and a receiver lets both holders pass. Where a primary may be replaced use
/// [`replicated`](FencedLock::replicated) with as many replicas as may be promoted, or data with a
/// version of its own.
///
/// No lock on Redis can keep a holder that stood still from writing late. A receiver that
/// remembers the newest token can: [`fence`](crate::fence).
///
/// If Redis loses the counter the tokens begin anew, and tell nothing about those before: receivers
/// refuse new ones where they have seen a higher one, and an old holder whose token is equal or
/// higher passes. [`raise_token`](Self::raise_token) mends that, and
/// [the guide](crate::docs::guide#fencing) shows how.
///
/// **Each name has a counter for ever**, a small key without an end: see
/// [the guide](crate::docs::guide#keys-of-tokens) before you use a fenced lock for each of many
/// short-lived things.
///
/// Java's Redisson knows it as the `RFencedLock` of the same name, and the same counter. It
/// excludes plain locks of that name as well; they draw no tokens. All that a [`Lock`] can
/// it can, too.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// let lock = client.fenced("orders:42")?;
/// let first = lock.acquire().await?;
/// let token = first.token();
/// first.release().await?.done()?;
/// assert!(lock.acquire().await?.token() > token);
/// # Ok(()) }
/// ```
///
/// Work under [`run`](Lock::run) has its token from [`Holding::token`]:
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// let token = client.fenced("orders:42")?.run(async |held| held.token()).await?;
/// assert_eq!(token, Some(1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FencedLock {
    lock: Lock,
}

/// What is the same for every lock.
impl Deref for FencedLock {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.lock
    }
}

/// Settings, as those of a [`Lock`].
impl FencedLock {
    pub(crate) fn new(lock: Lock) -> Self {
        Self { lock: lock.set(|settings| settings.share = Share::FENCED) }
    }

    fn set(self, change: impl FnOnce(&mut Settings)) -> Self {
        Self { lock: self.lock.set(change) }
    }

    settings!("leasehold::Client", "fenced");
    on_loss!("fenced");
    replicated!("leasehold::Client", "fenced", |this, replicas| {
        this.set(|settings| settings.replicas = replicas)
    });
}

/// Acquiring.
impl FencedLock {
    /// Waits until the lock is ours, as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`]; [`Error::Refused`], too, if what lies under
    /// the counter's key is no number.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`]. A token that was drawn for nobody is a gap, which harms nobody.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let guard = client.fenced("orders:42")?.acquire().await?;
    /// assert!(guard.token() > 0);
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<FencedGuard> {
        FencedGuard::of(self.lock.acquire().await?)
    }

    /// Waits until the lock is ours, but no longer than `patience`.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and those of [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let patience = std::time::Duration::from_secs(2);
    /// let guard = client.fenced("orders:42")?.acquire_within(patience).await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire_within(&self, patience: Duration) -> Result<FencedGuard> {
        FencedGuard::of(self.lock.acquire_within(patience).await?)
    }

    /// Asks once. `None` if somebody else has the lock.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and those of [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let lock = client.fenced("orders:42")?;
    /// let guard = lock.try_acquire().await?;
    /// assert!(guard.is_some() && lock.try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<FencedGuard>> {
        self.lock.try_acquire().await?.map(FencedGuard::of).transpose()
    }
}

/// Tokens.
impl FencedLock {
    /// Raises the counter of tokens to `least` at least, and returns what it is then.
    ///
    /// It heals a lock whose counter Redis has lost: pass the newest token that any receiver has
    /// seen, then acquire again. The counter only goes up, in one step of the store. A lower
    /// number changes nothing, so many clients may raise it at the same time. It works while the
    /// lock is held, and while it is free.
    ///
    /// Each token that is drawn afterwards is higher than `least`. **A hold keeps the token that it
    /// has**, so release it. Tasks that wait behind it in its process may get tokens that were
    /// drawn with its own, for at most 63 holds: each receiver refuses these, too.
    ///
    /// # Errors
    ///
    /// [`Error::TokenTooHigh`] beyond 2^53 - 65, where grants would end soon.
    /// [`Error::Refused`] if something else than a number lies under the counter's key.
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [question timeout](crate::ClientBuilder::question_timeout): it may have happened, and may be
    /// asked again. [`Error::NotReady`] and [`Error::Forbidden`] as the store says.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let lock = client.fenced("orders:42")?;
    /// let newest = 1041; // SELECT token FROM orders WHERE id = 42
    /// assert_eq!(lock.raise_token(newest).await?, 1041);
    /// assert_eq!(lock.raise_token(7).await?, 1041);
    /// assert_eq!(lock.acquire().await?.token(), 1042);
    /// # Ok(()) }
    /// ```
    pub async fn raise_token(&self, least: u64) -> Result<u64> {
        self.lock.raise_token(least).await
    }
}

/// A [`LockGuard`] with a token.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// let gate = leasehold::fence::Gate::new();
/// let guard = client.fenced("orders:42")?.acquire().await?;
/// assert!(gate.pass("orders:42", guard.token()).is_ok());
/// guard.release().await?.done()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct FencedGuard {
    guard: LockGuard,
    token: u64,
}

/// What is the same for every guard.
impl Deref for FencedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl FencedGuard {
    fn of(guard: LockGuard) -> Result<Self> {
        let token = token_of(&guard.holding())?;
        Ok(Self { guard, token })
    }

    /// The number of this hold: greater than that of every hold of this name before it, as long as
    /// Redis keeps the counter. Shares of a hold have the same one.
    ///
    /// A failover may forget the last tokens, and then they are handed out twice, unless the lock
    /// is [`replicated`](FencedLock::replicated).
    ///
    /// Send it with each write. It is safe as long as whoever receives it lets nothing pass
    /// that is older than what it has seen.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// assert_eq!(client.fenced("orders:42")?.acquire().await?.token(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the [`token`](Self::token) as SQL's `bigint` has it, which is signed.
    ///
    /// It is the same number and this never fails, because tokens end below 2^53.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let guard = client.fenced("orders:42")?.acquire().await?;
    /// let bigint: i64 = guard.token_i64(); // as in sqlx's `.bind(guard.token_i64())`
    /// assert_eq!(bigint, 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn token_i64(&self) -> i64 {
        self.token.cast_signed()
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// client.fenced("orders:42")?.acquire().await?.release().await?.done()?;
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<Release> {
        self.guard.release().await
    }

    /// Leaves the lock taken until its lease ends by itself.
    ///
    /// As [`LockGuard::forget`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let lock = client.fenced("orders:42")?;
    /// lock.acquire().await?.forget();
    /// assert!(lock.is_locked().await?);
    /// # Ok(()) }
    /// ```
    pub fn forget(self) {
        self.guard.forget();
    }

    /// Does work, and releases the lock after it.
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::run`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let guard = client.fenced("orders:42")?.acquire().await?;
    /// guard.run(async |_held| {}).await.done()?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T, W, F>(self, work: W) -> Ran<T>
    where
        W: FnOnce(Holding) -> F,
        F: Future<Output = T>,
    {
        self.guard.run(work).await
    }

    /// Makes another guard of the same hold, with the same token.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::reenter`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::reenter`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let guard = client.fenced("orders:42")?.acquire().await?;
    /// assert_eq!(guard.reenter().await?.token(), guard.token());
    /// # Ok(()) }
    /// ```
    pub async fn reenter(&self) -> Result<Self> {
        Ok(Self { guard: self.guard.reenter().await?, token: self.token })
    }
}

/// The token of a hold. One that is entered again may have been granted without.
pub(crate) fn token_of(holding: &Holding) -> Result<u64> {
    holding.token().ok_or_else(|| Error::NoToken { name: holding.name().clone() })
}
