//! The subscriptions of one client, on a separate connection.
//!
//! A [`SubscriptionTable`] keeps the wanted and the confirmed subscriptions. If the two differ, the
//! task of the connection subscribes or unsubscribes. One mutex guards the table, and no event is
//! sent while this mutex is held. A second mutex, in [`Hub`], keeps events in order. Only
//! background tasks of this crate send events.

mod table;
#[cfg(test)]
mod unwanted;

use std::{
    collections::VecDeque,
    convert::Infallible,
    fmt,
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

pub use self::table::{
    Correction, Delivery, Event, Rejection, Subscriber, SubscriptionTable, Topic,
};
#[cfg(test)]
pub(crate) use self::unwanted::Unwanted;
use crate::{
    channels::Channels,
    connection::{dial::Dialer, link::Link, watcher::Watcher},
    error::Error,
    mutex::Mutex,
    pipe::wire::Wire,
};

/// The time without a request after which a `PING` checks the connection.
const QUIET: Duration = Duration::from_secs(5);

/// The highest number of requests ([`Correction`]) in flight. Each is for one topic. If the client
/// sent very many at once, the last replies would come very late. The client would then count the
/// server as silent, and reconnect again and again.
const ON_THEIR_WAY: usize = 1_024;

/// The pause after a rejection that may be temporary.
const RETRY: Duration = Duration::from_millis(250);

/// The subscriptions of one client on one connection.
#[derive(Debug)]
pub struct Subscriptions<T: SubscriptionTable> {
    subscription_state: Arc<SubscriptionState<T>>,
    /// The connection. `when_wanted` leaves this cell empty until the first subscription.
    link: OnceLock<Link>,
    dialer: Arc<Dialer>,
    command_timeout: Duration,
}

impl<T: SubscriptionTable> Subscriptions<T> {
    pub(crate) async fn connect(
        subscription_state: Arc<SubscriptionState<T>>,
        dialer: Arc<Dialer>,
        command_timeout: Duration,
    ) -> Result<Self, Error> {
        let watcher: Arc<dyn Watcher> = Arc::<SubscriptionState<T>>::clone(&subscription_state);
        let link = Link::connect(Arc::clone(&dialer), watcher, command_timeout).await?;
        Ok(Self { subscription_state, link: link.into(), dialer, command_timeout })
    }

    /// Makes no connection yet. The first subscription connects.
    pub(crate) fn when_wanted(
        subscription_state: Arc<SubscriptionState<T>>,
        dialer: Arc<Dialer>,
        command_timeout: Duration,
    ) -> Self {
        Self { subscription_state, link: OnceLock::new(), dialer, command_timeout }
    }

    /// Returns at once, and connects in the background.
    pub(crate) fn connect_lazy(
        subscription_state: Arc<SubscriptionState<T>>,
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
                Arc::<SubscriptionState<T>>::clone(&self.subscription_state);
            Link::connect_lazy(Arc::clone(&self.dialer), watcher, self.command_timeout)
        })
    }

    /// Starts the connection's task on the runtime of the caller, if it does not run. For example,
    /// the runtime of the earlier task may have ended.
    pub(crate) fn keep_up(&self) {
        // The error is ignored: without a runtime, the next caller starts the task.
        drop(self.link.get().map(Link::keep_up));
    }

    /// Ends the connection, even if it is healthy.
    pub(crate) fn cut(&self) {
        if let Some(link) = self.link.get() {
            link.cut();
        }
    }

    pub(crate) fn listen(&self, topic: &T::Topic) {
        self.link();
        self.change(|table| table.listen(topic));
    }

    pub(crate) fn unlisten(&self, topic: &T::Topic) {
        self.change(|table| table.unlisten(topic));
    }

    /// Like [`unlisten`](Self::unlisten), but also drops the pending events of `topic`.
    pub(crate) fn forget(&self, topic: &T::Topic) {
        self.change(|table| table.forget(topic));
    }

    /// Subscribes again to the channels for which the server named another node.
    pub(crate) fn resubscribe(&self) {
        self.change(T::resubscribe);
    }

    /// Reads the table. `read` must call nothing that takes a lock.
    #[inline]
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.subscription_state.table.lock())
    }

    /// Changes the table, and then the subscriptions. `change` must call nothing that takes a lock.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.subscription_state.table.lock());
        self.subscription_state.changed.notify_one();
    }

    /// Returns the record of the warnings that were logged for this client.
    #[must_use]
    pub fn log(&self) -> &T::Log {
        &self.subscription_state.hub.log
    }

    /// Returns whether the connection is up, or not needed yet.
    pub(crate) fn are_up(&self) -> bool {
        self.link.get().is_none_or(Link::is_up)
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.link.get().map_or(0, |link| link.state.reconnects())
    }
}

