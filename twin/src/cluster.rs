//! A cluster: slots on several primaries, each with replicas.
//!
//! A [`Cluster`] knows the latest state. Each node knows only the changes that have reached it. A
//! change arrives at a node after the delay of the [`gossip`](Cluster::gossip). A node that is
//! stopped, dead or isolated receives the change when it is back. For example, a killed primary that
//! restarts knows at once whether it was replaced. A real primary waits two seconds before it serves
//! again.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{sleep, sleep_until},
};

use super::{
    Twin,
    core::{
        clients::Scope,
        cluster::{Map, Member, NodeState, Notice},
        replica,
    },
    delay::Delay,
    net::Net,
    slots::{Owners, slot_of},
};

/// A cluster. A clone is a handle of the same cluster.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use leasehold_twin::{Cluster, Delay, Net};
///
/// let net = Net::new(7);
/// let cluster = Cluster::start(&net, 3, 1, Delay::None);
/// let slot = Cluster::slot_of("door");
/// let replica = cluster.fail_over(slot).unwrap();
/// assert_eq!(cluster.owner(slot), replica);
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    nodes: Vec<Twin>,
    addresses: Vec<String>,
    truth: Mutex<Truth>,
}

#[derive(Debug)]
struct Truth {
    map: Map,
    gossip: Delay,
    lag: Delay,
    random: fastrand::Rng,
}

impl Cluster {
    /// Creates a cluster with this number of `primaries`. Each primary has this number of
    /// `replicas`, which receive writes after `lag`.
    #[must_use]
    pub fn start(net: &Net, primaries: usize, replicas: usize, lag: Delay) -> Self {
        let count = primaries * (replicas + 1);
        let addresses: Vec<_> = (1..=count).map(|at| format!("10.0.1.{at}:6379")).collect();
        let nodes: Vec<_> = addresses.iter().map(|at| net.start(at)).collect();
        let mut random = fastrand::Rng::with_seed(net.seed());
        let map = first_map(&nodes, primaries, &mut random);
        let truth = Truth { map: map.clone(), gossip: Delay::None, lag, random };
        let cluster = Self(Arc::new(Inner { nodes, addresses, truth: Mutex::new(truth) }));
        cluster.found(&Arc::new(map));
        cluster
    }

    /// Turns the servers into nodes of the cluster.
    fn found(&self, map: &Arc<Map>) {
        let lag = self.truth().lag;
        for (at, node) in self.0.nodes.iter().enumerate() {
            let (bus, notices) = unbounded_channel();
            node.core().cluster = Some(NodeState::new(at, Arc::clone(map), bus));
            tokio::spawn(carry(self.clone(), notices));
            if let Some(master) = map.nodes.get(at).and_then(|it| it.master) {
                node.follow(&self.0.nodes[master], lag);
            }
        }
    }

    /// Returns the slot of a key.
    pub fn slot_of(key: &str) -> u16 {
        slot_of(key.as_bytes())
    }

    /// Returns the addresses of all nodes: primaries first, then replicas.
    pub fn addresses(&self) -> &[String] {
        &self.0.addresses
    }

    /// Returns all nodes, in the order of their addresses.
    pub fn nodes(&self) -> &[Twin] {
        &self.0.nodes
    }

    /// Returns the index of the primary that has a slot.
    pub fn owner(&self, slot: u16) -> usize {
        self.truth().map.owners.of(slot)
    }

    /// Sets how long changes and messages travel between nodes from now on.
    pub fn gossip(&self, delay: Delay) {
        self.truth().gossip = delay;
        for node in &self.0.nodes {
            node.core().cluster.iter_mut().for_each(|it| it.gossip = delay);
        }
    }

    /// Promotes a replica of the slot's primary at once, with the replica's current data. Returns
    /// the index of the replica. Returns `None` if no replica runs and can reach the other nodes.
    pub fn fail_over(&self, slot: u16) -> Option<usize> {
        let mut truth = self.truth();
        let old = truth.map.owners.of(slot);
        let shard = truth.map.shard_of(old);
        let runs = |node: &usize| self.0.nodes[*node].core().faults.is_among_others();
        let new = shard.iter().copied().filter(|node| *node != old).find(runs)?;
        for node in shard {
            truth.map.nodes[node].master = (node != new).then_some(new);
        }
        let epoch = truth.map.nodes.iter().map(|node| node.epoch).max().unwrap_or_default();
        truth.map.nodes[new].epoch = epoch + 1;
        truth.map.owners.give_all(old, new);
        drop(truth);
        replica::promote(&self.0.nodes[new].shared, false);
        self.spread(new);
        Some(new)
    }

    /// Begins to migrate a slot to the primary with the index `to`. Returns false if this primary
    /// does not know yet that it has lost the slot. Then nothing changes, because Redis refuses the
    /// migration.
    ///
    /// Deletes the keys that this primary still has in the slot. Such keys are old: a failover has
    /// lost their deletion when the slot left the primary. Redis keeps them.
    #[must_use]
    pub fn begin_move(&self, slot: u16, to: usize) -> bool {
        let from = self.owner(slot);
        if self.at(to, |it| it.map.owners.of(slot) == it.me) == Some(true) {
            return false;
        }
        self.0.nodes[to].core().drop_keys(|it| it == slot);
        self.at(to, |it| it.importing.insert(slot, from));
        self.at(from, |it| it.migrating.insert(slot, to));
        true
    }

