//! The page `docs/servers.md`.

use std::collections::BTreeMap;

use crate::results::SuiteResults;
use crate::suite::Suite;

/// The results of a server, suite by suite. `None` means that the suite did not run.
pub(crate) struct Column {
    pub(crate) server: String,
    pub(crate) results: Vec<Option<SuiteResults>>,
}

pub(crate) fn table(suites: &[Suite], columns: &[Column]) -> String {
    let servers: Vec<_> = columns.iter().map(|column| column.server.as_str()).collect();
    let mut page = format!("{HEAD}\n| tests | {} |\n", servers.join(" | "));
    page += &format!("|---|{}\n", "---|".repeat(servers.len()));
    for (number, suite) in suites.iter().enumerate() {
        let cells = columns.iter().map(|column| cell(column.results[number].as_ref()));
        page += &format!("| {} | {} |\n", suite.name, cells.collect::<Vec<_>>().join(" | "));
    }
    page + &unsupported(columns) + &failures(suites, columns) + DIFFERENCES
}

fn cell(results: Option<&SuiteResults>) -> String {
    results.map_or_else(|| "not run".to_owned(), SuiteResults::cell)
}

/// Lists the abilities that servers do not have, and how many tests need each of them.
fn unsupported(columns: &[Column]) -> String {
    let mut wanted = BTreeMap::<(&str, &str), usize>::new();
    for column in columns {
        for (_, what) in column.results.iter().flatten().flat_map(|results| &results.unsupported) {
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

fn failures(suites: &[Suite], columns: &[Column]) -> String {
    let mut lines = String::new();
    for column in columns {
        for (suite, results) in suites.iter().zip(&column.results) {
            for name in results.iter().flat_map(|results| &results.failed) {
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

`make servers` gets these servers. `make matrix` runs every test that uses Redis on each of them, and writes this page. A
number counts the tests that passed. If a server lacks a feature that a test needs, the test counts as not
supported, and a table below has the reason. A row of tests that did not run says so.
";

const DIFFERENCES: &str = "
## Differences between servers

- Redis 6.2: after `CONFIG SET cluster-announce-port`, only the other nodes report the new port of a node. The node itself reports it after a restart.
  Until then, clients reconnect again and again.
- Valkey 8 and 9: `CLUSTER SETSLOT` waits for the replicas of its node. It fails with `NOREPLICAS` if one is paused.
- Valkey 9: from eight subscribers on, `PUBSUB NUMSUB` returns an address instead of a number, while the table of subscribers grows. Clients
  that subscribe without a queue entry, such as Redisson's, are then not counted, and get 2 % of the time instead of 20 %. In a cluster,
  `PUBSUB SHARDNUMSUB` is right.
- Valkey 9: long after a failover, a Sentinel still reports that others consider the primary down, and counts this at the next failover.
  So a single Sentinel that misses the primary starts a failover. The others must still vote for it.
";
