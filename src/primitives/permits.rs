//! Permits that expire: so many holders at a time, each with a lease.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{
    Holding, OnLoss, Ran, Release, run,
    settings::{Settings, checked_patience, replicated},
};
#[cfg(test)]
use crate::engine::held::Watch;
use crate::{
    domain::{
        Claim, Counts, LostReason, MOST_AT_ONCE, MOST_PERMITS, Name, Object, Owner, PermitId,
        Replicas, Share, WaitBy, checked, permits_of,
    },
    engine::{Engine, acquire::Want, grant::LocalTurns, held::Held, release::Left},
    error::{Error, Result},
    store::permits::{self, Change},
};

/// The public methods that set how permits are waited for and kept, for a type with a method
/// `with`: for tasks and for threads alike. Each is shown on what a `$client` makes.
macro_rules! permit_settings {
    ($client:literal) => {
        /// Sets how long permits survive a holder that died. Default: 30 s.
        ///
        /// A living holder renews them in the background, each third of this time. So this
        /// bounds how long others wait after a crash, not how long the work may take.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        /// let permits = client.permits("printers")?.ttl(Duration::from_secs(10));
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn ttl(self, ttl: Duration) -> Self {
            self.with(|settings| settings.ttl = ttl)
        }

        /// Sets a fixed lease: permits are **never renewed** and end after this time, even if
        /// the work goes on. Default: none, they are renewed.
        ///
        /// Redisson's `acquire(lease, unit)` is the same.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        /// let permits = client.permits("printers")?.lease(Duration::from_secs(60));
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn lease(self, lease: Duration) -> Self {
            self.with(|settings| settings.lease = Some(lease))
        }

        /// Sets how long permits may be held at all. Default: without limit.
        ///
        /// A holder that hangs but lives would be renewed for ever. After this time its hold is
        /// over, with [`LostReason::MaxHold`](crate::LostReason::MaxHold), and is not renewed
        /// any more.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        /// let permits = client.permits("printers")?.max_hold(Duration::from_secs(60 * 60));
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn max_hold(self, most: Duration) -> Self {
            self.with(|settings| settings.max_hold = Some(most))
        }

        /// Sets how a waiter learns that permits may be free. Default: by messages.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        /// let permits = client.permits("printers")?.wait_by(leasehold::WaitBy::Messages);
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn wait_by(self, wait_by: WaitBy) -> Self {
            self.with(|settings| settings.wait_by = wait_by)
        }

        /// Sets how long permits may stay in this process when they are given back while others
        /// wait for as many here: for `most` holds after the first one and for `time`, whichever
        /// ends sooner. 10 000 and 10 ms by default.
        ///
        /// Within these bounds they go to the next waiter of this process without asking the
        /// store, with their ids and their owner, unless somebody has asked for these. Only permits
        /// without a fixed lease and with the same ttl are passed on. `most` of 0 gives each release back to the store.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        /// let permits = client.permits("printers")?.local_turns(0, Duration::ZERO);
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn local_turns(self, most: u32, time: Duration) -> Self {
            self.with(|settings| settings.local_turns = LocalTurns { most, time })
        }
    };
}

#[cfg(feature = "blocking")]
pub(crate) use permit_settings;

/// So many holders at a time, in all processes together, each with a lease.
///
/// It is a name and some settings: making one costs nothing and touches no network. Java's
/// Redisson knows it as the `RPermitExpirableSemaphore` of the same name.
///
/// Without further settings a background task renews the permits until their guard goes, and
/// they come back 30 seconds after their holder died. With [`lease`](Self::lease) they are
/// **never renewed** and come back after that time, whether or not the work is done.
///
/// Somebody has to say how many there are: [`set_if_absent`](Self::set_if_absent). **A store that
/// loses its data loses that number**: then there are none until somebody says so again, and the
/// log of who asks for some warns. So call it before you acquire, not at the start only.
///
/// **Do not use both names `x` and `{x}`**: they have two numbers and one set of leases, as in
/// Redisson. What expires of one is then added to the other.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// let permits = client.permits("printers")?;
/// permits.set_if_absent(3).await?;
///
/// let guard = permits.acquire().await?;
/// // … the work …
/// guard.release().await?.done()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Permits {
    engine: Arc<Engine>,
    object: Object,
    settings: Settings,
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits")
            .field("name", self.name())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Settings. They are checked when permits are acquired first: a duration that Redis cannot keep
