//! Helpers of the tests on real servers.
#![allow(dead_code, reason = "each test file uses some of it")]

pub(crate) mod cluster;

use std::{
    future::Future,
    io::Write,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use leasehold::{Client, Error, Health, Lock, LockGuard, Release, Result, WaitStrategy};
use testkit::{Calls, Connection, Redis, acl_rules_in, eventually};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tracing::{
    Dispatch,
    subscriber::{DefaultGuard, NoSubscriber},
};

/// The limit for an operation that takes almost no time. The limit is long because the machine may
/// be busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// The strategy of a client that never subscribes.
pub(crate) const POLLING: WaitStrategy =
    WaitStrategy::Polling { initial: Duration::from_millis(5), max: Duration::from_millis(50) };

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) async fn client(redis: &Redis) -> Client {
    Client::connect(&redis.url()).await.expect("the server is up")
}

/// Creates a user with exactly the permissions `rights`. Returns a client that logs in as this
/// user.
pub(crate) async fn with_acl(redis: &Redis, user: &str, rights: &[&str]) -> Client {
    let url = redis.user(user, rights);
    Client::connect(&url).await.expect("the server is up")
}

/// Returns the result of `future`, which must not take longer than `limit`.
pub(crate) async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    timeout(limit, future).await.unwrap_or_else(|_| panic!("not within {limit:?}: {what}"))
}

/// Starts a task that waits for `lock`.
pub(crate) fn waiter(lock: Lock) -> JoinHandle<Result<LockGuard>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// Lets `one` hold the lock `door`, and starts a task of `other` that waits for this lock. Returns
/// the guard and the task when `other` is subscribed at `server`.
pub(crate) async fn held_and_waited_for(
    [one, other]: [&Client; 2],
    server: &Redis,
) -> (LockGuard, JoinHandle<Result<LockGuard>>) {
    let guard = one.lock("door").unwrap().acquire().await.unwrap();
    let waiting = waiter(other.lock("door").unwrap());
    until_subscribed(server, &channel("door"));
    (guard, waiting)
}

/// Waits until the health of `client` satisfies `expected`, and returns that health.
pub(crate) async fn healed(
    client: &Client,
    limit: Duration,
    what: &str,
    is_it: impl Fn(&Health) -> bool,
) -> Health {
    let healed = async {
        loop {
            let health = client.health().await;
            if is_it(&health) {
                return health;
            }
            sleep(ms(10)).await;
        }
    };
    within(limit, what, healed).await
}

/// Returns the guard of `waiter`, which must acquire within `SOON`.
pub(crate) async fn entered(waiter: JoinHandle<Result<LockGuard>>) -> LockGuard {
    let entered = within(SOON, "the waiter acquires", waiter).await;
    entered.expect("the waiter does not panic").expect("the waiter acquires")
}

/// Releases `guard`, the last guard of its hold. The hold must not have been lost.
pub(crate) async fn release_guard(guard: LockGuard) {
    assert_eq!(guard.release().await.expect("the server replies"), Release::Released);
}

/// Releases `guard`, one of the two guards of its hold.
pub(crate) async fn release_one_of_two(guard: LockGuard) {
    let left = guard.release().await.expect("the server replies");
    assert_eq!(left, Release::StillHeld { count: 1 });
}

/// Waits until `condition` is true, and lets other tasks run meanwhile.
pub(crate) async fn comes_true(what: &str, condition: impl Fn() -> bool) {
    let comes_true = async {
        while !condition() {
            sleep(ms(5)).await;
        }
    };
    within(secs(10), what, comes_true).await;
}

/// Waits until the server has a subscriber of `channel`.
pub(crate) fn until_subscribed(redis: &Redis, channel: &str) {
    eventually("the channel has a subscriber", SOON, || subscribers(redis, channel) == 1);
}

/// Waits until a waiter of `channel` is subscribed, has repeated its request after the
/// subscription, and sleeps. Before this request, the waiter might acquire without a message.
/// `before` is the count of calls from just before the waiter began to wait.
pub(crate) fn until_asleep(redis: &Redis, channel: &str, before: &Calls) {
    until_subscribed(redis, channel);
    let asked = || redis.calls().since(before).of("evalsha") >= 2;
    eventually("the subscribed waiter has repeated its request", SOON, asked);
}

/// The lines of `CLIENT LIST` that describe connections of Leasehold clients.
pub(crate) fn ours(redis: &Redis) -> Vec<String> {
    let clients = redis.command(&["CLIENT", "LIST"]);
    let lines = clients.text().lines().filter(|line| line.contains(" name=leasehold:"));
    lines.map(str::to_owned).collect()
}

/// The number of connections of Leasehold clients to a server.
pub(crate) fn connections(redis: &Redis) -> usize {
    ours(redis).len()
}

