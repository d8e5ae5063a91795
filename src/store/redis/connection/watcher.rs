//! Who uses a connection that is kept up: told when it comes and goes, and at work while it
//! lives.

use std::{convert::Infallible, future::pending};

use futures_util::future::BoxFuture;
use redis::PushInfo;

use super::wire::Wire;
use crate::domain::About;

/// Who is told what happens on a link.
pub(crate) trait Watcher: Send + Sync {
    /// What the link carries.
    fn carries(&self) -> &'static str;
    /// Whether all other connections to this server are to lead where this one leads.
    fn leads(&self) -> bool {
        false
    }
    /// A connection is made to a server that says this of itself.
    fn met(&self, _about: &About) {}
    /// The link is up, for the first time or again.
    fn up(&self) {}
    /// What is to be done as long as this connection lives, by the task that carries it.
    fn attend<'a>(&'a self, _wire: &'a Wire) -> BoxFuture<'a, Infallible> {
        Box::pin(pending())
    }
    /// The link is down: what it carried is lost.
    fn down(&self) {}
    /// The server said something without being asked.
    fn pushed(&self, _info: PushInfo) {}
}
