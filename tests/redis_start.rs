//! Clients that start before their server, servers that reject a client, and health checks.

use std::time::Duration;

use crate::common::{
    Log, SOON, client, entered, healed, ms, release_guard, secs, waiter, with_acl, within,
};
use leasehold::{Client, ClientBuilder, Error, Health, Role};
use testkit::{Cluster, Connection, Proxy, Redis, eventually};
use tokio::{
    net::TcpSocket,
    runtime::Runtime,
    time::{Instant, sleep, timeout},
};

/// The timeout of a request in these tests.
const LIMIT: Duration = secs(2);

fn builder() -> ClientBuilder {
    Client::builder().request_timeout(LIMIT).connect_timeout(SOON)
}

/// A server that is not running yet.
fn not_yet() -> Redis {
    let redis = Redis::start();
    redis.stop();
    redis
}

fn lazy(redis: &Redis) -> Client {
    builder().connect_lazy(&redis.url()).unwrap()
}

// A client that starts while Redis is down.

#[tokio::test]
async fn lazy_client_waits_for_a_later_server() {
    // given a waiter whose server is not running
    let redis = not_yet();
    let (log, _logged) = Log::begin();
    let client = lazy(&redis);
    let waiting = waiter(client.lock("door").unwrap());
    sleep(secs(2)).await;
    assert!(!waiting.is_finished());

    // when the server starts
    redis.start_again();

    // then the waiter acquires, and both connections are up without a reconnect
    release_guard(entered(waiting).await).await;
    let health =
        healed(&client, SOON, "both connections are up", |health| health.messages_up).await;
    assert!(health.is_ready() && health.commands_up, "{health:?}");
    assert_eq!(client.stats().reconnects, 0);

    // and each connection is logged once
    let log = log.text();
    for output in ["connection not established yet", "connection established"] {
        for traffic in ["commands", "messages"] {
            let of = |line: &&str| line.contains(output) && line.contains(traffic);
            assert_eq!(log.lines().filter(of).count(), 1, "{output} {traffic}: {log}");
        }
    }
    assert!(log.contains("connection refused") && !log.contains("connection lost"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lazy_client_withdraws_requests_of_a_lost_connection() {
    // given a request that was sent as soon as the client was connected
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    proxy.refuse(true);
    let client = builder().connect_lazy(&proxy.url()).unwrap();
    let lock = client.lock("door").unwrap();
    let mut asks = Box::pin(lock.acquire());
    assert!(futures_util::poll!(&mut asks).is_pending());
    proxy.refuse(false);
    healed(&client, SOON, "the client is connected", |health| health.commands_up).await;
    proxy.swallow_replies(true);
    assert!(timeout(ms(300), &mut asks).await.is_err());
    eventually("the server grants the lock", SOON, || {
        !redis.command(&["KEYS", "door"]).list().is_empty()
    });

    // when the connection is lost, and the task that waits is dropped
    proxy.refuse(true);
    healed(&client, SOON, "the client notices the lost connection", |health| !health.commands_up)
        .await;
    drop(asks);
    proxy.swallow_replies(false);
    proxy.refuse(false);

    // then the client releases the grant
    eventually("the lock is free", SOON, || redis.command(&["KEYS", "door"]).list().is_empty());
}

#[tokio::test]
async fn lazy_client_logs_nothing_when_its_server_runs() {
    let redis = Redis::start();
    let (log, _logged) = Log::begin();
    let client = lazy(&redis);
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    healed(&client, SOON, "both connections are up", |health| health.messages_up).await;
    assert_eq!((log.text().as_str(), client.stats().reconnects), ("", 0));
}

#[tokio::test]
async fn lazy_client_returns_the_connect_failure_in_time() {
    // given a port on which no process listens, and that no other process can take
    let nobodys = TcpSocket::new_v4().unwrap();
    nobodys.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = nobodys.local_addr().unwrap().to_string();
    let client = builder().connect_lazy(&format!("redis://{address}/")).unwrap();
    let lock = client.lock("door").unwrap();
    let start = Instant::now();
    for error in [
        lock.try_acquire().await.map(drop).unwrap_err(),
        lock.acquire_within(LIMIT).await.map(drop).unwrap_err(),
        lock.holder().await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(
            error.is_transient() && error.to_string().contains("connection refused"),
            "{error}"
        );
        assert!(error.to_string().contains(&address), "{error}");
        assert!(!error.to_string().contains("; the request may have been executed"), "{error}");
    }
    assert!(start.elapsed() < 6 * LIMIT, "{:?}", start.elapsed());
}

#[tokio::test]
async fn release_returns_the_connect_failure_when_no_server_runs() {
    let redis = Redis::start();
    let client = builder().release_timeout(LIMIT).connect(&redis.url()).await.unwrap();
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    redis.stop();
    let refused = |health: &Health| {
        health.unavailable_reason.as_ref().is_some_and(|words| words.contains("connection refused"))
    };
    healed(&client, SOON, "`health` reports the refused connection", refused).await;
    let error = guard.release().await.unwrap_err();
    assert!(error.to_string().contains("connection refused"), "{error}");
}

#[tokio::test]
async fn lazy_client_reports_a_wrong_password_until_it_is_accepted() {
    let redis = Redis::options().password("right").start();
    let client = builder().password("later").connect_lazy(&redis.url()).unwrap();
    let error = client.lock("door").unwrap().try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("password is wrong"), "{error}");
    let reason = client.health().await.unavailable_reason.unwrap();
    assert!(reason.contains("password is wrong") && !reason.contains("later"), "{reason}");

    let mut admin = Connection::open(redis.port());
    admin.command(&["AUTH", "right"]);
    admin.command(&["CONFIG", "SET", "requirepass", "later"]);
    let guard = within(SOON, "the client acquires", client.lock("door").unwrap().acquire()).await;
    release_guard(guard.unwrap()).await;
}

#[tokio::test]
async fn lazy_client_outlives_a_restart_of_its_server() {
    let redis = Redis::start();
    let client = lazy(&redis);
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    healed(&client, SOON, "both connections are up", |health| health.messages_up).await;
    redis.stop();
    let down =
        healed(&client, SOON, "the client is no longer ready", |health| !health.is_ready()).await;
    assert!(!down.commands_up && down.round_trip.is_none(), "{down:?}");
    redis.start_again();
    healed(&client, SOON, "the client is ready again", |health| {
        health.is_ready() && health.messages_up
    })
    .await;
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    assert_eq!(client.stats().reconnects, 2);
}

#[test]
fn lazy_client_checks_its_settings_without_a_runtime() {
    let redis = Redis::start();
    for url in ["redis://", "http://127.0.0.1/", "redis-sentinel://127.0.0.1/"] {
        assert!(matches!(Client::connect_lazy(url), Err(Error::Url(_))), "{url}");
    }
    for wrong in [
        builder().connect_timeout(Duration::ZERO).connect_lazy(&redis.url()),
        builder().command_timeout(Duration::MAX).connect_lazy(&redis.url()),
    ] {
        assert!(matches!(wrong, Err(Error::Duration(_))), "{wrong:?}");
    }

    let client = lazy(&redis);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(healed(
        &client,
        SOON,
        "the health check connects the lazy client",
        |health| health.is_ready() && health.messages_up,
    ));
    runtime.block_on(async {
        release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    });
}

#[cfg(feature = "blocking")]
#[test]
fn blocking_lazy_client_waits_for_a_later_server() {
    let redis = not_yet();
    let builder = leasehold::blocking::Client::builder().request_timeout(LIMIT);
    let client = builder.connect_lazy(&redis.url()).unwrap();
    let lock = client.lock("door").unwrap();
    let error = lock.try_acquire().unwrap_err();
    assert!(error.to_string().contains("connection refused"), "{error}");
    assert!(!client.health().unwrap().is_ready());

    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.acquire_within(4 * SOON).unwrap().release());
        redis.start_again();
        waiting.join().unwrap().unwrap().into_result().unwrap();
    });
}

