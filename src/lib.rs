//! Distributed locks on Redis, which Java's Redisson and Rust programs share. The API is async or
//! blocking. A watchdog renews each lock, waiters queue fairly, and a holder learns when it has
//! lost its lock.
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
//! - [`FencedLock`]: each hold has a higher token than the hold before it; [`fence`] rejects late
//!   writes by these tokens;
//! - [`Client::fair_lock`]: a [`Lock`] with one queue of the waiting tasks of all processes;
//! - [`ReadWriteLock`]: many readers, or one writer;
//! - [`MultiLock`]: several locks, which are acquired and released together;
//! - [`ExpirableSemaphore`]: a number of permits with leases;
//! - [`Semaphore`]: a number of permits without leases;
//! - [`Latch`]: a counter, at which tasks wait until its count reaches zero;
//! - [`Barrier`] and [`DoubleBarrier`]: tasks wait until a number of members is there;
//! - [`Election`]: one leader among many candidates;
//! - [`Queue`]: elements in order, and one worker claims each element; if this worker dies, another
//!   worker claims the element;
//! - [`RateLimiter`]: a number of permits for each interval; [`Throttle`]: permits at an even pace;
//! - [`QuorumLock`]: a lock that a majority of independent servers grants;
//! - [`Map`]: entries, and a lock for each key; [`Set`]: elements, and a lock for each of them;
//! - [`LockGuard::write`] and [`LockGuard::eval`]: write data in the same Redis, but only while the
//!   lock is held.
//!
//! Redis may be one server, a primary with Sentinels, or a cluster.
//! [The guide](docs::guide::deployments) explains the URL for each deployment.
//!
//! The feature `testing` adds `MemoryStore`, a simulated Redis for tests. The feature `blocking`
//! adds the module `blocking`, the API for threads.
//!
//! **No lock on Redis can promise that two holders never overlap in real time.** If a process is
//! paused for longer than its lease, another process may acquire the lock. The paused process
//! notices this only when it runs again. [`docs::guarantees`] lists the effect of each fault.
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
