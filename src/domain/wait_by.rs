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
    /// For servers without publish and subscribe. Who has waited for a second so has
    /// a place in the queue, and the lock is reserved for it for 0.4 s when its turn
    /// comes. With pauses longer than 0.25 s there is no place, since nobody would ask
    /// in that time: it enters when it meets a free lock. Tasks of the same client that stand
    /// behind it ask when it does, so use one way for each name.
    Polling {
        /// The first pause.
        first: Duration,
        /// The longest pause, but for its quarter of jitter.
        longest: Duration,
    },
}