/// The number of connections that are subscribed to `channel`.
pub(crate) fn subscribers(redis: &Redis, channel: &str) -> i64 {
    redis.command(&["PUBSUB", "NUMSUB", channel]).list()[1].number()
}

/// All keys of a server, sorted.
pub(crate) fn keys(redis: &Redis) -> Vec<String> {
    let reply = redis.command(&["KEYS", "*"]);
    let mut keys: Vec<_> = reply.texts().into_iter().map(str::to_owned).collect();
    keys.sort();
    keys
}

/// The fields and values of a hash, in pairs.
pub(crate) fn hash(redis: &Redis, key: &str) -> Vec<(String, String)> {
    let reply = redis.command(&["HGETALL", key]);
    let pair = |pair: &[&str]| (pair[0].to_owned(), pair[1].to_owned());
    reply.texts().chunks(2).map(pair).collect()
}

/// Returns the result of `PTTL`: −1 if the key has no TTL, −2 if the key does not exist.
pub(crate) fn pttl(redis: &Redis, key: &str) -> i64 {
    redis.command(&["PTTL", key]).number()
}

/// Acquires the lock `name` with the commands that Redisson sends.
pub(crate) fn hold_by_hand(redis: &Redis, name: &str, owner: &str, ttl: Duration) {
    redis.command(&["HSET", name, owner, "1"]);
    redis.command(&["PEXPIRE", name, &ttl.as_millis().to_string()]);
}

/// Releases the lock `name` with the commands that Redisson sends.
pub(crate) fn release_by_hand(redis: &Redis, name: &str) {
    // `DEL` and `PUBLISH` are one script. If a client acquired between the two commands, it would
    // receive the message of a release that was before its own hold.
    let release = "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0')";
    redis.command(&["EVAL", release, "1", name, &channel(name)]);
}

/// The channel of the releases of `name`. `name` must contain no braces.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// A subscriber of one channel that does not use the library.
pub(crate) struct Listener<'a> {
    redis: &'a Redis,
    connection: Connection,
    channel: String,
}

impl<'a> Listener<'a> {
    pub(crate) fn to(redis: &'a Redis, channel: &str) -> Self {
        let mut connection = Connection::open(redis.port());
        connection.command(&["SUBSCRIBE", channel]);
        Self { redis, connection, channel: channel.to_owned() }
    }

    /// Returns all messages since the last call.
    pub(crate) fn received(&mut self) -> Vec<String> {
        const END: &str = "no more for now";
        // Redis delivers in order: every message that was published before `END` arrives before
        // `END`.
        self.redis.command(&["PUBLISH", &self.channel, END]);
        let mut next = || {
            let message = self.connection.next_reply().expect("the message arrives");
            message.list()[2].text().to_owned()
        };
        std::iter::from_fn(|| Some(next()).filter(|message| message != END)).collect()
    }
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Records the logs of this thread until the guard is dropped.
    pub(crate) fn begin() -> (Self, DefaultGuard) {
        // With only one subscriber, tracing decides once for all threads whether it records a log
        // line. The first thread that reaches the line decides, and this thread may run another
        // test that records nothing. A second subscriber makes tracing decide for each thread.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(NoSubscriber::default()));
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The key of the queue of `name`. `name` must contain no braces.
pub(crate) fn queue(name: &str) -> String {
    format!("leasehold_lock__queue:{{{name}}}")
}

/// The channel of the clients that have queue entries. The channel of all waiters is `channel`.
pub(crate) fn queuers(name: &str) -> String {
    format!("leasehold_lock__channel:{{{name}}}")
}

/// The channel that wakes only `client`.
pub(crate) fn turns_of(client: &Client, name: &str) -> String {
    format!("leasehold_lock__waiter:{{{name}}}:{}", client.id())
}

/// The key that has the time of the last yield window of `name`.
pub(crate) fn yielded(name: &str) -> String {
    format!("leasehold_lock__yield:{{{name}}}")
}

/// Returns the number of queue entries of `name`.
pub(crate) fn places(redis: &Redis, name: &str) -> usize {
    redis.command(&["ZRANGE", &queue(name), "0", "-1"]).list().len()
}

/// Waits until the queue of `name` has `number` entries.
#[track_caller]
pub(crate) fn until_places(redis: &Redis, name: &str, number: usize) {
    eventually("the queue has the expected number of entries", SOON, || {
        places(redis, name) == number
    });
}

/// Asserts that `error` reports a text that is not a number, and that the error does not contain
/// the text `there`.
pub(crate) fn is_no_number(error: &Error, there: &str) {
    let wrong = |found: &str| found == "text, not a number";
    assert!(matches!(error, Error::WrongType { found, .. } if wrong(found)), "{error:?}");
    assert!(!error.is_transient() && !format!("{error} {error:?}").contains(there), "{error:?}");
}

/// A client that logs in as an existing user.
pub(crate) async fn as_user(redis: &Redis, user: &str) -> Client {
    let builder = Client::builder().credentials(user, "secret");
    builder.connect(&redis.url()).await.expect("the user may connect")
}

/// Starts a proxy that forwards to `port`. Returns the address of the proxy, which no certificate
/// contains.
#[cfg(feature = "tls")]
pub(crate) async fn by_another_name(port: u16) -> String {
    use tokio::{
        io::copy_bidirectional,
        net::{TcpListener, TcpStream},
    };
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                copy_bidirectional(&mut near, &mut far).await.ok();
            });
        }
    });
    address
}

