//! A master, its replica, and three sentinels.
//!
//! There is one replica, so that whoever is promoted has acknowledged what `replicated`
//! names have granted: these must not be held twice, whatever happens.

use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use testkit::{Links, Redis, Reply, Sentinels};

use super::{APART, CLIENTS, Site, for_a_while, harmless, kill_connections, outage};
use crate::clock::{nanos, now};
use crate::fault::{Fault, Struck};
use crate::orders::{Kind, Object, Place};

/// A master that sentinels watch.
#[derive(Debug)]
pub struct OnSentinel {
    redis: Sentinels,
    apart: Place,
}

impl OnSentinel {
    pub(super) fn start() -> Self {
        let redis = Sentinels::options().replicas(1).links().start();
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

    /// Does what makes the sentinels replace the master, and undoes it some time later.
    fn replace(
        &self,
        fault: Fault,
        rng: &mut Rng,
        begin: impl FnOnce(usize),
        end: impl FnOnce(usize),
    ) -> Struck {
        let old = self.redis.master_number();
        let events = self.redis.listen();
        let from = now();
        begin(old);
        let switched = events.wait_for("+switch-master", FAILOVER).at;
        let served = now() - nanos(switched.elapsed());
        sleep(Duration::from_millis(rng.u64(0..2_000)));
        end(old);
        self.redis.wait_until_agreed();
        Struck { fault, from, served, healed: now(), failover: true, names: None }
    }

    /// What may, or may not, have made the sentinels replace `old`.
    fn watched(&self, struck: Struck, old: usize) -> Struck {
        sleep(LATE);
        self.redis.wait_until_agreed();
        let failover = self.redis.master_number() != old;
        if failover { Struck { failover, healed: now(), ..struck } } else { struck }
    }

    fn others_than(&self, server: usize) -> Vec<String> {
        let mut names = self.redis.links().names();
        names.retain(|it| *it != name(server));
        names
    }
}

impl Site for OnSentinel {
    fn url(&self) -> String {
        format!("redis-sentinel://{}/{}", self.redis.addresses().join(","), self.redis.name())
    }

    fn apart(&self) -> Place {
        self.apart.clone()
    }

    fn objects(&self) -> Vec<Object> {
        vec![
            Object::new(Kind::Lock, "lock-0"),
            Object::new(Kind::Fenced, "fenced-0"),
            Object::new(Kind::ReadWrite, "door-0"),
            Object::new(Kind::Semaphore, "semaphore-0").permits(2),
            Object::new(Kind::Permits, "permits-0").permits(2),
            Object::new(Kind::Lock, "replicated-0").replicated(),
            Object::new(Kind::Fenced, "replicated-1").replicated(),
        ]
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

    fn strike(&self, fault: Fault, rng: &mut Rng) -> Struck {
        let links = self.redis.links();
        let (killed, started) =
            (|it: usize| self.server(it).stop(), |it: usize| self.server(it).start_again());
        match fault {
            Fault::MasterKilled => return self.replace(fault, rng, killed, started),
            Fault::MasterStopped => {
                let paused = |it: usize| self.server(it).pause();
                return self.replace(fault, rng, paused, |it| self.server(it).resume());
            }
            Fault::MasterCutOff => {
                let cut_off = |it: usize| {
                    let others = self.others_than(it);
                    others.iter().for_each(|other| links.black_hole(&name(it), other));
                };
                return self.replace(fault, rng, cut_off, |_| links.heal_all());
            }
            Fault::MasterAndWorkerCutOff => {
                let split = |it: usize| {
                    let mut others = self.others_than(it);
                    others.push(Links::CLIENTS.to_owned());
                    let others: Vec<_> = others.iter().map(String::as_str).collect();
                    links.split(&[&name(it), APART], &others);
                };
                return self.replace(fault, rng, split, |_| links.heal_all());
            }
            Fault::FailoverAsked => {
                let asked = |_| _ = self.redis.fail_over();
                return self.replace(fault, rng, asked, |_| {});
            }
            _ => {}
        }
        let master = self.redis.master_number();
        let at_master = name(master);
        let replica = 1 - master;
        let from = now();
        let struck = match fault {
            Fault::ServerStopped => {
                let server = self.server(master);
                for_a_while(rng, (50, 300), || server.pause(), || server.resume());
                outage(fault, from)
            }
            Fault::LinksCut => {
                let cut = || CLIENTS.iter().for_each(|it| links.cut(it, &at_master));
                for_a_while(rng, (10, 3_000), cut, || links.heal_all());
                outage(fault, from)
            }
            Fault::LinksBlackHoled => {
                let cut = || CLIENTS.iter().for_each(|it| links.black_hole(it, &at_master));
                for_a_while(rng, (100, 4_000), cut, || links.heal_all());
                outage(fault, from)
            }
            Fault::ConnectionsKilled => {
                kill_connections([self.server(master)]);
                harmless(fault, from)
            }
            Fault::ReplicaKilled => {
                for_a_while(rng, (10, 2_000), || killed(replica), || started(replica));
                harmless(fault, from)
            }
            Fault::ReplicaCutOff => {
                let cut = || links.black_hole(&name(replica), &at_master);
                for_a_while(rng, (100, 3_000), cut, || links.heal(&name(replica), &at_master));
                harmless(fault, from)
            }
            Fault::SentinelKilled => {
                let sentinel = rng.choice(self.redis.sentinels()).expect("there are three");
                for_a_while(rng, (10, 2_000), || sentinel.stop(), || sentinel.start_again());
                harmless(fault, from)
            }
            other => unreachable!("{other:?} is none of sentinels"),
        };
        self.watched(struck, master)
    }

    fn ask_masters(&self, words: &[&str]) -> Vec<Reply> {
        vec![self.redis.master().command(words)]
    }
}

fn name(server: usize) -> String {
    format!("redis-{server}")
}

/// How long the sentinels may take.
const FAILOVER: Duration = Duration::from_secs(30);
/// How long after a server was silent the sentinels may still replace it.
const LATE: Duration = Duration::from_millis(500);
