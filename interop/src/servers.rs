//! The servers of both clients: a single server, a master with sentinels, or a cluster.

use std::ops::Deref;
use std::thread::sleep;
use std::time::Duration;

use testkit::{Cluster, Redis, Sentinels, eventually};

use crate::kind::Kind;

/// Servers for both clients.
pub trait Servers {
    /// The prefix of the table rows for these servers.
    const PLACE: &'static str;

    /// The subcommand of `PUBSUB` that counts the subscribers of a channel.
    const COUNTED_BY: &'static str = "NUMSUB";

    /// The URL for clients.
    fn place(&self) -> String;

    /// The server that has `name` now.
    fn at(&self, name: &str) -> impl Deref<Target = Redis>;

    /// Waits until the replicas have the data of `name`. Redisson reads the state of a lock from
    /// replicas.
    fn in_step(&self, name: &str);

    /// The name of the table row for `kind` and `what`.
    fn row(&self, kind: Kind, what: &str) -> String {
        format!("{}{kind}: {what}", Self::PLACE)
    }

    /// Waits until `count` clients are subscribed to the channel of `name`, have sent one more
    /// request, and sleep.
    #[track_caller]
    fn until_asleep(&self, kind: Kind, name: &str, count: i64) {
        let ask = ["PUBSUB", Self::COUNTED_BY, &kind.channel(name)];
        eventually("the waiters are subscribed", PATIENCE, || {
            self.at(name).command(&ask).list()[1].number() == count
        });
        sleep(QUESTION);
    }
}

impl Servers for Redis {
    const PLACE: &'static str = "";

    fn place(&self) -> String {
        self.url()
    }

    fn at(&self, _: &str) -> impl Deref<Target = Self> {
        self
    }

    fn in_step(&self, _: &str) {}
}

impl Servers for Sentinels {
    const PLACE: &'static str = "sentinel, ";

    fn place(&self) -> String {
        self.url()
    }

    fn at(&self, _: &str) -> impl Deref<Target = Redis> {
        self.master()
    }

    fn in_step(&self, _: &str) {
        let (master, number) = (self.master(), self.master_number());
        let others = self.servers().iter().enumerate().filter(|(it, _)| *it != number);
        others.for_each(|(_, replica)| replica.catch_up_with(master));
    }
}

impl Servers for Cluster {
    const PLACE: &'static str = "cluster, ";
    const COUNTED_BY: &'static str = "SHARDNUMSUB";

    fn place(&self) -> String {
        self.url()
    }

    fn at(&self, name: &str) -> impl Deref<Target = Redis> {
        self.owner_of(Self::slot_of(name))
    }

    fn in_step(&self, name: &str) {
        let master = self.owner_of(Self::slot_of(name));
        self.replicas_of(&master).iter().for_each(|replica| replica.catch_up_with(&master));
    }
}

/// Starts a cluster in which all clients use plain channels, because they have no permission for
/// `PUBSUB SHARDNUMSUB`.
#[must_use]
pub fn cluster_without_sharded_channels() -> Cluster {
    let cluster = Cluster::options().replicas(0).start();
    for node in cluster.nodes() {
        node.command(&["ACL", "SETUSER", "default", "-pubsub|shardnumsub"]);
    }
    cluster
}

impl<S: Servers> Servers for &S {
    const PLACE: &'static str = S::PLACE;
    const COUNTED_BY: &'static str = S::COUNTED_BY;

    fn place(&self) -> String {
        S::place(self)
    }

    fn at(&self, name: &str) -> impl Deref<Target = Redis> {
        S::at(self, name)
    }

    fn in_step(&self, name: &str) {
        S::in_step(self, name);
    }
}

/// The time within which each waiter must have subscribed, including its search for the server.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time in which a client sends the request that follows its subscription.
const QUESTION: Duration = Duration::from_millis(200);
