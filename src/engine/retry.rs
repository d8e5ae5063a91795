//! Asks a store again while that can help.

use tokio::time::{Instant, sleep, timeout_at};

use super::{clock::Clock, timing::BACKOFF};
use crate::{
    domain::{Backoff, Failure},
    store::Answer,
};

/// An answer, with what is left in doubt about it.
pub(crate) struct Answered<T> {
    pub(crate) answer: T,
    /// Whether an earlier question went unanswered: it may have been executed
    /// before this one.
    pub(crate) unsure: bool,
}

/// Asks until there is an answer, a refusal that will stay, or no time left.
pub(crate) async fn retry_until<'a, T>(
    clock: &Clock,
    until: Instant,
    ask: impl Fn() -> Answer<'a, T>,
) -> Result<Answered<T>, Failure> {
    let mut unsure = false;
    let mut backoff = Backoff::default();
    let mut answer = ask().await;
    loop {
        let failure = match answer {
            Ok(answer) => return Ok(Answered { answer, unsure }),
            Err(failure) => failure,
        };
        let pause = backoff.next(BACKOFF);
        if !failure.may_pass() || clock.now() + pause >= until {
            return Err(failure);
        }
        unsure |= failure.may_have_happened();
        sleep(pause).await;
        // The first question is bounded by its store; only trouble costs a timer.
        answer = timeout_at(clock.timer(until), ask())
            .await
            .unwrap_or_else(|elapsed| Err(Failure::unanswered(elapsed)));
    }
}
