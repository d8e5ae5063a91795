//! A grant between one hold of this client and the next.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    domain::ReleaseMode,
    engine::{
        core::Core,
        grant::{Grant, LeaseProfile},
        hold::Hold,
        pending::PendingRelease,
    },
};

/// A grant between two holds. Dropping it releases the lock in the store.
pub(crate) struct HandoffGrant {
    from: Option<Arc<Hold>>,
    core: Arc<Core>,
}

impl HandoffGrant {
    pub(super) fn new(from: &Arc<Hold>, core: &Arc<Core>) -> Self {
        Self { from: Some(Arc::clone(from)), core: Arc::clone(core) }
    }

    pub(super) fn profile(&self) -> LeaseProfile {
        self.from.as_ref().map_or_else(LeaseProfile::default, |from| from.profile())
    }

    /// Returns the number of the grant, unless the store has reported its loss.
    pub(super) fn id(&self) -> Option<u64> {
        self.from.as_ref().map(|from| from.grant.id)
    }

    /// Discards the grant if it has this number, because the store reported that this client lost
    /// the grant.
    pub(super) fn disown(&mut self, id: u64) {
        self.from.take_if(|from| from.grant.id == id);
    }

    /// Returns the grant, if its lease is still valid at `now`. Otherwise releases the grant.
    pub(crate) fn take(mut self, now: Instant) -> Option<Grant> {
        let grant = self.from.as_ref()?.grant_for_next(now)?;
        self.from = None;
        Some(grant)
    }
}

impl Drop for HandoffGrant {
    fn drop(&mut self) {
        if let Some(from) = self.from.take() {
            let now = self.core.clock.now();
            self.core.pending.queue(PendingRelease::of(&from, ReleaseMode::HandOver, now));
        }
    }
}
