//! What a caller asks for: each one a claim and a guard; no loops and no tasks.
//! The one timer is that of work which winds up after a loss: see `run.rs`.

mod guard;
mod lock;
mod run;
pub(crate) mod settings;

pub use self::{
    guard::{LockGuard, Release},
    lock::Lock,
    run::{Holding, OnLoss, Ran},
};
