//! The barrier: its members wait until enough of them have arrived.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::Instant};

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
        RECEIPT_KEPT_FOR, RedisStore,
        barrier::{self, Arrival, Members},
    },
};

/// A place where tasks of all processes wait until a number of them has arrived.
///
/// A `Barrier` contains a name and the number of members that open it. Creating a `Barrier` sends
/// no request. **All clients must use the same number.** After an opening, the barrier can be used
/// again at once. Each opening is called a generation. Redisson has no barrier.
///
/// Each waiting task is a member. If the process of a member dies, the store counts the member for
/// up to 10 more seconds. After that, another task must arrive instead of this member. **If the
/// process restarts and its task arrives again within these 10 seconds, the task counts twice**, so
/// the barrier may open early. If a process is paused for more than 10 seconds, its members no
/// longer count. When the process continues, its members arrive again.
///
/// **A failover may lose an opening.** If a member received no reply before the failover, it then
/// waits for the next opening.
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

/// The result of an arrival, after the barrier has opened.
#[doc = example!(barrier:
    "let other = barrier.clone();",
    "let other = tokio::spawn(async move { other.arrive_and_wait().await });",
    "if barrier.arrive_and_wait().await?.index == 0 {",
    "    // … the work that only one member does …",
    "}",
    "# drop(other);")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Arrived {
    /// The index of this member, counted from 0. No other member of this generation has the same
    /// index. The member whose arrival opens the barrier has the highest index.
    pub index: u32,
    /// The number of this opening. After a day without an opening, the numbers start again at 1.
    pub generation: u64,
}

/// The members that the last reply of the store listed.
pub(super) type Present = Mutex<Members>;

/// Awaits `passing` for at most `timeout`. After a timeout, `late` creates the error from the
/// waiting time and from the members in the last reply.
pub(super) async fn in_time<T>(
    name: &Name,
    timeout: Duration,
    passing: impl AsyncFnOnce(&Present) -> Result<T>,
    late: impl FnOnce(Duration, Members) -> Error,
) -> Result<T> {
    checked_timeout(timeout)?;
    Handle::try_current().map_err(|_| Error::NoRuntime)?;
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

    /// Returns how many members must arrive to open the barrier.
    #[doc = example!(barrier: "assert_eq!(barrier.parties(), 2);")]
    #[must_use]
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// Arrives, and waits until enough members have arrived.
    ///
    /// Each call counts as one member, even if several calls come from one process. If the client
    /// retries the request after a lost reply, the store counts the member once.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not reply for 30 seconds. In this case, the barrier
    /// may have opened, and may have counted this member. [`Error::NotReady`], [`Error::Forbidden`]
    /// and [`Error::Refused`] if the store rejects the request. [`Error::ShutDown`] if the client
    /// was shut down. [`Error::NoRuntime`] outside of tokio.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, this member leaves the barrier in the background. If the barrier
    /// opens before this member has left, this member counts, and the other members continue.
    #[doc = example!(barrier:
        "let other = barrier.clone();",
        "let other = tokio::spawn(async move { other.arrive_and_wait().await });",
        "barrier.arrive_and_wait().await?;",
        "# drop(other);")]
    pub async fn arrive_and_wait(&self) -> Result<Arrived> {
        self.pass(&Present::default()).await
    }

    /// Does what [`arrive_and_wait`](Self::arrive_and_wait) does, but waits for at most `timeout`.
    ///
    /// The call returns at most 100 ms after the timeout, in any state of the network.
    ///
    /// # Errors
    ///
    /// [`Error::MembersMissing`] if too few members have arrived. The error names some of the
    /// members that have arrived. When the call returns this error, this member has left the
    /// barrier. If the store does not confirm this within 100 ms, this member leaves in the
    /// background. In this case, call [`Client::shutdown`](crate::Client::shutdown) before the
    /// process ends. If the barrier opens before this member has left, this member counts, and the
    /// other members continue. [`Error::Duration`] if the timeout is zero. Other errors as for
    /// [`arrive_and_wait`](Self::arrive_and_wait).
    ///
    /// # Cancel safety
    ///
    /// As for [`arrive_and_wait`](Self::arrive_and_wait).
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

    /// Awaits `passing` for at most `timeout`. After a timeout, returns an error with the members
    /// that have arrived.
    pub(super) async fn in_time<T>(
        &self,
        timeout: Duration,
        passing: impl AsyncFnOnce(&Present) -> Result<T>,
    ) -> Result<T> {
        let missing = |waited, Members { count: arrived, some: members }| {
            let (name, parties) = (self.name().clone(), self.parties);
            Error::MembersMissing { name, waited, arrived, parties, members }
        };
        let passed = in_time(self.name(), timeout, passing, missing).await;
        if matches!(passed, Err(Error::MembersMissing { .. } | Error::Unavailable { .. })) {
            self.engine.members_leave().await;
        }
        passed
    }

    /// Arrives, and waits until the barrier opens. For a double barrier, `lease` is how long a
    /// member stays inside without a renewal. For a plain barrier, `lease` is `None`.
    pub(super) async fn arrive(
        &self,
        present: &Present,
        lease: Option<Duration>,
    ) -> Result<(Member, Arrived)> {
        let mut follower = self.engine.follow(&self.object)?;
        let member = self.engine.join(&self.object);
        let ask = |store| self.ask(store, &member, present, lease);
        let arrived = self.engine.follow_up(&mut follower, RECEIPT_KEPT_FOR / 2, ask).await??;
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
            let reason =
                format!("no reply for {RECEIPT_KEPT_FOR:?}; the barrier may have opened meanwhile");
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
