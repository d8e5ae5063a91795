//! Rules: tokens and the terms of leaders grow, and the gate accepts no late write.

use std::collections::BTreeMap;

use super::{Verdict, Violation, within};
use crate::clock::Nanos;
use crate::orders::Object;
use crate::record::{Record, Write};

pub(super) fn look(
    record: &Record,
    object: &Object,
    windows: &[(Nanos, Nanos)],
    verdict: &mut Verdict,
) {
    if !object.has_tokens() {
        return;
    }
    let found = small_tokens(record, object).into_iter().chain(late_writes(record, object));
    // A failover that loses a grant also loses the token of the grant.
    let is_excused = |it: &Violation| !object.replicated && within(windows, it.at, it.at);
    verdict.violations.extend(found.filter(|it| !is_excused(it)));
}

/// Tokens that are not higher than the token of the previous hold.
fn small_tokens(record: &Record, object: &Object) -> Vec<Violation> {
    let holds = record.holds.values().filter(|it| it.name == object.name);
    let mut drawn: Vec<_> = holds.filter_map(|it| Some((it.entered?, it.token?))).collect();
    drawn.sort_unstable();
    let pairs = drawn.windows(2).filter(|pair| pair[1].1 <= pair[0].1);
    let reports = pairs.map(|pair| {
        let what = format!("a holder of `{object}` had token {} after {}", pair[1].1, pair[0].1);
        Violation { at: pair[1].0, what }
    });
    reports.collect()
}

/// Writes that were accepted after a holder with a higher token had written.
fn late_writes(record: &Record, object: &Object) -> Vec<Violation> {
    let mut newest: BTreeMap<Nanos, u64> = BTreeMap::new();
    let mut found = vec![];
    let passed = |it: &&Write| it.name == object.name && it.accepted;
    for write in record.writes.iter().filter(passed) {
        let Some(entered) = record.holds.get(&write.hold).and_then(|it| it.entered) else {
            continue;
        };
        if let Some((_, later)) = newest.range(entered + 1..).next_back() {
            let Write { hold, token, .. } = write;
            let what = format!(
                "`{object}` took a late write of hold {hold} with token {token}, after hold {later} had written"
            );
            found.push(Violation { at: write.at, what });
        }
        newest.insert(entered, write.hold);
    }
    found
}
