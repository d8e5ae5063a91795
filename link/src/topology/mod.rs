//! Sends each request to the only server, or to the right node of a cluster.
//!
//! Start with `cluster.rs`, which follows a slot from node to node. `cluster_state.rs` keeps the
//! nodes, `slot_map.rs` parses which node has which slot, and `refresher.rs` requests this topology
//! again and again. A client of one server uses none of these.

mod absences;
mod checkup;
mod cluster;
mod cluster_state;
mod node;
mod node_dialer;
mod refresher;
mod slot_map;
mod snapshot;
mod warnings;
mod watcher;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use redis::{Cmd, Value};
use tokio::{runtime::Handle, time::timeout};

pub use self::node::HEALTH_CHECK;
use self::{
    cluster::Cluster,
    node::{Common, Node},
    slot_map::address_shown,
};
use crate::{
    address::{
        settings::Settings,
        target::Target,
        url::{Servers, servers},
    },
    channels::Channels,
    connection::dial::Dialer,
    error::Error,
    failure::Failure,
    hazard::Finding,
    health::About,
    pipe::connector::Connector,
    pubsub::{Subscriber, SubscriptionTable, Subscriptions, Topic},
    replica_ack::Evidence,
    request::Request,
    slots::slot_of,
    topology::warnings::Warnings,
};

/// The servers of one client: one server, or the nodes of a cluster.
#[derive(Debug)]
pub struct Topology<T: SubscriptionTable>(Route<T>);

#[derive(Debug)]
enum Route<T: SubscriptionTable> {
    Single(Arc<Node<T>>),
    Cluster(Cluster<T>),
}

