//! The read-write lock on a real server: its keys, its faults, the order of readers and writers,
//! and its cost.

use std::{collections::BTreeSet, future::Future, time::Duration};

use crate::common::{
    Listener, Log, POLLING, SOON, client, entered, hash, hold_by_hand, keys, ms, pttl,
    release_guard, secs, subscribers, waiter, with_acl, within,
};
use futures_util::future::join_all;
use leasehold::{Client, Error, LockGuard, LostReason, Owner, ReadWriteLock, Release};
use testkit::{Calls, Proxy, Redis, eventually};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};

/// The channel on which releases of both sides are published.
const CHANNEL: &str = "redisson_rwlock:{door}";

/// The key with the waiting writers of Leasehold clients.
const WRITERS: &str = "leasehold_rwlock__writers:{door}";

/// A server, and two of its clients.
struct Setup {
    redis: Redis,
    one: Client,
    other: Client,
}

impl Setup {
    async fn new() -> Self {
        let redis = Redis::start();
        let (one, other) = (client(&redis).await, client(&redis).await);
        Self { redis, one, other }
    }

    fn ours(&self) -> ReadWriteLock {
        door(&self.one)
    }

    fn theirs(&self) -> ReadWriteLock {
        door(&self.other)
    }
}

fn door(client: &Client) -> ReadWriteLock {
    client.read_write_lock("door").unwrap()
}

async fn read(lock: &ReadWriteLock) -> LockGuard {
    within(SOON, "the reader acquires", lock.read().acquire()).await.unwrap()
}

async fn write(lock: &ReadWriteLock) -> LockGuard {
    within(SOON, "the writer acquires", lock.write().acquire()).await.unwrap()
}

/// The key whose TTL is the lease of this reader.
fn lease_of(reader: &LockGuard) -> String {
    format!("{{door}}:{}:rwlock_timeout:1", reader.owner())
}

/// The number of waiting writers in the key `key`.
fn writers_that_wait(redis: &Redis, key: &str) -> i64 {
    redis.command(&["ZCOUNT", key, "0", "+inf"]).number()
}

/// Waits until the server knows `number` waiting writers.
#[track_caller]
fn until_writers_wait(redis: &Redis, number: i64) {
    eventually("the server knows the waiting writers", SOON, || {
        writers_that_wait(redis, WRITERS) == number
    });
}

/// Waits until `number` clients are subscribed.
#[track_caller]
fn until_received_by(redis: &Redis, number: i64) {
    eventually("the clients are subscribed", SOON, || subscribers(redis, CHANNEL) == number);
}

/// Waits until no client has sent a request for a while. By then, each waiter has repeated its
/// request after its subscription.
#[track_caller]
fn until_no_requests(redis: &Redis) {
    let asked = || redis.calls().of("evalsha");
    eventually("the waiters send no requests", SOON, || {
        let before = asked();
        std::thread::sleep(ms(200));
        asked() == before
    });
}

// The keys.

