//! Waiters of Leasehold, with a Java client that does not know of the wait queue. The wait queue
//! orders processes, and the request slot orders the tasks of a process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use interop::{
    AT_ONCE, Contenders, Java, Report, Rust, Setup, Way, measured, since, wake_up, woken,
};
use leasehold::{Client, LockGuard, WaitStrategy};
use testkit::{Connection, Redis, Reply, eventually};
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, block_in_place};

// The queue.

#[test]
fn rust_clients_are_granted_the_lock_in_queue_order() {
    // given three queued Leasehold clients, and a holder that has waited itself
    let scene = Scene::start(4);
    let holder = scene.holder_that_waited(0);
    let waiting = [1, 2, 3].map(|client| scene.queues(client));
    let owners = scene.places();
    let monitor = scene.redis.monitor();
    // Only clients that have waited for 0.2 s are notified to send a request later.
    sleep(SECOND / 3);

    // when the clients release one after the other
    scene.no_gap();
    scene.release(holder);
    for (waiting, owner) in waiting.into_iter().zip(&owners) {
        let guard = scene.runtime.block_on(waiting).unwrap();
        assert_eq!(guard.owner().as_str(), *owner);
        assert!(!scene.places().contains(owner), "the queue entry of the holder is removed");
        // Within this pause, the next client sends a request if it was notified to do so.
        sleep(SECOND / 10);
        if !scene.places().is_empty() {
            scene.no_gap();
        }
        scene.release(guard);
    }

    // then each client was notified on its own channel, and only the last release was published to
    // all clients
    let [first, second, third] = [0, 1, 2].map(|n| own_channel(&owners[n]));
    let (turns, mut looks): (Vec<_>, Vec<_>) =
        published(&monitor.stop()).into_iter().partition(|it| it.ends_with(" 0"));
    assert_eq!(turns, [&first, &second, &third, CHANNEL].map(|it| format!("{it} 0")));

    // and two clients were also notified to send a request later: the next client at the end of
    // the reservation, after 750 ms, and the client behind it after 1,000 ms
    let mut expected = [format!("{second} 750"), format!("{third} 1000"), format!("{third} 750")];
    looks.sort();
    expected.sort();
    assert_eq!(looks, expected);
    scene.nothing_stays();
}

#[test]
fn queue_entry_has_the_owner_and_the_arrival_time() {
    let scene = Scene::start(2);
    let holder = scene.holder_that_waited(0);
    let waiting = scene.queues(1);

    // The server sets the time of the queue entry, and the queue expires 15 s after the last
    // request.
    let place = scene.places().remove(0);
    assert!(place.starts_with(&format!("{}:", scene.clients[1].id())), "{place}");
    let score = || scene.redis.command(&["ZSCORE", QUEUE, &place]).text().to_owned();
    let since = score();
    let age = scene.now() - since.parse::<i64>().unwrap();
    assert!((0..5_000_000).contains(&age), "{age} µs");
    let rest = || scene.redis.command(&["PTTL", QUEUE]).number();
    assert!((1..=15_000).contains(&rest()), "{}", rest());

    // A request renews the TTL of the queue, and the entry keeps its position.
    scene.redis.command(&["PEXPIRE", QUEUE, "10000"]);
    eventually("the waiter sends a request", SECOND * 8, || rest() > 10_000);
    assert_eq!((scene.places(), score()), (vec![place.clone()], since));

    scene.release(holder);
    let guard = scene.runtime.block_on(waiting).unwrap();
    assert_eq!(guard.owner().as_str(), place);
    scene.release(guard);
    scene.nothing_stays();
}

#[test]
fn notified_client_acquires_by_its_own_request() {
    // given a queued Leasehold client
    let scene = Scene::start(2);
    let holder = scene.holder_that_waited(0);
    let waiting = scene.queues(1);
    let before = holder.owner().to_string();
    sleep(SECOND / 2);
    let monitor = scene.redis.monitor();

    // when the lock is released
    scene.no_gap();
    scene.release(holder);
    let guard = scene.runtime.block_on(waiting).unwrap();

    // then the lock is reserved for a short time, and the request of the client turns the
    // reservation into a hold with a whole lease
    let owner = guard.owner().as_str();
    let lines = monitor.stop();
    let deeds: Vec<_> = lines.iter().filter_map(|line| deed(line)).collect();
    let expected = [
        format!("HDEL door {before}"),
        format!("HSET door {owner} 1"),
        "PEXPIRE door 750".to_owned(),
        format!("PUBLISH {} 0", own_channel(owner)),
        format!("EVALSHA {owner} 30000"),
        "PEXPIRE door 30000".to_owned(),
    ];
    assert_eq!(deeds, expected, "{lines:#?}");
    scene.release(guard);
    scene.nothing_stays();
}

