//! What a client does after its server has recovered, and how it reports losses until then.

use std::{sync::mpsc, thread};

use crate::common::{Log, SOON, client, entered, ms, release_guard, secs, waiter, within};
use leasehold::{Client, LostReason};
use testkit::{Redis, eventually};
use tokio::{
    runtime::{Builder, Runtime},
    time::{Instant, sleep, timeout},
};

/// Former bug: a server that hung had a request in its buffer, and executed this request when the
/// server continued. The lock then had no holder, but stayed locked for a whole ttl.
#[tokio::test(flavor = "multi_thread")]
async fn request_cancelled_during_a_hang_leaves_no_lock() {
    for (ttl, hangs, dropped) in
        [(2_000, 5_000, false), (6_000, 2_000, true), (30_000, 7_000, true)]
    {
        // given a server that hangs, and requests that time out
        let redis = Redis::start();
        let builder = Client::builder().ttl(ms(ttl)).command_timeout(ms(700));
        let client = builder.connect(&redis.url()).await.unwrap();
        redis.pause();
        let lock = client.lock("door").unwrap();
        match dropped {
            true => assert!(timeout(ms(500), lock.acquire()).await.is_err()),
            false => assert!(lock.acquire_within(ms(500)).await.is_err()),
        }
        sleep(ms(hangs)).await;

        // when the server continues, and executes these requests
        redis.resume();
        let other = crate::common::client(&redis).await.lock("door").unwrap();
        let begun = Instant::now();
        release_guard(within(secs(40), "another client acquires", other.acquire()).await.unwrap())
            .await;

        // then another client acquires long before a whole lease has passed
        let limit = ms(1_900).min(ms(ttl) / 2 + ms(900));
        assert!(begun.elapsed() < limit, "ttl {ttl}, hung for {hangs}: {:?}", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_holds_are_checked_when_the_server_recovers() {
    // given many holds whose next renewal is due in ten seconds
    let redis = Redis::start();
    let client = client(&redis).await;
    let mut guards = Vec::new();
    for n in 0..250 {
        guards.push(client.lock(format!("door-{n}")).unwrap().acquire().await.unwrap());
    }

    // when the server restarts without its data
    redis.stop();
    redis.start_again();
    let back = Instant::now();

    // then the client reports all losses soon after the restart, and does not wait for its next
    // renewal
    for guard in &guards {
        let reason = within(SOON, "the client reports the loss", guard.lost()).await;
        assert_eq!(reason, LostReason::NotOwned);
    }
    assert!(back.elapsed() < secs(3), "{:?}", back.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_are_renewed_after_all_connections_are_lost() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    let renewals = client.stats().renewals;
    redis.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    eventually("the hold is renewed", SOON, || client.stats().renewals > renewals);
    assert!(guard.is_held());
    release_guard(guard).await;
}

/// The watchdog runs on the runtime of the first acquisition. Former bug: while that runtime was
/// blocked, a guard on another runtime reported its loss six seconds late.
#[test]
fn holder_learns_its_loss_despite_a_blocked_watchdog() {
    let redis = Redis::start();
    let (hands_over, guard) = mpsc::channel();
    let (ends, end) = mpsc::channel::<()>();
    let url = redis.url();
    let blocked = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::connect(&url).await.unwrap();
            let lock = client.lock("door").unwrap().ttl(secs(2));
            hands_over.send(lock.acquire().await.unwrap()).unwrap();
            // The task blocks its runtime.
            let _ended = end.recv_timeout(secs(20));
        });
    });
    let guard = guard.recv().unwrap();
    Runtime::new().unwrap().block_on(async {
        let begun = Instant::now();
        let reason = within(secs(8), "the client reports the loss", guard.lost()).await;
        assert_eq!(reason, LostReason::Expired);
        assert!(begun.elapsed() < ms(2_900), "{:?}", begun.elapsed());
    });
    ends.send(()).unwrap();
    blocked.join().unwrap();
}

/// Former bug: when the server hung once with two hundred requests, the client logged four hundred
/// lines.
#[tokio::test]
async fn outage_with_many_callers_logs_a_few_lines() {
    let (log, _collecting) = Log::begin();
    let redis = Redis::start();
    let builder = Client::builder().ttl(secs(2)).command_timeout(ms(300));
    let client = builder.connect(&redis.url()).await.unwrap();
    redis.pause();
    let callers = (0..200).map(|n| {
        let lock = client.lock(format!("door-{n}")).unwrap();
        async move { lock.acquire_within(ms(900)).await.map(drop) }
    });
    let failed = futures_util::future::join_all(callers).await;
    assert!(failed.iter().all(Result::is_err));
    redis.resume();
    release_guard(entered(waiter(client.lock("door").unwrap())).await).await;
    let text = log.text();
    let warnings = text.matches("WARN").count();
    assert!((1..=20).contains(&warnings), "{warnings} lines: {text}");
}

/// Former bug: on the next runtime, the client logged the loss of the connection again, with
/// `lost_for=0ns`.
#[test]
fn supervisor_on_a_new_runtime_logs_no_second_loss() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (log, _logged) = Log::begin();
    let (redis, first) = (Redis::start(), runtime());
    let client = first.block_on(async { client(&redis).await });
    let lock = client.lock("door").unwrap();
    first.block_on(async {
        release_guard(lock.acquire().await.unwrap()).await;
        redis.stop();
        lock.acquire_within(ms(300)).await.unwrap_err();
    });
    assert_eq!(log.text().matches("connection lost").count(), 2, "{}", log.text());
    drop(first);
    runtime().block_on(async { lock.acquire_within(ms(300)).await.unwrap_err() });
    assert!(!log.text().contains("lost_for"), "{}", log.text());
}
