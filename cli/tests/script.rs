//! `leasehold lock`, `renew`, `unlock` and `wait`.

use rustix::process::Signal;
use testkit::{Redis, acl_rules_in, eventually};

use crate::common::{Process, SOON, command, leasehold, shell, with_all_signals};

fn lock(redis: &Redis, words: &[&str]) -> String {
    let ended = leasehold(redis, &[&["lock", "door"], words].concat()).ended();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(ended.out.lines().count(), 1);
    ended.out.trim().to_owned()
}

#[test]
fn lock_of_a_shell_script_is_renewed_and_released_by_its_token() {
    let redis = Redis::start();
    let token = lock(&redis, &["--ttl", "60s"]);
    assert_eq!(redis.command(&["HGET", "door", &token]).text(), "1");
    assert_eq!(leasehold(&redis, &["lock", "-n", "--ttl", "1s", "door"]).ended().code, 75);
    assert_eq!(leasehold(&redis, &["renew", "--ttl", "10m", "door", &token]).ended().code, 0);
    assert!(redis.command(&["PTTL", "door"]).number() > 300_000);
    assert_eq!(leasehold(&redis, &["unlock", "door", &token]).ended().code, 0);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
    for words in [&["renew", "--ttl", "1m"][..], &["unlock"]] {
        let ended = leasehold(&redis, &[words, &["door", &token]].concat()).ended();
        assert_eq!(ended.code, 76, "{}", ended.err);
        assert!(ended.err.contains(" `door`: the hold has ended: "), "{}", ended.err);
    }
}

#[test]
fn unlock_command_with_a_wrong_token_releases_nothing() {
    let redis = Redis::start();
    let token = lock(&redis, &["--ttl", "60s"]);
    let other = format!("{token}0");
    assert_eq!(leasehold(&redis, &["unlock", "door", &other]).ended().code, 76);
    assert_eq!(redis.command(&["HGET", "door", &token]).text(), "1");
    assert_eq!(leasehold(&redis, &["unlock", "door", ""]).ended().code, 64);
    assert_eq!(leasehold(&redis, &["unlock", "door"]).ended().code, 64);
    assert_eq!(leasehold(&redis, &["lock", "door"]).ended().code, 64, "`lock` requires a lease");
}

#[test]
fn release_by_token_wakes_a_waiting_command() {
    let redis = Redis::start();
    let token = lock(&redis, &["-x", "--ttl", "10m"]);
    let waiting = shell(&redis, &["-s"], "echo entered");
    let channel = "redisson_rwlock:{door}";
    let count = || redis.command(&["PUBSUB", "NUMSUB", channel]).list()[1].number();
    eventually("the waiter is subscribed", SOON, || count() == 1);
    assert_eq!(leasehold(&redis, &["unlock", "-x", "door", &token]).ended().code, 0);
    assert_eq!(waiting.ended().out, "entered\n");
}

#[test]
fn fenced_lock_prints_its_fencing_token() {
    let redis = Redis::start();
    let printed = lock(&redis, &["--fenced", "--ttl", "60s"]);
    let (token, fence) = printed.split_once(' ').unwrap();
    assert_eq!(fence, "1");
    assert_eq!(leasehold(&redis, &["renew", "--ttl", "10m", "door", token]).ended().code, 0);
    assert!(redis.command(&["PTTL", "door"]).number() > 300_000);
    assert_eq!(leasehold(&redis, &["unlock", "door", token]).ended().code, 0);
    let json: serde_json::Value =
        serde_json::from_str(&lock(&redis, &["--fenced", "--json", "--ttl", "60s"])).unwrap();
    assert_eq!((&json["name"], &json["fence"]), (&"door".into(), &2.into()));
    assert_eq!(json["lease_ms"], 60_000);
    let token = json["token"].as_str().unwrap();
    assert_eq!(redis.command(&["HGET", "door", token]).text(), "1");
    assert_eq!(leasehold(&redis, &["unlock", "door", token]).ended().code, 0);
    let json: serde_json::Value =
        serde_json::from_str(&lock(&redis, &["--json", "--ttl", "60s"])).unwrap();
    assert!(json["fence"].is_null(), "{json}");
}

