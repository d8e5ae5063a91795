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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Identity, Owner},
        engine::{Engine, tasks::Spawner},
        store::memory::MemoryStore,
    };

    const NAME: &str = "door";

    fn client() -> Arc<Engine> {
        let store = Arc::new(MemoryStore::new().session());
        Engine::new(Identity::of("client"), store, Clock::new(), Spawner::here())
    }

    fn offer(owner: &Owner) -> Wake {
        let (name, owner) = (Name::new(NAME).unwrap(), owner.clone());
        Wake::Granted(Offer { name, owner, number: 1, passes: 1 })
    }

    #[tokio::test]
    async fn an_offer_to_one_that_has_gone_is_given_back() {
        let engine = client();
        engine._news.wake(offer(&engine.identity.fresh_owner()));
        assert_eq!(engine.releases.owed(), 1);
    }

    #[tokio::test]
    async fn an_offer_to_one_that_has_entered_by_asking_is_old_news() {
        let engine = client();
        let lock = crate::Client::of(Arc::clone(&engine)).lock(NAME).unwrap();
        let guard = lock.acquire().await.unwrap();
        engine._news.wake(offer(guard.owner()));
        assert_eq!(engine.releases.owed(), 0);
        assert!(guard.is_held());
    }
}
