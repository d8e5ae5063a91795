//! Helpers of the tests on real clusters.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use leasehold::{Client, ClientBuilder};
use testkit::{Cluster, Proxy, Redis};

pub(crate) async fn client(cluster: &Cluster) -> Client {
    built(cluster, Client::builder()).await
}

pub(crate) async fn built(cluster: &Cluster, builder: ClientBuilder) -> Client {
    builder.connect(&cluster.url()).await.expect("the cluster is up")
}

/// Two addresses of a node. Clients use only one of the two addresses at a time.
pub(crate) struct Ways {
    node: u16,
    before: Proxy,
    after: Proxy,
    reported: Arc<AtomicU16>,
}

impl Ways {
    pub(crate) fn to(node: &Redis) -> Self {
        let (before, after) = (Proxy::before(node.port()), Proxy::before(node.port()));
        let reported = Arc::new(AtomicU16::new(before.port()));
        Self { node: node.port(), before, after, reported }
    }

    /// Returns an address translation for a client. The translation maps the node's own address to
    /// the address that clients should use now.
    pub(crate) fn translation(&self) -> impl Fn(&str) -> Option<String> + Send + Sync + 'static {
        let (node, reported) = (self.node.to_string(), Arc::clone(&self.reported));
        move |it| {
            let (host, port) = it.rsplit_once(':')?;
            (port == node).then(|| format!("{host}:{}", reported.load(Ordering::SeqCst)))
        }
    }

    /// Closes the address that clients use, and makes the translation return the other address.
    /// Returns the proxy of the other address.
    pub(crate) fn lead_elsewhere(self) -> Proxy {
        self.reported.store(self.after.port(), Ordering::SeqCst);
        drop(self.before);
        self.after
    }
}

/// Returns the node that has the slot of `name`.
pub(crate) fn owner(cluster: &Cluster, name: &str) -> Arc<Redis> {
    cluster.owner_of(Cluster::slot_of(name))
}

/// Returns a master that does not have the slot of `name`.
pub(crate) fn other_than(cluster: &Cluster, name: &str) -> Arc<Redis> {
    let owner = owner(cluster, name).port();
    cluster
        .masters()
        .into_iter()
        .find(|node| node.port() != owner)
        .expect("the cluster has several primaries")
}

/// Whether this node, which may be a replica, has a key `name`.
pub(crate) fn has(node: &Redis, name: &str) -> bool {
    // `KEYS` has no key in its arguments, so a replica executes this command, and does not redirect
    // the client to the master.
    !node.command(&["KEYS", name]).list().is_empty()
}
