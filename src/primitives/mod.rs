//! What a caller asks for: each one a claim and a guard; no loops, no timers, no tasks.

mod guard;
mod lock;
mod run;

pub use self::{
    guard::{LockGuard, Release},
    lock::Lock,
    run::{Holding, OnLoss, Ran},
};
