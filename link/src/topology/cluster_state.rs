//! The nodes of a cluster, according to the slot map that this client uses.
//!
//! If a node is no longer a primary, the client closes its connections to that node, even if the
//! connections work. Otherwise, the client would send more commands to a replaced node, and would
//! receive messages only from that node.
//!
//! # Locks
//!
//! `placed` is taken before `known`, and before the locks of event subscribers. While `known` is
//! held, only the locks of a node are taken. Dialers are made before `known` is taken, because the
//! address translation is code of the user and may do anything.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use redis::ServerError;
use tokio::{sync::Notify, time::Instant};

use super::{
    absences::Absences, absences::BLINK, node::Common, node::Node, node_dialer::NodeDialer,
    slot_map::SlotMap, slot_map::address_shown, snapshot::TopologySnapshot,
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

/// How long the client keeps reporting that a node supported another channel mode. During an
/// upgrade, nodes run different versions, and a refresh does not ask every node.
const MIXED: Duration = Duration::from_secs(60);

/// The nodes, subscriptions and failures of the cluster that this client knows.
#[derive(Debug)]
pub(super) struct ClusterState<T: SubscriptionTable> {
    pub(super) common: Arc<Common<T>>,
    pub(super) node_dialer: NodeDialer,
    /// Notified when the topology changes.
    pub(super) changed: Notify,
    channels: OnceLock<Channels>,
    /// The topics to which this client is subscribed.
    placed: Mutex<Placed<T>>,
    known: Mutex<Known<T>>,
}

/// For each topic, the node at which the client is subscribed, if there is one.
type Placed<T> = BTreeMap<<T as SubscriptionTable>::Topic, Option<Arc<Node<T>>>>;

/// The topology, and what happened at its nodes.
#[derive(Debug)]
struct Known<T: SubscriptionTable> {
    snapshot: TopologySnapshot<T>,
    /// When a node last reported another kind of channels than this client uses.
    outgrown: Option<Instant>,
    /// Unreachable nodes, and whether each was logged.
    absences: Absences,
    /// How often connections to dropped nodes were lost, and how often they were restored.
    losses: u64,
    reconnects: u64,
    /// For each slot, the last reply that its owner is not ready, and when it came.
    refused: HashMap<u16, (Failure, Instant)>,
    /// Keys whose messages were published at an importing node. No client is subscribed at such a
    /// node.
    unreceived: HashSet<Vec<u8>>,
}

impl<T: SubscriptionTable> Known<T> {
    /// Returns a finding if clients that connect now may use other channels than this client.
    fn other_channels(&self) -> Option<Finding> {
        let has_changed = self.outgrown.is_some_and(|at| Instant::now() < at + MIXED);
        has_changed.then(|| Finding::at("the cluster", Hazard::ChannelModeChanged))
    }
}

impl<T: SubscriptionTable> ClusterState<T> {
    pub(super) fn new(common: Arc<Common<T>>, node_dialer: NodeDialer) -> Self {
        let known = Known {
            snapshot: TopologySnapshot::default(),
            outgrown: None,
            absences: Absences::default(),
            losses: 0,
            reconnects: 0,
            refused: HashMap::new(),
            unreceived: HashSet::new(),
        };
        Self {
            common,
            node_dialer,
            changed: Notify::new(),
            channels: OnceLock::new(),
            placed: Mutex::default(),
            known: Mutex::new(known),
        }
    }

    /// Returns the kind of channels of the cluster, as soon as it is known.
    pub(super) fn channels(&self) -> Option<Channels> {
        self.channels.get().copied()
    }

    /// Sets the kind of channels for the life of the client, as Redisson does. `reported` has the
    /// kinds that nodes support, and the last one counts. After an upgrade of the cluster, clients
    /// that connect later may choose another kind. Then this client logs a hazard.
    pub(super) fn speaks(&self, reported: &[Channels]) {
        let Some(last) = reported.last() else { return };
        let chosen = self.channels.get_or_init(|| *last);
        let mut known = self.known.lock();
        if reported.iter().any(|it| it != chosen) {
            known.outgrown = Some(Instant::now());
        }
        let found = known.other_channels().into_iter().collect();
        drop(known);
        self.common.warnings.log(Source::Channels, found);
    }

    pub(super) fn has_map(&self) -> bool {
        self.known.lock().snapshot.has_map()
    }

    /// Returns the node that has `slot`, according to the current topology.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node<T>>> {
        self.known.lock().snapshot.owner(slot)?.as_ref().ok().cloned()
    }

    pub(super) fn address_of_owner(&self, slot: u16) -> Option<HostPort> {
        let known = self.known.lock();
        let map = known.snapshot.map();
        map.masters().get(map.owner(slot)?).cloned()
    }

    /// Returns every primary that can be dialled, and its address.
    pub(super) fn masters(&self) -> Vec<(HostPort, Arc<Node<T>>)> {
        let known = self.known.lock();
        let all = known.snapshot.masters();
        all.map(|(at, node)| (at.clone(), Arc::clone(node))).collect()
    }

    /// Returns the addresses of all nodes of the slot map, with replicas.
    pub(super) fn members(&self) -> BTreeSet<HostPort> {
        self.known.lock().snapshot.map().members().clone()
    }

    /// Returns why requests about `slot` reach no node.
    pub(super) fn failure(&self, slot: u16) -> Failure {
        self.known.lock().snapshot.failure(slot)
    }

    /// Returns what prevents requests about `slot`, if anything does.
    pub(super) fn unavailability(&self, slot: u16) -> Option<Failure> {
        let known = self.known.lock();
        known.snapshot.unavailability(slot).or_else(|| {
            let (refusal, at) = known.refused.get(&slot)?;
            (Instant::now() < *at + REPLIED_LATELY).then(|| refusal.clone())
        })
    }

    /// Records that the owner of `slot` replied that it is not ready. Returns that reply as a
    /// failure. If the cluster is down, adds the slots that may be the cause.
    pub(super) fn not_ready(&self, slot: u16, reported: &ServerError) -> Failure {
        let mut known = self.known.lock();
        let refusal = match replies::refusal(reported) {
            Failure::Refused { code, message, .. }
                if code == "CLUSTERDOWN" && !message.contains("slot") =>
            {
                Failure::refused(code, format!("{message}: {}", known.snapshot.why_down()))
            }
            other => other,
        };
        known.refused.insert(slot, (refusal.clone(), Instant::now()));
        refusal
    }

    /// Returns the failure if every node reports that the cluster is down.
    pub(super) fn down(&self) -> Failure {
        let why = self.known.lock().snapshot.why_down();
        Failure::refused("CLUSTERDOWN", format!("The cluster is down: {why}"))
    }

    /// Returns the hazards that were found so far.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let known = self.known.lock();
        let of_nodes = known.snapshot.nodes().flat_map(|node| node.findings());
        let of_map = known.snapshot.unreachable_primaries().into_iter().chain(known.snapshot.gap());
        of_nodes.chain(of_map).chain(known.other_channels()).collect()
    }

    /// Returns the health of the primaries that cannot be dialled.
    pub(super) fn undialled(&self) -> Vec<NodeHealth> {
        let node = |(at, why): (&HostPort, &String)| NodeHealth {
            server: address_shown(at),
            round_trip: None,
            silent_for: None,
            unavailable_reason: Some(why.clone()),
        };
        self.known.lock().snapshot.undialled().map(node).collect()
    }

    /// Logs nodes that stay unreachable, and the end of these absences. An absence ends when the
    /// node is back, or has no slots any more. If an unreachable node was not logged yet, returns
    /// how long to wait before the next check.
    pub(super) fn check_absences(&self) -> Option<Duration> {
        let mut known = self.known.lock();
        let unreachable = known.snapshot.unreachable_primaries();
        let (new, over) = known.absences.seen(unreachable, Instant::now());
        let again = known.absences.any_unlogged().then_some(BLINK);
        drop(known);
        over.iter().for_each(warnings::log_resolved);
        new.iter().for_each(warnings::log_detected);
        again
    }

    /// Logs slots that no node has, and logs when all slots have a node again.
    fn check_unserved_slots(&self) {
        let gap = self.known.lock().snapshot.gap();
        self.common.warnings.log(Source::Slots, gap.into_iter().collect());
    }

    /// Records why no node returned the topology.
    pub(super) fn note(&self, reason: String) {
        self.known.lock().snapshot.note(reason);
    }

    /// Adopts `map`, unless it is older than the current map. Returns whether the topology changed.
    pub(super) fn adopt(&self, map: SlotMap) -> bool {
        if self.known.lock().snapshot.confirms(&map, Instant::now()) {
            self.drop_idle_slotless();
            self.translate_again();
            self.check_unserved_slots();
            self.place_all();
            return false;
        }
        let dialers: Vec<_> = map.masters().iter().map(|at| self.dialer(at)).collect();
        let now = Instant::now();
        let mut known = self.known.lock();
        if known.snapshot.is_newer_than(&map, now) {
            return false;
        }
        let replaces = known.snapshot.has_map();
        let make = |dialer| self.node(dialer, replaces);
        let left = known.snapshot.adopt(map, dialers, make, now);
        drop(known);
        self.check_unserved_slots();
        left.iter().for_each(|(at, node)| self.retire(at, node));
        self.place_all();
        self.changed.notify_waiters();
        true
    }

    /// Drops the nodes without slots that were not used for a while.
    fn drop_idle_slotless(&self) {
        let gone = self.known.lock().snapshot.drop_idle_slotless(Instant::now());
        // A request in flight keeps its own reference to the node.
        gone.iter().for_each(|node| self.forget(node));
    }

    /// Translates the addresses of unreachable nodes again, because the translation may now return
    /// another address.
    fn translate_again(&self) {
        let unreached = self.known.lock().snapshot.unreached();
        for at in unreached {
            let Ok(dialer) = self.dialer(&at) else { continue };
            let mut known = self.known.lock();
            let Some(master) = known.snapshot.moved_primary(&at, &dialer) else { continue };
            let before = std::mem::replace(master, Ok(self.node(dialer, true)));
            drop(known);
            drop(before.map(|node| self.leave(&node)));
            self.changed.notify_waiters();
        }
    }

    /// Records a `MOVED`: the previous owner of `slot` replied that the slot is at `at`.
    pub(super) fn moved(&self, slot: u16, at: &HostPort) {
        let is_known = self.known.lock().snapshot.knows(at);
        let dialer = match is_known {
            true => Err("the node left the cluster".to_owned()),
            false => self.dialer(at),
        };
        let snapshot = &mut self.known.lock().snapshot;
        if is_known && !snapshot.knows(at) {
            // A refresh dropped the node just now. The next request will get the same redirect.
            return;
        }
        let make = || dialer.map(|dialer| self.node(dialer, true));
        snapshot.moved(slot, at, make, Instant::now());
        self.changed.notify_waiters();
    }

    /// Returns the node at `at`, or makes it. The node has no slot yet, or is importing one.
    pub(super) fn node_at(&self, at: &HostPort) -> Result<Arc<Node<T>>, Failure> {
        if let Some(node) = self.known.lock().snapshot.node_at(at, Instant::now()) {
            return Ok(node);
        }
        let dialer = self.dialer(at).map_err(Failure::unreachable)?;
        let (snapshot, now) = (&mut self.known.lock().snapshot, Instant::now());
        // Another task may have made the node meanwhile.
        let node = snapshot.node_at(at, now);
        Ok(node.unwrap_or_else(|| snapshot.add_slotless(at, self.node(dialer, true), now)))
    }

    /// Returns a dialer for the node at `at`. No lock may be held, because this function calls the
    /// address translation, which is code of the user.
    fn dialer(&self, at: &HostPort) -> Result<Arc<Dialer>, String> {
        let channels = self.channels().unwrap_or_default();
        let dialer =
            self.node_dialer.dialer(at, Some(channels)).map_err(|error| error.to_string())?;
        Ok(Arc::new(dialer))
    }

    /// Makes a node, which connects in the background.
    fn node(&self, dialer: Arc<Dialer>, replaces: bool) -> Arc<Node<T>> {
        let delivery = Delivery::Nodes(self.channels().unwrap_or_default());
        Arc::new(Node::delivery(Arc::clone(&self.common), dialer, delivery, replaces))
    }

    /// Drops a node that is no longer a primary.
    fn retire(&self, at: &HostPort, node: &Node<T>) {
        tracing::debug!(target: "leasehold", server = address_shown(at),
            "cluster node dropped: the node no longer serves slots");
        self.leave(node);
    }

    /// Cuts all connections to `node`, and adds its counters to the totals.
    fn leave(&self, node: &Node<T>) {
        let mut known = self.known.lock();
        // The current connection counts as a loss, too.
        known.losses += node.commands.state.losses() + 1;
        known.reconnects += node.reconnects() + 1;
        drop(known);
        node.cut();
        self.forget(node);
    }

    /// Drops the findings about `node`, because no task checks it any more.
    fn forget(&self, node: &Node<T>) {
        self.common.warnings.forget(&node.commands.dialer().place());
    }

    /// Counts how often a connection for commands was lost.
    pub(super) fn losses(&self) -> u64 {
        let known = self.known.lock();
        known.losses + known.snapshot.nodes().map(|node| node.commands.state.losses()).sum::<u64>()
    }

    /// Counts how often a lost connection was restored.
    pub(super) fn reconnects(&self) -> u64 {
        let known = self.known.lock();
        known.reconnects + known.snapshot.nodes().map(|node| node.reconnects()).sum::<u64>()
    }

    /// Starts the background tasks of all nodes if they do not run. Each acquisition calls this
    /// function.
    pub(super) fn keep_up(&self) {
        self.known.lock().snapshot.nodes().for_each(|node| node.keep_up());
    }

    /// Returns whether any node is connected.
    pub(super) fn is_up(&self) -> bool {
        self.known.lock().snapshot.nodes().any(|node| node.commands.is_up())
    }

    /// Returns whether all connections for commands are up, and whether all for messages are up.
    pub(super) fn are_up(&self) -> (bool, bool) {
        let snapshot = &self.known.lock().snapshot;
        let any = snapshot.nodes().any(|node| node.commands.is_up());
        let commands = any && snapshot.nodes().all(|node| node.commands.is_up());
        (commands, any && snapshot.nodes().all(|node| node.subscriptions.are_up()))
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

    /// Calls `read` for the subscriptions at the node where this client is subscribed to `topic`.
    /// Returns `None` if there is no such node.
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
        self.known.lock().unreceived.insert(key.to_vec());
    }

    /// Returns whether the message of `key` has to be published again. The next call returns false.
    pub(super) fn is_to_be_published_again(&self, key: &[u8]) -> bool {
        self.known.lock().unreceived.remove(key)
    }
}

fn is_same<T: SubscriptionTable>(one: Option<&Arc<Node<T>>>, other: Option<&Arc<Node<T>>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}
