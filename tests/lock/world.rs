//! Two clients of one store in memory, and helpers for the tests.

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

/// Too short for a poll or a timer. A waiter that acquires within this time was notified.
pub(crate) const AT_ONCE: Duration = millis(10);

/// A waiter that receives no notification repeats its request within this time.
pub(crate) const SECOND_LOOK: Duration = secs(4);

/// Two clients of one store, like the clients of two processes.
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

    /// The lock `door` of the first client.
    pub(crate) fn door(&self) -> Lock {
        door(&self.one)
    }

    /// The lock `door` of the other client.
    pub(crate) fn other_door(&self) -> Lock {
        door(&self.other)
    }
}

pub(crate) fn door(client: &Client) -> Lock {
    client.lock("door").unwrap()
}

/// Releases a guard whose hold must not have been lost.
pub(crate) async fn leave(guard: LockGuard) {
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// Starts a waiter for `lock`, and returns when the waiter has sent its first request.
pub(crate) async fn waiting(lock: Lock) -> JoinHandle<Result<LockGuard>> {
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(millis(1)).await;
    assert!(!waiter.is_finished());
    waiter
}

/// Returns the guard of `waiter`. Panics if the lock is not granted within a week.
pub(crate) async fn entered(waiter: JoinHandle<Result<LockGuard>>) -> LockGuard {
    timeout(secs(7 * 24 * 60 * 60), waiter).await.unwrap().unwrap().unwrap()
}

/// The result of releasing a lost hold of `door`, if the lock is free now.
pub(crate) fn gone(reason: LostReason) -> Release {
    Release::NotHeld { name: Name::new("door").unwrap(), reason, holder: None }
}
