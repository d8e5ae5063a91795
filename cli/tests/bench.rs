//! `leasehold bench`, with a real Redis.

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Redis, eventually};

use crate::common::{SOON, leasehold};

#[test]
fn bench_measures_the_server_and_leaves_no_keys() {
    let redis = Redis::start();
    let ended = leasehold(&redis, &["bench", "--json", "--time", "200ms"]).ended();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let shown: Value = serde_json::from_str(&ended.out).unwrap();
    for latency in [&shown["round_trip"], &shown["hand_over"]] {
        let number = |field| latency[field].as_u64().unwrap();
        assert!(number("count") > 0 && number("p50_us") > 0, "{shown}");
        assert!(number("p50_us") <= number("p99_us"), "{shown}");
    }
    let tasks: Vec<_> = shown["pairs"].as_array().unwrap().iter().map(|it| &it["tasks"]).collect();
    assert_eq!(tasks, [1, 16, 64]);
    assert!(shown["pairs"][0]["per_second"].as_f64().unwrap() > 0.0, "{shown}");
    assert_eq!(redis.command(&["DBSIZE"]).number(), 0, "{:?}", redis.command(&["KEYS", "*"]));

    let text = leasehold(&redis, &["bench", "--time", "50ms"]).ended().out;
    assert!(
        text.starts_with("round trip        p50 ") && text.contains("pairs, 64 tasks   "),
        "{text}"
    );
}

#[test]
fn interrupted_bench_leaves_no_lock() {
    let redis = Redis::start();
    let bench = leasehold(&redis, &["bench", "--time", "60s"]);
    eventually("the bench sends requests", SOON, || {
        redis.calls().to_string().contains("evalsha: ")
    });
    bench.signal(Signal::INT);
    assert_eq!(bench.ended().code, 130);
    assert_eq!(redis.command(&["DBSIZE"]).number(), 0);
}
