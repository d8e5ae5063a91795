//! `leasehold show` and `leasehold ls`, with keys as Redisson and Leasehold write them.

use std::{
    sync::mpsc::{self, TryRecvError},
    thread,
    time::Duration,
};

use serde_json::Value;
use testkit::{Cluster, Connection, Redis, acl_rules_in, eventually};
use tokio::time::Instant;

use crate::common::{Process, SOON, command, fill, leasehold, ms, shell, with_all_signals};

const OWNER: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";
const OTHER: &str = "2f1cbd9e-3e5c-4d8e-9b4f-5a52a2b36b0c:17";

fn json(redis: &Redis, name: &str) -> Value {
    let ended = leasehold(redis, &["show", "--json", name]).ended();
    assert_eq!(ended.code, 0, "{name}: {}", ended.err);
    serde_json::from_str(&ended.out).unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect()
}

#[test]
fn lock_is_shown_with_its_holder_waiters_and_token() {
    let redis = Redis::start();
    let holder = shell(&redis, &["--fenced"], "echo $LOCK_OWNER; read line");
    let owner = holder.wait_for("").trim().to_owned();
    let _waiting = shell(&redis, &[], "true");
    eventually("the waiter is in the queue", SOON, || {
        json(&redis, "door")["waiters"].as_array().unwrap().len() == 1
    });
    let shown = json(&redis, "door");
    assert_eq!(shown["kind"], "lock");
    assert_eq!((&shown["holders"][0]["owner"], &shown["token"]), (&owner.into(), &1.into()));
    assert!((1..=30_000).contains(&shown["holders"][0]["lease_ms"].as_u64().unwrap()), "{shown}");
    assert!(shown["waiters"][0]["waited_ms"].is_u64() && shown["subscribers"] == 1, "{shown}");
    let text = leasehold(&redis, &["show", "door"]).ended().out;
    assert!(text.starts_with("door: lock\n  held by"), "{text}");
    assert!(text.contains("  waiter      ") && text.contains(", lease ends in "), "{text}");
    holder.write("\n");
}

/// Waiting Redisson clients are only subscribers. Former bug: `ls` counted only the wait queue.
#[test]
fn subscribers_count_as_waiters() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    let subscribed = |_| {
        let mut redisson = Connection::open(redis.port());
        redisson.command(&["SUBSCRIBE", "redisson_lock__channel:{door}"]);
        redisson
    };
    let _redissons: Vec<_> = (0..2).map(subscribed).collect();
    let listed = || leasehold(&redis, &["ls"]).ended().out;
    assert!(listed().contains("\t2 waiters\t"), "{}", listed());
    redis.command(&["ZADD", "leasehold_lock__queue:{door}", "1", OTHER]);
    assert!(listed().contains("\t2 waiters\t"), "{}", listed());
    assert_eq!(json(&redis, "door")["waiting"], 2);
}

#[test]
fn show_returns_1_for_an_absent_object() {
    let redis = Redis::start();
    redis.command(&["SET", "page", "text"]);
    redis.command(&["ZADD", "scores", "1", "one"]);
    let error = leasehold(&redis, &["show", "two\nlines"]).ended().err;
    assert!(error.starts_with(r"leasehold: show `two\nlines`: "), "{error}");
    for name in ["door", "page", "scores"] {
        let ended = leasehold(&redis, &["show", name]).ended();
        assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{name}");
        assert!(ended.err.starts_with(&format!("leasehold: show `{name}`: ")), "{}", ended.err);
        let hint = "an empty queue, map or set has no key";
        assert!(ended.err.contains(hint), "{}", ended.err);
    }
}

#[test]
fn show_marks_a_lock_without_a_lease() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "2"]);
    let shown = json(&redis, "door");
    assert_eq!(
        (&shown["holders"][0]["count"], &shown["holders"][0]["lease_ms"]),
        (&2.into(), &Value::Null)
    );
    assert_eq!(texts(&shown["odd"]), ["hold never expires"]);
}

