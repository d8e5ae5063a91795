//! An object in Redis, as an operator sees it.

use std::{fmt, time::Duration};

use super::{Holder, Name, Owner};

/// An object in Redis, as [`Client::inspect`](crate::Client::inspect) found it.
///
/// It is a snapshot for people: by the time that it is read, the object may have changed. Nothing
/// may be decided by it.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// if let Some(found) = client.inspect("orders:42").await? {
///     println!("{}: {} holders, {} waiters", found.kind, found.holders.len(), found.waiters.len());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// The name.
    pub name: Name,
    /// The kind, as far as its keys show it.
    pub kind: ObjectKind,
    /// The holders, at most a thousand. The first ten have what their
    /// [client](Holder::client) publishes. For permits with leases, the owner is the id of the permit.
    /// Permits of Redisson's plain semaphore have no holders in Redis.
    pub holders: Vec<Holder>,
    /// The known waiters, in order, at most a thousand: clients of Leasehold that queue, and
    /// threads that wait for a fair lock.
    pub waiters: Vec<Waiter>,
    /// How many connections are subscribed to its releases. Redisson's waiters show only here.
    pub subscribers: u64,
    /// The number of a semaphore or a latch.
    pub number: Option<i64>,
    /// The last fencing token.
    pub token: Option<u64>,
    /// When the key itself expires. `None` if it does not, or if there is none.
    pub expires_in: Option<Duration>,
}

/// The kind of an object, as its keys show it.
///
/// # Examples
///
/// ```
/// assert_eq!(leasehold::ObjectKind::FairLock.to_string(), "fair lock");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A lock, or a fenced or spin lock.
    Lock,
    /// Redisson's fair lock.
    FairLock,
    /// A read-write lock that is held by readers.
    ReadLock,
    /// A read-write lock that is held by a writer.
    WriteLock,
    /// A semaphore with holders of Leasehold.
    Semaphore,
    /// An expirable semaphore with holders.
    ExpirableSemaphore,
    /// A rate limiter.
    RateLimiter,
    /// A number: a semaphore, an expirable semaphore without holders, a latch, or data of another
    /// program. Redis does not show the difference.
    Number,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::FairLock => "fair lock",
            Self::ReadLock => "read lock",
            Self::WriteLock => "write lock",
            Self::Semaphore => "semaphore",
            Self::ExpirableSemaphore => "expirable semaphore",
            Self::RateLimiter => "rate limiter",
            Self::Number => "number",
        })
    }
}

/// A waiter in a queue in Redis: see [`Inspection::waiters`].
///
/// # Examples
///
/// ```no_run
/// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// let found = client.inspect("orders:42").await?;
/// let overdue = found.iter().flat_map(|it| &it.waiters).filter(|waiter| waiter.is_overdue);
/// overdue.for_each(|waiter| println!("{} may be dead", waiter.owner));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Waiter {
    /// The owner that the waiter will be.
    pub owner: Owner,
    /// How long ago it came. `None` for a waiter of a fair lock, and for one that has let a yield
    /// window pass.
    pub waited: Option<Duration>,
    /// Whether a waiter of a fair lock has not asked in time: one of Leasehold for 5 s, one of
    /// Redisson until its deadline. The next request removes it.
    pub is_overdue: bool,
}

/// The position of a search for names: see [`Client::next_names`](crate::Client::next_names).
///
/// # Examples
///
/// ```
/// assert!(!leasehold::NameCursor::default().is_done());
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NameCursor {
    /// The index of a server, and the cursor of its `SCAN`. `None` after the last server.
    pub(crate) next: Option<(usize, u64)>,
}

impl Default for NameCursor {
    /// The start of a search.
    fn default() -> Self {
        Self { next: Some((0, 0)) }
    }
}

impl NameCursor {
    /// Returns whether the search has passed through all keys.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let mut cursor = leasehold::NameCursor::default();
    /// let first = client.next_names("*", &mut cursor).await?;
    /// println!("{} names, all of them: {}", first.len(), cursor.is_done());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.next.is_none()
    }
}
