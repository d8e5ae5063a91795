//! The settings of a server for a test.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::access::USER_PASSWORD;
use crate::certificates::{
    CLIENT_CERT, CLIENT_KEY, Certificates, SERVER_CERT, SERVER_KEY, TRUSTED,
};
use crate::port::free_port;
use crate::program;

/// The settings of a server before its start.
///
/// # Examples
///
/// ```
/// let redis = testkit::Redis::options().password("secret").persistent().start();
/// redis.command(&["SET", "kept", "1"]);
/// redis.restart();
/// assert_eq!(redis.command(&["GET", "kept"]).text(), "1");
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a server runs once it is started"]
pub struct Options {
    pub(crate) args: Vec<(String, String)>,
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) client_auth: bool,
    pub(crate) kind: Kind,
    pub(crate) password: Option<String>,
    pub(crate) persistent: bool,
    pub(crate) plain_among_servers: bool,
    /// The program of the server. Default: the program that all tests use.
    pub(crate) program: Option<PathBuf>,
    pub(crate) replicates_as: Option<String>,
    pub(crate) source: Option<Ipv4Addr>,
    pub(crate) tls: bool,
    pub(crate) unix_socket: bool,
    pub(crate) users: Vec<(String, Vec<String>)>,
}

/// The role of a server among other servers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Kind {
    /// A single server.
    #[default]
    Alone,
    /// A server of a deployment with several servers. It has a file for `CONFIG REWRITE`. All
    /// servers of the deployment trust the same authorities. If they use TLS for clients, they also
    /// use TLS among themselves.
    Member,
    /// A node of a cluster, with this `cluster-node-timeout` in milliseconds.
    Node(u128),
    /// A Sentinel. Commands set the primary that it watches.
    Sentinel,
}

