//! The simulated server: its protocol, time, scripts, permissions and faults.

mod speaking;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_twin::{Cut, Delay, Reach, Refusal, Twin};
use speaking::{ENDED, Speaker};
use tokio::time::{Instant, advance, sleep, timeout};

/// Returns a server and one client that speaks RESP3.
async fn server() -> (Twin, Speaker) {
    let twin = Twin::new(7);
    let client = client(&twin).await;
    (twin, client)
}

async fn client(twin: &Twin) -> Speaker {
    let mut client = Speaker::to(twin).await;
    client.ask("HELLO 3").await;
    client
}

async fn subscriber(twin: &Twin, channel: &str) -> Speaker {
    let mut client = client(twin).await;
    client.ask(&format!("SUBSCRIBE {channel}")).await;
    client
}

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

// The protocol.

#[tokio::test(start_paused = true)]
async fn client_uses_resp2_until_hello() {
    let twin = Twin::new(7);
    let mut client = Speaker::to(&twin).await;
    assert_eq!(client.ask("GET none").await, "$-1 ");
    let greeting = client.ask("HELLO 3 SETNAME me").await;
    assert!(greeting.starts_with("%7 $6 server $5 redis "), "{greeting}");
    assert_eq!(client.ask("GET none").await, "_ ");
    assert_eq!(twin.connections()[0].name, "me");
}

#[tokio::test(start_paused = true)]
async fn each_subscribed_channel_is_confirmed_and_counted() {
    let (twin, mut client) = server().await;
    let both = client.ask("SUBSCRIBE a b").await;
    assert_eq!(both, ">3 $9 subscribe $1 a :1 >3 $9 subscribe $1 b :2 ");
    let mut other = self::client(&twin).await;
    assert_eq!(other.ask("PUBLISH a hello").await, ":1 ");
    assert_eq!(client.received().await, ">3 $7 message $1 a $5 hello ");
    assert_eq!(other.ask("PUBSUB NUMSUB a b c").await, "*6 $1 a :1 $1 b :1 $1 c :0 ");
    assert_eq!(twin.subscribers("a"), 1);
    client.ask("UNSUBSCRIBE a").await;
    assert_eq!(other.ask("PUBLISH a hello").await, ":0 ");
}

#[tokio::test(start_paused = true)]
async fn invalid_bytes_get_an_error_and_close_the_connection() {
    let (twin, _client) = server().await;
    let mut odd = Speaker::to(&twin).await;
    odd.send_words(&[]).await;
    assert_eq!(odd.ask("PING").await, "+PONG ");
    let mut odd = Speaker::to(&twin).await;
    odd.send(&["PING"]).await;
    assert_eq!(odd.within(ms(1)).await, "+PONG ");
    odd.send_raw(b"*1\r\n+x\r\n").await;
    assert_eq!(odd.within(ms(1)).await, "-ERR Protocol error: expected '$', got '+' ");
    assert_eq!(odd.within(ms(1)).await, ENDED);
    assert_eq!(twin.connections().len(), 2);
}

// Time.

