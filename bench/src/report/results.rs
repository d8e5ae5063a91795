//! The figures as data. A run writes the figures. The next run and the documents read these
//! figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    board::{Better, Board, Case, Cell, LIMIT, OURS, RIVALS},
    machine::Machine,
    verdict::verdict,
};

/// The results of one run.
#[derive(Debug, Deserialize, Serialize)]
pub struct Results {
    pub(super) machine: BTreeMap<String, String>,
    pub(super) note: String,
    pub(super) results: Vec<Entry>,
}

/// One case. The figures are medians. If a figure is missing, `left_out` may have the reason.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Entry {
    pub(super) case: String,
    pub(super) unit: String,
    pub(super) better: Better,
    pub(super) ours: Option<f64>,
    pub(super) limit: Option<f64>,
    pub(super) rivals: BTreeMap<String, Option<f64>>,
    pub(super) verdict: String,
    pub(super) plot: Option<(String, f64)>,
    pub(super) left_out: BTreeMap<String, String>,
    pub(super) rounds: BTreeMap<String, Vec<f64>>,
}

impl Results {
    /// The figures of the board, with the machine and the conditions.
    #[must_use]
    pub fn of(board: &Board, machine: &Machine, note: &str) -> Self {
        let machine = machine.facts.iter().cloned().collect();
        let results = board.cases.iter().map(Entry::of).collect();
        Self { machine, note: note.to_owned(), results }
    }

    /// Reads the output of [`text`](Self::text).
    ///
    /// # Errors
    ///
    /// If the text has another form.
    pub fn read(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The results as JSON. Each case is a line, so that a diff is readable.
    #[must_use]
    pub fn text(&self) -> String {
        let cases: Vec<_> = self.results.iter().map(json).collect();
        let (machine, note) = (json(&self.machine), json(&self.note));
        let cases = cases.join(",\n");
        format!("{{\n\"machine\": {machine},\n\"note\": {note},\n\"results\": [\n{cases}\n]\n}}\n")
    }

    /// Whether a case of this group was measured.
    pub(super) fn has(&self, group: &str) -> bool {
        let is_of = |entry: &Entry| {
            entry.case.strip_prefix(group).is_some_and(|rest| rest.starts_with(": "))
        };
        self.results.iter().any(is_of)
    }

    pub(super) fn entry(&self, case: &str) -> Option<&Entry> {
        self.results.iter().find(|entry| entry.case == case)
    }
}

impl Entry {
    fn of(case: &Case) -> Self {
        let rivals = RIVALS.into_iter().filter(|name| case.cells.contains_key(name));
        Self {
            case: format!("{}: {}", case.group, case.name),
            unit: case.unit.to_owned(),
            better: case.better,
            ours: case.value(OURS),
            limit: case.value(LIMIT),
            rivals: rivals.map(|name| (name.to_owned(), case.value(name))).collect(),
            verdict: verdict(case).replace("**", ""),
            plot: case.plotted.map(|(plot, x)| (plot.to_owned(), x)),
            left_out: reasons(case),
            rounds: rounds(case),
        }
    }

    pub(super) fn value(&self, column: &str) -> Option<f64> {
        match column {
            OURS => self.ours,
            LIMIT => self.limit,
            rival => self.rivals.get(rival).copied().flatten(),
        }
    }

    pub(super) fn is_missed(&self) -> bool {
        self.verdict.starts_with("miss")
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("texts and figures can be written as JSON")
}

fn rounds(case: &Case) -> BTreeMap<String, Vec<f64>> {
    let measured = case.cells.iter().filter_map(|(column, cell)| match cell {
        Cell::Measured(values) => Some(((*column).to_owned(), values.clone())),
        _ => None,
    });
    measured.collect()
}

fn reasons(case: &Case) -> BTreeMap<String, String> {
    let left_out = case.cells.iter().filter_map(|(column, cell)| match cell {
        Cell::Absent(why) | Cell::Failed(why) => Some(((*column).to_owned(), why.clone())),
        Cell::Measured(_) => None,
    });
    left_out.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::target::Target, *};

    pub(in crate::report) fn one(case: Case, figures: &[(&'static str, f64)]) -> Results {
        let mut board = Board::default();
        for (column, value) in figures {
            board.note(case.clone(), column, *value);
        }
        Results::of(&board, &Machine { facts: vec![] }, "note")
    }

    #[test]
    fn written_results_are_read_back() {
        let case = Case::less("g", "c", "µs").target(Target::AtMostOf(LIMIT, 1.1)).plot("p", 16);
        let written = one(case, &[(OURS, 3.0), (OURS, 1.0), (LIMIT, 1.5), ("rlock", 4.0)]).text();
        let read = Results::read(&written).unwrap();
        assert_eq!(read.text(), written);

        let entry = read.entry("g: c").unwrap();
        let values = [OURS, LIMIT, "rlock", "rslock"].map(|column| entry.value(column));
        assert_eq!(values, [Some(2.0), Some(1.5), Some(4.0), None]);
        assert!(entry.is_missed());
        assert_eq!(entry.plot, Some(("p".to_owned(), 16.0)));
    }
}
