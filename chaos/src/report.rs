//! The table of a run. Each kind of fault is a row.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use crate::clock::Nanos;
use crate::fault::{Fault, HealedFault};
use crate::referee::{Verdict, Violation};

/// How long the recovery after a fault took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    /// The time from the moment when servers could serve again until the first grant.
    pub first: Option<Duration>,
    /// The time from the end of the fault until each worker had a grant, and each object had been
    /// granted.
    pub everybody: Option<Duration>,
}

/// The results of each kind of fault.
#[derive(Debug, Default)]
pub struct Report {
    rows: BTreeMap<Fault, Row>,
    /// Violations before the first fault.
    before: Row,
}

#[derive(Debug, Default)]
struct Row {
    healed_fault: usize,
    first: Vec<Duration>,
    everybody: Vec<Duration>,
    excused: usize,
    violated: usize,
}

impl Report {
    /// Creates the report. Each violation counts for the last fault before it.
    #[must_use]
    pub fn new(faults: &[(HealedFault, Recovery)], verdict: &Verdict) -> Self {
        let mut report = Self::default();
        for (healed_fault, recovery) in faults {
            let row = report.rows.entry(healed_fault.fault).or_default();
            row.healed_fault += 1;
            row.first.extend(recovery.first);
            row.everybody.extend(recovery.everybody);
        }
        for Violation { at, .. } in &verdict.violations {
            report.row_at(faults, *at).violated += 1;
        }
        for at in &verdict.excused {
            report.row_at(faults, *at).excused += 1;
        }
        report
    }

    fn row_at(&mut self, faults: &[(HealedFault, Recovery)], at: Nanos) -> &mut Row {
        let last = faults.iter().rev().find(|(it, _)| it.from <= at);
        match last {
            Some((it, _)) => self.rows.entry(it.fault).or_default(),
            None => &mut self.before,
        }
    }
}

/// The report in Markdown.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        if self.before.violated > 0 {
            line(f, "before the first fault", &self.before)?;
        }
        let rows = self.rows.iter();
        rows.into_iter().try_for_each(|(fault, row)| line(f, &fault.to_string(), row))
    }
}

fn line(f: &mut fmt::Formatter<'_>, fault: &str, row: &Row) -> fmt::Result {
    let Row { healed_fault, excused, violated, .. } = row;
    let [first, worst] = [median(&row.first), row.first.iter().max().copied()].map(shown);
    let [all, last] = [median(&row.everybody), row.everybody.iter().max().copied()].map(shown);
    writeln!(
        f,
        "| {fault} | {healed_fault} | {first} | {worst} | {all} | {last} | {excused} | {violated} |"
    )
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

fn shown(time: Option<Duration>) -> String {
    let mut text = String::new();
    match time {
        // A write to a string never fails.
        Some(time) => write!(text, "{} ms", time.as_millis()).unwrap_or_default(),
        None => text.push('–'),
    }
    text
}

const HEAD: &str = "\
| fault | struck | first grant, median | worst | everybody, median | worst | two at once where a failover may | violated |
|---|---:|---:|---:|---:|---:|---:|---:|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_assigns_a_violation_to_the_preceding_fault() {
        let healed_fault = |fault, from| HealedFault {
            fault,
            from,
            served: from,
            healed: from + 1,
            failover: false,
            names: None,
        };
        let recovery =
            |millis| Recovery { first: Some(Duration::from_millis(millis)), everybody: None };
        let faults = [
            (healed_fault(Fault::LinksCut, 10), recovery(5)),
            (healed_fault(Fault::WorkerKilled, 20), recovery(70)),
            (healed_fault(Fault::LinksCut, 30), recovery(9)),
        ];
        let violations = vec![Violation { at: 25, what: "two at once".into() }];
        let reports = Report::new(&faults, &Verdict { violations, excused: vec![31] }).to_string();
        assert!(
            reports.contains(
                "| clients are cut off from a server | 2 | 9 ms | 9 ms | – | – | 1 | 0 |"
            ),
            "{reports}"
        );
        assert!(reports.contains("| 1 | 70 ms | 70 ms | – | – | 0 | 1 |"), "{reports}");
    }
}
