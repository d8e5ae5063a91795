//! Both clients leave the same data in Redis and send the same commands. The documented exceptions
//! are the wait queue of Leasehold and its channels.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use interop::{
    AT_ONCE, Kind, Pair, Redisson, Thread, Together, Way, shown, since, until_asleep, wake_up,
    woken,
};
use testkit::{Redis, Reply, eventually};

#[test]
fn java_and_rust_leave_the_same_keys_after_each_step() {
    let both = Together::start();
    let [java, rust] = [Side::Java, Side::Rust].map(|side| keys_of(&both, side, Kind::Lock));

    // The keys are the same. The subscribers are the same, too, except for two channels of
    // Leasehold.
    for (ours, theirs) in rust.iter().zip(&java) {
        let (step, keys, mut listeners) = ours.clone();
        listeners.retain(|it| it != OWN_CHANNEL && it != COUNTING_CHANNEL);
        assert_eq!((step, keys, listeners), *theirs);
    }
    assert_eq!(rust.len(), java.len());
    // The keys after each step are exactly these.
    let key = |step, holds, lease| {
        (step, vec![format!("door: hash <owner> {holds}, ends in {lease}")], vec![])
    };
    let nothing = |step| (step, vec![], vec![]);
    let mut waited = key("somebody waits", 1, 30_000);
    waited.2.push("redisson_lock__channel:{door}: 1".to_owned());
    let expected = [
        key("lock", 1, 30_000),
        key("lock again", 2, 30_000),
        key("unlock one of two", 1, 30_000),
        waited,
        key("the waiter has it", 1, 30_000),
        nothing("unlock"),
        key("lock for 12 s", 1, 12_000),
        nothing("unlock the lease"),
        key("lock to be forced", 1, 30_000),
        nothing("force"),
        key("spin lock", 1, 30_000),
        nothing("spin unlock"),
    ];
    let mut expected: Vec<Step> = expected.into();
    assert_eq!(java, expected);
    // While a client waits, Leasehold has two more channels.
    expected[3].2.insert(0, COUNTING_CHANNEL.to_owned());
    expected[3].2.insert(1, OWN_CHANNEL.to_owned());
    assert_eq!(rust, expected);
    shown("record: keys, fields and ttls after each step", Way::RustToJava);
    shown("record: keys, fields and ttls after each step", Way::JavaToRust);
}

/// A fenced lock has the hash of a plain lock, and a counter. The first grant creates the counter,
/// which is never deleted.
#[test]
fn fenced_lock_adds_only_a_counter_without_expiry() {
    for side in [Side::Java, Side::Rust] {
        // given the data of a lock without a counter
        let plain = keys_of(&Together::start(), side, Kind::Lock);

        // then a fenced lock has the same data, and also a counter
        let mut fenced = keys_of(&Together::start(), side, Kind::Fenced);
        let mut counts = Vec::new();
        for (step, keys, _) in &mut fenced {
            let counter = keys.iter().position(|key| key.starts_with(COUNTER));
            let counter = keys.remove(counter.unwrap_or_else(|| panic!("{side:?}: {step}")));
            counts.push(counter.replace("redisson_lock_token:{door}: string ", ""));
        }
        assert_eq!(fenced, plain, "{side:?}");

        // Java increments the counter at each reentry, and Leasehold does not.
        let expected = match side {
            Side::Java => [1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 5, 5],
            Side::Rust => [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4],
        };
        let expected = expected.map(|count| format!("{count}, without an end"));
        assert_eq!(counts, expected, "{side:?}");
    }
    shown("record: a counter beside the keys of a fenced lock", Way::RustToJava);
    shown("record: a counter beside the keys of a fenced lock", Way::JavaToRust);
}

#[test]
fn fenced_script_has_the_token_counter_as_its_last_key() {
    let both = Together::start();
    let (java, rust) = (both.java.thread("T1").fenced(), both.rust.thread("T1").fenced());
    let without_owners = |words: &[String]| -> Vec<String> {
        words[2..].iter().map(|word| without_owner(word)).collect()
    };

    // Java sends the same request with and without a need for the token.
    for ask in [enters_by_lock, enters_by_token] {
        let (asked, done) = question_of(&both, &java, ask);
        assert_eq!(without_owners(&asked), ["2", "door", COUNTER, "30000", "<owner>"]);
        let count = format!("incr {COUNTER}");
        assert_eq!(done, [count.as_str(), "hincrby door <owner> 1", "pexpire door 30000"]);
    }
    // Leasehold sends the number of tokens after the two arguments about the queue. A request that
    // adds no queue entry has the key of the lock in place of the key of the queue.
    let (asked, done) = question_of(&both, &rust, enters_by_lock);
    let expected = ["3", "door", "door", COUNTER, "<owner>", "30000", "", "15000", "1"];
    assert_eq!(without_owners(&asked), expected);
    let count = format!("incrby {COUNTER} 1");
    assert_eq!(done, [count.as_str(), "hset door <owner> 1", "pexpire door 30000"]);

    // A request that adds a queue entry has the key of the queue.
    assert!(java.lock("door").acquired());
    let monitor = both.redis.monitor();
    let waiting = rust.start_lock("door");
    both.until_asleep("door", 1);
    let lines = monitor.stop();
    let asked: Vec<_> = lines.iter().map(|line| words(line)).collect();
    let queued = asked.iter().find(|words| words.iter().any(|word| word == "listening"));
    let queued = without_owners(queued.unwrap_or_else(|| panic!("{lines:#?}")));
    let queue = "leasehold_lock__queue:{door}";
    let expected = ["3", "door", queue, COUNTER, "<owner>", "30000", "listening", "15000", "1"];
    assert_eq!(queued, expected);
    assert!(java.unlock("door").is_true());
    assert!(waiting.wait(SECOND * 5).acquired());
}

