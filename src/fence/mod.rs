//! Receivers that reject late writes.
//!
//! If a holder is paused for longer than its lease, it may write after another holder has acquired
//! the lock. No lock on Redis can prevent such a late write. A [`FencedLock`](crate::FencedLock)
//! gives each hold a token, a number that is higher than the tokens of all earlier holds. The
//! receiver rejects a write whose token is lower than the highest token that it has seen.
//!
//! The receiver stores the newest token next to the data. In one step, the receiver compares the
//! tokens, and writes the data and the new token:
//!
//! | the data is in | receiver |
//! |---|---|
//! | the memory of a Rust process | [`Gate`] |
//! | Redis | [`redis`]: scripts that your own Redis client sends |
//! | an SQL database | a column for the token, and a condition of the `UPDATE`: see [the guide](crate::docs::guide::correctness#fencing) |
//!
//! Use only one lock for the data, because tokens of different locks cannot be compared. If Redis
//! loses the counter of tokens, new tokens cannot be compared with old tokens. A failover may
//! lose the last tokens of the counter. The new primary then grants these tokens a second time,
//! unless the lock is [`replicated`](crate::FencedLock::replicated).

mod gate;
pub mod redis;

use std::{error, fmt};

pub use self::gate::Gate;

/// The error of a rejected write: a holder with a newer token has already written.
///
/// # Examples
///
/// ```
/// let gate = leasehold::fence::Gate::new();
/// gate.pass("orders:42", 2).unwrap();
/// let late = gate.pass("orders:42", 1).unwrap_err();
/// let text = "write to `orders:42` rejected: token 1 is older than token 2 of an earlier write; \
///     stop the work, because its lock is lost";
/// assert_eq!(late.to_string(), text);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stale {
    resource: String,
    token: u64,
    newest: u64,
}

impl Stale {
    /// Returns the resource of the rejected write.
    ///
    /// # Examples
    ///
    /// ```
    /// # let gate = leasehold::fence::Gate::new();
    /// # gate.pass("orders:42", 2).unwrap();
    /// assert_eq!(gate.pass("orders:42", 1).unwrap_err().resource(), "orders:42");
    /// ```
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the token of the rejected write.
    ///
    /// # Examples
    ///
    /// ```
    /// # let gate = leasehold::fence::Gate::new();
    /// # gate.pass("orders:42", 2).unwrap();
    /// assert_eq!(gate.pass("orders:42", 1).unwrap_err().token(), 1);
    /// ```
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the newest token that the receiver had seen.
    ///
    /// # Examples
    ///
    /// ```
    /// # let gate = leasehold::fence::Gate::new();
    /// # gate.pass("orders:42", 2).unwrap();
    /// assert_eq!(gate.pass("orders:42", 1).unwrap_err().newest(), 2);
    /// ```
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.newest
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, token, newest } = self;
        write!(
            f,
            "write to `{resource}` rejected: token {token} is older than token {newest} of an \
             earlier write; stop the work, because its lock is lost"
        )
    }
}

impl error::Error for Stale {}
