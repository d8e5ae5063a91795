//! The subscriptions of this client: the channels of each name for which this client waits, if the
//! ACL allows them. `leasehold_link` sends the requests that subscribe.
//!
//! [`Table`] keeps the wanted and the confirmed subscriptions of one connection. A mutex guards
//! each table. While the mutex is locked, no event is sent.

mod permissions;
mod table;
mod warned;

use tokio::time::Instant;

use self::permissions::{Denied, Permissions};
pub(super) use self::table::Table;
use super::RedisStore;
use crate::domain::Object;

impl RedisStore {
    /// Returns the ACL permissions of this client for `object`.
    pub(super) fn permissions(&self, object: &Object) -> Permissions {
        let read = self.topology.at_owner(object, |it| it.read(|table| table.permissions(object)));
        read.unwrap_or(Permissions::ALL)
    }

    /// Records that the server denies this client the queue of `object`.
    pub(super) fn queue_refused(&self, object: &Object) {
        if !self.permissions(object).queue {
            return;
        }
        self.topology.at_owner(object, |it| {
            it.log().warn_once(Denied::Queue, object);
            it.change(|table| table.refused(object, Denied::Queue, Instant::now()));
        });
    }

    /// Returns whether this client receives the releases of `object`.
    pub(super) fn is_subscribed_to_releases(&self, object: &Object) -> bool {
        let is_on = |table: &Table| table.is_subscribed_to_releases(object);
        self.topology.placed(object, |it| it.read(is_on)).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_twin::Twin;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy, duplex, split},
        time::sleep,
    };

    use super::*;
    use crate::store::redis::{Connector, Settings};

    /// Returns a stream that is connected to `stream`, but receives at most 100 bytes per
    /// millisecond.
    fn slowly(stream: DuplexStream) -> DuplexStream {
        let (ours, theirs) = duplex(100);
        let ((mut from, mut to), (mut back, mut forth)) = (split(stream), split(theirs));
        tokio::spawn(async move { copy(&mut back, &mut to).await });
        tokio::spawn(async move {
            let mut bytes = [0; 100];
            while let Ok(come @ 1..) = from.read(&mut bytes).await {
                if forth.write_all(&bytes[..come]).await.is_err() {
                    return;
                }
                sleep(Duration::from_millis(1)).await;
            }
        });
        ours
    }

    async fn served_slowly(twin: &Twin) -> RedisStore {
        twin.user("one", "on nopass +@all ~* &*");
        let server = twin.clone();
        let connector = Connector::by(move || {
            let server = server.clone();
            async move { server.connect().await.map(slowly) }
        });
        let settings = Settings { user: Some("one".into()), ..Settings::default() };
        RedisStore::connect_by(connector, &settings, "one").await.unwrap()
    }

    /// Former bug: the client sent all requests at once. The time limit ended before the last reply
    /// came, so the client reconnected again and again.
    #[tokio::test(start_paused = true)]
    async fn slow_subscription_to_many_names_keeps_the_connection() {
        let store = served_slowly(&Twin::new(7)).await;
        let names: Vec<_> = (0..4_000).map(|at| Object::lock(format!("door:{at}"))).collect();
        names.iter().for_each(|name| store.topology.listen(name));
        let mut received = names.iter().peekable();
        while received.peek().is_some() {
            sleep(Duration::from_millis(100)).await;
            assert_eq!(store.topology.reconnects(), 0);
            while received.next_if(|name| store.is_subscribed_to_releases(name)).is_some() {}
        }
    }
}
