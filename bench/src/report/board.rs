//! The figures of all rounds, by case and by whom they are of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::figures::median;

/// The column of Leasehold.
pub const OURS: &str = "ours";
/// The column of what cannot be beaten.
pub const LIMIT: &str = "limit";
/// The columns of the others, in the order of the table.
pub const RIVALS: [&str; 5] = ["Redisson", "rslock", "rlock", "redsync", "redislock"];

/// Whether little or much of it is good.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Little.
    Less,
    /// Much.
    More,
}

/// What is known of one library in one case.
#[derive(Clone, Debug)]
pub enum Cell {
    /// It is not measured, for a reason that the documents give.
    Absent(String),
    /// It could not be measured.
    Failed(String),
    /// One figure per round.
    Measured(Vec<f64>),
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Case {
    /// The table it belongs to.
    pub group: &'static str,
    /// What was done.
    pub name: String,
    /// What the figures are.
    pub unit: &'static str,
    /// Which of them are good.
    pub better: Better,
    /// What is to be reached.
    pub targets: Vec<Target>,
    /// By column.
    pub cells: BTreeMap<&'static str, Cell>,
    /// Where it stands in a plot: the plot and the place on its x axis.
    pub plotted: Option<(&'static str, f64)>,
}

impl Case {
    /// A case where little is good.
    pub fn less(group: &'static str, name: impl Into<String>, unit: &'static str) -> Self {
        Self::new(group, name.into(), unit, Better::Less)
    }

    /// A case where much is good.
    pub fn more(group: &'static str, name: impl Into<String>, unit: &'static str) -> Self {
        Self::new(group, name.into(), unit, Better::More)
    }

    fn new(group: &'static str, name: String, unit: &'static str, better: Better) -> Self {
        let (targets, cells) = (vec![], BTreeMap::new());
        Self { group, name, unit, better, targets, cells, plotted: None }
    }

    /// Adds something to reach.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.targets.push(target);
        self
    }

    /// Puts it at `x` of a plot.
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

    /// The least figure of `column`, if it was measured.
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
    /// Notes a figure of one round. `case` says what it is of, and is used when
    /// it is the first.
    pub fn note(&mut self, case: Case, column: &'static str, value: f64) {
        self.case(case).note(column, value);
    }

    /// Notes that `column` is left out, and why, unless there is a figure.
    pub fn absent(&mut self, case: Case, column: &'static str, why: &str) {
        let cells = &mut self.case(case).cells;
        cells.entry(column).or_insert_with(|| Cell::Absent(why.to_owned()));
    }

    /// Notes that `column` could not be measured, and why.
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

    /// Everything that makes this run worthless: what could not be measured,
    /// and what must never happen and did.
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

/// What a target says that must not be missed.
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
    fn figures_of_one_case_come_together() {
        let mut board = Board::default();
        for value in [3.0, 1.0, 2.0] {
            board.note(Case::less("g", "c", "µs"), OURS, value);
        }
        assert_eq!(board.cases.len(), 1);
        assert_eq!(board.cases[0].value(OURS), Some(2.0));
        assert_eq!(board.failures(), [""; 0]);
    }

    #[test]
    fn forbidden_event_is_a_failure() {
        let mut board = Board::default();
        board.note(Case::less("g", "overlaps", "count").target(Target::Never), OURS, 1.0);
        assert_eq!(board.failures(), ["overlaps happened, and never must"]);
    }

    #[test]
    fn exceeded_bound_fails_and_missed_target_does_not() {
        let mut board = Board::default();
        let case = || Case::less("g", "c", "ms").target(Target::AtMost(1.0));
        board.note(case().target(Target::NeverAbove(3.0)), OURS, 2.0);
        assert_eq!(board.failures(), [""; 0]);
        board.note(case(), OURS, 9.0);
        assert_eq!(board.failures(), ["g, c: more than 3 ms"]);
    }

    #[test]
    fn failure_is_not_hidden_by_a_later_figure() {
        let mut board = Board::default();
        board.failed(Case::less("g", "c", "µs"), "rlock", "it ended");
        board.note(Case::less("g", "c", "µs"), "rlock", 1.0);
        assert_eq!(board.failures(), ["c, rlock: it ended"]);
    }
}
