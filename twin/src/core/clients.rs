//! The clients: their outgoing bytes and their subscriptions.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    task::Waker,
};

use tokio::time::Instant;

use super::Core;
use crate::{
    faults::Cut,
    reply::{Protocol, Reply},
};

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    host: String,
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) logged_in: bool,
    pub(crate) protocol: Protocol,
    pub(crate) db: usize,
    channels: BTreeMap<Scope, BTreeSet<Vec<u8>>>,
    /// The bytes in transit to the client, and when they arrive.
    outbox: VecDeque<(Instant, Vec<u8>)>,
    /// How the connection was cut. `None` if it was not cut.
    pub(crate) cut: Option<Cut>,
    waker: Option<Waker>,
    /// The replication offset after the last command of the client.
    pub(crate) written: u64,
    pub(crate) blocked: Option<Wait>,
    /// Whether the last command was `ASKING`, which admits a command for an importing slot.
    pub(crate) is_asking: bool,
    /// Whether the client has sent `READONLY`, to read from a replica.
    pub(crate) reads_replicas: bool,
    /// Whether the server disconnects the client as soon as the client has all replies.
    pub(crate) is_ending: bool,
}

/// The condition that a client waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// How many replicas must have reached `offset`.
    pub(crate) least: i64,
    pub(crate) offset: u64,
    pub(crate) until: Option<Instant>,
}

/// A connection as a test sees it.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use leasehold_twin::{Cut, Twin};
///
/// let twin = Twin::new(7);
/// let _stream = twin.connect().await;
/// assert_eq!(twin.cut(Cut::Whole, |connection| connection.channels.is_empty()), 1);
/// # });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Connection {
    /// The id that the server has given to the connection.
    pub id: u64,
    /// The [`Host`](crate::Host) that the connection comes from, or an empty text.
    pub host: String,
    /// The name of the connection, or an empty text.
    pub name: String,
    /// The user that the client has logged in as.
    pub user: String,
    /// The channels to which the client is subscribed.
    pub channels: Vec<String>,
}

/// Which nodes receive the messages of a channel.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Scope {
    /// All nodes of a cluster.
    Plain,
    /// The nodes that have the slot of the channel.
    Sharded,
}

type Channel = (Scope, Vec<u8>);

