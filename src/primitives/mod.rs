//! What a caller asks for: each one a claim and a guard; no loops and no tasks.
//! The one timer is that of work which winds up after a loss: see `run.rs`.

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
