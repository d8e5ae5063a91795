//! The server itself: how it executes a command.
//!
//! All commands run under one lock, so a command and a script are atomic. A command passes these
//! steps: lookup, a check of the user's permissions and of faults, execution, reply, replication.
//! The table of commands is a parameter, so this folder does not depend on any command.

pub(super) mod blocked;
pub(super) mod clients;
pub(super) mod cluster;
pub(super) mod replica;
pub(super) mod spec;
pub(super) mod watch;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use fastrand::Rng;
use sha1_smol::Sha1;
use tokio::time::Instant;

use self::{
    clients::Clients,
    cluster::NodeState,
    replica::Replication,
    spec::{Call, Spec, Table},
    watch::Watched,
};
use super::{
    address::Address,
    data::Keyspace,
    faults::{Faults, Refusal},
    reply::{Answer, Protocol, Reply},
    traits::{HEARING, NO_AUTH, NO_SCRIPT, Traits, WRITE},
    users::User,
};

/// The start time of every run: microseconds since 1970.
const BEGINNING: i64 = 1_700_000_000_000_000;

/// The number of databases, the default of Redis.
const DATABASES: usize = 16;

/// A server, with its data and its clients.
pub(super) struct Core {
    pub(super) table: &'static Table,
    /// The address by which other servers know this server.
    pub(super) address: Address,
    databases: Vec<Keyspace>,
    clients: Clients,
    users: BTreeMap<String, User>,
    pub(super) scripts: BTreeMap<String, Arc<Script>>,
    pub(super) faults: Faults,
    pub(super) random: Rng,
    /// The run id.
    pub(super) run: u64,
    replication: Replication,
    /// The role of this server in a cluster, if the server is a node of a cluster.
    pub(super) cluster: Option<NodeState>,
    /// The primary that this server watches, if the server is a sentinel.
    pub(super) watched: Option<Arc<Watched>>,
    pub(super) calls: BTreeMap<&'static str, u64>,
    pub(super) watcher: Option<Watcher>,
    born: Instant,
    /// The start time of the current command. A script sees no other time.
    now: Instant,
    /// The start time in microseconds since 1970. No two commands have the same start time.
    moment: i64,
}

/// The observer of each command.
pub(super) type Watcher = Box<dyn FnMut(&Executed<'_>) + Send>;

/// A command that was executed.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let twin = leasehold_twin::Twin::new(7);
/// twin.watch(|executed| println!("{}: {}", executed.client, executed.command()));
/// # });
/// ```
#[derive(Clone, Copy)]
pub struct Executed<'a> {
    /// The id of the connection that sent the command.
    pub client: u64,
    /// Whether a script called the command.
    pub in_script: bool,
    words: &'a [&'a [u8]],
    reply: &'a Reply,
}

impl Executed<'_> {
    /// Returns the command in one line, with its arguments.
    pub fn command(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        words.join(" ")
    }

    /// Returns the reply, in RESP3.
    pub fn reply(&self) -> String {
        let mut bytes = Vec::new();
        self.reply.write(Protocol::Resp3, &mut bytes);
        String::from_utf8_lossy(&bytes).trim_end().replace("\r\n", " ")
    }
}

impl fmt::Debug for Executed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.client, self.command(), self.reply())
    }
}

/// A script, and the hash by which it is called.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) hash: String,
    pub(super) text: Vec<u8>,
}

thread_local! {
    /// The scripts that this thread has hashed. Each connection loads the same few scripts, so this
    /// cache saves most of the hashing.
    static KNOWN: RefCell<BTreeMap<Vec<u8>, Arc<Script>>> = RefCell::default();
}

impl Script {
    pub(super) fn of(text: &[u8]) -> Arc<Self> {
        let known = KNOWN.with_borrow(|known| known.get(text).cloned());
        known.unwrap_or_else(|| {
            let hash = Sha1::from(text).digest().to_string();
            let script = Arc::new(Self { hash, text: text.to_vec() });
            KNOWN.with_borrow_mut(|known| known.insert(text.to_vec(), Arc::clone(&script)));
            script
        })
    }
}

