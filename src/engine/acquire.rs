//! The waiting loop, for every primitive: read this first.
//!
//! Wait for our turn in this process. Ask, bound to withdraw on drop. Granted and
//! still in time: hold. Else listen, and once we hear *ask again*, because a
//! release between the first question and the subscription wakes nobody. Then
//! wait for a wake or for the holder's remaining lease, whichever is first, but
//! never longer than a few seconds. Repeat.
//!
//! Every await is a place where the caller may leave: a question that may still
//! be granted then becomes a debt, the turn goes to the next in the queue, and
//! the listener goes with the turn.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};
use tracing::Instrument;

use super::{
    Engine,
    held::Held,
    hold::{Grant, Hold, Terms},
    persist::Pauses,
    releases::Debt,
    turns::Turn,
};
use crate::{
    domain::{Claim, Failure, Holder, Lease, LostReason, Name, Verdict, in_millis},
    error::Error,
};

/// The longest wait for a message: one may have been lost on the way.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// The longest wait while no message can reach us.
pub(super) const LONGEST_WAIT_UNHEARD: Duration = Duration::from_millis(250);

/// How long one question may take that is not to wait.
const ONE_QUESTION: Duration = Duration::from_secs(3);

/// What a caller wants: a lock, and how to wait for it and keep it.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) name: Name,
    pub(crate) ttl: Duration,
    pub(crate) terms: Terms,
    pub(crate) wait_by: WaitBy,
}

/// How a waiter learns that a lock may be free.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::WaitBy;
/// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// let lock = client.lock("orders:42")?.wait_by(WaitBy::Polling {
///     first: Duration::from_millis(1),
///     longest: Duration::from_millis(128),
/// });
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum WaitBy {
    /// By messages of the store, and a timer for those that are lost.
    #[default]
    Messages,
    /// By asking again and again, as Redisson's spin lock does: after `first`,
    /// then after twice as long each time, with some jitter, up to `longest`.
    ///
    /// For servers without publish and subscribe. A release then announces
    /// nothing either: those who wait by messages for the same name wait until
    /// the lease that they saw ends, or ask again after a few seconds.
    Polling {
        /// The first pause.
        first: Duration,
        /// The longest pause.
        longest: Duration,
    },
}

/// One acquisition on its way.
struct Attempt<'a> {
    engine: &'a Arc<Engine>,
    want: &'a Want,
    claim: Claim,
    began_at: Instant,
    /// The question that may still be granted, if there is one.
    asked: Option<Lease>,
    /// Whether a question went unanswered, so that the store may grant it yet.
    unsure: bool,
    heard: &'a Heard,
}

/// What the store last said. It outlives the attempt, to be named when patience
/// ends.
#[derive(Default)]
struct Heard(Mutex<Option<Result<Holder, Failure>>>);

impl Heard {
    fn note(&self, said: Result<Holder, Failure>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }

    fn take(&self) -> Option<Result<Holder, Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What came of one question.
enum Asked {
    Busy(Holder),
    Granted(Held),
    /// Granted, but so late that the lease was over.
    TooLate,
}

impl Engine {
    /// Waits until `want` is ours.
    pub(crate) async fn acquire(self: &Arc<Self>, want: &Want) -> Result<Held, Error> {
        self.acquire_noting(want, &Heard::default()).await
    }

    /// Waits until `want` is ours, but no longer than `patience`.
    pub(crate) async fn acquire_within(
        self: &Arc<Self>,
        want: &Want,
        patience: Duration,
    ) -> Result<Held, Error> {
        // Before the timer, which needs a runtime.
        self.ready()?;
        let start = Instant::now();
        let heard = Heard::default();
        let acquired = timeout_at(start + patience, self.acquire_noting(want, &heard)).await;
        acquired.unwrap_or_else(|_| Err(self.gave_up(want, start.elapsed(), heard.take())))
    }

