//! A Redis client that locks can trust.
//!
//! It has no knowledge of locks. It connects to one server, to a primary that Sentinels watch, or
//! to a cluster, and restores lost connections. It never repeats a request that may have been
//! executed. Each failure says whether the request may have been executed. If a server does not
//! reply in time, the client closes the connection and connects again. The client follows a
//! failover, a migrating slot and a changed address. If a slot moves to another node, its
//! subscriptions move, too.
//!
//! Start with [`Topology`], which has the connections of one client. A [`SubscriptionTable`]
//! decides to which channels the client subscribes. [The
//! readme](https://github.com/leasehold/leasehold/blob/main/link/README.md) lists what this crate
//! does that other clients do not.
//!
//! The API is made for the crate `leasehold`, and changes together with that crate.
#![forbid(unsafe_code)]

mod address;
mod backoff;
mod channels;
mod connect_failure;
mod connection;
mod discovery;
mod error;
mod failure;
#[cfg(test)]
mod fuzz;
mod hazard;
mod health;
mod log_throttle;
mod millis;
mod mutex;
mod pipe;
mod pubsub;
mod replica_ack;
pub mod replies;
mod request;
mod session;
mod shown;
mod slots;
mod topology;

#[cfg(feature = "tls")]
pub use self::address::settings::TlsSettings;
pub use self::{
    address::{
        resolver::Resolver,
        secret::Secret,
        settings::{OnLoss, Preload, Scripts, Settings},
        target::Credentials,
        translation::Translation,
    },
    backoff::{Backoff, spread},
    channels::Channels,
    error::{Cause, Error},
    failure::{Failure, Refusal},
    hazard::{Finding, Hazard},
    health::{About, NodeHealth, Role},
    log_throttle::{LOG_INTERVAL, LogThrottle},
    millis::millis,
    mutex::Mutex,
    pipe::connector::Connector,
    pubsub::{
        Correction, Delivery, Event, Rejection, Subscriber, SubscriptionTable, Subscriptions, Topic,
    },
    replica_ack::Evidence,
    request::Request,
    shown::shown,
    slots::slot_of,
    topology::{HEALTH_CHECK, Topology},
};
