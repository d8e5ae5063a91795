//! Requests to a store, and the replies of the store.

use std::{
    fmt,
    num::NonZero,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{CENTURY, ClientInfo, Name, Object, Owner, client_info::in_utc, name::on_one_line};

/// The request for a hold: its owner, object and lease.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) object: Object,
    pub(crate) owner: Owner,
    /// The lease of a grant.
    pub(crate) ttl: Duration,
    pub(crate) share: Share,
}

/// How much of its object a claim requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Share {
    /// The whole lock. The grant draws this number of fencing tokens. One token is for the hold of
    /// the caller. Each other token is for a local waiter to which the lock may be handed off.
    Whole { tokens: u32 },
    /// The read side of a read-write lock.
    Read,
    /// The read side, but writers that began to wait earlier acquire first. `waited` is how long
    /// the reader has waited, in milliseconds.
    ReadAfterWriters { waited: u32 },
    /// This number of permits.
    Units(u32),
    /// No part of the object, because the caller only waits, such as at a latch.
    Nothing,
    /// An element of a queue, and what happens to the element at the end of the claim.
    Element(Ending),
}

/// Where the element of a claim goes at the end of the claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// The element goes back to the head of the queue.
    Back,
    /// The element that the claim took at this time is done. If the store executed the request for
    /// an element twice, the claim may now have another element, which goes back.
    Done(u64),
    /// The element that the claim took at this time is set aside, because no worker can read it.
    /// Another element of the claim goes back, as for `Done`.
    Aside(u64),
}

/// A claimed element of a queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Element {
    /// When a claim took the element, in microseconds since 1970 on the clock of the server.
    pub(crate) taken_at: u64,
    /// The number of its bytes.
    pub(crate) length: u64,
    /// Its first bytes: all of them, unless it is too long for a reply.
    pub(crate) bytes: Vec<u8>,
}

/// Maximum number of tokens that one grant draws for its hold and for the waiters of this process.
/// Unused tokens leave a gap in the numbers, which is harmless.
const MOST_TOKENS: usize = 64;

/// Maximum to which a caller may raise the counter of tokens. Scripts count only up to 2^53 - 1, so
/// this number leaves enough tokens for one more grant.
pub(crate) const MOST_TOKEN: u64 = (1 << 53) - 1 - MOST_TOKENS as u64;

impl Share {
    /// The whole lock, without tokens.
    pub(crate) const WHOLE: Self = Self::Whole { tokens: 0 };

    /// The whole lock, with one token.
    pub(crate) const FENCED: Self = Self::Whole { tokens: 1 };

    /// Returns the share to request after a wait of length `waited`. `in_line` is the number of
    /// waiters of this process behind the caller.
    pub(crate) fn now(self, waited: Duration, in_line: impl FnOnce() -> usize) -> Self {
        match self {
            Self::Whole { tokens: 0 } => self,
            Self::Whole { .. } => {
                let most = in_line().saturating_add(1).min(MOST_TOKENS);
                Self::Whole { tokens: u32::try_from(most).unwrap_or(1) }
            }
            Self::ReadAfterWriters { .. } => Self::ReadAfterWriters {
                waited: u32::try_from(waited.as_millis()).unwrap_or(u32::MAX),
            },
            Self::Read | Self::Units(_) | Self::Nothing | Self::Element(_) => self,
        }
    }

    /// Returns how many fencing tokens are requested.
    pub(crate) fn tokens(self) -> u32 {
        match self {
            Self::Whole { tokens } => tokens,
            Self::Read
            | Self::ReadAfterWriters { .. }
            | Self::Units(_)
            | Self::Nothing
            | Self::Element(_) => 0,
        }
    }
}

impl Claim {
    pub(crate) fn name(&self) -> &Name {
        &self.object.name
    }

    /// Returns whether the grant has no lease.
    pub(crate) fn is_endless(&self) -> bool {
        self.ttl == CENTURY
    }

    /// Returns whether this is a claim of permits of a plain semaphore. Such permits have no lease.
    pub(crate) fn is_number(&self) -> bool {
        self.is_endless() && matches!(self.share, Share::Units(_))
    }

    /// A claim to a lock, without tokens.
    #[cfg(test)]
    pub(crate) fn plain(object: Object, owner: Owner, ttl: Duration) -> Self {
        Self { object, owner, ttl, share: Share::WHOLE }
    }

    /// Returns how many fencing tokens are requested.
    pub(crate) fn tokens(&self) -> u32 {
        self.share.tokens()
    }

    /// Returns how many permits are requested.
    pub(crate) fn units(&self) -> u32 {
        self.share.units()
    }
}

