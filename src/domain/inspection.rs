//! An object in Redis, as an operator sees it.

use std::{fmt, time::Duration};

use super::{Holder, Name, Owner};

/// The length of Redisson's hash of a key, in bytes.
const HASH: usize = 22;

/// How the name of a synchronizer ends if it belongs to a key of a map or to an element of a
/// set.
const OF_KEYS: [&str; 6] =
    ["lock", "fairlock", "rw_lock", "semaphore", "permitexpirablesemaphore", "countdownlatch"];

/// An object in Redis, as [`Client::inspect`](crate::Client::inspect) found it.
///
/// An inspection is for operators. A program must not base decisions on an inspection, because the
/// object may have changed since.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// if let Some(found) = client.inspect("orders:42").await? {
///     println!("{}: {} holders, {} waiters", found.kind, found.holders.len(), found.waiting());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// The name of the object.
    pub name: Name,
    /// The kind of the object, derived from its keys.
    pub kind: ObjectKind,
    /// The holders, at most a thousand. For the first ten holders, the field includes what their
    /// [clients](Holder::client) publish. In a queue, each claim of an element is a holder. In an
    /// expirable semaphore, each permit is a holder, and the owner is the id of the permit. In a
    /// double barrier, each member inside is a holder. Redisson stores no holders of a plain
    /// semaphore.
    pub holders: Vec<Holder>,
    /// The known waiters in order, at most a thousand: queued clients and waiting writers of
    /// Leasehold, tasks and threads that wait for a fair lock, and members that wait at a barrier.
    pub waiters: Vec<Waiter>,
    /// How many connections are subscribed to the releases of the object. Most waiters of Redisson
    /// appear only in this number.
    pub subscribers: u64,
    /// The free permits of a semaphore, the count of a latch, or the last generation of a barrier.
    pub number: Option<i64>,
    /// The entries of a map, the elements of a set, or the elements of a queue that no client has
    /// claimed.
    pub size: Option<u64>,
    /// How many elements of a queue are set aside, because they are unreadable or too long.
    pub set_aside: u64,
    /// The last fencing token of the lock.
    pub token: Option<u64>,
    /// The time until the key of this name expires. `None` if the key has no TTL, or does not
    /// exist.
    pub expires_in: Option<Duration>,
    /// Whether a read-write lock has a key but no holder, for example because somebody deleted the
    /// holder by hand. If so, no writer can acquire the lock until the key expires.
    pub is_left_over: bool,
    /// The time until `leasehold run --once-per` may start its command again. `None` if the command
    /// may start now, or if the Redis user may not read the key that stores this time.
    pub next_start_in: Option<Duration>,
}

impl Inspection {
    /// Returns whether the key may be data of another program, because its value is only a number,
    /// a hash, a set or a list.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// if client.inspect("cart").await?.is_some_and(|found| found.may_be_foreign()) {
    ///     println!("a map named `cart`, or a hash of another program");
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn may_be_foreign(&self) -> bool {
        match self.kind {
            ObjectKind::Number | ObjectKind::Map | ObjectKind::Set => true,
            ObjectKind::Queue => self.holders.is_empty() && self.set_aside == 0,
            ObjectKind::Lock
            | ObjectKind::FairLock
            | ObjectKind::ReadLock
            | ObjectKind::WriteLock
            | ObjectKind::Semaphore
            | ObjectKind::ExpirableSemaphore
            | ObjectKind::Barrier
            | ObjectKind::RateLimiter => false,
        }
    }

    /// Returns the number of waiters, as far as Redis shows it.
    ///
    /// The result is the length of the queue or the number of subscribers, whichever is greater,
    /// because some waiters of Redisson only subscribe.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// if let Some(found) = client.inspect("orders:42").await? {
    ///     println!("{} wait", found.waiting());
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters.len().max(usize::try_from(self.subscribers).unwrap_or(usize::MAX))
    }

    /// Returns the name of the map or the set to which this object belongs.
    ///
    /// For example, a lock from [`Map::lock`](crate::Map::lock) belongs to a map. Returns `None` if
    /// the object does not belong to a key of a map or an element of a set.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let found = client.inspect("{orders}:UcFxNFrVn28tvxVuKmcwtA:lock").await?;
    /// assert_eq!(found.unwrap().key_of(), Some("orders"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn key_of(&self) -> Option<&str> {
        collection_of(self.name.as_str())
    }
}

/// Returns the `COLLECTION` if `name` has the form `COLLECTION:HASH:KIND`.
fn collection_of(name: &str) -> Option<&str> {
    let (rest, kind) = name.rsplit_once(':')?;
    let (slot, hash) = rest.rsplit_once(':')?;
    let is_hash = hash.len() == HASH
        && hash.chars().all(|it| it.is_ascii_alphanumeric() || "+/".contains(it));
    if !is_hash || !OF_KEYS.contains(&kind) {
        return None;
    }
    let inner = slot.strip_prefix('{').and_then(|slot| slot.strip_suffix('}'));
    Some(inner.filter(|inner| !inner.contains('{')).unwrap_or(slot))
}

/// The kind of an object, derived from its keys.
///
/// # Examples
///
/// ```
/// assert_eq!(leasehold::ObjectKind::FairLock.to_string(), "fair lock");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A lock, a fenced lock, or Redisson's spin lock.
    Lock,
    /// A fair lock.
    FairLock,
    /// A read-write lock that is held by readers.
    ReadLock,
    /// A read-write lock that is held by a writer.
    WriteLock,
    /// A semaphore with permits that clients of Leasehold hold.
    Semaphore,
    /// An expirable semaphore with holders.
    ExpirableSemaphore,
    /// A barrier or a double barrier at which members wait, or are inside.
    Barrier,
    /// A rate limiter.
    RateLimiter,
    /// A queue, or a list of another program.
    Queue,
    /// A map, or a hash of another program.
    Map,
    /// A set of Leasehold, of Redisson or of another program.
    Set,
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
            Self::Barrier => "barrier",
            Self::RateLimiter => "rate limiter",
            Self::Queue => "queue",
            Self::Map => "map",
            Self::Set => "set",
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
    /// The owner of the hold that the waiter will get.
    pub owner: Owner,
    /// How long the waiter has waited. `None` for a waiter of a fair lock, for a member of a
    /// barrier, and for a waiter that has let a yield window pass.
    pub waited: Option<Duration>,
    /// Whether a waiter of a fair lock is late with its next request: a waiter of Leasehold after
    /// 5 s, a waiter of Redisson after its deadline. The next request of any client removes an
    /// overdue waiter.
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
    /// Returns the start of a search.
    fn default() -> Self {
        Self { next: Some((0, 0)) }
    }
}

impl NameCursor {
    /// Returns whether the search has read all keys.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collection_name_is_parsed_from_the_lock_name_of_a_map_key() {
        let hash = "UcFxNFrVn28tvxVuKmcwtA";
        for (name, collection) in [
            (format!("{{orders}}:{hash}:lock"), Some("orders")),
            (format!("{{a:b}}:{hash}:permitexpirablesemaphore"), Some("a:b")),
            (format!("{{t}}:orders:{hash}:rw_lock"), Some("{t}:orders")),
            (format!("{{orders}}:{hash}:key"), None),
            ("{orders}:42:lock".to_owned(), None),
            ("orders:lock".to_owned(), None),
            ("lock".to_owned(), None),
        ] {
            assert_eq!(collection_of(&name), collection, "{name}");
        }
    }
}
