//! Replicas: they hear of what was written, a while later.
//!
//! A master sends the outcome of each command or script as one batch: what lies
//! under the keys it has touched, and what it has published. What is on its way
//! when a replica is promoted is lost. A replica acknowledges each batch.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, sleep_until},
};

use super::Core;
use crate::{
    Shared,
    data::{Entry, Keyspace},
    delay::Delay,
};

/// What a replica is told.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// What lies under a key of a database now, if anything.
    Key(usize, Vec<u8>, Option<Entry>),
    Everything(Vec<Keyspace>),
    Message(Vec<u8>, Vec<u8>),
}

/// The outcome of one command, when it arrives, and how much was written with it.
type Batch = (Instant, u64, Vec<Effect>);

/// The place of a server among others.
#[derive(Debug, Default)]
pub(super) struct Replication {
    feeds: Vec<Feed>,
    /// Whom it follows, if it is a replica.
    leader: Option<Leader>,
    /// How often that has changed.
    term: u64,
    /// The keys that were written since the last batch.
    touched: BTreeSet<(usize, Vec<u8>)>,
    /// Whether it was more than these.
    everything: bool,
    messages: Vec<Effect>,
    /// How many batches there were.
    offset: u64,
    /// The number of the last feed.
    last_feed: u64,
}

#[derive(Clone, Debug)]
struct Leader {
    server: Weak<Shared>,
    lag: Delay,
}

/// The way to one replica.
#[derive(Debug)]
struct Feed {
    number: u64,
    replica: Weak<Shared>,
    /// How much of what was written the replica has.
    acknowledged: Option<u64>,
    lag: Delay,
    last: Instant,
    batches: UnboundedSender<Batch>,
}

impl Core {
    pub(crate) fn is_replica(&self) -> bool {
        self.replication.leader.is_some()
    }

    fn is_followed(&self) -> bool {
        !self.replication.feeds.is_empty()
    }

    pub(super) fn note_message(&mut self, channel: &[u8], message: &[u8]) {
        if self.is_followed() {
            let message = Effect::Message(channel.to_vec(), message.to_vec());
            self.replication.messages.push(message);
        }
    }

    pub(crate) fn note_keys(&mut self, db: usize, keys: &[&[u8]]) {
        if self.is_followed() {
            self.replication.touched.extend(keys.iter().map(|key| (db, key.to_vec())));
        }
    }

    pub(super) fn note_everything(&mut self) {
        self.replication.everything = true;
    }

    /// Tells the replicas what was noted since the last time.
    pub(crate) fn feed(&mut self) {
        let everything = std::mem::take(&mut self.replication.everything);
        if !self.is_followed() {
            return;
        }
        let touched = std::mem::take(&mut self.replication.touched);
        let mut effects: Vec<_> = match everything {
            true => vec![Effect::Everything(self.snapshot())],
            false => touched.into_iter().map(|(db, key)| self.effect_on(db, key)).collect(),
        };
        effects.append(&mut self.replication.messages);
        if effects.is_empty() {
            return;
        }
        self.replication.offset += 1;
        let (now, offset, random) = (self.instant(), self.replication.offset, &mut self.random);
        self.replication.feeds.retain_mut(|feed| {
            feed.last = feed.last.max(now + feed.lag.draw(random));
            feed.batches.send((feed.last, offset, effects.clone())).is_ok()
        });
    }

    /// How much was written so far.
    pub(super) fn offset(&self) -> u64 {
        self.replication.offset
    }

    /// How many replicas have all that was written up to `offset`.
    pub(super) fn replicas_with(&self, offset: u64) -> usize {
        let has_it = |feed: &&Feed| {
            feed.replica.strong_count() > 0 && feed.acknowledged.is_some_and(|it| it >= offset)
        };
        self.replication.feeds.iter().filter(has_it).count() + self.faults.replicas
    }

    /// The replica of this feed has all that was written up to `offset`.
    fn acknowledge(&mut self, feed: u64, offset: u64) {
        self.tick();
        if let Some(feed) = self.replication.feeds.iter_mut().find(|it| it.number == feed) {
            feed.acknowledged = Some(offset);
        }
        self.answer_awaited();
    }

    fn effect_on(&mut self, db: usize, key: Vec<u8>) -> Effect {
        let now = self.now();
        let entry = self.database(db).entry(&key, now).cloned();
        Effect::Key(db, key, entry)
    }

    /// What a new follower hears, everything first.
    fn followed(&mut self, replica: Weak<Shared>, lag: Delay) -> (u64, UnboundedReceiver<Batch>) {
        let (batches, heard) = unbounded_channel();
        let last = self.instant() + lag.draw(&mut self.random);
        let everything = vec![Effect::Everything(self.snapshot())];
        // Who does not listen any more is dropped by the next feed.
        drop(batches.send((last, self.replication.offset, everything)));
        self.replication.last_feed += 1;
        let number = self.replication.last_feed;
        let feed = Feed { number, replica, acknowledged: None, lag, last, batches };
        self.replication.feeds.push(feed);
        (number, heard)
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        self.tick();
        for effect in effects {
            match effect {
                Effect::Everything(databases) => self.restore(databases),
                Effect::Message(channel, message) => {
                    self.publish(&channel, &message);
                }
                Effect::Key(db, key, entry) => {
                    let now = self.now();
                    match entry {
                        Some(entry) => self.database(db).put(&key, entry),
                        None => drop(self.database(db).delete(&key, now)),
                    }
                    self.note_keys(db, &[&key]);
                }
            }
        }
        self.feed();
    }

    /// Stops following. Returns whom it followed, and how closely.
    fn lead(&mut self) -> Option<Leader> {
        self.replication.term += 1;
        self.replication.leader.take()
    }
}

/// Makes `replica` a replica of `master`, `lag` behind it.
pub(crate) fn follow(replica: &Arc<Shared>, master: &Arc<Shared>, lag: Delay) {
    let mut core = master.core();
    core.tick();
    let (feed, batches) = core.followed(Arc::downgrade(replica), lag);
    drop(core);
    let mut core = replica.core();
    drop(core.lead());
    core.replication.leader = Some(Leader { server: Arc::downgrade(master), lag });
    let term = core.replication.term;
    drop(core);
    let master = Arc::downgrade(master);
    tokio::spawn(hear(Arc::downgrade(replica), batches, term, (master, feed)));
}

/// Makes `replica` a master. Its old master follows it from now on, if it is to.
pub(crate) fn promote(replica: &Arc<Shared>, demotes: bool) {
    let leader = replica.core().lead();
    if let Some(leader) = leader.filter(|_| demotes)
        && let Some(old) = leader.server.upgrade()
    {
        follow(&old, replica, leader.lag);
    }
}

/// Does to a replica what its master tells, until it follows another.
async fn hear(
    replica: Weak<Shared>,
    mut batches: UnboundedReceiver<Batch>,
    term: u64,
    (master, feed): (Weak<Shared>, u64),
) {
    while let Some((due, offset, effects)) = batches.recv().await {
        sleep_until(due).await;
        let Some(replica) = replica.upgrade() else { return };
        replica.running().await;
        let mut core = replica.core();
        if core.replication.term != term {
            return;
        }
        core.apply(effects);
        drop(core);
        if let Some(master) = master.upgrade() {
            master.core().acknowledge(feed, offset);
        }
    }
}
