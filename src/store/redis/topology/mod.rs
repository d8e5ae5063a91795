//! Sends each request to the only server, or to the right node of a cluster.
//!
//! Start with `cluster.rs`, which follows a slot from node to node. `cluster_state.rs` keeps the
//! nodes, `slot_map.rs` reads which node has which slot, and `refresher.rs` keeps that up to date.
//! With one server, none of these is used.

mod absences;
mod checkup;
mod cluster;
mod cluster_state;
mod node;
mod node_dialer;
mod refresher;
mod slot_map;
mod snapshot;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use redis::{Cmd, Value};
use tokio::time::timeout;

pub(super) use self::cluster::Cluster;
use self::{
    node::{Common, Node},
    slot_map::address_shown,
};
use super::{
    ask::Request,
    channels::Channels,
    connection::{Dialer, Settings, Target},
    granted::Granted,
    slots::{slot_of, slot_of_name},
    subscriptions::Permissions,
    warnings::Warnings,
};
use crate::{
    domain::{About, Claim, Failure, Finding, Name, Object, Replicas},
    error::Error,
    store::Subscriber,
};

/// The servers of one client.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a client has one")]
pub(super) enum Topology {
    Single(SingleServer),
    Cluster(Cluster),
}

/// The only server of a deployment.
#[derive(Debug)]
pub(super) struct SingleServer {
    common: Common,
    node: Node,
}

impl Topology {
    /// Connects to one server.
    pub(super) async fn one(
        dialer: Dialer,
        client_id: &str,
        limit: Duration,
    ) -> Result<Self, Error> {
        let common = Common::of(client_id, Warnings::default(), limit);
        let node = Node::connect(&common, Arc::new(dialer)).await?;
        Ok(Self::Single(SingleServer { common, node }))
    }

    /// Returns at once, and connects in the background.
    pub(super) fn single_lazily(dialer: Dialer, client_id: &str, limit: Duration) -> Self {
        let common = Common::of(client_id, Warnings::default(), limit);
        let node = Node::connect_lazy(&common, Arc::new(dialer));
        Self::Single(SingleServer { common, node })
    }

    /// Connects to the cluster that has the seeds among its nodes.
    pub(super) async fn cluster(
        seeds: Vec<Target>,
        settings: &Settings,
        client_id: &str,
        limit: Duration,
    ) -> Result<Self, Error> {
        Cluster::connect(seeds, settings, client_id, limit).await.map(Self::Cluster)
    }

    /// Returns at once, and connects in the background.
    pub(super) fn cluster_lazily(
        seeds: Vec<Target>,
        settings: &Settings,
        client_id: &str,
        limit: Duration,
    ) -> Result<Self, Error> {
        Cluster::connect_lazy(seeds, settings, client_id, limit).map(Self::Cluster)
    }

    /// Sends `request` to the server that has its keys, and returns its reply or rejection. If the
    /// server does not know the script, its text is sent.
    pub(super) async fn send(&self, request: &Request<'_>) -> Result<Value, Failure> {
        match self {
            Self::Single(one) => {
                let commands = &one.node.commands;
                let reply = commands.call(&request.command).await?;
                match request.by_text(&reply, Channels::Plain) {
                    Some(by_text) => Box::pin(async move { commands.call(&by_text).await }).await,
                    None => Ok(reply),
                }
            }
            Self::Cluster(cluster) => Box::pin(cluster.send(request)).await,
        }
    }

    /// Sends `command`, which is about `key`, and returns the reply or rejection.
    pub(super) async fn call(&self, key: &[u8], command: &Cmd) -> Result<Value, Failure> {
        match self {
            Self::Single(one) => one.node.commands.call(command).await,
            Self::Cluster(cluster) => Box::pin(cluster.ask_plainly(slot_of(key), command)).await,
        }
    }

    /// Sends `command` to the primary with this index. Returns `None` if there are fewer.
    pub(super) async fn call_at(
        &self,
        index: usize,
        command: &Cmd,
    ) -> Option<Result<Value, Failure>> {
        match self {
            Self::Single(one) if index == 0 => Some(one.node.commands.call(command).await),
            Self::Single(_) => None,
            Self::Cluster(cluster) => {
                let (_, node) = cluster.cluster_state.masters().into_iter().nth(index)?;
                Some(node.commands.call(command).await)
            }
        }
    }

