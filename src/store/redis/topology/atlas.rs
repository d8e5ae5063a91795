//! The nodes of a cluster, by the map that is believed now.
//!
//! A node that is no master any more is dropped, and its connections cut even if they are
//! healthy: nobody goes on asking or hearing one that was replaced.
//!
//! # Locks
//!
//! `placed` is taken before `chart`, and before whoever is told of events. Under `chart` nothing is
//! taken but what a node has of its own. How a node is reached is found out before: a translation of
//! addresses is the user's, and may do anything.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering as Atomic},
    },
    time::Duration,
};

use redis::ServerError;
use tokio::{sync::Notify, time::Instant};

use super::{
    super::{
        channels::Channels,
        connection::{Dialer, HostPort},
        replies,
        slots::slot_of,
        subscriptions::Among,
    },
    map::{Away, Map, address_shown, slots_in_words, why_down},
    node::{Common, Node},
    way::Way,
};
use crate::{
    domain::{Failure, Finding, Hazard, Map as ByObject, Mutex, Object},
    store::{Event, Hears},
};

/// For so long nobody is believed who says that the cluster has not come as far as we know.
const REMEMBERED: Duration = Duration::from_secs(15);

/// For so long a node's word that a slot has moved counts more than those who may not have been
/// told yet.
const TOLD_SOON: Duration = Duration::from_secs(1);

/// For so long a node is kept that has no slot, after it was last asked about one on its way.
const GUESTS_STAY: Duration = Duration::from_secs(15);

/// Who is not ready is asked again much sooner than this.
const SAID_LATELY: Duration = Duration::from_secs(1);

/// What is known of the cluster.
#[derive(Debug)]
pub(super) struct Atlas {
    pub(super) common: Common,
    pub(super) way: Way,
    chart: Mutex<Option<Chart>>,
    /// Told when there is another map.
    pub(super) changed: Notify,
    channels: OnceLock<Channels>,
    /// Whether another kind of channels is used by those who come now.
    outgrown: AtomicBool,
    /// Why there is no map yet.
    obstacle: Mutex<Option<String>>,
    /// Losses and reconnects of nodes that are gone.
    past: Mutex<(u64, u64)>,
    /// Where each name is listened to.
    placed: Mutex<ByObject<Object, Option<Arc<Node>>>>,
    /// What those who have a slot have said last who were not ready, and when.
    refused: Mutex<HashMap<u16, (Failure, Instant)>>,
    /// Keys of which something was said where nobody listens: at the node to which their slot
    /// is on its way.
    unheard: Mutex<HashSet<Vec<u8>>>,
}

/// A map, and the nodes on it.
#[derive(Debug)]
struct Chart {
    map: Map,
    /// The masters of the map, in its order. One that cannot be dialled says why.
    nodes: Vec<Result<Arc<Node>, String>>,
    /// Nodes that have no slot yet, and when they were last asked.
    guests: HashMap<HostPort, (Arc<Node>, Instant)>,
    believed_at: Instant,
    /// When a node has last said that one of its slots has moved.
    moved_at: Option<Instant>,
    /// Whether its gap was told.
    gap_told: bool,
}

impl Chart {
    /// Whether who says `map` knows less than we do.
    fn is_newer_than(&self, map: &Map, now: Instant) -> bool {
        let told_soon = || self.moved_at.is_some_and(|at| now < at + TOLD_SOON);
        match map.epoch.cmp(&self.map.epoch) {
            Ordering::Less => now < self.believed_at + REMEMBERED,
            Ordering::Equal => self.map != *map && told_soon(),
            Ordering::Greater => false,
        }
    }

    fn owner(&self, slot: u16) -> Option<&Result<Arc<Node>, String>> {
        self.nodes.get(self.map.owner(slot)?)
    }

    fn live(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.iter().filter_map(|node| node.as_ref().ok())
    }

