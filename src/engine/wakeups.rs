//! The hub: many waiters, one subscription per name.
//!
//! A waiter asks, listens, and asks again once it hears: a release between the
//! first question and the subscription wakes nobody. So the news that we listen
//! to a name is a wake-up like any other.
//!
//! Where there was a waiter there soon is another one. So a name is listened to
//! for a while after the last one has gone, and who comes meanwhile need not ask
//! twice.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::stats::Counters;
use crate::{
    domain::{Name, Offer, Owner},
    store::{Store, Wake},
};

/// How long a name is listened to after its last listener has gone.
const LINGER: Duration = Duration::from_secs(2);

/// How many names are listened to for nobody.
const MOST_LINGERING: usize = 256;

/// Knows who waits for which name.
#[derive(Debug)]
pub(crate) struct Hub {
    store: Arc<dyn Store>,
    channels: Mutex<Channels>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Channels {
    of: BTreeMap<Name, Channel>,
    /// How many of them have no listener.
    lingering: usize,
}

#[derive(Debug, Default)]
struct Channel {
    listeners: Vec<Arc<Ear>>,
    heard: bool,
    /// Since when nobody listens.
    quiet_since: Option<Instant>,
}

/// What one listener hears with.
#[derive(Debug, Default)]
struct Ear {
    woken: Notify,
    heard: AtomicBool,
    queues: Mutex<Queues>,
}

/// Who queues, and what was granted to it.
#[derive(Debug, Default)]
struct Queues {
    owner: Option<Owner>,
    offer: Option<Offer>,
}

impl Ear {
    fn wake(&self, heard: bool) {
        self.heard.store(heard, Ordering::Relaxed);
        self.woken.notify_one();
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `offer` if it is for who listens here.
    fn takes(&self, offer: &Offer) -> bool {
        let mut queues = self.queues();
        let ours = queues.owner.as_ref() == Some(&offer.owner);
        if ours {
            queues.offer = Some(offer.clone());
        }
        ours
    }
}

impl Hub {
    pub(crate) fn new(store: Arc<dyn Store>, counters: Arc<Counters>) -> Arc<Self> {
        Arc::new(Self { store, channels: Mutex::default(), counters })
    }

    /// Listens to `name` until the listener is dropped. Who listens to it already
    /// is woken: a release may have been missed.
    pub(crate) fn listen(self: &Arc<Self>, name: &Name) -> Listener {
        let ear = Arc::new(Ear::default());
        let mut channels = self.channels();
        let first = !channels.of.contains_key(name);
        let heard = channels.add(name, &ear);
        drop(channels);
        if first {
            // First of all: when releases are heard, so are offers.
            self.store.attend();
            self.store.listen(name);
        }
        if heard {
            ear.wake(true);
        }
        self.listener(name, ear)
    }

    /// Listens to `name` if that is heard already. For one who has not asked yet,
    /// and so has missed nothing.
    pub(crate) fn join(self: &Arc<Self>, name: &Name) -> Option<Listener> {
        let mut channels = self.channels();
        channels.of.get(name).filter(|channel| channel.heard)?;
        let ear = Arc::new(Ear::default());
        channels.add(name, &ear);
        drop(channels);
        ear.heard.store(true, Ordering::Relaxed);
        Some(self.listener(name, ear))
    }

    fn listener(self: &Arc<Self>, name: &Name, ear: Arc<Ear>) -> Listener {
        Listener { hub: Arc::clone(self), name: name.clone(), ear }
    }

    fn forget(&self, name: &Name, ear: &Arc<Ear>) {
        let mut channels = self.channels();
        let Some(channel) = channels.of.get_mut(name) else { return };
        channel.listeners.retain(|other| !Arc::ptr_eq(other, ear));
        if !channel.listeners.is_empty() {
            return;
        }
        channel.quiet_since = Some(Instant::now());
        channels.lingering += 1;
        if channels.lingering > MOST_LINGERING {
            channels.end(name, &self.store);
        }
    }

    /// Ends what nobody has listened to for a while.
    pub(crate) fn tidy(&self) {
        let mut channels = self.channels();
        if channels.lingering == 0 {
            return;
        }
        let long_ago =
            |channel: &Channel| channel.quiet_since.is_some_and(|it| it.elapsed() >= LINGER);
        let quiet = channels.of.iter().filter(|(_, channel)| long_ago(channel));
        for name in quiet.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            channels.end(&name, &self.store);
        }
    }

    fn channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.channels().of.is_empty()
    }

    /// Wakes those whom it concerns.
    pub(crate) fn wake(&self, wake: Wake) {
        let mut channels = self.channels();
        match wake {
            Wake::Deaf => channels.of.values_mut().for_each(|channel| channel.tell(false)),
            Wake::Listening(name) => {
                if let Some(channel) = channels.of.get_mut(&name) {
                    channel.tell(true);
                }
            }
            Wake::Released(name) => {
                if let Some(channel) = channels.of.get_mut(&name) {
                    if !channel.listeners.is_empty() {
                        self.counters.woken();
                    }
                    channel.tell(true);
                }
            }
            Wake::Granted(_) => {}
        }
    }

    /// Tells of `offer` whoever queues for it. Returns whether somebody does.
    pub(crate) fn offer(&self, offer: &Offer) -> bool {
        let channels = self.channels();
        let listeners = channels.of.get(&offer.name).map(|channel| &channel.listeners);
        let ear = listeners.into_iter().flatten().find(|ear| ear.takes(offer));
        if let Some(ear) = ear {
            self.counters.woken();
            ear.woken.notify_one();
        }
        ear.is_some()
    }
}

impl Channels {
    /// Adds a listener. Returns whether the name is heard.
    fn add(&mut self, name: &Name, ear: &Arc<Ear>) -> bool {
        let channel = self.of.entry(name.clone()).or_default();
        channel.listeners.push(Arc::clone(ear));
        self.lingering -= usize::from(channel.quiet_since.take().is_some());
        channel.heard
    }

    /// Listens to `name` no longer.
    fn end(&mut self, name: &Name, store: &Arc<dyn Store>) {
        if self.of.remove(name).is_some() {
            self.lingering -= 1;
            // Under the lock, so that a listener who comes now listens after this.
            store.unlisten(name);
        }
    }
}

impl Channel {
    fn tell(&mut self, heard: bool) {
        self.heard = heard;
        self.listeners.iter().for_each(|ear| ear.wake(heard));
    }
}

/// Listens to one name for one waiter.
#[derive(Debug)]
pub(crate) struct Listener {
    hub: Arc<Hub>,
    name: Name,
    ear: Arc<Ear>,
}

impl Listener {
    /// Waits for the next wake-up. One that came before is not lost.
    pub(crate) async fn woken(&self) {
        self.ear.woken.notified().await;
    }

    /// Whether releases reach us at all.
    pub(crate) fn hears(&self) -> bool {
        self.ear.heard.load(Ordering::Relaxed)
    }

    /// Hears of offers to `owner` from now on, and of no others.
    pub(crate) fn queue_as(&self, owner: Option<&Owner>) {
        *self.ear.queues() = Queues { owner: owner.cloned(), offer: None };
    }

    /// The offer that came, if one did.
    pub(crate) fn offer(&self) -> Option<Offer> {
        self.ear.queues().offer.take()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.hub.forget(&self.name, &self.ear);
    }
}
