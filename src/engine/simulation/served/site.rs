//! The servers of a run: which of them serves a name, and how clients reach it.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold_twin::{Cluster, Cut, Delay, Net, Sentinels, Twin};
use tokio::{io::DuplexStream, time::sleep};

use crate::domain::Name;

#[derive(Clone, Debug)]
pub(super) enum Site {
    /// One server. If its replica is promoted, clients reach that replica instead.
    One(Arc<Mutex<Servers>>),
    /// A primary with replicas, and the sentinels that watch it.
    Watched(Net, Sentinels, Hung),
    /// A cluster.
    Nodes(Net, Cluster, Hung),
}

/// The addresses of servers that hang.
pub(super) type Hung = Arc<Mutex<BTreeSet<String>>>;

#[derive(Debug)]
pub(super) struct Servers {
    master: Twin,
    replica: Option<Twin>,
}

/// The primaries of a cluster.
const PRIMARIES: usize = 3;

impl Site {
    pub(super) fn new(master: Twin, replica: Option<Twin>) -> Self {
        Self::One(Arc::new(Mutex::new(Servers { master, replica })))
    }

    pub(super) fn watched(seed: u64, replicas: usize, lag: Delay) -> Self {
        let net = Net::new(seed);
        let sentinels = Sentinels::start(&net, 3, replicas, lag);
        Self::Watched(net, sentinels, Hung::default())
    }

    pub(super) fn nodes(seed: u64, replicas: usize, lag: Delay) -> Self {
        let net = Net::new(seed);
        let cluster = Cluster::start(&net, PRIMARIES, replicas, lag);
        Self::Nodes(net, cluster, Hung::default())
    }

    /// Returns the URL that clients connect to.
    pub(super) fn url(&self) -> String {
        match self {
            Self::One(_) => "redis://made-by-a-test".into(),
            Self::Watched(_, sentinels, _) => {
                let addresses = sentinels.addresses().join(",");
                format!("redis-sentinel://{addresses}/{}", Sentinels::NAME)
            }
            Self::Nodes(_, cluster, _) => {
                format!("redis-cluster://{}", cluster.addresses().join(","))
            }
        }
    }

    /// Connects the client on `host` to `address`.
    pub(super) async fn dial(&self, host: &str, address: &str) -> io::Result<DuplexStream> {
        match self {
            Self::One(_) => self.master().connect().await,
            Self::Watched(net, ..) | Self::Nodes(net, ..) => net.host(host).dial(address).await,
        }
    }

    /// Returns the primary. If there are several shards, returns the primary of the first shard.
    pub(super) fn master(&self) -> Twin {
        self.primary(0)
    }

    /// Returns the primary that serves a name.
    pub(super) fn of(&self, name: &Name) -> Twin {
        self.primary(self.shard_of(name))
    }

    /// Returns the owners that hold a name, and the remaining lease in milliseconds. If the name is
    /// free, the lease is -2. While the slot of the name moves, its key may be at either shard. The
    /// third shard may have an old key, if a failover has lost the removal of this key.
    pub(super) fn state(&self, name: &Name) -> (BTreeSet<String>, i64) {
        let there = |it: &Twin| Some((it.hash(name.as_str())?, it.pttl(name.as_str())));
        let known = there(&self.of(name)).or_else(|| match self {
            Self::Nodes(_, cluster, _) => {
                let importer = cluster.importer(Cluster::slot_of(name.as_str()))?;
                there(&cluster.nodes()[importer])
            }
            Self::One(_) | Self::Watched(..) => None,
        });
        known.map_or((BTreeSet::new(), -2), |(fields, lasts)| (fields.into_keys().collect(), lasts))
    }

    pub(super) fn masters(&self) -> Vec<Twin> {
        (0..self.shards()).map(|shard| self.primary(shard)).collect()
    }

    /// Returns all servers, with the sentinels.
    pub(super) fn all(&self) -> Vec<Twin> {
        match self {
            Self::One(servers) => {
                let servers = servers.lock().unwrap();
                let both = [Some(servers.master.clone()), servers.replica.clone()];
                both.into_iter().flatten().collect()
            }
            Self::Watched(_, watched, _) => [watched.servers(), watched.sentinels()].concat(),
            Self::Nodes(_, cluster, _) => cluster.nodes().to_vec(),
        }
    }

    /// Gives the user `name` the permissions `rules` on all servers.
    pub(super) fn user(&self, name: &str, rules: &str) {
        self.all().iter().for_each(|server| server.user(name, rules));
    }

