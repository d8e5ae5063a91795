//! Runs the test that must find a defect, and reads its output.

use std::path::Path;
use std::time::Duration;

use crate::planting::Texts;
use crate::program::{Program, Run};
use crate::{Finder, Outcome};

/// The number of seeds within which a defect must be found.
const SEEDS: u64 = 2_000;

/// Without a defect, this number of seeds must find nothing. `make simulate` runs more seeds with
/// the same sources.
const SOUND_SEEDS: u64 = 50;

/// A test that takes longer has found its defect. Without a defect, no test takes this long.
const LONGEST: Duration = Duration::from_secs(300);

/// A simulation that takes longer has found nothing. If a seed hangs, the simulation itself reports
/// this as a broken rule.
const LONGEST_SIMULATION: Duration = Duration::from_secs(1_200);

/// The test that found a defect, and how long it took.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) by: String,
    pub(crate) after: String,
}

/// Runs the test of `finder` with the defect `number`. The number 0 means no defect. If the test
/// passes, it has found nothing. The temporary files of the test have the name `name`.
pub(crate) fn search(
    program: &Program,
    finder: Finder,
    number: usize,
    included: Option<&Texts>,
    name: &Path,
) -> Outcome {
    let (test, base) = match finder {
        Finder::Simulation(world) => (format!("engine::simulation::{world}"), 0),
        Finder::SimulationFrom(world, base) => (format!("engine::simulation::{world}"), base),
        Finder::Unit(name) | Finder::Link(name) => (name.to_owned(), 0),
    };
    let of_link = matches!(finder, Finder::Link(_));
    let is_simulation = matches!(finder, Finder::Simulation(_) | Finder::SimulationFrom(..));
    let longest = if is_simulation { LONGEST_SIMULATION } else { LONGEST };
    let seeds = if number == 0 { SOUND_SEEDS } else { SEEDS };
    let run = Run { test: &test, of_link, seeds, base, number, included };
    let run = program.run(&run, name, longest);
    let (status, text_out) = run.map_err(|error| format!("{test}: {error}"))?;
    match status {
        Some(status) if is_simulation => by_simulation(status.success(), &text_out, base),
        Some(status) => by_test(&test, status.success(), &text_out),
        None if is_simulation => Err(format!("{test}: no result within {longest:?}")),
        None => {
            let after = format!("{} s without an end", longest.as_secs());
            Ok(Some(Found { by: format!("`{test}`"), after }))
        }
    }
}

/// Reads the output of a simulation: the first seed that breaks a rule, and that rule.
fn by_simulation(passed: bool, text_out: &str, base: u64) -> Outcome {
    if passed {
        return exactly_one(text_out).map(|()| None);
    }
    let mut lines = text_out.lines();
    let line = lines.find(|line| line.starts_with("seed ") && line.contains("broke a rule"));
    let line =
        line.ok_or_else(|| format!("the simulation failed and found nothing:\n{text_out}"))?;
    let rule = line.split_once(": ").map_or(line, |(_, rule)| rule);
    let seed: Option<u64> = line.split(' ').nth(1).and_then(|seed| seed.parse().ok());
    let seed = seed.ok_or_else(|| format!("no seed in: {line}"))?;
    let rule: String = rule.chars().take(90).collect();
    let after = match base {
        0 => format!("{} seeds", seed + 1),
        _ => format!("{} seeds from {base} on", (seed + 1).saturating_sub(base)),
    };
    Ok(Some(Found { by: format!("simulation: {rule}"), after }))
}

fn by_test(name: &str, passed: bool, text_out: &str) -> Outcome {
    exactly_one(text_out)?;
    match passed {
        true => Ok(None),
        false => Ok(Some(Found { by: format!("`{name}`"), after: "1 run".into() })),
    }
}

/// Checks that one test ran. If no test has the name, the run passes, but proves nothing.
fn exactly_one(text_out: &str) -> Result<(), String> {
    match text_out.contains("running 1 test\n") {
        true => Ok(()),
        false => Err(format!("not one test was run:\n{text_out}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_of_a_simulation_is_parsed() {
        let broken = "running 1 test\nseed 41 broke a rule: two believe\nmore";
        let found = Found { by: "simulation: two believe".into(), after: "42 seeds".into() };
        assert_eq!(by_simulation(false, broken, 0), Ok(Some(found)));
        let later = by_simulation(false, broken, 40).unwrap().unwrap();
        assert_eq!(later.after, "2 seeds from 40 on");
        assert_eq!(by_simulation(true, "\nrunning 1 test\nok", 0), Ok(None));
        for (passed, text_out) in
            [(false, "running 1 test\nout of memory"), (true, "running 0 tests")]
        {
            assert!(by_simulation(passed, text_out, 0).is_err(), "{text_out}");
        }
    }

    #[test]
    fn result_of_a_named_test_is_parsed() {
        let found = Found { by: "`a::b`".into(), after: "1 run".into() };
        assert_eq!(by_test("a::b", false, "\nrunning 1 test\nFAILED"), Ok(Some(found)));
        assert_eq!(by_test("a::b", true, "\nrunning 1 test\nok"), Ok(None));
        for passed in [true, false] {
            assert!(by_test("a::b", passed, "\nrunning 0 tests\n").is_err());
        }
    }
}
