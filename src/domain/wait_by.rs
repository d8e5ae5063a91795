//! How a waiter learns that a lock may be free.

use std::time::Duration;

/// How a waiter learns that a lock may be free.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::WaitBy;
/// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// let lock = client.lock("orders:42")?.wait_by(WaitBy::Polling {
///     first: Duration::from_millis(1),
///     longest: Duration::from_millis(128),
/// });
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum WaitBy {
    /// By messages of the store, and a timer for those that are lost.
    #[default]
    Messages,
    /// By asking again and again, as Redisson's spin lock does: after `first`,
    /// then after twice as long each time, up to `longest`; each give or take a quarter.
    ///
    /// For servers without publish and subscribe. A polling waiter has no place in the queue: it
    /// enters when it finds the lock free. While others queue, that is 2 % of the time, in
    /// windows of 2 to 16 ms. Choose short pauses: with 100 ms between two requests the wait
    /// is some five seconds on average, and has no bound. Tasks of the same client that stand
    /// behind a polling one ask when it does, so use one way for each name.
    Polling {
        /// The first pause.
        first: Duration,
        /// The longest pause, but for its quarter of jitter.
        longest: Duration,
    },
}
