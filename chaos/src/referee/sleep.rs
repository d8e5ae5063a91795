//! Rule: no Leasehold worker sleeps while a lock is free.

use std::time::Duration;

use super::{Verdict, Violation};
use crate::clock::{Nanos, nanos, since};
use crate::orders::{Kind, Object};
use crate::record::{Hold, Record};

pub(super) fn look(record: &Record, object: &Object, ttl: Duration, verdict: &mut Verdict) {
    // A semaphore has no leases, so the permits of a dead process are never free.
    if object.kind == Kind::Semaphore {
        return;
    }
    let busy = busy(record, object, ttl);
    let holds = record.holds.values().filter(|it| it.name == object.name);
    for hold in holds.filter(|it| is_ours(it)) {
        let until = [hold.entered, hold.gave_up, record.deaths.get(&hold.process).copied()];
        let Some(until) = until.into_iter().flatten().min() else { continue };
        if let Some(free) = longest_free(&busy, hold.call, until).filter(|it| *it > BOUND) {
            let what =
                format!("{} waited for {free:?} for `{object}`, which was free", hold.process);
            verdict.violations.push(Violation { at: hold.call, what });
        }
    }
}

fn is_ours(hold: &Hold) -> bool {
    hold.process.starts_with("rust")
}

/// When the object may have been held, or the servers were unreachable, in order.
fn busy(record: &Record, object: &Object, ttl: Duration) -> Vec<(Nanos, Nanos)> {
    let holds = record.holds.values().filter(|it| it.name == object.name);
    let held = holds.filter_map(|hold| {
        let (from, until) = record.belief(hold)?;
        let known = hold.left.unwrap_or_else(|| until.saturating_add(nanos(ttl)));
        Some((from, known))
    });
    let settled = |healed: Nanos| healed + nanos(SETTLED);
    let away = record.faults.iter().map(|it| (it.from, settled(it.healed)));
    let mut busy: Vec<_> = held.chain(away).collect();
    busy.sort_unstable();
    let mut merged: Vec<(Nanos, Nanos)> = vec![];
    for (from, until) in busy {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => merged.push((from, until)),
        }
    }
    merged
}

/// The longest time between `from` and `until` in which the object was certainly free.
fn longest_free(busy: &[(Nanos, Nanos)], from: Nanos, until: Nanos) -> Option<Duration> {
    let first = busy.partition_point(|it| it.1 <= from);
    let mut free_since = from;
    let mut longest = Duration::ZERO;
    for (begin, end) in busy[first..].iter().take_while(|it| it.0 < until) {
        longest = longest.max(since(free_since, *begin));
        free_since = free_since.max(*end);
    }
    longest = longest.max(since(free_since, until));
    (!longest.is_zero()).then_some(longest)
}

/// A lost message costs four seconds. The machine does not explain twice as much.
const BOUND: Duration = Duration::from_secs(8);
/// Each worker has asked again within this time after a fault.
const SETTLED: Duration = Duration::from_secs(2);
