//! Builds the tests with all defects in them, and runs a test with one defect.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use crate::clock;
use crate::planting::{NUMBER, Planted, Texts};

const PAUSE: Duration = Duration::from_millis(10);

/// Guards the writing of a program and the start of each process. For a moment, a new process has
/// all open files of its parent, and Linux does not start a program that is open for writing.
static STARTING: Mutex<()> = Mutex::new(());

/// The tests, built with all defects in them.
pub(crate) struct Program {
    path: PathBuf,
    /// The test program of the Redis client `link`.
    link: PathBuf,
    /// The folder of the sources. Tests run in it.
    sources: PathBuf,
    /// For each text that a defect overwrites: its byte offsets in the binary.
    places: BTreeMap<&'static str, Vec<u64>>,
}

/// The settings of a test process.
pub(crate) struct Run<'a> {
    pub(crate) test: &'a str,
    /// Whether the test belongs to the Redis client `link`.
    pub(crate) of_link: bool,
    pub(crate) seeds: u64,
    /// The first seed.
    pub(crate) base: u64,
    /// The number of the defect, or 0 for no defect.
    pub(crate) number: usize,
    /// The new content of each text that the defect overwrites in the program.
    pub(crate) included: Option<&'a Texts>,
}

impl Program {
    /// Builds the tests of the library and of `link` from `sources`. The dependencies are in
    /// `target`.
    pub(crate) fn build(
        sources: PathBuf,
        target: &Path,
        planted: &Planted,
    ) -> Result<Self, String> {
        let built = cargo(&sources, target)?;
        let executable = |name| {
            executable(&built, name).ok_or_else(|| format!("cargo built no tests of {name}"))
        };
        let (path, link) = (executable("leasehold")?, executable("leasehold_link")?);
        let text_out = |error: io::Error| format!("{}: {error}", path.display());
        let bytes = fs::read(&path).map_err(text_out)?;
        let mut places = BTreeMap::new();
        for file in planted.included() {
            let found = places_of(planted.texts[file].as_bytes(), &bytes).map_err(text_out)?;
            if found.is_empty() {
                return Err(format!("the text of {file} does not stand in the program"));
            }
            places.insert(file, found);
        }
        Ok(Self { path, link, sources, places })
    }

    /// Runs a test. Returns its output and its exit status. The status is `None` if the test did
    /// not end within `longest`. The temporary files of the test have the name `name`.
    pub(crate) fn run(
        &self,
        run: &Run<'_>,
        name: &Path,
        longest: Duration,
    ) -> io::Result<(Option<ExitStatus>, String)> {
        let text_out = Temporary(name.with_extension("said"));
        let changed = run.included.map(|texts| (Temporary(name.to_owned()), texts));
        let mut child = {
            let _alone = STARTING.lock().expect("the lock is not poisoned");
            if let Some((path, texts)) = &changed {
                self.write_changed(&path.0, texts)?;
            }
            let own = if run.of_link { &self.link } else { &self.path };
            let path = changed.as_ref().map_or(own, |(path, _)| &path.0);
            self.start(path, run, &text_out.0)?
        };
        let status = ended(&mut child, longest)?;
        let text_out = fs::read(&text_out.0)?;
        Ok((status, String::from_utf8_lossy(&text_out).into_owned()))
    }

    /// Writes a copy of the program to `path`, in which `texts` replace the original texts.
    fn write_changed(&self, path: &Path, texts: &Texts) -> io::Result<()> {
        fs::copy(&self.path, path)?;
        let program = File::options().write(true).open(path)?;
        for (file, text) in texts {
            self.places[file]
                .iter()
                .try_for_each(|at| program.write_all_at(text.as_bytes(), *at))?;
        }
        Ok(())
    }

    fn start(&self, path: &Path, run: &Run<'_>, text_out: &Path) -> io::Result<Child> {
        let text_out = File::create(text_out)?;
        Command::new(path)
            .current_dir(&self.sources)
            .args([run.test, "--exact", "--nocapture"])
            .env(NUMBER, run.number.to_string())
            .env("LEASEHOLD_SEEDS", run.seeds.to_string())
            .env("LEASEHOLD_BASE", run.base.to_string())
            .env_remove("LEASEHOLD_SEED")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(text_out.try_clone()?)
            .stderr(text_out)
            .spawn()
    }
}

