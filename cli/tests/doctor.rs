//! `leasehold doctor`, with real servers.

use serde_json::Value;
use testkit::{Cluster, Redis, eventually};

use crate::common::{Ended, Process, SOON, command, leasehold, with_all_signals};

const OWNER: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";

fn doctor(redis: &Redis, words: &[&str]) -> (i32, Value) {
    let Ended { code, out, err } =
        leasehold(redis, &[&["doctor", "--json"], words].concat()).ended();
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code} {out} {err}")))
}

/// Returns the findings of one check that are worse than a note, as texts with their remedies.
fn bad(shown: &Value, check: &str) -> Vec<String> {
    let all = shown["findings"].as_array().unwrap().iter();
    all.filter(|it| it["check"] == check && it["severity"] != "note")
        .map(|it| {
            format!("{}: {}: {}; {}", it["severity"], it["subject"], it["text"], it["remedy"])
        })
        .collect()
}

#[test]
fn doctor_returns_0_and_prints_only_notes_for_a_healthy_server() {
    let redis = Redis::options().arg("--appendonly", "yes").arg("--appendfsync", "always").start();
    let (code, shown) = doctor(&redis, &[]);
    assert_eq!((code, &shown["worst"]), (0, &"note".into()), "{shown:#}");
    let checks: Vec<_> = shown["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["check"].as_str().unwrap())
        .collect();
    for check in ["server", "persistence", "latency", "lock", "acl", "objects"] {
        assert!(checks.contains(&check), "{check} in {checks:?}");
    }
    let text = leasehold(&redis, &["doctor", "orders:42"]).ended().out;
    assert!(text.contains("note    lock         orders:42:leasehold-doctor: acquired"), "{text}");
    assert_eq!(redis.command(&["DBSIZE"]).number(), 0, "no key is left");
}

#[test]
fn doctor_names_a_remedy_for_each_unsafe_setting() {
    let redis = Redis::start();
    for (name, value) in [
        ("save", ""),
        ("maxmemory", "100mb"),
        ("maxmemory-policy", "volatile-lru"),
        ("timeout", "10"),
        ("tcp-keepalive", "0"),
    ] {
        redis.command(&["CONFIG", "SET", name, value]);
    }
    let (code, shown) = doctor(&redis, &["--ttl", "1ms"]);
    assert_eq!((code, &shown["worst"]), (2, &"error".into()));
    assert!(bad(&shown, "hazard")[0].contains("volatile-lru"), "{shown:#}");
    let lost = "a restart loses all locks and all data of queues, maps and sets";
    assert!(bad(&shown, "persistence")[0].contains(lost), "{shown:#}");
    assert_eq!(bad(&shown, "settings").len(), 2, "{shown:#}");
    let replica = Redis::start_replica_of(&redis);
    replica.wait_until_synced();
    eventually("the finding is an error when the server has a replica", SOON, || {
        bad(&doctor(&redis, &[]).1, "persistence")
            .iter()
            .any(|it| it.contains("empties its replicas"))
    });
}

#[test]
fn doctor_returns_1_when_it_finds_only_warnings() {
    let redis = Redis::start();
    redis.command(&["CONFIG", "SET", "save", "3600 1"]);
    let (code, shown) = doctor(&redis, &[]);
    assert_eq!((code, &shown["worst"]), (1, &"warning".into()), "{shown:#}");
}

#[test]
fn doctor_prints_the_command_that_grants_missing_permissions() {
    let redis = Redis::start();
    redis.user("app", &["resetkeys", "~orders:*", "resetchannels", "-@all", "+set", "+evalsha"]);
    let (code, shown) = doctor(&redis, &["--user", "app", "orders:42"]);
    assert_eq!(code, 2);
    let [finding] = &bad(&shown, "acl")[..] else { panic!("{shown:#}") };
    for rule in ["+hset", "+pubsub|numsub", "&redisson_lock__channel:{orders:42}"] {
        assert!(finding.contains(&format!("'{rule}'")), "{rule}: {finding}");
    }
    assert!(!finding.contains("'+evalsha'") && !finding.contains("'~orders:42'"), "{finding}");

    let line = finding.split_once("ACL SETUSER ").unwrap().1.trim_end_matches('"');
    let words = line.split_whitespace().map(|word| word.trim_matches('\''));
    redis.command(&["ACL", "SETUSER"].into_iter().chain(words).collect::<Vec<_>>());
    let (_, shown) = doctor(&redis, &["--user", "app", "orders:42"]);
    assert_eq!(bad(&shown, "acl"), [""; 0]);
    assert_eq!(bad(&doctor(&redis, &["--user", "app", "gate"]).1, "acl").len(), 1);
}

/// Former bug: for a queue, `doctor` reported missing permissions of locks.
#[test]
fn doctor_checks_no_lock_permissions_for_a_queue_or_set() {
    let redis = Redis::start();
    let rules = ["resetkeys", "~app:*", "~leasehold_queue__*", "resetchannels", "-@all"];
    let calls = ["+hello", "+ping", "+info", "+type", "+client|setname", "+evalsha", "+eval"];
    let more = ["+script|load", "+subscribe", "+hlen", "+llen", "+zrange", "+rpush", "+zscore"];
    let url = redis.user("queues", &[&rules[..], &calls, &more].concat());
    redis.command(&["RPUSH", "app:jobs", "x"]);
    redis.command(&["SADD", "app:tags", "x"]);
    for (name, kind) in [("app:jobs", "queue"), ("app:tags", "set")] {
        let (code, shown) = doctor(&redis, &["--user", "queues", name]);
        assert!(code < 2, "{shown:#}");
        assert_eq!(bad(&shown, "acl"), [""; 0]);
        let text = format!("permissions are checked only for locks, not for this {kind}");
        let all = shown["findings"].as_array().unwrap();
        let note = all.iter().find(|it| it["check"] == "acl").unwrap();
        assert_eq!((&note["subject"], &note["text"]), (&name.into(), &text.into()));
        assert_eq!(note["remedy"], "see docs/guide/acl.md");
    }
    redis.command(&["HSET", "app:door", OWNER, "1"]);
    for name in ["app:door", "app:free"] {
        assert_eq!(bad(&doctor(&redis, &["--user", "queues", name]).1, "acl").len(), 1, "{name}");
    }

    // The client reads the kind of the object only if its user may inspect the object.
    redis.command(&["ACL", "SETUSER", "queues", "%R~*", "+@read", "+pubsub", "+time"]);
    let mut own = command(&["doctor", "--json", "app:jobs"]);
    own.env("REDIS_URL", url);
    let shown: Value = serde_json::from_str(&Process::of(own).ended().out).unwrap();
    assert_eq!((bad(&shown, "lock"), bad(&shown, "acl")), (vec![], vec![]), "{shown:#}");
}

#[test]
fn doctor_prints_the_commands_that_restore_set_aside_elements() {
    let redis = Redis::start();
    let names = ["app:jobs", "{t}:jobs", "NAME's ASIDE"];
    let keys = ["{app:jobs}", ":{t}:jobs", "{NAME's ASIDE}"];
    for (name, key) in names.iter().zip(keys) {
        let key = format!("leasehold_queue__aside:{key}");
        redis.command(&["RPUSH", &key, "bad", "worse"]);
        let (_, shown) = doctor(&redis, &[name]);
        let all = shown["findings"].as_array().unwrap();
        let finding = all.iter().find(|it| it["text"] == "elements were set aside").unwrap();
        let remedy = finding["remedy"].as_str().unwrap();
        let commands: Vec<_> = remedy.match_indices("redis-cli ").map(|(at, _)| at).collect();
        let [look, restore] = commands[..] else { panic!("{remedy}") };
        let look = remedy[look..].split(';').next().unwrap();
        for (line, out) in [(look, "bad\nworse\n"), (&remedy[restore..], "bad\n")] {
            let mut bash = with_all_signals("bash");
            let echo = "redis-cli() { printf '%s\\n' \"$@\"; }; ";
            bash.args(["-c", &format!("{echo}{line}")]);
            let words = Process::of(bash).ended().out;
            let words: Vec<_> = words.lines().collect();
            assert_eq!(words[1], key, "{line}");
            let reply = format!("{:?}", redis.command(&words));
            assert!(out.lines().all(|it| reply.contains(it)), "{line}: {reply}");
        }
        assert_eq!(redis.command(&["LLEN", name]).number(), 1, "{remedy}");
    }
}

#[test]
fn doctor_names_the_key_that_the_user_may_not_access() {
    let redis = Redis::start();
    let url = redis.user("app", &["~other", "&*", "+@all", "-@admin"]);
    let mut doctor = command(&["doctor", "--json", "door"]);
    doctor.env("REDIS_URL", url);
    let ended = Process::of(doctor).ended();
    let shown: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(ended.code, 2);
    assert!(
        bad(&shown, "lock")[0].contains("access to `door:leasehold-doctor` denied"),
        "{shown:#}"
    );
    let notes = ended.out.matches("cannot be checked").count();
    assert!(notes >= 2, "{shown:#}");
}

#[test]
fn doctor_finds_endless_holds_and_overdue_waiters() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    redis.command(&["RPUSH", "redisson_lock_queue:{gate}", OWNER]);
    redis.command(&["SET", "visits", "-7"]);
    let (code, shown) = doctor(&redis, &[]);
    assert_eq!(code, 1);
    let odd = bad(&shown, "objects");
    assert_eq!(odd.len(), 2, "{odd:?}");
    assert!(odd[0].contains("\"door\": \"hold never expires\"; "), "{odd:?}");
    assert!(odd[1].contains("\"gate\": \"the first waiter is overdue\"; "), "{odd:?}");
    assert_eq!(bad(&doctor(&redis, &["gate"]).1, "objects").len(), 1);
}

