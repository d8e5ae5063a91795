//! The cost of operations at Redis, as Redis counts them. A test fails if the server executes a
//! command that the test does not expect.

use crate::common::{
    POLLING, SOON, channel, client, comes_true, entered, hold_by_hand, keys, ms, release_guard,
    secs, subscribers, waiter, within,
};
use futures_util::future::join_all;
use leasehold::{Client, Lock, LockGuard};
use testkit::{Calls, Connection, Redis, eventually};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

/// A server, a lock, and the client of the lock. The client has already used all of its scripts and
/// connections.
struct Setup {
    redis: Redis,
    client: Client,
    lock: Lock,
}

impl Setup {
    async fn new() -> Self {
        let redis = Redis::start();
        let client = client(&redis).await;
        let lock = client.lock("door").unwrap();
        Self { redis, client, lock }
    }

    /// Returns the names of the commands that clients sent while `act` ran. Commands that scripts
    /// call do not count.
    async fn sent_during<T>(&self, act: impl Future<Output = T>) -> (Vec<String>, T) {
        let monitor = self.redis.monitor();
        let done = act.await;
        let lines = monitor.stop();
        let sent = lines.iter().filter(|line| !line.contains(" lua] "));
        (sent.map(|line| command(line)).collect(), done)
    }

    async fn held(&self) -> LockGuard {
        self.lock.acquire().await.unwrap()
    }
}

/// How many times the server has read from a connection. Closing a connection also counts as a
/// read, some time later. So all counts of a test use the same `connection`.
fn reads(connection: &mut Connection) -> u64 {
    let info = connection.command(&["INFO", "stats"]);
    let reads = info.text().lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
    reads.expect("the server counts its reads").parse().unwrap()
}

/// Returns `"EVALSHA"` for `1700000000.000000 [0 127.0.0.1:50000] "EVALSHA" "…"`.
fn command(line: &str) -> String {
    let (_, words) = line.split_once("] ").expect("a line of MONITOR has an address");
    words.split(' ').next().unwrap_or_default().trim_matches('"').to_owned()
}

/// The commands of a short hold for which no client waits.
const PAIR: [&str; 3] = ["EVALSHA", "HDEL", "PUBLISH"];

fn of(calls: &Calls, commands: &[&str]) -> Vec<u64> {
    commands.iter().map(|command| calls.of(command)).collect()
}

// One operation, one command.

