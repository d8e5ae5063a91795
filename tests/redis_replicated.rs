//! Acknowledged grants, on a real primary with real replicas: errors, waits, cost, and what a
//! failover loses.

use std::{
    os::unix::fs::symlink,
    sync::{Arc, Mutex},
};

use crate::common::{SOON, client, ms, release_guard, secs, with_acl, within};
use futures_util::{future::join_all, poll};
use leasehold::{Client, Error, Lock, LockGuard, Replicas};
use testkit::{Calls, Monitor, Proxy, Redis, eventually};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

/// Requires one replica, with a long timeout.
const ONE: Replicas = Replicas::at_least(1).within(SOON);

/// Requires one replica, with a timeout that is too short.
const ONE_IN_VAIN: Replicas = Replicas::at_least(1).within(ms(300));

fn door(client: &Client, replicas: Replicas) -> Lock {
    client.lock("door").unwrap().replicated(replicas)
}

/// Starts two replicas that have the data of `master`.
fn two_replicas_of(master: &Redis) -> [Redis; 2] {
    [(); 2].map(|()| Redis::start_replica_of(master))
}

/// Whether this server has the lock `name`.
fn has(redis: &Redis, name: &str) -> bool {
    redis.command(&["EXISTS", name]).number() == 1
}

/// The number of grants for which the client has requested acknowledgements. The client runs the
/// script `touch` once for each of these grants. A slow replica needs several `WAIT` commands.
fn questions(monitor: &Monitor) -> usize {
    monitor.lines().iter().filter(|line| line.contains("touch: ")).count()
}

/// The number of `WAIT` commands since `before`.
fn waits(redis: &Redis, before: &Calls) -> u64 {
    redis.calls().since(before).of("wait")
}

#[track_caller]
fn is_refused<T>(answer: Result<T, Error>, wanted: u32, got: u32) {
    match answer {
        Err(Error::NotReplicated { wanted: w, got: g, .. }) => assert_eq!((w, g), (wanted, got)),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("the lock was granted, but {got} of {wanted} replicas have it"),
    }
}

