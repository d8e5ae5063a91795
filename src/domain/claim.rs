//! What is asked of a store, and what it answers.

use std::{fmt, num::NonZero, time::Duration};

use super::{CENTURY, Name, Object, Owner};

/// The request for a hold: its owner, object and lease.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) object: Object,
    pub(crate) owner: Owner,
    /// How long a grant lasts unless it is renewed.
    pub(crate) ttl: Duration,
    pub(crate) share: Share,
}

/// How much of its object a claim is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Share {
    /// All of it. So many fencing tokens are drawn with the grant: one for each hold that may be
    /// made of it, or none.
    Whole { tokens: u32 },
    /// One of many who have it together.
    Beside,
    /// The same, of one that lets those go first who have waited to have it all for so many
    /// milliseconds already, and longer: those who came before it.
    Behind { waited: u32 },
    /// So many permits.
    Units(u32),
    /// Nothing of it: it is only waited for.
    Nothing,
}

/// The most tokens that a grant draws at once, for those who wait here. What is not used is
/// a gap, which harms nobody.
const MOST_TOKENS: usize = 64;

/// The greatest number that a counter of tokens may be raised to: grants are possible after it.
/// Scripts count up to 2^53 - 1.
pub(crate) const MOST_TOKEN: u64 = (1 << 53) - 1 - MOST_TOKENS as u64;

impl Share {
    /// All of it, without tokens.
    pub(crate) const WHOLE: Self = Self::Whole { tokens: 0 };

    /// All of it, with a token for each hold.
    pub(crate) const FENCED: Self = Self::Whole { tokens: 1 };

    /// What to ask for after one has `waited`, with so many others `in_line` behind.
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
            Self::Beside | Self::Units(_) | Self::Nothing => self,
        }
    }

    /// How many fencing tokens are wanted.
    pub(crate) fn tokens(self) -> u32 {
        match self {
            Self::Whole { tokens } => tokens,
            Self::Beside | Self::Behind { .. } | Self::Units(_) | Self::Nothing => 0,
        }
    }
}

impl Claim {
    pub(crate) fn name(&self) -> &Name {
        &self.object.name
    }

    /// Whether no lease ends what is granted.
    pub(crate) fn is_endless(&self) -> bool {
        self.ttl == CENTURY
    }

    /// Whether it is a number that has no owner: what its release says is for who asks later.
    pub(crate) fn is_number(&self) -> bool {
        self.is_endless() && matches!(self.share, Share::Units(_))
    }

    /// A claim to a lock, without tokens.
    #[cfg(test)]
    pub(crate) fn plain(object: Object, owner: Owner, ttl: Duration) -> Self {
        Self { object, owner, ttl, share: Share::WHOLE }
    }

    /// How many fencing tokens are wanted.
    pub(crate) fn tokens(&self) -> u32 {
        self.share.tokens()
    }

    /// How many permits are wanted.
    pub(crate) fn units(&self) -> u32 {
        self.share.units()
    }
}

impl Share {
    /// How many permits it is.
    pub(crate) fn units(self) -> u32 {
        match self {
            Self::Units(units) => units,
            Self::Whole { .. } | Self::Beside | Self::Behind { .. } | Self::Nothing => 0,
        }
    }
}

impl Verdict {
    /// A grant without a token.
    pub(crate) const GRANTED: Self = Self::Granted { token: None };
}

/// A number that grows with each hold of a name.
pub(crate) type Token = NonZero<u64>;

/// What a question that is answered "busy" leaves in the queue of the lock. A place
/// is its owner's: it goes when the owner is granted the lock, or withdraws.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// The place that it has, if it has one.
    Kept,
    /// A place of a client that is notified when the lock is reserved for it.
    Listening,
    /// Where nobody queues: it has waited for so long, and who came later is to leave it
    /// what it wants.
    Waited(Duration),
}

/// How a hold is given back. Only locks tell the first two apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReleaseMode {
    /// All waiters are notified, and the first request acquires it.
    Broadcast,
    /// It is reserved for the next in the queue, which is notified; in between it is left
    /// to those who do not queue. The place of who gives back goes as well.
    HandOver,
    /// It is nobody's, and not free: who has it from now on, the store need not know. Of a
    /// lock nothing is left then, and it is handed over.
    Forget,
    /// The claim has nothing, and no question of it is on its way: only its place goes, and
    /// what is left to it.
    Leave,
}

/// What a store says to a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Others have it.
    Busy(Taken),
    /// It is the claim's, from now on for its whole ttl; with the first of the tokens that
    /// were to be drawn. The others follow it.
    Granted { token: Option<Token> },
}

/// What is in the way of a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Taken {
    /// The holder, if it has a name.
    pub(crate) holder: Option<Holder>,
    /// When it is free at the latest, if that is known.
    pub(crate) at_most: Option<Duration>,
    /// Whether nobody has set how many permits there are.
    pub(crate) unset: bool,
}

impl Taken {
    /// Too little of it is free; or others who wait go first.
    pub(crate) const UNKNOWN: Self = Self { holder: None, at_most: None, unset: false };
}

impl From<Holder> for Taken {
    fn from(holder: Holder) -> Self {
        Self { at_most: holder.remaining, holder: Some(holder), unset: false }
    }
}

/// What became of a hold that was given back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GivenBack {
    /// It was held, and is free now or the next one's.
    Freed(RemoteWaiters),
    /// It was not held by this owner, but by `holder` or nobody.
    NotHeld { holder: Option<Holder> },
}

impl GivenBack {
    /// The holder, if it is known.
    pub(crate) fn holder(self) -> Option<Holder> {
        match self {
            Self::NotHeld { holder } => holder,
            Self::Freed(_) => None,
        }
    }
}

/// The known waiters of a released lock in other clients, which have to ask for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RemoteWaiters {
    /// Nobody; or it is reserved, and others may queue behind.
    Nobody,
    /// Other clients listen. They may have been waiting, and may queue.
    Listeners,
    /// Those who do not queue may ask first, for so long.
    Outsiders(Duration),
    /// The same, and after that the next in the queue asks.
    Next(Duration),
}

/// A hold to be looked after.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) object: Object,
    pub(crate) owner: Owner,
    pub(crate) share: Share,
    /// The new lease; without one the hold is only looked at.
    pub(crate) ttl: Option<Duration>,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The store knows no such hold.
    NotOurs,
    Renewed,
    /// No answer: silence is not loss.
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
}

impl Holder {
    /// What is known of it, when that was said so long ago.
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

    /// How many times it holds: more than 1 after re-entry; 0 of one that waits to write, and is
    /// let go first.
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

    /// How long the lease had still to go. `None` if somebody took the lease
    /// off the key, so that it never ends: neither Redisson nor Leasehold does.
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
}

/// Shows `8c6d…:42`, and when its lease ends.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remaining {
            Some(left) => write!(f, "`{}`, lease ends in {:?}", self.owner, in_millis(left)),
            None => write!(f, "`{}`, lease never ends", self.owner),
        }
    }
}

/// Rounded down to what a person wants to read.
pub(crate) fn in_millis(time: Duration) -> Duration {
    time - Duration::from_nanos(u64::from(time.subsec_nanos()) % 1_000_000)
}
