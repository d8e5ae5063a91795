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
    /// The store notifies the waiter by pub/sub. If a notification is lost, a timer makes the
    /// waiter send a request.
    #[default]
    PubSub,
    /// The waiter sends requests at growing intervals, as Redisson's spin lock does.
    ///
    /// The first interval is `initial`. Each further interval is twice as long, up to `max`. A
    /// random part makes each interval up to a quarter longer or shorter. Use this strategy for
    /// servers without pub/sub.
    ///
    /// A polling waiter has no queue position. It acquires the lock only if one of its requests
    /// finds the lock free. While other waiters queue, the lock is free for only 2 % of the time,
    /// in yield windows of 2 to 16 ms. So choose short intervals. With intervals of 100 ms, the
    /// wait takes about five seconds on average, and has no bound.
    ///
    /// While one task of a client polls for a name, the other tasks of this client that wait for
    /// the name send no requests. So use one strategy for each name.
    Polling {
        /// The first interval.
        initial: Duration,
        /// The longest interval, apart from the jitter of a quarter.
        max: Duration,
    },
}
