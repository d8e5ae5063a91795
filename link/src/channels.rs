//! The kind of pub/sub channels: plain, or sharded by slot.
//!
//! The version of the servers decides, by the same rule as in Redisson. With another rule, Redisson
//! clients and clients of this crate would not receive each other's messages.

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
    /// Returns the command that publishes a message.
    #[inline]
    #[must_use]
    pub fn publish(self) -> &'static str {
        match self {
            Self::Plain => "PUBLISH",
            Self::Sharded => "SPUBLISH",
        }
    }

    /// Returns the command that subscribes.
    #[inline]
    #[must_use]
    pub fn subscribe(self) -> &'static str {
        match self {
            Self::Plain => "SUBSCRIBE",
            Self::Sharded => "SSUBSCRIBE",
        }
    }

    /// Returns the command that ends a subscription.
    #[inline]
    #[must_use]
    pub fn unsubscribe(self) -> &'static str {
        match self {
            Self::Plain => "UNSUBSCRIBE",
            Self::Sharded => "SUNSUBSCRIBE",
        }
    }

    /// Changes `script`, which was written for plain channels, to the commands of these channels.
    /// Returns `None` if the script needs no change.
    pub fn with_publish_command(self, script: &str) -> Option<String> {
        let speaks = script.contains("'PUBLISH'") || script.contains("'NUMSUB'");
        (self == Self::Sharded && speaks)
            .then(|| script.replace("'PUBLISH'", "'SPUBLISH'").replace("'NUMSUB'", "'SHARDNUMSUB'"))
    }
}
