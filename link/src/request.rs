//! The interface of a request, which the user of this crate implements.

use std::borrow::Cow;

use redis::{Cmd, Value};

use crate::channels::Channels;

/// A command in each form that a server may need. All keys of the command are in one slot.
pub trait Request: Sync {
    /// Returns the command for servers with plain channels.
    fn command(&self) -> &Cmd;

    /// Returns the command for servers with this kind of channels.
    fn on(&self, channels: Channels) -> Cow<'_, Cmd>;

    /// Returns the command with the script text, if `reply` shows that the script is unknown. A
    /// restart, a failover or `SCRIPT FLUSH` makes a server forget its scripts.
    fn by_text(&self, reply: &Value, channels: Channels) -> Option<Cmd>;

    /// Returns the key whose slot decides which node gets the request.
    fn first_key(&self) -> &[u8];

    /// Returns whether the request fails at once while its keys are split between two nodes.
    /// Otherwise, the client repeats the request until one node has all keys.
    fn reports_split(&self) -> bool;

    /// Returns whether the request may publish a message.
    fn publishes(&self) -> bool;
}
