//! The double barrier: a number of members that enter together, and leave together.

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
        RECEIPT_RESTS, RedisStore,
        barrier::{self, Members},
    },
};

/// A double barrier: tasks of all processes enter when a number of them has arrived, and leave when
/// all of them have ended their work.
///
/// A `DoubleBarrier` is a name and the number. Creating one costs nothing and sends no request.
/// **All clients must use the same number**, and must not use the name for a [`Barrier`] as well.
/// The members of one opening are a generation. The next generation enters after all of them have
/// left. Redisson has no such object.
///
/// A waiting task is a member, as at a [`Barrier`]. After it has entered, a background task renews
/// its membership every third of the client's [`ttl`](crate::ClientBuilder::ttl). If a member dies
/// inside, its membership ends at most one ttl later, and the others no longer wait for it.
///
/// **A failover may forget an opening**, as that of a [`Barrier`]. Then the members inside are
/// notified by [`lost`](DoubleBarrierGuard::lost).
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
    /// Each call is a member, also of one process. A request that is retried after a lost reply
    /// counts once. If more members wait than enter together, any of them enter first.
    ///
    /// # Errors
    ///
    /// As [`Barrier::arrive_and_wait`]. [`Error::Lost`] if the barrier opened while this process was
    /// paused, or the store unreachable, for longer than the ttl.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the barrier, in the background. If it has just opened, the others
    /// have entered.
    #[doc = example!(double:
        "let other = barrier.clone();",
        "let other = tokio::spawn(async move { other.enter().await?.leave().await });",
        "let guard = barrier.enter().await?;",
        "# drop((guard, other));")]
    pub async fn enter(&self) -> Result<DoubleBarrierGuard> {
        self.pass(&Present::default()).await
    }

    /// Does what [`enter`](Self::enter) does, for at most `timeout`.
    ///
    /// Whatever the network does, this returns by then.
    ///
    /// # Errors
    ///
    /// [`Error::MembersMissing`] if too few have arrived, or others are still inside. The error
    /// names those that have arrived. This member leaves. Other errors as for
    /// [`enter`](Self::enter). A timeout of zero is invalid.
    ///
    /// # Cancel safety
    ///
    /// As [`enter`](Self::enter).
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

/// The proof that this member is inside. If it is dropped, the member leaves without waiting.
///
/// Dropping it leaves **soon**, in a background task that can only log an error. Call
/// [`leave`](Self::leave) to wait for the others.
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
    /// Leaves, waits until all members of this generation have left, and returns whether this member
    /// was still inside.
    ///
    /// A member that died leaves when its lease ends.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`]; then this member leaves in the background. [`Error::Unavailable`] if
    /// the store did not answer for 30 seconds.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop this: the member leaves, but does not wait for the others.
    #[doc = example!(double:
        "let other = barrier.clone();",
        "let other = tokio::spawn(async move { other.enter().await?.leave().await });",
        "let release = barrier.enter().await?.leave().await?;",
        "assert_eq!(release, leasehold::Release::Released);",
        "# drop(other);")]
    pub async fn leave(self) -> Result<Release> {
        self.leave_noting(&Present::default()).await
    }

    /// Does what [`leave`](Self::leave) does, for at most `timeout`. This member leaves in any case.
    ///
    /// # Errors
    ///
    /// [`Error::MembersInside`] if others are still inside. The error names them. Other errors as
    /// for [`leave`](Self::leave). A timeout of zero is invalid.
    ///
    /// # Cancel safety
    ///
    /// As [`leave`](Self::leave).
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
        barrier.engine.follow_up(&mut follower, RECEIPT_RESTS / 2, ask).await?;
        Ok(released)
    }

    /// Waits until this member is no longer inside, and returns why.
    ///
    /// If the store is silent, this returns before the lease ends in the store. The future borrows
    /// nothing. It also returns when the member leaves, with [`LostReason::Released`].
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

    /// Returns whether this client may still rely on being inside.
    ///
    /// It reads a clock and sends no request. Once `false`, it stays `false`.
    #[doc = example!(alone: "assert!(barrier.enter().await?.is_inside());")]
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the generation, and the index of this member in it.
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

/// Returns when all members of the generation have left. Otherwise notes those that are inside.
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