/// A client that joins the queue as the protocol page describes, without the library.
#[test]
fn client_that_queues_as_documented_gets_the_lock() {
    // given a new client in the queue, a Leasehold client behind it, and a Java client that reads
    // the lock
    let scene = Scene::start(2);
    let java = Java::start(&Setup::new(scene.redis.url()));
    let holder = scene.holder_that_waited(0);
    // The first call in a Java process takes longer, so it happens before the test.
    assert!(!java.thread("T1").try_lock("door").acquired());
    assert!(java.thread("T1").remain_time_to_live("door").number() > 0);
    let mut newcomer = Newcomer::joins(&scene);
    newcomer.queues(&scene);
    let mut waiting = vec![scene.queues(1)];

    // when the lock is released
    scene.no_gap();
    scene.release(holder);

    // then the new client is notified, and in Java the reservation looks like any hold with a lease
    assert_eq!(newcomer.receives(), [own_channel(OWNER).as_str(), "0"]);
    let ttl = scene.prolong_reservation();
    assert!((1..=750).contains(&ttl), "{ttl}");
    assert_eq!(scene.hash(), [OWNER, "1"]);
    let ttl = java.thread("T1").remain_time_to_live("door").number();
    assert!((1..=20_000).contains(&ttl), "{ttl}");
    assert!(!java.thread("T1").try_lock("door").acquired());
    assert!(!scene.places().contains(&OWNER.to_owned()));

    // and its request acquires the lock, like any other request
    newcomer.enters(&scene);
    assert!(java.thread("T1").remain_time_to_live("door").number() > 20_000);

    // and its release notifies the Leasehold client, like any other release
    let began = Instant::now();
    newcomer.leaves(&scene);
    let guard = scene.first_in(&mut waiting);
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    scene.release(guard);
    drop(newcomer);
    scene.nothing_stays();
}

#[test]
fn silent_notified_client_blocks_others_less_than_two_seconds() {
    // given a queued client that never sends a request, and a Leasehold client behind it
    let scene = Scene::start(2);
    let holder = scene.holder_that_waited(0);
    let mut newcomer = Newcomer::joins(&scene);
    newcomer.queues(&scene);
    let waiting = scene.queues(1);
    // Only clients that have waited for 0.2 s are notified to send a request later.
    sleep(SECOND / 2);

    // when the lock is reserved for the silent client
    scene.no_gap();
    let began = Instant::now();
    scene.release(holder);

    // then the Leasehold client acquires when the reservation has ended, and not before
    let guard = scene.runtime.block_on(waiting).unwrap();
    let after = began.elapsed();
    assert!((SECOND * 7 / 10..AT_ONCE).contains(&after), "{after:?}");
    scene.release(guard);
    drop(newcomer);
    scene.nothing_stays();
}

#[test]
fn polling_rust_waiter_has_no_queue_entry() {
    // given a Leasehold client that polls
    let scene = Scene::start(2);
    let holder = scene.holder_that_waited(0);
    let (first, longest) = (MILLI, MILLI * 128);
    let lock = scene.clients[1]
        .lock("door")
        .unwrap()
        .wait_strategy(WaitStrategy::Polling { initial: first, max: longest });
    let polls = scene.runtime.spawn(async move { lock.acquire().await.unwrap() });
    sleep(SECOND * 2);
    assert!(!polls.is_finished());
    assert_eq!(scene.places(), [""; 0]);
    let monitor = scene.redis.monitor();

    // when the lock is released, then it is free, and the polling client acquires it
    scene.release(holder);
    let guard = scene.runtime.block_on(polls).unwrap();
    let lines = monitor.stop();
    assert_eq!(published(&lines), [format!("{CHANNEL} 0")]);
    scene.release(guard);
    scene.nothing_stays();
}

#[test]
fn dead_client_is_skipped_in_the_queue() {
    // given a killed client in the queue, an entry that belongs to no client, and a Leasehold
    // client behind both
    let scene = Scene::start(2);
    let holder = scene.holder_that_waited(0);
    let mut doomed = Rust::start(&Setup::new(scene.redis.url()));
    let forgotten = doomed.thread("T1").start_lock("door");
    eventually("the waiter is in the queue", SECOND * 10, || scene.places().len() == 1);
    scene.redis.command(&["ZADD", QUEUE, "1", "somebody|1|5000"]);
    let waiting = scene.queues(1);
    drop(forgotten);
    doomed.kill();
    eventually("the dead client is no longer subscribed", SECOND * 10, || {
        scene.listeners() == [2, 2]
    });
    assert_eq!(scene.places().len(), 3);

    // when the lock is released, then the Leasehold client acquires at once, and the other entries
    // are removed
    scene.no_gap();
    let began = Instant::now();
    scene.release(holder);
    let guard = scene.runtime.block_on(waiting).unwrap();
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(scene.places(), [""; 0]);
    scene.release(guard);
    scene.nothing_stays();
}

