//! A Redis server of a test.
//!
//! Each server has its own port and directory, so tests may run at the same time. A server ends
//! when its [`Redis`] is dropped, or when the test is killed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

use crate::ability::{self, lacks};
use crate::access::Access;
use crate::certificates::{CA_CERT, CLIENT_CERT, CLIENT_KEY};
use crate::child::{Tethered, tied};
use crate::clock::{PAUSE, clock};
use crate::monitor::Monitor;
use crate::options::{Kind, Options, Ports, SOCKET};
use crate::program;
use crate::stats::Calls;
use crate::wire::Reply;

/// A Redis server that lives as long as this value.
///
/// # Examples
///
/// ```
/// let redis = testkit::Redis::start();
/// let before = redis.calls();
/// redis.command(&["SET", "greeting", "hello"]);
/// assert_eq!(redis.calls().since(&before).to_string(), "set: 1");
/// ```
#[derive(Debug)]
pub struct Redis {
    access: Access,
    // Declared before the directory, so that the server ends before the directory is deleted.
    process: Mutex<Option<Tethered>>,
    options: Options,
    ports: Ports,
    dir: TempDir,
}

impl Redis {
    /// Starts a plain server that loses its data when it is stopped.
    ///
    /// # Panics
    ///
    /// If there is no Redis on this machine, or it does not start.
    pub fn start() -> Self {
        Self::options().start()
    }

    /// Starts a server that has TTLs of hash fields. In `make matrix`, this is the chosen server,
    /// and otherwise `redis-8.2` of `make servers`. The server in `$PATH` may lack such TTLs.
    ///
    /// # Panics
    ///
    /// If no server has TTLs of hash fields, or the server does not start.
    pub fn start_with_field_ttls() -> Self {
        Options { program: Some(ability::with_field_ttls()), ..Self::options() }.start()
    }

    /// Returns the default settings.
    pub fn options() -> Options {
        Options::default()
    }

    /// Tries one set of ports after the other, until all ports of a set are free.
    pub(crate) fn start_on(mut options: Options, mut next: impl FnMut() -> Ports) -> Self {
        let dir = tempfile::Builder::new().prefix("testkit-").tempdir();
        let dir = dir.expect("a temporary directory can be made");
        if options.tls && options.certificates.is_none() {
            options = options.with_shared_certificates();
        }
        options.prepare(dir.path());
        loop {
            let ports = next();
            let access = Access::new(ports.plain, options.password.clone());
            let launch = Launch { access: &access, dir: dir.path(), options: &options, ports };
            if let Ok(process) = launch.run() {
                let process = Mutex::new(Some(process));
                return Self { access, process, options, ports, dir };
            }
        }
    }

