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
    /// A semaphore whose permits have a lease each.
    Permits,
}

/// What the engine knows of a kind: nothing else tells one from another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Manner {
    /// Whether a hold excludes every other one. It then keeps the turn of its process as long
    /// as it lasts, and is over when somebody else is seen to hold.
    pub(crate) alone: bool,
    /// Whether who waits has a place in a queue, and a release looks for it.
    pub(crate) queues: bool,
}

impl Kind {
    pub(crate) const fn manner(self) -> Manner {
        match self {
            Self::Lock => Manner { alone: true, queues: true },
            Self::Permits => Manner { alone: false, queues: false },
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
}

impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // One number, as maps by objects want it. Few names are those of two kinds.
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
