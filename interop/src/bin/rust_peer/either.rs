//! A plain lock, a fenced lock, or a side of a read-write lock, as the command names it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use leasehold::{
    Client, Error, FencedGuard, FencedLock, Holder, Lock, LockGuard, LostReason, Owner,
    ReadWriteLock, Release, Result, WaitStrategy,
};

#[derive(Clone)]
pub(crate) enum AnyLock {
    Plain(Lock),
    Fenced(FencedLock),
}

pub(crate) enum AnyGuard {
    Plain(LockGuard),
    Fenced(FencedGuard),
}

/// Calls the same method of each variant.
macro_rules! either {
    ($either:expr, $it:ident => $output:expr) => {
        match $either {
            Self::Plain($it) => $output,
            Self::Fenced($it) => $output,
        }
    };
}

impl AnyLock {
    pub(crate) fn new(client: &Client, kind: &str, name: &str) -> Result<Self> {
        Ok(match kind {
            "lock" | "spin" => client.lock(name)?.into(),
            "fair" => client.fair_lock(name)?.into(),
            "fenced" => client.fenced_lock(name)?.into(),
            "read" => client.read_write_lock(name)?.read().into(),
            "write" => client.read_write_lock(name)?.write().into(),
            kind => panic!("unknown kind `{kind}`"),
        })
    }

    pub(crate) fn lease(self, lease: Duration) -> Self {
        either!(self, it => it.lease(lease).into())
    }

    pub(crate) fn wait_strategy(self, wait_strategy: WaitStrategy) -> Self {
        either!(self, it => it.wait_strategy(wait_strategy).into())
    }

    pub(crate) async fn acquire(&self) -> Result<AnyGuard> {
        Ok(either!(self, it => it.acquire().await?.into()))
    }

    pub(crate) async fn acquire_within(&self, max_wait: Duration) -> Result<AnyGuard> {
        Ok(either!(self, it => it.acquire_within(max_wait).await?.into()))
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<AnyGuard>> {
        Ok(either!(self, it => it.try_acquire().await?.map(AnyGuard::from)))
    }

    pub(crate) async fn force_release(&self) -> Result<bool> {
        either!(self, it => it.force_release().await)
    }

    pub(crate) async fn is_locked(&self) -> Result<bool> {
        either!(self, it => it.is_locked().await)
    }

    pub(crate) async fn held_by(&self, owner: &Owner) -> Result<u32> {
        either!(self, it => it.held_by(owner).await)
    }

    pub(crate) async fn holder(&self) -> Result<Option<Holder>> {
        either!(self, it => it.holder().await)
    }
}

impl AnyGuard {
    /// The token, if this guard is of a fenced lock.
    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Plain(_) => None,
            Self::Fenced(guard) => Some(guard.token()),
        }
    }

    pub(crate) async fn reenter(&self) -> Result<Self> {
        Ok(either!(self, it => it.reenter().await?.into()))
    }

    /// Acquires a read hold under the write hold.
    pub(crate) async fn acquire_read_with(&self, lock: &ReadWriteLock) -> Result<Self> {
        match self {
            Self::Plain(guard) => Ok(lock.acquire_read_with(guard).await?.into()),
            Self::Fenced(guard) => Err(Error::NotWriting { name: guard.name().clone() }),
        }
    }

    pub(crate) async fn release(self) -> Result<Release> {
        either!(self, it => it.release().await)
    }

    pub(crate) fn lost(&self) -> Pin<Box<dyn Future<Output = LostReason> + Send>> {
        either!(self, it => Box::pin(it.lost()))
    }

    pub(crate) fn is_held(&self) -> bool {
        either!(self, it => it.is_held())
    }

    pub(crate) fn owner(&self) -> &Owner {
        either!(self, it => it.owner())
    }
}

impl From<Lock> for AnyLock {
    fn from(lock: Lock) -> Self {
        Self::Plain(lock)
    }
}

impl From<FencedLock> for AnyLock {
    fn from(lock: FencedLock) -> Self {
        Self::Fenced(lock)
    }
}

impl From<LockGuard> for AnyGuard {
    fn from(guard: LockGuard) -> Self {
        Self::Plain(guard)
    }
}

impl From<FencedGuard> for AnyGuard {
    fn from(guard: FencedGuard) -> Self {
        Self::Fenced(guard)
    }
}
