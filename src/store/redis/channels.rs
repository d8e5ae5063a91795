//! The kind of channels: plain, or sharded by slot. Redisson decides by the version of the servers,
//! and Leasehold does the same. Otherwise they would not receive each other's messages.

/// The commands by which messages are sent and received.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Channels {
    #[default]
    Plain,
    /// A channel is in a slot, as a key is. Only the node of the slot accepts and delivers its
    /// messages.
    Sharded,
}

impl Channels {
    pub(super) fn publish(self) -> &'static str {
        match self {
            Self::Plain => "PUBLISH",
            Self::Sharded => "SPUBLISH",
        }
    }

    pub(super) fn subscribe(self) -> &'static str {
        match self {
            Self::Plain => "SUBSCRIBE",
            Self::Sharded => "SSUBSCRIBE",
        }
    }

    pub(super) fn unsubscribe(self) -> &'static str {
        match self {
            Self::Plain => "UNSUBSCRIBE",
            Self::Sharded => "SUNSUBSCRIBE",
        }
    }

    /// Returns a script for plain channels, changed for these channels if it publishes.
    pub(super) fn with_publish_command(self, script: &str) -> Option<String> {
        let speaks = script.contains("'PUBLISH'") || script.contains("'NUMSUB'");
        (self == Self::Sharded && speaks)
            .then(|| script.replace("'PUBLISH'", "'SPUBLISH'").replace("'NUMSUB'", "'SHARDNUMSUB'"))
    }
}