/// The page of the guide on the permissions of users.
pub(crate) const GUIDE: &str = include_str!("../../docs/guide/acl.md");

/// The commands that create `user`, exactly as the guide has them.
pub(crate) fn commands_of_the_guide(user: &str) -> Vec<Vec<&str>> {
    let begin = ["ACL", "SETUSER", user];
    acl_rules_in(GUIDE, user).iter().map(|rights| [&begin, &rights[..]].concat()).collect()
}

/// Creates a user as the guide describes. If the server has `CLIENT SETINFO`, the user also gets
/// the permission for this command, because some servers otherwise reject the login.
pub(crate) fn follow(redis: &Redis, words: &[impl AsRef<str>]) {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    assert_eq!(redis.command(&words).text(), "OK", "{words:?}");
    // Redis 7.0 does not have `CLIENT SETINFO`, and rejects a rule that names it.
    redis.command(&["ACL", "SETUSER", words[2], "+client|setinfo"]);
}

/// Asserts that no command was denied since the ACL log was reset, and that each command of `words`
/// is executed between `before` and ten seconds after this call.
pub(crate) fn permissions_are_exact(redis: &Redis, before: &Calls, words: &[&str]) {
    let never_used = || -> Vec<&str> {
        let calls = redis.calls().since(before);
        let may_run = words.iter().filter_map(|word| word.strip_prefix('+'));
        may_run.filter(|command| calls.of(command) == 0).collect()
    };
    let start = Instant::now();
    while !never_used().is_empty() && start.elapsed() < secs(10) {
        std::thread::sleep(ms(50));
    }
    assert_eq!(never_used(), [""; 0], "these permissions are not needed");
    let refused = redis.command(&["ACL", "LOG"]);
    assert!(refused.list().is_empty(), "{refused:?}");
}

/// Clients that acquire one lock in turn until this value is dropped.
pub(crate) struct Chain {
    clients: Vec<Client>,
    tasks: Vec<JoinHandle<()>>,
}

impl Chain {
    /// Five Leasehold clients that acquire `name` repeatedly, and keep it for `hold`.
    pub(crate) async fn of(redis: &Redis, name: &str, hold: Duration) -> Self {
        Self::with(redis, name, hold, |lock| lock).await
    }

    /// Five Leasehold clients that acquire `name` repeatedly, with the settings that `set` makes.
    pub(crate) async fn with(
        redis: &Redis,
        name: &str,
        hold: Duration,
        set: impl Fn(Lock) -> Lock,
    ) -> Self {
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(client(redis).await);
        }
        let tasks = clients.iter().map(|client| {
            let lock = set(client.lock(name).expect("the name is valid"));
            tokio::spawn(async move {
                loop {
                    let guard = lock.acquire().await.expect("the server is up");
                    sleep(hold).await;
                    release_guard(guard).await;
                }
            })
        });
        let tasks = tasks.collect();
        let all_have_it = || clients.iter().all(|client| client.stats().granted > 3);
        eventually("each client acquires repeatedly", secs(15), all_have_it);
        Self { clients, tasks }
    }

    /// The number of holds that all clients had.
    pub(crate) fn granted(&self) -> u64 {
        self.clients.iter().map(|client| client.stats().granted).sum()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The tokens of two holds. The first holder was paused until its lease ended, and then the second
/// holder acquired.
pub(crate) async fn stopped_and_next(redis: &Redis) -> (u64, u64) {
    let lock = client(redis).await.fenced_lock("orders:42").expect("the name is valid");
    let stopped = lock.clone().lease(ms(100)).acquire().await.expect("the server is up");
    let next = within(SOON, "the second holder acquires", lock.acquire()).await;
    let next = next.expect("the server is up");
    (stopped.token(), next.token())
}

/// Returns the time to acquire `lock`. This time must not exceed `bound`.
pub(crate) async fn entry(lock: Lock, bound: Duration) -> Duration {
    let begun = Instant::now();
    let guard = within(bound, "the client acquires", lock.acquire()).await;
    let took = begun.elapsed();
    release_guard(guard.expect("the server is up")).await;
    took
}
