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
//! site                where the server is
//! plot                what kind of story it is
//! ```

mod accidents;
mod judge;
mod objects;
mod peer;
mod plot;
mod process;
mod raw;
mod records;
mod rights;
mod site;
mod strangers;
mod troubles;
mod work;
mod world;

pub(super) use self::{objects::run as run_objects, world::run};
