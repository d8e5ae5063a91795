//! The rate limiter on a real server: its keys, its costs, and its faults.

use crate::common::{SOON, client, keys, ms, pttl, secs, with_acl, within};
use leasehold::{Client, Error, Pace, Rate, RateLimiter};
use testkit::{Proxy, Redis, Reply, eventually};
use tokio::time::sleep;

async fn limiter(redis: &Redis, rate: Rate) -> RateLimiter {
    let limiter = client(redis).await.rate_limiter("api").unwrap();
    assert!(limiter.set_if_absent(rate).await.unwrap());
    limiter
}

/// All keys except idempotency keys, sorted.
fn data(redis: &Redis) -> Vec<String> {
    let mut keys = keys(redis);
    keys.retain(|key| !key.starts_with("leasehold_rate_limiter__receipt:{api}:"));
    keys
}

fn texts(reply: &Reply) -> Vec<&str> {
    reply.list().iter().map(Reply::text).collect()
}

/// Runs a script that decodes each member of the sorted set `key`. Returns for each member its
/// length, the length of its id, and its number of permits.
fn members(redis: &Redis, key: &str) -> Vec<String> {
    const READ: &str = "local all = {} \
        for i, it in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
        local id, permits = struct.unpack('Bc0I', it) \
        all[i] = #it .. ' ' .. #id .. ' ' .. permits end return all";
    let reply = redis.command(&["EVAL", READ, "1", key]);
    texts(&reply).into_iter().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn limiter_keys_fields_and_members_match_redisson() {
    let redis = Redis::start();
    let limiter = limiter(&redis, Rate::per(10, secs(5))).await;
    let fields = redis.command(&["HGETALL", "api"]);
    let expected = ["rate", "10", "interval", "5000", "type", "0", "keepAliveTime", "0"];
    assert_eq!(texts(&fields), expected);
    limiter.acquire(3).await.unwrap();
    assert_eq!(data(&redis), ["api", "{api}:permits", "{api}:value"]);
    assert_eq!(redis.command(&["GET", "{api}:value"]).text(), "7");
    assert_eq!(members(&redis, "{api}:permits"), ["21 16 3"]);
    let scored = redis.command(&["ZRANGE", "{api}:permits", "0", "-1", "WITHSCORES"]);
    let score: u64 = scored.list()[1].text().parse().unwrap();
    let now: u64 = redis.command(&["TIME"]).list()[0].text().parse().unwrap();
    assert!(score / 1_000 + 2 >= now && score / 1_000 <= now, "{score} {now}");
    for key in data(&redis) {
        assert_eq!(pttl(&redis, &key), -1, "{key}");
    }
    assert!(limiter.delete().await.unwrap());
    assert_eq!(data(&redis), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn limiter_keys_expire_with_their_limiter_or_idle_client() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let limiter = client.rate_limiter("api").unwrap();
    let rate = Rate::per(10, secs(5));
    limiter.set(rate.idle_ttl(secs(9))).await.unwrap();
    limiter.acquire(1).await.unwrap();
    for key in data(&redis) {
        assert!((8_000..=9_000).contains(&pttl(&redis, &key)), "{key}");
    }
    // Redisson's `expire` gives the limiter a TTL.
    limiter.set(rate).await.unwrap();
    redis.command(&["PEXPIRE", "api", "7000"]);
    limiter.acquire(1).await.unwrap();
    for key in ["{api}:value", "{api}:permits"] {
        assert!((6_000..=7_000).contains(&pttl(&redis, key)), "{key}");
    }
    limiter.available().await.unwrap();
    assert!(pttl(&redis, "{api}:value") > 0, "unlike Redisson, Leasehold keeps the expiry");
    limiter.set(rate.per_client()).await.unwrap();
    limiter.acquire(1).await.unwrap();
    assert_eq!(pttl(&redis, "api"), -1);
    for key in ["value", "permits"].map(|key| format!("{{api}}:{key}:{}", client.id())) {
        assert!((9_000..=10_000).contains(&pttl(&redis, &key)), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_request_costs_one_script_call_or_two_with_a_wait() {
    let redis = Redis::start();
    let limiter = limiter(&redis, Rate::per(5, ms(400))).await;
    let before = redis.calls();
    limiter.acquire(5).await.unwrap();
    let calls = redis.calls().since(&before);
    for (command, times) in [("evalsha", 1), ("hmget", 1), ("zscore", 1), ("zcard", 1), ("set", 1)]
    {
        assert_eq!(calls.of(command), times, "{command}: {calls}");
    }
    assert_eq!((calls.of("zadd"), calls.of("pttl"), calls.of("pexpire")), (1, 1, 0), "{calls}");
    assert_eq!((calls.of("zremrangebyscore"), calls.of("zrangebyscore")), (0, 1), "{calls}");
    // The five tasks wait for the end of the interval. The first task sends two requests, and each
    // other task sends one.
    let before = redis.calls();
    let waiters: Vec<_> = (0..5)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire_within(1, secs(5)).await })
        })
        .collect();
    for waiter in waiters {
        within(SOON, "the waiter acquires its permit", waiter).await.unwrap().unwrap();
    }
    let calls = redis.calls().since(&before);
    assert!((6..=10).contains(&calls.of("evalsha")), "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_with_a_lost_reply_counts_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = Client::builder().command_timeout(ms(500)).connect(&proxy.url()).await.unwrap();
    let limiter = client.rate_limiter("api").unwrap();
    proxy.lose_reply_to("EVALSHA");
    assert!(limiter.set_if_absent(Rate::per(10, secs(30))).await.unwrap());
    proxy.lose_reply_to("EVALSHA");
    let permits = within(SOON, "the client retries `acquire`", limiter.acquire(4)).await.unwrap();
    assert_eq!(limiter.available().await.unwrap(), 6);
    proxy.lose_reply_to("EVALSHA");
    within(SOON, "the client retries `release`", limiter.release(permits, 3)).await.unwrap();
    assert_eq!(limiter.available().await.unwrap(), 9);
    let throttle = client.throttle("user", Pace::per(10, secs(60))).unwrap();
    proxy.lose_reply_to("EVALSHA");
    assert_eq!(
        within(SOON, "the client retries `acquire`", throttle.acquire(2)).await.unwrap().remaining,
        8
    );
    assert_eq!(proxy.lost_replies(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn limiter_keeps_its_rate_among_many_tasks() {
    let redis = Redis::start();
    let limiter = limiter(&redis, Rate::per(20, ms(500))).await;
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let limiter = limiter.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..8 {
                limiter.acquire(1).await.unwrap();
            }
        }));
    }
    for task in tasks {
        within(secs(10), "the task acquires all its permits", task).await.unwrap();
    }
    // Eighty permits were granted. The set contains only the permits of the current interval, and
    // no expired member.
    sleep(ms(10)).await;
    let scores = redis.command(&["ZRANGE", "{api}:permits", "0", "-1", "WITHSCORES"]);
    assert!(scores.list().len() <= 40, "{scores:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn key_of_another_type_is_not_changed_by_a_limiter() {
    let redis = Redis::start();
    let limiter = client(&redis).await.rate_limiter("api").unwrap();
    redis.command(&["SET", "api", "text"]);
    let wrong = |error: Error| matches!(error, Error::WrongType { found, .. } if found == "string");
    assert!(wrong(limiter.acquire(1).await.unwrap_err()));
    assert!(wrong(limiter.set(Rate::per(1, secs(1))).await.unwrap_err()));
    assert!(wrong(limiter.config().await.unwrap_err()));
    assert!(wrong(limiter.delete().await.unwrap_err()));
    assert_eq!(redis.command(&["GET", "api"]).text(), "text");
    // A lock is a hash, too. If the limiter wrote its fields into the hash of a lock, the lock
    // would never be free.
    redis.command(&["DEL", "api"]);
    redis.command(&["HSET", "api", "8c6d:1", "1"]);
    assert!(matches!(limiter.acquire(1).await, Err(Error::RateNotSet { .. })));
    let error = limiter.set_if_absent(Rate::per(1, secs(1))).await.unwrap_err();
    assert!(matches!(&error, Error::WrongType { found, .. } if found == "hash"), "{error}");
    assert_eq!(redis.command(&["HLEN", "api"]).number(), 1);
    // An old Redisson client writes members without the length of the id.
    redis.command(&["DEL", "api"]);
    assert!(limiter.set_if_absent(Rate::per(1, secs(1))).await.unwrap());
    redis.command(&["SET", "{api}:value", "0"]);
    redis.command(&["ZADD", "{api}:permits", "1", "12345678"]);
    let error = limiter.acquire(1).await.unwrap_err();
    let text = "request for `api` rejected: DAMAGED {api}:permits cannot be read; set the \
        rate again";
    assert_eq!(error.to_string(), text);
    limiter.set(Rate::per(1, secs(1))).await.unwrap();
    limiter.acquire(1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn limiter_works_after_a_restart_and_forgotten_scripts() {
    let redis = Redis::options().persistent().start();
    let limiter = limiter(&redis, Rate::per(1, secs(4))).await;
    limiter.acquire(1).await.unwrap();
    let waiter = limiter.clone();
    let waiter = tokio::spawn(async move { waiter.acquire(1).await });
    redis.restart();
    within(secs(10), "the waiter acquires its permit after the restart", waiter)
        .await
        .unwrap()
        .unwrap();
    redis.command(&["SCRIPT", "FLUSH"]);
    eventually("the limiter counts the permit", SOON, || {
        redis.command(&["GET", "{api}:value"]).text() == "0"
    });
    assert_eq!(limiter.available().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn error_for_a_missing_permission_names_the_keys() {
    let redis = Redis::start();
    let rules = ["+@all", "&*", "~other", "~api"];
    let limiter = with_acl(&redis, "narrow", &rules).await.rate_limiter("api").unwrap();
    let error = limiter.set_if_absent(Rate::per(1, secs(1))).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    assert!(error.to_string().contains("`{api}:value`"), "{error}");
    assert_eq!(keys(&redis), [""; 0]);
}
