//! The public primitives: each makes a claim and returns a guard. They have no loops and no tasks.
//! Only `run.rs` has a timer, which limits the grace period after a loss.

mod example;
mod fenced;
mod guard;
mod guarded;
mod latch;
mod lock;
mod permits;
mod rate_limiter;
mod read_write;
mod run;
mod semaphore;
pub(crate) mod settings;
mod throttle;

pub(crate) use self::example::example;
#[cfg(feature = "blocking")]
pub(crate) use self::example::thread_example;
pub use self::{
    fenced::{Fenced, FencedGuard, FencedLock},
    guard::{Guard, Release},
    latch::Latch,
    lock::{Lock, LockGuard},
    permits::{ExpirablePermits, ExpirableSemaphore},
    rate_limiter::RateLimiter,
    read_write::ReadWriteLock,
    run::{LockContext, OnLoss, RunOutcome},
    semaphore::{Semaphore, SemaphoreGuard},
    throttle::Throttle,
};
