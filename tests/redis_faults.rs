//! Faults between a client and Redis, and their effects on the holder, on waiters and on other
//! clients. The tests follow the table of faults in `docs/guarantees.md`.

use std::time::Duration;

use crate::common::{
    Listener, SOON, channel, client, entered, hash, hold_by_hand, keys, ms, pttl, release_guard,
    secs, subscribers, until_subscribed, waiter, with_acl, within,
};
use futures_util::future::join_all;
use leasehold::{Client, Error, Lock, LostReason, Owner, Release};
use testkit::{Connection, Helper, Proxy, Redis, eventually};
use tokio::time::{Instant, sleep};

/// A client that waits for at most a second for a reply or a connection.
async fn hasty(url: &str) -> Client {
    let builder = Client::builder().command_timeout(secs(1)).connect_timeout(secs(1));
    builder.connect(url).await.unwrap()
}

// Restarts of the server.

#[tokio::test(flavor = "multi_thread")]
async fn restart_with_data_loses_no_hold() {
    // given a holder and a waiter
    let redis = Redis::options().persistent().start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.lock("door").unwrap().acquire().await.unwrap();
    let waiting = waiter(other.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));

    // when the server is killed and started again
    redis.restart();
    until_subscribed(&redis, &channel("door"));
    sleep(ms(500)).await;

    // then the hold continues, the waiter waits, and a release wakes it
    assert!(guard.is_held());
    assert!(!waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_is_renewed_after_a_restart_with_data() {
    let redis = Redis::options().persistent().start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().ttl(secs(6)).acquire().await.unwrap();
    redis.restart();
    sleep(secs(7)).await;
    assert!(guard.is_held());
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_without_data_reports_the_loss_to_the_holder() {
    // given a holder that renews every three seconds, and a waiter
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.lock("door").unwrap().ttl(secs(9)).acquire().await.unwrap();
    let waiting = waiter(other.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));

    // when the server restarts without its data
    redis.restart();

    // then the waiter acquires, and the client reports the loss and its reason to the holder
    let entered = entered(waiting).await;
    let reason = within(SOON, "the loss is reported", guard.lost()).await;
    assert_eq!(reason, LostReason::NotOwned);
    match guard.release().await.unwrap() {
        Release::NotHeld { reason: LostReason::NotOwned, holder: Some(holder), .. } => {
            assert_eq!(holder.owner(), entered.owner());
        }
        other => panic!("{other:?}"),
    }
    release_guard(entered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_of_a_lost_hold_does_not_wait_for_the_server() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let lock = client.lock("door").unwrap();
    let guard = lock.clone().lease(secs(1)).acquire().await.unwrap();
    redis.stop();
    assert_eq!(within(SOON, "the loss is reported", guard.lost()).await, LostReason::Expired);
    let began = Instant::now();
    match guard.release().await.unwrap() {
        Release::NotHeld { reason: LostReason::Expired, holder: None, .. } => {}
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() < ms(500), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_without_a_timeout_waits_through_an_outage() {
    let redis = Redis::start();
    let client = client(&redis).await;
    redis.stop();
    let waiting = waiter(client.lock("door").unwrap());
    sleep(secs(4)).await;
    assert!(!waiting.is_finished());
    redis.start_again();
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnects_are_counted() {
    let redis = Redis::start();
    let client = client(&redis).await;
    assert_eq!(client.stats().reconnects, 0);
    redis.restart();
    eventually("both connections are restored", SOON, || client.stats().reconnects == 2);
}

// A silent server.

#[tokio::test(flavor = "multi_thread")]
async fn server_hang_shorter_than_the_lease_loses_no_hold() {
    let redis = Redis::start();
    let client = hasty(&redis.url()).await;
    let guard = client.lock("door").unwrap().ttl(secs(9)).acquire().await.unwrap();
    redis.pause();
    // The hang lasts until the renewal that is due at 3 s has failed by its timeout.
    eventually("a renewal fails", secs(8), || client.stats().renewals_failed > 0);
    assert!(guard.is_held());
    redis.resume();

    // then the client renews the hold, and keeps it for longer than one lease
    sleep(secs(7)).await;
    assert!(guard.is_held());
    assert_eq!(hash(&redis, "door"), [(guard.owner().to_string(), "1".into())]);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_is_lost_when_the_server_hangs_beyond_the_lease() {
    let redis = Redis::start();
    let client = hasty(&redis.url()).await;
    let start = Instant::now();
    let guard = client.lock("door").unwrap().ttl(secs(3)).acquire().await.unwrap();
    redis.pause();

    // The server still hangs, so only the local deadline can have reported the loss.
    let reason =
        within(secs(6), "the client reports the loss at the local deadline", guard.lost()).await;
    let results = start.elapsed();
    assert_eq!(reason, LostReason::Expired);
    assert!(results >= ms(2_900) && results < secs(5), "{results:?}");
    assert!(!guard.is_held());
    assert_eq!(client.stats().lost_expired, 1);
    redis.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_off_holder_learns_its_loss_at_its_local_deadline() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let (cut_off, other) = (hasty(&proxy.url()).await, client(&redis).await);
    let guard = cut_off.lock("door").unwrap().ttl(secs(3)).acquire().await.unwrap();
    proxy.black_hole(true);
    let lock = other.lock("door").unwrap();
    let entering = waiter(lock);

    assert_eq!(
        within(SOON, "the client reports the loss", guard.lost()).await,
        LostReason::Expired
    );
    let entered = entered(entering).await;

    // and when the network works again, the late release does not affect the hold of the other
    // client
    proxy.black_hole(false);
    let release = within(secs(10), "`release` returns", guard.release()).await.unwrap();
    assert!(matches!(release, Release::NotHeld { .. }), "{release:?}");
    release_guard(entered).await;
}

/// How a server is made silent, or unreachable.
#[derive(Clone, Copy, Debug)]
enum Silence {
    BlackHole,
    Gone,
    Hanging,
    SwallowedReplies,
}

const SILENCES: [Silence; 4] =
    [Silence::BlackHole, Silence::Gone, Silence::Hanging, Silence::SwallowedReplies];

/// A client with default timeouts, whose server has fallen silent.
async fn silent(silence: Silence) -> (Client, Proxy, Redis) {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = Client::connect(&proxy.url()).await.unwrap();
    match silence {
        Silence::BlackHole => proxy.black_hole(true),
        Silence::Gone => proxy.refuse(true),
        Silence::Hanging => redis.pause(),
        Silence::SwallowedReplies => proxy.swallow_replies(true),
    }
    (client, proxy, redis)
}

/// Asserts that `ask` fails after `limit` if no reply comes. All kinds of silence are tested at the
/// same time. On a busy machine, the failure may come a second later.
async fn unanswered_within<F>(limit: Duration, ask: impl Fn(Lock) -> F)
where
    F: Future<Output = Error>,
{
    join_all(SILENCES.map(|silence| {
        let ask = &ask;
        async move {
            let (client, _proxy, _redis) = silent(silence).await;
            let start = Instant::now();
            let error = within(secs(20), "the call fails", ask(client.lock("door").unwrap())).await;
            let late = start.elapsed().saturating_sub(limit);
            assert!(matches!(error, Error::Unavailable { .. }), "{silence:?}: {error:?}");
            assert!(late < secs(1), "{silence:?}: {late:?} after its deadline");
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_within_ends_at_its_deadline_in_any_network_state() {
    for max_wait in [ms(500), secs(4)] {
        let acquire = async |lock: Lock| lock.acquire_within(max_wait).await.unwrap_err();
        unanswered_within(max_wait, acquire).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn try_acquire_returns_within_three_seconds_of_any_outage() {
    unanswered_within(secs(3), async |lock: Lock| lock.try_acquire().await.unwrap_err()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holder_query_returns_within_three_seconds_of_any_outage() {
    unanswered_within(secs(3), async |lock: Lock| lock.holder().await.unwrap_err()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_command_timeout_delays_no_try_acquire_or_holder_query() {
    let redis = Redis::start();
    let builder = Client::builder().command_timeout(secs(20));
    let lock = builder.connect(&redis.url()).await.unwrap().lock("door").unwrap();
    redis.pause();

    let java = Owner::new("java:1").unwrap();
    let answers = async {
        let (acquired, holder, held_by) =
            tokio::join!(lock.try_acquire(), lock.holder(), lock.held_by(&java));
        [acquired.unwrap_err(), holder.unwrap_err(), held_by.unwrap_err()]
    };
    // The limit of the call is three seconds. The two other seconds are for a busy machine.
    for error in within(secs(5), "all three calls return", answers).await {
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connection_is_replaced() {
    // given a connection that stays open, but delivers no reply
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = hasty(&proxy.url()).await;
    proxy.swallow_replies(true);
    client.lock("door").unwrap().holder().await.unwrap_err();

    // when replies arrive again, then the client has opened a new connection for its requests
    proxy.swallow_replies(false);
    let guard = within(
        SOON,
        "the client acquires on a new connection",
        client.lock("door").unwrap().acquire(),
    )
    .await;
    release_guard(guard.unwrap()).await;
    assert!(client.stats().reconnects > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswered_release_returns_after_five_seconds_and_retries() {
    // given a holder whose server hangs
    let redis = Redis::start();
    let client = hasty(&redis.url()).await;
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    redis.pause();

    let start = Instant::now();
    let error = within(secs(10), "`release` fails", guard.release()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(start.elapsed() < secs(7), "{:?}", start.elapsed());

    // when the server continues, then the client releases the lock, long before its lease ends
    redis.resume();
    eventually("the lock is released", secs(8), || keys(&redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_that_times_out_on_a_silent_server_leaves_no_lock() {
    // given an acquire request that the server has not executed yet
    let (client, _proxy, redis) = silent(Silence::Hanging).await;
    let lock = client.lock("door").unwrap();
    lock.acquire_within(ms(500)).await.unwrap_err();

    // when the server executes the request, then the client releases the grant, long before its
    // lease ends
    redis.resume();
    sleep(ms(100)).await;
    eventually("the lock is free", secs(8), || keys(&redis).is_empty());
    sleep(secs(1)).await;
    assert!(keys(&redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_acquire_with_a_late_grant_leaves_no_lock() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = Client::connect(&proxy.url()).await.unwrap();
    for delay in [0, 1, 5, 20, 100] {
        // given a grant whose reply is late
        proxy.delay(ms(200));
        let acquiring = waiter(client.lock("door").unwrap());
        sleep(ms(delay)).await;

        // when no task waits for the grant any more
        acquiring.abort();
        acquiring.await.unwrap_err();

        // then the client releases the grant, long before its lease ends
        proxy.delay(Duration::ZERO);
        sleep(ms(300)).await;
        eventually("the lock is free", SOON, || keys(&redis).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_release_continues() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = Client::connect(&proxy.url()).await.unwrap();
    for delay in [0, 1, 20] {
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        proxy.delay(ms(200));
        let releasing = tokio::spawn(guard.release());
        sleep(ms(delay)).await;
        releasing.abort();
        proxy.delay(Duration::ZERO);
        eventually("the lock is free", SOON, || keys(&redis).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_continues_after_rejected_writes() {
    let redis = Redis::start();
    let client = hasty(&redis.url()).await;
    let guard = client.lock("held").unwrap().ttl(secs(6)).acquire().await.unwrap();

    let start = Instant::now();
    redis.command(&["CLIENT", "PAUSE", "1500", "WRITE"]);
    let entered = within(SOON, "the client acquires", client.lock("door").unwrap().acquire()).await;

    assert!(start.elapsed() >= secs(1), "{:?}", start.elapsed());
    let entered = entered.unwrap();
    assert_eq!(hash(&redis, "door"), [(entered.owner().to_string(), "1".into())]);
    sleep(secs(6)).await;
    assert!(guard.is_held());
    release_guard(entered).await;
    release_guard(guard).await;
}

// Lost connections.

#[tokio::test(flavor = "multi_thread")]
async fn holder_and_waiter_survive_the_loss_of_all_connections() {
    for kind in ["normal", "pubsub"] {
        // given a holder and a waiter
        let redis = Redis::start();
        let (one, other) = (client(&redis).await, client(&redis).await);
        let guard = one.lock("door").unwrap().acquire().await.unwrap();
        let waiting = waiter(other.lock("door").unwrap());
        until_subscribed(&redis, &channel("door"));

        // when all connections of a kind are killed, and the clients have connected again
        assert!(redis.command(&["CLIENT", "KILL", "TYPE", kind]).number() > 0, "{kind}");
        eventually("the other client has connected again", SOON, || other.stats().reconnects > 0);
        until_subscribed(&redis, &channel("door"));
        assert!(guard.is_held(), "{kind}");
        assert!(!waiting.is_finished(), "{kind}");

        // then a release wakes the waiter
        release_guard(guard).await;
        release_guard(entered(waiting).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_idle_connections_lose_no_lock() {
    let redis = Redis::options().arg("--timeout", "1").start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().ttl(secs(9)).acquire().await.unwrap();
    sleep(secs(10)).await;
    assert!(client.stats().reconnects > 0);
    assert!(guard.is_held());
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_during_an_outage_delays_waiters_by_seconds_at_most() {
    // given a waiter whose connections are cut, and a lock that is released while they are cut
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let (one, other) = (client(&redis).await, Client::connect(&proxy.url()).await.unwrap());
    let guard = one.lock("door").unwrap().acquire().await.unwrap();
    let waiting = waiter(other.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));
    proxy.refuse(true);
    eventually("the waiter is no longer subscribed", SOON, || {
        subscribers(&redis, &channel("door")) == 0
    });
    release_guard(guard).await;

    // when the network works again, then the waiter acquires, long before the lease would have
    // ended
    proxy.refuse(false);
    release_guard(entered(waiting).await).await;
    assert_eq!(other.stats().wake_ups, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_message_delays_the_waiter_by_seconds_at_most() {
    // given a waiter, and a lock that is deleted without a message
    let redis = Redis::start();
    let client = client(&redis).await;
    hold_by_hand(&redis, "door", "java:1", secs(60));
    let waiting = waiter(client.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));
    redis.command(&["DEL", "door"]);

    release_guard(entered(waiting).await).await;
    assert_eq!(client.stats().wake_ups, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_scripts_are_loaded_again() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let flush = || redis.command(&["SCRIPT", "FLUSH"]);
    let lock = client.lock("door").unwrap().ttl(secs(3));

    flush();
    let guard = lock.acquire().await.unwrap();
    flush();
    assert!(lock.holder().await.unwrap().is_some());
    flush();
    let again = guard.reenter().await.unwrap();
    flush();
    crate::common::release_one_of_two(again).await;
    flush();
    eventually("the lock is renewed", SOON, || client.stats().renewals > 0);
    assert_eq!(client.stats().renewals_failed, 0);
    flush();
    assert!(lock.force_release().await.unwrap());
    drop(guard);
    let guard = lock.acquire().await.unwrap();
    flush();
    release_guard(guard).await;
    assert!(keys(&redis).is_empty());
}

// Rejected requests.

#[tokio::test(flavor = "multi_thread")]
async fn error_names_a_key_of_another_type_and_keeps_it_unchanged() {
    let redis = Redis::start();
    let client = client(&redis).await;
    for (found, put) in [
        ("string", &["SET", "door", "x"][..]),
        ("list", &["RPUSH", "door", "x"]),
        ("set", &["SADD", "door", "x"]),
        ("zset", &["ZADD", "door", "1", "x"]),
        ("stream", &["XADD", "door", "1-1", "x", "y"]),
    ] {
        redis.command(put);
        let lock = client.lock("door").unwrap();
        let java = Owner::new("java:1").unwrap();
        for error in [
            lock.try_acquire().await.unwrap_err(),
            within(SOON, "`acquire` fails", lock.acquire()).await.unwrap_err(),
            within(SOON, "`acquire_within` fails", lock.acquire_within(secs(60)))
                .await
                .unwrap_err(),
            lock.force_release().await.unwrap_err(),
            lock.holder().await.unwrap_err(),
            lock.is_locked().await.unwrap_err(),
            lock.held_by(&java).await.unwrap_err(),
        ] {
            match error {
                Error::WrongType { name, found: named } => {
                    assert_eq!((name.as_str(), named.as_str()), ("door", found));
                }
                other => panic!("{found}: {other:?}"),
            }
        }
        assert_eq!(redis.command(&["TYPE", "door"]).text(), found);
        assert_eq!(pttl(&redis, "door"), -1);
        redis.command(&["DEL", "door"]);
    }
}

/// Former bug: if the server rejected `TYPE`, the error showed the text of this rejection as the
/// type.
#[tokio::test(flavor = "multi_thread")]
async fn user_without_the_type_command_gets_the_wrong_type_error() {
    let redis = Redis::start();
    let client = with_acl(&redis, "limited", &["~*", "&*", "+@all", "-type"]).await;
    redis.command(&["SET", "door", "x"]);
    let error = client.lock("door").unwrap().try_acquire().await.unwrap_err();
    let another = "key of another type";
    assert!(matches!(&error, Error::WrongType { found, .. } if found == another), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn overwritten_hold_is_lost_and_the_new_value_stays() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().ttl(secs(3)).acquire().await.unwrap();
    redis.command(&["SET", "door", "x"]);

    let reason = within(SOON, "the client reports the loss", guard.lost()).await;
    assert_eq!(reason, LostReason::NotOwned);
    drop(guard);
    sleep(ms(300)).await;
    assert_eq!(redis.command(&["GET", "door"]).text(), "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn newly_required_password_is_reported_until_it_is_removed() {
    // given a client without a password, whose server requires a password from now on
    let redis = Redis::start();
    let mut admin = Connection::open(redis.port());
    let client = hasty(&redis.url()).await;
    let lock = client.lock("door").unwrap();
    admin.command(&["CONFIG", "SET", "requirepass", "secret"]);
    admin.command(&["CLIENT", "KILL", "TYPE", "normal"]);

    // then the error names the cause
    let error =
        within(SOON, "`acquire_within` fails", lock.acquire_within(secs(3))).await.unwrap_err();
    assert!(error.to_string().contains("NOAUTH"), "{error:?}");

    // and when the server requires no password any more, the client continues
    admin.command(&["CONFIG", "SET", "requirepass", ""]);
    let guard = within(SOON, "the client acquires", lock.acquire()).await;
    release_guard(guard.unwrap()).await;
}

#[track_caller]
fn refused(error: &Error, with: &str) {
    match error {
        Error::Forbidden { code, .. } | Error::NotReady { code, .. } => {
            assert_eq!(code, with, "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_for_a_missing_key_permission_names_code_and_key() {
    let redis = Redis::start();
    let client = with_acl(&redis, "limited", &["~ours:*", "&*", "+@all"]).await;
    let theirs = client.lock("theirs:door").unwrap();
    let java = Owner::new("java:1").unwrap();
    for error in [
        theirs.try_acquire().await.unwrap_err(),
        within(SOON, "`acquire` fails", theirs.acquire()).await.unwrap_err(),
        within(SOON, "`acquire_within` fails", theirs.acquire_within(secs(60))).await.unwrap_err(),
        theirs.holder().await.unwrap_err(),
        theirs.held_by(&java).await.unwrap_err(),
        theirs.force_release().await.unwrap_err(),
    ] {
        refused(&error, "NOPERM");
        assert!(error.to_string().contains("`theirs:door`"), "{error}");
    }
    release_guard(client.lock("ours:door").unwrap().acquire().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_permission_affects_only_its_lock() {
    // given two locks that one request renews
    let redis = Redis::start();
    let client = with_acl(&redis, "limited", &["~*", "&*", "+@all"]).await;
    let [ours, theirs] = ["ours", "theirs"].map(|name| client.lock(name).unwrap().ttl(secs(3)));
    let (ours, theirs) = tokio::join!(ours.acquire(), theirs.acquire());
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());

    // when the user loses the permission for the lock `theirs`
    redis.command(&["ACL", "SETUSER", "limited", "resetkeys", "~ours"]);

    // then `theirs` is lost when its lease ends, and the client still renews `ours`
    let reason = within(SOON, "the client reports the loss of `theirs`", theirs.lost()).await;
    assert_eq!(reason, LostReason::Expired);
    sleep(secs(1)).await;
    assert!(ours.is_held());
    release_guard(ours).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn user_without_eval_gets_the_error_text_of_the_server() {
    let redis = Redis::start();
    let client = with_acl(&redis, "limited", &["~*", "&*", "+@all", "-@scripting"]).await;
    let lock = client.lock("door").unwrap();
    refused(&lock.try_acquire().await.unwrap_err(), "NOPERM");
    refused(&within(SOON, "`acquire` fails", lock.acquire()).await.unwrap_err(), "NOPERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permission_error_names_the_command() {
    let redis = Redis::start();
    for (right, command) in [("-hset", "HSET"), ("-evalsha", "EVALSHA")] {
        let client = with_acl(&redis, "limited", &["~*", "&*", "+@all", right]).await;
        let error = client.lock("door").unwrap().try_acquire().await.unwrap_err();
        let Error::Forbidden { command: results, .. } = &error else { panic!("{error:?}") };
        assert_eq!(results.as_deref(), Some(command), "{error}");
        assert!(error.to_string().to_ascii_uppercase().contains(command), "{error}");
    }

    // The error of a release also names the command. A release without waiters sends commands
    // instead of a script.
    let client = with_acl(&redis, "limited", &["~*", "&*", "+@all", "-hdel"]).await;
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert!(error.to_string().to_ascii_uppercase().contains("HDEL"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_acquires_when_a_snapshot_succeeds_after_a_failure() {
    // given a failed snapshot, so that writes are rejected
    let redis = Redis::start();
    let client = client(&redis).await;
    redis.command(&["CONFIG", "SET", "save", "3600 1"]);
    let in_its_place = redis.dir().join("dump.rdb");
    std::fs::create_dir(&in_its_place).unwrap();
    redis.command(&["BGSAVE"]);
    eventually("the server refuses writes", SOON, || redis.command(&["DEL", "a"]).is_error());

    // then a waiter with a timeout gets the server's message, and a waiter without a timeout keeps
    // waiting
    let lock = client.lock("door").unwrap();
    refused(&lock.acquire_within(secs(2)).await.unwrap_err(), "MISCONF");
    let waiting = waiter(lock);

    // and when a snapshot has succeeded, the waiter acquires
    std::fs::remove_dir(in_its_place).unwrap();
    redis.command(&["BGSAVE"]);
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_permissions_suffice_for_locks() {
    let rights = "+evalsha +eval +hget +pttl +hgetall +hset +pexpire +hdel +hexists +hlen +del \
                  +publish +subscribe +unsubscribe +ping +type";
    let rights: Vec<_> = ["~*", "&*"].into_iter().chain(rights.split_whitespace()).collect();
    let redis = Redis::start();
    let client = with_acl(&redis, "limited", &rights).await;
    let lock = client.lock("door").unwrap().ttl(secs(3));

    let guard = lock.acquire().await.unwrap();
    let waiting = waiter(lock.clone());
    until_subscribed(&redis, &channel("door"));
    eventually("the lock is renewed", SOON, || client.stats().renewals > 0);
    let again = guard.reenter().await.unwrap();
    assert_eq!(lock.held_by(guard.owner()).await.unwrap(), 2);
    crate::common::release_one_of_two(again).await;
    release_guard(guard).await;
    drop(entered(waiting).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_without_subscribe_waits_by_polling() {
    let redis = Redis::start();
    let client = with_acl(&redis, "limited", &["~*", "&*", "+@all", "-subscribe"]).await;
    hold_by_hand(&redis, "door", "java:1", secs(60));
    let waiting = waiter(client.lock("door").unwrap());
    sleep(secs(1)).await;
    assert!(!waiting.is_finished());
    crate::common::release_by_hand(&redis, "door");
    release_guard(entered(waiting).await).await;
    assert_eq!(client.stats().wake_ups, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_without_channel_permission_can_acquire_and_release() {
    // given a holder without permission to publish, and a waiter
    let redis = Redis::start();
    let (mute, other) = (with_acl(&redis, "limited", &["~*", "+@all"]).await, client(&redis).await);
    let guard = mute.lock("door").unwrap().acquire().await.unwrap();
    let waiting = waiter(other.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));

    // when the holder releases
    let released = within(secs(10), "`release` returns", guard.release()).await;

    // then the lock is free, `release` returns `Released`, and the waiter acquires by its timer
    assert!(matches!(released, Ok(Release::Released)), "{released:?}");
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_server_refuses_new_locks_and_keeps_old_ones() {
    // given a held lock, and a server that then has no free memory
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("held").unwrap().ttl(secs(3)).acquire().await.unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);

    // then a new lock is rejected
    let lock = client.lock("door").unwrap();
    refused(&lock.try_acquire().await.unwrap_err(), "OOM");
    refused(&within(SOON, "`acquire` fails", lock.acquire()).await.unwrap_err(), "OOM");
    assert!(!lock.is_locked().await.unwrap());

    // and the held lock cannot be reentered
    refused(&guard.reenter().await.unwrap_err(), "OOM");
    assert_eq!(guard.count(), 1);

    // but the client renews the held lock beyond its first lease, and can release it
    sleep(secs(4)).await;
    assert!(guard.is_held());
    assert_eq!(client.stats().renewals_failed, 0);
    let mut java = Listener::to(&redis, &channel("held"));
    release_guard(guard).await;
    assert_eq!(java.received(), ["0"]);
    assert!(keys(&redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_retried_while_the_server_is_read_only() {
    // given a holder, and a server that became a replica of a server that does not exist
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("held").unwrap().ttl(secs(6)).acquire().await.unwrap();
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let lock = client.lock("door").unwrap();

    // then a waiter with a timeout gets the server's message, and a waiter without a timeout keeps
    // waiting
    refused(&lock.acquire_within(secs(2)).await.unwrap_err(), "READONLY");
    let waiting = waiter(lock);
    eventually("the server refuses a renewal", SOON, || client.stats().renewals_failed > 0);
    assert!(guard.is_held());
    assert!(!waiting.is_finished());

    // and when the server is the primary again, the waiter acquires and the holder keeps its lock
    redis.command(&["REPLICAOF", "NO", "ONE"]);
    release_guard(entered(waiting).await).await;
    sleep(secs(6)).await;
    assert!(guard.is_held());
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_continues_when_an_endless_script_was_killed() {
    let redis = Redis::options().arg("--lua-time-limit", "100").start();
    let client = client(&redis).await;
    let mut other = Connection::open(redis.port());
    other.send(&["EVAL", "while true do end", "0"]).unwrap();
    sleep(ms(500)).await;
    let waiting = waiter(client.lock("door").unwrap());
    sleep(secs(1)).await;
    assert!(!waiting.is_finished());
    redis.command(&["SCRIPT", "KILL"]);
    release_guard(entered(waiting).await).await;
}

// Processes that die.

/// Starts a process that holds `door`. Returns the process and the owner.
fn holder(redis: &Redis, ttl: Duration) -> (Helper, String) {
    let ttl = ttl.as_millis().to_string();
    let holder = Helper::example("holder", &[&redis.url(), "door", &ttl]);
    let line = holder.wait_for_line(|line| line.starts_with("held "), secs(10));
    (holder, line["held ".len()..].to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_of_a_killed_process_is_free_at_lease_end() {
    // given a process that holds a lock with a ttl of three seconds
    let redis = Redis::start();
    let client = client(&redis).await;
    let (holder, owner) = holder(&redis, secs(3));
    assert_eq!(hash(&redis, "door"), [(owner, "1".into())]);
    let waiting = waiter(client.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));
    sleep(secs(4)).await;
    assert!(!waiting.is_finished(), "the lease is renewed, so the waiter waits");

    // when the process is killed
    holder.kill();
    let killed = Instant::now();
    let left = pttl(&redis, "door");

    // then the waiter acquires as soon as the rest of the lease has passed
    let guard = entered(waiting).await;
    assert!(left > 0 && killed.elapsed() + ms(100) >= ms(left.unsigned_abs()), "{left}");
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_process_knows_that_its_lease_ended() {
    // given a process that holds a lock, and is paused
    let redis = Redis::start();
    let client = client(&redis).await;
    let (holder, _) = holder(&redis, secs(2));
    holder.pause();

    // when another client acquires meanwhile
    let guard = within(
        SOON,
        "the client acquires when the lease of the paused process ends",
        client.lock("door").unwrap().acquire(),
    )
    .await;
    let guard = guard.unwrap();
    let ours = hash(&redis, "door");
    holder.resume();

    // then the resumed process reports the loss and its reason, and does not affect the new hold
    let line = holder.next_line(SOON);
    assert_eq!(line, "lost Expired");
    assert!(holder.wait().success());
    assert_eq!(hash(&redis, "door"), ours);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn process_paused_for_less_than_its_lease_keeps_the_lock() {
    let redis = Redis::start();
    let (holder, owner) = holder(&redis, secs(6));
    holder.pause();
    sleep(secs(3)).await;
    holder.resume();
    sleep(secs(6)).await;
    assert_eq!(hash(&redis, "door"), [(owner, "1".into())]);
    holder.send_line("release");
    assert_eq!(holder.next_line(SOON), "released");
    assert!(keys(&redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_waiting_process_leaves_nothing_behind() {
    // given a holder, and another process that waits
    let redis = Redis::start();
    let guard = client(&redis).await.lock("door").unwrap().acquire().await.unwrap();
    let waiting = Helper::example("holder", &[&redis.url(), "door", "30000"]);
    waiting.wait_for_line(|line| line == "waiting", secs(10));
    until_subscribed(&redis, &channel("door"));

    // when the waiting process is killed
    waiting.kill();
    eventually("no client is subscribed", SOON, || subscribers(&redis, &channel("door")) == 0);

    // then the hold continues, and after its release no client holds the lock
    assert_eq!(hash(&redis, "door"), [(guard.owner().to_string(), "1".into())]);
    release_guard(guard).await;
    sleep(ms(200)).await;
    // The queue entry of the killed process is left, and expires.
    let queue = "leasehold_lock__queue:{door}";
    assert!(keys(&redis).iter().all(|key| key == queue), "{:?}", keys(&redis));
    assert!(redis.command(&["PTTL", queue]).number() <= 15_000);
}

#[test]
fn lock_of_a_dead_runtime_is_free_when_its_lease_ends() {
    let redis = Redis::start();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let guard = first.block_on(async {
        let client = client(&redis).await;
        client.lock("door").unwrap().ttl(secs(2)).acquire().await.unwrap()
    });
    first.shutdown_background();

    runtime().block_on(async {
        let lock = client(&redis).await.lock("door").unwrap();
        let entered =
            within(SOON, "the client acquires when the lease ends", lock.acquire()).await.unwrap();
        assert!(!guard.is_held());
        release_guard(entered).await;
    });
    drop(guard);
}

// Locks that are released by force, or deleted without a message.

#[tokio::test(flavor = "multi_thread")]
async fn holder_notices_a_forced_release_within_a_renewal_interval() {
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.lock("door").unwrap().ttl(secs(3)).acquire().await.unwrap();
    assert!(other.lock("door").unwrap().force_release().await.unwrap());

    // The client renews every second. The two other seconds are for a busy machine.
    let reason = within(secs(3), "the next renewal reports the loss", guard.lost()).await;
    assert_eq!(reason, LostReason::NotOwned);
    assert!(!guard.is_held());
    assert_eq!(one.stats().lost_not_owned, 1);
    assert!(keys(&redis).is_empty(), "a renewal does not create the lock again");
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_release_is_reported_at_once_to_a_waiting_process() {
    // given a client with a hold and a waiter for the same lock. The next renewal of the hold is
    // due after ten seconds
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.lock("door").unwrap().acquire().await.unwrap();
    let waiting = waiter(one.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));

    assert!(other.lock("door").unwrap().force_release().await.unwrap());

    let reason = within(SOON, "the client reports the loss", guard.lost()).await;
    assert_eq!(reason, LostReason::NotOwned);
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_release_of_a_fixed_lease_is_noticed_before_its_end() {
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.lock("door").unwrap().lease(secs(30)).acquire().await.unwrap();
    assert!(other.lock("door").unwrap().force_release().await.unwrap());
    let reason =
        within(secs(15), "the next check of the hold reports the loss", guard.lost()).await;
    assert_eq!(reason, LostReason::NotOwned);
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_release_admits_a_waiter_at_once() {
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.lock("door").unwrap().acquire().await.unwrap();
    let before = redis.calls();
    let waiting = waiter(other.lock("door").unwrap());
    crate::common::until_asleep(&redis, &channel("door"), &before);
    assert!(one.lock("door").unwrap().force_release().await.unwrap());
    release_guard(entered(waiting).await).await;
    assert_eq!(other.stats().wake_ups, 1);
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_guard_admits_a_waiter() {
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.lock("door").unwrap().acquire().await.unwrap();
    let waiting = waiter(other.lock("door").unwrap());
    until_subscribed(&redis, &channel("door"));
    drop(guard);
    release_guard(entered(waiting).await).await;
    assert_eq!(one.stats().released, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn guard_that_is_dropped_with_its_client_is_released() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    drop(guard);
    drop(client);
    eventually("the lock is free", SOON, || keys(&redis).is_empty());
    eventually("the client has closed its connections", SOON, || {
        crate::common::connections(&redis) == 0
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_or_aborted_task_releases_its_lock() {
    let redis = Redis::start();
    let lock = client(&redis).await.lock("door").unwrap();
    let panicking = tokio::spawn({
        let lock = lock.clone();
        async move {
            let _guard = lock.acquire().await.unwrap();
            panic!("on purpose");
        }
    });
    assert!(panicking.await.unwrap_err().is_panic());
    eventually("the lock is free", SOON, || keys(&redis).is_empty());

    let hanging =
        tokio::spawn(async move { lock.run(async |_| std::future::pending::<()>().await).await });
    eventually("the lock is held", SOON, || keys(&redis) == ["door"]);
    hanging.abort();
    eventually("the lock is free", SOON, || keys(&redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_releases_holds_and_fails_waiters() {
    // given a client that holds one lock and waits for another
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.lock("door").unwrap().acquire().await.unwrap();
    let theirs = other.lock("window").unwrap().acquire().await.unwrap();
    let waiting = waiter(one.lock("window").unwrap());
    until_subscribed(&redis, &channel("window"));

    // when the client is shut down
    let shutdown = within(SOON, "`shutdown` returns", one.shutdown(secs(2))).await;

    // then its lock is free, its guard reports the loss, and its waiter has failed
    assert_eq!((shutdown.revoked, shutdown.pending), (1, 0));
    assert_eq!(keys(&redis), ["window"]);
    assert_eq!(guard.lost().await, LostReason::ShutDown);
    assert!(matches!(waiting.await.unwrap(), Err(Error::ShutDown)));
    assert!(matches!(one.lock("door").unwrap().try_acquire().await, Err(Error::ShutDown)));
    eventually("no client is subscribed", SOON, || subscribers(&redis, &channel("window")) == 0);
    release_guard(theirs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_in_time_when_the_server_hangs() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    redis.pause();
    let start = Instant::now();
    let shutdown = within(SOON, "`shutdown` returns", client.shutdown(secs(1))).await;
    assert!(start.elapsed() < secs(2), "{:?}", start.elapsed());
    assert_eq!((shutdown.revoked, shutdown.pending), (1, 1));
    assert!(!guard.is_held());
    redis.resume();
}
