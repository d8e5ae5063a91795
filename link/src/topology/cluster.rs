//! Sends each request to the node that has its slot, and follows the slot when it migrates.
//!
//! If a node did not execute a request, this module sends the request again. After `MOVED` or
//! `ASK`, the request goes to another node. After a reply such as `TRYAGAIN` or `CLUSTERDOWN`, this
//! module waits before the next attempt. If a reply was lost, this module does not send the request
//! again, because only the caller knows whether a second execution is safe.

use std::{
    convert::Infallible,
    future::{Future, pending},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::{join_all, select_ok},
    stream::FuturesUnordered,
};
use redis::{Cmd, Value, cmd};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    cluster_state::ClusterState, node::Common, node::Node, node_dialer::NodeDialer,
    refresher::TopologyRefresher, slot_map::Redirect, slot_map::address_shown,
};
use crate::{
    address::{
        host_port::HostPort,
        settings::Settings,
        target::{Address, Place, Target},
    },
    backoff::Backoff,
    channels::Channels,
    error::Error,
    failure::Failure,
    pubsub::SubscriptionTable,
    replica_ack::Evidence,
    request::Request,
    slots::slot_of,
    topology::warnings::Warnings,
};

/// The highest number of redirects of one request.
const MOST_REDIRECTS: u32 = 5;

/// The first and the longest pause before a retry, while a node is not ready.
const LATER: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// If a reply takes longer than this, the client refreshes the topology.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long the other nodes may take to connect, after one node has connected.
const OTHERS: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Cluster<T: SubscriptionTable> {
    pub(super) cluster_state: Arc<ClusterState<T>>,
    refresher: Arc<TopologyRefresher<T>>,
}

/// A request to the owner of a slot.
struct SlotRequest<'a> {
    slot: u16,
    command: &'a Cmd,
    /// The script request from which `command` was made, and the kind of channels. Both are needed
    /// to send the script text after `NOSCRIPT`. `None` for a command that is not a script.
    request: Option<(&'a dyn Request, Channels)>,
}

impl SlotRequest<'_> {
    /// Returns whether the caller gets this redirect as the reply. Otherwise, the client follows
    /// the redirect.
    fn returns(&self, redirect: &Redirect) -> bool {
        let reports_split = self.request.is_some_and(|(request, _)| request.reports_split());
        reports_split && *redirect == Redirect::Split
    }

    /// Returns the `EVAL` to send after `NOSCRIPT`.
    fn by_text(&self, reply: &Value) -> Option<Cmd> {
        let (request, channels) = self.request?;
        request.by_text(reply, channels)
    }
}

/// A reply, and whether it came from the importing node of a migrating slot. No client receives a
/// message that a script publishes at the importing node.
struct Answered {
    reply: Value,
    importing: bool,
}

/// The state of one request over all its redirects.
struct RequestState {
    until: Instant,
    redirects: u32,
    /// When the last request was sent.
    asked_at: Instant,
    /// The importing node that the last reply named for the next request.
    asks: Option<HostPort>,
    backoff: Backoff,
}

impl RequestState {
    fn until(until: Instant) -> Self {
        let (asked_at, backoff) = (Instant::now(), Backoff::default());
        Self { until, redirects: 0, asked_at, asks: None, backoff }
    }

    /// Begins a request. Returns the importing node of the last redirect, if the request that got
    /// this redirect was sent less than `limit` ago.
    ///
    /// If this task was suspended for longer than `limit`, the slot may have come back and begun to
    /// migrate again. The importing node would then grant a lock that the owner of the slot has
    /// granted to another client.
    fn sent_to(&mut self, limit: Duration) -> Option<HostPort> {
        let asked_at = std::mem::replace(&mut self.asked_at, Instant::now());
        self.asks.take().filter(|_| asked_at.elapsed() < limit)
    }
}

