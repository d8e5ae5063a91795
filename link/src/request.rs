//! A request of a caller, as this crate sees it.

use std::borrow::Cow;

use redis::{Cmd, Value};

use crate::channels::Channels;

/// A command, and its other forms. All its keys lie in one slot.
pub trait Request: Sync {
    /// Returns the command for servers with plain channels.
    fn command(&self) -> &Cmd;

    /// Returns the command for servers with this kind of channels.
    fn on(&self, channels: Channels) -> Cow<'_, Cmd>;

    /// Returns the command with the text of its script, if `reply` shows that the server does not
    /// know the script. For example, the server was restarted or failed over, or a client flushed
    /// its scripts.
    fn by_text(&self, reply: &Value, channels: Channels) -> Option<Cmd>;

    /// Returns the key whose slot decides which node gets the request.
    fn first_key(&self) -> &[u8];

    /// Returns whether the caller wants a failure at once if each of two nodes has a part of the
    /// keys. Otherwise the client repeats the request until one node has all keys.
    fn reports_split(&self) -> bool;

    /// Returns whether the request may publish a message.
    fn publishes(&self) -> bool;
}
