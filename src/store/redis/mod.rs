//! Redis as the store: of each server one connection for commands, one for messages, and where
//! replicas are asked one for that.

mod channels;
mod connection;
#[cfg(test)]
mod deployments;
mod granted;
mod guarded;
mod keys;
mod latch;
mod lock;
#[cfg(feature = "testing")]
pub(crate) mod memory;
#[cfg(test)]
mod moving_names;
mod permits;
mod read_write;
mod renewals;
mod replies;
mod scripts;
mod semaphore;
#[cfg(test)]
mod simulated;
mod slots;
mod subscriptions;
mod synced;
mod topology;
mod warnings;
mod watcher;

use std::{sync::Weak, time::Duration};

use redis::{Cmd, Value, cmd};
use tokio::{runtime::Handle, time::Instant};

#[cfg(any(test, feature = "testing"))]
pub(crate) use self::connection::Connector;
pub(crate) use self::connection::{Credentials, Settings, Translation};
use self::{
    channels::Channels,
    connection::{Dialer, Preload, Servers, Target},
    granted::Granted,
    scripts::Script,
    topology::{Call, Topology},
};
use super::{
    Answer, Store, Subscriber,
    questions::{Questions, unsupported},
};
use crate::{
    domain::{
        About, Change, Claim, Counts, Failure, Finding, GivenBack, Holder, Kind, Name, Object,
        Outcome, Owner, PermitId, Place, ReleaseMode, Renewal, Replicas, Seldom, Taken,
        Value as Returned, Verdict, Work, checked,
    },
    error::Error,
};

/// Redis: a server, or a cluster of them.
#[derive(Debug)]
pub(crate) struct RedisStore {
    topology: Topology,
    /// Questions for permits of which nobody has said how many there are.
    unset: Seldom,
}

