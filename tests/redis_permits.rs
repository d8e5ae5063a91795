//! The expirable semaphore on a real server: its keys, its cost, and every fault.

use std::time::Duration;

use crate::common::{
    Listener, Log, POLLING, SOON, client, is_no_number, keys, ms, secs, with_acl, within,
};
use leasehold::{
    Client, Error, ExpirablePermits, ExpirableSemaphore, LostReason, PermitId, Release,
};
use testkit::{Helper, Proxy, Redis, eventually};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

const HELD: &str = "{printers}:timeout";
const CHANNEL: &str = "redisson_sc:{printers}";

async fn permits(client: &Client, count: u32) -> ExpirableSemaphore {
    let permits = client.expirable_semaphore("printers").unwrap();
    permits.set(count).await.unwrap();
    permits
}

async fn setup(count: u32) -> (Redis, Client, ExpirableSemaphore) {
    let redis = Redis::start();
    let client = client(&redis).await;
    let permits = permits(&client, count).await;
    (redis, client, permits)
}

async fn release_guard(guard: ExpirablePermits) {
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

fn waiter(permits: &ExpirableSemaphore) -> JoinHandle<leasehold::Result<ExpirablePermits>> {
    let permits = permits.clone();
    tokio::spawn(async move { permits.acquire().await })
}

async fn entered(waiter: JoinHandle<leasehold::Result<ExpirablePermits>>) -> ExpirablePermits {
    within(SOON, "the waiter acquires", waiter).await.unwrap().unwrap()
}

fn free(redis: &Redis) -> i64 {
    redis.command(&["GET", "printers"]).text().parse().unwrap()
}

fn held(redis: &Redis) -> i64 {
    redis.command(&["ZCARD", HELD]).number()
}

/// The time of the server, in milliseconds.
fn now(redis: &Redis) -> u64 {
    let time = redis.command(&["TIME"]);
    let part = |at: usize| time.texts()[at].parse::<u64>().unwrap();
    part(0) * 1_000 + part(1) / 1_000
}

/// Acquires a permit with the commands that Redisson sends. Unlike Redisson's ids, `id` is a text.
fn hold_by_hand(redis: &Redis, id: &str, ends: u64) {
    redis.command(&["DECR", "printers"]);
    redis.command(&["ZADD", HELD, &ends.to_string(), id]);
}

/// Ends all leases, as Java's `updateLeaseTime` may do.
fn cut_short(redis: &Redis) {
    let script = "for i, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
                  redis.call('ZADD', KEYS[1], ARGV[1], id) end";
    redis.command(&["EVAL", script, "1", HELD, &now(redis).to_string()]);
}

const NEVER: u64 = 922_337_203_685_477;

// The keys.

#[tokio::test(flavor = "multi_thread")]
async fn permit_has_a_16_byte_id_and_its_lease_end_as_score() {
    let (redis, client, permits) = setup(3).await;
    let before = now(&redis);
    let guard = permits.lease(secs(20)).acquire_many(2).await.unwrap();
    let after = now(&redis);
    assert_eq!((free(&redis), held(&redis)), (1, 2));
    let script = "local all = {} for i, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
                  all[i] = (id:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) end \
                  return all";
    let there = redis.command(&["EVAL", script, "1", HELD]);
    let ids: Vec<String> = guard.ids().iter().map(PermitId::to_string).collect();
    assert_eq!(there.texts(), ids);
    assert_eq!(ids[0][..16], client.id().replace('-', "")[..16]);
    let count = |from: u64, to: u64| {
        redis.command(&["ZCOUNT", HELD, &from.to_string(), &to.to_string()]).number()
    };
    assert_eq!(count(before + 20_000, after + 20_000), 2);
    release_guard(guard).await;
    let left = keys(&redis);
    assert!(left.iter().all(|key| key == "printers" || key.contains("__receipt")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn release_publishes_the_positive_number_of_free_permits() {
    let (redis, _client, permits) = setup(1).await;
    let mut listener = Listener::to(&redis, CHANNEL);
    let guard = permits.acquire().await.unwrap();
    assert_eq!(listener.received(), [""; 0]);
    release_guard(guard).await;
    permits.add(2).await.unwrap();
    permits.add(-1).await.unwrap();
    assert_eq!(listener.received(), ["1", "3"]);
    permits.set(7).await.unwrap();
    let guard = permits.acquire_many(5).await.unwrap();
    permits.set(1).await.unwrap();
    assert_eq!(listener.received(), ["7"]);
    permits.release_id(guard.ids()[0]).await.unwrap();
    assert_eq!(listener.received(), [""; 0], "three more permits are held than exist");
    drop(guard);
    eventually("the permit is released", SOON, || free(&redis) == 1);
    assert_eq!(listener.received(), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn java_permit_without_a_lease_never_expires() {
    let (redis, _client, permits) = setup(2).await;
    hold_by_hand(&redis, "0123456789abcdef", NEVER);
    let id = PermitId::new("30313233343536373839616263646566").unwrap();
    assert_eq!(permits.lease_of(id).await.unwrap(), Some(Duration::MAX));
    assert_eq!(permits.acquired().await.unwrap(), 1);
    assert!(permits.release_id(id).await.unwrap());
    assert_eq!(permits.available().await.unwrap(), 2);
}

// The cost.

#[tokio::test(flavor = "multi_thread")]
async fn acquire_and_release_of_permits_are_one_evalsha_each() {
    let (redis, _client, permits) = setup(1_000).await;
    for count in [1, 100, 900] {
        let before = redis.calls();
        let guard = permits.acquire_many(count).await.unwrap();
        assert_eq!(redis.calls().since(&before).of("evalsha"), 1);
        release_guard(guard).await;
        let calls = redis.calls().since(&before);
        assert_eq!((calls.of("evalsha"), calls.of("eval")), (2, 0), "{calls}");
    }
    // The permits of other holders do not increase the cost.
    let others = permits.acquire_many(990).await.unwrap();
    let before = redis.calls();
    release_guard(permits.acquire().await.unwrap()).await;
    let calls = redis.calls().since(&before);
    assert_eq!((calls.of("zscore"), calls.of("zadd"), calls.of("zrem")), (2, 1, 2), "{calls}");
    release_guard(others).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_permits_are_renewed_by_one_call() {
    let (redis, client, permits) = setup(100).await;
    let permits = permits.ttl(secs(6));
    let mut guards = Vec::new();
    for _ in 0..100 {
        guards.push(permits.acquire().await.unwrap());
    }
    let before = redis.calls();
    eventually("the permits are renewed", secs(15), || client.stats().renewals >= 100);
    let renewals = client.stats().renewals;
    let calls = redis.calls().since(&before).of("evalsha");
    assert!(calls <= renewals / 25, "{calls} calls for {renewals} renewals");
    assert!(guards.iter().all(ExpirablePermits::is_held));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_renews_at_most_a_hundred_permits() {
    let (redis, client, permits) = setup(300).await;
    let permits = permits.ttl(secs(6));
    let mut guards = Vec::new();
    for _ in 0..5 {
        guards.push(permits.acquire_many(60).await.unwrap());
    }
    let before = redis.calls();
    eventually("the permits are renewed", secs(15), || client.stats().renewals >= 5);
    let (renewals, calls) = (client.stats().renewals, redis.calls().since(&before));
    assert!(calls.of("evalsha") >= renewals, "{} calls for {renewals}", calls.of("evalsha"));
    assert!(guards.iter().all(ExpirablePermits::is_held));
}

// Other clients.

#[tokio::test(flavor = "multi_thread")]
async fn waiter_is_woken_by_a_redisson_release() {
    let (redis, _client, permits) = setup(1).await;
    hold_by_hand(&redis, "java's", NEVER);
    let waiting = waiter(&permits);
    crate::common::until_subscribed(&redis, CHANNEL);
    sleep(ms(100)).await;
    redis.command(&["ZREM", HELD, "java's"]);
    redis.command(&["INCR", "printers"]);
    redis.command(&["PUBLISH", CHANNEL, "1"]);
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_permit_is_not_renewed_and_is_freed_only_once() {
    // given a holder whose lease another client has ended
    let (redis, _client, permits) = setup(1).await;
    let guard = permits.clone().ttl(secs(3)).acquire().await.unwrap();
    cut_short(&redis);

    // then the next renewal reports the loss, and does not count the permit as free
    let reason = within(SOON, "the client reports the loss", guard.lost()).await;
    assert_eq!(reason, LostReason::NotOwned);
    assert_eq!((free(&redis), held(&redis)), (0, 1));
    assert!(guard.release().await.unwrap().into_result().is_err());
    assert_eq!((free(&redis), held(&redis)), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_shortened_by_java_is_seen_at_the_next_renewal() {
    let (redis, client, permits) = setup(1).await;
    let guard = permits.clone().ttl(secs(6)).acquire().await.unwrap();
    let id = guard.ids()[0];
    assert!(permits.update_lease(id, ms(1)).await.unwrap());
    assert!(permits.lease_of(id).await.unwrap().is_some_and(|left| left > secs(2)));
    let other = crate::common::client(&redis).await.expirable_semaphore("printers").unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());

    // Java's method removes the permit. The holder trusts its hold until the next renewal, which
    // comes within a third of the ttl.
    let renewals = client.stats().renewals;
    eventually("the permit is renewed", SOON, || client.stats().renewals > renewals);
    cut_short(&redis);
    let begun = Instant::now();
    let stolen = other.try_acquire().await.unwrap().expect("the permit is free");
    assert!(guard.is_held());
    assert_eq!(
        within(SOON, "the client reports the loss", guard.lost()).await,
        LostReason::NotOwned
    );
    assert!(begun.elapsed() < secs(3), "{:?}", begun.elapsed());
    release_guard(stolen).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_change_leaves_the_number_of_permits_unchanged() {
    let (redis, _client, all) = setup(3).await;
    let guard = all.acquire().await.unwrap();
    let no_set = with_acl(&redis, "no-set", &["+@all", "-set", "&*", "~*"]).await;
    testkit::came_with(7, "a permission for reads of a key only");
    let reads = ["+@all", "&*", "~printers", "~{printers}*", "~other", "%R~leasehold_*"];
    let reads = with_acl(&redis, "reads", &reads).await;
    for client in [no_set, reads] {
        let permits = client.expirable_semaphore("printers").unwrap();
        let forbidden = |error: &Error| matches!(error, Error::Forbidden { .. });
        assert!(forbidden(&permits.add(1).await.unwrap_err()));
        assert!(forbidden(&permits.set(9).await.unwrap_err()));
        assert!(forbidden(&permits.release_id(guard.ids()[0]).await.unwrap_err()));
        assert!(client.expirable_semaphore("other").unwrap().set_if_absent(1).await.is_err());
        assert_eq!(redis.command(&["EXISTS", "other"]).number(), 0);
        assert_eq!((free(&redis), held(&redis)), (2, 1));
    }
    release_guard(guard).await;
}

/// Former bug: `set_if_absent` also added a permit for each held permit, but no permit for an
/// expired lease.
#[tokio::test(flavor = "multi_thread")]
async fn set_if_absent_counts_held_permits_when_the_counter_is_gone() {
    for (held_before, ended) in [(1, false), (2, false), (1, true)] {
        let (redis, client, all) = setup(3).await;
        let guard = all.acquire_many(held_before).await.unwrap();
        redis.command(&["DEL", "printers"]);
        if ended {
            cut_short(&redis);
        }
        let again = client.expirable_semaphore("printers").unwrap();
        assert!(again.set_if_absent(1).await.unwrap(), "{held_before} {ended}");
        assert_eq!(again.total().await.unwrap(), 1, "{held_before} {ended}");
        assert_eq!(again.try_acquire().await.unwrap().is_some(), ended, "{held_before}");
        drop(guard);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_message_grants_no_permit() {
    let (redis, _client, permits) = setup(1).await;
    let guard = permits.acquire().await.unwrap();
    let waiting = waiter(&permits);
    crate::common::until_subscribed(&redis, CHANNEL);
    for message in ["1", "-5", "many", "", "99999999999999999999"] {
        redis.command(&["PUBLISH", CHANNEL, message]);
    }
    sleep(ms(100)).await;
    assert!(!waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

/// Runs the command of the guide that starts with `redis-cli` and `begins`, with `id` instead of
/// the guide's id. Returns the output.
fn by_the_guide(redis: &Redis, begins: &str, id: &str) -> String {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/runbook.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let line =
        guide.lines().find_map(|line| line.strip_prefix("$ redis-cli ")?.strip_prefix(begins));
    let line = line.unwrap().replace("77b0e3f04c3b4e0e0000000000050000", id);
    let line = format!("redis-cli -p {} {begins}{line}", redis.port());
    let done = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_commands_find_and_free_a_permit() {
    let (redis, client, permits) = setup(1).await;
    let guard = permits.acquire().await.unwrap();
    let id = guard.ids()[0].to_string();
    let shown = by_the_guide(&redis, "EVAL \"local t = {}", "");
    assert!(shown.starts_with(&id), "{shown}");
    assert!(client.id().replace('-', "").starts_with(&id[..16]));
    let waiting = waiter(&permits.clone());
    crate::common::until_subscribed(&redis, CHANNEL);
    by_the_guide(&redis, "EVAL \"return redis.call('ZADD'", &id);
    by_the_guide(&redis, "PUBLISH 'redisson_sc:{printers}' 1", "");
    release_guard(entered(waiting).await).await;
    assert!(guard.release().await.unwrap().into_result().is_err());
}

// Faults.

/// After a loss of all data, no permit is available, as if other clients held all of them.
#[tokio::test]
async fn unset_number_of_permits_is_logged_rarely() {
    let (redis, _client, permits) = setup(1).await;
    let (log, _noting) = Log::begin();
    let reported = || log.text().matches("call set_if_absent").count();
    let guard = permits.acquire().await.unwrap();
    assert!(permits.try_acquire().await.unwrap().is_none());
    assert_eq!(reported(), 0, "the permit is held: {}", log.text());
    release_guard(guard).await;
    redis.command(&["FLUSHALL"]);
    for _ in 0..2 {
        assert!(permits.acquire_within(secs(2)).await.unwrap_err().is_busy());
    }
    assert_eq!(reported(), 1, "{}", log.text());
    permits.set_if_absent(1).await.unwrap();
    release_guard(entered(waiter(&permits)).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_a_key_of_another_type_and_keeps_it_unchanged() {
    let (redis, _client, permits) = setup(1).await;
    redis.command(&["DEL", "printers"]);
    redis.command(&["HSET", "printers", "a", "b"]);
    let refused = permits.acquire().await.unwrap_err();
    assert!(matches!(&refused, Error::WrongType { found, .. } if found == "hash"), "{refused}");
    assert!(matches!(permits.available().await, Err(Error::WrongType { .. })));

    redis.command(&["DEL", "printers"]);
    redis.command(&["SET", "printers", "many"]);
    for error in [
        permits.acquire().await.unwrap_err(),
        permits.available().await.unwrap_err(),
        permits.set(1).await.unwrap_err(),
        permits.set_if_absent(1).await.unwrap_err(),
        permits.add(1).await.unwrap_err(),
    ] {
        is_no_number(&error, "many");
    }

    redis.command(&["SET", "printers", "1"]);
    redis.command(&["SET", HELD, "text"]);
    assert!(permits.acquire().await.is_err());
    assert_eq!(free(&redis), 1);
    assert_eq!(redis.command(&["GET", HELD]).text(), "text");
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_scripts_are_loaded_again() {
    let (redis, client, permits) = setup(1).await;
    let permits = permits.ttl(secs(3));
    let flush = || redis.command(&["SCRIPT", "FLUSH"]);
    flush();
    let guard = permits.acquire().await.unwrap();
    flush();
    eventually("the permit is renewed", SOON, || client.stats().renewals > 0);
    assert_eq!(client.stats().renewals_failed, 0);
    flush();
    assert_eq!(permits.available().await.unwrap(), 0);
    flush();
    assert!(permits.lease_of(guard.ids()[0]).await.unwrap().is_some());
    flush();
    permits.add(1).await.unwrap();
    flush();
    release_guard(guard).await;
    assert_eq!(free(&redis), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_reply_changes_no_permit_count() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = Client::builder().command_timeout(ms(300)).connect(&proxy.url()).await.unwrap();
    let permits = permits(&client, 5).await;

    proxy.lose_next_reply();
    let guard =
        within(SOON, "the client retries `acquire_many`", permits.acquire_many(2)).await.unwrap();
    assert_eq!((free(&redis), held(&redis)), (3, 2));
    proxy.lose_next_reply();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    eventually("the permits are released once", SOON, || (free(&redis), held(&redis)) == (5, 0));

    proxy.lose_next_reply();
    permits.add(2).await.unwrap();
    assert_eq!(free(&redis), 7);
    let guard = permits.acquire().await.unwrap();
    proxy.lose_next_reply();
    assert!(
        permits.release_id(guard.ids()[0]).await.unwrap(),
        "the retry returns the result of the first request"
    );
    proxy.lose_next_reply();
    permits.set(3).await.unwrap();
    assert_eq!(free(&redis), 3);
    assert_eq!(proxy.lost_replies(), 5);
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_server_refuses_new_permits_and_accepts_releases() {
    let (redis, client, permits) = setup(3).await;
    let guard = permits.clone().ttl(secs(3)).acquire().await.unwrap();
    let short = permits.clone().lease(ms(50)).acquire().await.unwrap();
    sleep(ms(100)).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("the permit is renewed", SOON, || client.stats().renewals > 0);
    assert_eq!(client.stats().renewals_failed, 0);
    assert_eq!(permits.available().await.unwrap(), 2, "the expired permit is free");
    let refused = within(SOON, "`acquire` fails", permits.acquire()).await.unwrap_err();
    assert!(matches!(&refused, Error::NotReady { code, .. } if code == "OOM"), "{refused}");
    let refused = permits.add(1).await.unwrap_err();
    assert!(matches!(&refused, Error::NotReady { code, .. } if code == "OOM"), "{refused}");
    assert!(permits.update_lease(guard.ids()[0], secs(5)).await.unwrap());
    release_guard(guard).await;
    assert_eq!((free(&redis), held(&redis)), (3, 0));
    drop(short);
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let guard = permits.acquire().await.unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(permits.release_id(guard.ids()[0]).await.unwrap());
    assert_eq!((free(&redis), held(&redis)), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_a_missing_permission_and_no_permit_is_lost() {
    let redis = Redis::start();
    let owner = client(&redis).await;
    let all = permits(&owner, 2).await;
    let taken = ["-zadd", "-zrem", "-incrby", "-zremrangebyscore", "-time"];
    let mut expired = Vec::new();
    for right in taken {
        // given an expired permit that no client has counted as free yet
        expired.push(all.clone().lease(ms(1)).acquire().await.unwrap());
        sleep(ms(20)).await;
        let limited = with_acl(&redis, &right[1..], &["~*", "&*", "+@all", right]).await;
        let permits = limited.expirable_semaphore("printers").unwrap();
        let refused = within(SOON, "`acquire` fails", permits.acquire()).await.unwrap_err();
        assert!(matches!(refused, Error::Forbidden { .. }), "{right}: {refused}");
        assert_eq!(free(&redis) + held(&redis), 2, "{right}");
        assert_eq!(all.available().await.unwrap(), 2, "{right}");
    }
    drop(expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_permissions_suffice_for_permits() {
    let rights = "+evalsha +eval +time +get +set +exists +incrby +zcount +zcard +zscore +zadd \
                  +zrem +zremrangebyscore +zrange +pttl +pexpire +publish +subscribe \
                  +unsubscribe +ping +type";
    let rights: Vec<_> = ["~*", "&*"].into_iter().chain(rights.split_whitespace()).collect();
    let redis = Redis::start();
    let client = with_acl(&redis, "limited", &rights).await;
    let permits = permits(&client, 1).await;
    let guard = permits.clone().ttl(secs(3)).acquire().await.unwrap();
    let waiting = waiter(&permits);
    eventually("the permit is renewed", SOON, || client.stats().renewals > 0);
    assert!(permits.lease_of(guard.ids()[0]).await.unwrap().is_some());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
    assert_eq!(permits.total().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn release_without_publish_permission_is_noticed_by_waiters() {
    let redis = Redis::start();
    let (owner, mute) = (client(&redis).await, with_acl(&redis, "mute", &["~*", "+@all"]).await);
    let all = permits(&owner, 1).await;
    let guard = mute.expirable_semaphore("printers").unwrap().acquire().await.unwrap();
    let waiting = waiter(&all);
    crate::common::until_subscribed(&redis, CHANNEL);
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_without_subscription_polls() {
    let redis = Redis::start();
    let (owner, deaf) = (client(&redis).await, with_acl(&redis, "deaf", &["~*", "+@all"]).await);
    let all = permits(&owner, 1).await;
    for permits in
        [deaf.expirable_semaphore("printers").unwrap(), all.clone().wait_strategy(POLLING)]
    {
        let guard = all.acquire().await.unwrap();
        let waiting = waiter(&permits);
        sleep(ms(300)).await;
        assert!(!waiting.is_finished());
        release_guard(guard).await;
        release_guard(entered(waiting).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn holder_notices_a_restart_that_loses_the_data() {
    let (redis, _client, permits) = setup(1).await;
    let guard = permits.acquire().await.unwrap();
    redis.restart();
    assert_eq!(
        within(secs(15), "the client reports the loss", guard.lost()).await,
        LostReason::NotOwned
    );
    // There are no permits until a client sets their number.
    let waiting = waiter(&permits);
    sleep(ms(100)).await;
    assert!(!waiting.is_finished());
    assert!(permits.set_if_absent(1).await.unwrap());
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_permit_request_with_a_late_grant_leaves_nothing() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = Client::connect(&proxy.url()).await.unwrap();
    let permits = permits(&client, 3).await;
    proxy.delay(ms(200));
    {
        let mut asked = Box::pin(permits.acquire_many(2));
        let begun = Instant::now();
        while held(&redis) == 0 {
            assert!(futures_util::poll!(&mut asked).is_pending());
            assert!(begun.elapsed() < SOON, "the server gets the request");
            sleep(ms(5)).await;
        }
    }
    eventually("all permits are free", SOON, || (free(&redis), held(&redis)) == (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_of_a_dead_client_return_after_one_ttl() {
    // given a client that holds permits, and that never reaches its server again
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let gone = Client::connect(&proxy.url()).await.unwrap();
    let all = permits(&client(&redis).await, 2).await;
    let guard =
        gone.expirable_semaphore("printers").unwrap().ttl(secs(2)).acquire_many(2).await.unwrap();
    proxy.refuse(true);
    proxy.cut();

    // then a waiter of another client acquires all permits when the lease ends, without a
    // notification
    let begun = Instant::now();
    release_guard(
        within(
            secs(10),
            "the waiter acquires when the lease of the dead client ends",
            all.acquire(),
        )
        .await
        .unwrap(),
    )
    .await;
    assert!(begun.elapsed() < secs(6), "{:?}", begun.elapsed());
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert_eq!(all.available().await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn permit_of_a_killed_process_is_free_after_its_lease() {
    // given a process that holds the only permit with a ttl of two seconds
    let (redis, _client, permits) = setup(1).await;
    let holder = Helper::example("permit_holder", &[&redis.url(), "printers", "2000"]);
    let line = holder.wait_for_line(|line| line.starts_with("held "), secs(10));
    let id = PermitId::new(&line["held ".len()..]).unwrap();
    let waiting = waiter(&permits);
    sleep(secs(3)).await;
    assert!(!waiting.is_finished(), "the permit is renewed, so the waiter waits");

    // when the process is killed, then the waiter acquires the permit as soon as the rest of the
    // lease has passed
    holder.kill();
    let killed = Instant::now();
    let left = permits.lease_of(id).await.unwrap().unwrap();
    let guard = entered(waiting).await;
    assert!(killed.elapsed() + ms(100) >= left, "{left:?}");
    release_guard(guard).await;
}

/// Former bug: if clients set the number before each acquisition, each call left a key for a
/// minute.
#[tokio::test(flavor = "multi_thread")]
async fn set_if_absent_of_existing_permits_leaves_no_key() {
    let (redis, _client, permits) = setup(3).await;
    let before = keys(&redis);
    for _ in 0..20 {
        assert!(!permits.set_if_absent(3).await.unwrap());
    }
    assert_eq!(keys(&redis), before);
}