#[test]
fn show_marks_the_overdue_first_waiter_of_a_fair_lock() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    redis.command(&["PEXPIRE", "door", "60000"]);
    redis.command(&["RPUSH", "redisson_lock_queue:{door}", OTHER, OWNER]);
    redis.command(&["ZADD", "redisson_lock_timeout:{door}", "1000", OTHER, "9000000000000", OWNER]);
    let shown = json(&redis, "door");
    assert_eq!(
        (&shown["kind"], texts(&shown["odd"])),
        (&"fair lock".into(), vec!["the first waiter is overdue"])
    );
    let waiters = shown["waiters"].as_array().unwrap();
    assert_eq!((&waiters[0]["owner"], &waiters[0]["overdue"]), (&OTHER.into(), &true.into()));
    assert_eq!((&waiters[1]["owner"], &waiters[1]["overdue"]), (&OWNER.into(), &false.into()));
    // If the wait queue is left without the key of its lock, `show` still shows the lock.
    redis.command(&["DEL", "door"]);
    assert_eq!(json(&redis, "door")["kind"], "fair lock");
}

#[test]
fn list_shows_more_than_999_waiters_as_1000_plus() {
    let redis = Redis::start();
    for (waiters, shown) in [(999, "999 waiters"), (2_000, "1000+ waiters")] {
        let fill = "for i = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], ARGV[2] .. i) end";
        let queue = "redisson_lock_queue:{door}";
        redis.command(&["DEL", queue]);
        redis.command(&["EVAL", fill, "1", queue, &waiters.to_string(), OWNER]);
        let listed = leasehold(&redis, &["ls", "*"]).ended().out;
        assert!(listed.contains(&format!("\t{shown}\t")), "{listed}");
    }
    let text = leasehold(&redis, &["show", "door"]).ended().out;
    assert!(text.contains("\n  waiters     1000+\n"), "{text}");
}

#[test]
fn show_marks_a_waiter_without_a_recent_heartbeat_as_overdue() {
    let redis = Redis::start();
    let (far, past) = ("9000000000000", "1000");
    redis.command(&["RPUSH", "redisson_lock_queue:{door}", OTHER, OWNER]);
    redis.command(&["ZADD", "redisson_lock_timeout:{door}", far, OTHER, far, OWNER]);
    for (alive, expected) in [(far, [false, false]), (past, [true, false])] {
        redis.command(&["ZADD", "leasehold_fair__alive:{door}", alive, OTHER]);
        let shown = json(&redis, "door");
        let overdue: Vec<_> =
            shown["waiters"].as_array().unwrap().iter().map(|it| &it["overdue"]).collect();
        assert_eq!(overdue, expected, "{shown}");
    }
}

#[test]
fn list_ends_soon_when_the_server_stops_replying() {
    let redis = Redis::start();
    for number in 0..20_000 {
        redis.command(&["SET", &format!("number:{number}"), "7"]);
    }
    let list = leasehold(&redis, &["ls", "--numbers"]);
    eventually("the command reads the values", SOON, || {
        redis.calls().to_string().contains("getrange: ")
    });
    redis.pause();
    let ended = list.ended();
    redis.resume();
    assert_eq!(ended.code, 69);
    assert!(ended.err.starts_with("leasehold: list `*`: "), "{}", ended.err);
    assert!(ended.err.contains("the list is incomplete"), "{}", ended.err);
    assert!(!ended.out.contains("unreadable"), "{}", ended.out);
}

