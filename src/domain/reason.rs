//! Why a hold is over.

/// Why a hold is over.
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
    /// Its lease ended: it was a fixed one, or it could not be renewed in time.
    #[error("its lease ended")]
    Expired,
    /// It reached its [`max_hold`](crate::Lock::max_hold).
    #[error("its max_hold ended")]
    MaxHold,
    /// The store does not know it as ours any more: somebody forced its
    /// release, or the data was lost.
    #[error("the store no longer has it: it was released by force, or its data was lost")]
    NotOwned,
    /// The server was replaced during the release, and the new one does not know the hold: the one
    /// before released it, or it was lost. Treat the work as overlapped.
    #[error(
        "the server was replaced during the release, and the new one does not know the hold: \
         it may have been lost"
    )]
    InDoubt,
    /// It was given back by its own guard. Nothing was lost: this only ends the
    /// wait of those who still watch it.
    #[error("it was released")]
    Released,
    /// The client was [shut down](crate::Client::shutdown).
    #[error("the client was shut down")]
    ShutDown,
}
