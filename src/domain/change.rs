//! Changes of a number that nobody holds, or of what somebody else holds.

use super::PermitId;

/// A change of what nobody holds, or somebody else, and what its answer says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// Sets it if there is none: 1 if it did, else 0.
    SetIfAbsent(u32),
    /// Sets how many there are, held ones among them: how many are free then.
    Set(u32),
    /// Adds so many, or takes them away: how many are free then.
    Add(i64),
    /// Takes away all that there are: how many there were.
    Drain,
    /// Takes one away, and the last one with the number: how many there are then.
    CountDown,
    /// Removes it: 1 if there was one, else 0.
    Delete,
    /// Gives this permit back, whoever holds it: 1 if somebody did, else 0.
    GiveBack(PermitId),
    /// Raises the counter of tokens to so many at least, and never lowers it: what it is then.
    RaiseToken(u64),
}
