//! A master, its replica, and three sentinels.
//!
//! There is only one replica. So a promoted replica has acknowledged all grants of `replicated`
//! names. Such a name must never have two holders.

use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use testkit::{Links, Redis, Reply, Sentinels};

use super::{
    APART, CLIENTS, FAILOVER, LATE, Site, cut_off, healed, kill_connections, last, objects,
    replicated_objects,
};
use crate::clock::{nanos, now};
use crate::fault::{Fault, HealedFault};
use crate::orders::{Object, Place};

/// A master and its replica, which sentinels watch.
#[derive(Debug)]
pub struct OnSentinel {
    redis: Sentinels,
    apart: Place,
}

impl OnSentinel {
    pub(super) fn start() -> Self {
        let redis = Sentinels::options().replicas(1).links().impatient().start();
        let ports = redis.links().client(APART);
        let mut apart = Place { url: String::new(), ports };
        let sentinels = redis.addresses();
        let sentinels = sentinels.iter().filter_map(|address| apart.translated(address));
        let sentinels = sentinels.collect::<Vec<_>>().join(",");
        apart.url = format!("redis-sentinel://{sentinels}/{}", redis.name());
        Self { redis, apart }
    }

    fn server(&self, number: usize) -> &Redis {
        &self.redis.servers()[number]
    }

    fn begin(&self, fault: Fault, on: Victims) {
        let (links, master, replica) = (self.redis.links(), name(on.master), name(on.replica));
        let clients = || CLIENTS.iter();
        match fault {
            Fault::MasterKilled => self.server(on.master).stop(),
            Fault::MasterStopped | Fault::ServerStopped => self.server(on.master).pause(),
            Fault::MasterCutOff => cut_off(links, &master, &[], &[]),
            Fault::MasterAndWorkerCutOff => cut_off(links, &master, &[APART], &[Links::CLIENTS]),
            Fault::FailoverAsked => _ = self.redis.fail_over(),
            Fault::ReplicaKilled => self.server(on.replica).stop(),
            Fault::ReplicaCutOff => links.black_hole(&replica, &master),
            Fault::SentinelKilled => self.redis.sentinels()[on.sentinel].stop(),
            Fault::ConnectionsKilled => kill_connections([self.server(on.master)]),
            Fault::LinksCut => clients().for_each(|it| links.cut(it, &master)),
            Fault::LinksBlackHoled => clients().for_each(|it| links.black_hole(it, &master)),
            other => unreachable!("{other:?} is not a fault of sentinels"),
        }
    }

    fn end(&self, fault: Fault, on: Victims) {
        match fault {
            Fault::MasterKilled => self.server(on.master).start_again(),
            Fault::MasterStopped | Fault::ServerStopped => self.server(on.master).resume(),
            Fault::ReplicaKilled => self.server(on.replica).start_again(),
            Fault::SentinelKilled => self.redis.sentinels()[on.sentinel].start_again(),
            _ => self.redis.links().heal_all(),
        }
    }

    /// Injects a fault, and waits until the sentinels have replaced the master. Later, heals the
    /// fault.
    fn replace(&self, fault: Fault, rng: &mut Rng, on: Victims) -> HealedFault {
        let events = self.redis.listen();
        let from = now();
        self.begin(fault, on);
        let switched = events.wait_for("+switch-master", FAILOVER).at;
        let served = now() - nanos(switched.elapsed());
        sleep(Duration::from_millis(rng.u64(0..2_000)));
        self.end(fault, on);
        self.redis.wait_until_agreed();
        HealedFault { fault, from, served, healed: now(), failover: true, names: None }
    }

    /// Injects a fault that usually ends before the sentinels replace the master. In rare cases,
    /// the sentinels replace the master nevertheless.
    fn disturb(&self, fault: Fault, rng: &mut Rng, on: Victims) -> HealedFault {
        let from = now();
        self.begin(fault, on);
        last(fault, 300, rng);
        self.end(fault, on);
        let healed_fault = healed(fault, from);
        sleep(LATE);
        self.redis.wait_until_agreed();
        let failover = self.redis.master_number() != on.master;
        if failover {
            HealedFault { failover, healed: now(), ..healed_fault }
        } else {
            healed_fault
        }
    }
}

/// The servers that a fault may affect. A fault affects one of them.
#[derive(Clone, Copy, Debug)]
struct Victims {
    master: usize,
    replica: usize,
    sentinel: usize,
}

impl Site for OnSentinel {
    fn url(&self) -> String {
        self.redis.url()
    }

    fn apart(&self) -> Place {
        self.apart.clone()
    }

    fn objects(&self) -> Vec<Object> {
        [objects(&["lock-0", "lock-1"], &["fenced-0"]), replicated_objects()].concat()
    }

    fn faults(&self) -> &'static [Fault] {
        &[
            Fault::MasterKilled,
            Fault::MasterStopped,
            Fault::MasterCutOff,
            Fault::MasterAndWorkerCutOff,
            Fault::FailoverAsked,
            Fault::ServerStopped,
            Fault::ReplicaKilled,
            Fault::ReplicaCutOff,
            Fault::SentinelKilled,
            Fault::ConnectionsKilled,
            Fault::LinksCut,
            Fault::LinksBlackHoled,
        ]
    }

    fn strike(&self, fault: Fault, rng: &mut Rng) -> HealedFault {
        let master = self.redis.master_number();
        let sentinel = rng.usize(0..self.redis.sentinels().len());
        let on = Victims { master, replica: 1 - master, sentinel };
        match fault.replaces_a_master() {
            true => self.replace(fault, rng, on),
            false => self.disturb(fault, rng, on),
        }
    }

    fn ask_masters(&self, words: &[&str]) -> Vec<Reply> {
        vec![self.redis.master().command(words)]
    }
}

fn name(server: usize) -> String {
    format!("redis-{server}")
}
