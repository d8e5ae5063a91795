//! Changes of what nobody holds, or somebody else.

use super::PermitId;

/// A change of what nobody holds, or somebody else, and what its answer says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// Sets how many there are if nobody has: 1 if it did, else 0.
    SetIfAbsent(u32),
    /// Sets how many there are, held ones among them: how many are free then.
    Set(u32),
    /// Adds so many, or takes them away: how many are free then.
    Add(i64),
    /// Gives this permit back, whoever holds it: 1 if somebody did, else 0.
    GiveBack(PermitId),
}
