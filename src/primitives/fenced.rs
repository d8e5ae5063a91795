//! The fenced lock: each hold has a higher number than the one before, for receivers of its writes.

use std::{marker::PhantomData, num::NonZero};

use super::{Guard, Lock, LockContext, example};
use crate::{
    domain::{MOST_TOKEN, Share},
    error::{Error, Result},
    store,
};

/// A [`Lock`] whose holds have a fencing token, which grows from hold to hold.
///
/// The token of a hold is greater than that of every earlier hold, in all processes and
/// languages, as long as Redis keeps the counter.
///
/// **A failover may forget the last tokens**, as it may forget the last grants. The new primary
/// then grants them again, and a receiver lets both holders pass. If a primary may be replaced, use
/// [`replicated`](Lock::replicated) with as many replicas as may be promoted, or give the data a
/// version of its own.
///
/// No lock on Redis can keep a paused holder from writing late. A receiver that remembers the
/// newest token can: [`fence`](crate::fence).
///
/// If Redis loses the counter, tokens start at 1 again. Receivers then refuse new holders if they
/// have seen a higher token, and let an old holder pass whose token is higher.
/// [`raise_token`](Lock::raise_token) repairs that; [the guide](crate::docs::guide::correctness#fencing) shows
/// how.
///
/// **Each name has a counter that never expires**: see
/// [the guide](crate::docs::guide::correctness#keys-of-tokens) before you use a fenced lock for each of many
/// short-lived things.
///
/// In Java's Redisson it is the `RFencedLock` of the same name, with the same counter. It also
/// excludes plain locks of that name, which have no tokens.
#[doc = example!(fenced:
    "let first = lock.acquire().await?;",
    "let token = first.token();",
    "first.release().await?.into_result()?;",
    "assert!(lock.acquire().await?.token() > token);",
    "",
    "// Work under `run` reads its token from `held`:",
    "assert!(lock.run(async |held| held.token()).await?.is_some());")]
pub type FencedLock = Lock<Fenced>;

/// The guard of a [`FencedLock`], which has a token.
#[doc = example!(fenced:
    "let gate = leasehold::fence::Gate::new();",
    "let guard = lock.acquire().await?;",
    "assert!(gate.pass(\"orders:42\", guard.token()).is_ok());",
    "guard.release().await?.into_result()?;")]
pub type FencedGuard = Guard<FencedLock>;

/// Marks a [`Lock`] whose holds have a fencing token: see [`FencedLock`].
#[doc = example!(fenced: "let lock: leasehold::Lock<leasehold::Fenced> = lock;")]
#[derive(Clone, Copy, Debug)]
pub enum Fenced {}

impl Lock {
    /// Makes a lock whose holds have tokens.
    pub(crate) fn with_tokens(self) -> FencedLock {
        let Self { engine, object, settings, kind: _ } =
            self.with(|settings| settings.share = Share::FENCED);
        Lock { engine, object, settings, kind: PhantomData }
    }
}

/// The same lock, without the tokens in its type. Its holds still have tokens: read them by
/// [`LockContext::token`].
impl From<FencedLock> for Lock {
    fn from(FencedLock { engine, object, settings, kind: _ }: FencedLock) -> Self {
        Self { engine, object, settings, kind: PhantomData }
    }
}

impl Lock<Fenced> {
    /// Raises the counter of tokens to at least `least`, and returns its new value.
    ///
    /// It repairs a lock whose counter Redis has lost. Pass the newest token that any receiver
    /// has seen, then acquire again. The counter only grows, in one step of the store. A lower
    /// number changes nothing, so many clients may raise it at the same time. It works while the
    /// lock is held and while it is free.
    ///
    /// Each token that is drawn afterwards is higher than `least`. **A hold keeps its token**, so
    /// release it. Tasks that wait behind it in its process may get tokens that were drawn with
    /// its own, for at most 63 holds. Receivers refuse these, too.
    ///
    /// # Errors
    ///
    /// [`Error::TokenTooHigh`] beyond 2^53 - 65, where grants would soon end.
    /// [`Error::Refused`] if the counter's key holds no number.
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [request timeout](crate::ClientBuilder::request_timeout). It may have happened, and
    /// calling it again is safe. [`Error::NotReady`] and [`Error::Forbidden`] as the store says.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(fenced:
        "let newest = 1041; // SELECT token FROM orders WHERE id = 42",
        "assert_eq!(lock.raise_token(newest).await?, 1041);",
        "assert_eq!(lock.raise_token(7).await?, 1041);",
        "assert_eq!(lock.acquire().await?.token(), 1042);")]
    pub async fn raise_token(&self, least: u64) -> Result<u64> {
        if least > MOST_TOKEN {
            return Err(Error::TokenTooHigh { name: self.name().clone(), most: MOST_TOKEN });
        }
        let name = self.name();
        let raise = |store| store::lock::raise_token(store, name, least);
        let counter = self.engine.ask(name, raise).await?;
        Ok(counter.unsigned_abs())
    }
}

impl Guard<FencedLock> {
    /// Returns the token of this hold. All guards of a hold have the same one.
    ///
    /// It is greater than that of every earlier hold of this name, as long as Redis keeps the
    /// counter. A failover may forget the last tokens and grant them twice, unless the lock is
    /// [`replicated`](Lock::replicated).
    ///
    /// Send it with each write. The receiver must reject every token that is lower than the highest
    /// one that it has seen.
    #[doc = example!(fenced: "assert_eq!(lock.acquire().await?.token(), 1);")]
    #[must_use]
    pub fn token(&self) -> u64 {
        let Some(token) = self.held.watch.token() else {
            unreachable!("BUG: a fenced lock gave a guard to a hold without a token")
        };
        token.get()
    }

    /// Returns the [`token`](Self::token) as SQL's `bigint`, which is signed.
    ///
    /// It is the same number and never fails, because tokens are below 2^53.
    #[doc = example!(fenced:
        "let guard = lock.acquire().await?;",
        "let bigint: i64 = guard.token_i64(); // as in sqlx's `.bind(guard.token_i64())`",
        "assert_eq!(bigint, 1);")]
    #[must_use]
    pub fn token_i64(&self) -> i64 {
        self.token().cast_signed()
    }
}

/// The token, for work under a fenced lock.
impl LockContext {
    /// Returns the token of this hold, if its lock is a [`FencedLock`].
    #[doc = example!(fenced:
        "assert!(lock.run(async |held| held.token()).await?.is_some());",
        "assert_eq!(client.lock(\"plain\")?.run(async |held| held.token()).await?, None);")]
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.watch.token().map(NonZero::get)
    }

    /// Returns the [`token`](Self::token) as SQL's `bigint`, which is signed.
    #[doc = example!(fenced:
        "let bigint = lock.run(async |held| held.token_i64()).await?;",
        "assert_eq!(bigint, Some(1_i64));")]
    #[must_use]
    pub fn token_i64(&self) -> Option<i64> {
        self.token().map(u64::cast_signed)
    }
}
