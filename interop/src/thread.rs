//! A thread of a process, which executes one call after the other.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::contenders::{Contenders, Report};
use crate::kind::Kind;
use crate::lines::Lines;
use crate::pending::Pending;

/// A named thread in Java, or a task in Rust. Each thread or task is a separate holder.
///
/// The methods have the names of Redisson. In Rust, `lock` is `acquire`, or `reenter` if the task
/// already holds the lock. `unlock` is `release`.
///
/// All handles with one name are the same thread. A thread executes one call after the other. If a
/// thread waits for a lock, its next call does **not start** before the wait has ended.
///
/// Each call has two forms: `lock` blocks until the reply comes, and `start_lock` returns a
/// [`Pending`]. The blocking form panics if no reply comes within a minute.
#[derive(Clone, Debug)]
pub struct Thread {
    lines: Arc<Lines>,
    name: String,
    kind: Kind,
}

impl Thread {
    pub(crate) fn new(lines: Arc<Lines>, name: &str) -> Self {
        Self { lines, name: name.to_owned(), kind: Kind::Lock }
    }

    /// The same thread with locks of `getSpinLock`. In Rust, these locks poll the store.
    #[must_use]
    pub fn spin(&self) -> Self {
        self.of(Kind::Spin)
    }

    /// The same thread with locks of `getFairLock`, or of `fair_lock` in Rust.
    #[must_use]
    pub fn fair(&self) -> Self {
        self.of(Kind::Fair)
    }

    /// The same thread with locks of `getFencedLock`, or of `fenced_lock` in Rust.
    #[must_use]
    pub fn fenced(&self) -> Self {
        self.of(Kind::Fenced)
    }

    /// The same thread with the read sides of read-write locks.
    #[must_use]
    pub fn reads(&self) -> Self {
        self.of(Kind::Read)
    }

    /// The same thread with the write sides of read-write locks. In Rust, a task with a write hold
    /// acquires its read hold under the write hold.
    #[must_use]
    pub fn writes(&self) -> Self {
        self.of(Kind::Write)
    }