    /// Asks once whether `want` can be ours now.
    pub(crate) async fn try_acquire(self: &Arc<Self>, want: &Want) -> Result<Option<Held>, Error> {
        self.ready()?;
        let heard = Heard::default();
        let mut attempt = Attempt::new(self, want, &heard);
        let span = attempt.span();
        let until = Instant::now() + ONE_QUESTION;
        let asked = timeout_at(until, attempt.ask_until_answered().instrument(span)).await;
        match asked {
            Ok(Ok(Asked::Granted(held))) => Ok(Some(held)),
            Ok(Ok(Asked::Busy(_))) => Ok(None),
            Ok(Ok(Asked::TooLate)) => Err(too_late(want)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(unanswered(&want.name, ONE_QUESTION, heard.take())),
        }
    }

    async fn acquire_noting(self: &Arc<Self>, want: &Want, heard: &Heard) -> Result<Held, Error> {
        self.ready()?;
        let attempt = Attempt::new(self, want, heard);
        let span = attempt.span();
        attempt.run().instrument(span).await
    }

    /// Why patience ended in vain.
    fn gave_up(
        &self,
        want: &Want,
        waited: Duration,
        heard: Option<Result<Holder, Failure>>,
    ) -> Error {
        let (name, waited) = (&want.name, in_millis(waited));
        // Who never had the turn knows what those before it were told.
        let seen = || self.turns.seen(name).map(Ok);
        match heard.or_else(seen) {
            Some(Ok(holder)) => {
                self.counters.timed_out();
                Error::TimedOut { name: name.clone(), waited, holder: Some(holder) }
            }
            heard => unanswered(name, waited, heard),
        }
    }

    /// Waits for `something`, unless the client is shut down before.
    async fn unless_closed<T>(&self, something: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            biased;
            done = something => Ok(done),
            () = self.is_closed() => Err(Error::ShutDown),
        }
    }
}

/// The store did not answer for so long, and `heard` is what it said before.
fn unanswered(name: &Name, waited: Duration, heard: Option<Result<Holder, Failure>>) -> Error {
    match heard {
        Some(Err(failure)) => Error::about(name, failure),
        Some(Ok(_)) | None => {
            let reason = format!("no answer within {waited:?}");
            Error::Unavailable { name: name.clone(), reason }
        }
    }
}

fn too_late(want: &Want) -> Error {
    let reason = format!("each grant came later than its lease of {:?} ended", want.ttl);
    Error::Unavailable { name: want.name.clone(), reason }
}

impl<'a> Attempt<'a> {
    fn new(engine: &'a Arc<Engine>, want: &'a Want, heard: &'a Heard) -> Self {
        let owner = engine.identity.fresh_owner();
        let announced = want.wait_by == WaitBy::Messages;
        let claim = Claim { name: want.name.clone(), owner, ttl: want.ttl, announced };
        Self { engine, want, claim, began_at: Instant::now(), asked: None, unsure: false, heard }
    }

    fn span(&self) -> tracing::Span {
        tracing::debug_span!(target: "leasehold", "acquire",
            lock = %self.claim.name, owner = %self.claim.owner)
    }

    /// Asks until the store answers, or says a no that will stay.
    async fn ask_until_answered(&mut self) -> Result<Asked, Error> {
        let mut pauses = Pauses::default();
        loop {
            match self.ask().await? {
                Ok(asked) => return Ok(asked),
                Err(failure) if failure.may_pass() => sleep(pauses.next()).await,
                Err(failure) => return Err(Error::about(&self.want.name, failure)),
            }
        }
    }

    async fn run(mut self) -> Result<Held, Error> {
        let engine = self.engine;
        let _waiting = engine.counters.waiting();
        let mut turn = engine.unless_closed(engine.turns.wait(&self.want.name)).await?;
        let mut pauses = Pauses::default();
        let mut polls = Polls::default();
        loop {
            match self.ask().await? {
                Ok(Asked::Granted(held)) => return Ok(held),
                Ok(Asked::TooLate) => {
                    tracing::warn!(target: "leasehold", "granted too late: asking again");
                }
                Ok(Asked::Busy(holder)) => {
                    tracing::debug!(target: "leasehold", %holder, "wait");
                    engine.unless_closed(self.wait(&mut turn, &holder, &mut polls)).await?;
                }
                Err(failure) if failure.may_pass() => {
                    tracing::warn!(target: "leasehold", %failure, "cannot ask: trying again");
                    engine.unless_closed(sleep(pauses.next())).await?;
                }
                Err(failure) => return Err(Error::about(&self.want.name, failure)),
            }
        }
    }

