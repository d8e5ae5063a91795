//! The figures of all rounds, by case and by library.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::figures::median;

/// The column of Leasehold.
pub const OURS: &str = "ours";
/// The column of the lower limit.
pub const LIMIT: &str = "limit";
/// The columns of the rivals, in the order of the table.
pub const RIVALS: [&str; 6] = ["Redisson", "rslock", "rlock", "redsync", "redislock", "rsmq"];

/// Whether lower or higher figures are better.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Lower.
    Less,
    /// Higher.
    More,
}

/// The figures of one library in one case.
#[derive(Clone, Debug)]
pub enum Cell {
    /// The figure was left out on purpose. The documents give the reason.
    Absent(String),
    /// The figure could not be measured.
    Failed(String),
    /// The figures, one for each round.
    Measured(Vec<f64>),
}

/// One row of a table.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the table.
    pub group: &'static str,
    /// The name of the case.
    pub name: String,
    /// The unit of the figures.
    pub unit: &'static str,
    /// Whether lower or higher figures are better.
    pub better: Better,
    /// The targets.
    pub targets: Vec<Target>,
    /// The figures by column.
    pub cells: BTreeMap<&'static str, Cell>,
    /// The name of a plot, and the position on its x axis.
    pub plotted: Option<(&'static str, f64)>,
}

impl Case {
    /// A case in which lower figures are better.
    pub fn less(group: &'static str, name: impl Into<String>, unit: &'static str) -> Self {
        Self::new(group, name.into(), unit, Better::Less)
    }

    /// A case in which higher figures are better.
    pub fn more(group: &'static str, name: impl Into<String>, unit: &'static str) -> Self {
        Self::new(group, name.into(), unit, Better::More)
    }

    fn new(group: &'static str, name: String, unit: &'static str, better: Better) -> Self {
        let (targets, cells) = (vec![], BTreeMap::new());
        Self { group, name, unit, better, targets, cells, plotted: None }
    }

    /// Adds a target.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.targets.push(target);
        self
    }

    /// Puts the case at `x` of a plot.
    #[must_use]
    pub fn plot(mut self, plot: &'static str, x: usize) -> Self {
        self.plotted = Some((plot, x as f64));
        self
    }

    /// The median of `column`, if it was measured.
    #[must_use]
    pub fn value(&self, column: &str) -> Option<f64> {
        match self.cells.get(column)? {
            Cell::Measured(values) => Some(median(values)),
            _ => None,
        }
    }

    /// The lowest figure of `column`, if it was measured.
    #[must_use]
    pub fn least(&self, column: &str) -> Option<f64> {
        match self.cells.get(column)? {
            Cell::Measured(values) => values.iter().copied().reduce(f64::min),
            _ => None,
        }
    }

    fn note(&mut self, column: &'static str, value: f64) {
        match self.cells.get_mut(column) {
            Some(Cell::Failed(_)) => {}
            Some(Cell::Measured(values)) => values.push(value),
            Some(Cell::Absent(_)) | None => {
                self.cells.insert(column, Cell::Measured(vec![value]));
            }
        }
    }
}

/// All cases, in the order in which they were run.
#[derive(Debug, Default)]
pub struct Board {
    /// The cases.
    pub cases: Vec<Case>,
}

impl Board {
    /// Records a figure of one round. `case` is used only for the first figure of the case.
    pub fn note(&mut self, case: Case, column: &'static str, value: f64) {
        self.case(case).note(column, value);
    }

    /// If `column` has no entry yet, records why `column` was not measured.
    pub fn absent(&mut self, case: Case, column: &'static str, why: &str) {
        let cells = &mut self.case(case).cells;
        cells.entry(column).or_insert_with(|| Cell::Absent(why.to_owned()));
    }

    /// Records why `column` could not be measured.
    pub fn failed(&mut self, case: Case, column: &'static str, why: &str) {
        self.case(case).cells.insert(column, Cell::Failed(why.to_owned()));
    }

    fn case(&mut self, case: Case) -> &mut Case {
        let known = self.cases.iter().position(|it| it.group == case.group && it.name == case.name);
        let at = known.unwrap_or_else(|| {
            self.cases.push(case);
            self.cases.len() - 1
        });
        &mut self.cases[at]
    }

    /// The groups, in the order of their first cases.
    #[must_use]
    pub fn groups(&self) -> Vec<&'static str> {
        let mut groups = vec![];
        for case in &self.cases {
            if !groups.contains(&case.group) {
                groups.push(case.group);
            }
        }
        groups
    }

    /// The reasons why the run fails: failed measurements, and misses of targets that every run
    /// must meet.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.cases.iter().flat_map(failures).collect()
    }
}

fn failures(case: &Case) -> Vec<String> {
    let reasons = case.cells.iter().filter_map(|(column, cell)| match cell {
        Cell::Failed(why) => Some(format!("{}, {column}: {why}", case.name)),
        _ => None,
    });
    let broken = case.targets.iter().filter_map(|target| broken(case, *target));
    reasons.chain(broken).collect()
}

/// The text about a missed target, if the miss makes the run fail.
fn broken(case: &Case, target: Target) -> Option<String> {
    let ours = case.value(OURS)?;
    match target {
        Target::Never if ours > 0.0 => Some(format!("{} happened, and never must", case.name)),
        Target::NeverAbove(most) if ours > most => {
            Some(format!("{}, {}: more than {most} {}", case.group, case.name, case.unit))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_results_of_one_case_are_merged_into_their_median() {
        let mut board = Board::default();
        for value in [3.0, 1.0, 2.0] {
            board.note(Case::less("g", "c", "µs"), OURS, value);
        }
        assert_eq!(board.cases.len(), 1);
        assert_eq!(board.cases[0].value(OURS), Some(2.0));
        assert_eq!(board.failures(), [""; 0]);
    }

    #[test]
    fn benchmark_fails_when_a_forbidden_event_happens() {
        let mut board = Board::default();
        board.note(Case::less("g", "overlaps", "count").target(Target::Never), OURS, 1.0);
        assert_eq!(board.failures(), ["overlaps happened, and never must"]);
    }

    #[test]
    fn benchmark_fails_above_its_bound_but_not_above_its_target() {
        let mut board = Board::default();
        let case = || Case::less("g", "c", "ms").target(Target::AtMost(1.0));
        board.note(case().target(Target::NeverAbove(3.0)), OURS, 2.0);
        assert_eq!(board.failures(), [""; 0]);
        board.note(case(), OURS, 9.0);
        assert_eq!(board.failures(), ["g, c: more than 3 ms"]);
    }

    #[test]
    fn case_stays_failed_when_a_later_result_arrives() {
        let mut board = Board::default();
        board.failed(Case::less("g", "c", "µs"), "rlock", "it ended");
        board.note(Case::less("g", "c", "µs"), "rlock", 1.0);
        assert_eq!(board.failures(), ["c, rlock: it ended"]);
    }
}
