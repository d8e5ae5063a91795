//! Real time, and waiting for something to become true.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waits until `check` says yes, asking every few milliseconds.
///
/// # Panics
///
/// With `what` in the message, if `check` still says no after `limit`.
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut check: impl FnMut() -> bool) {
    let started = clock();
    while !check() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(PAUSE);
    }
}

/// The one place where this crate reads a clock.
#[expect(
    clippy::disallowed_methods,
    reason = "real servers take real time; no test can pause their clock"
)]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

/// How long to leave a condition alone before looking again.
pub(crate) const PAUSE: Duration = Duration::from_millis(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_true_is_waited_for() {
        let mut asked = 0;
        eventually("asked three times", Duration::from_secs(5), || {
            asked += 1;
            asked == 3
        });
        assert_eq!(asked, 3);
    }

    #[test]
    #[should_panic(expected = "not within 20ms: pigs fly")]
    fn what_never_becomes_true_is_named() {
        eventually("pigs fly", Duration::from_millis(20), || false);
    }
}