#[test]
fn fenced_reply_is_a_token_or_the_remaining_time() {
    let both = Together::start();
    for (side, enters, wants_token) in [
        (Side::Java, enters_by_lock as Enters, false),
        (Side::Java, enters_by_token, true),
        (Side::Rust, enters_by_lock, true),
    ] {
        // given the request of one client, and a value of the counter
        let (question, _) = question_of(&both, &side.thread(&both, "T1").fenced(), enters);
        both.redis.command(&["SET", COUNTER, "6"]);

        // when one owner sends this request twice, and another owner sends it once
        let [granted, again, taken] = ["one", "one", "other"].map(|owner| {
            let owned = |word: &String| without_owner(word).replace("<owner>", owner);
            let words: Vec<_> = question.iter().map(owned).collect();
            both.redis.command(&words.iter().map(String::as_str).collect::<Vec<_>>())
        });

        // then the first owner gets a token each time, and the other owner gets the remaining time
        let count = both.redis.command(&["HGET", "door", "one"]);
        let left = if wants_token { taken.list()[0].number() } else { taken.number() };
        assert!((25_000..=30_000).contains(&left), "{side:?}: {left}");
        match (side, wants_token) {
            (Side::Java, false) => assert!(granted.is_nil() && again.is_nil()),
            (Side::Java, true) => {
                let numbers =
                    |answer: Reply| [answer.list()[0].number(), answer.list()[1].number()];
                assert_eq!((numbers(granted), numbers(again)), ([-1, 7], [-1, 8]));
                assert_eq!(numbers(taken), [left, -1]);
            }
            (Side::Rust, _) => {
                for (answer, token) in [(granted, 7), (again, 8)] {
                    assert_eq!(
                        (answer.list()[0].text(), answer.list()[1].number()),
                        ("one", token)
                    );
                }
                assert_eq!((taken.list()[1].text(), taken.list()[2].text()), ("one", "1"));
            }
        }
        // At a reentry, Java increments the hold count, and Leasehold sets the hold count. A client
        // that finds the lock held draws no token.
        assert_eq!(count.text(), if let Side::Java = side { "2" } else { "1" });
        assert_eq!(both.redis.command(&["GET", COUNTER]).text(), "8");
        both.redis.command(&["DEL", "door"]);
    }
}

/// A call that acquires a free lock.
type Enters = fn(&Thread);

fn enters_by_lock(thread: &Thread) {
    assert!(thread.lock("door").acquired());
}

fn enters_by_token(thread: &Thread) {
    assert!(thread.start_lock_and_get_token("door").wait(SECOND * 5).number() > 0);
}

/// Returns the words of the request by which `thread` acquires the free lock, and the changes of
/// keys by this request.
fn question_of(both: &Together, thread: &Thread, enters: Enters) -> (Vec<String>, Vec<String>) {
    // A client sends the first call of a script twice: by hash, and again after it has loaded the
    // script.
    enters(thread);
    assert!(thread.unlock("door").is_true());
    let monitor = both.redis.monitor();
    enters(thread);
    let lines = monitor.stop();
    assert!(thread.unlock("door").is_true());
    let asked = lines.iter().map(|line| words(line)).find(|words| words[0] == "EVALSHA");
    (asked.unwrap_or_else(|| panic!("{lines:#?}")), deeds(&lines))
}

/// Compares the changes of keys by both clients, as `MONITOR` shows them. Leasehold sets the hold
/// count instead of incrementing it, and deletes the field instead of the key. When one of two
/// shares is released, Leasehold keeps the lease. It writes no key `redisson_unlock_latch`. There
/// are no other differences.
#[test]
fn java_and_rust_write_the_same_lock_keys() {
    let both = Together::start();
    let (java, rust) = (deeds_of(&both, Side::Java), deeds_of(&both, Side::Rust));

    assert_eq!(
        java,
        [
            ("lock", vec!["hincrby door <owner> 1", "pexpire door 30000"]),
            ("lock again", vec!["hincrby door <owner> 1", "pexpire door 30000"]),
            (
                "unlock one of two",
                vec!["hincrby door <owner> -1", "pexpire door 30000", "set <latch> 0 px <ms>"]
            ),
            (
                "unlock",
                vec![
                    "hincrby door <owner> -1",
                    "del door",
                    "publish redisson_lock__channel:{door} 0",
                    "set <latch> 1 px <ms>"
                ]
            ),
            ("lock for 12 s", vec!["hincrby door <owner> 1", "pexpire door 12000"]),
            ("force", vec!["del door", "publish redisson_lock__channel:{door} 0"]),
            ("force nothing", vec!["del door"]),
            ("spin lock", vec!["hincrby door <owner> 1", "pexpire door 30000"]),
            ("spin unlock", vec!["hincrby door <owner> -1", "del door", "set <latch> 1 px <ms>"]),
        ]
        .map(owned)
    );
    assert_eq!(
        rust,
        [
            ("lock", vec!["hset door <owner> 1", "pexpire door 30000"]),
            ("lock again", vec!["hset door <owner> 2", "pexpire door 30000"]),
            ("unlock one of two", vec!["hset door <owner> 1"]),
            ("unlock", vec!["hdel door <owner>", "publish redisson_lock__channel:{door} 0"]),
            ("lock for 12 s", vec!["hset door <owner> 1", "pexpire door 12000"]),
            ("force", vec!["del door", "publish redisson_lock__channel:{door} 0"]),
            ("force nothing", vec![]),
            ("spin lock", vec!["hset door <owner> 1", "pexpire door 30000"]),
            ("spin unlock", vec!["hdel door <owner>", "publish redisson_lock__channel:{door} 0"]),
        ]
        .map(owned)
    );
    shown("record: commands, with the documented exceptions", Way::RustToJava);
    shown("record: commands, with the documented exceptions", Way::JavaToRust);
}