impl<T: SubscriptionTable> Cluster<T> {
    /// Connects to the cluster to which `seeds` belong.
    pub(super) async fn connect(
        seeds: Vec<Target>,
        settings: &Settings,
        client_id: &str,
    ) -> Result<Self, Error> {
        let cluster = Self::new(seeds, settings, client_id)?;
        let other_seeds = cluster.refresher.first_look().await?;
        let nodes = cluster.cluster_state.masters();
        if nodes.is_empty() {
            return Err(Error::Connect {
                server: "the cluster".into(),
                reason: "no node of the cluster has slots".into(),
                permanent: false,
                source: None,
            });
        }
        let tries = async {
            tokio::select! {
                biased;
                // Logs seeds that fail before `tried` returns. Later failures are not logged.
                never = other_seeds.then(|()| pending::<Infallible>()) => match never {},
                () = tried(&nodes) => {}
            }
        };
        // A node that hangs counts as unreachable.
        drop(timeout(settings.connect_timeout, tries).await);
        if !cluster.cluster_state.is_up() {
            select_ok(nodes.iter().map(|(at, node)| Box::pin(is_ready(at, node)))).await?;
        }
        // The error is ignored: this function is async, so the caller has a runtime.
        drop(cluster.refresher.keep_up());
        Ok(cluster)
    }

    /// Returns at once, and connects in the background.
    pub(super) fn connect_lazy(
        seeds: Vec<Target>,
        settings: &Settings,
        client_id: &str,
    ) -> Result<Self, Error> {
        let cluster = Self::new(seeds, settings, client_id)?;
        // The error is ignored: without a runtime, the next caller starts the task.
        drop(cluster.refresher.keep_up());
        Ok(cluster)
    }

    fn new(seeds: Vec<Target>, settings: &Settings, client_id: &str) -> Result<Self, Error> {
        let Some(seed) = seeds.first().cloned() else {
            return Err(Error::Url("the host is missing; write redis://host:port".into()));
        };
        let at = |target: &Target| match &target.place {
            Place::At(Address::Tcp { host, port, .. }) => {
                Some(HostPort { host: host.clone(), port: *port })
            }
            _ => None,
        };
        let seeds: Vec<HostPort> = seeds.iter().filter_map(at).collect();
        // Checks the certificates now, so that the caller gets the error. Otherwise, only a
        // background task would log the error.
        let node_dialer = NodeDialer::new(seed, settings, client_id)?;
        for at in &seeds {
            node_dialer.dialer(at, None)?;
        }
        let common = Common::of(client_id, Warnings::of_nodes(), settings.command_timeout);
        let cluster_state = Arc::new(ClusterState::new(common, node_dialer));
        let refresher = TopologyRefresher::new(&cluster_state, seeds);
        Ok(Self { cluster_state, refresher })
    }

    /// Starts background tasks that do not run, on the runtime of the caller. For example, the
    /// runtime of earlier tasks may have ended.
    pub(super) fn keep_up(&self) {
        // The error is ignored: without a runtime, the next caller starts the task.
        drop(self.refresher.keep_up());
        self.cluster_state.keep_up();
    }

    /// Returns the kind of channels of the cluster. If the kind is unknown, waits for the topology.
    pub(super) async fn channels(&self) -> Result<Channels, Failure> {
        if let Some(channels) = self.cluster_state.channels() {
            return Ok(channels);
        }
        let until = Instant::now() + self.cluster_state.common.limit;
        loop {
            let changed = self.cluster_state.changed.notified();
            if let Some(channels) = self.cluster_state.channels() {
                return Ok(channels);
            }
            self.refresher.keep_up()?;
            let _request = self.refresher.request_refresh();
            if timeout_at(until, changed).await.is_err() {
                return Err(self.cluster_state.failure(0));
            }
        }
    }

    /// Sends `request` to the node that has its keys.
    pub(super) async fn send(&self, request: &dyn Request) -> Result<Value, Failure> {
        let channels = self.channels().await?;
        let question = SlotRequest {
            slot: slot_of(request.first_key()),
            command: &request.on(channels),
            request: Some((request, channels)),
        };
        let answered = self.ask(&question).await?;
        if answered.importing && request.publishes() {
            self.cluster_state.note_unreceived(request.first_key());
        }
        Ok(answered.reply)
    }

