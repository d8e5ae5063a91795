//! The grant of the store, and the terms for its renewals and hand-offs.
//!
//! A grant may pass from one hold of this client to the next. The last hold releases the grant.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{clock::Stamp, timing::LONGEST_TIMEOUT};
use crate::domain::{Claim, Element, Token};

/// A grant of the store, with the state that it passes from hold to hold.
#[derive(Clone)]
pub(crate) struct Grant {
    /// The number that distinguishes this grant from other grants of the client.
    pub(crate) id: u64,
    pub(crate) claim: Claim,
    /// When the request was sent that acquired or last renewed the grant. The lease counts from
    /// that time.
    pub(super) leased_at: Instant,
    /// When the last renewal was sent, with or without a reply.
    pub(crate) asked_at: Stamp,
    /// How many replicas are known to have the grant and the tokens of all its holds.
    pub(super) replication: ReplicationStatus,
    /// Whether an earlier request of this acquisition got no reply. The store may still execute
    /// that request, even after the release of this grant.
    pub(crate) unsure: bool,
    /// Whether other clients want the lock, as far as this client knows.
    pub(crate) contended: bool,
    /// How often, and for how long, the grant may still pass to another hold in this process. For a
    /// fenced lock, each hold needs one of the tokens that came with the grant.
    pub(crate) budget: LocalBudget,
    /// The token of the current hold. The next hold has the next token.
    pub(crate) token: Option<Token>,
    /// The element that the grant claims from a queue.
    pub(crate) element: Option<Arc<Element>>,
}

/// How many replicas of a server have a grant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplicationStatus {
    replicas: u32,
    /// How often a server had been replaced when the replicas acknowledged.
    moves: u64,
}

impl ReplicationStatus {
    pub(crate) fn counted(replicas: u32, moves: u64) -> Self {
        Self { replicas, moves }
    }

    /// Returns how many replicas are known to have the grant. If a server was replaced since the
    /// replicas were counted, returns 0, because a counted replica may be the primary now.
    pub(crate) fn after(self, moves: u64) -> u32 {
        if self.moves == moves { self.replicas } else { 0 }
    }
}

/// The local budget that is left to a grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalBudget {
    /// How many more holds the grant may pass to.
    pub(crate) turns: u32,
    pub(crate) until: Stamp,
}

/// How a hold is renewed, and how it is handed off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Whether the watchdog renews the lease.
    pub(crate) renewed: bool,
    /// The longest time of the hold.
    pub(crate) max_hold: Option<Duration>,
    /// How long the lock may stay in this process.
    pub(crate) local: LocalHandoff,
}

/// How often and for how long a lock may pass from task to task within one process. After that,
/// waiters of other processes can acquire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LocalHandoff {
    pub(crate) most: u32,
    pub(crate) time: Duration,
}

impl Default for LocalHandoff {
    fn default() -> Self {
        Self { most: 10_000, time: Duration::from_millis(10) }
    }
}

impl LocalHandoff {
    /// Returns the local budget of a grant that begins at `now`.
    pub(crate) fn from(self, now: Instant) -> LocalBudget {
        LocalBudget { turns: self.most, until: (now + self.time.min(LONGEST_TIMEOUT)).into() }
    }
}

/// The lease profile of a grant, or the lease profile that a waiter needs. A renewal sets a lease
/// of `ttl`. A grant with a fixed lease has no `ttl`, and is never handed off: see `Hold::pass_on`.
/// A grant of permits without a lease has no `ttl` either, but can be handed off.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct LeaseProfile {
    pub(crate) ttl: Option<Duration>,
    /// Whether each hold has a token.
    pub(crate) fenced: bool,
    /// The number of permits of the grant.
    pub(crate) units: u32,
}
