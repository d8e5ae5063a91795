//! The read-write lock: many readers, or one writer.

use std::{fmt, sync::Arc, time::Duration};

use super::{Lock, LockGuard, example, settings::replicated};
use crate::{
    domain::{Kind, Name, Object, Replicas, Share},
    engine::Engine,
    error::{Error, Result},
};

/// A lock that many readers hold together or one writer alone, in all processes.
///
/// Each side is a [`Lock`]: [`read`](Self::read) and [`write`](Self::write). Java's Redisson
/// knows both as the `RReadWriteLock` of the same name.
///
/// Each reader has a lease of its own, so a dead reader's hold ends with its lease. Where Redisson
/// clients read as well, keep the `ttl` at most twice their `lockWatchdogTimeout`. Tasks of this
/// client that read at the same time share one hold: within the bounds of
/// [`local_handoff`](Lock::local_handoff), and while no task of this client wants to write, they
/// acquire without a request.
///
/// While a writer waits, later readers wait for it for ten seconds, then may acquire for ten
/// seconds, and so on. [`prefer_writers`](Self::prefer_writers) switches this off. Redisson's
/// readers never wait for a waiting writer.
///
/// **A reader cannot become a writer.** A task that holds the lock to read and waits to write
/// waits for itself: release the read lock first. A writer can become a reader:
/// [`downgrade`](Self::downgrade).
#[doc = example!(prices:
    "let one = prices.read().acquire().await?;",
    "let other = prices.read().acquire().await?;",
    "assert!(prices.write().try_acquire().await?.is_none());",
    "one.release().await?.into_result()?;",
    "other.release().await?.into_result()?;",
    "assert!(prices.write().try_acquire().await?.is_some());")]
#[derive(Clone)]
pub struct ReadWriteLock {
    engine: Arc<Engine>,
    name: Name,
    ttl: Duration,
    prefers_writers: bool,
    replicas: Option<Replicas>,
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadWriteLock")
            .field("name", &self.name)
            .field("prefers_writers", &self.prefers_writers)
            .finish_non_exhaustive()
    }
}

impl ReadWriteLock {
    pub(crate) fn new(engine: Arc<Engine>, name: Name, ttl: Duration) -> Self {
        Self { engine, name, ttl, prefers_writers: true, replicas: None }
    }

    replicated!("leasehold::Client", "read_write_lock", |this, replicas| Self { replicas, ..this });

    /// Sets whether readers let an earlier writer go first. Default: in ten of every twenty seconds.
    ///
    /// If this is off, a stream of readers can block a writer for ever. All readers of one client
    /// wait in one line, so a reader that does not wait for writers may still be behind one that
    /// does. Use one setting for all readers of a name in a process.
    #[doc = example!(prices: "let prices = prices.prefer_writers(false);")]
    #[must_use]
    pub fn prefer_writers(self, prefers_writers: bool) -> Self {
        Self { prefers_writers, ..self }
    }

    /// Returns the name of the lock.
    #[doc = example!(prices: "assert_eq!(prices.name().as_str(), \"prices\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the readers' side, which many readers can hold together.
    #[doc = example!(prices: "let reading = prices.read().acquire().await?;")]
    #[must_use]
    pub fn read(&self) -> Lock {
        let share = match self.prefers_writers {
            true => Share::Behind { waited: 0 },
            false => Share::Beside,
        };
        self.side(Kind::Read).with(|settings| settings.share = share)
    }

    /// Returns the writers' side, which only one holder has, while no reader holds the lock.
    #[doc = example!(prices: "let writing = prices.write().acquire().await?;")]
    #[must_use]
    pub fn write(&self) -> Lock {
        self.side(Kind::Write)
    }

    fn side(&self, kind: Kind) -> Lock {
        let object = Object::new(kind, self.name.clone());
        Lock::new(Arc::clone(&self.engine), object, self.ttl).replicated(self.replicas)
    }

    /// Acquires the readers' side while `writing` holds the writers' side. The new guard may be
    /// kept longer.
    ///
    /// The new guard has an owner and a lease of its own.
    ///
    /// # Errors
    ///
    /// [`Error::NotWriting`] if `writing` is not a guard of the [`write`](Self::write) side of this
    /// lock, or one of another client. [`Error::Lost`] if its hold is over. Others as
    /// [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`].
    #[doc = example!(prices:
        "let writing = prices.write().acquire().await?;",
        "let reading = prices.acquire_read_with(&writing).await?;",
        "writing.release().await?.into_result()?;",
        "assert!(reading.is_held() && prices.write().try_acquire().await?.is_none());")]
    pub async fn acquire_read_with(&self, writing: &LockGuard) -> Result<LockGuard> {
        let watch = writing.watch();
        match watch.claim().object {
            Object { kind: Kind::Write, ref name, .. } if *name == self.name => {
                self.read().acquire_under_write(watch, None).await
            }
            _ => Err(Error::NotWriting { name: self.name.clone() }),
        }
    }

    /// Exchanges a writer's guard for a reader's, with no other writer in between.
    ///
    /// Waiting readers acquire.
    ///
    /// # Errors
    ///
    /// As [`acquire_read_with`](Self::acquire_read_with), and those of
    /// [`Guard::release`](crate::Guard::release). After each of them neither side is held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases both sides in the background.
    #[doc = example!(prices:
        "let writing = prices.write().acquire().await?;",
        "let reading = prices.downgrade(writing).await?;",
        "assert!(prices.read().try_acquire().await?.is_some());")]
    pub async fn downgrade(&self, writing: LockGuard) -> Result<LockGuard> {
        let reading = self.acquire_read_with(&writing).await?;
        writing.release().await?.into_result()?;
        Ok(reading)
    }
}