#[test]
fn interrupted_lock_command_leaves_no_hold() {
    let redis = Redis::start();
    let token = lock(&redis, &["--ttl", "10m"]);
    let waiting = leasehold(&redis, &["lock", "--ttl", "10m", "door"]);
    let queue = "leasehold_lock__queue:{door}";
    eventually("the waiter is in the queue", SOON, || {
        redis.command(&["EXISTS", queue]).number() == 1
    });
    waiting.signal(Signal::TERM);
    assert_eq!(waiting.ended().code, 143);
    assert_eq!(redis.command(&["EXISTS", queue]).number(), 0);
    assert_eq!(leasehold(&redis, &["unlock", "door", &token]).ended().code, 0);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

#[test]
fn lock_command_leaves_no_hold_if_its_output_pipe_is_closed() {
    let redis = Redis::start();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut lock = command(&["lock", "--ttl", "10m", "door"]);
    let status = lock.env("REDIS_URL", redis.url()).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(71));
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

#[test]
fn run_returns_75_for_a_held_lock_even_if_stderr_is_closed() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", "java:7", "1"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut run = command(&["run", "-n", "door", "true"]);
    let status = run.env("REDIS_URL", redis.url()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(75));
}

#[test]
fn forced_release_requires_the_yes_option_and_wakes_a_waiter() {
    let redis = Redis::start();
    let token = lock(&redis, &["--ttl", "10m"]);
    let refused = leasehold(&redis, &["unlock", "--force", "door"]).ended();
    assert_eq!(refused.code, 64);
    assert!(refused.err.contains("add --yes"), "{}", refused.err);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 1);

    let waiting = shell(&redis, &[], "echo entered");
    let queue = "leasehold_lock__queue:{door}";
    eventually("the waiter is in the queue", SOON, || {
        redis.command(&["EXISTS", queue]).number() == 1
    });
    let forced = leasehold(&redis, &["unlock", "--force", "--yes", "door"]).ended();
    assert_eq!(forced.code, 0);
    assert!(forced.err.contains(&format!("was held by `{token}`")), "{}", forced.err);
    assert_eq!(waiting.ended().out, "entered\n");
    assert_eq!(leasehold(&redis, &["unlock", "--force", "--yes", "door"]).ended().code, 1);

    redis.command(&["SET", "visits", "7"]);
    assert_eq!(leasehold(&redis, &["unlock", "--force", "--yes", "visits"]).ended().code, 65);
    assert_eq!(redis.command(&["GET", "visits"]).text(), "7");
}

#[test]
fn forced_release_of_a_fair_lock_wakes_the_first_waiter() {
    let redis = Redis::start();
    let fair = &["--fair", "--ttl", "2s"];
    let holder = shell(&redis, fair, "echo ready; while :; do sleep 0.02; done");
    holder.wait_for("ready");
    let waiting = shell(&redis, fair, "echo entered");
    let queue = "redisson_lock_queue:{door}";
    eventually("the waiter is in the queue", SOON, || {
        redis.command(&["LLEN", queue]).number() == 1
    });
    let forced = leasehold(&redis, &["unlock", "--force", "--yes", "door"]).ended();
    assert_eq!(forced.code, 0, "{}", forced.err);
    let ended = waiting.ended();
    assert_eq!((ended.code, ended.out.as_str()), (0, "entered\n"), "{}", ended.err);
    assert_eq!(holder.ended().code, 76);
}

#[test]
fn forced_release_shows_the_holder_and_asks_on_a_terminal() {
    let redis = Redis::start();
    let token = lock(&redis, &["--ttl", "10m"]);
    for (answer, left) in [("n\n", 1), ("y\n", 0)] {
        let program = env!("CARGO_BIN_EXE_leasehold");
        let mut terminal = with_all_signals("script");
        let line = format!("{program} unlock --force door");
        terminal.args(["-qec", &line, "/dev/null"]).env("REDIS_URL", redis.url());
        let process = Process::of(terminal);
        process.wait_for(&format!("  held by     {token}"));
        process.write(answer);
        assert_eq!(process.ended().code, left);
        assert_eq!(i64::from(left), redis.command(&["EXISTS", "door"]).number());
    }
}

