//! The fenced lock: each hold has a token, which is a higher number than the token of the previous
//! hold. Receivers of writes use the token to reject late writes.

use std::{marker::PhantomData, num::NonZero};

use super::{Guard, Lock, LockContext, example};
use crate::{
    domain::{MOST_TOKEN, Share},
    error::{Error, Result},
    store,
};

/// A [`Lock`] whose holds have fencing tokens, which are numbers in ascending order.
///
/// The token of a hold is greater than the tokens of all earlier holds, in all processes and
/// languages, as long as Redis keeps the counter of tokens.
///
/// **A failover may lose the last grants, and with them the last tokens.** The new primary then
/// grants the same tokens to other holders, and a receiver accepts the writes of two holders with
/// the same token. If your deployment has replicas, use [`replicated`](Lock::replicated) with the
/// number of replicas that a failover can promote, or store a version number with the data.
///
/// No lock on Redis can keep a paused holder from writing late. But a receiver that remembers the
/// highest token can reject a late write: see [`fence`](crate::fence).
///
/// If Redis loses the counter, tokens start at 1 again. A receiver that has seen a higher token
/// then rejects the writes of new holders, and accepts late writes of an old holder.
/// [`raise_token`](Lock::raise_token) repairs the counter: [the
/// guide](crate::docs::guide::correctness#fencing) shows how.
///
/// **For each name, Redis keeps a counter of tokens that never expires.** If you need fenced locks
/// for many short-lived names, first read [the
/// guide](crate::docs::guide::correctness#keys-of-tokens).
///
/// In Redisson, a fenced lock is the `RFencedLock` of the same name, with the same counter. A plain
/// [`Lock`] of the same name is the same lock, so at most one of the two is held at a time. A hold
/// of the plain lock has no token.
#[doc = example!(fenced:
    "let first = lock.acquire().await?;",
    "let token = first.token();",
    "first.release().await?.into_result()?;",
    "assert!(lock.acquire().await?.token() > token);",
    "",
    "// Work under `run` reads its token from `held`:",
    "assert!(lock.run(async |held| held.token()).await?.is_some());")]
pub type FencedLock = Lock<Fenced>;

/// The guard of a [`FencedLock`], with the token of the hold.
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
    /// Returns the same lock as a fenced lock.
    pub(crate) fn with_tokens(self) -> FencedLock {
        let Self { engine, object, settings, kind: _ } =
            self.with(|settings| settings.share = Share::FENCED);
        Lock { engine, object, settings, kind: PhantomData }
    }
}

/// Returns the same lock without [`Fenced`] in its type, for use in a
/// [`MultiLock`](super::MultiLock). The holds still have tokens, which [`LockContext::token`]
/// returns.
impl From<FencedLock> for Lock {
    fn from(FencedLock { engine, object, settings, kind: _ }: FencedLock) -> Self {
        Self { engine, object, settings, kind: PhantomData }
    }
}

impl Lock<Fenced> {
    /// Raises the counter of tokens to at least `least`, and returns its new value.
    ///
    /// Use this method after Redis has lost the counter. Pass the highest token that any receiver
    /// has seen, then acquire the lock again. The call never lowers the counter, and the store
    /// executes the call in one step. So several clients may call this method at the same time,
    /// whether the lock is held or free.
    ///
    /// Each token that the store grants later is higher than `least`. **An existing hold keeps its
    /// token**, so release this hold. The grant of this hold may have drawn tokens for up to 63
    /// waiting tasks of the same process, too. So receivers may also reject the tokens of up to 63
    /// later holds of this process.
    ///
    /// # Errors
    ///
    /// [`Error::TokenTooHigh`] if `least` is greater than 2^53 - 65, because too few tokens would
    /// be left. [`Error::Refused`] if the key of the counter holds no number.
    /// [`Error::Unavailable`] if the store did not reply within the [request
    /// timeout](crate::ClientBuilder::request_timeout). In this case, the counter may have been
    /// raised, and a second call is safe. [`Error::NotReady`] and [`Error::Forbidden`] if the store
    /// rejects the request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the counter may or may not have been raised.
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
    /// Returns the token of this hold. All guards of a hold have the same token.
    ///
    /// The token is greater than the token of every earlier hold of this name, as long as Redis
    /// keeps the counter of tokens. After a failover, the new primary may grant the last tokens a
    /// second time, unless the lock is [`replicated`](Lock::replicated).
    ///
    /// Send the token with each write. The receiver must reject every token that is lower than the
    /// highest token that it has seen.
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
    /// The conversion never fails, because tokens are below 2^53.
    #[doc = example!(fenced:
        "let guard = lock.acquire().await?;",
        "let bigint: i64 = guard.token_i64(); // as in sqlx's `.bind(guard.token_i64())`",
        "assert_eq!(bigint, 1);")]
    #[must_use]
    pub fn token_i64(&self) -> i64 {
        self.token().cast_signed()
    }
}

/// Methods that return the token, for work under a fenced lock.
impl LockContext {
    /// Returns the token of this hold, or `None` if its lock is not a [`FencedLock`].
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
