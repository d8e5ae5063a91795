//! The multi-lock: several locks that a task holds all together, or not at all.
//!
//! A multi-lock consists of its members, and has no keys of its own in Redis. Each member is
//! granted, renewed, handed off and released like any other lock.
//!
//! An acquisition tries to acquire all missing members at the same time. If some members are busy,
//! the acquisition waits for the busy member whose name comes first:
//!
//! - At first, the acquisition releases the members after the busy member, and keeps the members
//!   before it. The acquisition keeps these members while the holder of the busy member changes,
//!   because each change shows that the wait queue moves.
//! - If a check finds the same holder as the previous check, the acquisition releases all members.
//!   It also releases them after [`HOLDER_LOOKS`] checks. Then the acquisition waits until the busy
//!   member is granted, and holds no member during this wait.
//!
//! Multi-locks never wait for each other in a circle, because all of them acquire in the same
//! order. A Redisson multi-lock, or a task with nested locks, may acquire in another order. So the
//! holder of the busy member may itself wait for a member that this multi-lock keeps. In this case,
//! the holder of the busy member does not change, so this multi-lock releases its members.
//!
//! While the server of one member sends no reply, the other members should stay free for other
//! clients. So if a server has not replied for half a second after another member was granted, the
//! multi-lock releases its members, and waits without them.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{join_all, select_all},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    Lock, LockContext, LockGuard, OnLoss, Release, RunOutcome, context_views, example, group_guard,
    group_run,
    run::{self, Loss, release_after_run},
    settings::checked_timeout,
};
use crate::{
    domain::{Holder, LostReason, Name, spread},
    engine::{
        acquire::Deadline,
        timing::{HOLDER_LOOK_INTERVAL, HOLDER_LOOKS, MEMBER_SILENCE},
    },
    error::{Error, Result},
};

/// Several locks that a task acquires together. The task holds all of them, or none.
///
/// Each member is a [`Lock`], with or without tokens, or a side of a
/// [`ReadWriteLock`](crate::ReadWriteLock). Members may belong to different clients and servers.
/// Each member keeps its own settings. If a member has a fixed lease, the lease begins when this
/// member is granted.
///
/// Each member is an ordinary lock in Redis: other tasks, processes and Redisson clients may
/// acquire it alone, or together with other locks. If all members are free, an acquisition takes
/// one round trip.
///
/// **Two multi-locks never deadlock**, whatever the order of their members. While a multi-lock
/// waits for a busy member, it keeps other members only while the holder of the busy member
/// changes, and for at most ten seconds. So there is no deadlock with other clients either. For
/// example, a Redisson client with `getMultiLock` holds A and waits for B, while this multi-lock
/// holds B and waits for A. In this case, this multi-lock releases B.
///
/// **A multi-lock may starve**, because it queues for only one member at a time. If other clients
/// repeatedly acquire single members, the multi-lock waits longer than these clients. If they hold
/// a member for longer than 0.25 s, the multi-lock may wait without a bound.
///
/// If members belong to different clients of the **same** server, these members must have different
/// names. Otherwise the multi-lock waits for itself. Like a [`Lock`], a multi-lock is not
/// reentrant.
#[doc = example!(both:
    "let guard = both.acquire().await?;",
    "assert!(client.lock(\"to\")?.try_acquire().await?.is_none());",
    "guard.release().await.into_result()?;",
    "",
    "// If one member is lost, the work is stopped:",
    "both.run(async |_held| { /* move the money */ }).await?;")]
#[derive(Clone, Debug)]
pub struct MultiLock {
    /// Sorted by object: first by name, then by kind.
    members: Vec<Lock>,
    on_loss: OnLoss,
}

