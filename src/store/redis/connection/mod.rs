//! Connections to one server: made, logged in, kept up and shared by many callers.
//!
//! This room knows no locks. It sends commands and brings replies; what they mean is
//! said by the files beside it: `keys.rs`, `scripts.rs`, `replies.rs`, `messages.rs`.
//!
//! Start with `link.rs`, which keeps a connection up. It gets one from `dial.rs` and
//! sends commands through `wire.rs`.

mod dial;
mod frames;
mod link;
mod loan;
mod secret;
mod settings;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod url;
mod wire;

pub(crate) use self::settings::Settings;
pub(super) use self::{
    dial::{Dialer, Preload},
    link::{Commands, Link, Watcher},
    url::target,
};