#[test]
fn names_with_and_without_braces_share_only_redissons_channel() {
    // given Leasehold waiters for `door`, which a Leasehold client holds, and a Leasehold waiter
    // for `{door}`, which Java holds
    let scene = Scene::start(3);
    let java = Java::start(&Setup::new(scene.redis.url()));
    let holder = scene.holder_that_waited(0);
    assert!(java.thread("T1").lock("{door}").acquired());
    let plain = scene.queues(1);
    let mut braced = vec![scene.waits(2, "{door}")];
    let places = || scene.redis.command(&["ZRANGE", BRACED_QUEUE, "0", "-1"]).list().len();
    eventually("the waiter is in the queue", SECOND * 10, || places() == 1);
    let [zero, one, two] = [0, 1, 2].map(|n| scene.clients[n].id().to_owned());
    let mut expected = vec![
        "leasehold_lock__channel::{door}".to_owned(),
        "leasehold_lock__channel:{door}".to_owned(),
        format!("leasehold_lock__waiter::{{door}}:{two}"),
        format!("leasehold_lock__waiter:{{door}}:{zero}"),
        format!("leasehold_lock__waiter:{{door}}:{one}"),
        CHANNEL.to_owned(),
    ];
    expected.sort();
    let channels = scene.redis.command(&["PUBSUB", "CHANNELS"]);
    let mut channels = channels.texts();
    channels.sort_unstable();
    assert_eq!(channels, expected);
    let count = scene.redis.command(&["PUBSUB", "NUMSUB", CHANNEL]).list()[1].number();
    assert_eq!(count, 3);

    // when each lock is released, then a waiter for this lock acquires it
    let monitor = scene.redis.monitor();
    scene.release(holder);
    scene.release(scene.runtime.block_on(plain).unwrap());
    sleep(SECOND / 5);
    assert!(!braced[0].is_finished());
    assert!(published(&monitor.stop()).iter().all(|it| !it.contains("::")));
    assert!(java.thread("T1").unlock("{door}").is_true());
    let guard = scene.first_in(&mut braced);
    scene.release(guard);
    scene.nothing_stays();
}

// Java waiters.

