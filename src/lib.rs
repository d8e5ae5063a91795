//! Distributed locks that interoperate with Java's Redisson. They are async or blocking, are
//! renewed by a watchdog, queue waiters fairly, and notify the holder of a lost lock.
//!
//! ```
//! use leasehold::{Client, Error, Release};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Error> {
//! let client = Client::in_memory(); // in a test; or Client::connect("redis://127.0.0.1/").await?
//! let lock = client.lock("reports/daily")?;
//!
//! // If the lock is lost, the work is stopped:
//! let sent = lock.run(async |_held| send_reports().await).await?;
//! assert_eq!(sent, 3);
//!
//! // Or use a guard:
//! let guard = lock.acquire().await?;
//! assert_eq!(guard.release().await?, Release::Released);
//! # Ok(()) }
//! # async fn send_reports() -> u32 { 3 }
//! ```
//!
//! A [`Lock`] is a name and settings, an [`Owner`] identifies a hold in Redis, and a [`LockGuard`]
//! is a hold. The other primitives are:
//!
//! - [`FencedLock`]: each hold has a growing token; [`fence`] rejects late writes;
//! - [`Client::fair_lock`]: a [`Lock`] with one queue of the waiting tasks of all processes;
//! - [`ReadWriteLock`]: many readers, or one writer;
//! - [`MultiLock`]: several locks, held all or none;
//! - [`ExpirableSemaphore`]: a number of permits with leases;
//! - [`Semaphore`]: a number of permits without leases;
//! - [`Latch`]: closed until it is counted down;
//! - [`Queue`]: elements in order, each claimed by one worker, and by another one if that worker
//!   dies;
//! - [`RateLimiter`]: a number of permits for each interval; [`Throttle`]: permits at an even pace;
//! - [`QuorumLock`]: a lock that a majority of independent servers grants;
//! - [`Map`]: entries with a lock for each key, which the guard writes; [`Set`]: elements;
//! - [`LockGuard::write`] and [`LockGuard::eval`]: data in the same Redis, written only while the
//!   lock is held.
//!
//! Redis may be one server, a primary with Sentinels, or a cluster:
//! [the guide](docs::guide::deployments) has the URL of each.
//!
//! `MemoryStore`, behind the feature `testing`, is a simulated Redis for tests. `blocking` is the
//! API for threads.
//!
//! **No lock on Redis can promise that two holders never overlap in real time.**
//! A process that is paused for longer than its lease cannot know this before
//! it runs again. [`docs::guarantees`] has the result of each fault.
//!
//! Start with the [guide](docs::guide::getting_started).
#![forbid(unsafe_code)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
pub mod codec;
pub mod docs;
mod domain;
mod engine;
mod error;
pub mod fence;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "no_metrics.rs"]
mod metrics;
mod primitives;
mod quorum;
mod store;

#[cfg(feature = "testing")]
pub use crate::store::redis::memory::MemoryStore;
#[doc(inline)]
pub use leasehold_link::{Finding, Hazard, NodeHealth, Role};

pub use crate::{
    client::{Client, ClientBuilder, Shutdown},
    domain::{
        ClientInfo, ForcedRelease, Health, Holder, Inspection, InvalidDuration, InvalidName,
        InvalidOwner, InvalidPermitId, Leader, LostReason, Name, NameCursor, ObjectKind, Owner,
        Pace, PermitId, Quota, Rate, RatePermits, Replicas, Script, ServerReport, Stats, Value,
        WaitStrategy, Waiter, Write,
    },
    error::{Cause, Error, Result},
    primitives::{
        Arrived, Barrier, Claim, DoubleBarrier, DoubleBarrierGuard, Election, ExpirablePermits,
        ExpirableSemaphore, Fenced, FencedGuard, FencedLock, Guard, Latch, Leadership, Lock,
        LockContext, LockGuard, Map, MapStream, MultiContext, MultiGuard, MultiLock, MultiRelease,
        Observer, OnLoss, Queue, RateLimiter, ReadWriteLock, Release, RunOutcome, Semaphore,
        SemaphoreGuard, Set, SetStream, Throttle,
    },
    quorum::{QuorumClient, QuorumContext, QuorumGuard, QuorumLock},
};
