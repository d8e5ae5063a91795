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

/// The maximum length of a leader's value in bytes. Each observer reads the value, and a client
/// closes its connection if a reply is much longer than this.
const MOST_VALUE: usize = 64 * 1024;

/// An election, in which at most one candidate leads at a time.
///
/// An `Election` contains a name and settings, so creating an `Election` sends no request. The
/// leader holds the [`FencedLock`] of the same name. The token of this hold is the term of the
/// leader. A Redisson client can take part: if it locks the `RFencedLock` of the same name, it
/// leads, but publishes no value.
///
/// The candidates wait for this lock. When the leader steps down, the next candidate acquires the
/// lock, and leads. If the leader dies, the lock is free after at most the [`ttl`](Self::ttl).
///
/// **If a leader was paused, it may work for a moment after another candidate has become the
/// leader.** So send the [`term`](Leadership::term) with each write, to a receiver that rejects
/// lower terms: see [the guide](crate::docs::guide::correctness#fencing).
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
        // Each term needs a new grant. After a hand-off, the new leader would have the owner of the
        // previous leader, so the record of the previous leader in Redis would seem valid.
        let never = LocalHandoff { most: 0, time: Duration::ZERO };
        let lock = Lock::new(engine, object, ttl).with(|settings| settings.local_handoff = never);
        Self { lock: lock.with_tokens() }
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        Self { lock: self.lock.with(change) }
    }

    /// Sets how long a dead leader still counts as the leader. Default: the `ttl` of the client,
    /// which is 30 s by default.
    ///
    /// A background task renews the lease after every third of this time. If the renewals fail, the
    /// leader notices the loss before its lease ends in the store.
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

/// Returns the value of a candidate, or an error if it is too long.
fn checked_value(name: &Name, value: impl Into<String>) -> Result<String> {
    let value = value.into();
    match value.len() > MOST_VALUE {
        true => {
            let (name, what) = (name.clone(), "value".to_owned());
            Err(Error::ValueTooLong { name, what, most: MOST_VALUE })
        }
        false => Ok(value),
    }
}

/// Methods of a candidate.
impl Election {
    /// Waits until this candidate leads, and publishes `value`, for example its address.
    ///
    /// While the store is unreachable, the call waits and retries. Keep the value small.
    ///
    /// # Errors
    ///
    /// As for [`Lock::acquire`]. [`Error::ValueTooLong`] before the candidate waits. If the candidate
    /// wins but cannot publish its value, it steps down, and the call returns the error of
    /// [`proclaim`](Leadership::proclaim).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the candidate leaves the election. If the candidate has just won,
    /// a background task makes it step down.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "assert_eq!(leadership.term(), 1);")]
    pub async fn campaign(&self, value: impl Into<String>) -> Result<Leadership> {
        let value = checked_value(self.name(), value)?;
        Leadership::begin(self.lock.acquire().await?, value).await
    }

