//! Replicas, which receive writes with a delay.
//!
//! A primary sends the outcome of each command or script as one batch. The batch has the current
//! values of the touched keys, and the published messages. A replica reports its offset each
//! second, and when the primary requests it. If the replica is promoted, it loses the batches that
//! have not arrived.

use std::{
    collections::{BTreeSet, VecDeque},
    future::pending,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, sleep, sleep_until},
};

use super::{Core, clients::Scope};
use crate::{
    Shared,
    address::Address,
    data::{Entry, Keyspace},
    delay::Delay,
};

/// How often a replica reports its offset, and checks its primary.
const EACH: Duration = Duration::from_secs(1);

/// A part of a batch for a replica.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// The current value of a key in a database. `None` if the key does not exist.
    Key(usize, Vec<u8>, Option<Entry>),
    Everything(Vec<Keyspace>),
    Message(Scope, Vec<u8>, Vec<u8>),
    /// A request for the offset of the replica.
    Question,
}

/// The outcome of one command.
#[derive(Clone, Debug)]
struct Batch {
    due: Instant,
    effects: Vec<Effect>,
    /// The replication offset at the end of the batch.
    offset: u64,
}

/// The role of a server in replication.
#[derive(Debug, Default)]
pub(super) struct Replication {
    feeds: Vec<Feed>,
    /// The primary that this server follows, if it is a replica.
    leader: Option<Leader>,
    /// A number that rises when `leader` changes, and when the server is killed. A `Link` with an
    /// older number has ended.
    term: u64,
    /// The replication offset: the number of effects since the first replica connected.
    offset: u64,
    counts: bool,
    /// The number of the newest `Feed`. Each new connection to a replica gets the next number.
    last_feed: u64,
    /// The keys that were written since the last batch.
    touched: BTreeSet<(usize, Vec<u8>)>,
    /// Whether the next batch includes all data.
    everything: bool,
    messages: Vec<Effect>,
}

#[derive(Clone, Debug)]
struct Leader {
    server: Weak<Shared>,
    address: Address,
    lag: Delay,
    is_up: bool,
}

/// The connection to one replica.
#[derive(Debug)]
struct Feed {
    number: u64,
    replica: Address,
    lag: Delay,
    last: Instant,
    batches: UnboundedSender<Batch>,
    /// The last offset that the replica reported, and the time of the report. `None` until the
    /// replica has all data.
    acknowledged: Option<(u64, Instant)>,
}

/// The replica's end of a `Feed`, with the same number.
struct Received {
    number: u64,
    batches: UnboundedReceiver<Batch>,
}

/// A replica, as its primary sees it.
pub(crate) struct Follower {
    pub(crate) address: Address,
    pub(crate) offset: u64,
    pub(crate) lag: Duration,
    pub(crate) is_online: bool,
}

impl Core {
    pub(crate) fn is_replica(&self) -> bool {
        self.replication.leader.is_some()
    }

    /// Returns the primary of this server, and whether the connection to the primary is up.
    pub(crate) fn leader(&self) -> Option<(&Address, bool)> {
        self.replication.leader.as_ref().map(|leader| (&leader.address, leader.is_up))
    }

    pub(crate) fn offset(&self) -> u64 {
        self.replication.offset
    }

    pub(crate) fn followers(&self) -> Vec<Follower> {
        let now = self.instant();
        let follower = |feed: &Feed| {
            let (offset, at) = feed.acknowledged.unwrap_or((0, now));
            let (address, lag) = (feed.replica.clone(), now.saturating_duration_since(at));
            Follower { address, offset, lag, is_online: feed.acknowledged.is_some() }
        };
        self.replication.feeds.iter().filter(|it| !it.batches.is_closed()).map(follower).collect()
    }