impl Share {
    /// Returns how many permits are requested.
    pub(crate) fn units(self) -> u32 {
        match self {
            Self::Units(units) => units,
            Self::Whole { .. }
            | Self::Read
            | Self::ReadAfterWriters { .. }
            | Self::Nothing
            | Self::Element(_) => 0,
        }
    }
}

impl Verdict {
    /// A grant without a token.
    pub(crate) const GRANTED: Self = Self::Granted { token: None, element: None };
}

/// A fencing token: a later hold of a name has a higher token.
pub(crate) type Token = NonZero<u64>;

/// What a rejected request leaves in the store, such as a queue entry of its owner. The store
/// removes the queue entry when the owner acquires the lock or withdraws.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// The owner gets no queue entry, but keeps an existing entry.
    Kept,
    /// The owner gets a queue entry. The client of the owner is subscribed, so it will receive the
    /// notification that the lock is reserved for the owner.
    Listening,
    /// For objects without a queue: how long the caller has waited. Callers that have waited for a
    /// shorter time leave the permits to this caller.
    Waited(Duration),
}

/// How a hold is released. Only locks distinguish the first two modes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReleaseMode {
    /// The lock is free. All waiters are notified, and the first request acquires the lock.
    Broadcast,
    /// The lock is reserved for the client at the head of the queue, and this client is notified.
    /// Before that, clients without a queue entry may get a yield window, in which they can acquire
    /// the lock. The queue entry of the releasing owner is removed, too.
    HandOver,
    /// The owner of permits of a semaphore is removed, but the permits stay taken, because the
    /// guard was forgotten. A lock is released as by `HandOver`.
    Forget,
    /// Only the queue entry and the reservation are removed. The owner holds nothing and has no
    /// request in flight.
    Leave,
}

/// The reply of a store to a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The claim is rejected, because other owners hold the object or may acquire it first.
    Busy(Taken),
    /// The owner holds the object for the whole lease, which starts now. `token` is the first of
    /// the drawn tokens, which are consecutive numbers. `element` is the claimed element of a
    /// queue.
    Granted { token: Option<Token>, element: Option<Arc<Element>> },
}

/// Why a claim was rejected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Taken {
    /// The holder, if it is known.
    pub(crate) holder: Option<Holder>,
    /// The longest time until the object is free, if that is known.
    pub(crate) at_most: Option<Duration>,
    /// Whether no client has set the number of permits.
    pub(crate) unset: bool,
}

impl Taken {
    /// The holder and the remaining time are unknown, such as for permits or a latch.
    pub(crate) const UNKNOWN: Self = Self { holder: None, at_most: None, unset: false };
}

impl From<Holder> for Taken {
    fn from(holder: Holder) -> Self {
        Self { at_most: holder.remaining, holder: Some(holder), unset: false }
    }
}

/// The result of a release.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReleaseReply {
    /// The hold has ended, and the lock is free or reserved.
    Freed(RemoteWaiters),
    /// The owner did not hold the lock. `holder` is another owner that holds the lock, if any.
    NotHeld { holder: Option<Holder> },
}

impl ReleaseReply {
    /// Returns the holder, if it is known.
    pub(crate) fn holder(self) -> Option<Holder> {
        match self {
            Self::NotHeld { holder } => holder,
            Self::Freed(_) => None,
        }
    }
}

/// The waiters in other clients that a release found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RemoteWaiters {
    /// The release found no waiters, or reserved the lock for one waiter, or the ACL denied the
    /// release notification. After a reservation, more waiters may be in the queue.
    Nobody,
    /// Other clients are subscribed to the releases. They may be waiting, and may have queue
    /// entries.
    Listeners,
    /// No client is queued, but clients without a queue entry are subscribed to the releases. For
    /// this time, the releasing client lets them acquire first.
    Outsiders(Duration),
    /// A yield window of this length began. After this window, the client at the head of the queue
    /// may acquire.
    Next(Duration),
}

/// A hold to renew or to check.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) object: Object,
    pub(crate) owner: Owner,
    pub(crate) share: Share,
    /// The new lease. If `None`, the store only checks the hold.
    pub(crate) ttl: Option<Duration>,
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The store has no such hold.
    NotOwned,
    Renewed,
    /// The store only checked the hold, whose lease ends after this time.
    Held(Duration),
    /// The store did not reply. The hold may still exist.
    Unknown,
}