    /// Sends a request to the owner of its slot, and follows redirects.
    async fn ask(&self, question: &SlotRequest<'_>) -> Result<Answered, Failure> {
        let until = Instant::now() + self.cluster_state.common.limit;
        let mut state = RequestState::until(until);
        loop {
            let asks = state.sent_to(self.cluster_state.common.limit);
            let node = self.target_node(asks.as_ref(), question.slot, until).await?;
            let asked = self.with_refresh(send(&node, question, asks.is_some())).await;
            let reply = match asked {
                Ok(reply) => reply,
                // The request was never sent, so it can be sent again.
                Err(Failure::Unreachable(_)) if Instant::now() < until => {
                    self.refresher.suspect();
                    sleep(state.backoff.next(LATER)).await;
                    continue;
                }
                Err(failure) => {
                    self.refresher.suspect();
                    return Err(failure);
                }
            };
            let importing = asks.is_some();
            let redirect = self.redirect(&reply, question.slot, asks);
            let Some(redirect) = redirect.filter(|it| !question.returns(it)) else {
                return Ok(Answered { reply, importing });
            };
            let refusal = match (&redirect, &reply) {
                (Redirect::Later, Value::ServerError(error)) => {
                    Some(self.cluster_state.not_ready(question.slot, error))
                }
                _ => None,
            };
            if !self.goes_on(redirect, question.slot, &mut state).await? {
                return refusal.map_or(Ok(Answered { reply, importing }), Err);
            }
        }
    }

    /// Returns the redirect in `reply`, if the node did not execute the request.
    fn redirect(&self, reply: &Value, slot: u16, asked: Option<HostPort>) -> Option<Redirect> {
        if !matches!(reply, Value::ServerError(_)) {
            return None;
        }
        Redirect::of(reply, &self.address(asked, slot))
    }

    /// Returns the address of the node that replied.
    fn address(&self, asked: Option<HostPort>, slot: u16) -> HostPort {
        // If the slot has no owner, a refresh has changed the topology meanwhile. The address only
        // completes a redirect that names no host.
        asked.or_else(|| self.cluster_state.address_of_owner(slot)).unwrap_or_default()
    }

    /// Returns the importing node that `ASK` named, or the owner of the slot.
    async fn target_node(
        &self,
        asks: Option<&HostPort>,
        slot: u16,
        until: Instant,
    ) -> Result<Arc<Node<T>>, Failure> {
        match asks {
            Some(at) => self.cluster_state.node_at(at),
            None => self.owner(slot, until).await,
        }
    }

    /// Returns how many replicas of the slot's owner have acknowledged the write that `evidence`
    /// finds.
    pub(super) async fn replicated(
        &self,
        slot: u16,
        evidence: &Evidence,
        (least, within): (u32, Duration),
    ) -> Result<u32, Failure> {
        let until = Instant::now() + within;
        let mut state = RequestState::until(until);
        loop {
            let asks = state.sent_to(self.cluster_state.common.limit);
            let node = self.target_node(asks.as_ref(), slot, until).await?;
            let left = until.saturating_duration_since(Instant::now());
            let counting = node.replica_ack.ask(evidence.clone(), asks.is_some(), least, left);
            let counted = match &asks {
                Some(_) => counting.await,
                None => match self.while_owned_by(&node, slot, counting).await {
                    Some(counted) => counted,
                    None => continue,
                },
            };
            let Err(failure) = &counted else { return counted };
            let Some(redirect) = Redirect::in_failure(failure, &self.address(asks, slot)) else {
                self.refresher.suspect();
                return counted;
            };
            if !self.goes_on(redirect, slot, &mut state).await? {
                return counted;
            }
        }
    }

