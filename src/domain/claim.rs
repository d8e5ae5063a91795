//! Requests to a store, and its replies.

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

/// The part of its object that a claim requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Share {
    /// All of it. The grant draws this number of fencing tokens, one for each hold that may come
    /// from it.
    Whole { tokens: u32 },
    /// A read lock.
    Beside,
    /// A read lock that yields to writers that began to wait earlier. `waited` is in milliseconds.
    Behind { waited: u32 },
    /// This number of permits.
    Units(u32),
    /// No part of it: the caller only waits.
    Nothing,
    /// An element of a queue, and what happens to it at the end of the claim.
    Element(Ending),
}

/// What happens to the element of a claim at the end of the claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// It goes back to the head of the queue.
    Back,
    /// The element that was taken at this time is done. If a late request has taken another one,
    /// that one goes back.
    Done { taken_at: u64 },
    /// It is set aside, because its codec cannot read it. Otherwise as `Done`.
    Aside { taken_at: u64 },
}

/// A claimed element of a queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Element {
    /// When it was taken, in microseconds since 1970 on the clock of the server.
    pub(crate) taken_at: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Maximum number of tokens that one grant draws, for the waiters of this process. Unused tokens
/// leave a gap, which is harmless.
const MOST_TOKENS: usize = 64;

/// Maximum of a token counter that a caller may set, so that grants are still possible after it.
/// Scripts count up to 2^53 - 1.
pub(crate) const MOST_TOKEN: u64 = (1 << 53) - 1 - MOST_TOKENS as u64;

impl Share {
    /// All of it, without tokens.
    pub(crate) const WHOLE: Self = Self::Whole { tokens: 0 };

    /// All of it, with one token.
    pub(crate) const FENCED: Self = Self::Whole { tokens: 1 };

    /// Returns what to request after the caller has `waited`, with `in_line` other waiters behind
    /// it.
    pub(crate) fn now(self, waited: Duration, in_line: impl FnOnce() -> usize) -> Self {
        match self {
            Self::Whole { tokens: 0 } => self,
            Self::Whole { .. } => {
                let most = in_line().saturating_add(1).min(MOST_TOKENS);
                Self::Whole { tokens: u32::try_from(most).unwrap_or(1) }
            }
            Self::Behind { .. } => {
                Self::Behind { waited: u32::try_from(waited.as_millis()).unwrap_or(u32::MAX) }
            }
            Self::Beside | Self::Units(_) | Self::Nothing | Self::Element(_) => self,
        }
    }

    /// Returns how many fencing tokens are requested.
    pub(crate) fn tokens(self) -> u32 {
        match self {
            Self::Whole { tokens } => tokens,
            Self::Beside
            | Self::Behind { .. }
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

    /// Returns whether no lease ends the grant.
    pub(crate) fn is_endless(&self) -> bool {
        self.ttl == CENTURY
    }

    /// Returns whether this claims plain semaphore permits, which have no owner. The result of
    /// their release is stored for a retry.
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
            | Self::Beside
            | Self::Behind { .. }
            | Self::Nothing
            | Self::Element(_) => 0,
        }
    }
}

impl Verdict {
    /// A grant without a token.
    pub(crate) const GRANTED: Self = Self::Granted { token: None, element: None };
}

/// A number that grows with each hold of a name.
pub(crate) type Token = NonZero<u64>;

/// The effect of a rejected request on the queue of the lock. A queue entry belongs to its owner.
/// It ends when the owner acquires the lock or withdraws.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// The entry that it has, if it has one.
    Kept,
    /// The entry of a client that is notified when the lock is reserved for it.
    Listening,
    /// For objects without a queue: how long the caller has waited. Callers that came later leave
    /// its permits to it.
    Waited(Duration),
}

/// The way in which a hold is released. Only locks distinguish the first two modes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReleaseMode {
    /// Notifies all waiters; the first request acquires it.
    Broadcast,
    /// Reserves it for the head of the queue, which is notified. Before that, a yield window lets
    /// clients without a queue entry acquire. The queue entry of the releasing owner is removed,
    /// too.
    HandOver,
    /// Removes the claim, but leaves its permits taken, for a next holder that the store does not
    /// know. A lock is removed and handed over.
    Forget,
    /// Removes only the queue entry and the reservation. The claim holds nothing and has no request
    /// in flight.
    Leave,
}

