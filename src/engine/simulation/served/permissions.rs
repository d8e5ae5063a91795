//! The ACL permissions of a client, which change during a run.

use fastrand::Rng;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Permissions {
    All,
    /// The client may not write any wait queue.
    NoQueue,
    /// The client may write the wait queue of only one name.
    OneQueue,
    /// The client may use only the channels of Redisson.
    OnlyRedissonChannels,
    /// The client may use no channel.
    NoChannels,
    /// The client may not call `PEXPIRE`, so it can neither acquire nor renew a hold.
    NoExpiry,
}

impl Permissions {
    pub(super) fn draw(chance: &mut Rng) -> Self {
        const ALL: [Permissions; 7] = [
            Permissions::All,
            Permissions::All,
            Permissions::NoQueue,
            Permissions::OneQueue,
            Permissions::OnlyRedissonChannels,
            Permissions::NoChannels,
            Permissions::NoExpiry,
        ];
        ALL[chance.usize(..ALL.len())]
    }

    /// Returns the permissions as arguments of `ACL SETUSER`.
    pub(super) fn rules(self) -> String {
        let rules = match self {
            Self::All => "~* &*",
            Self::NoQueue => "~name-* &*",
            Self::OneQueue => "~name-* ~leasehold_lock__*:{name-0} &*",
            Self::OnlyRedissonChannels => "~* &redisson_lock__channel:*",
            Self::NoChannels => "~*",
            Self::NoExpiry => "~* &* -pexpire",
        };
        format!("reset on nopass +@all {rules}")
    }

    /// Returns whether the client can queue for every name and receive its notifications.
    pub(super) fn queues(self) -> bool {
        self == Self::All
    }
}
