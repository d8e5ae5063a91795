//! A thread of a process, which does one thing after the other.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::contenders::{Contenders, Report};
use crate::kind::Kind;
use crate::lines::Lines;
use crate::pending::Pending;

/// A named thread in Java, or a task that plays one in Rust: to others a holder of its own.
///
/// The methods are named after those of Redisson. In Rust `lock` is `acquire`,
/// or `reenter` for what the task holds already, and `unlock` is `release`.
///
/// Handles of one name are the same thread. It does one call after the other,
/// so a call on a thread that waits for a lock is **not even begun** before
/// that wait is over.
///
/// Each call comes in two forms: `lock` blocks until the answer, `start_lock`
/// gives a [`Pending`]. The blocking form panics after a minute without one.
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

    /// The same thread, whose locks are made by `getSpinLock` instead of `getLock`; in Rust it polls.
    #[must_use]
    pub fn spin(&self) -> Self {
        self.of(Kind::Spin)
    }

    /// The same thread, whose locks are made by `getFairLock`; in Rust by `fair_lock`.
    #[must_use]
    pub fn fair(&self) -> Self {
        self.of(Kind::Fair)
    }

    /// The same thread, whose locks are made by `getFencedLock`; in Rust they are `fenced`.
    #[must_use]
    pub fn fenced(&self) -> Self {
        self.of(Kind::Fenced)
    }

    /// The same thread, whose locks are the reading side of read-write locks.
    #[must_use]
    pub fn reads(&self) -> Self {
        self.of(Kind::Read)
    }

    /// The same thread, whose locks are the writing side of read-write locks. In Rust a task that
    /// writes reads beside that.
    #[must_use]
    pub fn writes(&self) -> Self {
        self.of(Kind::Write)
    }

    /// The same thread, whose locks are of this kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Self {
        Self { kind, ..self.clone() }
    }

    /// The same thread, with semaphores: `getSemaphore`.
    #[must_use]
    pub fn semaphores(&self) -> Self {
        self.of(Kind::Semaphore)
    }

    /// The same thread, with latches: `getCountDownLatch`.
    #[must_use]
    pub fn latches(&self) -> Self {
        self.of(Kind::Latch)
    }

    /// The token of what it holds: `getToken()`, which in Java is the last one that anybody drew.
    #[track_caller]
    pub fn token(&self, name: &str) -> i64 {
        self.on_lock("token", name, json!({})).wait(PATIENCE).number()
    }

    /// `lockAndGetToken()`; the answer is the token. **Java only**: ours has one in any case.
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

    /// `lock()`: waits for the lock, which is then renewed until it is given back.
    #[track_caller]
    pub fn lock(&self, name: &str) -> Answer {
        self.start_lock(name).wait(PATIENCE)
    }

    /// Starts [`lock`](Self::lock).
    pub fn start_lock(&self, name: &str) -> Pending {
        self.on_lock("lock", name, json!({}))
    }

    /// `lock(lease, unit)`: waits for the lock, which then ends by itself.
    #[track_caller]
    pub fn lock_for(&self, name: &str, lease: Duration) -> Answer {
        self.start_lock_for(name, lease).wait(PATIENCE)
    }

    /// Starts [`lock_for`](Self::lock_for).
    pub fn start_lock_for(&self, name: &str, lease: Duration) -> Pending {
        self.on_lock("lock", name, json!({ "lease_ms": millis(lease) }))
    }

    /// `lockInterruptibly()`: as [`lock`](Self::lock), until [`interrupt`](Self::interrupt).
    #[track_caller]
    pub fn lock_interruptibly(&self, name: &str) -> Answer {
        self.start_lock_interruptibly(name).wait(PATIENCE)
    }

    /// Starts [`lock_interruptibly`](Self::lock_interruptibly).
    pub fn start_lock_interruptibly(&self, name: &str) -> Pending {
        self.on_lock("lockInterruptibly", name, json!({}))
    }

    /// `tryLock()`: takes the lock if it is free, and renews it.
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

    /// `tryLock(wait, lease, unit)`: waits for at most `wait`; the lock ends by itself.
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

    /// `unlock()`: gives one hold back.
    #[track_caller]
    pub fn unlock(&self, name: &str) -> Answer {
        self.start_unlock(name).wait(PATIENCE)
    }

    /// Starts [`unlock`](Self::unlock).
    pub fn start_unlock(&self, name: &str) -> Pending {
        self.on_lock("unlock", name, json!({}))
    }

    /// `forceUnlock()`: takes the lock from whoever has it.
    #[track_caller]
    pub fn force_unlock(&self, name: &str) -> Answer {
        self.start_force_unlock(name).wait(PATIENCE)
    }

    /// Starts [`force_unlock`](Self::force_unlock).
    pub fn start_force_unlock(&self, name: &str) -> Pending {
        self.on_lock("forceUnlock", name, json!({}))
    }

    /// `isLocked()`: whether anybody has the lock.
    #[track_caller]
    pub fn is_locked(&self, name: &str) -> Answer {
        self.start_is_locked(name).wait(PATIENCE)
    }

    /// Starts [`is_locked`](Self::is_locked).
    pub fn start_is_locked(&self, name: &str) -> Pending {
        self.on_lock("isLocked", name, json!({}))
    }

    /// `isHeldByThread(id)`: whether that thread of this process has the lock.
    #[track_caller]
    pub fn is_held_by_thread(&self, name: &str, id: i64) -> Answer {
        self.start_is_held_by_thread(name, id).wait(PATIENCE)
    }

    /// Starts [`is_held_by_thread`](Self::is_held_by_thread).
    pub fn start_is_held_by_thread(&self, name: &str, id: i64) -> Pending {
        self.on_lock("isHeldByThread", name, json!({ "thread_id": id }))
    }

    /// `isHeldByCurrentThread()`: whether this thread has the lock.
    #[track_caller]
    pub fn is_held(&self, name: &str) -> Answer {
        self.start_is_held(name).wait(PATIENCE)
    }

    /// Starts [`is_held`](Self::is_held).
    pub fn start_is_held(&self, name: &str) -> Pending {
        self.on_lock("isHeldByCurrentThread", name, json!({}))
    }

    /// `getHoldCount()`: how often this thread has the lock.
    #[track_caller]
    pub fn hold_count(&self, name: &str) -> Answer {
        self.start_hold_count(name).wait(PATIENCE)
    }

    /// Starts [`hold_count`](Self::hold_count).
    pub fn start_hold_count(&self, name: &str) -> Pending {
        self.on_lock("getHoldCount", name, json!({}))
    }

    /// `remainTimeToLive()`: milliseconds, or −2 for a lock that is free.
    #[track_caller]
    pub fn remain_time_to_live(&self, name: &str) -> Answer {
        self.start_remain_time_to_live(name).wait(PATIENCE)
    }

    /// Starts [`remain_time_to_live`](Self::remain_time_to_live).
    pub fn start_remain_time_to_live(&self, name: &str) -> Pending {
        self.on_lock("remainTimeToLive", name, json!({}))
    }

    /// `Thread.getId()`: the number after the colon in the owner that Redis sees.
    #[track_caller]
    pub fn id(&self) -> i64 {
        self.send("threadId", json!({})).wait(PATIENCE).number()
    }

    /// `Thread.interrupt()`, if the thread is busy, and whether it was.
    ///
    /// It does not wait in line behind the call it interrupts.
    #[track_caller]
    pub fn interrupt(&self) -> bool {
        self.send("interrupt", json!({})).wait(PATIENCE).is_true()
    }

    /// Starts to wait until the hold is over; the answer is why. **Rust only**: Redisson tells nobody.
    pub fn start_lost(&self, name: &str) -> Pending {
        self.on_lock("lost", name, json!({}))
    }

    /// Lets a crowd loose on a counter, and waits until it is done.
    ///
    /// # Panics
    ///
    /// If it is not done `limit` later, or one of its threads saw an exception.
    #[track_caller]
    pub fn contend(&self, contenders: &Contenders, limit: Duration) -> Report {
        Report::read(&self.start_contenders(contenders).wait(limit))
    }

    /// Starts [`contenders`](Self::crowd). The answer is to be read by [`Report::read`].
    pub fn start_contenders(&self, contenders: &Contenders) -> Pending {
        self.on_lock("crowd", &contenders.lock, contenders.arguments())
    }

    /// Calls the method `op` of the rate limiter called `name`. **Java only.**
    #[track_caller]
    pub fn limiter(&self, op: &str, name: &str, arguments: Value) -> Answer {
        self.on_lock(&format!("limiter.{op}"), name, arguments).wait(PATIENCE)
    }

    /// What the semaphore called `name` does whose permits expire; `op` is its method. **Java only.**
    pub fn start_permits(&self, op: &str, name: &str, arguments: Value) -> Pending {
        self.on_lock(&format!("permits.{op}"), name, arguments)
    }

    /// The same, and what it answers.
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

/// How long a blocking call may take before the test is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
