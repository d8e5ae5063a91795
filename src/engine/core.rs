//! What every room of the engine uses.

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};

use super::{clock::Clock, counters::Counters, debts::Debts};
use crate::store::Store;

/// The store of one client and the time, what it counts, and what it owes.
pub(crate) struct Core {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) counters: Arc<Counters>,
    pub(super) debts: Debts,
    /// Rung when the background is to look sooner than it has planned.
    pub(super) bell: Notify,
    /// Closed when the client is shut down. It has no permits: who acquires one waits for that.
    pub(super) open: Semaphore,
    /// Closed when the engine is dropped.
    pub(super) used: Semaphore,
}
