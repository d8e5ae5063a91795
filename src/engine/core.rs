//! What every room of the engine uses.

use std::sync::Arc;

use super::{clock::Clock, counters::Counters, debts::Debts};
use crate::store::Store;

/// The store of one client and the time, what it counts, and what it owes.
pub(crate) struct Core {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) counters: Arc<Counters>,
    pub(super) debts: Debts,
}
