//! The latch: closed until it is counted down.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    example,
    settings::{checked_timeout, request_without_lease},
};
use crate::{
    domain::{Name, Object, Share},
    engine::{Engine, acquire::AcquireRequest},
    error::{Error, Result},
    store::latch::{self, Change},
};

/// A latch that is closed until it is counted down to 0. Then all waiters continue.
///
/// A `Latch` is a name: creating one costs nothing and sends no request. A latch that no client
/// has [`set`](Self::set) is open. Java's Redisson knows it as the `RCountDownLatch` of the same
/// name.
///
/// **If the store has lost the data of a latch, the latch is open**, as in Redisson, and no client
/// notices the loss. So check the condition itself after [`wait`](Self::wait). **A
/// [`count_down`](Self::count_down) before [`set`](Self::set) is lost**: set the latch before any
/// client can count.
///
/// A thousand waiting tasks of one client cost the store as much as one.
#[doc = example!(latch:
    "ready.set(2).await?;",
    "for _ in 0..2 {",
    "    let ready = ready.clone();",
    "    tokio::spawn(async move { ready.count_down().await });",
    "}",
    "ready.wait().await?;")]
#[derive(Clone)]
pub struct Latch {
    engine: Arc<Engine>,
    object: Object,
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").field("name", self.name()).finish_non_exhaustive()
    }
}

impl Latch {
    pub(crate) fn new(engine: Arc<Engine>, object: Object) -> Self {
        Self { engine, object }
    }

    /// Returns the name of the latch.
    #[doc = example!(latch: "assert_eq!(ready.name().as_str(), \"workers-ready\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.name
    }

    fn request(&self) -> Result<AcquireRequest> {
        request_without_lease(&self.object, Share::Nothing, None)
    }
}

/// Waiting.
impl Latch {
    /// Waits until the latch is open, also while the store is unreachable.
    ///
    /// It returns if the latch was open at some moment since the call. By then it may be closed
    /// again. If a latch opens and is set again before the next request, this call may not notice
    /// it. **It also returns if the store has lost the latch**: check the condition itself.
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`], [`Error::Refused`] or [`Error::WrongType`] if the store rejects the
    /// request for good. [`Error::ShutDown`], and [`Error::NoRuntime`] outside of tokio.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the store.
    #[doc = example!(latch: "ready.wait().await?; // no client has set it")]
    pub async fn wait(&self) -> Result<()> {
        self.engine.pass(&self.request()?).await
    }

    /// Waits until the latch is open, for at most `timeout`.
    ///
    /// This returns within the timeout, in any state of the network.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if it was still closed. [`Error::Unavailable`] if the store did not
    /// answer, [`Error::NotReady`] if it refused for now. Others as [`wait`](Self::wait). A
    /// timeout of zero is invalid: [`count`](Self::count) does not wait.
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    #[doc = example!(latch:
        "ready.set(1).await?;",
        "let waited = ready.wait_within(Duration::from_secs(5)).await;",
        "assert!(waited.is_err_and(|error| error.is_busy()));")]
    pub async fn wait_within(&self, timeout: Duration) -> Result<()> {
        self.engine.pass_within(&self.request()?, checked_timeout(timeout)?).await
    }
}

/// Closing and opening.
impl Latch {
    /// Closes the latch with this count if it is open, and returns whether it did.
    ///
    /// A waiter that has not noticed the open latch keeps waiting. A latch that has opened may
    /// be set again.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCount`] for a count of 0. [`Error::Unavailable`] if the store did not answer
    /// within the [request timeout](crate::ClientBuilder::request_timeout); it may have
    /// happened. [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and
    /// [`Error::WrongType`] as the store says.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(latch:
        "assert!(ready.set(2).await?);",
        "assert!(!ready.set(5).await?);",
        "assert_eq!(ready.count().await?, 2);")]
    pub async fn set(&self, count: u32) -> Result<bool> {
        if count == 0 {
            return Err(Error::ZeroCount { name: self.name().clone() });
        }
        Ok(self.change(Change::SetIfAbsent(count)).await? == 1)
    }

    /// Counts the latch down by one, and returns the rest. The last count opens it.
    ///
    /// It does not change an open latch: **a count before [`set`](Self::set) is lost**. The
    /// result is at most 2^53 - 1.
    ///
    /// A request that is retried after a lost reply counts once. A second call counts again, also
    /// after an error.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set). After [`Error::Unavailable`] it may have happened, or happen yet.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(latch:
        "ready.set(2).await?;",
        "assert_eq!(ready.count_down().await?, 1);",
        "assert_eq!(ready.count_down().await?, 0);",
        "assert_eq!(ready.count_down().await?, 0);")]
    pub async fn count_down(&self) -> Result<u64> {
        self.change(Change::CountDown).await.map(at_least_none)
    }

    /// Returns the count that is left: 0 if the latch is open.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(latch: "assert_eq!(ready.count().await?, 0); // no client has set it")]
    pub async fn count(&self) -> Result<u64> {
        self.engine
            .ask(self.name(), |store| latch::count(store, self.name()))
            .await
            .map(at_least_none)
    }

    /// Opens the latch, whatever its count is, and returns whether it was closed.
    ///
    /// Unlike Redisson's `delete()` it wakes the waiters, in Java as well.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(latch:
        "ready.set(2).await?;",
        "assert!(ready.delete().await?);",
        "ready.wait().await?;")]
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.change(Change::Delete).await? == 1)
    }

    async fn change(&self, change: Change) -> Result<i64> {
        let (name, receipt) = (self.name(), self.engine.receipt());
        self.engine.change(name, |store| latch::change(store, name, change, &receipt)).await
    }
}

/// A count that another program wrote may be negative.
fn at_least_none(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}