impl MultiLock {
    /// Creates a multi-lock of `members`, without a request.
    ///
    /// A lock that occurs twice in `members` counts as one member. To use a
    /// [`FencedLock`](crate::FencedLock) as a member, convert it by [`Lock::from`].
    ///
    /// # Errors
    ///
    /// [`Error::NoMembers`] if `members` is empty. [`Error::ConflictingMembers`] if two members of
    /// one client have the same name and exclude each other, such as the two sides of one
    /// read-write lock.
    #[doc = example!("":
        "use leasehold::{Lock, MultiLock};",
        "let stock = client.read_write_lock(\"stock\")?;",
        "let order = client.fenced_lock(\"orders:42\")?;",
        "let all = MultiLock::new([stock.read(), Lock::from(order)])?;",
        "let guard = all.acquire().await?;",
        "assert_eq!(guard.member(\"orders:42\").and_then(|order| order.token()), Some(1));")]
    pub fn new(members: impl IntoIterator<Item = impl Into<Lock>>) -> Result<Self> {
        let mut given: Vec<Lock> = members.into_iter().map(Into::into).collect();
        // If a plain lock and a fenced lock have the same name, the loop below keeps the first of
        // them. So the fenced lock is sorted before the plain lock.
        given.sort_by(|one, other| {
            one.object.cmp(&other.object).then(is_fenced(other).cmp(&is_fenced(one)))
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

    /// Sets what [`run`](Self::run) does with work when a member is lost. Default: the work is
    /// cancelled.
    ///
    /// The setting `on_loss` of a member has no effect.
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
    /// As for [`Lock::acquire`]. If several members fail, the call returns the error of the first
    /// of them. After an error, no member is held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: a background task releases the members that were granted.
    #[doc = example!(both: "let guard = both.acquire().await?;")]
    pub async fn acquire(&self) -> Result<MultiGuard> {
        self.gather(None).await
    }

    /// Acquires all members, waiting for at most `timeout`.
    ///
    /// The call returns within the timeout, in any state of the network.
    ///
    /// # Errors
    ///
    /// As for [`Lock::acquire_within`]. [`Error::TimedOut`] names the member for which the call
    /// waited. After an error, the granted members are released. If the timeout is over, a
    /// background task releases them.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    #[doc = example!(both:
        "let other = client.lock(\"to\")?.acquire().await?;",
        "let waited = both.acquire_within(Duration::from_secs(5)).await;",
        "assert!(matches!(waited, Err(leasehold::Error::TimedOut { name, .. }) if name.as_str() == \"to\"));")]
    pub async fn acquire_within(&self, timeout: Duration) -> Result<MultiGuard> {
        self.acquire_in_time(checked_timeout(timeout)?).await
    }

    /// Acquires all members with a timeout that has already begun.
    pub(crate) async fn acquire_in_time(&self, timeout: Deadline) -> Result<MultiGuard> {
        self.gather(Some(timeout)).await
    }

    /// Acquires all members if they are free now. Returns `None` if a member is busy.
    ///
    /// The call sends one request for each member, all at the same time, and does not wait for busy
    /// members. Before the call returns `None` or an error, it releases the members that were
    /// granted. If a release has no reply within the [release
    /// timeout](crate::ClientBuilder::release_timeout), this release continues in the background.
    ///
    /// # Errors
    ///
    /// As for [`Lock::try_acquire`]. The call also returns [`Error::Unavailable`] if the server of
    /// one member does not reply for half a second after another member was granted.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
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

    group_run!(
        multi,
        MultiContext,
        "If a member is lost, [`on_loss`](Self::on_loss) decides how the work stops."
    );

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

fn is_fenced(lock: &Lock) -> bool {
    lock.settings.share.tokens() > 0
}

/// Acquires a member, waiting until the deadline of the caller.
async fn wait(member: &Lock, within: Option<Deadline>) -> Result<LockGuard> {
    match within {
        Some(within) => member.acquire_in_time(within).await,
        None => member.acquire().await,
    }
}

/// Returns when two requests in a row find the same holder. Also returns when a request fails or
/// has no reply within `silence`, or after [`HOLDER_LOOKS`] requests.
async fn until_holder_is_stable(member: &Lock, silence: Duration) {
    let mut before = None;
    for _ in 0..HOLDER_LOOKS {
        let Ok(Ok(holder)) = timeout(silence, member.engine.holder(&member.object)).await else {
            return;
        };
        let owner = holder.as_ref().map(Holder::owner).cloned();
        if before.replace(owner.clone()) == Some(owner) {
            return;
        }
        sleep(spread(HOLDER_LOOK_INTERVAL)).await;
    }
}

/// The members that an acquisition has acquired so far.
struct Gathered<'a> {
    members: &'a [Lock],
    guards: Vec<Option<LockGuard>>,
    /// How long the acquisition waits for the reply of a server while it holds members.
    silence: Duration,
}

