//! Shares in a hold: every guard wraps one.
//!
//! Re-entry makes another share of the same [`Hold`], and the last one that goes
//! gives the hold back.

use std::{
    fmt,
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use super::{Engine, debts::Debt, hold::Hold, release::recount, timing::END_IS_NEAR};
use crate::{
    domain::{Claim, GivenBack, Holder, LostReason, Outcome},
    error::Error,
};

/// What a release found.
pub(crate) enum Left {
    /// Other shares of the hold are still there.
    Shares(u32),
    /// It was ours until now.
    Nothing,
    /// It was over before.
    Lost { reason: LostReason, holder: Option<Holder> },
}

/// One share in a hold. Dropped without [`release`](Self::release) it is given
/// back in the background.
pub(crate) struct Held {
    hold: Arc<Hold>,
    engine: Arc<Engine>,
    given_back: bool,
}

impl Held {
    pub(crate) fn new(hold: Arc<Hold>, engine: &Arc<Engine>) -> Self {
        Self { hold, engine: Arc::clone(engine), given_back: false }
    }

    pub(crate) fn claim(&self) -> &Claim {
        self.hold.claim()
    }

    /// How long work waits for its release.
    pub(crate) fn release_after_run(&self) -> Duration {
        self.engine.limits.release_after_run
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch { hold: Arc::clone(&self.hold), engine: Arc::clone(&self.engine) }
    }

    /// Gives the share back, now.
    pub(crate) async fn release(mut self) -> Result<Left, Error> {
        self.given_back = true;
        let now = self.engine.core.clock.now();
        let believed = self.hold.remaining(now);
        if self.hold.one_share_less() {
            return match believed {
                // Nobody waits for a store that is away to hear what is known.
                Err(reason) if !self.engine.core.store.is_up() => {
                    self.free_in_background(now);
                    Ok(Left::Lost { reason, holder: None })
                }
                Ok(_) if self.pass_on(now) => Ok(Left::Nothing),
                believed => self.free(believed, now).await,
            };
        }
        if let Err(reason) = believed {
            return Ok(Left::Lost { reason, holder: None });
        }
        let left = self.hold.shares();
        let told = self.engine.tell_count(&self.hold).await;
        told.map_err(|failure| self.engine.error(self.hold.name(), failure))?;
        Ok(Left::Shares(left))
    }

    async fn free(
        &self,
        believed: Result<Duration, LostReason>,
        asked_at: Instant,
    ) -> Result<Left, Error> {
        let hold = &self.hold;
        self.engine.keeper.unwatch(hold.id());
        // When the store has answered, or we are dropped, whoever waits here may ask.
        let _leaving = Leaving(self);
        // Before the store can grant it to somebody else.
        let counts = hold.end(LostReason::Released).is_ok();
        let releasing = self.engine.core.counters.releasing(counts);
        let given = self.engine.give_back(hold, asked_at).await;
        tracing::debug!(target: "leasehold", lock = %hold.name(), owner = %hold.claim().owner,
            held = ?hold.held_for(self.engine.core.clock.now()), ?given, "release");

        let left = match (believed, given) {
            (Err(reason), given) => {
                let holder = given.ok().and_then(GivenBack::holder);
                return Ok(Left::Lost { reason, holder });
            }
            (Ok(_), Err(failure)) => return Err(self.engine.error(hold.name(), failure)),
            (Ok(_), Ok(GivenBack::Freed(_))) => Left::Nothing,
            (Ok(left), Ok(GivenBack::NotHeld { holder })) => {
                // It may have ended while we asked.
                let reason = match self.engine.core.clock.now() < asked_at + left {
                    true => LostReason::NotOurs,
                    false => LostReason::Expired,
                };
                Left::Lost { reason, holder }
            }
        };
        if releasing.answered() {
            match &left {
                Left::Lost { reason, .. } => hold.found_lost(*reason),
                _ => hold.was_released(),
            }
        }
        Ok(left)
    }

    /// Passes the last share's grant on to whoever is next in this process, if
    /// somebody waits here and nobody else is kept waiting for too long.
    fn pass_on(&self, now: Instant) -> bool {
        let (hold, engine) = (&self.hold, &self.engine);
        if !engine.contention.pass_on(hold, now) {
            return false;
        }
        tracing::debug!(target: "leasehold", lock = %hold.name(), owner = %hold.claim().owner,
            held = ?hold.held_for(now), "release, to the next one here");
        engine.core.counters.handed_over.add(1);
        true
    }

    /// Gives the last share back without waiting for it.
    fn free_in_background(&self, now: Instant) {
        self.engine.keeper.unwatch(self.hold.id());
        let _leaving = Leaving(self);
        tracing::debug!(target: "leasehold", lock = %self.hold.name(),
            owner = %self.hold.claim().owner, held = ?self.hold.held_for(now),
            "release, in the background");
        if self.hold.end(LostReason::Released).is_ok() {
            self.hold.was_released();
        }
        self.engine.core.debts.owe(Debt::of(&self.hold, self.hold.release_mode(now)));
    }
}

/// When it is dropped the hold leaves the turn to others here.
struct Leaving<'a>(&'a Held);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.engine.contention.left(&self.0.hold);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        let now = self.engine.core.clock.now();
        let believed = self.hold.remaining(now);
        if self.hold.one_share_less() {
            if !self.pass_on(now) {
                self.free_in_background(now);
            }
        } else if believed.is_ok() {
            self.engine.core.debts.owe(Debt::Recount { hold: Arc::clone(&self.hold) });
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.hold, f)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.hold, f)
    }
}

