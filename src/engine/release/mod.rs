//! Giving back: awaited here, or settled in the background. What is owed stands in
//! `engine/debts.rs`; `settle.rs` has the loop that settles it.

pub(crate) mod settle;

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Engine,
    core::Core,
    debts::Debt,
    hold::Hold,
    limits::within,
    retry::{Answered, retry_until},
};
use crate::domain::{Failure, GivenBack, Others, Outcome};

impl Engine {
    /// Gives `hold` back, as far as the caller waits for it. The background does
    /// the rest, and looks again if a grant may still be on its way.
    pub(super) async fn give_back(&self, hold: &Hold, now: Instant) -> Result<GivenBack, Failure> {
        let mode = hold.release_mode(now);
        let promise = self.core.debts.promise(Debt::of(hold, mode));
        let limit = self.limits.release;
        let until = hold.store_ends().min(now + limit);
        let release = || self.core.store.release(hold.claim(), mode);
        let given = within(limit, retry_until(&self.core.clock, until, release)).await?;
        if !hold.is_unsure() {
            promise.kept();
        }
        match given {
            // The question that went unanswered was executed.
            Answered { answer: GivenBack::NotHeld { .. }, unsure: true } => {
                Ok(GivenBack::Freed(Others::Nobody))
            }
            Answered { answer, .. } => {
                if let GivenBack::Freed(others) = answer {
                    self.contention.note(hold.name(), others);
                }
                if answer == GivenBack::Freed(Others::Nobody)
                    && let Some(rest) = hold.rests(now)
                {
                    self.contention.leave_alone(hold.name(), self.core.clock.now() + rest);
                }
                Ok(answer)
            }
        }
    }

    /// Tells the store how many shares `hold` has now.
    pub(super) async fn tell_count(&self, hold: &Arc<Hold>) -> Result<(), Failure> {
        let promise = self.core.debts.promise(Debt::Recount { hold: Arc::clone(hold) });
        let limit = self.limits.release;
        let until = hold.store_ends().min(self.core.clock.now() + limit);
        within(limit, recount(&self.core, hold, None, until)).await?;
        promise.kept();
        Ok(())
    }
}

/// Tells the store how many shares `hold` has, until that is what it was told.
pub(crate) async fn recount(
    core: &Core,
    hold: &Hold,
    ttl: Option<Duration>,
    until: Instant,
) -> Result<Outcome, Failure> {
    loop {
        let shares = hold.shares();
        // Nobody holds a share any more: the release takes it all.
        if shares == 0 {
            return Ok(Outcome::Renewed);
        }
        let told = || core.store.recount(hold.claim(), shares, ttl);
        let given = retry_until(&core.clock, until, told).await?;
        // Others may have told another number meanwhile, and have been executed
        // in another order.
        if given.answer != Outcome::Renewed || hold.shares() == shares {
            return Ok(given.answer);
        }
    }
}
