//! How long a call waits for the store. A call with a timeout, such as `acquire_within`, is limited
//! only by that timeout.

use std::{future::Future, time::Duration};

use tokio::time::sleep;

use super::timing::LONGEST_TIMEOUT;
use crate::domain::Failure;

/// How long one caller waits for one reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The timeout of a call that does not wait until an object is free, such as `try_acquire`.
    pub(crate) request: Duration,
    /// The timeout of an awaited release. After it, a background task continues the release.
    pub(crate) release: Duration,
    /// The timeout of the release after work under a lock. It is short, because the result of the
    /// work should not wait for the release.
    pub(crate) release_after_run: Duration,
    /// Whether a call fails at once if the store is unreachable.
    pub(crate) fail_fast: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(3),
            release: Duration::from_secs(5),
            release_after_run: Duration::from_millis(500),
            fail_fast: false,
        }
    }
}

impl Limits {
    /// Returns `limit`, or the nearest limit that a timer can keep.
    pub(crate) fn sound(limit: Duration) -> Duration {
        limit.clamp(Duration::from_millis(1), LONGEST_TIMEOUT)
    }
}

/// Waits for `reply` for at most `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    reply: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        result = reply => result,
        // The timer is made in the block, so that an immediate reply needs no timer.
        () = async { sleep(limit).await } => Err(nothing_came(limit)),
    }
}

/// Returns the failure of a request that got no reply within `limit`.
pub(crate) fn nothing_came(limit: Duration) -> Failure {
    Failure::unanswered(format!("timed out after {limit:?}"))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reply_in_time_is_returned_and_silence_times_out() {
        let (start, limit) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(within(limit, ready(Ok(1))).await.unwrap(), 1);
        let late = async {
            sleep(limit / 2).await;
            Ok(2)
        };
        assert_eq!(within(limit, late).await.unwrap(), 2);
        let silence = within(limit, pending::<Result<(), _>>()).await.unwrap_err();
        assert!(silence.may_have_happened());
        assert_eq!(silence.to_string(), "no reply: timed out after 1s");
        assert_eq!(start.elapsed(), limit * 3 / 2);
    }

    #[test]
    fn immediate_result_is_returned_without_a_runtime() {
        use futures_util::FutureExt;
        assert!(within(Duration::ZERO, ready(Ok(()))).now_or_never().unwrap().is_ok());
    }

    #[test]
    fn timeouts_of_any_length_are_clamped_to_a_valid_range() {
        assert_eq!(Limits::sound(Duration::ZERO), Duration::from_millis(1));
        assert_eq!(Limits::sound(Duration::MAX), LONGEST_TIMEOUT);
    }
}
