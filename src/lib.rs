//! Distributed locks on Redis.
#![forbid(unsafe_code)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
mod domain;
mod engine;
mod error;
mod primitives;
mod store;

pub use crate::{
    client::{Client, ClientBuilder, Shutdown},
    domain::{Holder, InvalidDuration, InvalidName, InvalidOwner, LostReason, Name, Owner},
    engine::{acquire::WaitBy, stats::Stats},
    error::{Error, Result},
    primitives::{Holding, Lock, LockGuard, OnLoss, Ran, Release},
    store::memory::MemoryStore,
};
