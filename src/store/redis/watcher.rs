//! Watches the connection for commands: warns of what can hurt locks, and tells that commands
//! are answered again after it was lost.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::time::sleep;

use super::{
    connection::{Dialer, Watcher, Wire},
    subscriptions::Hub,
    warnings::Warnings,
};
use crate::{
    domain::{About, spread},
    store::Event,
};

/// How soon after a connection is made the other addresses of a server are looked at, and how
/// often from then on.
const FIRST: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(10);

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

    /// Looks now and again at those who are not the server, and may take themselves for it.
    async fn look_around(&self) -> Infallible {
        if !self.dialer.may_change() {
            return pending().await;
        }
        let mut pause = FIRST;
        loop {
            sleep(pause).await;
            self.dialer.look_around().await;
            self.warnings.tell(&self.dialer.findings());
            pause = spread(SELDOM);
        }
    }
}

impl Watcher for Commands {
    fn carries(&self) -> &'static str {
        "commands"
    }

    fn leads(&self) -> bool {
        true
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

    fn attend<'a>(&'a self, _wire: &'a Wire) -> BoxFuture<'a, Infallible> {
        Box::pin(self.look_around())
    }

    fn down(&self) {
        self.hub.suspicion.notify_one();
    }
}
