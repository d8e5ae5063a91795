//! Repeats requests to a store while a retry can help.

use tokio::time::{Instant, sleep, timeout_at};

use super::{clock::Clock, timing::BACKOFF};
use crate::domain::{Backoff, Failure};

/// Decides whether to retry after a failure.
pub(crate) type RetryIf = fn(&Failure) -> bool;

/// A reply, and what is known of earlier requests without a reply.
pub(crate) struct Answered<T> {
    pub(crate) answer: T,
    /// Whether an earlier request got no reply. The store may have executed that request before the
    /// request that got the reply.
    pub(crate) unsure: bool,
    /// When the retry that got the reply was due. `None` if the first request got the reply.
    pub(super) again_at: Option<Instant>,
}

/// Sends a request, with retries after temporary failures, but not beyond `until`.
pub(super) fn retry_until<T, A: Future<Output = Result<T, Failure>>>(
    clock: &Clock,
    until: Instant,
    ask: impl Fn() -> A,
) -> impl Future<Output = Result<Answered<T>, Failure>> {
    retry_while(Failure::is_temporary, clock, until, ask)
}

/// Sends a request, with retries while `retry_if` accepts the failures, but not beyond `until`.
pub(super) async fn retry_while<T, A: Future<Output = Result<T, Failure>>>(
    retry_if: RetryIf,
    clock: &Clock,
    until: Instant,
    ask: impl Fn() -> A,
) -> Result<Answered<T>, Failure> {
    match ask().await {
        Ok(answer) => Ok(Answered { answer, unsure: false, again_at: None }),
        // The retries are boxed, so that the future of a call without a failure is small.
        Err(failure) => Box::pin(ask_again(retry_if, clock, until, ask, failure)).await,
    }
}

/// Retries after the first request has failed. Only retries need a timer: the store itself limits
/// the time of the first request.
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
