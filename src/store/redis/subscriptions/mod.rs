//! The subscriptions of one client, on a connection of their own.
//!
//! [`Table`] knows what is wanted and what is confirmed, and is brought up to date by the
//! task that carries the connection. It lies behind one mutex, which is never held while
//! somebody is told: events are told in order under a second mutex, by the tasks of the
//! store alone.

mod rights;
mod table;

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{PushInfo, PushKind, Value, cmd};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

pub(super) use self::rights::{Refused, Rights};
use self::table::{Correction, Refusal, Table};
use super::connection::{Dialer, Link, Watcher, Wire};
use crate::{
    domain::{Mutex, Object},
    error::Error,
    store::Subscriber,
};

/// How long nothing may be sent while we listen: then we see whether the other
/// side is still there.
const QUIET: Duration = Duration::from_secs(5);

/// How long to wait before what failed is asked for again.
const RETRY: Duration = Duration::from_millis(250);

/// The subscriptions of one client.
#[derive(Debug)]
pub(super) struct Subscriptions {
    board: Arc<Board>,
    link: Link,
}

impl Subscriptions {
    pub(super) async fn connect(
        board: Arc<Board>,
        dialer: Arc<Dialer>,
        command_timeout: Duration,
    ) -> Result<Self, Error> {
        let watcher: Arc<dyn Watcher> = Arc::<Board>::clone(&board);
        let link = Link::connect(dialer, watcher, command_timeout).await?;
        Ok(Self { board, link })
    }

    /// The same without a connection: it is made in the background.
    pub(super) fn connect_lazily(
        board: Arc<Board>,
        dialer: Arc<Dialer>,
        command_timeout: Duration,
    ) -> Self {
        let watcher: Arc<dyn Watcher> = Arc::<Board>::clone(&board);
        let link = Link::connect_lazily(dialer, watcher, command_timeout);
        Self { board, link }
    }

    /// Sees to it that there is a connection, on the runtime of the caller if that of the
    /// one before is gone.
    pub(super) fn keep_up(&self) {
        // Without a runtime the next caller sees to it.
        drop(self.link.keep_up());
    }

    /// Tells `subscriber` what is heard from now on.
    pub(super) fn tell(&self, subscriber: Weak<dyn Subscriber>) {
        *self.board.subscriber.lock() = Some(subscriber);
    }

    pub(super) fn listen(&self, object: &Object) {
        self.board.table.lock().listen(object);
        self.board.changed.notify_one();
    }

    pub(super) fn unlisten(&self, object: &Object) {
        self.board.table.lock().unlisten(object);
        self.board.changed.notify_one();
    }

    /// What we may do about `name`.
    pub(super) fn rights(&self, object: &Object) -> Rights {
        self.board.table.lock().rights(object)
    }

    /// Notes that the server refuses us the queue of `name`.
    pub(super) fn queue_refused(&self, object: &Object) {
        if !self.rights(object).queue {
            return;
        }
        self.board.warn_once(Refused::Queue, object);
        self.board.table.lock().refused(object, Refused::Queue, Instant::now());
        self.board.changed.notify_one();
    }

    /// Whether releases of `name` reach us.
    pub(super) fn hears_releases(&self, object: &Object) -> bool {
        self.board.table.lock().hears_releases(object)
    }

    /// Whether there is a connection for them.
    pub(super) fn are_up(&self) -> bool {
        self.link.is_up()
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.link.reconnects()
    }
}

/// What is wanted and heard, in the hands of whoever carries the connection.
#[derive(Debug)]
pub(super) struct Board {
    table: Mutex<Table>,
    changed: Notify,
    /// Locked before the table by those who tell, and never by those who ask.
    subscriber: Mutex<Option<Weak<dyn Subscriber>>>,
    warned: Mutex<Vec<Refused>>,
}

