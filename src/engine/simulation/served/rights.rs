//! What a client may do on the server, for now.

use fastrand::Rng;

/// What somebody may do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rights {
    All,
    /// It may write no queue.
    NoQueue,
    /// It may write the queue of one name.
    OneQueue,
    /// It may hear and say what Redisson does, and no more.
    NoChannelsOfOurs,
    /// It may hear and say nothing.
    NoChannels,
    /// It may not renew what it has.
    NoExpiry,
}

impl Rights {
    pub(super) fn draw(chance: &mut Rng) -> Self {
        const ALL: [Rights; 7] = [
            Rights::All,
            Rights::All,
            Rights::NoQueue,
            Rights::OneQueue,
            Rights::NoChannelsOfOurs,
            Rights::NoChannels,
            Rights::NoExpiry,
        ];
        ALL[chance.usize(..ALL.len())]
    }

    /// The same in the words of `ACL SETUSER`.
    pub(super) fn rules(self) -> String {
        let rules = match self {
            Self::All => "~* &*",
            Self::NoQueue => "~name-* &*",
            Self::OneQueue => "~name-* ~leasehold_lock__*:{name-0} &*",
            Self::NoChannelsOfOurs => "~* &redisson_lock__channel:*",
            Self::NoChannels => "~*",
            Self::NoExpiry => "~* &* -pexpire",
        };
        format!("reset on nopass +@all {rules}")
    }

    /// Whether it can queue for every name, and hear when its turn comes.
    pub(super) fn queues(self) -> bool {
        self == Self::All
    }
}
