//! The queue and its claims on a real server: keys and messages, faults, and killed workers.

use leasehold::{Client, Error, LostReason, Queue, Release, Replicas};
use testkit::{Helper, Proxy, Redis, Sentinels};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    claims::{claiming, counts},
    common::{
        Listener, SOON, client, comes_true, hash, keys, ms, secs, until_subscribed, with_acl,
        within,
    },
};

const CLAIMS: &str = "leasehold_queue__claims:{jobs}";
const CLAIMANTS: &str = "leasehold_queue__claimants:{jobs}";
const ASIDE: &str = "leasehold_queue__aside:{jobs}";
const CHANNEL: &str = "leasehold_queue__channel:{jobs}";

fn jobs(client: &Client) -> Queue<String> {
    client.queue("jobs").unwrap()
}

async fn queue(redis: &Redis) -> Queue<String> {
    jobs(&client(redis).await)
}

/// Appends elements as Java does: without a message.
fn java_pushes(redis: &Redis, elements: &[&str]) {
    redis.command(&[&["RPUSH", "jobs"], elements].concat());
}

/// Former bug: one claim put back all expired claims, and blocked the server for seconds.
#[tokio::test(flavor = "multi_thread")]
async fn claim_puts_back_at_most_a_thousand_expired_claims() {
    let redis = Redis::start();
    for number in 0..2_500 {
        let (owner, taken) = (format!("dead:{number}"), format!("{number:016}:{number}"));
        redis.command(&["HSET", CLAIMS, &owner, &taken]);
        redis.command(&["ZADD", CLAIMANTS, &number.to_string(), &owner]);
    }
    let jobs = queue(&redis).await;
    for (first, waiting) in [("0", 999), ("1000", 1_998), ("2000", 2_497)] {
        let claim = jobs.try_claim().await.unwrap().unwrap();
        assert_eq!((claim.value().as_str(), jobs.len().await.unwrap()), (first, waiting));
        claim.done().await.unwrap().into_result().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_match_redisson_and_claims_have_their_own_keys() {
    let redis = Redis::start();
    let jobs = queue(&redis).await;
    let mut listener = Listener::to(&redis, CHANNEL);
    jobs.push_all(["a", "b"].map(str::to_owned)).await.unwrap();
    java_pushes(&redis, &["c"]);
    assert_eq!(redis.command(&["LRANGE", "jobs", "0", "-1"]).texts(), ["a", "b", "c"]);
    let claim = jobs.claim().await.unwrap();
    let [(owner, taken)] = hash(&redis, CLAIMS).try_into().unwrap();
    assert_eq!(owner, claim.owner().as_str());
    let (time, element) = taken.split_once(':').unwrap();
    assert_eq!((time.len(), element), (16, "a"));
    let now: f64 = redis.command(&["TIME"]).texts()[0].parse().unwrap();
    let ends: f64 = redis.command(&["ZSCORE", CLAIMANTS, &owner]).text().parse().unwrap();
    let left = ends / 1_000.0 - now;
    assert!((28.0..=31.0).contains(&left), "{left}");

    claim.give_back().await.unwrap().into_result().unwrap();
    jobs.claim().await.unwrap().done().await.unwrap().into_result().unwrap();
    assert_eq!(listener.received(), ["0", "0"], "one for the push, and one for the return");
    let receipts = |key: &&String| key.starts_with("leasehold_queue__receipt:{jobs}:");
    let left = keys(&redis);
    assert_eq!(left.iter().filter(receipts).count(), 3);
    assert_eq!(left.iter().filter(|key| !receipts(key)).collect::<Vec<_>>(), ["jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn element_pushed_without_a_message_is_found_by_rare_polling() {
    let redis = Redis::start();
    let jobs = queue(&redis).await;
    let waiters: Vec<_> = (0..20).map(|_| claiming(&jobs)).collect();
    until_subscribed(&redis, CHANNEL);
    sleep(SOON).await;

    // Only one of the waiting tasks of a client polls, about four times a second.
    let before = redis.calls();
    sleep(secs(3)).await;
    let asked = redis.calls().since(&before).of("evalsha");
    assert!((8..=18).contains(&asked), "{asked}");

    let pushed = Instant::now();
    java_pushes(&redis, &["a"]);
    comes_true("a worker claims the element", || !hash(&redis, CLAIMS).is_empty()).await;
    assert!(pushed.elapsed() < ms(600), "{:?}", pushed.elapsed());
    waiters.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_request_with_a_lost_reply_takes_effect_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let jobs = jobs(&Client::connect(&proxy.url()).await.unwrap());
    let (pushes_and_ends, claims) = ("leasehold_queue__receipt", "leasehold_queue__claims");
    proxy.lose_reply_to(pushes_and_ends);
    jobs.push("a").await.unwrap();
    assert_eq!((counts(&jobs).await, proxy.lost_replies()), ((1, 0), 1));
    proxy.lose_reply_to(claims);
    let claim = jobs.claim().await.unwrap();
    assert_eq!((counts(&jobs).await, proxy.lost_replies()), ((0, 1), 2));
    proxy.lose_reply_to(pushes_and_ends);
    assert_eq!(claim.give_back().await.unwrap(), Release::Released);
    assert_eq!((counts(&jobs).await, proxy.lost_replies()), ((1, 0), 3));
    let claim = jobs.claim().await.unwrap();
    proxy.lose_reply_to(pushes_and_ends);
    assert_eq!(claim.done().await.unwrap(), Release::Released);
    assert_eq!((counts(&jobs).await, proxy.lost_replies()), ((0, 0), 4));

    // If the claim no longer exists, a repeated `done` returns the same result as the first `done`,
    // whose reply was lost.
    jobs.push("b").await.unwrap();
    let claim = jobs.claim().await.unwrap();
    redis.command(&["DEL", CLAIMS, CLAIMANTS]);
    proxy.lose_reply_to(pushes_and_ends);
    let gone = claim.done().await.unwrap();
    assert!(matches!(gone, Release::NotHeld { reason: LostReason::NotOwned, .. }), "{gone:?}");
    assert_eq!(proxy.lost_replies(), 5);
}

/// An unreadable element must not stay at the head, because each worker would fail again. A reply
/// with a long element would end the connection of all callers.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_elements_are_moved_to_a_list_of_their_own() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let long = "x".repeat(300_000);
    java_pushes(&redis, &["x", &long, "7"]);
    let numbers = Client::connect(&proxy.url()).await.unwrap().queue::<u32>("jobs").unwrap();
    assert!(matches!(numbers.claim().await, Err(Error::Codec { .. })));
    proxy.lose_reply_to("leasehold_queue__claims");
    // Former bug: the error was `Refused`, unlike the error of a map or a set.
    let error = numbers.claim().await.unwrap_err();
    assert!(matches!(error, Error::ValueTooLong { most: 100_000, .. }), "{error}");
    let (text, whole) = (error.to_string(), "element of 300000 bytes too long for `jobs`");
    assert!(text.starts_with(whole) && proxy.lost_replies() == 1, "{text}");
    assert_eq!(redis.command(&["LRANGE", ASIDE, "0", "-1"]).texts(), ["x", &long]);
    assert_eq!(numbers.pop().await.unwrap(), Some(7));
    assert!(numbers.try_claim().await.unwrap().is_none());
    assert_eq!(numbers.claimed().await.unwrap(), 0);
}

/// If Redis rejects a command in the middle of a script, the script neither loses nor hides an
/// element.
#[tokio::test(flavor = "multi_thread")]
async fn queue_request_with_a_denied_command_loses_no_element() {
    let redis = Redis::start();
    java_pushes(&redis, &["a", "b"]);
    for (number, denied) in ["-lpop", "-hset", "-zadd", "-lindex"].into_iter().enumerate() {
        let rights = ["+@all", denied, "&*", "~*"];
        let limited = jobs(&with_acl(&redis, &format!("limited{number}"), &rights).await);
        let refused = limited.claim().await.unwrap_err();
        assert!(matches!(refused, Error::Forbidden { .. }), "{denied}: {refused}");
        assert_eq!(counts(&queue(&redis).await).await, (2, 0), "{denied}");
    }
    redis.command(&["SET", "text", "x"]);
    let wrong = client(&redis).await.queue::<String>("text").unwrap().try_claim().await;
    assert!(matches!(wrong, Err(Error::WrongType { .. })), "{wrong:?}");
}

/// Former bug: a denied HDEL left an element in the queue and among the claims, and each further
/// request added a copy.
#[tokio::test(flavor = "multi_thread")]
async fn claim_with_a_denied_removal_copies_no_element() {
    let redis = Redis::start();
    let list = |key: &str| redis.command(&["LRANGE", key, "0", "-1"]);
    java_pushes(&redis, &["a", "b", "c", "d"]);
    let limited = with_acl(&redis, "unending", &["+@all", "-hdel", "&*", "~*"]).await;
    let claim = jobs(&limited).claim().await.unwrap();
    assert!(matches!(claim.give_back().await, Err(Error::Forbidden { .. })));
    assert_eq!(counts(&jobs(&limited)).await, (3, 1));
    let unreadable = limited.queue::<u32>("jobs").unwrap().claim().await;
    assert!(matches!(unreadable, Err(Error::Codec { .. })), "{unreadable:?}");
    assert_eq!((counts(&jobs(&limited)).await, list(ASIDE).texts().len()), ((2, 2), 0));
    let claim = jobs(&limited).claim().await.unwrap();
    assert!(matches!(claim.done().await, Err(Error::Forbidden { .. })));

    for owner in redis.command(&["ZRANGE", CLAIMANTS, "0", "-1"]).texts() {
        redis.command(&["ZADD", CLAIMANTS, "1", owner]);
    }
    for _ in 0..2 {
        assert!(matches!(jobs(&limited).claim().await, Err(Error::Forbidden { .. })));
        assert_eq!(counts(&jobs(&limited)).await, (1, 3));
    }
    let claim = queue(&redis).await.claim().await.unwrap();
    assert_eq!((claim.value().as_str(), list("jobs").texts()), ("a", vec!["b", "c", "d"]));
}

/// Killed workers cannot clean up. Each kill repeats at most one job.
#[test]
fn killed_workers_lose_no_element() {
    let redis = Redis::start();
    let show = Helper::example("worker", &[&redis.url()]);
    let counted = show.wait_for_line(|line| line.contains(" jobs are done after "), secs(60));
    let numbers: Vec<u32> = counted.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [done, jobs, kills, results] = numbers[..] else { panic!("{counted}") };
    assert_eq!((done, jobs), (100, 100), "{counted}");
    assert!(kills >= 9 && results <= jobs + kills, "{counted}");
    assert!(show.wait().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_outlive_a_failover_of_sentinels() {
    let sentinels = Sentinels::options().replicas(1).start();
    let client = Client::connect(&sentinels.url()).await.unwrap();
    let jobs = jobs(&client).replicated(Replicas::at_least(1).within(secs(20)));
    jobs.push_all(["a", "b"].map(str::to_owned)).await.unwrap();
    let claim = jobs.claim().await.unwrap();
    sentinels.fail_over();
    let done = within(secs(30), "the worker reports its claim as done", claim.done()).await;
    assert_eq!(done.unwrap(), Release::Released);
    let jobs = jobs.replicated(None);
    let next = within(secs(30), "the worker claims the next element", jobs.claim()).await.unwrap();
    assert_eq!(next.value(), "b");
    next.done().await.unwrap().into_result().unwrap();
}