    /// Does what [`campaign`](Self::campaign) does, but waits for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if another candidate led until the timeout, or until too little time was
    /// left to publish the value. Other errors as for [`Lock::acquire_within`] and
    /// [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    ///
    /// As for [`campaign`](Self::campaign).
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "let other = election.campaign_within(\"10.0.0.2:8080\", Duration::from_secs(5)).await;",
        "assert!(other.is_err_and(|error| error.is_busy()));")]
    pub async fn campaign_within(
        &self,
        value: impl Into<String>,
        timeout: Duration,
    ) -> Result<Leadership> {
        let (value, since) = (checked_value(self.name(), value)?, Instant::now());
        let guard = self.lock.acquire_in_time(checked_timeout(timeout)?).await?;
        let limit = timeout.saturating_sub(since.elapsed());
        let begun = tokio::time::timeout(limit, Leadership::begin(guard, value)).await;
        begun.unwrap_or_else(|_| Err(self.unpublished(limit, since.elapsed())))
    }

    /// Returns the error for a candidate that won, but could not publish its value. `rest` is the
    /// part of the timeout that was left when the candidate won.
    fn unpublished(&self, rest: Duration, waited: Duration) -> Error {
        let name = self.name().clone();
        if rest < SILENCE {
            // The candidate won so late that even a healthy store may not have replied within
            // `rest`.
            return Error::timed_out(name, waited);
        }
        Error::silent(name, format!("no reply within {rest:?}"))
    }

    /// Becomes the leader if there is no leader now. Otherwise returns `None`.
    ///
    /// # Errors
    ///
    /// As for [`Lock::try_acquire`] and [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    ///
    /// As for [`campaign`](Self::campaign).
    #[doc = example!(election:
        "let leadership = election.try_campaign(\"10.0.0.1:8080\").await?;",
        "assert!(leadership.is_some());",
        "assert!(election.try_campaign(\"10.0.0.2:8080\").await?.is_none());")]
    pub async fn try_campaign(&self, value: impl Into<String>) -> Result<Option<Leadership>> {
        let value = checked_value(self.name(), value)?;
        match self.lock.try_acquire().await? {
            Some(guard) => Leadership::begin(guard, value).await.map(Some),
            None => Ok(None),
        }
    }

    /// Waits until this candidate leads, runs `work` once, steps down, and returns the work's
    /// result.
    ///
    /// If the call returns the result of the work, this candidate led while the work ran. The
    /// client concludes this from its clock and from the last reply of the store. If the leadership
    /// is lost, [`on_loss`](Self::on_loss) decides how the work stops. The work can read the term
    /// by [`LockContext::token`].
    ///
    /// # Errors
    ///
    /// As for [`campaign`](Self::campaign). If one of these errors occurs, the work did not start.
    /// [`Error::Lost`], with the reason, if the leadership was lost while the work ran. To campaign
    /// again, call `lead` again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the work is dropped at its current await, and the leader steps
    /// down in the background.
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

/// Methods that look up the leader.
impl Election {
    /// Returns the leader at the moment of the store's reply.
    ///
    /// The call never returns the value of a leader that has lost the lock. A release may reserve
    /// the lock for a candidate, for at most 750 ms. During this time, the call returns this
    /// candidate as the leader, without a value.
    ///
    /// # Errors
    ///
    /// As for [`Lock::holder`].
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

    /// Returns an observer. Its first result is the current leader.
    ///
    /// # Errors
    ///
    /// [`Error::ShutDown`] if the client was shut down, and [`Error::NoRuntime`] outside of tokio.
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

/// The proof that this candidate leads. If this value is dropped, the leader steps down.
///
/// After a drop, a background task makes the leader step down **soon**. If this fails, the task can
/// only log the error. To step down now, end the work of the leader, then call
/// [`step_down`](Self::step_down).
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
    /// Publishes the value of a new leader. If the publication fails, the function drops the guard,
    /// so the leader steps down.
    async fn begin(guard: FencedGuard, value: String) -> Result<Self> {
        let leadership = Self { guard };
        leadership.proclaim(value).await?;
        Ok(leadership)
    }

