//! Listens to channels: what is wanted, what was asked for, what is confirmed.
//!
//! The server's own word is the only truth: a channel is heard from the push
//! that confirms it until the connection is lost.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::future::try_join_all;
use redis::{Cmd, PushInfo, PushKind, Value, cmd};
use tokio::{sync::Notify, task::AbortHandle, time::timeout};

use super::{
    connection::{Dialer, Link, Watcher},
    keys, replies,
};
use crate::{
    domain::Name,
    error::Error,
    store::{Sleepers, Wake},
};

/// How long nothing may be sent while we listen: then we see whether the other
/// side is still there.
const QUIET: Duration = Duration::from_secs(5);

/// The subscriptions of one client.
#[derive(Debug)]
pub(super) struct Messages {
    board: Arc<Board>,
    link: Arc<Link>,
    subscriber: AbortHandle,
}

impl Messages {
    pub(super) async fn connect(
        dialer: Arc<Dialer>,
        command_timeout: Duration,
        client_id: &str,
    ) -> Result<Self, Error> {
        let board = Arc::new(Board::of(client_id));
        let watcher: Arc<dyn Watcher> = Arc::<Board>::clone(&board);
        let link = Arc::new(Link::connect(dialer, watcher, command_timeout).await?);
        let keep = keep_subscribed(Arc::clone(&board), Arc::clone(&link));
        let subscriber = tokio::spawn(keep).abort_handle();
        Ok(Self { board, link, subscriber })
    }

    pub(super) fn tell(&self, sleepers: Weak<dyn Sleepers>) {
        self.board.table().sleepers = Some(sleepers);
    }

    /// Whether we hear what is meant for this client alone. From the first time that
    /// somebody wants to know, we try to.
    pub(super) fn attend(&self) -> bool {
        let mut table = self.board.table();
        let own = self.board.own.clone();
        let entry = table.channels.entry(own.clone()).or_insert_with(|| Channel::of(About::Us));
        let (heard, new) = (entry.heard, !entry.wanted);
        entry.wanted = true;
        if new {
            table.changed.insert(own);
        }
        drop(table);
        if new {
            self.board.changed.notify_one();
        }
        heard
    }

    pub(super) fn listen(&self, name: &Name) {
        let heard = {
            let mut table = self.board.table();
            let channel = keys::channel(name);
            table.changed.insert(channel.clone());
            let entry = table.channels.entry(channel).or_insert_with(|| {
                let queuers = keys::queuers(name);
                Channel::of(About::Lock { name: name.clone(), queuers })
            });
            entry.wanted = true;
            entry.heard
        };
        self.board.changed.notify_one();
        if heard {
            // Wanted again before it was given up.
            self.board.tell(Wake::Listening(name.clone()));
        }
    }

    pub(super) fn unlisten(&self, name: &Name) {
        let mut table = self.board.table();
        let channel = keys::channel(name);
        if let Some(entry) = table.channels.get_mut(&channel) {
            entry.wanted = false;
            table.changed.insert(channel);
        }
        drop(table);
        self.board.changed.notify_one();
    }

    /// Whether releases of `name` reach us.
    pub(super) fn hears(&self, name: &Name) -> bool {
        let channel = keys::channel(name);
        self.board.table().channels.get(&channel).is_some_and(|channel| channel.heard)
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.link.reconnects()
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.subscriber.abort();
    }
}

/// What is listened to.
#[derive(Debug)]
struct Board {
    /// The channel of this client.
    own: String,
    table: Mutex<Table>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    channels: HashMap<String, Channel>,
    /// Channels whose wish may differ from what was asked of the server.
    changed: BTreeSet<String>,
    /// Whether the server refuses us the channels that Redisson does not have.
    only_redissons: bool,
    sleepers: Option<Weak<dyn Sleepers>>,
}

#[derive(Debug)]
struct Channel {
    about: About,
    wanted: bool,
    /// Whether the server was asked for it.
    asked: bool,
    /// Whether the server has confirmed it.
    heard: bool,
}

/// What is told on a channel.
#[derive(Debug)]
enum About {
    /// Releases of a lock. Who hears them is counted on the other channel.
    Lock { name: Name, queuers: String },
    /// What is meant for this client alone.
    Us,
}

impl Channel {
    fn of(about: About) -> Self {
        Self { about, wanted: false, asked: false, heard: false }
    }

    fn name(&self) -> Option<&Name> {
        match &self.about {
            About::Lock { name, .. } => Some(name),
            About::Us => None,
        }
    }

