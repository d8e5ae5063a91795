//! The suites of tests that use Redis.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Tests that one command runs.
pub(crate) struct Suite {
    pub(crate) name: String,
    words: Vec<String>,
}

impl Suite {
    /// All suites below `root`.
    pub(crate) fn all(root: &Path) -> io::Result<Vec<Self>> {
        let conformance = ["-p", "leasehold", "--all-features", "--lib", "store::redis"];
        let mut suites = vec![Self::of("conformance", &conformance)];
        let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
        for name in tests(&root.join("tests"))?.filter(|name| name.contains("redis")) {
            let of_one = ["-p", "leasehold", "--all-features", "--test"];
            let part = format!("{name}::");
            let words = match manifest.contains(&format!("[[test]]\nname = \"{name}\"")) {
                true => [&of_one[..], &[&name]].concat(),
                false => [&of_one[..], &["all", &part]].concat(),
            };
            suites.push(Self::of(&name, &words));
        }
        for name in tests(&root.join("testkit/tests"))?.filter(|name| name != "postgres") {
            let words = ["-p", "testkit", "--all-features", "--test", &name];
            suites.push(Self::of(&format!("testkit {name}"), &words));
        }
        Ok(suites)
    }

    fn of(name: &str, words: &[&str]) -> Self {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Self { name: name.to_owned(), words }
    }

    /// Runs the suite on `server`. Returns the output.
    pub(crate) fn run(&self, server: &Path) -> io::Result<String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.arg("test").args(&self.words).args(["--", "--test-threads=4"]);
        cargo.env("LEASEHOLD_SERVER", server).stderr(Stdio::inherit());
        Ok(String::from_utf8_lossy(&cargo.output()?.stdout).into_owned())
    }
}

/// The test programs in a folder, sorted by name.
fn tests(dir: &Path) -> io::Result<impl Iterator<Item = String>> {
    let paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|it| it == "rs"));
    paths.sort();
    Ok(paths.into_iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())))
}
