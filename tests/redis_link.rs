//! Connections to a server that sends wrong replies or no replies, and the errors that a user gets.

mod common;

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{Log, SOON, client, hold_by_hand, keys, ms, release_guard, secs, within};
use futures_util::FutureExt;
use leasehold::{Client, ClientBuilder, Error};
use testkit::{Connection, Redis, ServerMessage, Tampering, TamperingProxy, eventually};
use tokio::{runtime::Runtime, sync::Mutex, time::Instant};

/// The command timeout of these tests.
const LIMIT: Duration = secs(1);

fn builder() -> ClientBuilder {
    Client::builder().command_timeout(LIMIT).connect_timeout(SOON)
}

fn words(bytes: impl Into<Vec<u8>>) -> Tampering {
    Tampering::Words(vec![(Duration::ZERO, bytes.into())])
}

/// A server, and a proxy in front of it. The proxy passes replies on unchanged until the test calls
/// `lies`. After that, the proxy sends the result of `lie` instead of each reply. New connections
/// still get unchanged replies.
struct Setup {
    redis: Redis,
    tampering: TamperingProxy,
    on: Arc<AtomicBool>,
}

impl Setup {
    fn new(lie: impl Fn(&ServerMessage<'_>) -> Tampering + Send + Sync + 'static) -> Self {
        let redis = Redis::start();
        let on = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&on);
        let tampering = TamperingProxy::before(redis.port(), move |output| {
            let lies = switch.load(Ordering::SeqCst) && output.connection < 2 && !output.is_push();
            if lies { lie(&output) } else { Tampering::Truth }
        });
        Self { redis, tampering, on }
    }

    async fn client(&self) -> Client {
        self.client_of(builder()).await
    }

    async fn client_of(&self, builder: ClientBuilder) -> Client {
        builder.connect(&self.tampering.url()).await.unwrap()
    }

    fn lies(&self) {
        self.on.store(true, Ordering::SeqCst);
    }
}

// Replies and their requests.

