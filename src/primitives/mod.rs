//! The public primitives. A lock, a semaphore or a queue passes a claim to the engine, and returns
//! a guard. A map or a set sends its requests for data. A primitive starts no tasks.
//!
//! A primitive leaves loops and most timers to the engine. As an exception, `run.rs` has a timer
//! that limits the grace period after a loss. `multi.rs` has a loop, and a timer that limits how
//! long a multi-lock keeps granted members while it waits for a busy member.

mod barrier;
mod coded;
mod double_barrier;
mod election;
mod example;
mod fenced;
mod guard;
mod guarded;
pub(crate) mod keyed;
mod latch;
mod local_caches;
mod lock;
mod map;
mod multi;
mod pages;
mod permits;
mod queue;
mod rate_limiter;
mod read_write;
pub(crate) mod run;
mod semaphore;
mod set;
pub(crate) mod settings;
mod throttle;
mod views;

pub use self::{
    barrier::{Arrived, Barrier},
    double_barrier::{DoubleBarrier, DoubleBarrierGuard},
    election::{Election, Leadership, Observer},
    fenced::{Fenced, FencedGuard, FencedLock},
    guard::{Guard, Release},
    latch::Latch,
    lock::{Lock, LockGuard},
    map::{Map, MapStream},
    multi::{MultiContext, MultiGuard, MultiLock, MultiRelease},
    permits::{ExpirablePermits, ExpirableSemaphore},
    queue::{Claim, Queue},
    rate_limiter::RateLimiter,
    read_write::ReadWriteLock,
    run::{LockContext, OnLoss, RunOutcome},
    semaphore::{Semaphore, SemaphoreGuard},
    set::{Set, SetStream},
    throttle::Throttle,
};
#[cfg(feature = "blocking")]
pub(crate) use self::{example::thread_example, run::Loss};
pub(crate) use self::{
    example::{example, like},
    views::{context_views, group_guard, group_run, hold_views, views},
};
