//! The target that a measured case must reach.

/// A target of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At least this percentage of the figure of `column`.
    AtLeastOf(&'static str, f64),
    /// At most this value.
    AtMost(f64),
    /// At most this percentage of the figure of `column`.
    AtMostOf(&'static str, f64),
    /// Better than every rival that was measured.
    BeatsRivals,
    /// At most this value, even on a busy machine. If the value is higher, the run fails.
    NeverAbove(f64),
    /// The event must never happen. If it happens, the run fails.
    Never,
}
