//! What is asked of a store, and what it answers.

use std::{fmt, time::Duration};

use super::{Name, Owner};

/// Who wants what, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: Name,
    pub(crate) owner: Owner,
    /// How long a grant lasts unless it is renewed.
    pub(crate) ttl: Duration,
    /// Whether giving it back tells the waiters.
    pub(crate) announced: bool,
}

/// A place in the queue of a lock, taken by a question that was answered with
/// "busy". The lock may be granted to it when somebody gives it back in turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    /// The number of the question among those of its owner.
    pub(crate) number: u64,
    /// How long a grant to it lasts unless it is renewed.
    pub(crate) offer: Duration,
}

/// Where a question stands in a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Queueing {
    pub(crate) place: Place,
    /// The place of an earlier question of the same owner, which this one takes.
    pub(crate) before: Option<Place>,
}

/// How a lock is given back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// Everybody who waits is told, and whoever asks first has it.
    Openly,
    /// The first in the queue has it, unless the queue is empty or somebody waits
    /// who does not queue.
    InTurn {
        /// How many times in a row it has gone so, this time included. With 0 it goes
        /// to nobody this time: the first in the queue is told that it may ask.
        passes: u32,
        /// Where the claim stood in the queue itself, which is given up as well.
        stood: Option<Queueing>,
    },
}

/// A lock that was given to a place in its queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offer {
    pub(crate) name: Name,
    pub(crate) owner: Owner,
    /// The number of the place.
    pub(crate) number: u64,
    /// How many times in a row the lock has gone so.
    pub(crate) passes: u32,
}

/// What a store says to a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Somebody else has it.
    Busy(Holder),
    /// It is the claim's, from now on for its whole ttl.
    Granted,
}

/// What became of a hold that was given back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GivenBack {
    /// It was held, and is free now or the next one's.
    Freed(Others),
    /// It was not held by this owner, but by `holder` or nobody.
    NotHeld { holder: Option<Holder> },
}

/// Who is known to want a lock that was given back, and has to ask for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Others {
    Nobody,
    /// Other clients listen. They may have been waiting, and may queue.
    Listeners,
    /// Somebody waits who does not queue.
    Outsiders,
}

/// A hold to be looked after.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) name: Name,
    pub(crate) owner: Owner,
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

/// Who has a lock, as the store told it at some moment.
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
    /// Who it is.
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

    /// How many times it holds: more than 1 after re-entry.
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

/// As in "`8c6d…:42` for another 12.3s".
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remaining {
            Some(left) => write!(f, "`{}` for another {:?}", self.owner, in_millis(left)),
            None => write!(f, "`{}`, without an end", self.owner),
        }
    }
}

/// Rounded down to what a person wants to read.
pub(crate) fn in_millis(time: Duration) -> Duration {
    time - Duration::from_nanos(u64::from(time.subsec_nanos()) % 1_000_000)
}
