//! A simulated server in this process, for the tests of programs that use locks.
//!
//! Clients use a simulated server and a real server by the same code, but no bytes leave the
//! process.

use std::fmt;

use leasehold_twin::Twin;

use super::{Connector, RedisStore, keys, kinds::queue::element};
use crate::domain::Name;

/// A simulated Redis in this process, which several clients may share.
///
/// A test can make the server lose a hold, stall or fail, and check how the program reacts. The
/// server follows tokio's clock: under `tokio::time::pause`, leases end in virtual time. A clone is
/// a handle of the same server.
///
/// # Examples
///
/// A test of a job that loses its lock:
///
/// ```
/// use leasehold::{Client, LostReason, MemoryStore};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let store = MemoryStore::new();
/// let client = Client::with_store(&store);
///
/// let guard = client.lock("nightly-close")?.acquire().await?;
/// store.lose("nightly-close"); // as a failover would
///
/// // the next renewal detects the loss: after ten seconds, but at once under a paused clock
/// assert_eq!(guard.lost().await, LostReason::NotOwned);
/// assert!(!guard.is_held());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    server: Twin,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { server: Twin::new(fastrand::u64(..)) }
    }
}

impl MemoryStore {
    /// Returns a new, empty server.
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// let one = leasehold::Client::with_store(&store);
    /// let other = leasehold::Client::with_store(&store);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Deletes the holds of `name` without a message, and returns whether `name` was held.
    ///
    /// Redis loses holds in a restart without its data, or in a failover before the replica has the
    /// hold. The held permits of an expirable semaphore become free. A semaphore with held permits
    /// is deleted. The claimed elements of a queue go back to its head. The members of a barrier
    /// hold nothing, so use [`lose_everything`](Self::lose_everything) for a barrier. Only that
    /// method makes a server of a quorum lose its vote. The name of a map deletes the map. For the
    /// lock of a key, pass the name of the lock: `store.lose(map.lock("42")?.name().as_str())`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, MemoryStore, Release};
    /// let store = MemoryStore::new();
    /// let guard = Client::with_store(&store).lock("job")?.acquire().await?;
    /// assert!(store.lose("job"));
    /// assert!(matches!(guard.release().await?, Release::NotHeld { .. }));
    /// # Ok(()) }
    /// ```
    pub fn lose(&self, name: &str) -> bool {
        let Ok(name) = Name::new(name) else { return false };
        let leased = self.lose_leases(&name);
        let claimed = self.lose_claims(&name);
        let is_data = matches!(self.server.kind(name.as_str()), Some("string" | "list"));
        let counted = self.server.delete(&keys::holders(&name));
        let held = !is_data && self.server.delete(name.as_str());
        if counted {
            self.server.delete(name.as_str());
        }
        let readers = self.server.keys().into_iter().filter(|key| keys::is_reader(key, &name));
        for key in readers {
            self.server.delete(&key);
        }
        leased || claimed || counted || held
    }

    /// Frees the held permits of `name`. Returns whether any permits were held.
    fn lose_leases(&self, name: &Name) -> bool {
        let leases = keys::leases(name);
        let Some(held) = self.server.zset(&leases) else { return false };
        self.server.delete(&leases);
        let text = |bytes| String::from_utf8(bytes).ok()?.parse::<usize>().ok();
        let free = self.server.text(name.as_str()).and_then(text).unwrap_or_default();
        self.server.set_text(name.as_str(), (free + held.len()).to_string().as_bytes());
        true
    }

    /// Puts the claimed elements back into the queue `name`. Returns whether any were claimed.
    fn lose_claims(&self, name: &Name) -> bool {
        let claims = keys::claims(name);
        let Some(owners) = self.server.hash(&claims) else { return false };
        let claimed = owners.keys().filter_map(|owner| self.server.field(&claims, owner));
        let mut elements: Vec<_> = claimed.filter_map(|claim| element(&claim)).collect();
        elements.sort_by_key(|element| element.taken_at);
        self.server.delete(&claims);
        self.server.delete(&keys::claimants(name));
        self.server.prepend(name.as_str(), elements.into_iter().map(|element| element.bytes));
        true
    }