/// The reply of a store to a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Others hold it.
    Busy(Taken),
    /// The claim holds it from now on for its whole lease. `token` is the first of the drawn
    /// tokens; the others follow it. `element` is that of a queue.
    Granted { token: Option<Token>, element: Option<Arc<Element>> },
}

/// The obstacle to a grant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Taken {
    /// The holder, if it is known.
    pub(crate) holder: Option<Holder>,
    /// The longest time until it is free, if that is known.
    pub(crate) at_most: Option<Duration>,
    /// Whether the number of permits was never set.
    pub(crate) unset: bool,
}

impl Taken {
    /// Too few permits are free, or earlier waiters go first.
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
    /// The hold has ended; the lock is free or reserved.
    Freed(RemoteWaiters),
    /// This owner did not hold it. `holder` did, if there is one.
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

/// The known waiters of a released lock in other clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RemoteWaiters {
    /// No waiters; or the lock is reserved, and others may queue behind.
    Nobody,
    /// Other clients listen. They may be waiting, and may have queue entries.
    Listeners,
    /// Clients without a queue entry may acquire first, for this time.
    Outsiders(Duration),
    /// The same, and then the head of the queue may acquire.
    Next(Duration),
}

/// A hold to renew or to check.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) object: Object,
    pub(crate) owner: Owner,
    pub(crate) share: Share,
    /// The new lease. Without it, the hold is only checked.
    pub(crate) ttl: Option<Duration>,
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The store has no such hold.
    NotOurs,
    Renewed,
    /// No reply. This does not prove a loss.
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
/// let holder = lock.holder().await?.expect("it is held");
/// assert_eq!(holder.owner(), guard.owner());
/// assert_eq!(holder.count(), 1);
/// assert!(holder.remaining().expect("it has a lease").as_secs() >= 29);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holder {
    pub(crate) owner: Owner,
    pub(crate) count: u32,
    pub(crate) remaining: Option<Duration>,
    /// What its client publishes about itself and this hold.
    pub(crate) client: Option<Arc<ClientInfo>>,
}

impl Holder {
    /// Returns the holder as the store returns it, without what its client publishes.
    pub(crate) fn new(owner: Owner, count: u32, remaining: Option<Duration>) -> Self {
        Self { owner, count, remaining, client: None }
    }

    /// Returns what this holder is now, if the store returned it `since` ago.
    pub(crate) fn after(self, since: Duration) -> Self {
        Self { remaining: self.remaining.map(|left| left.saturating_sub(since)), ..self }
    }

    /// Its owner.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::in_memory();
    /// let lock = client.lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// let holder = lock.holder().await?.expect("it is held");
    /// assert_eq!(holder.owner(), guard.owner());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns how many times the owner holds the lock. It is more than 1 after a reentry. It is 0
    /// for a waiter that goes first: a writer, or the head of the queue of a fair lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::in_memory();
    /// let lock = client.lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// let holder = lock.holder().await?.expect("it is held");
    /// let again = guard.reenter().await?;
    /// assert_eq!(holder.count(), 1); // as it was when we asked
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the time that the lease had left. `None` means that the lease never ends, because
    /// someone removed the TTL of the key. Neither Redisson nor Leasehold does that.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::in_memory();
    /// let lock = client.lock("orders:42")?;
    /// let guard = lock.acquire().await?;
    /// let holder = lock.holder().await?.expect("it is held");
    /// assert!(holder.remaining().is_some_and(|left| left.as_secs() <= 30));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns what its client publishes about itself, if it does and the caller reads it.
    ///
    /// [`Client::inspect`](crate::Client::inspect) reads it for the first ten holders. A client
    /// with an [`application`](crate::ClientBuilder::application) also reads it for
    /// [`Lock::holder`](crate::Lock::holder) and for [`Error::TimedOut`](crate::Error::TimedOut).
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

    /// Returns since when it has held the object, by the clock of its machine, if its
    /// [`client`](Self::client) publishes it.
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

    /// Returns the [`reason`](crate::Lock::reason) of the hold, if its [`client`](Self::client)
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

    /// Writes what its client publishes.
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

/// Shows `8c6d…:42`, and when its lease ends. If its client publishes more, it begins with that:
/// `orders 1.4.2 on web-7 (pid 4711) since 2026-11-25 14:03:11 UTC`, and the reason.
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