#[test]
fn show_prints_a_separate_lease_for_each_reader() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", "mode", "read", OWNER, "1", OTHER, "1"]);
    redis.command(&["PEXPIRE", "door", "60000"]);
    redis.command(&["SET", &format!("{{door}}:{OWNER}:rwlock_timeout:1"), "1", "PX", "60000"]);
    redis.command(&["SET", &format!("{{door}}:{OTHER}:rwlock_timeout:1"), "1", "PX", "20000"]);
    let shown = json(&redis, "door");
    assert_eq!(shown["kind"], "read lock");
    let leases: Vec<_> = shown["holders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["lease_ms"].as_u64().unwrap())
        .collect();
    assert!(
        leases.iter().max().unwrap() > &40_000 && leases.iter().min().unwrap() <= &20_000,
        "{leases:?}"
    );

    redis.command(&["DEL", "door"]);
    redis.command(&["HSET", "door", "mode", "write", &format!("{OWNER}:write"), "1"]);
    redis.command(&["PEXPIRE", "door", "60000"]);
    let shown = json(&redis, "door");
    assert_eq!(
        (&shown["kind"], &shown["holders"][0]["owner"]),
        (&"write lock".into(), &OWNER.into())
    );
}

#[test]
fn show_distinguishes_semaphores_numbers_and_rate_limiters() {
    let redis = Redis::start();
    let holder =
        leasehold(&redis, &["run", "--permits", "2", "pool", "-c", "echo ready; read line"]);
    holder.wait_for("ready");
    let shown = json(&redis, "pool");
    assert_eq!((&shown["kind"], &shown["number"]), (&"expirable semaphore".into(), &1.into()));
    assert_eq!(shown["holders"][0]["owner"].as_str().unwrap().len(), 32);
    holder.write("\n");

    redis.command(&["SET", "gates", "-3"]);
    let shown = json(&redis, "gates");
    assert_eq!(
        (&shown["kind"], texts(&shown["odd"])),
        (&"number".into(), vec!["the number is below 0"])
    );
    redis.command(&["SET", "seats", "3"]);
    redis.command(&["HSET", "leasehold_semaphore:{seats}", OWNER, "2"]);
    let shown = json(&redis, "seats");
    assert_eq!((&shown["kind"], &shown["holders"][0]["count"]), (&"semaphore".into(), &2.into()));
    redis.command(&["HSET", "api", "rate", "5", "interval", "1000", "type", "0"]);
    assert_eq!(json(&redis, "api")["kind"], "rate limiter");
}

#[test]
fn list_shows_maps_sets_and_queues_only_with_the_data_option() {
    let redis = Redis::start();
    redis.command(&["HSET", "cart", "total", "7", "tax", "1"]);
    redis.command(&["SADD", "tags", "one", "two", "three"]);
    redis.command(&["RPUSH", "jobs", "1"]);
    assert_eq!(leasehold(&redis, &["ls", "--numbers"]).ended().out, "");
    let listed = leasehold(&redis, &["ls", "--data"]).ended().out;
    let line = |name, kind, size| format!("{name}\t{kind}\tfree\t0 waiters\tsize {size}\t\t\n");
    assert_eq!(
        listed,
        line("cart", "map", 2) + &line("jobs", "queue", 1) + &line("tags", "set", 3)
    );
    assert_eq!(leasehold(&redis, &["show", "tags"]).ended().out, "tags: set\n  size        3\n");
}

#[test]
fn queue_is_shown_with_its_claims_when_its_list_is_empty() {
    let redis = Redis::start();
    let ends = |name: &str, owner: &str, at: &str| {
        redis.command(&["ZADD", &format!("leasehold_queue__claimants:{{{name}}}"), at, owner]);
        let claims = format!("leasehold_queue__claims:{{{name}}}");
        redis.command(&["HSET", &claims, owner, "0000000000000001:x"]);
    };
    ends("jobs", OWNER, "9000000000000");
    ends("jobs", OTHER, "1000");
    redis.command(&["RPUSH", "leasehold_queue__aside:{mail}", "x", "y"]);
    let shown = json(&redis, "jobs");
    assert_eq!((&shown["kind"], &shown["size"]), (&"queue".into(), &0.into()));
    assert_eq!(
        (&shown["holders"][0]["owner"], &shown["holders"][0]["lease_ms"]),
        (&OTHER.into(), &0.into())
    );
    assert_eq!(shown["holders"][1]["owner"], OWNER);
    assert_eq!(texts(&shown["odd"]), ["the lease of a claim is over"]);
    let text = leasehold(&redis, &["show", "jobs"]).ended().out;
    assert!(text.contains(&format!("  claimed by  {OTHER}, lease is over\n")), "{text}");
    let listed = leasehold(&redis, &["ls"]).ended().out;
    let lines: Vec<_> =
        listed.lines().map(|line| line.split('\t').take(2).collect::<Vec<_>>()).collect();
    assert_eq!(lines, [["jobs", "queue"], ["mail", "queue"]]);
    assert_eq!(texts(&json(&redis, "mail")["odd"]), ["elements were set aside"]);
}

