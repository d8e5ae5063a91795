//! Three masters that share the slots, with a replica each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use testkit::{Cluster, Failover, Links, Redis, Reply, eventually};

use super::{APART, CLIENTS, Site, for_a_while, harmless, kill_connections, outage};
use crate::clock::now;
use crate::fault::{Fault, Struck};
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
        let cluster = Cluster::options().links().start();
        let mut objects = vec![
            Object::new(Kind::ReadWrite, "door-0"),
            Object::new(Kind::Semaphore, "semaphore-0").permits(2),
            Object::new(Kind::Permits, "permits-0").permits(2),
        ];
        for master in cluster.masters() {
            objects.push(Object::new(Kind::Lock, cluster.key_on(&master, "lock-")));
            objects.push(Object::new(Kind::Fenced, cluster.key_on(&master, "fenced-")));
        }
        let ports = cluster.links().client(APART);
        let mut apart = Place { url: String::new(), ports };
        let nodes = addresses(&cluster);
        let nodes: Vec<_> = nodes.iter().filter_map(|it| apart.translated(it)).collect();
        apart.url = format!("redis-cluster://{}", nodes.join(","));
        Self { cluster, apart, objects }
    }

    /// What lies on this node.
    fn names_on(&self, node: &Redis) -> BTreeSet<String> {
        let names = self.objects.iter().filter(|it| it.kind != Kind::Semaphore);
        let is_there = |name: &&String| self.owner_of(name).port() == node.port();
        names.map(|it| &it.name).filter(is_there).cloned().collect()
    }

    fn owner_of(&self, name: &str) -> Arc<Redis> {
        self.cluster.owner_of(Cluster::slot_of(name))
    }

    /// A master on which something is contended for.
    fn any_master(&self, rng: &mut Rng) -> Arc<Redis> {
        let wanted = rng.choice(&self.objects).expect("there are objects");
        self.owner_of(&wanted.name)
    }

    /// Does what makes a replica take the place of its master, and undoes it some time later.
    fn replace(
        &self,
        fault: Fault,
        rng: &mut Rng,
        begin: impl FnOnce(&Redis),
        end: impl FnOnce(&Redis),
    ) -> Struck {
        let old = self.any_master(rng);
        let names = self.names_on(&old);
        let new = self.cluster.replicas_of(&old).pop().expect("each master has a replica");
        let from = now();
        begin(&old);
        eventually("the replica is the master, and serves", FAILOVER, || serves(&new));
        let served = now();
        sleep(Duration::from_millis(rng.u64(0..2_000)));
        end(&old);
        self.cluster.wait_until_ok();
        let names = Some(names).filter(|names| !names.is_empty());
        Struck { fault, from, served, healed: now(), failover: true, names }
    }

    /// What may, or may not, have made a replica take the place of this master.
    fn watched(&self, struck: Struck, master: &Redis) -> Struck {
        sleep(LATE);
        self.cluster.wait_until_ok();
        let failover = !serves(master);
        if failover { Struck { failover, healed: now(), ..struck } } else { struck }
    }

    /// Nothing passes any more between these and all nodes but this one.
    fn cut_off(&self, node: &Redis, with_it: &[&str]) {
        let (links, own) = (self.cluster.links(), self.cluster.name_of(node));
        let mut others = links.names();
        others.retain(|it| *it != own);
        let others: Vec<_> = others.iter().map(String::as_str).collect();
        links.split(&[&[own.as_str()], with_it].concat(), &others);
    }

    /// Moves the slot of one of the names to another master.
    fn move_slot(&self, rng: &mut Rng) -> Struck {
        let name = &rng.choice(&self.objects).expect("there are objects").name;
        let from = now();
        let slot = Cluster::slot_of(name);
        let owner = self.cluster.owner_of(slot);
        let mut others = self.cluster.masters();
        others.retain(|it| it.port() != owner.port());
        self.cluster.move_slot(slot, rng.choice(&others).expect("there are three masters"));
        self.cluster.wait_until_ok();
        Struck { names: Some([name.clone()].into()), ..harmless(Fault::SlotMoved, from) }
    }

    /// The master agrees to a failover: nothing is lost by that.
    fn hand_over(&self, rng: &mut Rng) -> Struck {
        let old = self.any_master(rng);
        let names = self.names_on(&old);
        let new = self.cluster.replicas_of(&old).pop().expect("each master has a replica");
        let from = now();
        self.cluster.fail_over(&new, Failover::Agreed);
        self.cluster.wait_until_ok();
        let names = Some(names).filter(|names| !names.is_empty());
        Struck { names, ..harmless(Fault::FailoverAsked, from) }
    }
}