#[tokio::test(start_paused = true)]
async fn key_expires_by_the_virtual_time_of_the_runtime() {
    let (twin, mut client) = server().await;
    client.ask("SET a 1 PX 50").await;
    client.ask("SET b 1").await;
    advance(ms(50)).await;
    assert_eq!((client.ask("PTTL a").await, twin.pttl("a")), (":0 ".into(), 0));
    assert_eq!(twin.keys_without_ttl(), ["b"]);
    advance(ms(1)).await;
    assert_eq!(client.ask("PTTL a").await, ":-2 ");
    assert_eq!(twin.keys(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn step_of_the_server_clock_does_not_change_leases() {
    let (twin, mut client) = server().await;
    client.ask("SET a 1 PX 50").await;
    // Each `ask` also sends a PING, so this is the fifth command. Each command takes a microsecond,
    // because no two commands have the same time.
    assert_eq!(client.ask("TIME").await, "*2 $10 1700000000 $1 4 ");
    twin.step_clock(-3_500_000);
    assert_eq!(client.ask("TIME").await, "*2 $10 1699999996 $6 500006 ");
    assert_eq!(twin.pttl("a"), 50);
}

// Scripts.

#[tokio::test(start_paused = true)]
async fn failed_script_keeps_its_writes() {
    let (twin, mut client) = server().await;
    let text = "redis.call('SET', KEYS[1], ARGV[1])\nreturn redis.call('HGET', KEYS[1], 'f')";
    let failed = client.ask_words(&["EVAL", text, "1", "k", "v"]).await;
    assert!(failed.starts_with("-WRONGTYPE Operation against a key"), "{failed}");
    assert!(failed.ends_with(", on @user_script:2. "), "{failed}");
    assert_eq!(client.ask("GET k").await, "$1 v ");
    assert_eq!(twin.calls()["hget"], 1);
    assert_eq!(twin.evals(), 1);
}

#[tokio::test(start_paused = true)]
async fn script_runs_by_its_hash_until_the_server_forgets_scripts() {
    let (twin, mut client) = server().await;
    let hash = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert_eq!(
        client.ask(&format!("EVALSHA {hash} 0")).await,
        "-NOSCRIPT No matching script. Please use EVAL. "
    );
    let loaded = client.ask_words(&["SCRIPT", "LOAD", "return 1"]).await;
    assert_eq!(loaded, format!("$40 {hash} "));
    assert_eq!(client.ask(&format!("EVALSHA {} 0", hash.to_uppercase())).await, ":1 ");
    twin.flush_scripts();
    assert_eq!(client.ask(&format!("SCRIPT EXISTS {hash}")).await, "*1 :0 ");
}

// Permissions.

#[tokio::test(start_paused = true)]
async fn user_without_permission_is_rejected() {
    let (twin, mut client) = server().await;
    twin.user("limited", "reset on >secret ~a* &c* +@all -hget");
    assert_eq!(
        client.ask("AUTH limited wrong").await,
        "-WRONGPASS invalid username-password pair or user is disabled. "
    );
    assert_eq!(client.ask("AUTH limited secret").await, "+OK ");
    assert_eq!(
        client.ask("HGET a f").await,
        "-NOPERM this user has no permissions to run the 'hget' command "
    );
    let script = ["EVAL", "return redis.pcall('GET', 'b').err", "0"];
    let refused = client.ask_words(&script).await;
    assert!(refused.contains("The user executing the script can't access"), "{refused}");

    // A new permission counts at once, also for a connected client.
    twin.user("limited", "~b");
    assert_eq!(client.ask("GET b").await, "_ ");
}

#[tokio::test(start_paused = true)]
async fn subscriber_without_permission_is_disconnected() {
    let (twin, mut client) = server().await;
    twin.user("limited", "on >secret &c* +@all");
    client.ask("AUTH limited secret").await;
    client.ask("SUBSCRIBE c1").await;
    twin.user("limited", "resetchannels &c1");
    assert_eq!(client.received().await, "");
    twin.user("limited", "resetchannels &d");
    assert_eq!(client.received().await, ENDED);
}

#[tokio::test(start_paused = true)]
async fn server_requires_its_password_first() {
    let twin = Twin::new(7);
    twin.user("default", "resetpass >secret");
    let mut client = Speaker::to(&twin).await;
    client.send(&["GET a"]).await;
    assert_eq!(client.within(ms(1)).await, "-NOAUTH Authentication required. ");
    client.send(&["HELLO 3"]).await;
    let refused = client.within(ms(1)).await;
    assert!(refused.starts_with("-NOAUTH HELLO must be called"), "{refused}");
    assert!(client.ask("HELLO 3 AUTH default secret").await.starts_with("%7 "));
}

// Faults.

#[tokio::test(start_paused = true)]
async fn requests_to_a_stopped_server_are_executed_on_resume() {
    let (twin, mut client) = server().await;
    twin.stop();
    client.send(&["INCR n"]).await;
    let mut other = Speaker::to(&twin).await;
    other.send(&["INCR n"]).await;
    drop(client);
    assert_eq!(other.within(ms(60_000)).await, "nothing");
    assert!(twin.keys().is_empty());
    twin.resume();
    assert!([":1 ", ":2 "].contains(&other.within(ms(1)).await.as_str()));
    assert_eq!(other.ask("GET n").await, "$1 2 ");
    assert_eq!(twin.connections().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn delayed_requests_and_replies_keep_their_order() {
    let (twin, mut client) = server().await;
    twin.delay(Delay::Fixed(ms(30)), Delay::Fixed(ms(12)));
    let started = Instant::now();
    assert_eq!(client.ask("INCR n").await, ":1 ");
    assert_eq!(started.elapsed(), ms(42));

    twin.delay(Delay::UpTo(ms(50)), Delay::UpTo(ms(50)));
    for _ in 0..20 {
        client.send(&["INCR n"]).await;
        sleep(ms(3)).await;
    }
    let reported = client.received().await;
    let expected: String = (2..22).map(|n| format!(":{n} ")).collect();
    assert_eq!(reported, expected);
}

#[tokio::test(start_paused = true)]
async fn cut_connection_loses_requests_or_only_replies_or_is_silent() {
    let (twin, mut client) = server().await;
    twin.delay(Delay::Fixed(ms(10)), Delay::None);
    client.send(&["INCR lost"]).await;
    sleep(ms(5)).await;
    assert_eq!(twin.cut(Cut::Whole, |_| true), 1);
    assert_eq!(client.within(ms(1)).await, ENDED);

    let mut client = self::client(&twin).await;
    client.send(&["INCR executed"]).await;
    sleep(ms(5)).await;
    assert_eq!(twin.cut(Cut::Replies, |_| true), 1);
    assert_eq!(client.within(ms(1)).await, ENDED);

    let mut client = self::client(&twin).await;
    assert_eq!(twin.cut(Cut::Silence, |_| true), 1);
    client.send(&["INCR silent"]).await;
    assert_eq!(client.within(ms(1_000)).await, "nothing");
    assert_eq!(twin.keys(), ["executed"]);
}

#[tokio::test(start_paused = true)]
async fn new_connections_may_be_refused_or_silent() {
    let twin = Twin::new(7);
    twin.reach(Reach::Refused);
    let error = twin.connect().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    twin.reach(Reach::Silent);
    assert!(timeout(ms(1_000), twin.connect()).await.is_err());
    twin.reach(Reach::Open);
    assert!(twin.connect().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn each_simulated_fault_affects_only_its_commands() {
    let (twin, mut client) = server().await;
    client.ask("HSET h f 1").await;
    let lease = ["EVAL", "return redis.call('PEXPIRE', 'h', 60000)", "0"];
    let write = ["EVAL", "return redis.pcall('HSET', 'h', 'g', 1)", "0"];

    twin.refuse(Refusal::Oom, 1_000);
    assert!(client.ask("HSET h g 1").await.starts_with("-OOM "));
    assert!(client.ask_words(&write).await.starts_with("-OOM "));
    assert_eq!(client.ask_words(&lease).await, ":1 ");
    twin.refuse(Refusal::Oom, 0);

    twin.refuse(Refusal::ReadOnly, 1_000);
    assert!(client.ask_words(&lease).await.starts_with("-READONLY "));
    assert_eq!(client.ask("HGET h f").await, "$1 1 ");
    assert_eq!(client.ask("PUBLISH c m").await, ":0 ");
    twin.refuse(Refusal::ReadOnly, 0);

    twin.refuse(Refusal::Loading, 1_000);
    client.send(&["HGET h f", "SUBSCRIBE c"]).await;
    let reported = client.within(ms(1)).await;
    assert_eq!(
        reported,
        "-LOADING Redis is loading the dataset in memory >3 $9 subscribe $1 c :1 "
    );
    twin.refuse(Refusal::Loading, 0);

    twin.refuse(Refusal::Busy, 500);
    let mut busy = 0;
    for _ in 0..1_000 {
        client.send(&["HGET h f"]).await;
        busy += u32::from(client.within(ms(1)).await.starts_with("-BUSY "));
    }
    assert!((400..600).contains(&busy), "{busy}");
}

#[tokio::test(start_paused = true)]
async fn failing_server_refuses_all_but_logins_with_the_given_text() {
    let (twin, mut client) = server().await;
    twin.fail(Some("OOM no\r\nmemory"));
    for command in ["PING", "SET a 1", "EVAL return 0", "INFO"] {
        client.send(&[command]).await;
        assert_eq!(client.within(ms(10)).await, "-OOM no  memory ", "{command}");
    }
    client.send(&["HELLO 3"]).await;
    assert!(client.within(ms(10)).await.starts_with('%'));
    twin.fail(None);
    assert_eq!(client.ask("PING").await, "+PONG ");
}

#[tokio::test(start_paused = true)]
async fn run_id_changes_when_the_server_restarts() {
    let (twin, mut one) = server().await;
    let mut other = client(&twin).await;
    let info = one.ask("INFO server").await;
    assert!(info.contains("run_id:"), "{info}");
    assert_eq!(other.ask("INFO server").await, info);
    twin.kill();
    twin.restart();
    assert_ne!(client(&twin).await.ask("INFO server").await, info);
}

#[tokio::test(start_paused = true)]
async fn keys_that_a_test_changes_are_copied_to_replicas() {
    let (twin, mut client) = server().await;
    let replica = twin.replica(Delay::None);
    client.ask("HSET h f 1").await;
    assert_eq!((twin.field("h", "f"), twin.text("t")), (Some(b"1".to_vec()), None));
    twin.set_text("t", b"7");
    assert!(twin.delete("h") && !twin.delete("h"));
    assert_eq!(client.ask("GET t").await, "$1 7 ");
    sleep(ms(1)).await;
    assert_eq!((replica.keys(), twin.keys()), (vec!["t".to_owned()], vec!["t".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn script_that_has_written_gets_no_out_of_memory_rejection() {
    let (twin, mut client) = server().await;
    client.ask("SET a 1").await;
    twin.refuse(Refusal::Oom, 1_000);
    let both = "redis.call('DEL', 'a') redis.call('SET', 'b', 1) return 'done'";
    assert_eq!(client.ask_words(&["EVAL", both, "0"]).await, "$4 done ");
    assert_eq!(twin.keys(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn publish_counts_receivers_even_if_the_message_is_lost() {
    let (twin, mut client) = server().await;
    let mut listener = subscriber(&twin, "c").await;
    twin.lose_messages(500);
    for _ in 0..100 {
        assert_eq!(client.ask("PUBLISH c m").await, ":1 ");
    }
    let received = listener.received().await.matches("message").count();
    assert!((30..70).contains(&received), "{received}");
}

#[tokio::test(start_paused = true)]
async fn server_may_lose_all_its_data() {
    let (twin, mut client) = server().await;
    client.ask("HSET h f 1").await;
    client.ask_words(&["SCRIPT", "LOAD", "return 1"]).await;
    twin.forget_everything();
    assert!(twin.keys().is_empty());
    let known = client.ask("SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db").await;
    assert_eq!(known, "*1 :0 ");
}

// Replicas.

#[tokio::test(start_paused = true)]
async fn replica_receives_writes_after_its_delay() {
    let (twin, mut client) = server().await;
    client.ask("HSET before f 1").await;
    let replica = twin.replica(Delay::Fixed(ms(20)));
    sleep(ms(25)).await;
    let mut there = subscriber(&replica, "c").await;
    let script = "redis.call('HSET', 'h', 'f', 1) redis.call('DEL', 'before')\n\
        redis.call('PEXPIRE', 'h', 1000) return redis.call('PUBLISH', 'c', 'm')";
    assert_eq!(
        client.ask_words(&["EVAL", script, "0"]).await,
        ":0 ",
        "the subscriber of the replica is not counted"
    );
    sleep(ms(19)).await;
    assert_eq!((replica.keys(), there.received().await), (vec!["before".into()], String::new()));
    sleep(ms(2)).await;
    assert_eq!(replica.keys(), ["h"]);
    assert_eq!(replica.pttl("h"), 979);
    assert_eq!(there.received().await, ">3 $7 message $1 c $1 m ");
    assert!(there.ask("DEL h").await.starts_with("-READONLY "));
}

#[tokio::test(start_paused = true)]
async fn wait_command_counts_replicas_that_have_all_written_data() {
    let (twin, mut client) = server().await;
    let _near = twin.replica(Delay::Fixed(ms(20)));
    let far = twin.replica(Delay::Fixed(ms(50)));
    sleep(ms(60)).await;
    client.ask("SET a 1").await;
    let start = Instant::now();
    assert_eq!(client.ask("WAIT 0 0").await, ":0 ");
    // A write reaches a replica after the delay of this replica, and the acknowledgement takes the
    // same time. So the two `WAIT` take 2 × 20 ms and 2 × 50 ms.
    assert_eq!((client.ask("WAIT 1 1000").await.as_str(), start.elapsed()), (":1 ", ms(40)));
    assert_eq!((client.ask("WAIT 2 1000").await.as_str(), start.elapsed()), (":2 ", ms(100)));
    // There is no third replica, so `WAIT` ends after its timeout.
    assert_eq!((client.ask("WAIT 3 100").await.as_str(), start.elapsed()), (":2 ", ms(200)));
    far.kill();
    sleep(ms(1_500)).await;
    assert_eq!(client.ask("WAIT 1 0").await, ":1 ");
}

#[tokio::test(start_paused = true)]
async fn wait_command_delays_later_replies_of_its_connection() {
    let (twin, mut client) = server().await;
    let start = Instant::now();
    let answers = async {
        client.send(&["WAIT 2 0"]).await;
        client.ask("PING").await
    };
    let (answers, ()) = tokio::join!(answers, async {
        sleep(ms(30)).await;
        twin.acknowledge_as(1);
        sleep(ms(30)).await;
        twin.acknowledge_as(2);
    });
    assert_eq!((answers.as_str(), start.elapsed()), (":2 +PONG ", ms(60)));
    // A replica rejects `WAIT`.
    let replica = twin.replica(Delay::None);
    let mut there = self::client(&replica).await;
    assert!(there.ask("WAIT 0 0").await.starts_with("-ERR WAIT cannot be used with replica"));
}

#[tokio::test(start_paused = true)]
async fn promotion_loses_writes_in_flight() {
    let (old, mut client) = server().await;
    let mut listener = subscriber(&old, "c").await;
    let new = old.replica(Delay::Fixed(ms(20)));
    client.ask("SET early 1").await;
    sleep(ms(25)).await;
    client.ask("SET late 1").await;
    new.promote();

    // The old primary rejects writes, and keeps its data until it receives the new data.
    assert!(client.ask("SET a 1").await.starts_with("-READONLY "));
    assert_eq!(client.ask("EXISTS late").await, ":1 ");
    assert_eq!(client.ask("PUBLISH c own").await, ":1 ");
    let mut there = self::client(&new).await;
    assert_eq!(there.ask("SET new 1").await, "+OK ");
    assert_eq!(there.ask("PUBLISH c m").await, ":0 ");
    sleep(ms(25)).await;
    assert_eq!(old.keys(), ["early", "new"]);
    assert_eq!(listener.received().await, ">3 $7 message $1 c $3 own >3 $7 message $1 c $1 m ");
}

#[tokio::test(start_paused = true)]
async fn primary_unaware_of_a_promotion_still_accepts_writes() {
    let (old, mut client) = server().await;
    let new = old.replica(Delay::None);
    sleep(ms(1)).await;
    new.secede();
    assert_eq!(client.ask("SET a 1").await, "+OK ");
    sleep(ms(1)).await;
    assert!(new.keys().is_empty() && !new.is_replica() && !old.is_replica());
    old.follow(&new, Delay::None);
    sleep(ms(1)).await;
    assert!(old.keys().is_empty());
}

// Inspection by a test.

#[tokio::test(start_paused = true)]
async fn test_can_inspect_data_and_commands() {
    let (twin, mut client) = server().await;
    let reported = Arc::new(Mutex::new(vec![]));
    let log = Arc::clone(&reported);
    twin.watch(move |executed| log.lock().unwrap().push(format!("{executed:?}")));
    client.send(&["HSET h f 1", "ZADD z 2 b 1 a"]).await;
    client.send_words(&["EVAL", "return redis.call('DEL', 'none')", "0"]).await;
    sleep(ms(1)).await;
    assert_eq!(twin.hash("h").unwrap()["f"], "1");
    assert_eq!(twin.zset("z").unwrap(), [("a".to_owned(), 1.0), ("b".to_owned(), 2.0)]);
    assert_eq!((twin.hash("z"), twin.kind("z")), (None, Some("zset")));
    assert_eq!(
        *reported.lock().unwrap(),
        [
            "1: HSET h f 1 -> :1",
            "1: ZADD z 2 b 1 a -> :2",
            "1: DEL none -> :0",
            "1: EVAL return redis.call('DEL', 'none') 0 -> :0",
        ]
    );
}

/// Returns the log of two clients on a slow server with faults and a replica.
async fn scenario(seed: u64) -> Vec<String> {
    let twin = Twin::new(seed);
    let reported = Arc::new(Mutex::new(vec![]));
    let log = Arc::clone(&reported);
    let begun = Instant::now();
    twin.watch(move |executed| {
        log.lock().unwrap().push(format!("{:?} {executed:?}", begun.elapsed()));
    });
    let replica = twin.replica(Delay::UpTo(ms(30)));
    let (mut one, mut other) = (client(&twin).await, subscriber(&twin, "c").await);
    twin.delay(Delay::UpTo(ms(9)), Delay::UpTo(ms(9)));
    twin.refuse(Refusal::Busy, 200);
    twin.lose_messages(200);
    for step in 0..50 {
        one.send(&["INCR n", "PUBLISH c m"]).await;
        other.send(&["HSET h f 1", "PEXPIRE h 5"]).await;
        sleep(ms(step % 7)).await;
        if step % 20 == 5 {
            twin.stop();
            sleep(ms(5)).await;
            twin.resume();
        }
    }
    sleep(ms(1_000)).await;
    let mut reported = reported.lock().unwrap().clone();
    reported.push(other.within(ms(1)).await);
    reported.push(format!("{:?}", replica.keys()));
    reported
}

#[test]
fn simulated_server_repeats_its_run_from_the_same_seed() {
    let reported = |seed| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(scenario(seed))
    };
    assert_eq!(reported(1), reported(1));
    assert_ne!(reported(1), reported(2));
}
