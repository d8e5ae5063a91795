//! `leasehold elect`, with real processes and a real Redis.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Redis, eventually};

use crate::common::{Process, SOON, is_alive, leasehold, ms, pid_in};

/// Starts a candidate of the election `jobs` with this value.
fn candidate(redis: &Redis, value: &str, words: &[&str]) -> Process {
    leasehold(redis, &[&["elect", "--value", value, "--ttl", "3s"], words].concat())
}

/// Returns an address where nothing listens.
fn address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Sends `request`, and returns the status code and the body of the response.
fn http(address: &str, request: &str) -> Option<(u16, String)> {
    let mut connection = TcpStream::connect(address).ok()?;
    connection.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    connection.read_to_string(&mut response).ok()?;
    let code = response.split(' ').nth(1)?.parse().ok()?;
    Some((code, response.split_once("\r\n\r\n")?.1.to_owned()))
}

fn get(address: &str) -> Option<(u16, Value)> {
    let (code, body) = http(address, "GET / HTTP/1.1\r\nHost: it\r\n\r\n")?;
    Some((code, serde_json::from_str(&body).unwrap()))
}

#[test]
fn only_one_of_ten_candidates_leads_at_a_time() {
    let redis = Redis::start();
    let order = redis.dir().join("order");
    let text = format!("echo in >> {0}; sleep 0.05; echo out >> {0}; exit 4", order.display());
    let all: Vec<_> =
        (0..10).map(|_| candidate(&redis, "it", &["jobs", "--", "sh", "-c", &text])).collect();
    for process in all {
        let ended = process.ended();
        assert_eq!(ended.code, 4, "{}", ended.err);
    }
    assert_eq!(std::fs::read_to_string(order).unwrap(), "in\nout\n".repeat(10));
}

#[test]
fn leader_command_finds_its_term_in_the_environment() {
    let redis = Redis::start();
    for term in ["1\n", "2\n"] {
        let words = ["jobs", "sh", "-c", "echo $LOCK_FENCE"];
        assert_eq!(candidate(&redis, "it", &words).ended().out, term);
    }
}

#[test]
fn lost_leadership_ends_the_command_and_returns_76() {
    let redis = Redis::start();
    let words = ["jobs", "sh", "-c", "echo own $$; while :; do sleep 0.02; done"];
    let process = candidate(&redis, "it", &words);
    let child = pid_in(&process.wait_for("own"));
    redis.command(&["DEL", "jobs"]);
    let ended = process.ended();
    assert_eq!(ended.code, 76, "{}", ended.err);
    eventually("the command has ended", SOON, || !is_alive(child));

    let process = candidate(&redis, "it", &["jobs"]);
    process.wait_for("it 2");
    redis.command(&["DEL", "jobs"]);
    let ended = process.ended();
    assert_eq!(ended.code, 76);
    assert!(ended.err.starts_with("leasehold: lead `jobs`: leadership lost: "), "{}", ended.err);
}

#[test]
fn next_candidate_leads_when_the_leader_is_killed() {
    let redis = Redis::start();
    let words = ["jobs", "sh", "-c", "echo own $$; while :; do sleep 0.02; done"];
    let leader = candidate(&redis, "one", &words);
    let child = pid_in(&leader.wait_for("own"));
    let next = candidate(&redis, "other", &["--json", "jobs"]);
    leader.signal(Signal::KILL);
    let line: Value = serde_json::from_str(&next.wait_for("{")).unwrap();
    assert!(!is_alive(child), "the command ended with the leader");
    assert_eq!(
        (&line["leader"], &line["me"], &line["term"]),
        (&"other".into(), &true.into(), &2.into())
    );
    next.signal(Signal::TERM);
    assert_eq!(next.ended().code, 143);
    assert_eq!(redis.command(&["EXISTS", "jobs"]).number(), 0, "the leader has released the lock");
}

#[test]
fn waiting_candidate_ends_by_a_signal_and_leaves_the_queue() {
    let redis = Redis::start();
    let leader = candidate(&redis, "one", &["jobs"]);
    leader.wait_for("one 1");
    let waiting = candidate(&redis, "other", &["jobs", "echo", "never"]);
    let queue = "leasehold_lock__queue:{jobs}";
    eventually("the other candidate is in the queue", SOON, || {
        redis.command(&["EXISTS", queue]).number() == 1
    });
    waiting.signal(Signal::INT);
    let ended = waiting.ended();
    assert_eq!((ended.code, ended.out.as_str()), (130, ""), "{}", ended.err);
    assert_eq!(redis.command(&["EXISTS", queue]).number(), 0);
}