    /// Deletes everything without a message: all holds, tokens, semaphores, latches, and data.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let store = leasehold::MemoryStore::new();
    /// let lock = leasehold::Client::with_store(&store).lock("job")?;
    /// let guard = lock.acquire().await?;
    /// store.lose_everything();
    /// assert!(!lock.is_locked().await?);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn lose_everything(&self) {
        self.server.forget_everything();
    }

    /// Stops the server, like SIGSTOP. The server does not reply until [`resume`](Self::resume).
    ///
    /// A call that does not wait fails after the `request_timeout` of its client. Default: 3 s.
    ///
    /// # Examples
    ///
    /// A hold that cannot be renewed ends at its local deadline:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, LostReason, MemoryStore};
    /// let store = MemoryStore::new();
    /// let guard = Client::with_store(&store).lock("job")?.acquire().await?;
    /// store.stall();
    /// assert_eq!(guard.lost().await, LostReason::Expired);
    /// # Ok(()) }
    /// ```
    pub fn stall(&self) {
        self.server.stop();
    }

    /// Lets a stalled server continue. The server executes the requests that it received while it
    /// was stalled.
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// store.stall();
    /// store.resume();
    /// ```
    pub fn resume(&self) {
        self.server.resume();
    }

    /// Makes the server reject every request with this text. As in Redis, the text begins with an
    /// error code.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let store = leasehold::MemoryStore::new();
    /// let lock = leasehold::Client::with_store(&store).lock("job")?;
    /// store.fail("OOM command not allowed");
    /// assert!(matches!(lock.acquire().await, Err(leasehold::Error::NotReady { .. })));
    /// # Ok(()) }
    /// ```
    pub fn fail(&self, words: &str) {
        self.server.fail(Some(words));
    }

    /// Makes the server accept requests again after [`fail`](Self::fail).
    ///
    /// # Examples
    ///
    /// ```
    /// let store = leasehold::MemoryStore::new();
    /// store.fail("LOADING Redis is loading the dataset in memory");
    /// store.heal();
    /// ```
    pub fn heal(&self) {
        self.server.fail(None);
    }

    /// Sets the number of replicas, each of which acknowledges writes at once.
    ///
    /// A new server has no replicas. Replicas matter for locks with
    /// [`Lock::replicated`](crate::Lock::replicated).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, Error, MemoryStore, Replicas};
    /// let store = MemoryStore::new();
    /// let lock = Client::with_store(&store).lock("job")?.replicated(Replicas::at_least(1));
    /// assert!(matches!(lock.acquire().await, Err(Error::NotReplicated { got: 0, .. })));
    /// store.set_replicas(1);
    /// assert!(lock.acquire().await.is_ok());
    /// # Ok(()) }
    /// ```
    pub fn set_replicas(&self, number: u32) {
        let number = usize::try_from(number).unwrap_or(usize::MAX / 2);
        self.server.acknowledge_as(number);
    }

    /// Returns the value that [`Write::set`](crate::Write::set) wrote under `key`, or `None` if the
    /// key does not exist.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, MemoryStore, Write};
    /// let store = MemoryStore::new();
    /// let guard = Client::with_store(&store).lock("stock:42")?.acquire().await?;
    /// guard.write([Write::set("stock:42:left", "7")]).await?;
    /// assert_eq!(store.value("stock:42:left").as_deref(), Some(&b"7"[..]));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn value(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.server.text(key)
    }

    /// Returns the value of a field that [`Write::hset`](crate::Write::hset) wrote, or `None` if
    /// the field does not exist.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, MemoryStore, Write};
    /// let store = MemoryStore::new();
    /// let guard = Client::with_store(&store).lock("stock:42")?.acquire().await?;
    /// guard.write([Write::hset("stock:42:by-colour", "red", "7")]).await?;
    /// assert_eq!(store.field("stock:42:by-colour", "red").as_deref(), Some(&b"7"[..]));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn field(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.server.field(key, field)
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> Vec<String> {
        self.server.keys()
    }

    /// Returns a store for the client called `client_id`. The store connects at its first request.
    pub(crate) fn store(&self, client_id: &str) -> RedisStore {
        RedisStore::simulated(&self.server, client_id)
    }
}

/// Makes streams to a simulated server.
pub(super) fn connector(server: &Twin) -> Connector {
    let server = server.clone();
    Connector::by(move || {
        let server = server.clone();
        async move { server.connect().await }
    })
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}