    pub(super) fn delay(&self, requests: Delay, replies: Delay) {
        self.all().iter().for_each(|server| server.delay(requests, replies));
    }

    /// Returns the number of executed scripts.
    pub(super) fn evals(&self) -> u64 {
        self.all().iter().map(Twin::evals).sum()
    }

    /// Stops the primary for a moment. If the replica has all writes, promotes the replica.
    pub(super) async fn fail_over_in_step(&self) {
        let Self::One(servers) = self else { return };
        let before = self.master();
        before.stop();
        sleep(Duration::from_millis(1)).await;
        let replica = servers.lock().unwrap().replica.clone();
        if replica.is_some_and(|replica| replica.has_all_of(&before)) {
            self.promote();
            let _many: usize = before.cut(Cut::Whole, |_| true);
        }
        before.resume();
    }

    /// Promotes the replica. Returns the old primary, or `None` if there is no replica.
    pub(super) fn promote(&self) -> Option<Twin> {
        let Self::One(servers) = self else { return None };
        let mut servers = servers.lock().unwrap();
        let replica = servers.replica.take()?;
        replica.promote();
        let before = std::mem::replace(&mut servers.master, replica);
        servers.replica = Some(before.clone());
        Some(before)
    }
}

/// A shard is a primary with its replicas.
impl Site {
    pub(super) fn shards(&self) -> usize {
        match self {
            Self::One(_) | Self::Watched(..) => 1,
            Self::Nodes(..) => PRIMARIES,
        }
    }

    pub(super) fn shard_of(&self, name: &Name) -> usize {
        match self {
            Self::One(_) | Self::Watched(..) => 0,
            Self::Nodes(_, cluster, _) => {
                cluster.owner(Cluster::slot_of(name.as_str())) % PRIMARIES
            }
        }
    }

    pub(super) fn primary(&self, shard: usize) -> Twin {
        match self {
            Self::One(servers) => servers.lock().unwrap().master.clone(),
            Self::Watched(_, watched, _) => watched.primary(),
            Self::Nodes(_, cluster, _) => cluster.nodes()[cluster.owner(some_slot(shard))].clone(),
        }
    }

    /// Returns the servers of a shard. A single server has no address and is left out.
    pub(super) fn servers(&self, shard: usize) -> Vec<Twin> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Watched(_, watched, _) => watched.servers().to_vec(),
            Self::Nodes(_, cluster, _) => {
                cluster.nodes().iter().skip(shard).step_by(PRIMARIES).cloned().collect()
            }
        }
    }

    pub(super) fn replicas(&self, shard: usize) -> Vec<Twin> {
        let primary = self.primary(shard).address();
        self.servers(shard).into_iter().filter(|it| it.address() != primary).collect()
    }

    /// Promotes another server of the shard, if one runs. Returns whether a server was promoted.
    pub(super) fn fail_over(&self, shard: usize) -> bool {
        match self {
            Self::One(_) => false,
            Self::Watched(_, watched, _) => watched.fail_over().is_some(),
            Self::Nodes(_, cluster, _) => cluster.fail_over(some_slot(shard)).is_some(),
        }
    }

    /// Sets how long gossip takes to reach the other servers.
    pub(super) fn gossip(&self, delay: Duration) {
        let delay = if delay.is_zero() { Delay::None } else { Delay::UpTo(delay) };
        match self {
            Self::One(_) => {}
            Self::Watched(_, watched, _) => watched.gossip(delay),
            Self::Nodes(_, cluster, _) => cluster.gossip(delay),
        }
    }

    pub(super) fn stop(&self, server: &Twin) {
        self.hung().into_iter().for_each(|it| it.lock().unwrap().extend([server.address()]));
        server.stop();
    }

    pub(super) fn resume(&self, server: &Twin) {
        self.hung()
            .into_iter()
            .for_each(|it| it.lock().unwrap().retain(|it| *it != server.address()));
        server.resume();
    }

    pub(super) fn is_hung(&self, server: &Twin) -> bool {
        self.hung().is_some_and(|hung| hung.lock().unwrap().contains(&server.address()))
    }

    fn hung(&self) -> Option<&Hung> {
        match self {
            Self::One(_) => None,
            Self::Watched(.., hung) | Self::Nodes(.., hung) => Some(hung),
        }
    }
}

/// Returns a slot of the shard. This slot contains no name of the run, so it never moves.
fn some_slot(shard: usize) -> u16 {
    const PART: usize = 16_384_usize.div_ceil(PRIMARIES);
    u16::try_from(shard * PART + 7).unwrap()
}
