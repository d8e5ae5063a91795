//! The double barrier: its members enter together, and leave together.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{
    Arrived, Barrier, Guard, OnLoss, Release,
    barrier::{Present, in_time},
    example,
    settings::Settings,
};
use crate::{
    domain::{Failure, Kind, LostReason, Name, Share},
    engine::{Engine, acquire::pacing::Paced, timing::LONGEST_WAIT},
    error::{Error, Result},
    store::{
        RECEIPT_KEPT_FOR, RedisStore,
        barrier::{self, Members},
    },
};

/// A double barrier. Tasks of all processes enter when a number of them has arrived, and leave when
/// all of them have ended their work.
///
/// A `DoubleBarrier` is a name and the number of members, so creating one sends no request. **All
/// clients must use the same number**, and must not use the name for a [`Barrier`], too. The
/// members that enter together are a generation. The next generation enters after all members of
/// the generation before have left. Redisson has no such object.
///
/// As at a [`Barrier`], each waiting task is a member. While a member is inside, a background task
/// renews its membership every third of the client's [`ttl`](crate::ClientBuilder::ttl). If the
/// process of a member inside dies, its membership ends at most one ttl later. Then the other
/// members no longer wait for it.
///
/// **A failover may lose an opening**, as at a [`Barrier`]. The members inside then notice by
/// [`lost`](DoubleBarrierGuard::lost) that they are no longer inside.
#[doc = example!(double:
    "let other = barrier.clone();",
    "let other = tokio::spawn(async move { other.enter().await?.leave().await });",
    "let guard = barrier.enter().await?;",
    "// … the work, while both are inside …",
    "guard.leave().await?.into_result()?; // both have ended it",
    "# drop(other);")]
#[derive(Clone)]
pub struct DoubleBarrier {
    barrier: Barrier,
    ttl: Duration,
}

impl fmt::Debug for DoubleBarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoubleBarrier")
            .field("name", self.name())
            .field("parties", &self.parties())
            .finish_non_exhaustive()
    }
}

impl DoubleBarrier {
    pub(crate) fn new(
        engine: Arc<Engine>,
        name: Name,
        parties: u32,
        ttl: Duration,
    ) -> Result<Self> {
        Ok(Self { barrier: Barrier::new(engine, Kind::DoubleBarrier, name, parties)?, ttl })
    }

    /// Returns the name of the double barrier.
    #[doc = example!(double: "assert_eq!(barrier.name().as_str(), \"phase\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.barrier.name()
    }

    /// Returns how many members enter together.
    #[doc = example!(double: "assert_eq!(barrier.parties(), 2);")]
    #[must_use]
    pub fn parties(&self) -> u32 {
        self.barrier.parties()
    }

    /// Arrives, and enters when enough members have arrived and the generation before has left.
    ///
    /// Each call is a member, even if several calls come from one process. If the client retries
    /// the request after a lost reply, the store counts the member once. If more members wait than
    /// can enter together, those that enter first are not chosen by their order of arrival.
    ///
    /// # Errors
    ///
    /// As for [`Barrier::arrive_and_wait`]. [`Error::Lost`] if the barrier opened for this member,
    /// but its membership ended before it received the reply. For example, the process was paused
    /// for longer than the ttl, or could not reach the store for that time.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, this member leaves the barrier in the background. If the barrier
    /// has just opened for this member, the other members have entered and work without it.
    #[doc = example!(double:
        "let other = barrier.clone();",
        "let other = tokio::spawn(async move { other.enter().await?.leave().await });",
        "let guard = barrier.enter().await?;",
        "# drop((guard, other));")]
    pub async fn enter(&self) -> Result<DoubleBarrierGuard> {
        self.pass(&Present::default()).await
    }

    /// Does what [`enter`](Self::enter) does, but waits for at most `timeout`.
    ///
    /// The call returns at most 100 ms after the timeout, in any state of the network.
    ///
    /// # Errors
    ///
    /// [`Error::MembersMissing`] if too few members have arrived, or if members of the generation
    /// before are still inside. The error names members that have arrived. This member leaves as
    /// after [`Barrier::arrive_and_wait_within`]. [`Error::Duration`] if the timeout is zero. Other errors as for
    /// [`enter`](Self::enter).
    ///
    /// # Cancel safety
    ///
    /// As for [`enter`](Self::enter).
    #[doc = example!(double:
        "let alone = barrier.enter_within(Duration::from_secs(5)).await;",
        "assert!(alone.is_err_and(|error| error.is_busy()));")]
    pub async fn enter_within(&self, timeout: Duration) -> Result<DoubleBarrierGuard> {
        self.barrier.in_time(timeout, async |present| self.pass(present).await).await
    }

    async fn pass(&self, present: &Present) -> Result<DoubleBarrierGuard> {
        let barrier = &self.barrier;
        let request = Settings::new(self.ttl).request_share(&barrier.object, Share::Nothing)?;
        let (member, arrived) = barrier.arrive(present, Some(request.ttl)).await?;
        let guard = Guard::new(member.enters(&request)?, OnLoss::default());
        Ok(DoubleBarrierGuard { guard, arrived, barrier: barrier.clone() })
    }
}

