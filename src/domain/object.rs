//! An object that clients hold or wait for: a name and its kind.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use super::{Name, Owner};

/// The kind of an object. Each kind has its own keys and channels in a store.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Kind {
    Lock,
    /// A lock with one queue, which the waiting tasks of Leasehold and the threads of Redisson
    /// share.
    Fair,
    /// The read side of a read-write lock.
    Read,
    /// The write side of a read-write lock.
    Write,
    Semaphore,
    Latch,
    /// A semaphore whose permits have leases.
    Permits,
    /// A lock whose holder proclaims a value.
    Election,
    /// Members that wait for each other.
    Barrier,
    /// A list. Each element has at most one claim at a time.
    Queue,
    /// Members that wait for each other when they enter, and again when they leave.
    DoubleBarrier,
}

/// The properties of a kind that the engine uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KindTraits {
    holders: Holders,
    pub(crate) waiter_record: WaiterRecord,
}

/// How many holds an object has at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Holders {
    /// One hold, which excludes all other holds. The hold keeps the request slot of its process
    /// while it lasts, and can be handed off to the next local waiter. If a reply shows another
    /// holder, the hold has ended.
    One,
    /// Many holds. A hold can be handed off to the next local waiter that requests the same number
    /// of permits.
    Many,
    /// Many holds, each of a different element. No hold is handed off.
    Each,
    /// Many holds. Tasks of one process share one hold in the store. A task may join this hold
    /// within the local budget, and while no local task waits for the other side.
    Shared,
    /// No holds. A grant only ends the wait of each local waiter that already waited when the
    /// request was sent.
    None,
}

impl KindTraits {
    pub(crate) fn is_exclusive(self) -> bool {
        self.holders == Holders::One
    }

    /// Returns whether a task joins the hold that its process already has.
    pub(crate) fn is_shared(self) -> bool {
        self.holders == Holders::Shared
    }

    /// Returns whether a grant is a hold, which must be released.
    pub(crate) fn is_held(self) -> bool {
        self.holders != Holders::None
    }

    /// Returns whether the store recognizes a repeated release, and repeats the first reply.
    pub(crate) fn recognizes_releases(self) -> bool {
        self.holders == Holders::Each
    }

    /// Returns whether a hold can be handed to another task of this process.
    pub(crate) fn is_passed_on(self) -> bool {
        matches!(self.holders, Holders::One | Holders::Many)
    }
}

/// How the store knows that a client waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WaiterRecord {
    /// The client has a queue entry, which a release reads.
    QueueEntry,
    /// Each task has a queue entry. Each request of the task refreshes this entry.
    EntryPerTask,
    /// The client has an entry, which expires when the client stops sending requests.
    ExpiringEntry,
    /// After a wait of one second, each request of the client contains the waiting time.
    WaitingTime,
    /// The store does not know which clients wait.
    Nothing,
    /// The store does not know which clients wait. Another program may also push an element without
    /// a notification.
    Unannounced,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Lock,
        Self::Fair,
        Self::Read,
        Self::Write,
        Self::Semaphore,
        Self::Latch,
        Self::Permits,
        Self::Election,
        Self::Barrier,
        Self::Queue,
        Self::DoubleBarrier,
    ];

    pub(crate) const fn traits(self) -> KindTraits {
        let (holders, waiter_record) = match self {
            Self::Lock | Self::Election => (Holders::One, WaiterRecord::QueueEntry),
            Self::Fair => (Holders::One, WaiterRecord::EntryPerTask),
            Self::Read => (Holders::Shared, WaiterRecord::Nothing),
            Self::Write => (Holders::One, WaiterRecord::ExpiringEntry),
            Self::Semaphore => (Holders::Many, WaiterRecord::WaitingTime),
            Self::Permits | Self::DoubleBarrier => (Holders::Many, WaiterRecord::Nothing),
            Self::Latch | Self::Barrier => (Holders::None, WaiterRecord::Nothing),
            Self::Queue => (Holders::Each, WaiterRecord::Unannounced),
        };
        KindTraits { holders, waiter_record }
    }

    /// Returns the other side of a read-write lock, or `None` for any other kind.
    const fn other_side(self) -> Option<Self> {
        match self {
            Self::Read => Some(Self::Write),
            Self::Write => Some(Self::Read),
            Self::Lock
            | Self::Fair
            | Self::Semaphore
            | Self::Permits
            | Self::Latch
            | Self::Election
            | Self::Barrier
            | Self::DoubleBarrier
            | Self::Queue => None,
        }
    }
}

/// One object that can be held or waited for.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Object {
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    /// The task that waits for the object or holds it, for kinds in which each task has its own
    /// queue entry. Tasks that wait for such a kind share no request slot, no subscription and no
    /// grant.
    pub(crate) task: Option<Owner>,
}

impl Object {
    pub(crate) fn new(kind: Kind, name: Name) -> Self {
        Self { name, kind, task: None }
    }

    /// Returns the same object for the task that acquires it as `owner`.
    pub(crate) fn for_task(&self, owner: Owner) -> Self {
        Self { task: Some(owner), ..self.clone() }
    }

    /// Returns the owner of the task, for kinds in which each task has its own queue entry.
    pub(crate) fn task_owner(&self) -> Option<Owner> {
        self.task.clone()
    }

    pub(crate) fn traits(&self) -> KindTraits {
        self.kind.traits()
    }

    pub(crate) fn other_side(&self) -> Option<Self> {
        let of = |kind| Self::new(kind, self.name.clone());
        self.kind.other_side().map(of)
    }
}

impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // `Map` requires that a key hashes one number. The task is part of the hash, because many
        // tasks can wait for one name. The kind is not part of the hash, because few names have
        // several kinds.
        state.write_u64(self.name.hashed() ^ self.task.as_ref().map_or(0, |task| task.bits().1));
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Object {
        /// Returns the lock `name`.
        pub(crate) fn lock(name: impl AsRef<str>) -> Self {
            Self::of(Kind::Lock, name)
        }

        pub(crate) fn of(kind: Kind, name: impl AsRef<str>) -> Self {
            Self::new(kind, Name::new(name).unwrap())
        }
    }
}
