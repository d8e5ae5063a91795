//! The subscriptions of one client, on a separate connection.
//!
//! [`Table`] keeps the wanted and the confirmed subscriptions; the task of the connection sends the
//! difference to the server. One mutex guards the table, and no event is sent while it is held. A
//! second mutex, in [`Hub`], keeps events in order. Only the tasks of the store send events.

mod permissions;
mod table;

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{PushInfo, PushKind, Value, cmd};
use tokio::{
    sync::Notify,
    task::coop::unconstrained,
    time::{Instant, sleep_until},
};

pub(super) use self::permissions::{Denied, Permissions};
pub(super) use self::table::Delivery;
use self::table::{Correction, Refusal, Table};
use super::{
    channels::Channels,
    connection::{Dialer, Link, Watcher, Wire},
};
use crate::{
    domain::{Mutex, Object},
    error::Error,
    store::{Event, Subscriber},
};

/// Time without a request after which a `PING` checks the connection.
const QUIET: Duration = Duration::from_secs(5);

/// Maximum number of corrections without a reply. Each is for one name. If all were sent at once
/// for very many names, replies would seem late, and the client would reconnect for ever.
const ON_THEIR_WAY: usize = 1_024;

/// Pause after a rejection that may pass.
const RETRY: Duration = Duration::from_millis(250);

/// The subscriptions of one client on one connection.
#[derive(Debug)]
pub(super) struct Subscriptions {
    subscription_state: Arc<SubscriptionState>,
    /// Connected at the first subscription, unless it was connected before.
    link: OnceLock<Link>,
    dialer: Arc<Dialer>,
    command_timeout: Duration,
}

impl Subscriptions {
    pub(super) async fn connect(
        subscription_state: Arc<SubscriptionState>,
        dialer: Arc<Dialer>,
        command_timeout: Duration,
    ) -> Result<Self, Error> {
        let watcher: Arc<dyn Watcher> = Arc::<SubscriptionState>::clone(&subscription_state);
        let link = Link::connect(Arc::clone(&dialer), watcher, command_timeout).await?;
        Ok(Self { subscription_state, link: link.into(), dialer, command_timeout })
    }

    /// Makes no connection before the first subscription.
    pub(super) fn when_wanted(
        subscription_state: Arc<SubscriptionState>,
        dialer: Arc<Dialer>,
        command_timeout: Duration,
    ) -> Self {
        Self { subscription_state, link: OnceLock::new(), dialer, command_timeout }
    }

    /// Returns at once, and connects in the background.
    pub(super) fn connect_lazy(
        subscription_state: Arc<SubscriptionState>,
        dialer: Arc<Dialer>,
        command_timeout: Duration,
    ) -> Self {
        let subscriptions = Self::when_wanted(subscription_state, dialer, command_timeout);
        subscriptions.link();
        subscriptions
    }

    fn link(&self) -> &Link {
        self.link.get_or_init(|| {
            let watcher: Arc<dyn Watcher> =
                Arc::<SubscriptionState>::clone(&self.subscription_state);
            Link::connect_lazy(Arc::clone(&self.dialer), watcher, self.command_timeout)
        })
    }

    /// Starts the task of the connection if it does not run, for example because its runtime has
    /// ended. It runs on the runtime of the caller.
    pub(super) fn keep_up(&self) {
        // Without a runtime, the next caller starts the task.
        drop(self.link.get().map(Link::keep_up));
    }

    /// Ends the connection, healthy or not.
    pub(super) fn cut(&self) {
        if let Some(link) = self.link.get() {
            link.cut();
        }
    }

    pub(super) fn listen(&self, object: &Object) {
        self.link();
        self.subscription_state.table.lock().listen(object);
        self.subscription_state.changed.notify_one();
    }

    pub(super) fn unlisten(&self, object: &Object) {
        self.subscription_state.table.lock().unlisten(object);
        self.subscription_state.changed.notify_one();
    }

    /// Like [`unlisten`](Self::unlisten), but also drops the pending events of `object`.
    pub(super) fn forget(&self, object: &Object) {
        self.subscription_state.table.lock().forget(object);
        self.subscription_state.changed.notify_one();
    }

    /// Subscribes again to channels for which the server named another node.
    pub(super) fn resubscribe(&self) {
        self.subscription_state.table.lock().resubscribe();
        self.subscription_state.changed.notify_one();
    }

    /// Returns the ACL permissions of this client for `object`.
    pub(super) fn permissions(&self, object: &Object) -> Permissions {
        self.subscription_state.table.lock().permissions(object)
    }

    /// Notes that the server denies this client the queue of `object`.
    pub(super) fn queue_refused(&self, object: &Object) {
        if !self.permissions(object).queue {
            return;
        }
        self.subscription_state.hub.warn_once(Denied::Queue, object);
        self.subscription_state.table.lock().refused(object, Denied::Queue, Instant::now());
        self.subscription_state.changed.notify_one();
    }

