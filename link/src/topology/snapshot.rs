//! A slot map of the cluster, and the connections to its nodes.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    node::Node, slot_map::SlotMap, slot_map::address_shown, slot_map::slots_in_words,
    slot_map::why_down,
};
use crate::{
    address::host_port::HostPort,
    connection::dial::Dialer,
    failure::Failure,
    hazard::{Finding, Hazard},
    pubsub::SubscriptionTable,
};

/// For this time after its last confirmation, the current map has priority over older maps.
const REMEMBERED: Duration = Duration::from_secs(15);

/// For this time after a `MOVED`, the client rejects other maps with the same epoch. The node that
/// returned such a map may not know the new owner yet.
const PROPAGATION: Duration = Duration::from_secs(1);

/// How long a node without slots is kept after the last request to this node.
const GUESTS_STAY: Duration = Duration::from_secs(15);

/// A node, or why the client cannot connect to it.
type Found<T> = Result<Arc<Node<T>>, String>;

type Nodes<T> = BTreeMap<HostPort, Arc<Node<T>>>;

/// Nodes without slots, and the time of their last request.
type SlotlessNodes<T> = BTreeMap<HostPort, (Arc<Node<T>>, Instant)>;

/// A slot map, and its nodes. Both are empty until a node has returned its map.
#[derive(Debug)]
pub(super) struct TopologySnapshot<T: SubscriptionTable> {
    map: SlotMap,
    /// The primaries of the map, in the order of the map.
    nodes: Vec<Found<T>>,
    slotless: SlotlessNodes<T>,
    /// When a node last confirmed the map, or `None` before the first map.
    confirmed_at: Option<Instant>,
    /// The time of the last `MOVED`.
    moved_at: Option<Instant>,
    /// Why there is no map yet, if that is known.
    unavailable_reason: Option<String>,
}

impl<T: SubscriptionTable> Default for TopologySnapshot<T> {
    fn default() -> Self {
        Self {
            map: SlotMap::default(),
            nodes: Vec::new(),
            slotless: BTreeMap::new(),
            confirmed_at: None,
            moved_at: None,
            unavailable_reason: None,
        }
    }
}

impl<T: SubscriptionTable> TopologySnapshot<T> {
    /// Replaces the map, and returns the nodes to drop. Nodes of the new map that are already known
    /// are kept, and `make` makes the others.
    pub(super) fn adopt<D>(
        &mut self,
        map: SlotMap,
        dialers: Vec<Result<D, String>>,
        make: impl Fn(D) -> Arc<Node<T>>,
        now: Instant,
    ) -> Nodes<T> {
        let masters = self.masters().map(|(at, node)| (at.clone(), Arc::clone(node)));
        let others = self.slotless.iter().map(|(at, (node, _))| (at.clone(), Arc::clone(node)));
        let mut known: Nodes<T> = masters.chain(others).collect();
        let node = |(at, dialer): (&HostPort, Result<_, String>)| match known.remove(at) {
            Some(node) => Ok(node),
            None => Ok(make(dialer?)),
        };
        self.nodes = map.masters().iter().zip(dialers).map(node).collect();
        self.slotless.retain(|at, (_, used)| known.contains_key(at) && now < *used + GUESTS_STAY);
        known.retain(|at, _| !self.slotless.contains_key(at));
        (self.map, self.confirmed_at, self.moved_at) = (map, Some(now), None);
        known
    }

    pub(super) fn has_map(&self) -> bool {
        self.confirmed_at.is_some()
    }

    /// Records why no node returned a map.
    pub(super) fn note(&mut self, reason: String) {
        self.unavailable_reason = Some(reason);
    }

    pub(super) fn map(&self) -> &SlotMap {
        &self.map
    }

    /// Returns whether the current map has priority over `map`.
    pub(super) fn is_newer_than(&self, map: &SlotMap, now: Instant) -> bool {
        let propagates = || self.moved_at.is_some_and(|at| now < at + PROPAGATION);
        match map.epoch.cmp(&self.map.epoch) {
            Ordering::Less => self.confirmed_at.is_some_and(|at| now < at + REMEMBERED),
            Ordering::Equal => self.map != *map && propagates(),
            Ordering::Greater => false,
        }
    }

    /// Returns whether `map` changes nothing. An equal map confirms the current map.
    pub(super) fn confirms(&mut self, map: &SlotMap, now: Instant) -> bool {
        if self.is_newer_than(map, now) {
            return true;
        }
        let is_known = self.has_map() && self.map == *map;
        if is_known {
            self.confirmed_at = Some(now);
        }
        is_known
    }