/// Asserts that another client can acquire `name` now.
async fn is_free(redis: &Redis, name: &str) {
    let other = client(redis).await;
    let guard = other.lock(name).unwrap().try_acquire().await.unwrap();
    release_guard(guard.expect("the lock is free")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicated_grant_is_acknowledged_by_one_of_two_replicas() {
    let master = Redis::start();
    let [well, ill] = two_replicas_of(&master);
    ill.pause();
    let client = client(&master).await;
    for round in 0..20 {
        let name = format!("door:{round}");
        let lock = client.lock(&name).unwrap().replicated(ONE);
        let guard =
            within(SOON, "one replica acknowledges the grant", lock.acquire()).await.unwrap();
        assert!(has(&well, &name));
        release_guard(guard).await;
    }
    is_refused(door(&client, Replicas::at_least(2).within(secs(2))).acquire().await, 2, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_is_released_when_too_few_replicas_acknowledge() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    replica.pause();
    let begun = Instant::now();
    is_refused(door(&client, ONE_IN_VAIN).acquire().await, 1, 0);
    assert!(begun.elapsed() >= ms(300));
    is_free(&master, "door").await;

    // When the replica continues, the lock can be acquired again.
    replica.resume();
    let guard = within(SOON, "the replica acknowledges the grant", door(&client, ONE).acquire())
        .await
        .unwrap();
    assert!(has(&replica, "door") && client.stats().granted == 2);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_error_says_that_the_server_has_no_replicas() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let refused = within(SOON, "`acquire` fails", door(&client, ONE_IN_VAIN).acquire()).await;
    let text = refused.as_ref().unwrap_err().to_string();
    assert!(text.contains("`door`") && text.contains("0 of 1"), "{text}");
    is_refused(refused, 1, 0);
    is_refused(door(&client, ONE_IN_VAIN).try_acquire().await, 1, 0);
    is_free(&redis, "door").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_bounds_the_wait_for_replicas() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let begun = Instant::now();
    let replicas = Replicas::at_least(1).within(secs(60));
    is_refused(door(&client, replicas).acquire_within(ms(500)).await, 1, 0);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let free = || !has(&redis, "door");
    eventually("the lock is released", SOON, free);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_replica_delays_no_unreplicated_lock() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    replica.pause();
    let patient = Replicas::at_least(1).within(secs(50));
    let asked = (0..8).map(|number| {
        let lock = client.lock(format!("slow:{number}")).unwrap().replicated(patient);
        tokio::spawn(async move { lock.acquire().await })
    });
    let asked: Vec<_> = asked.collect();
    let held = || (0..8).all(|number| has(&master, &format!("slow:{number}")));
    eventually("the primary has granted all locks", SOON, held);

    let plain = client.lock("plain").unwrap();
    for _ in 0..200 {
        release_guard(plain.acquire().await.unwrap()).await;
    }
    assert!(
        asked.iter().all(|task| !task.is_finished()),
        "the 200 acquisitions did not wait for the replica"
    );

    replica.resume();
    for task in asked {
        release_guard(
            within(SOON, "the replica acknowledges the grant", task).await.unwrap().unwrap(),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicated_call_with_a_shorter_timeout_returns_first() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    replica.pause();
    let patient =
        client.lock("patient").unwrap().replicated(Replicas::at_least(1).within(secs(30)));
    let patient = tokio::spawn(async move { patient.acquire().await });
    eventually("the primary has granted the lock", SOON, || has(&master, "patient"));
    is_refused(within(SOON, "`acquire` fails", door(&client, ONE_IN_VAIN).acquire()).await, 1, 0);

    replica.resume();
    release_guard(
        within(SOON, "the replica acknowledges the grant", patient).await.unwrap().unwrap(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_replicated_locks_share_wait_commands() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    release_guard(door(&client, ONE).acquire().await.unwrap()).await;
    let before = master.calls();
    let acquire = |number| {
        let lock = client.lock(format!("door:{number}")).unwrap().replicated(ONE);
        async move { lock.acquire().await.unwrap() }
    };
    let guards =
        within(secs(20), "the replica acknowledges all grants", join_all((0..64).map(acquire)))
            .await;
    assert!((0..64).all(|number| has(&replica, &format!("door:{number}"))));
    let asked = waits(&master, &before);
    assert!((1..=32).contains(&asked), "{asked} WAIT commands for 64 grants");
    drop(guards);
}

// If a task does not take a hand-off grant within 10 ms, a background task releases the grant. This
// test has one thread, and does not await between the hand-off and the poll that takes the grant.
// So the background task cannot run in between.
#[tokio::test]
async fn acknowledgements_of_a_handed_off_grant_are_counted_once() {
    let master = Redis::start();
    let _replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    let lock = client.lock("door").unwrap().local_handoff(9, secs(60));
    let monitor = master.monitor();
    let first = lock.clone().replicated(ONE).acquire().await.unwrap();
    let next = left_to_the_next(first, lock.clone().replicated(ONE)).await;
    release_guard(next).await;
    assert_eq!((client.stats().handed_off, questions(&monitor)), (1, 1));

    // If the first hold required no replicas, the next task waits for their acknowledgement.
    let first = lock.acquire().await.unwrap();
    let next = left_to_the_next(first, lock.replicated(ONE)).await;
    release_guard(next).await;
    assert_eq!((client.stats().handed_off, questions(&monitor)), (2, 2));
}

/// Lets a task wait for `lock` behind `first`, releases `first`, and returns the guard of the task.
async fn left_to_the_next(first: LockGuard, lock: Lock) -> LockGuard {
    let mut next = Box::pin(lock.acquire());
    assert!(poll!(&mut next).is_pending());
    release_guard(first).await;
    within(SOON, "the waiter receives the hand-off grant", next).await.unwrap()
}

#[tokio::test]
async fn tokens_of_local_hand_offs_are_acknowledged_together() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let [client, elsewhere] = [client(&master).await, client(&master).await];
    let lock = client.fenced_lock("door").unwrap().local_handoff(9, secs(60)).replicated(ONE);
    let held = elsewhere.lock("door").unwrap().acquire().await.unwrap();
    let [mut one, mut other] = [(); 2].map(|()| Box::pin(lock.acquire()));
    assert!(poll!(&mut one).is_pending() && poll!(&mut other).is_pending());
    let monitor = master.monitor();
    release_guard(held).await;

    let one = within(SOON, "the first task acquires", one).await.unwrap();
    replica.pause();
    let token = one.token();
    one.release().await.unwrap().into_result().unwrap();
    let other = within(SOON, "the second task receives the hand-off grant", other).await.unwrap();
    assert_eq!((client.stats().handed_off, questions(&monitor)), (1, 1));
    assert_eq!(other.token(), token + 1);
    replica.resume();
    let counter = replica.command(&["GET", "redisson_lock_token:{door}"]);
    assert_eq!(counter.text(), other.token().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_lock_survives_a_failover_to_its_replica() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let guard = door(&client(&master).await, ONE).acquire().await.unwrap();
    master.pause();
    replica.promote();
    let other = client(&replica).await.lock("door").unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());
    assert_eq!(other.holder().await.unwrap().unwrap().owner(), guard.owner());
    master.resume();
}

/// The guarantees state this limit of a lock without `replicated`.
#[tokio::test(flavor = "multi_thread")]
async fn unreplicated_lock_may_be_lost_by_a_failover() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let client_of_master = client(&master).await;
    replica.promote();
    let held = client_of_master.lock("door").unwrap().acquire().await.unwrap();
    is_free(&replica, "door").await;
    assert!(held.is_held());

    // A lock that requires a replica is rejected in the same situation.
    let other = client_of_master.lock("other").unwrap().replicated(ONE_IN_VAIN);
    is_refused(other.acquire().await, 1, 0);
}

/// Starts a task that acquires one lock after another, and keeps all of them. Their names start
/// with `kind`.
fn takes(client: &Client, kind: &'static str, replicas: Option<Replicas>) -> Taking {
    let (client, taken) = (client.clone(), Arc::<Mutex<Vec<_>>>::default());
    let noted = Arc::clone(&taken);
    let task = tokio::spawn(async move {
        for number in 0.. {
            let lock = client.lock(format!("{kind}:{number}")).unwrap().replicated(replicas);
            if let Ok(guard) = lock.acquire().await {
                noted.lock().unwrap().push(guard);
            }
        }
    });
    Taking { taken, task }
}

struct Taking {
    taken: Arc<Mutex<Vec<LockGuard>>>,
    task: JoinHandle<()>,
}

impl Taking {
    fn count(&self) -> usize {
        self.taken.lock().unwrap().len()
    }

    /// Ends the task. Returns how many locks it has acquired, and how many of them this server does
    /// not have.
    fn end(self, redis: &Redis) -> (usize, usize) {
        self.task.abort();
        let taken = self.taken.lock().unwrap();
        let lost = taken.iter().filter(|guard| !has(redis, guard.name().as_str())).count();
        (taken.len(), lost)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_grants_survive_a_failover_to_a_lagging_replica() {
    // given a replica that is a little behind
    let (master, replica) = (Redis::start(), Redis::start());
    master.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    let proxy = Proxy::before(master.port());
    replica.command(&["REPLICAOF", "127.0.0.1", &proxy.port().to_string()]);
    let follows = || replica.command(&["INFO", "replication"]).text().contains("link_status:up");
    eventually("the replica is connected to the primary", secs(20), follows);
    proxy.delay(ms(20));

    // when the replica is promoted while clients acquire
    let client = client(&master).await;
    let one = Replicas::at_least(1).within(secs(2));
    let kept = ["one", "two", "three", "four"].map(|kind| takes(&client, kind, Some(one)));
    let plain = takes(&client, "plain", None);
    let many = || kept.iter().all(|taking| taking.count() > 5) && plain.count() > 50;
    eventually("the clients acquire locks", secs(30), many);
    replica.promote();
    let by_then = plain.count();
    eventually("the client acquires locks without replication again", SOON, || {
        plain.count() > by_then
    });

    // then the replica has every acknowledged grant, and lacks some of the other grants
    for taking in kept {
        let (taken, lost) = taking.end(&replica);
        assert!(taken > 5 && lost == 0, "the replica lacks {lost} of {taken} grants");
    }
    assert!(plain.end(&replica).1 > 0);
}

/// The connection for acknowledgements leads to another server than the server that granted the
/// lock.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_a_server_that_did_not_grant_do_not_count() {
    let [granting, other] = [(); 2].map(|()| Redis::options().unix_socket().start());
    let _replica = Redis::start_replica_of(&other);
    let address = granting.dir().join("address");
    let leads_to = |redis: &Redis| {
        drop(std::fs::remove_file(&address));
        let url = redis.unix_url();
        symlink(url.strip_prefix("unix://").unwrap(), &address).unwrap();
    };
    leads_to(&granting);
    let url = format!("unix://{}", address.display());
    let client = Client::connect(&url).await.unwrap();
    leads_to(&other);
    is_refused(within(SOON, "`acquire` fails", door(&client, ONE).acquire()).await, 1, 0);
    is_free(&granting, "door").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicated_acquire_fails_at_a_demoted_server() {
    let [master, next] = [(); 2].map(|()| Redis::start());
    let _replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    release_guard(door(&client, ONE).acquire().await.unwrap()).await;
    let guard = client.lock("held").unwrap().acquire().await.unwrap();
    master.follow(&next);
    let refused = door(&client, ONE_IN_VAIN).acquire_within(ms(500)).await.unwrap_err();
    assert!(refused.is_transient(), "{refused:?}");
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_replicated_acquire_releases_its_grant() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let lock = door(&client, Replicas::at_least(1).within(secs(60)));
    let task = tokio::spawn(async move { lock.acquire().await });
    eventually("the primary has granted the lock", SOON, || has(&redis, "door"));
    task.abort();
    eventually("the lock is released", SOON, || !has(&redis, "door"));
    assert!(client.stats().held == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_waits_for_replicas_with_an_error() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let lock = door(&client, Replicas::at_least(1).within(secs(60)));
    let task = tokio::spawn(async move { lock.acquire().await });
    eventually("the primary has granted the lock", SOON, || has(&redis, "door"));
    let shutdown = within(SOON, "`shutdown` returns", client.shutdown(secs(4))).await;
    assert_eq!(shutdown.pending, 0);
    assert!(matches!(task.await.unwrap(), Err(Error::ShutDown)));
    assert!(!has(&redis, "door"));
}

#[tokio::test(flavor = "multi_thread")]
async fn replication_connection_is_restored_during_a_wait() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    replica.pause();
    let lock = door(&client, Replicas::at_least(1).within(secs(20)));
    let task = tokio::spawn(async move { lock.acquire().await });
    let before = master.calls();
    eventually("the primary has granted the lock", SOON, || has(&master, "door"));
    eventually("the client sends WAIT", SOON, || waits(&master, &before) > 0);
    master.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    sleep(ms(100)).await;
    replica.resume();
    let guard = within(SOON, "the replica acknowledges the grant", task).await.unwrap().unwrap();
    assert!(has(&replica, "door"));
    release_guard(guard).await;
}

/// Former bug: the error was the error of an unreachable store, and did not report that the grant
/// was released.
#[tokio::test(flavor = "multi_thread")]
async fn error_says_that_replicas_cannot_be_counted() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    replica.pause();
    let lock = door(&client, Replicas::at_least(1).within(secs(2)));
    let before = master.calls();
    let task = tokio::spawn(async move { lock.acquire_within(secs(20)).await });
    eventually("the client sends WAIT", SOON, || waits(&master, &before) > 0);
    master.stop();
    let refused = within(secs(20), "`acquire_within` fails", task).await.unwrap().unwrap_err();
    let Error::Unavailable { reason, .. } = &refused else { panic!("{refused:?}") };
    assert!(reason.starts_with(
        "the acquisition was undone, because the server did not report how many replicas \
         acknowledged it: "
    ));
    assert!(refused.is_transient());
}

/// Former bug: while replicas acknowledged the last permit, the client removed it and wrote it
/// again. With the last permit, the key and so its TTL were lost.
#[tokio::test(flavor = "multi_thread")]
async fn replicated_permits_keep_the_ttl_of_their_semaphore() {
    let master = Redis::start();
    let _replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    let pool = client.expirable_semaphore("pool").unwrap().replicated(ONE);
    pool.set(1).await.unwrap();
    master.command(&["PEXPIRE", "pool", "60000"]);
    let _permit = pool.acquire().await.unwrap();
    assert!(master.command(&["PTTL", "{pool}:timeout"]).number() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_grant_can_be_replicated() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let url = master.url();
    let build = |replicas| Client::builder().replicated(replicas).connect(&url);
    let client = build(ONE).await.unwrap();
    client.expirable_semaphore("permits").unwrap().set(1).await.unwrap();
    client.semaphore("pool").unwrap().set_if_absent(1).await.unwrap();
    let monitor = master.monitor();
    drop(client.fenced_lock("fenced").unwrap().acquire().await.unwrap());
    let prices = client.read_write_lock("prices").unwrap();
    let writing = prices.write().acquire().await.unwrap();
    let reading = prices.downgrade(writing).await.unwrap();
    drop((reading, client.expirable_semaphore("permits").unwrap().acquire().await.unwrap()));
    drop(client.semaphore("pool").unwrap().acquire(1).await.unwrap());
    assert_eq!(questions(&monitor), 5);

    replica.pause();
    let client = build(ONE_IN_VAIN).await.unwrap();
    is_refused(client.fenced_lock("fenced").unwrap().acquire().await, 1, 0);
    is_refused(prices.clone().replicated(ONE_IN_VAIN).read().acquire().await, 1, 0);
    is_refused(client.read_write_lock("prices").unwrap().write().acquire().await, 1, 0);
    is_refused(client.expirable_semaphore("permits").unwrap().acquire().await, 1, 0);
    is_refused(client.semaphore("pool").unwrap().acquire(1).await, 1, 0);
    assert_eq!(client.expirable_semaphore("permits").unwrap().available().await.unwrap(), 1);
    assert_eq!(client.semaphore("pool").unwrap().available().await.unwrap(), 1);
    let free = client.lock("plain").unwrap().replicated(None).acquire().await.unwrap();
    release_guard(free).await;
}

#[cfg(feature = "blocking")]
#[test]
fn blocking_lock_waits_for_replicas() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let client = leasehold::blocking::Client::connect(&master.url()).unwrap();
    let lock = client.lock("door").unwrap().replicated(ONE);
    lock.acquire().unwrap().release().unwrap().into_result().unwrap();
    replica.pause();
    is_refused(lock.replicated(ONE_IN_VAIN).acquire(), 1, 0);
    assert!(!has(&master, "door"));
}

/// The permissions that one lock without a queue needs. `replicated` needs one more.
const RIGHTS: &str = "~door &redisson_lock__channel:{door} +hello +ping +client|setname +info +eval \
                      +evalsha +script|load +hexists +hget +hscan +hset +hdel +hlen +del \
                      +pexpire +pttl +publish +subscribe +unsubscribe";

#[tokio::test(flavor = "multi_thread")]
async fn replicated_lock_needs_one_more_permission() {
    let master = Redis::start();
    let _replica = Redis::start_replica_of(&master);
    let few: Vec<_> = RIGHTS.split_whitespace().collect();
    let enough: Vec<_> = few.iter().copied().chain(["+wait"]).collect();
    let client = with_acl(&master, "enough", &enough).await;
    release_guard(door(&client, ONE).acquire().await.unwrap()).await;

    let client = with_acl(&master, "few", &few).await;
    let refused = within(SOON, "`acquire` fails", door(&client, ONE).acquire()).await.unwrap_err();
    let Error::Forbidden { command, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(command.as_deref(), Some("WAIT"));
    assert!(refused.to_string().contains("`replicated` needs the permission `+wait`"), "{refused}");
    is_free(&master, "door").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_opens_a_third_connection_only_for_replicated_locks() {
    let redis = Redis::start();
    let client = client(&redis).await;
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    let ours = || {
        let all = redis.command(&["CLIENT", "LIST"]);
        all.text().lines().filter(|line| line.contains(client.id())).count()
    };
    assert_eq!(ours(), 2);
    is_refused(door(&client, ONE_IN_VAIN).acquire().await, 1, 0);
    assert_eq!(ours(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicated_grant_costs_three_additional_requests() {
    let master = Redis::start();
    let _replica = Redis::start_replica_of(&master);
    let client = client(&master).await;
    let plain = client.lock("door").unwrap();
    release_guard(plain.clone().replicated(ONE).acquire().await.unwrap()).await;
    let before = master.calls();
    let guard = plain.acquire().await.unwrap();
    let without = master.calls().since(&before);
    release_guard(guard).await;

    let before = master.calls();
    let guard = plain.replicated(ONE).acquire().await.unwrap();
    let with = master.calls().since(&before);
    // before its `WAIT`, the client writes by a script of two commands
    for (command, more) in [("evalsha", 0), ("eval", 1), ("hget", 1), ("hset", 1)] {
        assert_eq!(with.of(command), without.of(command) + more, "{command}: {with}");
    }
    // if the replica is slow, another `WAIT` follows, and another lookup of the hold
    let (waits, looks) = (with.of("wait"), with.of("hexists") - without.of("hexists"));
    assert!(waits > 0 && waits == looks, "{with}");
    assert_eq!(with.total(), without.total() + 3 + waits + looks, "{with}");
    release_guard(guard).await;
}