#[test]
fn waiting_java_client_gets_a_yield_window() {
    // given four Leasehold clients that pass the lock to each other, each after 90 ms
    let scene = Scene::start(4);
    let java = Java::start(&Setup::new(scene.redis.url()));
    let passing = Passing::start(&scene, MILLI * 90, u32::MAX, true);
    eventually("two clients are in the queue", SECOND * 10, || scene.places().len() >= 2);
    let theirs = java.thread("T1").start_lock("door");
    // All waiters subscribe to Redisson's channel. Only Leasehold waiters subscribe to the channel
    // for queued clients. The fifth subscriber is Java.
    eventually("Java is subscribed", SECOND * 10, || scene.listeners() == [5, 4]);
    let monitor = scene.redis.monitor();

    // then the Java thread acquires soon
    let entered = theirs.wait(SECOND * 30);
    assert!(entered.acquired());
    let lines = monitor.stop();
    assert!(java.thread("T1").unlock("door").is_true());
    passing.end(&scene);

    // and at least every second release opened a yield window: the Java waiter was notified, and
    // the next Leasehold client was notified to send its request later. No two windows delayed the
    // same queue entry
    let reported = published(&lines);
    let gaps = reported.iter().filter(|it| **it == format!("{CHANNEL} 00")).count();
    let releases = lines.iter().filter(|it| it.contains(r#"lua] "HDEL" "door""#)).count();
    assert!(
        gaps >= 1 && releases <= 2 * gaps + 1,
        "{gaps} yield windows, {releases} releases: {reported:#?}"
    );
    let passed_over: Vec<_> = lines.iter().filter_map(|line| passed_over(line)).collect();
    let all = passed_over.iter().collect::<BTreeSet<_>>().len();
    assert_eq!((passed_over.len(), all), (gaps, gaps), "{passed_over:?}");
    for gap in Gap::all(&lines) {
        assert!([2, 4, 8, 16].contains(&gap.millis), "{gap:?}");
    }
    woken("queue: a waiting Java client gets a yield window", Way::RustToJava, entered.waited());
    scene.nothing_stays();
}

#[test]
fn yield_windows_take_2_percent_of_the_time() {
    // given three Leasehold clients that pass the lock to each other for some seconds, and a Java
    // client that reads the lock
    let scene = Scene::start(3);
    let java = Java::start(&Setup::new(scene.redis.url()));
    let passing = Passing::start(&scene, MILLI * 5, u32::MAX, true);
    eventually("a client is in the queue", SECOND * 10, || !scene.places().is_empty());
    let monitor = scene.redis.monitor();
    let (began, mut looks, mut free) = (Instant::now(), 0, 0);
    while began.elapsed() < SECOND * 8 {
        // Java sometimes finds the lock free, but never finds it held without a lease.
        let ttl = java.thread("T1").remain_time_to_live("door").number();
        assert!(ttl == -2 || (1..=30_000).contains(&ttl), "{ttl}");
        (looks, free) = (looks + 1, free + u32::from(ttl == -2));
    }
    let lines = monitor.stop();
    passing.end(&scene);

    // The time between two yield windows is at least fifty times the length of the second window.
    let gaps = Gap::all(&lines);
    for pair in gaps.windows(2) {
        let passed = pair[1].at - pair[0].at;
        let lasts = Duration::from_millis(pair[1].millis);
        assert!(passed >= lasts * 50, "{pair:?}");
        assert_eq!(pair[1].millis, 2 << (pair[1].at.as_secs() % 4), "{pair:?}");
    }
    // 8 s are two cycles of windows of 2, 4, 8 and 16 ms. If the lock were released all the time,
    // two cycles would have 36 windows.
    assert!((10..=45).contains(&gaps.len()), "{gaps:?}");
    let left: u64 = gaps.iter().map(|gap| gap.millis).sum();
    let figure = format!("{} windows, {left} ms of 8 s, {free} of {looks} reads", gaps.len());
    measured("queue: yield windows for clients without an entry", Way::RustToJava, &figure);
    scene.nothing_stays();
}

#[test]
fn notified_java_client_acquires_among_queueing_rust_clients() {
    // given four Leasehold clients that acquire again right after each release
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let rusts: Vec<_> = (0..4).map(|_| Rust::start(&setup)).collect();
    let java = Java::start(&setup);
    let contenders = Contenders::new("door", "counter", 1).at_most(10).hold(MILLI);
    let ours: Vec<_> =
        rusts.iter().map(|rust| rust.thread("crowd").start_contenders(&contenders)).collect();
    let counted = || redis.command(&["GET", "counter"]).text().parse::<u64>().unwrap();
    eventually("a thread has counted", SECOND * 10, || {
        redis.command(&["EXISTS", "counter"]).number() == 1
    });
    eventually("two clients are in the queue", SECOND * 10, || {
        redis.command(&["ZCARD", QUEUE]).number() >= 2
    });

    // when a Java thread acquires repeatedly
    let thread = java.thread("T1");
    let (mut most, mut longest) = (0, Duration::ZERO);
    let began = Instant::now();
    let mut times = 0;
    while began.elapsed() < SECOND * 7 {
        let before = counted();
        let entered = thread.lock("door");
        (most, longest) = (most.max(counted() - before), longest.max(entered.waited()));
        assert!(thread.unlock("door").is_true());
        times += 1;
        sleep(MILLI * 20);
    }

    // then the Java thread acquires in a yield window, after a notification
    assert!(longest < SECOND * 2, "{longest:?}, {times} times");
    assert!(most < 500, "{most} grants of Leasehold before that of Java");
    let ours: u64 = ours.into_iter().map(|it| Report::read(&it.wait(SECOND * 20)).total).sum();
    assert_eq!(counted(), ours);
    let figure = format!("Java {times} times, {most} of ours before it at most");
    measured("queue: Java's grants while four Rust clients queue", Way::RustToJava, &figure);
    woken("queue: Java's longest wait while four Rust clients queue", Way::RustToJava, longest);
}

#[test]
fn java_unlock_wakes_queued_rust_client_at_once() {
    // given a Java holder, and two queued Leasehold clients
    let scene = Scene::start(2);
    let java = Java::start(&Setup::new(scene.redis.url()));
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        assert!(java.thread("T1").lock("door").acquired());
        let mut waiting = [0, 1].map(|client| scene.queues(client)).into();

        // when Java releases
        let began = Instant::now();
        assert!(java.thread("T1").unlock("door").is_true());

        // then one of the Leasehold clients acquires at once, and the other client acquires after
        // the release
        let first = scene.first_in(&mut waiting);
        slowest = slowest.max(began.elapsed());
        scene.release(first);
        let second = scene.first_in(&mut waiting);
        scene.release(second);
        assert!(slowest < AT_ONCE, "woken after {slowest:?}");
    }
    woken("queue: Java's unlock wakes a queued client (slowest of 5)", Way::JavaToRust, slowest);
    scene.nothing_stays();
}

#[test]
fn force_unlock_by_java_admits_a_queued_rust_client() {
    // given a Leasehold holder that renews every two seconds, and another Leasehold client that is
    // queued
    let redis = Redis::start();
    let setup = Setup::new(redis.url()).watchdog(SECOND * 6);
    let (rust, other) = (Rust::start(&setup), Rust::start(&setup));
    let java = Java::start(&setup);
    let (holder, waiter) = (rust.thread("T1"), other.thread("T1"));
    assert!(holder.lock("door").acquired());
    let lost = holder.start_lost("door");
    let waiting = waiter.start_lock("door");
    eventually("the waiter is in the queue", SECOND * 10, || {
        redis.command(&["ZCARD", QUEUE]).number() == 1
    });

    // when Java releases the lock by force
    let forced = java.thread("T1").force_unlock("door");
    assert!(forced.is_true());

    // then the queued client acquires at once, and the next renewal reports the loss to the holder
    let delay = wake_up(&forced, &waiting.wait(SECOND * 5));
    assert!(delay < AT_ONCE, "woken after {delay:?}");
    let reported = lost.wait(SECOND * 10);
    assert_eq!(reported.value(), "NotOwned");
    let known = since(forced.began_at(), reported.at());
    assert!(known < SECOND * 4, "notified after {known:?}");
    assert!(holder.unlock("door").failed_with("NotHeld"));
    assert!(waiter.is_held("door").is_true());
    assert!(waiter.unlock("door").is_true());
    woken("queue: Java's forced release admits a queued Rust client", Way::JavaToRust, delay);
}

#[test]
fn java_sees_one_renewed_hold_during_hand_offs() {
    // given three Leasehold clients that pass the lock to each other without yield windows
    const TIMES: u32 = 300;
    let scene = Scene::start(3);
    let java = Java::start(&Setup::new(scene.redis.url()));
    let thread = java.thread("T1");
    let id = thread.id();
    let passing = Passing::start(&scene, MILLI * 5, TIMES, false);
    eventually("a client is in the queue", SECOND * 10, || !scene.places().is_empty());
    let monitor = scene.redis.monitor();

    // when Java reads the lock all the time, then the lock is never free, and always has a lease
    let mut looks = 0;
    while passing.passed.load(Ordering::Relaxed) < TIMES {
        assert!(thread.is_locked("door").is_true(), "{looks}");
        let ttl = thread.remain_time_to_live("door").number();
        assert!((1..=30_000).contains(&ttl), "{ttl}");
        assert!(!thread.is_held_by_thread("door", id).is_true());
        assert_eq!(thread.hold_count("door").number(), 0);
        assert!(!thread.try_lock("door").acquired());
        // No method of Java returns the count of another holder, so a script reads it.
        let script = "return {redis.call('PTTL', KEYS[1]), redis.call('HVALS', KEYS[1])}";
        let seen = scene.redis.command(&["EVAL", script, "1", "door"]);
        assert!(seen.list()[0].number() > 0, "{seen:?}");
        assert_eq!(seen.list()[1].texts(), ["1"]);
        looks += 1;
    }
    let reported = published(&monitor.stop());
    assert!(
        reported.iter().all(|it| it.starts_with("leasehold_lock__waiter:{door}:")),
        "{reported:#?}"
    );
    let passes = reported.iter().filter(|it| it.ends_with(" 0")).count();
    passing.end(&scene);
    assert!(passes >= 250, "{passes}");
    assert!(looks >= 50, "{looks}");
    measured(
        "queue: Java always reads one hold with a lease",
        Way::RustToJava,
        &format!("{looks} looks, {passes} times passed on"),
    );
    scene.nothing_stays();
}

/// After its first requests, the spin lock sends a request every 128 ms. The lock is free for a
/// fiftieth of the time, so the spin lock acquires by chance.
#[test]
fn java_spin_lock_acquires_during_hand_offs() {
    // given three Leasehold clients that pass the lock to each other without pauses
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let rusts: Vec<_> = (0..3).map(|_| Rust::start(&setup)).collect();
    let java = Java::start(&setup);
    let contenders = Contenders::new("door", "counter", 1).at_most(200);
    let ours: Vec<_> =
        rusts.iter().map(|rust| rust.thread("crowd").start_contenders(&contenders)).collect();
    let counted = || redis.command(&["GET", "counter"]).text().parse::<u64>().unwrap();
    eventually("a thread has counted", SECOND * 10, || {
        redis.command(&["EXISTS", "counter"]).number() == 1
    });
    eventually("a client is in the queue", SECOND * 10, || {
        redis.command(&["ZCARD", QUEUE]).number() > 0
    });

    // when a Java thread uses a spin lock, then it acquires while these clients still contend
    let before = counted();
    let thread = java.thread("T1").spin();
    let entered = thread.start_try_lock_within("door", SECOND * 90).wait(SECOND * 95);
    let ours_before = counted() - before;
    assert!(entered.acquired(), "Java acquires, after {ours_before} grants of Leasehold");
    assert!(thread.unlock("door").is_true());
    drop((ours, rusts));

    let figure = format!("{ours_before} of ours before it");
    measured("queue: a Java spin lock during hand-offs", Way::RustToJava, &figure);
    woken("queue: wait of the Java spin lock during hand-offs", Way::RustToJava, entered.waited());
}

// Hand-offs within one process.

#[test]
fn java_client_acquires_its_share_among_eight_rust_tasks() {
    // given eight tasks of one client and one Java thread, which contend for the lock without
    // pauses
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let (rust, java) = (Rust::start(&setup), Java::start(&setup));
    // The first call in a Java process takes a second on a busy machine, so it happens before the
    // test.
    let (holder, waiter) = (rust.thread("T1"), java.thread("T1"));
    assert!(holder.lock("window").acquired());
    let waiting = waiter.start_lock("window");
    interop::until_asleep(&redis, "window", 1);
    assert!(holder.unlock("window").is_true());
    assert!(waiting.wait(SECOND * 5).acquired());
    let monitor = redis.monitor();
    let contenders = |threads| Contenders::new("door", "counter", threads).at_most(20);
    let ours = rust.thread("crowd").start_contenders(&contenders(8));
    let theirs = java.thread("crowd").start_contenders(&contenders(1));
    let (ours, theirs) =
        (Report::read(&ours.wait(SECOND * 50)), Report::read(&theirs.wait(SECOND * 50)));

    // then no increment is lost, and Java also acquires, because Leasehold regularly lets other
    // clients acquire first
    let counted: u64 = redis.command(&["GET", "counter"]).text().parse().unwrap();
    assert_eq!(counted, ours.total + theirs.total);
    assert!(theirs.total >= 300, "{theirs:?} {ours:?}");
    assert!(theirs.max_wait < SECOND * 3, "{theirs:?} {ours:?}");
    assert!(ours.max_wait < SECOND * 6, "{theirs:?} {ours:?}");
    let lines = monitor.stop();
    let grants = lines.iter().filter(|it| it.contains(r#"lua] "HSET" "door""#)).count();
    assert!(grants as u64 * 2 < ours.total, "{grants} grants for {} holds", ours.total);
    measured(
        "hand-offs: one Java thread beside eight tasks of one client",
        Way::RustToJava,
        &format!("Java {} times beside {} in {grants} grants", theirs.total, ours.total),
    );
    woken("hand-offs: longest wait beside eight tasks", Way::RustToJava, theirs.max_wait);
}

#[test]
fn hand_off_keeps_the_owner_in_redis() {
    // given two tasks of one client, one that holds and one that waits
    let scene = Scene::start(1);
    let lock = || scene.clients[0].lock("door").unwrap().local_handoff(10, SECOND * 60);
    let holder = scene.runtime.block_on(lock().acquire()).unwrap();
    let waiting = scene.runtime.spawn({
        let lock = lock();
        async move { lock.acquire().await.unwrap() }
    });
    eventually("the waiter is subscribed", SECOND * 10, || scene.listeners() == [1, 1]);
    let before = scene.redis.command(&["HGETALL", "door"]);
    let monitor = scene.redis.monitor();

    // when the holder hands the lock off to the waiter
    let owner = holder.owner().clone();
    scene.release(holder);
    let guard = scene.runtime.block_on(waiting).unwrap();

    // then Redis received no command
    assert_eq!(*guard.owner(), owner);
    let lines = monitor.stop();
    assert!(!lines.iter().any(|line| line.contains("EVAL")), "{lines:#?}");
    assert_eq!(scene.redis.command(&["HGETALL", "door"]).texts(), before.texts());
    assert_eq!(before.texts(), [owner.as_str(), "1"]);
    scene.release(guard);
    scene.nothing_stays();
}

/// One Redis server, and Leasehold clients in the process of the test.
struct Scene {
    redis: Redis,
    runtime: Runtime,
    clients: Vec<Client>,
}

impl Scene {
    fn start(clients: usize) -> Self {
        let redis = Redis::start();
        let runtime = Runtime::new().unwrap();
        let connect = || runtime.block_on(Client::connect(&redis.url())).unwrap();
        let clients = (0..clients).map(|_| connect()).collect();
        Self { redis, runtime, clients }
    }

    /// Returns the guard of a holder that has waited. Only such a holder knows of the queue, and
    /// passes the lock to the first queued client.
    fn holder_that_waited(&self, client: usize) -> LockGuard {
        self.redis.command(&["HSET", "door", "somebody:1", "1"]);
        self.redis.command(&["PEXPIRE", "door", "30000"]);
        let waiting = self.queues(client);
        let script = "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0')";
        self.redis.command(&["EVAL", script, "1", "door", CHANNEL]);
        self.runtime.block_on(waiting).unwrap()
    }

    /// Starts a waiter, and returns when it has a queue entry.
    fn queues(&self, client: usize) -> JoinHandle<LockGuard> {
        let id = format!("{}:", self.clients[client].id());
        let waiting = self.waits(client, "door");
        eventually("the waiter is in the queue", SECOND * 10, || {
            self.places().iter().any(|place| place.starts_with(&id))
        });
        waiting
    }

    fn waits(&self, client: usize, name: &str) -> JoinHandle<LockGuard> {
        let lock = self.clients[client].lock(name).unwrap();
        self.runtime.spawn(async move { lock.acquire().await.unwrap() })
    }

    /// Prevents a yield window at the next release, by a record that a window has just ended.
    fn no_gap(&self) {
        no_gap(&mut Connection::open(self.redis.port()));
    }

    /// The time of the server in microseconds.
    fn now(&self) -> i64 {
        let now = self.redis.command(&["TIME"]);
        let now: Vec<i64> = now.texts().iter().map(|it| it.parse().unwrap()).collect();
        now[0] * 1_000_000 + now[1]
    }

    /// Makes the reservation long enough for a busy machine. Returns the TTL that the reservation
    /// had before.
    fn prolong_reservation(&self) -> i64 {
        let script = "local left = redis.call('PTTL', KEYS[1]) \
            redis.call('PEXPIRE', KEYS[1], '20000') return left";
        self.redis.command(&["EVAL", script, "1", "door"]).number()
    }

    fn hash(&self) -> Vec<String> {
        owned(&self.redis.command(&["HGETALL", "door"]))
    }

    /// Returns the guard of the first client of `waiting` that acquires. This client must acquire
    /// at once.
    fn first_in(&self, waiting: &mut Vec<JoinHandle<LockGuard>>) -> LockGuard {
        let mut first = None;
        eventually("one Leasehold client has acquired", AT_ONCE, || {
            first = waiting.iter().position(JoinHandle::is_finished);
            first.is_some()
        });
        self.runtime.block_on(waiting.swap_remove(first.unwrap())).unwrap()
    }

    fn release(&self, guard: LockGuard) {
        let released = self.runtime.block_on(guard.release()).unwrap();
        assert_eq!(released, leasehold::Release::Released);
    }

    /// The entries of the queue.
    fn places(&self) -> Vec<String> {
        owned(&self.redis.command(&["ZRANGE", QUEUE, "0", "-1"]))
    }

    /// The numbers of subscribers of Redisson's channel, and of the channel for queued clients.
    fn listeners(&self) -> [i64; 2] {
        let counts = self.redis.command(&["PUBSUB", "NUMSUB", CHANNEL, QUEUERS]);
        [1, 3].map(|at| counts.list()[at].number())
    }

    /// Waits until all keys and subscriptions are gone. After its last waiter, a client stays
    /// subscribed for two to three seconds.
    fn nothing_stays(&self) {
        eventually("no key is left", SECOND * 25, || {
            self.redis.command(&["KEYS", "*"]).list().is_empty()
        });
        eventually("no client is subscribed", SECOND * 10, || {
            self.redis.command(&["PUBSUB", "CHANNELS"]).list().is_empty()
        });
    }
}

/// A client that waits as the protocol page describes, without the library.
struct Newcomer {
    ears: Connection,
}

impl Newcomer {
    /// Subscribes to all channels by one command, and queues.
    fn joins(scene: &Scene) -> Self {
        let mut ears = Connection::open(scene.redis.port());
        let own = own_channel(OWNER);
        ears.command(&["SUBSCRIBE", CHANNEL, QUEUERS, &own]);
        ears.next_reply().unwrap();
        ears.next_reply().unwrap();
        Self { ears }
    }

    /// Sends a request, which is rejected, and adds a queue entry.
    fn queues(&mut self, scene: &Scene) {
        assert!(scene.redis.command(&["PTTL", "door"]).number() > 0);
        let now = scene.now().to_string();
        scene.redis.command(&["ZADD", QUEUE, "NX", &now, OWNER]);
        scene.redis.command(&["PEXPIRE", QUEUE, "15000"]);
    }

    /// The channel and the text of the next message.
    fn receives(&mut self) -> Vec<String> {
        owned(&self.ears.next_reply().unwrap()).split_off(1)
    }

    /// Sends the request that Redisson sends to acquire.
    fn enters(&mut self, scene: &Scene) {
        let script = "if redis.call('EXISTS', KEYS[1]) == 0 \
            or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then \
            redis.call('HSET', KEYS[1], ARGV[1], '1') \
            return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
        let entered = scene.redis.command(&["EVAL", script, "1", "door", OWNER, "30000"]);
        assert_eq!(entered.number(), 1);
    }

    fn leaves(&mut self, scene: &Scene) {
        assert_eq!(scene.redis.command(&["HDEL", "door", OWNER]).number(), 1);
        scene.redis.command(&["PUBLISH", CHANNEL, "0"]);
    }
}

/// Clients that pass a lock to each other. Each client releases only when another client is queued.
struct Passing {
    tasks: Vec<JoinHandle<()>>,
    passed: Arc<AtomicU32>,
    ended: Arc<AtomicBool>,
}

impl Passing {
    /// Passes the lock `most` times, each time after `hold`. The last client keeps the lock.
    fn start(scene: &Scene, hold: Duration, most: u32, gaps: bool) -> Self {
        let (passed, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let mut holds = Some(scene.holder_that_waited(0));
        let clients = scene.clients.iter();
        let tasks = clients.map(|client| {
            let (lock, mut holds) = (client.lock("door").unwrap(), holds.take());
            let (passed, ended) = (Arc::clone(&passed), Arc::clone(&ended));
            let port = scene.redis.port();
            scene.runtime.spawn(async move {
                let mut redis = Connection::open(port);
                let count = ["ZCARD", QUEUE];
                loop {
                    let guard = match holds.take() {
                        Some(guard) => guard,
                        None => lock.acquire().await.unwrap(),
                    };
                    tokio::time::sleep(hold).await;
                    let over = || {
                        let last = passed.load(Ordering::Relaxed) == most;
                        last || ended.load(Ordering::Relaxed)
                    };
                    while !over() && block_in_place(|| redis.command(&count)).number() == 0 {
                        tokio::time::sleep(MILLI).await;
                    }
                    while over() && !ended.load(Ordering::Relaxed) {
                        tokio::time::sleep(MILLI).await;
                    }
                    passed.fetch_add(1, Ordering::Relaxed);
                    if !gaps && !over() {
                        block_in_place(|| no_gap(&mut redis));
                    }
                    assert_eq!(guard.release().await.unwrap(), leasehold::Release::Released);
                    if over() {
                        return;
                    }
                }
            })
        });
        Self { tasks: tasks.collect(), passed, ended }
    }

    fn end(self, scene: &Scene) {
        self.ended.store(true, Ordering::Relaxed);
        for task in self.tasks {
            scene.runtime.block_on(task).unwrap();
        }
    }
}

/// A yield window of a release.
#[derive(Debug)]
struct Gap {
    /// The time of the release, by the clock of the server.
    at: Duration,
    /// After how many milliseconds the next queued client should send its request.
    millis: u64,
}

impl Gap {
    /// The yield windows in the output of `MONITOR`.
    fn all(lines: &[String]) -> Vec<Self> {
        let open = format!(r#"lua] "PUBLISH" "{CHANNEL}" "00""#);
        let gaps = lines.iter().enumerate().filter(|(_, line)| line.contains(&open));
        gaps.map(|(at, _)| {
            let (_, output) = lines[at - 1].rsplit_once(' ').unwrap();
            // The time is taken from the `SET` of the script, because `MONITOR` may show a much
            // later time.
            let notes = |line: &&String| line.contains(&format!(r#"lua] "SET" "{YIELDED}""#));
            let noted = lines[..at].iter().rev().find(notes).unwrap();
            let (_, noted) = noted.split_once(r#"}" ""#).unwrap();
            let (noted, _) = noted.split_once('"').unwrap();
            let at = Duration::from_millis(noted.parse().unwrap());
            Self { at, millis: output.trim_matches('"').parse().unwrap() }
        })
        .collect()
    }
}

fn no_gap(redis: &mut Connection) {
    redis.command(&["SET", YIELDED, "3000000000000", "PX", "15000"]);
}

/// Returns the entry that a line of `MONITOR` puts back into the queue at a yield window, if any.
fn passed_over(line: &str) -> Option<&str> {
    let (_, place) = line.split_once(&format!(r#"lua] "ZADD" "{QUEUE}" "0" ""#))?;
    Some(place.trim_end_matches('"'))
}

/// The published messages in order, each as its channel and its text.
fn published(lines: &[String]) -> Vec<String> {
    let messages = lines.iter().filter_map(|line| line.split_once(r#"lua] "PUBLISH" ""#));
    messages.map(|(_, reported)| reported.trim_end_matches('"').replace(r#"" ""#, " ")).collect()
}

/// Returns the command in a line of `MONITOR`, if it acquires or renews `door`, or if a script
/// changes `door` or publishes a message.
fn deed(line: &str) -> Option<String> {
    let (_, words) = line.split_once("] \"")?;
    let words: Vec<_> = words.trim_end_matches('"').split("\" \"").collect();
    let is_from_a_script = line.contains(" lua] ");
    match words[..] {
        ["EVALSHA", _, "2", "door", _, owner, ttl, ..] if ttl == "30000" => {
            Some(format!("EVALSHA {owner} {ttl}"))
        }
        ["HDEL" | "HSET" | "PEXPIRE", "door", ..] | ["PUBLISH", ..] if is_from_a_script => {
            Some(words.join(" "))
        }
        _ => None,
    }
}

/// The channel on which the client of `owner` is notified about `door`.
fn own_channel(owner: &str) -> String {
    format!("leasehold_lock__waiter:{{door}}:{}", owner.split(':').next().unwrap())
}

fn owned(reply: &Reply) -> Vec<String> {
    reply.texts().into_iter().map(str::to_owned).collect()
}

const QUEUE: &str = "leasehold_lock__queue:{door}";
const YIELDED: &str = "leasehold_lock__yield:{door}";
const BRACED_QUEUE: &str = "leasehold_lock__queue::{door}";
const CHANNEL: &str = "redisson_lock__channel:{door}";
const QUEUERS: &str = "leasehold_lock__channel:{door}";
const OWNER: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";
const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
