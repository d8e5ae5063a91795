//! Where the servers are, and what can be done to them.

mod cluster;
mod sentinel;
mod single;

use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use testkit::{Links, Redis, Reply};

use crate::clock::{Nanos, now};
use crate::fault::{Fault, HealedFault};
use crate::orders::{Object, Place};

pub use cluster::OnCluster;
pub use sentinel::OnSentinel;
pub use single::OnSingle;

/// A deployment.
pub trait Site {
    /// Where clients find it.
    fn url(&self) -> String;

    /// Where a worker finds it that has links of its own.
    fn apart(&self) -> Place;

    /// What is contended for.
    fn objects(&self) -> Vec<Object>;

    /// What can be done to it.
    fn faults(&self) -> &'static [Fault];

    /// Does it, and heals it.
    fn strike(&self, fault: Fault, rng: &mut Rng) -> HealedFault;

    /// Asks all that are masters now.
    fn ask_masters(&self, words: &[&str]) -> Vec<Reply>;
}

/// Starts the deployment of this name.
///
/// # Panics
///
/// If there is none, or it does not start.
#[must_use]
pub fn start(on: &str) -> Box<dyn Site> {
    match on {
        "single" => Box::new(OnSingle::start()),
        "sentinel" => Box::new(OnSentinel::start()),
        "cluster" => Box::new(OnCluster::start()),
        other => panic!("ON={other}: there are single, sentinel and cluster"),
    }
}

/// What has begun at `from`, is healed now, and made no server take the place of another.
fn healed(fault: Fault, from: Nanos) -> HealedFault {
    let healed = now();
    let served = if fault.keeps_clients_away() { healed } else { from };
    HealedFault { fault, from, served, healed, failover: false, names: None }
}

/// Waits as long as this fault lasts, in which a server is stopped for so many milliseconds at
/// most.
fn last(fault: Fault, stopped: u64, rng: &mut Rng) {
    let most = match fault {
        Fault::ConnectionsKilled => return,
        Fault::ServerStopped => stopped,
        _ => 4_000,
    };
    sleep(Duration::from_millis(rng.u64(10..most)));
}

/// Lets nothing pass between this server, with these beside it, and all others.
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

/// The links of the worker that is apart, and of all others.
const CLIENTS: [&str; 2] = [APART, Links::CLIENTS];
const APART: &str = "apart";
/// How long after a server was silent others may still replace it.
const LATE: Duration = Duration::from_millis(500);
/// How long a failover may take.
const FAILOVER: Duration = Duration::from_secs(30);
