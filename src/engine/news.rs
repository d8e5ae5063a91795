//! What the store tells without being asked goes to whom it concerns.

use std::sync::Arc;

use super::{
    clock::Clock,
    keeper::Keeper,
    releases::{Debt, Releases},
    turns::Turns,
    wakeups::Hub,
};
use crate::{
    domain::{Name, Offer},
    store::{Sleepers, Wake},
};

/// Hears everything that the store tells one client.
#[derive(Debug)]
pub(crate) struct News {
    pub(super) hub: Arc<Hub>,
    pub(super) turns: Arc<Turns>,
    pub(super) keeper: Arc<Keeper>,
    pub(super) releases: Arc<Releases>,
    pub(super) clock: Clock,
}

impl Sleepers for News {
    fn wake(&self, wake: Wake) {
        match &wake {
            Wake::Released(name) | Wake::Listening(name) => self.doubt_our_own(name),
            Wake::Granted(offer) => self.offer(offer),
            Wake::Deaf => {}
        }
        self.hub.wake(wake);
    }
}

impl News {
    /// The lock was given to one of us, who may have gone, or have asked and been
    /// told so already.
    fn offer(&self, offer: &Offer) {
        if !self.hub.offer(offer) && !self.turns.owns(&offer.name, &offer.owner) {
            self.releases.owe(Debt::of_offer(offer, self.clock.now()));
        }
    }

    /// A lock that we hold is announced to be free, or may have been: somebody
    /// forced it, or the message is an echo of the hold before ours, as it is
    /// soon after we entered.
    fn doubt_our_own(&self, name: &Name) {
        if let Some(hold) = self.turns.held(name) {
            self.keeper.ask_about(hold.id(), hold.grows_up().max(self.clock.now()));
        }
    }
}
