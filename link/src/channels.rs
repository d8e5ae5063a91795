//! The kind of channels: plain, or sharded by slot.
//!
//! The version of the servers decides, as in Redisson. By another rule, its clients and those of
//! this crate
//! would not receive each other's messages.

/// The commands by which messages are sent and received.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Channels {
    /// A message reaches the subscribers at all nodes.
    #[default]
    Plain,
    /// A channel is in a slot, as a key is. Only the node of the slot accepts and delivers its
    /// messages.
    Sharded,
}

impl Channels {
    /// The command that publishes a message.
    #[inline]
    #[must_use]
    pub fn publish(self) -> &'static str {
        match self {
            Self::Plain => "PUBLISH",
            Self::Sharded => "SPUBLISH",
        }
    }

    /// The command that subscribes.
    #[inline]
    #[must_use]
    pub fn subscribe(self) -> &'static str {
        match self {
            Self::Plain => "SUBSCRIBE",
            Self::Sharded => "SSUBSCRIBE",
        }
    }

    /// The command that ends a subscription.
    #[inline]
    #[must_use]
    pub fn unsubscribe(self) -> &'static str {
        match self {
            Self::Plain => "UNSUBSCRIBE",
            Self::Sharded => "SUNSUBSCRIBE",
        }
    }

    /// Returns a script for plain channels, changed for these channels if it publishes.
    pub fn with_publish_command(self, script: &str) -> Option<String> {
        let speaks = script.contains("'PUBLISH'") || script.contains("'NUMSUB'");
        (self == Self::Sharded && speaks)
            .then(|| script.replace("'PUBLISH'", "'SPUBLISH'").replace("'NUMSUB'", "'SHARDNUMSUB'"))
    }
}