/// A member that a request could not acquire. If `error` is `None`, the member is busy.
struct Missing {
    at: usize,
    error: Option<Error>,
}

impl Missing {
    /// Returns whether the error is permanent, so that a retry cannot help.
    fn is_final(&self) -> bool {
        self.error.as_ref().is_some_and(|error| !error.is_transient())
    }
}

impl<'a> Gathered<'a> {
    fn none(members: &'a [Lock]) -> Self {
        let guards = members.iter().map(|_| None).collect();
        Self { members, guards, silence: MEMBER_SILENCE }
    }

    /// Acquires all members, waiting for each busy member.
    async fn gather(&mut self, within: Option<Deadline>) -> Result<()> {
        while let Some(missing) = self.try_missing(within).await {
            match missing.error {
                Some(error) if !error.is_transient() => return Err(error),
                // The store of this member may be unreachable for long, so the acquisition holds no
                // member during the wait. If the error becomes permanent, `wait_for` returns it.
                Some(_) => {
                    self.guards.fill_with(|| None);
                    self.wait_for(missing.at, within).await?;
                }
                None => self.wait_for(missing.at, within).await?,
            }
        }
        Ok(())
    }

    /// Tries to acquire all missing members at the same time. Returns `None` when all members are
    /// held. Otherwise returns the first member with a permanent error. If there is no permanent
    /// error, returns the first missing member.
    async fn try_missing(&mut self, within: Option<Deadline>) -> Option<Missing> {
        loop {
            // A member may have been lost while the acquisition waited for another member. This
            // line drops the guard of a lost member, so that the member is tried again.
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

    /// Sends one request for each missing member, all at the same time. Returns the members that
    /// are still missing.
    ///
    /// After the first member is held, the call waits for the remaining replies for at most
    /// `silence`, because other clients may want the held members.
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
        // The next attempt waits twice as long. Otherwise, if all servers are slow, all attempts
        // would time out.
        self.silence *= 2;
        missing
    }

    /// Keeps the guard of the member `at`. If the member was not acquired, returns it as missing.
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
        let reason = format!(
            "no reply within {silence:?}; the other locks of the multi-lock were held meanwhile"
        );
        Missing { at, error: Some(Error::silent(self.members[at].name().clone(), reason)) }
    }

    /// Acquires the busy member `at`. During the wait, keeps only the members before `at`, and
    /// releases these members when the holder of the busy member no longer changes.
    async fn wait_for(&mut self, at: usize, within: Option<Deadline>) -> Result<()> {
        let member = &self.members[at];
        let mut wait = Box::pin(wait(member, within));
        self.guards[at..].fill_with(|| None);
        if self.guards.iter().any(Option::is_some) {
            tokio::select! {
                biased;
                waited = &mut wait => {
                    self.guards[at] = Some(waited?);
                    return Ok(());
                }
                () = until_holder_is_stable(member, self.silence) => self.guards.fill_with(|| None),
            }
        }
        self.guards[at] = Some(wait.await?);
        Ok(())
    }

    /// Releases the held members, and waits for the replies until the deadline of the caller.
    async fn release(self, within: Option<Deadline>) {
        // The results do not matter, because no work was done under the members. If a release
        // fails, it continues in the background.
        let released = join_all(self.guards.into_iter().flatten().map(LockGuard::release));
        match within {
            Some(Deadline { until, .. }) => drop(timeout_at(until, released).await),
            None => drop(released.await),
        }
    }
}