/// The state of a running script.
#[derive(Debug)]
pub(super) struct InScript {
    pub(super) client: u64,
    pub(super) db: usize,
    /// The faults that reject the first write of the script.
    pub(super) denied: Vec<Refusal>,
    /// Whether the script has written. After its first write, no fault rejects another one.
    pub(super) wrote: bool,
}

impl Core {
    pub(super) fn new(seed: u64, table: &'static Table) -> Self {
        let now = Instant::now();
        Self {
            table,
            address: Address::default(),
            databases: vec![Keyspace::default(); DATABASES],
            clients: Clients::default(),
            users: BTreeMap::from([("default".into(), User::everybody())]),
            scripts: BTreeMap::new(),
            faults: Faults::default(),
            random: Rng::with_seed(seed),
            run: Rng::with_seed(!seed).u64(..),
            replication: Replication::default(),
            cluster: None,
            watched: None,
            calls: BTreeMap::new(),
            watcher: None,
            born: now,
            now,
            moment: 0,
        }
    }

    /// Executes a command of a client.
    pub(super) fn serve(&mut self, client: u64, words: &[&[u8]]) {
        if words.is_empty() {
            return;
        }
        self.tick();
        self.moment = self.micros().max(self.moment + 1);
        let reply = self.obey(client, words).unwrap_or_else(|refused| refused);
        self.tell(client, words, &reply, false);
        self.say(client, &reply);
        self.feed();
        let written = self.offset();
        if let Some(client) = self.client(client) {
            client.written = written;
        }
    }

    fn obey(&mut self, id: u64, words: &[&[u8]]) -> Answer {
        let spec = spec::lookup(self.table, words)?;
        if !spec.takes(words.len()) {
            return Err(spec::wrong_arity(spec.name));
        }
        if let Err(refused) = self.admit(id, spec, words) {
            self.client(id).into_iter().for_each(|client| client.is_asking = false);
            return Err(refused);
        }
        let db = self.client(id).map_or(0, |client| client.db);
        let call = Call { words, client: id, db: db.into(), spec };
        let answer = self.run(&call);
        if let Some(client) = self.client(id) {
            client.db = call.db.get();
            client.is_asking = spec.name == "asking";
        }
        answer
    }

    /// Checks whether the command may run. The order of the checks is that of Redis.
    fn admit(&mut self, id: u64, spec: &Spec, words: &[&[u8]]) -> Result<(), Reply> {
        if !spec.is(NO_AUTH) && !self.is_logged_in(id) {
            return Err(Reply::error("NOAUTH Authentication required."));
        }
        if let Some(barrier) = self.barrier(id, spec, words) {
            let name = spec.name;
            return Err(Reply::error(match barrier {
                Barrier::Command => {
                    format!("NOPERM this user has no permissions to run the '{name}' command")
                }
                Barrier::Key => NO_KEY.into(),
                Barrier::Channel => NO_CHANNEL.into(),
            }));
        }
        if let Some(words) = self.faults.failing.as_ref().filter(|_| !spec.is(NO_AUTH)) {
            return Err(Reply::error(words.clone()));
        }
        self.redirect(id, spec, words).map_err(Reply::from)?;
        if let Some(refusal) = self.refusal(spec.traits) {
            return Err(Reply::error(refusal.words()));
        }
        self.admit_subscriber(id, spec)
    }

