//! The semaphore on a real server: its keys and messages, its costs, and its faults.

use std::time::Duration;

use crate::common::{
    Listener, Log, SOON, client, hash, is_no_number, keys, ms, pttl, secs, until_subscribed,
    with_acl, within,
};
use futures_util::future::join_all;
use leasehold::{Client, Error, LostReason, Release, Result, Semaphore, SemaphoreGuard};
use testkit::{Proxy, Redis, eventually};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

const CHANNEL: &str = "redisson_sc:{pool}";
const HOLDERS: &str = "leasehold_semaphore:{pool}";
const WITHDRAWN: &str = "leasehold_semaphore__withdrawn:{pool}";
const LONGEST_WAITER: &str = "leasehold_semaphore__longest_waiter:{pool}";

async fn pool(redis: &Redis) -> Semaphore {
    client(redis).await.semaphore("pool").unwrap()
}

/// The semaphore of a client that waits for a reply for at most half a second.
async fn hasty_pool(url: &str) -> Semaphore {
    let client = Client::builder().command_timeout(ms(500)).connect(url).await.unwrap();
    client.semaphore("pool").unwrap()
}

fn waiting(semaphore: &Semaphore, permits: u32) -> JoinHandle<Result<SemaphoreGuard>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire(permits).await })
}

async fn entered(waiter: JoinHandle<Result<SemaphoreGuard>>) -> SemaphoreGuard {
    within(SOON, "the waiter acquires", waiter).await.unwrap().unwrap()
}

