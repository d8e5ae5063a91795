//! The subscriptions of one client, on a connection of their own.
//!
//! [`Table`] knows what is wanted and what is confirmed, and is brought up to date by one
//! task. It lies behind one mutex, which is never held while somebody is told: events
//! are told in order under a second mutex, by the tasks of the store alone.

mod rights;
mod table;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{PushInfo, PushKind, Value, cmd};
use tokio::{
    runtime::Handle,
    sync::Notify,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

pub(super) use self::rights::{Refused, Rights};
use self::table::{Answer, Correction, Table};
use super::connection::{Dialer, Link, Watcher};
use crate::{domain::Name, error::Error, store::Subscriber};

/// How long nothing may be sent while we listen: then we see whether the other
/// side is still there.
const QUIET: Duration = Duration::from_secs(5);

/// How long to wait before what failed is asked for again.
const RETRY: Duration = Duration::from_millis(250);

/// The subscriptions of one client.
#[derive(Debug)]
pub(super) struct Subscriptions {
    board: Arc<Board>,
    link: Arc<Link>,
    task: Mutex<Option<AbortHandle>>,
}

impl Subscriptions {
    pub(super) async fn connect(
        board: Arc<Board>,
        dialer: Arc<Dialer>,
        command_timeout: Duration,
    ) -> Result<Self, Error> {
        let watcher: Arc<dyn Watcher> = Arc::<Board>::clone(&board);
        let link = Link::connect(dialer, watcher, command_timeout).await?;
        Ok(Self::on(link, board))
    }

    /// The same without a connection: it is made in the background.
    pub(super) fn connect_lazily(
        board: Arc<Board>,
        dialer: Arc<Dialer>,
        command_timeout: Duration,
    ) -> Self {
        let watcher: Arc<dyn Watcher> = Arc::<Board>::clone(&board);
        Self::on(Link::connect_lazily(dialer, watcher, command_timeout), board)
    }

    fn on(link: Link, board: Arc<Board>) -> Self {
        let subscriptions = Self { board, link: Arc::new(link), task: Mutex::default() };
        subscriptions.keep_up();
        subscriptions
    }

    /// Sees to it that the connection and the task are there, on the runtime of the
    /// caller if that of the ones before is gone.
    pub(super) fn keep_up(&self) {
        // Without a runtime the next caller sees to it.
        drop(self.link.keep_up());
        if self.board.kept.load(Ordering::Acquire) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if let Some(kept) = Kept::by(&self.board) {
            let task = runtime.spawn(keep(kept, Arc::clone(&self.link))).abort_handle();
            *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        }
    }

    /// Tells `subscriber` what is heard from now on.
    pub(super) fn tell(&self, subscriber: Weak<dyn Subscriber>) {
        *self.board.subscriber() = Some(subscriber);
    }

    pub(super) fn listen(&self, name: &Name) {
        self.board.table().listen(name);
        self.board.changed.notify_one();
    }

    pub(super) fn unlisten(&self, name: &Name) {
        self.board.table().unlisten(name);
        self.board.changed.notify_one();
    }

    /// What we may do about `name`.
    pub(super) fn rights(&self, name: &Name) -> Rights {
        self.board.table().rights(name)
    }

    /// Notes that the server refuses us the queue of `name`.
    pub(super) fn queue_refused(&self, name: &Name) {
        if !self.rights(name).queue {
            return;
        }
        self.board.warn_once(Refused::Queue, name);
        self.board.table().refused(name, Refused::Queue, Instant::now());
        self.board.changed.notify_one();
    }

    /// Whether releases of `name` reach us.
    pub(super) fn hears_releases(&self, name: &Name) -> bool {
        self.board.table().hears_releases(name)
    }

    /// Whether there is a connection for them.
    pub(super) fn are_up(&self) -> bool {
        self.link.is_up()
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.link.reconnects()
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        task.take().iter().for_each(AbortHandle::abort);
    }
}

/// What the task and the connections share.
#[derive(Debug)]
pub(super) struct Board {
    table: Mutex<Table>,
    changed: Notify,
    /// Locked before the table by those who tell, and never by those who ask.
    subscriber: Mutex<Option<Weak<dyn Subscriber>>>,
    warned: Mutex<Vec<Refused>>,
    /// Whether there is a task that keeps it.
    kept: AtomicBool,
}

/// The board, in the hands of the one task that keeps it.
struct Kept(Arc<Board>);

impl Kept {
    fn by(board: &Arc<Board>) -> Option<Self> {
        let taken = board.kept.swap(true, Ordering::AcqRel);
        (!taken).then(|| Self(Arc::clone(board)))
    }
}

impl Drop for Kept {
    /// Its runtime may have ended. What it asked for is asked for anew by the next one.
    fn drop(&mut self) {
        self.0.table().ask_anew();
        self.0.kept.store(false, Ordering::Release);
    }
}

impl Board {
    /// The board of the client called `client_id`.
    pub(super) fn of(client_id: &str) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::new(Table::of(client_id)),
            changed: Notify::new(),
            subscriber: Mutex::default(),
            warned: Mutex::default(),
            kept: AtomicBool::new(false),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscriber(&self) -> MutexGuard<'_, Option<Weak<dyn Subscriber>>> {
        self.subscriber.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commands are answered again.
    pub(super) fn back(&self) {
        self.table().back();
        self.tell();
    }

    /// Tells what there is to be told, in order.
    fn tell(&self) {
        let subscriber = self.subscriber();
        loop {
            let Some(event) = self.table().next_event() else { return };
            if let Some(subscriber) = subscriber.as_ref().and_then(Weak::upgrade) {
                subscriber.hear(event);
            }
        }
    }

    /// Who may not do something still gets the lock, if later.
    fn warn_once(&self, what: Refused, name: &Name) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.contains(&what) {
            return;
        }
        warned.push(what);
        drop(warned);
        match what {
            Refused::Queue => tracing::warn!(target: "leasehold", lock = %name,
                "the server refuses a queue of waiters: each release wakes them all"),
            Refused::Subscription => tracing::warn!(target: "leasehold", lock = %name,
                "the server refuses to send messages: waiters ask more often, or do not queue"),
        }
    }

    fn answered(&self, asked: &Correction, answer: Answer) {
        if let (Answer::Forbidden, Some(name)) = (&answer, &asked.subscribe) {
            self.warn_once(Refused::Subscription, name);
        }
        self.table().answered(asked, answer, Instant::now());
    }
}

