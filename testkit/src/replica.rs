//! A server that replicates another server, until it is promoted.
//!
//! A failover loses the writes that the replica has not received. To lose a write, a test first
//! promotes the replica, and then writes to the old primary.

use std::time::Duration;

use crate::clock::eventually;
use crate::options::{Kind, Options};
use crate::server::Redis;

/// The longest time in which a replica must have executed a command.
const SYNC: Duration = Duration::from_secs(20);

impl Redis {
    /// Starts a plain server that copies the data of `master`, and receives its changes.
    ///
    /// # Panics
    ///
    /// If the server does not start, or is not in sync within 20 seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// let master = testkit::Redis::start();
    /// master.command(&["SET", "greeting", "hello"]);
    /// let replica = testkit::Redis::start_replica_of(&master);
    /// replica.promote();
    /// master.command(&["SET", "greeting", "goodbye"]);
    /// assert_eq!(replica.command(&["GET", "greeting"]).text(), "hello");
    /// ```
    #[track_caller]
    pub fn start_replica_of(master: &Self) -> Self {
        Self::options().start_replica_of(master)
    }

    /// Makes this server a replica of `master`, as a failover does with the old primary. The data
    /// of `master` replaces the data of this server.
    ///
    /// This server follows `master` until it is [promoted](Self::promote). A server that was
    /// [started as a replica](Options::start_replica_of) also follows `master` after a restart. Any
    /// other server follows no server after a restart. The [`calls`](Self::calls) of the master
    /// include a `PING` of the replica, and its `AUTH` if there is a password.
    ///
    /// # Panics
    ///
    /// If the server is not in sync within 20 seconds.
    #[track_caller]
    pub fn follow(&self, master: &Self) {
        self.follow_at(master, self.port_to_follow(master));
        self.wait_until_synced();
        self.catch_up_with(master);
    }

    /// Makes this server a replica of `master`, which it reaches at `port`.
    pub(crate) fn follow_at(&self, master: &Self, port: u16) {
        // By default, a master waits for more replicas before it sends its data.
        master.own_command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        let (user, password) = master.settings().login();
        let login = [("masteruser", user), ("masterauth", password)];
        for (name, value) in login.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            self.own_command(&["CONFIG", "SET", name, value]);
        }
        if self.settings().tls_among_servers() {
            let tls = if master.settings().tls { "yes" } else { "no" };
            self.own_command(&["CONFIG", "SET", "tls-replication", tls]);
        }
        self.own_command(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
        self.keep_settings();
    }

    /// The port at which this server reaches `master`.
    fn port_to_follow(&self, master: &Self) -> u16 {
        match master.ports().tls {
            Some(tls) if self.settings().tls_among_servers() => tls,
            _ => master.port(),
        }
    }

    /// Waits until this replica is connected and has the present data of its master.
    ///
    /// # Panics
    ///
    /// If the replica is not connected within 20 seconds.
    #[track_caller]
    pub fn wait_until_synced(&self) {
        eventually("the replica is connected", SYNC, || self.is_synced());
    }

    /// Returns whether this server reports that it is a replica.
    pub(crate) fn is_replica(&self) -> bool {
        self.replication("role") == "slave"
    }

    /// Returns whether this is a replica that is connected to its primary.
    pub(crate) fn is_synced(&self) -> bool {
        self.replication("master_link_status") == "up"
    }

    /// Waits until this replica has the data that `master` had at the time of the call.
    ///
    /// # Panics
    ///
    /// If the replica does not have the data within 20 seconds.
    #[track_caller]
    pub fn catch_up_with(&self, master: &Self) {
        let offset = |text: String| text.parse::<u64>().unwrap_or(0);
        let written = offset(master.replication("master_repl_offset"));
        eventually("the replica catches up", SYNC, || {
            offset(self.replication("slave_repl_offset")) >= written
        });
    }

    /// Makes this replica a master.
    ///
    /// # Panics
    ///
    /// If the server does not reply.
    #[track_caller]
    pub fn promote(&self) {
        self.own_command(&["REPLICAOF", "NO", "ONE"]);
        self.keep_settings();
    }

    /// Returns one field of `INFO replication`. Returns an empty text if the field is missing or
    /// the server does not reply.
    fn replication(&self, fact: &str) -> String {
        let Some(info) = self.ask(&["INFO", "replication"]) else { return String::new() };
        let mut lines = info.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(fact)?.strip_prefix(':'));
        value.unwrap_or_default().to_owned()
    }
}

impl Options {
    /// Starts a server with these settings that follows `master`, also after a restart.
    ///
    /// The replica logs in with the credentials that the master requires. If both servers use TLS,
    /// the replica connects with TLS.
    ///
    /// # Panics
    ///
    /// If the server does not start, or is not in sync within 20 seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// use testkit::Redis;
    ///
    /// let master = Redis::options().password("secret").start();
    /// let replica = Redis::options().password("other").start_replica_of(&master);
    /// master.command(&["SET", "key", "1"]);
    /// replica.catch_up_with(&master);
    /// assert_eq!(replica.command(&["GET", "key"]).text(), "1");
    /// ```
    #[track_caller]
    pub fn start_replica_of(mut self, master: &Redis) -> Redis {
        self.certificates = master.settings().certificates.clone();
        let replica = self.of_kind(Kind::Member).start();
        replica.follow(master);
        replica
    }
}
