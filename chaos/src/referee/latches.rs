//! Rules: no task passes a closed latch, and no task waits for long at an open latch.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{BEHIND, SETTLED, Verdict, Violation, failovers, within};
use crate::clock::{Nanos, nanos, since};
use crate::orders::Object;
use crate::record::Record;

pub(super) fn look(
    record: &Record,
    object: &Object,
    windows: &[(Nanos, Nanos)],
    verdict: &mut Verdict,
) {
    let Some(opened) = record.opened.get(&object.name).copied() else { return };
    for hold in record.holds.values().filter(|it| it.name == object.name) {
        let Some(at) = hold.entered.or(hold.gave_up) else { continue };
        let process = &hold.process;
        // A failover that loses the data of a latch opens the latch. So in the windows after
        // failovers, a task may pass too early.
        if hold.entered.is_some() && at < opened && !within(windows, at, at) {
            let what = format!("{process} passed `{object}`, which was closed");
            verdict.violations.push(Violation { at, what });
        }
        let late = since(settled(record, opened.max(hold.call)), at);
        if late > BOUND {
            let what = format!("{process} waited for {late:?} at `{object}`, which was open");
            verdict.violations.push(Violation { at, what });
        }
    }
}

/// The latches that a failover may have closed again, because the promoted server had not received
/// their opening.
#[must_use]
pub fn closed_again(record: &Record) -> BTreeSet<String> {
    let is_lost = |opened: Nanos| {
        let mut lose =
            failovers(record).map(|it| (it.from.saturating_sub(nanos(BEHIND)), it.healed));
        lose.any(|(begin, end)| (begin..=end).contains(&opened))
    };
    let lost = record.opened.iter().filter(|(_, opened)| is_lost(**opened));
    lost.map(|(name, _)| name.clone()).collect()
}

/// The first time after `from` at which no fault prevents a worker from reading the latch.
fn settled(record: &Record, from: Nanos) -> Nanos {
    let ends = record.faults.iter().map(|it| (it.from, it.healed + nanos(SETTLED)));
    let during = ends.filter(|(begin, end)| (*begin..*end).contains(&from));
    during.map(|(_, end)| end).max().unwrap_or(from)
}

/// The longest correct wait at an open latch. A lost message delays a waiter by four seconds, and a
/// busy machine does not double this delay.
const BOUND: Duration = Duration::from_secs(8);
