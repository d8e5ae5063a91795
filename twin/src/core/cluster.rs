//! The role of a server in a cluster: the topology that it knows, and its redirects to other nodes.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{sync::mpsc::UnboundedSender, time::Instant};

use super::{Core, clients::Scope, spec::Spec};
use crate::{
    address::Address,
    data::Entry,
    delay::Delay,
    reply::Reply,
    slots::{Owners, slot_of},
    traits::{SHARDED, WRITE},
};

/// The nodes and the owner of each slot, after `version` changes.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// How many changes have led to this state.
    pub(crate) version: u64,
    pub(crate) nodes: Vec<Member>,
    /// For each slot, the index of its node.
    pub(crate) owners: Owners,
}

/// A node, as other nodes know it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) address: Address,
    pub(crate) master: Option<usize>,
    /// The number of the change by which the node got its slots.
    pub(crate) epoch: u64,
    pub(crate) has_failed: bool,
}

/// The state of a node.
#[derive(Debug)]
pub(crate) struct NodeState {
    pub(crate) me: usize,
    pub(crate) map: Arc<Map>,
    /// The slots that this node exports, each with the index of the target.
    pub(crate) migrating: BTreeMap<u16, usize>,
    /// The slots that this node imports, each with the index of the source.
    pub(crate) importing: BTreeMap<u16, usize>,
    pub(crate) is_down: bool,
    pub(crate) gossip: Delay,
    last: Instant,
    bus: UnboundedSender<Notice>,
}

/// A message for other nodes.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) due: Instant,
    pub(crate) from: usize,
    pub(crate) scope: Scope,
    pub(crate) channel: Vec<u8>,
    pub(crate) message: Vec<u8>,
}

/// Why a node does not execute a command.
#[derive(Clone, Debug)]
pub(crate) enum Redirect {
    Moved(u16, Address),
    Ask(u16, Address),
    Split,
    CrossSlot,
    Down,
}

impl From<Redirect> for Reply {
    fn from(redirect: Redirect) -> Self {
        Self::error(match redirect {
            Redirect::Moved(slot, to) => return Self::error(format!("MOVED {slot} {to}")),
            Redirect::Ask(slot, to) => return Self::error(format!("ASK {slot} {to}")),
            Redirect::Split => "TRYAGAIN Multiple keys request during rehashing of slot",
            Redirect::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot",
            Redirect::Down => "CLUSTERDOWN The cluster is down",
        })
    }
}

impl Redirect {
    pub(super) const fn in_script(&self) -> &'static str {
        match self {
            Self::Down => "ERR Script attempted to execute a command while the cluster is down",
            _ => "ERR Script attempted to access a non local key in a cluster node",
        }
    }
}

impl Map {
    /// Returns the nodes that have the same data as `node`, including `node`.
    pub(crate) fn shard_of(&self, node: usize) -> Vec<usize> {
        let master = |node: usize| self.nodes.get(node).and_then(|it| it.master).unwrap_or(node);
        (0..self.nodes.len()).filter(|other| master(*other) == master(node)).collect()
    }

    /// Returns the first and the last slot of each range of a node.
    pub(crate) fn ranges_of(&self, node: usize) -> impl Iterator<Item = (u16, u16)> {
        let ranges = self.owners.ranges().into_iter();
        ranges.filter(move |(_, owner)| *owner == node).map(|(range, _)| range)
    }
}

impl NodeState {
    pub(crate) fn new(me: usize, map: Arc<Map>, bus: UnboundedSender<Notice>) -> Self {
        Self {
            me,
            map,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            is_down: false,
            gossip: Delay::None,
            last: Instant::now(),
            bus,
        }
    }

    fn address(&self, node: usize) -> Address {
        self.map.nodes.get(node).map(|it| it.address.clone()).unwrap_or_default()
    }

    /// Returns whether this node is a replica of `node`.
    fn follows(&self, node: usize) -> bool {
        self.map.nodes.get(self.me).is_some_and(|it| it.master == Some(node))
    }
}

impl Core {
    pub(crate) fn is_clustered(&self) -> bool {
        self.cluster.is_some()
    }

