//! Distributed locks, semaphores and latches on Redis, compatible with Java's Redisson.
//!
//! ```
//! use leasehold::{Client, Error, Release};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Error> {
//! let client = Client::in_memory(); // in a test; or Client::connect("redis://127.0.0.1/").await?
//! let lock = client.lock("orders:42")?;
//!
//! // Work that is stopped when the lock is lost:
//! let answer = lock.run(async |_held| 6 * 7).await?;
//! assert_eq!(answer, 42);
//!
//! // Or a guard:
//! let guard = lock.acquire().await?;
//! assert_eq!(guard.release().await?, Release::Released);
//! # Ok(()) }
//! ```
//!
//! Three things, three types: a [`Lock`] is a name and settings, an [`Owner`] is
//! who holds it, a [`LockGuard`] is one hold. Beside it there are:
//!
//! - [`FencedLock`]: each hold has a token that grows; [`fence`] has what refuses late writes;
//! - [`ReadWriteLock`]: many who read, or one who writes;
//! - [`ExpirableSemaphore`]: so many holders at a time, each with a lease;
//! - [`Semaphore`]: permits without leases;
//! - [`Latch`]: closed until it is counted down;
//! - [`LockGuard::write`] and [`LockGuard::eval`]: data in the same Redis, written only while the
//!   lock is held.
//!
//! Redis may be one server, a primary that Sentinels watch, or a cluster:
//! [the guide](docs::guide::deployments) has the URL of each.
//!
//! `MemoryStore`, behind the feature `testing`, is a simulated Redis for tests, and `blocking` is the
//! same for threads.
//!
//! **No lock on Redis can promise that two holders never overlap in real time.**
//! A process that stands still for longer than its lease cannot know it before
//! it runs again. [`docs::guarantees`] says what holds under which fault.
//!
//! Start with the [guide](docs::guide).
#![forbid(unsafe_code)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
pub mod docs;
mod domain;
mod engine;
mod error;
pub mod fence;
mod primitives;
mod store;

#[cfg(feature = "testing")]
pub use crate::store::redis::memory::MemoryStore;
pub use crate::{
    client::{Client, ClientBuilder, Shutdown},
    domain::{
        Finding, Hazard, Health, Holder, InvalidDuration, InvalidName, InvalidOwner,
        InvalidPermitId, LostReason, Name, NodeHealth, Owner, PermitId, Replicas, Role, Script,
        Stats, Value, WaitStrategy, Write,
    },
    error::{Cause, Error, Result},
    primitives::{
        ExpirablePermits, ExpirableSemaphore, Fenced, FencedGuard, FencedLock, Guard, Latch, Lock,
        LockContext, LockGuard, OnLoss, ReadWriteLock, Release, RunOutcome, Semaphore,
        SemaphoreGuard,
    },
};
