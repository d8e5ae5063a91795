//! A slot that migrates from node to node.

use std::sync::Arc;

use super::Cluster;
use crate::server::Redis;

/// A slot that migrates. A test calls the steps, and can stop between two steps.
///
/// # Examples
///
/// ```
/// use testkit::Cluster;
///
/// let cluster = Cluster::options().replicas(0).start();
/// let slot = Cluster::slot_of("key");
/// let (from, nodes) = (cluster.owner_of(slot), cluster.nodes());
/// let to = nodes.iter().find(|node| node.port() != from.port()).unwrap();
///
/// let moving = cluster.moving(slot, to);
/// moving.open();
/// // The old owner serves its keys, and redirects requests for other keys with `ASK`.
/// assert!(from.command(&["GET", "key"]).error().starts_with("ASK"));
/// moving.carry_all();
/// moving.close();
/// assert_eq!(cluster.owner_of(slot).port(), to.port());
/// ```
#[derive(Debug)]
#[must_use = "nothing moves until a step is taken"]
pub struct SlotMove<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) from: Arc<Redis>,
    pub(super) slot: String,
    pub(super) to: Arc<Redis>,
}

impl SlotMove<'_> {
    /// Makes the new owner import the slot, and the old owner migrate it.
    ///
    /// # Panics
    ///
    /// If one of the nodes rejects a command.
    #[track_caller]
    pub fn open(&self) {
        let (from, to) = (self.cluster.id_of(&self.from), self.cluster.id_of(&self.to));
        self.set_slot(&self.to, &["IMPORTING", &from]);
        self.set_slot(&self.from, &["MIGRATING", &to]);
    }

    /// Moves at most `most` keys to the new owner. Returns how many were moved.
    ///
    /// # Panics
    ///
    /// If one of the nodes rejects a command.
    #[track_caller]
    pub fn carry(&self, most: usize) -> usize {
        let most = most.to_string();
        let keys = self.from.own_command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, &most]);
        let keys = keys.texts();
        if !keys.is_empty() {
            self.migrate(&keys);
        }
        keys.len()
    }

    /// Moves all remaining keys.
    ///
    /// # Panics
    ///
    /// If one of the nodes rejects a command.
    #[track_caller]
    pub fn carry_all(&self) {
        while self.carry(MANY) > 0 {}
    }

    /// Sends the id of the new owner to all primaries. Then waits until every node has received the
    /// change from the new owner itself.
    ///
    /// # Panics
    ///
    /// If the old owner still has a key of the slot, or if the nodes do not agree within 30
    /// seconds.
    #[track_caller]
    pub fn close(&self) {
        let id = self.cluster.id_of(&self.to);
        let others = self.cluster.masters();
        let is_other =
            |node: &&Arc<Redis>| ![self.from.port(), self.to.port()].contains(&node.port());
        // The new owner gets the command first. Otherwise another node could redirect a client to
        // the new owner before the new owner takes requests for the slot.
        for node in [&self.to, &self.from].into_iter().chain(others.iter().filter(is_other)) {
            let reported = node.access().command(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]);
            let reported = reported.expect("the node replies");
            // A node that has lost its last slot becomes a replica of the new owner. This replica
            // rejects the command, but it already has the new topology.
            assert!(!reported.is_error() || node.is_replica(), "{reported:?}");
        }
        let slot = self.slot.parse().expect("the text was made from a number");
        self.cluster.wait_for_owner(slot, &id);
    }

    /// Ends the migration in its current state: the slot and each key stay where they are.
    ///
    /// # Panics
    ///
    /// If one of the nodes rejects a command.
    #[track_caller]
    pub fn call_off(&self) {
        for node in [&self.from, &self.to] {
            self.set_slot(node, &["STABLE"]);
        }
    }

    #[track_caller]
    fn set_slot(&self, node: &Redis, how: &[&str]) {
        node.own_command(&[&["CLUSTER", "SETSLOT", &self.slot], how].concat());
    }

    #[track_caller]
    fn migrate(&self, keys: &[&str]) {
        let port = self.to.ports().for_others().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", PATIENCE];
        match self.to.settings().login() {
            (Some(user), Some(password)) => words.extend(["AUTH2", user, password]),
            (None, Some(password)) => words.extend(["AUTH", password]),
            (_, None) => {}
        }
        words.push("KEYS");
        words.extend(keys);
        // If keys have expired meanwhile, the reply is `NOKEY`.
        let output = self.from.own_command(&words);
        assert!(matches!(output.text(), "OK" | "NOKEY"), "{output:?}");
    }
}

/// The number of keys that one command moves.
const MANY: usize = 100;
/// How long one command that moves keys may take, in milliseconds.
const PATIENCE: &str = "5000";
