//! Rules: only one worker has an element at a time, no element is done twice, and no element is
//! lost.

use std::collections::{BTreeMap, BTreeSet};

use super::exclusion::{self, Belief};
use super::{BEHIND, SETTLED, Verdict, Violation, within};
use crate::clock::{Nanos, nanos};
use crate::fault::HealedFault;
use crate::orders::Object;
use crate::record::{Hold, Push, Record};

pub(super) fn look(
    record: &Record,
    object: &Object,
    windows: &[(Nanos, Nanos)],
    verdict: &mut Verdict,
) {
    let mut by_element: BTreeMap<&str, Vec<Belief<'_>>> = BTreeMap::new();
    for belief in exclusion::beliefs(record, &BTreeSet::from([object.name.as_str()])) {
        by_element
            .entry(belief.hold.element.as_deref().unwrap_or_default())
            .or_default()
            .push(belief);
    }
    for believed in by_element.into_values() {
        exclusion::look(believed, object, windows, verdict);
    }
    verdict.violations.extend(done_again(record, object, windows));
    verdict.violations.extend(lost(record, object, windows));
}

/// Whether a failover may have lost a write that happened at `at`. The promoted server may not have
/// received the latest writes.
fn may_be_forgotten(windows: &[(Nanos, Nanos)], at: Nanos) -> bool {
    let earlier = |(begin, end): &(Nanos, Nanos)| (begin.saturating_sub(nanos(BEHIND)), *end);
    let windows: Vec<_> = windows.iter().map(earlier).collect();
    within(&windows, at, at)
}

fn claims<'a>(record: &'a Record, object: &Object) -> impl Iterator<Item = &'a Hold> {
    let name = object.name.clone();
    record.holds.values().filter(move |it| it.name == name)
}

/// Elements that were claimed after the store had confirmed that they were done.
fn done_again(record: &Record, object: &Object, windows: &[(Nanos, Nanos)]) -> Vec<Violation> {
    let mut granted: Vec<_> =
        claims(record, object).filter_map(|it| Some((it.entered?, it))).collect();
    granted.sort_by_key(|(at, _)| *at);
    let mut done: BTreeMap<&str, &Hold> = BTreeMap::new();
    let mut found = vec![];
    for (at, hold) in granted {
        let Some(element) = hold.element.as_deref() else { continue };
        if let Some(before) = done.get(element) {
            let (one, other) = (&hold.process, &before.process);
            let what = format!("{one} claimed `{element}` of `{object}`, which {other} had done");
            found.push(Violation { at, what });
        }
        if hold.left.is_some_and(|at| hold.done && !may_be_forgotten(windows, at)) {
            done.insert(element, hold);
        }
    }
    found
}

/// Elements that were pushed, but never reported as done, not even by the drain at the end.
fn lost(record: &Record, object: &Object, windows: &[(Nanos, Nanos)]) -> Vec<Violation> {
    let done: BTreeSet<_> = claims(record, object)
        .filter(|it| may_be_done(it))
        .filter_map(|it| it.element.as_deref())
        .collect();
    let pushed = record.pushed.iter().filter(|it| it.name == object.name);
    let missing: Vec<_> = pushed
        .filter(|it| !done.contains(it.element.as_str()) && !may_be_forgotten(windows, it.at))
        .collect();
    // If a reply to Redisson's `poll` is lost, the polled element is lost, too. So each `poll`
    // whose reply may be lost excuses one missing element.
    let excused = claims(record, object).filter(|it| may_lose(record, it)).count();
    if missing.len() <= excused {
        return vec![];
    }
    let report = |push: &&Push| {
        let what = format!(
            "`{}` of `{object}` was lost; at most {excused} of {} may be lost with Redisson",
            push.element,
            missing.len()
        );
        Violation { at: push.at, what }
    };
    missing.iter().map(report).collect()
}

/// Whether the element is done, or may be done because the worker's report got no reply.
fn may_be_done(hold: &Hold) -> bool {
    hold.done || hold.leaving.is_some() && hold.left.is_none() && hold.lost.is_none()
}

/// Whether a fault may have lost a reply to this `poll` of Redisson.
fn may_lose(record: &Record, hold: &Hold) -> bool {
    let died = record.deaths.get(&hold.process).copied();
    let ended = hold.entered.into_iter().chain(hold.gave_up).chain(died).min();
    let ended = ended.unwrap_or(Nanos::MAX);
    let strikes = |it: &HealedFault| it.from <= ended && hold.call <= it.healed + nanos(SETTLED);
    hold.process.starts_with("java") && record.faults.iter().any(strikes)
}