#[test]
fn doctor_warns_if_another_client_holds_its_trial_lock() {
    let redis = Redis::start();
    redis.command(&["HSET", "orders:leasehold-doctor", OWNER, "1"]);
    let (code, shown) = doctor(&redis, &["orders"]);
    assert_eq!(code, 1, "{shown:#}");
    assert!(bad(&shown, "lock")[0].contains("not acquired: another client holds it"), "{shown:#}");
}

#[test]
fn doctor_quotes_odd_names_in_its_remedies() {
    let redis = Redis::start();
    for name in ["door", "it's \\n", "door\u{1b}[2K\rnote\nnote", "a\u{202e}b", "-x", "größe"] {
        redis.command(&["HSET", name, OWNER, "1"]);
        let out = leasehold(&redis, &["doctor"]).ended().out;
        assert!(
            !out.contains(['\u{1b}', '\r', '\u{202e}']) && !out.contains("\nnote\n"),
            "{out:?}"
        );
        let line = out.lines().find(|it| it.contains("leasehold unlock --force")).unwrap();
        let (_, words) = line.split_once("leasehold unlock").unwrap();
        let mut bash = with_all_signals("bash");
        let program = env!("CARGO_BIN_EXE_leasehold");
        bash.args(["-c", &format!("{program} unlock --yes{words}")]);
        bash.env("REDIS_URL", redis.url()).env("LC_ALL", "C.UTF-8");
        let ended = Process::of(bash).ended();
        assert_eq!(ended.code, 0, "{line}: {}", ended.err);
        assert_eq!(redis.command(&["EXISTS", name]).number(), 0, "{line}");
    }
}

#[test]
fn doctor_checks_each_primary_of_a_cluster() {
    let cluster = Cluster::start();
    let mut doctor = command(&["doctor", "--json", "orders:42"]);
    doctor.env("REDIS_URL", cluster.url());
    let ended = Process::of(doctor).ended();
    let shown: Value = serde_json::from_str(&ended.out).unwrap();
    let coverage = ended.out.matches("16384 of 16384 slots").count();
    assert_eq!(coverage, cluster.masters().len(), "{shown:#}");
    assert!(ended.out.contains("acquired and released"), "{shown:#}");
}

#[test]
fn doctor_returns_69_when_the_server_is_unreachable() {
    let redis = Redis::start();
    redis.stop();
    let ended = leasehold(&redis, &["doctor"]).ended();
    assert_eq!((ended.code, ended.out.as_str()), (69, ""), "{}", ended.err);
}
