//! The election: at most one leader at a time, which all clients can look up.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    FencedGuard, FencedLock, Lock, LockContext, OnLoss, Release, RunOutcome, example,
    settings::{Settings, checked_timeout, on_loss, replicated},
};
#[cfg(test)]
use crate::engine::held::Watch;
use crate::{
    domain::{Failure, Kind, Leader, LostReason, Name, Object, Owner, Replicas},
    engine::{
        Engine,
        acquire::{SILENCE, following::Follower, pacing::Paced},
        grant::LocalHandoff,
        timing::{LONGEST_TIMEOUT, LONGEST_WAIT, NEXT_TICK},
    },
    error::{Error, Result},
    store::{RedisStore, election},
};

/// The greatest length of the value of a leader, in bytes. A reply that is much longer would end the
/// connection of each observer.
const MOST_VALUE: usize = 64 * 1024;

/// An election: at most one of all candidates leads at a time.
///
/// An `Election` is a name and some settings. Creating one costs nothing and sends no request. The
/// leader holds the [`FencedLock`] of that name, and each term has its token. Java's Redisson takes
/// part by locking the `RFencedLock` of that name: it then leads without a value.
///
/// Candidates wait as for a lock. When the leader steps down, the next one leads as soon as it has
/// acquired the lock. If the leader dies, this takes at most its [`ttl`](Self::ttl).
///
/// **A leader that was paused may still work for a moment while the next one leads.** Send the
/// [`term`](Leadership::term) with each write, to a receiver that rejects lower ones: see [the
/// guide](crate::docs::guide::correctness#fencing).
#[doc = example!(election:
    "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
    "// … the work of the leader …",
    "leadership.step_down().await?.into_result()?;")]
#[derive(Clone)]
pub struct Election {
    lock: FencedLock,
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("name", self.name()).finish_non_exhaustive()
    }
}

impl Election {
    pub(crate) fn new(engine: Arc<Engine>, name: Name, ttl: Duration) -> Self {
        let object = Object::new(Kind::Election, name);
        // Each term needs a new grant: a hand-off would keep the owner, and with it the record of
        // the previous leader.
        let never = LocalHandoff { most: 0, time: Duration::ZERO };
        let lock = Lock::new(engine, object, ttl).with(|settings| settings.local_handoff = never);
        Self { lock: lock.with_tokens() }
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        Self { lock: self.lock.with(change) }
    }

    /// Sets how long a dead leader still counts. Default: that of the client, 30 s.
    ///
    /// A background task renews the lease every third of this time. A leader that cannot renew it
    /// stops before its lease ends in the store.
    #[doc = example!(election: "let election = election.ttl(Duration::from_secs(10));")]
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|settings| settings.ttl = ttl)
    }

    replicated!("leasehold::Client", "election", |this, replicas| {
        this.with(|settings| settings.replicas = replicas)
    });
    on_loss!("election", lead);

    /// Returns the name of the election.
    #[doc = example!(election: "assert_eq!(election.name().as_str(), \"scheduler\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.lock.name()
    }
}

/// Candidacy.
impl Election {
    /// Waits until this candidate leads, and publishes `value`, such as its address.
    ///
    /// It also waits while the store is unreachable. Keep the value small.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`]. If the value cannot be published, the candidate steps down, and the
    /// error of [`proclaim`](Leadership::proclaim) is returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the election. If it was just won, a background task steps down.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "assert_eq!(leadership.term(), 1);")]
    pub async fn campaign(&self, value: impl Into<String>) -> Result<Leadership> {
        Leadership::begin(self.lock.acquire().await?, value.into()).await
    }

    /// Does what [`campaign`](Self::campaign) does, but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if another one still leads, or led until the last moment. Others as [`Lock::acquire_within`] and
    /// [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "let other = election.campaign_within(\"10.0.0.2:8080\", Duration::from_secs(5)).await;",
        "assert!(other.is_err_and(|error| error.is_busy()));")]
    pub async fn campaign_within(
        &self,
        value: impl Into<String>,
        timeout: Duration,
    ) -> Result<Leadership> {
        let since = Instant::now();
        let guard = self.lock.acquire_in_time(checked_timeout(timeout)?).await?;
        let limit = timeout.saturating_sub(since.elapsed());
        let begun = tokio::time::timeout(limit, Leadership::begin(guard, value.into())).await;
        begun.unwrap_or_else(|_| Err(self.unpublished(limit, since.elapsed())))
    }

    /// The error of a candidate that won, and could not publish its value in the rest of its
    /// timeout.
    fn unpublished(&self, rest: Duration, waited: Duration) -> Error {
        let name = self.name().clone();
        if rest < SILENCE {
            // It won too late. The store may well have replied in time.
            return Error::timed_out(name, waited);
        }
        Error::silent(name, format!("no reply within {rest:?}"))
    }

    /// Leads if there is no leader now, and returns `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`] and [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    #[doc = example!(election:
        "let leadership = election.try_campaign(\"10.0.0.1:8080\").await?;",
        "assert!(leadership.is_some());",
        "assert!(election.try_campaign(\"10.0.0.2:8080\").await?.is_none());")]
    pub async fn try_campaign(&self, value: impl Into<String>) -> Result<Option<Leadership>> {
        match self.lock.try_acquire().await? {
            Some(guard) => Leadership::begin(guard, value.into()).await.map(Some),
            None => Ok(None),
        }
    }

    /// Waits until this candidate leads, runs `work` once, steps down, and returns its result.
    ///
    /// The result proves that it led from beginning to end, by this client's clock and the last
    /// reply of the store. If the leadership is lost, the work stops as [`on_loss`](Self::on_loss)
    /// says. The work reads its term by [`LockContext::token`].
    ///
    /// # Errors
    ///
    /// As [`campaign`](Self::campaign); then the work did not start. [`Error::Lost`], with the
    /// reason, if the leadership was lost while it ran. Call it again to campaign again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it stands and steps down in the background.
    #[doc = example!(election:
        "let term = election.lead(\"10.0.0.1:8080\", async |held| held.token()).await?;",
        "assert_eq!(term, Some(1));")]
    pub async fn lead<T, W, F>(&self, value: impl Into<String>, work: W) -> Result<T>
    where
        W: FnOnce(LockContext) -> F,
        F: Future<Output = T>,
    {
        self.campaign(value).await?.run(work).await.into_result()
    }
}

