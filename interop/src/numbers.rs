//! The calls of a thread on semaphores and latches.

use std::time::Duration;

use serde_json::json;

use crate::answer::Answer;
use crate::pending::Pending;
use crate::thread::{PATIENCE, Thread};

/// Calls on semaphores: see [`Thread::semaphores`].
impl Thread {
    /// `acquire(n)`: waits for `n` permits.
    #[track_caller]
    pub fn acquire(&self, name: &str, permits: i64) -> Answer {
        self.start_acquire(name, permits).wait(PATIENCE)
    }

    /// Starts [`acquire`](Self::acquire).
    pub fn start_acquire(&self, name: &str, permits: i64) -> Pending {
        self.on_lock("acquire", name, json!({ "permits": permits }))
    }

    /// `tryAcquire(n, wait)`: waits for at most `wait`.
    #[track_caller]
    pub fn acquire_within(&self, name: &str, permits: i64, wait: Duration) -> Answer {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let asked = json!({ "permits": permits, "wait_ms": wait });
        self.on_lock("acquire", name, asked).wait(PATIENCE)
    }

    /// `tryAcquire(n)`: acquires `n` permits if they are free.
    #[track_caller]
    pub fn try_acquire(&self, name: &str, permits: i64) -> Answer {
        self.number("tryAcquire", name, permits)
    }

    /// `release(n)`. In Rust, releases a guard with `n` permits. If there is no such guard, calls
    /// `add`.
    #[track_caller]
    pub fn release(&self, name: &str, permits: i64) -> Answer {
        self.number("release", name, permits)
    }

    /// `trySetPermits(n)`.
    #[track_caller]
    pub fn set_permits(&self, name: &str, permits: i64) -> Answer {
        self.number("trySetPermits", name, permits)
    }

    /// `addPermits(n)`.
    #[track_caller]
    pub fn add_permits(&self, name: &str, permits: i64) -> Answer {
        self.number("addPermits", name, permits)
    }

    /// `drainPermits()`.
    #[track_caller]
    pub fn drain_permits(&self, name: &str) -> i64 {
        self.number("drainPermits", name, 1).number()
    }

    /// `availablePermits()`.
    #[track_caller]
    pub fn free_permits(&self, name: &str) -> i64 {
        self.number("availablePermits", name, 1).number()
    }

    /// `delete()`, of a semaphore or a latch.
    #[track_caller]
    pub fn delete(&self, name: &str) -> Answer {
        self.number("delete", name, 1)
    }

    #[track_caller]
    fn number(&self, op: &str, name: &str, permits: i64) -> Answer {
        self.on_lock(op, name, json!({ "permits": permits })).wait(PATIENCE)
    }
}

/// Calls on latches: see [`Thread::latches`].
impl Thread {
    /// `trySetCount(n)`.
    #[track_caller]
    pub fn set_count(&self, name: &str, count: i64) -> Answer {
        self.on_lock("trySetCount", name, json!({ "count": count })).wait(PATIENCE)
    }

    /// `countDown()`.
    #[track_caller]
    pub fn count_down(&self, name: &str) -> Answer {
        self.on_lock("countDown", name, json!({})).wait(PATIENCE)
    }

    /// `getCount()`.
    #[track_caller]
    pub fn count(&self, name: &str) -> i64 {
        self.on_lock("getCount", name, json!({})).wait(PATIENCE).number()
    }

    /// Starts `await()`.
    pub fn start_await(&self, name: &str) -> Pending {
        self.on_lock("await", name, json!({}))
    }

    /// `await(wait)`.
    #[track_caller]
    pub fn await_within(&self, name: &str, wait: Duration) -> Answer {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.on_lock("await", name, json!({ "wait_ms": wait })).wait(PATIENCE)
    }
}