/// Compares the changes of keys for both sides of a read-write lock.
#[test]
fn java_and_rust_write_the_same_read_write_keys() {
    let both = Together::start();
    let (java, rust) = (deeds_of_sides(&both, Side::Java), deeds_of_sides(&both, Side::Rust));
    const LEASE: &str = "pexpire door 30000";
    const HELD: &str = "set <latch> 0 px <ms>";
    const FREE: &str = "set <latch> 1 px <ms>";
    assert_eq!(
        java,
        [
            (
                "read",
                vec![
                    "hset door mode read",
                    "hset door <owner> 1",
                    "set {door}:<owner>:rwlock_timeout:1 1",
                    "pexpire {door}:<owner>:rwlock_timeout:1 30000",
                    LEASE
                ]
            ),
            (
                "read again",
                vec![
                    "hincrby door <owner> 1",
                    "set {door}:<owner>:rwlock_timeout:2 1",
                    "pexpire {door}:<owner>:rwlock_timeout:2 30000",
                    LEASE
                ]
            ),
            (
                "leave one of two",
                vec!["hincrby door <owner> -1", "del {door}:<owner>:rwlock_timeout:2", LEASE, HELD]
            ),
            (
                "leave",
                vec![
                    "hincrby door <owner> -1",
                    "hdel door <owner>",
                    "del {door}:<owner>:rwlock_timeout:1",
                    "del door",
                    "publish redisson_rwlock:{door} 0",
                    FREE
                ]
            ),
            ("write", vec!["hset door mode write", "hset door <owner>:write 1", LEASE]),
            ("write again", vec!["hincrby door <owner>:write 1", "pexpire door 60000"]),
            ("leave one of two", vec!["hincrby door <owner>:write -1", LEASE, HELD]),
            (
                "read as well",
                vec![
                    "hincrby door <owner> 1",
                    "set {door}:<owner>:rwlock_timeout:1 1",
                    "pexpire {door}:<owner>:rwlock_timeout:1 30000",
                    LEASE
                ]
            ),
            (
                "write no longer",
                vec![
                    "hincrby door <owner>:write -1",
                    "hdel door <owner>:write",
                    "hset door mode read",
                    FREE
                ]
            ),
            ("force the readers", vec!["del door", "publish redisson_rwlock:{door} 0"]),
            ("write", vec!["hset door mode write", "hset door <owner>:write 1", LEASE]),
            (
                "leave",
                vec![
                    "hincrby door <owner>:write -1",
                    "hdel door <owner>:write",
                    "del door",
                    "publish redisson_rwlock:{door} 1",
                    FREE
                ]
            ),
            ("force nothing", vec![]),
        ]
        .map(owned)
    );
    // In Redis, all Leasehold readers of a process are one reader. One command sets the key of this
    // reader and its lease.
    let enters = "set {door}:<owner>:rwlock_timeout:1 1 PX 30000";
    assert_eq!(
        rust,
        [
            ("read", vec![enters, "hset door mode read", "hset door <owner> 1", LEASE]),
            ("read again", vec![]),
            ("leave one of two", vec![]),
            (
                "leave",
                vec![
                    "del {door}:<owner>:rwlock_timeout:1",
                    "hdel door <owner>",
                    "del door",
                    "publish redisson_rwlock:{door} 0"
                ]
            ),
            ("write", vec!["hset door mode write <owner>:write 1", LEASE]),
            ("write again", vec!["hset door <owner>:write 2", LEASE]),
            ("leave one of two", vec!["hset door <owner>:write 1"]),
            ("read as well", vec![enters, "hset door <owner> 1", LEASE]),
            (
                "write no longer",
                vec![
                    "hdel door <owner>:write",
                    "hset door mode read",
                    LEASE,
                    "publish redisson_rwlock:{door} 1"
                ]
            ),
            ("force the readers", vec!["del door", "publish redisson_rwlock:{door} 0"]),
            ("write", vec!["hset door mode write <owner>:write 1", LEASE]),
            ("leave", vec!["del door", "publish redisson_rwlock:{door} 1"]),
            ("force nothing", vec![]),
        ]
        .map(owned)
    );
    shown("record: commands of a read-write lock, with the documented exceptions", Way::RustToJava);
    shown("record: commands of a read-write lock, with the documented exceptions", Way::JavaToRust);
}

/// Rounds the time of an expiry up, because some leases of Java are the rest of earlier leases.
fn rounded(deed: String) -> String {
    match deed.rsplit_once(' ') {
        Some((what, millis)) if what.starts_with("pexpire") => {
            let millis: u64 = millis.parse().unwrap();
            format!("{what} {}", millis.div_ceil(5_000) * 5_000)
        }
        _ => deed,
    }
}

