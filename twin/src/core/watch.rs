//! The state of the primary that a sentinel watches.

use std::sync::Arc;

use super::{Core, clients::Scope};
use crate::address::Address;

/// The state of a primary, its replicas and its sentinels, after `version` changes.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// How many changes have led to this state.
    pub(crate) version: u64,
    pub(crate) name: String,
    pub(crate) primary: Address,
    pub(crate) replicas: usize,
    /// The number of the failover that promoted the primary.
    pub(crate) epoch: u64,
    pub(crate) quorum: usize,
    pub(crate) sentinels: Vec<Sentinel>,
}

/// A sentinel, as other sentinels know it.
#[derive(Clone, Debug)]
pub(crate) struct Sentinel {
    pub(crate) id: String,
    pub(crate) address: Address,
    pub(crate) is_down: bool,
}

impl Core {
    /// Learns of a change. If the primary has changed, publishes the new primary to subscribers.
    pub(crate) fn watches(&mut self, watched: &Arc<Watched>) {
        self.tick();
        let before = self.watched.as_ref();
        if before.is_some_and(|before| before.version >= watched.version) {
            return;
        }
        let Some(before) = self.watched.replace(Arc::clone(watched)) else { return };
        let (old, new) = (&before.primary, &watched.primary);
        if old != new {
            let name = &watched.name;
            let words = format!("{name} {} {} {} {}", old.host, old.port, new.host, new.port);
            self.deliver(Scope::Plain, b"+switch-master", words.as_bytes());
        }
    }
}
