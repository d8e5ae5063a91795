//! Tests of the test kit: a test can count and read the commands of a server.

use testkit::{Connection, Redis};

#[test]
fn counter_difference_has_only_commands_of_the_test() {
    for redis in [Redis::start(), Redis::options().password("secret").start()] {
        let before = redis.calls();
        redis.command(&["SET", "a", "1"]);
        redis.command(&["GET", "a"]);
        redis.command(&["GET", "a"]);
        let after = redis.calls();

        let calls = after.since(&before);
        assert_eq!(calls.to_string(), "get: 2, set: 1");
        assert_eq!((calls.of("GET"), calls.of("del"), calls.total()), (2, 0, 3));
        // Reading the counts does not change them.
        assert_eq!(redis.calls().since(&after).to_string(), "no calls");
    }
}

#[test]
fn commands_in_a_script_are_counted() {
    let redis = Redis::start();
    let before = redis.calls();
    redis.command(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "counter"]);
    assert_eq!(redis.calls().since(&before).to_string(), "eval: 1, incr: 1");
}

#[test]
fn info_and_ping_that_a_test_sends_are_counted() {
    let redis = Redis::start();
    let before = redis.calls();
    let mut connection = Connection::open(redis.port());
    connection.command(&["INFO", "server"]);
    connection.command(&["PING"]);
    connection.command(&["CONFIG", "GET", "port"]);
    let calls = redis.calls().since(&before);
    assert_eq!((calls.of("info"), calls.of("ping"), calls.of("config")), (1, 1, 1));
    assert_eq!(calls.total(), 3);
}

#[test]
fn counters_restart_with_the_server() {
    let redis = Redis::options().password("secret").start();
    redis.command(&["SET", "a", "1"]);
    redis.calls();
    redis.restart();
    let begun = redis.calls();
    // At its start, Valkey 9 sends itself a `CONFIG GET`.
    assert_eq!(begun.total(), begun.of("config|get"), "{begun}");
    redis.command(&["INFO", "server"]);
    assert_eq!(redis.calls().since(&begun).to_string(), "info: 1");
}

#[test]
fn monitor_shows_every_command_executed_before() {
    let redis = Redis::options().password("secret").start();
    let monitor = redis.monitor();
    for number in 1..=200 {
        redis.command(&["SET", "key", &number.to_string()]);
        assert_eq!(monitor.lines().len(), number);
    }
    redis.command(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "key"]);

    let lines = monitor.stop();
    assert_eq!(lines.len(), 202);
    assert!(lines[0].ends_with(r#""SET" "key" "1""#), "{}", lines[0]);
    assert!(lines[201].ends_with(r#"lua] "GET" "key""#), "{}", lines[201]);
}

#[test]
fn monitor_adds_nothing_to_the_command_counts() {
    let redis = Redis::start();
    let before = redis.calls();
    let monitor = redis.monitor();
    redis.command(&["SET", "a", "1"]);
    assert_eq!(monitor.lines().len(), 1);
    assert_eq!(redis.calls().since(&before).to_string(), "set: 1");
    assert_eq!(monitor.lines().len(), 1);
}

#[test]
fn monitor_of_a_stopped_server_keeps_its_lines() {
    let redis = Redis::start();
    let monitor = redis.monitor();
    redis.command(&["SET", "a", "1"]);
    assert_eq!(monitor.lines().len(), 1);
    redis.stop();
    assert_eq!(monitor.stop().len(), 1);
}