    /// Returns the name of the server's mode.
    pub(crate) fn mode(&self) -> &'static str {
        match (self.is_clustered(), &self.watched) {
            (true, _) => "cluster",
            (false, Some(_)) => "sentinel",
            (false, None) => "standalone",
        }
    }

    /// Checks whether this node executes a command of a client. The order of the checks is that of
    /// Redis.
    pub(super) fn redirect(
        &mut self,
        id: u64,
        spec: &Spec,
        words: &[&[u8]],
    ) -> Result<(), Redirect> {
        let Some(node_state) = &self.cluster else { return Ok(()) };
        let keys = spec.slotted(words);
        let Some(first) = keys.first() else { return Ok(()) };
        let (slot, sharded) = (slot_of(first), spec.is(SHARDED));
        let owner = node_state.map.owners.of(slot);
        if keys.iter().any(|key| slot_of(key) != slot) {
            return Err(Redirect::CrossSlot);
        }
        if node_state.is_down && !sharded {
            return Err(Redirect::Down);
        }
        let is_mine = owner == node_state.me;
        let leaves_to = node_state.migrating.get(&slot).filter(|_| is_mine).copied();
        let comes = node_state.importing.contains_key(&slot) && !is_mine;
        let (me_follows, to) = (node_state.follows(owner), node_state.address(owner));
        let leaves_to = leaves_to.map(|node| node_state.address(node));
        let (missing, present) = match leaves_to.is_some() || comes {
            true if !sharded => self.count_missing(keys),
            _ => (0, 0),
        };
        if let Some(target) = leaves_to.filter(|_| missing > 0) {
            return Err(if present > 0 { Redirect::Split } else { Redirect::Ask(slot, target) });
        }
        let (is_asking, reads_replicas) = self
            .client(id)
            .map_or((false, false), |client| (client.is_asking, client.reads_replicas));
        if comes && is_asking {
            let several = keys.iter().any(|key| key != first);
            return if several && missing > 0 { Err(Redirect::Split) } else { Ok(()) };
        }
        let may_read = sharded || (reads_replicas && !spec.is(WRITE));
        match is_mine || (me_follows && may_read) {
            true => Ok(()),
            false => Err(Redirect::Moved(slot, to)),
        }
    }

    /// Returns how many of `keys` are missing, and how many exist.
    fn count_missing(&mut self, keys: &[&[u8]]) -> (usize, usize) {
        let now = self.now();
        let present = keys.iter().filter(|key| self.database(0).entry(key, now).is_some()).count();
        (keys.len() - present, present)
    }

    /// Sends a message to other nodes.
    pub(super) fn put_on_the_bus(&mut self, scope: Scope, channel: &[u8], message: &[u8]) {
        let now = self.instant();
        let Some(node_state) = &mut self.cluster else { return };
        node_state.last = node_state.last.max(now + node_state.gossip.draw(&mut self.random));
        let (channel, message) = (channel.to_vec(), message.to_vec());
        let notice = Notice { due: node_state.last, from: node_state.me, scope, channel, message };
        // The error is ignored: if the cluster was dropped, there is no receiver.
        drop(node_state.bus.send(notice));
    }

    /// Learns a new topology. Ends the subscriptions in slots that have left this node, and deletes
    /// the keys of those slots.
    pub(crate) fn learn(&mut self, map: &Arc<Map>) {
        self.tick();
        let Some(node_state) = &mut self.cluster else { return };
        if map.version <= node_state.map.version {
            return;
        }
        let (me, before) = (node_state.me, std::mem::replace(&mut node_state.map, Arc::clone(map)));
        let was_mine = before.nodes.get(me).and_then(|it| it.master).unwrap_or(me);
        let is_mine = |slot: u16| map.owners.of(slot) == me;
        node_state.migrating.retain(|slot, _| is_mine(*slot));
        node_state.importing.retain(|slot, _| !is_mine(*slot));
        let stays = |slot: u16| [was_mine, me].contains(&map.owners.of(slot));
        let is_gone = |slot: u16| before.owners.of(slot) == was_mine && !stays(slot);
        self.dismiss(is_gone);
        if was_mine == me && map.nodes.get(me).is_some_and(|it| it.master.is_none()) {
            self.drop_keys(is_gone);
        }
    }

    /// Ends the subscriptions in the slots for which `is_gone` returns true.
    fn dismiss(&mut self, is_gone: impl Fn(u16) -> bool) {
        let gone: Vec<_> = self.channels(Scope::Sharded).cloned().collect();
        for channel in gone.into_iter().filter(|it| is_gone(slot_of(it))) {
            let listeners: Vec<_> = self.listeners(Scope::Sharded, &channel).collect();
            for id in listeners {
                let count = self.unsubscribe(id, Scope::Sharded, &channel);
                let words =
                    vec![Reply::bulk("sunsubscribe"), Reply::bulk(&channel), Reply::count(count)];
                self.say(id, &Reply::Push(words));
            }
        }
    }

    pub(crate) fn drop_keys(&mut self, is_gone: impl Fn(u16) -> bool) {
        let now = self.now();
        let keys: Vec<_> = self.database(0).live(now).map(|(key, _)| key.clone()).collect();
        for key in keys.iter().filter(|key| is_gone(slot_of(key))) {
            self.database(0).delete(key, now);
            self.note_keys(0, &[key]);
        }
        self.feed();
    }
}

/// Keys with their values.
type Moved = Vec<(Vec<u8>, Entry)>;

/// The keys that move with their slot.
impl Core {
    /// Removes and returns up to `most` keys of a slot.
    pub(crate) fn take_out(&mut self, slot: u16, most: usize) -> Moved {
        self.tick();
        let now = self.now();
        let all = self.database(0).live(now).filter(|(key, _)| slot_of(key) == slot);
        let moved: Moved =
            all.take(most).map(|(key, entry)| (key.clone(), entry.clone())).collect();
        for (key, _) in &moved {
            self.database(0).delete(key, now);
            self.note_keys(0, &[key]);
        }
        self.feed();
        moved
    }

    /// Adds keys that another node has exported.
    pub(crate) fn take_in(&mut self, moved: Moved) {
        self.tick();
        for (key, entry) in moved {
            self.database(0).put(&key, entry);
            self.note_keys(0, &[&key]);
        }
        self.feed();
    }
}
