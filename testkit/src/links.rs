//! The network between the servers of a deployment and their clients, to be cut.
//!
//! Every node has doors, which are proxies in front of its ports, and announces their
//! ports in place of its own: so clients and other nodes come through a door. A node
//! comes from an address of its own (`bind-source-addr`), so that the door knows who
//! knocks; whoever comes from 127.0.0.1 is a client.
//!
//! The commands of a test itself go to the servers' own ports, by no link.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::options::Ports;
use crate::program;
use crate::proxy::{Bar, Proxy};

/// Links between the nodes of a deployment and their clients, by the names of both
/// ends.
///
/// A link is both ways: one that is cut carries neither the connections that the one
/// opens to the other nor those that the other opens.
///
/// # Examples
///
/// ```no_run
/// use testkit::{Links, Sentinels};
///
/// let redis = Sentinels::options().links().start();
/// redis.links().black_hole(Links::CLIENTS, "redis-0");
/// // Clients hear nothing of the first server, while the Sentinels find it well.
/// redis.links().heal(Links::CLIENTS, "redis-0");
/// ```
#[derive(Debug, Default)]
pub struct Links {
    nodes: Mutex<BTreeMap<String, Node>>,
}

#[derive(Debug)]
struct Node {
    /// Where its connections come from.
    source: Ipv4Addr,
    /// One in front of each of its ports.
    doors: BTreeMap<u16, Proxy>,
}

impl Links {
    /// The name of all clients together.
    pub const CLIENTS: &'static str = "clients";

    /// Closes all connections between these two, and new ones at once, until the link
    /// is [healed](Self::heal).
    ///
    /// # Panics
    ///
    /// If there is nobody of this name.
    #[track_caller]
    pub fn cut(&self, one: &str, other: &str) {
        self.bar(one, other, Some(Bar::Refused));
    }

    /// Lets nothing pass between these two until the link is [healed](Self::heal), as
    /// when packets vanish: connections stay open, and new ones seem to be.
    ///
    /// # Panics
    ///
    /// If there is nobody of this name.
    #[track_caller]
    pub fn black_hole(&self, one: &str, other: &str) {
        self.bar(one, other, Some(Bar::Silent));
    }

    /// Lets nothing pass between any of the one side and any of the other.
    ///
    /// # Panics
    ///
    /// If there is nobody of one of these names.
    #[track_caller]
    pub fn split(&self, side: &[&str], other: &[&str]) {
        for one in side {
            other.iter().for_each(|other| self.black_hole(one, other));
        }
    }

    /// Lets everything pass between these two again. What was sent into a black hole
    /// arrives now.
    ///
    /// # Panics
    ///
    /// If there is nobody of this name.
    #[track_caller]
    pub fn heal(&self, one: &str, other: &str) {
        self.bar(one, other, None);
    }

    /// Heals every link.
    pub fn heal_all(&self) {
        let nodes = self.nodes();
        let sources: Vec<_> = nodes.values().map(|node| node.source).chain([CLIENT]).collect();
        for door in nodes.values().flat_map(|node| node.doors.values()) {
            sources.iter().for_each(|source| door.bar(*source, None));
        }
    }

    /// The names of all nodes.
    pub fn names(&self) -> Vec<String> {
        self.nodes().keys().cloned().collect()
    }

    /// Makes room for a node without doors. Returns where it is to come from.
    pub(crate) fn add(&self, name: &str) -> Ipv4Addr {
        assert!(program::redis_major() >= 7, "links need `bind-source-addr` of Redis 7");
        let mut nodes = self.nodes();
        let number = u8::try_from(nodes.len() + 1).expect("there are not that many nodes");
        // None of these is the address of clients.
        let source = Ipv4Addr::new(127, 0, 1, number);
        nodes.insert(name.to_owned(), Node { source, doors: BTreeMap::new() });
        source
    }

    /// Puts a door in front of each port of a node.
    pub(crate) fn open(&self, name: &str, ports: Ports) {
        let ports = [Some(ports.plain), ports.tls, ports.bus].into_iter().flatten();
        let doors = ports.map(|port| (port, Proxy::before(port))).collect();
        self.nodes().get_mut(name).expect("the node was added").doors = doors;
    }

    /// The port of the door in front of `port` of a node.
    pub(crate) fn door(&self, name: &str, port: u16) -> u16 {
        self.nodes()[name].doors[&port].port()
    }

    #[track_caller]
    fn bar(&self, one: &str, other: &str, bar: Option<Bar>) {
        let nodes = self.nodes();
        for (from, to) in [(one, other), (other, one)] {
            let source = source_of(&nodes, from);
            let doors = nodes.get(to).into_iter().flat_map(|node| node.doors.values());
            doors.for_each(|door| door.bar(source, bar));
        }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<String, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[track_caller]
fn source_of(nodes: &BTreeMap<String, Node>, name: &str) -> Ipv4Addr {
    match nodes.get(name) {
        Some(node) => node.source,
        None if name == Links::CLIENTS => CLIENT,
        None => panic!("no `{name}` among {:?} and `{}`", nodes.keys(), Links::CLIENTS),
    }
}

/// Where everybody comes from who is no node.
const CLIENT: Ipv4Addr = Ipv4Addr::LOCALHOST;
