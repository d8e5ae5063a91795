//! Connections to one server: made, logged in, kept up and shared by many callers.
//!
//! This module knows no locks. It sends commands and returns replies. `keys.rs`, `scripts.rs`,
//! `replies.rs` and `subscriptions/` give them a meaning.
//!
//! Start with `link.rs`, which keeps a connection up. It gets one from `dial.rs`, which finds the
//! server by `primary_discovery.rs`, and sends commands through `wire.rs`.

mod about;
mod connect_failure;
#[cfg(any(test, feature = "testing"))]
mod connector;
mod dial;
mod ending;
mod frames;
#[cfg(test)]
mod fuzz;
mod hazards;
mod host_port;
mod info;
mod link;
mod login;
mod primary_discovery;
mod published;
mod reach;
mod report;
mod resolver;
mod secret;
mod sentinel_views;
mod sentinels;
mod settings;
mod shown;
mod stream;
mod supervisor;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod translation;
mod url;
mod watch;
mod watcher;
mod wire;

#[cfg(any(test, feature = "testing"))]
pub(crate) use self::connector::Connector;
pub(super) use self::{
    about::with_info,
    dial::Dialer,
    host_port::HostPort,
    info::time_of_day,
    link::Link,
    login::Preload,
    reach::Reach,
    shown::shown,
    target::Target,
    url::{Servers, servers},
    watcher::Watcher,
    wire::Wire,
};
#[cfg(test)]
pub(crate) use self::{resolver::Resolver, url::target};
pub(crate) use self::{
    settings::Settings,
    target::{Address, Credentials, Place},
    translation::Translation,
};
