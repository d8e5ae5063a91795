//! Receivers that reject late writes.
//!
//! A holder that was paused for longer than its lease writes late, and no lock on Redis can
//! prevent that. A [`FencedLock`](crate::FencedLock) numbers its holds; the
//! receiver rejects a write whose number is smaller than the newest one that it has seen.
//!
//! Store the newest number next to the data. Compare it and write both in one step:
//!
//! | the data lies in | its receiver |
//! |---|---|
//! | a server in Rust | [`Gate`] |
//! | Redis | [`redis`]: scripts for the client that you have |
//! | an SQL database | a column, and a condition of the `UPDATE`: [the guide](crate::docs::guide::correctness#fencing) |
//!
//! Use one lock for the data, because tokens of different locks cannot be compared, and neither can
//! tokens from before and after the loss of a counter. A failover may lose the last tokens of a
//! counter, which are then granted twice, unless the lock is
//! [`replicated`](crate::FencedLock::replicated).

mod gate;
pub mod redis;

use std::{error, fmt};

pub use self::gate::Gate;

/// A write whose token is older than one that has written.
///
/// # Examples
///
/// ```
/// let gate = leasehold::fence::Gate::new();
/// gate.pass("orders:42", 2).unwrap();
/// let late = gate.pass("orders:42", 1).unwrap_err();
/// let text = "stale write to `orders:42`: token 1 is older than 2, which has written";
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

    /// Returns the token that is too old.
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

    /// Returns the newest token so far.
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
            "stale write to `{resource}`: token {token} is older than {newest}, which has written"
        )
    }
}

impl error::Error for Stale {}