/// The guard of a [`MultiLock`]. Dropping the guard releases all members.
///
/// After a drop, a background task releases the members **soon**. If a release fails, the task can
/// only log the error. To release now, and to learn whether each hold lasted until its release,
/// call [`release`](Self::release).
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
    /// Releases all members at the same time, and returns the result of each.
    ///
    /// If a member was lost, or if its release fails, the other members are released nevertheless.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the releases continue in the background.
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

    group_guard!(
        multi,
        MultiContext,
        |guard| guard.on_loss,
        "If a member is lost, [`MultiLock::on_loss`] decides how the work stops, and the outcome \
         names the first lost member.",
        (Name, LostReason) = |loss| loss,
        "the name of the first lost member, and the reason.";
        "let guard = lock.acquire().await?;",
        "let lost = guard.lost();",
        "client.lock(\"to\")?.force_release().await?;",
        "let (name, reason) = lost.await; // at the next renewal",
        "assert_eq!((name.as_str(), reason), (\"to\", leasehold::LostReason::NotOwned));"
    );

    /// Releases all members after the work has completed. If members were lost before the release,
    /// returns the loss of the first of them.
    pub(crate) async fn release_after_run(self) -> Option<Loss> {
        let each = self.guards.into_iter().map(|guard| release_after_run(guard.held));
        join_all(each).await.into_iter().flatten().next()
    }

    /// Returns the holds of all members, ordered by name.
    ///
    /// A guarded write by a member checks only the hold of that member. So write each value through
    /// the member that protects this value. If several values must change together, protect them by
    /// one lock.
    #[doc = example!(both: "assert_eq!(both.acquire().await?.members().len(), 2);")]
    #[must_use]
    pub fn members(&self) -> &[LockContext] {
        self.context.members()
    }

    /// Returns the hold of the member `name`.
    ///
    /// Use this hold to read the owner and the token of the member, and for guarded writes. A
    /// guarded write checks only the hold of this member: see [`members`](Self::members). If
    /// members of different clients have the same name, the call returns one of them.
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

/// A view of the holds of a [`MultiLock`], for work that runs under this lock.
///
/// A `MultiContext` is cheap to clone. A `MultiContext` cannot release the members, and does not
/// keep them held.
#[doc = example!(both:
    "# async fn step() {}",
    "let work = both.run(async |held| {",
    "    for _ in 0..3 {",
    "        held.check()?; // check before each side effect",
    "        step().await;",
    "    }",
    "    Ok::<(), leasehold::Error>(())",
    "});",
    "work.await??; // first the error of the lock, then the error of the work")]
#[derive(Clone, Debug)]
pub struct MultiContext {
    members: Arc<[LockContext]>,
}

impl MultiContext {
    /// Returns how long all members last without another renewal, or the first lost member.
    fn time_left(&self) -> Result<Duration, Loss> {
        let left = |member: &LockContext| member.time_left();
        self.members.iter().map(left).try_fold(Duration::MAX, |least, left| Ok(least.min(left?)))
    }

    /// Waits until a member is lost.
    fn named_loss(&self) -> impl Future<Output = Loss> + Send + use<> {
        let first = select_all(self.members.iter().map(|member| Box::pin(member.named_loss())));
        async move { first.await.0 }
    }

    context_views!(
        multi,
        (Name, LostReason) = |loss| loss,
        "the name of the first lost member, and the reason.";
        "let lost = lock.run(async |held| held.lost()).await?;",
        "assert_eq!(lost.await.1, leasehold::LostReason::Released);"
    );

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

/// The results of the release of a [`MultiLock`], one for each member.
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

    /// Returns the first error, in the order of the members.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if a member was lost before its release. Other errors as for
    /// [`Guard::release`](crate::Guard::release).
    #[doc = example!(both: "both.acquire().await?.release().await.into_result()?;")]
    pub fn into_result(self) -> Result<()> {
        self.members.into_iter().try_for_each(|(_, result)| result?.into_result())
    }
}
