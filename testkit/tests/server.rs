//! Tests of the test kit: servers start, stop and pause, and keep the data that they should keep.

use std::collections::HashSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use testkit::{Connection, Redis, eventually};

#[test]
fn plain_server_replies() {
    let redis = Redis::start();
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}/", redis.port()));
    assert_eq!(Connection::open(redis.port()).command(&["PING"]).text(), "PONG");
}

#[test]
fn dropped_server_leaves_no_process() {
    let redis = Redis::start();
    let (port, dir, pid) = (redis.port(), redis.dir().to_owned(), redis.pid());
    redis.pause();

    drop(redis);

    assert!(Connection::try_open(port, SHORT).is_err());
    assert!(!dir.exists());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn plain_server_loses_its_data_at_a_restart() {
    let redis = Redis::start();
    redis.command(&["SET", "key", "value"]);
    let (port, pid) = (redis.port(), redis.pid());

    redis.restart();

    assert_eq!(redis.port(), port);
    assert_ne!(redis.pid(), pid);
    assert!(redis.command(&["GET", "key"]).is_nil());
}

#[test]
fn persistent_server_keeps_its_data_at_a_restart() {
    let redis = Redis::options().persistent().start();
    redis.command(&["SET", "key", "value"]);
    redis.restart();
    assert_eq!(redis.command(&["GET", "key"]).text(), "value");
}

#[test]
fn persistent_server_starts_empty_after_lose_data() {
    let redis = Redis::options().persistent().start();
    redis.command(&["SET", "key", "value"]);
    redis.stop();
    redis.lose_data();
    redis.start_again();
    assert!(redis.command(&["GET", "key"]).is_nil());
}

#[test]
fn user_of_the_start_options_exists_after_a_restart() {
    let redis = Redis::options().password("other").user("reader", &["~mine", "+get"]).start();
    for _ in 0..2 {
        let mut reader = Connection::open(redis.port());
        assert!(reader.command(&["GET", "mine"]).error().starts_with("NOAUTH"));
        assert_eq!(reader.command(&["AUTH", "reader", "secret"]).text(), "OK");
        assert!(reader.command(&["GET", "mine"]).is_nil());
        assert!(reader.command(&["GET", "theirs"]).error().starts_with("NOPERM"));
        redis.restart();
    }
}

#[test]
fn server_runs_unless_it_is_stopped_or_paused() {
    let redis = Redis::start();
    assert!(redis.is_running());
    redis.pause();
    assert!(!redis.is_running());
    redis.resume();
    assert!(redis.is_running());
    redis.stop();
    assert!(!redis.is_running());
}

#[test]
fn user_has_only_its_acl_permissions() {
    // given a user, whose creation does not change the counts
    let redis = Redis::start();
    redis.command(&["SET", "mine", "1"]);
    let before = redis.calls();
    let url = redis.user("reader", &["~mine", "+get"]);
    assert_eq!(url, format!("redis://reader:secret@127.0.0.1:{}/", redis.port()));
    assert_eq!(redis.calls().since(&before).to_string(), "no calls");

    // when a client logs in as this user
    let mut reader = Connection::open(redis.port());
    assert_eq!(reader.command(&["AUTH", "reader", "secret"]).text(), "OK");

    // then the client may do what the permissions allow, and nothing else
    assert_eq!(reader.command(&["GET", "mine"]).text(), "1");
    assert!(reader.command(&["GET", "theirs"]).error().starts_with("NOPERM"));
    assert!(reader.command(&["DEL", "mine"]).error().starts_with("NOPERM"));
}

#[test]
fn stopped_server_refuses_connections_until_it_starts() {
    let redis = Redis::start();
    let mut connection = Connection::open(redis.port());

    redis.stop();
    redis.stop();
    assert!(connection.try_command(&["PING"]).is_err());
    assert!(Connection::try_open(redis.port(), SHORT).is_err());

    redis.start_again();
    assert_eq!(redis.command(&["PING"]).text(), "PONG");
}

#[test]
fn paused_server_replies_when_it_is_resumed() {
    let redis = Redis::start();
    let mut connection = Connection::try_open(redis.port(), SHORT).unwrap();
    for _ in 0..3 {
        redis.pause();
        connection.send(&["INCR", "counter"]).unwrap();
        assert!(connection.next_reply().is_err());
        redis.resume();
        eventually("the server replies", LONG, || connection.next_reply().is_ok());
    }
    assert_eq!(redis.command(&["GET", "counter"]).text(), "3");
}

#[test]
fn password_is_required() {
    let redis = Redis::options().password("secret").start();
    let reply = Connection::open(redis.port()).command(&["PING"]);
    assert!(reply.error().starts_with("NOAUTH"));
    assert_eq!(redis.command(&["PING"]).text(), "PONG");
    assert_eq!(redis.url_with_password(), format!("redis://:secret@127.0.0.1:{}/", redis.port()));
    assert!(!redis.url().contains("secret"));
}

#[test]
fn server_option_becomes_a_redis_setting() {
    let redis = Redis::options().arg("--maxmemory", "2mb").arg("--appendfsync", "no").start();
    assert_eq!(redis.command(&["CONFIG", "GET", "maxmemory"]).texts(), ["maxmemory", "2097152"]);
    assert_eq!(redis.command(&["CONFIG", "GET", "appendfsync"]).texts(), ["appendfsync", "no"]);
}

#[test]
fn debug_commands_are_allowed() {
    let redis = Redis::start();
    assert_eq!(redis.command(&["DEBUG", "SLEEP", "0"]).text(), "OK");
}

#[test]
fn error_for_a_wrong_setting_shows_the_server_log() {
    let failure = catch_unwind(|| Redis::options().arg("--no-such-setting", "1").start());
    let message = *failure.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains(">>> 'no-such-setting"), "{message}");
}

