//! The read-write lock: many readers, or one writer.

use std::{fmt, sync::Arc, time::Duration};

use super::{Lock, LockGuard, example, settings::replicated};
use crate::{
    domain::{Kind, Name, Object, Replicas, Share},
    engine::Engine,
    error::{Error, Result},
};

/// A lock that either many readers or one writer can hold, in all processes together.
///
/// The lock has two sides, [`read`](Self::read) and [`write`](Self::write), and each side is a
/// [`Lock`]. In Redisson, the two sides are the `RReadWriteLock` of the same name.
///
/// Each reading client has a lease of its own, so the hold of a dead reader ends with its lease. If
/// Redisson clients also read, keep the `ttl` at most twice as long as the `lockWatchdogTimeout` of
/// the Redisson clients.
///
/// Tasks of this client that read at the same time share one hold. While no task of this client
/// waits to write, and within the limits of [`local_handoff`](Lock::local_handoff), a second reader
/// acquires without a request.
///
/// While a writer waits, later readers wait for this writer for ten seconds. In the next ten
/// seconds, readers may acquire before the writer. The two periods alternate until the writer
/// acquires. [`prefer_writers`](Self::prefer_writers) can switch off this rule. Redisson's readers
/// never wait for a waiting writer.
///
/// **A reader cannot become a writer.** If a task holds the readers' side and tries to acquire the
/// writers' side, it waits for itself. Release the readers' side first. A writer can become a
/// reader by [`downgrade`](Self::downgrade).
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

    /// Sets whether readers wait for a writer that began to wait before them. Default: `true`. In
    /// this case, readers wait in ten of every twenty seconds.
    ///
    /// With `false`, a stream of readers can block a writer for ever.
    ///
    /// Use the same setting for all readers of a name in a process. All readers of one client wait
    /// in one line. So a reader with `false` may have to wait behind a reader with `true`, which
    /// waits for a writer.
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

    /// Returns the readers' side, which many readers can hold at the same time.
    #[doc = example!(prices: "let reading = prices.read().acquire().await?;")]
    #[must_use]
    pub fn read(&self) -> Lock {
        let share = match self.prefers_writers {
            true => Share::ReadAfterWriters { waited: 0 },
            false => Share::Read,
        };
        self.side(Kind::Read).with(|settings| settings.share = share)
    }

    /// Returns the writers' side, which one writer can hold while no reader holds the lock.
    #[doc = example!(prices: "let writing = prices.write().acquire().await?;")]
    #[must_use]
    pub fn write(&self) -> Lock {
        self.side(Kind::Write)
    }

    fn side(&self, kind: Kind) -> Lock {
        let object = Object::new(kind, self.name.clone());
        Lock::new(Arc::clone(&self.engine), object, self.ttl).replicated(self.replicas)
    }

    /// Acquires the readers' side for a task whose guard `writing` holds the writers' side.
    ///
    /// The new guard has an owner and a lease of its own. The new guard may outlive `writing`.
    ///
    /// # Errors
    ///
    /// [`Error::NotWriting`] if `writing` is not a guard of the [`write`](Self::write) side of this
    /// lock, or if another client created it. [`Error::Lost`] if the hold of `writing` is over.
    /// Other errors as for [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Lock::acquire`].
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

    /// Exchanges the guard of a writer for the guard of a reader. No other writer can acquire in
    /// between.
    ///
    /// After the exchange, waiting readers can acquire, too.
    ///
    /// # Errors
    ///
    /// As for [`acquire_read_with`](Self::acquire_read_with), and as for
    /// [`Guard::release`](crate::Guard::release). After any error, this task holds neither side.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, both sides are released in the background.
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
