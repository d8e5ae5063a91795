//! A server that follows another, until it is promoted.
//!
//! A failover loses what the replica was not told. To lose a write for certain,
//! promote the replica first, and write to the old master then.

use std::time::Duration;

use crate::clock::eventually;
use crate::server::Redis;

/// How long a replica may take for what it is told.
const SYNC: Duration = Duration::from_secs(20);

impl Redis {
    /// Starts a plain server that has what `master` has, and is told what changes.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or is not in step within 20 seconds.
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
        let replica = Self::start();
        replica.follow(master);
        replica
    }

    /// Makes this server a replica of `master`, as a failover does with the old
    /// master: it gives up what it has for what `master` has.
    ///
    /// It follows until it is [promoted](Self::promote) or stopped; one that is
    /// started again follows nobody. The master counts a `PING` of a replica that
    /// connects, and an `AUTH` if it has a password.
    ///
    /// # Panics
    ///
    /// If it is not in step within 20 seconds.
    #[track_caller]
    pub fn follow(&self, master: &Self) {
        // By itself a master waits for more replicas before it sends its data.
        master.own_command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        if let Some(password) = master.password() {
            self.own_command(&["CONFIG", "SET", "masterauth", password]);
        }
        self.own_command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
        eventually("the replica is connected", SYNC, || {
            self.replication("master_link_status") == "up"
        });
        self.catch_up_with(master);
    }

    /// Waits until this replica has everything that `master` had when this was
    /// called.
    ///
    /// # Panics
    ///
    /// If that takes longer than 20 seconds.
    #[track_caller]
    pub fn catch_up_with(&self, master: &Self) {
        let offset = |text: String| text.parse::<u64>().unwrap_or(0);
        let written = offset(master.replication("master_repl_offset"));
        eventually("the replica catches up", SYNC, || {
            offset(self.replication("slave_repl_offset")) >= written
        });
    }

    /// Makes this replica a master of its own, which takes writes.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    #[track_caller]
    pub fn promote(&self) {
        self.own_command(&["REPLICAOF", "NO", "ONE"]);
    }

    /// One fact about replication; empty if it is not known.
    fn replication(&self, fact: &str) -> String {
        let info = self.own_command(&["INFO", "replication"]);
        let mut lines = info.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(fact)?.strip_prefix(':'));
        value.unwrap_or_default().to_owned()
    }
}
