//! Tests of the test kit: a killed process takes its servers with it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use testkit::{Connection, Helper, eventually};

#[test]
fn server_dies_with_the_process_that_started_it() {
    // given a process that has started a server
    let (owner, server) = owner();
    assert_eq!(Connection::open(server.port).command(&["PING"]).text(), "PONG");

    // when the process is killed and cannot clean up, then the server ends
    owner.kill();
    eventually("the server is gone", LONG, || !server.is_alive());
    eventually("the port is closed", LONG, || Connection::try_open(server.port, SHORT).is_err());
}

#[test]
fn paused_server_dies_with_the_process_that_started_it() {
    let (owner, server) = owner();
    owner.send_line("pause");
    owner.wait_for_line(|line| line == "pause", LONG);
    let mut waiting = Connection::try_open(server.port, SHORT).unwrap();
    assert!(waiting.try_command(&["PING"]).is_err());

    owner.kill();
    eventually("the server is gone", LONG, || !server.is_alive());
}

#[test]
fn process_that_ends_by_itself_can_be_waited_for() {
    let (owner, server) = owner();
    let status = owner.wait();
    assert!(status.success());
    assert_eq!(owner.wait(), status);
    assert!(!server.is_alive());
    owner.kill();
}

#[test]
fn process_can_be_killed_while_another_thread_waits_for_it() {
    let (owner, _) = owner();
    owner.pause();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| owner.wait());
        thread::sleep(SHORT);
        owner.kill();
        assert!(!waiting.join().unwrap().success());
    });
}

#[test]
fn paused_process_continues_when_resumed() {
    let (owner, _) = owner();
    owner.pause();
    owner.send_line("hello");
    let silent = catch_unwind(AssertUnwindSafe(|| owner.next_line(SHORT)));
    assert!(silent.is_err());

    owner.resume();
    assert_eq!(owner.next_line(LONG), "hello");
}

#[test]
fn error_for_a_missing_line_shows_the_received_lines() {
    let (owner, _) = owner();
    owner.send_line("hello");
    let wait = AssertUnwindSafe(|| owner.wait_for_line(|line| line == "goodbye", LONG / 5));
    let message = *catch_unwind(wait).unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("did not come in time"), "{message}");
    assert!(message.contains("hello"), "{message}");
}

/// Starts a process that starts a server. Returns the process and the server.
fn owner() -> (Helper, Server) {
    let owner = Helper::example("owner", &[]);
    let line = owner.next_line(LONG);
    let (pid, port) = line.split_once(' ').unwrap();
    (owner, Server { pid: pid.parse().unwrap(), port: port.parse().unwrap() })
}

struct Server {
    pid: u32,
    port: u16,
}

impl Server {
    /// Returns whether the process runs. A process that has ended, and for which nobody has waited,
    /// is still listed as a zombie.
    fn is_alive(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid));
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    }
}

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(100);
