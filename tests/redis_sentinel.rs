//! A primary that sentinels replace: whether and how soon clients follow it, and how they report
//! losses.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::common::{
    GUIDE, Log, SOON, channel, comes_true, entered, held_and_waited_for, ms, ours, release_guard,
    secs, subscribers, until_subscribed, waiter, within,
};
use leasehold::{Client, ClientBuilder, Error, LockGuard, LostReason, Release, Replicas};
use testkit::{Links, Proxy, Redis, Sentinels, acl_rules_in, eventually};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

/// The limit for a failover that sentinels start.
const FAILOVER: std::time::Duration = secs(30);

async fn client(redis: &Sentinels) -> Client {
    Client::connect(&redis.url()).await.expect("the sentinels and the primary are up")
}

async fn acquired(client: &Client, name: &str) -> LockGuard {
    let lock = client.lock(name).unwrap();
    lock.acquire_within(FAILOVER).await.unwrap()
}

/// Returns the error with which `builder` fails to connect to `url`, and whether the error is
/// permanent.
async fn refusal(builder: ClientBuilder, url: &str) -> (String, bool) {
    let connects = builder.connect_timeout(secs(3)).connect(url);
    match within(secs(10), &format!("`connect` to {url} returns"), connects).await {
        Err(error @ Error::Connect { permanent, .. }) => (error.to_string(), permanent),
        other => panic!("{other:?}"),
    }
}

/// Waits until no Leasehold client is connected to `redis`.
#[track_caller]
fn until_left(redis: &Redis) {
    eventually("no client is connected to the demoted primary", SOON, || ours(redis).is_empty());
}

/// Waits until all running replicas have the data of the primary.
pub(crate) fn until_replicated(redis: &Sentinels) {
    let (master, number) = (redis.master(), redis.master_number());
    let others = redis.servers().iter().enumerate().filter(|(it, _)| *it != number);
    others.for_each(|(_, replica)| replica.catch_up_with(master));
}

// The operations of a single server, behind sentinels.

