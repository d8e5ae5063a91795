//! The page about the servers.

use std::collections::BTreeMap;

use crate::said::Said;
use crate::suite::Suite;

/// What a server has shown, suite by suite; `None` where it was not run.
pub(crate) struct Column {
    pub(crate) server: String,
    pub(crate) said: Vec<Option<Said>>,
}

/// The whole page.
pub(crate) fn table(suites: &[Suite], columns: &[Column]) -> String {
    let servers: Vec<_> = columns.iter().map(|column| column.server.as_str()).collect();
    let mut page = format!("{HEAD}\n| tests | {} |\n", servers.join(" | "));
    page += &format!("|---|{}\n", "---|".repeat(servers.len()));
    for (number, suite) in suites.iter().enumerate() {
        let cells = columns.iter().map(|column| cell(column.said[number].as_ref()));
        page += &format!("| {} | {} |\n", suite.name, cells.collect::<Vec<_>>().join(" | "));
    }
    page + &unsupported(columns) + &failures(suites, columns) + PECULIAR
}

fn cell(said: Option<&Said>) -> String {
    said.map_or_else(|| "not run".to_owned(), Said::cell)
}

/// What each server does not have, and how many tests want it.
fn unsupported(columns: &[Column]) -> String {
    let mut wanted = BTreeMap::<(&str, &str), usize>::new();
    for column in columns {
        for (_, what) in column.said.iter().flatten().flat_map(|said| &said.unsupported) {
            *wanted.entry((column.server.as_str(), what.as_str())).or_default() += 1;
        }
    }
    let line = |((server, what), count): ((&str, &str), usize)| {
        format!("| {server} | {what} | {count} |\n")
    };
    let lines: String = wanted.into_iter().map(line).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("\n## Not supported\n\n| server | why | tests |\n|---|---|---|\n{lines}"),
    }
}

/// The names of those that failed.
fn failures(suites: &[Suite], columns: &[Column]) -> String {
    let mut lines = String::new();
    for column in columns {
        for (suite, said) in suites.iter().zip(&column.said) {
            for name in said.iter().flat_map(|said| &said.failed) {
                lines += &format!("| {} | {} | {name} |\n", column.server, suite.name);
            }
        }
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!("\n## Failed\n\n| server | tests | which |\n|---|---|---|\n{lines}"),
    }
}

const HEAD: &str = "# Servers

`make servers` gets these servers, and `make matrix` runs on each every test that speaks to Redis, and writes this page. A
number is that of the tests that passed. A test that wants what a server does not have fails there and is counted as not
supported; why stands below. A row that was not run says so.
";

const PECULIAR: &str = "
## Peculiar

- Valkey 8 and 9: `CLUSTER SETSLOT` waits for the replicas of its node, and is refused with `NOREPLICAS` where one stands still.
- Valkey 9: `PUBSUB NUMSUB` says an address, and no number, while the table of those who listen to a channel grows: from eight on. Clients
  that listen without a queue, as Redisson's do, are not counted then, and have a fiftieth of the time in place of a fifth. In a cluster
  `PUBSUB SHARDNUMSUB` is right.
- Valkey 9: a Sentinel goes on saying of the others that they take the master for down, long after a failover, and counts that at the next one:
  a single one that misses the master begins a failover, for which the others must vote still.
";
