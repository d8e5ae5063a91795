//! Builds the tests of a copy, runs the one that has to find the defect, and
//! reads what it says.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::copy::Copy;
use crate::{Finder, Outcome, PAUSE, clock};

/// How many seeds a defect has to be found within.
pub(crate) const SEEDS: u64 = 2_000;

/// How many seeds are to find nothing where nothing is planted. That no more of them do is what
/// `make simulate` shows, of the same sources.
pub(crate) const SOUND_SEEDS: u64 = 200;

/// No test takes as long as this without a defect.
const LONGEST: Duration = Duration::from_secs(300);

/// Who found a defect, and after how much.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) by: String,
    pub(crate) after: String,
}

/// The tests of a copy, built with what is planted there.
pub(crate) struct Program {
    path: PathBuf,
    folder: PathBuf,
}

impl Program {
    /// Builds the tests of the library for `finder` and its like. The program has a `name`
    /// of its own, since others may still run.
    pub(crate) fn build(copy: &Copy, finder: Finder, name: &str) -> Result<Self, String> {
        let built = cargo(copy, finder)?;
        let built = executable(&built).ok_or("cargo built no program of tests")?;
        // The next build writes to where this one lies.
        let path = copy.folder().join(format!("built-{name}"));
        fs::copy(&built, &path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, folder: copy.folder().to_owned() })
    }

    /// Runs the test of `finder`, with so many seeds. Nothing is found if it passes.
    pub(crate) fn run(&self, finder: Finder, seeds: u64) -> Outcome {
        let name = match finder {
            Finder::Simulation(world) => format!("engine::simulation::{world}"),
            Finder::Unit(name) => name.to_owned(),
        };
        let output = self.path.with_extension("said");
        let status =
            self.start(&name, seeds, &output).map_err(|error| format!("{name}: {error}"))?;
        let said = fs::read(&output).map_err(|error| format!("{name}: {error}"))?;
        let said = String::from_utf8_lossy(&said);
        let Some(status) = status else {
            let after = format!("{} s without an end", LONGEST.as_secs());
            return Ok(Some(Found { by: format!("`{name}`"), after }));
        };
        match finder {
            Finder::Simulation(_) => by_simulation(status.success(), &said),
            Finder::Unit(_) => by_test(&name, status.success(), &said),
        }
    }

    /// How the program ended, if it did within [`LONGEST`].
    fn start(&self, name: &str, seeds: u64, output: &Path) -> io::Result<Option<ExitStatus>> {
        let output = File::create(output)?;
        let mut child = Command::new(&self.path)
            .current_dir(&self.folder)
            .args([name, "--exact", "--nocapture"])
            .env("LEASEHOLD_SEEDS", seeds.to_string())
            .env("LEASEHOLD_BASE", "0")
            .env_remove("LEASEHOLD_SEED")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let started = clock();
        while started.elapsed() < LONGEST {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            sleep(PAUSE);
        }
        child.kill()?;
        child.wait()?;
        Ok(None)
    }
}

/// Builds the tests and returns what cargo says. Stories are told three times as fast with
/// a little optimisation, which takes hardly longer to build: one test is quick without.
///
/// Nothing here may change what the profile says of dependencies, or they are built anew.
fn cargo(copy: &Copy, finder: Finder) -> Result<String, String> {
    let optimised = match finder {
        Finder::Simulation(_) => "profile.dev.package.leasehold.opt-level=1",
        Finder::Unit(_) => "profile.dev.package.leasehold.opt-level=0",
    };
    let mut cargo = Command::new(env!("CARGO"));
    // What `cargo run` says of this program is true of no dependency; one that looks at it would
    // be built anew.
    let (names, of_us) = (env::vars_os().map(|(name, _)| name), ["CARGO_MANIFEST_", "CARGO_PKG_"]);
    for name in names.filter(|name| of_us.iter().any(|it| name.to_string_lossy().starts_with(it))) {
        cargo.env_remove(name);
    }
    let output = cargo
        .current_dir(copy.folder())
        .args(["test", "--no-run", "--lib", "--quiet", "--all-features"])
        .args(["--message-format", "json-render-diagnostics"])
        .args(["--config", "profile.dev.package.leasehold.debug=0", "--config", optimised])
        .env("CARGO_TARGET_DIR", copy.target())
        .env("CARGO_INCREMENTAL", "1")
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("it does not build:\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// The one program that cargo says it has built.
fn executable(messages: &str) -> Option<PathBuf> {
    let (_, path) = messages.split_once("\"executable\":\"")?;
    path.split('"').next().map(PathBuf::from)
}

impl Drop for Program {
    fn drop(&mut self) {
        for file in [&self.path, &self.path.with_extension("said")] {
            // What an interrupted run leaves is written over by the next one.
            drop(fs::remove_file(file));
        }
    }
}

/// What the simulation says: the first seed that breaks a rule, and the rule.
fn by_simulation(passed: bool, said: &str) -> Outcome {
    if passed {
        return exactly_one(said).map(|()| None);
    }
    let mut lines = said.lines();
    let line = lines.find(|line| line.starts_with("seed ") && line.contains("broke a rule"));
    let line = line.ok_or_else(|| format!("the simulation failed and found nothing:\n{said}"))?;
    let rule = line.split_once(": ").map_or(line, |(_, rule)| rule);
    let seed: Option<u64> = line.split(' ').nth(1).and_then(|seed| seed.parse().ok());
    let seed = seed.ok_or_else(|| format!("no seed in: {line}"))?;
    let rule: String = rule.chars().take(90).collect();
    Ok(Some(Found { by: format!("simulation: {rule}"), after: format!("{} seeds", seed + 1) }))
}

/// What a test says that is found by its name.
fn by_test(name: &str, passed: bool, said: &str) -> Outcome {
    exactly_one(said)?;
    match passed {
        true => Ok(None),
        false => Ok(Some(Found { by: format!("`{name}`"), after: "1 run".into() })),
    }
}

/// A name that no test has passes, and shows nothing.
fn exactly_one(said: &str) -> Result<(), String> {
    match said.contains("running 1 test\n") {
        true => Ok(()),
        false => Err(format!("not one test was run:\n{said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulation_is_read() {
        let broken = "running 1 test\nseed 41 broke a rule: two believe\nmore";
        let found = Found { by: "simulation: two believe".into(), after: "42 seeds".into() };
        assert_eq!(by_simulation(false, broken), Ok(Some(found)));
        assert_eq!(by_simulation(true, "\nrunning 1 test\nok"), Ok(None));
        for (passed, said) in [(false, "running 1 test\nout of memory"), (true, "running 0 tests")]
        {
            assert!(by_simulation(passed, said).is_err(), "{said}");
        }
    }

    #[test]
    fn a_named_test_is_read() {
        let found = Found { by: "`a::b`".into(), after: "1 run".into() };
        assert_eq!(by_test("a::b", false, "\nrunning 1 test\nFAILED"), Ok(Some(found)));
        assert_eq!(by_test("a::b", true, "\nrunning 1 test\nok"), Ok(None));
        for passed in [true, false] {
            assert!(by_test("a::b", passed, "\nrunning 0 tests\n").is_err());
        }
    }

    #[test]
    fn the_program_of_tests_is_found_in_cargos_messages() {
        let messages = "{\"executable\":null}\n{\"executable\":\"/t/deps/a-1\",\"x\":1}\n";
        assert_eq!(executable(messages), Some("/t/deps/a-1".into()));
        assert_eq!(executable("{\"executable\":null}"), None);
    }
}