impl RedisStore {
    /// Connects to the servers at `url` for the client called `client_id`.
    pub(crate) async fn connect(
        url: &str,
        settings: &Settings,
        client_id: &str,
    ) -> Result<Self, Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let limit = limit(settings)?;
        let topology = match connection::servers(url, settings)? {
            Servers::One(target) => {
                let dialer = dialer(target, settings, client_id)?;
                Topology::one(dialer, client_id, limit).await?
            }
            Servers::Cluster(seeds) => Topology::cluster(seeds, settings, client_id, limit).await?,
        };
        Ok(Self { topology, unset: Seldom::default() })
    }

    /// Connects to a simulated server.
    #[cfg(test)]
    pub(crate) async fn connect_by(
        connector: Connector,
        settings: &Settings,
        client_id: &str,
    ) -> Result<Self, Error> {
        let settings = Settings { connector: Some(connector), ..settings.clone() };
        Self::connect("redis://made-by-a-test", &settings, client_id).await
    }

    /// The same with default settings and without a connection: it is made in the background.
    #[cfg(feature = "testing")]
    pub(crate) fn simulated(connector: Connector, client_id: &str) -> Self {
        let (settings, preloads) = (Settings::default(), preloads(Channels::Plain));
        let dialer = Dialer::simulated(connector, &settings, client_id, preloads);
        let topology = Topology::one_lazily(dialer, client_id, settings.command_timeout);
        Self { topology, unset: Seldom::default() }
    }

    /// The same without a connection: it is made in the background.
    pub(crate) fn connect_lazily(
        url: &str,
        settings: &Settings,
        client_id: &str,
    ) -> Result<Self, Error> {
        let limit = limit(settings)?;
        let topology = match connection::servers(url, settings)? {
            Servers::One(target) => {
                let dialer = dialer(target, settings, client_id)?;
                Topology::one_lazily(dialer, client_id, limit)
            }
            Servers::Cluster(seeds) => Topology::cluster_lazily(seeds, settings, client_id, limit)?,
        };
        Ok(Self { topology, unset: Seldom::default() })
    }

    /// Runs `script` on `keys`, with the arguments that `more` adds.
    async fn run(
        &self,
        script: &Script<impl AsRef<str> + Sync>,
        keys: &[impl AsRef<[u8]> + Sync],
        more: impl Fn(&mut Cmd) + Sync,
    ) -> Result<Value, Failure> {
        self.run_or_tell(script, keys, more, false).await
    }

    /// The same about several names, which is told at once if they lie on two nodes: each can be
    /// asked about alone.
    async fn run_together(
        &self,
        script: &Script<impl AsRef<str> + Sync>,
        keys: &[impl AsRef<[u8]> + Sync],
        more: impl Fn(&mut Cmd) + Sync,
    ) -> Result<Value, Failure> {
        self.run_or_tell(script, keys, more, keys.len() > 1).await
    }

    /// The same, for who may have another question if the keys lie on two nodes, as they do
    /// while their slot is on its way: then it is told so at once.
    async fn run_or_tell(
        &self,
        script: &Script<impl AsRef<str> + Sync>,
        keys: &[impl AsRef<[u8]> + Sync],
        more: impl Fn(&mut Cmd) + Sync,
        tells_split: bool,
    ) -> Result<Value, Failure> {
        let complete = |mut command: Cmd| {
            for key in keys {
                command.arg(key.as_ref());
            }
            more(&mut command);
            command
        };
        let by_hash = |channels| complete(script.by_hash(keys.len(), channels));
        let by_text = |channels| complete(script.by_text(keys.len(), channels));
        let reply = match &self.topology {
            Topology::One(one) => {
                let mut reply = one.commands().call(&by_hash(Channels::Plain)).await?;
                if replies::is_no_script(&reply) {
                    // The server was restarted, failed over or told to forget.
                    let command = by_text(Channels::Plain);
                    reply = Box::pin(one.commands().call(&command)).await?;
                }
                reply
            }
            Topology::Cluster(cluster) => {
                let key = keys.first().map(AsRef::as_ref).unwrap_or_default();
                let (by_hash, by_text, publishes) = (&by_hash, &by_text, script.publishes());
                let call = Call { key, by_hash, by_text, tells_split, publishes };
                Box::pin(async move { cluster.run(&call).await }).await?
            }
        };
        match reply {
            Value::ServerError(error) => {
                let said = format!("{} {}", error.code(), error.details().unwrap_or_default());
                let command = script.command_at(&said);
                Err(replies::naming_keys(replies::refusal(&error).naming(command), keys))
            }
            reply => Ok(reply),
        }
    }

    /// Asks one command about `name`; a key of another type is named.
    async fn ask_about(
        &self,
        name: &Name,
        verb: &'static str,
        arguments: &[&str],
    ) -> Result<Value, Failure> {
        let key = arguments.first().copied().unwrap_or_default().as_bytes();
        let answer = match self.topology.call(key, cmd(verb).arg(arguments)).await? {
            Value::ServerError(error) => {
                let refused = replies::refusal(&error).naming(Some(verb));
                Err(replies::naming_keys(refused, &arguments[..1]))
            }
            reply => Ok(reply),
        };
        self.explained(name, answer).await
    }

    /// The number under `name`, 0 if there is none.
    async fn number_at(&self, name: &Name) -> Result<i64, Failure> {
        replies::number_there(&self.ask_about(name, "GET", &[name.as_str()]).await?)
    }

    /// What is in the way of permits of `name`, by the script that refused them.
    fn taken(&self, name: &Name, millis: i64) -> Taken {
        const UNSET: i64 = -2;
        let unset = millis == UNSET;
        if unset && let Some(times) = self.unset.once_more(Instant::now()) {
            tracing::warn!(target: "leasehold", lock = %name, times,
                "nobody has said how many permits there are: call set_if_absent");
        }
        let at_most = u64::try_from(millis).ok().map(Duration::from_millis);
        Taken { at_most, unset, ..Taken::UNKNOWN }
    }

    /// As [`run`](Self::run) on one name; a key of another type is named.
    async fn run_on(
        &self,
        name: &Name,
        script: &Script,
        more: impl Fn(&mut Cmd) + Sync,
    ) -> Result<Value, Failure> {
        let answer = self.run(script, &[name.as_str()], more).await;
        self.explained(name, answer).await
    }

    /// Says what lies under `name` if it is of the wrong type.
    async fn explained<T>(&self, name: &Name, answer: Result<T, Failure>) -> Result<T, Failure> {
        match answer {
            Err(Failure::Refused { code, .. }) if code == "WRONGTYPE" => {
                let mut command = cmd("TYPE");
                command.arg(name.as_str());
                let asked = self.topology.call(name.as_str().as_bytes(), &command);
                let found = Box::pin(asked).await?;
                Err(Failure::WrongType { found: replies::into_text(&found) })
            }
            Err(Failure::Refused { code, .. }) if code == replies::NO_NUMBER => {
                Err(replies::no_number())
            }
            answer => answer,
        }
    }
}

