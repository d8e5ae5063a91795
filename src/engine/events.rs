//! Passes each event of the store to the parts of the engine that it concerns.

use super::Engine;
use crate::store::{Event, Subscriber};

impl Subscriber<Event> for Engine {
    fn receive(&self, event: Event) {
        match &event {
            // If this client holds `object`, the event may mean that another client has released
            // this hold by force. It may also be a late event about the previous hold. So the
            // watchdog checks in the store whether the hold still exists.
            Event::Freed { object, .. } | Event::Subscribed(object, _) => {
                self.contention.grant(object).iter().for_each(|id| self.watchdog.ask_about(*id));
            }
            Event::Back => {
                self.watchdog.ask_about_all();
                self.core.store_recovered.notify_waiters();
            }
            Event::Moved => self.core.has_moved(),
            Event::Ask { .. } | Event::Changed { .. } | Event::SubscriptionsLost => {}
        }
        self.contention.receive(event);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use futures_util::FutureExt;
    use tokio::time::sleep;

    use super::*;
    use crate::{
        Client, MemoryStore,
        domain::{Claim, Object, Owner, ReleaseMode},
    };

    fn client(memory: &MemoryStore) -> (Client, Arc<Engine>) {
        let engine = Engine::on(memory, "one");
        (Client::of(Arc::clone(&engine)), engine)
    }

    #[tokio::test(start_paused = true)]
    async fn pause_of_a_waiter_ends_when_the_store_recovers() {
        let (_, engine) = client(&MemoryStore::new());
        let mut rests = Box::pin(engine.wait_for_store(Duration::from_secs(1)));
        assert!((&mut rests).now_or_never().is_none());
        engine.receive(Event::SubscriptionsLost);
        assert!((&mut rests).now_or_never().is_none());
        engine.receive(Event::Back);
        assert!(rests.now_or_never().is_some());
    }

    /// Former bug: after a failover, a released lock stayed held for a *ttl* at the new server.
    #[tokio::test(start_paused = true)]
    async fn release_missed_by_a_new_server_is_repeated() {
        for dropped in [true, false] {
            let memory = MemoryStore::new();
            let (client, engine) = client(&memory);
            let guard = client.lock("door").unwrap().acquire().await.unwrap();
            let owner = guard.owner().clone();
            match dropped {
                true => drop(guard),
                false => drop(guard.release().await.unwrap()),
            }
            sleep(Duration::from_millis(1)).await;

            // given a server that has received the grant, but not its release
            let (store, door) = (&engine.core.store, Object::lock("door"));
            let claim = Claim::plain(door.clone(), owner, Duration::from_secs(30));
            store.acquire(&claim, None).await.unwrap();
            engine.receive(Event::Back);
            sleep(Duration::from_secs(1)).await;
            assert!(store.holder(&door).await.unwrap().is_some());

            // when the client sends its commands to this server
            engine.receive(Event::Moved);
            sleep(Duration::from_millis(1)).await;
            assert_eq!(store.holder(&door).await.unwrap(), None);
            assert_eq!(client.stats().releases_abandoned, 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn release_before_a_hand_off_is_not_repeated_at_a_new_server() {
        let memory = MemoryStore::new();
        let (client, engine) = client(&memory);
        let door = client.lock("door").unwrap();
        let guard = door.acquire().await.unwrap();
        let owner = guard.owner().clone();
        let (next, released) = tokio::join!(door.acquire(), guard.release());
        released.unwrap().into_result().unwrap();
        let next = next.unwrap();
        assert_eq!((next.owner(), client.stats().handed_off), (&owner, 1));

        engine.receive(Event::Moved);
        sleep(Duration::from_secs(1)).await;
        let holder = engine.core.store.holder(&Object::lock("door")).await.unwrap();
        assert!(holder.is_some_and(|holder| *holder.owner() == owner));
        assert!(next.is_held());
    }

    /// Former bug: a release was in flight when the server was replaced. The client did not repeat
    /// the release, because the releasing task was polled only after the replacement.
    #[tokio::test(start_paused = true)]
    async fn release_in_flight_is_repeated_at_the_new_server() {
        let memory = MemoryStore::new();
        let (client, engine) = client(&memory);
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        let owner = guard.owner().clone();
        memory.stall();
        let mut release = Box::pin(guard.release());
        assert!((&mut release).now_or_never().is_none());
        sleep(Duration::from_millis(1)).await;
        engine.receive(Event::Moved);
        memory.resume();
        release.await.unwrap().into_result().unwrap();

        // given a server that has received the grant, but not its release
        let (store, door) = (&engine.core.store, Object::lock("door"));
        let claim = Claim::plain(door.clone(), owner, Duration::from_secs(30));
        store.acquire(&claim, None).await.unwrap();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(store.holder(&door).await.unwrap(), None);
    }

    /// Former bug: each `Event::Moved` queued all recent releases, even those still queued.
    #[tokio::test(start_paused = true)]
    async fn repeated_release_is_queued_once_for_several_server_changes() {
        let memory = MemoryStore::new();
        let (client, engine) = client(&memory);
        for number in 0..10 {
            let lock = client.lock(format!("door:{number}")).unwrap();
            lock.acquire().await.unwrap().release().await.unwrap().into_result().unwrap();
        }
        memory.stall();
        for _ in 0..5 {
            engine.receive(Event::Moved);
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(engine.core.pending.listed(), 10);
        memory.resume();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(engine.core.pending.listed(), 0);
    }

    /// Former bug: the client repeated a release at a new server. When this server was replaced,
    /// too, the client had forgotten the release, because a later release made it look too old.
    #[tokio::test(start_paused = true)]
    async fn repeated_release_survives_a_second_change_of_server() {
        const LONG: Duration = Duration::from_secs(120);
        let memory = MemoryStore::new();
        let (client, engine) = client(&memory);
        let guard = client.lock("door").unwrap().ttl(LONG).acquire().await.unwrap();
        let owner = guard.owner().clone();
        guard.release().await.unwrap().into_result().unwrap();
        let (store, door) = (&engine.core.store, Object::lock("door"));
        let claim = Claim::plain(door.clone(), owner, LONG);
        store.acquire(&claim, None).await.unwrap();
        memory.fail("LOADING Redis is loading the dataset in memory");
        engine.receive(Event::Moved);
        sleep(Duration::from_secs(35)).await;

        // given another release, long after the first release
        let (gate, owner) = (Object::lock("gate"), Owner::new("one:99").unwrap());
        let other = Claim::plain(gate, owner, LONG);
        let core = &engine.core;
        core.has_released(&other, ReleaseMode::Broadcast, core.clock.now(), core.moves());
        sleep(Duration::from_millis(1)).await;
        engine.receive(Event::Moved);
        memory.heal();
        sleep(Duration::from_secs(3)).await;
        assert_eq!(store.holder(&door).await.unwrap(), None);
    }

    /// Former bug: the client recorded a release with the time of its first request. The client
    /// then forgot this release when it recorded a later release.
    #[tokio::test(start_paused = true)]
    async fn release_that_took_long_is_repeated_at_a_new_server() {
        const LONG: Duration = Duration::from_secs(120);
        let memory = MemoryStore::new();
        let (client, engine) = client(&memory);
        let guard = client.lock("door").unwrap().ttl(LONG).acquire().await.unwrap();
        let owner = guard.owner().clone();
        memory.fail("LOADING Redis is loading the dataset in memory");
        drop(guard);
        sleep(Duration::from_secs(40)).await;
        memory.heal();
        sleep(Duration::from_secs(5)).await;
        let gate = client.lock("gate").unwrap();
        gate.acquire().await.unwrap().release().await.unwrap().into_result().unwrap();

        // given a server that has received the grant, but not its release
        let (store, door) = (&engine.core.store, Object::lock("door"));
        assert_eq!(store.holder(&door).await.unwrap(), None);
        store.acquire(&Claim::plain(door.clone(), owner, LONG), None).await.unwrap();
        engine.receive(Event::Moved);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(store.holder(&door).await.unwrap(), None);
    }
}