impl Board {
    /// The board of the client called `client_id`.
    pub(super) fn of(client_id: &str) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::new(Table::of(client_id)),
            changed: Notify::new(),
            subscriber: Mutex::default(),
            warned: Mutex::default(),
        })
    }

    /// Commands are answered again.
    pub(super) fn back(&self) {
        self.table.lock().back();
        self.tell();
    }

    /// Tells what there is to be told, in order.
    fn tell(&self) {
        let subscriber = self.subscriber.lock();
        loop {
            let Some(event) = self.table.lock().next_event() else { return };
            if let Some(subscriber) = subscriber.as_ref().and_then(Weak::upgrade) {
                subscriber.hear(event);
            }
        }
    }

    /// Who may not do something still gets the lock, if later.
    fn warn_once(&self, what: Refused, object: &Object) {
        let mut warned = self.warned.lock();
        if warned.contains(&what) {
            return;
        }
        warned.push(what);
        drop(warned);
        match what {
            Refused::Queue => tracing::warn!(target: "leasehold", lock = %object.name,
                "the server refuses a queue of waiters: each release wakes them all"),
            Refused::OwnChannels => tracing::warn!(target: "leasehold", lock = %object.name,
                "the server refuses our own channels: waiters do not queue"),
            Refused::Releases => tracing::warn!(target: "leasehold", lock = %object.name,
                "the server refuses to send messages: waiters ask more often"),
        }
    }

    /// Asks the server for what is wanted, whenever that changes, as long as `wire` lives.
    async fn keep(&self, wire: &Wire) -> Infallible {
        let mut asked = FuturesUnordered::new();
        let (mut rests_until, mut sent_at) = (Instant::now(), Instant::now());
        loop {
            self.tell();
            let now = Instant::now();
            if rests_until <= now {
                let mut table = self.table.lock();
                table.forgive(now);
                for correction in table.corrections() {
                    asked.push(self.ask(wire, correction));
                    sent_at = now;
                }
            }
            tokio::select! {
                biased;
                Some(refusal) = asked.next() => {
                    // Of the server, for a while: any name would fare alike.
                    if refusal == Some(Refusal::Passing) {
                        rests_until = Instant::now() + RETRY;
                    }
                }
                () = self.changed.notified() => {}
                () = sleep_until(rests_until), if rests_until > now => {}
                () = sleep_until(sent_at + QUIET) => {
                    self.see_whether_it_lives(wire).await;
                    sent_at = Instant::now();
                }
            }
        }
    }

    /// Asks for one correction. Returns why it is not made: if it is, that was told before.
    async fn ask(&self, wire: &Wire, correction: Correction) -> Option<Refusal> {
        let verb = if correction.subscribe.is_some() { "SUBSCRIBE" } else { "UNSUBSCRIBE" };
        // Without an answer the connection is over, and nothing is heard on it.
        let Ok(Value::ServerError(error)) = wire.confirm(cmd(verb).arg(&correction.channels)).await
        else {
            return None;
        };
        let refusal = match error.code() {
            "NOPERM" => Refusal::Forbidden,
            _ => Refusal::Passing,
        };
        tracing::debug!(target: "leasehold", failure = %error, verb, "subscriptions refused");
        if let (Refusal::Forbidden, Some(object)) = (refusal, &correction.subscribe) {
            self.warn_once(correction.needs(), object);
        }
        self.table.lock().not_done(&correction, refusal, Instant::now());
        Some(refusal)
    }

    /// A connection on which nothing is sent may be gone without our knowing. Whether an
    /// answer comes is seen by those who carry it.
    async fn see_whether_it_lives(&self, wire: &Wire) {
        if !self.table.lock().is_quiet() {
            drop(wire.call(&cmd("PING")).await);
        }
    }
}

impl Watcher for Board {
    fn carries(&self) -> &'static str {
        "messages"
    }

    fn up(&self) {
        self.table.lock().begin();
    }

    fn attend<'a>(&'a self, wire: &'a Wire) -> BoxFuture<'a, Infallible> {
        Box::pin(self.keep(wire))
    }

    fn down(&self) {
        self.table.lock().end();
        self.tell();
    }

    fn pushed(&self, info: PushInfo) {
        let Some(Value::BulkString(channel)) = info.data.first() else { return };
        let Ok(channel) = std::str::from_utf8(channel) else { return };
        let mut table = self.table.lock();
        match info.kind {
            PushKind::Subscribe => table.confirmed(channel, true),
            PushKind::Unsubscribe => table.confirmed(channel, false),
            PushKind::Message => {
                if let Some(message) = info.data.get(1) {
                    table.heard(channel, message);
                }
            }
            _ => return,
        }
        drop(table);
        self.tell();
    }
}