/// Looking up the leader.
impl Election {
    /// Returns the leader.
    ///
    /// It led at the moment of the reply. A record of a leader that has lost the lock is never
    /// returned. A candidate for whom a release has reserved the lock, for at most 750 ms, is
    /// returned without a value.
    ///
    /// # Errors
    ///
    /// As [`Lock::holder`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(election:
        "assert!(election.leader().await?.is_none());",
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "let leader = election.leader().await?;",
        "assert_eq!(leader.as_ref().and_then(|it| it.value()), Some(\"10.0.0.1:8080\"));")]
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let name = self.name();
        self.lock.engine.ask(name, |store| election::leader(store, name)).await
    }

    /// Returns an observer, which starts with the present leader.
    ///
    /// # Errors
    ///
    /// [`Error::ShutDown`], and [`Error::NoRuntime`] outside of tokio.
    #[doc = example!(election:
        "let mut leaders = election.observe()?;",
        "assert!(leaders.next().await?.is_none());",
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "assert!(leaders.next().await?.is_some());")]
    pub fn observe(&self) -> Result<Observer> {
        let engine = Arc::clone(&self.lock.engine);
        let follower = engine.follow(self.lock.object())?;
        Ok(Observer { engine, follower, seen: None })
    }
}

/// The proof that this candidate leads. Dropping it steps down.
///
/// Dropping it steps down **soon**, in a background task that can only log an error. Call
/// [`step_down`](Self::step_down) to step down now, after the work of the leader has ended.
#[doc = example!(election:
    "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
    "tokio::select! {",
    "    reason = leadership.lost() => eprintln!(\"stop: {reason}\"),",
    "    () = std::future::ready(()) => {} // the work of the leader",
    "}",
    "leadership.step_down().await?.into_result()?;")]
#[derive(Debug)]
#[must_use = "the leader steps down as soon as this is dropped"]
pub struct Leadership {
    guard: FencedGuard,
}

impl Leadership {
    /// Publishes the value of a new leader. If this fails, the guard is dropped, which steps down.
    async fn begin(guard: FencedGuard, value: String) -> Result<Self> {
        let leadership = Self { guard };
        leadership.proclaim(value).await?;
        Ok(leadership)
    }