/// Former bug: `show` printed that no client waits at a barrier.
#[test]
fn barrier_is_shown_with_its_members_and_its_generation() {
    let redis = Redis::start();
    let counts = |set: &str, member: &str, until: &str| {
        redis.command(&["ZADD", &format!("leasehold_barrier__{set}"), until, member]);
    };
    counts("members:{phase}", OWNER, "9000000000000");
    counts("members:{phase}", OTHER, "1000");
    counts("inside::{t}:phase", OTHER, "9000000000000");
    redis.command(&["SET", "leasehold_barrier__generation:{phase}", "7"]);
    let shown = json(&redis, "phase");
    assert_eq!((&shown["kind"], &shown["number"]), (&"barrier".into(), &7.into()));
    assert_eq!((&shown["waiters"][0]["owner"], &shown["waiting"]), (&OWNER.into(), &1.into()));
    let text = leasehold(&redis, &["show", "phase"]).ended().out;
    let expected =
        format!("phase: barrier\n  waiter      {OWNER}\n  subscribers 0\n  generation  7\n");
    assert_eq!(text, expected);
    let text = leasehold(&redis, &["show", "{t}:phase"]).ended().out;
    assert!(text.contains(&format!("  inside      {OTHER}, lease ends in ")), "{text}");
    let listed = leasehold(&redis, &["ls"]).ended().out;
    assert!(listed.starts_with("phase\tbarrier\tfree\t1 waiter\tgeneration 7\t\t\n"), "{listed}");
    assert!(listed.contains(&format!("\n{{t}}:phase\tbarrier\t{OTHER}, lease ")), "{listed}");
}

#[test]
fn lock_of_a_map_key_is_shown_with_the_name_of_the_map() {
    let redis = Redis::start();
    let name = "{orders}:UcFxNFrVn28tvxVuKmcwtA:lock";
    redis.command(&["HSET", name, OWNER, "1"]);
    let shown = json(&redis, name);
    assert_eq!((&shown["kind"], &shown["key_of"]), (&"lock".into(), &"orders".into()));
    assert!(leasehold(&redis, &["show", name]).ended().out.contains("  key of      orders\n"));
}

#[test]
fn list_finds_every_lock_with_scan_instead_of_keys() {
    let redis = Redis::start();
    for number in 0..2_000 {
        redis.command(&["HSET", &format!("lock:{number:04}"), OWNER, "1"]);
    }
    redis.command(&["HSET", "cart", "total", "7"]);
    redis.command(&["SET", "visits", "7"]);
    redis.command(&["ZADD", "{pool}:timeout", "1", "x"]);
    let before = redis.calls();
    let ended = leasehold(&redis, &["ls"]).ended();
    assert_eq!((ended.code, ended.out.lines().count()), (0, 2_000), "{}", ended.err);
    assert!(
        ended.out.starts_with(&format!(
            "lock:0000\tlock\t{OWNER}, lease never ends\t0 waiters\t\t\todd: "
        ))
    );
    let calls = redis.calls().since(&before).to_string();
    assert!(calls.contains("scan: ") && !calls.contains("keys: "), "{calls}");

    let some = leasehold(&redis, &["ls", "--json", "lock:000*"]).ended();
    let names: Vec<Value> =
        some.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((names.len(), &names[9]["name"]), (10, &"lock:0009".into()));
    let numbers = leasehold(&redis, &["ls", "--numbers", "v*"]).ended();
    assert_eq!(numbers.out, "visits\tnumber\tfree\t0 waiters\tnumber 7\t\t\n");
}