    /// Sends `command` to each server that executes commands. One that does not reply within
    /// `limit` fails.
    pub(super) async fn call_each(
        &self,
        command: &Cmd,
        limit: Duration,
    ) -> Vec<(String, Result<Value, Failure>)> {
        let ask = async |server, node: &Node| {
            let late = |_| Err(Failure::unanswered(format!("timed out after {limit:?}")));
            let reply = timeout(limit, node.commands.call(command)).await;
            (server, reply.unwrap_or_else(late))
        };
        match self {
            Self::Single(one) => vec![ask(one.node.commands.server(), &one.node).await],
            Self::Cluster(cluster) => {
                let nodes = cluster.cluster_state.masters();
                join_all(nodes.iter().map(|(at, node)| ask(address_shown(at), node))).await
            }
        }
    }

    /// Sends all of `commands`, which are about keys in the slot of `key`.
    pub(super) async fn call_all(
        &self,
        key: &[u8],
        commands: &[Cmd],
    ) -> Result<Vec<Value>, Failure> {
        match self {
            Self::Single(one) => one.node.commands.call_all(commands).await,
            Self::Cluster(cluster) => Box::pin(cluster.ask_all(slot_of(key), commands)).await,
        }
    }

    /// Sends a command, then the message that reports its effect. The message is sent even if the
    /// command fails.
    pub(super) async fn call_then_publish(
        &self,
        key: &[u8],
        command: Cmd,
        publish: impl FnOnce(Channels) -> Cmd + Send,
    ) -> Result<Vec<Value>, Failure> {
        match self {
            Self::Single(one) => {
                one.node.commands.call_all(&[command, publish(Channels::Plain)]).await
            }
            Self::Cluster(cluster) => {
                let slot = slot_of(key);
                Box::pin(async move {
                    let publish = publish(cluster.channels().await?);
                    cluster.ask_then_publish(slot, [command, publish]).await
                })
                .await
            }
        }
    }

    /// Counts the replicas that acknowledge what was `granted` by `claim`: see
    /// `RedisStore::replicated`.
    pub(super) async fn replicated(
        &self,
        claim: &Claim,
        granted: Granted,
        replicas: Replicas,
    ) -> Result<u32, Failure> {
        self.common().warnings.asked_for(replicas.least);
        match self {
            Self::Single(one) => one.node.replica_ack.ask(granted, false, replicas).await,
            Self::Cluster(cluster) => {
                cluster.replicated(slot_of_name(claim.name()), &granted, replicas).await
            }
        }
    }

    fn common(&self) -> &Common {
        match self {
            Self::Single(one) => &one.common,
            Self::Cluster(cluster) => &cluster.cluster_state.common,
        }
    }

    /// Returns the kind of channels of the deployment.
    pub(super) async fn channels(&self) -> Result<Channels, Failure> {
        match self {
            Self::Single(_) => Ok(Channels::Plain),
            Self::Cluster(cluster) => Box::pin(cluster.channels()).await,
        }
    }

    /// Returns the slot of `object`, or 0 without a cluster.
    pub(super) fn group(&self, object: &Object) -> u32 {
        match self {
            Self::Single(_) => 0,
            Self::Cluster(_) => slot_of_name(&object.name).into(),
        }
    }

    /// Returns whether a message about `name` has to be published again because no client received
    /// it. The next call returns false.
    pub(super) fn is_to_be_published_again(&self, name: &Name) -> bool {
        match self {
            Self::Single(_) => false,
            Self::Cluster(cluster) => {
                cluster.cluster_state.is_to_be_published_again(name.as_str().as_bytes())
            }
        }
    }

