//! What is measured, behind one trait: one file per library.

mod leasehold;
mod local;
mod other_primitives;
mod raw;
mod replicated;
mod rlock;
mod rslock;

use std::{future::Future, time::Duration};

use ::leasehold::Latch;

pub(crate) use self::{
    leasehold::Leasehold,
    local::Local,
    other_primitives::{Fenced, OfLimiter, OfPermits, OfSemaphore, Only, Reading},
    raw::Raw,
    replicated::{Beside, RawWait, Replicated},
    rlock::RLock,
    rslock::RsLock,
};
use super::Outcome;

/// A way to lock a name.
///
/// The methods are what a user of the library would write, with its defaults.
pub(crate) trait Library: Clone + Send + Sync + 'static {
    /// What proves a hold, and gives it back.
    type Held: Send + 'static;

    /// Connects to the server at `url`.
    fn connect(url: &str) -> impl Future<Output = Outcome<Self>> + Send;

    /// Waits for the lock, as long as it takes.
    fn acquire(&self, name: &str) -> impl Future<Output = Outcome<Self::Held>> + Send;

    /// Gives it back, and waits until that is done.
    fn release(&self, held: Self::Held) -> impl Future<Output = Outcome<()>> + Send;

    /// Acquires a lock that is renewed each third of `ttl`, or as the library does.
    fn hold(&self, name: &str, ttl: Duration) -> impl Future<Output = Outcome<Self::Held>> + Send;

    /// Acquires a lock that nobody renews.
    fn seize(
        &self,
        name: &str,
        lease: Duration,
    ) -> impl Future<Output = Outcome<Self::Held>> + Send;

    /// The latch of this name, if the library has any.
    fn latch(&self, _name: &str) -> Outcome<Latch> {
        Err("it has no latch".into())
    }

    /// The greatest lag of a renewal so far, if the library counts it.
    fn lag(&self) -> Option<Duration> {
        None
    }

    /// How many callers wait now, if the library counts them.
    fn waiting(&self) -> Option<u64> {
        None
    }
}