    /// The masters that no question reaches.
    fn away(&self) -> Vec<Away> {
        let all = self.map.masters().iter().zip(&self.nodes).enumerate();
        let why = |node: &Result<Arc<Node>, String>| match node {
            Err(why) => Some(why.clone()),
            Ok(node) if node.commands.is_up() => None,
            Ok(node) => Some(node.commands.away().obstacle()),
        };
        let away = all.filter_map(|(index, (at, node))| {
            let (server, slots) = (address_shown(at), self.map.slots_of(index));
            Some(Away { server, slots, why: why(node)? })
        });
        away.filter(|away| !away.slots.is_empty()).collect()
    }

    /// Whether there is a node at `at`, or why it cannot be dialled.
    fn knows(&self, at: &HostPort) -> bool {
        self.guests.contains_key(at) || self.map.masters().contains(at)
    }

    /// The node at `at`, if there is one; a guest stays for a while from now on.
    fn node_at(&mut self, at: &HostPort) -> Option<Arc<Node>> {
        let index = self.map.masters().iter().position(|it| it == at);
        if let Some(Ok(node)) = index.and_then(|index| self.nodes.get(index)) {
            return Some(Arc::clone(node));
        }
        let (node, used) = self.guests.get_mut(at)?;
        *used = Instant::now();
        Some(Arc::clone(node))
    }

    /// Takes the node at `at` out, if it has one.
    fn take(&mut self, at: &HostPort) -> Option<Arc<Node>> {
        let (node, _) = self.guests.remove(at)?;
        Some(node)
    }
}

impl Atlas {
    pub(super) fn new(common: Common, way: Way) -> Self {
        Self {
            common,
            way,
            chart: Mutex::default(),
            changed: Notify::new(),
            channels: OnceLock::new(),
            outgrown: AtomicBool::new(false),
            obstacle: Mutex::default(),
            past: Mutex::default(),
            placed: Mutex::default(),
            refused: Mutex::default(),
            unheard: Mutex::default(),
        }
    }

    /// How messages travel there, as soon as that is known.
    pub(super) fn channels(&self) -> Option<Channels> {
        self.channels.get().copied()
    }

    /// Settles how messages travel: for ever, as Redisson does. Those who come after an upgrade
    /// settle it otherwise, which is told.
    pub(super) fn speaks(&self, channels: Channels) {
        let has_changed = *self.channels.get_or_init(|| channels) != channels;
        self.outgrown.store(has_changed, Atomic::Relaxed);
        self.common.warnings.tell(self.other_channels().as_slice());
    }

    /// That others use other channels, if they do.
    fn other_channels(&self) -> Option<Finding> {
        let has_changed = self.outgrown.load(Atomic::Relaxed);
        has_changed.then(|| Finding::at("the cluster", Hazard::OtherChannels))
    }

    pub(super) fn has_map(&self) -> bool {
        self.chart.lock().is_some()
    }

