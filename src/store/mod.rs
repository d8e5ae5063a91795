//! The atomic requests to a store.
//!
//! The store has only a few requests. It does not wait, retry or keep a schedule: the engine does
//! this. If a reply is lost, the engine repeats the request with the same owner. Two requests must
//! not be repeated: a guarded write and a forced release. Their callers get an error that leaves
//! the result open.
//!
//! `redis/kinds/mod.rs` has the requests of all kinds of objects, and the folders next to it have
//! those of one kind. `conformance/` has the behaviour of every deployment as plain functions.

use std::time::Duration;

pub(crate) use leasehold_link::{HEALTH_CHECK, Subscriber};

pub(crate) use self::redis::{RedisStore, audit, client_info, in_slot, inspect, kinds::*, report};
use crate::domain::Object;

#[cfg(test)]
pub(crate) mod conformance;
pub(crate) mod redis;

/// How long a lock is reserved for the notified client: time for a request, but not for work. A
/// dead or paused client blocks the others no longer than this.
pub(crate) const RESERVATION: Duration = Duration::from_millis(750);

/// After the second waiter in a queue has waited this long, it is notified to send a request when
/// the [`RESERVATION`] for the first one ends, because the first one may be dead.
pub(crate) const WARNED_AFTER: Duration = Duration::from_millis(200);

/// When the third waiter sends a request, because both waiters before it may be dead.
pub(crate) const LATER: Duration = Duration::from_secs(1);

/// How long an unused queue is kept, and the record of a yield window.
pub(crate) const QUEUE_RESTS: Duration = Duration::from_secs(15);

/// How long a waiter of [`WaiterRecord::ExpiringEntry`](crate::domain::WaiterRecord::ExpiringEntry) or
/// [`WaiterRecord::EntryPerTask`](crate::domain::WaiterRecord::EntryPerTask) counts after its last request.
pub(crate) const KNOWN_FOR: Duration = Duration::from_secs(5);

/// How long a request may still be executed after the client gave it up: it may be in the buffer of
/// a server that hangs, or of a partitioned network.
pub(crate) const LATEST: Duration = Duration::from_secs(15 * 60);

/// How long permits are left to the longest waiter after its last request.
pub(crate) const LONGEST_WAITER_RESTS: Duration = Duration::from_secs(5);

/// How long readers wait for earlier writers. Then readers may acquire for the same time, and so
/// on. Otherwise a reader and a writer that wait for each other would wait for ever.
pub(crate) const COURTESY_TURN: Duration = Duration::from_secs(10);

/// How long permits are left to the longest waiter. Then all clients may take them for the same
/// time, and so on, because that waiter may wait for permits of dead holders, which never come
/// back.
pub(crate) const LONGEST_WAITER_TURN: Duration = Duration::from_secs(30);

/// How long the store recognizes a repeated change.
pub(crate) const RECEIPT_RESTS: Duration = Duration::from_secs(60);

/// How long a member of a barrier counts after its last request: longer than it waits for a
/// message, and than most failovers take.
pub(crate) const MEMBER_RESTS: Duration = Duration::from_secs(10);

/// How long the openings of a barrier are counted after the last one.
pub(crate) const GENERATION_RESTS: Duration = Duration::from_secs(24 * 60 * 60);

/// How many bytes a key or a value of a map may have, and an element of a set or a queue.
pub(crate) const MAX_VALUE_BYTES: usize = 100_000;

/// The messages of a name that the client receives.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum SubscriptionLevel {
    /// Nothing: waiters poll.
    #[default]
    Nothing,
    /// Releases: waiters send a request after each, and do not queue.
    Releases,
    /// Releases, and the client's own notifications: waiters may queue.
    Turns,
}

/// A message that the store sends without a request. All of them are hints: only the reply to a
/// client's own request grants a lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// From now on, the messages of all names are lost.
    SubscriptionsLost,
    /// This is the level of the name from now on. A release may have been missed.
    Subscribed(Object, SubscriptionLevel),
    /// The store is reachable again; it may have lost what was held.
    Back,
    /// Commands go to another server than before, which may not have the last writes.
    Moved,
    /// This name was released. With `queue_notified`, queued waiters need not ask.
    Freed { object: Object, queue_notified: bool },
    /// Clients that only observe this name have to send a request.
    Changed { object: Object },
    /// This client has to send a request for this name after this time.
    Ask { object: Object, after: Duration },
}

impl leasehold_link::Event for Event {
    type Topic = Object;

    fn back() -> Self {
        Self::Back
    }

    fn moved() -> Self {
        Self::Moved
    }

    fn unsubscribed(object: Object) -> Self {
        Self::Subscribed(object, SubscriptionLevel::Nothing)
    }
}