/// Lets `one` hold the lock until `other` waits. Releases the lock, and waits until `other`
/// acquires.
async fn works(master: &Redis, one: &Client, other: &Client) {
    let guard = acquired(one, "door").await;
    let waiting = waiter(other.lock("door").unwrap());
    until_subscribed(master, &channel("door"));
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn primary_is_found_by_its_sentinels() {
    let redis = Sentinels::options().replicas(1).start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    works(redis.master(), &one, &other).await;
    let health = one.health().await;
    assert!(health.is_ready() && health.messages_up, "{health:?}");
    assert_eq!(health.role, Some(leasehold::Role::Primary));

    // Each client has one connection to each sentinel.
    for sentinel in redis.sentinels() {
        eventually("each client is connected to each sentinel", SOON, || ours(sentinel).len() == 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lazy_client_connects_when_sentinels_appear() {
    let redis = Sentinels::options().replicas(1).start();
    redis.sentinels().iter().for_each(Redis::stop);
    let client = Client::connect_lazy(&redis.url()).unwrap();
    let waiting = waiter(client.lock("door").unwrap());
    sleep(ms(300)).await;
    let reason = client.health().await.unavailable_reason.unwrap();
    assert!(reason.contains(&redis.addresses()[0]), "{reason}");
    redis.sentinels().iter().for_each(Redis::start_again);
    release_guard(entered(waiting).await).await;
}

// A failover.

#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_follow_a_failover() {
    // given a holder that renews every second, and a waiter
    let redis = Sentinels::start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let guard = one.lock("door").unwrap().ttl(secs(3)).acquire().await.unwrap();
    let waiting = waiter(other.lock("door").unwrap());
    until_subscribed(redis.master(), &channel("door"));
    until_replicated(&redis);

    // when the sentinels replace a primary that works
    let old = redis.master();
    let new = redis.fail_over();

    // then no client is connected to the old primary, although it still takes writes
    until_left(old);
    assert_eq!(subscribers(old, &channel("door")), 0);
    until_subscribed(new, &channel("door"));

    // and the hold continues at the new primary, and its release wakes the waiter
    sleep(secs(4)).await;
    assert!(guard.is_held());
    assert!(!waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
    assert_eq!(one.stats().reconnects, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_acquires_at_the_new_primary_after_a_kill() {
    let redis = Sentinels::options().impatient().start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let (guard, waiting) = held_and_waited_for([&one, &other], redis.master()).await;
    until_replicated(&redis);

    redis.master().stop();
    let new = redis.wait_for_master_other_than(0);
    until_subscribed(new, &channel("door"));
    assert!(guard.is_held() && !waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_during_a_failover_succeeds_at_the_new_primary() {
    let redis = Sentinels::options().impatient().start();
    let client = client(&redis).await;
    redis.master().stop();
    let guard = acquired(&client, "door").await;
    let new = redis.wait_for_master_other_than(0);
    assert!(has(new, "door"));
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_old_primary_is_not_used() {
    // given a holder whose primary is paused, and a waiter
    let redis = Sentinels::options().impatient().start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let (guard, waiting) = held_and_waited_for([&one, &other], redis.master()).await;
    until_replicated(&redis);
    let old = redis.master();
    old.pause();
    let new = redis.wait_for_master_other_than(0);
    until_subscribed(new, &channel("door"));

    // when the old primary continues, and still reports that it is the primary
    old.resume();
    assert!(is_master(old));

    // then no client returns to the old primary
    until_left(old);
    for name in ["one", "two", "three"] {
        release_guard(acquired(&one, name).await).await;
        release_guard(acquired(&client(&redis).await, name).await).await;
        assert!(ours(old).is_empty());
    }
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_loss_is_reported_and_a_waiter_acquires() {
    // given a lock that no replica has received
    let redis = Sentinels::options().links().impatient().start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    ["redis-1", "redis-2"].iter().for_each(|replica| redis.links().cut("redis-0", replica));
    let guard = one.lock("door").unwrap().acquire().await.unwrap();
    let waiting = waiter(other.lock("door").unwrap());
    until_subscribed(&redis.servers()[0], &channel("door"));

    // when the primary dies, and one of the replicas replaces the primary
    redis.servers()[0].stop();

    // then the client reports the loss and its reason, and the waiter acquires
    let entered = within(FAILOVER, "the waiter acquires", waiting).await.unwrap().unwrap();
    let reason = within(SOON, "the loss is reported", guard.lost()).await;
    assert_eq!(reason, LostReason::NotOwned);
    match guard.release().await.unwrap() {
        Release::NotHeld { reason: LostReason::NotOwned, .. } => {}
        other => panic!("{other:?}"),
    }
    release_guard(entered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_on_all_replicas_survives_the_death_of_the_primary() {
    // given locks that both replicas have, so that either of them may be promoted
    let redis = Sentinels::options().impatient().start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let both = Replicas::at_least(2).within(SOON);
    let mut guards = Vec::new();
    for number in 0..20 {
        let lock = one.lock(format!("door-{number}")).unwrap().replicated(both);
        guards.push(lock.acquire().await.unwrap());
    }

    // when the primary dies right after its last reply
    redis.master().stop();
    let new = redis.wait_for_master_other_than(0);

    // then the new primary has all locks, with the same owners
    for guard in guards {
        let owns = ["HEXISTS", guard.name().as_str(), guard.owner().as_str()];
        assert_eq!(new.command(&owns).number(), 1, "{guard:?}");
        assert!(guard.is_held());
        assert!(other.lock(guard.name().as_str()).unwrap().is_locked().await.unwrap());
        release_guard(guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_restarted_primary_loses_replicated_locks() {
    // given a lock that both replicas have
    let redis = Sentinels::options().down_after(secs(30)).start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let both = Replicas::at_least(2).within(SOON);
    let guard = one.lock("door").unwrap().replicated(both).acquire().await.unwrap();

    // when the primary restarts without data, before the sentinels replace it
    redis.master().stop();
    redis.servers()[0].start_again();

    // then another client acquires, and the client of the holder reports the loss
    let entered = acquired(&other, "door").await;
    assert_eq!(within(SOON, "the loss is reported", guard.lost()).await, LostReason::NotOwned);
    release_guard(entered).await;
}

/// Acquires and releases repeatedly, until `enough` is true. Panics if an acquisition has to wait
/// until a lease ends.
async fn acquires_and_releases(lock: leasehold::Lock, enough: Arc<AtomicBool>) {
    while !enough.load(Ordering::Relaxed) {
        let guard = lock.acquire_within(secs(15)).await.unwrap();
        sleep(ms(200)).await;
        // If the new primary does not have the hold, the release reports a loss. This test ignores
        // the loss.
        drop(guard.release().await);
        sleep(ms(100)).await;
    }
}

/// Former bug: the client left the old primary a second after the promotion. Within that second,
/// the client could release a lock at the old primary. The new primary still had the former owner,
/// so the lock stayed held for a ttl.
#[tokio::test(flavor = "multi_thread")]
async fn lock_released_at_the_old_primary_is_free_at_the_new_primary() {
    // given a hundred names, each of which a task acquires and releases repeatedly
    let redis = Sentinels::start();
    let (client, enough) = (client(&redis).await, Arc::new(AtomicBool::new(false)));
    let lock = |number| client.lock(format!("door-{number}")).unwrap();
    let comes = |number| tokio::spawn(acquires_and_releases(lock(number), Arc::clone(&enough)));
    let all: Vec<_> = (0..100).map(comes).collect();
    sleep(secs(2)).await;

    // when a primary that works is replaced, and the client is no longer connected to this primary
    let old = redis.master();
    redis.fail_over();
    until_left(old);
    sleep(secs(1)).await;
    enough.store(true, Ordering::Relaxed);

    // then no task has had to wait until a lease ended
    for it in all {
        within(SOON, "the task stops", it).await.unwrap();
    }
}

/// Releases a lock that all replicas have. The primary dies before any replica has received the
/// release.
async fn loses_a_release(redis: &Sentinels, lock: leasehold::Lock) {
    let guard = lock.acquire().await.unwrap();
    until_replicated(redis);
    ["redis-1", "redis-2"].iter().for_each(|replica| redis.links().cut("redis-0", replica));
    release_guard(guard).await;
    redis.servers()[0].stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn release_lost_by_a_failover_is_repeated() {
    let redis = Sentinels::options().links().impatient().start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    loses_a_release(&redis, one.lock("door").unwrap().ttl(secs(300))).await;

    // then another client acquires long before the lease ends
    release_guard(acquired(&other, "door").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_release_of_a_dead_client_blocks_others_until_lease_end() {
    let redis = Sentinels::options().links().impatient().start();
    let (one, other) = (client(&redis).await, client(&redis).await);
    let began = Instant::now();
    loses_a_release(&redis, one.lock("door").unwrap().ttl(secs(12))).await;
    drop(one);

    // then another client acquires when the lease ends
    release_guard(acquired(&other, "door").await).await;
    assert!(began.elapsed() > secs(11), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_may_undo_latch_counts_and_permit_releases() {
    // given an opened latch and a released permit, but replicas that have received neither change
    let redis = Sentinels::options().links().impatient().start();
    let client = client(&redis).await;
    let (latch, pool) = (client.latch("start").unwrap(), client.semaphore("pool").unwrap());
    latch.set(1).await.unwrap();
    pool.set_if_absent(1).await.unwrap();
    let permit = pool.acquire(1).await.unwrap();
    until_replicated(&redis);
    ["redis-1", "redis-2"].iter().for_each(|replica| redis.links().cut("redis-0", replica));
    latch.count_down().await.unwrap();
    latch.wait_within(SOON).await.unwrap();
    permit.release().await.unwrap().into_result().unwrap();

    // when the primary dies, then the new primary has the latch and the permit as before the
    // changes
    redis.servers()[0].stop();
    let answers = async {
        while latch.count().await.is_err() {
            sleep(ms(50)).await;
        }
    };
    within(FAILOVER, "the new primary replies", answers).await;
    assert!(latch.wait_within(secs(2)).await.unwrap_err().is_busy());
    assert_eq!((latch.count().await.unwrap(), pool.available().await.unwrap()), (1, 0));

    // a client must repeat both changes
    latch.count_down().await.unwrap();
    latch.wait_within(SOON).await.unwrap();
    pool.add(1).await.unwrap();
    pool.acquire_within(1, SOON).await.unwrap().release().await.unwrap().into_result().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_within_ends_in_time_despite_a_long_failover() {
    let redis = Sentinels::options().down_after(secs(20)).start();
    let client = client(&redis).await;
    redis.master().pause();
    let began = Instant::now();
    let error = client.lock("door").unwrap().acquire_within(secs(1)).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(began.elapsed() < secs(3), "{:?}", began.elapsed());
}

/// Returns the time from `+switch-master` to the first grant of the new primary.
async fn first_grant(redis: &Arc<Sentinels>, client: &Client, killed: bool) -> std::time::Duration {
    let (number, events) = (redis.master_number(), redis.listen());
    let watched = Arc::clone(redis);
    let failover = spawn_blocking(move || match killed {
        true => watched.servers()[number].stop(),
        false => _ = watched.fail_over(),
    });
    let old = redis.servers()[number].port().to_string();
    // The sentinel that led the previous failover may report the end of that failover only now.
    // Such an event is not about the current failover, so the loop skips it.
    let received = spawn_blocking(move || {
        loop {
            let received = events.wait_for("+switch-master", FAILOVER);
            if received.text.split(' ').nth(2) == Some(&old) {
                return received;
            }
        }
    });
    let received = received.await.unwrap();
    let new = received.text.rsplit(' ').next().and_then(|port| port.parse().ok());
    let new = redis.servers().iter().find(|it| Some(it.port()) == new).unwrap();
    let took = loop {
        // The new primary may not have received the last release at the old primary. So each try
        // uses another name.
        let name = format!("door-{}", client.stats().granted);
        let guard = acquired(client, &name).await;
        let took = Instant::now() - Instant::from_std(received.at);
        if has(new, &name) {
            break took;
        }
        drop(guard);
    };
    failover.await.unwrap();
    took
}

fn is_master(redis: &Redis) -> bool {
    redis.command(&["ROLE"]).list()[0].text() == "master"
}

fn has(redis: &Redis, name: &str) -> bool {
    redis.command(&["EXISTS", name]).number() == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn new_primary_grants_soon_after_each_of_ten_switches() {
    // The test needs four replicas, because a demoted server can be promoted again only after ten
    // seconds.
    let redis = Arc::new(Sentinels::options().replicas(4).impatient().start());
    let client = client(&redis).await;
    let mut took = Vec::new();
    for round in 0..10 {
        redis.wait_until_agreed();
        let (killed, number) = (round % 3 == 2, redis.master_number());
        took.push(first_grant(&redis, &client, killed).await);
        if killed {
            redis.servers()[number].start_again();
        }
    }
    took.sort();
    println!("from +switch-master to the first grant: {took:?}");
    // On an idle machine, the median and the maximum are a tenth of these limits.
    assert!(took[5] <= ms(1_000), "median of {took:?}");
    assert!(took[9] <= secs(3), "worst of {took:?}");
}

// Unsuitable sentinels.

#[tokio::test(flavor = "multi_thread")]
async fn dead_or_hanging_sentinel_delays_no_call() {
    let redis = Sentinels::options().replicas(1).start();
    redis.sentinels()[0].stop();
    redis.sentinels()[1].pause();
    let began = Instant::now();
    let client = client(&redis).await;
    assert!(began.elapsed() < secs(2), "{:?}", began.elapsed());
    release_guard(acquired(&client, "door").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_asks_sentinels_that_other_sentinels_announce() {
    // given a client that knows only one sentinel, which has died
    let redis = Sentinels::options().impatient().start();
    let one = format!("redis-sentinel://{}/{}", redis.addresses()[0], redis.name());
    let client = Client::connect(&one).await.unwrap();
    let asked = |it: &Redis| !ours(it).is_empty();
    eventually("the client is connected to all sentinels", SOON, || {
        redis.sentinels().iter().all(asked)
    });
    redis.sentinels()[0].stop();

    // when the primary is replaced
    redis.master().stop();
    let new = redis.wait_for_master_other_than(0);

    // then the client uses the new primary
    let guard = acquired(&client, "door").await;
    assert!(has(new, "door"));
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_sentinels_stop_no_call_while_the_primary_runs() {
    let redis = Sentinels::options().replicas(1).start();
    let client = client(&redis).await;
    let guard = acquired(&client, "door").await;
    redis.sentinels().iter().for_each(Redis::stop);
    let master = &redis.servers()[0];

    // The client uses its primary, and reconnects to it at the same address when its connections
    // are lost.
    release_guard(acquired(&client, "window").await).await;
    master.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    master.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    eventually("both connections are restored", SOON, || client.stats().reconnects == 2);
    release_guard(acquired(&client, "window").await).await;
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_sentinels_stop_no_call_while_the_primary_runs() {
    let redis = Sentinels::options().replicas(1).start();
    let client = client(&redis).await;
    redis.sentinels().iter().for_each(Redis::pause);
    let master = &redis.servers()[0];
    master.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    master.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    eventually("both connections are restored", SOON, || client.stats().reconnects == 2);
    release_guard(acquired(&client, "door").await).await;
}

#[tokio::test]
async fn sentinel_of_another_primary_misleads_no_client() {
    // given addresses of a sentinel that watches another primary with the same name, and of a
    // server that is not a sentinel
    let redis = Sentinels::options().replicas(1).start();
    let other = Sentinels::options().replicas(0).sentinels(1).start();
    let plain = Redis::start();
    let wrong = format!("127.0.0.1:{},{}", plain.port(), other.addresses()[0]);
    let url = redis.url().replace("://", &format!("://{wrong},"));
    let (log, _logs) = Log::begin();

    let client = Client::connect(&url).await.unwrap();
    let guard = acquired(&client, "door").await;
    assert!(has(redis.master(), "door"));
    assert!(ours(other.master()).is_empty());
    release_guard(guard).await;
    comes_true("the client logs that the server is not a Sentinel", || {
        log.text().contains("this server is not a Sentinel; use")
    })
    .await;
}

/// Cuts one of three sentinels off, replaces the primary, and waits until no client uses the old
/// primary.
fn fail_over_unseen_by_the_last_sentinel(redis: &Sentinels) {
    let others = redis.links().names();
    let others = others.iter().filter(|it| *it != "sentinel-2");
    others.for_each(|other| redis.links().cut("sentinel-2", other));
    let begins = || redis.sentinels()[0].command(&["SENTINEL", "FAILOVER", redis.name()]);
    eventually("the failover begins", FAILOVER, || !begins().is_error());
    let has_received = |sentinel| redis.master_seen_by(sentinel).is_some_and(|it| it != 0);
    eventually("the other sentinels know the new primary", FAILOVER, || {
        has_received(0) && has_received(1)
    });
    until_left(&redis.servers()[0]);
    assert_eq!(redis.master_seen_by(2), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn outdated_sentinel_redirects_no_client_to_old_primary() {
    // given a client, and a sentinel that will be cut off from the other two sentinels
    let redis = Sentinels::options().links().start();
    let before = client(&redis).await;

    // when the other two sentinels replace the primary, which still takes writes
    fail_over_unseen_by_the_last_sentinel(&redis);

    // then no client uses the old primary, although one sentinel names it each second
    for name in ["one", "two", "three"] {
        release_guard(acquired(&before, name).await).await;
        release_guard(acquired(&client(&redis).await, name).await).await;
        sleep(ms(500)).await;
        assert!(ours(&redis.servers()[0]).is_empty());
    }
    assert_eq!(before.stats().reconnects, 2);
}

/// The URL has host names of sentinels, but sentinels announce addresses. Former bug: each sentinel
/// therefore counted twice. The sentinel that had missed the failover led the client back to the
/// old primary.
#[tokio::test(flavor = "multi_thread")]
async fn stale_sentinel_with_two_addresses_is_ignored() {
    let redis = Sentinels::options().links().start();
    let by_names = redis.url().replace("127.0.0.1", "localhost");
    let (by_names, by_addresses) =
        (Client::connect(&by_names).await.unwrap(), client(&redis).await);
    sleep(secs(3)).await;
    fail_over_unseen_by_the_last_sentinel(&redis);
    let names = redis.links().names();
    let old = names.iter().find(|it| it.ends_with("-0") && !it.starts_with("sentinel")).unwrap();
    ["sentinel-0", "sentinel-1"].iter().for_each(|it| redis.links().cut(it, old));
    redis.servers()[0].command(&["REPLICAOF", "NO", "ONE"]);
    let guard = acquired(&by_addresses, "door").await;
    assert!(by_names.lock("door").unwrap().try_acquire().await.unwrap().is_none());
    ["sentinel-0", "sentinel-1"].iter().for_each(|it| redis.links().cut(Links::CLIENTS, it));

    // 12 s are longer than the time for which a reply of a sentinel counts.
    sleep(secs(12)).await;
    let other = by_names.lock("door").unwrap().try_acquire().await;
    assert!(
        !matches!(other, Ok(Some(_))),
        "only one client believes that it holds the lock: {other:?}"
    );
    assert!(ours(&redis.servers()[0]).is_empty());
    assert!(guard.is_held());
}

/// Former bug: after ten seconds, the clients trusted the only sentinel that they reached, and
/// closed their connections to a primary that worked. Two clients then held one lock.
#[tokio::test(flavor = "multi_thread")]
async fn client_keeps_the_new_primary_when_a_stale_sentinel_is_alone() {
    // given a client whose URL has all sentinels, and a client whose URL has only the sentinel that
    // misses a failover
    let redis = Sentinels::options().links().start();
    let last = format!("redis-sentinel://{}/{}", redis.addresses()[2], redis.name());
    let (one, other) = (client(&redis).await, Client::connect(&last).await.unwrap());
    eventually("both clients are connected to all sentinels", SOON, || {
        redis.sentinels().iter().all(|it| ours(it).len() == 2)
    });
    fail_over_unseen_by_the_last_sentinel(&redis);
    let guards = [acquired(&one, "one").await, acquired(&other, "other").await];

    // when the clients reach only the sentinel that missed the failover, until the last replies of
    // the other two sentinels are no longer valid
    ["sentinel-0", "sentinel-1"].iter().for_each(|it| redis.links().cut(Links::CLIENTS, it));
    sleep(secs(11)).await;

    // then both clients stay at the new primary
    assert!(ours(&redis.servers()[0]).is_empty());
    assert_eq!([one.stats().reconnects, other.stats().reconnects], [2, 2]);
    assert!(guards.iter().all(LockGuard::is_held));
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_a_primary_that_the_sentinels_do_not_know() {
    let redis = Sentinels::options().replicas(0).sentinels(2).start();
    let url = redis.url().replace("mymaster", "yours");
    let (words, lasting) = refusal(Client::builder(), &url).await;
    assert!(words.contains("this sentinel does not watch a primary named `yours`"), "{words}");
    assert!(redis.addresses().iter().all(|it| words.contains(it)) && lasting, "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_named_as_primary_is_unavailable_until_promoted() {
    // given a primary that was demoted by hand, and sentinels that have not noticed this
    let redis = Sentinels::options().replicas(1).down_after(secs(60)).start();
    let [master, replica] = redis.servers() else { panic!() };
    let client = client(&redis).await;
    let port = replica.port().to_string();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    master.command(&["REPLICAOF", "127.0.0.1", &port]);

    // then no client accepts this server as a primary, and the error gives the reason
    let (words, lasting) = refusal(Client::builder(), &redis.url()).await;
    assert!(words.contains("this server is a replica") && !lasting, "{words}");
    let lock = client.lock("door").unwrap();
    let error = lock.acquire_within(secs(1)).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let waiting = waiter(lock);

    // and when the server is a primary again, the clients use it
    master.command(&["REPLICAOF", "NO", "ONE"]);
    release_guard(entered(waiting).await).await;
}

// Passwords, permissions and TLS.

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_get_only_their_own_password() {
    let server = Redis::options().password("theirs");
    let sentinel = Redis::options().password("eyes");
    let redis = Sentinels::options().replicas(1).server_options(server).sentinel_options(sentinel);
    let redis = redis.start();
    let plain = redis.url();
    let with_password = plain.replace("://", "://:theirs@");

    let (words, lasting) = refusal(Client::builder(), &with_password).await;
    assert!(words.contains("NOAUTH") && words.contains("sentinel_password") && lasting, "{words}");
    let wrong = Client::builder().sentinel_password("theirs");
    let (words, lasting) = refusal(wrong, &with_password).await;
    assert!(words.contains("WRONGPASS") && lasting && !words.contains("theirs"), "{words}");
    assert!(words.contains("check sentinel_password and sentinel_username"), "{words}");
    let right = Client::builder().sentinel_password("eyes");
    let (words, lasting) = refusal(right.clone(), &plain).await;
    assert!(words.contains("a password is required") && lasting, "{words}");

    let master = redis.master();
    let client = right.connect(&with_password).await.unwrap();
    release_guard(acquired(&client, "door").await).await;
    let in_url = format!("{with_password}?sentinel_password=eyes");
    let client = Client::connect(&in_url).await.unwrap();
    release_guard(acquired(&client, "door").await).await;
    assert!(!ours(master).is_empty());
}

/// A server does not reveal to a rejected client whether the server is a sentinel. Former bug: the
/// error was only `WRONGPASS`.
#[tokio::test]
async fn login_error_says_that_the_server_may_not_be_a_sentinel() {
    let plain = Redis::options().password("theirs").start();
    let url = format!("redis-sentinel://127.0.0.1:{}/mymaster", plain.port());
    for builder in [Client::builder(), Client::builder().sentinel_credentials("eye", "eyes")] {
        let (words, lasting) = refusal(builder, &url).await;
        assert!(words.contains("sentinel_password") && lasting, "{words}");
        assert!(
            words.contains("if this server is not a Sentinel, use addresses of sentinels"),
            "{words}"
        );
    }

    // given sentinels at which a client has logged in
    let redis = Sentinels::options().replicas(1).start();
    let (log, _logged) = Log::begin();
    let builder = Client::builder().sentinel_credentials("eye", "secret");
    redis.sentinel_user("eye", &["+@all", "&*"]);
    let _client = builder.connect(&redis.url()).await.unwrap();

    // when the sentinels no longer accept this login
    for sentinel in redis.sentinels() {
        sentinel.command(&["ACL", "DELUSER", "eye"]);
    }
    let (refused, none) = ("sentinel rejected this client", "not a Sentinel");
    comes_true("the client logs three rejections", || log.text().matches(refused).count() == 3)
        .await;
    assert!(!log.text().contains(none), "{}", log.text());
    assert_eq!(log.text().matches("cannot follow a failover").count(), 1, "{}", log.text());
}

/// Former bug: for ten seconds, the client logged only the lost connection, and no remedy.
#[tokio::test]
async fn missing_user_on_the_new_primary_is_logged_with_a_remedy() {
    let redis = Sentinels::options().replicas(1).start();
    redis.master().user("door", &["~*", "&*", "+@all"]);
    let (log, _logged) = Log::begin();
    let builder = Client::builder().credentials("door", "secret");
    let client = builder.connect(&redis.url()).await.unwrap();
    release_guard(acquired(&client, "door").await).await;

    redis.fail_over();
    let is_logged =
        |line: &str| line.contains("connection still lost") && line.contains("WRONGPASS");
    let until_logged = async {
        while !log.text().lines().any(is_logged) {
            sleep(ms(5)).await;
        }
    };
    within(secs(8), "the client logs the rejected login", until_logged).await;
    let advice = "users are not replicated; create the user on every server";
    assert!(log.text().contains(advice), "{}", log.text());
    let error = client.lock("door").unwrap().acquire_within(secs(1)).await.unwrap_err();
    assert!(matches!(&error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("WRONGPASS; an earlier login succeeded"), "{error}");

    // when the user exists, the client acquires
    redis.master().user("door", &["~*", "&*", "+@all"]);
    release_guard(acquired(&client, "door").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_users_have_exactly_the_permissions_a_failover_needs() {
    // given the users of the guide, at the servers and at the sentinels
    let [eye, door] = ["eye", "leasehold"].map(|user| acl_rules_in(GUIDE, user).swap_remove(0));
    let redis = Sentinels::options()
        .server_options(Redis::options().user("leasehold", &door))
        .sentinel_options(Redis::options().user("eye", &eye))
        .start();
    let builder = Client::builder().credentials("leasehold", "secret");
    let as_eye = builder.clone().sentinel_credentials("eye", "secret");
    let client = as_eye.connect(&redis.url()).await.unwrap();
    let guard = acquired(&client, "app:door").await;
    until_replicated(&redis);

    // when the primary is replaced
    let old = redis.master();
    redis.fail_over();
    until_left(old);
    release_guard(guard).await;
    release_guard(acquired(&client, "app:door").await).await;

    // then the sentinels denied no command
    for sentinel in redis.sentinels() {
        let refused = sentinel.command(&["ACL", "LOG"]);
        assert!(refused.list().is_empty(), "{refused:?}");
    }

    // and if one of the permissions is missing, the sentinels deny a command. `HELLO` is an
    // exception, because every user may send it
    let sentinel = &redis.sentinels()[0];
    let one = format!("redis-sentinel://{}/{}", redis.addresses()[0], redis.name());
    for missing in eye.iter().filter(|it| it.starts_with(['+', '&']) && **it != "+hello") {
        let rest: Vec<_> = eye.iter().filter(|it| *it != missing).copied().collect();
        sentinel.user("narrow", &rest);
        let client = builder.clone().sentinel_credentials("narrow", "secret").connect_lazy(&one);
        let refused = || !sentinel.command(&["ACL", "LOG"]).list().is_empty();
        eventually(&format!("the sentinel denies a command without {missing}"), SOON, refused);
        drop(client);
        eventually("the client has disconnected from the sentinel", SOON, || {
            sentinel.command(&["ACL", "LOG", "RESET"]);
            ours(sentinel).iter().all(|line| !line.contains(" user=narrow "))
        });
    }
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn every_connection_uses_tls_and_trusts_one_authority() {
    let tls = || Redis::options().tls();
    let redis = Sentinels::options().replicas(1).server_options(tls()).sentinel_options(tls());
    let redis = redis.start();
    let url = redis.url();
    let trusting = Client::builder().ca_certificates(redis.ca_pem());
    let client = trusting.connect(&url).await.unwrap();
    let old = redis.master();
    redis.fail_over();
    until_left(old);
    release_guard(acquired(&client, "door").await).await;
    for server in redis.servers().iter().chain(redis.sentinels()) {
        let door = format!(" laddr=127.0.0.1:{} ", server.tls_port());
        assert!(ours(server).iter().all(|line| line.contains(&door)), "{:?}", ours(server));
    }

    let other = Redis::options().tls().start();
    let stranger = Client::builder().ca_certificates(other.ca_pem());
    let (words, _) = refusal(stranger, &url).await;
    assert!(words.contains("invalid peer certificate"), "{words}");
    let (words, _) = refusal(Client::builder(), &url.replace("rediss", "redis")).await;
    assert!(words.contains("use TLS on this port"), "{words}");
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn server_without_a_matching_certificate_is_refused() {
    let tls = || Redis::options().tls();
    let redis = Sentinels::options().replicas(1).server_options(tls()).sentinel_options(tls());
    let redis = redis.start();
    let other = tls().start();
    let trusting = || Client::builder().ca_certificates(redis.ca_pem());

    // the client refuses a sentinel whose certificate does not match
    let strange = crate::common::by_another_name(redis.sentinels()[0].tls_port()).await;
    let of_sentinel = format!("rediss-sentinel://{strange}/{}", redis.name());
    let (words, _) = refusal(trusting(), &of_sentinel).await;
    assert!(words.contains("not valid for name"), "{words}");

    // and a primary whose certificate does not match its address, and a primary with a certificate
    // of another authority
    let master = format!("127.0.0.1:{}", redis.announced_port(redis.master_number()));
    let strange = crate::common::by_another_name(redis.master().tls_port()).await;
    for (leads_to, part) in [
        (strange, "not valid for name"),
        (format!("localhost:{}", other.tls_port()), "invalid peer certificate"),
    ] {
        let master = master.clone();
        let leads = move |it: &str| (it == master).then(|| leads_to.clone());
        let url = redis.url();
        let (words, _) = refusal(trusting().translate_addresses(leads), &url).await;
        assert!(words.contains(part), "{part}: {words}");
    }
}

/// Sentinels and servers with certificates of two different authorities.
#[cfg(feature = "tls")]
fn with_two_authorities(sentinels: testkit::Options) -> Sentinels {
    let redis = Sentinels::options().replicas(1).server_options(Redis::options().tls());
    redis.sentinel_options(sentinels).own_authority().start()
}

/// Connects with `builder`, follows a failover, and returns the client, which can acquire locks.
#[cfg(feature = "tls")]
async fn follows(redis: &Sentinels, builder: ClientBuilder, url: &str) -> Client {
    let client = builder.connect(url).await.unwrap();
    let old = redis.master();
    release_guard(acquired(&client, "door").await).await;
    redis.fail_over();
    until_left(old);
    release_guard(acquired(&client, "door").await).await;
    client
}

/// Asserts that there are Leasehold connections to `redis`, and that all of them use this port.
#[cfg(feature = "tls")]
#[track_caller]
fn all_at(redis: &Redis, port: u16) {
    let (door, ours) = (format!(" laddr=127.0.0.1:{port} "), ours(redis));
    assert!(!ours.is_empty() && ours.iter().all(|line| line.contains(&door)), "{ours:?}");
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_may_use_a_separate_authority() {
    let redis = with_two_authorities(Redis::options().tls());
    let url = redis.url();
    let (servers, sentinels) = (redis.ca_pem(), redis.sentinels()[0].ca_pem());
    let trusting = |servers: &str, sentinels: &str| {
        Client::builder().ca_certificates(servers).sentinel_ca_certificates(sentinels)
    };
    let at_sentinel = format!("{}: TLS: invalid peer certificate", redis.addresses()[0]);
    for builder in [
        Client::builder().ca_certificates(servers.clone()),
        trusting(&servers, &servers),
        trusting(&sentinels, &servers),
    ] {
        let (words, _) = refusal(builder, &url).await;
        assert!(words.contains(&at_sentinel), "{words}");
        assert!(
            words.contains("set sentinel_ca_certificates to the authority of the sentinels"),
            "{words}"
        );
    }
    let master = redis.announced_port(redis.master_number());
    let at_master = format!("127.0.0.1:{master}: TLS: invalid peer certificate");
    let (words, _) = refusal(trusting(&sentinels, &sentinels), &url).await;
    assert!(words.contains(&at_master), "{words}");
    assert!(words.contains("set ca_certificates to the authority of the server"), "{words}");

    let _client = follows(&redis, trusting(&servers, &sentinels), &url).await;
    all_at(redis.master(), redis.master().tls_port());
    redis.sentinels().iter().for_each(|sentinel| all_at(sentinel, sentinel.tls_port()));
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_get_their_own_client_certificate() {
    let redis = with_two_authorities(Redis::options().tls_with_client_auth());
    let (url, sentinel) = (redis.url(), &redis.sentinels()[0]);
    let other = Redis::options().tls().start();
    let none = || {
        let builder = Client::builder().ca_certificates(redis.ca_pem());
        builder.sentinel_ca_certificates(sentinel.ca_pem())
    };
    let wrong = || none().client_certificate(other.client_cert_pem(), other.client_key_pem());
    let (words, _) = refusal(none(), &url).await;
    assert!(words.contains("set sentinel_client_certificate"), "{words}");
    let (words, _) = refusal(wrong(), &url).await;
    assert!(words.contains(&format!("{}: ", redis.addresses()[0])), "{words}");

    let (certificate, key) = (sentinel.client_cert_pem(), sentinel.client_key_pem());
    let right = wrong().sentinel_client_certificate(certificate, key.clone());
    let mut shown = format!("{right:?}");
    let client = follows(&redis, right, &url).await;
    shown += &format!("{client:?}");
    let bytes = format!("{:?}", key.as_bytes());
    let line = key.lines().nth(1).unwrap();
    assert!(!shown.contains(bytes.trim_matches(['[', ']'])) && !shown.contains(line), "{shown}");
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn plain_sentinels_may_lead_to_servers_with_tls() {
    let tls = || Redis::options().tls();
    let redis = Sentinels::options().replicas(1).server_options(tls()).sentinel_options(tls());
    let redis = redis.start();
    let ports = redis.sentinels().iter().map(|it| format!("127.0.0.1:{}", it.port()));
    let ports = ports.collect::<Vec<_>>().join(",");
    let url = format!("rediss-sentinel://{ports}/{}", redis.name());
    let trusting = || Client::builder().ca_certificates(redis.ca_pem());
    let (words, _) = refusal(trusting(), &url).await;
    assert!(words.contains("TLS"), "{words}");
    let _client = follows(&redis, trusting().sentinel_tls(false), &url).await;
    all_at(redis.master(), redis.master().tls_port());
    redis.sentinels().iter().for_each(|sentinel| all_at(sentinel, sentinel.port()));

    // If a client sets certificate authorities for sentinels, it does not connect to sentinels
    // without TLS.
    let (certificate, key) =
        (redis.servers()[0].client_cert_pem(), redis.servers()[0].client_key_pem());
    for builder in [
        trusting().sentinel_tls(false).sentinel_ca_certificates(redis.ca_pem()),
        trusting().sentinel_tls(false).sentinel_client_certificate(certificate, key),
    ] {
        let (words, lasting) = refusal(builder, &url).await;
        assert!(lasting && words.contains("the sentinels use no TLS"), "{words}");
    }
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_with_tls_lead_to_plain_servers() {
    let redis = Sentinels::options().replicas(1).sentinel_options(Redis::options().tls()).start();
    let (words, _) = refusal(Client::builder(), &redis.url()).await;
    assert!(words.contains("use TLS on this port; check sentinel_tls"), "{words}");
    let trusting = Client::builder().sentinel_ca_certificates(redis.sentinels()[0].ca_pem());
    let (words, lasting) = refusal(trusting.clone(), &redis.url()).await;
    assert!(lasting && words.contains("set sentinel_tls"), "{words}");
    let _client = follows(&redis, trusting.sentinel_tls(true), &redis.url()).await;
    redis.sentinels().iter().for_each(|sentinel| all_at(sentinel, sentinel.tls_port()));
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn error_names_unusable_certificate_settings_of_the_sentinels() {
    let (one, other) = (Redis::options().tls().start(), Redis::options().tls().start());
    let trusting = || Client::builder().ca_certificates(one.ca_pem());
    let (certificate, key) = (one.client_cert_pem(), other.client_key_pem());
    for (builder, part) in [
        (
            trusting().sentinel_ca_certificates("x"),
            "settings of the sentinels: the CA certificates",
        ),
        (
            trusting().sentinel_client_certificate("x", "y"),
            "settings of the sentinels: the client cert",
        ),
        (
            trusting().sentinel_client_certificate(certificate, key),
            "settings of the sentinels: client cert",
        ),
    ] {
        let (words, lasting) = refusal(builder, "rediss-sentinel://127.0.0.1:1/mymaster").await;
        assert!(lasting && words.contains(part), "{part}: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_debug_output_with_sentinels_show_no_password() {
    const SECRET: &str = "hunter2";
    let locked = || Redis::options().password(SECRET);
    let redis =
        Sentinels::options().replicas(1).server_options(locked()).sentinel_options(locked());
    let redis = redis.start();
    let plain = redis.url().replace("://", &format!("://:{SECRET}@"));
    let client = Client::connect(&format!("{plain}?sentinel_password={SECRET}")).await.unwrap();
    let guard = acquired(&client, "door").await;
    let mut shown = format!("{client:?} {guard:?} {:?}", client.health().await);
    for wrong in [
        format!("{plain}?sentinel_password={SECRET}-no"),
        format!("{}?sentinel_password={SECRET}", plain.replace(SECRET, "hunter2-no")),
        format!("{plain}?sentinel_pass={SECRET}"),
    ] {
        let refused = Client::builder().connect_timeout(secs(3)).connect(&wrong).await.unwrap_err();
        shown += &format!(" {refused} {refused:?}");
    }
    let builder = Client::builder().sentinel_credentials("eye", SECRET);
    shown += &format!(" {builder:?}");
    assert!(!shown.contains(SECRET), "{shown}");
    release_guard(guard).await;
}

// Address translation and cut networks.

#[tokio::test(flavor = "multi_thread")]
async fn announced_addresses_are_translated_but_not_those_in_the_url() {
    // given servers that are reachable only at other ports than the sentinels report
    let redis = Sentinels::options().replicas(1).start();
    let ways: Vec<_> = redis.servers().iter().map(|it| Proxy::before(it.port())).collect();
    let table = (0..2).map(|it| (redis.announced_port(it), ways[it].port()));
    let table: Vec<_> = table
        .map(|(results, reached)| (format!("127.0.0.1:{results}"), format!("localhost:{reached}")))
        .collect();
    // A translation does not change addresses of the URL. In this test, the translation would make
    // the addresses of the sentinels unreachable.
    let (listed, nowhere) = (redis.addresses(), "127.0.0.1:1".to_owned());
    let builder = Client::builder().translate_addresses(move |it| {
        let known =
            table.iter().find(|(results, _)| results == it).map(|(_, reached)| reached.clone());
        known.or_else(|| listed.iter().any(|listed| listed == it).then(|| nowhere.clone()))
    });

    // when the client connects, and follows a failover
    let client = builder.connect(&redis.url()).await.unwrap();
    assert!(ways[0].connections() > 0);
    let old = redis.master();
    redis.fail_over();
    until_left(old);
    release_guard(acquired(&client, "door").await).await;

    // then the client has reached the second server at its translated port, too
    assert!(ways[1].connections() > 0);
    let (words, _) =
        refusal(Client::builder().translate_addresses(|_| Some("?".into())), &redis.url()).await;
    assert!(words.contains("translate_addresses returned `?` for"), "{words}");
}

/// Former bug: if the server had been killed, the error suggested that its address is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn error_hints_at_translation_only_for_a_never_reached_address() {
    let redis = Sentinels::options().replicas(0).down_after(secs(60)).start();
    let client = client(&redis).await;
    redis.master().stop();
    let (words, _) = refusal(Client::builder(), &redis.url()).await;
    assert!(words.contains("refused") && words.contains("see translate_addresses"), "{words}");
    let is_known = |it: &leasehold::Health| {
        it.unavailable_reason.as_ref().is_some_and(|it| it.contains("connection refused"))
    };
    let health =
        crate::common::healed(&client, SOON, "`health` reports the refused connection", is_known)
            .await;
    let reason = health.unavailable_reason.unwrap();
    assert!(!reason.contains("translate_addresses"), "{reason}");
}

/// The names of all servers and sentinels except the first primary.
fn all_but_the_master(redis: &Sentinels) -> Vec<String> {
    redis.links().names().into_iter().filter(|it| it != "redis-0").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn client_leaves_a_primary_that_is_cut_off_from_sentinels() {
    let redis = Sentinels::options().links().impatient().start();
    let client = client(&redis).await;
    release_guard(acquired(&client, "door").await).await;
    let others = all_but_the_master(&redis);
    let others: Vec<_> = others.iter().map(String::as_str).collect();
    redis.links().split(&["redis-0"], &others);

    let new = redis.wait_for_master_other_than(0);
    let old = &redis.servers()[0];
    until_left(old);
    assert!(is_master(old));
    let guard = acquired(&client, "door").await;
    assert!(has(new, "door") && !has(old, "door"));
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_off_primary_with_min_replicas_refuses_new_locks() {
    // given a primary that rejects writes without a connected replica, and a client with separate
    // links
    let demanding = Redis::options().arg("--min-replicas-to-write", "1");
    let demanding = demanding.arg("--min-replicas-max-lag", "2");
    let redis = Sentinels::options().links().server_options(demanding).impatient().start();
    let doors = redis.links().client("inside");
    let way = move |results: &str| {
        let (host, port) = results.rsplit_once(':')?;
        doors.get(&port.parse().ok()?).map(|own| format!("{host}:{own}"))
    };
    let sentinels: Vec<_> = redis.addresses().iter().filter_map(|it| way(it)).collect();
    let to_inside = format!("redis-sentinel://{}/{}", sentinels.join(","), redis.name());
    let inside = Client::builder().command_timeout(secs(1)).translate_addresses(way);
    let inside = inside.connect(&to_inside).await.unwrap();
    let outside = client(&redis).await;
    release_guard(acquired(&inside, "door").await).await;

    // when the primary and this client are cut off from all other servers and sentinels
    let others = all_but_the_master(&redis);
    let others: Vec<_> = others.iter().map(String::as_str).collect();
    redis.links().split(&["redis-0", "inside"], &others);
    redis.links().black_hole(Links::CLIENTS, "redis-0");
    let new = redis.wait_for_master_other_than(0);

    // then only one side grants the lock, as soon as the old primary has noticed that it has no
    // replica
    let refuses = || redis.servers()[0].command(&["SET", "key", "1"]).is_error();
    eventually("the old primary rejects writes", secs(10), refuses);
    let guard = acquired(&outside, "door").await;
    let error = inside.lock("door").unwrap().acquire_within(secs(2)).await.unwrap_err();
    let refused = matches!(&error, Error::NotReady { code, .. } if code == "NOREPLICAS");
    assert!(refused, "{error:?}");

    // and when the links work again, both clients use the same lock
    redis.links().heal_all();
    let waiting = waiter(inside.lock("door").unwrap());
    until_subscribed(new, &channel("door"));
    assert!(!waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn primary_cut_off_from_the_client_is_found_again() {
    let redis = Sentinels::options().replicas(1).links().start();
    let client = client(&redis).await;
    let guard = acquired(&client, "door").await;
    redis.links().cut(Links::CLIENTS, "redis-0");
    let lock = client.lock("window").unwrap();
    let error = lock.acquire_within(secs(1)).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    redis.links().heal(Links::CLIENTS, "redis-0");
    release_guard(guard).await;
    release_guard(acquired(&client, "window").await).await;
}
