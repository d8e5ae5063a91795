//! What clients publish about themselves, on a real server.

use std::{process, time::Duration};

use crate::common::{client, commands_of_the_guide, follow, hash, keys, pttl, secs};
use leasehold::{Client, Error};
use testkit::Redis;
use tokio::time::{Instant, sleep};

async fn named(redis: &Redis) -> Client {
    Client::builder().application("orders", "1.4.2").connect(&redis.url()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn lasting_hold_publishes_its_client_info_by_one_set_command() {
    let redis = Redis::start();
    let (holder, other) = (named(&redis).await, client(&redis).await);
    let guard = holder.lock("door").unwrap().acquire().await.unwrap();
    let key = format!("leasehold_client__info:{{{}}}", holder.id());
    sleep(secs(4)).await;

    // given a hold with the keys of a Java hold, and one more key with the client info
    assert_eq!(keys(&redis), ["door", &key]);
    assert!((20_000..=30_000).contains(&pttl(&redis, &key)));
    let owner = guard.owner().to_string();
    assert_eq!(hash(&redis, "door"), [(owner, "1".to_owned())]);
    assert_eq!(redis.calls().of("set"), 1);

    // then another client and an operator can read the client info
    let owner = other.lock("door").unwrap().holder().await.unwrap().unwrap().owner().clone();
    let info = other.client_info(&owner).await.unwrap().unwrap();
    assert_eq!((&*info.application, &*info.version, info.pid), ("orders", "1.4.2", process::id()));
    let held = info.held_since("door").unwrap().elapsed().unwrap();
    assert!((secs(3)..secs(60)).contains(&held), "{held:?}");
    let found = other.inspect("door").await.unwrap().unwrap();
    assert_eq!(found.holders[0].client(), Some(&info));
    assert!(!info.host.is_empty() && info.to_string().starts_with("orders 1.4.2 on "));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_without_permission_holds_but_publishes_no_info() {
    let redis = Redis::start();
    let commands = commands_of_the_guide("leasehold");
    let is_for_info = |words: &&Vec<&str>| words.contains(&"~leasehold_client__info:*");
    let allowed = commands.iter().find(is_for_info).unwrap();
    follow(&redis, &commands[0]);
    for permitted in [false, true] {
        if permitted {
            follow(&redis, allowed);
            redis.command(&["ACL", "LOG", "RESET"]);
        }
        let builder = Client::builder().application("orders", "1");
        let builder = builder.credentials("leasehold", "secret");
        let holder = builder.connect(&redis.url()).await.unwrap();
        let lock = holder.lock("app:door").unwrap().ttl(secs(3));
        let guard = lock.acquire().await.unwrap();
        sleep(secs(4)).await;
        assert!(guard.is_held());
        assert_eq!(keys(&redis).len(), if permitted { 2 } else { 1 });
        if permitted {
            assert!(holder.client_info(guard.owner()).await.unwrap().is_some());
        }
        guard.release().await.unwrap().into_result().unwrap();
    }
    let refused = redis.command(&["ACL", "LOG"]);
    assert!(refused.list().is_empty(), "{refused:?}");
}

/// Lets an acquisition time out. Returns its error, the number of requests for client info, and the
/// duration of the call.
async fn timed_out(redis: &Redis, client: &Client, timeout: Duration) -> (Error, u64, Duration) {
    let lock = client.lock("door").unwrap();
    let (before, since) = (redis.calls().of("getrange"), Instant::now());
    let error = lock.acquire_within(timeout).await.unwrap_err();
    (error, redis.calls().of("getrange") - before, since.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_error_names_the_process_and_reason_of_the_holder() {
    let redis = Redis::start();
    let (holder, waiter, plain) = (named(&redis).await, named(&redis).await, client(&redis).await);
    let lock = holder.lock("door").unwrap().reason("nightly\nclose");
    let guard = lock.acquire().await.unwrap();
    sleep(secs(2)).await;

    // a client that publishes client info also reads the client info of the holder, by one request
    // for each wait
    let (error, requests, _) = timed_out(&redis, &waiter, secs(2)).await;
    let Error::TimedOut { holder: Some(found), .. } = &error else { panic!("{error}") };
    assert_eq!(found.owner(), guard.owner());
    assert_eq!((found.reason(), requests), (Some("nightly\nclose"), 1));
    let held = found.held_since().unwrap().elapsed().unwrap();
    assert!((secs(3)..secs(60)).contains(&held), "{held:?}");
    let text = error.to_string();
    let pid = format!(" (pid {}) since 20", process::id());
    assert!(text.contains(": held by orders 1.4.2 on ") && text.contains(&pid), "{text}");
    assert!(text.contains(r" UTC, reason `nightly\nclose`, owner `"), "{text}");
    let found = waiter.lock("door").unwrap().holder().await.unwrap().unwrap();
    assert_eq!(
        (found.reason(), found.client().unwrap().pid),
        (Some("nightly\nclose"), process::id())
    );

    // a client that publishes no client info sends no request for client info
    let (error, requests, _) = timed_out(&redis, &plain, secs(2)).await;
    let Error::TimedOut { holder: Some(found), .. } = &error else { panic!("{error}") };
    assert_eq!((found.client(), requests), (None, 0));
    assert_eq!(plain.lock("door").unwrap().holder().await.unwrap().unwrap().client(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn granted_acquisition_reads_no_holder() {
    let redis = Redis::start();
    let (holder, waiter) = (named(&redis).await, named(&redis).await);
    let guard = holder.lock("door").unwrap().acquire().await.unwrap();
    let door = waiter.lock("door").unwrap();
    let waits = tokio::spawn(async move { door.acquire_within(secs(20)).await });
    sleep(secs(2)).await;
    guard.release().await.unwrap().into_result().unwrap();
    let guard = waits.await.unwrap().unwrap();
    guard.release().await.unwrap().into_result().unwrap();
    drop(waiter.lock("gate").unwrap().acquire_within(secs(2)).await.unwrap());
    assert_eq!(redis.calls().of("getrange"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_one_client_share_one_request_for_the_holder() {
    let redis = Redis::start();
    let (holder, waiter) = (named(&redis).await, named(&redis).await);
    let _guard = holder.lock("door").unwrap().reason("audit").acquire().await.unwrap();
    sleep(secs(2)).await;
    let before = redis.calls().of("getrange");
    let waits = (0..50).map(|_| {
        let door = waiter.lock("door").unwrap();
        tokio::spawn(async move { door.acquire_within(secs(2)).await.unwrap_err() })
    });
    for wait in waits.collect::<Vec<_>>() {
        let error = wait.await.unwrap();
        let Error::TimedOut { holder: Some(found), .. } = &error else { panic!("{error}") };
        assert_eq!(found.reason(), Some("audit"));
    }
    assert_eq!(redis.calls().of("getrange") - before, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_server_does_not_extend_the_timeout() {
    let redis = Redis::start();
    let (holder, waiter) = (named(&redis).await, named(&redis).await);
    let _guard = holder.lock("door").unwrap().ttl(secs(60)).acquire().await.unwrap();
    let door = waiter.lock("door").unwrap();
    let waits = tokio::spawn(async move {
        let since = Instant::now();
        (door.acquire_within(secs(3)).await.unwrap_err(), since.elapsed())
    });
    sleep(Duration::from_millis(1_500)).await;
    redis.pause();
    let (error, waited) = waits.await.unwrap();
    redis.resume();
    assert!(waited < secs(3) + Duration::from_millis(500), "{waited:?}: {error}");
}
