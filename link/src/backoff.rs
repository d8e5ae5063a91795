//! Growing pauses with jitter, for repeated failures.

use std::time::Duration;

/// Growing pauses between attempts.
#[derive(Debug, Default)]
pub struct Backoff {
    last: Duration,
}

impl Backoff {
    /// Returns the next pause: twice the last pause, limited by `first` and `longest`. Jitter then
    /// changes the pause by up to 25 %, even beyond these limits.
    pub fn next(&mut self, (first, longest): (Duration, Duration)) -> Duration {
        self.last = self.last.saturating_mul(2).max(first).min(longest);
        spread(self.last)
    }
}

/// Returns a random time from 75 % to 125 % of `time`. So clients do not all retry at once.
pub fn spread(time: Duration) -> Duration {
    time.mul_f64(0.75 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn randomized_duration_differs_by_at_most_a_quarter() {
        for _ in 0..1_000 {
            let time = spread(Duration::from_secs(4));
            assert!(time >= Duration::from_secs(3) && time <= Duration::from_secs(5));
        }
    }

    #[test]
    fn backoff_pauses_grow_up_to_the_longest_pause() {
        let (mut backoff, bounds) =
            (Backoff::default(), (Duration::from_millis(10), Duration::from_millis(50)));
        for middle in [10, 20, 40, 50, 50].map(Duration::from_millis) {
            let pause = backoff.next(bounds);
            assert!(pause >= middle.mul_f64(0.75) && pause <= middle.mul_f64(1.25), "{pause:?}");
        }
    }
}
