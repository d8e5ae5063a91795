//! The figures as tables: one for each group.

use std::{collections::BTreeSet, fmt::Write};

use super::{
    board::{Board, Case, Cell, LIMIT, OURS, RIVALS},
    machine::Machine,
    verdict::verdict,
};
use crate::figures::median;

pub(super) fn results(board: &Board, machine: &Machine, note: &str) -> String {
    let mut text = format!("# Leasehold beside its limits and its rivals\n\n{note}\n\n");
    for (what, value) in &machine.facts {
        text += &format!("- {what}: {value}\n");
    }
    for group in board.groups() {
        let cases: Vec<_> = board.cases.iter().filter(|case| case.group == group).collect();
        text += &table(group, &cases);
    }
    text += &failed(&board.failures());
    text
}

fn table(group: &str, cases: &[&Case]) -> String {
    let measured = |name: &&str| cases.iter().any(|case| case.cells.contains_key(name));
    let rivals: Vec<_> = RIVALS.into_iter().filter(measured).collect();
    let mut head = vec!["case", "unit", "ours (min–max)", "limit", "ours ÷ limit"];
    head.extend(&rivals);
    head.push("verdict");
    let mut text = format!("\n## {group}\n\n{}{}", row(&head), row(&vec!["---"; head.len()]));
    for case in cases {
        text += &line(case, &rivals);
    }
    text + &notes(cases)
}

fn line(case: &Case, rivals: &[&str]) -> String {
    let ratio = case.value(OURS).zip(case.value(LIMIT)).map(|(ours, limit)| ours / limit);
    let ratio = ratio.filter(|ratio| ratio.is_finite());
    let mut cells = vec![case.name.clone(), case.unit.to_owned(), spread(case, OURS)];
    cells.push(short(case, LIMIT));
    cells.push(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
    cells.extend(rivals.iter().map(|rival| short(case, rival)));
    cells.push(verdict(case));
    row(&cells)
}

fn row<T: AsRef<str>>(cells: &[T]) -> String {
    let cells: Vec<_> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The median. If there are several rounds, also the lowest and the highest figure.
fn spread(case: &Case, column: &str) -> String {
    let Some(Cell::Measured(values)) = case.cells.get(column) else { return short(case, column) };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match values.len() {
        1 => format!("**{}**", figure(values[0])),
        _ => format!("**{}** ({}–{})", figure(median(values)), figure(least), figure(greatest)),
    }
}

fn short(case: &Case, column: &str) -> String {
    match case.cells.get(column) {
        Some(Cell::Measured(values)) => figure(median(values)),
        Some(Cell::Absent(_)) => "–".to_owned(),
        Some(Cell::Failed(_)) => "**failed**".to_owned(),
        None => String::new(),
    }
}

/// Shows three significant digits, and spaces between thousands.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "none".to_owned(),
        size if size >= 99.95 => grouped(value),
        size if size >= 9.995 || value == 0.0 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// The reasons for missing figures, each reason once.
fn notes(cases: &[&Case]) -> String {
    let mut reasons = BTreeSet::new();
    for case in cases {
        for (column, cell) in &case.cells {
            if let Cell::Absent(why) = cell {
                reasons.insert(format!("\n– {column}: {why}\n"));
            }
        }
    }
    reasons.into_iter().collect()
}

fn failed(failures: &[String]) -> String {
    if failures.is_empty() {
        return String::new();
    }
    let mut text = "\n## What failed\n\n".to_owned();
    for failure in failures {
        writeln!(text, "- {failure}").expect("writing to a string cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_and_thousands_are_grouped() {
        assert_eq!(figure(1_234_567.8), "1 234 568");
        assert_eq!(figure(999.6), "1 000");
        assert_eq!(figure(123.0), "123");
        assert_eq!(figure(12.34), "12.3");
        assert_eq!(figure(1.234), "1.23");
        assert_eq!(figure(0.1234), "0.123");
        assert_eq!(figure(0.0), "0.0");
        assert_eq!(figure(-1234.0), "-1 234");
    }

    #[test]
    fn table_shows_only_the_requested_columns() {
        let mut board = Board::default();
        board.note(Case::less("g", "c", "µs"), OURS, 1.0);
        board.absent(Case::less("g", "c", "µs"), "rlock", "it cannot");
        let text = results(&board, &Machine { facts: vec![] }, "note");
        assert!(text.contains("| c | µs | **1.00** |  |  | – |  |"), "{text}");
        assert!(text.contains("– rlock: it cannot"), "{text}");
        assert!(!text.contains("Redisson"), "{text}");
    }
}
