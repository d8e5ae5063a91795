//! Receivers that let no late write pass.
//!
//! A holder that stood still for longer than its lease writes late, and no lock on Redis can keep
//! it from that. A [`FencedLock`](crate::FencedLock) numbers its holds; who receives a
//! write refuses one whose number is smaller than one that it has seen.

use std::{collections::HashMap, error, fmt};

use crate::domain::Mutex;

/// Remembers the newest token of each resource, in memory, and lets nothing older pass.
///
/// For a server in Rust that owns what it guards. What must outlive a restart belongs beside
/// the data, written in the same transaction.
///
/// It keeps one number for each resource that it has seen, for as long as it lives.
///
/// # Examples
///
/// ```
/// use leasehold::fence::Gate;
/// let gate = Gate::new();
/// assert!(gate.pass("orders:42", 7).is_ok());
/// assert!(gate.pass("orders:42", 7).is_ok(), "the same hold may write again");
/// let late = gate.pass("orders:42", 6).unwrap_err();
/// assert_eq!((late.token(), late.newest()), (6, 7));
/// ```
#[derive(Debug, Default)]
pub struct Gate {
    newest: Mutex<HashMap<String, u64>>,
}

impl Gate {
    /// A gate that has seen nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(leasehold::fence::Gate::new().pass("orders:42", 1).is_ok());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a write to `resource` pass whose holder has this `token`.
    ///
    /// Hold what guards the resource while you call it and write: between the two a newer
    /// write must not come.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a newer token has passed: the write must not happen.
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = leasehold::fence::Gate::new();
    /// gate.pass("orders:42", 2).unwrap();
    /// assert!(gate.pass("orders:42", 1).is_err());
    /// ```
    pub fn pass(&self, resource: &str, token: u64) -> Result<(), Stale> {
        let mut seen = self.newest.lock();
        match seen.get_mut(resource) {
            Some(newest) if token < *newest => {
                return Err(Stale { resource: resource.to_owned(), token, newest: *newest });
            }
            Some(newest) => *newest = token,
            None => drop(seen.insert(resource.to_owned(), token)),
        }
        Ok(())
    }
}

/// A write whose hold is older than one that has written already.
///
/// # Examples
///
/// ```
/// let gate = leasehold::fence::Gate::new();
/// gate.pass("orders:42", 2).unwrap();
/// let late = gate.pass("orders:42", 1).unwrap_err();
/// assert_eq!(late.to_string(), "`orders:42` was written by hold 2: hold 1 comes too late");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stale {
    resource: String,
    token: u64,
    newest: u64,
}

impl Stale {
    /// What was to be written.
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

    /// The token that is too old.
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

    /// The newest that has passed.
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
        write!(f, "`{resource}` was written by hold {newest}: hold {token} comes too late")
    }
}

impl error::Error for Stale {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_has_a_newest_token_of_its_own() {
        let gate = Gate::new();
        for (resource, token, passes) in
            [("a", 3, true), ("b", 1, true), ("a", 2, false), ("a", 3, true), ("b", 2, true)]
        {
            assert_eq!(gate.pass(resource, token).is_ok(), passes, "{resource} {token}");
        }
    }
}
