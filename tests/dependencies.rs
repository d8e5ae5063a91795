//! The dependencies of Leasehold: their licences, their sources and their reasons.
//!
//! `deny.toml` has the allowed licences. The tests read the licences of the dependencies from
//! `cargo tree`, so they need no other tool. A check for known vulnerabilities needs a database and
//! `cargo deny`: see `make advisories`.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = allowed(&read("deny.toml"));
    for package in ["leasehold", "leasehold-cli"] {
        let edges = ["--all-features", "--edges", "normal,build", "--format", "{p}|{l}"];
        let tree = tree(package, &edges);
        let crates: BTreeSet<_> = tree.lines().filter(|line| !line.is_empty()).collect();
        assert!(crates.len() > 20, "{tree}");
        let refused: Vec<_> =
            crates.into_iter().filter(|line| !is_allowed(line, &allowed)).collect();
        assert!(refused.is_empty(), "not in deny.toml: {refused:#?}");
    }
}

#[test]
fn every_dependency_comes_from_the_registry() {
    let lock = read("Cargo.lock");
    let elsewhere = elsewhere(&lock);
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

#[test]
fn every_direct_dependency_is_listed_with_its_reason() {
    let documented = read("docs/dependencies.md");
    let manifest =
        ["Cargo.toml", "apps/Cargo.toml", "cli/Cargo.toml", "link/Cargo.toml"].map(read).concat();
    let direct = direct(&manifest);
    assert!(direct.len() > 10, "{direct:?}");
    let untold: Vec<_> = direct.iter().filter(|name| !tells(&documented, name)).collect();
    assert!(untold.is_empty(), "not in docs/dependencies.md: {untold:?}");
}

/// Former bug: the package contained tests that need the testkit, and scripts that need the
/// repository.
#[test]
fn no_packaged_file_needs_a_file_outside_the_package() {
    let mut cargo = Command::new(env!("CARGO"));
    let listed = cargo.args(["package", "--list", "--allow-dirty", "--offline"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.lines().any(|path| path == "src/lib.rs"), "{listed}");
    let needs = |path: &&str| {
        let folders = [
            "tests/", "benches/", "cli/", "servers/", "testkit/", "twin/", "link/", "interop/",
            "Makefile",
        ];
        folders.iter().any(|folder| path.starts_with(folder))
    };
    let lacking: Vec<_> = listed.lines().filter(needs).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}

/// The licences in the list `allow` of `deny.toml`.
fn allowed(text: &str) -> Vec<String> {
    let (_, after) = text.split_once("\nallow = [").expect("deny.toml has a list");
    let (list, _) = after.split_once(']').expect("the list ends");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether a line such as `name v1.0|MIT OR Apache-2.0` has an allowed licence. `OR` needs one
/// allowed licence, `AND` needs both. A licence with an exception counts as another licence.
fn is_allowed(line: &str, allowed: &[String]) -> bool {
    let (_, licence) = line.split_once('|').unwrap_or((line, ""));
    let is_allowed = |choice: &str| {
        let choice = choice.trim_matches(|c: char| c.is_whitespace() || c == '(' || c == ')');
        allowed.iter().any(|it| it == choice)
    };
    let choices = |part: &str| part.replace('/', " OR ").split(" OR ").any(is_allowed);
    licence.split(" AND ").all(choices)
}

/// The packages of a `Cargo.lock` that come neither from this repository nor from crates.io.
fn elsewhere(lock: &str) -> Vec<&str> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let registry = "\"registry+https://github.com/rust-lang/crates.io-index\"";
    sources.filter(|source| *source != registry).collect()
}

/// The names below `[dependencies]` and `[dev-dependencies]`.
fn direct(manifest: &str) -> Vec<&str> {
    let mut inside = false;
    let mut found = vec![];
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = matches!(line, "[dependencies]" | "[dev-dependencies]");
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| inside) {
            found.push(name);
        }
    }
    found
}

/// Whether a table of `document` has a row about the crate `name`.
fn tells(document: &str, name: &str) -> bool {
    document.lines().any(|line| line.starts_with(&format!("| `{name}` | ")))
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn tree(package: &str, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["tree", "--package", package, "--prefix", "none", "--no-dedupe"])
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes text")
}

// Tests of the checks: each check finds a bad sample.

#[test]
fn dependency_check_finds_a_forbidden_licence() {
    let allowed = allowed("[licenses]\nallow = [\n  \"MIT\",\n  \"ISC\",\n]\n");
    assert_eq!(allowed, ["MIT", "ISC"]);
    for good in ["MIT", "GPL-3.0 OR MIT", "Apache-2.0/MIT", "(MIT OR X) AND ISC"] {
        assert!(is_allowed(&format!("a v1.0|{good}"), &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR X) AND Y", "MIT WITH exception"] {
        assert!(!is_allowed(&format!("a v1.0|{bad}"), &allowed), "{bad}");
    }
}

#[test]
fn dependency_check_finds_a_package_from_another_source() {
    let registry = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
    assert!(elsewhere(registry).is_empty());
    assert_eq!(elsewhere("source = \"git+https://example.org/a\"\n").len(), 1);
}

#[test]
fn dependency_check_finds_an_unlisted_dependency() {
    let manifest = "[features]\na = []\n[dependencies]\nb = \"1\"\n[dev-dependencies]\nc = \"1\"\n";
    assert_eq!(direct(manifest), ["b", "c"]);
    assert!(tells("| `b` | MIT | words |", "b"));
    assert!(!tells("of `c` we use little", "c"));
}