    /// Returns the term, which is the fencing token of this leader.
    ///
    /// The term is greater than the term of every earlier leader, as long as Redis keeps the
    /// counter of tokens. Send the term with each write.
    ///
    /// If Redis loses its data, the terms start again at 1. To repair the counter, find the highest
    /// term that a receiver has accepted, and pass this term to
    /// [`raise_token`](crate::FencedLock::raise_token). For example,
    /// `client.fenced_lock("scheduler")?.raise_token(41).await?` makes the next term 42.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "let term = leadership.term();",
        "leadership.step_down().await?.into_result()?;",
        "assert!(election.campaign(\"10.0.0.1:8080\").await?.term() > term);")]
    #[must_use]
    pub fn term(&self) -> u64 {
        self.guard.token()
    }

    /// Publishes another value, if this candidate is still the leader **in the store**.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if this candidate no longer leads. In this case, nothing was published.
    /// [`Error::ValueTooLong`] if the value is longer than 64 KiB. [`Error::Unavailable`] if the
    /// store did not reply within the [request timeout](crate::ClientBuilder::request_timeout). In
    /// this case, the value may have been published, or may be published later in this term.
    /// [`Error::NotReady`], [`Error::Forbidden`] and [`Error::Refused`] if the store rejects the
    /// request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the value may or may not have been published.
    #[doc = example!(election:
        "let leadership = election.campaign(\"starting\").await?;",
        "leadership.proclaim(\"ready\").await?;",
        "let leader = election.leader().await?;",
        "assert_eq!(leader.as_ref().and_then(|it| it.value()), Some(\"ready\"));")]
    pub async fn proclaim(&self, value: impl Into<String>) -> Result<()> {
        let value = checked_value(self.guard.name(), value)?;
        let (watch, term) = (self.guard.watch(), self.term());
        let proclaim = |store| election::proclaim(store, watch.claim(), term, &value);
        watch.change(proclaim).await
    }

    /// Steps down, and returns whether this candidate led until this call.
    ///
    /// End the work of the leader before this call, because the next candidate leads at once.
    ///
    /// # Errors
    ///
    /// As for [`Guard::release`](crate::Guard::release).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the step-down continues in the background.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "assert_eq!(leadership.step_down().await?, leasehold::Release::Released);",
        "assert!(election.leader().await?.is_none());")]
    pub async fn step_down(self) -> Result<Release> {
        self.guard.release().await
    }

    /// Runs `work` as the leader, steps down, and returns the outcome.
    ///
    /// If the leadership is lost, [`Election::on_loss`] decides how the work stops. If the work
    /// panics, the leader steps down, and the panic continues.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the work is dropped at its current await, and the leader steps
    /// down in the background.
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

    /// Waits until this candidate no longer leads, and returns the reason.
    ///
    /// If the store does not reply to the renewals, the future returns before the lease ends in the
    /// store. The future does not borrow `self`. After a step-down, the future returns
    /// [`LostReason::Released`].
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
    /// The call reads a clock and sends no request. After a result of `false`, all later results
    /// are `false`, too.
    #[doc = example!(election:
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "assert!(leadership.is_leader());")]
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns a view of the leader's hold, for checks and guarded writes.
    #[doc = example!(election:
        "use leasehold::Write;",
        "let leadership = election.campaign(\"10.0.0.1:8080\").await?;",
        "leadership.context().write([Write::set(\"plan\", \"1\")]).await?;")]
    #[must_use]
    pub fn context(&self) -> LockContext {
        LockContext::new(self.guard.watch().clone())
    }

    /// Returns the owner of the leader's hold. No other term has the same owner.
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

/// An observer of an election. It returns the leaders one after the other.
///
/// If the leaders change quickly, the observer may skip some of them, but it always returns the
/// newest leader: see [`next`](Self::next).
#[doc = example!(election:
    "let mut leaders = election.observe()?;",
    "match leaders.next().await? {",
    "    Some(leader) => println!(\"{:?} leads\", leader.value()),",
    "    None => println!(\"nobody leads\"),",
    "}")]
pub struct Observer {
    engine: Arc<Engine>,
    follower: Follower,
    /// The last result of `next`. `None` before the first call.
    seen: Option<Option<Leader>>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.follower.object().name;
        f.debug_struct("Observer").field("name", name).finish_non_exhaustive()
    }
}

impl Observer {
    /// Returns the leader. Each call except the first one waits until the leader has changed.
    ///
    /// A change is another leader, another value, or no leader (`None`). A pub/sub message
    /// announces most changes. A Redisson client that has won sends no message. If there is no
    /// message, or if the message is lost, the observer notices the change within 4 seconds. When
    /// the lease of a dead leader ends, the observer notices this end at once. While the store is
    /// unreachable, the call waits and retries.
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`], [`Error::Refused`] or [`Error::WrongType`] if the store rejects the
    /// request and a retry cannot help. [`Error::ShutDown`] if the client was shut down, and
    /// [`Error::NoRuntime`] outside of tokio. After an error, you may call `next` again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no change is lost, because the next call returns the change.
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

/// Returns the leader if it differs from `last`. Otherwise returns the time until the next request.
/// The next request is due when the lease of the leader may have ended.
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
    // The store rounds the lease down to the millisecond, so the lease may end a little later.
    Ok(Paced::After(lease + NEXT_TICK))
}
