//! No waiter on a real Redis sleeps while a lock is free. The tests cover outages, rejections,
//! leases without renewal, similar names, and futures that are not polled.
//!
//! `redis_strangers.rs` tests invalid data in keys and channels. `redis_fairness.rs` tests the
//! waits of each kind of waiter.

use std::time::Duration;

use crate::common::{
    Chain, Listener, POLLING, SOON, channel, client, entered, entry, hold_by_hand, keys, ms,
    places, queue, queuers, release_by_hand, release_guard, secs, subscribers, turns_of,
    until_places, waiter, with_acl, within,
};
use futures_util::{future::join_all, poll};
use leasehold::{Client, Lock, Release};
use testkit::{Connection, Helper, Redis, eventually};
use tokio::time::{Instant, sleep};

/// How long each client of a chain holds the lock.
const HOLD: Duration = ms(20);

fn door(client: &Client) -> Lock {
    client.lock("door").unwrap()
}

/// Waits until `client`, the only waiter for `name`, has all of its subscriptions and its queue
/// entry.
fn until_it_queues(redis: &Redis, client: &Client, name: &str) {
    for channel in [channel(name), queuers(name), turns_of(client, name)] {
        eventually(&format!("the client is subscribed to {channel}"), SOON, || {
            subscribers(redis, &channel) == 1
        });
    }
    until_places(redis, name, 1);
}

/// Waits until no client is subscribed.
fn until_no_subscribers(redis: &Redis) {
    let channels = || redis.command(&["PUBSUB", "CHANNELS"]);
    eventually("no client is subscribed", secs(10), || channels().list().is_empty());
}

// Outages.

#[tokio::test(flavor = "multi_thread")]
async fn waiter_queues_again_after_a_long_outage() {
    // given two tasks that wait for a lock, at a server that is unreachable for longer than the
    // command timeout
    let redis = Redis::start();
    let builder = Client::builder().command_timeout(secs(1)).connect_timeout(secs(1));
    let client = builder.connect(&redis.url()).await.unwrap();
    redis.stop();
    let crowd = [door(&client), door(&client)].map(|lock| tokio::spawn(entry(lock, secs(10))));
    sleep(ms(2_500)).await;
    redis.start_again();

    // then both tasks acquire when the server is reachable again
    for waiting in crowd {
        within(SOON, "both waiters acquire", waiting).await.unwrap();
    }

    // and the client queues for this name and for any other name, as before the outage
    for name in ["door", "window"] {
        hold_by_hand(&redis, name, "java:1", secs(60));
        let waiting = waiter(client.lock(name).unwrap());
        until_it_queues(&redis, &client, name);
        release_by_hand(&redis, name);
        release_guard(entered(waiting).await).await;
    }
    let chain = Chain::of(&redis, "door", HOLD).await;
    let took = entry(door(&client), secs(2)).await;
    println!("after the outage: acquired in {took:?}; {} grants in all", chain.granted());
}

#[tokio::test(flavor = "multi_thread")]
async fn subscription_is_retried_when_a_busy_server_recovers() {
    // given a server that runs an endless script when a waiter begins to wait
    let redis = Redis::start();
    redis.command(&["CONFIG", "SET", "lua-time-limit", "50"]);
    let client = client(&redis).await;
    hold_by_hand(&redis, "door", "java:1", secs(120));
    let mut endless = Connection::open(redis.port());
    endless.send(&["EVAL", "while true do end", "0"]).unwrap();
    let busy = || redis.command(&["GET", "x"]).is_error();
    eventually("the server is busy", SOON, busy);
    let crowd = [door(&client), door(&client)].map(|lock| tokio::spawn(entry(lock, secs(30))));
    sleep(ms(1_500)).await;
    assert_eq!(redis.command(&["SCRIPT", "KILL"]).text(), "OK");
    eventually("the server is no longer busy", SOON, || !busy());

    // then the waiter has a queue entry soon after the script was stopped
    until_it_queues(&redis, &client, "door");
    release_by_hand(&redis, "door");
    for waiting in crowd {
        within(SOON, "both waiters acquire", waiting).await.unwrap();
    }
    // and messages also wake the client when it later waits for other names
    hold_by_hand(&redis, "window", "java:1", secs(120));
    let waiting = waiter(client.lock("window").unwrap());
    until_it_queues(&redis, &client, "window");
    waiting.abort();
}

