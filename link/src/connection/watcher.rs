//! The user of a supervised connection. It is notified when the connection is made and lost, and
//! runs its own work while the connection lasts.

use std::{convert::Infallible, future::pending};

use futures_util::future::BoxFuture;
use redis::PushInfo;

use crate::{health::About, pipe::wire::Wire};

/// Receives the events of a link.
pub(crate) trait Watcher: Send + Sync {
    /// The name of the traffic of the link, for logs.
    fn traffic(&self) -> &'static str;
    /// Whether this is the connection for commands. All other connections to this server must lead
    /// to the same server as this one.
    fn leads(&self) -> bool {
        false
    }
    /// A connection to the server `_about` was made.
    fn connected(&self, _about: &About) {}
    /// The link is up, for the first time or again.
    fn up(&self) {}
    /// Runs as long as this connection lasts, in the task that drives the connection.
    fn serve<'a>(&'a self, _wire: &'a Wire) -> BoxFuture<'a, Infallible> {
        Box::pin(pending())
    }
    /// The link is down: messages may be lost until it is up again.
    fn down(&self) {}
    /// The server pushed a message.
    fn pushed(&self, _info: PushInfo) {}
}
