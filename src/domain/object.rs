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

/// What the engine knows of a kind, beside its other side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KindTraits {
    held_by: Who,
    pub(crate) waits: Waits,
}

/// How many holders it has at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Who {
    /// One. A hold excludes every other one: it keeps the turn of its process as long as it
    /// lasts, goes to the next one here, and is over when somebody else is seen to hold.
    One,
    /// Many, each with a hold of its own, which goes to the next one here that wants as much.
    Many,
    /// Many. Those who come while this process holds share the hold, of which the store knows
    /// one: within the bounds of a local hand-over, and while nobody here wants the other side.
    Members,
    /// Nobody. A grant is an answer, as good for everybody who waited here when it was asked for.
    Nobody,
}

impl KindTraits {
    pub(crate) fn is_exclusive(self) -> bool {
        self.held_by == Who::One
    }

    /// Whether who comes while this process holds joins the hold.
    pub(crate) fn is_shared(self) -> bool {
        self.held_by == Who::Members
    }

    /// Whether a grant becomes a hold, which has to be given back.
    pub(crate) fn is_held(self) -> bool {
        self.held_by != Who::Nobody
    }

    /// Whether a hold may go from one task of this process to the next.
    pub(crate) fn is_passed_on(self) -> bool {
        matches!(self.held_by, Who::One | Who::Many)
    }
}

/// How those show in the store who wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Waits {
    /// By a place in a queue: a release looks for it.
    Queued,
    /// As waiting, until they stop asking.
    Known,
    /// By how long they have waited, after the first second.
    Aged,
    /// Not at all.
    Unknown,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Lock, Self::Read, Self::Write, Self::Semaphore, Self::Latch, Self::Permits];

    pub(crate) const fn traits(self) -> KindTraits {
        let (held_by, waits) = match self {
            Self::Lock => (Who::One, Waits::Queued),
            Self::Read => (Who::Members, Waits::Unknown),
            Self::Write => (Who::One, Waits::Known),
            Self::Semaphore => (Who::Many, Waits::Aged),
            Self::Permits => (Who::Many, Waits::Unknown),
            Self::Latch => (Who::Nobody, Waits::Unknown),
        };
        KindTraits { held_by, waits }
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
    pub(crate) fn traits(&self) -> KindTraits {
        self.kind.traits()
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
