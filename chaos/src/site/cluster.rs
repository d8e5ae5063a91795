//! Three masters that share the slots. Each master has one replica, so a promoted replica has
//! acknowledged all grants of `replicated` names.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use testkit::{Cluster, Failover, Links, Redis, Reply, eventually};

use super::{
    APART, CLIENTS, FAILOVER, LATE, Site, cut_off, healed, kill_connections, last, objects,
    replicated_objects,
};
use crate::clock::now;
use crate::fault::{Fault, HealedFault};
use crate::orders::{Kind, Object, Place};

/// A cluster.
#[derive(Debug)]
pub struct OnCluster {
    cluster: Cluster,
    apart: Place,
    objects: Vec<Object>,
}

impl OnCluster {
    pub(super) fn start() -> Self {
        let cluster = Cluster::options().links().impatient().start();
        let on_each = |prefix: &str| -> Vec<_> {
            cluster.masters().iter().map(|master| cluster.key_on(master, prefix)).collect()
        };
        let objects = objects(&on_each("lock-"), &on_each("fenced-"));
        let objects = [objects, replicated_objects()].concat();
        let ports = cluster.links().client(APART);
        let mut apart = Place { url: String::new(), ports };
        let nodes = cluster.addresses();
        let nodes: Vec<_> = nodes.iter().filter_map(|it| apart.translated(it)).collect();
        apart.url = format!("redis-cluster://{}", nodes.join(","));
        Self { cluster, apart, objects }
    }

    /// The names of the objects at this node.
    fn names_on(&self, node: &Redis) -> BTreeSet<String> {
        let names = self.keys().filter(|it| it.kind != Kind::Semaphore);
        let is_there = |name: &&String| self.owner_of(name).port() == node.port();
        names.map(|it| &it.name).filter(is_there).cloned().collect()
    }

    /// The objects that have a key in Redis. A multi-lock has only the keys of its members.
    fn keys(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(|it| it.kind != Kind::Multi)
    }

    fn owner_of(&self, name: &str) -> Arc<Redis> {
        self.cluster.owner_of(Cluster::slot_of(name))
    }

    /// A master that has one of the objects.
    fn any_master(&self, rng: &mut Rng) -> Arc<Redis> {
        let wanted =
            rng.choice(self.keys().collect::<Vec<_>>()).expect("the list of objects is not empty");
        self.owner_of(&wanted.name)
    }

    fn begin(&self, fault: Fault, on: &Victims) {
        let links = self.cluster.links();
        let [master, replica] = [&on.master, &on.replica].map(|it| self.cluster.name_of(it));
        let clients = || CLIENTS.iter();
        match fault {
            Fault::MasterKilled => on.master.stop(),
            Fault::MasterStopped | Fault::ServerStopped => on.master.pause(),
            Fault::MasterCutOff => cut_off(links, &master, &[], &[]),
            Fault::MasterAndWorkerCutOff => cut_off(links, &master, &[APART], &[Links::CLIENTS]),
            Fault::ReplicaKilled => on.replica.stop(),
            Fault::ReplicaCutOff => links.black_hole(&replica, &master),
            Fault::ConnectionsKilled => {
                kill_connections(self.cluster.masters().iter().map(|it| &**it));
            }
            Fault::LinksCut => clients().for_each(|it| links.cut(it, &master)),
            Fault::LinksBlackHoled => clients().for_each(|it| links.black_hole(it, &master)),
            other => unreachable!("{other:?} is not a fault of a cluster"),
        }
    }

    fn end(&self, fault: Fault, on: &Victims) {
        match fault {
            Fault::MasterKilled => on.master.start_again(),
            Fault::MasterStopped | Fault::ServerStopped => on.master.resume(),
            Fault::ReplicaKilled => on.replica.start_again(),
            _ => self.cluster.links().heal_all(),
        }
    }