    /// Returns how many replicas have reported at least this offset.
    pub(crate) fn acknowledged(&self, offset: u64) -> i64 {
        let is_there = |feed: &&Feed| {
            !feed.batches.is_closed() && feed.acknowledged.is_some_and(|(at, _)| at >= offset)
        };
        let count = self.replication.feeds.iter().filter(is_there).count() + self.faults.replicas;
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// Requests the offset of each replica.
    pub(crate) fn ask_replicas(&mut self) {
        self.send(&[Effect::Question]);
    }

    pub(super) fn note_message(&mut self, scope: Scope, channel: &[u8], message: &[u8]) {
        if self.is_clustered() {
            return self.put_on_the_bus(scope, channel, message);
        }
        if self.replication.counts {
            let message = Effect::Message(scope, channel.to_vec(), message.to_vec());
            self.replication.messages.push(message);
        }
    }

    pub(crate) fn note_keys(&mut self, db: usize, keys: &[&[u8]]) {
        if self.replication.counts {
            self.replication.touched.extend(keys.iter().map(|key| (db, key.to_vec())));
        }
    }

    pub(super) fn note_everything(&mut self) {
        self.replication.everything = true;
    }

    /// Sends the changes since the last batch to the replicas.
    pub(crate) fn feed(&mut self) {
        let everything = std::mem::take(&mut self.replication.everything);
        if !self.replication.counts {
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
        if !self.is_replica() {
            self.replication.offset += u64::try_from(effects.len()).unwrap_or_default();
        }
        self.send(&effects);
    }

    fn send(&mut self, effects: &[Effect]) {
        let (now, offset) = (self.instant(), self.replication.offset);
        let random = &mut self.random;
        self.replication.feeds.retain_mut(|feed| {
            feed.last = feed.last.max(now + feed.lag.draw(random));
            let batch = Batch { due: feed.last, effects: effects.to_vec(), offset };
            feed.batches.send(batch).is_ok()
        });
    }

    fn effect_on(&mut self, db: usize, key: Vec<u8>) -> Effect {
        let now = self.now();
        let entry = self.database(db).entry(&key, now).cloned();
        Effect::Key(db, key, entry)
    }

    /// Adds a `Feed` for a new replica. The first batch has all data.
    fn followed(&mut self, replica: &Address, lag: Delay) -> Received {
        self.replication.counts = true;
        self.replication.feeds.retain(|feed| !feed.batches.is_closed());
        self.replication.last_feed += 1;
        let number = self.replication.last_feed;
        let (batches, received) = unbounded_channel();
        let last = self.instant() + lag.draw(&mut self.random);
        let (effects, offset) = (vec![Effect::Everything(self.snapshot())], self.offset());
        // The error is ignored: if the replica has ended, the next batch removes the feed.
        drop(batches.send(Batch { due: last, effects, offset }));
        let replica = replica.clone();
        self.replication.feeds.push(Feed {
            number,
            replica,
            lag,
            last,
            batches,
            acknowledged: None,
        });
        Received { number, batches: received }
    }

    /// Applies a batch. Returns whether the replica must report its offset.
    fn apply(&mut self, batch: Batch) -> bool {
        self.tick();
        let mut is_asked = false;
        for effect in batch.effects {
            match effect {
                Effect::Everything(databases) => {
                    self.restore(databases);
                    is_asked = true;
                }
                Effect::Question => is_asked = true,
                Effect::Message(scope, channel, message) => {
                    self.publish(scope, &channel, &message);
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
        self.replication.offset = batch.offset;
        self.feed();
        is_asked
    }

    /// Notes the offset that a replica reports.
    fn note_acknowledged(&mut self, feed: u64, offset: u64) {
        self.tick();
        let now = self.instant();
        let feeds = &mut self.replication.feeds;
        if let Some(feed) = feeds.iter_mut().find(|it| it.number == feed) {
            let before = feed.acknowledged.map_or(0, |(offset, _)| offset);
            feed.acknowledged = Some((offset.max(before), now));
        }
        self.unblock();
    }

    /// Stops following the primary. Returns the former primary, with the lag.
    fn lead(&mut self) -> Option<Leader> {
        self.replication.term += 1;
        self.replication.leader.take()
    }

    /// Ends the connections to other servers.
    pub(crate) fn unfollow(&mut self) {
        self.replication.term += 1;
        self.replication.feeds.clear();
        if let Some(leader) = &mut self.replication.leader {
            leader.is_up = false;
        }
    }

    /// If `term` is the current term, notes whether this replica is connected to its primary.
    /// Returns whether `term` is the current term.
    fn is_linked(&mut self, term: u64, is_up: bool) -> bool {
        let is_current = self.replication.term == term;
        if let Some(leader) = self.replication.leader.as_mut().filter(|_| is_current) {
            leader.is_up = is_up;
        }
        is_current
    }
}

/// Makes `replica` a replica of `master`. Writes reach `replica` after `lag`.
pub(crate) fn follow(replica: &Arc<Shared>, master: &Arc<Shared>, lag: Delay) {
    let address = master.core().address.clone();
    let mut core = replica.core();
    core.tick();
    core.unblock_by_force();
    drop(core.lead());
    core.replication.feeds.clear();
    let server = Arc::downgrade(master);
    core.replication.leader = Some(Leader { server, address, lag, is_up: false });
    drop(core);
    follow_again(replica);
}

/// Connects a replica to its primary.
pub(crate) fn follow_again(replica: &Arc<Shared>) {
    let core = replica.core();
    let Some(leader) = core.replication.leader.clone() else { return };
    let (address, term) = (core.address.clone(), core.replication.term);
    drop(core);
    let Some(master) = leader.server.upgrade() else { return };
    let first = linked(replica, &master, &address, leader.lag, term);
    let link = Link { replica: Arc::downgrade(replica), leader, address, term };
    tokio::spawn(async move {
        if let Some(batches) = first {
            link.carry(batches).await;
        }
        link.run().await;
    });
}

/// Connects a replica and its primary, if that is possible now.
fn linked(
    replica: &Arc<Shared>,
    master: &Arc<Shared>,
    address: &Address,
    lag: Delay,
    term: u64,
) -> Option<Received> {
    if !replica.core().faults.is_among_others() || !master.core().faults.is_among_others() {
        return None;
    }
    replica.core().is_linked(term, true);
    let mut core = master.core();
    core.tick();
    Some(core.followed(address, lag))
}

/// Makes `replica` a primary. If `demotes`, the old primary becomes a replica of the new primary.
pub(crate) fn promote(replica: &Arc<Shared>, demotes: bool) {
    let leader = replica.core().lead();
    if let Some(leader) = leader.filter(|_| demotes)
        && let Some(old) = leader.server.upgrade()
    {
        follow(&old, replica, leader.lag);
    }
}

/// The connection of a replica to its primary.
struct Link {
    replica: Weak<Shared>,
    leader: Leader,
    address: Address,
    term: u64,
}

impl Link {
    /// Connects again and again, until the replica follows another primary, is promoted, or is
    /// killed.
    async fn run(&self) {
        loop {
            let Some(replica) = self.replica.upgrade() else { return };
            if !replica.core().is_linked(self.term, false) {
                return;
            }
            drop(replica);
            sleep(EACH).await;
            let Some(replica) = self.replica.upgrade() else { return };
            let Some(master) = self.leader.server.upgrade() else { return };
            if replica.core().replication.term != self.term {
                return;
            }
            let Leader { lag, .. } = self.leader;
            let batches = linked(&replica, &master, &self.address, lag, self.term);
            drop((replica, master));
            if let Some(batches) = batches {
                self.carry(batches).await;
            }
        }
    }

    /// Applies what the primary sends, until the connection ends.
    async fn carry(&self, received: Received) {
        let Received { number, mut batches } = received;
        let (mut underway, mut says) = (VecDeque::<Batch>::new(), Instant::now() + EACH);
        loop {
            let due = underway.front().map(|batch| batch.due);
            let arrival = async move {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = arrival => {
                    let Some(batch) = underway.pop_front() else { continue };
                    if !self.arrives(number, batch).await {
                        return;
                    }
                }
                batch = batches.recv() => match batch {
                    Some(batch) => underway.push_back(batch),
                    None => return,
                },
                () = sleep_until(says) => {
                    says += EACH;
                    // A killed server has no connections any more, so it reports no offset.
                    if self.replica.upgrade().is_none_or(|it| it.core().replication.term != self.term) {
                        return;
                    }
                    self.says_how_far(number);
                }
            }
        }
    }

    /// Applies a batch. Returns whether the connection is still up.
    async fn arrives(&self, feed: u64, batch: Batch) -> bool {
        let (Some(replica), Some(master)) = (self.replica.upgrade(), self.leader.server.upgrade())
        else {
            return false;
        };
        replica.among_others().await;
        master.in_touch().await;
        let mut core = replica.core();
        if core.replication.term != self.term {
            return false;
        }
        let is_asked = core.apply(batch);
        drop(core);
        if is_asked {
            self.says_how_far(feed);
        }
        true
    }

    /// Reports the offset of the replica to its primary.
    fn says_how_far(&self, feed: u64) {
        let Some(replica) = self.replica.upgrade() else { return };
        let mut core = replica.core();
        if !core.faults.is_among_others() || core.replication.term != self.term {
            return;
        }
        let (offset, lag) = (core.replication.offset, self.leader.lag.draw(&mut core.random));
        let server = self.leader.server.clone();
        tokio::spawn(async move {
            sleep(lag).await;
            let Some(master) = server.upgrade() else { return };
            master.among_others().await;
            master.core().note_acknowledged(feed, offset);
        });
    }
}