    /// Awaits `reply`. Returns `None` if `node` loses the slot meanwhile.
    async fn while_owned_by<R>(
        &self,
        node: &Arc<Node<T>>,
        slot: u16,
        reply: impl Future<Output = R>,
    ) -> Option<R> {
        let mut reply = pin!(reply);
        loop {
            let changed = self.cluster_state.changed.notified();
            if !self.cluster_state.owner(slot).is_some_and(|owner| Arc::ptr_eq(&owner, node)) {
                return None;
            }
            tokio::select! {
                biased;
                () = changed => {}
                reply = &mut reply => return Some(reply),
            }
        }
    }

    /// Returns the node that has `slot`.
    async fn owner(&self, slot: u16, until: Instant) -> Result<Arc<Node<T>>, Failure> {
        match self.cluster_state.owner(slot).filter(|node| node.commands.is_up()) {
            Some(node) => Ok(node),
            None => Box::pin(self.until_owned(slot, until)).await,
        }
    }

    /// Waits until the node that has `slot` is known and connected.
    async fn until_owned(&self, slot: u16, until: Instant) -> Result<Arc<Node<T>>, Failure> {
        let _request = self.refresher.request_refresh();
        self.refresher.keep_up()?;
        loop {
            let changed = self.cluster_state.changed.notified();
            let owner = self.cluster_state.owner(slot);
            let is_ready = async {
                match &owner {
                    Some(node) => node.commands.ready().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                ready = is_ready => match (ready, owner) {
                    (Ok(()), Some(node)) => return Ok(node),
                    (Err(returned @ (Failure::NoRuntime | Failure::Refused { .. })), _) => return Err(returned),
                    _ => {}
                },
                _ = timeout_at(until, changed) => {}
            }
            if Instant::now() >= until {
                return Err(self.cluster_state.failure(slot));
            }
        }
    }

    /// Waits for a reply. If the reply takes longer than `PATIENCE`, also refreshes the topology,
    /// because the node may have lost the slot.
    async fn with_refresh<R>(&self, reply: impl Future<Output = R>) -> R {
        let mut reply = pin!(reply);
        match timeout(PATIENCE, &mut reply).await {
            Ok(reply) => reply,
            Err(_) => {
                let _request = self.refresher.request_refresh();
                reply.await
            }
        }
    }

    /// Prepares another attempt. Returns false if no time is left.
    async fn goes_on(
        &self,
        redirect: Redirect,
        slot: u16,
        state: &mut RequestState,
    ) -> Result<bool, Failure> {
        let is_late = Instant::now() >= state.until;
        match redirect {
            Redirect::Moved(moved, at) => {
                if let Some(at) = at.filter(|_| moved == slot) {
                    self.cluster_state.moved(slot, &at);
                }
                self.refresher.suspect();
            }
            Redirect::Ask(Some(at)) => state.asks = Some(at),
            Redirect::Ask(None) => {}
            Redirect::Split | Redirect::Later if is_late => return Ok(false),
            Redirect::Split => {
                sleep(state.backoff.next(LATER)).await;
                return Ok(true);
            }
            Redirect::Later => {
                let _request = self.refresher.request_refresh();
                sleep(state.backoff.next(LATER)).await;
                return Ok(true);
            }
        }
        state.redirects += 1;
        if state.redirects <= MOST_REDIRECTS {
            if state.redirects > 1 {
                // After a pause, the nodes may agree on the owner of the slot.
                sleep(state.backoff.next(LATER)).await;
            }
            return Ok(true);
        }
        Err(Failure::unreachable(format!(
            "the nodes of the cluster disagree on slot {slot}: each node redirects to another node"
        )))
    }

    /// Sends each of `commands`, which all belong to `slot`.
    pub(super) async fn ask_all(&self, slot: u16, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        let ask = |command| self.ask_plainly(slot, command);
        join_all(commands.iter().map(ask)).await.into_iter().collect()
    }

    /// Sends `command`, which is not a script.
    pub(super) async fn ask_plainly(&self, slot: u16, command: &Cmd) -> Result<Value, Failure> {
        let question = SlotRequest { slot, command, request: None };
        Ok(self.ask(&question).await?.reply)
    }

    /// Sends a command and the message about it in one batch. If the node redirects the command,
    /// sends the command again, and then the message. The message goes to the owner of the slot.
    /// While a slot migrates, its owner still delivers the messages.
    pub(super) async fn ask_then_publish(
        &self,
        slot: u16,
        both: [Cmd; 2],
    ) -> Result<Vec<Value>, Failure> {
        let owner = self.cluster_state.owner(slot).filter(|node| node.commands.is_up());
        if let (Some(node), Some(at)) = (owner, self.cluster_state.address_of_owner(slot)) {
            let replies = self.with_refresh(node.commands.call_all(&both)).await;
            let replies = replies.inspect_err(|_| self.refresher.suspect());
            let is_done =
                |replies: &[Value]| replies.iter().all(|reply| Redirect::of(reply, &at).is_none());
            match replies {
                Err(Failure::Unreachable(_)) => {}
                replies if replies.as_deref().map_or(true, is_done) => return replies,
                // Only the message is sent again. The command has been executed, so its second
                // reply would be different.
                Ok(replies) if is_done(&replies[..1]) => {
                    return Ok(vec![replies[0].clone(), self.publish(slot, &both[1]).await]);
                }
                _ => {}
            }
        }
        let asked = self.ask_plainly(slot, &both[0]).await?;
        Ok(vec![asked, self.publish(slot, &both[1]).await])
    }

    /// Publishes a message. A failure is ignored, because a waiter that misses the message sends a
    /// request by its timer.
    async fn publish(&self, slot: u16, what: &Cmd) -> Value {
        self.ask_plainly(slot, what).await.unwrap_or(Value::Int(0))
    }
}

/// Ends the refresher together with the cluster.
impl<T: SubscriptionTable> Drop for Cluster<T> {
    fn drop(&mut self) {
        self.refresher.end();
    }
}

/// Sends a request to this node. After `NOSCRIPT`, sends the script text.
async fn send<T: SubscriptionTable>(
    node: &Node<T>,
    question: &SlotRequest<'_>,
    asking: bool,
) -> Result<Value, Failure> {
    let reply = send_as(node, question.command, asking).await?;
    match question.by_text(&reply) {
        Some(by_text) => send_as(node, &by_text, asking).await,
        None => Ok(reply),
    }
}

/// Sends `command`, in one batch after `ASKING` if the node is importing the slot.
async fn send_as<T: SubscriptionTable>(
    node: &Node<T>,
    command: &Cmd,
    asking: bool,
) -> Result<Value, Failure> {
    if !asking {
        return node.commands.call(command).await;
    }
    let replies = node.commands.call_all(&[cmd("ASKING"), command.clone()]).await?;
    match <[Value; 2]>::try_from(replies) {
        // If the ACL denies `ASKING`, this node redirects the command to the owner of the slot. The
        // owner would redirect the command to this node again, without an end.
        Ok([refused @ Value::ServerError(_), Value::ServerError(moved)])
            if moved.code() == "MOVED" =>
        {
            Ok(refused)
        }
        Ok([_, reply]) => Ok(reply),
        Err(_) => Err(Failure::Unreadable("the server sent fewer replies than requests".into())),
    }
}

/// Waits for a connection attempt to each node. After one node has connected, waits at most
/// `OTHERS` longer.
async fn tried<T: SubscriptionTable>(nodes: &[(HostPort, Arc<Node<T>>)]) {
    let mut tries: FuturesUnordered<_> =
        nodes.iter().map(|(_, node)| node.commands.tried()).collect();
    let is_up = |(_, node): &(HostPort, Arc<Node<T>>)| node.commands.is_up();
    while tries.next().await.is_some() && !nodes.iter().any(is_up) {}
    drop(timeout(OTHERS, tries.collect::<()>()).await);
}

async fn is_ready<T: SubscriptionTable>(at: &HostPort, node: &Node<T>) -> Result<(), Error> {
    let ready = node.commands.ready().await;
    ready.map_err(|failure| Error::Connect {
        server: address_shown(at),
        reason: failure.to_string(),
        permanent: !failure.is_temporary(),
        source: None,
    })
}
