//! Invalid data in the keys and on the channels of a lock. The only effect is that clients send a
//! few more requests.

use std::fs;

use crate::common::{
    SOON, channel, client, entered, hash, hold_by_hand, ms, places, pttl, queue, queuers,
    release_by_hand, release_guard, secs, subscribers, turns_of, until_places, waiter, within,
    yielded,
};
use leasehold::{Client, Lock, LockGuard};
use testkit::{Connection, Helper, Redis, eventually};
use tokio::time::{Instant, sleep};

fn door(client: &Client) -> Lock {
    client.lock("door").unwrap()
}

/// Returns a hold whose holder had to wait. The release of such a hold reserves the lock for the
/// next client.
async fn awaited(redis: &Redis, client: &Client) -> LockGuard {
    hold_by_hand(redis, "door", "java:1", secs(60));
    let waiting = waiter(door(client));
    until_places(redis, "door", 1);
    release_by_hand(redis, "door");
    entered(waiting).await
}

// The queue.

/// Puts invalid entries into the queue of `door`. Each script is a line of Lua that returns a score
/// and a member.
fn put(redis: &Redis, scripts: &[&str]) {
    for script in scripts {
        let script = format!("return redis.call('ZADD', KEYS[1], {script})");
        let added = redis.command(&["EVAL", &script, "1", &queue("door")]);
        assert_eq!(added.number(), 1, "{script}: {added:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_queue_entry_is_dropped_and_blocks_no_client() {
    let redis = Redis::start();
    let clients = [client(&redis).await, client(&redis).await];
    for odd in [
        &["1, 'garbage'"][..],
        &["1, ''", "2, ':'", "3, ':1'", "4, 'a:'"],
        &["1, '7'", "2, '-1'", "3, '1e300'", "4, 'nan'"],
        &["'-inf', 'garbage'"],
        &["-1, 'x'", "'-1e300', 'y'", "'-9e15', 'z'", "'+inf', 'w'"],
        &["1, '\\255\\000\\254:1'", "2, '\\0:1'", "3, 'a\\n:1'"],
        &["1, string.rep('x', 100000)", "2, string.rep('y', 100000) .. ':1'"],
        &["1, 'gone:1'", "2, 'gone:2|1|5000'", "3, '*:1'", "4, '[a-z]:1'"],
    ] {
        // given a lock whose release reserves the lock for the next client, and invalid entries
        // before the entry of the waiter
        let guard = awaited(&redis, &clients[0]).await;
        let waiting = waiter(door(&clients[1]));
        until_places(&redis, "door", 1);
        sleep(ms(300)).await;
        put(&redis, odd);
        let (before, monitor) = (redis.calls(), redis.monitor());

        // when the lock is released, then the release skips these entries, and the waiter acquires
        // before its own timer fires
        let released = Instant::now();
        release_guard(guard).await;
        let guard = entered(waiting).await;
        assert!(released.elapsed() < secs(2), "{odd:?}: {:?}", released.elapsed());
        let lines = monitor.stop();
        let mut granted = lines.iter().filter(|line| line.contains(r#""HSET" "door""#));
        assert!(granted.all(|line| line.contains(guard.owner().as_str())), "{odd:?}: {lines:#?}");
        assert_eq!(hash(&redis, "door"), [(guard.owner().to_string(), "1".into())], "{odd:?}");

        // and each invalid entry costs only the command that removes it
        let calls = redis.calls().since(&before);
        let most = odd.len() as u64 + 8;
        assert!(calls.of("zpopmin") <= most, "{odd:?}: {calls}");
        assert!(calls.of("evalsha") <= 4, "{odd:?}: {calls}");
        release_guard(guard).await;
        redis.command(&["DEL", &queue("door")]);
        eventually("the lock is free", SOON, || hash(&redis, "door").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_yield_record_blocks_no_client() {
    let redis = Redis::start();
    let clients = [client(&redis).await, client(&redis).await];
    for words in [
        &["SET", "x"][..],
        &["SET", ""],
        &["SET", "inf"],
        &["SET", "-1e300"],
        &["SET", "99999999999999"],
        &["RPUSH", "x"],
        &["HSET", "x", "y"],
    ] {
        let guard = awaited(&redis, &clients[0]).await;
        let waiting = waiter(door(&clients[1]));
        until_places(&redis, "door", 1);
        let key = yielded("door");
        redis.command(&["DEL", &key]);
        let put = [&[words[0], &key], &words[1..]].concat();
        assert!(!redis.command(&put).is_error(), "{put:?}");
        let released = Instant::now();
        release_guard(guard).await;
        release_guard(entered(waiting).await).await;
        assert!(released.elapsed() < secs(1), "{words:?}: {:?}", released.elapsed());
        redis.command(&["DEL", &key, &queue("door")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn release_removes_about_a_hundred_dead_queue_entries_at_most() {
    // given a queue with many entries of clients that are not subscribed
    let redis = Redis::start();
    let clients = [client(&redis).await, client(&redis).await];
    let guard = awaited(&redis, &clients[0]).await;
    let fill = "for n = 1, 100000 do redis.call('ZADD', KEYS[1], n, 'gone:' .. n) end";
    redis.command(&["EVAL", fill, "1", &queue("door")]);
    let waiting = waiter(door(&clients[1]));
    eventually("the waiter is in the queue", SOON, || {
        subscribers(&redis, &turns_of(&clients[1], "door")) == 1
            && redis.command(&["ZCARD", &queue("door")]).number() > 100_000
    });
    let before = redis.calls();

    // then the waiter acquires nevertheless
    let released = Instant::now();
    release_guard(guard).await;
    assert!(released.elapsed() < secs(2), "{:?}", released.elapsed());
    let guard = entered(waiting).await;
    let calls = redis.calls().since(&before);
    println!("acquired after {:?}: {calls}", released.elapsed());
    assert!(released.elapsed() < secs(2), "{:?}", released.elapsed());
    assert!(calls.of("zpopmin") <= 110, "{calls}");
    release_guard(guard).await;

    // and no client extends the TTL of the remaining entries
    assert!((0..=15_000).contains(&pttl(&redis, &queue("door"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_key_of_another_program_keeps_its_content_and_ttl() {
    let key = queue("door");
    for put in [
        &["SET", &key, "x"][..],
        &["RPUSH", &key, "x"],
        &["SADD", &key, "x"],
        &["HSET", &key, "x", "y"],
        &["XADD", &key, "1-1", "x", "y"],
        &["PFADD", &key, "x"],
    ] {
        for ttl in [None, Some("90000")] {
            // given a key of another program that has the name of the queue
            let redis = Redis::start();
            assert!(!redis.command(put).is_error());
            if let Some(ttl) = ttl {
                redis.command(&["PEXPIRE", &key, ttl]);
            }
            let was = redis.command(&["DUMP", &key]);

            // when two clients acquire in turn for a while, and then one of the clients polls
            let clients = [client(&redis).await, client(&redis).await];
            for _ in 0..3 {
                for [holds, waits] in [[0, 1], [1, 0]] {
                    let guard = door(&clients[holds]).acquire().await.unwrap();
                    let waiting = waiter(door(&clients[waits]));
                    sleep(ms(30)).await;
                    release_guard(guard).await;
                    release_guard(entered(waiting).await).await;
                }
            }
            // then the key has not changed
            assert_eq!(redis.command(&["DUMP", &key]), was, "{put:?}");
            match (ttl, pttl(&redis, &key)) {
                (None, left) => assert_eq!(left, -1, "{put:?}"),
                (Some(_), left) => assert!((60_000..90_000).contains(&left), "{put:?}: {left}"),
            }
        }
    }
}

// The channels.

/// Publishes `message` on `channel` `times` times, with one command.
fn say(redis: &Redis, channel: &str, message: &str, times: u32) {
    let script = "for n = 1, ARGV[2] do redis.call('PUBLISH', KEYS[1], ARGV[1]) end";
    let mut connection = Connection::open(redis.port());
    let words = ["EVAL", script, "1", channel, message, &times.to_string()];
    assert!(connection.command(&words).is_nil());
}

/// The memory of a process in MB. `VmRSS` is the present value, `VmHWM` the highest value.
fn memory(process: &Helper, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    let kilobytes: u64 =
        line.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").parse().unwrap();
    kilobytes / 1_024
}

/// All channels of `door` that have a subscriber.
fn channels(redis: &Redis) -> Vec<String> {
    let all = redis.command(&["PUBSUB", "CHANNELS", "*"]);
    let all: Vec<String> = all.texts().into_iter().map(str::to_owned).collect();
    assert_eq!(all.len(), 3, "{all:?}");
    all
}

/// Returns a guard of `door`, and a process that waits for this lock.
async fn waiting_process(redis: &Redis) -> (LockGuard, Helper) {
    let guard = door(&client(redis).await).acquire().await.unwrap();
    let process = Helper::example("holder", &[&redis.url(), "door", "30000"]);
    process.wait_for_line(|line| line == "waiting", secs(10));
    until_places(redis, "door", 1);
    sleep(ms(500)).await;
    (guard, process)
}

/// Asserts that the process still waits, and that it acquires when the lock is free.
async fn waits_and_acquires(redis: &Redis, guard: LockGuard, process: &Helper) {
    assert!(guard.is_held());
    assert_eq!(hash(redis, "door"), [(guard.owner().to_string(), "1".into())]);
    release_guard(guard).await;
    let line = process.next_line(SOON);
    let owner = hash(redis, "door").remove(0).0;
    assert_eq!(line, format!("held {owner}"));
    process.send_line("release");
    assert_eq!(process.next_line(SOON), "released");
}

#[tokio::test(flavor = "multi_thread")]
async fn message_flood_costs_few_requests_and_little_memory() {
    let redis = Redis::start();
    // Without this setting, Redis would disconnect a slow subscriber. The subscriber would then
    // have fewer messages to read.
    redis.command(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0"]);
    let (guard, process) = waiting_process(&redis).await;
    let had = memory(&process, "VmRSS");
    for channel in channels(&redis) {
        for message in ["0", "00", "granted 1 1 x:1 door"] {
            // when all messages are published at once
            let (before, began) = (redis.calls(), Instant::now());
            say(&redis, &channel, message, 100_000);
            until_quiet(&redis).await;

            // then the waiter sends at most one request each millisecond, while messages arrive
            let (asked, took) = (redis.calls().since(&before).of("evalsha"), began.elapsed());
            println!("{channel} {message:?}: {asked} EVALSHA in {took:?}");
            assert!(u128::from(asked) <= 50 + took.as_millis(), "{asked} in {took:?}");
        }
    }
    let most = memory(&process, "VmHWM");
    println!("{had} MB before, {most} MB at most");
    assert!(most < had + 32, "{had} MB, then {most} MB");
    waits_and_acquires(&redis, guard, &process).await;
}

/// Waits until the waiter has received all messages, and no longer sends requests because of them.
async fn until_quiet(redis: &Redis) {
    let listeners = || redis.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).text().to_owned();
    eventually("the server has sent all messages", secs(60), || listeners().contains(" omem=0 "));
    let asked = || redis.calls().of("evalsha");
    let mut last = 0;
    for _ in 0..100 {
        let now = asked();
        if now <= last + 1 {
            return;
        }
        last = now;
        sleep(ms(100)).await;
    }
    panic!("the waiter still sends requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_megabytes_change_nothing_and_are_not_kept() {
    let redis = Redis::start();
    redis.command(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0"]);
    let (guard, process) = waiting_process(&redis).await;
    let had = memory(&process, "VmRSS");
    let message = "0".repeat(5_000_000);
    let before = redis.calls();
    for channel in channels(&redis) {
        say(&redis, &channel, &message, 8);
        until_quiet(&redis).await;
    }
    let asked = redis.calls().since(&before).of("evalsha");
    let most = memory(&process, "VmHWM");
    println!("{asked} EVALSHA; {had} MB before, {most} MB at most");
    assert!(asked <= 60, "{asked}");
    assert!(most < had + 64, "{had} MB, then {most} MB");
    waits_and_acquires(&redis, guard, &process).await;
}

// The lock.

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_a_huge_hash_are_fast_and_delay_no_other_lock() {
    // given a huge hash that is not a lock, and a client that waits for the lock of this key and
    // holds another lock
    let redis = Redis::start();
    let client = client(&redis).await;
    let fill = "for n = 1, 100000 do redis.call('HSET', KEYS[1], 'poison:' .. n, '1') end";
    redis.command(&["EVAL", fill, "1", "poison"]);
    let good = client.lock("good").unwrap().ttl(secs(3)).acquire().await.unwrap();
    let waiting = waiter(client.lock("poison").unwrap());
    until_places(&redis, "poison", 1);
    redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "50000"]);
    redis.command(&["SLOWLOG", "RESET"]);

    // then each request gets its reply at once, and the other locks of the client work as before
    let mut longest = ms(0);
    let began = Instant::now();
    while began.elapsed() < secs(4) {
        let asked = Instant::now();
        assert!(client.lock("poison").unwrap().try_acquire().await.unwrap().is_none());
        assert!(client.lock("poison").unwrap().holder().await.unwrap().is_some());
        release_guard(client.lock("quick").unwrap().acquire().await.unwrap()).await;
        longest = longest.max(asked.elapsed());
        sleep(ms(5)).await;
    }
    println!("the slowest of three requests: {longest:?}");
    assert!(longest < secs(2), "{longest:?}");
    // A busy machine delays some operations, but not all of them.
    let slow = redis.command(&["SLOWLOG", "LEN"]).number();
    assert!(slow <= 10, "{slow}");
    assert!(good.is_held());
    assert_eq!(client.stats().reconnects, 0);

    // and when the hash is deleted, the waiter acquires
    release_by_hand(&redis, "poison");
    let guard = within(SOON, "the waiter acquires", waiting).await.unwrap().unwrap();
    assert_eq!(places(&redis, "poison"), 0);
    assert!(subscribers(&redis, &channel("poison")) <= 1);
    assert!(subscribers(&redis, &queuers("poison")) <= 1);
    release_guard(guard).await;
    release_guard(good).await;
}