impl Options {
    /// Adds a line to the server's configuration, as `--name value`.
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.args.push((name.into(), value.into()));
        self
    }

    /// Makes the server require this password.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Makes the server keep its data when it is stopped, even by a kill. By default, a stopped
    /// server loses its data.
    pub fn persistent(mut self) -> Self {
        self.persistent = true;
        self
    }

    /// Makes the server use TLS on a second port, with a certificate for `localhost` and
    /// `127.0.0.1`.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Like [`tls`](Self::tls), but the server presents the certificate of its authority.
    pub fn tls_with_self_signed_certificate(mut self) -> Self {
        self.certificates = Some(Arc::new(Certificates::self_signed()));
        self.tls()
    }

    /// Like [`tls`](Self::tls), but clients must also present a certificate.
    pub fn tls_with_client_auth(mut self) -> Self {
        self.client_auth = true;
        self.tls()
    }

    /// Makes the server listen on a unix socket as well.
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Gives the server a user with these permissions and the password `secret`. Each permission is
    /// a rule of `ACL SETUSER`. The user still exists after a restart, unlike a user that is
    /// [created later](crate::Redis::user).
    pub fn user(mut self, name: &str, rights: &[&str]) -> Self {
        self.users.push((name.into(), rights.iter().map(|&right| right.into()).collect()));
        self
    }

    /// Makes the servers of one deployment log in to each other as this [user](Self::user).
    /// Default: the servers use the password, if there is one.
    pub fn replicates_as(mut self, user: &str) -> Self {
        self.replicates_as = Some(user.into());
        self
    }

    /// Sets the address from which the server's own connections come.
    pub(crate) fn coming_from(mut self, source: Ipv4Addr) -> Self {
        self.source = Some(source);
        self
    }

    pub(crate) fn of_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Creates the certificates now, so that all servers with these settings share them.
    pub(crate) fn with_shared_certificates(mut self) -> Self {
        self.certificates = Some(Arc::new(Certificates::new()));
        self
    }

    /// Returns the user and the password with which other servers log in to a server that has these
    /// settings.
    pub(crate) fn login(&self) -> (Option<&str>, Option<&str>) {
        match &self.replicates_as {
            Some(user) => (Some(user), Some(USER_PASSWORD)),
            None => (None, self.password.as_deref()),
        }
    }

    /// Whether the server uses TLS to other servers.
    pub(crate) fn tls_among_servers(&self) -> bool {
        self.tls && self.kind != Kind::Alone && !self.plain_among_servers
    }

    /// Returns as many ports as these settings need. All of them are free at the moment.
    pub(crate) fn free_ports(&self) -> Ports {
        let plain = free_port();
        let tls = self.tls.then(free_port);
        let bus = matches!(self.kind, Kind::Node(_)).then(|| match program::redis_major() {
            // Before Redis 7, the port of the cluster bus cannot be set.
            ..7 => tls.unwrap_or(plain) + 10_000,
            7.. => free_port(),
        });
        Ports { plain, tls, bus }
    }

    /// Creates in `dir` the files that a server with these settings reads.
    pub(crate) fn prepare(&self, dir: &Path) {
        if self.tls {
            let own = || Arc::new(Certificates::new());
            self.certificates.clone().unwrap_or_else(own).write_to(dir);
        }
        if !self.users.is_empty() {
            write(dir, USERS, &self.acl());
        }
        match self.kind {
            Kind::Alone => {}
            Kind::Member | Kind::Node(_) | Kind::Sentinel => write(dir, CONFIG, ""),
        }
    }

    /// The content of the file of users. This file replaces all settings of the default user.
    fn acl(&self) -> String {
        let password =
            self.password.as_ref().map_or_else(|| "nopass".into(), |it| format!(">{it}"));
        let mut file = format!("user default on {password} ~* &* +@all\n");
        for (name, rights) in &self.users {
            file +=
                &format!("user {name} resetchannels on >{USER_PASSWORD} {}\n", rights.join(" "));
        }
        file
    }

    /// The command line of a server in `dir`.
    ///
    /// The settings of the test come last, and so override the other settings.
    pub(crate) fn command_line(&self, dir: &Path, ports: Ports) -> Vec<OsString> {
        let mut line = Line(Vec::new());
        self.push_kind(&mut line, dir, ports);
        self.push_addresses(&mut line);
        line.push("--port", ports.plain.to_string());
        line.push("--dir", dir);
        line.push("--daemonize", "no");
        line.push("--loglevel", "notice");
        // Before Redis 7, `DEBUG` is always allowed, and this setting does not exist.
        if program::redis_major() >= 7 {
            line.push("--enable-debug-command", "yes");
        }
        if self.kind != Kind::Sentinel {
            self.push_data(&mut line);
        }
        self.push_access(&mut line, dir);
        if let Some(port) = ports.tls {
            self.push_tls(&mut line, dir, port);
        }
        for (name, value) in &self.args {
            line.push(name, value);
        }
        line.0
    }

    /// Adds the options for a server among other servers. The option with the configuration file
    /// must come first.
    fn push_kind(&self, line: &mut Line, dir: &Path, ports: Ports) {
        if self.kind == Kind::Alone {
            return;
        }
        line.0.push(dir.join(CONFIG).into());
        match self.kind {
            Kind::Alone | Kind::Member => {}
            Kind::Node(timeout) => {
                line.push("--cluster-enabled", "yes");
                line.push("--cluster-announce-ip", "127.0.0.1");
                line.push("--cluster-node-timeout", timeout.to_string());
                if let Some(bus) = ports.bus.filter(|_| program::redis_major() >= 7) {
                    line.push("--cluster-port", bus.to_string());
                }
            }
            Kind::Sentinel => return line.0.push("--sentinel".into()),
        }
        // By default, a master waits for more replicas before it sends its data.
        line.push("--repl-diskless-sync-delay", "0");
        let (user, password) = self.login();
        if let Some(user) = user {
            line.push("--masteruser", user);
        }
        if let Some(password) = password {
            line.push("--masterauth", password);
        }
    }

    fn push_addresses(&self, line: &mut Line) {
        match self.source.map(|source| source.to_string()) {
            Some(source) if program::redis_major() >= 7 => {
                line.push("--bind-source-addr", source);
                line.push("--bind", "127.0.0.1");
            }
            // Before Redis 7, this setting does not exist, and a server opens its own connections
            // from the first address on which it listens.
            Some(source) => line.0.extend(["--bind".into(), source.into(), "127.0.0.1".into()]),
            None => line.push("--bind", "127.0.0.1"),
        }
    }

    fn push_data(&self, line: &mut Line) {
        line.push("--save", "");
        line.push("--appendonly", if self.persistent { "yes" } else { "no" });
        line.push("--appendfsync", "always");
        if !self.persistent {
            // Also deletes the file with the data that a primary has sent.
            line.push("--rdb-del-sync-files", "yes");
        }
    }

    fn push_access(&self, line: &mut Line, dir: &Path) {
        if !self.users.is_empty() {
            line.push("--aclfile", dir.join(USERS));
        } else if let Some(password) = &self.password {
            line.push("--requirepass", password);
        }
        if self.unix_socket {
            line.push("--unixsocket", dir.join(SOCKET));
        }
    }

    fn push_tls(&self, line: &mut Line, dir: &Path, port: u16) {
        line.push("--tls-port", port.to_string());
        line.push("--tls-cert-file", dir.join(SERVER_CERT));
        line.push("--tls-key-file", dir.join(SERVER_KEY));
        line.push("--tls-ca-cert-file", dir.join(TRUSTED));
        line.push("--tls-auth-clients", if self.client_auth { "yes" } else { "no" });
        if self.tls_among_servers() {
            line.push("--tls-client-cert-file", dir.join(CLIENT_CERT));
            line.push("--tls-client-key-file", dir.join(CLIENT_KEY));
            line.push("--tls-replication", "yes");
        }
        if matches!(self.kind, Kind::Node(_)) {
            line.push("--tls-cluster", "yes");
        }
    }
}

/// The ports of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) plain: u16,
    pub(crate) tls: Option<u16>,
    /// The port of the cluster bus.
    pub(crate) bus: Option<u16>,
}

impl Ports {
    /// The port for clients and other servers: the TLS port if there is one.
    pub(crate) fn for_others(self) -> u16 {
        self.tls.unwrap_or(self.plain)
    }
}

struct Line(Vec<OsString>);

impl Line {
    fn push(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.extend([name.into(), value.into()]);
    }
}

fn write(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).expect("the server's directory is writable");
}

/// The file to which a server writes its settings.
const CONFIG: &str = "redis.conf";
/// The name of the unix socket in the server's directory.
pub(crate) const SOCKET: &str = "redis.sock";
const USERS: &str = "users.acl";