/// is refused with [`Error::Duration`].
impl Permits {
    pub(crate) fn new(engine: Arc<Engine>, object: Object, ttl: Duration) -> Self {
        Self { engine, object, settings: Settings::new(ttl) }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    permit_settings!("leasehold::Client");
    replicated!("leasehold::Client", "permits", |this, replicas| {
        this.with(|settings| settings.replicas = replicas)
    });

    /// Sets what [`run`](Self::run) does with work whose permits are lost. Default: the work is
    /// dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let permits = client.permits("printers")?.on_loss(leasehold::OnLoss::Drop);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn on_loss(self, on_loss: OnLoss) -> Self {
        self.with(|settings| settings.on_loss = on_loss)
    }

    /// The name of the permits.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// assert_eq!(permits.name().as_str(), "printers");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.name
    }

    fn want(&self, count: u32) -> Result<Want> {
        match count {
            0 => Err(Error::Zero { name: self.name().clone() }),
            1..=MOST_AT_ONCE => self.settings.want_share(&self.object, Share::Units(count)),
            _ => Err(Error::TooMany { name: self.name().clone(), most: MOST_AT_ONCE }),
        }
    }

    /// Passes `count` if there can be so many permits.
    fn possible(&self, count: u32) -> Result<u32> {
        match count {
            0..=MOST_PERMITS => Ok(count),
            _ => Err(Error::TooMany { name: self.name().clone(), most: MOST_PERMITS }),
        }
    }

    fn guard(&self, held: Held) -> PermitsGuard {
        PermitsGuard { held, on_loss: self.settings.on_loss }
    }
}

/// Acquiring.
impl Permits {
    /// Waits for a permit, as long as it takes.
    ///
    /// As many as there are go to those who ask; tasks of one client ask in the order in which they
    /// came, and one that wants many keeps those behind it waiting. Before anybody has said how many
    /// there are, there are none.
    ///
    /// # Errors
    ///
    /// [`Error::Duration`] if a setting cannot be kept;
    /// [`Error::Forbidden`], [`Error::Refused`] or
    /// [`Error::WrongType`] if the store rejects the request for good;
    /// [`Error::NotReady`] if the server is full;
    /// [`Error::ShutDown`], and
    /// [`Error::NoRuntime`] outside of tokio. If they are [`replicated`](Self::replicated), those
    /// of [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind: a grant that was on its way is given back in the
    /// background, or ends with its lease. But poll it or drop it: a future that is neither keeps its
    /// place in this process.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert_eq!(guard.permits(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<PermitsGuard> {
        self.acquire_many(1).await
    }

    /// Runs `work` under a permit, and gives it back. Waits for the permit as long as it takes.
    ///
    /// The work stops when the permit is lost, as [`on_loss`](Self::on_loss) says. For more permits
    /// or a bounded wait, acquire first: [`PermitsGuard::run`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Error::Lost`] if the permit was lost meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it stands, and the permit is given back in the
    /// background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// assert_eq!(permits.run(async |_held| 6 * 7).await?, 42);
    /// assert_eq!(permits.available().await?, 3);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, W, F>(&self, work: W) -> Result<T>
    where
        W: FnOnce(Holding) -> F,
        F: Future<Output = T>,
    {
        self.acquire().await?.run(work).await.done()
    }

    /// Waits for so many permits, all at once: under one guard.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`Error::Zero`], and
    /// [`Error::TooMany`] above 7 000.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire_many(2).await?;
    /// assert_eq!(permits.available().await?, 1);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub async fn acquire_many(&self, count: u32) -> Result<PermitsGuard> {
        let want = self.want(count)?;
        Ok(self.guard(self.engine.acquire(&want).await?))
    }

    /// Waits for a permit, but no longer than `patience`.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`Error::TimedOut`] if there was none,
    /// without a holder: it is not known who has them;
    /// [`Error::Unavailable`] if the store did not answer. A patience of
    /// zero is refused.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// use std::time::Duration;
    /// let guard = permits.acquire_within(Duration::from_secs(5)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire_within(&self, patience: Duration) -> Result<PermitsGuard> {
        self.acquire_many_within(1, patience).await
    }

    /// Waits for so many permits, but no longer than `patience`.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many) and [`acquire_within`](Self::acquire_within).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// use std::time::Duration;
    /// let guard = permits.acquire_many_within(2, Duration::from_secs(5)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire_many_within(
        &self,
        count: u32,
        patience: Duration,
    ) -> Result<PermitsGuard> {
        let (want, patience) = (self.want(count)?, checked_patience(patience)?);
        Ok(self.guard(self.engine.acquire_within(&want, patience).await?))
    }

    /// Takes a permit if one is free now: one question, one answer.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`Error::Unavailable`] if the store
    /// did not answer within the [question timeout](crate::ClientBuilder::question_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// assert!(permits.try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<PermitsGuard>> {
        self.try_acquire_many(1).await
    }

    /// Takes so many permits if they are free now, or none.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many) and [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// assert!(permits.try_acquire_many(4).await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire_many(&self, count: u32) -> Result<Option<PermitsGuard>> {
        let want = self.want(count)?;
        let held = self.engine.try_acquire(&want, None).await?;
        Ok(held.map(|held| self.guard(held)))
    }
}