#[test]
fn server_stays_responsive_while_ls_and_show_read_its_keys() {
    const KEYS: i64 = 20_000;
    let redis = Redis::start();
    fill(&redis, KEYS);
    let begins = || {
        redis.command(&["CONFIG", "RESETSTAT"]);
        redis.command(&["SLOWLOG", "RESET"]);
        Instant::now()
    };
    redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "500"]);
    let mut connection = Connection::open(redis.port());
    let start = begins();
    let (listed, longest) = thread::scope(|scope| {
        // If `ended` panics, `running` is dropped, so the thread ends, and the test fails.
        let (running, stopped) = mpsc::channel::<()>();
        let pings = scope.spawn(move || {
            let mut longest = Duration::ZERO;
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                let asked = Instant::now();
                connection.command(&["PING"]);
                longest = longest.max(asked.elapsed());
                thread::sleep(ms(5));
            }
            longest
        });
        // This takes four seconds if no other test runs, and more than 15 seconds on a busy machine.
        let listed = leasehold(&redis, &["ls"]).ended_within(4 * SOON);
        drop(running);
        (listed, pings.join().unwrap())
    });
    let figures = |what: &str, start: Instant| {
        let (took, stats) =
            (start.elapsed(), redis.command(&["INFO", "commandstats"]).text().to_owned());
        let slow = redis.command(&["SLOWLOG", "GET", "-1"]);
        let slowest = slow.list().iter().map(|it| it.list()[2].number()).max().unwrap_or_default();
        let sum = |field: &str| {
            let of = |line: &str| line.split(field).nth(1)?.split(',').next()?.parse::<u64>().ok();
            stats.lines().filter_map(of).sum::<u64>()
        };
        let (calls, used) = (sum("calls="), Duration::from_micros(sum("usec=")));
        println!(
            "{what} took {took:?}, {calls} commands, {used:?} of the server, the slowest {slowest} µs"
        );
        assert!(!stats.contains("cmdstat_keys") && slowest < 100_000, "{slowest} µs: {stats}");
    };
    figures(&format!("ls of {KEYS} keys"), start);
    println!("a PING took at most {longest:?}");
    assert_eq!(
        (listed.code, listed.out.lines().count() as i64),
        (0, KEYS * 42 / 100),
        "{}",
        listed.err
    );

    let start = begins();
    assert_eq!(leasehold(&redis, &["show", "fair:7"]).ended().code, 0);
    figures("show", start);
}

#[test]
fn list_shows_a_fair_lock_that_has_waiters_but_no_holder() {
    let redis = Redis::start();
    for key in ["redisson_lock_queue:{door}", "redisson_lock_queue:{7}:gate"] {
        redis.command(&["RPUSH", key, OTHER]);
    }
    let ended = leasehold(&redis, &["ls"]).ended();
    let line =
        |name| format!("{name}\tfair lock\tfree\t1 waiter\t\t\todd: the first waiter is overdue\n");
    assert_eq!(ended.out, line("door") + &line("{7}:gate"));
}

#[test]
fn list_skips_long_values_of_other_programs() {
    let redis = Redis::start();
    let long = "x".repeat(300_000);
    redis.command(&["SET", "page", &long]);
    redis.command(&["HSET", "cart", "one", &long, "two", &long]);
    redis.command(&["HSET", "wide", &long, "1"]);
    redis.command(&["HSET", "door", OWNER, "1"]);
    let ended = leasehold(&redis, &["ls", "--numbers"]).ended();
    assert_eq!((ended.code, ended.out.lines().count()), (0, 1), "{} {}", ended.out, ended.err);
    assert_eq!(leasehold(&redis, &["show", "page"]).ended().code, 1);
    for (name, size) in [("cart", 2), ("wide", 1)] {
        let shown = json(&redis, name);
        assert_eq!((&shown["kind"], &shown["size"]), (&"map".into(), &size.into()));
    }
}