#[tokio::test(flavor = "multi_thread")]
async fn repeated_reply_completes_no_other_request() {
    // given a server that sends its first reply twice
    let once = AtomicBool::new(false);
    let t = Setup::new(move |output| match once.swap(true, Ordering::SeqCst) {
        true => Tampering::Truth,
        false => {
            Tampering::Words(vec![(ms(0), output.bytes.into()), (ms(30), output.bytes.into())])
        }
    });
    let client = t.client().await;
    hold_by_hand(&t.redis, "held", "java:1", secs(60));
    t.lies();

    // when the client acquires a free lock, and then tries a held one
    let guard = client.lock("free").unwrap().acquire().await.unwrap();
    eventually("the connection is restored", SOON, || client.stats().reconnects == 1);
    let held = client.lock("held").unwrap().try_acquire().await.unwrap();

    // then the client takes the grant as the reply to one request only
    assert!(held.is_none());
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_returns_wrong_script_hashes_is_refused() {
    let redis = Redis::start();
    for (lie, part) in [
        ("$40\r\n0123456789012345678901234567890123456789\r\n", "unexpected reply"),
        (":1\r\n", "unexpected reply"),
        ("+OK\r\n", "unexpected reply"),
    ] {
        let tampering = TamperingProxy::before(redis.port(), move |output| {
            match output.bytes.starts_with(b"$40") {
                true => words(lie),
                false => Tampering::Truth,
            }
        });
        let error = builder().connect(&tampering.url()).await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_a_hello_reply_is_not_taken_for_redis() {
    let redis = Redis::start();
    for lie in ["+OK\r\n", ":3\r\n", "%1\r\n+proto\r\n:2\r\n", "%0\r\n", "*0\r\n", "$-1\r\n"] {
        let tampering = TamperingProxy::before(redis.port(), move |output| match output.nth {
            0 => words(lie),
            _ => Tampering::Truth,
        });
        let error = builder().connect(&tampering.url()).await.unwrap_err().to_string();
        assert!(error.contains("this server is not Redis"), "{lie:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_is_distinguished_from_a_lock_server() {
    let redis = Redis::start();
    let tampering = TamperingProxy::before(redis.port(), |output| match output.nth {
        0 => {
            let greeting = String::from_utf8(output.bytes.into()).unwrap();
            words(greeting.replace("$10\r\nstandalone", "$8\r\nsentinel"))
        }
        _ => Tampering::Truth,
    });
    let error = builder().connect(&tampering.url()).await.unwrap_err().to_string();
    let words = error.replace(&format!(":{}", tampering.port()), ":6379");
    assert!(
        include_str!("../docs/guide/getting-started.md").contains(&format!("`{words}`")),
        "{words}"
    );
}

// Silent connections.

#[tokio::test(flavor = "multi_thread")]
async fn silent_connection_is_replaced_in_time() {
    for silence in ["", "\r", "$100000\r\n", "*3\r\n:1\r\n", ">3\r\n+message\r\n+a\r\n+0\r\n"] {
        let t = Setup::new(move |_| words(silence));
        let client = t.client().await;
        t.lies();
        let start = Instant::now();
        let lock = client.lock("door").unwrap();
        let guard = within(SOON, &format!("`acquire` after {silence:?} returns"), lock.acquire())
            .await
            .unwrap();
        let took = start.elapsed();
        assert!(took < 3 * LIMIT, "{silence:?}: {took:?}");
        assert_eq!(client.stats().reconnects, 1, "{silence:?}");
        release_guard(guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_to_a_server_that_replies_byte_by_byte_fails_in_time() {
    let drip = |output: &ServerMessage<'_>| {
        let word = |byte: &u8| (ms(100), vec![*byte]);
        Tampering::Words(output.bytes.iter().map(word).collect())
    };
    let t = Setup::new(drip);
    let client = t.client().await;
    hold_by_hand(&t.redis, "door", "java:1", secs(60));
    t.lies();
    let asked =
        within(SOON, "`try_acquire` returns", client.lock("door").unwrap().try_acquire()).await;
    assert!(asked.unwrap().is_none());
    assert_eq!(client.stats().reconnects, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_server_and_cancelled_callers_keep_the_connection() {
    // given a server that takes half of the command timeout for each reply
    const LIMIT: Duration = secs(2);
    let t = Setup::new(|output| Tampering::Words(vec![(LIMIT / 2, output.bytes.into())]));
    let client = t.client_of(builder().command_timeout(LIMIT)).await;
    t.lies();

    // when some callers time out before their replies, and others do not
    for name in ["a", "b", "c"] {
        let left = client.lock(name).unwrap().acquire_within(ms(10)).await;
        assert!(matches!(left, Err(Error::Unavailable { .. })), "{left:?}");
        tokio::time::sleep(LIMIT).await;
    }

    // then the client keeps the connection
    eventually("the grants of the cancelled calls are released", SOON, || {
        keys(&t.redis).is_empty()
    });
    assert_eq!(client.stats().reconnects, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_blocks_briefly_keeps_its_connections() {
    let redis = Redis::start();
    let client = Client::builder().command_timeout(secs(3)).connect(&redis.url()).await.unwrap();
    let mut other = Connection::open(redis.port());
    // The test uses `DEBUG SLEEP`, because from Redis 7.2 on, the time does not change within a
    // script. So a script cannot run for a given time.
    other.send(&["DEBUG", "SLEEP", "1"]).unwrap();
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    assert_eq!(client.stats().reconnects, 0);
}

// Limits.

#[tokio::test(flavor = "multi_thread")]
async fn endless_login_reply_is_abandoned_without_using_memory() {
    let _alone = MEASURED.lock().await;
    let redis = Redis::start();
    for flood in [&b"+xxxxxxxxxxxxxxxx"[..], b"$1000000000000\r\n", b"x"] {
        let flood = if flood == b"x" { vec![b'x'; 4096] } else { flood.to_vec() };
        let tampering = TamperingProxy::before(redis.port(), move |output| match output.nth {
            0 => Tampering::Endless(flood.clone()),
            _ => Tampering::Truth,
        });
        let (start, before) = (Instant::now(), memory());
        let builder = builder().connect_timeout(secs(1));
        let error = builder.connect(&tampering.url()).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
        assert!(start.elapsed() < secs(3), "{:?}", start.elapsed());
        assert!(memory() < before + 50_000_000, "{before} became {}", memory());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_reply_ends_the_connection_without_using_memory() {
    let _alone = MEASURED.lock().await;
    let long = format!("$60000000\r\n{}\r\n", "x".repeat(60_000_000));
    let t = Setup::new(move |_| words(long.clone()));
    let client = t.client().await;
    t.lies();
    let before = memory();
    release_guard(
        within(
            SOON,
            "the client acquires on a new connection",
            client.lock("door").unwrap().acquire(),
        )
        .await
        .unwrap(),
    )
    .await;
    assert_eq!(client.stats().reconnects, 1);
    // The limit is high because the proxy, in this process, has copies of the reply.
    assert!(memory() < before + 250_000_000, "{before} became {}", memory());
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_message_is_skipped() {
    let _alone = MEASURED.lock().await;
    let redis = Redis::start();
    let client = client(&redis).await;
    hold_by_hand(&redis, "door", "java:1", secs(60));
    let waiting = common::waiter(client.lock("door").unwrap());
    common::until_subscribed(&redis, &common::channel("door"));
    let message = "0".repeat(20_000_000);
    redis.command(&["PUBLISH", &common::channel("door"), &message]);
    common::release_by_hand(&redis, "door");
    release_guard(common::entered(waiting).await).await;
    assert_eq!(client.stats().reconnects, 0);
}

/// Locked by tests that use much memory, or that measure the memory of this process.
static MEASURED: Mutex<()> = Mutex::const_new(());

/// The memory of this process, in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

// Passwords in errors.

#[tokio::test(flavor = "multi_thread")]
async fn error_of_a_server_without_hello_hides_the_password() {
    // The server replies like a Redis whose `HELLO` is renamed.
    let redis = Redis::start();
    let tampering = TamperingProxy::before(redis.port(), |_| {
        words(
            "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' \
             'hunter2' \r\n",
        )
    });
    let error = builder().password("hunter2").connect(&tampering.url()).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    assert!(error.to_string().contains("does not know HELLO"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn user_without_a_password_logs_in() {
    let redis = Redis::start();
    redis.command(&["ACL", "SETUSER", "billing", "on", "nopass", "~*", "&*", "+@all"]);
    let url = format!("redis://billing@127.0.0.1:{}", redis.port());
    let _client = Client::connect(&url).await.unwrap();
    let list = redis.command(&["CLIENT", "LIST"]);
    assert_eq!(list.text().matches("user=billing").count(), 2, "{}", list.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn error_never_contains_a_whole_long_reply() {
    let long = format!("*2\r\n:1\r\n$100000\r\n{}\r\n", "\n".repeat(100_000));
    let t = Setup::new(move |_| words(long.clone()));
    let client = t.client().await;
    t.lies();
    let error = client.lock("door").unwrap().try_acquire().await.unwrap_err().to_string();
    assert!(error.len() < 1_000 && !error.contains('\n'), "{error}");
}

// Runtimes.

#[test]
fn client_reconnects_on_the_runtime_of_the_next_call() {
    // given a client whose runtime has ended
    let redis = Redis::start();
    let first = Runtime::new().unwrap();
    let (client, guard) = first.block_on(async {
        let client = builder().connect(&redis.url()).await.unwrap();
        let guard = client.lock("door").unwrap().ttl(secs(3)).acquire().await.unwrap();
        (client, guard)
    });
    first.shutdown_timeout(secs(1));

    // then the client acquires and releases on the next runtime
    Runtime::new().unwrap().block_on(async {
        let window = within(
            SOON,
            "the client acquires on the next runtime",
            client.lock("window").unwrap().acquire(),
        )
        .await;
        release_guard(window.unwrap()).await;
        release_guard(guard).await;
    });
    assert!(keys(&redis).is_empty());
}

#[test]
fn call_outside_of_a_runtime_is_an_error() {
    let redis = Redis::start();
    let runtime = Runtime::new().unwrap();
    let (lock, guard) = runtime.block_on(async {
        let lock = client(&redis).await.lock("door").unwrap();
        let guard = lock.acquire().await.unwrap();
        (lock, guard)
    });
    let nothing =
        |error: Option<Error>| assert!(matches!(error, Some(Error::NoRuntime)), "{error:?}");
    nothing(lock.holder().now_or_never().unwrap().err());
    nothing(lock.is_locked().now_or_never().unwrap().err());
    nothing(guard.release().now_or_never().unwrap().err());
}

// The errors that a user gets.

/// Returns a function that reads the logs of all threads about the server on `port`, from now on.
fn log_of(port: u16) -> impl Fn() -> String {
    static LOG: LazyLock<Log> = LazyLock::new(|| {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    });
    LazyLock::force(&LOG);
    move || {
        let is_ours = |line: &&str| line.contains(&format!("127.0.0.1:{port}"));
        LOG.text().lines().filter(is_ours).map(|line| format!("{line}\n")).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_connection_is_logged_once_with_cause_and_when_restored() {
    let redis = Redis::start();
    let log = log_of(redis.port());
    let client = builder().connect(&redis.url()).await.unwrap();
    redis.stop();
    tokio::time::sleep(secs(2)).await;
    redis.start_again();
    let lock = client.lock("door").unwrap();
    release_guard(
        within(SOON, "the client acquires after the restart", lock.acquire()).await.unwrap(),
    )
    .await;

    let back = || log().matches("WARN leasehold: connection restored").count() == 2;
    eventually("both connections are restored", SOON, back);
    let log = log();
    let about = |part: &str| log.lines().filter(|line| line.contains(part)).count();
    for traffic in ["commands", "messages"] {
        let of = |line: &&str| line.contains(&format!("traffic=\"{traffic}\""));
        let lost: Vec<_> =
            log.lines().filter(|line| line.contains("connection lost")).filter(of).collect();
        assert!(lost.len() == 1 && lost[0].contains("closed the connection"), "{lost:?}");
    }
    assert_eq!(about("connection still lost"), 0, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_error_names_the_connect_failure() {
    // given a server that is unreachable, and a server whose password has changed
    let away = Redis::start();
    let changed = Redis::options().password("old").start();
    let clients = [
        (client(&away).await, "connection refused"),
        (Client::connect(&changed.url_with_password()).await.unwrap(), "password is wrong"),
    ];
    away.stop();
    let mut admin = Connection::open(changed.port());
    admin.command(&["AUTH", "old"]);
    admin.command(&["CONFIG", "SET", "requirepass", "new"]);
    admin.command(&["CLIENT", "KILL", "TYPE", "normal"]);

    // then the error of a timeout names the cause, even if the timeout is shorter than the command
    // timeout
    for (client, part) in clients {
        let lock = client.lock("door").unwrap();
        let error = lock.acquire_within(ms(500)).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_at_a_server_that_is_not_redis_is_one_plain_line() {
    let redis = Redis::start();
    for (says, part) in [
        (&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..], "web server"),
        (b"<html>", "web server"),
        (b"\x15\x03\x01\x00\x02\x02\x0a", "TLS"),
        (b"220 mail.example ESMTP\r\n", "begins with '2'"),
        (b"+OK\r\n+OK\r\n", "this server is not Redis"),
        (b"-ERR unknown command\r\n", "does not know HELLO"),
        (b"", "closed the connection"),
    ] {
        let tampering = TamperingProxy::before(redis.port(), move |_| match says {
            b"" => Tampering::HangUp,
            says => words(says),
        });
        let error = builder().connect(&tampering.url()).await.unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
        assert!(error.len() < 300, "{error}");
    }
}

/// The proxy counts replies, so that this test finds requests that the client need not send.
#[tokio::test(flavor = "multi_thread")]
async fn connect_sends_only_the_login_commands_and_the_scripts() {
    let redis = Redis::start();
    let replies = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&replies);
    let tampering = TamperingProxy::before(redis.port(), move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Tampering::Truth
    });
    let _client = Client::connect(&tampering.url()).await.unwrap();
    // Each connection sends `HELLO`, three `CLIENT` commands and `INFO`. The connection for
    // commands also loads all 55 scripts, each of them once.
    assert_eq!(replies.load(Ordering::SeqCst), 2 * (1 + 3 + 1) + 55);
}
