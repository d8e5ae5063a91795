//! Clients on the store that they have in production: link, login, wire, subscriptions and
//! scripts, against a simulated server.
//!
//! Servers and connections hang, refuse, forget, are cut, are followed by another one. Clients
//! are paused, suspended, shut down and killed. Others on the server know nothing of us.
//!
//! ```text
//! world               a story: its clients, its server, its end
//! troubles            what happens to the server and the connections
//! rights              what a client may do there, for now
//! strangers           others on the server: a Redisson, a spinner, a forger
//! raw                 a connection of one of those
//! work                a task that wants locks
//! peer                a client: its engine, store and gate
//! process             what the client runs on
//! accidents           what happens to that
//! judge               the rules
//! records             those about the past: tokens, turns within a client, shutdowns
//! objects             the same with what is no plain lock, and the rules of that
//! deployment          the same with sentinels or in a cluster
//! failovers           what happens to servers that have others beside them, and when
//! hardships           which of that may be in a story
//! scenes              what happens to one of them
//! allegiance          whose clients stay with a server that is replaced
//! site                where the servers are
//! plot                what kind of story it is
//! ```

mod accidents;
mod allegiance;
mod deployment;
mod failovers;
mod hardships;
mod judge;
mod objects;
mod peer;
mod plot;
mod process;
mod raw;
mod records;
mod rights;
mod scenes;
mod site;
mod strangers;
mod troubles;
mod work;
mod world;

pub(super) use self::{
    deployment::{run_cluster, run_sentinel},
    objects::run as run_objects,
    world::run,
};
