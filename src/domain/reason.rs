//! Why a hold ended.

/// How a hold ended, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    Released,
    /// Its release got no reply.
    Unanswered,
    Lost(LostReason),
}

/// Why a hold ended.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, LostReason, MemoryStore};
/// let store = MemoryStore::new();
/// let guard = Client::with_store(&store).lock("job")?.acquire().await?;
/// let lost = guard.lost();
/// guard.release().await?.into_result()?;
/// assert_eq!(lost.await, LostReason::Released);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// Its lease ended: it was fixed, or was not renewed in time.
    #[error("its lease ended")]
    Expired,
    /// It reached its [`max_hold`](crate::Lock::max_hold).
    #[error("its max_hold ended")]
    MaxHold,
    /// The store no longer has it: a client forced its release, or the data was lost.
    #[error("the store no longer has it: it was released by force, or its data was lost")]
    NotOwned,
    /// The server was replaced during the release, and the new one does not have the hold: the old
    /// one released it, or it was lost. Treat the work as overlapped.
    #[error(
        "the server was replaced during the release, and the new one does not have the hold; it \
         may have been lost before"
    )]
    InDoubt,
    /// Its guard released it. Nothing was lost: this only ends the futures that still watch it.
    #[error("it was released")]
    Released,
    /// The client was [shut down](crate::Client::shutdown).
    #[error("the client was shut down")]
    ShutDown,
}
