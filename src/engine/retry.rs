//! Repeats requests to a store while a retry can help.

use tokio::time::{Instant, sleep, timeout_at};

use super::{clock::Clock, timing::BACKOFF};
use crate::domain::{Backoff, Failure};

/// Whether a later retry can help after such a failure.
pub(crate) type RetryIf = fn(&Failure) -> bool;

/// A reply, and whether an earlier request may have been executed.
pub(crate) struct Answered<T> {
    pub(crate) answer: T,
    /// Whether an earlier request got no reply. It may have been executed before this one.
    pub(crate) unsure: bool,
    /// When it was sent again, if the first request got no reply.
    pub(crate) again_at: Option<Instant>,
}

/// Sends the request until it has a reply, a permanent rejection, or no time left.
pub(crate) fn retry_until<T, A: Future<Output = Result<T, Failure>>>(
    clock: &Clock,
    until: Instant,
    ask: impl Fn() -> A,
) -> impl Future<Output = Result<Answered<T>, Failure>> {
    retry_while(Failure::is_temporary, clock, until, ask)
}

/// The same, but it retries only after failures that `retry_if` accepts.
pub(crate) async fn retry_while<T, A: Future<Output = Result<T, Failure>>>(
    retry_if: RetryIf,
    clock: &Clock,
    until: Instant,
    ask: impl Fn() -> A,
) -> Result<Answered<T>, Failure> {
    match ask().await {
        Ok(answer) => Ok(Answered { answer, unsure: false, again_at: None }),
        // Boxed, so that a call without a failure is small.
        Err(failure) => Box::pin(ask_again(retry_if, clock, until, ask, failure)).await,
    }
}

/// The same after the first request has failed. The first request needs no timer, because the store
/// limits its time.
async fn ask_again<T, A: Future<Output = Result<T, Failure>>>(
    retry_if: RetryIf,
    clock: &Clock,
    until: Instant,
    ask: impl Fn() -> A,
    mut failure: Failure,
) -> Result<Answered<T>, Failure> {
    let mut unsure = false;
    let mut backoff = Backoff::default();
    loop {
        let pause = backoff.next(BACKOFF);
        let again_at = clock.now() + pause;
        if !retry_if(&failure) || again_at >= until {
            return Err(failure);
        }
        unsure |= failure.may_have_happened();
        sleep(pause).await;
        failure = match timeout_at(clock.timer(until), ask()).await {
            Ok(Ok(answer)) => return Ok(Answered { answer, unsure, again_at: Some(again_at) }),
            Ok(Err(failure)) => failure,
            Err(elapsed) => Failure::unanswered(elapsed),
        };
    }
}
