//! The results of a run, as a table.
//!
//! Tests run in several processes. Each process appends its results, line by line, to the file
//! `$INTEROP_TABLE`. If this variable is not set, nothing is written.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;
use std::{env, fmt};

use serde_json::{Value, json};

/// The languages of the holder and of the waiter.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Way {
    /// The holder uses Rust, the waiter Java.
    RustToJava,
    /// The holder uses Java, the waiter Rust.
    JavaToRust,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RustToJava => "Rust → Java",
            Self::JavaToRust => "Java → Rust",
        })
    }
}

/// Records that `scenario` worked in the direction `way`. Tests call this function after their last
/// assertion.
pub fn shown(scenario: &str, way: Way) {
    note(scenario, way, "yes", None);
}

/// Records that `scenario` worked in the direction `way`, and the time in which the waiter
/// acquired.
pub fn woken(scenario: &str, way: Way, wake_up: Duration) {
    note(scenario, way, "yes", Some(wake_up));
}

/// Records that `scenario` worked in the direction `way`, with a figure.
pub fn measured(scenario: &str, way: Way, figure: &str) {
    note(scenario, way, figure, None);
}

fn note(scenario: &str, way: Way, figure: &str, wake_up: Option<Duration>) {
    let Some(path) = env::var_os("INTEROP_TABLE") else { return };
    let line = json!({
        "scenario": scenario,
        "way": way.to_string(),
        "figure": figure,
        "wake_up_us": wake_up.map(|it| u64::try_from(it.as_micros()).unwrap_or(u64::MAX)),
    });
    let file = OpenOptions::new().append(true).create(true).open(&path);
    // The whole line is one write, because other processes append as well.
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|e| panic!("cannot append to {}: {e}", path.display()));
}

/// All records as a table.
///
/// # Panics
///
/// If a line of `notes` has another form.
#[must_use]
pub fn table(notes: &str) -> String {
    let mut rows: BTreeMap<String, BTreeMap<Way, Value>> = BTreeMap::new();
    for note in notes.lines() {
        let note: Value = serde_json::from_str(note).expect("each line is JSON");
        let scenario = note["scenario"].as_str().expect("each line has a `scenario`").to_owned();
        let way = match note["way"].as_str() == Some("Rust → Java") {
            true => Way::RustToJava,
            false => Way::JavaToRust,
        };
        rows.entry(scenario).or_default().insert(way, note);
    }

    let ways = [Way::RustToJava, Way::JavaToRust];
    let mut lines = vec![[
        "scenario".to_owned(),
        ways[0].to_string(),
        ways[1].to_string(),
        "ms to the wake-up".to_owned(),
    ]];
    for (scenario, shown) in rows {
        let [there, back] = ways.map(|way| shown.get(&way));
        let figure = |note: Option<&Value>| {
            note.and_then(|note| note["figure"].as_str()).unwrap_or("–").to_owned()
        };
        let millis = match [there, back].map(in_millis) {
            [None, None] => String::new(),
            both => both.map(|it| it.unwrap_or_else(|| "–".into())).join(" / "),
        };
        lines.push([scenario, figure(there), figure(back), millis]);
    }
    aligned(&lines)
}

fn in_millis(note: Option<&Value>) -> Option<String> {
    let micros = note?["wake_up_us"].as_u64()?;
    Some(format!("{}.{}", micros / 1000, micros % 1000 / 100))
}

fn aligned(lines: &[[String; 4]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<_> = (0..4).map(|column| width(column).unwrap_or(0)).collect();
    let show = |line: &[String; 4]| {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join(" | ").trim_end().to_owned() + "\n"
    };
    let rule = widths.iter().map(|&width| "-".repeat(width)).collect::<Vec<_>>().join("-|-");
    let (head, body) = lines.split_first().expect("the table has a head");
    format!("{}{rule}\n{}", show(head), body.iter().map(show).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_one_row_for_both_directions_of_a_scenario() {
        let notes = r#"
            {"scenario": "b", "way": "Java → Rust", "figure": "yes", "wake_up_us": 1870}
            {"scenario": "a", "way": "Java → Rust", "figure": "41 %", "wake_up_us": null}
            {"scenario": "b", "way": "Rust → Java", "figure": "yes", "wake_up_us": 25999}
        "#;
        let expected = "\
scenario | Rust → Java | Java → Rust | ms to the wake-up
---------|-------------|-------------|------------------
a        | –           | 41 %        |
b        | yes         | yes         | 25.9 / 1.8
";
        assert_eq!(table(notes.trim()), expected);
    }
}