/// Returns the exit status of a process. If the process does not end within `longest`, kills it and
/// returns `None`.
fn ended(child: &mut Child, longest: Duration) -> io::Result<Option<ExitStatus>> {
    let started = clock();
    while started.elapsed() < longest {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        sleep(PAUSE);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// The byte offsets of `text` in `bytes`. Searches first for the first byte of `text`, which is
/// quick even without optimisation.
fn places_of(text: &[u8], bytes: &[u8]) -> io::Result<Vec<u64>> {
    let Some(first) = text.first() else { return Ok(vec![]) };
    let (mut found, mut rest) = (vec![], bytes);
    while rest.skip_until(*first)? > 0 {
        let at = bytes.len() - rest.len() - 1;
        if bytes[at..].starts_with(text) {
            found.push(at as u64);
        }
    }
    Ok(found)
}

/// Builds the tests and returns the output of cargo. A little optimisation makes simulations three
/// times as fast.
///
/// All dependencies except testkit keep the profile of the project, so that cargo does not build
/// them again. A build of testkit contains the path of its sources. With another profile, the
/// testkit of the copy does not replace the testkit of the project.
fn cargo(sources: &Path, target: &Path) -> Result<String, String> {
    let mut cargo = Command::new(env!("CARGO"));
    // `cargo run` sets variables that describe this program. If a dependency reads these variables,
    // cargo would build the dependency again.
    let (names, of_us) = (env::vars_os().map(|(name, _)| name), ["CARGO_MANIFEST_", "CARGO_PKG_"]);
    for name in names.filter(|name| of_us.iter().any(|it| name.to_string_lossy().starts_with(it))) {
        cargo.env_remove(name);
    }
    let output = cargo
        .current_dir(sources)
        .args(["test", "--no-run", "--lib", "--quiet", "--all-features"])
        .args(["--package", "leasehold", "--package", "leasehold-link"])
        .args(["--message-format", "json-render-diagnostics"])
        .args(["--config", "profile.dev.package.leasehold.opt-level=1"])
        .args(["--config", "profile.dev.package.leasehold-link.opt-level=1"])
        .args(["--config", "profile.dev.package.testkit.opt-level=1"])
        .env("CARGO_TARGET_DIR", target)
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "with all defects, each in the arm of its number, {} does not build:\n{}",
            sources.display(),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Returns the test program of the library `name`, which cargo has built.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let starts = format!("/{name}-");
    let paths = messages.split("\"executable\":\"").skip(1);
    let mut paths = paths.filter_map(|text| text.split('"').next());
    paths.find(|path| path.contains(&starts)).map(PathBuf::from)
}

/// A file that is deleted when this value is dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // If the run is interrupted, the file stays. The next run overwrites it.
        drop(fs::remove_file(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_program_is_found_in_the_messages_of_cargo() {
        let messages = "{\"executable\":null}\n{\"executable\":\"/t/deps/a_b-1\",\"x\":1}\n\
            {\"executable\":\"/t/deps/a-1\",\"x\":1}\n";
        assert_eq!(executable(messages, "a"), Some("/t/deps/a-1".into()));
        assert_eq!(executable(messages, "a_b"), Some("/t/deps/a_b-1".into()));
        assert_eq!(executable("{\"executable\":null}", "a"), None);
    }

    #[test]
    fn every_occurrence_of_a_text_in_a_program_is_found() {
        assert_eq!(places_of(b"aab", b"aaab-aab").unwrap(), [1, 5]);
        assert!(places_of(b"ab", b"ba").unwrap().is_empty());
    }

    #[test]
    fn patched_program_runs_with_its_text_and_defect_number() {
        // given a program that prints its text, its arguments and its number
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let text = "#!/bin/sh\necho text \"$1\" $LEASEHOLD_PLANTED $LEASEHOLD_SEEDS $LEASEHOLD_BASE\nexit 3\n";
        fs::write(&path, text).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, executable).unwrap();
        let places = BTreeMap::from([("a.lua", places_of(b"text", text.as_bytes()).unwrap())]);
        let link = PathBuf::from("/none");
        let program = Program { path, link, sources: folder.path().to_owned(), places };
        let name = folder.path().join("1");
        let run = |included, number| {
            let run = Run { test: "a::b", of_link: false, seeds: 7, base: 5, number, included };
            let (status, text_out) = program.run(&run, &name, Duration::from_secs(60)).unwrap();
            (status.unwrap().code(), text_out)
        };

        // then with another text, the program prints that text, and leaves no file behind
        let texts = Texts::from([("a.lua", "TEXT".into())]);
        assert_eq!(run(Some(&texts), 2), (Some(3), "TEXT a::b 2 7 5\n".into()));
        assert_eq!(run(None, 0), (Some(3), "text a::b 0 7 5\n".into()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn process_that_does_not_end_is_killed() {
        let starting = STARTING.lock().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        drop(starting);
        assert_eq!(ended(&mut child, Duration::from_millis(1)).unwrap(), None);
        assert!(child.try_wait().unwrap().is_some());
    }
}
