//! The state that every module of the engine uses.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

use super::{clock::Clock, counters::Counters, pending::PendingReleases, recent::RecentReleases};
use crate::{
    domain::{Claim, ReleaseMode},
    store::RedisStore,
};

/// The store of one client, its clock, its counters and its pending releases.
pub(crate) struct Core {
    pub(super) store: Arc<RedisStore>,
    pub(super) clock: Clock,
    pub(super) counters: Arc<Counters>,
    pub(super) pending: PendingReleases,
    /// Completed releases that a new server may not have received.
    pub(super) recent: RecentReleases,
    /// Each waiter that repeats its request has a clone, so the number of clones is the number of
    /// such waiters.
    pub(super) waited_for: Arc<()>,
    /// How often a server was replaced.
    pub(super) moves: AtomicU64,
    /// How many callers have a release in flight, or a request whose grant may need a release.
    pub(super) asking: AtomicUsize,
    /// Notified when a connection to the store is up.
    pub(super) store_recovered: Notify,
    /// Wakes the background task before its planned time.
    pub(super) notifier: Notify,
    /// Closed when the client is shut down. The semaphore has no permits, so a task that acquires
    /// one waits for the shutdown.
    pub(super) open: Semaphore,
    /// Closed when the engine is dropped.
    pub(super) used: Semaphore,
}

impl Core {
    /// Records that a caller begins a request. The caller then checks whether the client is shut
    /// down. This memory fence and that of `asking` ensure that either the caller notices the
    /// shutdown, or the shutdown counts the caller.
    pub(super) fn begins_to_ask(&self) {
        self.asking.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Records that a request of a caller is over. If the store granted the request, the grant has
    /// already become a hold or a pending release.
    pub(super) fn has_asked(&self) {
        self.asking.fetch_sub(1, Ordering::Release);
    }

    /// Records that the store has replied to the release of `claim`. The last request of the
    /// release was sent at `asked_at`, after `moves` replacements of a server. If a server was
    /// replaced since then, the release is repeated, because the new server may have missed it.
    pub(super) fn has_released(
        &self,
        claim: &Claim,
        mode: ReleaseMode,
        asked_at: Instant,
        moves: u64,
    ) {
        if self.recent.note(claim, mode, asked_at) && self.moves() != moves {
            self.pending.queue_again([(claim.clone(), asked_at + claim.ttl)]);
        }
    }

    /// Records that a server was replaced, and repeats releases that the new server may not have
    /// received. If a release completes at the same time, either `has_released` reads the new
    /// number of moves, or this function repeats the release.
    pub(super) fn has_moved(&self) {
        self.moves.fetch_add(1, Ordering::AcqRel);
        self.pending.queue_again(self.recent.may_be_held(self.clock.now()));
    }

    /// Returns how many waiters of the client repeat requests: usually one for each name.
    pub(super) fn names_waited_for(&self) -> u32 {
        u32::try_from(Arc::strong_count(&self.waited_for)).unwrap_or(u32::MAX) - 1
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Returns how many callers have a request in flight.
    pub(super) fn asking(&self) -> usize {
        fence(Ordering::SeqCst);
        self.asking.load(Ordering::Acquire)
    }
}
