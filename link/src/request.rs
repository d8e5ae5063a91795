//! A request of a caller, as this crate sees it.

use std::borrow::Cow;

use redis::{Cmd, Value};

use crate::channels::Channels;

/// A command, and its other forms. All its keys lie in one slot.
pub trait Request: Sync {
    /// The command for servers with plain channels.
    fn command(&self) -> &Cmd;

    /// The command for a server whose messages are on these channels.
    fn on(&self, channels: Channels) -> Cow<'_, Cmd>;

    /// The command with the text of its script, if `reply` shows that the server does not know the
    /// script. For example, the server was restarted or failed over, or a client flushed its
    /// scripts.
    fn by_text(&self, reply: &Value, channels: Channels) -> Option<Cmd>;

    /// The key that decides which node is asked.
    fn first_key(&self) -> &[u8];

    /// Whether the caller wants a failure at once if each of two nodes has a part of the keys.
    /// Otherwise the client repeats the request until one node has all keys.
    fn reports_split(&self) -> bool;

    /// Whether the request may publish a message.
    fn publishes(&self) -> bool;
}
