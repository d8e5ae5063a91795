//! Rule: no Leasehold worker sleeps while the lock that it waits for is free.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{SETTLED, Verdict, Violation};
use crate::clock::{Nanos, nanos, since};
use crate::orders::{Kind, Object};
use crate::record::{Hold, Record};

pub(super) fn look(
    record: &Record,
    (object, names): (&Object, &BTreeSet<&str>),
    ttl: Duration,
    verdict: &mut Verdict,
) {
    // Semaphores and queues are not checked. A semaphore has no leases, so the permits of a dead
    // process never become free. At a queue, tasks wait for at most a second.
    if matches!(object.kind, Kind::Semaphore | Kind::Queue) {
        return;
    }
    let mut busy = busy(record, names, ttl);
    if object.kind == Kind::Fair {
        busy.extend(queued_dead(record, object));
    }
    let busy = merged(busy);
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

/// The times in which dead Redisson waiters may have been in the queue. One after the other, each
/// dead waiter blocks the queue for the length of its timeout.
fn queued_dead(record: &Record, object: &Object) -> Vec<(Nanos, Nanos)> {
    let holds = record.holds.values().filter(|it| it.name == object.name && !is_ours(it));
    let waited = holds.filter(|it| it.entered.is_none() && it.gave_up.is_none());
    let died = waited.filter_map(|it| record.deaths.get(&it.process));
    died.map(|at| (*at, at + nanos(QUEUED_DEAD))).collect()
}

/// The times in which one of these names may have been held, or servers were unreachable.
fn busy(record: &Record, names: &BTreeSet<&str>, ttl: Duration) -> Vec<(Nanos, Nanos)> {
    let holds = record.holds.values().filter(|it| names.contains(it.name.as_str()));
    let held = holds.filter_map(|hold| {
        let (from, until) = record.belief(hold)?;
        let known = hold.left.unwrap_or_else(|| until.saturating_add(nanos(ttl)));
        Some((from, known))
    });
    let settled = |healed: Nanos| healed + nanos(SETTLED);
    let away = record.faults.iter().map(|it| (it.from, settled(it.healed)));
    held.chain(away).collect()
}

/// Sorts the times, and joins times that overlap.
fn merged(mut busy: Vec<(Nanos, Nanos)>) -> Vec<(Nanos, Nanos)> {
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

/// The longest correct wait for a free lock. A lost message delays a waiter by four seconds, and a
/// busy machine does not double this delay.
const BOUND: Duration = Duration::from_secs(8);
/// How long a dead Redisson worker may block a queue. This is the sum of the lease of a holder and
/// the timeouts of three waiters, because a Redisson worker has three threads.
const QUEUED_DEAD: Duration = Duration::from_secs(13);
