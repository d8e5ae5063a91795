//! The API for threads, which block instead of awaiting.
//!
//! Each type and each method has the name of its async counterpart. The documentation of the async
//! item applies to both. A method blocks its thread until the async method returns.
//! [`on_loss`](crate::Lock::on_loss) is missing, because nothing can stop the work of a thread from
//! outside. The methods for operators, such as [`inspect`](crate::Client::inspect), and
//! [`downgrade`](crate::ReadWriteLock::downgrade) and
//! [`acquire_read_with`](crate::ReadWriteLock::acquire_read_with) are missing, too.
//!
//! A client of this module owns a thread with an async runtime, on which its connections and
//! background tasks run. Callers block their own threads. If a task of an async runtime calls a
//! method, the method returns [`Error::InsideAsync`](crate::Error::InsideAsync), because it would
//! block all other tasks of the same thread. Calls inside `tokio::task::spawn_blocking` work.
//!
//! As in Java, a hold belongs to the thread that acquired it. If this thread already holds the
//! lock, [`Lock::acquire`] re-enters the hold. The guard cannot move to another thread.
//! [`Lock::acquire_owned`] never re-enters a hold, and its guard can move to another thread.
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