// Connect errors of new clients.

#[tokio::test]
async fn guide_shows_the_printed_errors() {
    let guide = include_str!("../docs/guide/getting-started.md");
    let output = |redis: &Redis, error: Error| {
        let words = error.to_string().replace(&format!(":{}", redis.port()), ":6379");
        assert!(guide.contains(&format!("`{words}`")), "the guide does not contain: {words}");
    };
    let refused = async |redis: &Redis, url: &str| {
        output(redis, builder().connect(url).await.unwrap_err());
    };
    let (away, closed) = (not_yet(), Redis::options().password("right").start());
    let plain = Redis::start();
    refused(&away, &away.url()).await;
    refused(&closed, &closed.url()).await;
    refused(&closed, &format!("redis://:wrong@127.0.0.1:{}/", closed.port())).await;
    let sentinel = format!("redis-sentinel://127.0.0.1:{}/mymaster", plain.port());
    refused(&plain, &sentinel).await;
    refused(&closed, "localhost").await;

    let primary = Redis::start();
    let replica = Redis::start_replica_of(&primary);
    let lock = client(&replica).await.lock("billing/round").unwrap();
    output(&replica, lock.acquire_within(LIMIT).await.unwrap_err());
}

// Unsuitable servers.

/// Returns the logs of a new client about a server that becomes ready later.
async fn logged_about(redis: &Redis, url: &str) -> String {
    let (log, _logged) = Log::begin();
    let connected = Client::connect(url).await.unwrap();
    drop(connected);
    let eager = log.text();

    // A lazy client logs each of these lines once, although its connection is lost and restored.
    let (log, _logged) = Log::begin();
    let client = Client::connect_lazy(url).unwrap();
    healed(&client, SOON, "both connections are up", |health| {
        health.commands_up && health.messages_up
    })
    .await;
    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    let back = |health: &Health| health.commands_up && client.stats().reconnects > 0;
    healed(&client, SOON, "the client has reconnected", back).await;
    for line in eager.lines() {
        let words = line.split_once("leasehold: ").unwrap().1;
        assert_eq!(log.text().matches(words).count(), 1, "{words}: {}", log.text());
    }
    eager
}

