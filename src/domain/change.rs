//! Changes of a number that nobody holds.

/// A change of a number that nobody holds, and what its answer says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// Sets it if there is none: 1 if it did, else 0.
    SetIfAbsent(u32),
    /// Adds so many, or takes them away: how many there are then.
    Add(i64),
    /// Takes away all that there are: how many there were.
    Drain,
    /// Takes one away, and the last one with the number: how many there are then.
    CountDown,
    /// Removes it: 1 if there was one, else 0.
    Delete,
}