impl Site for OnCluster {
    fn url(&self) -> String {
        format!("redis-cluster://{}", addresses(&self.cluster).join(","))
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

    fn strike(&self, fault: Fault, rng: &mut Rng) -> Struck {
        match fault {
            Fault::MasterKilled => {
                return self.replace(fault, rng, Redis::stop, Redis::start_again);
            }
            Fault::MasterStopped => return self.replace(fault, rng, Redis::pause, Redis::resume),
            Fault::MasterCutOff => {
                let heal = |_: &Redis| self.cluster.links().heal_all();
                return self.replace(fault, rng, |old| self.cut_off(old, &[]), heal);
            }
            Fault::MasterAndWorkerCutOff => {
                let split = |old: &Redis| {
                    self.cut_off(old, &[APART]);
                    self.cluster.links().black_hole(Links::CLIENTS, &self.cluster.name_of(old));
                };
                let heal = |_: &Redis| self.cluster.links().heal_all();
                return self.replace(fault, rng, split, heal);
            }
            Fault::FailoverAsked => return self.hand_over(rng),
            Fault::SlotMoved => return self.move_slot(rng),
            _ => {}
        }
        let links = self.cluster.links();
        let master = self.any_master(rng);
        let own = self.cluster.name_of(&master);
        let replica = self.cluster.replicas_of(&master).pop().expect("each has a replica");
        let of_replica = self.cluster.name_of(&replica);
        let names = Some(self.names_on(&master)).filter(|names| !names.is_empty());
        let from = now();
        let struck = match fault {
            Fault::ServerStopped => {
                for_a_while(rng, (50, 500), || master.pause(), || master.resume());
                outage(fault, from)
            }
            Fault::LinksCut => {
                let cut = || CLIENTS.iter().for_each(|it| links.cut(it, &own));
                for_a_while(rng, (10, 3_000), cut, || links.heal_all());
                outage(fault, from)
            }
            Fault::LinksBlackHoled => {
                let cut = || CLIENTS.iter().for_each(|it| links.black_hole(it, &own));
                for_a_while(rng, (100, 4_000), cut, || links.heal_all());
                outage(fault, from)
            }
            Fault::ConnectionsKilled => {
                kill_connections(self.cluster.masters().iter().map(|it| &**it));
                harmless(fault, from)
            }
            Fault::ReplicaKilled => {
                for_a_while(rng, (10, 2_000), || replica.stop(), || replica.start_again());
                harmless(fault, from)
            }
            Fault::ReplicaCutOff => {
                let cut = || links.black_hole(&of_replica, &own);
                for_a_while(rng, (100, 3_000), cut, || links.heal(&of_replica, &own));
                harmless(fault, from)
            }
            other => unreachable!("{other:?} is none of a cluster"),
        };
        self.watched(Struck { names, ..struck }, &master)
    }

    fn ask_masters(&self, words: &[&str]) -> Vec<Reply> {
        self.cluster.masters().iter().map(|it| it.command(words)).collect()
    }
}

/// `127.0.0.1:PORT` of each node, as it announces itself.
fn addresses(cluster: &Cluster) -> Vec<String> {
    let ports = cluster.nodes().iter().map(|node| cluster.announced_port(node)).collect::<Vec<_>>();
    ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
}

/// Whether a node is a master of a cluster that is well.
fn serves(node: &Redis) -> bool {
    let is_master = node.command(&["ROLE"]).list()[0].text() == "master";
    is_master && node.command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok")
}

/// How long the cluster may take.
const FAILOVER: Duration = Duration::from_secs(30);
/// How long after a node was silent others may still replace it.
const LATE: Duration = Duration::from_millis(500);
