//! What a caller asks for: each one a claim and a guard; no loops and no tasks.
//! The one timer is that of work which winds up after a loss: see `run.rs`.

mod fenced;
mod guard;
mod guarded;
mod latch;
mod lock;
mod permits;
mod read_write;
mod run;
mod semaphore;
pub(crate) mod settings;

#[cfg(feature = "blocking")]
pub(crate) use self::{fenced::token_of, permits::permit_settings};
pub use self::{
    fenced::{FencedGuard, FencedLock},
    guard::{LockGuard, Release},
    latch::Latch,
    lock::Lock,
    permits::{Permits, PermitsGuard},
    read_write::ReadWriteLock,
    run::{Holding, OnLoss, Ran},
    semaphore::{Semaphore, SemaphoreGuard},
};