    /// The node that has `slot`, as far as we know.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        self.chart.lock().as_ref()?.owner(slot)?.as_ref().ok().cloned()
    }

    /// Which of the nodes has `slot`, by a number.
    pub(super) fn number_of_owner(&self, slot: u16) -> Option<usize> {
        self.chart.lock().as_ref()?.map.owner(slot)
    }

    /// Where the owner of `slot` is.
    pub(super) fn address_of_owner(&self, slot: u16) -> Option<HostPort> {
        let chart = self.chart.lock();
        let map = &chart.as_ref()?.map;
        map.masters().get(map.owner(slot)?).cloned()
    }

    /// Every master, and where it is.
    pub(super) fn masters(&self) -> Vec<(HostPort, Arc<Node>)> {
        let chart = self.chart.lock();
        let Some(chart) = chart.as_ref() else { return Vec::new() };
        let all = chart.map.masters().iter().zip(&chart.nodes);
        all.filter_map(|(at, node)| Some((at.clone(), Arc::clone(node.as_ref().ok()?)))).collect()
    }

    /// Everybody who was named, replicas among them.
    pub(super) fn members(&self) -> BTreeSet<HostPort> {
        self.chart.lock().as_ref().map(|chart| chart.map.members().clone()).unwrap_or_default()
    }

    /// Why questions about `slot` reach nobody.
    pub(super) fn away(&self, slot: u16) -> Failure {
        let chart = self.chart.lock();
        let Some(chart) = chart.as_ref() else {
            let why = self.obstacle.lock().clone();
            return Failure::unreachable(why.unwrap_or_else(|| "the cluster is looked for".into()));
        };
        match chart.owner(slot) {
            None => Failure::unreachable(format!(
                "no node of the cluster has slot {slot}, where this name lies"
            )),
            Some(Err(why)) => Failure::unreachable(why.clone()),
            Some(Ok(node)) => node.commands.away(),
        }
    }

    /// What is in the way of questions about `slot`, if anything is.
    pub(super) fn in_the_way(&self, slot: u16) -> Option<Failure> {
        let reaches = self.owner(slot).is_some_and(|node| node.commands.is_up());
        if !reaches {
            return Some(self.away(slot));
        }
        let refused = self.refused.lock();
        let (refusal, at) = refused.get(&slot)?;
        (Instant::now() < *at + SAID_LATELY).then(|| refusal.clone())
    }

    /// Notes that the node with `slot` is not ready for questions about it now, as it says.
    pub(super) fn not_ready(&self, slot: u16, said: &ServerError) -> Failure {
        let refusal = self.explained(said);
        self.refused.lock().insert(slot, (refusal.clone(), Instant::now()));
        refusal
    }

    /// What a node says that is not ready, and which nodes that may be due to.
    fn explained(&self, said: &ServerError) -> Failure {
        match replies::refusal(said) {
            Failure::Refused { code, message, .. }
                if code == "CLUSTERDOWN" && !message.contains("slot") =>
            {
                Failure::refused(code, format!("{message}: {}", self.why_down()))
            }
            other => other,
        }
    }

    /// That the whole cluster is down, as its nodes say.
    pub(super) fn down(&self) -> Failure {
        Failure::refused("CLUSTERDOWN", format!("The cluster is down: {}", self.why_down()))
    }

    /// Why a node may say that the cluster is down.
    fn why_down(&self) -> String {
        let chart = self.chart.lock();
        let away = chart.as_ref().map(Chart::away).unwrap_or_default().into_iter();
        let gap = chart.as_ref().and_then(|it| it.map.gap()).map(slots_in_words);
        let lost: Vec<_> = away.map(|it| it.slots).chain(gap).collect();
        why_down(&lost)
    }

    /// What can hurt locks, as far as it was looked at.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let chart = self.chart.lock();
        let Some(chart) = chart.as_ref() else { return Vec::new() };
        let gap =
            chart.map.gap().map(|gap| Hazard::SlotsWithoutNode { slots: slots_in_words(gap) });
        let gap = gap.map(|gap| Finding::at("the cluster", gap));
        let of_nodes = chart.live().flat_map(|node| node.findings(&self.common));
        let away = chart.away().into_iter().map(|Away { server, slots, why }| {
            Finding::at(&server, Hazard::NodeAway { slots, why })
        });
        of_nodes.chain(away).chain(gap).chain(self.other_channels()).collect()
    }

    /// Notes why nobody could say who is where.
    pub(super) fn note(&self, obstacle: String) {
        *self.obstacle.lock() = Some(obstacle);
    }

    /// Believes `map`, unless it is older than what is known.
    pub(super) fn adopt(&self, map: Map) {
        if self.confirms(&map) {
            return self.settle();
        }
        let dialers: Vec<_> = map.masters().iter().map(|at| self.dialer(at)).collect();
        let now = Instant::now();
        let mut chart = self.chart.lock();
        let mut before = match chart.take() {
            Some(old) if old.is_newer_than(&map, now) => {
                *chart = Some(old);
                return;
            }
            before => before,
        };
        let gap_told = before.as_ref().is_some_and(|old| old.gap_told);
        let is_first = before.is_none();
        let mut known = before.as_mut().map(nodes_of).unwrap_or_default();
        let node = |(at, dialer): (&HostPort, Result<_, String>)| match known.remove(at) {
            Some(node) => Ok(node),
            None => Ok(self.node(dialer?, !is_first)),
        };
        let nodes = map.masters().iter().zip(dialers).map(node).collect();
        let mut guests = before.map(|old| old.guests).unwrap_or_default();
        guests.retain(|at, (_, since)| known.contains_key(at) && now < *since + GUESTS_STAY);
        known.retain(|at, _| !guests.contains_key(at));
        let gap = map.gap();
        *chart = Some(Chart {
            map,
            nodes,
            guests,
            believed_at: now,
            moved_at: None,
            gap_told: gap.is_some(),
        });
        drop(chart);
        if let Some(gap) = gap.filter(|_| !gap_told) {
            tracing::warn!(target: "leasehold", slots = slots_in_words(gap),
                "no node of the cluster has these slots: names there cannot be locked");
        }
        known.iter().for_each(|(at, node)| self.retire(at, node));
        self.settle();
        self.changed.notify_waiters();
    }

    /// Whether there is nothing new on `map`: it is known, or older.
    fn confirms(&self, map: &Map) -> bool {
        let now = Instant::now();
        let mut chart = self.chart.lock();
        match chart.as_mut() {
            Some(old) if old.is_newer_than(map, now) => true,
            Some(old) if old.map == *map => {
                old.believed_at = now;
                old.guests.retain(|_, (_, used)| now < *used + GUESTS_STAY);
                true
            }
            _ => false,
        }
    }

    /// Notes that `slot` is at `at`: its owner until now says so.
    pub(super) fn moved(&self, slot: u16, at: &HostPort) {
        let is_known = self.chart.lock().as_ref().is_some_and(|chart| chart.knows(at));
        let dialer = match is_known {
            true => Err("it was left".to_owned()),
            false => self.dialer(at),
        };
        let mut chart = self.chart.lock();
        let Some(chart) = chart.as_mut() else { return };
        if is_known && !chart.knows(at) {
            // It was left just now. Whoever asks next is sent there again.
            return;
        }
        let index = chart.map.note(slot, at.clone());
        chart.moved_at = Some(Instant::now());
        if index == chart.nodes.len() {
            let made = || dialer.map(|dialer| self.node(dialer, true));
            let node = chart.take(at).map_or_else(made, Ok);
            chart.nodes.push(node);
        }
        self.changed.notify_waiters();
    }

    /// The node at `at`, which has no slot yet, or is about to have one more.
    pub(super) fn node_at(&self, at: &HostPort) -> Result<Arc<Node>, Failure> {
        if let Some(node) = self.chart.lock().as_mut().and_then(|chart| chart.node_at(at)) {
            return Ok(node);
        }
        let dialer = self.dialer(at).map_err(Failure::unreachable)?;
        let mut chart = self.chart.lock();
        let Some(chart) = chart.as_mut() else { return Err(Failure::unreachable("no map")) };
        // Another one may have made it meanwhile.
        if let Some(node) = chart.node_at(at) {
            return Ok(node);
        }
        let node = self.node(dialer, true);
        chart.guests.insert(at.clone(), (Arc::clone(&node), Instant::now()));
        Ok(node)
    }

    /// How the node at `at` is reached. No lock may be held: it asks the user.
    fn dialer(&self, at: &HostPort) -> Result<Arc<Dialer>, String> {
        let channels = self.channels().unwrap_or_default();
        let dialer = self.way.dialer(at, Some(channels)).map_err(|error| error.to_string())?;
        Ok(Arc::new(dialer))
    }

    /// A node, that is connected from now on.
    fn node(&self, dialer: Arc<Dialer>, replaces: bool) -> Arc<Node> {
        let among = Among::Nodes(self.channels().unwrap_or_default());
        Arc::new(Node::among(&self.common, dialer, among, replaces))
    }

    /// Leaves a node that is no master any more.
    fn retire(&self, at: &HostPort, node: &Node) {
        tracing::debug!(target: "leasehold", server = address_shown(at),
            "a node of the cluster is no master any more: left");
        let mut past = self.past.lock();
        // What it carries now is lost, too.
        past.0 += node.commands.losses() + 1;
        past.1 += node.reconnects() + 1;
        drop(past);
        node.cut();
    }

    /// How often a connection for commands was lost, and any was made again.
    pub(super) fn counted(&self) -> (u64, u64) {
        let (losses, reconnects) = *self.past.lock();
        let chart = self.chart.lock();
        let live = || chart.iter().flat_map(Chart::live);
        let lost: u64 = live().map(|node| node.commands.losses()).sum();
        let again: u64 = live().map(|node| node.reconnects()).sum();
        (losses + lost, reconnects + again)
    }

    /// Sees to it that the connections of all nodes are kept up. Each acquisition asks.
    pub(super) fn keep_up(&self) {
        self.chart.lock().iter().flat_map(Chart::live).for_each(|node| node.keep_up());
    }

    /// Whether a question reaches any of the nodes.
    pub(super) fn is_up(&self) -> bool {
        self.chart.lock().iter().flat_map(Chart::live).any(|node| node.commands.is_up())
    }

    /// Whether all nodes are up, for commands and for messages.
    pub(super) fn are_up(&self) -> (bool, bool) {
        let (nodes, any) = (self.masters(), self.is_up());
        let commands = any && nodes.iter().all(|(_, node)| node.commands.is_up());
        (commands, any && nodes.iter().all(|(_, node)| node.subscriptions.are_up()))
    }

    // What is heard.

    pub(super) fn listen(&self, object: &Object) {
        let mut placed = self.placed.lock();
        let owner = self.owner(slot_of(object.name.as_str().as_bytes()));
        let before = placed.insert(object.clone(), owner.clone()).flatten();
        if let Some(before) = before.filter(|it| !is_same(Some(it), owner.as_ref())) {
            before.subscriptions.forget(object);
        }
        if let Some(owner) = owner {
            owner.subscriptions.listen(object);
        }
    }

    pub(super) fn unlisten(&self, object: &Object) {
        let mut placed = self.placed.lock();
        if let Some(node) = placed.remove(object).flatten() {
            node.subscriptions.unlisten(object);
        }
    }

    /// Where `object` is listened to.
    pub(super) fn hears_releases(&self, object: &Object) -> bool {
        let placed = self.placed.lock();
        let node = placed.get(object).and_then(Option::as_ref);
        node.is_some_and(|node| node.subscriptions.hears_releases(object))
    }

    /// Listens to each name where it is now, and asks anew for what was refused.
    fn settle(&self) {
        let mut placed = self.placed.lock();
        for (object, at) in placed.iter_mut() {
            let owner = self.owner(slot_of(object.name.as_str().as_bytes()));
            if is_same(at.as_ref(), owner.as_ref()) {
                continue;
            }
            if let Some(before) = at.take() {
                before.subscriptions.forget(object);
            }
            self.common.hub.say(Event::Hears(object.clone(), Hears::Nothing));
            if let Some(owner) = &owner {
                owner.subscriptions.listen(object);
            }
            *at = owner;
        }
        drop(placed);
        self.masters().iter().for_each(|(_, node)| node.subscriptions.ask_anew());
    }

    // What was said where nobody listens.

    pub(super) fn said_in_vain(&self, key: &[u8]) {
        self.unheard.lock().insert(key.to_vec());
    }

    /// Whether something was said of `key` in vain, which is then forgotten.
    pub(super) fn is_to_be_said_again(&self, key: &[u8]) -> bool {
        self.unheard.lock().remove(key)
    }
}

/// The nodes of a chart by where they are, guests among them.
fn nodes_of(chart: &mut Chart) -> HashMap<HostPort, Arc<Node>> {
    let masters = chart.map.masters().iter().cloned().zip(chart.nodes.drain(..));
    let masters = masters.filter_map(|(at, node)| Some((at, node.ok()?)));
    let guests = chart.guests.iter().map(|(at, (node, _))| (at.clone(), Arc::clone(node)));
    masters.chain(guests).collect()
}

fn is_same(one: Option<&Arc<Node>>, other: Option<&Arc<Node>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}
