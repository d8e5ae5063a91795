//! Real Redis servers for tests, and ways to hurt them.
//!
//! Locks are interesting when something breaks, so the tests need servers they
//! may kill, pause and restart, a network they may cut, and processes that die
//! while holding a lock. Everything here is real: no mocks, no virtual time. The
//! crate `leasehold-twin` has a server that is simulated.
//!
//! Start with [`Redis::start`]. Put a [`Proxy`] in front of it to break the
//! network, follow it with a [replica](Redis::start_replica_of), watch it with [`Redis::calls`] and [`Redis::monitor`], and let a
//! [`Helper`] be the process that dies. For data that lies elsewhere there is a [`Postgres`].
//!
//! Servers that belong together are [`Sentinels`], a master with replicas and those who
//! watch it, or a [`Cluster`]. Between them and their clients there may be [`Links`].
//!
//! All calls block, so that tests with and without a runtime can use them. They
//! **panic** when something does not work: in a test there is nothing better to
//! do. The few that return an [`io::Result`](std::io::Result) are about faults
//! a test causes on purpose.

mod ability;
mod access;
mod acl_rules;
mod certificates;
mod child;
mod clock;
mod cluster;
mod deployment;
mod links;
mod monitor;
mod options;
mod port;
mod postgres;
mod process;
mod program;
mod proxy;
mod replica;
mod sentinels;
mod server;
mod stats;
mod tampering;
mod wire;

pub use ability::came_with;
pub use acl_rules::acl_rules_in;
pub use clock::eventually;
pub use cluster::{Cluster, ClusterOptions, Failover, SlotMove};
pub use links::Links;
pub use monitor::Monitor;
pub use options::Options;
pub use postgres::{Postgres, Session};
pub use process::Helper;
pub use proxy::Proxy;
pub use sentinels::{Event, Events, Sentinels, SentinelsOptions};
pub use server::Redis;
pub use stats::Calls;
pub use tampering::{ServerMessage, Tampering, TamperingProxy};
pub use wire::{Connection, Reply};
