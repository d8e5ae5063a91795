//! Runs of clients on a simulated server. The clients use the real Redis store, with its link,
//! login, wire, subscriptions and scripts.
//!
//! Servers hang, reject requests, forget data and are replaced. Connections break. Clients are
//! paused, suspended, shut down and killed. Some foreign clients do not know Leasehold's protocol.
//!
//! ```text
//! world                 one run: its clients, its server, the checks at its end
//! scenario              the settings of a run
//! faults                faults of the server and the connections
//! process_faults        faults of the machine and the process of a client
//! permissions           the ACL permissions of a client, which change during a run
//! peer                  a client: its engine, store and gate
//! process               the process and the machine of a client
//! work                  a task that acquires locks
//! foreign_clients       a Redisson client, a busy-polling client, a client that forges data
//! raw                   a connection of a foreign client
//! judge                 the rules
//! records               the rules about the past: tokens, hand-offs, shutdowns
//! objects               runs of the other objects
//! book                  the rules for the other objects
//! jobs                  the record of the elements of a queue
//! entries               the record of the entries of a map
//! facts                 rules about the data of the server
//! deployment            runs with sentinels or in a cluster
//! failovers             faults of servers that have replicas, and the time of each fault
//! server_faults         the faults that the servers of a run may have
//! shard_faults          the faults of one shard
//! stale_connections     the rule that clients leave replaced servers
//! site                  the servers of a run
//! ```

mod book;
mod deployment;
mod entries;
mod facts;
mod failovers;
mod faults;
mod foreign_clients;
mod jobs;
mod judge;
mod objects;
mod peer;
mod permissions;
mod process;
mod process_faults;
mod raw;
mod records;
mod scenario;
mod server_faults;
mod shard_faults;
mod site;
mod stale_connections;
mod work;
mod world;

pub(super) use self::{
    deployment::{run_cluster, run_sentinel},
    objects::run as run_objects,
    world::run,
};