// Permissions.

#[tokio::test(flavor = "multi_thread")]
async fn client_without_queue_permission_waits_like_redisson() {
    let redis = Redis::start();
    let chain = Chain::of(&redis, "door", HOLD).await;
    for (user, channels) in [("plain", "&redisson_lock__channel:*"), ("half", "&*")] {
        let client = with_acl(&redis, user, &["~door", channels, "+@all"]).await;
        for _ in 0..3 {
            let before = chain.granted();
            let took = entry(door(&client), secs(5)).await;
            println!(
                "{user}: acquired after {took:?} and {} other grants",
                chain.granted() - before
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permission_revoked_during_a_hold_affects_only_its_name() {
    // given a client that loses the permission for a lock while it holds that lock
    let redis = Redis::start();
    let client = with_acl(&redis, "some", &["~*", "&*", "+@all"]).await;
    let guard = client.lock("theirs").unwrap().ttl(secs(3)).acquire().await.unwrap();
    let ours = ["~door", "~leasehold_lock__queue:{door}", "~leasehold_lock__yield:{door}"];
    let less = [&["ACL", "SETUSER", "some", "resetkeys"][..], &ours].concat();
    assert_eq!(redis.command(&less).text(), "OK");
    within(SOON, "the client reports the loss", guard.lost()).await;
    let release = guard.release().await.unwrap();
    assert!(matches!(release, Release::NotHeld { holder: None, .. }), "{release:?}");
    let refused = client.lock("theirs").unwrap().try_acquire().await;
    assert!(refused.is_err(), "{refused:?}");

    // then the client still queues for names for which it has all permissions
    hold_by_hand(&redis, "door", "java:1", secs(60));
    let waiting = waiter(door(&client));
    until_it_queues(&redis, &client, "door");
    release_by_hand(&redis, "door");
    release_guard(entered(waiting).await).await;
    let chain = Chain::of(&redis, "door", HOLD).await;
    let took = entry(door(&client), secs(2)).await;
    println!("acquired after {took:?}; {} grants in all", chain.granted());
}

#[tokio::test(flavor = "multi_thread")]
async fn permission_granted_later_lets_a_waiting_client_queue() {
    // given a client that may not queue
    let redis = Redis::start();
    let client = with_acl(&redis, "some", &["~door", "&redisson_lock__channel:*", "+@all"]).await;
    hold_by_hand(&redis, "door", "java:1", secs(120));
    let waiting = waiter(door(&client));
    eventually("the waiter is subscribed", SOON, || subscribers(&redis, &channel("door")) == 1);
    assert_eq!(subscribers(&redis, &queuers("door")), 0);

    // when the client gets the permissions, then it queues after about half a minute
    let keys = ["~leasehold_lock__queue:{door}", "~leasehold_lock__yield:{door}"];
    let more = [&["ACL", "SETUSER", "some", "allchannels"][..], &keys].concat();
    assert_eq!(redis.command(&more).text(), "OK");
    let queues = || subscribers(&redis, &turns_of(&client, "door")) == 1;
    eventually("the waiter is subscribed to its queue notifications", secs(40), queues);
    until_it_queues(&redis, &client, "door");
    release_by_hand(&redis, "door");
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_denied_a_queue_channel_does_not_starve_redisson() {
    // given clients that may use some, but not all, of the channels that a queue needs
    for channels in [
        &["&redisson_lock__channel:*", "&leasehold_lock__channel:*"][..],
        &["&redisson_lock__channel:*", "&leasehold_lock__waiter:*"],
        &["&leasehold_lock__channel:*", "&leasehold_lock__waiter:*"],
    ] {
        let redis = Redis::start();
        let rights = [&["~*", "+@all"][..], channels].concat();
        let client = with_acl(&redis, "half", &rights).await;
        hold_by_hand(&redis, "door", "java:1", secs(60));
        let waiting = waiter(door(&client));
        sleep(secs(1)).await;
        let counted =
            || subscribers(&redis, &queuers("door")) <= subscribers(&redis, &channel("door"));
        assert!(counted(), "{channels:?}");
        release_by_hand(&redis, "door");
        release_guard(entered(waiting).await).await;

        // then these clients leave no subscription behind. A remaining subscription would look like
        // a Leasehold waiter, and hide a Redisson waiter
        until_no_subscribers(&redis);
        let chain = Chain::of(&redis, "door", HOLD).await;
        let mut java = Listener::to(&redis, &channel("door"));
        let before = chain.granted();
        sleep(secs(4)).await;
        let (received, passed) = (java.received().len(), chain.granted() - before);
        println!("{channels:?}: a Redisson client receives {received} of {passed} releases");
        assert!(received >= 10, "{received} of {passed}");
    }
}

// Leases.

#[tokio::test(flavor = "multi_thread")]
async fn polling_waiter_acquires_between_holds_with_any_kind_of_lease() {
    // The lock is free for 2 % of the time, and the waiter polls twenty times a second.
    let bound = secs(60);
    for fixed in [false, true] {
        let redis = Redis::start();
        let set = |lock: Lock| if fixed { lock.lease(secs(5)) } else { lock };
        let chain = Chain::with(&redis, "door", HOLD, set).await;
        let poller = client(&redis).await;
        for _ in 0..3 {
            let before = chain.granted();
            let took = entry(door(&poller).wait_strategy(POLLING), bound).await;
            println!(
                "fixed {fixed}: acquired after {took:?} and {} other grants",
                chain.granted() - before
            );
        }
    }
}

// Similar names.

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_a_name_and_its_braced_form_queue_separately() {
    // given one client that waits for two names whose releases Redisson publishes on the same
    // channel
    let redis = Redis::start();
    let client = client(&redis).await;
    let names = ["x", "{x}"];
    for name in names {
        hold_by_hand(&redis, name, "java:1", secs(60));
    }
    let [one, other] = names.map(|name| waiter(client.lock(name).unwrap()));
    let queues = ["leasehold_lock__queue:{x}", "leasehold_lock__queue::{x}"];
    let placed = |queue: &str| redis.command(&["ZCARD", queue]).number() == 1;
    eventually("both waiters are in the queue", SOON, || queues.iter().all(|queue| placed(queue)));
    for own in ["leasehold_lock__channel:{x}", "leasehold_lock__channel::{x}"] {
        assert_eq!(subscribers(&redis, own), 1, "{own}");
    }

    // when `{x}` is released as Redisson releases it, then the waiter for `{x}` acquires at once
    sleep(secs(1)).await;
    let released = Instant::now();
    redis.command(&["DEL", "{x}"]);
    redis.command(&["PUBLISH", &channel("x"), "0"]);
    let guard = entered(other).await;
    assert!(released.elapsed() < ms(900), "{:?}", released.elapsed());
    assert!(!one.is_finished());
    assert_eq!(redis.command(&["ZCARD", queues[1]]).number(), 0);
    assert_eq!(redis.command(&["ZCARD", queues[0]]).number(), 1);
    release_guard(guard).await;

    // and when `x` is released, then the waiter for `x` acquires
    let released = Instant::now();
    release_by_hand(&redis, "x");
    let guard = entered(one).await;
    assert!(released.elapsed() < ms(900), "{:?}", released.elapsed());
    release_guard(guard).await;
    until_no_subscribers(&redis);
}

#[tokio::test(flavor = "multi_thread")]
async fn reservation_ignores_waiters_of_similar_names() {
    // given clients that acquire `x` in turn, and a client that waits for `{x}`
    let redis = Redis::start();
    let chain = Chain::of(&redis, "x", ms(2)).await;
    let other = client(&redis).await;
    hold_by_hand(&redis, "{x}", "java:1", secs(60));
    let monitor = redis.monitor();
    let waiting = waiter(other.lock("{x}").unwrap());
    let before = chain.granted();
    eventually("the tasks acquire 200 more times", secs(20), || chain.granted() > before + 200);

    // then the waiter for `{x}` gets no message of its own, and `x` is never reserved for it
    let lines = monitor.stop();
    let results = lines.iter().filter(|line| line.contains("PUBLISH") && line.contains(other.id()));
    assert_eq!(results.count(), 0);
    let reserved = format!(r#""HSET" "x" "{}"#, other.id());
    assert!(!lines.iter().any(|line| line.contains(&reserved)));
    waiting.abort();
}

// Queue entries.

#[tokio::test(flavor = "multi_thread")]
async fn queue_entry_is_removed_however_its_waiter_ends() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let queued = |lock: Lock| {
        hold_by_hand(&redis, "door", "java:1", secs(60));
        let waiting = waiter(lock);
        until_places(&redis, "door", 1);
        waiting
    };
    let gone = |end: &str| {
        let what = format!("the queue entry is removed after {end}");
        eventually(&what, SOON, || !keys(&redis).contains(&queue("door")));
    };

    // The waiter acquires by a request, without a notification.
    for lock in [door(&client), door(&client).lease(secs(20))] {
        let waiting = queued(lock);
        redis.command(&["DEL", "door"]);
        let guard = entered(waiting).await;
        assert_eq!(places(&redis, "door"), 0);
        gone("a grant");
        release_guard(guard).await;
    }
    // The waiter is dropped, or times out.
    let waiting = queued(door(&client));
    waiting.abort();
    gone("an abort of the waiting task");
    let lock = door(&client);
    let max_wait = tokio::spawn(async move { lock.acquire_within(ms(1_500)).await });
    until_places(&redis, "door", 1);
    assert!(max_wait.await.unwrap().is_err());
    gone("a timeout of the waiter");

    // The client of the waiter is shut down.
    let waiting = queued(door(&client));
    client.shutdown(secs(1)).await;
    assert!(waiting.await.unwrap().is_err());
    gone("a shutdown of the client");
}

// Waiters that send no request.

#[tokio::test(flavor = "multi_thread")]
async fn unpolled_waiter_delays_a_waiter_of_another_process_briefly() {
    let redis = Redis::start();
    let [one, other] = [client(&redis).await, client(&redis).await];
    for waits in [ms(5), ms(300), ms(1_200)] {
        // given a holder, and a waiter of the same client that is no longer polled
        let lock = door(&one).ttl(secs(12));
        let guard = lock.acquire().await.unwrap();
        let mut idle = Box::pin(lock.acquire());
        assert!(poll!(&mut idle).is_pending());
        let waiting = waiter(door(&other));
        sleep(waits).await;

        // when the holder releases, then a waiter of another process acquires nevertheless
        let released = Instant::now();
        release_guard(guard).await;
        // The timer of this waiter would send its second request only after the limit of 2 s.
        let guard = within(secs(2), "the waiter of another process acquires", waiting)
            .await
            .unwrap()
            .unwrap();
        println!("acquired {:?} after the release", released.elapsed());
        release_guard(guard).await;
        drop(idle);
        eventually("the lock is free", SOON, || !keys(&redis).contains(&"door".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unpolled_queue_head_delays_the_next_waiter_only_briefly() {
    let redis = Redis::start();
    let clients = [client(&redis).await, client(&redis).await];
    for _ in 0..3 {
        // given a waiter that has a queue entry, and that is no longer polled
        hold_by_hand(&redis, "door", "java:1", secs(60));
        let lock = door(&clients[0]);
        let mut idle = Box::pin(lock.acquire());
        let until = Instant::now() + ms(300);
        while Instant::now() < until || places(&redis, "door") == 0 {
            assert!(poll!(&mut idle).is_pending());
            sleep(ms(2)).await;
        }
        let behind = waiter(door(&clients[1]));
        until_places(&redis, "door", 2);

        // when a holder that had to wait for the lock releases it
        redis.command(&["DEL", "door"]);
        redis.command(&["PUBLISH", &turns_of(&clients[1], "door"), "0"]);
        let guard = entered(behind).await;
        let behind = waiter(door(&clients[1]));
        sleep(ms(300)).await;
        let released = Instant::now();
        release_guard(guard).await;
        let guard = within(secs(5), "the waiter acquires", behind).await.unwrap().unwrap();
        let took = released.elapsed();
        println!("acquired {took:?} after the release");
        assert!(took < secs(1), "{took:?}");
        release_guard(guard).await;
        drop(idle);
        eventually("the lock is free", SOON, || keys(&redis).is_empty());
    }
}

/// Starts a process that waits for `door`. Returns when the process has its queue entry.
fn waiting_process(redis: &Redis, place: usize) -> Helper {
    let process = Helper::example("holder", &[&redis.url(), "door", "30000"]);
    process.wait_for_line(|line| line == "waiting", secs(10));
    until_places(redis, "door", place);
    process
}

/// Returns how long a waiter waits behind `paused` paused processes. These processes had waited for
/// `waited` before the pause.
async fn behind_paused(paused: usize, waited: Duration) -> Duration {
    let redis = Redis::start();
    let [first, behind] = [client(&redis).await, client(&redis).await];
    hold_by_hand(&redis, "door", "java:1", secs(60));
    let waiting = waiter(door(&first));
    until_places(&redis, "door", 1);
    release_by_hand(&redis, "door");
    let guard = entered(waiting).await;
    let processes: Vec<_> = (1..=paused).map(|place| waiting_process(&redis, place)).collect();
    let waiting = waiter(door(&behind));
    until_places(&redis, "door", paused + 1);
    sleep(waited).await;
    processes.iter().for_each(Helper::pause);

    let released = Instant::now();
    release_guard(guard).await;
    let guard = within(secs(20), "the waiter behind the paused processes acquires", waiting)
        .await
        .unwrap()
        .unwrap();
    let took = released.elapsed();
    println!("behind {paused} paused processes, after a wait of {waited:?}: {took:?}");
    release_guard(guard).await;
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_process_at_the_queue_head_delays_others_two_seconds() {
    for waited in [ms(0), ms(800), secs(4)] {
        let took = behind_paused(1, waited).await;
        // The waiter was notified, because its own timer takes longer.
        assert!(took < secs(2), "{waited:?}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_behind_two_stopped_processes_acquires_by_its_timer() {
    for waited in [ms(0), ms(800), secs(4)] {
        // The first process has 0.75 s to send its request. After that, no message reports that the
        // second process does not send its request either. So the third process sends its request
        // after its own timer, which takes at most 3.75 s.
        let took = behind_paused(2, waited).await;
        assert!(took < ms(2_300), "{waited:?}: {took:?}");
    }
}

// A read-only server.

#[tokio::test(flavor = "multi_thread")]
async fn read_only_server_gets_few_renewal_requests_for_many_holds() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let acquires = (0..300).map(|n| {
        let lock = client.lock(format!("door-{n}")).unwrap().ttl(secs(12));
        async move { lock.acquire().await.unwrap() }
    });
    let guards = join_all(acquires).await;
    // when the server is a replica for some seconds
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let before = redis.calls();
    sleep(secs(6)).await;
    let asked = redis.calls().since(&before).of("evalsha");
    redis.command(&["REPLICAOF", "NO", "ONE"]);

    // then the server receives few requests, because the client renews in batches, and no hold is
    // lost
    println!("{asked} EVALSHA in 6 s");
    assert!((1..=60).contains(&asked), "{asked}");
    sleep(secs(7)).await;
    assert!(guards.iter().all(|guard| guard.is_held()));
    drop(guards);
    eventually("all locks are free", secs(10), || keys(&redis).is_empty());
}