/// The proof that this member is inside. If the guard is dropped, the member leaves, and does not
/// wait for the other members.
///
/// After a drop, a background task makes the member leave **soon**, and can only log an error. To
/// wait for the other members, call [`leave`](Self::leave).
#[doc = example!(double:
    "let other = barrier.clone();",
    "let other = tokio::spawn(async move { other.enter().await?.leave().await });",
    "let guard = barrier.enter().await?;",
    "tokio::select! {",
    "    reason = guard.lost() => eprintln!(\"the others wait no more: {reason}\"),",
    "    () = std::future::ready(()) => {} // the work",
    "}",
    "guard.leave().await?.into_result()?;",
    "# drop(other);")]
#[derive(Debug)]
#[must_use = "the member leaves as soon as this is dropped"]
pub struct DoubleBarrierGuard {
    guard: Guard<DoubleBarrier>,
    arrived: Arrived,
    barrier: Barrier,
}

impl DoubleBarrierGuard {
    /// Leaves, waits until all members of this generation have left, and returns whether this
    /// member had been inside until now.
    ///
    /// If the process of a member has died, the member counts as inside until its lease ends.
    ///
    /// # Errors
    ///
    /// As for [`Guard::release`]. After such an error, this member leaves in the background.
    /// [`Error::Unavailable`] also if the store did not reply for 30 seconds during the wait for
    /// the other members.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the member leaves in the background, and nothing waits for the
    /// other members.
    #[doc = example!(double:
        "let other = barrier.clone();",
        "let other = tokio::spawn(async move { other.enter().await?.leave().await });",
        "let release = barrier.enter().await?.leave().await?;",
        "assert_eq!(release, leasehold::Release::Released);",
        "# drop(other);")]
    pub async fn leave(self) -> Result<Release> {
        self.leave_noting(&Present::default()).await
    }

    /// Does what [`leave`](Self::leave) does, but waits for at most `timeout`. This member leaves
    /// in any case.
    ///
    /// # Errors
    ///
    /// [`Error::MembersInside`] if other members are still inside. The error names some of them.
    /// [`Error::Duration`] if the timeout is zero. Other errors as for [`leave`](Self::leave).
    ///
    /// # Cancel safety
    ///
    /// As for [`leave`](Self::leave).
    #[doc = example!(double:
        "let other = barrier.clone();",
        "let other = tokio::spawn(async move { other.enter().await });",
        "let guard = barrier.enter().await?;",
        "let left = guard.leave_within(Duration::from_secs(5)).await;",
        "assert!(left.is_err_and(|error| error.is_busy()));",
        "# drop(other);")]
    pub async fn leave_within(self, timeout: Duration) -> Result<Release> {
        let name = self.barrier.name().clone();
        let inside = |waited, Members { count, some: members }| {
            let name = name.clone();
            Error::MembersInside { name, waited, count, members }
        };
        in_time(&name, timeout, async |present| self.leave_noting(present).await, inside).await
    }

    async fn leave_noting(self, present: &Present) -> Result<Release> {
        let Self { guard, arrived, barrier } = self;
        let mut follower = barrier.engine.follow(&barrier.object)?;
        let released = guard.release().await?;
        let ask = |store| others(store, barrier.name(), arrived.generation, present);
        barrier.engine.follow_up(&mut follower, RECEIPT_KEPT_FOR / 2, ask).await?;
        Ok(released)
    }

    /// Waits until this member is no longer inside, and returns the reason.
    ///
    /// If the store does not reply to the renewals, the future returns before the lease ends in the
    /// store. The future borrows nothing. When the member leaves, the future returns
    /// [`LostReason::Released`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(alone:
        "let guard = barrier.enter().await?;",
        "let lost = guard.lost();",
        "guard.leave().await?.into_result()?;",
        "assert_eq!(lost.await, leasehold::LostReason::Released);")]
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.guard.lost()
    }

    /// Returns whether this client may still rely on the fact that this member is inside.
    ///
    /// The call reads a clock and sends no request. After it has returned `false` once, it always
    /// returns `false`.
    #[doc = example!(alone: "assert!(barrier.enter().await?.is_inside());")]
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the generation of this member, and its index in the generation.
    #[doc = example!(alone: "assert_eq!(barrier.enter().await?.arrived().generation, 1);")]
    #[must_use]
    pub fn arrived(&self) -> Arrived {
        self.arrived
    }

    #[cfg(test)]
    pub(crate) fn watch(&self) -> &crate::engine::held::Watch {
        self.guard.watch()
    }
}

/// Asks whether all members of `generation` have left. If not, stores the members inside in
/// `present`.
async fn others(
    store: &RedisStore,
    name: &Name,
    generation: u64,
    present: &Present,
) -> Result<Paced<()>, Failure> {
    Ok(match barrier::inside(store, name, generation).await? {
        None => Paced::Now(()),
        Some(members) => {
            *present.lock() = members;
            Paced::After(LONGEST_WAIT)
        }
    })
}
