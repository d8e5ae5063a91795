//! Fenced writes to a real PostgreSQL, with exactly the statements of the guide.

use std::{fs, path::Path, thread};

use crate::common::{SOON, stopped_and_next};
use testkit::{Postgres, Redis, eventually};

/// A table of orders with a column of tokens, and the statements of the guide that use it.
struct Orders {
    postgres: Postgres,
    read: String,
    update: String,
    upsert: String,
}

impl Orders {
    /// A table with one order, whose total is 10.
    fn with_one() -> Self {
        let postgres = Postgres::start();
        let [column, read, update, upsert] = statements_of_the_guide();
        postgres.sql("CREATE TABLE orders (id int PRIMARY KEY, total int)");
        postgres.sql(&format!("INSERT INTO orders VALUES (42, 10); {column}"));
        Self { postgres, read, update, upsert }
    }

    /// Returns the result of a read of the order.
    fn read(&self, token: u64) -> String {
        self.postgres.sql(&format!("PREPARE read AS {}; EXECUTE read(42, {token})", self.read))
    }

    /// Returns the result of an `UPDATE` of the order.
    fn update(&self, total: u32, token: u64) -> String {
        self.postgres.sql(&executed(&self.update, total, token))
    }

    /// Returns the result of an `INSERT` of the order.
    fn upsert(&self, total: u32, token: u64) -> String {
        self.postgres.sql(&executed(&self.upsert, total, token))
    }

    fn total_and_token(&self) -> String {
        self.postgres.sql("SELECT total, token FROM orders WHERE id = 42")
    }

    /// Waits until exactly one connection is in the state that `condition` describes.
    fn until_one(&self, condition: &str) {
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE {condition}");
        let what = format!("exactly one connection satisfies {condition}");
        eventually(&what, SOON, || self.postgres.sql(&count) == "1");
    }
}

/// A prepared statement, and its execution with `total` and `token`.
fn executed(statement: &str, total: u32, token: u64) -> String {
    format!("PREPARE write AS {statement}; EXECUTE write(42, {token}, {total});")
}

/// Returns four statements of the guide: the column, the read, the `UPDATE` and the `INSERT`.
fn statements_of_the_guide() -> [String; 4] {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/correctness.md");
    let guide = fs::read_to_string(guide).unwrap();
    let (_, from) = guide.split_once("```sql\n").unwrap();
    let (block, _) = from.split_once("```").unwrap();
    let statements = block.split(';').map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
    statements.collect::<Vec<_>>().try_into().unwrap()
}

#[tokio::test]
async fn fence_rejects_the_late_update_of_a_stopped_holder() {
    // given a holder that was paused, and the next holder, which writes
    let (stopped, next) = stopped_and_next(&Redis::start()).await;
    let orders = Orders::with_one();
    assert_eq!(orders.update(15, next), "UPDATE 1");

    // when the paused holder continues and writes late, then no row is changed
    assert_eq!(orders.update(11, stopped), "UPDATE 0");
    assert_eq!(orders.total_and_token(), format!("15|{next}"));

    // when a write has no fence, then the newer value is lost
    let plain = "UPDATE orders SET total = 11 WHERE id = 42";
    assert_eq!(orders.postgres.sql(plain), "UPDATE 1");
    assert_eq!(orders.total_and_token(), format!("11|{next}"));
}

#[tokio::test]
async fn upsert_of_a_missing_row_rejects_an_older_token() {
    // given no row, and the tokens of two holds
    let (stopped, next) = stopped_and_next(&Redis::start()).await;
    let orders = Orders::with_one();
    orders.postgres.sql("DELETE FROM orders");

    // when the newer hold writes the row, then the older hold cannot write it
    assert_eq!(orders.upsert(15, next), "INSERT 0 1");
    assert_eq!(orders.upsert(11, stopped), "INSERT 0 0");
    assert_eq!(orders.total_and_token(), format!("15|{next}"));
}

#[test]
fn read_with_a_token_rejects_later_updates_of_older_tokens() {
    let orders = Orders::with_one();
    assert_eq!(orders.read(2), "UPDATE 1");
    assert_eq!(orders.read(1), "UPDATE 0");
    assert_eq!(orders.update(11, 1), "UPDATE 0");
    assert_eq!(orders.upsert(11, 1), "INSERT 0 0");
    assert_eq!(orders.total_and_token(), "10|2");
}

#[test]
fn hold_may_write_again_and_tokens_are_compared_exactly() {
    let orders = Orders::with_one();
    let newest = (1 << 53) - 1;
    for (total, token, rows) in [(1, newest, 1), (2, newest, 1), (3, newest - 1, 0)] {
        assert_eq!(orders.update(total, token), format!("UPDATE {rows}"));
        assert_eq!(orders.upsert(total, token), format!("INSERT 0 {rows}"));
    }
    assert_eq!(orders.total_and_token(), format!("2|{newest}"));
}

#[test]
fn stale_update_is_rejected_after_a_newer_transaction() {
    type Write = fn(&Orders, u32, u64) -> String;
    let late: [(Write, _); 2] = [(Orders::update, "UPDATE 0"), (Orders::upsert, "INSERT 0 0")];
    for (write, refused) in late {
        // given a newer hold that has written, but not committed
        let orders = Orders::with_one();
        let newer = orders.postgres.session();
        newer.tell(&format!("BEGIN; {}", executed(&orders.update, 15, 2)));
        orders.until_one("state = 'idle in transaction'");

        // when an older hold writes meanwhile, then its write waits for the commit, checks the
        // token again, and is rejected
        thread::scope(|scope| {
            let older = scope.spawn(|| write(&orders, 11, 1));
            orders.until_one("wait_event_type = 'Lock'");
            newer.tell("COMMIT;");
            assert_eq!(older.join().unwrap(), refused);
        });
        assert_eq!(orders.total_and_token(), "15|2");
    }
}
