//! The ways to acquire, and what they have in common: read `attempt.rs` first.

mod attempt;
mod waiting;

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::Instrument;

use self::attempt::Attempt;
use super::{
    Engine,
    contention::Turn,
    grant::{Grant, Shape, Terms},
    held::Held,
    hold::Hold,
};
use crate::{
    domain::{Failure, Holder, Name, WaitBy, in_millis},
    error::Error,
};

/// What a caller wants: a lock, and how to wait for it and keep it.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) name: Name,
    pub(crate) ttl: Duration,
    pub(crate) terms: Terms,
    pub(crate) wait_by: WaitBy,
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

impl Engine {
    /// Waits until `want` is ours.
    pub(crate) async fn acquire(self: &Arc<Self>, want: &Want) -> Result<Held, Error> {
        self.acquire_noting(want, &Heard::default(), None).await
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
        let until = start + patience;
        let acquired = timeout_at(until, self.acquire_noting(want, &heard, Some(until))).await;
        acquired.unwrap_or_else(|_| Err(self.gave_up(want, start.elapsed(), heard.take())))
    }

    /// Asks once whether `want` can be ours now.
    pub(crate) async fn try_acquire(self: &Arc<Self>, want: &Want) -> Result<Option<Held>, Error> {
        self.ready()?;
        let heard = Heard::default();
        let attempt = Attempt::new(self, want, &heard, None);
        let span = attempt.span();
        let limit = self.limits.question;
        let asked = timeout(limit, attempt.ask_until_answered().instrument(span)).await;
        asked.unwrap_or_else(|_| Err(self.unanswered(&want.name, limit, heard.take())))
    }

    async fn acquire_noting(
        self: &Arc<Self>,
        want: &Want,
        heard: &Heard,
        until: Option<Instant>,
    ) -> Result<Held, Error> {
        self.ready()?;
        let _waiting = self.core.counters.waiting.while_kept();
        let shape = Shape(want.terms.renewed.then_some(want.ttl));
        let listens = want.wait_by == WaitBy::Messages;
        let turn = self.contention.turn(&want.name, shape, listens, || self.revive(true)).await;
        let mut turn = turn.ok_or(Error::ShutDown)?;
        if let Some(baton) = turn.take_baton() {
            let now = self.core.clock.now();
            if let Some(grant) = baton.take(now) {
                tracing::debug!(target: "leasehold", lock = %want.name, owner = %grant.claim.owner,
                    "grant, by the one before here");
                return self.enter(want, grant, Some(turn), now, Some(now));
            }
        }
        if let Some(others_first) = turn.head_start {
            // Who has little patience needs it to ask.
            let most = until.map(|until| until.saturating_duration_since(Instant::now()) / 4);
            if most.is_none_or(|most| others_first <= most) {
                Box::pin(self.unless_closed(sleep(others_first))).await?;
            }
        }
        let attempt = Attempt::new(self, want, heard, Some(turn));
        let span = attempt.span();
        // In boxes, this one and the next: who waits for a turn is small, and so is
        // who need not wait for the store.
        Box::pin(attempt.run().instrument(span)).await
    }

    /// Makes a grant a hold for `want`: a new one, or that of the hold before, which left it at
    /// `left_at`. Fails if the client was shut down before it was seen to have this hold.
    fn enter(
        self: &Arc<Self>,
        want: &Want,
        grant: Grant,
        turn: Option<Turn>,
        now: Instant,
        left_at: Option<Instant>,
    ) -> Result<Held, Error> {
        let asked_at = grant.lease.asked_at;
        let hold = Arc::new(Hold::new(grant, want.terms, now, &self.core.counters));
        self.contention.entered(&hold, turn, asked_at);
        self.keeper.watch(&hold, left_at);
        if self.is_shut() {
            self.take_back(&hold);
            return Err(Error::ShutDown);
        }
        // The runtime may have ended meanwhile on which the background ran.
        self.revive(true);
        Ok(Held::new(hold, self))
    }

    pub(super) fn next_grant(&self) -> u64 {
        self.grants.fetch_add(1, Ordering::Relaxed)
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
        let seen = || self.contention.seen(name, self.core.clock.now()).map(Ok);
        match heard.or_else(seen) {
            Some(Ok(holder)) => {
                self.core.counters.timed_out.add(1);
                let by_this_client = self.identity.is_of(holder.owner());
                Error::TimedOut { name: name.clone(), waited, holder: Some(holder), by_this_client }
            }
            heard => self.unanswered(name, waited, heard),
        }
    }

    /// The store did not answer for so long, and `heard` is what it said before.
    fn unanswered(
        &self,
        name: &Name,
        waited: Duration,
        heard: Option<Result<Holder, Failure>>,
    ) -> Error {
        let reason = match (self.core.store.obstacle(), heard) {
            // What is in the way now is newer than what was heard.
            (Some(obstacle), _) => format!("no answer within {waited:?}: {obstacle}"),
            (None, Some(Err(failure))) => return Error::about(name, failure),
            (None, _) => format!("no answer within {waited:?}"),
        };
        Error::silent(name.clone(), reason)
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