    /// Returns whether this client receives the releases of `object`.
    pub(super) fn is_subscribed_to_releases(&self, object: &Object) -> bool {
        self.subscription_state.table.lock().is_subscribed_to_releases(object)
    }

    /// Returns whether the connection is up, or not needed yet.
    pub(super) fn are_up(&self) -> bool {
        self.link.get().is_none_or(Link::is_up)
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.link.get().map_or(0, Link::reconnects)
    }
}

/// The receiver of events, and the warnings that were logged; shared by all connections of a
/// client.
#[derive(Debug, Default)]
pub(super) struct Hub {
    /// Tasks that send events lock this before a table. Tasks that send requests never lock it.
    subscriber: Mutex<Option<Weak<dyn Subscriber>>>,
    warned: Mutex<Vec<Denied>>,
    /// Notified when the topology may have changed.
    pub(super) suspicion: Notify,
}

impl Hub {
    /// Sends events to `subscriber` from now on.
    pub(super) fn send_to(&self, subscriber: Weak<dyn Subscriber>) {
        *self.subscriber.lock() = Some(subscriber);
    }

    /// Sends the events that `next` returns, in order. No other task sends events meanwhile.
    fn send_all(&self, mut next: impl FnMut() -> Option<Event>) {
        let subscriber = self.subscriber.lock();
        while let Some(event) = next() {
            if let Some(subscriber) = subscriber.as_ref().and_then(Weak::upgrade) {
                subscriber.receive(event);
            }
        }
    }

    /// Sends one event.
    pub(super) fn send_event(&self, event: Event) {
        let mut event = Some(event);
        self.send_all(|| event.take());
    }

    /// Logs each kind of denied permission once. Without it, the client still gets locks, but
    /// later.
    fn warn_once(&self, what: Denied, object: &Object) {
        let mut warned = self.warned.lock();
        if warned.contains(&what) {
            return;
        }
        warned.push(what);
        drop(warned);
        match what {
            Denied::Queue => tracing::warn!(target: "leasehold", lock = %object.name,
                "wait queue denied: each release wakes all waiters"),
            Denied::OwnChannels => tracing::warn!(target: "leasehold", lock = %object.name,
                "channels of Leasehold denied: waiters do not queue"),
            Denied::Releases => tracing::warn!(target: "leasehold", lock = %object.name,
                "subscriptions denied: waiters poll more often"),
        }
    }
}

/// Wanted and confirmed subscriptions, for the task of the connection.
#[derive(Debug)]
pub(super) struct SubscriptionState {
    table: Mutex<Table>,
    changed: Notify,
    channels: Channels,
    hub: Arc<Hub>,
}

impl SubscriptionState {
    /// Returns the subscription state of the client `client_id`, for one connection.
    pub(super) fn of(client_id: &str, delivery: Delivery, hub: &Arc<Hub>) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::new(Table::of(client_id, delivery)),
            changed: Notify::new(),
            channels: delivery.channels(),
            hub: Arc::clone(hub),
        })
    }

    /// Sends the pending events, in order.
    fn send_events(&self) {
        self.hub.send_all(|| self.table.lock().next_event());
    }

    /// Sends corrections to the server whenever the wanted subscriptions change, as long as `wire`
    /// lasts.
    async fn keep(&self, wire: &Wire) -> Infallible {
        let (mut asked, mut to_ask) = (FuturesUnordered::new(), VecDeque::new());
        let (mut rests_until, mut sent_at) = (Instant::now(), Instant::now());
        loop {
            self.send_events();
            let now = Instant::now();
            if rests_until <= now {
                let mut table = self.table.lock();
                table.retry_denied(now);
                to_ask.extend(table.corrections());
                drop(table);
                let more = to_ask.len().min(ON_THEIR_WAY - asked.len());
                for correction in to_ask.drain(..more) {
                    asked.push(self.ask(wire, correction));
                    sent_at = now;
                }
            }
            tokio::select! {
                biased;
                // Without a budget, so that all replies are taken: a busy runtime may poll this
                // task late.
                Some(refusal) = unconstrained(asked.next()) => {
                    // The pause is for all names, because the server would reject them, too.
                    if refusal == Some(Refusal::Passing) {
                        rests_until = Instant::now() + RETRY;
                    }
                }
                () = self.changed.notified() => {}
                () = sleep_until(rests_until), if rests_until > now => {}
                () = sleep_until(sent_at + QUIET) => {
                    self.ping(wire).await;
                    sent_at = Instant::now();
                }
            }
        }
    }

    /// Sends one correction. Returns why the server rejected it. Otherwise its event was sent
    /// before.
    async fn ask(&self, wire: &Wire, correction: Correction) -> Option<Refusal> {
        let verb = match correction.subscribe {
            Some(_) => self.channels.subscribe(),
            None => self.channels.unsubscribe(),
        };
        let mut command = cmd(verb);
        command.arg(&correction.channels);
        let answer = match (self.channels, &correction.subscribe) {
            (Channels::Plain, Some(_)) => wire.confirm(&command, PushKind::Subscribe).await,
            (Channels::Plain, None) => wire.confirm(&command, PushKind::Unsubscribe).await,
            (Channels::Sharded, Some(_)) => wire.confirm(&command, PushKind::SSubscribe).await,
            // The confirmation is not awaited, because a migrated slot sends the same one without a
            // request.
            (Channels::Sharded, None) => wire.follow(&command).await,
        };
        // Without a reply, the connection is lost, and with it all subscriptions.
        let Ok(Value::ServerError(error)) = answer else { return None };
        let refusal = match error.code() {
            "NOPERM" => Refusal::Forbidden,
            "MOVED" => Refusal::Elsewhere,
            _ => Refusal::Passing,
        };
        tracing::debug!(target: "leasehold", failure = %error, verb, "subscription rejected");
        if let (Refusal::Forbidden, Some(object)) = (refusal, &correction.subscribe) {
            self.hub.warn_once(correction.needs(), object);
        }
        if refusal != Refusal::Forbidden {
            self.hub.suspicion.notify_one();
        }
        self.table.lock().not_done(&correction, refusal, Instant::now());
        Some(refusal)
    }

    /// Sends a `PING`, because a connection without traffic may be lost unnoticed. The link checks
    /// whether the reply comes.
    async fn ping(&self, wire: &Wire) {
        if !self.table.lock().is_quiet() {
            drop(wire.call(&cmd("PING")).await);
        }
    }
}