/// The holder of a lock, as the store returned it.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// let client = leasehold::Client::in_memory();
/// let lock = client.lock("orders:42")?;
/// assert!(lock.holder().await?.is_none());
///
/// let guard = lock.acquire().await?;
/// let holder = lock.holder().await?.expect("the lock is held");
/// assert_eq!(holder.owner(), guard.owner());
/// assert_eq!(holder.count(), 1);
/// assert!(holder.remaining().expect("the hold has a lease").as_secs() >= 29);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holder {
    pub(crate) owner: Owner,
    pub(crate) count: u32,
    pub(crate) remaining: Option<Duration>,
    /// What the client of the holder publishes about itself and this hold.
    pub(crate) client: Option<Arc<ClientInfo>>,
}

impl Holder {
    /// Makes a holder without the information that its client publishes.
    pub(crate) fn new(owner: Owner, count: u32, remaining: Option<Duration>) -> Self {
        Self { owner, count, remaining, client: None }
    }

    /// Returns the holder with its remaining lease now. The store replied `since` ago.
    pub(crate) fn after(self, since: Duration) -> Self {
        Self { remaining: self.remaining.map(|left| left.saturating_sub(since)), ..self }
    }

    /// Returns the owner of the hold.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::in_memory();
    /// let lock = client.lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// let holder = lock.holder().await?.expect("the lock is held");
    /// assert_eq!(holder.owner(), guard.owner());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns how many times the owner holds the lock. After a reentry, the count is more than 1.
    ///
    /// The count is 0 if the owner does not hold the lock, but will be the next to acquire it. This
    /// owner is a waiting writer, or the head of the queue of a fair lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::in_memory();
    /// let lock = client.lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// let holder = lock.holder().await?.expect("the lock is held");
    /// let again = guard.reenter().await?;
    /// assert_eq!(holder.count(), 1); // the count at the time of the call of `holder`
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns how much of the lease was left when the store replied. `None` means that the lease
    /// never ends, because the key has no TTL. Redisson and Leasehold always set a TTL, so another
    /// program removed it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::in_memory();
    /// let lock = client.lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// let holder = lock.holder().await?.expect("the lock is held");
    /// assert!(holder.remaining().is_some_and(|left| left.as_secs() <= 30));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns what the client of the holder publishes about itself. Returns `None` if that client
    /// publishes nothing, or if this client has not read the published information.
    ///
    /// [`Client::inspect`](crate::Client::inspect) reads this information for the first ten
    /// holders. A client with an [`application`](crate::ClientBuilder::application) also reads it
    /// for [`Lock::holder`](crate::Lock::holder) and for
    /// [`Error::TimedOut`](crate::Error::TimedOut).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(holder: leasehold::Holder) {
    /// match holder.client() {
    ///     Some(client) => println!("held by process {} on {}", client.pid, client.host),
    ///     None => println!("held by {}", holder.owner()),
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn client(&self) -> Option<&ClientInfo> {
        self.client.as_deref()
    }

    /// Returns when the hold began, by the clock of the holder's machine. Returns `None` if the
    /// [`client`](Self::client) does not publish this time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(holder: leasehold::Holder) {
    /// println!("held since {:?}", holder.held_since());
    /// # }
    /// ```
    #[must_use]
    pub fn held_since(&self) -> Option<SystemTime> {
        self.client()?.only_hold().map(|(since, _)| since)
    }

    /// Returns the [`reason`](crate::Lock::reason) of the hold, if the [`client`](Self::client)
    /// publishes one.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(holder: leasehold::Holder) {
    /// println!("held for {}", holder.reason().unwrap_or("an unknown reason"));
    /// # }
    /// ```
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.client()?.only_hold()?.1
    }

    /// Writes what the client of the holder publishes.
    fn describe(&self, client: &ClientInfo, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{client}")?;
        if let Some(since) = self.held_since() {
            write!(f, " since {}", in_utc(since))?;
        }
        if let Some(reason) = self.reason() {
            f.write_str(", reason `")?;
            on_one_line(reason, f)?;
            f.write_str("`")?;
        }
        f.write_str(", owner ")
    }
}

/// Shows the owner, such as `8c6d…:42`, and when its lease ends. If the client of the holder
/// publishes information about itself, the text begins with
/// `orders 1.4.2 on web-7 (pid 4711) since 2026-11-25 14:03:11 UTC`. The reason of the hold
/// follows.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(client) = self.client() {
            self.describe(client, f)?;
        }
        match self.remaining {
            Some(left) => write!(f, "`{}`, lease ends in {:?}", self.owner, in_millis(left)),
            None => write!(f, "`{}`, lease never ends", self.owner),
        }
    }
}

/// Rounds down to whole milliseconds.
pub(crate) fn in_millis(time: Duration) -> Duration {
    time - Duration::from_nanos(u64::from(time.subsec_nanos()) % 1_000_000)
}
