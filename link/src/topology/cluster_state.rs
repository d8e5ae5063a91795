//! The nodes of a cluster, by the slot map that this client currently uses.
//!
//! If a node is no longer a primary, the client closes its connections to that node, even if they
//! work. Otherwise it would send more commands to a replaced node, and would receive messages only
//! from there.
//!
//! # Locks
//!
//! `placed` is taken before `snapshot` and before the locks of event subscribers. While `snapshot`
//! is held, only the locks of a node are taken. Dialers are made before `snapshot` is taken,
//! because the address translation is code of the user and may do anything.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use redis::ServerError;
use tokio::{sync::Notify, time::Instant};

use super::{
    absences::Absences, absences::BLINK, node::Common, node::Node, node_dialer::NodeDialer,
    slot_map::SlotMap, slot_map::UnreachablePrimary, slot_map::address_shown,
    slot_map::slots_in_words, slot_map::why_down, snapshot::TopologySnapshot,
};
use crate::{
    address::host_port::HostPort,
    channels::Channels,
    connection::dial::Dialer,
    failure::Failure,
    hazard::{Finding, Hazard},
    health::NodeHealth,
    mutex::Mutex,
    pubsub::{Delivery, Event, SubscriptionTable, Subscriptions, Topic},
    replies,
    topology::warnings::{self, Source},
};

/// How long `health` reports that a node was not ready. Requests try the node again much sooner.
const REPLIED_LATELY: Duration = Duration::from_secs(1);

/// How long the client reports that a node supports another channel mode. A refresh does not ask
/// every node, and during an upgrade the nodes run different versions.
const MIXED: Duration = Duration::from_secs(60);

/// The nodes, subscriptions and failures of the cluster that this client knows.
#[derive(Debug)]
pub(super) struct ClusterState<T: SubscriptionTable> {
    pub(super) common: Common<T>,
    pub(super) node_dialer: NodeDialer,
    snapshot: Mutex<Option<TopologySnapshot<T>>>,
    /// Notified when the topology changes.
    pub(super) changed: Notify,
    channels: OnceLock<Channels>,
    /// When a node last reported other channels than `channels`.
    outgrown: Mutex<Option<Instant>>,
    /// Why the topology is not known yet.
    obstacle: Mutex<Option<String>>,
    /// Unreachable nodes, and whether each was logged.
    absences: Mutex<Absences>,
    /// Counters of the nodes that were dropped.
    dropped: Mutex<DroppedNodes>,
    /// The node at which this client listens to each topic.
    placed: Mutex<Placed<T>>,
    /// The last reply of an owner that was not ready, by slot, and its time.
    refused: Mutex<HashMap<u16, (Failure, Instant)>>,
    /// Keys whose message was published at the importing node of a migrating slot, where no client
    /// is subscribed.
    unreceived: Mutex<HashSet<Vec<u8>>>,
}

/// The nodes at which a client listens to its topics.
type Placed<T> = BTreeMap<<T as SubscriptionTable>::Topic, Option<Arc<Node<T>>>>;

/// Counters of nodes that were dropped.
#[derive(Debug, Default)]
struct DroppedNodes {
    losses: u64,
    reconnects: u64,
}

impl<T: SubscriptionTable> ClusterState<T> {
    pub(super) fn new(common: Common<T>, node_dialer: NodeDialer) -> Self {
        Self {
            common,
            node_dialer,
            snapshot: Mutex::default(),
            changed: Notify::new(),
            channels: OnceLock::new(),
            outgrown: Mutex::default(),
            obstacle: Mutex::default(),
            absences: Mutex::default(),
            dropped: Mutex::default(),
            placed: Mutex::default(),
            refused: Mutex::default(),
            unreceived: Mutex::default(),
        }
    }

    /// Returns the kind of channels of the cluster, as soon as it is known.
    pub(super) fn channels(&self) -> Option<Channels> {
        self.channels.get().copied()
    }

    /// Sets the kind of channels for the life of the client, as Redisson does. `reported` has the
    /// kinds that nodes support, and the last one counts. After an upgrade of the cluster, newer
    /// clients may choose another kind. If so, this client logs the difference.
    pub(super) fn speaks(&self, reported: &[Channels]) {
        let Some(last) = reported.last() else { return };
        let chosen = self.channels.get_or_init(|| *last);
        if reported.iter().any(|it| it != chosen) {
            *self.outgrown.lock() = Some(Instant::now());
        }
        self.common.warnings.log(Source::Channels, self.other_channels().into_iter().collect());
    }