    /// Removes and returns the nodes without slots that no request used for a while.
    pub(super) fn drop_idle_slotless(&mut self, now: Instant) -> Vec<Arc<Node<T>>> {
        let all = std::mem::take(&mut self.slotless).into_iter();
        let (gone, stay): (SlotlessNodes<T>, SlotlessNodes<T>) =
            all.partition(|(_, (_, used))| now >= *used + GUESTS_STAY);
        self.slotless = stay;
        gone.into_values().map(|(node, _)| node).collect()
    }

    /// Returns the node that has `slot`.
    pub(super) fn owner(&self, slot: u16) -> Option<&Found<T>> {
        self.nodes.get(self.map.owner(slot)?)
    }

    /// Returns every primary that can be dialled, and its address.
    pub(super) fn masters(&self) -> impl Iterator<Item = (&HostPort, &Arc<Node<T>>)> {
        let all = self.map.masters().iter().zip(&self.nodes);
        all.filter_map(|(at, node)| Some((at, node.as_ref().ok()?)))
    }

    /// Returns every primary that cannot be dialled, and why.
    pub(super) fn undialled(&self) -> impl Iterator<Item = (&HostPort, &String)> {
        let all = self.map.masters().iter().zip(&self.nodes);
        all.filter_map(|(at, node)| Some((at, node.as_ref().err()?)))
    }

    /// Returns every primary that can be dialled.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<Node<T>>> {
        self.nodes.iter().flatten()
    }

    /// Returns why requests about `slot` reach no node.
    pub(super) fn failure(&self, slot: u16) -> Failure {
        match self.owner(slot) {
            Some(Ok(node)) => node.commands.failure(),
            Some(Err(why)) => Failure::unreachable(why.clone()),
            None if self.has_map() => Failure::unreachable(format!(
                "no node of the cluster serves slot {slot}, to which this name belongs"
            )),
            None => Failure::unreachable(
                self.unavailable_reason
                    .clone()
                    .unwrap_or_else(|| "still connecting to the cluster".into()),
            ),
        }
    }

    /// Returns why requests about `slot` reach no node. Returns `None` if requests may reach a
    /// node, or while the first search for the cluster runs.
    pub(super) fn unavailability(&self, slot: u16) -> Option<Failure> {
        let is_sought = !self.has_map() && self.unavailable_reason.is_none();
        let may_work = match self.owner(slot) {
            // If the node rejected the login, `failure` returns this rejection.
            Some(Ok(node)) => node.commands.state.connect_failure().is_none(),
            _ => is_sought,
        };
        (!may_work).then(|| self.failure(slot))
    }

    /// Returns each unreachable primary that has slots: its address, its slots, and the reason.
    fn unreachable(&self) -> impl Iterator<Item = (String, String, String)> {
        let why = |node: &Found<T>| match node {
            Err(why) => Some(why.clone()),
            Ok(node) if node.commands.is_up() => None,
            Ok(node) => Some(node.commands.failure().cause()),
        };
        let all = self.map.masters().iter().zip(&self.nodes).enumerate();
        all.filter_map(move |(index, (at, node))| {
            let (why, slots) = (why(node)?, self.map.slots_of(index));
            (!slots.is_empty()).then(|| (address_shown(at), slots, why))
        })
    }

    /// Returns a finding for each unreachable primary that has slots.
    pub(super) fn unreachable_primaries(&self) -> Vec<Finding> {
        let finding = |(server, slots, why): (String, _, _)| {
            Finding::at(&server, Hazard::NodeUnreachable { slots, why })
        };
        self.unreachable().map(finding).collect()
    }

    /// Returns a finding with the first range of slots that no node has.
    pub(super) fn gap(&self) -> Option<Finding> {
        let slots = slots_in_words(self.map.gap()?);
        Some(Finding::at("the cluster", Hazard::SlotsWithoutNode { slots }))
    }

    /// Explains why nodes may report that the cluster is down.
    pub(super) fn why_down(&self) -> String {
        let gap = self.map.gap().map(slots_in_words);
        let lost: Vec<_> = self.unreachable().map(|(_, slots, _)| slots).chain(gap).collect();
        why_down(&lost)
    }

    /// Returns the addresses of the unreachable primaries.
    pub(super) fn unreached(&self) -> Vec<HostPort> {
        let all = self.map.masters().iter().zip(&self.nodes);
        all.filter(|(_, node)| !is_up(node)).map(|(at, _)| at.clone()).collect()
    }

    /// Returns the primary at `at`, if it is unreachable and `dialer` dials a new address.
    pub(super) fn moved_primary(
        &mut self,
        at: &HostPort,
        dialer: &Dialer,
    ) -> Option<&mut Found<T>> {
        let index = self.map.masters().iter().position(|it| it == at)?;
        let master = self.nodes.get_mut(index)?;
        let leads_there = |node: &Found<T>| {
            node.as_ref().is_ok_and(|it| it.commands.dialer().has_same_target(dialer))
        };
        (!is_up(master) && !leads_there(master)).then_some(master)
    }

    /// Returns whether the node at `at` is in the snapshot, dialled or not.
    pub(super) fn knows(&self, at: &HostPort) -> bool {
        self.slotless.contains_key(at) || self.map.masters().contains(at)
    }

    /// Returns the node at `at`, if there is one. A node without slots is kept for a while from now
    /// on.
    pub(super) fn node_at(&mut self, at: &HostPort, now: Instant) -> Option<Arc<Node<T>>> {
        let index = self.map.masters().iter().position(|it| it == at);
        if let Some(Ok(node)) = index.and_then(|index| self.nodes.get(index)) {
            return Some(Arc::clone(node));
        }
        let (node, used) = self.slotless.get_mut(at)?;
        *used = now;
        Some(Arc::clone(node))
    }

    /// Adds and returns a node that has no slot yet.
    pub(super) fn add_slotless(
        &mut self,
        at: &HostPort,
        node: Arc<Node<T>>,
        now: Instant,
    ) -> Arc<Node<T>> {
        self.slotless.insert(at.clone(), (Arc::clone(&node), now));
        node
    }

    /// Records that the node at `at` has `slot`. This node becomes a primary of the map. If the
    /// node is unknown, `make` makes it.
    pub(super) fn moved(
        &mut self,
        slot: u16,
        at: &HostPort,
        make: impl FnOnce() -> Found<T>,
        now: Instant,
    ) {
        let index = self.map.note(slot, at.clone());
        self.moved_at = Some(now);
        if index == self.nodes.len() {
            let slotless_node = self.slotless.remove(at).map(|(node, _)| node);
            self.nodes.push(slotless_node.map_or_else(make, Ok));
        }
    }
}

