//! A URL with several addresses of one deployment: a primary and its replicas. An operator promotes
//! one of the replicas by hand.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use crate::common::{
    Log, SOON, channel, connections, entered, held_and_waited_for, ms, ours, release_guard, secs,
    subscribers, until_subscribed, waiter, within,
};
use leasehold::{Client, Error, Hazard, Replicas, Role};
use testkit::{Connection, Redis, eventually};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::spawn_blocking,
    time::{Instant, sleep},
};

/// A URL `redis://a,b/` with the addresses of all servers.
fn url<'a>(servers: impl IntoIterator<Item = &'a Redis>) -> String {
    let addresses = servers.into_iter().map(|it| format!("127.0.0.1:{}", it.port()));
    format!("redis://{}/", addresses.collect::<Vec<_>>().join(","))
}

async fn client(servers: [&Redis; 2]) -> Client {
    Client::connect(&url(servers)).await.expect("one of the servers is the primary")
}

fn pair() -> [Redis; 2] {
    let primary = Redis::start();
    let replica = Redis::start_replica_of(&primary);
    [primary, replica]
}

async fn refusal(url: &str) -> (String, bool) {
    let builder = Client::builder().connect_timeout(secs(3));
    match within(secs(10), &format!("`connect` to {url} returns"), builder.connect(url)).await {
        Err(error @ Error::Connect { permanent, .. }) => (error.to_string(), permanent),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn primary_is_found_in_any_order_of_addresses() {
    let [primary, replica] = pair();
    for servers in [[&primary, &replica], [&replica, &primary]] {
        let client = client(servers).await;
        assert_eq!(client.health().await.role, Some(Role::Primary));
        release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    }
    eventually("no client is connected to the replica", SOON, || connections(&replica) == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_or_hanging_address_delays_no_call() {
    let [primary, replica] = pair();
    let dead = Redis::start();
    dead.stop();
    replica.pause();
    let began = Instant::now();
    let client = Client::connect(&url([&dead, &replica, &primary])).await.unwrap();
    assert!(began.elapsed() < secs(2), "{:?}", began.elapsed());
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn manually_promoted_replica_is_used() {
    // given a holder, a waiter, and a primary that dies
    let [primary, replica] = pair();
    let [one, other] = [client([&primary, &replica]).await, client([&primary, &replica]).await];
    let (guard, waiting) = held_and_waited_for([&one, &other], &primary).await;
    replica.catch_up_with(&primary);
    primary.stop();
    let short = one.lock("window").unwrap().acquire_within(ms(500)).await.unwrap_err();
    assert!(short.is_transient(), "{short:?}");
    let (words, lasting) = refusal(&url([&primary, &replica])).await;
    assert!(words.contains(&format!("127.0.0.1:{}: this server is a replica", replica.port())));
    assert!(!lasting, "{words}");

    // when the replica is promoted, then the hold continues, and its release wakes the waiter
    replica.promote();
    until_subscribed(&replica, &channel("door"));
    assert!(guard.is_held() && !waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_leave_a_manually_demoted_primary() {
    // given a holder, and a waiter
    let [primary, replica] = pair();
    let [one, other] = [client([&primary, &replica]).await, client([&primary, &replica]).await];
    let (guard, waiting) = held_and_waited_for([&one, &other], &primary).await;
    replica.catch_up_with(&primary);

    // when the two servers swap roles, and no connection is closed
    replica.promote();
    primary.follow(&replica);

    // then every client leaves the old primary and its channels
    eventually("no client is connected to the old primary", SOON, || connections(&primary) == 0);
    assert_eq!(subscribers(&primary, &channel("door")), 0);
    until_subscribed(&replica, &channel("door"));
    assert!(guard.is_held() && !waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn write_rejected_by_a_demoted_primary_ends_the_connections() {
    let [primary, replica] = pair();
    let client = client([&primary, &replica]).await;
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    replica.promote();
    primary.follow(&replica);
    let began = Instant::now();
    release_guard(client.lock("door").unwrap().acquire_within(secs(5)).await.unwrap()).await;
    assert!(began.elapsed() < secs(2), "{:?}", began.elapsed());
    assert_eq!(replica.command(&["EXISTS", "door"]).number(), 0);
    eventually("both connections are restored", SOON, || client.stats().reconnects == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_primaries_are_refused_with_their_addresses() {
    let [primary, replica] = pair();
    let both = [&primary, &replica];
    let before = client(both).await;
    replica.promote();
    let (words, lasting) = refusal(&url(both)).await;
    assert!(words.contains("are both primaries") && !lasting, "{words}");
    assert!(both.iter().all(|it| words.contains(&it.port().to_string())), "{words}");

    sleep(secs(2)).await;
    release_guard(before.lock("door").unwrap().acquire().await.unwrap()).await;
    assert_eq!(before.stats().reconnects, 0);
    primary.follow(&replica);
    release_guard(client(both).await.lock("door").unwrap().acquire().await.unwrap()).await;
}

/// Starts a proxy that forwards each new connection to the current value of `port`. Returns the
/// address of the proxy.
async fn moving_address(port: &Arc<AtomicU16>) -> u16 {
    let (listener, port) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::clone(port));
    let address = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let port = port.load(Ordering::SeqCst);
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                copy_bidirectional(&mut near, &mut far).await.ok();
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_address_is_followed_after_a_read_only_error() {
    // given a client of an address that leads to the primary, and a replica that becomes the
    // primary
    let [primary, replica] = pair();
    let port = Arc::new(AtomicU16::new(primary.port()));
    let url = format!("redis://127.0.0.1:{}/", moving_address(&port).await);
    let client = Client::connect(&url).await.unwrap();
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    replica.catch_up_with(&primary);
    replica.promote();
    primary.follow(&replica);

    // when a task waits for a lock, and the address leads to the new primary some time later
    let waiting = waiter(client.lock("window").unwrap());
    sleep(secs(2)).await;
    assert!(!waiting.is_finished());
    port.store(replica.port(), Ordering::SeqCst);

    // then the client uses the new primary, and closes the old connections
    release_guard(entered(waiting).await).await;
    release_guard(guard).await;
    eventually("no client is connected to the old primary", SOON, || connections(&primary) == 0);
}

/// Kills the one Leasehold connection to `redis` whose last command is one of `commands`.
fn kill_after(redis: &Redis, commands: &[&str]) {
    let ours = ours(redis);
    let is_it = |line: &&String| commands.iter().any(|it| line.contains(&format!(" cmd={it} ")));
    let found: Vec<_> = ours.iter().filter(is_it).collect();
    let [line] = found[..] else { panic!("{ours:?}") };
    let id = line.split_once("id=").unwrap().1.split(' ').next().unwrap();
    assert_eq!(redis.command(&["CLIENT", "KILL", "ID", id]).number(), 1);
}

/// The old server still takes writes, and closes no connection when its address leads to another
/// server.
#[tokio::test(flavor = "multi_thread")]
async fn all_connections_move_with_the_command_connection() {
    // given a client with three connections to an address that can lead to another server
    let [old, new] = [(); 2].map(|()| Redis::start());
    let _replicas = [Redis::start_replica_of(&old), Redis::start_replica_of(&new)];
    let port = Arc::new(AtomicU16::new(old.port()));
    let url = format!("redis://127.0.0.1:{}/", moving_address(&port).await);
    let client = Client::connect(&url).await.unwrap();
    let lock = client.lock("door").unwrap().replicated(Replicas::at_least(1).within(SOON));
    release_guard(lock.acquire().await.unwrap()).await;
    assert_eq!(connections(&old), 3);

    // when the address moves, and only the connection for commands is lost
    port.store(new.port(), Ordering::SeqCst);
    kill_after(&old, &["publish", "hdel", "evalsha"]);

    // then all three connections move, and the client waits for replicas of the new server
    eventually("no client is connected to the old server", SOON, || connections(&old) == 0);
    eventually("all three connections lead to the new server", SOON, || connections(&new) == 3);
    release_guard(
        within(SOON, "the client acquires at the new server", lock.acquire()).await.unwrap(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_to_a_wrong_server_reconnects_to_the_right_server() {
    // given a client whose connection for messages was replaced by a connection to another server
    let [one, other] = [(); 2].map(|()| Redis::start());
    let port = Arc::new(AtomicU16::new(one.port()));
    let url = format!("redis://127.0.0.1:{}/", moving_address(&port).await);
    let client = Client::connect(&url).await.unwrap();
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    port.store(other.port(), Ordering::SeqCst);
    kill_after(&one, &["info"]);
    eventually("the connection leads to the other server", SOON, || connections(&other) == 1);
    let is_elsewhere = async || {
        let findings = client.health().await.findings;
        findings.iter().any(|it| it.hazard == Hazard::ServerMismatch)
    };
    within(SOON, "`health` reports that the address leads to another server", async {
        while !is_elsewhere().await {}
    })
    .await;

    // when the address leads to the first server again, then this connection leads to the first
    // server again, too
    port.store(one.port(), Ordering::SeqCst);
    eventually("both connections lead to the first server", SOON, || {
        connections(&one) == 2 && connections(&other) == 0
    });
    within(SOON, "`health` no longer reports that the address leads to another server", async {
        while is_elsewhere().await {}
    })
    .await;
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_primary_among_addresses_is_found() {
    // given a client of a primary and its replica
    let [primary, replica] = pair();
    let client = client([&primary, &replica]).await;
    let is_it = |it: &Hazard| {
        let named = format!("127.0.0.1:{}", replica.port());
        matches!(it, Hazard::OtherPrimary { address } if *address == named)
    };
    let has = async || client.health().await.findings.iter().any(|it| is_it(&it.hazard));
    assert!(!has().await);

    // when the replica is promoted as well, then `health` reports the second primary, and the
    // client keeps its primary
    replica.promote();
    within(secs(30), "`health` reports the second primary", async {
        while !has().await {
            sleep(ms(100)).await;
        }
    })
    .await;
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    assert_eq!((client.stats().reconnects, connections(&replica)), (0, 0));

    // when the first primary is demoted, then the client uses the other primary, and the hazard
    // ends
    primary.follow(&replica);
    eventually("no client is connected to the demoted primary", SOON, || {
        connections(&primary) == 0
    });
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    within(secs(30), "`health` no longer reports a second primary", async {
        while client
            .health()
            .await
            .findings
            .iter()
            .any(|it| matches!(it.hazard, Hazard::OtherPrimary { .. }))
        {
            sleep(ms(100)).await;
        }
    })
    .await;
}

/// Former bug: when the other primary became unreachable for this client, the hazard was logged as
/// resolved. Other clients may still use that primary.
#[tokio::test]
async fn second_primary_stays_a_hazard_when_it_becomes_silent() {
    let [primary, replica] = pair();
    let (log, _logged) = Log::begin();
    let client = Client::builder().connect_timeout(secs(1));
    let client = client.connect(&url([&primary, &replica])).await.unwrap();
    replica.promote();
    let words = "is also a primary";
    let is_logged = |it: &str| it.contains("deployment hazard detected") && it.contains(words);
    within(secs(30), "the client logs the second primary", async {
        while !log.text().lines().any(is_logged) {
            sleep(ms(50)).await;
        }
    })
    .await;
    // The client checks the other addresses every ten seconds.
    replica.pause();
    sleep(secs(14)).await;
    let findings = client.health().await.findings;
    let is_it = |it: &Hazard| matches!(it, Hazard::OtherPrimary { .. });
    assert!(findings.iter().any(|it| is_it(&it.hazard)), "{findings:?}");
    let is_over = |it: &str| it.contains("deployment hazard resolved") && it.contains(words);
    assert!(!log.text().lines().any(is_over), "{}", log.text());
}

/// Makes a loading server pause at every fourth key. With a pause at each key, the server would
/// reply too rarely on a busy machine.
const REST_AT_EACH_FOURTH: &str = "-4";

#[tokio::test(flavor = "multi_thread")]
async fn loading_server_does_not_count_as_a_primary() {
    // given a server that takes seconds to load its data, and that replies only after each thousand
    // keys
    const KEYS: usize = 120_000;
    let slow = Redis::options().persistent().arg("--key-load-delay", REST_AT_EACH_FOURTH).start();
    let mut connection = Connection::open(slow.port());
    (0..KEYS).for_each(|n| connection.send(&["SET", &format!("key-{n}"), "x"]).unwrap());
    (0..KEYS).for_each(|_| assert_eq!(connection.next_reply().unwrap().text(), "OK"));
    let other = Redis::start();
    other.stop();
    let client = client([&slow, &other]).await;
    slow.stop();
    let waiting = waiter(client.lock("door").unwrap());

    // when the server starts again, then the client does not accept the server before it has loaded
    // its data. After that, the waiter acquires
    let starting = spawn_blocking(move || {
        slow.start_again();
        slow
    });
    while !client.health().await.unavailable_reason.is_some_and(|it| it.contains("LOADING")) {
        assert!(!waiting.is_finished() && !starting.is_finished());
        sleep(ms(5)).await;
    }
    let slow = starting.await.unwrap();
    release_guard(entered(waiting).await).await;
    drop(slow);
}