#[test]
fn error_for_a_missing_server_says_how_to_install_it() {
    // given a machine without Redis, and a machine without the chosen server
    let chosen = "LEASEHOLD_SERVER is `/no/such/redis-server`, which is missing: `make servers`";
    let advices = [
        ("PATH", "redis-server is missing: install it with `apt-get install -y redis-server`\n"),
        ("LEASEHOLD_SERVER", chosen),
    ];
    for (variable, advice) in advices {
        // when this test program runs again with these settings
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "plain_server_replies"])
            .env_remove("LEASEHOLD_SERVER")
            .env(variable, "/no/such/redis-server")
            .output()
            .unwrap();

        // then its test fails, and the message names the remedy
        assert!(!output.status.success());
        let text_out = String::from_utf8_lossy(&output.stdout);
        assert!(text_out.contains(advice), "{text_out}");
    }
}

#[test]
fn server_replies_on_a_unix_socket() {
    let redis = Redis::options().unix_socket().start();
    let url = redis.unix_url();
    let path = url.strip_prefix("unix://").unwrap();
    assert_eq!(redis_cli(&["-s", path, "PING"]), "PONG");

    redis.restart();
    assert_eq!(redis_cli(&["-s", path, "PING"]), "PONG");
}

#[test]
fn tls_client_accepts_only_a_server_of_its_own_authority() {
    let redis = Redis::options().tls().start();
    let port = redis.tls_port().to_string();
    let ca = redis.ca_path();
    let ca = ca.to_str().unwrap();
    for host in ["localhost", "127.0.0.1"] {
        let text_out = redis_cli(&["--tls", "--cacert", ca, "-h", host, "-p", &port, "PING"]);
        assert_eq!(text_out, "PONG", "{host}");
    }
    assert_eq!(redis.tls_url(), format!("rediss://localhost:{port}/"));
    assert_eq!(redis.command(&["PING"]).text(), "PONG");

    // A client that trusts only another authority rejects the server.
    let stranger = Redis::options().tls().start();
    let other_ca = stranger.ca_path();
    let other_ca = other_ca.to_str().unwrap();
    let text_out =
        redis_cli(&["--tls", "--cacert", other_ca, "-h", "localhost", "-p", &port, "PING"]);
    assert!(text_out.contains("certificate verify failed"), "{text_out}");
}

#[test]
fn client_certificate_is_required_if_the_option_is_set() {
    let redis = Redis::options().tls_with_client_auth().start();
    let port = redis.tls_port().to_string();
    let (ca, cert, key) =
        (redis.ca_path(), redis.dir().join("shown.pem"), redis.dir().join("shown.key"));
    fs::write(&cert, redis.client_cert_pem()).unwrap();
    fs::write(&key, redis.client_key_pem()).unwrap();
    assert_eq!(fs::read_to_string(&ca).unwrap(), redis.ca_pem());

    let anonymous = ["--tls", "--cacert", ca.to_str().unwrap(), "-h", "localhost", "-p", &port];
    let shown = ["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let with_certificate = [&anonymous[..], &shown, &["PING"]].concat();
    let without = [&anonymous[..], &["PING"]].concat();

    assert_eq!(redis_cli(&with_certificate), "PONG");
    let text_out = redis_cli(&without);
    assert!(!text_out.contains("PONG") && !text_out.is_empty(), "{text_out}");
}

#[test]
fn many_servers_start_side_by_side() {
    let starting: Vec<_> = (0..12).map(|_| thread::spawn(Redis::start)).collect();
    let servers: Vec<_> = starting.into_iter().map(|start| start.join().unwrap()).collect();

    // Each server has its own data.
    for (number, redis) in servers.iter().enumerate() {
        assert!(redis.command(&["GET", "number"]).is_nil());
        redis.command(&["SET", "number", &number.to_string()]);
    }
    let pids: HashSet<_> = servers.iter().map(Redis::pid).collect();
    assert_eq!(pids.len(), servers.len());
}

#[test]
fn server_outlives_the_thread_that_started_it() {
    let redis = thread::spawn(Redis::start).join().unwrap();
    // If the server were tied to the thread that started it, the kernel would have killed it by
    // now.
    thread::sleep(Duration::from_millis(50));
    assert_eq!(redis.command(&["PING"]).text(), "PONG");
}

#[test]
fn restart_returns_only_after_the_server_loaded_its_data() {
    let redis = Redis::options().persistent().arg("--key-load-delay", "300").start();
    for number in 0..1_000 {
        redis.command(&["SET", &format!("key{number}"), "value"]);
    }
    redis.restart();
    assert_eq!(redis.command(&["DBSIZE"]).number(), 1_000);
}

fn redis_cli(args: &[&str]) -> String {
    let Output { stdout, stderr, .. } = Command::new("redis-cli").args(args).output().unwrap();
    let text_out = [stdout, stderr].concat();
    String::from_utf8_lossy(&text_out).trim().to_owned()
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(100);
