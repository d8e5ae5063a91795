//! How a waiter learns that a lock may be free.

use std::time::Duration;

/// How a waiter learns that a lock may be free.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::WaitStrategy;
/// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// let lock = client.lock("orders:42")?.wait_strategy(WaitStrategy::Polling {
///     initial: Duration::from_millis(1),
///     max: Duration::from_millis(128),
/// });
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// By pub/sub messages of the store, with a timer in case a message is lost.
    #[default]
    PubSub,
    /// By requests at growing intervals, as Redisson's spin lock does.
    ///
    /// The first interval is `initial`. Each further one is twice as long, up to `max`, give or
    /// take a quarter. Use it for servers without pub/sub.
    ///
    /// A polling waiter has no queue position: it acquires a lock that it finds free. While other
    /// waiters queue, the lock is free for 2 % of the time, in windows of 2 to 16 ms. Choose short
    /// intervals: with 100 ms the wait is some five seconds on average, and has no bound. Tasks of
    /// the same client that wait behind a polling task send their requests when it does, so use
    /// one strategy for each name.
    Polling {
        /// The first interval.
        initial: Duration,
        /// The longest interval, apart from the jitter of a quarter.
        max: Duration,
    },
}
