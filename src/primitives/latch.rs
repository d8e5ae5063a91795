//! The latch: tasks wait until its count reaches 0.

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

/// A counter at which tasks wait. When clients have counted it down to 0, the latch opens, and all
/// waiters continue.
///
/// A `Latch` contains only a name, so creating a `Latch` sends no request. A latch that no client
/// has [`set`](Self::set) is open. In Redisson, a latch is the `RCountDownLatch` of the same name.
///
/// **If the store loses the data of a latch, the latch is open**, as in Redisson, and no client
/// notices the loss. So after [`wait`](Self::wait), check the condition for which you waited, such
/// as whether the workers are ready.
///
/// **A [`count_down`](Self::count_down) before [`set`](Self::set) is lost.** So set the latch
/// before any client can count it down.
///
/// A thousand waiting tasks of one client together send no more requests than one waiting task.
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

/// Methods that wait for the opening.
impl Latch {
    /// Waits until the latch is open. While the store is unreachable, the call waits and retries.
    ///
    /// When the call returns, the latch was open at some moment during the call, but may be closed
    /// again. If the latch opens, and is set again before the client's next request, the call may
    /// not notice the opening. **The call also returns if the store has lost the latch**, so check
    /// the condition for which you waited.
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`], [`Error::Refused`] or [`Error::WrongType`] if the store rejects the
    /// request and a retry cannot help. [`Error::ShutDown`] if the client was shut down.
    /// [`Error::NoRuntime`] outside of tokio.
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
    /// The call returns within the timeout, in any state of the network.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if the latch was closed until the timeout. [`Error::Unavailable`] if the
    /// store did not reply. [`Error::NotReady`] if the server replied that it was not ready, for
    /// example during a failover. [`Error::Duration`] if the timeout is zero: to check without
    /// waiting, use [`count`](Self::count). Other errors as for [`wait`](Self::wait).
    ///
    /// # Cancel safety
    ///
    /// As for [`wait`](Self::wait).
    #[doc = example!(latch:
        "ready.set(1).await?;",
        "let waited = ready.wait_within(Duration::from_secs(5)).await;",
        "assert!(waited.is_err_and(|error| error.is_busy()));")]
    pub async fn wait_within(&self, timeout: Duration) -> Result<()> {
        self.engine.pass_within(&self.request()?, checked_timeout(timeout)?).await
    }
}

/// Methods that read or change the count.
impl Latch {
    /// Closes an open latch with this count, and returns whether the latch was open.
    ///
    /// A latch that has opened may be set again. If a waiter has not yet noticed the opening, it
    /// then waits for the next opening.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCount`] if `count` is 0. [`Error::Unavailable`] if the store did not reply
    /// within the [request timeout](crate::ClientBuilder::request_timeout). In this case, the
    /// change may have happened. [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and
    /// [`Error::WrongType`] if the store rejects the request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
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

    /// Counts the latch down by one, and returns the count that is left. At 0, the latch opens.
    ///
    /// The call does not change an open latch, so **a `count_down` before [`set`](Self::set) is
    /// lost**. The result is at most 2^53 - 1.
    ///
    /// If the client retries the request after a lost reply, the store counts only once. A second
    /// call counts again, even if the first call returned an error.
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set). After [`Error::Unavailable`], the change may have happened, or
    /// may still happen.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
    #[doc = example!(latch:
        "ready.set(2).await?;",
        "assert_eq!(ready.count_down().await?, 1);",
        "assert_eq!(ready.count_down().await?, 0);",
        "assert_eq!(ready.count_down().await?, 0);")]
    pub async fn count_down(&self) -> Result<u64> {
        self.change(Change::CountDown).await.map(at_least_none)
    }

    /// Returns the count that is left. The count of an open latch is 0.
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set).
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

    /// Opens the latch, whatever its count, and returns whether the latch was closed.
    ///
    /// Unlike Redisson's `delete()`, the call wakes the waiters, in Rust and in Java.
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may or may not have happened.
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

/// Returns 0 for a negative count, which another program may have written.
fn at_least_none(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}
