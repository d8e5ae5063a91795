//! Runs the tests that use Redis on every server of `make servers`, and writes the results.
//! `matrix` runs all tests on all servers. `matrix redis-6.2` runs all tests on one server. `matrix
//! redis-6.2 redis_tls` runs one suite on this server. `matrix redis-6.2 'testkit server'` runs one
//! suite of the test kit.
//!
//! The folder `target/servers/NAME/results` keeps the output of each suite. The table in
//! `docs/servers.md` contains the results of all suites. If a test needs an ability that a server
//! lacks, the test fails on this server. The table counts such a failure separately.

mod results;
mod suite;
mod table;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use results::SuiteResults;
use suite::Suite;
use table::{Column, table};

fn main() -> ExitCode {
    let mut words = env::args().skip(1);
    match run(words.next().as_deref(), words.next().as_deref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("matrix: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the selected suites and writes the table. Returns whether no test failed.
fn run(on: Option<&str>, only: Option<&str>) -> io::Result<bool> {
    let suites = Suite::all(root())?;
    for server in chosen(&servers()?, on, Server::name)? {
        for suite in chosen(&suites, only, |suite| &suite.name)? {
            server.try_out(suite)?;
        }
    }
    let columns = servers()?.iter().map(|server| server.column(&suites)).collect::<Vec<_>>();
    fs::write(root().join("docs/servers.md"), table(&suites, &columns))?;
    Ok(columns.iter().flat_map(|column| &column.results).flatten().all(SuiteResults::is_well))
}

/// All of `all`, or only the item that is called `name`.
fn chosen<'a, T>(
    all: &'a [T],
    name: Option<&str>,
    name_of: impl Fn(&T) -> &str,
) -> io::Result<Vec<&'a T>> {
    let Some(name) = name else { return Ok(all.iter().collect()) };
    let one = all.iter().find(|it| name_of(it) == name);
    one.map(|one| vec![one]).ok_or_else(|| io::Error::other(format!("there is no `{name}`")))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit lies in the project")
}

/// A server of `make servers`.
struct Server {
    dir: PathBuf,
}

/// All servers, ordered by name.
fn servers() -> io::Result<Vec<Server>> {
    let dir = root().join("target/servers");
    let entries = fs::read_dir(&dir).map_err(|_| io::Error::other("no servers: make servers"))?;
    let dirs = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut servers: Vec<_> = dirs.into_iter().map(|dir| Server { dir }).collect();
    servers.retain(|server| server.program().is_file());
    servers.sort_by(|one, other| one.dir.cmp(&other.dir));
    Ok(servers)
}

impl Server {
    fn program(&self) -> PathBuf {
        self.dir.join("bin/redis-server")
    }

    fn name(&self) -> &str {
        self.dir.file_name().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// Runs a suite and stores its output.
    fn try_out(&self, suite: &Suite) -> io::Result<()> {
        let output = suite.run(&self.program())?;
        fs::create_dir_all(self.dir.join("said"))?;
        fs::write(self.results(suite), &output)?;
        println!("{}, {}: {}", self.version(), suite.name, SuiteResults::read(&output).cell());
        Ok(())
    }

    fn results(&self, suite: &Suite) -> PathBuf {
        self.dir.join("said").join(suite.name.replace(' ', "_"))
    }

    /// The name and version of the server, such as `Redis 7.0.15`.
    fn version(&self) -> String {
        let results = std::process::Command::new(self.program()).arg("--version").output();
        let results =
            String::from_utf8_lossy(&results.map(|it| it.stdout).unwrap_or_default()).into_owned();
        let words: Vec<_> = results.split_whitespace().take(3).collect();
        words.join(" ").replace("server v=", "")
    }

    fn column(&self, suites: &[Suite]) -> Column {
        let read = |suite: &Suite| fs::read_to_string(self.results(suite)).ok();
        let results = suites
            .iter()
            .map(|suite| read(suite).map(|results| SuiteResults::read(&results)))
            .collect();
        Column { server: self.version(), results }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_refuses_an_unknown_name() {
        let all = ["redis_tls".to_owned(), "testkit server".to_owned()];
        let named = |name| chosen(&all, name, |it| it.as_str());
        assert_eq!(named(None).unwrap().len(), 2);
        assert_eq!(named(Some("testkit server")).unwrap(), [&all[1]]);
        assert_eq!(named(Some("testkit")).unwrap_err().to_string(), "there is no `testkit`");
    }
}