    /// Returns the index of the primary to which a slot migrates.
    pub fn importer(&self, slot: u16) -> Option<usize> {
        self.at(self.owner(slot), |it| it.migrating.get(&slot).copied()).flatten()
    }

    /// Moves up to `most` keys of a migrating slot, and returns their number.
    pub fn move_keys(&self, slot: u16, most: usize) -> usize {
        let from = self.owner(slot);
        let Some(to) = self.importer(slot) else { return 0 };
        let moved = self.0.nodes[from].core().take_out(slot, most);
        let count = moved.len();
        self.0.nodes[to].core().take_in(moved);
        count
    }

    /// Ends the migration of a slot. The target learns of the end first. The other nodes learn of
    /// the end by gossip. Keys that were not moved are lost.
    pub fn finish_move(&self, slot: u16) {
        let Some(to) = self.importer(slot) else { return };
        let mut truth = self.truth();
        let epoch = truth.map.nodes.iter().map(|node| node.epoch).max().unwrap_or_default();
        truth.map.nodes[to].epoch = epoch + 1;
        truth.map.owners.give(slot, to);
        drop(truth);
        self.spread(to);
    }

    /// Sets whether the nodes report that the cluster is down.
    pub fn set_down(&self, is_down: bool) {
        (0..self.0.nodes.len()).for_each(|node| {
            self.at(node, |it| it.is_down = is_down);
        });
    }

    /// Marks a node as failed, or as healthy, in the state of all other nodes.
    pub fn set_failed(&self, node: usize, has_failed: bool) {
        self.truth().map.nodes[node].has_failed = has_failed;
        self.spread(node);
    }

    fn at<T>(&self, node: usize, change: impl FnOnce(&mut NodeState) -> T) -> Option<T> {
        self.0.nodes[node].core().cluster.as_mut().map(change)
    }

    /// Sends a change to all nodes. The node `origin`, which made the change, has it at once.
    fn spread(&self, origin: usize) {
        let mut truth = self.truth();
        truth.map.version += 1;
        let map = Arc::new(truth.map.clone());
        let delays: Vec<_> = self.0.nodes.iter().map(|_| truth.draw()).collect();
        drop(truth);
        for (at, delay) in delays.into_iter().enumerate() {
            let node = &self.0.nodes[at];
            let is_among_others = node.core().faults.is_among_others();
            if is_among_others && (at == origin || delay.is_zero()) {
                self.teach(at, &map);
                continue;
            }
            let delay = if is_among_others { delay } else { Duration::ZERO };
            let (cluster, map) = (self.clone(), Arc::clone(&map));
            tokio::spawn(async move {
                sleep(delay).await;
                cluster.0.nodes[at].shared.among_others().await;
                cluster.teach(at, &map);
            });
        }
    }

    /// Gives a node the new state. If the primary of the node has changed, the node follows the new
    /// primary.
    fn teach(&self, at: usize, map: &Arc<Map>) {
        let node = &self.0.nodes[at];
        let mut core = node.core();
        let master_before = core.cluster.as_ref().and_then(|it| it.map.nodes.get(at)?.master);
        core.learn(map);
        let master = core.cluster.as_ref().and_then(|it| it.map.nodes.get(at)?.master);
        drop(core);
        if let Some(master) = master.filter(|_| master != master_before) {
            node.follow(&self.0.nodes[master], self.truth().lag);
        }
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.0.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Truth {
    fn draw(&mut self) -> Duration {
        self.gossip.draw(&mut self.random)
    }
}

/// Carries the messages of one node to other nodes.
async fn carry(cluster: Cluster, mut notices: UnboundedReceiver<Notice>) {
    while let Some(notice) = notices.recv().await {
        sleep_until(notice.due).await;
        let all = match notice.scope {
            Scope::Plain => (0..cluster.0.nodes.len()).collect(),
            Scope::Sharded => cluster.truth().map.shard_of(notice.from),
        };
        for node in all.into_iter().filter(|node| *node != notice.from) {
            let mut core = cluster.0.nodes[node].core();
            if core.faults.is_among_others() {
                core.tick();
                core.deliver(notice.scope, &notice.channel, &notice.message);
            }
        }
    }
}

/// Returns the state at the start. The primaries are the first nodes, and share the slots equally.
fn first_map(nodes: &[Twin], primaries: usize, random: &mut fastrand::Rng) -> Map {
    let member = |(at, node): (usize, &Twin)| {
        let master = (at >= primaries).then(|| at % primaries);
        let epoch = u64::try_from(master.unwrap_or(at) + 1).unwrap_or_default();
        let id = format!("{:032x}{:08x}", random.u128(..), random.u32(..));
        let address = node.core().address.clone();
        Member { id, address, master, epoch, has_failed: false }
    };
    let nodes: Vec<_> = nodes.iter().enumerate().map(member).collect();
    Map { version: 0, nodes, owners: Owners::equal(primaries) }
}
