//! A cluster: masters that share the slots, and their replicas.
//!
//! Each node is a [`Redis`], which a test can pause, kill and start again. Plain commands make the
//! nodes a cluster: first masters get their slots, then all nodes meet, then replicas choose their
//! masters. A node still knows the other nodes after a restart.
//!
//! The mutex of the nodes guards only the list of nodes. No command is sent while the mutex is
//! locked.

mod moving;
mod options;
mod slots;
mod view;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use crate::clock::{clock, eventually, eventually_with_requests};
use crate::deployment::{announced_port, start_all};
use crate::links::Links;
use crate::options::{Kind, Options};
use crate::program;
use crate::server::Redis;

pub use moving::SlotMove;
pub use options::ClusterOptions;
use slots::{SLOTS, slot_of};
use view::View;

/// A cluster that lives as long as this value.
///
/// # Examples
///
/// ```
/// use testkit::{Cluster, Failover};
///
/// let cluster = Cluster::start();
/// let slot = Cluster::slot_of("{order}:1");
/// let replica = cluster.replicas_of(&cluster.owner_of(slot)).remove(0);
/// cluster.fail_over(&replica, Failover::Agreed);
/// assert_eq!(cluster.owner_of(slot).port(), replica.port());
/// ```
#[derive(Debug)]
pub struct Cluster {
    nodes: Mutex<Vec<Node>>,
    links: Option<Links>,
    options: Options,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    redis: Arc<Redis>,
}

/// How a replica replaces its primary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failover {
    /// The primary agrees, so no data is lost.
    Agreed,
    /// The other masters vote. The old master takes no part.
    Force,
    /// The replica takes over without a vote.
    Takeover,
}

impl Failover {
    /// The option of `CLUSTER FAILOVER`. A failover with the primary's agreement needs no option.
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Agreed => None,
            Self::Force => Some("FORCE"),
            Self::Takeover => Some("TAKEOVER"),
        }
    }
}

impl Cluster {
    /// Starts three masters with a replica each.
    ///
    /// # Panics
    ///
    /// If there is no Redis on this machine, or a server does not start.
    pub fn start() -> Self {
        Self::options().start()
    }

    /// Returns the default settings.
    pub fn options() -> ClusterOptions {
        ClusterOptions::default()
    }

    /// Returns the slot of a key: the slot of the text in its first braces, or of the whole key.
    pub fn slot_of(key: &str) -> u16 {
        slot_of(key)
    }

    /// Returns a key that starts with `prefix` and belongs to `node`, which must be a master.
    ///
    /// # Panics
    ///
    /// If the node has no slot, or if `prefix` has braces, because the text in braces would decide
    /// the slot.
    #[track_caller]
    pub fn key_on(&self, node: &Redis, prefix: &str) -> String {
        let view = View::of(node).expect("the node replies");
        assert!(!view.me().slots.is_empty(), "this node owns no slot");
        assert!(!prefix.contains('{'), "the braces in `{prefix}` decide the slot");
        let mut keys = (0..).map(|number: u32| format!("{prefix}{number}"));
        let is_there = |key: &String| view.owner_of(slot_of(key)) == Some(&view.own);
        keys.find(is_there).expect("the range of numbers has no end")
    }

    /// All nodes. At the start, the masters come first. One replica of each master follows in the
    /// same order, then a second replica of each master, and so on.
    pub fn nodes(&self) -> Vec<Arc<Redis>> {
        self.list().iter().map(|node| Arc::clone(&node.redis)).collect()
    }

    /// The running nodes that report that they are masters and have slots.
    pub fn masters(&self) -> Vec<Arc<Redis>> {
        let owns = |view: View| view.me().is_master && !view.me().slots.is_empty();
        self.running().into_iter().filter(|node| View::of(node).is_some_and(owns)).collect()
    }

    /// The running nodes that report that they are replicas of `master`.
    ///
    /// # Panics
    ///
    /// If `master` does not reply.
    #[track_caller]
    pub fn replicas_of(&self, master: &Redis) -> Vec<Arc<Redis>> {
        let id = self.id_of(master);
        let follows = |view: View| view.me().master == id;
        self.running().into_iter().filter(|node| View::of(node).is_some_and(follows)).collect()
    }

    /// The node that has a slot. Waits until all running nodes agree on this node.
    ///
    /// # Panics
    ///
    /// If the nodes do not agree within 30 seconds.
    #[track_caller]
    pub fn owner_of(&self, slot: u16) -> Arc<Redis> {
        let mut found = None;
        eventually("the nodes agree on the owner of the slot", CHANGE, || {
            found = self.agreed_owner(slot);
            found.is_some()
        });
        found.expect("the loop above found the owner")
    }