    /// Checks whether a subscriber may run the command. In RESP2, a subscriber may run only a few
    /// commands.
    fn admit_subscriber(&mut self, id: u64, spec: &Spec) -> Result<(), Reply> {
        let new = self.client(id).is_some_and(|client| client.protocol == Protocol::Resp3);
        if new || spec.is(HEARING) || !self.listens(id) {
            return Ok(());
        }
        Err(Reply::error(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context",
            spec.name
        )))
    }

    /// Returns the missing permission, if one is missing.
    fn barrier(&mut self, id: u64, spec: &Spec, words: &[&[u8]]) -> Option<Barrier> {
        let user = self.clients.user_of(id).and_then(|user| self.users.get(user));
        let user = user.filter(|_| !spec.is(NO_AUTH))?;
        if !user.may_run(spec.name, spec.traits) {
            return Some(Barrier::Command);
        }
        if !spec.keys(words).iter().all(|key| user.may_touch(key)) {
            return Some(Barrier::Key);
        }
        let received = spec.channels(words).iter().all(|channel| user.may_receive(channel));
        (!received).then_some(Barrier::Channel)
    }

    /// Returns the fault that rejects a command with these traits now, if there is one.
    fn refusal(&mut self, traits: Traits) -> Option<Refusal> {
        self.refusals().into_iter().find(|refusal| refusal.hits(traits))
    }

    /// Decides at random which faults affect this command, among those that the test has set. A
    /// replica always rejects writes.
    fn refusals(&mut self) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        for (refusal, per_mille) in &self.faults.refusals {
            if self.random.u32(..1_000) < *per_mille {
                refusals.push(*refusal);
            }
        }
        if self.is_replica() {
            refusals.push(Refusal::ReadOnly);
        }
        refusals
    }

    /// Runs a command that has passed all checks.
    fn run(&mut self, call: &Call<'_>) -> Answer {
        *self.calls.entry(call.spec.name).or_default() += 1;
        let db = call.db.get();
        let answer = (call.spec.run)(self, call);
        if call.spec.is(WRITE) && answer.is_ok() {
            self.note_keys(db, call.spec.keys(call.words));
        }
        answer
    }

    /// Begins the script that `call` runs.
    pub(super) fn begin_script(&mut self, call: &Call<'_>) -> InScript {
        let denied = self.refusals().into_iter().filter(|refusal| refusal.is_about_writes());
        let denied = denied.collect();
        InScript { client: call.client, db: call.db.get(), denied, wrote: false }
    }

    /// Executes a command of a script.
    pub(super) fn serve_script(&mut self, script: &mut InScript, words: &[&[u8]]) -> Reply {
        let reply = self.obey_script(script, words).unwrap_or_else(|refused| refused);
        self.tell(script.client, words, &reply, true);
        reply
    }

    fn obey_script(&mut self, script: &mut InScript, words: &[&[u8]]) -> Answer {
        let unknown = |_| Reply::error("ERR Unknown Redis command called from script");
        let spec = spec::lookup(self.table, words).map_err(unknown)?;
        if !spec.takes(words.len()) {
            return Err(Reply::error("ERR Wrong number of args calling Redis command from script"));
        }
        if spec.is(NO_SCRIPT) {
            return Err(Reply::error("ERR This Redis command is not allowed from script"));
        }
        if let Some(barrier) = self.barrier(script.client, spec, words) {
            return Err(Reply::error(barrier.in_script()));
        }
        if let Err(redirect) = self.redirect(script.client, spec, words) {
            return Err(Reply::error(redirect.in_script()));
        }
        let denied = script.denied.iter().find(|refusal| refusal.hits(spec.traits));
        if let Some(denied) = denied.filter(|_| !script.wrote) {
            return Err(Reply::error(denied.words()));
        }
        script.wrote |= spec.is(WRITE);
        let call = Call { words, client: script.client, db: script.db.into(), spec };
        let answer = self.run(&call);
        script.db = call.db.get();
        answer
    }

    fn tell(&mut self, client: u64, words: &[&[u8]], reply: &Reply, in_script: bool) {
        if let Some(watcher) = &mut self.watcher {
            watcher(&Executed { client, in_script, words, reply });
        }
    }
}

