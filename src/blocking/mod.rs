//! The same API for threads.
//!
//! Each method blocks for the method of the same name for tasks, whose documentation holds for
//! both. Only [`on_loss`](crate::Lock::on_loss) is missing, because nothing can stop a thread from
//! outside.
//!
//! A client of this module owns a runtime thread, on which its connections and background tasks
//! run. Callers wait on their own thread. If a task of an async runtime calls a method, it returns
//! [`Error::InsideAsync`](crate::Error::InsideAsync), because it would block all tasks of that
//! thread. Inside `tokio::task::spawn_blocking` it works.
//!
//! The owner of a hold is a thread, as in Java: [`Lock::acquire`] on a thread that already holds
//! the lock re-enters it, and its guard stays on the thread. [`Lock::acquire_owned`] returns a
//! guard that may move, and never re-enters.
//!
//! # Examples
//!
//! ```
//! let client = leasehold::blocking::Client::in_memory()?;
//! let lock = client.lock("orders:42")?;
//!
//! let guard = lock.acquire()?;
//! let again = lock.acquire()?; // the same thread re-enters
//! assert_eq!(guard.count(), 2);
//! again.release()?.into_result()?;
//! guard.release()?.into_result()?;
//! # Ok::<(), leasehold::Error>(())
//! ```

mod barrier;
mod client;
mod election;
mod face;
mod guard;
mod latch;
mod lock;
mod map;
mod multi;
mod permits;
mod queue;
mod quorum;
mod rate_limiter;
mod read_write;
mod reentry;
mod semaphore;
mod set;
mod waiting;

pub use self::{
    barrier::{Barrier, DoubleBarrier, DoubleBarrierGuard},
    client::{Client, ClientBuilder},
    election::{Election, Leadership, Observer},
    guard::{Guard, ThisThread},
    latch::Latch,
    lock::{FencedGuard, FencedLock, Lock, LockGuard, OwnedFencedGuard, OwnedLockGuard},
    map::{Map, MapStream},
    multi::{MultiGuard, MultiLock},
    permits::{ExpirablePermits, ExpirableSemaphore},
    queue::{Claim, Queue},
    quorum::{QuorumClient, QuorumGuard, QuorumLock},
    rate_limiter::{RateLimiter, Throttle},
    read_write::ReadWriteLock,
    semaphore::{Semaphore, SemaphoreGuard},
    set::{Set, SetStream},
};
