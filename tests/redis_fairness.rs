//! Each kind of waiter acquires within a bound, while five Leasehold clients acquire in turn all
//! the time. If several runtimes share a client, the client continues when one of them ends.
//!
//! The tests print the times: run them with `--nocapture`.

use std::{thread, time::Duration};

use crate::common::{
    Chain, POLLING, SOON, channel, client, entered, entry, hash, hold_by_hand, ms, pttl,
    release_by_hand, release_guard, secs, subscribers, until_places, with_acl, within,
};
use leasehold::{Client, Lock, LockGuard};
use testkit::{Connection, Redis, Reply, eventually};
use tokio::{
    runtime::Runtime,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep, timeout},
};

const HOLD: Duration = ms(5);

fn door(client: &Client) -> Lock {
    client.lock("door").unwrap()
}

/// Lets a waiter acquire `times` times, each time within `bound`, and prints how long it waited.
async fn enters(
    chain: &Chain,
    who: &str,
    times: u32,
    bound: Duration,
    mut enter: impl AsyncFnMut(),
) {
    let (mut longest, mut all, before) = (ms(0), ms(0), chain.granted());
    for _ in 0..times {
        let began = Instant::now();
        within(bound, &format!("{who} acquires"), enter()).await;
        (longest, all) = (longest.max(began.elapsed()), all + began.elapsed());
        // During this pause, the keys of this round expire, so that they do not help the next
        // round.
        sleep(ms(300)).await;
    }
    let others = chain.granted() - before;
    println!(
        "{who}: {:?} on average, {longest:?} at most, bound {bound:?}; {others} grants to others",
        all / times
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_waiter_acquires_before_its_own_timer_fires() {
    // The bound is shorter than the timer of the waiter, so a notification must wake it.
    let bound = ms(2_500);
    let redis = Redis::start();
    let chain = Chain::of(&redis, "door", HOLD).await;
    let one_more = client(&redis).await;
    let enter = async || {
        entry(door(&one_more), bound).await;
    };
    enters(&chain, "a queued waiter", 20, bound, enter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_waiter_acquires_in_a_yield_window() {
    // The waiter sends twenty requests a second. Each of them finds the lock free with a
    // probability of 2 %.
    let bound = secs(60);
    let redis = Redis::start();
    let chain = Chain::of(&redis, "door", HOLD).await;
    let poller = client(&redis).await;
    let enter = async || {
        entry(door(&poller).wait_strategy(POLLING), bound).await;
    };
    enters(&chain, "a polling waiter", 4, bound, enter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unsubscribed_waiter_acquires_in_a_yield_window() {
    // The waiter sends four requests a second. One wait in half a million is longer than the bound.
    let bound = secs(180);
    let redis = Redis::start();
    let chain = Chain::of(&redis, "door", HOLD).await;
    let rights = ["~*", "resetchannels", "+@all", "-subscribe"];
    let deaf = with_acl(&redis, "deaf", &rights).await;
    let enter = async || {
        entry(door(&deaf), bound).await;
    };
    enters(&chain, "a waiter without subscriptions", 1, bound, enter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_with_redissons_permissions_acquires_in_a_yield_window() {
    // Yield windows leave the lock free for a fifth of the time. Their length changes each second.
    // In every fourth second, each window has the longest length, 16 ms.
    let bound = secs(10);
    let redis = Redis::start();
    let chain = Chain::of(&redis, "door", HOLD).await;
    let rights = ["~door", "resetchannels", "&redisson_lock__channel:*", "+@all"];
    let limited = with_acl(&redis, "limited", &rights).await;
    let enter = async || {
        entry(door(&limited), bound).await;
    };
    enters(&chain, "a subscribed waiter without a queue entry", 10, bound, enter).await;
}

/// The script by which Redisson acquires a lock.
const TAKE: &str = "if redis.call('exists', KEYS[1]) == 0 then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); \
    return nil end return redis.call('pttl', KEYS[1])";

/// A program that acquires `door` without this library.
struct Stranger {
    connection: Connection,
}

impl Stranger {
    fn of(redis: &Redis) -> Self {
        Self { connection: Connection::open(redis.port()) }
    }

    /// Acquires `door` if it is free, with a lease of one second. Returns whether it was free.
    fn takes(&mut self) -> bool {
        self.connection.command(&["EVAL", TAKE, "1", "door", "1000", "java:1"]) == Reply::Nil
    }

    fn gives_back(&mut self) {
        assert_eq!(self.connection.command(&["HDEL", "door", "java:1"]).number(), 1);
        self.connection.command(&["PUBLISH", &channel("door"), "0"]);
    }
}

/// Acquires as Redisson does: it subscribes, and sends its request again when a release is
/// published.
fn as_redisson(redis: &Redis) {
    let mut stranger = Stranger::of(redis);
    let mut ear = Connection::open(redis.port());
    ear.command(&["SUBSCRIBE", &channel("door")]);
    while !stranger.takes() {
        // Redisson parses the message as a number, and acts only on 0.
        while ear.next_reply().unwrap().list()[2].text().parse() != Ok(0) {}
    }
    stranger.gives_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribed_redisson_client_acquires_in_a_yield_window() {
    let bound = secs(10);
    let redis = Redis::start();
    let chain = Chain::of(&redis, "door", HOLD).await;
    let shared = std::sync::Arc::new(redis);
    let enter = async || {
        let redis = std::sync::Arc::clone(&shared);
        spawn_blocking(move || as_redisson(&redis)).await.unwrap();
    };
    enters(&chain, "a Redisson client", 10, bound, enter).await;
}

/// Starts a task that acquires the lock repeatedly, and holds it for `hold` each time.
fn reacquires_at_once(busy: &Client, hold: Duration) -> JoinHandle<()> {
    let lock = door(busy);
    let task = tokio::spawn(async move {
        loop {
            let guard = lock.acquire().await.unwrap();
            if !hold.is_zero() {
                sleep(hold).await;
            }
            release_guard(guard).await;
        }
    });
    eventually("the client acquires repeatedly", SOON, || busy.stats().granted > 10);
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn redisson_client_acquires_while_another_client_reacquires() {
    // given a client whose only task acquires repeatedly, so that it never hands the lock off
    let redis = std::sync::Arc::new(Redis::start());
    let busy = client(&redis).await;
    let task = reacquires_at_once(&busy, ms(0));

    // then a waiter that needs a notification acquires soon
    for _ in 0..10 {
        let (before, began) = (busy.stats().granted, Instant::now());
        let other = std::sync::Arc::clone(&redis);
        within(
            secs(10),
            "the Redisson client acquires",
            spawn_blocking(move || as_redisson(&other)),
        )
        .await
        .unwrap();
        println!(
            "acquired after {:?} and {} grants to the other client",
            began.elapsed(),
            busy.stats().granted - before
        );
        sleep(ms(100)).await;
    }
    task.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_reacquires_starves_no_polling_waiter() {
    // After a release, the client leaves the lock free for 2 % of the time.
    let bound = secs(60);
    for hold in [ms(20), ms(60)] {
        let redis = Redis::start();
        let (busy, poller) = (client(&redis).await, client(&redis).await);
        let task = reacquires_at_once(&busy, hold);
        for _ in 0..3 {
            let took = entry(door(&poller).wait_strategy(POLLING), bound).await;
            println!("polling waiter, other holds of {hold:?}: acquired after {took:?}");
        }
        task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_polling_client_acquires_in_a_yield_window() {
    // The waiter sends ten requests a second. Each of them finds the lock free with a probability
    // of 2 %. One wait in 200,000 is longer than a minute.
    let bound = secs(60);
    let redis = std::sync::Arc::new(Redis::start());
    let chain = Chain::of(&redis, "door", HOLD).await;
    let enter = async || {
        let redis = std::sync::Arc::clone(&redis);
        let spin = move || {
            let mut stranger = Stranger::of(&redis);
            while !stranger.takes() {
                thread::sleep(ms(100));
            }
            stranger.gives_back();
        };
        spawn_blocking(spin).await.unwrap();
    };
    enters(&chain, "a client that polls every 100 ms", 3, bound, enter).await;
}

// Several runtimes.

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Starts a task on `on` that acquires `lock`, and holds it until the runtime `on` ends.
fn holds(on: &Runtime, lock: Lock) -> JoinHandle<()> {
    on.spawn(async move {
        let _guard = lock.acquire().await.unwrap();
        std::future::pending::<()>().await;
    })
}

#[test]
fn waiter_acquires_after_the_runtime_of_another_waiter_ended() {
    // given a client with waiters on two runtimes. The background task of the client, and the
    // waiter that sends the requests, are on the first runtime
    let redis = Redis::start();
    let (home, first, second) = (runtime(), runtime(), runtime());
    let client = home.block_on(client(&redis));
    first.block_on(async {
        release_guard(client.lock("x").unwrap().acquire().await.unwrap()).await;
    });
    hold_by_hand(&redis, "door", "java:1", secs(60));
    let lost = holds(&first, door(&client));
    until_places(&redis, "door", 1);
    let lock = door(&client);
    let waiting = second.spawn(async move { lock.acquire().await });
    eventually("both waiters wait", SOON, || client.stats().waiting == 2);

    // when the first runtime ends
    first.shutdown_background();
    eventually("the waiter of the first runtime has ended", SOON, || lost.is_finished());

    // then the other waiter sends the requests, and acquires when the lock is free
    eventually("one waiter is left", SOON, || client.stats().waiting == 1);
    eventually("the waiter is subscribed", SOON, || subscribers(&redis, &channel("door")) == 1);
    release_by_hand(&redis, "door");
    second.block_on(async { release_guard(entered(waiting).await).await });
    eventually("the lock is free", SOON, || hash(&redis, "door").is_empty());
}

#[test]
fn waiters_continue_when_the_runtime_of_a_holder_ends() {
    // given a hold on one runtime, a waiter on another runtime, and a waiter of another client
    let redis = Redis::start();
    let (home, first, second) = (runtime(), runtime(), runtime());
    let (shared, other) = home.block_on(async { (client(&redis).await, client(&redis).await) });
    let held = holds(&first, door(&shared).ttl(secs(3)));
    eventually("the client holds the lock", SOON, || shared.stats().held == 1);
    let lock = door(&shared).ttl(secs(3));
    let waiting = second.spawn(async move { lock.acquire().await });
    eventually("one task waits", SOON, || shared.stats().waiting == 1);
    let behind = home.spawn(async move { door(&other).acquire().await });
    until_places(&redis, "door", 1);

    // when the runtime of the hold ends, then the next waiter acquires the lock and keeps it
    first.shutdown_background();
    eventually("the task of the first runtime has ended", SOON, || held.is_finished());
    let began = Instant::now();
    second.block_on(async {
        let behind = async {
            let guard = within(secs(8), "the waiter of another process acquires", behind)
                .await
                .unwrap()
                .unwrap();
            println!("the waiter of another process acquired after {:?}", began.elapsed());
            sleep(secs(4)).await;
            assert!(guard.is_held());
            release_guard(guard).await;
        };
        let same = async {
            let guard = within(secs(8), "the waiter of the other runtime acquires", waiting)
                .await
                .unwrap()
                .unwrap();
            println!("the waiter of the other runtime acquired after {:?}", began.elapsed());
            assert!(timeout(secs(4), guard.lost()).await.is_err(), "the lease is renewed");
            release_guard(guard).await;
        };
        tokio::join!(behind, same);
    });
    eventually("the lock is free", SOON, || hash(&redis, "door").is_empty());
}

#[test]
fn waiter_acquires_after_the_runtime_of_background_tasks_ended() {
    // given a hold that is never released, a waiter on the same runtime, and the background task of
    // the client on another runtime
    let redis = Redis::start();
    let (home, first, second) = (runtime(), runtime(), runtime());
    let client = home.block_on(client(&redis));
    first.block_on(async {
        release_guard(client.lock("x").unwrap().acquire().await.unwrap()).await;
    });
    let lock = door(&client);
    let leased = lock.clone().lease(secs(2));
    std::mem::forget(second.block_on(async { leased.acquire().await.unwrap() }));
    let waiting = second.spawn(async move { lock.acquire().await });
    eventually("the client has one waiter", SOON, || client.stats().waiting == 1);

    // when the runtime of the background task ends, then the waiter acquires when the lease has
    // ended
    first.shutdown_timeout(secs(2));
    second.block_on(async { release_guard(entered(waiting).await).await });
}

/// A hold on one runtime. The background task of its client ran on another runtime, which has
/// ended.
struct Bereft {
    _home: Runtime,
    on: Runtime,
    client: Client,
    guard: LockGuard,
}

impl Bereft {
    fn of(redis: &Redis) -> Self {
        let (home, first, on) = (runtime(), runtime(), runtime());
        let client = home.block_on(client(redis));
        first.block_on(async { release_guard(door(&client).acquire().await.unwrap()).await });
        let lock = door(&client).ttl(secs(2));
        let guard = on.block_on(async { lock.acquire().await.unwrap() });
        first.shutdown_timeout(secs(2));
        Self { _home: home, on, client, guard }
    }
}

#[test]
fn loss_future_restarts_renewals_after_their_runtime_ended() {
    let redis = Redis::start();
    let Bereft { on, guard, _home, client: _client } = Bereft::of(&redis);

    // when a task awaits the loss, then the client renews the hold, and reports no loss
    on.block_on(async {
        assert!(timeout(secs(4), guard.lost()).await.is_err(), "the lease is renewed");
        release_guard(guard).await;
    });
}

#[test]
fn hold_is_renewed_after_the_first_runtime_ended() {
    let redis = Redis::start();
    let Bereft { on, client, guard, _home } = Bereft::of(&redis);

    // when the client is used once within the lease
    on.block_on(async {
        release_guard(client.lock("window").unwrap().acquire().await.unwrap()).await;
    });

    // then the client renews the hold from then on
    thread::sleep(secs(5));
    assert!(guard.is_held(), "the lease is renewed");
    assert!(pttl(&redis, "door") > 500);
    on.block_on(release_guard(guard));
}