fn is_up<T: SubscriptionTable>(node: &Found<T>) -> bool {
    node.as_ref().is_ok_and(|node| node.commands.is_up())
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;
    use crate::pubsub::Unwanted;

    /// Returns a map with this epoch, in which the node at `port` has all slots.
    fn map_of(epoch: u64, port: u16) -> SlotMap {
        let all = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$8\r\n10.0.0.1\r\n:{port}\r\n");
        let slots = redis::parse_redis_value(all.as_bytes()).unwrap();
        let nodes = format!("a 10.0.0.1:1@1 master - 0 0 {epoch} connected");
        SlotMap::read(&slots, &Value::BulkString(nodes.into()), &HostPort::default()).unwrap()
    }

    fn snapshot(map: SlotMap, now: Instant) -> TopologySnapshot<Unwanted> {
        let mut snapshot = TopologySnapshot::default();
        snapshot.adopt(map, Vec::<Result<(), _>>::new(), |()| unreachable!(), now);
        snapshot
    }

    #[test]
    fn older_topology_replaces_an_unconfirmed_newer_topology() {
        let now = Instant::now();
        let mut snapshot = snapshot(map_of(7, 1), now);
        assert!(!snapshot.is_newer_than(&map_of(8, 2), now));
        assert!(
            !snapshot.is_newer_than(&map_of(7, 2), now),
            "another map with the same epoch is not older"
        );
        let older = map_of(6, 2);
        let almost = now + REMEMBERED - Duration::from_millis(1);
        assert!(snapshot.is_newer_than(&older, almost));
        assert!(snapshot.confirms(&map_of(7, 1), almost));
        assert!(snapshot.is_newer_than(&older, now + REMEMBERED));
        assert!(!snapshot.is_newer_than(&older, almost + REMEMBERED));
    }

    #[test]
    fn moved_reply_overrides_a_topology_of_the_same_epoch_for_1_s() {
        let now = Instant::now();
        let mut snapshot = snapshot(map_of(7, 1), now);
        let (old, there) = (map_of(7, 1), HostPort { host: "10.0.0.1".into(), port: 2 });
        snapshot.moved(3, &there, || Err("it is only noted".into()), now);
        assert!(snapshot.confirms(&old, now) && snapshot.map().owner(3) == Some(1));
        assert!(!snapshot.confirms(&old, now + PROPAGATION));
        assert!(
            !snapshot.is_newer_than(&map_of(8, 1), now),
            "a map with a higher epoch is used at once"
        );
    }
}
