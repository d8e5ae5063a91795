//! What the store tells goes to whom it concerns.

use super::Engine;
use crate::store::{Event, Subscriber};

impl Subscriber for Engine {
    fn hear(&self, event: Event) {
        match &event {
            // Somebody forced a release of a lock that we hold; or this is the echo of our
            // previous hold, as it is soon after we entered.
            Event::Freed { object, .. } | Event::Hears(object, _) => {
                self.contention.grant(object).iter().for_each(|id| self.keeper.ask_about(*id));
            }
            Event::Back => {
                self.keeper.ask_about_all();
                self.core.back.notify_waiters();
            }
            Event::Ask { .. } | Event::SubscriptionsLost => {}
        }
        self.contention.hear(event);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use futures_util::FutureExt;

    use super::*;
    use crate::{
        domain::Identity,
        engine::{clock::Clock, tasks::here},
        store::memory::MemoryStore,
    };

    #[tokio::test(start_paused = true)]
    async fn who_leaves_a_store_alone_asks_again_when_it_is_back() {
        let store = Arc::new(MemoryStore::new().session());
        let clock = Clock::with(|| Duration::ZERO);
        let engine = Engine::new(Identity::of("one"), store, clock, here());
        let mut rests = Box::pin(engine.rest(Duration::from_secs(1)));
        assert!((&mut rests).now_or_never().is_none());
        engine.hear(Event::SubscriptionsLost);
        assert!((&mut rests).now_or_never().is_none());
        engine.hear(Event::Back);
        assert!(rests.now_or_never().is_some());
    }
}
