//! The multi-lock: several locks, of which all are held or none.
//!
//! It consists of the locks and the guards of its members, and has no keys. Each member is granted,
//! renewed, handed off and released like any other lock.
//!
//! An acquisition tries all missing members at once. Then it waits for the first busy one, in the
//! order of their names:
//!
//! - at first it keeps only the members before the busy one in that order. It does so as long as
//!   the holder of the busy one changes, because then the queue moves;
//! - when a check finds the same holder as before, or after the last check, it holds no member
//!   until the busy one is granted.
//!
//! So multi-locks never wait for each other in a circle. Redisson's multi-locks and nested locks
//! may acquire in another order, and wait for this multi-lock in a circle. Then the holder of the
//! busy member does not change, so the multi-lock releases its members.
//!
//! A silent server must not keep others from the free members. If it has not replied for half a
//! second after another member was granted, the multi-lock holds no member while it waits for it.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::{
    future::{join_all, select_all},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    Lock, LockContext, LockGuard, OnLoss, Release, RunOutcome, example,
    run::{self, Loss, release_after_run},
    settings::checked_timeout,
};
use crate::{
    domain::{Holder, LostReason, Name, spread},
    engine::{
        acquire::Deadline,
        timing::{HOLDER_LOOK_RESTS, HOLDER_LOOKS, MEMBER_SILENCE},
    },
    error::{Error, Result},
};

/// Several locks that are acquired together: all of them are held, or none.
///
/// A member is any [`Lock`], with or without tokens, or a side of a
/// [`ReadWriteLock`](crate::ReadWriteLock). They may belong to several clients and servers. Each
/// keeps its own settings. A fixed lease begins when its member is granted.
///
/// Each member is an ordinary lock in Redis: other tasks, processes and Redisson clients may
/// acquire it alone, or with others. If all members are free, acquiring takes one round trip. **Two
/// multi-locks never deadlock**, whatever the order of their members. While one waits for a busy
/// member, it keeps others only as long as the holder of the busy one changes, and for at most ten
/// seconds. So if another client holds one member and waits for another one, as Redisson's
/// `getMultiLock` may do, it acquires that one as well.
///
/// **It may starve.** It queues for one member at a time. If other clients repeatedly acquire
/// single members, it waits longer than they do. If they hold them for longer than 0.25 s, it may
/// wait without a bound.
///
/// Members of several clients of the **same** server must have different names: the multi-lock
/// would wait for itself. It is not reentrant, like [`Lock`].
#[doc = example!(both:
    "let guard = both.acquire().await?;",
    "assert!(client.lock(\"to\")?.try_acquire().await?.is_none());",
    "guard.release().await.into_result()?;",
    "",
    "// If one member is lost, the work is stopped:",
    "both.run(async |_held| { /* move the money */ }).await?;")]
#[derive(Clone, Debug)]
pub struct MultiLock {
    /// In the order of their objects.
    members: Vec<Lock>,
    on_loss: OnLoss,
}

