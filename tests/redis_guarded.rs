//! Guarded writes on real servers: they happen only while the lock is held, and at most once.

use crate::common::{
    SOON, client, entered, hash, hold_by_hand, keys, ms, pttl, release_guard, secs, waiter,
    with_acl, within,
};
use leasehold::{Client, Error, Lock, LockGuard, LostReason, Script, Value, Write};
use testkit::{Proxy, Redis, Reply, eventually};
use tokio::time::{sleep, timeout};

/// A client that waits up to ten seconds for each reply, and so keeps a silent connection for ten
/// seconds.
async fn patient(url: &str) -> Client {
    let builder = Client::builder().command_timeout(secs(10)).request_timeout(secs(10));
    builder.connect(url).await.unwrap()
}

/// A lock that the client hands off to its own tasks as long as one of them waits.
fn door(client: &Client) -> Lock {
    client.lock("door").unwrap().local_handoff(1_000, secs(60))
}

async fn held(client: &Client) -> LockGuard {
    door(client).acquire().await.unwrap()
}

fn set(value: &str) -> [Write; 1] {
    [Write::set("data", value)]
}

fn data(redis: &Redis) -> Option<String> {
    match redis.command(&["GET", "data"]) {
        Reply::Text(text) => Some(text),
        _ => None,
    }
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(done: Result<T, Error>, why: LostReason) {
    assert!(matches!(done, Err(Error::Lost { reason, .. }) if reason == why), "{done:?}");
}

// A holder writes.

#[tokio::test(flavor = "multi_thread")]
async fn guarded_write_is_one_evalsha() {
    let redis = Redis::start();
    let guard = held(&client(&redis).await).await;
    redis.command(&["SET", "old", "1"]);
    let monitor = redis.monitor();
    let writes = [
        Write::set("text", "a\r\nb"),
        Write::hset("fields", "", "empty"),
        Write::hset("fields", "name", ""),
        Write::delete("old"),
        Write::expire("fields", secs(100)),
    ];
    guard.write(writes).await.unwrap();
    let lines = monitor.stop();

    let sent: Vec<_> = lines.iter().filter(|line| !line.contains(" lua] ")).collect();
    assert!(sent.len() == 1 && sent[0].contains(r#""EVALSHA""#), "{sent:?}");
    assert_eq!(redis.command(&["GET", "text"]).text(), "a\r\nb");
    let fields = [("", "empty"), ("name", "")].map(|(field, value)| (field.into(), value.into()));
    assert_eq!(hash(&redis, "fields"), fields);
    assert!((90_000..=100_000).contains(&pttl(&redis, "fields")));
    assert_eq!(redis.command(&["EXISTS", "old"]).number(), 0);
    assert_eq!(hash(&redis, "door"), [(guard.owner().to_string(), "1".into())]);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guarded_script_is_one_evalsha_when_the_server_knows_it() {
    let redis = Redis::start();
    let guard = held(&client(&redis).await).await;
    let count = Script::new("return redis.call('INCR', KEYS[1])").key("count");
    for (round, [by_hash, by_text]) in [[1, 1], [1, 0], [1, 1]].into_iter().enumerate() {
        if round == 2 {
            redis.command(&["SCRIPT", "FLUSH"]);
        }
        let before = redis.calls();
        let counted = guard.eval(count.clone()).await.unwrap();
        assert_eq!(counted, Value::Int(i64::try_from(round).unwrap() + 1), "the script ran once");
        let calls = redis.calls().since(&before);
        assert_eq!([calls.of("evalsha"), calls.of("eval")], [by_hash, by_text], "{calls}");
    }
    redis.command(&["SCRIPT", "FLUSH"]);
    guard.write(set("written again")).await.unwrap();
    assert_eq!(data(&redis).unwrap(), "written again");
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guarded_script_gets_its_arguments_and_returns_its_result() {
    use Value::{Bytes, Int, List, Nil, Status};
    let redis = Redis::start();
    let guard = held(&client(&redis).await).await;
    let text = |text: &str| Bytes(text.as_bytes().to_vec());
    let script = Script::new("return {#KEYS, KEYS[1], KEYS[2], #ARGV, ARGV[1], ARGV[2], ARGV[3]}");
    let script = script.key("a").key("b").arg("1").arg("").arg(vec![0, 255]);
    let found = guard.eval(script).await.unwrap();
    let args = [Int(3), text("1"), text(""), Bytes(vec![0, 255])];
    assert_eq!(found, List([vec![Int(2), text("a"), text("b")], args.into()].concat()));

    for (script, returned) in [
        ("redis.call('SET', 'x', 'y')", Nil),
        ("return", Nil),
        ("return nil -- and a word about it", Nil),
        ("return false", Nil),
        ("return true", Int(1)),
        ("return 7.9", Int(7)),
        ("return -1", Int(-1)),
        ("return 'seven'", text("seven")),
        ("return redis.call('GET', 'x')", text("y")),
        ("return redis.call('SET', 'x', 'y')", Status("OK".into())),
        ("return redis.status_reply('FINE')", Status("FINE".into())),
        ("return {}", List(vec![])),
        (
            "return {1, {false, 'a'}, 3, nil, 5}",
            List(vec![Int(1), List(vec![Nil, text("a")]), Int(3)]),
        ),
        ("local function twice(n) return 2 * n end\nreturn twice(#KEYS)", Int(0)),
        ("redis.setresp(3) return {double = 1.5}", text("1.5")),
        ("redis.setresp(3) return true", Int(1)),
        ("redis.setresp(3) return {map = {a = 1}}", List(vec![text("a"), Int(1)])),
    ] {
        assert_eq!(guard.eval(Script::new(script)).await.unwrap(), returned, "{script}");
    }
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guarded_writes_work_inside_run_and_on_blocking_threads() {
    let redis = Redis::start();
    let (lock, url) = (client(&redis).await.lock("door").unwrap(), redis.url());
    let written = lock.run(async |held| held.write(set("by work")).await);
    written.await.unwrap().unwrap();
    assert_eq!(data(&redis).unwrap(), "by work");
    let ran = lock.run(async |held| held.eval(Script::new("return 7")).await);
    assert_eq!(ran.await.unwrap().unwrap(), Value::Int(7));

    let by_thread = tokio::task::spawn_blocking(move || {
        let client = leasehold::blocking::Client::connect(&url)?;
        let guard = client.lock("door")?.acquire()?;
        guard.write(set("by a thread"))?;
        let seen = guard.eval(Script::new("return redis.call('GET', KEYS[1])").key("data"))?;
        guard.release()?.into_result()?;
        let late = client.lock("door")?.lease(ms(50)).acquire_owned()?;
        late.lost()?;
        assert_lost(late.write(set("late")), LostReason::Expired);
        Ok::<_, Error>(seen)
    });
    assert_eq!(by_thread.await.unwrap().unwrap().as_str(), Some("by a thread"));
    assert_eq!(data(&redis).unwrap(), "by a thread");
}

// Only the holder writes.

#[tokio::test(flavor = "multi_thread")]
async fn lost_hold_writes_nothing_and_reports_its_loss_at_once() {
    let redis = Redis::start();
    let clients = [client(&redis).await, client(&redis).await];
    let door = clients[1].lock("door").unwrap();
    for (number, way) in ["forced", "deleted", "expired", "another's", "java's"].iter().enumerate()
    {
        let guard = held(&clients[0]).await;
        guard.write(set("in time")).await.unwrap();
        let mut another = None;
        match *way {
            "forced" => assert!(door.force_release().await.unwrap()),
            "deleted" => assert_eq!(redis.command(&["DEL", "door"]).number(), 1),
            "expired" => assert_eq!(redis.command(&["PEXPIRE", "door", "0"]).number(), 1),
            "another's" => {
                door.force_release().await.unwrap();
                another = Some(door.acquire().await.unwrap());
            }
            _ => {
                redis.command(&["DEL", "door"]);
                hold_by_hand(&redis, "door", "java:1", secs(20));
            }
        }
        assert!(guard.is_held(), "{way}: the guard does not know the loss yet");
        let late = match number % 2 {
            0 => guard.write(set("late")).await.map(|()| Value::Nil),
            _ => guard.eval(Script::new("redis.call('SET', 'data', 'late')")).await,
        };
        assert_lost(late, LostReason::NotOwned);
        assert!(!guard.is_held(), "{way}");
        assert_eq!(
            within(SOON, "the client reports the loss", guard.lost()).await,
            LostReason::NotOwned
        );
        assert_eq!(data(&redis).unwrap(), "in time", "{way}");

        // and the client sends no further write, because it knows the loss
        let before = redis.calls();
        assert_lost(guard.write(set("late")).await, LostReason::NotOwned);
        assert_eq!(redis.calls().since(&before).of("evalsha"), 0);
        if let Some(another) = another {
            release_guard(another).await;
        }
    }
}

/// The local check finds the hold valid, but the request takes longer than the lease.
#[tokio::test(flavor = "multi_thread")]
async fn late_write_changes_nothing_after_the_next_grant() {
    // given a holder whose write is in flight for longer than its lease
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let (late, other) = (patient(&proxy.url()).await, client(&redis).await);
    let guard = late.lock("door").unwrap().lease(secs(1)).acquire().await.unwrap();
    guard.write(set("in time")).await.unwrap();
    proxy.black_hole(true);
    let writing = tokio::spawn(async move {
        let written = guard.write(set("late")).await;
        (guard, written)
    });

    // when another client has acquired and written before the request arrives
    let next = within(
        SOON,
        "the other client acquires when the lease ends",
        other.lock("door").unwrap().acquire(),
    )
    .await
    .unwrap();
    next.write(set("the next one's")).await.unwrap();
    assert!(!writing.is_finished());
    let before = redis.calls();
    proxy.black_hole(false);
    let (_guard, written) = within(SOON, "the late write returns", writing).await.unwrap();

    // then the server executed the request, but the request wrote nothing
    assert_lost(written, LostReason::Expired);
    assert!(redis.calls().since(&before).of("evalsha") > 0);
    assert_eq!(data(&redis).unwrap(), "the next one's");
    release_guard(next).await;
}

// Writes whose result is unknown.

#[tokio::test(flavor = "multi_thread")]
async fn guarded_write_is_not_repeated_when_its_reply_is_lost() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = patient(&proxy.url()).await;
    let guard = held(&client).await;
    let owner = guard.owner().clone();
    let count = Script::new("return redis.call('INCR', KEYS[1])").key("count");
    guard.eval(count.clone()).await.unwrap();
    proxy.lose_reply_to("count");
    let before = redis.calls();
    let counted = within(SOON, "`eval` fails", guard.eval(count)).await;
    assert!(matches!(counted, Err(Error::Unavailable { .. })), "{counted:?}");
    assert_eq!(proxy.lost_replies(), 1);
    eventually("the client has connected again", SOON, || client.stats().reconnects == 1);
    assert_eq!(redis.calls().since(&before).of("incr"), 1);
    assert_eq!(redis.command(&["GET", "count"]).text(), "2");

    // the hold continues, but is not handed off, because the unanswered write may still arrive
    guard.write(set("goes on")).await.unwrap();
    let waiting = waiter(door(&client));
    eventually("the client has one waiter", SOON, || client.stats().waiting == 1);
    release_guard(guard).await;
    let next = entered(waiting).await;
    assert_ne!(next.owner(), &owner);
    assert_eq!(client.stats().handed_off, 0);
    release_guard(next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_write_runs_before_the_next_grant_or_never() {
    // given a server that hangs, a cancelled write, and a waiter
    let redis = Redis::start();
    let client = patient(&redis.url()).await;
    let guard = held(&client).await;
    let owner = guard.owner().clone();
    let waiting = waiter(door(&client));
    eventually("the client has one waiter", SOON, || client.stats().waiting == 1);
    redis.pause();
    assert!(timeout(ms(200), guard.write(set("cancelled"))).await.is_err());
    drop(guard);
    sleep(ms(100)).await;
    assert!(!waiting.is_finished(), "no waiter acquires while the write is in flight");

    // when the server continues, then the next holder has a new grant
    redis.resume();
    let next = entered(waiting).await;
    assert_ne!(next.owner(), &owner);
    next.write(set("the next one's")).await.unwrap();
    sleep(ms(300)).await;
    assert_eq!(data(&redis).unwrap(), "the next one's");
    release_guard(next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guarded_write_that_arrives_after_the_loss_changes_nothing() {
    // given a write whose call has failed, and whose request has not arrived yet
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let builder = Client::builder().command_timeout(ms(300));
    let client = builder.connect(&proxy.url()).await.unwrap();
    let guard = held(&client).await;
    proxy.black_hole(true);
    let written = guard.write(set("late")).await;
    assert!(matches!(written, Err(Error::Unavailable { .. })), "{written:?}");
    eventually("the client opens another connection", SOON, || proxy.connections() > 2);

    // when another client holds the lock as the write arrives
    redis.command(&["DEL", "door"]);
    hold_by_hand(&redis, "door", "java:1", secs(20));
    let monitor = redis.monitor();
    proxy.black_hole(false);
    let is_it = |line: &String| line.contains(r#""EVALSHA""#) && line.contains("late");
    eventually("the server receives the write", SOON, || monitor.lines().iter().any(is_it));
    within(SOON, "the client reports the loss", guard.lost()).await;
    assert_eq!(data(&redis), None);
}

// Writes that the server rejects.

#[tokio::test(flavor = "multi_thread")]
async fn wrong_type_or_full_memory_prevents_all_guarded_writes() {
    let redis = Redis::options().arg("--maxmemory-policy", "noeviction").start();
    let guard = held(&client(&redis).await).await;
    redis.command(&["RPUSH", "list", "1"]);
    let both = |second: Write| [Write::set("data", "1"), second];
    let error = guard.write(both(Write::hset("list", "a", "1"))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "request for `door` rejected: WRONGTYPE `list` is a list, not a hash (command HSET)"
    );
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = guard.write(both(Write::set("more", "2"))).await.unwrap_err();
    assert!(matches!(&error, Error::NotReady { code, .. } if code == "OOM"), "{error:?}");
    let error = guard.eval(Script::new("redis.call('SET', 'data', '1')")).await.unwrap_err();
    assert!(matches!(&error, Error::NotReady { code, .. } if code == "OOM"), "{error:?}");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = guard.write(both(Write::set("more", "2"))).await.unwrap_err();
    assert!(matches!(&error, Error::NotReady { code, .. } if code == "READONLY"), "{error:?}");
    redis.command(&["REPLICAOF", "NO", "ONE"]);

    assert_eq!(data(&redis), None);
    assert!(guard.is_held());
    guard.write(both(Write::set("more", "2"))).await.unwrap();
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partly_failed_script_returns_its_error_and_keeps_its_writes() {
    let redis = Redis::start();
    let guard = held(&client(&redis).await).await;
    let long = "x".repeat(100_000);
    for (number, (end, words)) in [
        ("redis.call('HSET', 'data', 'a', '1')", "WRONGTYPE Operation"),
        ("redis.call('NONSENSE')", "command called from"),
        ("error('the stock is empty')", "user_script:2: the stock is empty"),
        ("error({err = 'NOSCRIPT made up'})", "NOSCRIPT made up"),
        ("local a = nil + 1", "arithmetic on a nil"),
        ("return redis.error_reply('MINE no more')", "MINE no more"),
        ("return {1, redis.pcall('NONSENSE')}", "command called from"),
        ("error(string.rep('x', 1000000))", "xxxxx"),
        ("return string.rep('x', 300000)", "the reply is too long: 250 kB at most"),
        ("return {{ARGV[1], ARGV[1]}, {ARGV[1]}}", "the reply is too long: 250 kB at most"),
        (
            "local a = {} for i = 1, 200000 do a[i] = 1 end return a",
            "the reply is too long: 250 kB at most",
        ),
        (
            "local a = 1 for i = 1, 200 do a = {a} end return a",
            "the reply is too long: 250 kB at most",
        ),
        // 31 tables, each of which contains the previous one twice. The reply would have 2^31
        // tables.
        (
            "local a = {1} for i = 1, 31 do a = {a, a} end return a",
            "the reply is too long: 250 kB at most",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("redis.call('SET', KEYS[1], '{number}')\n{end}");
        let failed = guard.eval(Script::new(text).key("data").arg(&long[..])).await;
        let Err(Error::PartialWrite { name, message }) = failed else {
            panic!("{end}: {failed:?}")
        };
        assert!(message.contains(words) && name.as_str() == "door", "{end}: {message}");
        assert_eq!(data(&redis).unwrap(), number.to_string(), "{end}: the write was executed once");
    }
    // Redis rejects invalid Lua, and executes no part of the script.
    let odd = guard.eval(Script::new("redis.call('SET', 'data', 'odd')\nend end")).await;
    assert!(matches!(odd, Err(Error::Refused { .. })), "{odd:?}");
    assert_eq!(data(&redis).unwrap(), "12");
    // A reply of the largest size arrives, on the same connection.
    let most = guard.eval(Script::new("return string.rep('x', 249000)")).await.unwrap();
    assert_eq!(most.as_bytes().unwrap().len(), 249_000);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_write_changes_nothing_or_reports_a_partial_write() {
    const LOCKS: [&str; 14] = [
        "~door",
        "~mine",
        "resetchannels",
        "&*",
        "+hello",
        "+ping",
        "+info",
        "+client|setname",
        "+eval",
        "+evalsha",
        "+script|load",
        "+@hash",
        "+@keyspace",
        "+publish",
    ];
    let redis = Redis::start();
    let rights = |more: &[&'static str]| [&LOCKS[..], more].concat();
    let both = || [Write::set("mine", "1"), Write::hset("mine:not", "a", "1")];
    for (more, writes, is_forbidden) in [
        (&[][..], vec![Write::set("mine", "1")], true),
        (&["+set"][..], both().into(), true),
        (&["-type"][..], vec![Write::hset("mine", "a", "1")], true),
        (&["+set", "-type"][..], vec![Write::set("mine", "1"), Write::delete("mine")], false),
    ] {
        let client = with_acl(&redis, "narrow", &rights(more)).await;
        let guard = held(&client).await;
        let written = guard.write(writes.clone()).await;
        assert_eq!(matches!(written, Err(Error::Forbidden { .. })), is_forbidden, "{written:?}");
        assert_eq!(written.is_ok(), !is_forbidden, "{more:?}: {written:?}");
        assert_eq!(keys(&redis), ["door"], "{more:?} {writes:?}");
        release_guard(guard).await;
    }
    // If Redis denies a command after it has executed another command, the first write stays. The
    // error reports this.
    let client = with_acl(&redis, "narrow", &rights(&["+set", "-del"])).await;
    let guard = held(&client).await;
    let written = guard.write([Write::set("mine", "1"), Write::delete("mine")]).await;
    assert!(matches!(written, Err(Error::PartialWrite { .. })), "{written:?}");
    assert_eq!(redis.command(&["GET", "mine"]).text(), "1");
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn error_of_a_guarded_write_names_a_key_of_another_type() {
    let redis = Redis::start();
    let guard = held(&client(&redis).await).await;
    redis.command(&["SET", "door", "x"]);
    for done in [
        guard.write(set("late")).await.map(|()| Value::Nil),
        guard.eval(Script::new("redis.call('SET', 'data', 'late')")).await,
    ] {
        let Err(Error::WrongType { name, found }) = done else { panic!("{done:?}") };
        assert_eq!((name.as_str(), &*found), ("door", "string"));
    }
    assert_eq!(data(&redis), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_every_kind_can_make_guarded_writes() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let fenced = client.fenced_lock("fenced").unwrap().acquire().await.unwrap();
    fenced.write(set("fenced")).await.unwrap();
    assert_eq!(data(&redis).unwrap(), "fenced");
    fenced.release().await.unwrap().into_result().unwrap();

    let braces: Lock = client.lock("{tag}:door").unwrap();
    let guard = braces.acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    again.write([Write::set("{tag}:data", "1")]).await.unwrap();
    again.release().await.unwrap().into_result().unwrap();
    guard.write([Write::set("{tag}:data", "2")]).await.unwrap();
    assert_eq!(redis.command(&["GET", "{tag}:data"]).text(), "2");
    release_guard(guard).await;
}
