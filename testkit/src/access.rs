//! The connection of the test kit itself to a server that the test kit has started.
//!
//! The connection counts its commands. If a test counts the commands of the server, the test kit
//! subtracts its own commands.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::program::redis_major;
use crate::wire::{Connection, PATIENCE, Reply};

/// Access to one server. Clones share the count of the test kit's own commands.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    port: u16,
    password: Option<String>,
    own: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Access {
    pub(crate) fn new(port: u16, password: Option<String>) -> Self {
        Self { port, password, own: Arc::default() }
    }

    pub(crate) fn open(&self) -> io::Result<Connection> {
        let mut connection = Connection::try_open(self.port, PATIENCE)?;
        if let Some(password) = &self.password {
            let reply = connection.try_command(&["AUTH", password])?;
            self.count("auth");
            assert_eq!(reply.text(), "OK", "the server accepts its own password");
        }
        Ok(connection)
    }

    /// Sends a command on behalf of the test kit.
    pub(crate) fn command(&self, words: &[&str]) -> io::Result<Reply> {
        let reply = self.open()?.try_command(words)?;
        self.count(&counted_as(words));
        Ok(reply)
    }

    /// Creates a user with exactly these permissions. Returns the URL with which a client logs in
    /// as this user.
    pub(crate) fn user(&self, name: &str, rights: &[&str]) -> io::Result<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(name.chars().all(plain), "`{name}` would have to be escaped in a URL");
        let password = format!(">{USER_PASSWORD}");
        // Before Redis 7, `reset` permits every channel.
        let nothing = ["ACL", "SETUSER", name, "reset", "resetchannels", "on", &password];
        let reply = self.command(&[&nothing, rights].concat())?;
        assert_eq!(reply, Reply::Text("OK".into()), "the server accepts the ACL rules {rights:?}");
        Ok(format!("redis://{name}:{USER_PASSWORD}@127.0.0.1:{}/", self.port))
    }

    /// Returns whether the server replies.
    ///
    /// Any reply counts, even an error, because the server may require a password that only the
    /// test knows.
    pub(crate) fn answers(&self) -> bool {
        let reply = Connection::try_open(self.port, PATIENCE)
            .and_then(|mut connection| connection.try_command(&["PING"]));
        if matches!(&reply, Ok(Reply::Text(_))) {
            self.count("ping");
        }
        reply.is_ok()
    }

    /// Counts a command of the test kit. The server counts this command, too, but the counts for
    /// the test must not contain it.
    pub(crate) fn count(&self, command: &str) {
        *self.own().entry(command.to_lowercase()).or_default() += 1;
    }

    /// Forgets the counted commands, because a restarted server counts from zero.
    pub(crate) fn forget(&self) {
        self.own().clear();
    }

    /// The commands that the test kit has sent since the server started.
    pub(crate) fn own(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name under which the server counts a command. From Redis 7 on, this name contains the
/// subcommand.
fn counted_as(words: &[&str]) -> String {
    match words {
        [first @ ("ACL" | "CONFIG"), second, ..] if redis_major() >= 7 => {
            format!("{first}|{second}")
        }
        _ => words[0].to_owned(),
    }
}

/// The password of every user that a test creates.
pub(crate) const USER_PASSWORD: &str = "secret";
