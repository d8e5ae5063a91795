//! Watches the connection for commands: warns of servers that will not do, and tells that
//! commands are answered again after it was lost.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{
    connection::{Dialer, Watcher},
    subscriptions::Hub,
    warnings::Warnings,
};
use crate::{domain::About, store::Event};

/// Watches the link for commands.
#[derive(Debug)]
pub(super) struct Commands {
    hub: Arc<Hub>,
    warnings: Arc<Warnings>,
    dialer: Arc<Dialer>,
    was_up: AtomicBool,
}

impl Commands {
    /// A watcher of a connection to a server that is new to us; or, if it `replaces` one, of
    /// which the first connection is one that is made again.
    pub(super) fn telling(
        hub: &Arc<Hub>,
        warnings: &Arc<Warnings>,
        dialer: &Arc<Dialer>,
        replaces: bool,
    ) -> Arc<Self> {
        let (hub, warnings) = (Arc::clone(hub), Arc::clone(warnings));
        let dialer = Arc::clone(dialer);
        Arc::new(Self { hub, warnings, dialer, was_up: AtomicBool::new(replaces) })
    }
}

impl Watcher for Commands {
    fn carries(&self) -> &'static str {
        "commands"
    }

    fn met(&self, about: &About) {
        self.warnings.tell(&self.warnings.findings(about));
        self.warnings.tell(&self.dialer.findings());
    }

    fn up(&self) {
        if self.was_up.swap(true, Ordering::AcqRel) {
            self.hub.say(Event::Back);
        }
    }

    fn down(&self) {
        self.hub.suspicion.notify_one();
    }
}
