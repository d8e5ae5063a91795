//! The hub: many waiters, one subscription per name.
//!
//! A waiter asks, listens, and asks again once it hears: a release between the
//! first question and the subscription wakes nobody. So the news that we listen
//! to a name is a wake-up like any other.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::stats::Counters;
use crate::{
    domain::Name,
    store::{Sleepers, Store, Wake},
};

/// Knows who waits for which name.
#[derive(Debug)]
pub(crate) struct Hub {
    store: Arc<dyn Store>,
    channels: Mutex<BTreeMap<Name, Channel>>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Channel {
    listeners: Vec<Arc<Ear>>,
    heard: bool,
}

/// What one listener hears with.
#[derive(Debug, Default)]
struct Ear {
    woken: Notify,
    heard: AtomicBool,
}

impl Ear {
    fn wake(&self, heard: bool) {
        self.heard.store(heard, Ordering::Relaxed);
        self.woken.notify_one();
    }
}

impl Hub {
    pub(crate) fn new(store: Arc<dyn Store>, counters: Arc<Counters>) -> Arc<Self> {
        let hub = Arc::new(Self { store, channels: Mutex::default(), counters });
        let sleepers: Arc<dyn Sleepers> = Arc::<Self>::clone(&hub);
        hub.store.wake(Arc::downgrade(&sleepers));
        hub
    }

    /// Listens to `name` until the listener is dropped.
    pub(crate) fn listen(self: &Arc<Self>, name: &Name) -> Listener {
        let ear = Arc::new(Ear::default());
        let first = {
            let mut channels = self.channels();
            let channel = channels.entry(name.clone()).or_default();
            channel.listeners.push(Arc::clone(&ear));
            if channel.heard {
                ear.wake(true);
            }
            channel.listeners.len() == 1
        };
        if first {
            self.store.listen(name);
        }
        Listener { hub: Arc::clone(self), name: name.clone(), ear }
    }

    fn forget(&self, name: &Name, ear: &Arc<Ear>) {
        let mut channels = self.channels();
        let Some(channel) = channels.get_mut(name) else { return };
        channel.listeners.retain(|other| !Arc::ptr_eq(other, ear));
        if channel.listeners.is_empty() {
            channels.remove(name);
            // Under the lock, so that a listener who comes now listens after this.
            self.store.unlisten(name);
        }
    }

    fn channels(&self) -> MutexGuard<'_, BTreeMap<Name, Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.channels().is_empty()
    }
}

impl Sleepers for Hub {
    fn wake(&self, wake: Wake) {
        let mut channels = self.channels();
        match wake {
            Wake::Deaf => channels.values_mut().for_each(|channel| channel.tell(false)),
            Wake::Listening(name) => {
                if let Some(channel) = channels.get_mut(&name) {
                    channel.tell(true);
                }
            }
            Wake::Released(name) => {
                if let Some(channel) = channels.get_mut(&name) {
                    self.counters.woken();
                    channel.tell(true);
                }
            }
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
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.hub.forget(&self.name, &self.ear);
    }
}
