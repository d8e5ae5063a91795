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
    future::{Future, pending},
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
    standing::{FIRST_LOOK, Standing},
    turns::{Fits, Turn},
    wakeups::Listener,
};
use crate::{
    domain::{Claim, Failure, Holder, Lease, LostReason, Name, Queueing, Verdict, Way, in_millis},
    error::Error,
};

/// The longest wait for a message: one may have been lost on the way.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// The longest wait while no message can reach us.
pub(super) const LONGEST_WAIT_UNHEARD: Duration = Duration::from_millis(250);

/// What a caller wants: a lock, and how to wait for it and keep it.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) name: Name,
    pub(crate) ttl: Duration,
    pub(crate) terms: Terms,
    pub(crate) wait_by: WaitBy,
}

impl Want {
    /// Whether giving it back tells the waiters.
    fn announced(&self) -> bool {
        self.wait_by == WaitBy::Messages
    }

    /// What a grant must be like to be taken over.
    fn fits(&self) -> Fits {
        let ttl = self.terms.renewed.then_some(self.ttl);
        Fits { ttl, announced: self.announced() }
    }
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
    /// The right to ask, for those who wait for it.
    turn: Option<Turn>,
    /// When it asked first.
    began_at: Option<Instant>,
    /// The question that may still be granted, if there is one.
    asked: Option<Lease>,
    /// Whether a question went unanswered, so that the store may grant it yet.
    unsure: bool,
    /// Whether the store ever said no.
    waited: bool,
    /// When the holder's lease ends, as far as the store has told.
    free_at: Option<Instant>,
    /// Hears of releases and offers, once it does.
    listener: Option<Arc<Listener>>,
    standing: Standing,
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
        let mut attempt = Attempt::new(self, want, &heard, None);
        let span = attempt.span();
        let until = Instant::now() + self.limits.question;
        let asked = timeout_at(until, attempt.ask_until_answered().instrument(span)).await;
        match asked {
            Ok(Ok(Asked::Granted(held))) => Ok(Some(held)),
            Ok(Ok(Asked::Busy(_))) => Ok(None),
            Ok(Ok(Asked::TooLate)) => Err(too_late(want)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(unanswered(&want.name, self.limits.question, heard.take())),
        }
    }

    async fn acquire_noting(self: &Arc<Self>, want: &Want, heard: &Heard) -> Result<Held, Error> {
        self.ready()?;
        let _waiting = self.counters.waiting();
        let turn = self.turns.wait(&want.name, want.fits()).await;
        let mut turn = turn.ok_or(Error::ShutDown)?;
        if let Some(baton) = turn.baton() {
            let now = self.clock.now();
            if !self.is_shut()
                && let Some(grant) = baton.take(now)
            {
                return Ok(self.take_over(want, grant, turn, now));
            }
        }
        if let Some(others_first) = self.courtesy.head_start(&want.name) {
            Box::pin(self.unless_closed(sleep(others_first))).await?;
        }
        let attempt = Attempt::new(self, want, heard, Some(turn));
        let span = attempt.span();
        // In boxes, this one and the next: who waits for a turn is small, and so is
        // who need not wait for the store.
        Box::pin(attempt.run().instrument(span)).await
    }

    /// Makes the grant of the hold before a hold for `want`.
    fn take_over(self: &Arc<Self>, want: &Want, grant: Grant, turn: Turn, now: Instant) -> Held {
        tracing::debug!(target: "leasehold", lock = %want.name, owner = %grant.claim.owner,
            "grant, by the one before here");
        let asked_at = grant.lease.asked_at;
        let hold =
            self.hold(Hold::new(grant, want.terms, now, &self.counters), Some(turn), asked_at);
        self.keeper.hand_over(&hold);
        Held::new(hold, self)
    }

