//! Watches the connection that carries the commands. Warns of hazards, and checks whether the
//! hazards are resolved. Sends an event when the connection is up, and when another server replies.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use redis::cmd;
use tokio::time::sleep;

use super::warnings::Warnings;
use crate::{backoff::spread, health::About, mutex::Mutex};
use crate::{
    connection::{dial::Dialer, watcher::Watcher},
    pipe::wire::Wire,
    pubsub::{Event, Hub, SubscriptionTable},
    session::{about::with_info, info::time_of_day},
};

/// The pause between a new connection and its first checks. The client checks the other addresses
/// of the URL, and known hazards. Later checks follow at the interval `SELDOM`.
const FIRST: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(10);

/// Watches the link for commands.
#[derive(Debug)]
pub(super) struct Commands<T: SubscriptionTable> {
    hub: Arc<Hub<T>>,
    warnings: Arc<Warnings>,
    dialer: Arc<Dialer>,
    /// Whether commands went to another server before this watcher was created.
    replaces: bool,
    /// The last connected server.
    met: Mutex<Option<About>>,
}

impl<T: SubscriptionTable> Commands<T> {
    /// Returns a watcher of the connection to a new server. If the server `replaces` another one,
    /// the first connection causes the event that commands go to another server.
    pub(super) fn reporting(
        hub: &Arc<Hub<T>>,
        warnings: &Arc<Warnings>,
        dialer: &Arc<Dialer>,
        replaces: bool,
    ) -> Arc<Self> {
        let (hub, warnings) = (Arc::clone(hub), Arc::clone(warnings));
        let (dialer, met) = (Arc::clone(dialer), Mutex::default());
        Arc::new(Self { hub, warnings, dialer, replaces, met })
    }

    /// Returns whether the run id shows another server than before. A restarted server counts as
    /// another server.
    fn has_moved_to(&self, about: &About) -> bool {
        match self.met.lock().replace(about.clone()) {
            None => self.replaces,
            Some(before) => about.run_id.is_none() || before.run_id != about.run_id,
        }
    }

    /// Runs the checks after `FIRST`, and then at intervals of about `SELDOM`.
    async fn look(&self, wire: &Wire) -> Infallible {
        let mut pause = FIRST;
        loop {
            sleep(pause).await;
            if self.dialer.may_change() {
                self.check_other_addresses().await;
            }
            if self.warnings.may_be_over(&self.dialer.place()) {
                self.look_again(wire).await;
            }
            pause = spread(SELDOM);
        }
    }

    /// Checks whether other servers of the URL are also primaries.
    async fn check_other_addresses(&self) {
        self.dialer.check_other_addresses().await;
        self.warnings.log_sentinel_hazards(&self.dialer);
    }

    /// Checks the server again, because a hazard may have ended by itself.
    async fn look_again(&self, wire: &Wire) {
        let (asked, met) = (time_of_day(), self.met.lock().clone());
        let Some((met, info)) = met.zip(wire.call(&cmd("INFO")).await.ok()) else { return };
        let about = with_info(met, &[info], asked);
        if about.is_seen() {
            self.warnings.look(&about, &self.dialer);
        }
    }
}

impl<T: SubscriptionTable> Watcher for Commands<T> {
    fn traffic(&self) -> &'static str {
        "commands"
    }

    fn leads(&self) -> bool {
        true
    }

    fn connected(&self, about: &About) {
        self.warnings.look(about, &self.dialer);
        if self.has_moved_to(about) {
            self.hub.send_event(T::Event::moved());
        }
    }

    fn up(&self) {
        // Waiters that pause after a failure wait for this event, also for the first connection.
        self.hub.send_event(T::Event::back());
    }

    fn serve<'a>(&'a self, wire: &'a Wire) -> BoxFuture<'a, Infallible> {
        Box::pin(self.look(wire))
    }

    fn down(&self) {
        self.hub.suspicion.notify_one();
    }
}