/// How many there are.
impl Permits {
    /// Says how many permits there are, unless somebody has said so. Returns whether nobody had.
    ///
    /// # Errors
    ///
    /// As [`available`](Self::available); [`Error::TooMany`] beyond what Java counts to.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// assert!(!permits.set_if_absent(9).await?);
    /// assert_eq!(permits.total().await?, 3);
    /// # Ok(()) }
    /// ```
    pub async fn set_if_absent(&self, count: u32) -> Result<bool> {
        let change = Change::SetIfAbsent(self.possible(count)?);
        Ok(self.change(change).await? == 1)
    }

    /// Sets how many permits there are, held ones among them.
    ///
    /// If more are held, less than none are free until enough of them have come back.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Cancel safety
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// permits.set(2).await?;
    /// assert_eq!(permits.total().await?, 2);
    /// # Ok(()) }
    /// ```
    pub async fn set(&self, count: u32) -> Result<()> {
        let change = Change::Set(self.possible(count)?);
        self.change(change).await.map(drop)
    }

    /// Adds permits, or takes some away: then less than none may be free for a while.
    ///
    /// A question that we repeat because its answer was lost counts once. A second call adds
    /// again, also after [`Error::Unavailable`], after which it may have happened.
    ///
    /// # Errors
    ///
    /// As [`available`](Self::available); [`Error::Refused`], too, if more would be free, or
    /// fewer, than Java can count.
    ///
    /// # Cancel safety
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// permits.add(-1).await?;
    /// assert_eq!(permits.available().await?, 2);
    /// # Ok(()) }
    /// ```
    pub async fn add(&self, count: i32) -> Result<()> {
        self.change(Change::Add(count.into())).await.map(drop)
    }

    /// How many permits are free now. Those whose lease is over are.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [question timeout](crate::ClientBuilder::question_timeout);
    /// [`Error::NotReady`], [`Error::Forbidden`],
    /// [`Error::Refused`] and [`Error::WrongType`] as
    /// it says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert_eq!(permits.available().await?, 2);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub async fn available(&self) -> Result<i64> {
        Ok(self.counts().await?.free)
    }

    /// How many permits are held now, by anybody.
    ///
    /// # Errors
    ///
    /// As [`available`](Self::available).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert_eq!(permits.acquired().await?, 1);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub async fn acquired(&self) -> Result<i64> {
        Ok(self.counts().await?.held)
    }

    /// How many permits there are, free and held: 0 if nobody has said so.
    ///
    /// # Errors
    ///
    /// As [`available`](Self::available).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert_eq!(permits.total().await?, 3);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub async fn total(&self) -> Result<i64> {
        let Counts { free, held, set } = self.counts().await?;
        Ok(if set { free + held } else { 0 })
    }
}

