//! The kinds of objects that a name can stand for.

use std::fmt;

/// A kind of object that both languages have.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// `getLock` of Redisson, and `lock` of Leasehold.
    Lock,
    /// `getSpinLock`, and `lock` with polling.
    Spin,
    /// `getFairLock`, and `fair_lock`.
    Fair,
    /// `getNonReentrantLock`. **Java only**: in Rust it is `lock`.
    NonReentrant,
    /// `getNonReentrantFairLock`. **Java only**: in Rust it is `fair_lock`.
    NonReentrantFair,
    /// `getFencedLock`, and `fenced_lock`.
    Fenced,
    /// `getSemaphore`, and `semaphore`.
    Semaphore,
    /// `getCountDownLatch`, and `latch`.
    Latch,
    /// `getReadWriteLock().readLock()`, and `read` of `read_write_lock`.
    Read,
    /// `getReadWriteLock().writeLock()`, and `write` of `read_write_lock`.
    Write,
    /// `getMultiLock()` of several `getLock`. The name is a list of names with commas. **Java
    /// only**: tests call `multi_lock` of Leasehold themselves.
    Multi,
    /// `RedissonRedLock` of `getLock` on several servers: `name@port,port,port`. **Java only**,
    /// like [`Multi`](Self::Multi).
    Red,
}

impl Kind {
    /// The channel for releases of `name`. The name must have no braces. For a multi-lock, `name`
    /// is the name of a member.
    #[must_use]
    pub fn channel(self, name: &str) -> String {
        match self {
            Self::Lock
            | Self::Spin
            | Self::Fair
            | Self::NonReentrant
            | Self::NonReentrantFair
            | Self::Fenced
            | Self::Multi
            | Self::Red => format!("redisson_lock__channel:{{{name}}}"),
            Self::Read | Self::Write => format!("redisson_rwlock:{{{name}}}"),
            Self::Semaphore => format!("redisson_sc:{{{name}}}"),
            Self::Latch => format!("redisson_countdownlatch__channel__{{{name}}}"),
        }
    }
}

/// The name of the kind in the commands of both processes.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::Spin => "spin",
            Self::Fair => "fair",
            Self::NonReentrant => "getNonReentrantLock",
            Self::NonReentrantFair => "getNonReentrantFairLock",
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
