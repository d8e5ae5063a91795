//! The hold count in the store.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    domain::{Failure, Outcome},
    engine::{clock::Clock, hold::Hold, retry::retry_until},
    store::Store,
};

/// Tells the store how many shares `hold` has, until that is what it was told.
pub(crate) async fn recount(
    store: &Arc<dyn Store>,
    clock: &Clock,
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
        let told = || store.recount(hold.claim(), shares, ttl);
        let given = retry_until(clock, until, told).await?;
        // Others may have told another number meanwhile, and have been executed
        // in another order.
        if given.answer != Outcome::Renewed || hold.shares() == shares {
            return Ok(given.answer);
        }
    }
}