#[test]
fn observer_prints_each_leader() {
    let redis = Redis::start();
    let observer = leasehold(&redis, &["elect", "--observe", "jobs"]);
    observer.wait_for("- -");
    let leader = candidate(&redis, "one", &["jobs"]);
    observer.wait_for("one 1");
    leader.signal(Signal::TERM);
    assert_eq!(leader.ended().code, 143);
    let _leader = candidate(&redis, "other", &["jobs"]);
    observer.wait_for("other 2");
    let json = leasehold(&redis, &["elect", "--observe", "--json", "jobs"]);
    let line: Value = serde_json::from_str(&json.wait_for("{")).unwrap();
    assert_eq!(
        (&line["leader"], &line["me"], &line["term"]),
        (&"other".into(), &false.into(), &2.into())
    );
    assert!(line["owner"].is_string(), "{line}");
}

#[test]
fn http_returns_200_at_the_leader_and_503_at_other_candidates() {
    let redis = Redis::start();
    let (here, there) = (address(), address());
    let leader = candidate(&redis, "one", &["--http", &here, "jobs"]);
    leader.wait_for("one 1");
    let waiting = candidate(&redis, "other", &["--http", &there, "jobs"]);
    eventually("the other candidate knows the leader", SOON, || {
        get(&there).is_some_and(|(code, shown)| code == 503 && shown["leader"] == "one")
    });
    let (code, shown) = get(&here).unwrap();
    assert_eq!((code, &shown["me"], &shown["term"]), (200, &true.into(), &1.into()));
    assert_eq!(http(&here, "HEAD /health HTTP/1.0\r\n\r\n"), Some((200, String::new())));
    assert_eq!(http(&here, "POST / HTTP/1.1\r\n\r\n").unwrap().0, 405);

    // A client that sends nothing delays no other client.
    let _silent = TcpStream::connect(&there).unwrap();
    leader.signal(Signal::TERM);
    assert_eq!(leader.ended().code, 143);
    eventually("the other candidate is the leader", SOON, || {
        get(&there).is_some_and(|(code, shown)| code == 200 && shown["me"] == true)
    });
    drop(waiting);
}

#[test]
fn elect_replies_over_http_despite_64_silent_connections() {
    let redis = Redis::start();
    let here = address();
    let leader = candidate(&redis, "one", &["--http", &here, "jobs"]);
    leader.wait_for("one 1");
    let silent: Vec<_> = (0..64).map(|_| TcpStream::connect(&here).unwrap()).collect();
    assert_eq!(get(&here).unwrap().0, 200);
    // The other connections are still open. So the reply did not wait until silent connections
    // timed out.
    let is_open = |mut it: &TcpStream| {
        it.set_nonblocking(true).unwrap();
        it.read(&mut [0]).is_err()
    };
    eventually("the oldest connection is closed", SOON, || !is_open(&silent[0]));
    assert!(is_open(silent.last().unwrap()));
}

#[test]
fn http_stops_showing_leadership_before_the_lease_ends() {
    let redis = Redis::start();
    let here = address();
    let leader = candidate(&redis, "one", &["--http", &here, "jobs"]);
    leader.wait_for("one 1");
    redis.pause();
    eventually("the candidate is no longer the leader", ms(3_000), || {
        get(&here).is_none_or(|(code, shown)| code == 503 && shown["me"] == false)
    });
    redis.resume();
    assert_eq!(leader.ended().code, 76);
}

#[test]
fn elect_returns_71_when_the_http_address_is_in_use() {
    let redis = Redis::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ended = candidate(&redis, "it", &["--http", &address, "jobs", "true"]).ended();
    assert_eq!(ended.code, 71);
    assert!(ended.err.starts_with(&format!("leasehold: listen on `{address}`: ")), "{}", ended.err);
    let wrong = candidate(&redis, "it", &["--observe", "jobs"]).ended();
    assert_eq!(wrong.code, 64);
}