impl<T: SubscriptionTable> Topology<T> {
    /// Connects to the servers at `url` for the client called `client_id`.
    ///
    /// # Errors
    ///
    /// If the URL or a setting is wrong, if no server can be reached, or if there is no runtime.
    pub async fn connect(url: &str, settings: &Settings, client_id: &str) -> Result<Self, Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        match servers(url, settings)? {
            Servers::One(target) => {
                let (common, dialer) = single(target, settings, client_id)?;
                Ok(Self(Route::Single(Arc::new(Node::connect(common, dialer).await?))))
            }
            Servers::Cluster(seeds) => {
                let cluster = Cluster::connect(seeds, settings, client_id).await?;
                Ok(Self(Route::Cluster(cluster)))
            }
        }
    }

    /// Returns at once, and connects in the background.
    ///
    /// # Errors
    ///
    /// If the URL or a setting is wrong.
    pub fn connect_lazy(url: &str, settings: &Settings, client_id: &str) -> Result<Self, Error> {
        match servers(url, settings)? {
            Servers::One(target) => {
                let (common, dialer) = single(target, settings, client_id)?;
                Ok(Self::over(common, dialer))
            }
            Servers::Cluster(seeds) => {
                Ok(Self(Route::Cluster(Cluster::connect_lazy(seeds, settings, client_id)?)))
            }
        }
    }

    /// Returns at once. In the background, connects to one server by a stream of `connector`.
    #[must_use]
    pub fn simulated(connector: Connector, settings: &Settings, client_id: &str) -> Self {
        let dialer = Dialer::simulated(connector, settings, client_id);
        let common = Common::of(client_id, Warnings::default(), settings.command_timeout);
        Self::over(common, Arc::new(dialer))
    }

    fn over(common: Arc<Common<T>>, dialer: Arc<Dialer>) -> Self {
        Self(Route::Single(Arc::new(Node::connect_lazy(common, dialer))))
    }

    /// Calls the function for this kind of deployment.
    fn by<'a, R>(
        &'a self,
        one: impl FnOnce(&'a Node<T>) -> R,
        cluster: impl FnOnce(&'a Cluster<T>) -> R,
    ) -> R {
        match &self.0 {
            Route::Single(node) => one(node),
            Route::Cluster(it) => cluster(it),
        }
    }

    /// Returns the servers that execute commands, and their addresses.
    fn nodes(&self) -> Vec<(String, Arc<Node<T>>)> {
        match &self.0 {
            Route::Single(node) => vec![(node.commands.state.server(), Arc::clone(node))],
            Route::Cluster(cluster) => {
                let nodes = cluster.cluster_state.masters().into_iter();
                nodes.map(|(at, node)| (address_shown(&at), node)).collect()
            }
        }
    }

    /// Sends `request` to the server that has its keys, and returns the reply or rejection. If the
    /// server does not know the script, sends the script text.
    pub async fn send(&self, request: &impl Request) -> Result<Value, Failure> {
        match &self.0 {
            Route::Single(node) => {
                let commands = &node.commands;
                let reply = commands.call(request.command()).await?;
                match request.by_text(&reply, Channels::Plain) {
                    Some(by_text) => Box::pin(async move { commands.call(&by_text).await }).await,
                    None => Ok(reply),
                }
            }
            Route::Cluster(cluster) => Box::pin(cluster.send(request)).await,
        }
    }

    /// Sends `command`, which is about `key`, and returns the reply or rejection.
    pub async fn call(&self, key: &[u8], command: &Cmd) -> Result<Value, Failure> {
        match &self.0 {
            Route::Single(node) => node.commands.call(command).await,
            Route::Cluster(cluster) => Box::pin(cluster.ask_plainly(slot_of(key), command)).await,
        }
    }

    /// Sends `command` to the primary with this index. Returns `None` if there are fewer primaries.
    pub async fn call_at(&self, index: usize, command: &Cmd) -> Option<Result<Value, Failure>> {
        let (_, node) = self.nodes().into_iter().nth(index)?;
        Some(node.commands.call(command).await)
    }

    /// Sends `command` to each server that executes commands. The request to a server that does not
    /// reply within `limit` fails.
    pub async fn call_each(
        &self,
        command: &Cmd,
        limit: Duration,
    ) -> Vec<(String, Result<Value, Failure>)> {
        let ask = async |server, node: Arc<Node<T>>| {
            let late = |_| Err(Failure::unanswered(format!("timed out after {limit:?}")));
            let reply = timeout(limit, node.commands.call(command)).await;
            (server, reply.unwrap_or_else(late))
        };
        join_all(self.nodes().into_iter().map(|(server, node)| ask(server, node))).await
    }

    /// Sends all of `commands`, which are about keys in the slot of `key`.
    pub async fn call_all(&self, key: &[u8], commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        match &self.0 {
            Route::Single(node) => node.commands.call_all(commands).await,
            Route::Cluster(cluster) => Box::pin(cluster.ask_all(slot_of(key), commands)).await,
        }
    }

    /// Sends a command and then the message that reports its effect. The message is sent even if
    /// the command fails.
    pub async fn call_then_publish(
        &self,
        key: &[u8],
        command: Cmd,
        publish: impl FnOnce(Channels) -> Cmd + Send,
    ) -> Result<Vec<Value>, Failure> {
        match &self.0 {
            Route::Single(node) => {
                node.commands.call_all(&[command, publish(Channels::Plain)]).await
            }
            Route::Cluster(cluster) => {
                let slot = slot_of(key);
                Box::pin(async move {
                    let publish = publish(cluster.channels().await?);
                    cluster.ask_then_publish(slot, [command, publish]).await
                })
                .await
            }
        }
    }

    /// Returns how many replicas have acknowledged the write in `slot` that `evidence` finds.
    /// Returns as soon as there are `least` replicas, or after the time `within`.
    ///
    /// # Errors
    ///
    /// If no server replies, or the server rejects the request.
    pub async fn replicated(
        &self,
        slot: u16,
        evidence: Evidence,
        (least, within): (u32, Duration),
    ) -> Result<u32, Failure> {
        self.common().warnings.asked_for(least);
        match &self.0 {
            Route::Single(node) => node.replica_ack.ask(evidence, false, least, within).await,
            Route::Cluster(cluster) => {
                Box::pin(cluster.replicated(slot, &evidence, (least, within))).await
            }
        }
    }

    fn common(&self) -> &Common<T> {
        self.by(|node| &node.common, |cluster| &cluster.cluster_state.common)
    }

    /// Returns the kind of channels of the deployment.
    pub async fn channels(&self) -> Result<Channels, Failure> {
        match &self.0 {
            Route::Single(_) => Ok(Channels::Plain),
            Route::Cluster(cluster) => Box::pin(cluster.channels()).await,
        }
    }

    /// Returns whether a message about `key` reached no client, and must be published again. The
    /// next call returns false.
    pub fn is_to_be_published_again(&self, key: &[u8]) -> bool {
        self.by(|_| false, |cluster| cluster.cluster_state.is_to_be_published_again(key))
    }

    /// Returns whether slots may migrate.
    pub fn moves_slots(&self) -> bool {
        matches!(self.0, Route::Cluster(_))
    }

    // Subscriptions.

    /// Sends events to `subscriber` from now on.
    pub fn send_to(&self, subscriber: Weak<dyn Subscriber<T::Event>>) {
        self.common().hub.send_to(subscriber);
    }

    /// Subscribes to `topic`, in the background.
    pub fn listen(&self, topic: &T::Topic) {
        self.by(|node| node.subscriptions.listen(topic), |it| it.cluster_state.listen(topic));
    }

    /// Ends the subscription to `topic`.
    pub fn unlisten(&self, topic: &T::Topic) {
        self.by(|node| node.subscriptions.unlisten(topic), |it| it.cluster_state.unlisten(topic));
    }

    /// Calls `read` for the subscriptions at the server that has the slot of `topic`. Returns
    /// `None` if that server is unknown.
    #[inline]
    pub fn at_owner<R>(
        &self,
        topic: &T::Topic,
        read: impl FnOnce(&Subscriptions<T>) -> R,
    ) -> Option<R> {
        match &self.0 {
            Route::Single(node) => Some(read(&node.subscriptions)),
            Route::Cluster(cluster) => {
                let owner = cluster.cluster_state.owner(topic.slot());
                owner.map(|node| read(&node.subscriptions))
            }
        }
    }

    /// Calls `read` for the subscriptions at the server where this client is subscribed to `topic`.
    /// This server may still be the previous owner of the slot.
    #[inline]
    pub fn placed<R>(
        &self,
        topic: &T::Topic,
        read: impl FnOnce(&Subscriptions<T>) -> R,
    ) -> Option<R> {
        match &self.0 {
            Route::Single(node) => Some(read(&node.subscriptions)),
            Route::Cluster(cluster) => cluster.cluster_state.placed(topic, read),
        }
    }

    // Health.

    /// Starts background tasks that do not run, on the runtime of the caller. For example, the
    /// runtime of earlier tasks may have ended.
    pub fn keep_up(&self) {
        self.by(Node::keep_up, Cluster::keep_up);
    }

    /// Checks the health of the servers.
    pub async fn check(&self) -> About {
        match &self.0 {
            Route::Single(node) => {
                node.keep_up();
                let (health, looked) = node.check(node.commands.state.server(), node.look()).await;
                About::of(vec![health], looked)
            }
            Route::Cluster(cluster) => Box::pin(cluster.check()).await,
        }
    }

    /// Returns the hazards that were found so far.
    pub fn findings(&self) -> Vec<Finding> {
        self.by(Node::findings, |cluster| cluster.cluster_state.findings())
    }

    /// Returns whether all connections for commands are up, and whether all for messages are up.
    pub fn are_up(&self) -> (bool, bool) {
        let of_node = |node: &Node<T>| (node.commands.is_up(), node.subscriptions.are_up());
        self.by(of_node, |cluster| cluster.cluster_state.are_up())
    }

    /// Returns whether any server is connected.
    pub fn is_up(&self) -> bool {
        self.by(|node| node.commands.is_up(), |cluster| cluster.cluster_state.is_up())
    }

    /// Returns how often the connection for commands was lost.
    pub fn losses(&self) -> u64 {
        self.by(|node| node.commands.state.losses(), |cluster| cluster.cluster_state.losses())
    }

    /// Returns what prevents requests about keys in `slot`, if anything does.
    pub fn unavailability(&self, slot: u16) -> Option<Failure> {
        let of_node =
            |node: &Node<T>| node.commands.state.connect_failure().map(Failure::unreachable);
        self.by(of_node, |cluster| cluster.cluster_state.unavailability(slot))
    }

    /// Returns how often a lost connection was restored.
    pub fn reconnects(&self) -> u64 {
        self.by(Node::reconnects, |cluster| cluster.cluster_state.reconnects())
    }
}

/// Returns the shared state and the dialer of a client of one server.
fn single<T: SubscriptionTable>(
    target: Target,
    settings: &Settings,
    client_id: &str,
) -> Result<(Arc<Common<T>>, Arc<Dialer>), Error> {
    let scripts = (settings.scripts)(Channels::Plain);
    let dialer = Dialer::new(target, settings, client_id, scripts)?;
    let common = Common::of(client_id, Warnings::default(), settings.command_timeout);
    Ok((common, Arc::new(dialer)))
}