    /// Asks the store once. Fails if the client is shut down meanwhile: what may
    /// still be granted is then withdrawn.
    async fn ask(&mut self) -> Result<Result<Asked, Failure>, Error> {
        let engine = self.engine;
        let lease = Lease::new(engine.clock.now(), self.claim.ttl);
        self.asked = Some(lease);
        let verdict = engine.unless_closed(engine.store.acquire(&self.claim)).await?;
        if engine.closed.load(Ordering::Acquire) {
            return Err(Error::ShutDown);
        }
        Ok(self.weigh(verdict, lease))
    }

    /// What `verdict` means for who asked for `lease`.
    fn weigh(&mut self, verdict: Result<Verdict, Failure>, lease: Lease) -> Result<Asked, Failure> {
        let engine = self.engine;
        let asked = match verdict {
            Ok(Verdict::Granted) if engine.clock.now() < lease.ends() => {
                return Ok(Asked::Granted(self.enter(lease)));
            }
            Ok(Verdict::Granted) => {
                self.unsure = true;
                Asked::TooLate
            }
            Ok(Verdict::Busy(holder)) => {
                let past = engine.turns.saw(&self.claim.name, &holder, lease.asked_at);
                if let Some(past) = past {
                    past.end(LostReason::NotOurs);
                }
                self.heard.note(Ok(holder.clone()));
                Asked::Busy(holder)
            }
            Err(failure) => {
                self.unsure |= failure.may_have_happened();
                self.heard.note(Err(failure.clone()));
                self.answered();
                return Err(failure);
            }
        };
        self.answered();
        Ok(asked)
    }

    /// Notes that no question is on its way, unless one never was answered.
    fn answered(&mut self) {
        if !self.unsure {
            self.asked = None;
        }
    }

    /// Makes the grant a hold.
    fn enter(&mut self, lease: Lease) -> Held {
        self.asked = None;
        let engine = self.engine;
        let (claim, entered_at) = (self.claim.clone(), engine.clock.now());
        let grant = Grant { claim, lease, entered_at, unsure: self.unsure };
        let hold = Arc::new(Hold::new(grant, self.want.terms, &engine.counters));
        tracing::debug!(target: "leasehold", lock = %self.claim.name, owner = %self.claim.owner,
            waited = ?self.began_at.elapsed(), "grant");
        engine.keeper.watch(&hold);
        if let Some(past) = engine.turns.entered(&hold, lease.asked_at) {
            past.end(LostReason::NotOurs);
        }
        Held::new(hold, engine)
    }

    /// Waits until it makes sense to ask again.
    async fn wait(&self, turn: &mut Turn, holder: &Holder, polls: &mut Polls) {
        // The store ends a lease on the millisecond, and tells rounded down.
        let expiry = holder.remaining.map(|left| left + Duration::from_millis(1));
        match self.want.wait_by {
            WaitBy::Messages => {
                let listener = turn.listener(&self.engine.hub);
                let longest = match listener.hears() {
                    true => LONGEST_WAIT,
                    false => LONGEST_WAIT_UNHEARD,
                };
                let limit = expiry.unwrap_or(longest).min(spread(longest));
                tokio::select! {
                    biased;
                    () = listener.woken() => {}
                    () = sleep(limit) => {}
                }
            }
            WaitBy::Polling { first, longest } => {
                let pause = polls.next(first, longest);
                sleep(expiry.unwrap_or(pause).min(pause)).await;
            }
        }
    }
}

/// Three quarters to five quarters of `time`, so that clients do not come in step.
fn spread(time: Duration) -> Duration {
    time.mul_f64(0.75 + fastrand::f64() / 2.0)
}

impl Drop for Attempt<'_> {
    /// Withdraws a question that may still be granted.
    fn drop(&mut self) {
        if let Some(lease) = self.asked {
            let until = lease.asked_at + lease.ttl;
            self.engine.releases.owe(Debt::Release {
                claim: self.claim.clone(),
                until,
                late: true,
            });
        }
    }
}

/// The pauses of one who polls.
#[derive(Default)]
struct Polls {
    last: Option<Duration>,
}

impl Polls {
    fn next(&mut self, first: Duration, longest: Duration) -> Duration {
        let pause = self.last.map_or(first, |last| last.saturating_mul(2)).min(longest);
        self.last = Some(pause);
        spread(pause)
    }
}
