//! The kind of channels: plain, or sharded by slot. Redisson decides by the servers, and Leasehold
//! does the same: otherwise they would not receive each other's messages.

/// How messages are sent and listened to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Channels {
    #[default]
    Plain,
    /// A channel lies in a slot, as a key does: only its node takes and sends its messages.
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

    /// A script that speaks on plain channels, as it speaks on these; if it speaks at all.
    pub(super) fn spoken(self, script: &str) -> Option<String> {
        let speaks = script.contains("'PUBLISH'") || script.contains("'NUMSUB'");
        (self == Self::Sharded && speaks)
            .then(|| script.replace("'PUBLISH'", "'SPUBLISH'").replace("'NUMSUB'", "'SHARDNUMSUB'"))
    }
}
