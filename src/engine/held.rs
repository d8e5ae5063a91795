//! Shares in a hold: every guard wraps one.
//!
//! Re-entry makes another share of the same [`Hold`], and the last one that goes
//! gives the hold back.

use std::{
    future::{pending, poll_fn},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::{runtime::Handle, time::sleep};

use super::{
    Engine,
    debts::Debt,
    hold::Hold,
    release::{Left, recount},
    timing::END_IS_NEAR,
};
use crate::{
    domain::{Claim, LostReason, Outcome, Token},
    error::Error,
};

/// One share in a hold. Dropped without [`release`](Self::release) it is given
/// back in the background.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) watch: Watch,
    given_back: bool,
}

impl Held {
    pub(crate) fn new(hold: Arc<Hold>, engine: &Arc<Engine>) -> Self {
        Self { watch: Watch { hold, engine: Arc::clone(engine) }, given_back: false }
    }

    /// How long work waits for its release.
    pub(crate) fn release_after_run(&self) -> Duration {
        self.watch.engine.limits.release_after_run
    }

    /// Gives the share back, now.
    pub(crate) async fn release(mut self) -> Result<Left, Error> {
        self.given_back = true;
        let Watch { hold, engine } = &self.watch;
        let now = engine.core.clock.now();
        let believed = hold.remaining(now);
        let left = hold.one_share_less();
        if left == 0 {
            return engine.free(hold, believed, now).await;
        }
        if let Err(reason) = believed {
            return Ok(Left::Lost { reason, holder: None });
        }
        let told = engine.tell_count(hold).await;
        Ok(match told.map_err(|failure| engine.error(hold.name(), failure))? {
            Outcome::Renewed => Left::Shares(left),
            _ => Left::Lost { reason: LostReason::NotOurs, holder: None },
        })
    }
}

impl Held {
    /// Leaves what is held as it is, to whoever gives it back.
    pub(crate) fn forget(mut self) {
        self.given_back = true;
        let Watch { hold, engine } = &self.watch;
        engine.forget(hold);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        let Watch { hold, engine } = &self.watch;
        let now = engine.core.clock.now();
        let believed = hold.remaining(now);
        if hold.one_share_less() == 0 {
            if !engine.pass_on(hold, now) {
                engine.free_in_background(hold, now);
            }
        } else if believed.is_ok() {
            engine.core.debts.owe(Debt::Recount { hold: Arc::clone(hold) });
        }
    }
}

/// Sees a hold without a share in it.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    hold: Arc<Hold>,
    engine: Arc<Engine>,
}

impl Watch {
    pub(crate) fn claim(&self) -> &Claim {
        &self.hold.grant.claim
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.hold.grant.token
    }

    pub(crate) fn count(&self) -> u32 {
        self.hold.shares()
    }

    /// Takes another share: the count in the store grows by one.
    pub(crate) async fn reenter(&self) -> Result<Held, Error> {
        let Self { hold, engine } = self;
        let ended = |reason| Error::Lost { name: hold.name().clone(), reason };
        self.remaining().map_err(ended)?;
        hold.one_more_share().ok_or_else(|| ended(LostReason::Released))?;

        // From here on dropping it takes the share back.
        let share = Held::new(Arc::clone(hold), engine);
        let asked_at = engine.core.clock.now();
        hold.asks(asked_at);
        let ttl = hold.shape().ttl;
        match recount(&engine.core, &engine.contention, hold, ttl, hold.ends()).await {
            Ok(Outcome::Renewed) => {
                hold.renewed(asked_at, engine.core.clock.now());
                self.remaining().map_err(ended)?;
                Ok(share)
            }
            Ok(_) => Err(ended(self.remaining().err().unwrap_or(LostReason::NotOurs))),
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
        loop {
            let look = poll_fn(|_| self.remaining().err().map_or(Poll::Pending, Poll::Ready));
            tokio::select! {
                biased;
                reason = look => return reason,
                () = self.hold.ended() => {}
                // The runtime of the watchdog may be gone, while this one is there.
                () = self.timer() => { self.engine.revive(); }
            }
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

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use crate::{Client, LostReason, MemoryStore, Release};

    use super::*;

    /// The store's no to the count of the others was taken for an answer like any other.
    #[tokio::test(start_paused = true)]
    async fn who_gives_back_a_share_of_what_was_taken_away_learns_it_and_so_do_the_others() {
        for dropped in [true, false] {
            let store = MemoryStore::new();
            let [door, operator] = [(); 2].map(|()| Client::sharing(&store).lock("door").unwrap());
            let guard = door.acquire().await.unwrap();
            let again = guard.reenter().await.unwrap();
            assert!(operator.force_release().await.unwrap());
            match dropped {
                true => drop(again),
                false => {
                    let left = again.release().await.unwrap();
                    let gone = LostReason::NotOurs;
                    assert!(matches!(left, Release::AlreadyGone { reason, .. } if reason == gone));
                }
            }
            let lost = timeout(Duration::from_millis(10), guard.lost()).await;
            assert_eq!(lost, Ok(LostReason::NotOurs));
        }
    }
}
