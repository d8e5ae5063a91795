//! What must be atomic, in our words.
//!
//! The store answers a handful of requests. It does not wait, retry or keep a
//! schedule: that is the engine's part. Every request may be repeated with the same
//! owner, so a lost reply is recovered by asking again; but for two, a guarded write and
//! a forced release, whose caller does not know then.
//!
//! `redis/kinds/mod.rs` has what is asked of every kind of object, and the folders beside it what
//! one kind has alone. `conformance/` says as plain functions what every deployment must do.

use std::time::Duration;

pub(crate) use self::redis::{RedisStore, kinds::*};
use crate::domain::Object;

#[cfg(test)]
pub(crate) mod conformance;
pub(crate) mod redis;

/// A health check waits no longer than this for the answer of a server.
pub(crate) const HEALTH_CHECK: Duration = Duration::from_millis(200);

/// For so long a lock is reserved for one who was told that it is its turn: time to ask,
/// not to work. Who is dead or paused then keeps the others out for no longer.
pub(crate) const RESERVATION: Duration = Duration::from_millis(750);

/// A waiter that is next in a queue, and has waited for this long, is notified to ask when the
/// [`RESERVATION`] for the one before it ends: that one may be dead.
pub(crate) const WARNED_AFTER: Duration = Duration::from_millis(200);

/// When the waiter behind that one is to ask: both before it may be dead.
pub(crate) const LATER: Duration = Duration::from_secs(1);

/// How long a queue stays that nobody asks about, and the record of a yield window.
pub(crate) const QUEUE_RESTS: Duration = Duration::from_secs(15);

/// For so long after it asked one counts as waiting of whom the store is only to know that.
pub(crate) const KNOWN_FOR: Duration = Duration::from_secs(5);

/// For so long after it was given up a question may still be executed: it lies in the
/// buffer of a server that hangs, or in that of a network that was cut.
pub(crate) const LATEST: Duration = Duration::from_secs(15 * 60);

/// For so long permits are left to who has waited longest, after it last asked.
pub(crate) const PATIENT_RESTS: Duration = Duration::from_secs(5);

/// For so long readers let those go first who came to write before them; then they enter for
/// as long, and so on. Who waits for a reader that waits for it would else wait for ever.
pub(crate) const COURTESY_TURN: Duration = Duration::from_secs(10);

/// For so long permits are left to those who have waited longest, one after the other; then
/// for as long to nobody. What they wait for may never come: its holders may be dead.
pub(crate) const PATIENT_TURN: Duration = Duration::from_secs(30);

/// For so long a change that is asked for again is known.
pub(crate) const RECEIPT_RESTS: Duration = Duration::from_secs(60);

/// What is heard of a name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum SubscriptionLevel {
    /// Nothing: who waits polls.
    #[default]
    Nothing,
    /// That it was released: who waits asks then, and does not queue.
    Releases,
    /// Also when it is our turn: who waits may queue.
    Turns,
}

/// What a store tells without being asked. All of it is a hint: nothing is believed but
/// the answer to a question of one's own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// Nothing is heard of any name, from now on.
    SubscriptionsLost,
    /// What is heard of this name from now on; a release may just have been missed.
    Subscribed(Object, SubscriptionLevel),
    /// The store is there again after it was away: it may have lost what it held.
    Back,
    /// Commands go to another server than before, which may not know what the one before was
    /// told last.
    Moved,
    /// This name was released. Who queues need not ask if the queue was told besides.
    Freed { object: Object, queue_told: bool },
    /// It is our turn to ask for this name, after so long.
    Ask { object: Object, after: Duration },
}

/// Who is told of events. Called from the store's own tasks: must not block.
pub(crate) trait Subscriber: Send + Sync {
    fn receive(&self, event: Event);
}
