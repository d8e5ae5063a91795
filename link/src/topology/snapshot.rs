//! A slot map of the cluster, and the connections to its nodes.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{node::Node, slot_map::SlotMap, slot_map::UnreachablePrimary, slot_map::address_shown};
use crate::{address::host_port::HostPort, connection::dial::Dialer, pubsub::SubscriptionTable};

/// For this time after the current map was last confirmed, the client rejects an older map.
const REMEMBERED: Duration = Duration::from_secs(15);

/// For this time after a `MOVED`, the new owner counts more than a map of the same epoch. The node
/// that returned the map may not know of the move yet.
const PROPAGATION: Duration = Duration::from_secs(1);

/// How long a node without slots is kept after its last request about a migrating slot.
const GUESTS_STAY: Duration = Duration::from_secs(15);

/// A node, or why the client cannot connect to it.
type Found<T> = Result<Arc<Node<T>>, String>;

/// Nodes by address.
type Nodes<T> = BTreeMap<HostPort, Arc<Node<T>>>;

/// Nodes without slots, and the time of their last request.
type SlotlessNodes<T> = BTreeMap<HostPort, (Arc<Node<T>>, Instant)>;

/// A slot map, and its nodes.
#[derive(Debug)]
pub(super) struct TopologySnapshot<T: SubscriptionTable> {
    map: SlotMap,
    /// The primaries of the map, in the order of the map.
    nodes: Vec<Found<T>>,
    slotless: SlotlessNodes<T>,
    believed_at: Instant,
    /// The time of the last `MOVED`.
    moved_at: Option<Instant>,
}

impl<T: SubscriptionTable> TopologySnapshot<T> {
    /// Returns the snapshot of `map`, and the nodes to drop. It reuses the nodes of the snapshot
    /// `before`, and makes the missing ones.
    pub(super) fn drawn<D>(
        before: Option<Self>,
        map: SlotMap,
        dialers: Vec<Result<D, String>>,
        make: impl Fn(D) -> Arc<Node<T>>,
        now: Instant,
    ) -> (Self, Nodes<T>) {
        let (mut known, mut slotless) = before.map(Self::into_nodes).unwrap_or_default();
        let node = |(at, dialer): (&HostPort, Result<_, String>)| match known.remove(at) {
            Some(node) => Ok(node),
            None => Ok(make(dialer?)),
        };
        let nodes = map.masters().iter().zip(dialers).map(node).collect();
        slotless.retain(|at, (_, used)| known.contains_key(at) && now < *used + GUESTS_STAY);
        known.retain(|at, _| !slotless.contains_key(at));
        (Self { map, nodes, slotless, believed_at: now, moved_at: None }, known)
    }

    /// Returns all nodes by address, and which of them have no slot.
    fn into_nodes(self) -> (Nodes<T>, SlotlessNodes<T>) {
        let Self { map, nodes, slotless, .. } = self;
        let masters = map.masters().iter().cloned().zip(nodes);
        let masters = masters.filter_map(|(at, node)| Some((at, node.ok()?)));
        let others = slotless.iter().map(|(at, (node, _))| (at.clone(), Arc::clone(node)));
        (masters.chain(others).collect(), slotless)
    }

    pub(super) fn map(&self) -> &SlotMap {
        &self.map
    }

    /// Returns whether this snapshot is newer than `map`.
    pub(super) fn is_newer_than(&self, map: &SlotMap, now: Instant) -> bool {
        let propagates = || self.moved_at.is_some_and(|at| now < at + PROPAGATION);
        match map.epoch.cmp(&self.map.epoch) {
            Ordering::Less => now < self.believed_at + REMEMBERED,
            Ordering::Equal => self.map != *map && propagates(),
            Ordering::Greater => false,
        }
    }