/// The receiver of events, and the warnings that were logged. All connections of a client share one
/// hub.
pub(crate) struct Hub<T: SubscriptionTable> {
    /// Tasks that send events lock this mutex before a table. Tasks that send requests never lock
    /// this mutex.
    subscriber: Mutex<Option<Weak<dyn Subscriber<T::Event>>>>,
    log: T::Log,
    /// Notified when the topology may have changed.
    pub(crate) suspicion: Notify,
}

impl<T: SubscriptionTable> Default for Hub<T> {
    fn default() -> Self {
        Self { subscriber: Mutex::default(), log: T::Log::default(), suspicion: Notify::new() }
    }
}

impl<T: SubscriptionTable> fmt::Debug for Hub<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("log", &self.log).finish_non_exhaustive()
    }
}

impl<T: SubscriptionTable> Hub<T> {
    /// Sends events to `subscriber` from now on.
    pub(crate) fn send_to(&self, subscriber: Weak<dyn Subscriber<T::Event>>) {
        *self.subscriber.lock() = Some(subscriber);
    }

    /// Sends the events that `next` returns, in order. No other task sends events meanwhile.
    fn send_all(&self, mut next: impl FnMut() -> Option<T::Event>) {
        let subscriber = self.subscriber.lock();
        while let Some(event) = next() {
            if let Some(subscriber) = subscriber.as_ref().and_then(Weak::upgrade) {
                subscriber.receive(event);
            }
        }
    }

    pub(crate) fn send_event(&self, event: T::Event) {
        let mut event = Some(event);
        self.send_all(|| event.take());
    }
}

/// The wanted and the confirmed subscriptions of one connection, for its task.
#[derive(Debug)]
pub(crate) struct SubscriptionState<T: SubscriptionTable> {
    table: Mutex<T>,
    changed: Notify,
    channels: Channels,
    hub: Arc<Hub<T>>,
}

impl<T: SubscriptionTable> SubscriptionState<T> {
    /// Returns the subscription state of the client `client_id`, for one connection.
    pub(crate) fn of(client_id: &str, delivery: Delivery, hub: &Arc<Hub<T>>) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::new(T::of(client_id, delivery)),
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
                // `unconstrained` turns off tokio's budget, so that one poll of this task takes all
                // replies. A busy runtime may poll this task late.
                Some(refusal) = unconstrained(asked.next()) => {
                    // The pause is for all topics, because the server would also reject the
                    // corrections of other topics.
                    if refusal == Some(Rejection::Passing) {
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

    /// Sends one correction. Returns why the server rejected it, or `None` if the server confirmed
    /// it or the connection is lost. `pushed` has already handled the confirmation.
    async fn ask(&self, wire: &Wire, correction: Correction<T::Topic>) -> Option<Rejection> {
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
            // `follow` does not wait for the confirmation, because the server pushes the same
            // confirmation without a request if the slot migrates.
            (Channels::Sharded, None) => wire.follow(&command).await,
        };
        // If no reply comes, the connection and all its subscriptions are lost.
        let Ok(Value::ServerError(error)) = answer else { return None };
        let refusal = match error.code() {
            "NOPERM" => Rejection::Forbidden,
            "MOVED" => Rejection::Elsewhere,
            _ => Rejection::Passing,
        };
        tracing::debug!(target: "leasehold", failure = %error, verb, "subscription rejected");
        if refusal == Rejection::Forbidden {
            T::log_denied(&self.hub.log, &correction);
        }
        if refusal != Rejection::Forbidden {
            self.hub.suspicion.notify_one();
        }
        self.table.lock().not_done(&correction, refusal, Instant::now());
        Some(refusal)
    }

    /// Sends a `PING`, because a connection without traffic may be lost unnoticed. If no reply
    /// comes, the link ends the connection.
    async fn ping(&self, wire: &Wire) {
        if !self.table.lock().is_quiet() {
            drop(wire.call(&cmd("PING")).await);
        }
    }
}

impl<T: SubscriptionTable> Watcher for SubscriptionState<T> {
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
        let is_as_wanted = match info.kind {
            PushKind::Subscribe | PushKind::SSubscribe => table.confirmed(channel, true),
            PushKind::Unsubscribe | PushKind::SUnsubscribe => table.confirmed(channel, false),
            PushKind::Message | PushKind::SMessage => {
                if let Some(message) = info.data.get(1) {
                    table.received(channel, message);
                }
                true
            }
            _ => return,
        };
        drop(table);
        if info.kind == PushKind::SUnsubscribe {
            // If the subscription is still wanted, the task requests it again.
            self.changed.notify_one();
            if !is_as_wanted {
                // The node has lost the slot, or is no longer a primary.
                self.hub.suspicion.notify_one();
            }
        }
        self.send_events();
    }
}