async fn back(guard: SemaphoreGuard) {
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

fn free(redis: &Redis) -> String {
    redis.command(&["GET", "pool"]).text().to_owned()
}

/// All keys except idempotency keys, sorted.
fn lasting(redis: &Redis) -> Vec<String> {
    keys(redis).into_iter().filter(|key| !key.contains("receipt")).collect()
}

// Keys and messages.

#[tokio::test(flavor = "multi_thread")]
async fn semaphore_holders_are_in_a_key_beside_redissons_counter() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    let mut listener = Listener::to(&redis, CHANNEL);
    assert!(pool.set_if_absent(5).await.unwrap());
    assert_eq!(listener.received(), ["5"]);
    assert_eq!((free(&redis), pttl(&redis, "pool")), ("5".into(), -1));

    let guard = pool.acquire(2).await.unwrap();
    assert_eq!(free(&redis), "3");
    assert_eq!(hash(&redis, HOLDERS), [(guard.owner().to_string(), "2".to_owned())]);
    assert_eq!(pttl(&redis, HOLDERS), -1);
    assert_eq!(listener.received(), [""; 0]);
    back(guard).await;
    assert_eq!((free(&redis), listener.received()), ("5".into(), vec!["5".to_owned()]));
    assert_eq!(lasting(&redis), ["pool"]);

    // A change to a negative number is not published.
    assert_eq!(pool.add(-7).await.unwrap(), -2);
    assert_eq!(pool.add(2).await.unwrap(), 0);
    assert_eq!((free(&redis), listener.received()), ("0".into(), vec!["0".to_owned()]));
    assert_eq!(pool.drain().await.unwrap(), 0);

    // The idempotency keys of all changes expire after a minute.
    let receipts: Vec<_> = keys(&redis).into_iter().filter(|key| key.contains("receipt")).collect();
    assert_eq!(receipts.len(), 4);
    for receipt in receipts {
        assert!(receipt.starts_with("leasehold_semaphore__receipt:{pool}:"), "{receipt}");
        assert!((1..=60_000).contains(&pttl(&redis, &receipt)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redisson_release_commands_wake_a_semaphore_waiter() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    let waiter = waiting(&pool, 2);
    until_subscribed(&redis, CHANNEL);
    redis.command(&["INCRBY", "pool", "1"]);
    redis.command(&["PUBLISH", CHANNEL, "1"]);
    redis.command(&["INCRBY", "pool", "1"]);
    redis.command(&["PUBLISH", CHANNEL, "2"]);
    assert_eq!(entered(waiter).await.permits(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_message_only_delays_semaphore_waiter() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    let waiter = waiting(&pool, 1);
    until_subscribed(&redis, CHANNEL);
    sleep(ms(100)).await;
    redis.command(&["INCRBY", "pool", "1"]);
    back(entered(waiter).await).await;
}

// Costs.

#[tokio::test(flavor = "multi_thread")]
async fn semaphore_acquire_and_release_are_one_script_each() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(1_000).await.unwrap();
    let mut others = Vec::new();
    for permits in [1, 2, 3].into_iter().cycle().take(300) {
        let before = redis.calls();
        let guard = pool.acquire(permits).await.unwrap();
        let calls = redis.calls().since(&before);
        assert_eq!((calls.of("evalsha"), calls.total()), (1, 7), "{calls}");
        others.push(guard);
    }
    for guard in others {
        let before = redis.calls();
        back(guard).await;
        let calls = redis.calls().since(&before);
        assert_eq!((calls.of("evalsha"), calls.of("publish"), calls.total()), (1, 1, 6), "{calls}");
    }
    assert_eq!(lasting(&redis), ["pool"]);
}

// Repeated requests.

#[tokio::test(flavor = "multi_thread")]
async fn acquire_and_release_with_lost_replies_count_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let pool = hasty_pool(&proxy.url()).await;
    pool.set_if_absent(3).await.unwrap();
    proxy.lose_reply_to("EVALSHA");
    let guard = within(SOON, "the client retries `acquire`", pool.acquire(1)).await.unwrap();
    assert_eq!((proxy.lost_replies(), free(&redis)), (1, "2".into()));
    proxy.lose_reply_to("EVALSHA");
    let released = within(SOON, "the client retries `release`", guard.release()).await.unwrap();
    assert_eq!((proxy.lost_replies(), released), (2, Release::Released));
    sleep(secs(5)).await;
    assert_eq!((free(&redis), hash(&redis, HOLDERS)), ("3".into(), vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn change_with_a_lost_reply_counts_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let pool = hasty_pool(&proxy.url()).await;
    proxy.lose_reply_to("EVALSHA");
    assert!(
        within(SOON, "the client retries `set_if_absent`", pool.set_if_absent(3)).await.unwrap()
    );
    proxy.lose_reply_to("EVALSHA");
    assert_eq!(within(SOON, "the client retries `add`", pool.add(4)).await.unwrap(), 7);
    proxy.lose_reply_to("EVALSHA");
    assert_eq!(within(SOON, "the client retries `drain`", pool.drain()).await.unwrap(), 7);
    assert_eq!((proxy.lost_replies(), free(&redis)), (3, "0".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_granted_to_a_cancelled_waiter_are_free_again() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let pool = Client::connect(&proxy.url()).await.unwrap().semaphore("pool").unwrap();
    pool.set_if_absent(1).await.unwrap();
    for delay in [0, 1, 5, 20, 100] {
        proxy.delay(ms(200));
        let acquiring = waiting(&pool, 1);
        sleep(ms(delay)).await;
        acquiring.abort();
        acquiring.await.unwrap_err();
        proxy.delay(Duration::ZERO);
        sleep(ms(300)).await;
        eventually("the permit is free", SOON, || free(&redis) == "1");
    }
    assert_eq!(hash(&redis, HOLDERS), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_request_takes_no_permits_when_executed_late() {
    // given a server that hangs, and a waiter that times out
    let redis = Redis::start();
    let pool = hasty_pool(&redis.url()).await;
    pool.set_if_absent(1).await.unwrap();
    redis.pause();
    pool.acquire_within(1, ms(800)).await.unwrap_err();

    // when the server executes the requests in its buffers
    redis.resume();
    eventually("the server refuses the withdrawn acquisition", secs(10), || {
        redis.command(&["ZCARD", WITHDRAWN]).number() == 1
    });
    sleep(secs(5)).await;
    assert_eq!((free(&redis), hash(&redis, HOLDERS)), ("1".into(), vec![]));
    assert!((880_000..=900_000).contains(&pttl(&redis, WITHDRAWN)));
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_permits_leave_no_holder_record() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(3).await.unwrap();
    pool.acquire(2).await.unwrap().forget();
    eventually("the store has the release", SOON, || hash(&redis, HOLDERS).is_empty());
    assert_eq!(free(&redis), "1");
}

// Faults.

#[tokio::test(flavor = "multi_thread")]
async fn permit_holder_notices_a_restart_that_loses_the_data() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(1).await.unwrap();
    let guard = pool.acquire(1).await.unwrap();
    redis.restart();
    let reason = within(SOON, "the loss is reported", guard.lost()).await;
    assert_eq!(reason, LostReason::NotOwned);
    let release = guard.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");
    assert_eq!(pool.available().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_with_data_loses_no_hold() {
    let redis = Redis::options().persistent().start();
    let (one, other) = (pool(&redis).await, pool(&redis).await);
    one.set_if_absent(1).await.unwrap();
    let guard = one.acquire(1).await.unwrap();
    let waiter = waiting(&other, 1);
    until_subscribed(&redis, CHANNEL);
    redis.restart();
    until_subscribed(&redis, CHANNEL);
    sleep(ms(500)).await;
    assert!(guard.is_held() && !waiter.is_finished());
    back(guard).await;
    back(entered(waiter).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_to_a_deleted_semaphore_adds_no_permits() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(2).await.unwrap();
    let (one, other) = (pool.acquire(1).await.unwrap(), pool.acquire(1).await.unwrap());
    redis.command(&["DEL", "pool"]);
    let release = one.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { reason: LostReason::NotOwned, .. }));
    assert_eq!(redis.command(&["EXISTS", "pool"]).number(), 0);
    // If the number is set again, the permits of former holders are free.
    assert!(pool.set_if_absent(2).await.unwrap());
    let release = other.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }));
    assert_eq!(free(&redis), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn release_adds_to_a_semaphore_that_redisson_set_again() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(2).await.unwrap();
    let guard = pool.acquire(1).await.unwrap();
    redis.command(&["DEL", "pool"]);
    redis.command(&["SET", "pool", "2"]);
    back(guard).await;
    assert_eq!(free(&redis), "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_are_forgotten_are_loaded_again() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    let forget = || redis.command(&["SCRIPT", "FLUSH"]);
    forget();
    pool.set_if_absent(1).await.unwrap();
    forget();
    let guard = pool.acquire(1).await.unwrap();
    forget();
    back(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_of_another_type_is_reported_and_not_changed() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    redis.command(&["HSET", "pool", "field", "value"]);
    let wrong = |error: &Error| matches!(error, Error::WrongType { found, .. } if found == "hash");
    assert!(wrong(&pool.acquire(1).await.unwrap_err()));
    assert!(wrong(&pool.add(1).await.unwrap_err()));
    assert!(wrong(&pool.drain().await.unwrap_err()));
    assert!(wrong(&pool.delete().await.unwrap_err()));
    assert!(wrong(&pool.available().await.unwrap_err()));
    assert!(!pool.set_if_absent(1).await.unwrap());
    assert_eq!(hash(&redis, "pool").len(), 1);

    redis.command(&["SET", "pool", "many"]);
    assert!(!pool.set_if_absent(1).await.unwrap());
    for error in [
        pool.acquire(1).await.unwrap_err(),
        pool.try_acquire(1).await.unwrap_err(),
        pool.available().await.unwrap_err(),
        pool.add(1).await.unwrap_err(),
        pool.drain().await.unwrap_err(),
        pool.delete().await.unwrap_err(),
    ] {
        is_no_number(&error, "many");
    }
    assert_eq!((free(&redis), hash(&redis, HOLDERS)), ("many".into(), vec![]));
}

/// After a loss of all data, no permit is available, as if other clients held all of them.
#[tokio::test]
async fn unset_number_of_permits_is_logged_rarely() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    let (log, _noting) = Log::begin();
    let reported = || log.text().matches("call set_if_absent").count();
    pool.set_if_absent(1).await.unwrap();
    let guard = pool.acquire(1).await.unwrap();
    assert!(pool.try_acquire(1).await.unwrap().is_none());
    assert_eq!(reported(), 0, "the permit is held: {}", log.text());
    back(guard).await;
    redis.command(&["FLUSHALL"]);
    for _ in 0..2 {
        assert!(pool.acquire_within(1, secs(2)).await.unwrap_err().is_busy());
    }
    assert_eq!(reported(), 1, "{}", log.text());
    assert!(log.text().contains("lock=pool"), "{}", log.text());
    pool.set_if_absent(1).await.unwrap();
    back(pool.acquire(1).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn semaphore_user_with_a_missing_permission_changes_nothing() {
    let redis = Redis::start();
    redis.command(&["SET", "pool", "3"]);
    let narrow = with_acl(&redis, "narrow", &["+@all", "&*", "~pool"]).await;
    let error = narrow.semaphore("pool").unwrap().acquire(1).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");
    let needs = "the request needs permissions for the keys `pool`, `leasehold_semaphore:{pool}`, \
        `leasehold_semaphore__withdrawn:{pool}`, `leasehold_semaphore__longest_waiter:{pool}`; \
        see the ACL page of the guide";
    assert!(error.to_string().contains(needs), "{error}");

    let no_count = ["+@all", "-decrby", "&*", "~pool", "~leasehold_semaphore*"];
    let no_count = with_acl(&redis, "uncounting", &no_count).await;
    let error = no_count.semaphore("pool").unwrap().acquire(1).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");
    assert_eq!((free(&redis), lasting(&redis)), ("3".into(), vec!["pool".to_owned()]));

    // These permissions suffice.
    let enough = "-@all &redisson_sc:{pool} ~pool ~leasehold_semaphore*:{pool}* \
        +hello +ping +info +type +client|setname +evalsha +eval +script|load +subscribe +unsubscribe \
        +get +set +incrby +decrby +exists +del +hget +hset +hdel +hmget +hlen +hvals +hexists \
        +zscore +zadd +zremrangebyscore +pexpire +pttl +time +publish";
    let enough: Vec<_> = enough.split_whitespace().collect();
    let enough = with_acl(&redis, "enough", &enough).await.semaphore("pool").unwrap();
    let waiter = waiting(&enough, 4);
    until_subscribed(&redis, CHANNEL);
    sleep(secs(2)).await;
    enough.add(1).await.unwrap();
    let guard = entered(waiter).await;
    assert!(enough.acquire_within(1, ms(1_500)).await.unwrap_err().is_busy());
    enough.try_acquire(5).await.unwrap();
    back(guard).await;
    enough.drain().await.unwrap();
    assert!(enough.delete().await.unwrap());
    assert!(enough.set_if_absent(1).await.unwrap());
    let guard = enough.acquire(1).await.unwrap();
    redis.command(&["CLIENT", "KILL", "USER", "enough"]);
    sleep(ms(500)).await;
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn client_loses_no_permit_when_an_acl_permission_is_missing() {
    let redis = Redis::start();
    redis.command(&["SET", "pool", "3"]);
    let user = ["+@all", "&*", "~pool", "~leasehold_semaphore*"];
    let pool = with_acl(&redis, "pooler", &user).await.semaphore("pool").unwrap();
    let all = |when: &str| {
        let free: i64 = free(&redis).parse().unwrap();
        let held = hash(&redis, HOLDERS).into_iter();
        let held: i64 = held.map(|(_, permits)| permits.parse::<i64>().unwrap()).sum();
        assert_eq!(free + held, 3, "{when}: {free} permits are free and {held} are held");
    };
    let commands = "get set incrby decrby exists del hget hset hdel hmget hlen hvals hexists \
        zscore zadd zremrangebyscore pexpire pttl time publish";
    for command in commands.split_whitespace() {
        let guard = pool.acquire(1).await.unwrap();
        redis.command(&["ACL", "SETUSER", "pooler", &format!("-{command}")]);
        let released = guard.release().await;
        all(&format!("released without {command}: {released:?}"));
        let granted = pool.try_acquire(1).await;
        all(&format!("acquired without {command}: {granted:?}"));
        redis.command(&["ACL", "SETUSER", "pooler", &format!("+{command}")]);
        drop(granted);
        // If a denied permission prevents a release, the permits are lost until an operator adds
        // them. The test does this.
        eventually("at most two holds are left", SOON, || hash(&redis, HOLDERS).len() <= 2);
        redis.command(&["DEL", HOLDERS]);
        redis.command(&["SET", "pool", "3"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_change_leaves_the_number_of_permits_unchanged() {
    let redis = Redis::start();
    redis.command(&["SET", "pool", "3"]);
    let no_set = with_acl(&redis, "no-set", &["+@all", "-set", "&*", "~*"]).await;
    testkit::came_with(7, "a permission for reads of a key only");
    let reads = ["+@all", "&*", "~pool", "~leasehold_semaphore:*", "%R~leasehold_semaphore__*"];
    let reads = with_acl(&redis, "reads", &reads).await;
    for client in [no_set, reads] {
        let pool = client.semaphore("pool").unwrap();
        let forbidden = |error: &Error| matches!(error, Error::Forbidden { .. });
        assert!(forbidden(&pool.add(1).await.unwrap_err()));
        assert!(forbidden(&pool.drain().await.unwrap_err()));
        assert!(forbidden(&pool.delete().await.unwrap_err()));
        assert_eq!(free(&redis), "3");
        let empty = client.semaphore("empty").unwrap();
        assert!(empty.set_if_absent(1).await.is_err());
        assert_eq!(keys(&redis), ["pool"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_that_left_an_empty_idempotency_key_is_completed() {
    // given an idempotency key without a reply, left by a request that was executed only in part
    let redis = Redis::start();
    let pool = client(&redis).await;
    let (id, pool) = (pool.id().to_owned(), pool.semaphore("pool").unwrap());
    redis.command(&["SET", &format!("leasehold_semaphore__receipt:{{pool}}:{id}:1"), ""]);
    assert_eq!(pool.add(3).await.unwrap(), 3);
    assert_eq!(free(&redis), "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_server_grants_no_permits_and_accepts_releases() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(3).await.unwrap();
    let (guard, kept) = (pool.acquire(1).await.unwrap(), pool.acquire(1).await.unwrap());
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = within(SOON, "`acquire` fails", pool.acquire(1)).await.unwrap_err();
    assert!(matches!(&error, Error::NotReady { code, .. } if code == "OOM"), "{error:?}");
    let full = |error: Error| matches!(&error, Error::NotReady { code, .. } if code == "OOM");
    assert!(full(pool.add(1).await.unwrap_err()) && full(pool.drain().await.unwrap_err()));
    back(guard).await;
    drop(kept);
    eventually("all permits are free", SOON, || free(&redis) == "3");
    assert!(pool.delete().await.unwrap());
}

// The longest waiter.

#[tokio::test(flavor = "multi_thread")]
async fn longest_waiter_that_died_blocks_others_for_8_s_at_most() {
    let redis = Redis::start();
    let (few, proxy) = (pool(&redis).await, Proxy::before(redis.port()));
    let many = Client::connect(&proxy.url()).await.unwrap().semaphore("pool").unwrap();
    few.set_if_absent(4).await.unwrap();
    let three = few.acquire(3).await.unwrap();
    let waiter = waiting(&many, 4);
    eventually("the server records the longest waiter", secs(10), || {
        redis.command(&["EXISTS", LONGEST_WAITER]).number() == 1
    });
    let named: std::collections::BTreeMap<_, _> =
        hash(&redis, LONGEST_WAITER).into_iter().collect();
    let number = |field: &str| named[field].parse::<i64>().unwrap();
    assert_eq!((named.len(), number("permits")), (5, 4), "{named:?}");
    assert!(number("until") - number("began") == 5_000 && number("since") < number("began"));
    assert!(few.try_acquire(1).await.unwrap().is_none());

    // when the longest waiter is dead, then other clients acquire after some seconds
    proxy.refuse(true);
    proxy.cut();
    let start = Instant::now();
    let one = within(secs(12), "the client acquires a permit", few.acquire(1)).await.unwrap();
    assert!(start.elapsed() <= secs(8), "{:?}", start.elapsed());
    waiter.abort();
    back(one).await;
    back(three).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_kept_at_most_30_s_for_the_longest_waiter() {
    // given permits that a dead client holds, and a waiter that wants all permits but one
    let redis = Redis::start();
    let (few, many) = (pool(&redis).await, pool(&redis).await);
    few.set_if_absent(10).await.unwrap();
    let _dead = few.acquire(2).await.unwrap();
    let _waiter = waiting(&many, 9);
    let is_named = || redis.command(&["HEXISTS", LONGEST_WAITER, "owner"]).number() == 1;
    eventually("the server records the longest waiter", secs(10), is_named);
    assert!(few.try_acquire(1).await.unwrap().is_none());
    assert!((55_000..=60_000).contains(&pttl(&redis, LONGEST_WAITER)));

    // when this waiter has been the longest waiter for half a minute
    let began = redis.command(&["HGET", LONGEST_WAITER, "began"]).text().parse::<u64>().unwrap();
    redis.command(&["HSET", LONGEST_WAITER, "began", &(began - 30_000).to_string()]);

    // then all other clients acquire, even if the longest waiter sends a request at each release
    for _ in 0..5 {
        back(few.try_acquire(8).await.unwrap().unwrap()).await;
        sleep(ms(1_200)).await;
    }
    assert!(!is_named());
    // until another half minute has passed, after which the record of the longest waiter expires
    redis.command(&["PEXPIRE", LONGEST_WAITER, "1"]);
    eventually("the server records the longest waiter again", secs(10), is_named);
    assert!(few.try_acquire(1).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_record_of_the_longest_waiter_blocks_no_client() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(1).await.unwrap();
    let guard = pool.acquire(1).await.unwrap();
    let forged = |permits: &str, until: &str, began: &str| {
        redis.command(&["HSET", LONGEST_WAITER, "owner", "a", "permits", permits, "since", "0"]);
        redis.command(&["HSET", LONGEST_WAITER, "until", until, "began", began]);
    };
    let now = redis.command(&["TIME"]).texts()[0].to_owned() + "000";
    let late = "9".repeat(15);
    for permits in ["-5", "nan", "-inf", "1e400", "many"] {
        forged(permits, &late, &now);
        assert!(pool.try_acquire(1).await.unwrap().is_none(), "{permits}");
    }
    back(guard).await;
    for (until, began) in [(&*late, &*late), (&*late, "0"), (&*late, "nan"), ("0", &*now)] {
        forged("1", until, began);
        back(pool.try_acquire(1).await.unwrap().expect("one permit is free")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_without_a_request_in_flight_leaves_no_withdrawal() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    pool.set_if_absent(2).await.unwrap();
    let guard = pool.acquire(1).await.unwrap();
    assert!(pool.acquire_within(2, secs(5)).await.unwrap_err().is_busy());
    let waits = || hash(&redis, LONGEST_WAITER).iter().any(|(field, _)| field == "owner");
    eventually("the server no longer records the waiter", SOON, || !waits());
    sleep(ms(200)).await;
    assert_eq!(redis.command(&["EXISTS", WITHDRAWN]).number(), 0);
    back(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_for_many_permits_is_not_starved_by_small_requests() {
    let redis = Redis::start();
    let many = pool(&redis).await;
    many.set_if_absent(4).await.unwrap();
    let mut few = Vec::new();
    for _ in 0..3 {
        let pool = pool(&redis).await;
        few.extend((0..2).map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                loop {
                    let guard = pool.acquire(1).await.unwrap();
                    sleep(ms(7)).await;
                    back(guard).await;
                }
            })
        }));
    }
    sleep(ms(200)).await;
    for _ in 0..2 {
        let all =
            within(secs(20), "the client acquires all permits", many.acquire(4)).await.unwrap();
        assert_eq!(free(&redis), "0");
        back(all).await;
    }
    few.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_never_hold_more_permits_than_exist() {
    let redis = Redis::start();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(pool(&redis).await);
    }
    clients[0].set_if_absent(3).await.unwrap();
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let workers = clients.iter().enumerate().map(|(n, pool)| {
        let (pool, taken) = (pool.clone(), taken.clone());
        tokio::spawn(async move {
            for round in 0..20_u32 {
                let permits = 1 + (round + u32::try_from(n).unwrap()) % 3;
                let guard = pool.acquire(permits).await.unwrap();
                let now = taken.fetch_add(permits, std::sync::atomic::Ordering::SeqCst) + permits;
                assert!(now <= 3, "{now} of 3");
                sleep(ms(1)).await;
                taken.fetch_sub(permits, std::sync::atomic::Ordering::SeqCst);
                back(guard).await;
            }
        })
    });
    for done in within(secs(60), "all tasks finish their rounds", join_all(workers)).await {
        done.unwrap();
    }
    assert_eq!((free(&redis), hash(&redis, HOLDERS)), ("3".into(), vec![]));
}

/// Former bug: if clients set the number before each acquisition, each call left a key for a
/// minute.
#[tokio::test(flavor = "multi_thread")]
async fn set_if_absent_of_an_existing_semaphore_leaves_no_key() {
    let redis = Redis::start();
    let pool = pool(&redis).await;
    assert!(pool.set_if_absent(3).await.unwrap());
    let before = keys(&redis);
    for _ in 0..20 {
        assert!(!pool.set_if_absent(3).await.unwrap());
    }
    assert_eq!(keys(&redis), before);
}
