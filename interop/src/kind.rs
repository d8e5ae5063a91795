//! Which of several locks a name is used for.

use std::fmt;

/// A kind of lock that both languages have.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// `getLock`, and our `lock`.
    Lock,
    /// `getSpinLock`, and our `lock` that polls.
    Spin,
    /// `getFencedLock`, and our `fenced`.
    Fenced,
}

/// As both processes know it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::Spin => "spin",
            Self::Fenced => "fenced",
        })
    }
}
