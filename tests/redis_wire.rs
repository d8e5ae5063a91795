//! The lock in Redis: its keys and messages have the same bytes as those of Redisson's `RLock`.
//! This file also tests lost replies.

use std::time::Duration;

use crate::common::{
    Listener, POLLING, SOON, channel, client, entered, hash, hold_by_hand, keys, ms, pttl,
    release_by_hand, release_guard, release_one_of_two, secs, subscribers, until_subscribed,
    waiter, within,
};
use leasehold::{Client, Error, LostReason, Owner, Release};
use testkit::{Proxy, Redis, Reply, eventually};
use tokio::time::{Instant, sleep};

const JAVA: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";

// The keys.

#[tokio::test(flavor = "multi_thread")]
async fn held_lock_is_a_hash_with_its_owner_and_a_ttl_of_30_s() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().acquire().await.unwrap();

    let ttl = pttl(&redis, "door");
    assert_eq!(hash(&redis, "door"), [(format!("{}:1", client.id()), "1".to_owned())]);
    assert_eq!(guard.owner().as_str(), format!("{}:1", client.id()));
    assert!((29_001..=30_000).contains(&ttl), "{ttl}");
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_is_redissons_lower_case_uuid_and_a_number() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().acquire().await.unwrap();

    let (uuid, number) = guard.owner().as_str().split_once(':').unwrap();
    assert_eq!(uuid::Uuid::parse_str(uuid).unwrap().hyphenated().to_string(), uuid);
    assert!(number.parse::<i64>().unwrap() > 0);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ttl_and_fixed_lease_become_the_ttl_of_the_redis_key() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let renewed = client.lock("renewed").unwrap().ttl(secs(12)).acquire().await.unwrap();
    let fixed = client.lock("fixed").unwrap().lease(secs(3_600)).acquire().await.unwrap();

    let (ttl, lease) = (pttl(&redis, "renewed"), pttl(&redis, "fixed"));
    assert!((11_001..=12_000).contains(&ttl), "{ttl}");
    assert!((3_599_001..=3_600_000).contains(&lease), "{lease}");
    release_guard(renewed).await;
    release_guard(fixed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fraction_of_a_millisecond_is_rounded_up() {
    let redis = Redis::start();
    let lease = Duration::new(100, 999_000_001);
    let lock = client(&redis).await.lock("door").unwrap().lease(lease);
    let monitor = redis.monitor();
    let guard = lock.acquire().await.unwrap();

    let lines = monitor.stop();
    let set = lines.iter().find(|line| line.contains("PEXPIRE")).expect("a lease is set");
    assert!(set.ends_with(r#""door" "101000""#), "{set}");
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_count_in_redis_grows_by_a_reentry_as_for_redisson() {
    let redis = Redis::start();
    let count = |owner: &Owner| redis.command(&["HGET", "door", owner.as_str()]);
    let guard = client(&redis).await.lock("door").unwrap().acquire().await.unwrap();
    let owner = guard.owner().clone();

    let again = guard.reenter().await.unwrap();
    assert_eq!(count(&owner), Reply::Text("2".into()));

    assert_eq!(again.release().await.unwrap(), Release::StillHeld { count: 1 });
    assert_eq!(count(&owner), Reply::Text("1".into()));

    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(keys(&redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn reentry_renews_every_lease_except_a_fixed_lease() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let renewed = client.lock("renewed").unwrap().acquire().await.unwrap();
    let fixed = client.lock("fixed").unwrap().lease(secs(30)).acquire().await.unwrap();
    for name in ["renewed", "fixed"] {
        redis.command(&["PEXPIRE", name, "15000"]);
    }

    let renewed_again = renewed.reenter().await.unwrap();
    let fixed_again = fixed.reenter().await.unwrap();

    assert!(pttl(&redis, "renewed") > 15_000);
    assert!(pttl(&redis, "fixed") <= 15_000);
    release_one_of_two(renewed_again).await;
    release_one_of_two(fixed_again).await;
    release_guard(renewed).await;
    release_guard(fixed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_has_only_the_lock_its_queue_and_its_yield_record() {
    // given a lock that is held with two shares, a client that waits for it, and a client that
    // polls
    let redis = Redis::start();
    let (ours, other) = (client(&redis).await, client(&redis).await);
    let guard = ours.lock("door").unwrap().acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    let listening = waiter(other.lock("door").unwrap());
    let polling = waiter(ours.lock("door").unwrap().wait_strategy(POLLING));
    until_subscribed(&redis, &channel("door"));
    // While a client waits, there are also the queue of the lock and the record of yield windows.
    let only_the_lock = || {
        let ours = ["door", "leasehold_lock__queue:{door}", "leasehold_lock__yield:{door}"];
        keys(&redis).iter().all(|key| ours.contains(&key.as_str()))
    };
    assert!(only_the_lock(), "{:?}", keys(&redis));

    // when each of these clients has held the lock, one after the other
    release_one_of_two(again).await;
    assert!(only_the_lock(), "{:?}", keys(&redis));
    release_guard(guard).await;
    let back = async |waiter| release_guard(entered(waiter).await).await;
    tokio::join!(back(listening), back(polling));

    // then no latch, queue or counter is left
    assert!(keys(&redis).is_empty());
}

// The messages.

#[tokio::test(flavor = "multi_thread")]
async fn release_publishes_zero_on_redissons_channel_once() {
    let redis = Redis::start();
    let guard = client(&redis).await.lock("door").unwrap().acquire().await.unwrap();
    let mut java = Listener::to(&redis, "redisson_lock__channel:{door}");
    release_guard(guard).await;
    assert_eq!(java.received(), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn name_with_a_hash_tag_keeps_its_own_braces() {
    let redis = Redis::start();
    let guard = client(&redis).await.lock("{tag}:x").unwrap().acquire().await.unwrap();
    assert_eq!(keys(&redis), ["{tag}:x"]);
    let mut java = Listener::to(&redis, "redisson_lock__channel:{tag}:x");
    release_guard(guard).await;
    assert_eq!(java.received(), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn release_of_a_reentry_publishes_nothing() {
    let redis = Redis::start();
    let guard = client(&redis).await.lock("door").unwrap().acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    let mut java = Listener::to(&redis, &channel("door"));
    release_one_of_two(again).await;
    assert!(java.received().is_empty());
    release_guard(guard).await;
    assert_eq!(java.received(), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_guard_is_released_and_published_like_a_release() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    let mut java = Listener::to(&redis, &channel("door"));
    drop(guard);
    eventually("the lock is free", SOON, || keys(&redis).is_empty());
    assert_eq!(java.received(), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_release_is_published_only_if_the_lock_was_held() {
    let redis = Redis::start();
    let lock = client(&redis).await.lock("door").unwrap();
    hold_by_hand(&redis, "door", JAVA, secs(60));
    let mut java = Listener::to(&redis, &channel("door"));

    assert!(lock.force_release().await.unwrap());
    assert!(keys(&redis).is_empty());
    assert_eq!(java.received(), ["0"]);

    assert!(!lock.force_release().await.unwrap());
    assert!(java.received().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn java_listeners_see_release_and_expiry_of_the_key() {
    // given a subscriber of the events that Redisson's `DeletedObjectListener` and
    // `ExpiredObjectListener` use
    let redis = Redis::options().arg("--notify-keyspace-events", "Egx").start();
    let client = client(&redis).await;
    let mut deleted = Listener::to(&redis, "__keyevent@0__:del");
    let mut expired = Listener::to(&redis, "__keyevent@0__:expired");

    // when a lock is released
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    assert_eq!(deleted.received(), ["door"]);
    assert!(expired.received().is_empty());

    // and when a lease has ended
    let guard = client.lock("window").unwrap().lease(ms(300)).acquire().await.unwrap();
    eventually("the lease ends", SOON, || expired.received() == ["window"]);
    assert!(deleted.received().is_empty());
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_client_excludes_others_and_never_subscribes() {
    // given a lock that one client holds, and another client that polls for it
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let monitor = redis.monitor();
    let guard = one.lock("door").unwrap().wait_strategy(POLLING).acquire().await.unwrap();
    let waiting = waiter(other.lock("door").unwrap().wait_strategy(POLLING));
    eventually("the other client polls", SOON, || redis.calls().of("evalsha") > 3);
    assert!(!waiting.is_finished());
    assert!(one.lock("door").unwrap().try_acquire().await.unwrap().is_none());
    assert!(redis.command(&["PUBSUB", "CHANNELS", "*_lock__*"]).list().is_empty());

    // when the holder releases, and the other client acquires and releases
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;

    // then no client has subscribed, and each release was published
    let lines = monitor.stop();
    let count = |verb: &str| lines.iter().filter(|line| line.contains(verb)).count();
    assert_eq!(count("\"SUBSCRIBE\""), 0, "{lines:#?}");
    assert_eq!(count("\"PUBLISH\" \"redisson_lock__channel:{door}\" \"0\""), 2, "{lines:#?}");
    assert_eq!(count("\"PUBLISH\""), 2, "{lines:#?}");
    assert!(keys(&redis).is_empty());
}

// Data of other programs.

#[tokio::test(flavor = "multi_thread")]
async fn java_lock_excludes_rust_and_rust_reads_its_holder() {
    let redis = Redis::start();
    let lock = client(&redis).await.lock("door").unwrap();
    hold_by_hand(&redis, "door", JAVA, secs(20));
    redis.command(&["HINCRBY", "door", JAVA, "2"]);

    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.is_locked().await.unwrap());
    let holder = lock.holder().await.unwrap().unwrap();
    assert_eq!((holder.owner().as_str(), holder.count()), (JAVA, 3));
    let remaining = holder.remaining().unwrap();
    assert!(remaining > secs(15) && remaining <= secs(20), "{remaining:?}");
    assert_eq!(lock.held_by(&Owner::new(JAVA).unwrap()).await.unwrap(), 3);
    assert_eq!(lock.held_by(&Owner::new("somebody:1").unwrap()).await.unwrap(), 0);
    assert_eq!(hash(&redis, "door"), [(JAVA.to_owned(), "3".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn java_writer_is_returned_as_holder_and_excludes_a_rust_lock() {
    let redis = Redis::start();
    let lock = client(&redis).await.lock("door").unwrap();
    let writer = format!("{JAVA}:write");
    redis.command(&["HSET", "door", "mode", "write", &writer, "1"]);
    redis.command(&["PEXPIRE", "door", "20000"]);

    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(lock.holder().await.unwrap().unwrap().owner().as_str(), writer);
}

/// A hold of Java's `getMultiLock("door", values)`, which Leasehold does not support.
#[tokio::test(flavor = "multi_thread")]
async fn group_lock_of_java_excludes_a_rust_lock_of_its_key() {
    let redis = Redis::start();
    let lock = client(&redis).await.lock("door").unwrap();
    let value = "DqvoYruF5eyLDrILcprmBw";
    let [count, expires] = ["lock_count", "expire_time"].map(|it| format!("{value}:{JAVA}:{it}"));
    redis.command(&["HSET", "door", value, JAVA, &count, "1", &expires, "1795000000000"]);
    redis.command(&["PEXPIRE", "door", "2000"]);
    let before = hash(&redis, "door");

    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(hash(&redis, "door"), before);
    let guard = lock.acquire_within(secs(10)).await.unwrap();
    assert_eq!(hash(&redis, "door"), [(guard.owner().to_string(), "1".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_error_names_the_java_holder() {
    let redis = Redis::start();
    let lock = client(&redis).await.lock("door").unwrap();
    hold_by_hand(&redis, "door", JAVA, secs(20));
    match lock.acquire_within(secs(2)).await.unwrap_err() {
        Error::TimedOut { holder: Some(holder), .. } => assert_eq!(holder.owner().as_str(), JAVA),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn java_release_wakes_a_rust_waiter() {
    // given a waiter that is subscribed, and has repeated its request
    let redis = Redis::start();
    let client = client(&redis).await;
    hold_by_hand(&redis, "door", JAVA, secs(60));
    let waiting = waiter(client.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));
    eventually("the subscribed waiter has repeated its request", SOON, || {
        redis.calls().of("evalsha") >= 2
    });

    // when Java releases
    let released = Instant::now();
    release_by_hand(&redis, "door");

    // then the message wakes the waiter, because the timer of the waiter takes 2.25 s or more
    let guard = entered(waiting).await;
    assert!(released.elapsed() < ms(1_500), "{:?}", released.elapsed());
    assert_eq!(client.stats().wake_ups, 1);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_acquires_when_the_lease_of_a_dead_java_holder_ends() {
    // given a Java hold that is never released
    let redis = Redis::start();
    let client = client(&redis).await;
    let start = Instant::now();
    hold_by_hand(&redis, "door", JAVA, ms(500));
    let before = redis.calls();

    // when a client waits for the lock
    let guard = within(
        SOON,
        "the client acquires when the lease ends",
        client.lock("door").unwrap().acquire(),
    )
    .await;

    // then the client acquires when the lease ends, and not before. The client sends requests when
    // it is subscribed, soon after that, and at the end of the lease. Redis rounds the remaining
    // time down, and a reply may be late on a busy machine. So the request at the end of the lease
    // may be too early. The client then sends another request each millisecond. A timer alone would
    // take 2.25 s or more.
    let took = start.elapsed();
    assert!(took >= ms(490) && took < secs(2), "{took:?}");
    let asked = redis.calls().since(&before).of("evalsha");
    let late = (took - ms(490)).as_millis() as u64;
    assert!((2..=5 + late).contains(&asked), "{asked} in {took:?}");
    release_guard(guard.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hold_without_a_lease_never_ends() {
    let redis = Redis::start();
    let lock = client(&redis).await.lock("door").unwrap();
    redis.command(&["HSET", "door", JAVA, "1"]);

    assert!(lock.try_acquire().await.unwrap().is_none());
    match lock.acquire_within(secs(1)).await.unwrap_err() {
        Error::TimedOut { holder: Some(holder), .. } => assert_eq!(holder.remaining(), None),
        other => panic!("{other}"),
    }
    assert_eq!(pttl(&redis, "door"), -1);
    assert_eq!(hash(&redis, "door"), [(JAVA.to_owned(), "1".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn release_of_a_foreign_hold_without_a_lease_wakes_waiters() {
    let redis = Redis::start();
    let client = client(&redis).await;
    redis.command(&["HSET", "door", JAVA, "1"]);
    let waiting = waiter(client.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));
    release_by_hand(&redis, "door");
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_leaves_a_later_java_hold_untouched() {
    let redis = Redis::start();
    let guard = client(&redis).await.lock("door").unwrap().acquire().await.unwrap();
    redis.command(&["DEL", "door"]);
    hold_by_hand(&redis, "door", JAVA, secs(20));
    let mut java = Listener::to(&redis, &channel("door"));

    match guard.release().await.unwrap() {
        Release::NotHeld { holder: Some(holder), .. } => {
            assert_eq!(holder.owner().as_str(), JAVA);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(hash(&redis, "door"), [(JAVA.to_owned(), "1".to_owned())]);

    // and the waiters are notified in vain. The releasing client cannot know that Java holds the
    // lock, and a script that checks this would double the cost of each release
    assert_eq!(java.received(), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn release_of_a_lost_hold_publishes_nothing() {
    // given a hold whose lease has ended, and a later hold of another client
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().lease(ms(50)).acquire().await.unwrap();
    assert_eq!(
        within(SOON, "the client reports the loss", guard.lost()).await,
        LostReason::Expired
    );
    redis.command(&["DEL", "door"]);
    hold_by_hand(&redis, "door", JAVA, secs(20));
    let mut java = Listener::to(&redis, &channel("door"));

    // then the release of the first hold does not change the later hold, and wakes no waiter
    assert!(matches!(guard.release().await.unwrap(), Release::NotHeld { .. }));
    assert_eq!(hash(&redis, "door"), [(JAVA.to_owned(), "1".to_owned())]);
    assert!(java.received().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn garbled_messages_grant_and_block_nothing() {
    // given a waiter
    let redis = Redis::start();
    let client = client(&redis).await;
    hold_by_hand(&redis, "door", JAVA, secs(60));
    let waiting = waiter(client.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));

    // when invalid messages are published
    let long = "0".repeat(1_000_000);
    for garbage in ["", "1", "-1", "null", "{\"a\":1}", "\0\r\n$5\r\n", "\u{fffd}", &long] {
        redis.command(&["PUBLISH", &channel("door"), garbage]);
    }
    sleep(ms(300)).await;

    // then the waiter keeps waiting, and a release still wakes it
    assert!(!waiting.is_finished());
    assert_eq!(hash(&redis, "door"), [(JAVA.to_owned(), "1".to_owned())]);
    release_by_hand(&redis, "door");
    let guard = entered(waiting).await;
    assert_eq!(client.stats().reconnects, 0);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_waiter_leaves_no_subscription() {
    let redis = Redis::start();
    let client = client(&redis).await;
    hold_by_hand(&redis, "door", JAVA, secs(60));
    let waiting = waiter(client.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));
    waiting.abort();
    eventually("no client is subscribed", SOON, || subscribers(&redis, &channel("door")) == 0);
}

// Lost replies: the server has executed a request, but the client gets no reply.

/// A client that connects through a proxy which can lose replies.
struct Flaky {
    redis: Redis,
    proxy: Proxy,
    client: Client,
}

impl Flaky {
    async fn new() -> Self {
        let redis = Redis::start();
        let proxy = Proxy::before(redis.port());
        let client = Client::connect(&proxy.url()).await.unwrap();
        Self { redis, proxy, client }
    }

    /// Lets the proxy lose the next reply about the lock, and close the connection.
    fn lose_next_reply(&self) {
        self.proxy.lose_reply_to("door");
    }

    fn count(&self, owner: &Owner) -> Reply {
        self.redis.command(&["HGET", "door", owner.as_str()])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_is_retried_after_a_lost_reply_and_counts_once() {
    let t = Flaky::new().await;
    t.lose_next_reply();
    let lock = t.client.lock("door").unwrap();
    let guard = within(SOON, "the client retries `acquire`", lock.acquire()).await.unwrap();

    assert_eq!(t.proxy.lost_replies(), 1);
    assert_eq!(t.count(guard.owner()), Reply::Text("1".into()));
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn try_acquire_retried_after_a_lost_reply_counts_once() {
    let t = Flaky::new().await;
    t.lose_next_reply();
    let lock = t.client.lock("door").unwrap();
    let guard = within(SOON, "the client retries `try_acquire`", lock.try_acquire()).await.unwrap();
    let guard = guard.expect("the lock is free");

    assert_eq!(t.proxy.lost_replies(), 1);
    assert_eq!(t.count(guard.owner()), Reply::Text("1".into()));
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn release_with_a_lost_reply_succeeds() {
    let t = Flaky::new().await;
    let guard = t.client.lock("door").unwrap().acquire().await.unwrap();
    t.lose_next_reply();
    let released = within(SOON, "the client retries `release`", guard.release()).await.unwrap();

    assert_eq!(t.proxy.lost_replies(), 1);
    assert_eq!(released, Release::Released);
    assert!(keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn release_with_a_lost_reply_succeeds_after_java_acquired() {
    // given a release whose reply is lost, and a Java process that acquires at once
    let t = Flaky::new().await;
    let guard = t.client.lock("door").unwrap().acquire().await.unwrap();
    t.lose_next_reply();
    let releasing = tokio::spawn(guard.release());
    eventually("the lock is free", SOON, || keys(&t.redis).is_empty());
    hold_by_hand(&t.redis, "door", JAVA, secs(20));

    // then the release has ended the holder's own hold, and the Java hold remains
    let released = within(SOON, "the client retries `release`", releasing).await.unwrap().unwrap();
    assert_eq!(released, Release::Released);
    assert_eq!(hash(&t.redis, "door"), [(JAVA.to_owned(), "1".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reentry_and_release_count_once_after_lost_replies() {
    let t = Flaky::new().await;
    let guard = t.client.lock("door").unwrap().acquire().await.unwrap();

    t.lose_next_reply();
    let again = within(SOON, "the client retries `reenter`", guard.reenter()).await.unwrap();
    assert_eq!((t.count(guard.owner()), guard.count()), (Reply::Text("2".into()), 2));

    t.lose_next_reply();
    let released = within(SOON, "the client retries `release`", again.release()).await.unwrap();
    assert_eq!(released, Release::StillHeld { count: 1 });
    assert_eq!((t.count(guard.owner()), guard.count()), (Reply::Text("1".into()), 1));

    assert_eq!(t.proxy.lost_replies(), 2);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_is_retried_after_a_lost_reply() {
    let t = Flaky::new().await;
    let guard = t.client.lock("door").unwrap().ttl(secs(3)).acquire().await.unwrap();
    t.lose_next_reply();
    eventually("a reply is lost", SOON, || t.proxy.lost_replies() == 1);
    eventually("the lock is renewed", SOON, || t.client.stats().renewals >= 2);

    assert_eq!(t.client.stats().renewals_failed, 1);
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn fixed_lease_that_redis_shortens_ends_with_expired() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().lease(secs(6)).acquire().await.unwrap();
    redis.command(&["PEXPIRE", "door", "4000"]);
    let lost = within(SOON, "the client reports the loss", guard.lost()).await;

    // A client that relied on the longer lease would get `NotOwned` from its next check.
    assert_eq!(lost, LostReason::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_release_with_a_lost_reply_is_not_repeated() {
    let t = Flaky::new().await;
    hold_by_hand(&t.redis, "door", JAVA, secs(20));
    let mut java = Listener::to(&t.redis, &channel("door"));
    t.lose_next_reply();
    let forced = t.client.lock("door").unwrap().force_release().await;

    assert!(matches!(forced, Err(Error::Unavailable { .. })), "{forced:?}");
    assert_eq!(java.received(), ["0"]);
}