impl RedisStore {
    /// Passes `answer` on; what was said of `object` meanwhile where nobody listens is said
    /// again.
    fn saying_again<'a, T: Send + 'a>(
        &'a self,
        object: &'a Object,
        answer: Answer<'a, T>,
    ) -> Answer<'a, T> {
        match &self.topology {
            Topology::One(_) => answer,
            Topology::Cluster(_) => Box::pin(async move {
                let answer = answer.await;
                if self.topology.is_to_be_said_again(object) {
                    self.say_again(object).await;
                }
                answer
            }),
        }
    }

    /// Has those ask who wait for `object`. That it could not be said costs them time alone.
    async fn say_again(&self, object: &Object) {
        let Ok(channels) = self.topology.channels().await else { return };
        let Some(words) = self.words_again(object).await else { return };
        let mut say = cmd(channels.publish());
        say.arg(channel_of(object)).arg(words);
        let said = self.topology.call(object.name.as_str().as_bytes(), &say).await;
        tracing::debug!(target: "leasehold", lock = %object.name, ?said,
            "said again: its slot is on its way");
    }

    /// What has Redisson's waiters ask as well, and tells them nothing that is not so.
    async fn words_again(&self, object: &Object) -> Option<&'static str> {
        match object.kind {
            Kind::Lock => Some("0"),
            // Each who waits.
            Kind::Read | Kind::Write => Some("1"),
            Kind::Semaphore | Kind::Permits => Some("100"),
            // They do not ask: they believe it.
            Kind::Latch => {
                let open = self.number_at(&object.name).await.is_ok_and(|count| count <= 0);
                open.then_some("0")
            }
        }
    }
}

/// A kind of object in Redis: its questions, and where it is heard of.
trait InRedis: Questions<RedisStore> {
    /// Where releases of `name` are announced.
    fn channel(&self, name: &Name) -> String;

    /// How to ask about what was granted by `claim`. `None` if nothing ever is.
    fn granted(&self, _claim: &Claim) -> Option<Granted> {
        None
    }
}

impl RedisStore {
    /// Who answers for this kind. Nothing else here tells one from another.
    fn of(kind: Kind) -> &'static dyn InRedis {
        match kind {
            Kind::Lock => &lock::Locks,
            Kind::Read => &read_write::Readers,
            Kind::Write => &read_write::Writers,
            Kind::Semaphore => &semaphore::Semaphores,
            Kind::Latch => &latch::Latches,
            Kind::Permits => &permits::Permits,
        }
    }
}

/// All scripts that can be loaded when a connection is made, as they speak on these channels.
fn preloads(channels: Channels) -> Vec<Preload> {
    let all = [
        lock::SCRIPTS,
        guarded::SCRIPTS,
        semaphore::SCRIPTS,
        latch::SCRIPTS,
        read_write::SCRIPTS,
        permits::SCRIPTS,
    ];
    scripts::preloads(&all, channels)
}

