//! A grant on its way from one hold of this client to the next.

use std::sync::Arc;

use tokio::time::Instant;

use crate::engine::{
    debts::{Debt, Debts},
    grant::{Grant, Shape},
};

/// A grant that is nobody's for a moment. Who drops it gives the lock back to the store.
#[derive(Debug)]
pub(crate) struct Baton {
    grant: Option<Grant>,
    debts: Arc<Debts>,
}

impl Baton {
    pub(super) fn new(grant: Grant, debts: &Arc<Debts>) -> Self {
        Self { grant: Some(grant), debts: Arc::clone(debts) }
    }

    pub(super) fn shape(&self) -> Shape {
        Shape(self.grant.as_ref().map(|grant| grant.claim.ttl))
    }

    /// The number of the grant, unless it is over.
    pub(super) fn id(&self) -> Option<u64> {
        self.grant.as_ref().map(|grant| grant.id)
    }

    /// The store says that this grant is not ours any more.
    pub(super) fn disown(&mut self, id: u64) {
        self.grant.take_if(|grant| grant.id == id);
    }

    /// The grant, if it may still be believed at `now`.
    pub(crate) fn take(mut self, now: Instant) -> Option<Grant> {
        self.grant.take_if(|grant| now < grant.lease.ends())
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.debts.owe(Debt::of_grant(&grant));
        }
    }
}