    /// The same thread with locks of this kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Self {
        Self { kind, ..self.clone() }
    }

    /// The same thread with semaphores: `getSemaphore`.
    #[must_use]
    pub fn semaphores(&self) -> Self {
        self.of(Kind::Semaphore)
    }

    /// The same thread with latches: `getCountDownLatch`.
    #[must_use]
    pub fn latches(&self) -> Self {
        self.of(Kind::Latch)
    }

    /// `getToken()`. In Rust, returns the token of this task's hold. In Java, returns the last
    /// token of any holder.
    #[track_caller]
    pub fn token(&self, name: &str) -> i64 {
        self.on_lock("token", name, json!({})).wait(PATIENCE).number()
    }

    /// `lockAndGetToken()`. The reply is the token. **Java only**: in Leasehold, each hold of a
    /// fenced lock has its token.
    pub fn start_lock_and_get_token(&self, name: &str) -> Pending {
        self.on_lock("lockAndGetToken", name, json!({}))
    }

    /// `lockAndGetToken(lease, unit)`. **Java only.**
    pub fn start_lock_and_get_token_for(&self, name: &str, lease: Duration) -> Pending {
        self.on_lock("lockAndGetToken", name, json!({ "lease_ms": millis(lease) }))
    }

    /// `tryLockAndGetToken()`. **Java only.**
    pub fn start_try_lock_and_get_token(&self, name: &str) -> Pending {
        self.on_lock("tryLockAndGetToken", name, json!({}))
    }

    /// `tryLockAndGetToken(wait, unit)`. **Java only.**
    pub fn start_try_lock_and_get_token_within(&self, name: &str, wait: Duration) -> Pending {
        self.on_lock("tryLockAndGetToken", name, json!({ "wait_ms": millis(wait) }))
    }

    /// `lock()`: waits for the lock, and renews it until its release.
    #[track_caller]
    pub fn lock(&self, name: &str) -> Answer {
        self.start_lock(name).wait(PATIENCE)
    }

    /// Starts [`lock`](Self::lock).
    pub fn start_lock(&self, name: &str) -> Pending {
        self.on_lock("lock", name, json!({}))
    }

    /// `lock(lease, unit)`: waits for the lock. The hold ends with its lease.
    #[track_caller]
    pub fn lock_for(&self, name: &str, lease: Duration) -> Answer {
        self.start_lock_for(name, lease).wait(PATIENCE)
    }

    /// Starts [`lock_for`](Self::lock_for).
    pub fn start_lock_for(&self, name: &str, lease: Duration) -> Pending {
        self.on_lock("lock", name, json!({ "lease_ms": millis(lease) }))
    }

    /// `lockInterruptibly()`: like [`lock`](Self::lock), but [`interrupt`](Self::interrupt) ends
    /// the wait.
    #[track_caller]
    pub fn lock_interruptibly(&self, name: &str) -> Answer {
        self.start_lock_interruptibly(name).wait(PATIENCE)
    }

    /// Starts [`lock_interruptibly`](Self::lock_interruptibly).
    pub fn start_lock_interruptibly(&self, name: &str) -> Pending {
        self.on_lock("lockInterruptibly", name, json!({}))
    }

    /// `tryLock()`: acquires the lock if it is free, and renews it.
    #[track_caller]
    pub fn try_lock(&self, name: &str) -> Answer {
        self.start_try_lock(name).wait(PATIENCE)
    }

    /// Starts [`try_lock`](Self::try_lock).
    pub fn start_try_lock(&self, name: &str) -> Pending {
        self.on_lock("tryLock", name, json!({}))
    }

    /// `tryLock(wait, unit)`: waits for at most `wait`, and renews the lock.
    #[track_caller]
    pub fn try_lock_within(&self, name: &str, wait: Duration) -> Answer {
        self.start_try_lock_within(name, wait).wait(PATIENCE)
    }

    /// Starts [`try_lock_within`](Self::try_lock_within).
    pub fn start_try_lock_within(&self, name: &str, wait: Duration) -> Pending {
        self.on_lock("tryLock", name, json!({ "wait_ms": millis(wait) }))
    }

    /// `tryLock(wait, lease, unit)`: waits for at most `wait`. The hold ends with its lease.
    #[track_caller]
    pub fn try_lock_within_for(&self, name: &str, wait: Duration, lease: Duration) -> Answer {
        self.start_try_lock_within_for(name, wait, lease).wait(PATIENCE)
    }

    /// Starts [`try_lock_within_for`](Self::try_lock_within_for).
    pub fn start_try_lock_within_for(
        &self,
        name: &str,
        wait: Duration,
        lease: Duration,
    ) -> Pending {
        self.on_lock("tryLock", name, json!({ "wait_ms": millis(wait), "lease_ms": millis(lease) }))
    }

    /// `unlock()`: decrements the hold count, and releases the lock when the count is zero.
    #[track_caller]
    pub fn unlock(&self, name: &str) -> Answer {
        self.start_unlock(name).wait(PATIENCE)
    }

    /// Starts [`unlock`](Self::unlock).
    pub fn start_unlock(&self, name: &str) -> Pending {
        self.on_lock("unlock", name, json!({}))
    }

    /// `forceUnlock()`: ends the hold of any holder.
    #[track_caller]
    pub fn force_unlock(&self, name: &str) -> Answer {
        self.start_force_unlock(name).wait(PATIENCE)
    }

    /// Starts [`force_unlock`](Self::force_unlock).
    pub fn start_force_unlock(&self, name: &str) -> Pending {
        self.on_lock("forceUnlock", name, json!({}))
    }

    /// `isLocked()`: whether the lock is held.
    #[track_caller]
    pub fn is_locked(&self, name: &str) -> Answer {
        self.start_is_locked(name).wait(PATIENCE)
    }

    /// Starts [`is_locked`](Self::is_locked).
    pub fn start_is_locked(&self, name: &str) -> Pending {
        self.on_lock("isLocked", name, json!({}))
    }

    /// `isHeldByThread(id)`: whether the thread `id` of this process holds the lock.
    #[track_caller]
    pub fn is_held_by_thread(&self, name: &str, id: i64) -> Answer {
        self.start_is_held_by_thread(name, id).wait(PATIENCE)
    }

    /// Starts [`is_held_by_thread`](Self::is_held_by_thread).
    pub fn start_is_held_by_thread(&self, name: &str, id: i64) -> Pending {
        self.on_lock("isHeldByThread", name, json!({ "thread_id": id }))
    }

    /// `isHeldByCurrentThread()`: whether this thread holds the lock.
    #[track_caller]
    pub fn is_held(&self, name: &str) -> Answer {
        self.start_is_held(name).wait(PATIENCE)
    }

    /// Starts [`is_held`](Self::is_held).
    pub fn start_is_held(&self, name: &str) -> Pending {
        self.on_lock("isHeldByCurrentThread", name, json!({}))
    }

    /// `getHoldCount()`: the hold count of this thread.
    #[track_caller]
    pub fn hold_count(&self, name: &str) -> Answer {
        self.start_hold_count(name).wait(PATIENCE)
    }

    /// Starts [`hold_count`](Self::hold_count).
    pub fn start_hold_count(&self, name: &str) -> Pending {
        self.on_lock("getHoldCount", name, json!({}))
    }

    /// `remainTimeToLive()`: the remaining lease in milliseconds, or −2 if the lock is free.
    #[track_caller]
    pub fn remain_time_to_live(&self, name: &str) -> Answer {
        self.start_remain_time_to_live(name).wait(PATIENCE)
    }

    /// Starts [`remain_time_to_live`](Self::remain_time_to_live).
    pub fn start_remain_time_to_live(&self, name: &str) -> Pending {
        self.on_lock("remainTimeToLive", name, json!({}))
    }

    /// `Thread.getId()`: the part of an owner in Redis after the colon.
    #[track_caller]
    pub fn id(&self) -> i64 {
        self.send("threadId", json!({})).wait(PATIENCE).number()
    }

    /// Calls `Thread.interrupt()` if the thread executes a call. Returns whether a call was
    /// interrupted.
    ///
    /// This method does not wait until the interrupted call ends.
    #[track_caller]
    pub fn interrupt(&self) -> bool {
        self.send("interrupt", json!({})).wait(PATIENCE).is_true()
    }

    /// Starts to wait for the loss of the hold. The reply is the reason. **Rust only**: Redisson
    /// does not report a loss.
    pub fn start_lost(&self, name: &str) -> Pending {
        self.on_lock("lost", name, json!({}))
    }

    /// Runs contenders for a counter, and waits until all of them have ended.
    ///
    /// # Panics
    ///
    /// If the contenders have not ended after `limit`, or if a thread threw an exception.
    #[track_caller]
    pub fn contend(&self, contenders: &Contenders, limit: Duration) -> Report {
        Report::read(&self.start_contenders(contenders).wait(limit))
    }

    /// Starts [`contend`](Self::contend). [`Report::read`] reads the reply.
    pub fn start_contenders(&self, contenders: &Contenders) -> Pending {
        self.on_lock("crowd", &contenders.lock, contenders.arguments())
    }

    /// Calls the method `op` of the rate limiter `name`. **Java only.**
    #[track_caller]
    pub fn limiter(&self, op: &str, name: &str, arguments: Value) -> Answer {
        self.on_lock(&format!("limiter.{op}"), name, arguments).wait(PATIENCE)
    }

    /// Calls the method `op` of the map or the set `name`, such as `map.put` or `set.add`. **Java
    /// only.**
    #[track_caller]
    pub fn data(&self, op: &str, name: &str, arguments: Value) -> Answer {
        self.on_lock(op, name, arguments).wait(PATIENCE)
    }

    /// Starts the method `op` of the queue `name`, whose elements are text. **Java only.**
    pub fn start_queue(&self, op: &str, name: &str, arguments: Value) -> Pending {
        self.on_lock(&format!("queue.{op}"), name, arguments)
    }

    /// Starts the method `op` of the expirable semaphore `name`. **Java only.**
    pub fn start_permits(&self, op: &str, name: &str, arguments: Value) -> Pending {
        self.on_lock(&format!("permits.{op}"), name, arguments)
    }

    /// Calls the method `op` of the expirable semaphore `name`, and returns the reply. **Java
    /// only.**
    #[track_caller]
    pub fn permits(&self, op: &str, name: &str, arguments: Value) -> Answer {
        self.start_permits(op, name, arguments).wait(PATIENCE)
    }

    pub(crate) fn on_lock(&self, op: &str, name: &str, mut arguments: Value) -> Pending {
        arguments["name"] = name.into();
        arguments["kind"] = self.kind.to_string().into();
        self.send(op, arguments)
    }

    fn send(&self, op: &str, arguments: Value) -> Pending {
        let mut command = Map::new();
        command.insert("op".into(), op.into());
        command.insert("thread".into(), self.name.as_str().into());
        command.extend(arguments.as_object().cloned().into_iter().flatten());
        let what = format!("{} on {}", Value::Object(command.clone()), self.name);
        Pending::new(what, self.lines.send(command))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The longest time of a blocking call. If the call takes longer, the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
