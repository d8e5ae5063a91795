//! The time in transit.

use std::time::Duration;

use fastrand::Rng;

/// How long bytes are in transit. The runtime's timers count in milliseconds, so bytes that are due
/// between two milliseconds arrive at the later one.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold_twin::Delay;
///
/// let slow = Delay::UpTo(Duration::from_millis(20));
/// assert_ne!(slow, Delay::None);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Delay {
    /// Bytes arrive at once.
    #[default]
    None,
    /// Bytes always take this time.
    Fixed(Duration),
    /// Each message takes a random time, from zero to this time.
    UpTo(Duration),
}

impl Delay {
    pub(super) fn draw(self, random: &mut Rng) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(time) => time,
            Self::UpTo(most) => most.mul_f64(random.f64()),
        }
    }
}
