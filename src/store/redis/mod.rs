//! Redis as the store. A client has two connections to each server, one for commands and one for
//! messages. With `replicated`, it has a third connection, which waits for replicas.

mod ask;
pub(crate) mod audit;
pub(crate) mod client_info;
#[cfg(test)]
mod deployments;
mod granted;
pub(crate) mod inspect;
pub(crate) mod keys;
pub(crate) mod kinds;
#[cfg(feature = "testing")]
pub(crate) mod memory;
#[cfg(test)]
mod moving_names;
mod renewals;
mod replies;
pub(crate) mod report;
mod runner;
mod scripts;
#[cfg(test)]
mod simulated;
mod subscriptions;

use std::sync::Weak;

#[cfg(any(test, feature = "testing"))]
pub(crate) use leasehold_link::Connector;
pub(crate) use leasehold_link::{Credentials, Settings, Translation};
use leasehold_link::{Topology, slot_of};

use self::{
    kinds::{channel_of, preloads},
    subscriptions::Table,
};
use super::{Event, Subscriber};
use crate::{
    domain::{About, Failure, Finding, LogThrottle, Name, Object, checked},
    error::Error,
    metrics,
};

/// Returns the slot of a name, which is the slot of all keys of this name.
fn slot_of_name(name: &Name) -> u16 {
    slot_of(name.as_str().as_bytes())
}

/// The result of a request.
type Reply<T> = Result<T, Failure>;

/// Redis as one server, or as a cluster.
#[derive(Debug)]
pub(crate) struct RedisStore {
    topology: Topology<Table>,
    /// Limits how often the client logs that the number of permits is not set.
    unset: LogThrottle,
}

impl RedisStore {
    /// Connects to the servers at `url` for the client called `client_id`.
    pub(crate) async fn connect(
        url: &str,
        settings: &Settings,
        client_id: &str,
    ) -> Result<Self, Error> {
        let topology = Topology::connect(url, &checked_settings(settings)?, client_id).await?;
        Ok(Self { topology, unset: LogThrottle::default() })
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

    /// Creates a store on a simulated server, with default settings. The store connects in the
    /// background.
    #[cfg(feature = "testing")]
    pub(crate) fn simulated(server: &leasehold_twin::Twin, client_id: &str) -> Self {
        let settings = own_settings(&Settings::default());
        let topology = Topology::simulated(memory::connector(server), &settings, client_id);
        Self { topology, unset: LogThrottle::default() }
    }

    /// Creates a store like [`connect`](Self::connect), but connects in the background.
    pub(crate) fn connect_lazy(
        url: &str,
        settings: &Settings,
        client_id: &str,
    ) -> Result<Self, Error> {
        let topology = Topology::connect_lazy(url, &checked_settings(settings)?, client_id)?;
        Ok(Self { topology, unset: LogThrottle::default() })
    }
}

/// Checks the `settings` of a user, and adds what each client of this crate needs.
fn checked_settings(settings: &Settings) -> Result<Settings, Error> {
    checked("connect_timeout", settings.connect_timeout)?;
    checked("command_timeout", settings.command_timeout)?;
    Ok(own_settings(settings))
}

fn own_settings(settings: &Settings) -> Settings {
    Settings { scripts: preloads, on_loss: metrics::connection_lost, ..settings.clone() }
}

impl RedisStore {
    /// Begins to subscribe to releases of `object`, in the background.
    ///
    /// [`Event::Subscribed`] reports the level of the subscription. After this event, the client
    /// misses no message of this level until the next `Subscribed` or `SubscriptionsLost`.
    ///
    /// The subscriber may receive events before this function returns.
    pub(crate) fn listen(&self, object: &Object) {
        self.topology.listen(object);
    }

    /// Ends the subscription that [`listen`](Self::listen) began.
    pub(crate) fn unlisten(&self, object: &Object) {
        self.topology.unlisten(object);
    }