#[test]
fn forced_release_keeps_a_hold_granted_after_the_prompt() {
    const OTHER: &str = "2f1cbd9e-3e5c-4d8e-9b4f-5a52a2b36b0c:17";
    let redis = Redis::start();
    let token = lock(&redis, &["--ttl", "10m"]);
    let program = env!("CARGO_BIN_EXE_leasehold");
    let mut terminal = with_all_signals("script");
    let line = format!("{program} unlock --force door");
    terminal.args(["-qec", &line, "/dev/null"]).env("REDIS_URL", redis.url());
    let process = Process::of(terminal);
    process.wait_for(&format!("  held by     {token}"));
    redis.command(&["DEL", "door"]);
    redis.command(&["HSET", "door", OTHER, "1"]);
    process.write("y\n");
    let ended = process.ended();
    assert_eq!(ended.code, 1, "{}", ended.out);
    assert!(
        ended.out.contains(
            "the holders released the lock meanwhile; use `leasehold show` to see the present ones"
        ),
        "{}",
        ended.out
    );
    assert_eq!(redis.command(&["HGET", "door", OTHER]).text(), "1");
}

#[test]
fn forced_release_of_permits_or_a_map_returns_65() {
    let redis = Redis::start();
    redis.command(&["SET", "pool", "1"]);
    redis.command(&["ZADD", "{pool}:timeout", "9000000000000", "0123456789abcdef"]);
    let ended = leasehold(&redis, &["unlock", "--force", "--yes", "pool"]).ended();
    assert_eq!(ended.code, 65);
    assert!(ended.err.contains("the object is of the kind expirable semaphore"), "{}", ended.err);
    assert!(ended.err.contains("see docs/guide/runbook.md"), "{}", ended.err);

    // A hash of another program is not a lock, so it cannot be released by force.
    redis.command(&["HSET", "settings", "color", "red"]);
    let ended = leasehold(&redis, &["unlock", "--force", "--yes", "settings"]).ended();
    assert!(ended.code == 65 && ended.err.contains("of the kind map"), "{}", ended.err);
}

#[test]
fn forced_release_leaves_a_record_that_show_and_doctor_print() {
    let redis = Redis::start();
    let token = lock(&redis, &["--ttl", "10m"]);
    let words = ["unlock", "--force", "--yes", "--reason", "it hung", "door"];
    let forced = leasehold(&redis, &words);
    let pid = forced.pid();
    assert_eq!(forced.ended().code, 0);
    let by = format!("(pid {pid})");
    let is_record = |text: &str| {
        [&token, "`door`", "unlock --force, reason \"it hung\"", &by]
            .iter()
            .all(|it| text.contains(it))
    };
    let free = leasehold(&redis, &["show", "door"]).ended();
    assert_eq!(free.code, 1);
    assert!(free.out.starts_with("  forced      20") && is_record(&free.out), "{}", free.out);
    let free = leasehold(&redis, &["show", "--json", "door"]).ended();
    assert_eq!(free.code, 1);
    let shown: serde_json::Value = serde_json::from_str(&free.out).unwrap();
    assert_eq!((&shown["name"], &shown["kind"]), (&"door".into(), &serde_json::Value::Null));
    assert_eq!(shown["forced"][0]["owner"], token.as_str());
    lock(&redis, &["--ttl", "10m"]);
    let held = leasehold(&redis, &["show", "door"]).ended().out;
    assert!(held.starts_with("door: lock\n") && is_record(&held), "{held}");
    let shown = leasehold(&redis, &["show", "--json", "door"]).ended().out;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["forced"][0]["owner"], token.as_str());
    for words in [&["doctor"][..], &["doctor", "door"]] {
        let findings = leasehold(&redis, words).ended().out;
        let line = findings.lines().find(|line| line.starts_with("note    forced "));
        assert!(line.is_some_and(is_record), "{findings}");
    }
    assert!(!leasehold(&redis, &["show", "gate"]).ended().out.contains("forced"));
}

#[test]
fn forced_release_requires_permission_to_write_its_record() {
    let redis = Redis::start();
    lock(&redis, &["--ttl", "10m"]);
    let guide = acl_rules_in(include_str!("../../docs/guide/acl.md"), "leasehold");
    let added = guide.iter().find(|rules| rules.contains(&"~leasehold_audit__forced")).unwrap();
    let mut rights = vec!["+@all", "-rpush", "-lpop", "&*", "%R~*", "~door", "~leasehold_lock__*"];
    for expected in [69, 0] {
        let url = redis.user("operator", &rights);
        let mut unlock = command(&["unlock", "--force", "--yes", "door"]);
        unlock.env("REDIS_URL", url);
        let ended = Process::of(unlock).ended();
        assert_eq!(ended.code, expected, "{}", ended.err);
        let names_the_key = ended.err.contains("leasehold_audit__forced");
        assert_eq!(names_the_key, expected == 69, "{}", ended.err);
        let held = redis.command(&["EXISTS", "door"]).number();
        assert_eq!(held, i64::from(expected == 69));
        rights.extend(added);
    }
}

