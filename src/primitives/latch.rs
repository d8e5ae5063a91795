//! The latch: closed until it is counted down.

use std::{fmt, sync::Arc, time::Duration};

use super::settings::checked_patience;
use crate::{
    domain::{CENTURY, Name, Object, Share, WaitBy},
    engine::{
        Engine,
        acquire::Want,
        grant::{LocalTurns, Terms},
    },
    error::{Error, Result},
    store::latch::{self, Change},
};

/// Closed until it is counted down to none; then open for all who wait, in all processes.
///
/// A `Latch` is a name: making one costs nothing and touches no network. One that nobody has
/// [`set`](Self::set) is open. Java's Redisson knows it as the `RCountDownLatch` of the same
/// name.
///
/// **A latch whose data the store has lost is open**, as Redisson's, and nobody is told: look at the
/// thing itself after [`wait`](Self::wait). **A [`count_down`](Self::count_down) before
/// [`set`](Self::set) is lost**: set it before anybody can count.
///
/// A thousand tasks of one client that wait cost the store one waiter.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// let ready = client.latch("workers-ready")?;
/// ready.set(2).await?;
/// for _ in 0..2 {
///     let ready = ready.clone();
///     tokio::spawn(async move { ready.count_down().await });
/// }
/// ready.wait().await?;
/// # Ok(()) }
/// ```
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

    /// The name of the latch.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// assert_eq!(client.latch("workers-ready")?.name().as_str(), "workers-ready");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.name
    }

    fn want(&self) -> Want {
        let terms = Terms { renewed: false, max_hold: None, local: LocalTurns::default() };
        let (object, share) = (self.object.clone(), Share::Nothing);
        let (ttl, wait_by) = (CENTURY, WaitBy::Messages);
        Want { object, share, beside: None, ttl, terms, wait_by, replicas: None }
    }
}

/// Waiting.
impl Latch {
    /// Waits until the latch is open, as long as it takes; also as long as the store is away.
    ///
    /// It returns when the latch was open at some moment since the call. By then it may be
    /// closed again. One that opens, and is set again before it is asked about, may be slept
    /// through. **It returns as well when the store has lost the latch**: look at the thing itself.
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`], [`Error::Refused`] or [`Error::WrongType`] if the store rejects
    /// the request for good; [`Error::ShutDown`], and [`Error::NoRuntime`] outside of tokio.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the store.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// client.latch("never set")?.wait().await?;
    /// # Ok(()) }
    /// ```
    pub async fn wait(&self) -> Result<()> {
        self.engine.pass(&self.want()).await
    }

    /// Waits until the latch is open, but no longer than `patience`: whatever the network
    /// does, this returns by then.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if it was still closed. [`Error::Unavailable`] if the store did
    /// not answer, [`Error::NotReady`] if it refused for now. Others as [`wait`](Self::wait).
    /// A patience of zero is refused: [`count`](Self::count) asks once.
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// use std::time::Duration;
    /// let ready = client.latch("workers-ready")?;
    /// ready.set(1).await?;
    /// let waited = ready.wait_within(Duration::from_secs(5)).await;
    /// assert!(waited.is_err_and(|error| error.is_busy()));
    /// # Ok(()) }
    /// ```
    pub async fn wait_within(&self, patience: Duration) -> Result<()> {
        self.engine.pass_within(&self.want(), checked_patience(patience)?).await
    }
}

/// Closing and opening.
impl Latch {
    /// Closes the latch until it is counted down so often, if it is open: who waits then and
    /// has not seen that waits on. Returns whether
    /// it did. It may be set again when it has opened.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] for a count of none. [`Error::Unavailable`] if the store did not
    /// answer within the [question timeout](crate::ClientBuilder::question_timeout): it may
    /// have happened. [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and
    /// [`Error::WrongType`] as it says.
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
    /// let ready = client.latch("workers-ready")?;
    /// assert!(ready.set(2).await?);
    /// assert!(!ready.set(5).await?);
    /// assert_eq!(ready.count().await?, 2);
    /// # Ok(()) }
    /// ```
    pub async fn set(&self, count: u32) -> Result<bool> {
        if count == 0 {
            return Err(Error::Zero { name: self.name().clone() });
        }
        Ok(self.change(Change::SetIfAbsent(count)).await? == 1)
    }

    /// Counts the latch down by one; the last one opens it. Returns how many are left,
    /// 2^53 - 1 at most. Of one that is open nothing happens: **a count before [`set`](Self::set)
    /// is lost**.
    ///
    /// A request that we repeat because its answer was lost counts once. A second call counts
    /// again, also after an error.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set). After [`Error::Unavailable`] it may have happened, or happen yet.
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
    /// let ready = client.latch("workers-ready")?;
    /// ready.set(2).await?;
    /// assert_eq!(ready.count_down().await?, 1);
    /// assert_eq!(ready.count_down().await?, 0);
    /// assert_eq!(ready.count_down().await?, 0);
    /// # Ok(()) }
    /// ```
    pub async fn count_down(&self) -> Result<u64> {
        self.change(Change::CountDown).await.map(at_least_none)
    }

    /// What the latch still waits for: 0 if it is open.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// assert_eq!(client.latch("never set")?.count().await?, 0);
    /// # Ok(()) }
    /// ```
    pub async fn count(&self) -> Result<u64> {
        self.engine
            .ask(self.name(), |store| latch::count(store, self.name()))
            .await
            .map(at_least_none)
    }

    /// Opens the latch, however many it waits for. Returns whether it was closed.
    ///
    /// Unlike Redisson's `delete()` it wakes who waits, in Java as well.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
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
    /// let ready = client.latch("workers-ready")?;
    /// ready.set(2).await?;
    /// assert!(ready.delete().await?);
    /// ready.wait().await?;
    /// # Ok(()) }
    /// ```
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.change(Change::Delete).await? == 1)
    }

    async fn change(&self, change: Change) -> Result<i64> {
        let (name, receipt) = (self.name(), self.engine.receipt());
        self.engine.change(name, |store| latch::change(store, name, change, &receipt)).await
    }
}

/// A count that somebody wrote may be less than none.
fn at_least_none(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}