/// There are no more kinds than this.
const KINDS: u32 = 8;

/// Where releases of `object` are announced.
fn channel_of(object: &Object) -> String {
    RedisStore::of(object.kind).channel(&object.name)
}

/// How to reach one server.
fn dialer(target: Target, settings: &Settings, client_id: &str) -> Result<Dialer, Error> {
    Dialer::new(target, settings, client_id, preloads(Channels::Plain))
}

/// How long a command may take.
fn limit(settings: &Settings) -> Result<Duration, Error> {
    checked("connect_timeout", settings.connect_timeout)?;
    Ok(checked("command_timeout", settings.command_timeout)?)
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, claim: &'a Claim, place: Option<Place>) -> Answer<'a, Verdict> {
        Self::of(claim.object.kind).acquire(self, claim, place)
    }

    fn acquire_beside<'a>(&'a self, claim: &'a Claim, writer: &'a Owner) -> Answer<'a, Verdict> {
        Self::of(claim.object.kind).acquire_beside(self, claim, writer)
    }

    fn recount<'a>(
        &'a self,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        Self::of(claim.object.kind).recount(self, claim, count, ttl)
    }

    fn release<'a>(&'a self, claim: &'a Claim, mode: ReleaseMode) -> Answer<'a, GivenBack> {
        self.saying_again(&claim.object, Self::of(claim.object.kind).release(self, claim, mode))
    }

    /// Of one kind, and in a cluster of one slot: a script may not name two. A node that hangs puts
    /// only its own holds in doubt, also if it is importing the slot.
    fn group(&self, object: &Object) -> u32 {
        object.kind as u32 + KINDS * self.topology.group(object)
    }

    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        Box::pin(self.renew_or_halve(renewals))
    }

    fn replicated<'a>(&'a self, claim: &'a Claim, replicas: Replicas) -> Answer<'a, u32> {
        match Self::of(claim.object.kind).granted(claim) {
            Some(granted) => Box::pin(self.topology.replicated(claim, granted, replicas)),
            None => unsupported(&claim.object),
        }
    }

    fn guarded<'a>(&'a self, claim: &'a Claim, work: &'a Work) -> Answer<'a, Option<Returned>> {
        Self::of(claim.object.kind).guarded(self, claim, work)
    }

    fn holder<'a>(&'a self, object: &'a Object) -> Answer<'a, Option<Holder>> {
        Self::of(object.kind).holder(self, object)
    }

    fn held_by<'a>(&'a self, object: &'a Object, owner: &'a Owner) -> Answer<'a, u32> {
        Self::of(object.kind).held_by(self, object, owner)
    }

    fn force_release<'a>(&'a self, object: &'a Object) -> Answer<'a, bool> {
        self.saying_again(object, Self::of(object.kind).force_release(self, object))
    }

    fn number<'a>(&'a self, object: &'a Object) -> Answer<'a, i64> {
        Self::of(object.kind).number(self, object)
    }

    fn change<'a>(
        &'a self,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        self.saying_again(object, Self::of(object.kind).change(self, object, change, receipt))
    }

    fn count<'a>(&'a self, object: &'a Object) -> Answer<'a, Counts> {
        Self::of(object.kind).count(self, object)
    }

    fn lease<'a>(
        &'a self,
        object: &'a Object,
        id: PermitId,
        lease: Option<Duration>,
    ) -> Answer<'a, Option<Duration>> {
        Self::of(object.kind).lease(self, object, id, lease)
    }

    fn listen(&self, object: &Object) {
        self.topology.listen(object);
    }

    fn unlisten(&self, object: &Object) {
        self.topology.unlisten(object);
    }

    fn tell(&self, subscriber: Weak<dyn Subscriber>) {
        self.topology.tell(subscriber);
    }

    fn keep_up(&self) {
        self.topology.keep_up();
    }

    fn look(&self) -> Answer<'_, About> {
        Box::pin(async { Ok(self.topology.look().await) })
    }

    fn findings(&self) -> Vec<Finding> {
        self.topology.findings()
    }

    fn are_up(&self) -> (bool, bool) {
        self.topology.are_up()
    }

    fn is_up(&self) -> bool {
        self.topology.is_up()
    }

    fn losses(&self) -> u64 {
        self.topology.losses()
    }

    fn in_the_way(&self, name: &Name) -> Option<Failure> {
        self.topology.in_the_way(name)
    }

    fn reconnects(&self) -> u64 {
        self.topology.reconnects()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use leasehold_twin::Twin;
    use testkit::{Redis, eventually};

    use super::*;
    use crate::store::conformance::{self, Bench};

    async fn store(redis: &Redis, id: &str) -> Arc<RedisStore> {
        Arc::new(RedisStore::connect(&redis.url(), &Settings::default(), id).await.unwrap())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_node_that_is_no_primary_for_a_while_takes_no_right_away() {
        let redis = Redis::start();
        let (store, held, wanted) = (store(&redis, "one").await, claim("java:1"), claim("one:1"));
        store.acquire(&held, None).await.unwrap();
        redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let verdict = store.acquire(&wanted, Some(Place::Listening)).await.unwrap();
        assert!(matches!(verdict, Verdict::Busy(_)) && store.topology.rights(&held.object).queue);

        redis.command(&["REPLICAOF", "NO", "ONE"]);
        store.acquire(&wanted, Some(Place::Listening)).await.unwrap();
        assert_eq!(redis.command(&["ZCARD", "leasehold_lock__queue:{door}"]).number(), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_right_that_is_missing_is_tried_again_on_the_next_connection() {
        let redis = Redis::start();
        redis.command(&["ACL", "SETUSER", "narrow", "on", "nopass", "+@all", "&*", "~door"]);
        let settings = Settings { user: Some("narrow".into()), ..Settings::default() };
        let store = RedisStore::connect(&redis.url(), &settings, "one").await.unwrap();
        let (held, wanted) = (claim("java:1"), claim("one:1"));
        store.acquire(&held, None).await.unwrap();
        store.acquire(&wanted, Some(Place::Listening)).await.unwrap();
        assert!(!store.topology.rights(&held.object).queue);

        redis.command(&["CLIENT", "KILL", "USER", "narrow"]);
        let forgotten = || store.topology.rights(&held.object).queue;
        eventually("it is forgotten", Duration::from_secs(5), forgotten);
    }

    #[tokio::test(start_paused = true)]
    async fn many_names_that_are_refused_take_no_other_with_them() {
        // given a hundred holds, of which the first forty are refused from now on
        fastrand::seed(7);
        let twin = Twin::new(7);
        let store = served(&twin, "one", "&*").await;
        let mut renewals = Vec::new();
        for number in 0..100_u32 {
            let name = format!("{}:{number}", if number < 40 { "bad" } else { "good" });
            let name = Object::lock(name);
            let claim = Claim { object: name.clone(), ..claim("one:1") };
            store.acquire(&claim, None).await.unwrap();
            let (owner, share, ttl) = (claim.owner, claim.share, Some(claim.ttl));
            renewals.push(Renewal { object: name, owner, share, ttl });
        }
        twin.user("one", "resetkeys ~good:*");

        // when they are renewed some times, then each of the others is
        let mut renewed = [false; 100];
        for _ in 0..30 {
            let outcomes = store.renew(&renewals).await.unwrap();
            let known = outcomes.iter().map(|outcome| *outcome == Outcome::Renewed);
            renewed.iter_mut().zip(known).for_each(|(it, known)| *it |= known);
        }
        assert_eq!(renewed.iter().position(|it| *it), Some(40));
        assert_eq!(renewed.iter().filter(|it| **it).count(), 60);
    }

    /// A client of a simulated server whose user may do what `rules` say.
    async fn served(twin: &Twin, id: &str, rules: &str) -> RedisStore {
        twin.user(id, &format!("on nopass +@all ~* {rules}"));
        let server = twin.clone();
        let connector = Connector::by(move || {
            let server = server.clone();
            async move { server.connect().await }
        });
        let settings = Settings { user: Some(id.into()), ..Settings::default() };
        RedisStore::connect_by(connector, &settings, id).await.unwrap()
    }

    /// What is said from now on on Redisson's channels.
    fn announcements(twin: &Twin) -> Arc<std::sync::Mutex<Vec<String>>> {
        let said = Arc::<std::sync::Mutex<Vec<String>>>::default();
        let heard = Arc::clone(&said);
        twin.watch(move |it| {
            if it.command().starts_with("PUBLISH redisson") {
                heard.lock().unwrap().push(it.command());
            }
        });
        said
    }

    fn claim(owner: &str) -> Claim {
        Claim::plain(Object::lock("door"), Owner::new(owner).unwrap(), Duration::from_secs(30))
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_listen_leaves_the_queue_when_it_gives_up() {
        let twin = Twin::new(7);
        let deaf = served(&twin, "deaf", "&redisson_lock__channel:*").await;
        let (held, wanted) = (claim("other:1"), claim("deaf:1"));
        deaf.acquire(&held, None).await.unwrap();
        deaf.listen(&wanted.object);
        tokio::time::sleep(Duration::from_millis(10)).await;
        deaf.acquire(&wanted, Some(Place::Polling)).await.unwrap();
        assert!(twin.zset("leasehold_lock__queue:{door}").is_some());
        deaf.release(&wanted, ReleaseMode::HandOver).await.unwrap();
        assert_eq!(twin.zset("leasehold_lock__queue:{door}"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_tell_the_next_in_the_queue_tells_everybody() {
        let twin = Twin::new(7);
        let mute = served(&twin, "mute", "&redisson_lock__channel:*").await;
        let waiter = served(&twin, "waiter", "&*").await;
        let name = Object::lock("door");
        let (held, wanted) = (claim("mute:1"), claim("waiter:1"));
        waiter.listen(&name);
        tokio::time::sleep(Duration::from_millis(10)).await;
        mute.acquire(&held, None).await.unwrap();
        waiter.acquire(&wanted, Some(Place::Listening)).await.unwrap();

        let said = announcements(&twin);
        // and the lock is reserved for that one: whoever gives back would be there before it
        mute.release(&held, ReleaseMode::HandOver).await.unwrap();
        let said = said.lock().unwrap().clone();
        assert_eq!(said, ["PUBLISH redisson_lock__channel:{door} 0"]);
        assert_eq!(waiter.holder(&name).await.unwrap().unwrap().owner, wanted.owner);
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_read_when_the_last_turn_was_leaves_the_lock_to_whoever_asks_first() {
        let twin = Twin::new(7);
        let blind = served(&twin, "blind", "&* -zscore").await;
        let waiter = served(&twin, "two", "&*").await;
        let name = Object::lock("door");
        let [held, polls, listens] = ["blind:1", "two:1", "two:2"].map(claim);
        waiter.listen(&name);
        tokio::time::sleep(Duration::from_millis(10)).await;
        blind.acquire(&held, None).await.unwrap();
        waiter.acquire(&polls, Some(Place::Polling)).await.unwrap();
        waiter.acquire(&listens, Some(Place::Listening)).await.unwrap();
        let said = announcements(&twin);
        blind.release(&held, ReleaseMode::HandOver).await.unwrap();
        assert_eq!(*said.lock().unwrap(), ["PUBLISH redisson_lock__channel:{door} 0"]);
        assert_eq!(waiter.holder(&name).await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_in_vain_keeps_nobody_out_for_longer_than_a_turn() {
        let twin = Twin::new(7);
        let one = Arc::new(served(&twin, "one", "&*").await);
        let other = Arc::new(served(&twin, "other", "&*").await);
        let bench = Bench::new(one, other, "other");
        conformance::semaphore::a_waiter_in_vain_keeps_nobody_out_for_longer_than_a_turn(&bench)
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_refused_before_anything_has_changed() {
        let twin = Twin::new(7);
        let (all, user) = (served(&twin, "all", "&*").await, served(&twin, "x", "&* -set").await);
        let changes = [
            (Kind::Semaphore, vec![Change::Add(1), Change::Drain, Change::Delete]),
            (Kind::Latch, vec![Change::CountDown, Change::Delete]),
            (Kind::Permits, vec![Change::Add(1), Change::Set(9)]),
        ];
        let identity = crate::domain::Identity::random();
        for (kind, changes) in changes {
            let object = Object::of(kind, format!("{kind:?}"));
            all.change(&object, Change::SetIfAbsent(3), &identity.fresh_owner()).await.unwrap();
            for change in changes {
                user.change(&object, change, &identity.fresh_owner()).await.unwrap_err();
                assert_eq!(all.number_at(&object.name).await.unwrap(), 3, "{change:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_that_is_no_number_is_neither_counted_nor_shown_nor_deleted() {
        let twin = Twin::new(7);
        let store = served(&twin, "one", "&*").await;
        let identity = crate::domain::Identity::random();
        let changes = [Change::Add(1), Change::Drain, Change::CountDown, Change::Delete];
        for text in ["many", "", " 5", "1.5", "0x10"] {
            store.topology.call(b"app", cmd("SET").arg("app").arg(text)).await.unwrap();
            for kind in [Kind::Semaphore, Kind::Latch, Kind::Permits] {
                let object = Object::of(kind, "app");
                let asks = Claim { object: object.clone(), ..claim("one:1") };
                let mut failures = vec![store.acquire(&asks, None).await.unwrap_err()];
                if kind != Kind::Permits {
                    failures.push(store.number(&object).await.unwrap_err());
                }
                for change in changes {
                    let changed = store.change(&object, change, &identity.fresh_owner()).await;
                    failures.push(changed.unwrap_err());
                }
                failures.retain(|failure| !matches!(failure, Failure::Unsupported(_)));
                assert!(failures.len() >= 2, "{kind:?}: {failures:?}");
                for failure in failures {
                    assert_eq!(failure.to_string(), "the key is a text that is no number");
                }
            }
            let there = store.topology.call(b"app", cmd("GET").arg("app")).await.unwrap();
            assert_eq!(replies::into_text(&there), text);
        }
    }

    #[test]
    fn connecting_without_a_runtime_is_an_error_that_says_so() {
        let settings = Settings::default();
        let connected = RedisStore::connect("redis://127.0.0.1/", &settings, "id").now_or_never();
        assert!(matches!(connected, Some(Err(Error::NoRuntime))));
    }

    /// Who rang for something else was taken for a sign of life.
    #[tokio::test(start_paused = true)]
    async fn a_connection_for_messages_that_is_silent_is_found_whatever_else_goes_on() {
        let twin = Twin::new(7);
        let store = served(&twin, "one", "&*").await;
        let door = claim("one:1").object;
        store.listen(&door);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(store.topology.hears_releases(&door));
        twin.cut(leasehold_twin::Cut::Silence, |it| !it.channels.is_empty());

        let start = Instant::now();
        while store.reconnects() == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            store.unlisten(&Object::lock("nobody's"));
            assert!(start.elapsed() < Duration::from_secs(10), "still believed");
        }
    }

    /// Each second both connections were made again, for as long as the server was a replica.
    #[tokio::test(start_paused = true)]
    async fn client_reconnects_seldom_when_its_server_stays_a_replica() {
        let twin = Twin::new(7);
        let store = served(&twin, "one", "&*").await;
        let replica = twin.replica(leasehold_twin::Delay::None);
        replica.promote();
        store.acquire(&claim("one:1"), None).await.unwrap_err();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!((4..=50).contains(&store.reconnects()), "{}", store.reconnects());
    }
}