impl MultiLock {
    /// Makes a multi-lock of these locks. Sends no request.
    ///
    /// A lock that occurs twice is one member. [`Lock::from`] makes a member of a
    /// [`FencedLock`](crate::FencedLock).
    ///
    /// # Errors
    ///
    /// [`Error::NoMembers`] if there is none. [`Error::ConflictingMembers`] if two members of one
    /// client have the same name and exclude each other.
    #[doc = example!("":
        "use leasehold::{Lock, MultiLock};",
        "let stock = client.read_write_lock(\"stock\")?;",
        "let order = client.fenced_lock(\"orders:42\")?;",
        "let all = MultiLock::new([stock.read(), Lock::from(order)])?;",
        "let guard = all.acquire().await?;",
        "assert_eq!(guard.member(\"orders:42\").and_then(|order| order.token()), Some(1));")]
    pub fn new(members: impl IntoIterator<Item = impl Into<Lock>>) -> Result<Self> {
        let mut given: Vec<Lock> = members.into_iter().map(Into::into).collect();
        // Of two locks with one name, the one with tokens stays.
        given.sort_by(|one, other| {
            one.object.cmp(&other.object).then(other.is_fenced().cmp(&one.is_fenced()))
        });
        let mut members: Vec<Lock> = vec![];
        for lock in given {
            let mut same_name = members.iter().rev().take_while(|it| it.name() == lock.name());
            match same_name.find(|it| Arc::ptr_eq(&it.engine, &lock.engine)) {
                None => members.push(lock),
                Some(same) if same.object == lock.object => {}
                Some(_) => return Err(Error::ConflictingMembers { name: lock.name().clone() }),
            }
        }
        match members.is_empty() {
            true => Err(Error::NoMembers),
            false => Ok(Self { members, on_loss: OnLoss::default() }),
        }
    }

    /// Sets what [`run`](Self::run) does with work when a member is lost. Default: it cancels it.
    ///
    /// The setting of the same name of a member has no effect.
    #[doc = example!(both:
        "let both = both.on_loss(leasehold::OnLoss::GracePeriod(Duration::from_secs(2)));")]
    #[must_use]
    pub fn on_loss(self, on_loss: OnLoss) -> Self {
        Self { on_loss, ..self }
    }

    /// Acquires all members, waiting until they are free.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`], for the first member that has one. Then no member is held.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`]: a background task releases the members that were granted.
    #[doc = example!(both: "let guard = both.acquire().await?;")]
    pub async fn acquire(&self) -> Result<MultiGuard> {
        self.gather(None).await
    }

    /// Acquires all members, waiting for at most `timeout`.
    ///
    /// Whatever the network does, this returns by then.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire_within`]. [`Error::TimedOut`] names the member that it waited for. Then
    /// no member is held; those that were granted are released, in the background if the time is
    /// over.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[doc = example!(both:
        "let other = client.lock(\"to\")?.acquire().await?;",
        "let waited = both.acquire_within(Duration::from_secs(5)).await;",
        "assert!(matches!(waited, Err(leasehold::Error::TimedOut { name, .. }) if name.as_str() == \"to\"));")]
    pub async fn acquire_within(&self, timeout: Duration) -> Result<MultiGuard> {
        self.acquire_in_time(checked_timeout(timeout)?).await
    }

    /// Acquires with a timeout that began before.
    pub(crate) async fn acquire_in_time(&self, timeout: Deadline) -> Result<MultiGuard> {
        self.gather(Some(timeout)).await
    }

    /// Acquires all members if they are free now, and returns `None` if one is not.
    ///
    /// It sends one request for each member, all at once, and does not wait for a member. If it
    /// returns `None` or an error, it has released the members that were granted, or releases them
    /// in the background after the [release timeout](crate::ClientBuilder::release_timeout).
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`]. [`Error::Unavailable`] also if a server is silent for half a
    /// second after another member was granted.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[doc = example!(both:
        "let other = client.lock(\"to\")?.acquire().await?;",
        "assert!(both.try_acquire().await?.is_none());",
        "assert!(client.lock(\"from\")?.try_acquire().await?.is_some());")]
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut gathered = Gathered::none(&self.members);
        let Some(missing) = gathered.try_missing(None).await else {
            return Ok(Some(self.guard(gathered)));
        };
        gathered.release(None).await;
        missing.error.map_or(Ok(None), Err)
    }

    /// Acquires all members, runs `work` under them, releases them, and returns the work's result.
    ///
    /// As [`Lock::run`], for all members: if one is lost, the work stops as
    /// [`on_loss`](Self::on_loss) says.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); then the work did not start. [`Error::Lost`], with the name
    /// of the member and the reason, if one was lost while it ran.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it stands and releases in the background.
    #[doc = example!(both:
        "let sum = both.run(async |_held| (1..=4).sum::<i32>()).await?;",
        "assert_eq!(sum, 10);")]
    pub async fn run<T, W, F>(&self, work: W) -> Result<T>
    where
        W: FnOnce(MultiContext) -> F,
        F: Future<Output = T>,
    {
        self.acquire().await?.run(work).await.into_result()
    }

    async fn gather(&self, within: Option<Deadline>) -> Result<MultiGuard> {
        let mut gathered = Gathered::none(&self.members);
        match gathered.gather(within).await {
            Ok(()) => Ok(self.guard(gathered)),
            Err(error) => {
                gathered.release(within).await;
                Err(error)
            }
        }
    }

    fn guard(&self, gathered: Gathered<'_>) -> MultiGuard {
        let guards: Vec<LockGuard> = gathered.guards.into_iter().flatten().collect();
        let members = guards.iter().map(LockGuard::holding).collect();
        MultiGuard { guards, context: MultiContext { members }, on_loss: self.on_loss }
    }
}

impl Lock {
    fn is_fenced(&self) -> bool {
        self.settings.share.tokens() > 0
    }

    /// Waits for this member, for no longer than the caller.
    async fn wait(&self, within: Option<Deadline>) -> Result<LockGuard> {
        match within {
            Some(within) => self.acquire_in_time(within).await,
            None => self.acquire().await,
        }
    }

    /// Waits, for a limited time, until two requests in a row find the same holder, or one request
    /// has no reply within `silence`.
    async fn until_holder_is_stable(&self, silence: Duration) {
        let mut before = None;
        for _ in 0..HOLDER_LOOKS {
            let Ok(Ok(holder)) = timeout(silence, self.engine.holder(&self.object)).await else {
                return;
            };
            let owner = holder.as_ref().map(Holder::owner).cloned();
            if before.replace(owner.clone()) == Some(owner) {
                return;
            }
            sleep(spread(HOLDER_LOOK_RESTS)).await;
        }
    }
}

/// The members that an acquisition holds so far.
struct Gathered<'a> {
    members: &'a [Lock],
    guards: Vec<Option<LockGuard>>,
    /// How long a server may be silent while members are held.
    silence: Duration,
}

/// A member that could not be acquired at once, because it is busy or because of an error.
struct Missing {
    at: usize,
    error: Option<Error>,
}

impl Missing {
    /// Returns whether no wait for the member can succeed.
    fn is_final(&self) -> bool {
        self.error.as_ref().is_some_and(|error| !error.is_transient())
    }
}

impl<'a> Gathered<'a> {
    fn none(members: &'a [Lock]) -> Self {
        let guards = members.iter().map(|_| None).collect();
        Self { members, guards, silence: MEMBER_SILENCE }
    }

    /// Acquires all members, waiting for each busy one.
    async fn gather(&mut self, within: Option<Deadline>) -> Result<()> {
        while let Some(missing) = self.try_missing(within).await {
            match missing.error {
                Some(error) if !error.is_transient() => return Err(error),
                // If the error is permanent, the wait returns it.
                Some(_) => {
                    self.guards.fill_with(|| None);
                    self.wait_for(missing.at, within).await?;
                }
                None => self.wait_for(missing.at, within).await?,
            }
        }
        Ok(())
    }

    /// Tries all members that are not held, at once. Returns the one to wait for, or whose error
    /// ends the acquisition; or `None` once all are held at the same time.
    async fn try_missing(&mut self, within: Option<Deadline>) -> Option<Missing> {
        loop {
            // A member may have been lost while another one was tried or waited for.
            self.guards.iter_mut().for_each(|guard| drop(guard.take_if(|guard| !guard.is_held())));
            if self.guards.iter().all(Option::is_some) {
                return None;
            }
            let missing = self.try_once(within).await.into_iter();
            let first = missing.min_by_key(|missing| (!missing.is_final(), missing.at));
            if first.is_some() {
                return first;
            }
        }
    }

    /// Tries all members that are not held, at once. Returns those that could not be acquired.
    ///
    /// A silent server must not keep others from the members that are held. So from the first of
    /// these on, the others are tried for no longer than `silence`.
    async fn try_once(&mut self, within: Option<Deadline>) -> Vec<Missing> {
        let (members, mut missing) = (self.members, vec![]);
        let until = within.map(|within| within.until);
        let is_missing = |at: &usize| self.guards[*at].is_none();
        let mut tries: FuturesUnordered<_> = (0..members.len())
            .filter(is_missing)
            .map(|at| async move { (at, Box::pin(members[at].try_acquire_until(until)).await) })
            .collect();
        let mut ends = None;
        loop {
            if self.guards.iter().any(Option::is_some) {
                ends.get_or_insert_with(|| Instant::now() + self.silence);
            }
            let tried = match ends {
                Some(ends) => timeout_at(ends, tries.next()).await,
                None => Ok(tries.next().await),
            };
            match tried {
                Ok(Some((at, tried))) => missing.extend(self.note(at, tried)),
                Ok(None) => return missing,
                Err(_) => break,
            }
        }
        let known: Vec<_> = missing.iter().map(|it| it.at).collect();
        let silent =
            (0..members.len()).filter(|at| self.guards[*at].is_none() && !known.contains(at));
        missing.extend(silent.map(|at| self.silent(at)));
        // If all servers are equally slow, the attempts must not time out for ever.
        self.silence *= 2;
        missing
    }

    /// Keeps the member `at`, or returns it if it could not be acquired.
    fn note(&mut self, at: usize, tried: Result<Option<LockGuard>>) -> Option<Missing> {
        match tried {
            Ok(Some(guard)) => self.guards[at] = Some(guard),
            Ok(None) => return Some(Missing { at, error: None }),
            Err(error) => return Some(Missing { at, error: Some(error) }),
        }
        None
    }

    fn silent(&self, at: usize) -> Missing {
        let silence = self.silence;
        let reason = format!("no reply within {silence:?}, while other members were held");
        Missing { at, error: Some(Error::silent(self.members[at].name().clone(), reason)) }
    }

    /// Waits for the member `at`. Keeps only the members before it, and these only while its queue
    /// moves.
    async fn wait_for(&mut self, at: usize, within: Option<Deadline>) -> Result<()> {
        let member = &self.members[at];
        let mut wait = Box::pin(member.wait(within));
        self.guards[at..].fill_with(|| None);
        if self.guards.iter().any(Option::is_some) {
            tokio::select! {
                biased;
                waited = &mut wait => {
                    self.guards[at] = Some(waited?);
                    return Ok(());
                }
                () = member.until_holder_is_stable(self.silence) => self.guards.fill_with(|| None),
            }
        }
        self.guards[at] = Some(wait.await?);
        Ok(())
    }

    /// Releases the held members, and waits for that at most until the timeout of the caller.
    async fn release(self, within: Option<Deadline>) {
        // The results do not matter, because no work was done. A release that fails continues in
        // the background.
        let released = join_all(self.guards.into_iter().flatten().map(LockGuard::release));
        match within {
            Some(Deadline { until, .. }) => drop(timeout_at(until, released).await),
            None => drop(released.await),
        }
    }
}

/// The guard of a [`MultiLock`]. Dropping it releases all members.
///
/// Dropping the guard releases **soon**, in a background task that can only log an error. Call
/// [`release`](Self::release) to release now and to learn whether each member was still held.
#[doc = example!(both:
    "let guard = both.acquire().await?;",
    "// … the work …",
    "guard.release().await.into_result()?;")]
#[derive(Debug)]
#[must_use = "the members are released as soon as the guard is dropped"]
pub struct MultiGuard {
    guards: Vec<LockGuard>,
    context: MultiContext,
    on_loss: OnLoss,
}

impl MultiGuard {
    /// Releases all members at once, and returns the result of each.
    ///
    /// A member that was lost, or whose release fails, does not stop the release of the others.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the releases, which continue in the background.
    #[doc = example!(both:
        "use leasehold::Release;",
        "let guard = both.acquire().await?;",
        "client.lock(\"to\")?.force_release().await?;",
        "",
        "let release = guard.release().await;",
        "for (name, result) in release.members() {",
        "    println!(\"{name}: {result:?}\");",
        "}",
        "assert!(release.into_result().is_err());")]
    pub async fn release(self) -> MultiRelease {
        let each = self.guards.into_iter().map(|guard| async {
            let name = guard.name().clone();
            (name, guard.release().await)
        });
        MultiRelease { members: join_all(each).await }
    }

    /// Runs `work` under this guard, releases all members, and returns everything that happened.
    ///
    /// As [`Guard::run`](crate::Guard::run). The outcome names the first member that was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it stands and releases in the background.
    #[doc = example!(both:
        "use leasehold::RunOutcome;",
        "let guard = both.acquire().await?;",
        "assert_eq!(guard.run(async |_held| 6 * 7).await, RunOutcome::Completed(42));")]
    pub async fn run<T, W, F>(self, work: W) -> RunOutcome<T>
    where
        W: FnOnce(MultiContext) -> F,
        F: Future<Output = T>,
    {
        let Self { guards, context, on_loss } = self;
        let lost = context.lost();
        run::under(context, lost, release_all_after_run(guards), on_loss, work).await
    }

    /// Releases after work that completed, and returns the first member that was lost before.
    #[cfg(feature = "blocking")]
    pub(crate) async fn release_after_run(self) -> Option<Loss> {
        release_all_after_run(self.guards).await
    }

    /// Returns the context for work under this guard.
    #[cfg(feature = "blocking")]
    pub(crate) fn context(&self) -> &MultiContext {
        &self.context
    }

    /// Waits until a member is lost, and returns its name and why.
    ///
    /// As [`Guard::lost`](crate::Guard::lost). It also ends when the members are released, with
    /// [`LostReason::Released`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(both:
        "let guard = both.acquire().await?;",
        "let lost = guard.lost();",
        "client.lock(\"to\")?.force_release().await?;",
        "let (name, reason) = lost.await; // at the next renewal",
        "assert_eq!((name.as_str(), reason), (\"to\", leasehold::LostReason::NotOwned));")]
    pub fn lost(&self) -> impl Future<Output = (Name, LostReason)> + Send + use<> {
        self.context.lost()
    }

    /// Returns whether this client may still rely on the hold of each member.
    #[doc = example!(both: "assert!(both.acquire().await?.is_held());")]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.context.is_held()
    }

    /// Returns how long all members last without another renewal: `None` if one is lost.
    #[doc = example!(both: "assert!(both.acquire().await?.remaining().is_some_and(|left| left.as_secs() >= 28));")]
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.context.remaining()
    }

    /// Returns the holds of all members, ordered by name.
    ///
    /// A write by a member checks only the hold of this member. Write each value by its own member.
    /// For values that change together, use one lock for the group.
    #[doc = example!(both: "assert_eq!(both.acquire().await?.members().len(), 2);")]
    #[must_use]
    pub fn members(&self) -> &[LockContext] {
        self.context.members()
    }

    /// Returns the hold of the member `name`: its owner, its token if it is fenced, and guarded
    /// writes. Of several clients with one name, it is that of one of them. A write checks only the
    /// hold of this member: see [`members`](Self::members).
    #[doc = example!(both:
        "use leasehold::Write;",
        "let guard = both.acquire().await?;",
        "if let Some(to) = guard.member(\"to\") {",
        "    to.write([Write::set(\"to:balance\", \"7\")]).await?;",
        "}")]
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&LockContext> {
        self.context.member(name)
    }
}

/// Releases all after work that completed, and returns the first that was lost before.
async fn release_all_after_run(guards: Vec<LockGuard>) -> Option<Loss> {
    let released = join_all(guards.into_iter().map(|guard| release_after_run(guard.held))).await;
    released.into_iter().flatten().next()
}

/// The members of a [`MultiLock`], for work that runs under it.
///
/// It is cheap to clone. It cannot release the members, and does not keep them held.
#[doc = example!(both:
    "# async fn step() {}",
    "let work = both.run(async |held| {",
    "    for _ in 0..3 {",
    "        held.check()?; // before each side effect",
    "        step().await;",
    "    }",
    "    Ok::<(), leasehold::Error>(())",
    "});",
    "work.await??; // the lock's error, then the work's own")]
#[derive(Clone, Debug)]
pub struct MultiContext {
    members: Arc<[LockContext]>,
}

impl MultiContext {
    /// Waits until a member is lost, as [`MultiGuard::lost`] does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(both:
        "let lost = both.run(async |held| held.lost()).await?;",
        "assert_eq!(lost.await.1, leasehold::LostReason::Released);")]
    pub fn lost(&self) -> impl Future<Output = (Name, LostReason)> + Send + use<> {
        let first = select_all(self.members.iter().map(|member| Box::pin(member.named_loss())));
        async move { first.await.0 }
    }

    /// Returns whether this client may still rely on the hold of each member.
    #[doc = example!(both: "assert!(both.run(async |held| held.is_held()).await?);")]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.remaining().is_some()
    }

    /// Returns an error if a member is lost.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`], with the name of the member, if one is.
    #[doc = example!(both: "both.run(async |held| held.check()).await??;")]
    pub fn check(&self) -> Result<()> {
        self.members.iter().try_for_each(LockContext::check)
    }

    /// Returns how long all members last without another renewal: `None` if one is lost.
    #[doc = example!(both:
        "let left = both.run(async |held| held.remaining()).await?;",
        "assert!(left.is_some_and(|left| left.as_secs() >= 28));")]
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        // `None`, a lost member, is less than any remaining time.
        self.members.iter().map(LockContext::remaining).min().flatten()
    }

    /// Returns the holds of all members, ordered by name.
    #[doc = example!(both:
        "let names = both.run(async |held| held.members().len()).await?;",
        "assert_eq!(names, 2);")]
    #[must_use]
    pub fn members(&self) -> &[LockContext] {
        &self.members
    }

    /// Returns the hold of the member `name`, as [`MultiGuard::member`] does.
    #[doc = example!(both: "assert!(both.run(async |held| held.member(\"to\").is_some()).await?);")]
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&LockContext> {
        self.members.iter().find(|member| member.name().as_str() == name)
    }
}

/// The result of releasing a [`MultiLock`]: that of each member.
#[doc = example!(both:
    "let release = both.acquire().await?.release().await;",
    "assert_eq!(release.members().len(), 2);",
    "release.into_result()?;")]
#[derive(Debug)]
#[must_use = "a member may have been lost before: `into_result()` makes that an error"]
pub struct MultiRelease {
    members: Vec<(Name, Result<Release>)>,
}

impl MultiRelease {
    /// Returns the name and the result of each member, ordered by name.
    #[doc = example!(both:
        "use leasehold::Release;",
        "let release = both.acquire().await?.release().await;",
        "assert!(release.members().iter().all(|(_, it)| matches!(it, Ok(Release::Released))));")]
    pub fn members(&self) -> &[(Name, Result<Release>)] {
        &self.members
    }

    /// Returns the first error: of a release, or because a member was lost before.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if a member was lost before, and those of
    /// [`Guard::release`](crate::Guard::release).
    #[doc = example!(both: "both.acquire().await?.release().await.into_result()?;")]
    pub fn into_result(self) -> Result<()> {
        self.members.into_iter().try_for_each(|(_, result)| result?.into_result())
    }
}