#[tokio::test]
async fn replica_is_logged_once_and_not_ready_until_promoted() {
    let primary = Redis::start();
    let replica = Redis::start_replica_of(&primary);
    let log = logged_about(&replica, &replica.url()).await;
    assert!(log.contains("WARN") && log.contains("connect to its primary"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");

    let client = client(&replica).await;
    let health = client.health().await;
    assert!(health.commands_up && health.round_trip.is_some(), "{health:?}");
    assert_eq!(health.role, Some(Role::Replica));
    assert!(health.unavailable_reason.unwrap().contains("replica"));

    replica.promote();
    let health = client.health().await;
    assert_eq!((health.role, health.unavailable_reason), (Some(Role::Primary), None));
}

#[tokio::test]
async fn next_health_check_logs_a_demoted_primary() {
    let (old, new) = (Redis::start(), Redis::start());
    let client = client(&old).await;
    assert!(client.health().await.is_ready());
    let (log, _logged) = Log::begin();
    old.follow(&new);
    assert_eq!(client.health().await.role, Some(Role::Replica));
    assert!(!client.health().await.is_ready());
    assert_eq!(log.text().matches("this server is a replica").count(), 1, "{}", log.text());
}

#[tokio::test]
async fn single_server_url_of_a_cluster_node_logs_one_warning() {
    let redis = Redis::options().arg("--cluster-enabled", "yes").start();
    let log = logged_about(&redis, &redis.url()).await;
    assert!(log.contains("WARN") && log.contains("by redis-cluster://"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
    assert_eq!(client(&redis).await.health().await.role, Some(Role::ClusterNode));
}

// Health checks.

#[tokio::test]
async fn health_check_describes_a_healthy_server() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let health =
        healed(&client, SOON, "both connections are up", |health| health.messages_up).await;
    assert!(health.is_ready() && health.commands_up, "{health:?}");
    assert!(health.round_trip.is_some_and(|took| took < SOON));
    let reported = (health.role, health.eviction_policy.as_deref(), health.holds_in_doubt);
    assert_eq!(reported, (Some(Role::Primary), Some("noeviction"), 0));
    let version = health.server_version.unwrap();
    let info = redis.command(&["INFO", "server"]);
    // Valkey reports both its own version and a version of Redis.
    assert!(info.text().contains(&format!("_version:{version}\r\n")), "{version}");
}

#[tokio::test]
async fn health_does_not_wait_for_a_lost_connection() {
    let redis = not_yet();
    let client = Client::builder().request_timeout(secs(60)).connect_lazy(&redis.url()).unwrap();
    let refused = |health: &Health| {
        health.unavailable_reason.as_ref().is_some_and(|words| words.contains("connection refused"))
    };
    healed(&client, SOON, "`health` reports the refused connection", refused).await;
    let start = Instant::now();
    let health = client.health().await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(!health.commands_up && !health.messages_up, "{health:?}");
    assert_eq!((health.round_trip, health.role, health.server_version), (None, None, None));
}

#[tokio::test]
async fn health_of_a_hanging_server_returns_in_time() {
    let redis = Redis::start();
    let client = builder().connect(&redis.url()).await.unwrap();
    redis.pause();
    let start = Instant::now();
    let health = client.health().await;
    assert!(start.elapsed() < ms(300), "{:?}", start.elapsed());
    assert!(health.commands_up && health.round_trip.is_none(), "{health:?}");
    assert!(health.unavailable_reason.unwrap().contains("timed out after 200ms"));
    redis.resume();
    assert!(
        healed(&client, SOON, "the client is ready again", Health::is_ready)
            .await
            .round_trip
            .is_some()
    );
}

#[tokio::test]
async fn health_check_names_a_busy_server() {
    // Redis 7 has renamed this setting, but accepts the old name.
    let redis = Redis::options().arg("--lua-time-limit", "50").start();
    let client = client(&redis).await;
    let mut other = Connection::open(redis.port());
    other.send(&["EVAL", "while true do end", "0"]).unwrap();
    let busy = |health: &Health| {
        health.unavailable_reason.as_ref().is_some_and(|words| words.contains("BUSY"))
    };
    healed(&client, SOON, "`health` reports the busy server", busy).await;
    redis.command(&["SCRIPT", "KILL"]);
    healed(&client, SOON, "the client is ready again", Health::is_ready).await;
}

#[tokio::test]
async fn health_check_without_info_permission_still_returns_the_role() {
    let redis = Redis::start();
    let client = with_acl(&redis, "limited", &["~*", "&*", "+@all", "-info", "-ping"]).await;
    let health = client.health().await;
    assert!(health.is_ready() && health.round_trip.is_some(), "{health:?}");
    assert_eq!((health.role, health.eviction_policy), (Some(Role::Primary), None));
}

/// Former bug: while the server refused connections, each request waited for its whole timeout.
#[tokio::test]
async fn fail_fast_client_rejects_calls_at_once_in_an_outage() {
    let redis = Redis::options().persistent().start();
    let client = Client::builder().fail_fast(true).connect(&redis.url()).await.unwrap();
    let [door, gate] = ["door", "gate"].map(|name| client.lock(name).unwrap());
    let (guard, released) = (door.acquire().await.unwrap(), gate.acquire().await.unwrap());
    redis.stop();
    let is_away = |health: &Health| !health.commands_up;
    healed(&client, SOON, "the client notices the lost connection", is_away).await;

    let start = Instant::now();
    let refused = [
        gate.acquire().await.unwrap_err(),
        gate.acquire_within(secs(60)).await.unwrap_err(),
        gate.try_acquire().await.unwrap_err(),
        gate.holder().await.unwrap_err(),
    ];
    assert!(start.elapsed() < secs(1), "{:?}", start.elapsed());
    for error in refused {
        assert!(matches!(error, Error::Unavailable { .. }) && error.is_transient(), "{error:?}");
        // The text does not repeat that the server is unavailable.
        let text = error.to_string();
        assert!(text.starts_with("Redis unavailable for `gate`: "), "{text}");
        assert!(!text.contains("unreachable") && !text.contains("executed"), "{text}");
    }
    drop(released);
    redis.start_again();
    healed(&client, SOON, "the client is ready again", Health::is_ready).await;
    release_guard(gate.acquire_within(SOON).await.unwrap()).await;
    release_guard(guard).await;
}

#[cfg(feature = "blocking")]
#[test]
fn blocking_client_that_fails_fast_does_not_wait() {
    let redis = Redis::start();
    let client = leasehold::blocking::Client::builder().fail_fast(true);
    let client = client.connect(&redis.url()).unwrap();
    let lock = client.lock("door").unwrap();
    redis.stop();
    eventually("the client has noticed that the connection is lost", SOON, || {
        !client.health().unwrap().commands_up
    });
    let start = Instant::now();
    let error = lock.acquire_within(secs(60)).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(start.elapsed() < secs(1), "{:?}", start.elapsed());
}

/// Sends calls of a client with `fail_fast`, until one of them gets a reply.
async fn answered_soon(client: &Client) {
    let door = client.lock("door").unwrap();
    let start = Instant::now();
    while let Err(error) = door.holder().await {
        assert!(start.elapsed() < SOON, "the server no longer refuses the request: {error:?}");
        sleep(ms(50)).await;
    }
}

/// Former bug: every call was rejected for ever, because the client checked for a connection before
/// it had tried to connect.
#[test]
fn fail_fast_client_made_outside_a_runtime_connects() {
    let cluster = Cluster::options().replicas(0).start();
    let client = Client::builder().fail_fast(true).connect_lazy(&cluster.url()).unwrap();
    Runtime::new().unwrap().block_on(answered_soon(&client));
}

#[tokio::test]
async fn fail_fast_lazy_client_waits_for_its_first_connection() {
    let cluster = Cluster::options().replicas(0).start();
    let client = Client::builder().fail_fast(true).connect_lazy(&cluster.url()).unwrap();
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
}

/// Uses a client on a second runtime, after its first runtime has ended. `between` runs before the
/// first runtime ends, and may restart the server.
fn connects_on_a_second_runtime(url: &str, between: impl FnOnce(&Runtime)) {
    let first = Runtime::new().unwrap();
    let connecting = Client::builder().fail_fast(true).connect(url);
    let client = first.block_on(connecting).unwrap();
    between(&first);
    drop(first);
    Runtime::new().unwrap().block_on(answered_soon(&client));
}

#[test]
fn fail_fast_client_connects_on_its_second_runtime() {
    let cluster = Cluster::options().replicas(0).start();
    connects_on_a_second_runtime(&cluster.url(), |_| {});

    let redis = Redis::start();
    connects_on_a_second_runtime(&redis.url(), |first| {
        redis.stop();
        first.block_on(async { sleep(secs(1)).await });
        redis.start_again();
    });
}

/// Former bug: the error reported three times that there was no reply.
#[tokio::test]
async fn error_names_the_connect_failure_once() {
    let away = not_yet();
    let client = builder().connect_lazy(&away.url()).unwrap();
    let error = client.lock("door").unwrap().acquire_within(ms(800)).await.unwrap_err();
    let output =
        format!("Redis unavailable for `door`: cannot connect to 127.0.0.1:{}: ", away.port());
    assert!(error.to_string().starts_with(&output), "{error}");
}
