//! What the tests on real clusters share.

use std::sync::Arc;

use leasehold::{Client, ClientBuilder};
use testkit::{Cluster, Redis};

pub(crate) async fn client(cluster: &Cluster) -> Client {
    built(cluster, Client::builder()).await
}

pub(crate) async fn built(cluster: &Cluster, builder: ClientBuilder) -> Client {
    builder.connect(&cluster.url()).await.expect("the cluster is up")
}

/// Whoever has `name`.
pub(crate) fn owner(cluster: &Cluster, name: &str) -> Arc<Redis> {
    cluster.owner_of(Cluster::slot_of(name))
}

/// Another master than the one that has `name`.
pub(crate) fn other_than(cluster: &Cluster, name: &str) -> Arc<Redis> {
    let owner = owner(cluster, name).port();
    cluster.masters().into_iter().find(|node| node.port() != owner).expect("there are others")
}

/// Whether this node, which may be a replica, has something under `name`.
pub(crate) fn has(node: &Redis, name: &str) -> bool {
    // Unlike others this one is not sent on to the master.
    !node.command(&["KEYS", name]).list().is_empty()
}
