//! The libraries. Each file implements the trait `Library` for one of them.

mod leasehold;
mod local;
mod other_primitives;
mod quorum;
mod raw;
mod replicated;
mod rlock;
mod rslock;
mod rsmq;

use std::{future::Future, time::Duration};

use ::leasehold::Client;

pub(crate) use self::{
    leasehold::Leasehold,
    local::Local,
    other_primitives::{
        Candidate, Fair, Fenced, Multi, OfLimiter, OfMap, OfPermits, OfQueue, OfSemaphore, OfSet,
        Only, Reading,
    },
    raw::Raw,
    replicated::{Beside, RawWait, Replicated},
    rlock::RLock,
    rslock::RsLock,
    rsmq::Messages,
};
use super::Outcome;

/// A library with locks.
///
/// The methods do what a user of the library would write, with the default settings of the library.
pub(crate) trait Library: Clone + Send + Sync + 'static {
    /// A hold, which can be released.
    type Held: Send + 'static;

    fn connect(url: &str) -> impl Future<Output = Outcome<Self>> + Send;

    /// Acquires the lock, waiting without a bound.
    fn acquire(&self, name: &str) -> impl Future<Output = Outcome<Self::Held>> + Send;

    /// Releases the lock, and waits for the reply.
    fn release(&self, held: Self::Held) -> impl Future<Output = Outcome<()>> + Send;

    /// Acquires a lock that the library renews after each third of `ttl`, or at its own interval.
    fn hold(
        &self,
        _name: &str,
        _ttl: Duration,
    ) -> impl Future<Output = Outcome<Self::Held>> + Send {
        async { Err("nobody measures that".into()) }
    }

    /// Acquires a lock that is not renewed.
    fn seize(
        &self,
        _name: &str,
        _lease: Duration,
    ) -> impl Future<Output = Outcome<Self::Held>> + Send {
        async { Err("nobody measures that".into()) }
    }

    /// Returns the Leasehold client, for latches and barriers. Another library returns an error.
    fn client(&self) -> Outcome<&Client> {
        Err("it has no latch".into())
    }

    /// The greatest lag of a renewal, if the library reports it.
    fn lag(&self) -> Option<Duration> {
        None
    }

    /// The number of waiting calls, if the library counts them.
    fn waiting(&self) -> Option<u64> {
        None
    }
}