impl Watcher for SubscriptionState {
    fn traffic(&self) -> &'static str {
        "messages"
    }

    fn up(&self) {
        self.table.lock().begin();
    }

    fn serve<'a>(&'a self, wire: &'a Wire) -> BoxFuture<'a, Infallible> {
        Box::pin(self.keep(wire))
    }

    fn down(&self) {
        self.table.lock().end();
        self.send_events();
        self.hub.suspicion.notify_one();
    }

    fn pushed(&self, info: PushInfo) {
        let Some(Value::BulkString(channel)) = info.data.first() else { return };
        let Ok(channel) = std::str::from_utf8(channel) else { return };
        let mut table = self.table.lock();
        match info.kind {
            PushKind::Subscribe | PushKind::SSubscribe => table.confirmed(channel, true),
            PushKind::Unsubscribe | PushKind::SUnsubscribe => table.confirmed(channel, false),
            PushKind::Message | PushKind::SMessage => {
                if let Some(message) = info.data.get(1) {
                    table.received(channel, message);
                }
            }
            _ => return,
        }
        drop(table);
        if info.kind == PushKind::SUnsubscribe {
            // A wanted subscription is requested again. An unwanted one needs no request.
            self.changed.notify_one();
        }
        self.send_events();
    }
}

#[cfg(test)]
mod tests {
    use leasehold_twin::Twin;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy, duplex, split},
        time::sleep,
    };

    use super::*;
    use crate::store::redis::{Connector, RedisStore, Settings};

    /// Returns the other end of `stream`, to which only 100 bytes flow per millisecond.
    fn slowly(stream: DuplexStream) -> DuplexStream {
        let (ours, theirs) = duplex(100);
        let ((mut from, mut to), (mut back, mut forth)) = (split(stream), split(theirs));
        tokio::spawn(async move { copy(&mut back, &mut to).await });
        tokio::spawn(async move {
            let mut bytes = [0; 100];
            while let Ok(come @ 1..) = from.read(&mut bytes).await {
                if forth.write_all(&bytes[..come]).await.is_err() {
                    return;
                }
                sleep(Duration::from_millis(1)).await;
            }
        });
        ours
    }

    async fn served_slowly(twin: &Twin) -> RedisStore {
        twin.user("one", "on nopass +@all ~* &*");
        let server = twin.clone();
        let connector = Connector::by(move || {
            let server = server.clone();
            async move { server.connect().await.map(slowly) }
        });
        let settings = Settings { user: Some("one".into()), ..Settings::default() };
        RedisStore::connect_by(connector, &settings, "one").await.unwrap()
    }

    /// All requests were sent at once. So the server seemed late before its last reply, and the
    /// client started over for ever.
    #[tokio::test(start_paused = true)]
    async fn slow_subscription_to_many_names_keeps_the_connection() {
        let store = served_slowly(&Twin::new(7)).await;
        let names: Vec<_> = (0..4_000).map(|at| Object::lock(format!("door:{at}"))).collect();
        names.iter().for_each(|name| store.topology.listen(name));
        let mut received = names.iter().peekable();
        while received.peek().is_some() {
            sleep(Duration::from_millis(100)).await;
            assert_eq!(store.topology.reconnects(), 0);
            while received.next_if(|name| store.topology.is_subscribed_to_releases(name)).is_some()
            {
            }
        }
    }
}