#[tokio::test(flavor = "multi_thread")]
async fn reader_is_a_hash_field_and_a_key_with_its_lease() {
    let t = Setup::new().await;
    let one = read(&t.ours()).await;
    let other = t.theirs().read().ttl(secs(9)).acquire().await.unwrap();

    let expected = [
        ("mode".to_owned(), "read".to_owned()),
        (one.owner().to_string(), "1".to_owned()),
        (other.owner().to_string(), "1".to_owned()),
    ];
    let fields: BTreeSet<_> = hash(&t.redis, "door").into_iter().collect();
    assert_eq!(fields, BTreeSet::from(expected));
    let mut expected = ["door".to_owned(), lease_of(&one), lease_of(&other)];
    expected.sort();
    assert_eq!(keys(&t.redis), expected);
    for (guard, most) in [(&one, 30_000), (&other, 9_000)] {
        let left = pttl(&t.redis, &lease_of(guard));
        assert!((most - 5_000..=most).contains(&left), "{left} of {most}");
        assert_eq!(t.redis.command(&["GET", &lease_of(guard)]).text(), "1");
    }
    // The TTL of the lock is the longest of the remaining leases.
    assert!((25_000..=30_000).contains(&pttl(&t.redis, "door")));
    release_guard(one).await;
    assert!((4_000..=9_000).contains(&pttl(&t.redis, "door")));
    release_guard(other).await;
    assert!(keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn write_hold_is_a_hash_field_with_the_suffix_write() {
    let t = Setup::new().await;
    let writing = write(&t.ours()).await;
    let field = format!("{}:write", writing.owner());
    let mode = ("mode".to_owned(), "write".to_owned());
    assert_eq!(hash(&t.redis, "door"), [mode.clone(), (field.clone(), "1".to_owned())]);
    let again = writing.reenter().await.unwrap();
    assert_eq!(hash(&t.redis, "door"), [mode, (field, "2".to_owned())]);
    assert_eq!(t.theirs().write().held_by(writing.owner()).await.unwrap(), 2);
    crate::common::release_one_of_two(again).await;
    let holder = t.theirs().write().holder().await.unwrap().unwrap();
    assert_eq!((holder.owner(), holder.count()), (writing.owner(), 1));
    release_guard(writing).await;
    assert!(keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn last_reader_release_publishes_0_and_writer_release_1() {
    let t = Setup::new().await;
    let mut java = Listener::to(&t.redis, CHANNEL);
    let (one, other) = (read(&t.ours()).await, read(&t.theirs()).await);
    release_guard(one).await;
    assert_eq!(
        java.received(),
        [""; 0],
        "no message is sent while the other reader holds the lock"
    );
    release_guard(other).await;
    assert_eq!(java.received(), ["0"]);

    release_guard(write(&t.ours()).await).await;
    assert_eq!(java.received(), ["1"]);
    let writing = write(&t.ours()).await;
    let reading = t.ours().downgrade(writing).await.unwrap();
    assert_eq!(java.received(), ["1"], "a downgrade sends no message, as in Redisson");
    release_guard(reading).await;
    assert_eq!(java.received(), ["0"]);
    for output in ["0", "1"] {
        let side = if output == "0" { t.ours().read() } else { t.ours().write() };
        let guard = side.acquire().await.unwrap();
        assert!(side.force_release().await.unwrap());
        assert_eq!(java.received(), [output]);
        drop(guard);
    }
}

// The order of readers and writers.

#[tokio::test(flavor = "multi_thread")]
async fn last_reader_wakes_a_writer_and_a_writer_wakes_readers() {
    let t = Setup::new().await;
    let (one, other) = (read(&t.ours()).await, read(&t.ours()).await);
    let waiting = waiter(t.theirs().write());
    until_writers_wait(&t.redis, 1);
    until_received_by(&t.redis, 1);
    until_no_requests(&t.redis);
    release_guard(one).await;
    assert!(!waiting.is_finished());
    release_guard(other).await;
    let writing = entered(waiting).await;
    assert_eq!(t.other.stats().wake_ups, 1, "one message woke the waiter");
    assert_eq!(t.redis.command(&["EXISTS", WRITERS]).number(), 0);

    let waiting = [waiter(t.ours().read()), waiter(t.ours().read())];
    until_received_by(&t.redis, 2);
    until_no_requests(&t.redis);
    release_guard(writing).await;
    let [one, other] = waiting;
    let (one, other) = (entered(one).await, entered(other).await);
    assert_eq!(t.one.stats().wake_ups, 1, "one message woke the waiters");
    release_guard(one).await;
    release_guard(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn downgrade_wakes_other_readers_and_no_writer() {
    let t = Setup::new().await;
    let third = client(&t.redis).await;
    let writing = write(&t.ours()).await;
    let reader = waiter(t.theirs().prefer_writers(false).read());
    let writer = waiter(door(&third).write());
    until_received_by(&t.redis, 2);
    until_no_requests(&t.redis);
    assert_eq!(t.other.stats().wake_ups, 0);
    let reading = t.ours().downgrade(writing).await.unwrap();
    let beside = entered(reader).await;
    assert_eq!(t.other.stats().wake_ups, 1, "one message woke the reader");
    assert!(!writer.is_finished());
    release_guard(reading).await;
    release_guard(beside).await;
    release_guard(entered(writer).await).await;
}

/// The field of a writer has no TTL of its own. Former bug: if the writer also read, its field
/// lasted as long as its read hold.
#[tokio::test]
async fn write_hold_with_a_read_hold_ends_at_its_lease_or_max_hold() {
    let t = Setup::new().await;
    let [lease, most] = [t.ours().write().lease(ms(500)), t.ours().write().max_hold(ms(500))];
    for side in [lease, most] {
        let writes = within(SOON, "the writer acquires", side.acquire()).await.unwrap();
        let reads = t.ours().acquire_read_with(&writes).await.unwrap();
        writes.lost().await;
        // The guard `writes` still exists, but its hold has ended.
        let reads_there = read(&t.theirs()).await;
        assert!(reads.is_held());
        release_guard(reads_there).await;
        release_guard(reads).await;
        drop(writes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_stream_of_several_clients_starves_no_writer() {
    let t = Setup::new().await;
    let readers = Readers::start(&t.redis, 5, true).await;
    for _ in 0..3 {
        let began = Instant::now();
        release_guard(write(&t.ours()).await).await;
        // Each reader holds for at most 100 ms.
        assert!(began.elapsed() < secs(3), "{:?}", began.elapsed());
        sleep(ms(200)).await;
    }
    readers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_acquire_while_writers_reacquire_without_pauses() {
    for clients in [1, 4] {
        let redis = Redis::start();
        let mut writers = Vec::new();
        for _ in 0..clients {
            let client = client(&redis).await;
            writers.push(tokio::spawn(async move {
                let lock = door(&client).write();
                loop {
                    let writing = lock.acquire().await.unwrap();
                    sleep(ms(5)).await;
                    release_guard(writing).await;
                }
            }));
        }
        eventually("a writer holds the lock", SOON, || {
            redis.command(&["EXISTS", "door"]).number() == 1
        });
        let reader = client(&redis).await;
        for _ in 0..10 {
            let reads = door(&reader).read();
            let reading = within(secs(5 * clients), "the reader acquires", reads.acquire()).await;
            release_guard(reading.unwrap()).await;
        }
        writers.iter().for_each(JoinHandle::abort);
        join_all(writers).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unyielding_readers_acquire_while_a_writer_waits() {
    let t = Setup::new().await;
    let here = read(&t.ours()).await;
    let writer = waiter(t.ours().write());
    until_writers_wait(&t.redis, 1);
    assert!(
        t.theirs().read().try_acquire().await.unwrap().is_none(),
        "other readers let the waiting writer acquire first"
    );
    let began = Instant::now();
    let beside = read(&t.theirs().prefer_writers(false)).await;
    assert!(began.elapsed() < ms(800), "{:?}", began.elapsed());
    release_guard(here).await;
    release_guard(beside).await;
    release_guard(entered(writer).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_yields_to_a_waiting_writer_for_ten_seconds() {
    let yielding = [false, true].map(|by_polling| async move {
        // given a reader with a long hold, and a writer that waits for this reader
        let t = Setup::new().await;
        let here = read(&t.ours()).await;
        let writer = waiter(t.ours().write());
        until_writers_wait(&t.redis, 1);

        // when another reader begins to wait
        let began = Instant::now();
        let side = t.theirs().read();
        let side = if by_polling { side.wait_strategy(POLLING) } else { side };
        let beside = within(secs(20), "the second reader acquires", side.acquire()).await.unwrap();

        // then the new reader yields to the writer for ten seconds, and then acquires before the
        // writer
        let yielded = began.elapsed();
        assert!(yielded >= ms(9_500) && yielded < ms(11_500), "{yielded:?}");
        release_guard(here).await;
        release_guard(beside).await;
        release_guard(entered(writer).await).await;
    });
    join_all(yielding).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_long_readers_do_not_block_a_writer() {
    let t = Setup::new().await;
    let third = client(&t.redis).await;
    let long = ms(2_500);
    let readers = [(t.ours(), Duration::ZERO), (t.theirs(), ms(1_500))].map(|(lock, after)| {
        tokio::spawn(async move {
            sleep(after).await;
            loop {
                let reading = lock.read().acquire().await.unwrap();
                sleep(long).await;
                release_guard(reading).await;
            }
        })
    });
    sleep(secs(2)).await;
    let began = Instant::now();
    let writing = door(&third).write().acquire_within(secs(30)).await;
    release_guard(writing.expect("the readers let the writer acquire first")).await;
    assert!(began.elapsed() < long + secs(1), "{:?}", began.elapsed());
    readers.iter().for_each(JoinHandle::abort);
    join_all(readers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_acquire_when_the_waiting_writer_leaves_or_dies() {
    let t = Setup::new().await;
    let here = read(&t.ours()).await;
    let writer = waiter(t.ours().write());
    until_writers_wait(&t.redis, 1);
    let yields = waiter(t.theirs().read());
    until_received_by(&t.redis, 2);
    writer.abort();
    let began = Instant::now();
    release_guard(entered(yields).await).await;
    assert!(began.elapsed() < ms(800), "{:?}", began.elapsed());
    eventually("the server no longer knows the writer", SOON, || {
        t.redis.command(&["EXISTS", WRITERS]).number() == 0
    });

    // The store forgets a dead writer after some seconds.
    let proxy = Proxy::before(t.redis.port());
    let dies = Client::connect(&proxy.url()).await.unwrap();
    let writer = waiter(door(&dies).write());
    until_writers_wait(&t.redis, 1);
    proxy.refuse(true);
    let yields = within(secs(10), "the yielding reader acquires", t.theirs().read().acquire())
        .await
        .unwrap();
    release_guard(yields).await;
    let left = pttl(&t.redis, WRITERS);
    assert!(left > 0 && left <= 10_000, "{left}");
    release_guard(here).await;
    writer.abort();
}

/// Tasks of several clients that read repeatedly, for up to 100 ms each. Their holds overlap.
struct Readers {
    tasks: Vec<JoinHandle<()>>,
}

impl Readers {
    async fn start(redis: &Redis, clients: usize, prefer_writers: bool) -> Self {
        let mut tasks = Vec::new();
        for number in 0..clients {
            let client = client(redis).await;
            tasks.push(tokio::spawn(async move {
                let lock = door(&client).prefer_writers(prefer_writers).read();
                loop {
                    let guard = lock.acquire().await.unwrap();
                    sleep(ms(60 + 10 * number as u64)).await;
                    release_guard(guard).await;
                }
            }));
        }
        eventually("many readers hold the lock", SOON, || {
            redis.command(&["HLEN", "door"]).number() > 1 + clients as i64 / 2
        });
        Self { tasks }
    }

    async fn stop(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        join_all(self.tasks).await;
    }
}

// Dead clients and forced releases.

#[tokio::test(flavor = "multi_thread")]
async fn java_reader_keeps_its_longest_lease_after_reentries() {
    // given a Java reader whose first lease is long, and whose leases of later reentries have ended
    let t = Setup::new().await;
    t.redis.command(&["HSET", "door", "mode", "read", "java:1", "6"]);
    t.redis.command(&["SET", "{door}:java:1:rwlock_timeout:1", "1", "PX", "3600000"]);
    t.redis.command(&["PEXPIRE", "door", "3600000"]);

    // when a Leasehold reader acquires and releases, then the Java reader still reads, and its
    // lease is as long as before
    release_guard(read(&t.ours()).await).await;
    assert!(t.ours().write().try_acquire().await.unwrap().is_none());
    assert!(pttl(&t.redis, "door") > 3_500_000, "{}", pttl(&t.redis, "door"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_dead_readers_do_not_block_a_writer() {
    // given more dead readers than one release removes
    let t = Setup::new().await;
    let fill = "redis.call('HSET', KEYS[1], 'mode', 'read') \
                for i = 1, 60 do redis.call('HSET', KEYS[1], 'dead:' .. i, 1) end \
                redis.call('PEXPIRE', KEYS[1], 60000)";
    t.redis.command(&["EVAL", fill, "1", "door"]);
    let began = Instant::now();

    // when a client acquires and releases the read side again and again
    let reads = t.ours().prefer_writers(false).read().ttl(secs(60));
    let readers = tokio::spawn(async move {
        loop {
            release_guard(reads.acquire().await.unwrap()).await;
            sleep(ms(100)).await;
        }
    });

    // then its releases remove the dead readers, and a writer acquires
    release_guard(t.theirs().write().acquire_within(secs(30)).await.unwrap()).await;
    assert!(began.elapsed() < secs(10), "{:?}", began.elapsed());
    readers.abort();
    readers.await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn writer_with_a_shorter_lease_does_not_shorten_its_read_lease() {
    let t = Setup::new().await;
    let writing = t.ours().write().ttl(secs(3)).acquire().await.unwrap();
    let reading = t.ours().acquire_read_with(&writing).await.unwrap();
    let renewed = t.one.stats().renewals;
    eventually("the hold is renewed", SOON, || t.one.stats().renewals > renewed);
    let again = writing.reenter().await.unwrap();
    crate::common::release_one_of_two(again).await;
    assert!(pttl(&t.redis, "door") > 20_000, "{}", pttl(&t.redis, "door"));
    release_guard(writing).await;
    assert!(pttl(&t.redis, "door") > 20_000, "{}", pttl(&t.redis, "door"));
    release_guard(reading).await;
    assert!(keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn downgraded_hold_has_only_the_lease_of_its_read_hold() {
    let t = Setup::new().await;
    let writing = t.ours().write().ttl(secs(600)).acquire().await.unwrap();
    let reading = t.ours().downgrade(writing).await.unwrap();
    let left = pttl(&t.redis, "door");
    assert!(left > 20_000 && left <= 30_000, "{left}");
    release_guard(reading).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_reader_expires_at_the_end_of_its_own_lease() {
    // given a reader with a ttl of three seconds, and a reader of another client with a ttl of
    // thirty seconds
    let t = Setup::new().await;
    let proxy = Proxy::before(t.redis.port());
    let dies = Client::connect(&proxy.url()).await.unwrap();
    let dead = door(&dies).read().ttl(secs(3)).acquire().await.unwrap();
    let reading = read(&t.ours()).await;

    // when the client of the first reader is cut off
    proxy.refuse(true);
    assert_eq!(within(SOON, "the client reports the loss", dead.lost()).await, LostReason::Expired);
    let lease = lease_of(&dead);
    eventually("the lease of the dead reader has ended", SOON, || pttl(&t.redis, &lease) == -2);

    // then the second reader keeps its hold, and after its release the dead reader blocks no client
    assert!(reading.is_held());
    assert!(t.theirs().write().try_acquire().await.unwrap().is_none());
    let writer = waiter(t.theirs().write());
    until_writers_wait(&t.redis, 1);
    release_guard(reading).await;
    release_guard(entered(writer).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writer_waits_at_most_for_the_lease_of_the_last_dead_reader() {
    let t = Setup::new().await;
    let proxy = Proxy::before(t.redis.port());
    let dies = Client::connect(&proxy.url()).await.unwrap();
    let dead = door(&dies).read().ttl(secs(3)).acquire().await.unwrap();
    let reading = read(&t.ours()).await;
    release_guard(reading).await;
    proxy.refuse(true);
    let writer = waiter(t.theirs().write());
    release_guard(entered(writer).await).await;
    drop(dead);
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_release_ends_one_side_and_notifies_its_holders() {
    let t = Setup::new().await;
    let readers = [
        t.ours().read().ttl(secs(3)).acquire().await.unwrap(),
        t.theirs().read().ttl(secs(3)).acquire().await.unwrap(),
    ];
    assert!(!t.ours().write().force_release().await.unwrap());
    assert!(t.ours().read().force_release().await.unwrap());
    assert!(!t.ours().read().force_release().await.unwrap());
    for reader in readers {
        let reason = within(SOON, "the next renewal reports the loss", reader.lost()).await;
        assert_eq!(reason, LostReason::NotOwned);
    }
    let writer = t.ours().write().ttl(secs(3)).acquire().await.unwrap();
    assert!(!t.theirs().read().force_release().await.unwrap());
    assert!(t.theirs().write().force_release().await.unwrap());
    assert_eq!(
        within(SOON, "the client reports the loss", writer.lost()).await,
        LostReason::NotOwned
    );
    let release = writer.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");
}

/// Former bug: the forced release of the write side deleted the whole lock. The reader trusted its
/// hold while another client wrote.
#[tokio::test(flavor = "multi_thread")]
async fn read_hold_of_a_writer_survives_the_loss_of_its_write_hold() {
    let t = Setup::new().await;
    let writing = t.ours().write().ttl(secs(60)).acquire().await.unwrap();
    let reading = t.ours().acquire_read_with(&writing).await.unwrap();
    assert!(t.theirs().write().force_release().await.unwrap());

    let fields = hash(&t.redis, "door").into_iter().collect::<BTreeSet<_>>();
    let reader = (reading.owner().to_string(), "1".to_owned());
    assert_eq!(fields, BTreeSet::from([("mode".to_owned(), "read".to_owned()), reader]));
    assert!((25_000..=30_000).contains(&pttl(&t.redis, "door")));
    assert!(t.theirs().write().try_acquire().await.unwrap().is_none());
    release_guard(read(&t.theirs()).await).await;
    let release = writing.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");
    release_guard(reading).await;
    release_guard(write(&t.theirs()).await).await;
}

/// Former bug: after a forced release of the read side, the reader was still returned as the
/// holder, and could not be released.
#[tokio::test(flavor = "multi_thread")]
async fn writer_keeps_its_write_hold_when_its_read_hold_is_lost() {
    let t = Setup::new().await;
    let writing = write(&t.ours()).await;
    let reading = t.ours().acquire_read_with(&writing).await.unwrap();
    let holder = t.theirs().read().holder().await.unwrap().expect("the client holds the read lock");
    assert_eq!(holder.owner(), reading.owner());
    assert!(t.theirs().read().force_release().await.unwrap());
    assert_eq!(t.theirs().read().holder().await.unwrap(), None);
    let release = reading.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");
    assert!(t.theirs().read().try_acquire().await.unwrap().is_none(), "a writer holds the lock");
    release_guard(writing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_writers_are_renewed() {
    let t = Setup::new().await;
    let [one, other] = [t.ours(), t.theirs()].map(|lock| lock.read().ttl(secs(3)));
    let readers = [one.acquire().await.unwrap(), other.acquire().await.unwrap()];
    sleep(secs(5)).await;
    for reader in readers {
        assert!(reader.is_held());
        release_guard(reader).await;
    }
    let writer = t.ours().write().ttl(secs(3)).acquire().await.unwrap();
    sleep(secs(5)).await;
    assert!(writer.is_held());
    release_guard(writer).await;
    assert!(keys(&t.redis).is_empty());
}

// Faults.

#[tokio::test(flavor = "multi_thread")]
async fn error_names_a_key_of_another_type_and_keeps_it_unchanged() {
    let t = Setup::new().await;
    for (found, put) in [
        ("string", &["SET", "door", "x"][..]),
        ("list", &["RPUSH", "door", "x"]),
        ("zset", &["ZADD", "door", "1", "x"]),
        ("stream", &["XADD", "door", "1-1", "x", "y"]),
    ] {
        t.redis.command(put);
        let java = Owner::new("java:1").unwrap();
        for side in [t.ours().read(), t.ours().write()] {
            for error in [
                side.try_acquire().await.unwrap_err(),
                within(SOON, "`acquire` fails", side.acquire()).await.unwrap_err(),
                side.force_release().await.unwrap_err(),
                side.holder().await.unwrap_err(),
                side.is_locked().await.unwrap_err(),
                side.held_by(&java).await.unwrap_err(),
            ] {
                match error {
                    Error::WrongType { name, found: named } => {
                        assert_eq!((name.as_str(), named.as_str()), ("door", found));
                    }
                    other => panic!("{found}: {other:?}"),
                }
            }
        }
        assert_eq!(keys(&t.redis), ["door"], "{found}");
        assert_eq!(pttl(&t.redis, "door"), -1);
        t.redis.command(&["DEL", "door"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn held_plain_lock_excludes_both_sides_of_a_read_write_lock() {
    let t = Setup::new().await;
    hold_by_hand(&t.redis, "door", "java:1", secs(4));
    for side in [t.ours().read(), t.ours().write()] {
        assert!(side.try_acquire().await.unwrap().is_none());
        assert!(!side.force_release().await.unwrap());
        assert_eq!(side.holder().await.unwrap(), None);
    }
    assert_eq!(hash(&t.redis, "door"), [("java:1".to_owned(), "1".to_owned())]);
    // When the plain lock is released, both sides are free.
    release_guard(read(&t.ours()).await).await;
    assert!(keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_a_missing_permission_and_leaves_no_key_behind() {
    let redis = Redis::start();
    let own = "~{door}:*";
    let cases: [(&str, bool, &[&str]); 5] = [
        ("the lock", true, &["~other", own, "~leasehold_rwlock__writers:*", "&*", "+@all"]),
        ("the lease", true, &["~door", "~leasehold_rwlock__writers:*", "&*", "+@all"]),
        ("scripts", true, &["~*", "&*", "+@all", "-evalsha"]),
        ("the lock", false, &["~other", "&*", "+@all"]),
        ("HSET", false, &["~*", "&*", "+@all", "-hset"]),
    ];
    for (missing, reads, rights) in cases {
        let lock = door(&with_acl(&redis, "limited", rights).await);
        let side = if reads { lock.read() } else { lock.write() };
        let error = within(SOON, "`acquire` fails", side.acquire()).await.unwrap_err();
        let Error::Forbidden { code, .. } = &error else { panic!("{missing}: {error:?}") };
        assert_eq!(code, "NOPERM", "{missing}");
        assert!(keys(&redis).is_empty(), "{missing}: {:?}", keys(&redis));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_access_to_the_key_of_waiting_writers_blocks_no_client() {
    let own = "~{door}:*";
    let cases: [&[&str]; 5] = [
        &["~door", own, "&*", "+@all"],
        &["~*", "&*", "+@all", "-zrem"],
        &["~*", "&*", "+@all", "-zadd"],
        &["~*", "&*", "+@all", "-zscore"],
        &["~*", "&*", "+@all", "-zrangebyscore"],
    ];
    for rights in cases {
        let redis = Redis::start();
        let [ours, theirs] = [
            door(&with_acl(&redis, "limited", rights).await),
            door(&with_acl(&redis, "limited", rights).await),
        ];
        each_acquires_after_the_other(&redis, &ours, &theirs).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_key_of_waiting_writers_blocks_no_client() {
    let t = Setup::new().await;
    for put in [&["SET", WRITERS, "x"][..], &["HSET", WRITERS, "x", "y"]] {
        t.redis.command(put);
        each_acquires_after_the_other(&t.redis, &t.ours(), &t.theirs()).await;
        t.redis.command(&["DEL", WRITERS]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_release_of_a_read_or_write_hold_changes_nothing() {
    let redis = Redis::start();
    for reads in [true, false] {
        let lock = door(&with_acl(&redis, "limited", &["~*", "&*", "+@all"]).await);
        let side = if reads { lock.read() } else { lock.write() };
        let guard = side.acquire().await.unwrap();
        let owner = guard.owner().to_string();
        redis.command(&["ACL", "SETUSER", "limited", "-del"]);
        let refused = guard.release().await.unwrap_err();
        assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
        let fields = hash(&redis, "door");
        assert!(fields.iter().any(|(field, _)| field.starts_with(&owner)), "{fields:?}");
        redis.command(&["FLUSHALL"]);
    }
}

/// Lets each client wait once, to read or to write. Asserts that no key of the lock is left.
async fn each_acquires_after_the_other(
    redis: &Redis,
    ours: &ReadWriteLock,
    theirs: &ReadWriteLock,
) {
    for reads in [true, false] {
        let side = |lock: &ReadWriteLock| if reads { lock.read() } else { lock.write() };
        let here = within(SOON, "the first client acquires", side(ours).acquire()).await.unwrap();
        let there = waiter(theirs.write());
        sleep(ms(100)).await;
        assert!(!there.is_finished());
        release_guard(here).await;
        let there = entered(there).await;
        let here = waiter(side(ours));
        sleep(ms(100)).await;
        assert!(!here.is_finished());
        release_guard(there).await;
        release_guard(entered(here).await).await;
        assert!(free(redis), "{:?}", keys(redis));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writer_without_pexpire_permission_leaves_no_waiting_entry() {
    let redis = Redis::start();
    let limited = with_acl(&redis, "limited", &["~*", "&*", "+@all", "-pexpire"]).await;
    redis.command(&["HSET", "door", "mode", "read", "java:1", "1"]);
    redis.command(&["PEXPIRE", "door", "5000"]);
    let waiting = waiter(door(&limited).write());
    eventually("the writer is subscribed", SOON, || subscribers(&redis, CHANNEL) == 1);
    assert_eq!(redis.command(&["EXISTS", WRITERS]).number(), 0);
    waiting.abort();
    waiting.await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_user_of_the_guide_has_exactly_the_needed_permissions() {
    let redis = Redis::start();
    let commands = crate::common::commands_of_the_guide("leasehold");
    let [plain, _, added, ..] = &commands[..] else { panic!("{commands:?}") };
    for words in [plain, added] {
        crate::common::follow(&redis, words);
    }
    redis.command(&["ACL", "LOG", "RESET"]);
    let before = redis.calls();
    read_and_write_in_all_ways(&redis, "leasehold", "app:door").await;

    // no command was denied, and every command that the section of the guide adds was executed
    let refused = redis.command(&["ACL", "LOG"]);
    assert!(refused.list().is_empty(), "{refused:?}");
    let calls = redis.calls().since(&before);
    let may_run = added.iter().filter_map(|word| word.strip_prefix('+'));
    let idle: Vec<&str> = may_run.filter(|command| calls.of(command) == 0).collect();
    assert!(idle.is_empty(), "never used: {idle:?}");

    // and the user needs every pattern that the section of the guide adds
    for (pattern, kind) in added[3..6].iter().zip(["key", "key", "channel"]) {
        let mut words: Vec<_> = added.iter().filter(|word| *word != pattern).copied().collect();
        words.splice(3..3, plain[3..].iter().copied());
        redis.command(&words);
        redis.command(&["ACL", "LOG", "RESET"]);
        let lock =
            crate::common::as_user(&redis, "leasehold").await.read_write_lock("app:door").unwrap();
        match lock.read().try_acquire().await {
            Ok(guard) => drop(guard.unwrap().release().await),
            Err(error) => assert!(matches!(error, Error::Forbidden { .. }), "{error:?}"),
        }
        let refused = redis.command(&["ACL", "LOG"]);
        let refused = format!("{refused:?}");
        assert!(refused.contains(kind), "{pattern}: {refused}");
    }
}

/// Uses a read-write lock in all ways, as two clients of `user`, so that the server checks every
/// permission.
async fn read_and_write_in_all_ways(redis: &Redis, user: &str, name: &str) {
    let limited = crate::common::as_user(redis, user).await;
    let other = crate::common::as_user(redis, user).await;
    let [ours, theirs] = [&limited, &other].map(|client| client.read_write_lock(name).unwrap());
    let writers = format!("leasehold_rwlock__writers:{{{name}}}");
    let until_waits = |number: i64| {
        eventually("the server knows the waiting writers", SOON, || {
            writers_that_wait(redis, &writers) == number
        });
    };

    // If many readers have died, each release removes some of them.
    let fill = "redis.call('HSET', KEYS[1], 'mode', 'read') \
                for i = 1, 20 do redis.call('HSET', KEYS[1], 'dead:' .. i, 1) end \
                redis.call('PEXPIRE', KEYS[1], 60000)";
    redis.command(&["EVAL", fill, "1", name]);
    release_guard(ours.read().acquire().await.unwrap()).await;
    eventually("the releases have removed the dead readers", SOON, || {
        redis.command(&["HLEN", name]).number() < 10
    });
    redis.command(&["DEL", name]);

    let reading = ours.read().ttl(secs(3)).acquire().await.unwrap();
    eventually("the hold is renewed", SOON, || limited.stats().renewals > 0);
    assert!(theirs.read().is_locked().await.unwrap());
    let leaves = waiter(theirs.write());
    until_waits(1);
    leaves.abort();
    until_waits(0);
    let writer = waiter(theirs.write().ttl(secs(3)));
    until_waits(1);
    let third = crate::common::as_user(redis, user).await.read_write_lock(name).unwrap();
    assert!(
        third.read().try_acquire().await.unwrap().is_none(),
        "the reader lets the writer acquire first"
    );
    release_guard(reading).await;
    let writing = entered(writer).await;
    let again = writing.reenter().await.unwrap();
    crate::common::release_one_of_two(again).await;
    eventually("the hold is renewed", SOON, || other.stats().renewals > 0);
    let reading = theirs.downgrade(writing).await.unwrap();
    assert_eq!(ours.read().held_by(reading.owner()).await.unwrap(), 1);
    assert!(ours.read().force_release().await.unwrap());
    drop(reading);
    assert_eq!(limited.stats().renewals_failed + other.stats().renewals_failed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn release_works_without_publish_permission() {
    let redis = Redis::start();
    let rights = ["~*", "+@all"];
    let (mute, other) = (with_acl(&redis, "limited", &rights).await, client(&redis).await);
    for reads in [true, false] {
        let side = |lock: ReadWriteLock| if reads { lock.read() } else { lock.write() };
        let guard = side(door(&mute)).acquire().await.unwrap();
        let waiting = waiter(door(&other).write());
        until_received_by(&redis, 1);
        assert!(matches!(guard.release().await, Ok(Release::Released)), "reads: {reads}");
        release_guard(entered(waiting).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_server_refuses_new_holds_and_accepts_releases() {
    let t = Setup::new().await;
    let reading = t.ours().read().ttl(secs(3)).acquire().await.unwrap();
    let window = t.ours();
    let writing =
        t.one.read_write_lock("window").unwrap().write().ttl(secs(3)).acquire().await.unwrap();
    t.redis.command(&["CONFIG", "SET", "maxmemory", "1"]);

    for side in [t.theirs().read(), t.other.read_write_lock("new").unwrap().write()] {
        let error = within(SOON, "`acquire` fails", side.acquire()).await.unwrap_err();
        assert!(error.to_string().contains("OOM"), "{error:?}");
    }
    assert!(!t.other.read_write_lock("new").unwrap().write().is_locked().await.unwrap());
    sleep(secs(4)).await;
    assert!(reading.is_held() && writing.is_held());
    // A reader that shares the hold of `reading` writes nothing to the store.
    drop(window);
    release_guard(reading).await;
    release_guard(writing).await;
    assert!(keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_scripts_are_loaded_again() {
    let t = Setup::new().await;
    let flush = || t.redis.command(&["SCRIPT", "FLUSH"]);
    flush();
    let reading = t.ours().read().ttl(secs(3)).acquire().await.unwrap();
    flush();
    assert!(t.ours().read().holder().await.unwrap().is_some());
    eventually("the hold is renewed", SOON, || t.one.stats().renewals > 0);
    flush();
    release_guard(reading).await;
    flush();
    let writing = t.ours().write().ttl(secs(3)).acquire().await.unwrap();
    flush();
    let renewed = t.one.stats().renewals;
    eventually("the hold is renewed", SOON, || t.one.stats().renewals > renewed);
    flush();
    let reading = t.ours().downgrade(writing).await.unwrap();
    flush();
    assert!(t.ours().read().force_release().await.unwrap());
    drop(reading);
    assert_eq!(t.one.stats().renewals_failed, 0);
    flush();
    release_guard(write(&t.ours()).await).await;
    // The key with the lease of a reader expires after its forced release.
    assert!(free(&t.redis));
}

#[tokio::test(flavor = "multi_thread")]
async fn request_with_a_lost_reply_creates_only_one_hold() {
    let t = Setup::new().await;
    let proxy = Proxy::before(t.redis.port());
    for reads in [true, false] {
        let lock = door(&Client::connect(&proxy.url()).await.unwrap());
        let side = if reads { lock.read() } else { lock.write() };
        // The first use of a script also loads it, so the test does not count this use.
        release_guard(side.acquire().await.unwrap()).await;

        // when the reply to a grant is lost, then the repeated request returns the same hold
        let (lost, before) = (proxy.lost_replies(), t.redis.calls());
        proxy.lose_next_reply();
        let guard = within(secs(10), "the client retries `acquire`", side.acquire()).await.unwrap();
        assert_eq!(proxy.lost_replies(), lost + 1);
        assert!(t.redis.calls().since(&before).of("evalsha") >= 2);
        assert_eq!(hash(&t.redis, "door").len(), 2, "the hash has the mode and one holder");
        assert_eq!(side.held_by(guard.owner()).await.unwrap(), 1);

        // and when the reply to a release is lost, the release returns that it succeeded
        proxy.lose_next_reply();
        let release =
            within(secs(10), "the client retries `release`", guard.release()).await.unwrap();
        assert!(release.into_result().is_ok(), "reads: {reads}");
        assert_eq!(proxy.lost_replies(), lost + 2);
        assert!(keys(&t.redis).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_future_leaves_no_hold() {
    let t = Setup::new().await;
    let proxy = Proxy::before(t.redis.port());
    let client = Client::connect(&proxy.url()).await.unwrap();
    for reads in [true, false] {
        for delay in [0, 1, 5, 20, 100] {
            let lock = door(&client);
            proxy.delay(ms(200));
            let acquiring = waiter(if reads { lock.read() } else { lock.write() });
            sleep(ms(delay)).await;
            acquiring.abort();
            acquiring.await.unwrap_err();
            proxy.delay(Duration::ZERO);
            sleep(ms(300)).await;
            eventually("the lock is free", SOON, || keys(&t.redis).is_empty());
        }
    }
    // Each future is also dropped while another client has the write hold.
    for reads in [true, false] {
        let holder = write(&t.theirs()).await;
        for delay in [0, 1, 20, 100] {
            let lock = door(&client);
            let waiting = waiter(if reads { lock.read() } else { lock.write() });
            sleep(ms(delay)).await;
            waiting.abort();
            waiting.await.unwrap_err();
        }
        eventually("no waiter is left", SOON, || keys(&t.redis) == ["door"]);
        release_guard(holder).await;
        assert!(keys(&t.redis).is_empty());
    }
    // The future of a downgrade is also dropped.
    for delay in [0, 1, 20, 100, 250] {
        let lock = door(&client);
        let writing = write(&lock).await;
        proxy.delay(ms(200));
        let downgrading = tokio::spawn(async move { lock.downgrade(writing).await });
        sleep(ms(delay)).await;
        downgrading.abort();
        downgrading.await.ok();
        proxy.delay(Duration::ZERO);
        sleep(ms(300)).await;
        eventually("the lock is free", SOON, || keys(&t.redis).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_that_waits_to_write_gets_an_error_about_its_own_hold() {
    let t = Setup::new().await;
    // given a reader of this client among readers of other clients
    let others = join_all((0..12).map(|_| async {
        let client = client(&t.redis).await;
        read(&door(&client)).await
    }));
    let others = others.await;
    let reading = read(&t.ours()).await;

    // when the task that reads waits to write as well
    let error = t.ours().write().acquire_within(secs(1)).await.unwrap_err();

    // then the error reports that this client itself holds the lock
    let Error::TimedOut { by_this_client, .. } = &error else { panic!("{error:?}") };
    assert!(by_this_client, "{error:?}");
    assert!(error.to_string().contains("by another guard of this client"), "{error}");
    release_guard(reading).await;
    for reading in others {
        release_guard(reading).await;
    }
}

#[tokio::test]
async fn long_wait_of_a_client_for_its_own_hold_is_logged() {
    const LOGGED: &str = "self-wait detected: this client waits for a lock that it holds";
    let (log, _noting) = Log::begin();
    let redis = Redis::start();
    let lock = door(&client(&redis).await);
    for reads in [true, false] {
        let [held, wanted] =
            if reads { [lock.read(), lock.write()] } else { [lock.write(), lock.read()] };
        let guard = held.ttl(secs(3)).acquire().await.unwrap();
        // The first wait is too short, because the client logs a self-wait only if the hold has
        // lasted for 5 s. It logs self-waits at most every ten seconds.
        let before = log.text().matches(LOGGED).count();
        assert!(wanted.acquire_within(secs(4)).await.is_err());
        assert_eq!(log.text().matches(LOGGED).count(), before, "{}", log.text());
        assert!(wanted.acquire_within(secs(8)).await.is_err());
        assert_eq!(log.text().matches(LOGGED).count(), before + 1, "{}", log.text());
        release_guard(guard).await;
    }
}

/// Whether the server has neither a reader nor a writer.
fn free(redis: &Redis) -> bool {
    redis.command(&["EXISTS", "door"]).number() == 0
}

// Threads.

#[cfg(feature = "blocking")]
mod threads {
    use leasehold::{Error, blocking::Client};
    use testkit::Redis;

    use super::{SOON, keys, until_received_by};

    fn two(redis: &Redis) -> [leasehold::blocking::ReadWriteLock; 2] {
        [(); 2].map(|()| Client::connect(&redis.url()).unwrap().read_write_lock("door").unwrap())
    }

    #[test]
    fn thread_with_a_read_hold_cannot_acquire_the_write_side() {
        let redis = Redis::start();
        let [ours, _] = two(&redis);
        let reading = ours.read().acquire().unwrap();
        for refused in [
            ours.write().acquire().unwrap_err(),
            ours.write().acquire_within(SOON).unwrap_err(),
            ours.write().try_acquire().unwrap_err(),
        ] {
            assert!(matches!(refused, Error::UpgradeNotSupported { .. }), "{refused:?}");
        }
        // The other thread has no read hold. So its request to write is not an upgrade, and waits.
        let writer = std::thread::spawn(move || {
            ours.write().acquire().unwrap().release().unwrap().into_result()
        });
        until_received_by(&redis, 1);
        reading.release().unwrap().into_result().unwrap();
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn writing_thread_may_also_read_and_keep_its_read_hold() {
        let redis = Redis::start();
        let [ours, theirs] = two(&redis);
        let writing = ours.write().acquire().unwrap();
        let reading = ours.read().acquire().unwrap();
        let again = ours.read().acquire().unwrap();
        assert!(theirs.read().try_acquire().unwrap().is_none());
        let other = std::thread::spawn(move || theirs.read().acquire().unwrap().release().unwrap());
        until_received_by(&redis, 1);

        writing.release().unwrap().into_result().unwrap();
        other.join().unwrap().into_result().unwrap();
        assert!(ours.write().acquire().is_err());
        again.release().unwrap().into_result().unwrap();
        assert!(ours.write().try_acquire().is_err());
        reading.release().unwrap().into_result().unwrap();
        ours.write().acquire().unwrap().release().unwrap().into_result().unwrap();
        assert!(keys(&redis).is_empty());
    }
}

// The cost.

/// Returns the commands that clients sent while `act` ran. Commands that scripts call do not count.
async fn sent_during<T>(redis: &Redis, act: impl Future<Output = T>) -> (Vec<String>, T) {
    let monitor = redis.monitor();
    let done = act.await;
    let lines = monitor.stop();
    let sent = lines.iter().filter(|line| !line.contains(" lua] ")).map(|line| {
        let (_, words) = line.split_once("] ").expect("a line of MONITOR has an address");
        words.split(' ').next().unwrap_or_default().trim_matches('"').to_owned()
    });
    (sent.collect(), done)
}

fn of(calls: &Calls, commands: &[&str]) -> Vec<u64> {
    commands.iter().map(|command| calls.of(command)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_acquire_and_each_release_is_one_evalsha() {
    let t = Setup::new().await;
    // The first use of a script also loads it, so the test does not count this use.
    release_guard(read(&t.ours()).await).await;
    release_guard(write(&t.ours()).await).await;
    for side in [t.ours().read(), t.ours().write()] {
        let (sent, guard) = sent_during(&t.redis, side.acquire()).await;
        assert_eq!(sent, ["EVALSHA"]);
        let (sent, ()) = sent_during(&t.redis, release_guard(guard.unwrap())).await;
        assert_eq!(sent, ["EVALSHA"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_concurrent_readers_of_a_process_send_two_requests() {
    let t = Setup::new().await;
    release_guard(read(&t.ours()).await).await;
    let before = t.redis.calls();
    let lock = t.ours().read().local_handoff(10_000, secs(60));
    let first = lock.acquire().await.unwrap();
    let others = join_all((0..999).map(|_| lock.acquire())).await;
    let owners: BTreeSet<_> =
        others.iter().map(|other| other.as_ref().unwrap().owner().clone()).collect();
    assert_eq!(owners, BTreeSet::from([first.owner().clone()]));
    for other in others {
        assert!(other.unwrap().release().await.unwrap().into_result().is_ok());
    }
    release_guard(first).await;
    let calls = t.redis.calls().since(&before);
    assert_eq!(of(&calls, &["evalsha", "hset", "publish"]), [2, 2, 1], "{calls}");
}

/// Readers cannot see that this writer waits, just as they cannot see a waiting writer of Redisson.
/// When a message wakes the writer, the writer must find the lock free. So the readers must pause
/// between their holds.
async fn unannounced_writer_acquires_behind<F>(readers: usize, reads: fn(ReadWriteLock) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let t = Setup::new().await;
    let mut tasks = JoinSet::new();
    for _ in 0..readers {
        tasks.spawn(reads(t.ours().prefer_writers(false)));
    }
    let began = Instant::now();
    for _ in 0..5 {
        release_guard(
            within(secs(30), "the writer acquires", t.theirs().write().acquire()).await.unwrap(),
        )
        .await;
    }
    println!("the writer acquired 5 times in {:?}", began.elapsed());
}

async fn reads_and_releases(lock: ReadWriteLock) {
    loop {
        lock.read().acquire().await.unwrap().release().await.unwrap().into_result().unwrap();
    }
}

async fn tries_to_read(lock: ReadWriteLock) {
    loop {
        match lock.read().try_acquire().await.unwrap() {
            Some(guard) => guard.release().await.unwrap().into_result().unwrap(),
            None => sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn reads_for_a_millisecond_and_drops(lock: ReadWriteLock) {
    loop {
        let _guard = lock.read().acquire().await.unwrap();
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer_acquires_among_unyielding_readers_that_share_holds() {
    unannounced_writer_acquires_behind(64, reads_and_releases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer_acquires_among_unyielding_readers_that_try_acquire() {
    unannounced_writer_acquires_behind(64, tries_to_read).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer_acquires_among_unyielding_readers_that_drop_guards() {
    for readers in [1, 8] {
        unannounced_writer_acquires_behind(readers, reads_for_a_millisecond_and_drops).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_reads_of_eight_local_tasks_share_requests() {
    let t = Setup::new().await;
    release_guard(read(&t.ours()).await).await;
    let (before, began) = (t.redis.calls(), Instant::now());
    let lock = t.ours().read();
    let tasks = (0..8).map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move {
            for _ in 0..500 {
                let guard = lock.acquire().await.unwrap();
                tokio::task::yield_now().await;
                guard.release().await.unwrap().into_result().unwrap();
            }
        })
    });
    join_all(tasks.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
    let calls = t.redis.calls().since(&before);
    assert!(calls.of("evalsha") < 4_000, "{calls} in {:?}", began.elapsed());
    assert!(keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_evalsha_per_third_of_the_ttl_renews_hundred_readers() {
    let t = Setup::new().await;
    let locks: Vec<_> = (0..100)
        .map(|n| t.one.read_write_lock(format!("door-{n}")).unwrap().read().ttl(secs(6)))
        .collect();
    let guards = join_all(locks.iter().map(leasehold::Lock::acquire)).await;
    let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
    let before = t.redis.calls();
    eventually("each lock is renewed twice", secs(15), || t.one.stats().renewals >= 200);
    let calls = t.redis.calls().since(&before);
    // The first renewal also loads the script.
    assert!((2..=3).contains(&calls.of("evalsha")), "{calls}");
    assert_eq!(calls.of("hexists"), 200, "{calls}");
    drop(guards);
    eventually("all locks are free", SOON, || keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn script_cost_is_independent_of_the_number_of_readers() {
    let few = commands_with_other_readers(40).await;
    let many = commands_with_other_readers(10_000).await;
    assert_eq!(few, many);
}

/// Returns the number of commands that each step costs while `readers` other readers hold.
async fn commands_with_other_readers(readers: usize) -> Vec<(&'static str, usize)> {
    let t = Setup::new().await;
    release_guard(read(&t.ours()).await).await;
    release_guard(write(&t.ours()).await).await;
    t.redis.command(&["HSET", "door", "mode", "read"]);
    let fill = "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'java:' .. i, 1) \
                redis.call('SET', '{door}:java:' .. i .. ':rwlock_timeout:1', 1, 'PX', 60000) end \
                redis.call('PEXPIRE', KEYS[1], 60000)";
    t.redis.command(&["EVAL", fill, "1", "door", &readers.to_string()]);

    let mut steps = Vec::new();
    let monitor = t.redis.monitor();
    let guard = t.ours().read().acquire().await.unwrap();
    steps.push(("read", inside(monitor.stop())));
    let monitor = t.redis.monitor();
    assert!(t.theirs().write().try_acquire().await.unwrap().is_none());
    steps.push(("write", inside(monitor.stop())));
    let monitor = t.redis.monitor();
    t.theirs().read().holder().await.unwrap().unwrap();
    steps.push(("inspect", inside(monitor.stop())));
    let monitor = t.redis.monitor();
    release_guard(guard).await;
    steps.push(("leave", inside(monitor.stop())));
    steps
}

fn inside(lines: Vec<String>) -> usize {
    lines.iter().filter(|line| line.contains(" lua] ")).count()
}

/// Former bug: the client logged that it gave up the release of a lock, although it had never held
/// the lock.
#[tokio::test]
async fn writer_logs_no_release_when_the_key_has_another_type() {
    let t = Setup::new().await;
    t.redis.command(&["SET", "door", "text"]);
    let (log, _noting) = Log::begin();
    let error = t.ours().write().acquire_within(secs(1)).await.unwrap_err();
    assert!(matches!(error, Error::WrongType { .. }), "{error}");
    t.one.shutdown(secs(5)).await;
    assert_eq!((log.text().as_str(), t.one.stats().releases_abandoned), ("", 0));
}
