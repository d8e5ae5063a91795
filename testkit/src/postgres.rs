//! A PostgreSQL server of a test, for data outside of Redis.
//!
//! The server listens only on a socket in its own folder, so tests may run at the same time.
//! `psql`, which is part of PostgreSQL, sends the statements.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

use crate::child::{Tethered, tied};
use crate::clock::{PAUSE, clock};
use crate::program;

/// A PostgreSQL server that lives as long as this value.
///
/// # Examples
///
/// ```
/// let postgres = testkit::Postgres::start();
/// assert_eq!(postgres.sql("SELECT 6 * 7"), "42");
/// ```
#[derive(Debug)]
pub struct Postgres {
    // Declared before the directory, so that the server ends before the directory is deleted.
    process: Tethered,
    dir: TempDir,
}

impl Postgres {
    /// Starts an empty server.
    ///
    /// # Panics
    ///
    /// If there is no PostgreSQL on this machine, or it does not start.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("testkit-").tempdir();
        let dir = dir.expect("a temporary directory can be made");
        give_away(dir.path());
        make_cluster(dir.path());
        let log = File::create(dir.path().join(LOG)).expect("the server's directory is writable");
        let mut command = server("postgres", dir.path());
        command
            .args(["-D", "data", "-c", "listen_addresses=", "-c", "fsync=off"])
            // Shared memory of another kind would remain after a kill.
            .args(["-c", "dynamic_shared_memory_type=mmap", "-c"])
            .arg(format!("unix_socket_directories={}", dir.path().display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log);
        let postgres = Self { process: Tethered::start(command), dir };
        postgres.wait_until_ready();
        postgres
    }

    /// The URL of the server, for a client that connects by the socket.
    ///
    /// # Examples
    ///
    /// ```
    /// let postgres = testkit::Postgres::start();
    /// assert!(postgres.url().starts_with("postgres://test@localhost/postgres?host=/"));
    /// ```
    pub fn url(&self) -> String {
        let folder = self.dir.path().display();
        format!("postgres://{SUPERUSER}@localhost/postgres?host={folder}")
    }

    /// Runs statements and returns the result of the last one: rows, or a text such as `UPDATE 1`.
    ///
    /// # Panics
    ///
    /// If the server rejects a statement.
    #[track_caller]
    pub fn sql(&self, statements: &str) -> String {
        let output = self.psql().args(["-c", statements]).output().expect("psql runs");
        let refused = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{statements}: {refused}");
        let text_out = String::from_utf8_lossy(&output.stdout);
        text_out.trim_end().lines().last().unwrap_or_default().to_owned()
    }

    /// Opens a connection on which a transaction can last over several calls.
    ///
    /// # Panics
    ///
    /// If `psql` does not start.
    pub fn session(&self) -> Session {
        let mut command = tied(&program::postgres("psql"));
        command.args(self.words()).stdin(Stdio::piped()).stdout(Stdio::null());
        let process = Tethered::start(command);
        let input = process.child().stdin.take();
        Session { _process: process, input: Mutex::new(input) }
    }

    fn psql(&self) -> Command {
        let mut command = Command::new(program::postgres("psql"));
        command.args(self.words()).stdin(Stdio::null());
        command
    }

    /// Makes `psql` ignore the user's settings, print only rows, and stop at the first error.
    fn words(&self) -> Vec<String> {
        let dir = self.dir.path().display();
        let words = format!("-X -A -t -v ON_ERROR_STOP=1 -U {SUPERUSER} -d postgres -h");
        words.split(' ').map(str::to_owned).chain([dir.to_string()]).collect()
    }

    fn wait_until_ready(&self) {
        let started = clock();
        let answers = || self.psql().args(["-c", "SELECT 1"]).output().expect("psql runs");
        while !answers().status.success() {
            let log = || fs::read_to_string(self.dir.path().join(LOG)).unwrap_or_default();
            assert!(self.process.ended().is_none(), "postgres ended. Its log:\n{}", log());
            assert!(started.elapsed() < START, "not ready within {START:?}:\n{}", log());
            sleep(PAUSE);
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A killed server would leave shared memory behind.
        self.process.quit();
    }
}

/// A connection that stays open. Dropping this value closes it.
///
/// # Examples
///
/// ```
/// let postgres = testkit::Postgres::start();
/// let session = postgres.session();
/// session.tell("CREATE TABLE t (); SELECT pg_advisory_lock(1);");
/// let locked = || postgres.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "1";
/// testkit::eventually("the session has the lock", std::time::Duration::from_secs(5), locked);
/// ```
#[derive(Debug)]
pub struct Session {
    _process: Tethered,
    input: Mutex<Option<ChildStdin>>,
}

impl Session {
    /// Sends statements, and does not wait for their results.
    ///
    /// # Panics
    ///
    /// If the connection has ended.
    #[track_caller]
    pub fn tell(&self, statements: &str) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = input.as_mut().expect("its input is a pipe");
        writeln!(input, "{statements}")
            .and_then(|()| input.flush())
            .expect("the process reads its input");
    }
}

/// Creates the files of a server that has one user without a password.
fn make_cluster(dir: &Path) {
    let mut command = server("initdb", dir);
    command.args(["-D", "data", "-U", SUPERUSER, "--auth=trust", "--no-sync", "--no-locale"]);
    let made = command.output().expect("initdb runs");
    assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
}

/// Returns a program of the server, which must not run as root.
fn server(name: &str, dir: &Path) -> Command {
    let program = program::postgres(name);
    let mut command = match is_root() {
        true => {
            let setpriv = program::setpriv().expect("`setpriv` of util-linux is installed");
            let mut command = Command::new(setpriv);
            let user = [&format!("--reuid={OWNER}"), &format!("--regid={OWNER}")];
            command.args(["--pdeathsig", "KILL"]).args(user).args(["--init-groups", "--"]);
            command.arg(program);
            command
        }
        false => tied(&program),
    };
    command.current_dir(dir);
    command
}

/// If the tests run as root, gives a folder to the user of the server.
fn give_away(dir: &Path) {
    if is_root() {
        let given = Command::new("chown").arg(OWNER).arg(dir).status().expect("chown runs");
        assert!(given.success(), "there is no user `{OWNER}`, which Debian's package creates");
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user that runs the server if the tests run as root.
const OWNER: &str = "postgres";
const SUPERUSER: &str = "test";
const LOG: &str = "log";

/// The longest time in which a server may start.
const START: Duration = Duration::from_secs(30);
