//! Deployments, and their faults.

mod cluster;
mod sentinel;
mod single;

use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use testkit::{Links, Redis, Reply};

use crate::clock::{Nanos, now};
use crate::fault::{Fault, HealedFault};
use crate::orders::{Kind, Object, Place};

pub use cluster::OnCluster;
pub use sentinel::OnSentinel;
pub use single::OnSingle;

/// A deployment of the run.
pub trait Site {
    /// The URL for clients.
    fn url(&self) -> String;

    /// The addresses for the worker that has its own links.
    fn apart(&self) -> Place;

    /// The objects of the contention.
    fn objects(&self) -> Vec<Object>;

    /// The faults that are possible here.
    fn faults(&self) -> &'static [Fault];

    /// Injects a fault, and heals it.
    fn strike(&self, fault: Fault, rng: &mut Rng) -> HealedFault;

    /// Sends a command to all current masters.
    fn ask_masters(&self, words: &[&str]) -> Vec<Reply>;
}

/// Starts the deployment `on`.
///
/// # Panics
///
/// If there is no such deployment, or if it does not start.
#[must_use]
pub fn start(on: &str) -> Box<dyn Site> {
    match on {
        "single" => Box::new(OnSingle::start()),
        "sentinel" => Box::new(OnSentinel::start()),
        "cluster" => Box::new(OnCluster::start()),
        other => panic!("ON={other} is unknown; use single, sentinel or cluster"),
    }
}

/// The objects of every deployment. `locks` and `fenced` are the names of the locks and fenced
/// locks. The multi-lock consists of two of the locks.
fn objects(locks: &[impl AsRef<str>], fenced: &[impl AsRef<str>]) -> Vec<Object> {
    let mut all = vec![
        Object::new(Kind::ReadWrite, "door-0"),
        Object::new(Kind::Semaphore, "semaphore-0").permits(2),
        Object::new(Kind::Permits, "permits-0").permits(2),
        Object::new(Kind::Latch, "latch-0"),
        Object::new(Kind::Fair, "fair-0"),
        Object::multi("both-0", locks.iter().take(2).map(|it| it.as_ref().to_owned())),
        Object::new(Kind::Election, "leader-0"),
        Object::new(Kind::Queue, "jobs-0").without_java(),
        Object::new(Kind::Queue, "jobs-1"),
    ];
    all.extend(locks.iter().map(|it| Object::new(Kind::Lock, it.as_ref())));
    all.extend(fenced.iter().map(|it| Object::new(Kind::Fenced, it.as_ref())));
    all
}

/// More objects, for deployments with replicas.
fn replicated_objects() -> Vec<Object> {
    vec![
        Object::new(Kind::Lock, "replicated-0").replicated(),
        Object::new(Kind::Fenced, "replicated-1").replicated(),
        Object::new(Kind::Election, "replicated-2").replicated(),
    ]
}

/// Returns the record of a fault that began at `from`, is healed now, and replaced no server.
fn healed(fault: Fault, from: Nanos) -> HealedFault {
    let healed = now();
    let served = if fault.keeps_clients_away() { healed } else { from };
    HealedFault { fault, from, served, healed, failover: false, names: None }
}

/// Waits for as long as this fault lasts. If the fault suspends a server, waits for less than
/// `stopped` milliseconds.
fn last(fault: Fault, stopped: u64, rng: &mut Rng) {
    let most = match fault {
        Fault::ConnectionsKilled => return,
        Fault::ServerStopped => stopped,
        _ => 4_000,
    };
    sleep(Duration::from_millis(rng.u64(10..most)));
}

/// Cuts all links between two sides. One side is `server` and `with_it`. The other side is all
/// other servers and `and_from`.
fn cut_off(links: &Links, server: &str, with_it: &[&str], and_from: &[&str]) {
    let mut others = links.names();
    others.retain(|it| it != server);
    let others: Vec<_> = others.iter().map(String::as_str).collect();
    links.split(&[&[server], with_it].concat(), &[&others, and_from].concat());
}

/// Closes all connections of clients to these servers.
fn kill_connections<'a>(servers: impl IntoIterator<Item = &'a Redis>) {
    for server in servers {
        for kind in ["normal", "pubsub"] {
            server.command(&["CLIENT", "KILL", "TYPE", kind]);
        }
    }
}

/// The names of the clients in the links: the worker with its own links, and all other clients.
const CLIENTS: [&str; 2] = [APART, Links::CLIENTS];
const APART: &str = "apart";
/// How long after the end of its silence a server may still be replaced.
const LATE: Duration = Duration::from_millis(500);
const FAILOVER: Duration = Duration::from_secs(30);
