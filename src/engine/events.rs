//! What the store tells goes to whom it concerns.

use std::sync::Arc;

use super::{clock::Clock, contention::Contention, keeper::Keeper};
use crate::{
    domain::Name,
    store::{Event, Subscriber},
};

/// Hears everything that the store tells one client.
#[derive(Debug)]
pub(crate) struct Events {
    pub(super) contention: Arc<Contention>,
    pub(super) keeper: Arc<Keeper>,
    pub(super) clock: Clock,
}

impl Subscriber for Events {
    fn hear(&self, event: Event) {
        match &event {
            Event::Freed { name, .. } | Event::Hears(name, _) => self.doubt_our_own(name),
            Event::Back => self.keeper.ask_about_all(self.clock.now()),
            Event::Ask { .. } | Event::SubscriptionsLost => {}
        }
        self.contention.hear(event);
    }
}

impl Events {
    /// A lock that we hold is announced to be free, or may have been: somebody
    /// forced it, or the message is an echo of the hold before ours, as it is
    /// soon after we entered.
    fn doubt_our_own(&self, name: &Name) {
        if let Some(hold) = self.contention.held(name) {
            let due = hold.trusts_releases_from().max(self.clock.now());
            self.keeper.ask_about(hold.id(), due);
        }
    }
}