#[test]
fn acl_user_of_the_guide_releases_every_kind_of_lock_by_force() {
    const OWNER: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";
    let redis = Redis::start();
    let guide = acl_rules_in(include_str!("../../docs/guide/acl.md"), "leasehold");
    let keys = ["~app:*", "~{app:*", "~redisson_lock_queue:{app:*", "~leasehold_audit__forced"];
    let rules = keys.iter().chain(&["%R~*{app:*"]).flat_map(|key| {
        let rules = guide.iter().find(|rules| rules.contains(key));
        rules.unwrap_or_else(|| panic!("no rule for {key}"))
    });
    let url = redis.user("operator", &rules.copied().collect::<Vec<_>>());
    let writer = format!("{OWNER}:write");
    let reader = format!("{{app:read}}:{OWNER}:rwlock_timeout:1");
    for words in [
        &["HSET", "app:lock", OWNER, "1"][..],
        &["HSET", "app:fair", OWNER, "1"],
        &["RPUSH", "redisson_lock_queue:{app:fair}", OWNER],
        &["HSET", "app:write", "mode", "write", &writer, "1"],
        &["HSET", "app:read", "mode", "read", OWNER, "1"],
        &["SET", &reader, "1"],
    ] {
        redis.command(words);
    }
    for kind in ["lock", "fair", "write", "read"] {
        let name = format!("app:{kind}");
        let mut unlock = command(&["unlock", "--force", "--yes", &name]);
        unlock.env("REDIS_URL", &url);
        let ended = Process::of(unlock).ended();
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert_eq!(redis.command(&["EXISTS", &name]).number(), 0, "{name}");
        for words in [&["wait", "-n", &name][..], &["ls", &name]] {
            let mut reads = command(words);
            reads.env("REDIS_URL", &url);
            let ended = Process::of(reads).ended();
            assert_eq!(ended.code, 0, "{}", ended.err);
        }
    }
}

#[test]
fn forced_release_of_a_writer_also_releases_its_read_hold() {
    const OWNER: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";
    const OTHER: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:43";
    for (reader, records) in [(Some(OWNER), 2), (Some(OTHER), 2), (None, 1)] {
        let redis = Redis::start();
        redis.command(&["HSET", "door", "mode", "write", &format!("{OWNER}:write"), "1"]);
        if let Some(reader) = reader {
            redis.command(&["HSET", "door", reader, "1"]);
            let lease = format!("{{door}}:{reader}:rwlock_timeout:1");
            redis.command(&["SET", &lease, "1", "PX", "600000"]);
        }
        let ended = leasehold(&redis, &["unlock", "--force", "--yes", "door"]).ended();
        assert_eq!((ended.code, ended.err.lines().count()), (0, records), "{}", ended.err);
        let keys = redis.command(&["KEYS", "*door*"]).list().len();
        assert_eq!(keys, 0, "{reader:?}");
        let forced = redis.command(&["LLEN", "leasehold_audit__forced"]).number();
        assert_eq!(forced, records as i64, "{reader:?}");
    }
}

#[test]
fn partly_failed_forced_release_reports_the_released_holders() {
    const FIRST: &str = "2f1cbd9e-3e5c-4d8e-9b4f-5a52a2b36b0c:17";
    const SECOND: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";
    let redis = Redis::start();
    redis.command(&["HSET", "door", "mode", "read", FIRST, "1", SECOND, "1"]);
    let [first, second] = [FIRST, SECOND].map(|owner| format!("{{door}}:{owner}:rwlock_timeout:1"));
    for lease in [&first, &second] {
        redis.command(&["SET", lease, "1", "PX", "600000"]);
    }
    let writes = format!("~{first}");
    let rights = ["+@all", "&*", "%R~*", "~door", "~leasehold_*", &writes];
    let mut unlock = command(&["unlock", "--force", "--yes", "door"]);
    unlock.env("REDIS_URL", redis.user("operator", &rights));
    let ended = Process::of(unlock).ended();
    assert_eq!(ended.code, 69, "{}", ended.err);
    let lines: Vec<_> = ended.err.lines().collect();
    assert!(lines[0].contains(&format!("was held by `{FIRST}`")), "{}", ended.err);
    assert!(lines[1].contains("only 1 of 2 released: access to `door` denied"), "{}", ended.err);
    assert_eq!(redis.command(&["HKEYS", "door"]).list().len(), 2);
}

