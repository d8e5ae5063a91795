//! One type for the guards of all kinds.

use leasehold::{
    Error, ExpirablePermits, ExpirableSemaphore, FencedGuard, FencedLock, Lock, LockGuard, Release,
    Semaphore, SemaphoreGuard,
};

use crate::contender::AcquireTimeout;

/// A hold of any kind.
#[derive(Debug)]
pub(crate) enum Guard {
    Lock(LockGuard),
    Fenced(FencedGuard),
    Semaphore(SemaphoreGuard),
    Permits(ExpirablePermits),
    /// A hold without a request, by a disobedient task.
    Nothing,
}

impl Guard {
    pub(crate) async fn of_lock(
        lock: &Lock,
        max_wait: AcquireTimeout,
    ) -> Result<Option<Self>, Error> {
        Ok(match max_wait {
            AcquireTimeout::Endless => Some(lock.acquire().await?),
            AcquireTimeout::Within(time) => Some(lock.acquire_within(time).await?),
            AcquireTimeout::None => lock.try_acquire().await?,
        }
        .map(Self::Lock))
    }

    pub(crate) async fn of_fenced(
        lock: &FencedLock,
        max_wait: AcquireTimeout,
    ) -> Result<Option<Self>, Error> {
        Ok(match max_wait {
            AcquireTimeout::Endless => Some(lock.acquire().await?),
            AcquireTimeout::Within(time) => Some(lock.acquire_within(time).await?),
            AcquireTimeout::None => lock.try_acquire().await?,
        }
        .map(Self::Fenced))
    }

    pub(crate) async fn of_permits(
        permits: &ExpirableSemaphore,
        max_wait: AcquireTimeout,
    ) -> Result<Option<Self>, Error> {
        Ok(match max_wait {
            AcquireTimeout::Endless => Some(permits.acquire().await?),
            AcquireTimeout::Within(time) => Some(permits.acquire_within(time).await?),
            AcquireTimeout::None => permits.try_acquire().await?,
        }
        .map(Self::Permits))
    }

    /// The permits of a killed process never come back to a semaphore, so no task waits without a
    /// bound.
    pub(crate) async fn of_semaphore(
        semaphore: &Semaphore,
        max_wait: AcquireTimeout,
    ) -> Result<Option<Self>, Error> {
        Ok(match max_wait {
            AcquireTimeout::None => semaphore.try_acquire(1).await?,
            _ => Some(semaphore.acquire_within(1, AcquireTimeout::SHORT).await?),
        }
        .map(Self::Semaphore))
    }

    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.token()),
            _ => None,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::Lock(guard) => guard.is_held(),
            Self::Fenced(guard) => guard.is_held(),
            Self::Semaphore(guard) => guard.is_held(),
            Self::Permits(guard) => guard.is_held(),
            Self::Nothing => true,
        }
    }

    /// Whether it was released, and was not lost before.
    pub(crate) async fn release(self) -> Result<bool, Error> {
        let release = match self {
            Self::Lock(guard) => guard.release().await?,
            Self::Fenced(guard) => guard.release().await?,
            Self::Semaphore(guard) => guard.release().await?,
            Self::Permits(guard) => guard.release().await?,
            Self::Nothing => Release::Released,
        };
        Ok(!matches!(release, Release::NotHeld { .. }))
    }
}
