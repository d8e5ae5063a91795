//! Two clients on one store in memory, and what the tests do with them.

use std::time::Duration;

use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use leasehold::{Client, Lock, LockGuard, LostReason, MemoryStore, Name, Release, Result};

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// So short that neither polling nor a timer was involved.
pub(crate) const AT_ONCE: Duration = millis(10);

/// A waiter asks by this time even without a notification.
pub(crate) const SECOND_LOOK: Duration = secs(4);

/// Two clients, like two processes.
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) one: Client,
    pub(crate) other: Client,
}

impl World {
    pub(crate) fn new() -> Self {
        let store = MemoryStore::new();
        let (one, other) = (Client::with_store(&store), Client::with_store(&store));
        Self { store, one, other }
    }

    /// The lock of the first client.
    pub(crate) fn door(&self) -> Lock {
        door(&self.one)
    }

    /// The same lock, of the other client.
    pub(crate) fn other_door(&self) -> Lock {
        door(&self.other)
    }
}

pub(crate) fn door(client: &Client) -> Lock {
    client.lock("door").unwrap()
}

/// Releases a current hold.
pub(crate) async fn leave(guard: LockGuard) {
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// A waiter for `lock` that has sent its first request.
pub(crate) async fn waiting(lock: Lock) -> JoinHandle<Result<LockGuard>> {
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(millis(1)).await;
    assert!(!waiter.is_finished());
    waiter
}

/// Fails if it is never granted, instead of waiting for ever.
pub(crate) async fn entered(waiter: JoinHandle<Result<LockGuard>>) -> LockGuard {
    timeout(secs(7 * 24 * 60 * 60), waiter).await.unwrap().unwrap().unwrap()
}

/// The result of a release of `door` when it has no holder now.
pub(crate) fn gone(reason: LostReason) -> Release {
    Release::NotHeld { name: Name::new("door").unwrap(), reason, holder: None }
}