fn deeds_of_sides(both: &Together, side: Side) -> Vec<(&'static str, Vec<String>)> {
    let thread = side.thread(both, "deeds");
    let (reads, writes) = (thread.reads(), thread.writes());
    let steps: [(&str, &dyn Fn() -> bool); 13] = [
        ("read", &|| reads.lock("door").acquired()),
        ("read again", &|| reads.lock("door").acquired()),
        ("leave one of two", &|| reads.unlock("door").is_true()),
        ("leave", &|| reads.unlock("door").is_true()),
        ("write", &|| writes.lock("door").acquired()),
        ("write again", &|| writes.lock("door").acquired()),
        ("leave one of two", &|| writes.unlock("door").is_true()),
        ("read as well", &|| reads.lock("door").acquired()),
        ("write no longer", &|| writes.unlock("door").is_true()),
        ("force the readers", &|| thread.reads().force_unlock("door").is_true()),
        ("write", &|| writes.lock("door").acquired()),
        ("leave", &|| writes.unlock("door").is_true()),
        ("force nothing", &|| !writes.force_unlock("door").is_true()),
    ];
    let mut all = Vec::new();
    for (step, act) in steps {
        // Leasehold does not extend a lease within the millisecond of its start.
        sleep(Duration::from_millis(5));
        let monitor = both.redis.monitor();
        assert!(act(), "{side:?}: {step}");
        let deeds = deeds(&monitor.stop());
        all.push((step, deeds.into_iter().map(rounded).collect()));
        if step == "force the readers" {
            _ = reads.unlock("door").failure().expect("the lock was released by force");
        }
    }
    all
}

#[test]
fn java_and_rust_renew_to_the_full_ttl_after_a_third_of_it() {
    let both = Together::with(|setup| setup.watchdog(SECOND * 9));
    for side in [Side::Java, Side::Rust] {
        // given a lock that is held for five sixths of its ttl
        let thread = side.thread(&both, "T1");
        let monitor = both.redis.monitor();
        assert!(thread.lock("door").acquired());
        let mut least = i64::MAX;
        let began = Instant::now();
        while began.elapsed() < SECOND * 15 / 2 {
            sleep(SECOND / 10);
            least = least.min(both.redis.command(&["PTTL", "door"]).number());
        }
        let mut deeds = deeds(&monitor.stop());

        // then each renewal set the lease to 9 s when 6 s were left
        assert_eq!(deeds.drain(..2).next_back().as_deref(), Some("pexpire door 9000"), "{side:?}");
        assert!(deeds.len() >= 2, "{side:?}: {deeds:?}");
        assert!(deeds.iter().all(|deed| deed == "pexpire door 9000"), "{side:?}: {deeds:?}");
        assert!((4_500..=9_000).contains(&least), "{side:?}: {least}");
        assert!(thread.unlock("door").is_true());
    }
    shown("record: renewed to the full ttl each third of it", Way::RustToJava);
    shown("record: renewed to the full ttl each third of it", Way::JavaToRust);
}

