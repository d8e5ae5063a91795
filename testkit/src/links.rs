//! The network between the servers of a deployment and their clients. Its links can be cut.
//!
//! Every node has doors: proxies in front of its ports. A node announces the ports of its doors
//! instead of its own ports. So clients and other nodes connect through a door. Each node has its
//! own source address, by which a door recognises the node. A connection from 127.0.0.1 belongs to
//! a client.
//!
//! The commands of a test itself go to the servers' own ports, without a link.
//!
//! A mutex guards the list of nodes and clients. While this mutex is locked, a proxy may lock its
//! own mutex.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::options::Ports;
use crate::proxy::{Block, Proxy};

/// Links between the nodes of a deployment and their clients. Each link has the names of its two
/// ends.
///
/// If a link is cut, no connection between its ends works, whichever end opens the connection. A
/// process that is not a node belongs to the [`CLIENTS`](Self::CLIENTS), unless
/// [`client`](Self::client) has made it a client of its own.
///
/// # Examples
///
/// ```no_run
/// use testkit::{Links, Sentinels};
///
/// let redis = Sentinels::options().links().start();
/// redis.links().black_hole(Links::CLIENTS, "redis-0");
/// // Clients receive no reply of the first server, but the Sentinels consider it healthy.
/// redis.links().heal(Links::CLIENTS, "redis-0");
/// ```
#[derive(Debug, Default)]
pub struct Links {
    parties: Mutex<Parties>,
}

#[derive(Debug, Default)]
struct Parties {
    nodes: BTreeMap<String, Node>,
    /// The doors that only one client uses, by the names of the client and of the node.
    own_doors: BTreeMap<(String, String), Vec<Proxy>>,
}

#[derive(Debug)]
struct Node {
    /// The source address of the node's connections.
    source: Ipv4Addr,
    /// The doors of the node, by the port behind each door.
    doors: BTreeMap<u16, Proxy>,
}

impl Links {
    /// The name that stands for all clients.
    pub const CLIENTS: &'static str = "clients";

    /// Closes all connections between `one` and `other`. Also closes each new connection at once,
    /// until the link is [healed](Self::heal).
    ///
    /// # Panics
    ///
    /// If no node or client has one of these names.
    #[track_caller]
    pub fn cut(&self, one: &str, other: &str) {
        self.block(one, other, Some(Block::Refused));
    }

    /// Blocks all bytes between `one` and `other` until the link is [healed](Self::heal), as if
    /// packets vanished. Connections stay open, and new connections seem to open.
    ///
    /// # Panics
    ///
    /// If no node or client has one of these names.
    #[track_caller]
    pub fn black_hole(&self, one: &str, other: &str) {
        self.block(one, other, Some(Block::Silent));
    }

    /// Blocks all bytes between each member of `side` and each member of `other`.
    ///
    /// # Panics
    ///
    /// If no node or client has one of these names.
    #[track_caller]
    pub fn split(&self, side: &[&str], other: &[&str]) {
        for one in side {
            other.iter().for_each(|other| self.black_hole(one, other));
        }
    }

    /// Restores the link between `one` and `other`. Data that was sent into a black hole arrives
    /// now.
    ///
    /// # Panics
    ///
    /// If no node or client has one of these names.
    #[track_caller]
    pub fn heal(&self, one: &str, other: &str) {
        self.block(one, other, None);
    }

    /// Heals every link.
    pub fn heal_all(&self) {
        let parties = self.parties();
        let nodes = || parties.nodes.values();
        let sources: Vec<_> = nodes().map(|node| node.source).chain([CLIENT]).collect();
        let doors = nodes().flat_map(|node| node.doors.values());
        for door in doors.chain(parties.own_doors.values().flatten()) {
            sources.iter().for_each(|source| door.block(*source, None));
        }
    }

    /// The names of all nodes.
    pub fn names(&self) -> Vec<String> {
        self.parties().nodes.keys().cloned().collect()
    }

    /// Creates a client `name` with separate links to the current nodes. A test can cut this client
    /// off from a node that other clients still reach.
    ///
    /// Returns a map of ports: for each port that a node announces, the port that this client must
    /// use instead. The test gives this map to the address translation of the client.
    ///
    /// # Panics
    ///
    /// If the name is already used.
    #[track_caller]
    pub fn client(&self, name: &str) -> BTreeMap<u16, u16> {
        let mut parties = self.parties();
        assert!(name != Self::CLIENTS && !parties.knows(name), "the name `{name}` is already used");
        let mut map = BTreeMap::new();
        let Parties { nodes, own_doors } = &mut *parties;
        for (node, known) in nodes {
            let own = known.doors.iter().map(|(port, door)| {
                let own = Proxy::before(*port);
                map.insert(door.port(), own.port());
                own
            });
            own_doors.insert((name.to_owned(), node.clone()), own.collect());
        }
        map
    }

    /// Adds a node without doors. Returns the address from which the node connects.
    pub(crate) fn add(&self, name: &str) -> Ipv4Addr {
        let nodes = &mut self.parties().nodes;
        let number = u8::try_from(nodes.len() + 1).expect("the number of nodes fits into 8 bits");
        // These addresses differ from 127.0.0.1, the address of clients.
        let source = Ipv4Addr::new(127, 0, 1, number);
        nodes.insert(name.to_owned(), Node { source, doors: BTreeMap::new() });
        source
    }

    /// Puts a door in front of each port of a node.
    pub(crate) fn open(&self, name: &str, ports: Ports) {
        let ports = [Some(ports.plain), ports.tls, ports.bus].into_iter().flatten();
        let doors = ports.map(|port| (port, Proxy::before(port))).collect();
        self.parties().nodes.get_mut(name).expect("the node was added").doors = doors;
    }

    /// The port of the door for `port` of a node.
    pub(crate) fn door(&self, name: &str, port: u16) -> u16 {
        self.parties().nodes[name].doors[&port].port()
    }

    #[track_caller]
    fn block(&self, one: &str, other: &str, block: Option<Block>) {
        let parties = self.parties();
        for name in [one, other] {
            let known = name == Self::CLIENTS || parties.knows(name);
            assert!(known, "no `{name}` among {:?} and `{}`", parties.nodes.keys(), Self::CLIENTS);
        }
        parties.block(one, other, block);
        parties.block(other, one, block);
    }

    fn parties(&self) -> MutexGuard<'_, Parties> {
        self.parties.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parties {
    fn knows(&self, name: &str) -> bool {
        self.nodes.contains_key(name) || self.own_doors.keys().any(|(client, _)| client == name)
    }

    /// Blocks the connections from one end at all doors of the other end.
    fn block(&self, from: &str, to: &str, block: Option<Block>) {
        let own = self.own_doors.get(&(from.to_owned(), to.to_owned()));
        own.into_iter().flatten().for_each(|door| door.block(CLIENT, block));
        let source = match self.nodes.get(from) {
            Some(node) => node.source,
            None if from == Links::CLIENTS => CLIENT,
            None => return,
        };
        let doors = self.nodes.get(to).into_iter().flat_map(|node| node.doors.values());
        doors.for_each(|door| door.block(source, block));
    }
}

/// The source address of every process that is not a node.
const CLIENT: Ipv4Addr = Ipv4Addr::LOCALHOST;
