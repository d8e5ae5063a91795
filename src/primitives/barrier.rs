//! The barrier: a number of members that wait for each other.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{example, settings::checked_timeout};
use crate::{
    domain::{Failure, Kind, LostReason, Mutex, Name, Object, in_millis},
    engine::{
        Engine,
        acquire::{member::Member, pacing::Paced},
        timing::LONGEST_WAIT,
    },
    error::{Error, Result},
    store::{
        RECEIPT_RESTS, RedisStore,
        barrier::{self, Arrival, Members},
    },
};

/// A barrier: tasks of all processes wait at it until a number of them has arrived.
///
/// A `Barrier` is a name and the number. Creating one costs nothing and sends no request. **All
/// clients must use the same number.** After an opening, the barrier can be used again at once.
/// Each opening is called a generation. Redisson has no such object.
///
/// Each waiting task is a member. A member of a dead process counts for up to 10 seconds. After
/// that the others wait for another member. **A process that restarts within that time counts
/// twice**, and the barrier may open early. A member that was paused for longer arrives again when
/// it continues.
///
/// **A failover may forget an opening.** Members that have not continued by then wait for the next
/// opening.
#[doc = example!(barrier:
    "let other = barrier.clone();",
    "let other = tokio::spawn(async move { other.arrive_and_wait().await });",
    "let arrived = barrier.arrive_and_wait().await?;",
    "assert_eq!(arrived.generation, 1);",
    "# drop(other);")]
#[derive(Clone)]
pub struct Barrier {
    pub(super) engine: Arc<Engine>,
    pub(super) object: Object,
    parties: u32,
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("name", self.name())
            .field("parties", &self.parties)
            .finish_non_exhaustive()
    }
}

/// The result of an arrival: the barrier has opened.
#[doc = example!(barrier:
    "let other = barrier.clone();",
    "let other = tokio::spawn(async move { other.arrive_and_wait().await });",
    "if barrier.arrive_and_wait().await?.index == 0 {",
    "    // … the work that one of them does …",
    "}",
    "# drop(other);")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Arrived {
    /// A number from 0 on, which no other member of this generation has. The last one to arrive has
    /// the highest.
    pub index: u32,
    /// How often the barrier has opened. It starts again at 1 after a day without an opening.
    pub generation: u64,
}

/// The members that were there at the last reply.
pub(super) type Present = Mutex<Members>;

/// Waits for `passing` within the timeout. If it takes longer, `late` makes the error, from the time
/// waited and the members present.
pub(super) async fn in_time<T>(
    name: &Name,
    timeout: Duration,
    passing: impl AsyncFnOnce(&Present) -> Result<T>,
    late: impl FnOnce(Duration, Members) -> Error,
) -> Result<T> {
    checked_timeout(timeout)?;
    let (since, present) = (Instant::now(), Present::default());
    if let Ok(passed) = tokio::time::timeout(timeout, passing(&present)).await {
        return passed;
    }
    let (limit, members) = (in_millis(since.elapsed()), std::mem::take(&mut *present.lock()));
    Err(match members.count {
        0 => Error::silent(name.clone(), format!("no reply within {limit:?}")),
        _ => late(limit, members),
    })
}

impl Barrier {
    pub(crate) fn new(engine: Arc<Engine>, kind: Kind, name: Name, parties: u32) -> Result<Self> {
        match parties {
            0 => Err(Error::ZeroCount { name }),
            _ => Ok(Self { engine, object: Object::new(kind, name), parties }),
        }
    }