/// A reply with all holders would be so long that it ends the connection. Every other request on
/// the connection would fail, too.
#[test]
fn list_marks_a_semaphore_with_too_many_holders_and_continues() {
    let redis = Redis::start();
    redis.command(&["SET", "seats", "3"]);
    redis.command(&["HSET", "gate", OWNER, "1"]);
    for number in 0..6_000 {
        let owner = format!("{OWNER}{number}");
        redis.command(&["HSET", "leasehold_semaphore:{seats}", &owner, "1"]);
    }
    let ended = leasehold(&redis, &["ls", "--numbers"]).ended();
    assert_eq!((ended.code, ended.out.lines().count()), (69, 2), "{} {}", ended.out, ended.err);
    assert!(ended.out.contains("seats\tunreadable: "), "{}", ended.out);
    assert!(ended.out.contains("leasehold_semaphore:{seats}"), "{}", ended.out);
}

#[test]
fn list_marks_an_unreadable_object_and_continues() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    redis.command(&["HSET", "gate", OWNER, "1"]);
    redis.command(&["SET", "redisson_lock_queue:{door}", "no list"]);
    let ended = leasehold(&redis, &["ls"]).ended();
    assert_eq!((ended.code, ended.out.lines().count()), (69, 2), "{}", ended.out);
    assert!(ended.out.starts_with("door\tunreadable: "), "{}", ended.out);
    assert!(ended.out.contains("\ngate\tlock\t"), "{}", ended.out);
    assert!(ended.err.contains("1 of 2 objects"), "{}", ended.err);
    let json = leasehold(&redis, &["ls", "--json", "door"]).ended();
    let shown: Value = serde_json::from_str(&json.out).unwrap();
    assert!(shown["name"] == "door" && shown["error"].is_string(), "{shown}");
}

#[test]
fn show_omits_a_reader_without_a_lease_key() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", "mode", "read", OWNER, "1", OTHER, "1"]);
    redis.command(&["SET", &format!("{{door}}:{OTHER}:rwlock_timeout:1"), "1", "PX", "60000"]);
    let shown = json(&redis, "door");
    assert_eq!(shown["holders"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!((&shown["holders"][0]["owner"], texts(&shown["odd"])), (&OTHER.into(), vec![]));
}

/// A read-write lock without holders blocks writers until its key expires. So an operator must see
/// the key.
#[test]
fn show_warns_of_a_read_write_lock_key_that_has_no_holders() {
    let redis = Redis::start();
    for mode in ["read", "write"] {
        redis.command(&["HSET", mode, "mode", mode]);
        let shown = json(&redis, mode);
        assert_eq!(shown["kind"], format!("{mode} lock"));
        assert_eq!(texts(&shown["odd"]), ["nobody holds it, but its key exists"]);
        let forced = leasehold(&redis, &["unlock", "--force", "--yes", mode]).ended();
        assert_eq!(forced.code, 1);
        assert!(forced.err.contains("the lock is free; delete its key"), "{}", forced.err);
    }
    assert_eq!(leasehold(&redis, &["ls"]).ended().out.lines().count(), 2);
}

#[test]
fn show_prints_when_the_once_per_option_allows_the_next_run() {
    let redis = Redis::start();
    for name in ["door", "{t}:gate"] {
        let words = ["run", "--once-per", "1h", name, "true"];
        assert_eq!(leasehold(&redis, &words).ended().code, 0);
        let left = json(&redis, name)["next_start_ms"].as_u64().unwrap();
        assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    }
    let text = leasehold(&redis, &["show", "door"]).ended().out;
    assert!(text.contains("  once per    has started, may start again in 59m"), "{text}");
    let listed = leasehold(&redis, &["ls"]).ended().out;
    let lines: Vec<_> = listed.lines().collect();
    assert!(lines[0].starts_with("door\tlock\tfree\t0 waiters\t\tmay start in 59m"), "{listed}");
    assert!(lines.len() == 2 && lines[1].starts_with("{t}:gate\t"), "{listed}");

    // A user without the permission for the record still sees the lock.
    redis.command(&["HSET", "door", OWNER, "1"]);
    let keys = ["~door", "~{door}*", "~redisson_*", "~leasehold_[^r]*", "~leasehold_rwlock__*"];
    let rights = [&["+@all", "&*"], &keys[..]].concat();
    let mut show = command(&["show", "--json", "door"]);
    show.env("REDIS_URL", redis.user("reader", &rights));
    let ended = Process::of(show).ended();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.contains("\"next_start_ms\":null"), "{}", ended.out);
}

