//! The read-write lock: many who read, or one who writes.

use std::{fmt, sync::Arc, time::Duration};

use super::{Lock, LockGuard, settings::replicated};
use crate::{
    domain::{Kind, Name, Object, Replicas, Share},
    engine::Engine,
    error::{Error, Result},
};

/// A lock that many hold together to read, or one alone to write, in all processes.
///
/// Each side is a [`Lock`]: [`read`](Self::read) and [`write`](Self::write). Java's Redisson
/// knows both as the `RReadWriteLock` of the same name.
///
/// Each reader has a lease of its own: one that died ends with it, whoever else reads. Where Redisson
/// clients read as well, keep the `ttl` at twice their `lockWatchdogTimeout` at most. Tasks of
/// this client that read at the same time share one: within the bounds of
/// [`local_turns`](Lock::local_turns), and while nobody here wants to write, they enter without
/// asking the store at all.
///
/// Who came to write goes before readers that come later, in turns of ten seconds: for the first
/// ten they wait for it, for the next ten they enter. [`prefer_writers`](Self::prefer_writers) can be switched off. Redisson's readers
/// know nothing of it, and enter.
///
/// **Nobody can write while it reads.** A task that holds the lock to read and waits for it to
/// write waits for itself: give back the one before. The other way round it works:
/// [`downgrade`](Self::downgrade).
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// let prices = client.read_write("prices")?;
/// let one = prices.read().acquire().await?;
/// let other = prices.read().acquire().await?;
/// assert!(prices.write().try_acquire().await?.is_none());
/// one.release().await?.done()?;
/// other.release().await?.done()?;
/// assert!(prices.write().try_acquire().await?.is_some());
/// # Ok(()) }
/// ```
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

    replicated!("leasehold::Client", "read_write", |this, replicas| Self { replicas, ..this });

    /// Sets whether readers let those go first who came to write before them. Default: they do,
    /// for ten seconds of twenty.
    ///
    /// Without it a stream of readers can keep a writer out for ever. All readers of one client
    /// wait in one line: a reader that does not yield stands behind an earlier one that does. Use
    /// one setting for all readers of a name in a process.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let prices = client.read_write("prices")?.prefer_writers(false);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn prefer_writers(self, prefers_writers: bool) -> Self {
        Self { prefers_writers, ..self }
    }

    /// The name of the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// assert_eq!(client.read_write("prices")?.name().as_str(), "prices");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The side of those who read: many have it together.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let reading = client.read_write("prices")?.read().acquire().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn read(&self) -> Lock {
        let share = match self.prefers_writers {
            true => Share::Behind { waited: 0 },
            false => Share::Beside,
        };
        self.side(Kind::Read).set(|settings| settings.share = share)
    }

    /// The side of those who write: one alone has it, and nobody reads.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let writing = client.read_write("prices")?.write().acquire().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn write(&self) -> Lock {
        self.side(Kind::Write)
    }

    fn side(&self, kind: Kind) -> Lock {
        let object = Object { kind, name: self.name.clone() };
        Lock::new(Arc::clone(&self.engine), object, self.ttl).replicated(self.replicas)
    }

    /// Reads as well as writes: another guard, which goes on to read when the one that writes
    /// is given back. It has an owner and a lease of its own.
    ///
    /// # Errors
    ///
    /// [`Error::NotWriting`] if `writing` is no guard of the [`write`](Self::write) side of this
    /// lock, or another client's; [`Error::Lost`] if its hold is over; others as [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let prices = client.read_write("prices")?;
    /// let writing = prices.write().acquire().await?;
    /// let reading = prices.read_beside(&writing).await?;
    /// writing.release().await?.done()?;
    /// assert!(reading.is_held() && prices.write().try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn read_beside(&self, writing: &LockGuard) -> Result<LockGuard> {
        let watch = writing.watch();
        match watch.claim().object {
            Object { kind: Kind::Write, ref name } if *name == self.name => {
                self.read().beside(watch, None).await
            }
            _ => Err(Error::NotWriting { name: self.name.clone() }),
        }
    }

    /// Gives up writing and goes on reading: nobody else can have written in between. Those who
    /// wait to read enter.
    ///
    /// # Errors
    ///
    /// As [`read_beside`](Self::read_beside), and those of [`LockGuard::release`]. Each of them
    /// has given up both guards: nothing is held to write, nor to read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives back both, in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// let prices = client.read_write("prices")?;
    /// let writing = prices.write().acquire().await?;
    /// let reading = prices.downgrade(writing).await?;
    /// assert!(prices.read().try_acquire().await?.is_some());
    /// # drop(reading);
    /// # Ok(()) }
    /// ```
    pub async fn downgrade(&self, writing: LockGuard) -> Result<LockGuard> {
        let reading = self.read_beside(&writing).await?;
        writing.release().await?.done()?;
        Ok(reading)
    }
}