    /// Returns whether `map` changes nothing, because it is equal or older.
    pub(super) fn confirms(&mut self, map: &SlotMap, now: Instant) -> bool {
        if self.is_newer_than(map, now) {
            return true;
        }
        let is_known = self.map == *map;
        if is_known {
            self.believed_at = now;
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

    /// Returns the unreachable primaries that have slots.
    pub(super) fn unreachable_primaries(&self) -> Vec<UnreachablePrimary> {
        let all = self.map.masters().iter().zip(&self.nodes).enumerate();
        let why = |node: &Found<T>| match node {
            Err(why) => Some(why.clone()),
            Ok(node) if node.commands.is_up() => None,
            Ok(node) => Some(node.commands.failure().obstacle()),
        };
        let unreachable_primaries = all.filter_map(|(index, (at, node))| {
            let why = why(node)?;
            Some(UnreachablePrimary {
                server: address_shown(at),
                slots: self.map.slots_of(index),
                why,
            })
        });
        unreachable_primaries
            .filter(|unreachable_primaries| !unreachable_primaries.slots.is_empty())
            .collect()
    }

    /// Returns the addresses of the unreachable primaries.
    pub(super) fn unreached(&self) -> Vec<HostPort> {
        let all = self.map.masters().iter().zip(&self.nodes);
        all.filter(|(_, node)| !is_up(node)).map(|(at, _)| at.clone()).collect()
    }

    /// Returns the primary at `at`, if it is unreachable and `dialer` leads to another address.
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

    /// Returns the node at `at`, if there is one. If it has no slots, it is kept for a while from
    /// now on.
    pub(super) fn node_at(&mut self, at: &HostPort, now: Instant) -> Option<Arc<Node<T>>> {
        let index = self.map.masters().iter().position(|it| it == at);
        if let Some(Ok(node)) = index.and_then(|index| self.nodes.get(index)) {
            return Some(Arc::clone(node));
        }
        let (node, used) = self.slotless.get_mut(at)?;
        *used = now;
        Some(Arc::clone(node))
    }

    /// Adds a node that has no slot yet.
    pub(super) fn add_slotless(
        &mut self,
        at: &HostPort,
        slotless_node: &Arc<Node<T>>,
        now: Instant,
    ) {
        self.slotless.insert(at.clone(), (Arc::clone(slotless_node), now));
    }

    /// Notes that `slot` is at `at`. The node at `at` becomes a primary, and is made if it is
    /// unknown.
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
        TopologySnapshot::drawn(None, map, Vec::<Result<(), _>>::new(), |()| unreachable!(), now).0
    }

    #[test]
    fn older_topology_is_used_when_the_newest_is_unconfirmed() {
        let now = Instant::now();
        let mut snapshot = snapshot(map_of(7, 1), now);
        assert!(!snapshot.is_newer_than(&map_of(8, 2), now));
        assert!(!snapshot.is_newer_than(&map_of(7, 2), now), "as new as that, and another one");
        let older = map_of(6, 2);
        let almost = now + REMEMBERED - Duration::from_millis(1);
        assert!(snapshot.is_newer_than(&older, almost));
        assert!(snapshot.confirms(&map_of(7, 1), almost));
        assert!(snapshot.is_newer_than(&older, now + REMEMBERED));
        assert!(!snapshot.is_newer_than(&older, almost + REMEMBERED));
    }

    #[test]
    fn moved_reply_overrides_an_equally_old_topology_for_a_second() {
        let now = Instant::now();
        let mut snapshot = snapshot(map_of(7, 1), now);
        let (old, there) = (map_of(7, 1), HostPort { host: "10.0.0.1".into(), port: 2 });
        snapshot.moved(3, &there, || Err("it is only noted".into()), now);
        assert!(snapshot.confirms(&old, now) && snapshot.map().owner(3) == Some(1));
        assert!(!snapshot.confirms(&old, now + PROPAGATION));
        assert!(!snapshot.is_newer_than(&map_of(8, 1), now), "who knows more is believed at once");
    }
}