    /// Returns the node that has a slot, as `node` sees it now. After a [cut](Links::split) this
    /// may be the old owner. Returns `None` if `node` or the owner does not reply.
    pub fn owner_seen_by(&self, node: &Redis, slot: u16) -> Option<Arc<Redis>> {
        let view = View::of(node)?;
        let id = view.owner_of(slot)?;
        let is_it = |node: &Arc<Redis>| View::of(node).is_some_and(|view| view.own == id);
        self.running().into_iter().find(is_it)
    }

    /// Returns the announced address `127.0.0.1:PORT` of each node, with the TLS port if nodes use
    /// TLS.
    pub fn addresses(&self) -> Vec<String> {
        let nodes = self.nodes();
        nodes.iter().map(|node| format!("127.0.0.1:{}", self.announced_port(node))).collect()
    }

    /// `redis-cluster://127.0.0.1:PORT,…` with all nodes, or `rediss-cluster://…` if they use TLS.
    /// Passwords are not included.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls { "rediss" } else { "redis" };
        format!("{scheme}-cluster://{}", self.addresses().join(","))
    }

    /// The port at which other nodes and clients find this node.
    ///
    /// With [links](ClusterOptions::links), this is the port of a proxy. A client with [links of
    /// its own](Links::client) must translate the port.
    ///
    /// # Panics
    ///
    /// If the node is not in this cluster.
    #[track_caller]
    pub fn announced_port(&self, node: &Redis) -> u16 {
        announced_port(node, &self.name_of(node), self.links.as_ref())
    }

    /// The name of a node in the [links](Self::links), such as `node-0`.
    ///
    /// # Panics
    ///
    /// If the node is not in this cluster.
    #[track_caller]
    pub fn name_of(&self, node: &Redis) -> String {
        let list = self.list();
        let found = list.iter().find(|it| it.redis.port() == node.port());
        found.expect("a node of this cluster").name.clone()
    }

    /// The links between all nodes and clients.
    ///
    /// # Panics
    ///
    /// If the cluster was started without [`links`](ClusterOptions::links).
    pub fn links(&self) -> &Links {
        self.links.as_ref().expect("the cluster was started without `.links()`")
    }

    /// Waits until all running nodes agree that they are healthy, and agree on the topology. Every
    /// slot must have an owner among the running nodes, and every replica must be in sync.
    ///
    /// # Panics
    ///
    /// If the nodes do not agree within a minute. The message shows what each node knows.
    #[track_caller]
    pub fn wait_until_ok(&self) {
        let started = clock();
        while !self.is_ok() {
            let views = || self.running().iter().map(|node| View::of(node)).collect::<Vec<_>>();
            assert!(started.elapsed() < AGREEMENT, "the nodes do not agree: {:#?}", views());
            sleep(PAUSE);
        }
    }

    /// Makes a replica replace its primary, and waits until all running nodes agree.
    ///
    /// # Panics
    ///
    /// If the replica rejects the command, or if the nodes do not agree within 30 seconds.
    #[track_caller]
    pub fn fail_over(&self, replica: &Redis, how: Failover) {
        let view = View::of(replica).expect("the replica replies");
        let slots = &view.members.get(&view.me().master).expect("the node is a replica").slots;
        let slot = *slots.first().expect("the primary of the replica has slots").start();
        let mut words = vec!["CLUSTER", "FAILOVER"];
        words.extend(how.word());
        // A replica cancels its failover if it gets too few votes within five seconds. So the
        // command is repeated.
        let ask = || {
            let reply = replica.access().command(&words).expect("the replica replies");
            assert!(!reply.is_error() || !replica.is_replica(), "{words:?}: {reply:?}");
        };
        let agreed = || self.all_name(slot, &view.own);
        eventually_with_requests("the replica is the primary", CHANGE, GIVEN_UP, ask, agreed);
    }

    /// Prepares the migration of a slot to the node `to`. The test then calls each step.
    ///
    /// # Panics
    ///
    /// If the nodes do not agree within 30 seconds which node has the slot, or if `to` is not in
    /// this cluster.
    #[track_caller]
    pub fn moving(&self, slot: u16, to: &Redis) -> SlotMove<'_> {
        let from = self.owner_of(slot);
        let to = self.nodes().into_iter().find(|node| node.port() == to.port());
        let to = to.expect("a node of this cluster");
        SlotMove { cluster: self, from, slot: slot.to_string(), to }
    }

    /// Moves a slot with all of its keys to the node `to`.
    ///
    /// # Panics
    ///
    /// If a node rejects a command, or if the nodes do not agree within 30 seconds.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, to: &Redis) {
        let moving = self.moving(slot, to);
        moving.open();
        moving.carry_all();
        moving.close();
    }

    /// Starts a node without slots, and waits until all nodes know it.
    ///
    /// # Panics
    ///
    /// If the node does not start, or if the nodes do not agree within a minute.
    #[track_caller]
    pub fn add_node(&self) -> Arc<Redis> {
        let number = self.list().len();
        let numbers = (number..).map(|number| format!("node-{number}"));
        let name = numbers
            .into_iter()
            .find(|name| !self.is_taken(name))
            .expect("one of the names is free");
        self.start_nodes(&[name]);
        self.meet();
        self.wait_until_ok();
        self.nodes().pop().expect("the cluster has the added node")
    }

    /// Starts a replica of `master`, and waits until it is in sync.
    ///
    /// # Panics
    ///
    /// If the node does not start, or if the nodes do not agree within a minute.
    #[track_caller]
    pub fn add_replica_of(&self, master: &Redis) -> Arc<Redis> {
        let added = self.add_node();
        added.own_command(&["CLUSTER", "REPLICATE", &self.id_of(master)]);
        self.wait_until_ok();
        added
    }

    /// Removes a node without slots from the cluster. The node runs until its last handle is
    /// dropped.
    ///
    /// # Panics
    ///
    /// If the node has slots, or if the other nodes do not forget it within 30 seconds.
    #[track_caller]
    pub fn forget(&self, node: &Redis) {
        let view = View::of(node).expect("the node replies");
        assert!(view.me().slots.is_empty(), "this node owns slots: move them first");
        self.list().retain(|it| it.redis.port() != node.port());
        node.own_command(&["CLUSTER", "RESET", "HARD"]);
        eventually("all other nodes have forgotten the node", CHANGE, || {
            let mut known = false;
            for other in self.running() {
                // A node that has already forgotten `node` rejects the command.
                other.ask(&["CLUSTER", "FORGET", &view.own]);
                known |= View::of(&other).is_none_or(|it| it.members.contains_key(&view.own));
            }
            !known
        });
    }

    /// Creates a [user](Redis::user) at every running node. A restarted node has lost this user. A
    /// user of [`Options::user`] survives a restart.
    ///
    /// # Panics
    ///
    /// For the same reasons as [`Redis::user`].
    #[track_caller]
    pub fn user(&self, name: &str, rights: &[&str]) {
        for node in self.running() {
            node.user(name, rights);
        }
    }

    /// The certificate of the authority that signed the certificates of all nodes.
    ///
    /// # Panics
    ///
    /// If the nodes were started without TLS.
    pub fn ca_pem(&self) -> String {
        self.nodes()[0].ca_pem()
    }

    #[track_caller]
    fn id_of(&self, node: &Redis) -> String {
        node.own_command(&["CLUSTER", "MYID"]).text().to_owned()
    }

    #[track_caller]
    fn wait_for_owner(&self, slot: u16, id: &str) {
        eventually("the nodes agree on the new owner", CHANGE, || self.all_name(slot, id));
    }

    /// Whether all running nodes agree that `id` owns a slot, and on the epoch of `id`. A node with
    /// an older epoch would accept a late message of the previous owner. If the slot later moved to
    /// such a node, others would reject its claim.
    fn all_name(&self, slot: u16, id: &str) -> bool {
        let Some(views) = self.views() else { return false };
        let epochs: BTreeSet<_> =
            views.iter().map(|it| it.members.get(id).map(|member| member.epoch)).collect();
        epochs.len() == 1 && views.iter().all(|it| it.owner_of(slot) == Some(id))
    }

    fn agreed_owner(&self, slot: u16) -> Option<Arc<Redis>> {
        let owner = self.owner_seen_by(self.running().first()?, slot)?;
        let id = View::of(&owner)?.own;
        Some(owner).filter(|_| self.all_name(slot, &id))
    }

    fn is_ok(&self) -> bool {
        let Some(views) = self.views() else { return false };
        let ids: Vec<_> = views.iter().map(|view| &view.own).collect();
        let says = |view: &View| -> Option<Vec<_>> {
            ids.iter().map(|id| view.members.get(*id).filter(|it| it.well).cloned()).collect()
        };
        let Some(first) = views.first().and_then(says) else { return false };
        let owned = first.iter().flat_map(|member| &member.slots).map(|slots| slots.len());
        owned.sum::<usize>() == usize::from(SLOTS)
            && views.iter().all(|view| says(view).as_ref() == Some(&first))
            && self.running().iter().all(|node| is_well(node))
    }

    /// The views of all running nodes, if all of them reply.
    fn views(&self) -> Option<Vec<View>> {
        self.running().iter().map(|node| View::of(node)).collect()
    }

    fn running(&self) -> Vec<Arc<Redis>> {
        self.nodes().into_iter().filter(|node| node.is_running()).collect()
    }

    fn is_taken(&self, name: &str) -> bool {
        let linked =
            self.links.as_ref().is_some_and(|links| links.names().iter().any(|it| it == name));
        linked || self.list().iter().any(|node| node.name == name)
    }

    fn list(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a node reports a healthy cluster. A replica must also be in sync.
fn is_well(node: &Redis) -> bool {
    let info = node.ask(&["CLUSTER", "INFO"]);
    let is_ok = info.is_some_and(|info| info.text().contains("cluster_state:ok"));
    let replicates = || View::of(node).is_some_and(|view| !view.me().master.is_empty());
    is_ok && (!replicates() || node.is_synced())
}

impl ClusterOptions {
    /// Starts all nodes and waits until they form a cluster.
    ///
    /// # Panics
    ///
    /// If there is no Redis on this machine, or a server does not start with these settings.
    pub fn start(self) -> Cluster {
        let mut options = self.node_options.of_kind(Kind::Node(self.node_timeout.as_millis()));
        if options.tls {
            options = options.with_shared_certificates();
        }
        let links = self.linked.then(Links::default);
        let cluster = Cluster { nodes: Mutex::default(), links, options };
        let count = self.masters * (1 + self.replicas);
        let names: Vec<_> = (0..count).map(|number| format!("node-{number}")).collect();
        cluster.start_nodes(&names);
        let nodes = cluster.nodes();
        let (masters, replicas) = nodes.split_at(self.masters);
        deal(masters);
        cluster.meet();
        for (number, replica) in replicas.iter().enumerate() {
            let master = cluster.id_of(&masters[number % self.masters]);
            replica.own_command(&["CLUSTER", "REPLICATE", &master]);
        }
        cluster.wait_until_ok();
        cluster
    }
}

impl Cluster {
    fn start_nodes(&self, names: &[String]) {
        let started = start_all(names, &self.options, self.links.as_ref());
        for (name, redis) in names.iter().zip(started) {
            if let Some(links) = &self.links {
                announce(&redis, name, links);
            }
            self.list().push(Node { name: name.clone(), redis: Arc::new(redis) });
        }
    }

    /// Makes all nodes known to each other.
    #[track_caller]
    fn meet(&self) {
        let nodes = self.running();
        let (first, others) = nodes.split_first().expect("the cluster has a node");
        // If a node replies late, the first node forgets this node. So the introduction is
        // repeated.
        let meet = || others.iter().for_each(|node| self.introduce(first, node));
        let all_known = |view: &View| view.well() >= nodes.len();
        let all_met = || self.views().is_some_and(|views| views.iter().all(all_known));
        eventually_with_requests("the nodes know each other", AGREEMENT, GIVEN_UP, meet, all_met);
    }

    fn introduce(&self, node: &Redis, other: &Redis) {
        let port = self.announced_port(other).to_string();
        let bus = other.ports().bus.expect("a node has a bus");
        let bus = self.links.as_ref().map_or(bus, |links| links.door(&self.name_of(other), bus));
        node.own_command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus.to_string()]);
    }
}

