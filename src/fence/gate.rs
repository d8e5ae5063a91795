//! A receiver that keeps its tokens in memory.

use std::{collections::HashMap, sync::Arc};

use super::Stale;
use crate::domain::Mutex;

/// Remembers the newest token of each resource in memory, and rejects older tokens.
///
/// A gate is for a Rust process that keeps the data itself. The gate forgets all tokens when the
/// process ends. If the data outlives the process, store the token with the data, in the same
/// transaction.
///
/// The gate rejects an old token only after it has seen a newer token. So if a holder reads the
/// data, decides and then writes, the holder must pass its token before it reads. Otherwise a late
/// write of an earlier holder may change the data after the read.
///
/// The gate keeps one token for each resource, until [`forget`](Self::forget) removes it.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use leasehold::fence::Gate;
///
/// let (gate, total) = (Gate::new(), AtomicU32::new(0));
/// let write = |value, token| gate.write("orders:42", token, || total.store(value, Relaxed));
///
/// assert!(write(10, 7).is_ok());
/// assert!(write(15, 7).is_ok(), "the same hold may write again");
/// let late = write(11, 6).unwrap_err();
/// assert_eq!((late.token(), late.newest()), (6, 7));
/// assert_eq!(total.into_inner(), 15);
/// ```
#[derive(Debug, Default)]
pub struct Gate {
    /// A thread unlocks the map before it locks the token of a resource. So a slow write blocks no
    /// writes to other resources.
    newest: Mutex<HashMap<String, Arc<Mutex<u64>>>>,
}

impl Gate {
    /// Creates a gate that has seen no token.
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

    /// Calls `write`, unless a token newer than `token` has passed for `resource`.
    ///
    /// No other write to `resource` through this gate runs between the check and the end of
    /// `write`.
    ///
    /// Keep `write` short, because other writers of the same resource block their threads until
    /// `write` ends. Writers of other resources do not wait. In `write`, do not use this gate for
    /// the same resource, because the call would wait for itself for ever. If `write` panics, its
    /// token still counts as seen.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a newer token has passed. In this case, `write` was not called.
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = leasehold::fence::Gate::new();
    /// assert_eq!(gate.write("orders:42", 2, || "written"), Ok("written"));
    /// assert!(gate.write("orders:42", 1, || unreachable!("too late")).is_err());
    /// ```
    pub fn write<T>(
        &self,
        resource: &str,
        token: u64,
        write: impl FnOnce() -> T,
    ) -> Result<T, Stale> {
        let entry = self.entry(resource);
        let mut newest = entry.lock();
        if token < *newest {
            return Err(Stale { resource: resource.to_owned(), token, newest: *newest });
        }
        *newest = token;
        Ok(write())
    }

    /// Checks the `token` of an asynchronous write to `resource`.
    ///
    /// [`write`](Self::write) takes a closure, which cannot await. If your write awaits, call this
    /// method first.
    ///
    /// Protect the resource by a mutex of your own, such as a `tokio::sync::Mutex`, and keep it
    /// locked during this call and the write. Otherwise a newer write may happen between the call
    /// and your write.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a newer token has passed. In this case, do not write.
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = leasehold::fence::Gate::new();
    /// gate.pass("orders:42", 2).unwrap();
    /// assert!(gate.pass("orders:42", 1).is_err());
    /// ```
    pub fn pass(&self, resource: &str, token: u64) -> Result<(), Stale> {
        self.write(resource, token, || ())
    }

    /// Forgets the token of `resource`, which frees its memory.
    ///
    /// After this call, **any token passes** for `resource`. So forget the token only if the
    /// resource no longer exists, or if no holder of an older token can still run. The call does
    /// not wait for a running write.
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = leasehold::fence::Gate::new();
    /// gate.pass("orders:42", 2).unwrap();
    /// gate.forget("orders:42");
    /// assert!(gate.pass("orders:42", 1).is_ok(), "it would be refused otherwise");
    /// ```
    pub fn forget(&self, resource: &str) {
        self.newest.lock().remove(resource);
    }

    fn entry(&self, resource: &str) -> Arc<Mutex<u64>> {
        let mut all = self.newest.lock();
        if let Some(entry) = all.get(resource) {
            return entry.clone();
        }
        all.entry(resource.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::mpsc,
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn gate_keeps_the_newest_token_of_each_resource() {
        let gate = Gate::new();
        for (resource, token, passes) in
            [("a", 3, true), ("b", 1, true), ("a", 2, false), ("a", 3, true), ("b", 2, true)]
        {
            assert_eq!(gate.pass(resource, token).is_ok(), passes, "{resource} {token}");
        }
    }

    #[test]
    fn gate_distinguishes_tokens_beyond_float_precision() {
        let gate = Gate::new();
        gate.pass("a", u64::MAX).unwrap();
        assert_eq!(gate.pass("a", u64::MAX - 1).unwrap_err().newest(), u64::MAX);
    }

    #[test]
    fn newer_write_waits_for_an_older_write_to_the_same_resource() {
        let (gate, (done, is_done)) = (Gate::new(), mpsc::channel());
        thread::scope(|scope| {
            let older = gate.write("a", 1, || {
                scope.spawn(|| gate.write("a", 2, || done.send("newer").unwrap()));
                gate.pass("b", 1).unwrap();
                assert!(is_done.recv_timeout(Duration::from_millis(100)).is_err());
                done.send("older").unwrap();
            });
            older.unwrap();
        });
        drop(done);
        assert_eq!(is_done.iter().collect::<Vec<_>>(), ["older", "newer"]);
    }

    #[test]
    fn panicked_write_blocks_only_older_tokens() {
        let gate = Gate::new();
        let write = || gate.write("a", 2, || panic!("on purpose"));
        catch_unwind(AssertUnwindSafe(write)).unwrap_err();
        assert_eq!(gate.pass("a", 1).unwrap_err().newest(), 2);
        assert!(gate.pass("a", 3).is_ok());
    }

    #[test]
    fn forgotten_resource_uses_no_memory_and_accepts_any_token() {
        let gate = Gate::new();
        gate.pass("a", 2).unwrap();
        gate.forget("a");
        assert!(gate.newest.lock().is_empty());
        assert!(gate.pass("a", 1).is_ok());
    }
}
