//! The kind of pub/sub channels: plain, or sharded by slot.
//!
//! The version of the servers decides which kind is used, by the same rule as in Redisson. With
//! another rule, Redisson clients and clients of this crate would not receive each other's
//! messages.

/// A kind of channels, with its commands to publish and to subscribe.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Channels {
    /// A message reaches the subscribers at all nodes.
    #[default]
    Plain,
    /// A channel belongs to a slot, like a key. Only the node that has the slot accepts and
    /// delivers messages of the channel.
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

    /// Adapts `script`, which uses the commands of plain channels, to these channels. Returns
    /// `None` if the script needs no change.
    pub fn with_publish_command(self, script: &str) -> Option<String> {
        let speaks = script.contains("'PUBLISH'") || script.contains("'NUMSUB'");
        (self == Self::Sharded && speaks)
            .then(|| script.replace("'PUBLISH'", "'SPUBLISH'").replace("'NUMSUB'", "'SHARDNUMSUB'"))
    }
}