    /// The port for plain connections, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.ports.plain
    }

    /// `redis://127.0.0.1:PORT/`, without the password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port())
    }

    /// `redis://:PASSWORD@127.0.0.1:PORT/`, or the plain URL without a password.
    pub fn url_with_password(&self) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}/", self.port()),
            None => self.url(),
        }
    }

    /// `unix:///path/of/the/socket`.
    ///
    /// # Panics
    ///
    /// If the server was started without [`Options::unix_socket`].
    pub fn unix_url(&self) -> String {
        assert!(self.options.unix_socket, "the server was started without `.unix_socket()`");
        format!("unix://{}", self.dir().join(SOCKET).display())
    }

    /// `rediss://localhost:PORT/`.
    ///
    /// # Panics
    ///
    /// If the server was started without [`Options::tls`].
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}/", self.tls_port())
    }

    /// The port for connections with TLS, on 127.0.0.1.
    ///
    /// # Panics
    ///
    /// If the server was started without [`Options::tls`].
    pub fn tls_port(&self) -> u16 {
        self.ports.tls.expect("the server was started without `.tls()`")
    }

    /// The certificate of the authority that signed the certificates of the server and the client.
    ///
    /// # Panics
    ///
    /// If the server was started without [`Options::tls`].
    pub fn ca_pem(&self) -> String {
        self.pem(CA_CERT)
    }

    /// The path of the file with the certificate of [`ca_pem`](Self::ca_pem).
    pub fn ca_path(&self) -> PathBuf {
        self.dir().join(CA_CERT)
    }

    /// A certificate that the server accepts from a client.
    ///
    /// # Panics
    ///
    /// If the server was started without [`Options::tls`].
    pub fn client_cert_pem(&self) -> String {
        self.pem(CLIENT_CERT)
    }

    /// The private key of [`client_cert_pem`](Self::client_cert_pem).
    ///
    /// # Panics
    ///
    /// If the server was started without [`Options::tls`].
    pub fn client_key_pem(&self) -> String {
        self.pem(CLIENT_KEY)
    }

    /// Returns the working directory of the server. The directory is deleted when this value is
    /// dropped.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the log of the server since its last start.
    pub fn log(&self) -> String {
        read_log(self.dir())
    }

    /// The process id of the server.
    ///
    /// # Panics
    ///
    /// If the server is stopped.
    pub fn pid(&self) -> u32 {
        self.with_process(Tethered::pid)
    }

    /// Kills the server and waits until it has ended. Does nothing if the server is stopped.
    pub fn stop(&self) {
        self.process().take();
    }

    /// Starts the stopped server on the same port, with the data that it has kept.
    ///
    /// Only a [`persistent`](Options::persistent) server keeps data.
    ///
    /// # Panics
    ///
    /// If the server was not stopped, or does not start.
    pub fn start_again(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "the server was not stopped");
        self.access.forget();
        let started = clock();
        while process.is_none() {
            let launch = Launch {
                access: &self.access,
                dir: self.dir(),
                options: &self.options,
                ports: self.ports,
            };
            *process = launch.run().ok();
            let port = self.port();
            assert!(started.elapsed() < START, "another process has taken port {port}");
        }
    }

    /// Deletes the data that the stopped server has kept. The server keeps its configuration file,
    /// so it still knows the other servers of its deployment.
    ///
    /// # Panics
    ///
    /// If the server was not stopped.
    pub fn lose_data(&self) {
        assert!(self.process().is_none(), "the server was not stopped");
        for kept in [APPENDED, "appendonly.aof", DUMP] {
            let path = self.dir().join(kept);
            let gone = if path.is_dir() { fs::remove_dir_all(path) } else { remove(&path) };
            gone.expect("the server's directory is writable");
        }
    }

    /// Kills the server and starts it again.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }

    /// Pauses the server: connections stay open, but it does not reply.
    ///
    /// # Panics
    ///
    /// If the server is stopped.
    pub fn pause(&self) {
        self.with_process(Tethered::pause);
    }

    /// Lets a paused server continue. The server then executes all requests that it has received
    /// meanwhile.
    ///
    /// # Panics
    ///
    /// If the server is stopped.
    pub fn resume(&self) {
        self.with_process(Tethered::resume);
    }

    /// Returns whether the server runs and is not paused.
    pub fn is_running(&self) -> bool {
        self.process().as_ref().is_some_and(|process| !process.is_paused())
    }

    /// Sends one command on a new connection and returns the reply.
    ///
    /// If the server has a password, the connection logs in first. The command counts in
    /// [`calls`](Self::calls), like all commands of a test.
    ///
    /// # Panics
    ///
    /// If the server does not reply.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Reply {
        let reply = self.access.open().and_then(|mut open| open.try_command(words));
        reply.unwrap_or_else(|error| panic!("no reply to {words:?}: {error}"))
    }

    /// Creates a user with exactly these permissions, and replaces an earlier user of this name.
    /// Each permission is a rule of `ACL SETUSER`. Returns the URL with which a client logs in as
    /// this user.
    ///
    /// # Panics
    ///
    /// If the server rejects the rules, or the name has other characters than letters, digits and
    /// hyphens.
    ///
    /// # Examples
    ///
    /// ```
    /// let redis = testkit::Redis::start();
    /// let url = redis.user("reader", &["~*", "+get"]);
    /// assert!(url.starts_with("redis://reader:"));
    /// ```
    #[track_caller]
    pub fn user(&self, name: &str, rights: &[&str]) -> String {
        self.access.user(name, rights).expect("the server replies")
    }

    /// How often each command was called since the server started.
    ///
    /// Also counts commands in scripts, failed commands, and commands that the server sends to
    /// itself at its start. Does not count commands of the test kit.
    ///
    /// # Panics
    ///
    /// If the server does not reply.
    #[track_caller]
    pub fn calls(&self) -> Calls {
        let mut connection = self.access.open().expect("the server accepts connections");
        let info = connection.command(&["INFO", "commandstats"]);
        let calls = Calls::read(info.text(), &self.access.own());
        // The reply to `INFO` does not yet count this `INFO`.
        self.access.count("info");
        calls
    }

    /// Watches all commands from now on.
    ///
    /// # Panics
    ///
    /// If the server does not reply.
    #[track_caller]
    pub fn monitor(&self) -> Monitor {
        Monitor::start(self.access.clone())
    }

    /// Sends a command on behalf of the test kit.
    #[track_caller]
    pub(crate) fn own_command(&self, words: &[&str]) -> Reply {
        let reply = self.access.command(words);
        let reply = reply.unwrap_or_else(|error| panic!("no reply to {words:?}: {error}"));
        assert!(!reply.is_error(), "{words:?}: {reply:?}");
        reply
    }

    /// Sends a command on behalf of the test kit. Returns `None` if the server does not reply.
    pub(crate) fn ask(&self, words: &[&str]) -> Option<Reply> {
        if !self.is_running() {
            return None;
        }
        self.access.command(words).ok().filter(|reply| !reply.is_error())
    }

    /// Changes settings, and writes them to the configuration file, so that they survive a restart.
    pub(crate) fn configure(&self, settings: &[(&str, &str)]) {
        for (name, value) in settings {
            self.own_command(&["CONFIG", "SET", name, value]);
        }
        self.keep_settings();
    }

    /// If the server has a configuration file, writes the settings to this file, so that they
    /// survive a restart.
    pub(crate) fn keep_settings(&self) {
        if self.options.kind != Kind::Alone {
            self.own_command(&["CONFIG", "REWRITE"]);
        }
    }

    pub(crate) fn settings(&self) -> &Options {
        &self.options
    }

    pub(crate) fn ports(&self) -> Ports {
        self.ports
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    fn pem(&self, name: &str) -> String {
        assert!(self.options.tls, "the server was started without `.tls()`");
        fs::read_to_string(self.dir().join(name))
            .expect("the file was written before the server started")
    }

    fn with_process<T>(&self, act: impl FnOnce(&Tethered) -> T) -> T {
        // The mutex is locked during `act`. Other threads wait until `act` has used the process.
        let process = self.process();
        act(process.as_ref().expect("the server is stopped"))
    }

    fn process(&self) -> MutexGuard<'_, Option<Tethered>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Options {
    /// Starts the server and waits until it replies.
    ///
    /// # Panics
    ///
    /// If there is no Redis on this machine, or it does not start with these settings. If it does
    /// not start, the message shows the log of the server.
    pub fn start(self) -> Redis {
        let wanted = self.clone();
        Redis::start_on(self, || wanted.free_ports())
    }
}

