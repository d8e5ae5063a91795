//! Why a hold ended.

/// How a hold ended, for the counters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    Released,
    /// The release of the hold got no reply.
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
    /// The lease of the hold ended, because it was a fixed lease or no renewal succeeded in time.
    #[error("the lease ended without a renewal")]
    Expired,
    /// The hold reached its [`max_hold`](crate::Lock::max_hold).
    #[error("the hold reached its limit max_hold")]
    MaxHold,
    /// The store no longer has the hold: a client released it by force, or Redis lost its data.
    #[error("Redis no longer has the hold: a client released it by force, or Redis lost the data")]
    NotOwned,
    /// The server was replaced during the release, and the new server does not have the hold.
    /// Either the old server executed the release, or the hold was lost before. Assume that another
    /// holder may have overlapped with the work.
    #[error(
        "the server was replaced during the release, and the new server does not have the hold; \
         the hold may have been lost before the release"
    )]
    InDoubt,
    /// The guard released the hold, so nothing was lost. Futures that wait for a loss return this
    /// reason.
    #[error("the guard was released")]
    Released,
    /// The client was [shut down](crate::Client::shutdown).
    #[error("the client was shut down")]
    ShutDown,
}
