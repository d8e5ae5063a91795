//! Tests of the test kit: PostgreSQL servers and sessions behave as documented.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{Postgres, eventually};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn two_postgres_servers_are_independent() {
    let (one, other) = (Postgres::start(), Postgres::start());
    assert_eq!(one.sql("CREATE TABLE t (n int)"), "CREATE TABLE");
    assert_eq!(one.sql("INSERT INTO t VALUES (1), (2)"), "INSERT 0 2");
    assert_eq!(one.sql("SELECT sum(n) FROM t"), "3");
    assert_eq!(other.sql("SELECT to_regclass('t') IS NULL"), "t");
}

#[test]
fn dropped_server_is_stopped() {
    let postgres = Postgres::start();
    let dir = PathBuf::from(postgres.sql("SHOW data_directory"));
    let pid = fs::read_to_string(dir.join("postmaster.pid")).unwrap();
    let process = Path::new("/proc").join(pid.lines().next().unwrap());
    assert!(process.exists());

    drop(postgres);

    assert!(!dir.exists() && !process.exists());
}

#[test]
fn rejected_statement_fails_with_the_message_of_postgres() {
    let postgres = Postgres::start();
    let failure = catch_unwind(AssertUnwindSafe(|| postgres.sql("SELECT nothing")));
    let message = *failure.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("column \"nothing\" does not exist"), "{message}");
}

#[test]
fn session_keeps_its_transaction_until_commit_or_drop() {
    // given a row that a session has changed
    let postgres = Postgres::start();
    postgres.sql("CREATE TABLE t (n int); INSERT INTO t VALUES (1)");
    let session = postgres.session();
    session.tell("BEGIN; UPDATE t SET n = 2;");
    let waiting = |number: &'static str| {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        eventually("this number of sessions waits", SOON, || postgres.sql(count) == number);
    };
    // The query is part of the condition, because the session is already idle in its transaction
    // before the `UPDATE`.
    let begun = "SELECT count(*) FROM pg_stat_activity \
                 WHERE state = 'idle in transaction' AND query LIKE 'UPDATE%'";
    eventually("the transaction is open", SOON, || postgres.sql(begun) == "1");

    // when another session changes the row, then this session waits for the end of the transaction
    thread::scope(|scope| {
        let other = scope.spawn(|| postgres.sql("UPDATE t SET n = n * 10"));
        waiting("1");
        session.tell("COMMIT;");
        assert_eq!(other.join().unwrap(), "UPDATE 1");
    });
    assert_eq!(postgres.sql("SELECT n FROM t"), "20");

    // when a session is dropped within its transaction, then no row is changed
    session.tell("BEGIN; UPDATE t SET n = 3;");
    eventually("the transaction is open", SOON, || postgres.sql(begun) == "1");
    drop(session);
    eventually("the transaction is over", SOON, || postgres.sql(begun) == "0");
    assert_eq!(postgres.sql("SELECT n FROM t"), "20");
}

#[test]
fn error_for_a_missing_server_says_how_to_install_it() {
    // given a second run of this test program that finds no PostgreSQL
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "rejected_statement_fails_with_the_message_of_postgres"])
        .env("POSTGRES_BIN", "/no/such/folder")
        .output()
        .unwrap();

    // then its test fails, and the message names the remedy
    assert!(!output.status.success());
    let text_out = String::from_utf8_lossy(&output.stdout);
    let advice = "PostgreSQL is missing: install it with \
        `sudo apt-get install -y --no-install-recommends postgresql`\n";
    assert!(text_out.contains(advice), "{text_out}");
}