/// One attempt to start a server.
struct Launch<'a> {
    access: &'a Access,
    dir: &'a Path,
    options: &'a Options,
    ports: Ports,
}

impl Launch<'_> {
    /// Starts the process and waits until the server replies.
    fn run(&self) -> Result<Tethered, PortTaken> {
        let log = File::create(self.dir.join(LOG)).expect("the server's directory is writable");
        let program = self.options.program.as_deref();
        let mut command = tied(program.unwrap_or_else(|| program::redis_server()));
        command
            .args(self.options.command_line(self.dir, self.ports))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log);
        self.wait_until_ready(Tethered::start(command))
    }

    fn wait_until_ready(&self, process: Tethered) -> Result<Tethered, PortTaken> {
        let started = clock();
        while !self.is_ready() {
            let ended = process.ended();
            if ended.is_some() && self.port_is_taken() {
                return Err(PortTaken);
            }
            if ended.is_some() && self.has_no_tls() {
                lacks("it is built without TLS");
            }
            assert!(ended.is_none(), "redis-server ended. {}", self.description());
            assert!(
                started.elapsed() < START,
                "not ready within {START:?}. {}",
                self.description()
            );
            sleep(PAUSE);
        }
        Ok(process)
    }

    /// Whether this server is up and has loaded its data.
    ///
    /// A reply does not prove this, because it may come from another server on the same port. So
    /// this function reads the log.
    fn is_ready(&self) -> bool {
        let ready = match self.options.kind {
            Kind::Sentinel => "Sentinel ID is",
            _ => "Ready to accept connections",
        };
        read_log(self.dir).contains(ready) && self.access.answers()
    }

    fn port_is_taken(&self) -> bool {
        read_log(self.dir).contains("Address already in use")
    }

    fn has_no_tls(&self) -> bool {
        let log = read_log(self.dir);
        let refused = ["Failed finding TLS support", "'tls-port "];
        self.options.tls && refused.iter().any(|words| log.contains(words))
    }

    /// The message for a server that does not start.
    fn description(&self) -> String {
        format!("Settings: {:?}\nIts log:\n{}", self.options, read_log(self.dir))
    }
}

/// Another process has bound a port before the server.
struct PortTaken;

fn read_log(dir: &Path) -> String {
    let bytes = fs::read(dir.join(LOG)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Removes a file. A missing file is no error.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// The folder of the append-only files of a persistent server.
const APPENDED: &str = "appendonlydir";
const DUMP: &str = "dump.rdb";
const LOG: &str = "log";

/// The longest time in which a server may start.
const START: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::port::free_port;

    #[test]
    fn occupied_port_is_avoided() {
        // given a port of another Redis server, and a free port
        let other = Redis::start();
        let free = free_port();
        let mut ports = [other.port(), free].into_iter();

        // when a server gets both ports, first the used one and then the free one
        let next = || Ports { plain: ports.next().unwrap(), tls: None, bus: None };
        let redis = Redis::start_on(Redis::options(), next);

        // then the new server uses the free port, and the other server is unchanged
        assert_eq!(redis.port(), free);
        assert_ne!(redis.pid(), other.pid());
        assert_eq!(other.command(&["PING"]).text(), "PONG");
    }

    #[test]
    fn occupied_tls_port_is_avoided() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let free = free_port();
        let mut ports = [taken.local_addr().unwrap().port(), free].into_iter();

        let next = || Ports { plain: free_port(), tls: ports.next(), bus: None };
        let redis = Redis::start_on(Redis::options().tls(), next);

        assert_eq!(redis.tls_port(), free);
    }
}