#[tokio::test(flavor = "multi_thread")]
async fn uncontended_acquire_is_one_evalsha() {
    let t = Setup::new().await;
    let before = t.redis.calls();
    let (sent, guard) = t.sent_during(t.held()).await;
    assert_eq!(sent, ["EVALSHA"]);

    // and the script calls three commands: one checks, one writes, one sets the TTL
    let calls = t.redis.calls().since(&before);
    assert_eq!(of(&calls, &["evalsha", "pttl", "hset", "pexpire"]), [1, 1, 1, 1], "{calls}");
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_is_two_plain_commands() {
    let t = Setup::new().await;
    let before = t.redis.calls();
    let (sent, ()) = t.sent_during(async { release_guard(t.held().await).await }).await;
    assert_eq!(sent, PAIR);

    let calls = t.redis.calls().since(&before);
    assert_eq!(of(&calls, &["evalsha", "hdel", "publish"]), [1, 1, 1], "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_commands_of_a_release_are_one_write() {
    // given a server that has read everything that clients sent before
    let t = Setup::new().await;
    let mut connection = Connection::open(t.redis.port());
    let guard = t.held().await;
    let before = reads(&mut connection);

    // when a lock is released, then the server reads both commands at once, and then the request
    // for this count
    release_guard(guard).await;
    assert_eq!(reads(&mut connection) - before, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_acquisitions_and_releases_send_no_extra_commands() {
    let t = Setup::new().await;
    let (sent, ()) = t
        .sent_during(async {
            for _ in 0..100 {
                release_guard(t.held().await).await;
            }
        })
        .await;
    assert_eq!(sent, PAIR.repeat(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn uncontended_acquire_and_release_run_six_commands() {
    let t = Setup::new().await;
    let monitor = t.redis.monitor();
    release_guard(t.held().await).await;
    let commands: Vec<_> = monitor.stop().iter().map(|line| command(line)).collect();
    let all = ["EVALSHA", "PTTL", "HSET", "PEXPIRE", "HDEL", "PUBLISH"];
    assert_eq!(commands, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn try_acquire_is_one_evalsha_for_free_and_held_locks() {
    let t = Setup::new().await;
    let (sent, guard) = t.sent_during(t.lock.try_acquire()).await;
    assert_eq!(sent, ["EVALSHA"]);
    release_guard(guard.unwrap().expect("the lock is free")).await;

    hold_by_hand(&t.redis, "door", "java:1", secs(20));
    let (sent, guard) = t.sent_during(t.lock.try_acquire()).await;
    assert_eq!(sent, ["EVALSHA"]);
    assert!(guard.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn reentry_is_one_evalsha_and_its_release_is_one_evalsha() {
    let t = Setup::new().await;
    let guard = t.held().await;
    let (sent, again) = t.sent_during(guard.reenter()).await;
    assert_eq!(sent, ["EVALSHA"]);
    let (sent, _) = t.sent_during(again.unwrap().release()).await;
    assert_eq!(sent, ["EVALSHA"]);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_guard_sends_the_same_commands_as_a_release() {
    let t = Setup::new().await;
    let (sent, ()) = t
        .sent_during(async {
            drop(t.held().await);
            eventually("the lock is released", SOON, || t.redis.calls().of("publish") == 1);
        })
        .await;
    assert_eq!(sent, PAIR);
}

#[tokio::test(flavor = "multi_thread")]
async fn lookup_of_the_holder_is_one_command() {
    let t = Setup::new().await;
    let guard = t.held().await;
    let (sent, _) = t.sent_during(t.lock.holder()).await;
    assert_eq!(sent, ["EVALSHA"]);
    let (sent, _) = t.sent_during(t.lock.held_by(guard.owner())).await;
    assert_eq!(sent, ["HGET"]);
    let (sent, _) = t.sent_during(t.lock.force_release()).await;
    assert_eq!(sent, ["EVALSHA"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn guard_check_sends_no_request() {
    let t = Setup::new().await;
    let guard = t.held().await;
    let (sent, held) = t
        .sent_during(async { guard.is_held() && guard.remaining().is_some() && guard.count() == 1 })
        .await;
    assert!(sent.is_empty(), "{sent:?}");
    assert!(held);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_client_sends_nothing() {
    let t = Setup::new().await;
    release_guard(t.held().await).await;
    // The time of 6 s is longer than any timer of an idle client.
    let (sent, ()) = t.sent_during(sleep(secs(6))).await;
    assert!(sent.is_empty(), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_sent_once_per_connection_and_not_with_each_call() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let connected = redis.calls();
    assert!(connected.of("script|load") > 0);
    for _ in 0..10 {
        release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    }
    let calls = redis.calls().since(&connected);
    assert_eq!(of(&calls, &["script", "eval"]), [0, 0], "{calls}");
}

// Renewal.

#[tokio::test(flavor = "multi_thread")]
async fn hundred_locks_are_renewed_by_one_evalsha() {
    // given a hundred locks that were acquired together
    let t = Setup::new().await;
    let locks: Vec<_> =
        (0..100).map(|n| t.client.lock(format!("door-{n}")).unwrap().ttl(secs(6))).collect();
    let guards = join_all(locks.iter().map(Lock::acquire)).await;
    let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
    let before = t.redis.calls();

    // when each lock has been renewed twice
    let renewed = || t.client.stats().renewals;
    eventually("each lock is renewed twice", secs(15), || renewed() >= 200);

    // then two commands have renewed all locks
    let calls = t.redis.calls().since(&before);
    assert_eq!(of(&calls, &["evalsha", "pexpire"]), [2, 200], "{calls}");
    drop(guards);
    eventually("all locks are free", SOON, || keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_is_sent_each_third_of_the_ttl() {
    let t = Setup::new().await;
    let guard = t.lock.clone().ttl(secs(3)).acquire().await.unwrap();
    let before = t.redis.calls();
    sleep(ms(4_500)).await;
    let calls = t.redis.calls().since(&before);
    // The renewals are due after 1, 2, 3 and 4 s. On a busy machine, the last one may come too late
    // to count.
    assert!((3..=4).contains(&calls.of("pexpire")), "{calls}");
    assert_eq!(calls.of("evalsha"), calls.of("pexpire"), "{calls}");
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fixed_lease_sends_no_renewal() {
    let t = Setup::new().await;
    let guard = t.lock.clone().lease(secs(2)).acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    let before = t.redis.calls();
    guard.lost().await;

    let calls = t.redis.calls().since(&before);
    assert_eq!(calls.of("pexpire"), 0, "{calls}");
    assert!(
        calls.of("evalsha") <= 2,
        "the client checks the hold once per third of the lease: {calls}"
    );
    drop((guard, again));
}

// Waiting.

/// How many tasks wait for one lock.
const CROWD: usize = 1_000;

impl Setup {
    /// Starts many tasks that wait for a lock that another client holds. Each task releases the
    /// lock as soon as it has acquired it.
    async fn crowd(&self) -> Vec<JoinHandle<()>> {
        hold_by_hand(&self.redis, "door", "java:1", secs(600));
        let crowd = (0..CROWD).map(|_| {
            let lock = self.lock.clone();
            tokio::spawn(async move { release_guard(lock.acquire().await.unwrap()).await })
        });
        let crowd = crowd.collect();
        eventually("all tasks wait", SOON, || self.client.stats().waiting == CROWD as u64);
        eventually("one connection is subscribed", SOON, || {
            subscribers(&self.redis, &channel("door")) == 1
        });
        crowd
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_local_waiters_share_one_subscription() {
    let t = Setup::new().await;
    let before = t.redis.calls();
    let crowd = t.crowd().await;
    sleep(secs(5)).await;
    let calls = t.redis.calls().since(&before);

    // Only one task sends requests: when it begins to wait, when it is subscribed and has its queue
    // entry, and a quarter of a second later. After at least 2.25 s, it sends another request, in
    // case a message was lost. In the few seconds of this test, these are at most 5 requests, or 6
    // if the machine is very busy. One command subscribes to all channels.
    assert_eq!(calls.of("subscribe"), 1, "{calls}");
    assert!((3..=6).contains(&calls.of("evalsha")), "{calls}");
    crowd.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_leaving_waiters_leave_no_key() {
    let t = Setup::new().await;
    let crowd = t.crowd().await;
    crowd.iter().for_each(JoinHandle::abort);
    join_all(crowd).await;

    assert_eq!(t.client.stats().waiting, 0);
    eventually("no client is subscribed", SOON, || {
        t.redis.command(&["PUBSUB", "CHANNELS", "*_lock__*"]).list().is_empty()
    });
    assert_eq!(keys(&t.redis), ["door"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_local_waiters_cost_few_commands() {
    // given many waiting tasks
    let t = Setup::new().await;
    let crowd = t.crowd().await;
    let before = t.redis.calls();

    // when the lock is released
    t.redis.command(&["DEL", "door"]);
    t.redis.command(&["PUBLISH", &channel("door"), "0"]);
    let entered = within(secs(60), "all waiters acquire", join_all(crowd)).await;
    entered.into_iter().for_each(Result::unwrap);

    // then the tasks handed the lock off among themselves. The client released it only every ten
    // milliseconds. In ten milliseconds, many tasks hold the lock, even on a slow machine
    let calls = t.redis.calls().since(&before);
    assert!(calls.of("evalsha") <= CROWD as u64 / 5, "{calls}");
    assert_eq!(of(&calls, &["subscribe"]), [0], "{calls}");
    assert!(t.client.stats().handed_off >= CROWD as u64 * 4 / 5, "{:?}", t.client.stats());

    // and no hold and no waiter is left
    let stats = t.client.stats();
    assert_eq!((stats.held, stats.waiting, stats.granted), (0, 0, CROWD as u64));
    eventually("no client is subscribed", SOON, || {
        t.redis.command(&["PUBSUB", "CHANNELS", "*_lock__*"]).list().is_empty()
    });
    assert!(keys(&t.redis).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_waits_subscribe_once_per_name() {
    let t = Setup::new().await;
    let before = t.redis.calls();
    let waiting: Vec<_> = (0..20)
        .map(|n| {
            let name = format!("door-{n}");
            hold_by_hand(&t.redis, &name, "java:1", secs(600));
            (waiter(t.client.lock(&name).unwrap()), name)
        })
        .collect();
    for (_, name) in &waiting {
        eventually("the waiter is subscribed", SOON, || subscribers(&t.redis, &channel(name)) == 1);
    }
    for (waiting, name) in waiting {
        crate::common::release_by_hand(&t.redis, &name);
        release_guard(entered(waiting).await).await;
    }
    eventually("no client is subscribed", SOON, || {
        t.redis.command(&["PUBSUB", "CHANNELS", "*_lock__*"]).list().is_empty()
    });
    let calls = t.redis.calls().since(&before);
    assert_eq!(calls.of("subscribe"), 20, "{calls}");
    // One command unsubscribes from the channels of all waits that end together.
    assert!(calls.of("unsubscribe") <= 20, "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_waiter_asks_at_its_interval_and_never_subscribes() {
    // given pauses that grow from 5 ms to 50 ms, with a jitter of a quarter
    let t = Setup::new().await;
    hold_by_hand(&t.redis, "door", "java:1", secs(600));
    let before = t.redis.calls();
    let waiting = waiter(t.lock.clone().wait_strategy(POLLING));
    sleep(secs(2)).await;
    let calls = t.redis.calls().since(&before);

    // then there are at most as many requests as the shortest pauses allow: one at first, 4 while
    // the pauses grow, and then one each 37.5 ms for 2 s. On a busy machine, there are far fewer
    // requests
    assert!((5..=5 + 2_000 / 37).contains(&calls.of("evalsha")), "{calls}");
    assert_eq!(calls.of("subscribe"), 0, "{calls}");
    waiting.abort();
}

// Acquiring in turn.

#[tokio::test(flavor = "multi_thread")]
async fn each_hold_of_alternating_clients_costs_three_evalsha() {
    let (mut costs, mut commands) = (Vec::new(), Vec::new());
    for (clients, rounds) in [(2, 300), (8, 150), (32, 60)] {
        // given clients that have waited for each other before
        let redis = Redis::start();
        let clients = join_all((0..clients).map(|_| client(&redis))).await;
        acquire_in_turn(&clients, 15).await;
        let before = redis.calls();
        let granted = || clients.iter().map(|client| client.stats().granted).sum::<u64>();
        let granted_before = granted();

        // when each client always has to wait for the other clients
        let long = acquire_in_turn(&clients, rounds).await;
        let (calls, granted) = (redis.calls().since(&before), granted() - granted_before);

        // then each hold costs three requests: a client queues, the holder releases, and the
        // notified client acquires
        assert_eq!(granted, (clients.len() * rounds) as u64);
        let asked = calls.of("evalsha");
        let each = |calls: u64| calls as f64 / granted as f64;
        println!(
            "{} clients, for each of {granted}: {:.2} EVALSHA, {:.1} commands, {long} waited long: \
             {calls}",
            clients.len(),
            each(asked),
            each(calls.total())
        );
        // A client whose wait is long, as on a busy machine, sends one or two more requests.
        assert!(asked * 20 <= granted * 61 + 40 * long, "{asked} for {granted}, {long}: {calls}");
        let again = of(&calls, &["subscribe", "unsubscribe"]);
        assert!(again.iter().all(|again| *again <= long), "{long}: {calls}");
        assert_eq!(calls.of("eval"), 0, "{calls}");
        costs.push([each(asked), each(asked.saturating_sub(2 * long))]);
        commands.push(each(calls.total()));
    }
    // One change of the holder costs 19 commands: 6 for the rejected request of the waiter, 10 for
    // the release, and 3 for the request after the notification. Yield windows cost some more
    // commands.
    assert!(commands[0] <= 20.0, "{commands:?}");
    // and the cost does not grow with the number of clients, except for the additional requests of
    // clients whose waits are long
    let least = costs.iter().map(|[whole, _]| *whole).fold(9.0, f64::min);
    let most = costs.iter().map(|[_, without]| *without).fold(0.0, f64::max);
    assert!(most <= least * 1.15, "{costs:?}");
}

/// Lets each client acquire `rounds` times, and hold for long enough that the other clients wait.
/// Returns the number of waits in which the timer of the waiter sent a request.
async fn acquire_in_turn(clients: &[Client], rounds: usize) -> u64 {
    let tasks = clients.iter().map(|client| {
        let lock = client.lock("door").unwrap();
        tokio::spawn(async move {
            let mut long = 0;
            for _ in 0..rounds {
                let begun = Instant::now();
                let guard = lock.acquire().await.unwrap();
                long += u64::from(begun.elapsed() > ms(200));
                sleep(ms(2)).await;
                release_guard(guard).await;
            }
            long
        })
    });
    let mut long = 0;
    for task in tasks.collect::<Vec<_>>() {
        long += within(secs(300), "all tasks finish their rounds", task).await.unwrap();
    }
    long
}

// This test has one thread. A hand-off grant waits for its task for 10 ms. On one thread, no other
// task can release the grant before its task has taken it.
#[tokio::test]
async fn hand_off_sends_no_command() {
    // given a holder, and a hundred tasks of its client that wait
    let t = Setup::new().await;
    let lock = t.lock.clone().local_handoff(1_000, secs(600));
    let guard = lock.acquire().await.unwrap();
    let crowd: Vec<_> = (0..100)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { release_guard(lock.acquire().await.unwrap()).await })
        })
        .collect();
    comes_true("all tasks wait for the lock", || t.client.stats().waiting == 100).await;
    comes_true("one connection is subscribed", || subscribers(&t.redis, &channel("door")) == 1)
        .await;

    // when all of these tasks hold the lock, one after the other
    let (sent, _) = t
        .sent_during(async {
            release_guard(guard).await;
            within(SOON, "all waiters acquire", join_all(crowd)).await
        })
        .await;

    // then only the last task sends a release to the store
    assert_eq!(sent, ["EVALSHA"]);
    assert_eq!(t.client.stats().handed_off, 100);
    assert!(keys(&t.redis).is_empty());
}
