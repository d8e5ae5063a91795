//! Which of several locks a name is used for.

use std::fmt;

/// A kind of object that both languages have.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// `getLock`, and our `lock`.
    Lock,
    /// `getSpinLock`, and our `lock` that polls.
    Spin,
    /// `getFairLock`, and our `fair_lock`.
    Fair,
    /// `getFencedLock`, and our `fenced`.
    Fenced,
    /// `getSemaphore`, and our `semaphore`.
    Semaphore,
    /// `getCountDownLatch`, and our `latch`.
    Latch,
    /// `getReadWriteLock().readLock()`, and the `read` of our `read_write`.
    Read,
    /// `getReadWriteLock().writeLock()`, and the `write` of our `read_write`.
    Write,
    /// `getMultiLock()` over `getLock` of each of several names with commas between. **Java only**:
    /// tests call our `multi_lock` themselves.
    Multi,
    /// `RedissonRedLock` over `getLock` of several servers: `name@port,port,port`. **Java only**, as
    /// [`Multi`](Self::Multi).
    Red,
}

impl Kind {
    /// Where releases of `name`, which has no braces, are announced. Those of a multi-lock have the
    /// name of a member.
    #[must_use]
    pub fn channel(self, name: &str) -> String {
        match self {
            Self::Lock | Self::Spin | Self::Fair | Self::Fenced | Self::Multi | Self::Red => {
                format!("redisson_lock__channel:{{{name}}}")
            }
            Self::Read | Self::Write => format!("redisson_rwlock:{{{name}}}"),
            Self::Semaphore => format!("redisson_sc:{{{name}}}"),
            Self::Latch => format!("redisson_countdownlatch__channel__{{{name}}}"),
        }
    }
}

/// As both processes know it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::Spin => "spin",
            Self::Fair => "fair",
            Self::Fenced => "fenced",
            Self::Semaphore => "semaphore",
            Self::Latch => "latch",
            Self::Read => "read",
            Self::Write => "write",
            Self::Multi => "multi",
            Self::Red => "red",
        })
    }
}
