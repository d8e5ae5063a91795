//! The quorum lock on five real servers. Tests kill, stop or restart some of them.

use std::time::Duration;

use crate::common::{ms, secs};
use leasehold::{
    Error, LostReason, QuorumClient, QuorumLock, Release, blocking::QuorumClient as QuorumThreads,
};
use testkit::{Cluster, Proxy, Redis, Sentinels, eventually};
use tokio::time::{Instant, sleep};

const TTL: Duration = secs(3);

struct Five {
    servers: [Redis; 5],
}

async fn lock(urls: impl IntoIterator<Item = String>) -> QuorumLock {
    QuorumClient::connect(urls).await.unwrap().lock("door").unwrap().ttl(TTL)
}

impl Five {
    /// Starts five servers, and acquires once, so that each server has stored that it was used.
    async fn start() -> Self {
        let five = Self { servers: [(); 5].map(|()| Redis::start()) };
        drop(five.lock().await.acquire().await.unwrap());
        five.eventually_held_at(0);
        five
    }

    async fn lock(&self) -> QuorumLock {
        lock(self.servers.iter().map(Redis::url)).await
    }

    /// Waits until the lock is held at this number of running servers.
    fn eventually_held_at(&self, number: i64) {
        eventually("the lock is held at the expected number of servers", secs(10), || {
            let running = self.servers.iter().filter(|server| server.is_running());
            let held = running.map(|server| server.command(&["EXISTS", "door"]).number());
            held.sum::<i64>() == number
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_lock_survives_two_killed_or_stopped_servers() {
    let killed = (Redis::stop as fn(&Redis), Redis::start_again as fn(&Redis));
    let stopped = (Redis::pause as fn(&Redis), Redis::resume as fn(&Redis));
    for (fail, recover) in [killed, stopped] {
        let five = Five::start().await;
        let guard = five.lock().await.acquire().await.unwrap();
        five.eventually_held_at(5);
        five.servers[..2].iter().for_each(fail);
        sleep(2 * TTL).await;
        assert!(guard.is_held());

        // A new client connects to three servers, and times out because the lock is held.
        let other = five.lock().await;
        let error = other.acquire_within(secs(1)).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        // Until the waiter that timed out has left the wait queues, the lock may be reserved for it.
        sleep(secs(1)).await;
        let start = Instant::now();
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        let guard = other.acquire().await.unwrap();
        assert!(start.elapsed() < ms(400), "{:?}", start.elapsed());

        // When the failed servers work again, the holder also acquires at these servers.
        five.servers[..2].iter().for_each(recover);
        five.eventually_held_at(5);
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        five.eventually_held_at(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_lock_survives_servers_that_restart_empty_in_turn() {
    let five = Five::start().await;
    let since = |it: &Redis| it.command(&["GET", "leasehold_quorum__since"]).text().to_owned();
    let guard = five.lock().await.acquire().await.unwrap();
    five.eventually_held_at(5);
    for server in &five.servers[..3] {
        assert_eq!(since(server), "0", "the server never lost its data");
        // The server stores nothing on disk, so it restarts empty.
        server.restart();
        sleep(2 * TTL).await;
        five.eventually_held_at(5);
        assert!(guard.is_held() && since(server).len() > 10, "{}", since(server));
    }
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_lock_is_lost_with_three_cut_servers() {
    let five = Five::start().await;
    let cuts = [0, 1, 2].map(|server| Proxy::before(five.servers[server].port()));
    let urls = cuts.iter().map(Proxy::url).chain(five.servers[3..].iter().map(Redis::url));
    let guard = lock(urls).await.acquire().await.unwrap();
    let start = Instant::now();
    cuts.iter().for_each(|cut| cut.black_hole(true));
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(start.elapsed() < TTL, "{:?}", start.elapsed());

    // Another client reaches all servers, and acquires when the lease has ended.
    drop(guard);
    assert!(five.lock().await.acquire_within(2 * TTL).await.unwrap().is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_connects_to_three_of_five_servers() {
    let five = Five::start().await;
    five.servers[..2].iter().for_each(Redis::stop);
    let lock = five.lock().await;
    assert!(lock.acquire_within(secs(1)).await.is_ok());
    five.servers[2].stop();
    let unavailable = lock.try_acquire().await.unwrap_err().to_string();
    assert!(unavailable.contains("connection refused"), "{unavailable}");
    let error = QuorumClient::connect(five.servers.each_ref().map(Redis::url)).await.unwrap_err();
    assert!(matches!(error, Error::Connect { permanent: false, .. }), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    let mut text = "cannot connect to 3 of 5 servers of the quorum: ".to_owned();
    for (server, number) in five.servers[..3].iter().zip(1..) {
        let reason = "no server listens at the address (connection refused)";
        text += &format!("server {number}, 127.0.0.1:{}: {reason}; ", server.port());
    }
    assert_eq!(error.to_string(), text + "at least 3 servers must be reachable");
    for (last, problem) in [("1", "a server is listed twice"), ("x", "server 2: ")] {
        let urls = ["1", last].map(|port| format!("redis://127.0.0.1:{port}"));
        let error = QuorumClient::connect(urls).await.unwrap_err();
        assert!(matches!(&error, Error::Url(text) if text.starts_with(problem)), "{error}");
    }
}

/// Former bug: one server that rejected the client failed the whole call.
#[tokio::test(flavor = "multi_thread")]
async fn quorum_connects_unless_a_majority_rejects_the_client() {
    let five = Five::start().await;
    for (rejecting, connects) in [(2, true), (3, false)] {
        let url = |server: &Redis| server.url().replace("//", "//nobody:wrong@");
        let urls = five.servers[..rejecting].iter().map(url);
        let urls = urls.chain(five.servers[rejecting..].iter().map(Redis::url));
        let connected = QuorumClient::connect(urls).await;
        assert_eq!(connected.is_ok(), connects, "{connected:?}");
        if let Err(error) = connected {
            assert!(matches!(error, Error::Connect { permanent: true, .. }), "{error}");
            assert!(error.to_string().contains("3 of 5 servers"), "{error}");
        }
    }
}

#[test]
fn threads_exclude_each_other_by_a_quorum_lock() {
    let five = tokio::runtime::Runtime::new().unwrap().block_on(Five::start());
    let connect = || QuorumThreads::connect(five.servers.iter().map(Redis::url)).unwrap();
    let (one, other) = (connect(), connect());
    let guard = one.lock("door").unwrap().ttl(TTL).acquire().unwrap();
    assert!(guard.is_held() && one.clients().len() == 5);
    assert!(other.lock("door").unwrap().try_acquire().unwrap().is_none());
    let waiter = std::thread::spawn(move || {
        let lock = other.lock("door").unwrap();
        let guard = lock.acquire_within(secs(10)).unwrap();
        assert!(guard.run(|held| held.is_held()).into_result().unwrap());
        // The client completes its releases, even if the client is dropped at once.
        drop(lock.acquire().unwrap());
    });
    std::thread::sleep(ms(200));
    assert!(!waiter.is_finished());
    assert_eq!(guard.release().unwrap(), Release::Released);
    waiter.join().unwrap();
    five.eventually_held_at(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_hold_survives_the_failover_of_a_member() {
    let (site, cluster, one) = (Sentinels::start(), Cluster::start(), Redis::start());
    let lock = lock([site.url(), cluster.url(), one.url()]).await;
    let guard = lock.acquire().await.unwrap();
    site.fail_over();
    sleep(2 * TTL).await;
    // The deployment with Sentinels and the cluster are the majority.
    drop(one);
    sleep(2 * TTL).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(lock.acquire_within(secs(5)).await.unwrap().is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn quorum_acquire_and_release_take_three_requests_per_server() {
    let five = Five::start().await;
    let lock = five.lock().await;
    let before = five.servers.each_ref().map(Redis::calls);
    for _ in 0..10 {
        let guard = lock.acquire().await.unwrap();
        five.eventually_held_at(5);
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        five.eventually_held_at(0);
    }
    for (server, before) in five.servers.iter().zip(&before) {
        let calls = server.calls().since(before);
        // A vote has one script for the lock, and one for the age of the data. A release after a
        // long hold is a script, too.
        let scripts = calls.of("evalsha");
        assert!((20..=30).contains(&scripts), "{scripts}");
        assert_eq!((calls.of("hset"), calls.of("hdel")), (10, 10));
    }
}
