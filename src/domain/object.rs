//! What is held or waited for: a name, and what it is the name of.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use super::Name;

/// What is called by a name. Each has keys and channels of its own in a store.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Kind {
    Lock,
    /// The reading side of a read-write lock.
    Read,
    /// The writing side of it.
    Write,
    Semaphore,
    Latch,
    /// A semaphore whose permits have a lease each.
    Permits,
}

/// What the engine knows of a kind: nothing else tells one from another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Manner {
    /// Whether a hold excludes every other one. It then keeps the turn of its process as long
    /// as it lasts, and is over when somebody else is seen to hold.
    pub(crate) alone: bool,
    pub(crate) waits: Waits,
    /// Whether those who come while this process holds share the hold, of which the store knows
    /// one: within the bounds of a local hand-over, and while nobody here wants the other side.
    pub(crate) shared: bool,
    /// Whether what is granted is held, and given back. If not, a grant is an answer only: it
    /// is as good for everybody who waited here when it was asked for.
    pub(crate) held: bool,
}

/// What the store knows of those who wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Waits {
    /// They have a place in a queue, and a release looks for it.
    Queued,
    /// That they wait, as long as they ask again.
    Known,
    /// For how long they have waited, when that is long.
    Aged,
    Unknown,
}

impl Kind {
    pub(crate) const fn manner(self) -> Manner {
        match self {
            Self::Lock => Manner { alone: true, waits: Waits::Queued, shared: false, held: true },
            Self::Read => Manner { alone: false, waits: Waits::Unknown, shared: true, held: true },
            Self::Write => Manner { alone: true, waits: Waits::Known, shared: false, held: true },
            Self::Semaphore => {
                Manner { alone: false, waits: Waits::Aged, shared: false, held: true }
            }
            Self::Permits => {
                Manner { alone: false, waits: Waits::Unknown, shared: false, held: true }
            }
            Self::Latch => {
                Manner { alone: false, waits: Waits::Unknown, shared: false, held: false }
            }
        }
    }

    /// What a store says when it is asked about it what is asked about other kinds.
    pub(crate) const fn unsupported(self) -> &'static str {
        match self {
            Self::Lock => "a lock does not support this",
            Self::Read => "the reading side of a lock does not support this",
            Self::Write => "the writing side of a lock does not support this",
            Self::Semaphore => "a semaphore does not support this",
            Self::Latch => "a latch does not support this",
            Self::Permits => "permits do not support this",
        }
    }

    /// The other side of the same thing, if it has two.
    const fn other_side(self) -> Option<Self> {
        match self {
            Self::Read => Some(Self::Write),
            Self::Write => Some(Self::Read),
            Self::Lock | Self::Semaphore | Self::Permits | Self::Latch => None,
        }
    }
}

/// One thing that can be held or waited for.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Object {
    pub(crate) name: Name,
    pub(crate) kind: Kind,
}

impl Object {
    pub(crate) fn manner(&self) -> Manner {
        self.kind.manner()
    }

    pub(crate) fn other_side(&self) -> Option<Self> {
        let of = |kind| Self { name: self.name.clone(), kind };
        self.kind.other_side().map(of)
    }
}

impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // One number, as maps by objects want it. Few names are those of several kinds.
        self.name.hash(state);
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
        /// The lock called `name`.
        pub(crate) fn lock(name: impl AsRef<str>) -> Self {
            Self::of(Kind::Lock, name)
        }

        pub(crate) fn of(kind: Kind, name: impl AsRef<str>) -> Self {
            Self { name: Name::new(name).unwrap(), kind }
        }
    }
}