/// Distributes the slots among nodes that do not know each other yet.
fn deal(masters: &[Arc<Redis>]) {
    let count = masters.len();
    for (number, master) in masters.iter().enumerate() {
        let share = |number: usize| usize::from(SLOTS) * number / count;
        let slots: Vec<_> = (share(number)..share(number + 1)).map(|it| it.to_string()).collect();
        let slots = slots.iter().map(String::as_str);
        let words: Vec<_> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots).collect();
        master.own_command(&words);
        // If two nodes had the same epoch, they would first have to resolve this conflict.
        let epoch = (number + 1).to_string();
        master.own_command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
    }
}

/// Makes a node announce the ports of its links.
fn announce(node: &Redis, name: &str, links: &Links) {
    let ports = node.ports();
    let door = |port| links.door(name, port).to_string();
    node.configure(&[("cluster-announce-port", &door(ports.plain))]);
    if let Some(tls) = ports.tls {
        node.configure(&[("cluster-announce-tls-port", &door(tls))]);
    }
    let bus = ports.bus.expect("a node has a bus");
    node.configure(&[("cluster-announce-bus-port", &door(bus))]);
    // Before Redis 7, `CLUSTER SLOTS` of a node has the node's own port until a restart.
    if program::redis_major() < 7 {
        node.restart();
    }
}

const AGREEMENT: Duration = Duration::from_secs(60);
const CHANGE: Duration = Duration::from_secs(60);
/// The time after which a request is repeated, because the node has cancelled the attempt.
const GIVEN_UP: Duration = Duration::from_secs(6);
/// The pause between two checks of the nodes.
const PAUSE: Duration = Duration::from_millis(20);
