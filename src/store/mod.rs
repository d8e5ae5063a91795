//! The atomic requests to a store.
//!
//! The store has only a few requests. The engine waits, retries and keeps schedules. If a reply is
//! lost, the engine repeats the request with the same owner. The engine does not repeat a guarded
//! write or a forced release. If their reply is lost, the caller gets an error, which says that the
//! store may have executed the request.
//!
//! `redis/kinds/mod.rs` has the requests that all kinds of objects share. Each folder next to that
//! file has the requests of one kind. `conformance/` has the tests that every deployment must pass,
//! as plain functions.

use std::time::Duration;

pub(crate) use leasehold_link::{HEALTH_CHECK, Subscriber};

pub(crate) use self::redis::{RedisStore, audit, client_info, inspect, keys, kinds::*, report};
use crate::domain::Object;

#[cfg(test)]
pub(crate) mod conformance;
pub(crate) mod redis;

/// How long a lock is reserved for the notified client. The time is enough for a request, but not
/// for work. If the notified client is dead or paused, it blocks the others for at most this time.
pub(crate) const RESERVATION: Duration = Duration::from_millis(750);

/// If the first two waiters in a queue have waited for this long, a release also notifies the
/// second waiter. That waiter then sends a request at the end of the [`RESERVATION`], because the
/// first waiter may be dead.
pub(crate) const WARNED_AFTER: Duration = Duration::from_millis(200);

/// How long after a release the third waiter in a queue sends a request, because both waiters
/// before it may be dead.
pub(crate) const LATER: Duration = Duration::from_secs(1);

/// How long Redis keeps an unused queue, and the record of the last yield window.
pub(crate) const QUEUE_KEPT_FOR: Duration = Duration::from_secs(15);

/// How long after its last request a waiter still counts as waiting, for
/// [`WaiterRecord::ExpiringEntry`](crate::domain::WaiterRecord::ExpiringEntry) and
/// [`WaiterRecord::EntryPerTask`](crate::domain::WaiterRecord::EntryPerTask).
pub(crate) const KNOWN_FOR: Duration = Duration::from_secs(5);

/// How long a server may still execute a request after the client has given up this request. Until
/// then, the request may be in the buffer of a server that hangs, or of a partitioned network.
pub(crate) const LATEST_EXECUTION: Duration = Duration::from_secs(15 * 60);

/// How long the store keeps permits for the longest waiter, after the last request of this waiter.
pub(crate) const PERMITS_KEPT_FOR: Duration = Duration::from_secs(5);

/// How long readers wait for an earlier writer. For the next period of this length, readers may
/// acquire. The two periods alternate. Without the second period, a reader and a writer that wait
/// for each other would wait for ever.
pub(crate) const COURTESY_TURN: Duration = Duration::from_secs(10);

/// How long the store keeps permits for the longest waiter. For the next period of this length, all
/// clients may acquire these permits. The two periods alternate. The permits of dead holders never
/// come back. Without the second period, a waiter that needs such permits would block the other
/// waiters for ever.
pub(crate) const LONGEST_WAITER_TURN: Duration = Duration::from_secs(30);

/// How long the store keeps an idempotency key, by which it recognizes a repeated change.
pub(crate) const RECEIPT_KEPT_FOR: Duration = Duration::from_secs(60);

/// How long a member of a barrier counts after its last request. This time is longer than the pause
/// between two requests of a waiting member, and longer than most failovers.
pub(crate) const MEMBER_KEPT_FOR: Duration = Duration::from_secs(10);

/// How long the store keeps the number of openings of a barrier after the last opening.
pub(crate) const GENERATION_KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The largest number of bytes of a key or a value of a map, and of an element of a set or a queue.
pub(crate) const MAX_VALUE_BYTES: usize = 100_000;

/// Which messages of a name the client receives.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum SubscriptionLevel {
    /// No messages: waiters poll.
    #[default]
    Nothing,
    /// Releases: waiters send a request after each release, and do not queue.
    Releases,
    /// Releases, and the notifications for this client alone: waiters may queue.
    Turns,
}

/// A message that the store sends without a request. An event is only a hint, because only the
/// reply to a client's own request grants a lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// From now on, the client receives no messages of any name.
    SubscriptionsLost,
    /// From now on, the client receives the messages of this level for the object. The client may
    /// have missed an earlier release.
    Subscribed(Object, SubscriptionLevel),
    /// A connection to the store is up, for the first time or again. The store may have lost holds.
    Back,
    /// Commands now go to another server, which may lack the last writes.
    Moved,
    /// This object was released. With `queue_notified`, queued waiters need not send a request,
    /// because the release notified the first waiter in the queue.
    Freed { object: Object, queue_notified: bool },
    /// Clients that only observe this object should send a request.
    Changed { object: Object },
    /// This client should send a request for this object after this time.
    Ask { object: Object, after: Duration },
}

impl leasehold_link::Event for Event {
    type Topic = Object;

    /// Returns the event which says that a connection to the store is up.
    fn back() -> Self {
        Self::Back
    }

    /// Returns the event which says that commands now go to another server.
    fn moved() -> Self {
        Self::Moved
    }

    /// Returns the event which says that the client no longer receives messages about `object`.
    fn unsubscribed(object: Object) -> Self {
        Self::Subscribed(object, SubscriptionLevel::Nothing)
    }
}