    /// Returns a finding if newer clients use other channels than this client.
    fn other_channels(&self) -> Option<Finding> {
        let reported = *self.outgrown.lock();
        let has_changed = reported.is_some_and(|at| Instant::now() < at + MIXED);
        has_changed.then(|| Finding::at("the cluster", Hazard::ChannelModeChanged))
    }

    pub(super) fn has_map(&self) -> bool {
        self.snapshot.lock().is_some()
    }

    /// Returns the node that has `slot`, according to the current topology.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node<T>>> {
        self.snapshot.lock().as_ref()?.owner(slot)?.as_ref().ok().cloned()
    }

    /// Returns the address of the owner of `slot`.
    pub(super) fn address_of_owner(&self, slot: u16) -> Option<HostPort> {
        let snapshot = self.snapshot.lock();
        let map = snapshot.as_ref()?.map();
        map.masters().get(map.owner(slot)?).cloned()
    }

    /// Returns every primary that can be dialled, and its address.
    pub(super) fn masters(&self) -> Vec<(HostPort, Arc<Node<T>>)> {
        let snapshot = self.snapshot.lock();
        let all = snapshot.iter().flat_map(TopologySnapshot::masters);
        all.map(|(at, node)| (at.clone(), Arc::clone(node))).collect()
    }

    /// Returns the addresses of all nodes of the slot map, with replicas.
    pub(super) fn members(&self) -> BTreeSet<HostPort> {
        self.snapshot
            .lock()
            .as_ref()
            .map(|snapshot| snapshot.map().members().clone())
            .unwrap_or_default()
    }

    /// Returns true during the first search for the cluster, until it succeeds or fails.
    fn is_sought(&self) -> bool {
        self.snapshot.lock().is_none() && self.obstacle.lock().is_none()
    }

    /// Returns why requests about `slot` reach no node.
    pub(super) fn failure(&self, slot: u16) -> Failure {
        let snapshot = self.snapshot.lock();
        let Some(snapshot) = snapshot.as_ref() else {
            let why = self.obstacle.lock().clone();
            return Failure::unreachable(
                why.unwrap_or_else(|| "still connecting to the cluster".into()),
            );
        };
        match snapshot.owner(slot) {
            None => Failure::unreachable(format!(
                "no node of the cluster serves slot {slot}, to which this name belongs"
            )),
            Some(Err(why)) => Failure::unreachable(why.clone()),
            Some(Ok(node)) => node.commands.failure(),
        }
    }

    /// Returns what prevents requests about `slot`, if anything does.
    pub(super) fn unavailability(&self, slot: u16) -> Option<Failure> {
        let obstacle = match self.owner(slot) {
            // If the node rejected the login, this returns the rejection, and not that the node is
            // unreachable.
            Some(node) => node.commands.connect_failure().map(|_| node.commands.failure()),
            None if self.is_sought() => None,
            None => Some(self.failure(slot)),
        };
        if obstacle.is_some() {
            return obstacle;
        }
        let refused = self.refused.lock();
        let (refusal, at) = refused.get(&slot)?;
        (Instant::now() < *at + REPLIED_LATELY).then(|| refusal.clone())
    }

    /// Notes that the owner of `slot` replied that it is not ready. Returns that reply as a
    /// failure.
    pub(super) fn not_ready(&self, slot: u16, reported: &ServerError) -> Failure {
        let refusal = self.explained(reported);
        self.refused.lock().insert(slot, (refusal.clone(), Instant::now()));
        refusal
    }

    /// Converts the reply of a node that is not ready. If the cluster is down, adds the slots that
    /// may be the cause.
    fn explained(&self, reported: &ServerError) -> Failure {
        match replies::refusal(reported) {
            Failure::Refused { code, message, .. }
                if code == "CLUSTERDOWN" && !message.contains("slot") =>
            {
                Failure::refused(code, format!("{message}: {}", self.why_down()))
            }
            other => other,
        }
    }

    /// Returns the failure if every node reports that the cluster is down.
    pub(super) fn down(&self) -> Failure {
        Failure::refused("CLUSTERDOWN", format!("The cluster is down: {}", self.why_down()))
    }

    /// Explains why nodes may report that the cluster is down.
    fn why_down(&self) -> String {
        let snapshot = self.snapshot.lock();
        let unreachable = snapshot
            .as_ref()
            .map(TopologySnapshot::unreachable_primaries)
            .unwrap_or_default()
            .into_iter();
        let gap = snapshot.as_ref().and_then(|it| it.map().gap()).map(slots_in_words);
        let lost: Vec<_> = unreachable.map(|it| it.slots).chain(gap).collect();
        why_down(&lost)
    }

    /// Returns the hazards that were found so far.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let channels = self.other_channels();
        let snapshot = self.snapshot.lock();
        let Some(snapshot) = snapshot.as_ref() else { return Vec::new() };
        let gap = gap_in(snapshot);
        let of_nodes = snapshot.masters().flat_map(|(_, node)| node.findings(&self.common));
        of_nodes.chain(of_unreachable_primaries(snapshot)).chain(gap).chain(channels).collect()
    }

    /// Returns the health of the primaries that cannot be dialled.
    pub(super) fn undialled(&self) -> Vec<NodeHealth> {
        let snapshot = self.snapshot.lock();
        let all = snapshot.iter().flat_map(TopologySnapshot::undialled);
        let node = |(at, why): (&HostPort, &String)| NodeHealth {
            server: address_shown(at),
            round_trip: None,
            silent_for: None,
            obstacle: Some(why.clone()),
        };
        all.map(node).collect()
    }

    /// Logs nodes that stay unreachable, and nodes that are back or have no slots any more. If an
    /// unreachable node was not logged yet, returns how long to wait before the next check.
    pub(super) fn check_absences(&self) -> Option<Duration> {
        let unreachable =
            self.snapshot.lock().as_ref().map(of_unreachable_primaries).unwrap_or_default();
        let mut absences = self.absences.lock();
        let (new, over) = absences.seen(unreachable, Instant::now());
        let again = absences.any_unlogged().then_some(BLINK);
        drop(absences);
        over.iter().for_each(warnings::log_resolved);
        new.iter().for_each(warnings::log_detected);
        again
    }

    /// Logs slots that no node has, and logs when all slots have a node again.
    fn check_unserved_slots(&self) {
        let gap = self.snapshot.lock().as_ref().and_then(gap_in);
        self.common.warnings.log(Source::Slots, gap.into_iter().collect());
    }

    /// Notes why no node returned the topology.
    pub(super) fn note(&self, obstacle: String) {
        *self.obstacle.lock() = Some(obstacle);
    }

    /// Adopts `map`, unless it is older than the current one. Returns whether the topology changed.
    pub(super) fn adopt(&self, map: SlotMap) -> bool {
        let confirms = |snapshot: &mut TopologySnapshot<T>| snapshot.confirms(&map, Instant::now());
        if self.snapshot.lock().as_mut().is_some_and(confirms) {
            self.drop_idle_slotless();
            self.translate_again();
            self.check_unserved_slots();
            self.place_all();
            return false;
        }
        let dialers: Vec<_> = map.masters().iter().map(|at| self.dialer(at)).collect();
        let now = Instant::now();
        let mut snapshot = self.snapshot.lock();
        if snapshot.as_ref().is_some_and(|old| old.is_newer_than(&map, now)) {
            return false;
        }
        let replaces = snapshot.is_some();
        let make = |dialer| self.node(dialer, replaces);
        let (drawn, left) = TopologySnapshot::drawn(snapshot.take(), map, dialers, make, now);
        *snapshot = Some(drawn);
        drop(snapshot);
        self.check_unserved_slots();
        left.iter().for_each(|(at, node)| self.retire(at, node));
        self.place_all();
        self.changed.notify_waiters();
        true
    }

    /// Drops the nodes without slots that were not used for a while.
    fn drop_idle_slotless(&self) {
        let gone = self.snapshot.lock().as_mut().map(|it| it.drop_idle_slotless(Instant::now()));
        // A request in flight keeps its own reference to the node.
        gone.unwrap_or_default().iter().for_each(|node| self.forget(node));
    }

    /// Translates the addresses of unreachable nodes again, because the translation may now return
    /// another address.
    fn translate_again(&self) {
        let unreached =
            self.snapshot.lock().as_ref().map(TopologySnapshot::unreached).unwrap_or_default();
        for at in unreached {
            let Ok(dialer) = self.dialer(&at) else { continue };
            let mut snapshot = self.snapshot.lock();
            let Some(master) = snapshot.as_mut().and_then(|it| it.moved_primary(&at, &dialer))
            else {
                continue;
            };
            let before = std::mem::replace(master, Ok(self.node(dialer, true)));
            drop(snapshot);
            drop(before.map(|node| self.leave(&node)));
            self.changed.notify_waiters();
        }
    }

    /// Notes a `MOVED`: the previous owner of `slot` replied that the slot is at `at`.
    pub(super) fn moved(&self, slot: u16, at: &HostPort) {
        let is_known = self.snapshot.lock().as_ref().is_some_and(|snapshot| snapshot.knows(at));
        let dialer = match is_known {
            true => Err("the node left the cluster".to_owned()),
            false => self.dialer(at),
        };
        let mut snapshot = self.snapshot.lock();
        let Some(snapshot) = snapshot.as_mut() else { return };
        if is_known && !snapshot.knows(at) {
            // A refresh dropped the node just now. The next request will get the same redirect.
            return;
        }
        let make = || dialer.map(|dialer| self.node(dialer, true));
        snapshot.moved(slot, at, make, Instant::now());
        self.changed.notify_waiters();
    }

    /// Returns the node at `at`, which has no slot yet, or is importing one.
    pub(super) fn node_at(&self, at: &HostPort) -> Result<Arc<Node<T>>, Failure> {
        let known = |snapshot: &mut TopologySnapshot<T>| snapshot.node_at(at, Instant::now());
        if let Some(node) = self.snapshot.lock().as_mut().and_then(known) {
            return Ok(node);
        }
        let dialer = self.dialer(at).map_err(Failure::unreachable)?;
        let mut snapshot = self.snapshot.lock();
        let Some(snapshot) = snapshot.as_mut() else {
            return Err(Failure::unreachable("no topology: the client was closed"));
        };
        // Another task may have made the node meanwhile.
        if let Some(node) = known(snapshot) {
            return Ok(node);
        }
        let node = self.node(dialer, true);
        snapshot.add_slotless(at, &node, Instant::now());
        Ok(node)
    }

    /// Returns a dialer for the node at `at`. No lock may be held, because this calls code of the
    /// user.
    fn dialer(&self, at: &HostPort) -> Result<Arc<Dialer>, String> {
        let channels = self.channels().unwrap_or_default();
        let dialer =
            self.node_dialer.dialer(at, Some(channels)).map_err(|error| error.to_string())?;
        Ok(Arc::new(dialer))
    }

    /// Makes a node. It connects in the background.
    fn node(&self, dialer: Arc<Dialer>, replaces: bool) -> Arc<Node<T>> {
        let delivery = Delivery::Nodes(self.channels().unwrap_or_default());
        Arc::new(Node::delivery(&self.common, dialer, delivery, replaces))
    }

    /// Drops a node that is no longer a primary.
    fn retire(&self, at: &HostPort, node: &Node<T>) {
        tracing::debug!(target: "leasehold", server = address_shown(at),
            "cluster node dropped: the node no longer serves slots");
        self.leave(node);
    }

    /// Cuts all connections to `node`, and keeps its counters.
    fn leave(&self, node: &Node<T>) {
        let mut dropped = self.dropped.lock();
        // The current connection counts as a loss, too.
        dropped.losses += node.commands.losses() + 1;
        dropped.reconnects += node.reconnects() + 1;
        drop(dropped);
        node.cut();
        self.forget(node);
    }

    /// Drops the findings about `node`, because no task checks it any more.
    fn forget(&self, node: &Node<T>) {
        self.common.warnings.forget(&node.commands.dialer().place());
    }

    /// Counts how often a connection for commands was lost.
    pub(super) fn losses(&self) -> u64 {
        let dropped = self.dropped.lock().losses;
        dropped + self.of_all(|node| node.commands.losses())
    }

    /// Counts how often any connection was made again.
    pub(super) fn reconnects(&self) -> u64 {
        let dropped = self.dropped.lock().reconnects;
        dropped + self.of_all(Node::reconnects)
    }

    fn of_all(&self, count: impl Fn(&Node<T>) -> u64) -> u64 {
        self.snapshot
            .lock()
            .iter()
            .flat_map(TopologySnapshot::masters)
            .map(|(_, node)| count(node))
            .sum()
    }

    /// Starts the background tasks of all nodes if they do not run. Each acquisition calls this.
    pub(super) fn keep_up(&self) {
        self.snapshot
            .lock()
            .iter()
            .flat_map(TopologySnapshot::masters)
            .for_each(|(_, node)| node.keep_up());
    }

    /// Returns whether any node is connected.
    pub(super) fn is_up(&self) -> bool {
        self.snapshot
            .lock()
            .iter()
            .flat_map(TopologySnapshot::masters)
            .any(|(_, node)| node.commands.is_up())
    }

    /// Returns whether all nodes are connected, for commands and for messages.
    pub(super) fn are_up(&self) -> (bool, bool) {
        let (nodes, any) = (self.masters(), self.is_up());
        let commands = any && nodes.iter().all(|(_, node)| node.commands.is_up());
        (commands, any && nodes.iter().all(|(_, node)| node.subscriptions.are_up()))
    }

    // Subscriptions.

    pub(super) fn listen(&self, topic: &T::Topic) {
        let mut placed = self.placed.lock();
        let owner = self.owner(topic.slot());
        let before = placed.insert(topic.clone(), owner.clone()).flatten();
        if let Some(before) = before.filter(|it| !is_same(Some(it), owner.as_ref())) {
            before.subscriptions.forget(topic);
        }
        if let Some(owner) = owner {
            owner.subscriptions.listen(topic);
        }
    }

    pub(super) fn unlisten(&self, topic: &T::Topic) {
        let mut placed = self.placed.lock();
        if let Some(node) = placed.remove(topic).flatten() {
            node.subscriptions.unlisten(topic);
        }
    }

    /// Calls `read` for the subscriptions at the node where this client listens to `topic`. Returns
    /// `None` if there is no such node.
    pub(super) fn placed<R>(
        &self,
        topic: &T::Topic,
        read: impl FnOnce(&Subscriptions<T>) -> R,
    ) -> Option<R> {
        let placed = self.placed.lock();
        placed.get(topic)?.as_ref().map(|node| read(&node.subscriptions))
    }

    /// Subscribes to each topic at its current node, and retries rejected subscriptions.
    fn place_all(&self) {
        let mut placed = self.placed.lock();
        for (topic, at) in placed.iter_mut() {
            let owner = self.owner(topic.slot());
            if is_same(at.as_ref(), owner.as_ref()) {
                continue;
            }
            if let Some(before) = at.take() {
                before.subscriptions.forget(topic);
            }
            self.common.hub.send_event(T::Event::unsubscribed(topic.clone()));
            if let Some(owner) = &owner {
                owner.subscriptions.listen(topic);
            }
            *at = owner;
        }
        drop(placed);
        self.masters().iter().for_each(|(_, node)| node.subscriptions.resubscribe());
    }

    // Messages that were published where no client is subscribed.

    pub(super) fn note_unreceived(&self, key: &[u8]) {
        self.unreceived.lock().insert(key.to_vec());
    }

    /// Returns whether the message of `key` has to be published again. The next call returns false.
    pub(super) fn is_to_be_published_again(&self, key: &[u8]) -> bool {
        self.unreceived.lock().remove(key)
    }
}

/// Returns a finding with the first range of slots that no node has.
fn gap_in<T: SubscriptionTable>(snapshot: &TopologySnapshot<T>) -> Option<Finding> {
    let slots = slots_in_words(snapshot.map().gap()?);
    Some(Finding::at("the cluster", Hazard::SlotsWithoutNode { slots }))
}

/// Returns a finding for each unreachable primary.
fn of_unreachable_primaries<T: SubscriptionTable>(snapshot: &TopologySnapshot<T>) -> Vec<Finding> {
    let found = |UnreachablePrimary { server, slots, why }| {
        Finding::at(&server, Hazard::NodeUnreachable { slots, why })
    };
    snapshot.unreachable_primaries().into_iter().map(found).collect()
}

fn is_same<T: SubscriptionTable>(one: Option<&Arc<Node<T>>>, other: Option<&Arc<Node<T>>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}