    /// The channels to subscribe to together: all of them are heard, or none.
    fn subscription(&self, channel: &str, only_redissons: bool) -> Vec<String> {
        let mut channels = vec![channel.to_owned()];
        match &self.about {
            About::Lock { queuers, .. } if !only_redissons => channels.push(queuers.clone()),
            About::Us if only_redissons => channels.clear(),
            About::Lock { .. } | About::Us => {}
        }
        channels
    }
}

impl Board {
    fn of(client_id: &str) -> Self {
        let (table, changed) = (Mutex::default(), Notify::new());
        Self { own: keys::client(client_id), table, changed }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, wake: Wake) {
        let sleepers = self.table().sleepers.as_ref().and_then(Weak::upgrade);
        if let Some(sleepers) = sleepers {
            sleepers.wake(wake);
        }
    }

    /// What to ask of the server so that it does what is wanted.
    fn corrections(&self) -> Vec<Cmd> {
        let mut corrections = Vec::new();
        let mut table = self.table();
        let only_redissons = table.only_redissons;
        for name in std::mem::take(&mut table.changed) {
            let Some(channel) = table.channels.get_mut(&name) else { continue };
            let channels = channel.subscription(&name, only_redissons);
            match (channel.wanted, channel.asked) {
                _ if channels.is_empty() => {}
                (true, false) => {
                    channel.asked = true;
                    corrections.push(cmd("SUBSCRIBE").arg(channels).clone());
                }
                (false, true) => {
                    corrections.push(cmd("UNSUBSCRIBE").arg(channels).clone());
                    table.channels.remove(&name);
                }
                (false, false) => {
                    table.channels.remove(&name);
                }
                (true, true) => {}
            }
        }
        corrections
    }

    /// The server refuses a channel. If it is one of those that Redisson does not
    /// have, we can do without them.
    fn refused(&self) {
        let mut table = self.table();
        if std::mem::replace(&mut table.only_redissons, true) {
            return;
        }
        for channel in table.channels.values_mut() {
            channel.asked = channel.heard;
        }
        table.changed = table.channels.keys().cloned().collect();
        drop(table);
        self.changed.notify_one();
    }

    fn is_quiet(&self) -> bool {
        self.table().channels.is_empty()
    }
}

impl Watcher for Board {
    fn carries(&self) -> &'static str {
        "messages"
    }

    fn up(&self) {
        let mut table = self.table();
        table.changed = table.channels.keys().cloned().collect();
        drop(table);
        self.changed.notify_one();
    }

    fn down(&self) {
        for channel in self.table().channels.values_mut() {
            (channel.asked, channel.heard) = (false, false);
        }
        self.tell(Wake::Deaf);
    }

    fn pushed(&self, info: PushInfo) {
        let Some(Value::BulkString(channel)) = info.data.first() else { return };
        let Ok(channel) = std::str::from_utf8(channel) else { return };
        let wake = {
            let mut table = self.table();
            let Some(entry) = table.channels.get_mut(channel) else { return };
            match info.kind {
                PushKind::Subscribe => {
                    entry.heard = true;
                    entry.name().cloned().map(Wake::Listening)
                }
                PushKind::Message => match entry.name() {
                    Some(name) => Some(Wake::Released(name.clone())),
                    None => info.data.get(1).and_then(replies::news),
                },
                _ => None,
            }
        };
        if let Some(wake) = wake {
            self.tell(wake);
        }
    }
}

/// Asks the server for what is wanted, whenever that changes.
async fn keep_subscribed(board: Arc<Board>, link: Arc<Link>) {
    loop {
        let changed = timeout(QUIET, board.changed.notified()).await.is_ok();
        let corrections = board.corrections();
        let asked = match (corrections.is_empty(), changed || board.is_quiet()) {
            (false, _) => {
                let confirmed = corrections.iter().map(|command| link.confirm(command));
                try_join_all(confirmed).await.map(|replies| warn_of(&board, &replies))
            }
            (true, true) => Ok(()),
            (true, false) => link.call(&cmd("PING")).await.map(drop),
        };
        if let Err(failure) = asked {
            // The link is made again, and then everything is asked for anew.
            tracing::debug!(target: "leasehold", %failure, "subscriptions in doubt");
        }
    }
}

/// Who may not listen still gets the lock, but by asking more often.
fn warn_of(board: &Board, replies: &[Value]) {
    for reply in replies {
        if let Value::ServerError(error) = reply {
            board.refused();
            tracing::warn!(target: "leasehold", %error,
                "the server refuses to send messages or to stop: waiters ask more often");
        }
    }
}
