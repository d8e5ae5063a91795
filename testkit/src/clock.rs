//! Real time, and waiting for conditions.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Calls `check` every few milliseconds until it returns true.
///
/// # Panics
///
/// If `check` still returns false after `limit`. The message contains `what`.
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut check: impl FnMut() -> bool) {
    let started = clock();
    while !check() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(PAUSE);
    }
}

/// Waits until `check` returns true, as [`eventually`] does. Meanwhile, repeats `request` after
/// each pause of `again`, because the server may have cancelled an earlier attempt.
///
/// # Panics
///
/// If `check` still returns false after `limit`.
#[track_caller]
pub(crate) fn eventually_with_requests(
    what: &str,
    limit: Duration,
    again: Duration,
    mut ask: impl FnMut(),
    mut check: impl FnMut() -> bool,
) {
    let mut asked: Option<Instant> = None;
    eventually(what, limit, || {
        if asked.is_none_or(|at| at.elapsed() >= again) {
            asked = Some(clock());
            ask();
        }
        check()
    });
}

/// Returns the time now. No other function of this crate reads a clock.
#[expect(
    clippy::disallowed_methods,
    reason = "real servers take real time; no test can pause their clock"
)]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

/// The pause between two checks of a condition.
pub(crate) const PAUSE: Duration = Duration::from_millis(3);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn wait_ends_when_the_condition_is_true() {
        let mut asked = 0;
        eventually("the check has run three times", Duration::from_secs(5), || {
            asked += 1;
            asked == 3
        });
        assert_eq!(asked, 3);
    }

    #[test]
    fn wait_repeats_its_request_until_the_condition_is_true() {
        let (asked, mut checked) = (Cell::new(0), 0);
        let ask = || asked.set(asked.get() + 1);
        eventually_with_requests(
            "the request was sent twice",
            Duration::from_secs(5),
            Duration::from_millis(1),
            ask,
            || {
                checked += 1;
                asked.get() == 2
            },
        );
        assert!(checked >= 2);
    }

    #[test]
    #[should_panic(expected = "not within 20ms: the port is open")]
    fn failed_wait_names_its_condition() {
        eventually("the port is open", Duration::from_millis(20), || false);
    }
}
