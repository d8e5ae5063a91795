//! Real Redis servers for tests, with faults.
//!
//! Locks must survive faults. So the tests need servers that they can kill, pause and restart. They
//! also need a network that they can cut, and processes that die while they hold a lock. All of
//! these are real: no mocks, no virtual time. The crate `leasehold-twin` has a simulated server.
//!
//! Start with [`Redis::start`]. Put a [`Proxy`] in front of the server to break the network. Add a
//! [replica](Redis::start_replica_of). Watch the server with [`Redis::calls`] and
//! [`Redis::monitor`]. Use a [`Helper`] for a process that dies. For data outside of Redis there is
//! a [`Postgres`].
//!
//! [`Sentinels`] are a master with replicas and sentinels. A [`Cluster`] is a Redis Cluster.
//! Between servers and clients there may be [`Links`].
//!
//! All calls block, so that tests with and without a runtime can use them. The calls **panic** on
//! an error, because a test can do nothing better. The few calls that return an
//! [`io::Result`](std::io::Result) can fail because of a fault that a test causes on purpose.

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
