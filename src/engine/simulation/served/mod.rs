//! The same clients on the store that they have in production: link, login, wire,
//! subscriptions and scripts, against a simulated server.
//!
//! What may happen here is what happens to servers and connections: they hang, refuse,
//! forget, are cut, are followed by another one; and there are others on the server who
//! know nothing of us.
//!
//! ```text
//! world               a story: its clients, its server, its end
//! troubles            what happens to the server and the connections
//! rights              what a client may do there, for now
//! strangers           others on the server: a Redisson, a spinner, a forger
//! raw                 a connection of one of those
//! work                a task that wants locks
//! peer                a client: its engine, store and gate
//! judge               the rules
//! objects             the same with what is no plain lock, and the rules of that
//! site                where the server is
//! plot                what kind of story it is
//! ```

mod judge;
mod objects;
mod peer;
mod plot;
mod raw;
mod rights;
mod site;
mod strangers;
mod troubles;
mod work;
mod world;

pub(super) use self::{objects::run as run_objects, world::run};
