//! Inputs of a user: odd names, absurd durations, wrong URLs, servers of another kind. Each input
//! either works exactly, or is rejected in time. The error then names the wrong part and hides the
//! password.

use std::{error::Error as _, fmt::Debug, time::Duration};

use crate::common::{SOON, client, keys, ms, pttl, release_guard, secs, within};
use leasehold::{Client, ClientBuilder, Error, InvalidName, Lock, WaitStrategy};
use testkit::{Connection, Redis};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

// Names.

#[tokio::test(flavor = "multi_thread")]
async fn redis_key_of_a_lock_is_exactly_its_unusual_name() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let longest = "x".repeat(512);
    let names = [
        " ",
        "a b",
        " a",
        "a ",
        "\n",
        "a\r\nDEL other\r\n",
        "\0",
        "a\0b",
        "\u{1b}[31m",
        "ключ",
        "鍵",
        "🔒",
        "e\u{301}",
        "\u{e9}",
        "\u{202e}door",
        "*",
        "?",
        "[a-z]",
        "a\\b",
        "\"quoted\"",
        "'; return 1 --",
        "$(reboot)",
        "%s%n",
        "a:b:c",
        "/a/../b",
        "{tag}:x",
        "a{b}c",
        "{{a}",
        "null",
        "0",
        "-1",
        "redisson_lock__channel:x",
        &longest,
    ];
    for name in names {
        let lock = client.lock(name).unwrap();
        let guard =
            within(SOON, &format!("`acquire` of {name:?} returns"), lock.acquire()).await.unwrap();
        assert_eq!(keys(&redis), [name]);
        assert!(lock.try_acquire().await.unwrap().is_none(), "{name:?}");
        assert_eq!(lock.holder().await.unwrap().unwrap().owner(), guard.owner(), "{name:?}");
        release_guard(guard).await;
        assert!(keys(&redis).is_empty(), "{name:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_of_an_unusual_name_is_notified() {
    let redis = Redis::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    for (name, channel) in [
        ("a b\n", "redisson_lock__channel:{a b\n}"),
        ("a\0b", "redisson_lock__channel:{a\0b}"),
        ("🔒", "redisson_lock__channel:{🔒}"),
        ("{tag}:x", "redisson_lock__channel:{tag}:x"),
    ] {
        let guard = one.lock(name).unwrap().acquire().await.unwrap();
        let before = redis.calls();
        let waiting = crate::common::waiter(other.lock(name).unwrap());
        crate::common::until_asleep(&redis, channel, &before);
        let received = other.stats().wake_ups;
        release_guard(guard).await;
        release_guard(crate::common::entered(waiting).await).await;
        assert_eq!(other.stats().wake_ups, received + 1, "{name:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn similar_names_are_different_locks() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let mut guards = Vec::new();
    for name in ["door", "Door", " door", "door\0", "door\n", "e\u{301}", "\u{e9}"] {
        let guard = client.lock(name).unwrap().try_acquire().await.unwrap();
        guards.push(guard.unwrap_or_else(|| panic!("{name:?} is held")));
    }
    for guard in guards {
        release_guard(guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_name_is_refused() {
    let redis = Redis::start();
    let client = client(&redis).await;
    for (name, why) in [
        (String::new(), InvalidName::Empty),
        ("x".repeat(513), InvalidName::TooLong { bytes: 513 }),
        ("ключ".repeat(65), InvalidName::TooLong { bytes: 520 }),
        ("{".into(), InvalidName::Brace),
        ("a{b".into(), InvalidName::Brace),
        ("a}b".into(), InvalidName::Brace),
        ("{}a".into(), InvalidName::Brace),
        ("}a{".into(), InvalidName::Brace),
    ] {
        match client.lock(&name).unwrap_err() {
            Error::Name(invalid) => assert_eq!(invalid, why, "{name}"),
            other => panic!("{name}: {other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_prints_an_unusual_name_on_one_line() {
    let redis = Redis::start();
    let client = client(&redis).await;
    redis.command(&["SET", "a\nb\u{1b}[31m", "x"]);
    let error = client.lock("a\nb\u{1b}[31m").unwrap().try_acquire().await.unwrap_err();
    assert!(!error.to_string().contains(char::is_control), "{error}");
}

// Durations.

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Durations that are too short or too long for Redis.
const ABSURD: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_nanos(999_999),
    CENTURY.saturating_add(Duration::from_nanos(1)),
    Duration::MAX,
];

/// Asserts that all three ways to acquire `lock` fail with an error that names `setting`.
async fn refused_in(lock: Lock, setting: &str) {
    for error in [
        lock.try_acquire().await.unwrap_err(),
        within(SOON, "`acquire` fails", lock.acquire()).await.unwrap_err(),
        within(SOON, "`acquire_within` fails", lock.acquire_within(secs(60))).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Duration(_)), "{error:?}");
        assert!(error.to_string().contains(&format!("`{setting}`")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_duration_is_refused_by_name_and_sends_nothing() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let before = redis.calls();
    let lock = client.lock("door").unwrap();
    let polling = |first, longest| {
        lock.clone().wait_strategy(WaitStrategy::Polling { initial: first, max: longest })
    };
    for absurd in ABSURD {
        refused_in(lock.clone().ttl(absurd), "ttl").await;
        refused_in(lock.clone().lease(absurd), "lease").await;
        refused_in(lock.clone().max_hold(absurd), "max_hold").await;
        refused_in(polling(absurd, secs(1)), "initial interval of polling").await;
        refused_in(polling(ms(1), absurd), "max interval of polling").await;
    }
    assert_eq!(redis.calls().since(&before).to_string(), "no calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_default_ttl_is_refused() {
    let redis = Redis::start();
    for absurd in ABSURD {
        let client = Client::builder().ttl(absurd).connect(&redis.url()).await;
        match client {
            Err(error) => assert!(error.to_string().contains("`ttl`"), "{error}"),
            Ok(client) => refused_in(client.lock("door").unwrap(), "ttl").await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_timeout_is_refused_and_endless_timeout_is_accepted() {
    let redis = Redis::start();
    let lock = client(&redis).await.lock("door").unwrap();

    let error = lock.acquire_within(Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("`timeout`"), "{error}");
    let error = lock.run_within(Duration::ZERO, async |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("`timeout`"), "{error}");
    assert!(keys(&redis).is_empty());

    release_guard(lock.acquire_within(Duration::MAX).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_timeouts_are_refused() {
    let redis = Redis::start();
    for absurd in ABSURD {
        let builder = Client::builder().connect_timeout(absurd);
        let error = builder.connect(&redis.url()).await.unwrap_err();
        assert!(error.to_string().contains("`connect_timeout`"), "{error}");
        let builder = Client::builder().command_timeout(absurd);
        let error = builder.connect(&redis.url()).await.unwrap_err();
        assert!(error.to_string().contains("`command_timeout`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_of_a_century_is_exact_to_the_millisecond() {
    let redis = Redis::start();
    let client = client(&redis).await;
    for lock in [client.lock("ttl").unwrap().ttl(CENTURY), client.lock("l").unwrap().lease(CENTURY)]
    {
        let guard = lock.acquire().await.unwrap();
        let century = i64::try_from(CENTURY.as_millis()).unwrap();
        let kept = pttl(&redis, lock.name().as_str());
        assert!((century - 5_000..=century).contains(&kept), "{kept}");
        assert!(guard.remaining().unwrap() > CENTURY / 100 * 98);
        release_guard(guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_with_a_lease_of_one_millisecond_leaves_no_key() {
    let redis = Redis::start();
    let lock = client(&redis).await.lock("door").unwrap().lease(ms(1));
    match within(SOON, "`try_acquire` returns", lock.try_acquire()).await {
        Ok(guard) => drop(guard),
        Err(error) => assert!(matches!(error, Error::Unavailable { .. }), "{error}"),
    }
    sleep(ms(50)).await;
    assert!(keys(&redis).is_empty());
}

// URLs and servers. `hunter2` is the password in each URL.

const PASSWORD: &str = "hunter2";

/// A builder with short timeouts.
fn hasty() -> ClientBuilder {
    Client::builder().connect_timeout(secs(1))
}

/// Returns the error with which `builder` fails to connect to `url`. The error must come in time
/// and hide the password.
async fn refusal(builder: ClientBuilder, url: &str) -> Error {
    let start = Instant::now();
    let Err(error) =
        within(secs(10), &format!("`connect` to {url} returns"), builder.connect(url)).await
    else {
        panic!("the client connected to {url}")
    };
    // The timeout is one second. The two other seconds are for a busy machine.
    assert!(start.elapsed() < secs(3), "{url}: {:?}", start.elapsed());
    keeps_the_password(&error);
    let mut cause = error.source();
    while let Some(inner) = cause {
        keeps_the_password(inner);
        cause = inner.source();
    }
    error
}

fn keeps_the_password<T: Debug + ToString + ?Sized>(shown: &T) {
    for text in [shown.to_string(), format!("{shown:?}"), format!("{shown:#?}")] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

/// Asserts that the connection was rejected, and that the error contains all of `parts`.
#[track_caller]
fn says(error: &Error, parts: &[&str]) {
    let words = error.to_string();
    for part in parts {
        assert!(words.contains(part), "`{part}` is not in: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_url_is_refused_with_its_wrong_part() {
    for (url, part) in [
        ("", "scheme"),
        ("localhost", "scheme"),
        ("localhost:6379", "write redis://localhost:6379"),
        ("http://u:hunter2@localhost", "`http`"),
        ("amqp://u:hunter2@localhost", "`amqp`"),
        ("redis://", "host"),
        ("redis:///0", "host"),
        ("redis://u:hunter2@", "host"),
        ("redis://u:hunter2@localhost:port", "port"),
        ("redis://u:hunter2@localhost:65536", "port"),
        ("redis://u:hunter2@localhost:0", "port"),
        ("redis://u:hunter2@localhost:-1", "port"),
        ("redis://u:hunter2@localhost/first", "`first`"),
        ("redis://u:hunter2@localhost/4294967296", "`4294967296`"),
        ("redis://u:hunter2@localhost?timeout=5", "`timeout`"),
        ("redis://u:hunter2#x@localhost", "#"),
        ("unix://", "socket"),
        ("unix:///tmp/x?pass=hunter2&db=x", "`x`"),
        ("unix:///tmp/x?pass=hunter2&protocol=3", "`protocol`"),
    ] {
        let error = refusal(hasty(), url).await;
        assert!(matches!(error, Error::Url(_)), "{url}: {error:?}");
        says(&error, &["invalid URL", part]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_error_names_a_closed_port() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = refusal(hasty(), &format!("redis://:hunter2@{address}")).await;
    says(&error, &[&address, "refused"]);
    assert!(error.is_transient(), "the server may be starting: {error}");
    let source = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(source.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_a_host_that_has_no_address() {
    let error = refusal(hasty(), "redis://:hunter2@no-such-host.invalid:6379").await;
    says(&error, &["no-such-host.invalid:6379"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_error_names_a_missing_socket() {
    let error = refusal(hasty(), "unix:///nowhere/redis.sock?pass=hunter2").await;
    says(&error, &["/nowhere/redis.sock", "No such file"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_error_names_a_wrong_password() {
    let redis = Redis::options().password("right").start();
    let address = format!("127.0.0.1:{}", redis.port());
    let error = refusal(hasty(), &format!("redis://:hunter2@{address}")).await;
    says(&error, &[&address, "password is wrong"]);
    assert!(!error.is_transient(), "a wrong password is a permanent failure");
    let error = refusal(hasty().password(PASSWORD), &redis.url()).await;
    says(&error, &[&address, "password is wrong"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_error_names_a_missing_password() {
    let redis = Redis::options().password("right").start();
    let error = refusal(hasty(), &redis.url()).await;
    says(&error, &[&format!("127.0.0.1:{}", redis.port()), "password is required"]);
    assert!(!error.is_transient(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_error_names_an_unknown_user() {
    let redis = Redis::start();
    let error = refusal(hasty().credentials("nobody", PASSWORD), &redis.url()).await;
    says(&error, &["user or password is wrong"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_a_disabled_user_is_reported_as_wrong() {
    // If the default user has no password, Redis accepts any password for this user. So the test
    // needs another user. Redis accepts no password for a disabled user.
    let redis = Redis::start();
    redis.command(&["ACL", "SETUSER", "off-duty", "off", ">hunter2", "~*", "&*", "+@all"]);
    let error = refusal(hasty().credentials("off-duty", PASSWORD), &redis.url()).await;
    says(&error, &["user or password is wrong"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_error_names_a_missing_database() {
    let redis = Redis::start();
    let error = refusal(hasty(), &format!("{}99", redis.url())).await;
    says(&error, &["DB index"]);
    assert!(!error.is_transient(), "{error}");
    let error = refusal(hasty().database(16), &redis.url()).await;
    says(&error, &["DB index"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_beyond_maxclients_is_reported() {
    let redis = Redis::start();
    let mut admin = Connection::open(redis.port());
    admin.command(&["CONFIG", "SET", "maxclients", "1"]);
    let error = refusal(hasty(), &redis.url()).await;
    // If the client was writing when the server closed the connection, the reply of the server is
    // lost.
    let words = error.to_string();
    assert!(words.contains("max number of clients") || words.contains("closed"), "{words}");
}

/// Starts a listener that handles each connection with `act`. Returns its address.
async fn impostor<F>(act: impl Fn(TcpStream) -> F + Send + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(act(stream));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn web_server_is_distinguished_from_redis() {
    let address = impostor(|mut stream| async move {
        stream.read_u8().await.ok();
        let page = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(page).await.ok();
        sleep(secs(30)).await;
    })
    .await;
    let error = refusal(hasty(), &format!("redis://:hunter2@{address}")).await;
    says(&error, &[&address, "not Redis"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_fails_at_its_timeout_when_the_server_is_silent() {
    let address = impostor(|stream| async move {
        sleep(secs(30)).await;
        drop(stream);
    })
    .await;
    let error = refusal(hasty(), &format!("redis://:hunter2@{address}")).await;
    says(&error, &[&address, "no reply within 1s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_error_names_an_immediately_closed_connection() {
    let address = impostor(|stream| async move { drop(stream) }).await;
    let error = refusal(hasty(), &format!("redis://:hunter2@{address}")).await;
    says(&error, &[&address, "closed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_to_a_server_of_endless_garbage_fails_in_time() {
    let address = impostor(|mut stream| async move {
        while stream.write_all(b"$5\r\nhello world, this is no reply\r\n").await.is_ok() {
            sleep(ms(1)).await;
        }
    })
    .await;
    let error = refusal(hasty(), &format!("redis://:hunter2@{address}")).await;
    says(&error, &[&address]);
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_output_of_builder_client_and_lock_hides_the_password() {
    let redis = Redis::options().password(PASSWORD).start();
    let builder = Client::builder().password(PASSWORD);
    let named = Client::builder().credentials("default", PASSWORD);
    for shown in [format!("{builder:?}"), format!("{named:#?}")] {
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
    for client in [
        builder.connect(&redis.url()).await.unwrap(),
        named.connect(&redis.url()).await.unwrap(),
        Client::connect(&redis.url_with_password()).await.unwrap(),
    ] {
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        let shown = format!("{client:?} {client:#?} {:?} {guard:?}", client.lock("door"));
        assert!(!shown.contains(PASSWORD), "{shown}");
        release_guard(guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn escaped_password_in_a_url_is_decoded() {
    let redis = Redis::options().password("p@ss/w:rd%#?").start();
    let url = format!("redis://:p%40ss%2Fw%3Ard%25%23%3F@127.0.0.1:{}/", redis.port());
    let client = Client::connect(&url).await.unwrap();
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
}
