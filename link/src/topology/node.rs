//! One server, with three connections: for commands, for messages, and to wait for replicas.

use std::{future::Future, sync::Arc, time::Duration};

use redis::{Value, cmd};
use tokio::time::{Instant, timeout};

use crate::{
    connection::{dial::Dialer, link::Link, watcher::Watcher},
    error::Error,
    failure::Failure,
    hazard::Finding,
    health::{About, NodeHealth},
    pubsub::{Delivery, Hub, SubscriptionState, SubscriptionTable, Subscriptions},
    replica_ack::ReplicaAck,
    replies,
    session::{about::with_info, info::time_of_day},
    topology::{warnings::Warnings, watcher::Commands},
};

/// The timeout of a health check at one server.
pub const HEALTH_CHECK: Duration = Duration::from_millis(200);

/// The state that all nodes of one client share.
#[derive(Debug)]
pub(super) struct Common<T: SubscriptionTable> {
    pub(super) client_id: String,
    pub(super) hub: Arc<Hub<T>>,
    pub(super) warnings: Arc<Warnings>,
    /// The timeout of a command.
    pub(super) limit: Duration,
}

impl<T: SubscriptionTable> Common<T> {
    pub(super) fn of(client_id: &str, warnings: Warnings, limit: Duration) -> Arc<Self> {
        let client_id = client_id.to_owned();
        Arc::new(Self { client_id, hub: Arc::default(), warnings: Arc::new(warnings), limit })
    }

    fn watcher(&self, dialer: &Arc<Dialer>, replaces: bool) -> Arc<dyn Watcher> {
        Commands::reporting(&self.hub, &self.warnings, dialer, replaces)
    }

    fn subscription_state(&self, delivery: Delivery) -> Arc<SubscriptionState<T>> {
        SubscriptionState::of(&self.client_id, delivery, &self.hub)
    }
}

/// One server.
#[derive(Debug)]
pub(super) struct Node<T: SubscriptionTable> {
    pub(super) common: Arc<Common<T>>,
    pub(crate) commands: Link,
    pub(crate) subscriptions: Subscriptions<T>,
    pub(crate) replica_ack: ReplicaAck,
}

impl<T: SubscriptionTable> Node<T> {
    /// Connects to the only server of a deployment.
    pub(super) async fn connect(
        common: Arc<Common<T>>,
        dialer: Arc<Dialer>,
    ) -> Result<Self, Error> {
        let watcher = common.watcher(&dialer, false);
        let replica_ack = ReplicaAck::new(&dialer, common.limit);
        let commands = Link::connect(Arc::clone(&dialer), watcher, common.limit).await?;
        let subscription_state = common.subscription_state(Delivery::Alone);
        let subscriptions =
            Subscriptions::connect(subscription_state, dialer, common.limit).await?;
        Ok(Self { common, commands, subscriptions, replica_ack })
    }

    /// Returns at once, and connects in the background.
    pub(super) fn connect_lazy(common: Arc<Common<T>>, dialer: Arc<Dialer>) -> Self {
        let watcher = common.watcher(&dialer, false);
        let replica_ack = ReplicaAck::new(&dialer, common.limit);
        let commands = Link::connect_lazy(Arc::clone(&dialer), watcher, common.limit);
        let subscription_state = common.subscription_state(Delivery::Alone);
        let subscriptions = Subscriptions::connect_lazy(subscription_state, dialer, common.limit);
        Self { common, commands, subscriptions, replica_ack }
    }

    /// Makes a node of a cluster, and connects in the background. The connection for messages is
    /// made at the first subscription. If the node rejects the login, calls fail at once: see
    /// `Link::reporting_rejection`.
    pub(super) fn delivery(
        common: Arc<Common<T>>,
        dialer: Arc<Dialer>,
        delivery: Delivery,
        replaces: bool,
    ) -> Self {
        let watcher = common.watcher(&dialer, replaces);
        let replica_ack = ReplicaAck::new(&dialer, common.limit);
        let commands = Link::connect_lazy(Arc::clone(&dialer), watcher, common.limit);
        let commands = commands.reporting_rejection();
        let subscription_state = common.subscription_state(delivery);
        let subscriptions = Subscriptions::when_wanted(subscription_state, dialer, common.limit);
        Self { common, commands, subscriptions, replica_ack }
    }

    /// Starts background tasks that do not run, on the runtime of the caller. For example, the
    /// runtime of earlier tasks may have ended.
    pub(super) fn keep_up(&self) {
        // The error is ignored: without a runtime, the next caller starts the task.
        drop(self.commands.keep_up());
        self.subscriptions.keep_up();
    }

    /// Ends all connections, even if they work, because the server is no longer a primary.
    pub(super) fn cut(&self) {
        self.commands.cut();
        self.subscriptions.cut();
        self.replica_ack.cut();
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.commands.state.reconnects()
            + self.subscriptions.reconnects()
            + self.replica_ack.reconnects()
    }

    /// Sends a health check, and logs hazards.
    pub(super) async fn look(&self) -> Result<About, Failure> {
        // A new client waits for its first connection. After a loss, the check fails at once.
        self.commands.tried().await;
        if !self.commands.is_up() {
            return Err(self.commands.failure());
        }
        let asked = time_of_day();
        let replies = self.commands.call_all(&[cmd("PING"), cmd("INFO")]).await?;
        if let Some(Value::ServerError(error)) = replies.first()
            && error.code() != "NOPERM"
        {
            return Err(replies::refusal(error));
        }
        let about = with_info(self.commands.state.about(), &replies, asked);
        self.commands.state.note_server(&about);
        self.common.warnings.look(&about, self.commands.dialer());
        match about.is_full {
            true => Err(Failure::refused("OOM", "used memory > 'maxmemory'")),
            false => Ok(about),
        }
    }

    /// Runs `look` with a timeout. Returns its result and the health of this server.
    pub(super) async fn check(
        &self,
        server: String,
        look: impl Future<Output = Result<About, Failure>>,
    ) -> (NodeHealth, Result<About, Failure>) {
        let start = Instant::now();
        let late = |_| Err(Failure::unanswered(format!("timed out after {HEALTH_CHECK:?}")));
        let looked = timeout(HEALTH_CHECK, look).await.unwrap_or_else(late);
        let took = start.elapsed();
        let silent = matches!(looked, Err(Failure::Unanswered(_))) || !self.commands.is_up();
        let health = NodeHealth {
            server,
            round_trip: (!silent).then_some(took),
            silent_for: silent.then(|| self.commands.state.lost_for().unwrap_or(took)),
            unavailable_reason: looked
                .as_ref()
                .map_or_else(|it| Some(it.to_string()), About::unavailable_reason),
        };
        (health, looked)
    }

    /// Returns the hazards that were found so far at this server.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let dialer = self.commands.dialer();
        let of_server =
            self.common.warnings.findings(&self.commands.state.about(), dialer.may_change());
        [of_server, dialer.findings()].concat()
    }
}