    /// Sets the subscriber that receives the events of this store.
    pub(crate) fn send_to(&self, subscriber: Weak<dyn Subscriber<Event>>) {
        self.topology.send_to(subscriber);
    }

    /// If the runtime of the store's tasks has ended, restarts the tasks on the current runtime.
    pub(crate) fn keep_up(&self) {
        self.topology.keep_up();
    }

    /// Checks the health of the servers that reply within [`HEALTH_CHECK`]. Does not wait until a
    /// lost connection is restored.
    ///
    /// [`HEALTH_CHECK`]: super::HEALTH_CHECK
    pub(crate) async fn check(&self) -> About {
        self.topology.check().await
    }

    /// Returns the hazards that health checks found.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.topology.findings()
    }

    /// Returns whether the connections for commands and for messages are up.
    pub(crate) fn are_up(&self) -> (bool, bool) {
        self.topology.are_up()
    }

    /// Returns whether requests reach a server now. If not, requests wait until the connection is
    /// restored.
    pub(crate) fn is_up(&self) -> bool {
        self.topology.is_up()
    }

    /// Returns how often the connection for commands was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.topology.losses()
    }

    /// Returns why the server of `name` grants no requests now: it is unreachable, or temporarily
    /// rejects requests. Returns `None` if no such reason is known.
    pub(crate) fn unavailability(&self, name: &Name) -> Option<Failure> {
        self.topology.unavailability(slot_of_name(name))
    }

    /// Returns why no request about `name` reaches a server now. Returns `None` if requests reach a
    /// server.
    pub(crate) fn unreachable(&self, name: &Name) -> Option<Failure> {
        self.unavailability(name).filter(|it| matches!(it, Failure::Unreachable(_)))
    }

    /// Returns how often a lost connection was restored.
    pub(crate) fn reconnects(&self) -> u64 {
        self.topology.reconnects()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use futures_util::FutureExt;
    use leasehold_twin::Twin;
    use redis::cmd;
    use testkit::{Redis, eventually};
    use tokio::time::Instant;

    use super::*;
    use crate::{
        domain::{Claim, Kind, Outcome, Owner, Place, ReleaseMode, Renewal, Verdict},
        store::{
            conformance::{self, Bench},
            latch, permits, semaphore,
        },
    };

    async fn store(redis: &Redis, id: &str) -> Arc<RedisStore> {
        Arc::new(RedisStore::connect(&redis.url(), &Settings::default(), id).await.unwrap())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn readonly_error_does_not_count_as_a_missing_permission() {
        let redis = Redis::start();
        let (store, held, wanted) = (store(&redis, "one").await, claim("java:1"), claim("one:1"));
        store.acquire(&held, None).await.unwrap();
        redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let verdict = store.acquire(&wanted, Some(Place::Listening)).await.unwrap();
        assert!(matches!(verdict, Verdict::Busy(_)) && store.permissions(&held.object).queue);

        redis.command(&["REPLICAOF", "NO", "ONE"]);
        store.acquire(&wanted, Some(Place::Listening)).await.unwrap();
        assert_eq!(redis.command(&["ZCARD", "leasehold_lock__queue:{door}"]).number(), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn missing_permission_is_forgotten_on_the_next_connection() {
        let redis = Redis::start();
        redis.command(&["ACL", "SETUSER", "narrow", "on", "nopass", "+@all", "&*", "~door"]);
        let settings = Settings { user: Some("narrow".into()), ..Settings::default() };
        let store = RedisStore::connect(&redis.url(), &settings, "one").await.unwrap();
        let (held, wanted) = (claim("java:1"), claim("one:1"));
        store.acquire(&held, None).await.unwrap();
        store.acquire(&wanted, Some(Place::Listening)).await.unwrap();
        assert!(!store.permissions(&held.object).queue);

        redis.command(&["CLIENT", "KILL", "USER", "narrow"]);
        let forgotten = || store.permissions(&held.object).queue;
        eventually("the missing permission is forgotten", Duration::from_secs(5), forgotten);
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_renewals_stop_no_renewals_of_other_names() {
        // given a hundred holds, and a server that now rejects the renewals of the first forty
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

        // when the client renews all holds several times, then each of the other sixty is renewed
        let mut renewed = [false; 100];
        for _ in 0..30 {
            let outcomes = store.renew(&renewals).await.unwrap();
            let known = outcomes.iter().map(|outcome| *outcome == Outcome::Renewed);
            renewed.iter_mut().zip(known).for_each(|(it, known)| *it |= known);
        }
        assert_eq!(renewed.iter().position(|it| *it), Some(40));
        assert_eq!(renewed.iter().filter(|it| **it).count(), 60);
    }

    /// Returns a client of a simulated server. The user of this client has the ACL `rules`.
    async fn served(twin: &Twin, id: &str, rules: &str) -> RedisStore {
        twin.user(id, &format!("on nopass +@all ~* {rules}"));
        let settings = Settings { user: Some(id.into()), ..Settings::default() };
        RedisStore::connect_by(memory::connector(twin), &settings, id).await.unwrap()
    }

    /// Returns a list to which the server adds each later message on Redisson's channels.
    fn announcements(twin: &Twin) -> Arc<std::sync::Mutex<Vec<String>>> {
        let published = Arc::<std::sync::Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&published);
        twin.watch(move |it| {
            if it.command().starts_with("PUBLISH redisson") {
                recorded.lock().unwrap().push(it.command());
            }
        });
        published
    }

    fn claim(owner: &str) -> Claim {
        Claim::plain(Object::lock("door"), Owner::new(owner).unwrap(), Duration::from_secs(30))
    }

    #[tokio::test(start_paused = true)]
    async fn unsubscribed_waiter_leaves_the_queue_when_it_gives_up() {
        let twin = Twin::new(7);
        let unsubscribed = served(&twin, "deaf", "&redisson_lock__channel:*").await;
        let (held, wanted) = (claim("other:1"), claim("deaf:1"));
        unsubscribed.acquire(&held, None).await.unwrap();
        unsubscribed.listen(&wanted.object);
        tokio::time::sleep(Duration::from_millis(10)).await;
        unsubscribed.acquire(&wanted, Some(Place::Listening)).await.unwrap();
        assert!(twin.zset("leasehold_lock__queue:{door}").is_some());
        unsubscribed.release(&wanted, ReleaseMode::HandOver).await.unwrap();
        assert_eq!(twin.zset("leasehold_lock__queue:{door}"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn denied_reservation_message_wakes_all_waiters() {
        let twin = Twin::new(7);
        let mute = served(&twin, "mute", "&redisson_lock__channel:*").await;
        let waiter = served(&twin, "waiter", "&*").await;
        let name = Object::lock("door");
        let (held, wanted) = (claim("mute:1"), claim("waiter:1"));
        waiter.listen(&name);
        tokio::time::sleep(Duration::from_millis(10)).await;
        mute.acquire(&held, None).await.unwrap();
        waiter.acquire(&wanted, Some(Place::Listening)).await.unwrap();

        let published = announcements(&twin);
        // the lock stays reserved for the waiter, because otherwise the releasing client would
        // acquire it first
        mute.release(&held, ReleaseMode::HandOver).await.unwrap();
        let published = published.lock().unwrap().clone();
        assert_eq!(published, ["PUBLISH redisson_lock__channel:{door} 0"]);
        assert_eq!(waiter.holder(&name).await.unwrap().unwrap().owner, wanted.owner);
    }

    /// Returns a client that holds `door` and may not run `command`, and a client that queues for
    /// `door`.
    async fn limited_before_a_waiter(twin: &Twin, command: &str) -> [(RedisStore, Claim); 2] {
        let limited = served(twin, "limited", &format!("&* -{command}")).await;
        let waiter = served(twin, "waiter", "&*").await;
        let (held, wanted) = (claim("limited:1"), claim("waiter:1"));
        waiter.listen(&wanted.object);
        tokio::time::sleep(Duration::from_millis(10)).await;
        limited.acquire(&held, None).await.unwrap();
        waiter.acquire(&wanted, Some(Place::Listening)).await.unwrap();
        [(limited, held), (waiter, wanted)]
    }

    #[tokio::test(start_paused = true)]
    async fn release_without_a_queue_permission_frees_the_lock() {
        let queue = "leasehold_lock__queue:{door}";
        for command in ["zpopmin", "pubsub", "time", "get", "set"] {
            let twin = Twin::new(7);
            let clients = limited_before_a_waiter(&twin, command).await;
            let [(limited, held), (waiter, wanted)] = clients;
            let (places, published) = (twin.zset(queue), announcements(&twin));
            limited.release(&held, ReleaseMode::HandOver).await.unwrap();
            let announced = ["PUBLISH redisson_lock__channel:{door} 0"];
            assert_eq!(*published.lock().unwrap(), announced, "{command}");
            assert_eq!(waiter.holder(&wanted.object).await.unwrap(), None, "{command}");
            assert_eq!(twin.zset(queue), places, "{command}");
            assert!(twin.keys_without_ttl().is_empty(), "{command}");
        }
    }

    /// A reservation or a queue without a TTL would stay for ever.
    #[tokio::test(start_paused = true)]
    async fn denied_pexpire_leaves_no_key_without_a_ttl() {
        let twin = Twin::new(7);
        let clients = limited_before_a_waiter(&twin, "wait").await;
        let [(limited, held), (waiter, wanted)] = clients;
        twin.user("limited", "-pexpire");
        limited.release(&held, ReleaseMode::HandOver).await.unwrap();
        assert_eq!(waiter.holder(&wanted.object).await.unwrap(), None);
        assert!(twin.keys_without_ttl().is_empty());
    }

    /// The record of the last yield window is from the future if the clock was set back, or after a
    /// failover to a server with a slower clock. Former bug: such a record prevented every yield
    /// window until the time of the record.
    #[tokio::test(start_paused = true)]
    async fn yield_record_from_the_future_delays_no_yield_window() {
        let twin = Twin::new(7);
        let (one, waiter) = (served(&twin, "one", "&*").await, served(&twin, "two", "&*").await);
        let (held, wanted) = (claim("one:1"), claim("two:1"));
        waiter.listen(&wanted.object);
        one.acquire(&held, None).await.unwrap();
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(8)).await;
            waiter.acquire(&wanted, Some(Place::Listening)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(8)).await;
        let mut record = cmd("SET");
        record.arg("leasehold_lock__yield:{door}").arg(9_000_000_000_000_000_u64);
        one.topology.call(b"door", &record).await.unwrap();
        one.release(&held, ReleaseMode::HandOver).await.unwrap();
        assert_eq!(waiter.holder(&held.object).await.unwrap(), None, "a yield window is due");
    }

    #[tokio::test(start_paused = true)]
    async fn waiter_for_too_many_permits_blocks_others_half_the_time() {
        let twin = Twin::new(7);
        let one = Arc::new(served(&twin, "one", "&*").await);
        let other = Arc::new(served(&twin, "other", "&*").await);
        let bench = Bench::new(one, other, "other");
        conformance::semaphore::waiter_for_too_many_permits_blocks_others_half_the_time(&bench)
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn denied_change_leaves_the_number_of_permits_unchanged() {
        let twin = Twin::new(7);
        let (all, user) = (served(&twin, "all", "&*").await, served(&twin, "x", "&* -set").await);
        let owner = || crate::domain::Identity::random().fresh_owner();
        let name = Name::new("number").unwrap();
        all.topology.call(b"number", cmd("SET").arg("number").arg(3)).await.unwrap();
        use semaphore::Change::{Add, Delete, Drain};
        for change in [Add(1), Drain, Delete] {
            semaphore::change(&user, &name, change, &owner()).await.unwrap_err();
            assert_eq!(all.number_at(&name).await.unwrap(), 3, "{change:?}");
        }
        for change in [latch::Change::CountDown, latch::Change::Delete] {
            latch::change(&user, &name, change, &owner()).await.unwrap_err();
            assert_eq!(all.number_at(&name).await.unwrap(), 3, "{change:?}");
        }
        for change in [permits::Change::Add(1), permits::Change::Set(9)] {
            permits::change(&user, &name, change, &owner()).await.unwrap_err();
            assert_eq!(all.number_at(&name).await.unwrap(), 3, "{change:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn text_in_a_number_key_stays_unchanged_and_out_of_errors() {
        let twin = Twin::new(7);
        let store = served(&twin, "one", "&*").await;
        let (owner, name) = (claim("one:1").owner, Name::new("app").unwrap());
        for text in ["many", "", " 5", "1.5", "0x10"] {
            store.topology.call(b"app", cmd("SET").arg("app").arg(text)).await.unwrap();
            let mut failures = vec![];
            for kind in [Kind::Semaphore, Kind::Latch, Kind::Permits] {
                let asks = Claim { object: Object::of(kind, "app"), ..claim("one:1") };
                failures.push(store.acquire(&asks, None).await.unwrap_err());
            }
            failures.push(semaphore::available(&store, &name).await.unwrap_err());
            failures.push(latch::count(&store, &name).await.unwrap_err());
            use semaphore::Change::{Add, Delete, Drain};
            for change in [Add(1), Drain, Delete] {
                failures.push(semaphore::change(&store, &name, change, &owner).await.unwrap_err());
            }
            for change in [latch::Change::CountDown, latch::Change::Delete] {
                failures.push(latch::change(&store, &name, change, &owner).await.unwrap_err());
            }
            let add = permits::change(&store, &name, permits::Change::Add(1), &owner);
            failures.push(add.await.unwrap_err());
            for failure in failures {
                assert_eq!(failure.to_string(), "the Redis key is a text, not a number");
            }
            let there = store.topology.call(b"app", cmd("GET").arg("app")).await.unwrap();
            assert_eq!(replies::into_text(&there), text);
        }
    }

    #[test]
    fn connect_fails_without_a_runtime() {
        let settings = Settings::default();
        let connected = RedisStore::connect("redis://127.0.0.1/", &settings, "id").now_or_never();
        assert!(matches!(connected, Some(Err(Error::NoRuntime))));
    }

    /// Former bug: an internal wake-up of the connection, for example by `unlisten`, counted as a
    /// reply of the server.
    #[tokio::test(start_paused = true)]
    async fn silent_subscription_connection_is_replaced_in_a_busy_client() {
        let twin = Twin::new(7);
        let store = served(&twin, "one", "&*").await;
        let door = claim("one:1").object;
        store.listen(&door);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(store.is_subscribed_to_releases(&door));
        twin.cut(leasehold_twin::Cut::Silence, |it| !it.channels.is_empty());

        let start = Instant::now();
        while store.reconnects() == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            store.unlisten(&Object::lock("nobody's"));
            assert!(start.elapsed() < Duration::from_secs(10), "the client reconnects in time");
        }
    }

    /// Former bug: while its server was a replica, a client reconnected each second.
    #[tokio::test(start_paused = true)]
    async fn client_reconnects_rarely_while_its_server_is_a_replica() {
        let twin = Twin::new(7);
        let store = served(&twin, "one", "&*").await;
        let replica = twin.replica(leasehold_twin::Delay::None);
        replica.promote();
        store.acquire(&claim("one:1"), None).await.unwrap_err();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!((4..=50).contains(&store.reconnects()), "{}", store.reconnects());
    }
}