/// Permits that are held elsewhere, by their ids.
impl Permits {
    /// Takes this permit from whoever holds it, and wakes a waiter. Returns whether it was held.
    ///
    /// Its holder goes on working until it notices, at its next renewal.
    ///
    /// # Errors
    ///
    /// As [`available`](Self::available).
    ///
    /// # Cancel safety
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// let id = guard.ids()[0];
    /// assert!(permits.release_id(id).await?);
    /// assert!(!permits.release_id(id).await?);
    /// # Ok(()) }
    /// ```
    pub async fn release_id(&self, id: PermitId) -> Result<bool> {
        Ok(self.change(Change::Release(id)).await? == 1)
    }

    /// Has this permit last for so long from now on at least. Returns whether it is held.
    ///
    /// It never gets shorter, since its holder believes in it: to take a permit away there is
    /// [`release_id`](Self::release_id). What its holder renews has its own ttl again after that.
    ///
    /// # Errors
    ///
    /// As [`available`](Self::available), and [`Error::Duration`].
    ///
    /// # Cancel safety
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// use std::time::Duration;
    /// let guard = permits.acquire().await?;
    /// assert!(permits.update_lease(guard.ids()[0], Duration::from_secs(60)).await?);
    /// # Ok(()) }
    /// ```
    pub async fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool> {
        let lease = checked("lease", lease)?;
        Ok(self.time_left(id, Some(lease)).await?.is_some())
    }

    /// How long this permit is somebody's without a renewal: `None` if it is nobody's, and
    /// [`Duration::MAX`] if Java holds it without a lease.
    ///
    /// # Errors
    ///
    /// As [`available`](Self::available).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// let left = permits.lease_of(guard.ids()[0]).await?;
    /// assert!(left.is_some_and(|left| left.as_secs() >= 29));
    /// # Ok(()) }
    /// ```
    pub async fn lease_of(&self, id: PermitId) -> Result<Option<Duration>> {
        self.time_left(id, None).await
    }

    async fn time_left(&self, id: PermitId, lease: Option<Duration>) -> Result<Option<Duration>> {
        let name = self.name();
        self.engine.ask(name, |store| permits::lease(store, name, id, lease)).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.engine.ask(self.name(), |store| permits::count(store, self.name())).await
    }

    async fn change(&self, change: Change) -> Result<i64> {
        let (name, receipt) = (self.name(), self.engine.receipt());
        self.engine.change(name, |store| permits::change(store, name, change, &receipt)).await
    }
}

/// Proof that permits were granted, and the way to give them back.
///
/// Dropping the guard gives them back **soon**, in the background, where an error can only be
/// logged. Call [`release`](Self::release) to give them back now and to learn whether they were
/// still held.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::in_memory();
/// # let permits = client.permits("printers")?;
/// # permits.set(3).await?;
/// let guard = permits.acquire_many(2).await?;
/// assert_eq!(guard.release().await?, leasehold::Release::Released);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the permits are given back as soon as the guard is dropped"]
pub struct PermitsGuard {
    held: Held,
    on_loss: OnLoss,
}

impl PermitsGuard {
    #[cfg(test)]
    pub(crate) fn watch(&self) -> Watch {
        self.held.watch.clone()
    }