    /// Returns whether slots may migrate.
    pub(super) fn moves_slots(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    // Subscriptions.

    /// Sends events to `subscriber` from now on.
    pub(super) fn send_to(&self, subscriber: Weak<dyn Subscriber>) {
        match self {
            Self::Single(one) => one.common.hub.send_to(subscriber),
            Self::Cluster(cluster) => cluster.cluster_state.common.hub.send_to(subscriber),
        }
    }

    pub(super) fn listen(&self, object: &Object) {
        match self {
            Self::Single(one) => one.node.subscriptions.listen(object),
            Self::Cluster(cluster) => cluster.cluster_state.listen(object),
        }
    }

    pub(super) fn unlisten(&self, object: &Object) {
        match self {
            Self::Single(one) => one.node.subscriptions.unlisten(object),
            Self::Cluster(cluster) => cluster.cluster_state.unlisten(object),
        }
    }

    /// Returns the ACL permissions of this client for `object`.
    pub(super) fn permissions(&self, object: &Object) -> Permissions {
        match self {
            Self::Single(one) => one.node.subscriptions.permissions(object),
            Self::Cluster(cluster) => {
                let owner = cluster.cluster_state.owner(slot_of_name(&object.name));
                owner.map_or(Permissions::ALL, |node| node.subscriptions.permissions(object))
            }
        }
    }

    /// Notes that the server denies this client the queue of `object`.
    pub(super) fn queue_refused(&self, object: &Object) {
        match self {
            Self::Single(one) => one.node.subscriptions.queue_refused(object),
            Self::Cluster(cluster) => {
                if let Some(node) = cluster.cluster_state.owner(slot_of_name(&object.name)) {
                    node.subscriptions.queue_refused(object);
                }
            }
        }
    }

    /// Returns whether this client receives the releases of `object`.
    pub(super) fn is_subscribed_to_releases(&self, object: &Object) -> bool {
        match self {
            Self::Single(one) => one.node.subscriptions.is_subscribed_to_releases(object),
            Self::Cluster(cluster) => cluster.cluster_state.is_subscribed_to_releases(object),
        }
    }

    // Health.

    pub(super) fn keep_up(&self) {
        match self {
            Self::Single(one) => one.node.keep_up(),
            Self::Cluster(cluster) => cluster.keep_up(),
        }
    }

    /// Checks the health of the servers.
    pub(super) async fn check(&self) -> About {
        match self {
            Self::Single(one) => one.check().await,
            Self::Cluster(cluster) => Box::pin(cluster.check()).await,
        }
    }

    /// Returns the hazards that were found so far.
    pub(super) fn findings(&self) -> Vec<Finding> {
        match self {
            Self::Single(one) => one.node.findings(&one.common),
            Self::Cluster(cluster) => cluster.cluster_state.findings(),
        }
    }

    /// Returns whether all connections are up, for commands and for messages.
    pub(super) fn are_up(&self) -> (bool, bool) {
        match self {
            Self::Single(SingleServer { node, .. }) => {
                (node.commands.is_up(), node.subscriptions.are_up())
            }
            Self::Cluster(cluster) => cluster.cluster_state.are_up(),
        }
    }

    /// Returns whether any server is connected.
    pub(super) fn is_up(&self) -> bool {
        match self {
            Self::Single(one) => one.node.commands.is_up(),
            Self::Cluster(cluster) => cluster.cluster_state.is_up(),
        }
    }

    pub(super) fn losses(&self) -> u64 {
        match self {
            Self::Single(one) => one.node.commands.losses(),
            Self::Cluster(cluster) => cluster.cluster_state.losses(),
        }
    }

    /// Returns what prevents requests about `name`, if anything does.
    pub(super) fn unavailability(&self, name: &Name) -> Option<Failure> {
        match self {
            Self::Single(one) => one.node.commands.connect_failure().map(Failure::unreachable),
            Self::Cluster(cluster) => cluster.cluster_state.unavailability(slot_of_name(name)),
        }
    }

    pub(super) fn reconnects(&self) -> u64 {
        match self {
            Self::Single(one) => one.node.reconnects(),
            Self::Cluster(cluster) => cluster.cluster_state.reconnects(),
        }
    }
}

impl SingleServer {
    async fn check(&self) -> About {
        let Self { common, node, .. } = self;
        node.keep_up();
        let (health, looked) = node.check(node.commands.server(), node.look(common)).await;
        About::of(vec![health], looked)
    }
}