impl Scope {
    const fn of_message(self) -> &'static str {
        match self {
            Self::Plain => "message",
            Self::Sharded => "smessage",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Clients {
    by_id: BTreeMap<u64, Client>,
    last: u64,
    by_channel: BTreeMap<Channel, BTreeSet<u64>>,
}

impl Client {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Sets the waker that is woken when bytes arrive.
    pub(crate) fn attend(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// Appends the bytes that have arrived by `now` to `bytes`.
    pub(crate) fn take(&mut self, now: Instant, bytes: &mut Vec<u8>) {
        while let Some((due, _)) = self.outbox.front()
            && *due <= now
        {
            let (_, arrived) = self.outbox.pop_front().unwrap_or_else(|| (now, vec![]));
            if bytes.is_empty() {
                *bytes = arrived;
            } else {
                bytes.extend_from_slice(&arrived);
            }
        }
    }

    /// Returns when the next bytes in transit arrive.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.outbox.front().map(|(due, _)| *due)
    }

    fn send(&mut self, due: Instant, reply: &Reply) {
        let last = self.outbox.back_mut();
        let due = last.as_ref().map_or(due, |(before, _)| due.max(*before));
        match last {
            Some((before, bytes)) if *before == due => reply.write(self.protocol, bytes),
            _ => {
                let mut bytes = Vec::new();
                reply.write(self.protocol, &mut bytes);
                self.outbox.push_back((due, bytes));
            }
        }
    }

    /// Returns the number of subscriptions of a scope.
    fn count(&self, scope: Scope) -> usize {
        self.channels.get(&scope).map_or(0, BTreeSet::len)
    }

    fn seen(&self, id: u64) -> Connection {
        let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
        let channels = self.channels.values().flatten().map(text).collect();
        let (host, name, user) = (self.host.clone(), self.name.clone(), self.user.clone());
        Connection { id, host, name, user, channels }
    }
}

impl Core {
    /// Adds a client, and returns its id.
    pub(crate) fn join(&mut self, host: &str) -> u64 {
        let client = Client {
            host: host.into(),
            name: String::new(),
            user: "default".into(),
            logged_in: self.user("default").is_open(),
            protocol: Protocol::default(),
            db: 0,
            channels: BTreeMap::new(),
            outbox: VecDeque::new(),
            cut: None,
            waker: None,
            written: 0,
            blocked: None,
            is_asking: false,
            reads_replicas: false,
            is_ending: false,
        };
        self.clients.last += 1;
        self.clients.by_id.insert(self.clients.last, client);
        self.clients.last
    }

    /// Removes a client that has disconnected, or that the server disconnects.
    pub(crate) fn leave(&mut self, id: u64) {
        for scope in [Scope::Plain, Scope::Sharded] {
            for channel in self.subscribed_by(id, scope) {
                self.unsubscribe(id, scope, &channel);
            }
        }
        if let Some(mut client) = self.clients.by_id.remove(&id) {
            client.wake();
        }
    }

    pub(crate) fn client(&mut self, id: u64) -> Option<&mut Client> {
        self.clients.by_id.get_mut(&id)
    }

    pub(crate) fn connected(&self) -> usize {
        self.clients.by_id.len()
    }

    pub(crate) fn connections(&self) -> Vec<Connection> {
        self.clients.by_id.iter().map(|(id, client)| client.seen(*id)).collect()
    }

    pub(crate) fn cut(&mut self, id: u64, cut: Cut) {
        if cut == Cut::Whole {
            return self.leave(id);
        }
        if let Some(client) = self.client(id) {
            client.cut = Some(cut);
            client.outbox.clear();
            client.wake();
        }
    }

    /// Wakes every client, in random order.
    pub(crate) fn wake_all(&mut self) {
        let mut all: Vec<_> = self.clients.by_id.values_mut().collect();
        self.random.shuffle(&mut all);
        all.into_iter().for_each(Client::wake);
    }

    /// Sends a reply to a client, if the client is still connected.
    pub(crate) fn say(&mut self, id: u64, reply: &Reply) {
        let delay = self.faults.replies.draw(&mut self.random);
        let due = self.instant() + delay;
        let Some(client) = self.client(id) else { return };
        if client.cut.is_none() && *reply != Reply::Said {
            client.send(due, reply);
            client.wake();
        }
    }

    /// Publishes to all subscribers of a channel, and returns their number. If the server loses
    /// messages, some subscribers do not receive this message.
    pub(crate) fn publish(&mut self, scope: Scope, channel: &[u8], message: &[u8]) -> usize {
        self.note_message(scope, channel, message);
        self.deliver(scope, channel, message)
    }

    /// Like [`publish`](Self::publish), but does not send the message to other servers.
    pub(crate) fn deliver(&mut self, scope: Scope, channel: &[u8], message: &[u8]) -> usize {
        let hearers: Vec<u64> = self.listeners(scope, channel).collect();
        let words = [scope.of_message().as_bytes(), channel, message];
        let message = Reply::Push(words.map(Reply::bulk).into());
        for id in &hearers {
            let lost = self.faults.lost;
            if lost == 0 || self.random.u32(..1_000) >= lost {
                self.say(*id, &message);
            }
        }
        hearers.len()
    }

    /// Subscribes, and returns the number of channels of the client.
    pub(crate) fn subscribe(&mut self, id: u64, scope: Scope, channel: &[u8]) -> usize {
        self.clients.by_channel.entry((scope, channel.to_vec())).or_default().insert(id);
        let Some(client) = self.client(id) else { return 0 };
        client.channels.entry(scope).or_default().insert(channel.to_vec());
        client.count(scope)
    }

    /// Unsubscribes, and returns the number of remaining channels of the client.
    pub(crate) fn unsubscribe(&mut self, id: u64, scope: Scope, channel: &[u8]) -> usize {
        let key = (scope, channel.to_vec());
        if let Some(hearers) = self.clients.by_channel.get_mut(&key) {
            hearers.remove(&id);
            if hearers.is_empty() {
                self.clients.by_channel.remove(&key);
            }
        }
        let Some(client) = self.client(id) else { return 0 };
        if let Some(channels) = client.channels.get_mut(&scope) {
            channels.remove(channel);
        }
        client.count(scope)
    }

    /// Returns whether the client is subscribed to any channel.
    pub(crate) fn listens(&self, id: u64) -> bool {
        let client = self.clients.by_id.get(&id);
        client.is_some_and(|client| client.channels.values().any(|names| !names.is_empty()))
    }

    pub(crate) fn subscribed_by(&self, id: u64, scope: Scope) -> Vec<Vec<u8>> {
        let client = self.clients.by_id.get(&id);
        let names = client.and_then(|client| client.channels.get(&scope));
        names.into_iter().flatten().cloned().collect()
    }

    pub(crate) fn listeners(&self, scope: Scope, channel: &[u8]) -> impl Iterator<Item = u64> {
        let found = self.clients.by_channel.get(&(scope, channel.to_vec()));
        found.into_iter().flatten().copied()
    }

    pub(crate) fn channels(&self, scope: Scope) -> impl Iterator<Item = &Vec<u8>> {
        let of_kind = move |(it, _): &&Channel| *it == scope;
        self.clients.by_channel.keys().filter(of_kind).map(|(_, name)| name)
    }
}

impl Clients {
    pub(super) fn all(&self) -> impl Iterator<Item = (&u64, &Client)> {
        self.by_id.iter()
    }

    /// Returns the user that a client has logged in as.
    pub(super) fn user_of(&self, id: u64) -> Option<&str> {
        self.by_id.get(&id).map(|client| client.user.as_str())
    }
}