impl Watcher for Board {
    fn carries(&self) -> &'static str {
        "messages"
    }

    fn up(&self) {
        self.table().begin();
        self.changed.notify_one();
    }

    fn down(&self) {
        self.table().end();
        self.tell();
        self.changed.notify_one();
    }

    fn pushed(&self, info: PushInfo) {
        let Some(Value::BulkString(channel)) = info.data.first() else { return };
        let Ok(channel) = std::str::from_utf8(channel) else { return };
        let mut table = self.table();
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

/// Asks the server for what is wanted, whenever that changes.
async fn keep(kept: Kept, link: Arc<Link>) {
    let board = &*kept.0;
    let mut asked: FuturesUnordered<BoxFuture<'_, (Correction, Answer)>> = FuturesUnordered::new();
    let mut rests_until = None;
    loop {
        board.tell();
        if rests_until.is_none_or(|until| until <= Instant::now()) {
            rests_until = None;
            board.table().forgive(Instant::now());
            for correction in board.table().corrections() {
                asked.push(Box::pin(ask(&link, correction)));
            }
        }
        let wakes_at = rests_until.unwrap_or_else(|| Instant::now() + QUIET);
        tokio::select! {
            biased;
            Some((correction, answer)) = asked.next() => {
                board.answered(&correction, answer);
                if answer == Answer::Failed {
                    rests_until = Some(Instant::now() + RETRY);
                }
            }
            () = board.changed.notified() => {}
            () = sleep_until(wakes_at), if rests_until.is_some() => {}
            () = sleep_until(wakes_at) => see_whether_it_lives(board, &link).await,
        }
    }
}

/// Asks for one correction.
async fn ask(link: &Link, correction: Correction) -> (Correction, Answer) {
    let verb = if correction.subscribe.is_some() { "SUBSCRIBE" } else { "UNSUBSCRIBE" };
    let answer = match link.confirm(cmd(verb).arg(&correction.channels)).await {
        Ok(Value::ServerError(error)) if error.code() == "NOPERM" => Answer::Forbidden,
        Ok(Value::ServerError(error)) => {
            tracing::debug!(target: "leasehold", failure = %error, verb, "subscriptions in doubt");
            Answer::Failed
        }
        Ok(_) => Answer::Done,
        Err(failure) => {
            tracing::debug!(target: "leasehold", %failure, verb, "subscriptions in doubt");
            Answer::Failed
        }
    };
    (correction, answer)
}

/// A connection on which nothing is sent may be gone without our knowing.
async fn see_whether_it_lives(board: &Board, link: &Link) {
    if board.table().is_quiet() {
        return;
    }
    if let Err(failure) = link.call(&cmd("PING")).await {
        // The link is made again, and then everything is asked for anew.
        tracing::debug!(target: "leasehold", %failure, verb = "PING", "subscriptions in doubt");
    }
}
