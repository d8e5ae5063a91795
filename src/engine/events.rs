//! What the store tells goes to whom it concerns.

use std::sync::Arc;

use tokio::sync::Notify;

use super::{contention::Contention, keeper::Keeper};
use crate::{
    domain::Name,
    store::{Event, Subscriber},
};

/// Hears everything that the store tells one client.
#[derive(Debug)]
pub(crate) struct Events {
    contention: Arc<Contention>,
    keeper: Arc<Keeper>,
    /// The store is there again.
    pub(super) back: Notify,
}

impl Subscriber for Events {
    fn hear(&self, event: Event) {
        match &event {
            Event::Freed { name, .. } | Event::Hears(name, _) => self.doubt_our_own(name),
            Event::Back => {
                self.keeper.ask_about_all();
                self.back.notify_waiters();
            }
            Event::Ask { .. } | Event::SubscriptionsLost => {}
        }
        self.contention.hear(event);
    }
}

impl Events {
    pub(super) fn new(contention: &Arc<Contention>, keeper: &Arc<Keeper>) -> Arc<Self> {
        let (contention, keeper) = (Arc::clone(contention), Arc::clone(keeper));
        Arc::new(Self { contention, keeper, back: Notify::new() })
    }

    /// A lock that we hold is announced to be free, or may have been: somebody
    /// forced it, or the message is an echo of the hold before ours, as it is
    /// soon after we entered.
    fn doubt_our_own(&self, name: &Name) {
        if let Some((grant, trusts_from)) = self.contention.grant(name) {
            self.keeper.ask_about(grant, trusts_from);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::{
        domain::Identity,
        engine::{Engine, clock::Clock, tasks::Spawner},
        store::memory::MemoryStore,
    };

    #[tokio::test(start_paused = true)]
    async fn who_leaves_a_store_alone_asks_again_when_it_is_back() {
        let store = Arc::new(MemoryStore::new().session());
        let clock = Clock::with(|| Duration::ZERO);
        let engine = Engine::new(Identity::of("one"), store, clock, Spawner::here());
        let mut rests = Box::pin(engine.rest(Duration::from_secs(1)));
        assert!((&mut rests).now_or_never().is_none());
        engine.events.hear(Event::SubscriptionsLost);
        assert!((&mut rests).now_or_never().is_none());
        engine.events.hear(Event::Back);
        assert!(rests.now_or_never().is_some());
    }
}
