//! The same API for threads: it wraps, and never copies. What it lacks is
//! [`on_loss`](crate::Lock::on_loss): a thread cannot be stopped from outside.
//!
//! A client of this module owns a runtime thread of its own, where its
//! connections and background tasks live. Callers wait on their own thread.
//! Called from a task of an async runtime every method refuses with
//! [`Error::InsideAsync`](crate::Error::InsideAsync), because it would stop
//! every other task of that thread; inside `tokio::task::spawn_blocking` all is
//! well.
//!
//! Here a thread is an identity, as in Java: [`Lock::acquire`] on a thread that
//! holds the lock already enters again, and its guard stays on the thread.
//! [`Lock::acquire_owned`] gives a guard that may move, and never enters again.
//!
//! # Examples
//!
//! ```
//! let client = leasehold::blocking::Client::in_memory()?;
//! let lock = client.lock("orders:42")?;
//!
//! let guard = lock.acquire()?;
//! let again = lock.acquire()?; // the same thread: enters again
//! assert_eq!(guard.count(), 2);
//! again.release()?.done()?;
//! guard.release()?.done()?;
//! # Ok::<(), leasehold::Error>(())
//! ```

mod client;
mod fenced;
mod guard;
mod latch;
mod lock;
mod permits;
mod read_write;
mod reentry;
mod semaphore;
mod waiting;

pub use self::{
    client::{Client, ClientBuilder},
    fenced::{FencedGuard, FencedLock, OwnedFencedGuard},
    guard::{HeldLock, LockGuard, OwnedLockGuard},
    latch::Latch,
    lock::Lock,
    permits::{Permits, PermitsGuard},
    read_write::ReadWriteLock,
    semaphore::{Semaphore, SemaphoreGuard},
};
