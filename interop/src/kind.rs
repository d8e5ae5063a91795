//! Which of several locks a name is used for.

use std::fmt;

/// A kind of object that both languages have.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// `getLock`, and our `lock`.
    Lock,
    /// `getSpinLock`, and our `lock` that polls.
    Spin,
    /// `getFencedLock`, and our `fenced`.
    Fenced,
    /// `getSemaphore`, and our `semaphore`.
    Semaphore,
    /// `getCountDownLatch`, and our `latch`.
    Latch,
}

/// As both processes know it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::Spin => "spin",
            Self::Fenced => "fenced",
            Self::Semaphore => "semaphore",
            Self::Latch => "latch",
        })
    }
}
