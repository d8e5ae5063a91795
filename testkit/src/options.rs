//! What kind of server a test wants.

use std::ffi::OsString;
use std::path::Path;

use crate::certificates::{CA_CERT, SERVER_CERT, SERVER_KEY};
use crate::program;

/// The settings of a server that is about to start.
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
    pub(crate) client_auth: bool,
    pub(crate) password: Option<String>,
    pub(crate) persistent: bool,
    pub(crate) tls: bool,
    pub(crate) unix_socket: bool,
}

impl Options {
    /// Adds a line to the server's configuration, as `--name value`.
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.args.push((name.into(), value.into()));
        self
    }

    /// Makes the server ask for this password.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Makes the server keep its data when it is stopped, even by a kill.
    /// Default: it forgets everything.
    pub fn persistent(mut self) -> Self {
        self.persistent = true;
        self
    }

    /// Makes the server speak TLS on a second port, with a certificate for
    /// `localhost` and `127.0.0.1`.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Like [`tls`](Self::tls), and clients must show a certificate, too.
    pub fn tls_with_client_auth(mut self) -> Self {
        self.client_auth = true;
        self.tls()
    }

    /// Makes the server listen on a unix socket as well.
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// The command line of a server that lives in `dir`.
    ///
    /// The test's own settings come last, so that they win.
    pub(crate) fn command_line(&self, dir: &Path, ports: Ports) -> Vec<OsString> {
        let mut line = Line(Vec::new());
        line.push("--bind", "127.0.0.1");
        line.push("--port", ports.plain.to_string());
        line.push("--dir", dir);
        line.push("--daemonize", "no");
        line.push("--loglevel", "notice");
        line.push("--save", "");
        line.push("--appendonly", if self.persistent { "yes" } else { "no" });
        line.push("--appendfsync", "always");
        // Older servers allow DEBUG always and do not know the setting.
        if program::redis_major() >= 7 {
            line.push("--enable-debug-command", "yes");
        }
        if let Some(password) = &self.password {
            line.push("--requirepass", password);
        }
        if self.unix_socket {
            line.push("--unixsocket", dir.join(SOCKET));
        }
        if let Some(port) = ports.tls {
            line.push("--tls-port", port.to_string());
            line.push("--tls-cert-file", dir.join(SERVER_CERT));
            line.push("--tls-key-file", dir.join(SERVER_KEY));
            line.push("--tls-ca-cert-file", dir.join(CA_CERT));
            line.push("--tls-auth-clients", if self.client_auth { "yes" } else { "no" });
        }
        for (name, value) in &self.args {
            line.push(name, value);
        }
        line.0
    }
}

/// The ports of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) plain: u16,
    pub(crate) tls: Option<u16>,
}

struct Line(Vec<OsString>);

impl Line {
    fn push(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.extend([name.into(), value.into()]);
    }
}

/// The name of the unix socket in the server's directory.
pub(crate) const SOCKET: &str = "redis.sock";