/// Sees a hold without a share in it.
#[derive(Clone)]
pub(crate) struct Watch {
    hold: Arc<Hold>,
    engine: Arc<Engine>,
}

impl Watch {
    pub(crate) fn claim(&self) -> &Claim {
        self.hold.claim()
    }

    pub(crate) fn count(&self) -> u32 {
        self.hold.shares()
    }

    /// Takes another share: the count in the store grows by one.
    pub(crate) async fn reenter(&self) -> Result<Held, Error> {
        let (hold, engine) = (&self.hold, &self.engine);
        let ended = |reason| Error::Lost { name: hold.name().clone(), reason };
        self.remaining().map_err(ended)?;
        hold.one_more_share().ok_or_else(|| ended(LostReason::Released))?;

        // From here on dropping it takes the share back.
        let share = Held::new(Arc::clone(hold), engine);
        let asked_at = engine.core.clock.now();
        hold.asks(asked_at);
        let ttl = hold.renewal().ttl;
        match recount(&engine.core, hold, ttl, hold.ends()).await {
            Ok(Outcome::Renewed) => {
                hold.renewed(asked_at, engine.core.clock.now());
                self.remaining().map_err(ended)?;
                Ok(share)
            }
            Ok(_) => {
                engine.contention.disown(hold);
                Err(ended(self.remaining().err().unwrap_or(LostReason::NotOurs)))
            }
            Err(failure) => Err(engine.error(hold.name(), failure)),
        }
    }

    /// How long the hold may still be believed.
    pub(crate) fn remaining(&self) -> Result<Duration, LostReason> {
        self.hold.remaining(self.engine.core.clock.now())
    }

    /// Waits until the hold is over. Each look at it reads the clock first: after
    /// a pause of the process the clock knows before any timer does. The timer is ours:
    /// the watchdog may be on a runtime that is blocked.
    pub(crate) async fn over(self) -> LostReason {
        let mut told = pin!(self.hold.ended());
        loop {
            let mut ends = pin!(self.timer());
            let look = poll_fn(|cx| match self.remaining() {
                Err(reason) => Poll::Ready(Some(reason)),
                Ok(_) => match told.as_mut().poll(cx) {
                    Poll::Ready(reason) => Poll::Ready(Some(reason)),
                    Poll::Pending => ends.as_mut().poll(cx).map(|()| None),
                },
            });
            if let Some(reason) = look.await {
                return reason;
            }
            // The runtime of the watchdog may be gone, while this one is there.
            self.engine.revive(false);
        }
    }

    /// Waits until half of the time has passed that is left to the hold as it is now, or
    /// all of it if that is little. Without a runtime there is no timer.
    async fn timer(&self) {
        match self.remaining() {
            Ok(left) if Handle::try_current().is_ok() => {
                sleep(if left > END_IS_NEAR { left / 2 } else { left }).await;
            }
            Ok(_) => pending().await,
            Err(_) => {}
        }
    }
}