#[test]
fn ls_accepts_a_pattern_with_unbalanced_braces() {
    let redis = Redis::start();
    redis.command(&["HSET", "{tenant-7}:door", OWNER, "1"]);
    for pattern in ["{tenant*", "*}:door", "{}*door", "{[st]enant-7}:*"] {
        let listed = leasehold(&redis, &["ls", pattern]).ended();
        let expected = usize::from(pattern != "{}*door");
        assert_eq!((listed.code, listed.out.lines().count()), (0, expected), "{pattern}");
    }
}

#[test]
fn show_reads_infinite_scores_of_holders_and_waiters() {
    let redis = Redis::start();
    redis.command(&["SET", "pool", "0"]);
    redis.command(&["ZADD", "{pool}:timeout", "+inf", "0123456789abcdef"]);
    assert_eq!(json(&redis, "pool")["holders"][0]["lease_ms"], Value::Null);
    redis.command(&["HSET", "door", OWNER, "1"]);
    redis.command(&["RPUSH", "redisson_lock_queue:{door}", OTHER]);
    redis.command(&["ZADD", "redisson_lock_timeout:{door}", "+inf", OTHER]);
    redis.command(&["ZADD", "leasehold_lock__queue:{door}", "+inf", OWNER]);
    let shown = json(&redis, "door");
    assert_eq!(shown["waiters"].as_array().unwrap().len(), 2, "{shown}");
    assert_eq!(shown["waiters"][0]["overdue"], false);
}

#[test]
fn list_shows_objects_of_every_node_of_a_cluster() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let holders: Vec<_> = (0..8)
        .map(|number| {
            let mut run =
                command(&["run", &format!("door:{number}"), "-c", "echo ready; read line"]);
            run.env("REDIS_URL", &url);
            let process = Process::of(run);
            process.wait_for("ready");
            process
        })
        .collect();
    let mut list = command(&["ls", "door:*"]);
    list.env("REDIS_URL", &url);
    let ended = Process::of(list).ended();
    assert_eq!(ended.out.lines().count(), 8, "{} {}", ended.out, ended.err);
    holders.iter().for_each(|it| it.write("\n"));
}

#[test]
fn json_has_the_fields_that_the_guide_lists() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    redis.command(&["RPUSH", "redisson_lock_queue:{door}", OTHER]);
    let shown = json(&redis, "door");
    let guide = include_str!("../../docs/guide/command-inspect.md");
    let mut fields = vec![];
    for (prefix, object) in
        [("", &shown), ("holders[].", &shown["holders"][0]), ("waiters[].", &shown["waiters"][0])]
    {
        for (field, value) in object.as_object().unwrap() {
            let kind = match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            let row = format!("| `{prefix}{field}` | ");
            let line = guide.lines().find(|line| line.starts_with(&row));
            let line = line.unwrap_or_else(|| panic!("the guide has no row {row}"));
            assert!(line[row.len()..].split('|').next().unwrap().contains(kind), "{line}: {kind}");
            fields.push(row);
        }
    }
    assert_eq!(fields.len(), 22, "{fields:?}");
}

