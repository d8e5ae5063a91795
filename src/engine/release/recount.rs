//! The hold count in the store.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    domain::{Failure, Outcome},
    engine::{core::Core, hold::Hold, retry::retry_until},
};

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