/// A missing permission.
#[derive(Clone, Copy, Debug)]
enum Barrier {
    Command,
    Key,
    Channel,
}

const NO_KEY: &str =
    "NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_CHANNEL: &str =
    "NOPERM this user has no permissions to access one of the channels used as arguments";

impl Barrier {
    const fn in_script(self) -> &'static str {
        match self {
            Self::Command => {
                "ERR The user executing the script can't run this command or subcommand"
            }
            Self::Key => {
                "ERR The user executing the script can't access at least one of the keys mentioned \
                 in the command arguments"
            }
            Self::Channel => {
                "ERR The user executing the script can't publish to the channel mentioned in the \
                 command"
            }
        }
    }
}

/// Users.
impl Core {
    pub(super) fn user(&self, name: &str) -> User {
        self.users.get(name).cloned().unwrap_or_default()
    }

    pub(super) fn is_logged_in(&mut self, id: u64) -> bool {
        let open = self.users.get("default").is_some_and(User::is_open);
        open || self.client(id).is_some_and(|client| client.logged_in)
    }

    pub(super) fn log_in(&mut self, id: u64, user: &str, password: &str) -> Answer {
        if !self.user(user).admits(password) {
            let words = "WRONGPASS invalid username-password pair or user is disabled.";
            return Err(Reply::error(words));
        }
        if let Some(client) = self.client(id) {
            (client.user, client.logged_in) = (user.into(), true);
        }
        Ok(Reply::OK)
    }

    /// Changes a user's permissions. Disconnects subscribers that lose the permission for a
    /// channel. If one rule is invalid, no rule is applied.
    pub(super) fn set_user<'a>(
        &mut self,
        name: &str,
        rules: impl Iterator<Item = &'a str>,
    ) -> Result<(), Reply> {
        let mut user = self.user(name);
        for rule in rules {
            user.apply(rule, &|command| spec::exists(self.table, command)).map_err(|why| {
                Reply::error(format!("ERR Error in ACL SETUSER modifier '{rule}': {why}"))
            })?;
        }
        let deaf = |channel: &String| !user.may_receive(channel.as_bytes());
        for connection in self.connections() {
            if connection.user == name && connection.channels.iter().any(deaf) {
                self.leave(connection.id);
            }
        }
        self.users.insert(name.into(), user);
        Ok(())
    }
}

/// Data and time.
impl Core {
    pub(super) fn database(&mut self, number: usize) -> &mut Keyspace {
        &mut self.databases[number]
    }

    pub(super) fn databases(&self) -> usize {
        self.databases.len()
    }

    /// Forgets all data.
    pub(super) fn clear(&mut self) {
        self.restore(vec![Keyspace::default(); DATABASES]);
    }

    pub(super) fn snapshot(&self) -> Vec<Keyspace> {
        self.databases.clone()
    }

    pub(super) fn restore(&mut self, databases: Vec<Keyspace>) {
        self.databases = databases;
        self.note_everything();
    }

    /// Reads the clock at the start of a step, such as a command.
    pub(super) fn tick(&mut self) {
        self.now = Instant::now();
    }

    pub(super) fn instant(&self) -> Instant {
        self.now
    }

    /// Returns the time that decides about TTLs, in milliseconds since 1970. If a test moves the
    /// clock of `TIME`, this time does not change.
    pub(super) fn now(&self) -> i64 {
        self.micros().div_euclid(1_000)
    }

    /// Returns the time on the clock of the server, in microseconds since 1970.
    pub(super) fn clock(&self) -> i64 {
        self.micros().max(self.moment).saturating_add(self.faults.step)
    }

    fn micros(&self) -> i64 {
        let passed = self.now.duration_since(self.born).as_micros();
        BEGINNING.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeSet<_> = self.users.keys().collect();
        f.debug_struct("Core")
            .field("faults", &self.faults)
            .field("users", &names)
            .finish_non_exhaustive()
    }
}