#[test]
fn duration_above_a_century_returns_64() {
    let redis = Redis::start();
    lock(&redis, &["--ttl", "10m"]);
    for words in [
        &["wait", "door", "-w"][..],
        &["run", "door", "true", "-w"],
        &["run", "door", "true", "--ttl"],
        &["run", "door", "true", "--grace"],
        &["top", "--interval"],
        &["doctor", "--ttl"],
        &["bench", "--time"],
    ] {
        let (option, words) = words.split_last().unwrap();
        let words = [&words[..1], &[option, "4000000000000000h"], &words[1..]].concat();
        let ended = leasehold(&redis, &words).ended();
        assert_eq!(ended.code, 64, "{words:?}: {}", ended.err);
        assert!(ended.err.contains("use at most 100 years"), "{words:?}: {}", ended.err);
    }
    let waiting = leasehold(&redis, &["wait", "-w", "876000h", "door"]);
    redis.command(&["DEL", "door"]);
    assert_eq!(waiting.ended().code, 0);
}

#[test]
fn wait_command_counts_an_expired_permit_as_free() {
    let redis = Redis::start();
    redis.command(&["SET", "pool", "0"]);
    redis.command(&["ZADD", "{pool}:timeout", "1000", "0123456789abcdef"]);
    assert_eq!(leasehold(&redis, &["wait", "-w", "1", "pool"]).ended().code, 0);
}

#[test]
fn wait_command_ends_when_the_lock_is_free() {
    let redis = Redis::start();
    assert_eq!(leasehold(&redis, &["wait", "door"]).ended().code, 0);
    let token = lock(&redis, &["--ttl", "10m"]);
    for (words, remedy) in
        [(&["-n"][..], "wait with -w instead of -n\n"), (&["-w", "0.3"], "wait longer with -w\n")]
    {
        let ended = leasehold(&redis, &[&["wait", "door"], words].concat()).ended();
        assert_eq!(ended.code, 75);
        assert!(ended.err.contains(&format!("held by `{token}`")), "{}", ended.err);
        assert!(ended.err.ends_with(remedy), "{}", ended.err);
    }
    let waiting = leasehold(&redis, &["wait", "door"]);
    assert_eq!(leasehold(&redis, &["unlock", "door", &token]).ended().code, 0);
    assert_eq!(waiting.ended().code, 0);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 0);
}

#[test]
fn wait_command_continues_after_an_outage() {
    let redis = Redis::start();
    lock(&redis, &["--ttl", "10m"]);
    let waiting = leasehold(&redis, &["wait", "door"]);
    eventually("`wait` sends requests", SOON, || redis.calls().of("type") > 0);
    redis.pause();
    waiting.wait_for_error("; still waiting\n");
    redis.resume();
    waiting.wait_for_error("the server replies again\n");
    redis.command(&["DEL", "door"]);
    assert_eq!(waiting.ended().code, 0);
}

#[test]
fn unlock_and_renew_of_a_read_write_lock_require_a_side() {
    let redis = Redis::start();
    let token = lock(&redis, &["-s", "--ttl", "10m"]);
    for words in [&["unlock", "door", &token][..], &["renew", "--ttl", "1h", "door", &token]] {
        let ended = leasehold(&redis, words).ended();
        assert_eq!(ended.code, 65, "{}", ended.err);
        assert!(
            ended.err.contains(
                "the name is a read-write lock; add -s for its read lock, or -x for its write lock"
            ),
            "{}",
            ended.err
        );
    }
    assert_eq!(leasehold(&redis, &["unlock", "-s", "door", &token]).ended().code, 0);
    assert_eq!(leasehold(&redis, &["show", "door"]).ended().code, 1);
}