    /// Enters `hold`, which was asked for at `asked_at`.
    fn hold(&self, hold: Hold, turn: Option<Turn>, asked_at: Instant) -> Arc<Hold> {
        let hold = Arc::new(hold);
        if let Some(past) = self.turns.entered(&hold, asked_at) {
            past.end(LostReason::NotOurs);
        }
        if let Some(turn) = turn {
            hold.keep(turn);
        }
        hold
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
        let seen = || self.turns.seen(name, self.clock.now()).map(Ok);
        match heard.or_else(seen) {
            Some(Ok(holder)) => {
                self.counters.timed_out();
                let by_this_client = self.identity.is_of(holder.owner());
                Error::TimedOut { name: name.clone(), waited, holder: Some(holder), by_this_client }
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
        Some(Ok(_)) | None => Error::silent(name.clone(), format!("no answer within {waited:?}")),
    }
}

fn too_late(want: &Want) -> Error {
    let reason = format!("each grant came later than its lease of {:?} ended", want.ttl);
    Error::silent(want.name.clone(), reason)
}

impl<'a> Attempt<'a> {
    fn new(engine: &'a Arc<Engine>, want: &'a Want, heard: &'a Heard, turn: Option<Turn>) -> Self {
        let owner = engine.identity.fresh_owner();
        let announced = want.announced();
        let claim = Claim { name: want.name.clone(), owner, ttl: want.ttl, announced };
        Self {
            engine,
            want,
            claim,
            turn,
            began_at: None,
            asked: None,
            unsure: false,
            waited: false,
            free_at: None,
            listener: None,
            standing: Standing::new(want.ttl),
            heard,
        }
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
        match self.ask().await? {
            Ok(Asked::Granted(held)) => Ok(held),
            answer => Box::pin(self.go_on(answer)).await,
        }
    }

    async fn go_on(mut self, mut answer: Result<Asked, Failure>) -> Result<Held, Error> {
        let engine = self.engine;
        let mut pauses = Pauses::default();
        let mut polls = Polls::default();
        loop {
            match answer {
                Ok(Asked::Granted(held)) => return Ok(held),
                Ok(Asked::TooLate) => {
                    tracing::warn!(target: "leasehold", "granted too late: asking again");
                }
                Ok(Asked::Busy(holder)) => {
                    tracing::debug!(target: "leasehold", %holder, "wait");
                    engine.unless_closed(self.wait(&mut polls)).await?;
                    if let Some(held) = self.accept_offer() {
                        return Ok(held);
                    }
                }
                Err(failure) if failure.may_pass() => {
                    tracing::warn!(target: "leasehold", %failure, "cannot ask: trying again");
                    engine.unless_closed(sleep(pauses.next())).await?;
                }
                Err(failure) => return Err(Error::about(&self.want.name, failure)),
            }
            answer = self.ask().await?;
        }
    }

    /// Asks the store once. Fails if the client is shut down meanwhile: what may
    /// still be granted is then withdrawn.
    async fn ask(&mut self) -> Result<Result<Asked, Failure>, Error> {
        let engine = self.engine;
        let lease = Lease::new(engine.clock.now(), self.claim.ttl);
        self.began_at.get_or_insert(lease.asked_at);
        let queue = self.queue_up(lease.asked_at);
        self.asked = Some(lease);
        let verdict = engine.unless_closed(engine.store.acquire(&self.claim, queue)).await?;
        if engine.is_shut() {
            return Err(Error::ShutDown);
        }
        if matches!(verdict, Ok(Verdict::Busy(_))) && queue.is_some() {
            self.standing.stands();
        }
        Ok(self.weigh(verdict, lease))
    }

    /// The place in the lock's queue to ask for, if we would hear that it is our turn.
    fn queue_up(&mut self, now: Instant) -> Option<Queueing> {
        if self.want.wait_by != WaitBy::Messages {
            return None;
        }
        self.listener = self.listener.take().or_else(|| self.turn.as_ref()?.listener());
        let listener = self.listener.as_ref().filter(|listener| listener.hears())?;
        if !self.engine.store.attend() {
            return None;
        }
        listener.queue_as(Some(&self.claim.owner));
        Some(self.standing.ask(now))
    }

    /// Makes the offer that came a hold, if it still can be one as it is. If not
    /// it is asked for: it was made to our owner.
    fn accept_offer(&mut self) -> Option<Held> {
        let offer = self.listener.as_ref()?.offer()?;
        let lease = self.standing.lease_of(&offer)?;
        let now = self.engine.clock.now();
        let as_is = self.want.terms.renewed && now < lease.ends();
        as_is.then(|| self.enter(lease, now, now, offer.passes))
    }

    /// What `verdict` means for who asked for `lease`.
    fn weigh(&mut self, verdict: Result<Verdict, Failure>, lease: Lease) -> Result<Asked, Failure> {
        let (engine, now) = (self.engine, self.engine.clock.now());
        let asked = match verdict {
            Ok(Verdict::Granted) if now < lease.ends() => {
                return Ok(Asked::Granted(self.enter(lease, lease.asked_at, now, 0)));
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
                self.waited = true;
                self.free_at = holder.remaining.map(|left| lease.asked_at + left);
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

    /// Makes the grant a hold. The store had begun its lease at `begun_by`.
    fn enter(&mut self, lease: Lease, begun_by: Instant, now: Instant, passes: u32) -> Held {
        self.asked = None;
        self.standing.leave();
        let engine = self.engine;
        tracing::debug!(target: "leasehold", lock = %self.claim.name, owner = %self.claim.owner,
            waited = ?now.saturating_duration_since(self.began_at.unwrap_or(now)), "grant");
        // Who had to wait knows that it is not alone, and who was told so.
        let sought = self.waited || engine.courtesy.is_sought(&self.claim.name);
        let grant = Grant {
            id: engine.grants.fetch_add(1, Ordering::Relaxed),
            claim: self.claim.clone(),
            lease,
            asked_at: begun_by.into(),
            unsure: self.unsure,
            stay: self.want.terms.local.from(now),
            passes: sought.then_some(passes),
        };
        let hold = Hold::new(grant, self.want.terms, now, &engine.counters);
        let hold = engine.hold(hold, self.turn.take(), lease.asked_at);
        engine.keeper.watch(&hold);
        Held::new(hold, engine)
    }

    /// How long to wait for `moment`. It was told rounded down to the millisecond, and
    /// timers are late by as much; who comes too early all the same asks once more.
    fn until(&self, moment: Instant) -> Duration {
        const NEXT_TICK: Duration = Duration::from_millis(1);
        moment.saturating_duration_since(self.engine.clock.now()).max(NEXT_TICK)
    }

    /// Waits until it makes sense to ask again.
    async fn wait(&mut self, polls: &mut Polls) {
        let expiry = self.free_at.map(|at| self.until(at));
        match self.want.wait_by {
            WaitBy::Messages => {
                self.listener = self.listener.take().or_else(|| self.turn.as_ref()?.listen());
                let listener = &self.listener;
                let longest = match listener.as_ref().is_some_and(|listener| listener.hears()) {
                    true if self.standing.is_new() => FIRST_LOOK + spread(FIRST_LOOK / 4),
                    true => spread(LONGEST_WAIT),
                    false => spread(LONGEST_WAIT_UNHEARD),
                };
                let limit = expiry.unwrap_or(longest).min(longest);
                let woken = async {
                    match listener {
                        Some(listener) => listener.woken().await,
                        None => pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = woken => {}
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
    /// Withdraws a question that may still be granted, and its place.
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.queue_as(None);
        }
        let stood = self.standing.stood();
        let asked_at = self.asked.map(|lease| lease.asked_at);
        if asked_at.is_none() && stood.is_none() {
            return;
        }
        let until = asked_at.unwrap_or_else(|| self.engine.clock.now()) + self.claim.ttl;
        self.engine.releases.owe(Debt::Release {
            claim: self.claim.clone(),
            way: Way::InTurn { passes: 1, stood },
            until,
            late: asked_at.is_some(),
        });
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