    /// Injects a fault, and waits until a replica has replaced its master. Later, heals the fault.
    fn replace(&self, fault: Fault, rng: &mut Rng, on: &Victims) -> HealedFault {
        let from = now();
        self.begin(fault, on);
        eventually("the replica is the primary and accepts requests", FAILOVER, || {
            serves(&on.replica)
        });
        let served = now();
        sleep(Duration::from_millis(rng.u64(0..2_000)));
        self.end(fault, on);
        self.cluster.wait_until_ok();
        HealedFault { fault, from, served, healed: now(), failover: true, names: None }
    }

    /// Injects a fault that usually ends before a replica replaces its master. In rare cases, a
    /// replica replaces the master nevertheless.
    fn disturb(&self, fault: Fault, rng: &mut Rng, on: &Victims) -> HealedFault {
        let from = now();
        self.begin(fault, on);
        last(fault, 500, rng);
        self.end(fault, on);
        let healed_fault = healed(fault, from);
        sleep(LATE);
        self.cluster.wait_until_ok();
        let failover = !serves(&on.master);
        if failover {
            HealedFault { failover, healed: now(), ..healed_fault }
        } else {
            healed_fault
        }
    }

    /// Moves the slot of one of the names to another master.
    fn move_slot(&self, rng: &mut Rng) -> HealedFault {
        let name = &rng
            .choice(self.keys().collect::<Vec<_>>())
            .expect("the list of objects is not empty")
            .name;
        let from = now();
        let slot = Cluster::slot_of(name);
        let owner = self.cluster.owner_of(slot);
        let mut others = self.cluster.masters();
        others.retain(|it| it.port() != owner.port());
        self.cluster.move_slot(slot, rng.choice(&others).expect("the cluster has three primaries"));
        self.cluster.wait_until_ok();
        HealedFault { names: Some([name.clone()].into()), ..healed(Fault::SlotMoved, from) }
    }

    /// Lets the replica replace its master. The master agrees, so no data is lost.
    fn hand_over(&self, on: &Victims) -> HealedFault {
        let from = now();
        self.cluster.fail_over(&on.replica, Failover::Agreed);
        self.cluster.wait_until_ok();
        healed(Fault::FailoverAsked, from)
    }
}

/// The servers that a fault may affect. A fault affects one of them.
#[derive(Debug)]
struct Victims {
    master: Arc<Redis>,
    replica: Arc<Redis>,
}

impl Site for OnCluster {
    fn url(&self) -> String {
        self.cluster.url()
    }

    fn apart(&self) -> Place {
        self.apart.clone()
    }

    fn objects(&self) -> Vec<Object> {
        self.objects.clone()
    }

    fn faults(&self) -> &'static [Fault] {
        &[
            Fault::MasterKilled,
            Fault::MasterStopped,
            Fault::MasterCutOff,
            Fault::MasterAndWorkerCutOff,
            Fault::FailoverAsked,
            Fault::SlotMoved,
            Fault::ServerStopped,
            Fault::ReplicaKilled,
            Fault::ReplicaCutOff,
            Fault::ConnectionsKilled,
            Fault::LinksCut,
            Fault::LinksBlackHoled,
        ]
    }

    fn strike(&self, fault: Fault, rng: &mut Rng) -> HealedFault {
        if fault == Fault::SlotMoved {
            return self.move_slot(rng);
        }
        let master = self.any_master(rng);
        let replica = self.cluster.replicas_of(&master).pop().expect("each primary has a replica");
        let names = Some(self.names_on(&master)).filter(|names| !names.is_empty());
        let on = Victims { master, replica };
        let healed_fault = match fault {
            Fault::FailoverAsked => self.hand_over(&on),
            fault if fault.replaces_a_master() => self.replace(fault, rng, &on),
            fault => self.disturb(fault, rng, &on),
        };
        HealedFault { names, ..healed_fault }
    }

    fn ask_masters(&self, words: &[&str]) -> Vec<Reply> {
        self.cluster.masters().iter().map(|it| it.command(words)).collect()
    }
}

/// Whether a node is a master of a healthy cluster.
fn serves(node: &Redis) -> bool {
    let is_master = node.command(&["ROLE"]).list()[0].text() == "master";
    is_master && node.command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok")
}