    /// Returns the name of the barrier.
    #[doc = example!(barrier: "assert_eq!(barrier.name().as_str(), \"phase\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.object.name
    }

    /// Returns how many members open the barrier.
    #[doc = example!(barrier: "assert_eq!(barrier.parties(), 2);")]
    #[must_use]
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// Arrives, and waits until enough members have arrived.
    ///
    /// Each call is a member, also of one process. A request that is retried after a lost reply
    /// counts once.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not answer for 30 seconds; then the barrier may have
    /// opened with this member. [`Error::NotReady`], [`Error::Forbidden`] and [`Error::Refused`] if
    /// the store rejects the request. [`Error::ShutDown`], and [`Error::NoRuntime`] outside of
    /// tokio.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the barrier, in the background. If the barrier opens at that
    /// moment, the other members continue.
    #[doc = example!(barrier:
        "let other = barrier.clone();",
        "let other = tokio::spawn(async move { other.arrive_and_wait().await });",
        "barrier.arrive_and_wait().await?;",
        "# drop(other);")]
    pub async fn arrive_and_wait(&self) -> Result<Arrived> {
        self.pass(&Present::default()).await
    }

    /// Does what [`arrive_and_wait`](Self::arrive_and_wait) does, for at most `timeout`.
    ///
    /// Whatever the network does, this returns by then.
    ///
    /// # Errors
    ///
    /// [`Error::MembersMissing`] if too few have arrived. The error names those that have. This
    /// member leaves. If the barrier opens at that moment, the other members continue. Other errors
    /// as for [`arrive_and_wait`](Self::arrive_and_wait). A timeout of zero is invalid.
    ///
    /// # Cancel safety
    ///
    /// As [`arrive_and_wait`](Self::arrive_and_wait).
    #[doc = example!(barrier:
        "let alone = barrier.arrive_and_wait_within(Duration::from_secs(5)).await;",
        "assert!(alone.is_err_and(|error| error.is_busy()));")]
    pub async fn arrive_and_wait_within(&self, timeout: Duration) -> Result<Arrived> {
        self.in_time(timeout, async |present| self.pass(present).await).await
    }

    async fn pass(&self, present: &Present) -> Result<Arrived> {
        let (member, arrived) = self.arrive(present, None).await?;
        member.passes();
        Ok(arrived)
    }

    /// Waits for `passing` within the timeout, or returns an error with the members that arrived.
    pub(super) async fn in_time<T>(
        &self,
        timeout: Duration,
        passing: impl AsyncFnOnce(&Present) -> Result<T>,
    ) -> Result<T> {
        let missing = |waited, Members { count: arrived, some: members }| {
            let (name, parties) = (self.name().clone(), self.parties);
            Error::MembersMissing { name, waited, arrived, parties, members }
        };
        in_time(self.name(), timeout, passing, missing).await
    }

    /// Arrives, and waits until the barrier opens. A double barrier has a `lease`.
    pub(super) async fn arrive(
        &self,
        present: &Present,
        lease: Option<Duration>,
    ) -> Result<(Member, Arrived)> {
        let mut follower = self.engine.follow(&self.object)?;
        let member = self.engine.join(&self.object);
        let ask = |store| self.ask(store, &member, present, lease);
        let arrived = self.engine.follow_up(&mut follower, RECEIPT_RESTS / 2, ask).await??;
        Ok((member, arrived))
    }

    async fn ask(
        &self,
        store: &RedisStore,
        member: &Member,
        present: &Present,
        lease: Option<Duration>,
    ) -> Result<Paced<Result<Arrived>>, Failure> {
        let name = || self.name().clone();
        let Some(asked_at) = member.asks() else {
            let reason = format!("no reply for {RECEIPT_RESTS:?}, and the barrier may have opened");
            return Ok(Paced::Now(Err(Error::silent(name(), reason))));
        };
        let arrival = barrier::arrive(store, &member.claim, self.parties, lease).await?;
        member.was_answered(asked_at);
        Ok(match arrival {
            Arrival::Passed { generation, index } => Paced::Now(Ok(Arrived { index, generation })),
            Arrival::Late => {
                Paced::Now(Err(Error::Lost { name: name(), reason: LostReason::Expired }))
            }
            Arrival::Waits(members) => {
                *present.lock() = members;
                Paced::After(LONGEST_WAIT)
            }
        })
    }
}
