//! The part of the subscriptions that the user of this crate implements: what a client wants to
//! receive, and what the servers have confirmed.

use std::fmt;

use redis::Value;
use tokio::time::Instant;

use crate::{channels::Channels, slots::slot_of};

/// Something that a client subscribes to, by one or several channels. In a cluster, all channels of
/// a topic lie in one slot, and the subscription follows that slot from node to node.
pub trait Topic: Clone + fmt::Debug + Ord + Send + Sync + 'static {
    /// Returns the slot in which all channels of the topic lie.
    fn slot(&self) -> u16;
}

/// A notification for the user of the subscriptions.
pub trait Event: Send + 'static {
    /// The topic type of the event.
    type Topic;

    /// Returns the event which says that a connection for commands is up.
    fn back() -> Self;

    /// Returns the event which says that commands go to another server than before.
    fn moved() -> Self;

    /// Returns the event which says that messages of `topic` are lost from now on.
    fn unsubscribed(topic: Self::Topic) -> Self;
}

/// Receives events. The tasks of the connections call `receive`, so `receive` must not block.
pub trait Subscriber<E>: Send + Sync {
    /// Receives `event`.
    fn receive(&self, event: E);
}

/// The messages that a connection delivers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Delivery {
    /// All messages of the deployment.
    #[default]
    Alone,
    /// The messages of one of several nodes. With plain channels, the node cannot count the
    /// subscribers at other nodes. A script that counts subscribers would then miss clients.
    Nodes(Channels),
}

impl Delivery {
    /// Returns a number for `channel`. Channels with the same number may be in one command.
    #[must_use]
    pub fn together(self, channel: &str) -> u16 {
        match self.channels() {
            Channels::Plain => 0,
            Channels::Sharded => slot_of(channel.as_bytes()),
        }
    }

    pub(crate) fn channels(self) -> Channels {
        match self {
            Self::Alone => Channels::Plain,
            Self::Nodes(channels) => channels,
        }
    }
}

/// A request to subscribe to a topic, or to unsubscribe from channels.
#[derive(Debug, Eq, PartialEq)]
pub struct Correction<T> {
    /// The topic to subscribe to, or `None` to unsubscribe.
    pub subscribe: Option<T>,
    /// The channels.
    pub channels: Vec<String>,
}

/// Why the server rejected a correction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rejection {
    /// The ACL denies the subscription.
    Forbidden,
    /// Any other rejection. The rejection may be temporary, so the client tries again after a
    /// pause.
    Passing,
    /// Another node has the slot of the channel.
    Elsewhere,
}

/// The wanted and the confirmed subscriptions of one connection, as pure data. This crate sends the
/// corrections of the table, and passes replies and messages to the table.
pub trait SubscriptionTable: fmt::Debug + Send + 'static {
    /// What a client subscribes to.
    type Topic: Topic;
    /// What the client is notified of.
    type Event: Event<Topic = Self::Topic>;
    /// The record of logged warnings. All connections of a client share one record.
    type Log: fmt::Debug + Default + Send + Sync;

    /// Returns an empty table of the client `client_id`.
    fn of(client_id: &str, delivery: Delivery) -> Self;

    /// Subscribes to `topic`.
    fn listen(&mut self, topic: &Self::Topic);

    /// Ends the subscription to `topic`.
    fn unlisten(&mut self, topic: &Self::Topic);

    /// Like [`unlisten`](Self::unlisten), but also drops the pending events of `topic`.
    fn forget(&mut self, topic: &Self::Topic);

    /// Records a new connection, which has no subscriptions yet.
    fn begin(&mut self);

    /// Records that the connection has ended, with all its subscriptions and requests.
    fn end(&mut self);

    /// Returns the requests to send now. Each request gets its reply, unless the connection ends
    /// first.
    fn corrections(&mut self) -> Vec<Correction<Self::Topic>>;

    /// Records that the server rejected `asked`.
    fn not_done(&mut self, asked: &Correction<Self::Topic>, rejection: Rejection, now: Instant);

    /// Logs that the ACL denies `asked`, unless `log` shows that it was logged before.
    fn log_denied(log: &Self::Log, asked: &Correction<Self::Topic>);

    /// Retries subscriptions that the server denied long ago.
    fn retry_denied(&mut self, now: Instant);

    /// Subscribes again to channels for which the server named another node.
    fn resubscribe(&mut self);

    /// Records that the server confirmed the start or the end of the subscription to `channel`.
    /// Returns whether the table wants this state.
    fn confirmed(&mut self, channel: &str, on: bool) -> bool;

    /// Converts a message on `channel` into events.
    fn received(&mut self, channel: &str, message: &Value);

    /// Returns whether no channel is wanted or confirmed.
    fn is_quiet(&self) -> bool;

    /// Returns the next pending event.
    fn next_event(&mut self) -> Option<Self::Event>;
}
