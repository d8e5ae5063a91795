//! Rule: no object has more holds at the same time than it allows.

use std::collections::BTreeSet;

use super::{Verdict, Violation, within};
use crate::clock::{Nanos, since};
use crate::orders::{Mode, Object};
use crate::record::{Hold, Record};

/// A hold, and the time in which its worker believed that it held the object.
pub(super) struct Belief<'a> {
    number: u64,
    pub(super) hold: &'a Hold,
    from: Nanos,
    until: Nanos,
}

/// Checks that two beliefs never overlap if their holds exclude each other. `beliefs` are sorted by
/// their start.
pub(super) fn look(
    beliefs: Vec<Belief<'_>>,
    object: &Object,
    windows: &[(Nanos, Nanos)],
    verdict: &mut Verdict,
) {
    let mut believed: Vec<Belief<'_>> = vec![];
    for new in beliefs {
        believed.retain(|it| it.until > new.from);
        if let Some(other) = conflicting(&believed, &new, object.permits) {
            let until = new.until.min(other.until);
            if !object.replicated && within(windows, new.from, until) {
                verdict.excused.push(new.from);
            } else {
                let what = describe(object, other, &new, until);
                verdict.violations.push(Violation { at: new.from, what });
            }
        }
        believed.push(new);
    }
}

/// The beliefs for all holds of these names, sorted by their start.
pub(super) fn beliefs<'a>(record: &'a Record, names: &BTreeSet<&str>) -> Vec<Belief<'a>> {
    let holds = record.holds.iter().filter(|(_, it)| names.contains(it.name.as_str()));
    let believed = holds.filter_map(|(number, hold)| {
        let (from, until) = record.belief(hold)?;
        (from < until).then_some(Belief { number: *number, hold, from, until })
    });
    let mut believed: Vec<_> = believed.collect();
    believed.sort_by_key(|it| it.from);
    believed
}

/// The earlier hold that should have excluded the new hold. If there are several such holds,
/// returns the one that ends last. For permits, returns the hold whose end frees the missing
/// permit.
fn conflicting<'a, 'r>(
    believed: &'a [Belief<'r>],
    new: &Belief<'_>,
    permits: u32,
) -> Option<&'a Belief<'r>> {
    match new.hold.mode {
        Mode::Permit => {
            let many = believed.len().checked_sub(usize::try_from(permits).ok()?)?;
            let mut by_end: Vec<_> = believed.iter().collect();
            by_end.sort_by_key(|it| it.until);
            by_end.get(many).copied()
        }
        mode => {
            let apart = |it: &&Belief<'_>| mode != Mode::Shared || it.hold.mode != mode;
            believed.iter().filter(apart).max_by_key(|it| it.until)
        }
    }
}

fn describe(object: &Object, one: &Belief<'_>, other: &Belief<'_>, until: Nanos) -> String {
    let for_long = since(other.from, until);
    format!(
        "`{object}` was held by {} ({}) and {} ({}) for {for_long:?}",
        one.hold.process, one.number, other.hold.process, other.number
    )
}
