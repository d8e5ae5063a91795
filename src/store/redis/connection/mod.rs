//! Connections to one server: made, logged in, kept up and shared by many callers.
//!
//! This room knows no locks. It sends commands and brings replies; what they mean is
//! said by the files beside it: `keys.rs`, `scripts.rs`, `replies.rs`, `subscriptions/`.
//!
//! Start with `link.rs`, which keeps a connection up. It gets one from `dial.rs` and
//! sends commands through `wire.rs`.

mod about;
#[cfg(test)]
mod connector;
mod dial;
mod ending;
mod frames;
#[cfg(test)]
mod fuzz;
mod link;
mod login;
mod obstacle;
mod report;
mod secret;
mod settings;
mod shown;
mod stream;
mod supervisor;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod url;
mod watch;
mod watcher;
mod wire;

pub(crate) use self::settings::Settings;
pub(super) use self::{
    about::{eviction_policy, is_replica},
    dial::Dialer,
    link::Link,
    login::Preload,
    shown::shown,
    target::{Address, Target},
    url::{Servers, servers},
    watcher::Watcher,
    wire::Wire,
};
#[cfg(test)]
pub(crate) use self::{connector::Connector, url::target};
