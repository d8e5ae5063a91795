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

/// A barrier whose members also wait for each other when they leave. Tasks of all processes enter
/// when enough of them have arrived, and leave when all of them have ended their work.
///
/// A `DoubleBarrier` contains a name and the number of members that enter together. Creating a
/// `DoubleBarrier` sends no request. **All clients must use the same number.** Do not use the same
/// name for a [`Barrier`], too. The members that enter together are a generation. The next
/// generation enters after all members of the previous generation have left. Redisson has no double
/// barrier.
///
/// Each waiting task is a member, as at a [`Barrier`]. While a member is inside, a background task
/// renews the lease of this member after every third of the client's
/// [`ttl`](crate::ClientBuilder::ttl). If the process of the member dies, the lease ends at most
/// one ttl later. After that, the other members no longer wait for this member.
///
/// **A failover may lose an opening**, as at a [`Barrier`]. After such a failover, the members are
/// no longer inside, and [`lost`](DoubleBarrierGuard::lost) returns.
#[doc = example!(double:
    "let other = barrier.clone();",
    "let other = tokio::spawn(async move { other.enter().await?.leave().await });",
    "let guard = barrier.enter().await?;",
    "// … the work, while both members are inside …",
    "guard.leave().await?.into_result()?; // both members have left",
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

    /// Arrives, and enters when enough members have arrived and the previous generation has left.
    ///
    /// Each call counts as one member, even if several calls come from one process. If the client
    /// retries the request after a lost reply, the store counts the member once. If more members
    /// wait than can enter together, the order of arrival does not decide which of them enter
    /// first.
    ///
    /// # Errors
    ///
    /// As for [`Barrier::arrive_and_wait`]. [`Error::Lost`] if the barrier opened for this member,
    /// but the lease of this member ended before it received the reply. For example, the process
    /// was paused, or could not reach the store, for longer than the ttl.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, this member leaves the barrier in the background. If the barrier
    /// has just opened for this member, the other members have entered and work without this
    /// member.
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
    /// [`Error::MembersMissing`] if too few members have arrived, or if members of the previous
    /// generation are still inside. The error names some of the members that have arrived. After
    /// the error, this member leaves as after [`Barrier::arrive_and_wait_within`].
    /// [`Error::Duration`] if the timeout is zero. Other errors as for [`enter`](Self::enter).
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
/// After a drop, a background task makes the member leave **soon**. If this fails, the task can
/// only log the error. To wait for the other members, call [`leave`](Self::leave).
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
    /// Leaves, and waits until all members of this generation have left. Returns whether this
    /// member was inside until this call.
    ///
    /// If the process of a member has died, the member counts as inside until its lease ends.
    ///
    /// # Errors
    ///
    /// As for [`Guard::release`]. After these errors, this member leaves in the background. The
    /// call also returns [`Error::Unavailable`] if the store did not reply for 30 seconds during
    /// the wait for the other members.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the member leaves in the background, without a wait for the other
    /// members.
    #[doc = example!(double:
        "let other = barrier.clone();",
        "let other = tokio::spawn(async move { other.enter().await?.leave().await });",
        "let release = barrier.enter().await?.leave().await?;",
        "assert_eq!(release, leasehold::Release::Released);",
        "# drop(other);")]
    pub async fn leave(self) -> Result<Release> {
        self.leave_noting(&Present::default()).await
    }

    /// Does what [`leave`](Self::leave) does, but waits for at most `timeout`. The member leaves
    /// even after a timeout.
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
    /// store. The future does not borrow `self`. When the member leaves, the future returns
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

    /// Returns whether this client may still assume that this member is inside.
    ///
    /// The call reads a clock and sends no request. After a result of `false`, all later results
    /// are `false`, too.
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

/// Asks the store whether all members of `generation` have left. If some are still inside, writes
/// these members to `present`.
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