#[test]
fn acl_user_of_the_guide_can_show_every_kind_of_object() {
    let redis = Redis::start();
    let guide = include_str!("../../docs/guide/command-inspect.md");
    let rights = acl_rules_in(guide, "ops");
    let words: Vec<_> = [&["ACL", "SETUSER", "ops"], &rights[0][..]].concat();
    assert_eq!(redis.command(&words).text(), "OK");
    redis.command(&["HSET", "door", OWNER, "1"]);
    redis.command(&["HSET", "book", "mode", "read", OWNER, "1"]);
    redis.command(&["SET", &format!("{{book}}:{OWNER}:rwlock_timeout:1"), "1"]);
    redis.command(&["SET", "pool", "3"]);
    let as_ops = |words: &[&str]| {
        let mut shown = command(words);
        shown.env("REDIS_URL", format!("redis://ops:secret@127.0.0.1:{}/", redis.port()));
        Process::of(shown).ended()
    };
    redis.command(&["HSET", "cart", "total", "7"]);
    redis.command(&["SADD", "tags", "one"]);
    redis.command(&["RPUSH", "jobs", "1"]);
    for name in ["door", "book", "pool", "cart", "tags", "jobs"] {
        let ended = as_ops(&["show", name]);
        assert_eq!(ended.code, 0, "{}", ended.err);
    }
    assert_eq!(as_ops(&["ls"]).out.lines().count(), 2);
    assert_eq!(as_ops(&["run", "-n", "free", "true"]).code, 69, "the user can only read");
}

#[test]
fn show_succeeds_while_a_lock_is_created_and_deleted() {
    let redis = Redis::start();
    thread::scope(|scope| {
        // If `ended` panics, `running` is dropped, so the thread ends, and the test fails.
        let (running, stopped) = mpsc::channel::<()>();
        let port = redis.port();
        scope.spawn(move || {
            let mut connection = Connection::open(port);
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                connection.command(&["HSET", "door", OWNER, "1"]);
                connection.command(&["DEL", "door"]);
            }
        });
        let codes: Vec<_> =
            (0..40).map(|_| leasehold(&redis, &["show", "door"]).ended().code).collect();
        drop(running);
        assert!(codes.iter().all(|code| [0, 1].contains(code)), "{codes:?}");
    });
}

#[test]
fn show_reports_a_missing_permission() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    let url = redis.user("reader", &["+@all", "-pubsub", "~*", "&*"]);
    let mut show = command(&["show", "door"]);
    show.env("REDIS_URL", url);
    let ended = Process::of(show).ended();
    assert_eq!(ended.code, 69);
    assert!(ended.err.starts_with("leasehold: access to `door` denied: "), "{}", ended.err);
}

#[test]
fn long_list_shows_its_progress_only_on_a_terminal() {
    let redis = Redis::start();
    for lock in 0..500 {
        redis.command(&["HSET", &format!("lock:{lock}"), OWNER, "1"]);
    }
    // `ls` shows its progress only after a second. The pause of Redis makes `ls` take longer than
    // that.
    let pause = || redis.command(&["CLIENT", "PAUSE", "1500", "ALL"]);
    pause();
    let mut terminal = with_all_signals("script");
    let program = env!("CARGO_BIN_EXE_leasehold");
    let line = format!("{program} ls >/dev/null; echo code $?; {program} ls 'lock:7'");
    terminal.args(["-qec", &line, "/dev/null"]).env("REDIS_URL", redis.url());
    let out = Process::of(terminal).ended().out;
    let (shown, rest) = out.split_once("code 0\r\n").unwrap_or_else(|| panic!("{out:?}"));
    assert!(shown.contains("\r\u{1b}[Ksearching: "), "{shown:?}");
    assert!(shown.ends_with("\r\u{1b}[K"), "{shown:?}");
    assert!(rest.starts_with("lock:7  lock  ") && !rest.contains('\t'), "{rest:?}");

    pause();
    let ended = leasehold(&redis, &["ls"]).ended();
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    assert_eq!(ended.out.lines().count(), 500);
}