    /// Gives the permits back, and tells whether all of them were still ours.
    ///
    /// That they were not is an answer and no error: [`Release::done`] makes it one. Then those that
    /// were left are free all the same.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [release timeout](crate::ClientBuilder::release_timeout): the release goes on in the
    /// background, and the lease ends by itself. [`Error::NotReady`], [`Error::Forbidden`] and
    /// [`Error::Refused`] if the store refused.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the release: it goes on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// permits.release_id(guard.ids()[0]).await?;
    /// assert!(guard.release().await?.done().is_err());
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<Release> {
        let name = self.name().clone();
        Ok(match self.held.release().await? {
            Left::Shares(count) => Release::StillHeld { count },
            Left::Nothing => Release::Released,
            Left::Lost { reason, holder } => Release::AlreadyGone { name, reason, holder },
        })
    }

    /// Runs `work` under these permits, and gives them back.
    ///
    /// As [`LockGuard::run`](crate::LockGuard::run): work whose permits are lost stops, as
    /// [`on_loss`](Permits::on_loss) says.
    ///
    /// # Cancel safety
    ///
    /// As [`Permits::run`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire_many(2).await?;
    /// assert_eq!(guard.run(async |_held| 6 * 7).await.done()?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, W, F>(self, work: W) -> Ran<T>
    where
        W: FnOnce(Holding) -> F,
        F: Future<Output = T>,
    {
        run::run(self.held, self.on_loss, work).await
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn holding(&self) -> Holding {
        Holding::new(self.held.watch.clone())
    }

    #[cfg(feature = "blocking")]
    pub(crate) async fn release_after_run(self) -> Option<LostReason> {
        run::release_after_run(self.held).await
    }

    /// Waits until the hold is over, and tells why. The future borrows nothing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// let lost = guard.lost();
    /// guard.release().await?.done()?;
    /// assert_eq!(lost.await, leasehold::LostReason::Released);
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.held.watch.clone().over()
    }

    /// The ids of these permits.
    ///
    /// Whoever has seen them may act by them later. So permits whose ids or
    /// [`owner`](Self::owner) were asked for go back to the store, and to no other task here:
    /// when they are given back, their ids are nobody's for ever.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert_eq!(guard.ids().len(), 1);
    /// assert_eq!(guard.ids()[0].to_string().len(), 32);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn ids(&self) -> Vec<PermitId> {
        self.held.watch.note_more();
        let Claim { owner, share, .. } = self.held.watch.claim();
        permits_of(owner, *share).collect()
    }

    /// How many permits these are.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert_eq!(guard.permits(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.held.watch.claim().units()
    }

    /// Whether the permits may still be believed to be ours. Reads a clock, asks nobody; once
    /// `false` it stays `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert!(guard.is_held());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.remaining().is_some()
    }

    /// How long the permits are ours without another renewal. `None` when they are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert!(guard.remaining().unwrap().as_secs() >= 28);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.held.watch.remaining().ok()
    }

    /// Who holds: unique to this grant. After a hand-over within the process it is the owner of
    /// the hold before, which nobody has asked for: the [ids](Self::ids) are made of it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert!(guard.owner().as_str().starts_with(client.id()));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.held.watch.note_more();
        &self.held.watch.claim().owner
    }

    /// What is held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::in_memory();
    /// # let permits = client.permits("printers")?;
    /// # permits.set(3).await?;
    /// let guard = permits.acquire().await?;
    /// assert_eq!(guard.name().as_str(), "printers");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &Name {
        self.held.watch.claim().name()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Client, MemoryStore};

    #[tokio::test(start_paused = true)]
    async fn what_somebody_has_seen_the_id_of_goes_to_no_task_here() {
        for (seen, handed_over) in [(false, 1), (true, 0)] {
            let client = Client::sharing(&MemoryStore::new());
            let permits = client.permits("printers").unwrap();
            permits.set(1).await.unwrap();
            let guard = permits.acquire().await.unwrap();
            let waiting = tokio::spawn(async move { permits.acquire().await });
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            if seen {
                assert_eq!(guard.ids().len(), 1);
            }
            guard.release().await.unwrap().done().unwrap();
            drop(waiting.await.unwrap().unwrap());
            assert_eq!(client.stats().handed_over, handed_over);
        }
    }
}
