//! The latch on a real server: its keys and messages, its costs, and its faults.

use crate::common::{
    Listener, SOON, client, is_no_number, keys, ms, pttl, secs, subscribers, until_subscribed,
    with_acl, within,
};
use futures_util::future::join_all;
use leasehold::{Client, Error, Latch, Result};
use testkit::{Proxy, Redis, eventually};
use tokio::{task::JoinHandle, time::sleep};

const CHANNEL: &str = "redisson_countdownlatch__channel__{start}";

async fn latch(redis: &Redis) -> Latch {
    client(redis).await.latch("start").unwrap()
}

fn waiting(latch: &Latch) -> JoinHandle<Result<()>> {
    let latch = latch.clone();
    tokio::spawn(async move { latch.wait().await })
}

async fn passes(waiter: JoinHandle<Result<()>>) {
    within(SOON, "the waiter passes the latch", waiter).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn latch_counter_and_channel_match_redisson() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    let mut listener = Listener::to(&redis, CHANNEL);
    assert!(latch.set(2).await.unwrap());
    assert_eq!(redis.command(&["GET", "start"]).text(), "2");
    assert_eq!((pttl(&redis, "start"), listener.received()), (-1, vec!["1".to_owned()]));
    assert!(!latch.set(9).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), 1);
    assert_eq!(listener.received(), [""; 0]);
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert_eq!(listener.received(), ["0"]);
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert_eq!(listener.received(), [""; 0]);

    // Deleting the latch opens it, and `delete` returns that the latch existed.
    latch.set(2).await.unwrap();
    assert!(latch.delete().await.unwrap());
    assert_eq!(listener.received(), ["1", "0"]);
    for receipt in keys(&redis) {
        assert!(receipt.starts_with("leasehold_latch__receipt:{start}:"), "{receipt}");
        assert!((1..=60_000).contains(&pttl(&redis, &receipt)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn latch_name_with_a_hash_tag_gets_added_braces_in_its_channel() {
    let redis = Redis::start();
    let mut listener = Listener::to(&redis, "redisson_countdownlatch__channel__{{t}:start}");
    let latch = client(&redis).await.latch("{t}:start").unwrap();
    latch.set(1).await.unwrap();
    let waiter = waiting(&latch);
    latch.count_down().await.unwrap();
    passes(waiter).await;
    assert_eq!(listener.received(), ["1", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn latch_opened_by_redissons_commands_wakes_waiters() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    redis.command(&["SET", "start", "1"]);
    let waiter = waiting(&latch);
    until_subscribed(&redis, CHANNEL);
    // A message other than "0" only makes waiters repeat their request. "1" reports that a latch
    // was closed again.
    redis.command(&["PUBLISH", CHANNEL, "1"]);
    redis.command(&["PUBLISH", CHANNEL, "nonsense"]);
    sleep(ms(100)).await;
    assert!(!waiter.is_finished());
    redis.command(&["DEL", "start"]);
    redis.command(&["PUBLISH", CHANNEL, "0"]);
    passes(waiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_message_only_delays_latch_waiter() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    latch.set(1).await.unwrap();
    let waiter = waiting(&latch);
    until_subscribed(&redis, CHANNEL);
    sleep(ms(100)).await;
    redis.command(&["DEL", "start"]);
    passes(waiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_waiting_tasks_cost_about_as_much_as_one_waiter() {
    let redis = Redis::start();
    let (latch, other) = (latch(&redis).await, latch(&redis).await);
    latch.set(1).await.unwrap();
    let before = redis.calls();
    let waiters: Vec<_> = (0..1_000).map(|_| waiting(&latch)).collect();
    until_subscribed(&redis, CHANNEL);
    sleep(ms(200)).await;
    other.count_down().await.unwrap();
    within(SOON, "all waiters pass the latch", join_all(waiters))
        .await
        .into_iter()
        .for_each(|it| it.unwrap().unwrap());
    let calls = redis.calls().since(&before);
    // The client checks the latch by `GET`, at most four times for all tasks. The script that opens
    // the latch calls `GET` two more times.
    assert!(calls.of("get") <= 2 + 4, "{calls}");
    assert_eq!((calls.of("subscribe"), calls.of("evalsha")), (1, 1), "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn count_down_with_a_lost_reply_counts_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = Client::builder().command_timeout(ms(500)).connect(&proxy.url()).await.unwrap();
    let latch = client.latch("start").unwrap();
    proxy.lose_reply_to("EVALSHA");
    assert!(within(SOON, "the client retries `set`", latch.set(3)).await.unwrap());
    proxy.lose_reply_to("EVALSHA");
    assert_eq!(
        within(SOON, "the client retries `count_down`", latch.count_down()).await.unwrap(),
        2
    );
    assert_eq!((proxy.lost_replies(), latch.count().await.unwrap()), (2, 2));
    proxy.lose_reply_to("EVALSHA");
    assert!(within(SOON, "the client retries `delete`", latch.delete()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn count_down_that_the_caller_repeats_may_count_twice() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let builder = Client::builder().request_timeout(secs(2));
    let latch = builder.connect(&proxy.url()).await.unwrap().latch("start").unwrap();
    latch.set(3).await.unwrap();
    proxy.swallow_replies(true);
    let error = latch.count_down().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }) && error.is_transient(), "{error:?}");
    proxy.swallow_replies(false);
    proxy.cut();
    eventually("the server has counted once", SOON, || {
        redis.command(&["GET", "start"]).text() == "2"
    });
    sleep(ms(500)).await;
    assert_eq!(latch.count_down().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn latch_is_open_after_data_loss() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    latch.set(2).await.unwrap();
    let waiter = waiting(&latch);
    until_subscribed(&redis, CHANNEL);
    redis.command(&["FLUSHALL"]);
    passes(waiter).await;
    assert_eq!(latch.count_down().await.unwrap(), 0);
    latch.set(2).await.unwrap();
    assert_eq!(latch.count().await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_waiter_leaves_no_subscription() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    redis.command(&["SET", "start", "1"]);
    let waiter = waiting(&latch);
    until_subscribed(&redis, CHANNEL);
    sleep(secs(2)).await;
    waiter.abort();
    waiter.await.unwrap_err();
    let before = redis.calls();
    eventually("no client is subscribed", SOON, || subscribers(&redis, CHANNEL) == 0);
    assert_eq!(keys(&redis), ["start"]);
    let calls = redis.calls().since(&before);
    assert_eq!((calls.of("evalsha"), calls.of("get")), (0, 0), "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn latch_waiter_continues_after_a_restart() {
    let redis = Redis::options().persistent().start();
    let (latch, other) = (latch(&redis).await, latch(&redis).await);
    latch.set(1).await.unwrap();
    let waiter = waiting(&latch);
    until_subscribed(&redis, CHANNEL);
    redis.restart();
    until_subscribed(&redis, CHANNEL);
    sleep(ms(500)).await;
    assert!(!waiter.is_finished());
    other.count_down().await.unwrap();
    passes(waiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_are_forgotten_are_loaded_again() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    let forget = || redis.command(&["SCRIPT", "FLUSH"]);
    forget();
    assert!(latch.set(2).await.unwrap());
    forget();
    assert_eq!(latch.count_down().await.unwrap(), 1);
    forget();
    assert!(latch.delete().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn key_of_another_type_is_reported_and_not_changed() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    redis.command(&["HSET", "start", "field", "value"]);
    let wrong = |error: &Error| matches!(error, Error::WrongType { found, .. } if found == "hash");
    assert!(wrong(&latch.wait().await.unwrap_err()));
    assert!(wrong(&latch.count_down().await.unwrap_err()));
    assert!(wrong(&latch.delete().await.unwrap_err()));
    assert!(wrong(&latch.count().await.unwrap_err()));
    assert!(!latch.set(1).await.unwrap());
    redis.command(&["SET", "start", "many"]);
    assert!(!latch.set(1).await.unwrap());
    for error in [
        latch.wait().await.unwrap_err(),
        latch.wait_within(ms(500)).await.unwrap_err(),
        latch.count().await.unwrap_err(),
        latch.count_down().await.unwrap_err(),
        latch.delete().await.unwrap_err(),
    ] {
        is_no_number(&error, "many");
    }
    assert_eq!(redis.command(&["GET", "start"]).text(), "many");
}

#[tokio::test(flavor = "multi_thread")]
async fn latch_needs_a_key_permission_and_polls_without_channels() {
    let redis = Redis::start();
    let narrow = with_acl(&redis, "narrow", &["+@all", "&*", "~other"]).await;
    let narrow = narrow.latch("start").unwrap();
    assert!(matches!(narrow.wait().await, Err(Error::Forbidden { .. })));
    assert!(matches!(narrow.count_down().await, Err(Error::Forbidden { .. })));

    let deaf = "-@all resetchannels ~start ~leasehold_latch__receipt:{start}:* \
        +hello +ping +info +type +client|setname +evalsha +eval +script|load +subscribe +unsubscribe \
        +get +set +exists +decr +del +publish";
    let deaf: Vec<_> = deaf.split_whitespace().collect();
    let deaf = with_acl(&redis, "deaf", &deaf).await.latch("start").unwrap();
    deaf.set(1).await.unwrap();
    let waiter = waiting(&deaf);
    sleep(ms(300)).await;
    deaf.count_down().await.unwrap();
    passes(waiter).await;
    deaf.set(1).await.unwrap();
    assert!(deaf.delete().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_count_down_changes_nothing() {
    let redis = Redis::start();
    redis.command(&["SET", "start", "2"]);
    let no_set = with_acl(&redis, "no-set", &["+@all", "-set", "&*", "~*"]).await;
    testkit::came_with(7, "a permission for reads of a key only");
    let reads = with_acl(&redis, "reads", &["+@all", "&*", "~start", "%R~leasehold_*"]).await;
    for client in [no_set, reads] {
        let latch = client.latch("start").unwrap();
        assert!(matches!(latch.count_down().await, Err(Error::Forbidden { .. })));
        assert!(matches!(latch.delete().await, Err(Error::Forbidden { .. })));
        assert_eq!(redis.command(&["GET", "start"]).text(), "2");
        assert!(client.latch("other").unwrap().set(1).await.is_err());
        assert_eq!(keys(&redis), ["start"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_server_refuses_count_down_and_still_deletes_a_latch() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    latch.set(2).await.unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = |error: Error| matches!(&error, Error::NotReady { code, .. } if code == "OOM");
    assert!(full(latch.count_down().await.unwrap_err()));
    assert_eq!(latch.count().await.unwrap(), 2);
    assert!(latch.delete().await.unwrap());
    latch.wait().await.unwrap();
}

/// Former bug: the count-down returned 0, which means that the latch is open.
#[tokio::test(flavor = "multi_thread")]
async fn count_down_of_the_largest_java_count_does_not_return_zero() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    redis.command(&["SET", "start", &i64::MAX.to_string()]);
    assert_eq!(latch.count_down().await.unwrap(), (1 << 53) - 1);
    assert_eq!(latch.count().await.unwrap(), i64::MAX as u64 - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn latch_of_zero_is_open_and_may_be_set_again() {
    let redis = Redis::start();
    let latch = latch(&redis).await;
    for none in ["0", "-3"] {
        redis.command(&["SET", "start", none]);
        latch.wait().await.unwrap();
        assert_eq!(latch.count_down().await.unwrap(), 0);
        assert_eq!(redis.command(&["EXISTS", "start"]).number(), 0);
        redis.command(&["SET", "start", none]);
        assert!(latch.set(2).await.unwrap());
        assert_eq!(latch.count().await.unwrap(), 2);
    }
    redis.command(&["SET", "start", "many"]);
    assert!(!latch.set(2).await.unwrap());
}
