//! The user of a supervised connection. The link notifies this user when the connection is made or
//! lost. The user can do its own work while the connection lasts.

use std::{convert::Infallible, future::pending};

use futures_util::future::BoxFuture;
use redis::PushInfo;

use crate::{health::About, pipe::wire::Wire};

/// Receives the events of a link.
pub(crate) trait Watcher: Send + Sync {
    /// Returns what the link is for, such as `commands`. Logs show this text.
    fn traffic(&self) -> &'static str;
    /// Returns whether this is the connection for commands. The other connections that the same
    /// dialer makes must lead to the same server.
    fn leads(&self) -> bool {
        false
    }
    /// Called when a connection to the server `_about` was made, before `up`.
    fn connected(&self, _about: &About) {}
    /// Called when the link is up, for the first time or again.
    fn up(&self) {}
    /// Runs as long as this connection lasts, in the task that drives the connection.
    fn serve<'a>(&'a self, _wire: &'a Wire) -> BoxFuture<'a, Infallible> {
        Box::pin(pending())
    }
    /// Called when the link is down. Messages may be lost until the link is up again.
    fn down(&self) {}
    /// Called when the server has pushed a message.
    fn pushed(&self, _info: PushInfo) {}
}
