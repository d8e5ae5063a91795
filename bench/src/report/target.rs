//! What is to be reached.

/// Something that a case has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At least so much of what `column` has.
    AtLeastOf(&'static str, f64),
    /// At most so much.
    AtMost(f64),
    /// At most so much of what `column` has.
    AtMostOf(&'static str, f64),
    /// Better than every rival that was measured.
    BeatsRivals,
    /// At most so much on a machine that is busy, too, or the run has failed.
    NeverAbove(f64),
    /// Not once, or the run has failed.
    Never,
}