#[test]
fn owner_is_a_uuid_and_a_number() {
    let both = Together::start();
    for (side, id) in [(Side::Java, both.java.id()), (Side::Rust, both.rust.id())] {
        assert!(side.thread(&both, "T1").lock("door").acquired());

        let owner = both.redis.command(&["HKEYS", "door"]);
        let (client, number) = owner.texts()[0].rsplit_once(':').unwrap();

        assert_eq!(client, id);
        let groups: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
        assert!(id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f' | '-')), "{id}");
        assert!(number.parse::<i64>().unwrap() > 0);
        assert!(side.thread(&both, "T1").unlock("door").is_true());
    }
}

#[test]
fn java_and_rust_waiters_request_again_after_subscribing() {
    let both = Together::start();
    for Pair { way, holder, waiter, .. } in both.both_ways() {
        // A client sends the first call of a script twice: by hash, and again after it has loaded
        // the script.
        waited_for(&both, "window", &holder, &waiter);
        assert!(holder.lock("door").acquired());
        let monitor = both.redis.monitor();

        let waiting = waiter.start_lock("door");
        both.until_asleep("door", 1);
        let has_asked = |lines: &[String]| {
            let mut steps = lines.iter().filter_map(|line| question(line));
            steps.next_back().is_some_and(|last| last.starts_with("ask"))
        };
        eventually("the client has repeated its request", SECOND * 10, || {
            has_asked(&monitor.lines())
        });

        // A release between the first request and the subscription notifies no waiter. So the
        // client repeats its request when it is subscribed.
        let lines = monitor.stop();
        let mut steps: Vec<_> = lines.iter().filter_map(|line| question(line)).collect();
        let expected = match way {
            Way::RustToJava => ["ask", "listen", "ask"],
            // The second request creates Leasehold's queue entry.
            Way::JavaToRust => ["ask", "listen to all three", "ask and queue"],
        };
        if let Way::JavaToRust = way {
            // After a quarter of a second, Leasehold sends the same request again.
            steps.dedup();
        }
        assert_eq!(steps, expected, "{way}: {lines:#?}");
        assert!(holder.unlock("door").is_true());
        assert!(waiting.wait(SECOND * 5).acquired());
        assert!(waiter.unlock("door").is_true());
    }
}

#[test]
fn release_wakes_only_one_waiter_of_each_process() {
    for side in [Side::Java, Side::Rust] {
        // given a holder in one process, and three waiters in the other process
        let both = Together::start();
        let stranger = side.other().thread(&both, "stranger");
        assert!(stranger.lock("door").acquired());
        let waiting = ["T1", "T2", "T3"].map(|name| side.thread(&both, name).start_lock("door"));
        both.until_asleep("door", 1);
        if let Side::Rust = side {
            eventually("all Rust threads wait", SECOND * 10, || both.rust.waiting() == 3);
            eventually("the Leasehold client is in the queue", SECOND * 10, || {
                queue(&both.redis, "door").len() == 1
            });
        }
        // Leasehold repeats its request after a quarter of a second, and then every two to four
        // seconds.
        until_quiet(&both.redis);

        // when the lock is released
        let monitor = both.redis.monitor();
        assert!(stranger.unlock("door").is_true());
        eventually("one thread has acquired", SECOND * 10, || {
            waiting.iter().any(|it| it.is_done())
        });
        sleep(SECOND / 2);

        // then one of the waiters has sent a request and acquired, and the other waiters wait for
        // this holder
        let lines = monitor.stop();
        let tells = |line: &&String| line.to_uppercase().contains(r#""PUBLISH""#);
        let reported = lines.iter().skip_while(|line| !tells(line));
        let asked: Vec<_> = reported.filter_map(|line| question(line)).collect();
        assert_eq!(waiting.iter().filter(|it| it.is_done()).count(), 1, "{side:?}");
        let expected = match side {
            Side::Java => "ask",
            Side::Rust => "ask and queue",
        };
        assert_eq!(asked, [expected], "{side:?}: {lines:#?}");
        // and the other waiters have no queue entry, because they wait within their process
        assert_eq!(queue(&both.redis, "door"), [""; 0], "{side:?}");
    }
}

#[test]
fn waiters_of_one_process_share_a_subscription() {
    let both = Together::start();
    for Pair { way, holder, .. } in both.both_ways() {
        assert!(holder.lock("door").acquired());
        let side = match way {
            Way::RustToJava => Side::Java,
            Way::JavaToRust => Side::Rust,
        };
        let monitor = both.redis.monitor();

        let waiting = ["T1", "T2"].map(|name| side.thread(&both, name).start_lock("door"));
        both.until_asleep("door", 1);
        assert!(holder.unlock("door").is_true());
        eventually("one thread has acquired", SECOND * 10, || {
            waiting.iter().any(|it| it.is_done())
        });
        let first = usize::from(!waiting[0].is_done());
        assert!(side.thread(&both, ["T1", "T2"][first]).unlock("door").is_true());
        for waiting in waiting {
            assert!(waiting.wait(SECOND * 5).acquired());
        }
        // After its last waiter, Leasehold stays subscribed for two to three seconds, in case
        // another waiter comes.
        both.until_asleep("door", 0);

        let lines = monitor.stop();
        let reported: Vec<_> = lines.iter().map(|line| words(line)).collect();
        let all = |command: &str| -> Vec<String> {
            let of = reported.iter().filter(|words| words.first().is_some_and(|it| it == command));
            of.map(|words| words[1..].join(" ")).collect()
        };
        let (begun, ended) = match way {
            Way::RustToJava => (vec![CHANNEL.to_owned()], CHANNEL.to_owned()),
            // Leasehold subscribes to its three channels by one command. So the number of waiting
            // Java clients is always the difference between the subscribers of Redisson's channel
            // and of Leasehold's channel.
            Way::JavaToRust => {
                let all = all_channels(both.rust.id());
                (vec![all.clone()], all)
            }
        };
        assert_eq!(all("SUBSCRIBE"), begun, "{way}: {lines:#?}");
        assert_eq!(all("UNSUBSCRIBE"), [ended], "{way}: {lines:#?}");
        assert!(side.thread(&both, ["T2", "T1"][first]).unlock("door").is_true());
    }
}

#[test]
fn name_with_a_hash_tag_gets_no_added_braces() {
    let both = Together::start();
    for (name, tagged, ours) in [
        ("{tag}door", "{tag}door", ":{tag}door"),
        ("door {tag}", "door {tag}", ":door {tag}"),
        ("a b: ключ", "{a b: ключ}", "{a b: ключ}"),
    ] {
        for Pair { way, holder, waiter, .. } in both.both_ways() {
            assert!(holder.lock(name).acquired());
            let waiting = waiter.start_lock(name);
            let mut expected = vec![format!("redisson_lock__channel:{tagged}")];
            let mut keys = vec![name.to_owned()];
            if let Way::JavaToRust = way {
                // The names of Leasehold's own keys have another colon, so that no other name has
                // the same keys.
                let own = format!("leasehold_lock__waiter:{ours}:{}", both.rust.id());
                expected.splice(..0, [format!("leasehold_lock__channel:{ours}"), own]);
                keys.push(format!("leasehold_lock__queue:{ours}"));
                keys.sort();
            }
            eventually("the waiter is subscribed", SECOND * 10, || {
                channels(&both.redis) == expected
            });
            eventually("the waiter sleeps", SECOND * 10, || {
                sorted(&both.redis, &["KEYS", "*"]) == keys
            });
            sleep(SECOND / 5);

            let delay = wake_up(&holder.unlock(name), &waiting.wait(SECOND * 10));

            assert!(delay < AT_ONCE, "{way}, {name}: woken after {delay:?}");
            assert!(waiter.unlock(name).is_true());
            // After its last waiter, Leasehold stays subscribed for two to three seconds.
            eventually("no client is subscribed", SECOND * 10, || channels(&both.redis).is_empty());
            eventually("no key is left", SECOND * 10, || {
                both.redis.command(&["KEYS", "*"]).list().is_empty()
            });
            woken("record: names with hash tags, spaces, other alphabets", way, delay);
        }
    }
}

#[test]
fn java_wakes_only_on_message_0_and_rust_on_any_message() {
    let both = Together::start();
    for (side, messages) in [(Side::Java, ["7", "garbage", "0"].as_slice()), (Side::Rust, &["7"])] {
        // given a hold that nobody renews, and a waiter
        both.redis.command(&["HSET", "door", "somebody:1", "1"]);
        both.redis.command(&["PEXPIRE", "door", "30000"]);
        let waiting = side.thread(&both, "T1").start_lock("door");
        both.until_asleep("door", 1);

        // when the lock is deleted without a message, and messages arrive one after the other
        both.redis.command(&["DEL", "door"]);
        let (last, others) = messages.split_last().unwrap();
        for message in others {
            both.redis.command(&["PUBLISH", CHANNEL, message]);
            sleep(SECOND / 3);
            assert!(!waiting.is_done(), "{side:?} was woken by {message}");
        }

        // then only the last message wakes the waiter
        both.redis.command(&["PUBLISH", CHANNEL, last]);
        assert!(waiting.wait(AT_ONCE).acquired(), "{side:?}");
        assert!(side.thread(&both, "T1").unlock("door").is_true());
    }
}

/// Redisson reads `00` as the number 0. Only Leasehold distinguishes `00` from `0`.
#[test]
fn redisson_reads_the_message_00_as_0() {
    for redisson in [Redisson::V3, Redisson::V4] {
        // given a hold that nobody renews, and a Redisson waiter
        let both = Together::differing(|java| java.redisson(redisson), |rust| rust);
        both.redis.command(&["HSET", "door", "somebody:1", "1"]);
        both.redis.command(&["PEXPIRE", "door", "30000"]);
        let waiting = both.java.thread("T1").start_lock("door");
        both.until_asleep("door", 1);

        // when the lock is deleted, and a message `00` is published
        both.redis.command(&["DEL", "door"]);
        sleep(SECOND / 3);
        assert!(!waiting.is_done(), "{redisson:?}");
        let began = SystemTime::now();
        both.redis.command(&["PUBLISH", CHANNEL, "00"]);

        // then the waiter acquires at once, and still receives later messages
        let entered = waiting.wait(SECOND * 5);
        let delay = since(began, entered.acquired_at());
        assert!(delay < AT_ONCE, "{redisson:?}: woken after {delay:?}");
        let again = both.java.thread("T2").start_lock("door");
        until_asleep(&both.redis, "door", 1);
        both.redis.command(&["DEL", "door"]);
        let both_at_once =
            "redis.call('PUBLISH', ARGV[1], '00') redis.call('PUBLISH', ARGV[1], '0')";
        both.redis.command(&["EVAL", both_at_once, "0", CHANNEL]);
        assert!(again.wait(AT_ONCE).acquired(), "{redisson:?}");
        woken("record: Redisson reads 00 as 0", Way::RustToJava, delay);
    }
}

/// If an invalid message and another message arrive together, Java does not read the second message
/// before more data comes.
#[test]
fn invalid_message_makes_java_miss_the_next_message() {
    // given a waiter of each language
    let both = Together::start();
    both.redis.command(&["HSET", "door", "somebody:1", "1"]);
    both.redis.command(&["PEXPIRE", "door", "30000"]);
    let (theirs, ours) =
        (both.java.thread("T1").start_lock("door"), both.rust.thread("T1").start_lock("door"));
    both.until_asleep("door", 2);

    // when a text and the `0` of a release arrive together
    let script = "redis.call('DEL', KEYS[1]) \
        redis.call('PUBLISH', ARGV[1], 'garbage') redis.call('PUBLISH', ARGV[1], '0')";
    both.redis.command(&["EVAL", script, "1", "door", CHANNEL]);

    // then the Leasehold waiter is woken, but the Java waiter is not, although the lock is free
    assert!(ours.wait(AT_ONCE).acquired());
    both.redis.command(&["DEL", "door"]);
    sleep(SECOND);
    assert!(!theirs.is_done());

    // and when more data arrives, Java continues to read
    both.redis.command(&["PUBLISH", CHANNEL, "7"]);
    assert!(theirs.wait(AT_ONCE).acquired());
}

#[test]
fn java_waits_for_ever_for_a_key_without_a_ttl() {
    // given a key without a TTL that another program has written, and a waiter of each language
    let both = Together::start();
    both.redis.command(&["HSET", "door", "somebody:1", "1"]);
    let (java, rust) = (both.java.thread("T1"), both.rust.thread("T1"));
    assert_eq!(java.remain_time_to_live("door").number(), -1);
    assert_eq!(rust.remain_time_to_live("door").number(), -1);
    let (theirs, ours) = (java.start_lock("door"), rust.start_lock("door"));
    both.until_asleep("door", 2);

    // when the key is deleted without a message, then only Leasehold repeats its request
    both.redis.command(&["DEL", "door"]);
    assert!(ours.wait(SECOND * 5).acquired());
    both.redis.command(&["DEL", "door"]);
    sleep(SECOND * 2);
    assert!(!theirs.is_done());

    // and Java continues at the next message
    both.redis.command(&["PUBLISH", CHANNEL, "0"]);
    assert!(theirs.wait(AT_ONCE).acquired());
}

#[test]
fn foreign_hash_field_survives_only_a_rust_release() {
    let both = Together::start();
    for (side, left) in [(Side::Java, 0), (Side::Rust, 1)] {
        let thread = side.thread(&both, "T1");
        assert!(thread.lock("door").acquired());
        both.redis.command(&["HSET", "door", "note", "mine"]);

        assert!(thread.unlock("door").is_true());

        // The field that is left is a hold that no client will release.
        assert_eq!(both.redis.command(&["EXISTS", "door"]).number(), left, "{side:?}");
        assert_eq!(side.other().thread(&both, "T1").is_locked("door").is_true(), left == 1);
        both.redis.command(&["DEL", "door"]);
    }
}

#[test]
fn unlock_latch_key_is_written_and_deleted_only_by_java() {
    let both = Together::start();
    for side in [Side::Java, Side::Rust] {
        let thread = side.thread(&both, "T1");
        let monitor = both.redis.monitor();
        assert!(thread.lock("door").acquired());
        assert!(thread.unlock("door").is_true());
        eventually("no key is left", SECOND * 10, || {
            both.redis.command(&["KEYS", "*"]).list().is_empty()
        });

        let lines = monitor.stop();
        let latch = "redisson_unlock_latch:{door}:";
        let ids: Vec<_> = lines.iter().filter_map(|line| line.split_once(latch)).collect();
        match side {
            Side::Java => {
                let id = ids[0].1.split('"').next().unwrap();
                assert_eq!(id.len(), 32, "{lines:#?}");
                assert!(id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')), "{id}");
                let deleted = format!("\"DEL\" \"{latch}{id}\"");
                assert!(lines.iter().any(|line| line.contains(&deleted)), "{lines:#?}");
            }
            Side::Rust => assert!(ids.is_empty(), "{lines:#?}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Java,
    Rust,
}

impl Side {
    fn thread(self, both: &Together, name: &str) -> Thread {
        match self {
            Self::Java => both.java.thread(name),
            Self::Rust => both.rust.thread(name),
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Java => Self::Rust,
            Self::Rust => Self::Java,
        }
    }
}

/// A step, the keys after it, and the subscribers after it.
type Step = (&'static str, Vec<String>, Vec<String>);

/// Acquires, reenters, waits and releases, and reads the keys after each step.
fn keys_of(both: &Together, side: Side, kind: Kind) -> Vec<Step> {
    let [one, other] = ["T1", "T2"].map(|name| side.thread(both, name).of(kind));
    let mut steps = Vec::new();
    let mut look = |step| {
        let keys = keys(&both.redis);
        if step == "the waiter has it" {
            // After its last waiter, Leasehold stays subscribed for two to three seconds. The step
            // ends only after this time.
            until_asleep(&both.redis, "door", 0);
        }
        steps.push((step, keys, listeners(&both.redis)));
    };

    assert!(one.lock("door").acquired());
    look("lock");
    assert!(one.lock("door").acquired());
    look("lock again");
    assert!(one.unlock("door").is_true());
    look("unlock one of two");
    let waiting = other.start_lock("door");
    until_asleep(&both.redis, "door", 1);
    look("somebody waits");
    assert!(one.unlock("door").is_true());
    assert!(waiting.wait(SECOND * 5).acquired());
    look("the waiter has it");
    assert!(other.unlock("door").is_true());
    look("unlock");
    assert!(one.lock_for("door", SECOND * 12).acquired());
    look("lock for 12 s");
    assert!(one.unlock("door").is_true());
    look("unlock the lease");
    assert!(one.lock("door").acquired());
    look("lock to be forced");
    assert!(other.force_unlock("door").is_true());
    look("force");
    _ = one.unlock("door").failure().expect("the lock was released by force");
    assert!(one.spin().lock("door").acquired());
    look("spin lock");
    assert!(one.spin().unlock("door").is_true());
    look("spin unlock");
    steps
}

/// All keys. Owners and leases are replaced by comparable texts.
fn keys(redis: &Redis) -> Vec<String> {
    // Java deletes the latch of a release without waiting for the reply.
    eventually("no latch is left", SECOND * 10, || {
        redis.command(&["KEYS", "redisson_unlock_latch:*"]).list().is_empty()
    });
    let mut keys = Vec::new();
    for key in redis.command(&["KEYS", "*"]).texts() {
        let (kind, left) = (redis.command(&["TYPE", key]), redis.command(&["PTTL", key]).number());
        if kind.text() == "string" {
            assert_eq!(left, -1, "{key}");
            let text = redis.command(&["GET", key]);
            keys.push(format!("{key}: string {}, without an end", text.text()));
            continue;
        }
        assert_eq!(kind.text(), "hash", "{key}");
        let fields = redis.command(&["HGETALL", key]);
        let [owner, count] = fields.texts()[..] else { panic!("{key} has fields {fields:?}") };
        let ends =
            [30_000, 12_000].into_iter().find(|lease| (lease - 3_000..=*lease).contains(&left));
        let ends = ends.unwrap_or(left);
        keys.push(format!("{key}: hash {} {count}, ends in {ends}", without_owner(owner)));
    }
    keys.sort();
    keys
}

fn listeners(redis: &Redis) -> Vec<String> {
    let count = |channel: &String| {
        let count = redis.command(&["PUBSUB", "NUMSUB", channel]).list()[1].number();
        let channel = channel.split_once(':').map_or(channel.as_str(), |(kind, _)| match kind {
            "leasehold_lock__waiter" => "leasehold_lock__waiter:{door}:<client>",
            _ => channel,
        });
        format!("{channel}: {count}")
    };
    channels(redis).iter().map(count).collect()
}

fn channels(redis: &Redis) -> Vec<String> {
    sorted(redis, &["PUBSUB", "CHANNELS"])
}

fn sorted(redis: &Redis, command: &[&str]) -> Vec<String> {
    let mut found: Vec<_> = redis.command(command).texts().into_iter().map(str::to_owned).collect();
    found.sort();
    found
}

/// Lets `waiter` wait for `name` until `holder` releases.
#[track_caller]
fn waited_for(both: &Together, name: &str, holder: &Thread, waiter: &Thread) {
    assert!(holder.lock(name).acquired());
    let waiting = waiter.start_lock(name);
    both.until_asleep(name, 1);
    assert!(holder.unlock(name).is_true());
    assert!(waiting.wait(SECOND * 5).acquired());
    assert!(waiter.unlock(name).is_true());
}

/// Waits until no client has sent a request for half a second.
fn until_quiet(redis: &Redis) {
    let mut before = redis.calls();
    eventually("no client sends requests", SECOND * 10, || {
        sleep(SECOND / 2);
        let now = redis.calls();
        let asked = now.since(&before).of("evalsha");
        before = now;
        asked == 0
    });
}

/// The entries of Leasehold's queue. Owners are replaced by a comparable text.
fn queue(redis: &Redis, name: &str) -> Vec<String> {
    let key = format!("leasehold_lock__queue:{{{name}}}");
    let places = redis.command(&["ZRANGE", &key, "0", "-1"]);
    places.texts().into_iter().map(without_owner).collect()
}

/// Acquires, reenters and releases, and records the changes of each step.
fn deeds_of(both: &Together, side: Side) -> Vec<(&'static str, Vec<String>)> {
    let thread = side.thread(both, "deeds");
    let steps: [(&str, &dyn Fn() -> bool); 9] = [
        ("lock", &|| thread.lock("door").acquired()),
        ("lock again", &|| thread.lock("door").acquired()),
        ("unlock one of two", &|| thread.unlock("door").is_true()),
        ("unlock", &|| thread.unlock("door").is_true()),
        ("lock for 12 s", &|| thread.lock_for("door", SECOND * 12).acquired()),
        ("force", &|| thread.force_unlock("door").is_true()),
        ("force nothing", &|| !thread.force_unlock("door").is_true()),
        ("spin lock", &|| thread.spin().lock("door").acquired()),
        ("spin unlock", &|| thread.spin().unlock("door").is_true()),
    ];
    let mut all = Vec::new();
    for (step, act) in steps {
        let monitor = both.redis.monitor();
        assert!(act(), "{side:?}: {step}");
        all.push((step, deeds(&monitor.stop())));
        if step == "force" {
            _ = thread.unlock("door").failure().expect("the lock was released by force");
        }
    }
    all
}

/// Returns the changes of keys, without the values that differ in each run. The changes come from
/// scripts, and from the plain commands of Leasehold's release. Java's plain `DEL` of its latch is
/// left out.
fn deeds(lines: &[String]) -> Vec<String> {
    let in_scripts = [
        "hincrby", "hset", "hdel", "pexpire", "set", "del", "publish", "spublish", "incr", "incrby",
    ];
    let plain = ["hdel", "publish"];
    let deeds = lines.iter().filter_map(|line| {
        let changes = if line.contains(" lua] ") { &in_scripts[..] } else { &plain[..] };
        let words = words(line);
        let command = words.first()?.to_lowercase();
        changes.contains(&command.as_str()).then(|| comparable(&words))
    });
    deeds.collect()
}

fn comparable(words: &[String]) -> String {
    let mut words: Vec<_> = words.iter().map(|word| without_owner(word)).collect();
    words[0] = words[0].to_lowercase();
    if words[1].starts_with("redisson_unlock_latch:{door}:") {
        words[1] = "<latch>".into();
        *words.last_mut().expect("the command has words") = "<ms>".into();
    }
    words.join(" ")
}

/// The words of a line of `MONITOR`.
fn words(line: &str) -> Vec<String> {
    let Some((_, words)) = line.split_once("] \"") else { return Vec::new() };
    words.trim_end_matches('"').split("\" \"").map(str::to_owned).collect()
}

/// Whether a line of `MONITOR` is a request or a subscription of a waiter.
fn question(line: &str) -> Option<&'static str> {
    let words = words(line);
    let word = |n: usize| words.get(n).map(String::as_str).unwrap_or_default();
    let is_question = |arguments: &[String]| {
        // an owner and a lease, in either order
        let mut arguments: Vec<_> = arguments.iter().map(|it| without_owner(it)).collect();
        arguments.sort();
        arguments == ["30000", "<owner>"]
    };
    match (word(0).to_uppercase().as_str(), words.len()) {
        ("SUBSCRIBE", 2) => Some("listen"),
        ("SUBSCRIBE", 4) if words[1..].join(" ") == all_channels(id_in(word(2))) => {
            Some("listen to all three")
        }
        // a call by hash, with one key
        ("EVALSHA", 6) if word(2) == "1" && word(3) == "door" => {
            is_question(&words[4..]).then_some("ask")
        }
        // a call with the key of the queue, the queue entry, and the TTL of the queue
        ("EVALSHA", 9) if words[2..5] == ["2", "door", "leasehold_lock__queue:{door}"] => {
            let queues = word(7) == "listening" && word(8) == "15000";
            (is_question(&words[5..7]) && queues).then_some("ask and queue")
        }
        _ => None,
    }
}

/// Replaces an owner by a placeholder, even within a word.
fn without_owner(word: &str) -> String {
    let is_uuid = |at: &usize| {
        let uuid = word.get(*at..*at + 37).filter(|uuid| uuid.ends_with(':'));
        uuid.is_some_and(|uuid| uuid.matches('-').count() == 4 && !uuid.contains(['{', '}']))
    };
    let Some(at) = (0..word.len()).find(is_uuid) else { return word.to_owned() };
    let after = word[at + 37..].trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{}<owner>{after}", &word[..at])
}

fn owned((step, deeds): (&'static str, Vec<&str>)) -> (&'static str, Vec<String>) {
    (step, deeds.into_iter().map(str::to_owned).collect())
}

/// The channels to which a Leasehold client subscribes when it waits for `door`, in order.
fn all_channels(client: &str) -> String {
    format!("leasehold_lock__channel:{{door}} leasehold_lock__waiter:{{door}}:{client} {CHANNEL}")
}

/// The client id at the end of the name of a channel.
fn id_in(channel: &str) -> &str {
    channel.rsplit(':').next().unwrap_or_default()
}

const OWN_CHANNEL: &str = "leasehold_lock__waiter:{door}:<client>: 1";
const COUNTING_CHANNEL: &str = "leasehold_lock__channel:{door}: 1";
const COUNTER: &str = "redisson_lock_token:{door}";
const CHANNEL: &str = "redisson_lock__channel:{door}";
const SECOND: Duration = Duration::from_secs(1);