    /// Returns the term: the fencing token of this leader.
    ///
    /// It is greater than that of every earlier leader, as long as Redis keeps the counter. Send it
    /// with each write.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "let term = leadership.term();",
        "leadership.step_down().await?.into_result()?;",
        "assert!(election.campaign(\"10.0.0.1:8080\").await?.term() > term);")]
    #[must_use]
    pub fn term(&self) -> u64 {
        self.guard.token()
    }

    /// Publishes another value, if this candidate still leads **in the store**.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it does not; nothing was written. [`Error::ValueTooLong`] for more than
    /// 64 KiB. [`Error::Unavailable`] if the store did not answer within the [request
    /// timeout](crate::ClientBuilder::request_timeout): then the value may have been published, or
    /// may still be during this term. [`Error::NotReady`], [`Error::Forbidden`] and
    /// [`Error::Refused`] if the store rejects the request.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(election:
        "let leadership = election.campaign(\"starting\").await?;",
        "leadership.proclaim(\"ready\").await?;",
        "let leader = election.leader().await?;",
        "assert_eq!(leader.as_ref().and_then(|it| it.value()), Some(\"ready\"));")]
    pub async fn proclaim(&self, value: impl Into<String>) -> Result<()> {
        let (watch, term, value) = (self.guard.watch(), self.term(), value.into());
        if value.len() > MOST_VALUE {
            return Err(Error::ValueTooLong { name: self.guard.name().clone(), most: MOST_VALUE });
        }
        let proclaim = |store| election::proclaim(store, watch.claim(), term, &value);
        watch.change(proclaim).await
    }

    /// Steps down, and returns whether this candidate still led. End the work of the leader before.
    ///
    /// The next candidate leads at once.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`](crate::Guard::release).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo it: the request continues in the background.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "assert_eq!(leadership.step_down().await?, leasehold::Release::Released);",
        "assert!(election.leader().await?.is_none());")]
    pub async fn step_down(self) -> Result<Release> {
        self.guard.release().await
    }

    /// Runs `work` as the leader, steps down, and returns everything that happened.
    ///
    /// If the leadership is lost, the work stops as [`Election::on_loss`] says. A panic of the work
    /// steps down, and then continues.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it stands and steps down in the background.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "let sum = leadership.run(async |_held| (1..=4).sum::<i32>()).await.into_result()?;",
        "assert_eq!(sum, 10);")]
    pub async fn run<T, W, F>(self, work: W) -> RunOutcome<T>
    where
        W: FnOnce(LockContext) -> F,
        F: Future<Output = T>,
    {
        self.guard.run(work).await
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn into_guard(self) -> FencedGuard {
        self.guard
    }

    #[cfg(test)]
    pub(crate) fn watch(&self) -> &Watch {
        self.guard.watch()
    }

    /// Waits until this candidate no longer leads, and returns why.
    ///
    /// If the store does not reply, it returns before the lease ends in the store. The future
    /// borrows nothing. After a step-down it returns [`LostReason::Released`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "let lost = leadership.lost();",
        "leadership.step_down().await?.into_result()?;",
        "assert_eq!(lost.await, leasehold::LostReason::Released);")]
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.guard.lost()
    }

    /// Returns whether this client may still act as the leader.
    ///
    /// It reads a clock and sends no request. Once `false`, it stays `false`.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "assert!(leadership.is_leader());")]
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the hold of the leader, for checks and guarded writes.
    #[doc = example!(election:
        "use leasehold::Write;",
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "leadership.context().write([Write::set(\"plan\", \"1\")]).await?;")]
    #[must_use]
    pub fn context(&self) -> LockContext {
        LockContext::new(self.guard.watch().clone())
    }

    /// Returns the owner of the hold, which is unique to this term.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "let leader = election.leader().await?;",
        "assert!(leader.is_some_and(|it| it.owner() == leadership.owner()));")]
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.guard.owner()
    }

    /// Returns the name of the election.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "assert_eq!(leadership.name().as_str(), \"scheduler\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.guard.name()
    }
}

/// An observer of an election, which returns its leaders one after the other.
///
/// It may skip leaders, and always ends at the newest one: see [`next`](Self::next).
#[doc = example!(election:
    "let mut leaders = election.observe()?;",
    "match leaders.next().await? {",
    "    Some(leader) => println!(\"{:?} leads\", leader.value()),",
    "    None => println!(\"nobody leads\"),",
    "}")]
pub struct Observer {
    engine: Arc<Engine>,
    follower: Follower,
    /// The last result.
    seen: Option<Option<Leader>>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.follower.object().name;
        f.debug_struct("Observer").field("name", name).finish_non_exhaustive()
    }
}

impl Observer {
    /// Returns the leader at the first call, and at each further call waits for a change.
    ///
    /// A change is another leader, another value, or no leader (`None`). A message announces it. If
    /// the message is lost, or a Redisson client has won, the observer notices this within 4
    /// seconds. It notices the end of a dead leader's lease at once. It also waits while the store
    /// is unreachable.
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`], [`Error::Refused`] or [`Error::WrongType`] if the store rejects the
    /// request for good. [`Error::ShutDown`], and [`Error::NoRuntime`] outside of tokio. It can be
    /// called again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future misses nothing: the next call returns the change.
    #[doc = example!(election:
        "let mut leaders = election.observe()?;",
        "assert!(leaders.next().await?.is_none());",
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "let leader = leaders.next().await?;",
        "assert!(leader.is_some_and(|it| it.owner() == leadership.owner()));")]
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        let Self { engine, follower, seen } = self;
        let name = follower.object().name.clone();
        let last = seen.as_ref();
        let ask = |store| change(store, &name, last);
        let leader = engine.follow_up(follower, LONGEST_TIMEOUT, ask).await?;
        *seen = Some(leader.clone());
        Ok(leader)
    }
}

/// Returns the leader if it is not the last one, or when its lease may end.
async fn change(
    store: &RedisStore,
    name: &Name,
    last: Option<&Option<Leader>>,
) -> Result<Paced<Option<Leader>>, Failure> {
    let leader = election::leader(store, name).await?;
    if last != Some(&leader) {
        return Ok(Paced::Now(leader));
    }
    let lease = leader.and_then(|it| it.remaining()).unwrap_or(LONGEST_WAIT);
    // A reply is rounded down to the millisecond.
    Ok(Paced::After(lease + NEXT_TICK))
}
