//! Makes the tables of `docs/performance.md` from the results.

use super::{
    board::{Better, LIMIT, OURS, RIVALS},
    markdown::figure,
    results::{Entry, Results},
};

/// A table in the document, between `<!-- figures: name -->` and `<!-- end -->`.
struct Table {
    name: &'static str,
    title: &'static str,
    columns: &'static [Column],
    /// The text of each row, the group of its case, and the case.
    rows: &'static [(&'static str, &'static str, &'static str)],
}

/// The content of a column for a case.
#[derive(Clone, Copy)]
enum Column {
    Of(&'static str),
    /// The best one of the rivals that have no column of their own.
    BestOther,
}

use Column::{BestOther, Of};

const REDISSON: Column = Of("Redisson");

// The groups, by the names that the cases use.
const PAIRS: &str = "Acquire and release, every task its own name";
const TASKS: &str = "One name, tasks of one process";
const PROCESSES: &str = "One name, one task in each of many processes, 200 µs inside";
const MIXED: &str = "One name, 4 processes with 16 tasks each, 20 µs inside";
const EXPIRY: &str = "The holder stands still, and its lease of 1 s ends";
const KEPT: &str = "Locks that are kept by a watchdog";
const WAITING: &str = "Tasks that wait for one name, held by another process";
const NAMES: &str = "Acquire and release, going round many names";
const READERS: &str = "Readers of one name, tasks of one process";
const FENCED: &str = "One name of a fenced lock, tasks of one process";
const SEMAPHORE: &str = "A semaphore of 8, tasks of one process";
const PERMITS: &str = "Permits that expire, 8 of them, tasks of one process";
const LATCH: &str = "A latch that opens, tasks of one process";
const FAIR: &str = "One name of a fair lock, tasks of one process";
const FAIR_PROCESSES: &str = "One fair lock, one task in each of many processes, 200 µs inside; Redisson: up to 8 JVMs with a thread for each";
const MULTI: &str = "One multi-lock of two names, tasks of one process";
const QUORUM: &str = "One name of a quorum of 3 servers, tasks of one process";
const ELECTION: &str =
    "An election, a leader and a standby of two processes; Redisson: a fenced lock";
const BARRIER: &str = "A barrier that opens, tasks of one process; Redisson: a latch";
const DOUBLE_BARRIER: &str = "A double barrier that all enter and leave, tasks of one process";
const MAP: &str = "A map: insert an entry and get it, tasks of one process";
const SET: &str = "A set: insert an element and remove it, tasks of one process";
const QUEUE: &str = "A queue: push an element, claim one, done; Redisson: offer and poll; rsmq: send, receive, delete";
const CLUSTER_PAIRS: &str = "Cluster of 3: acquire and release, every task its own name";
const CLUSTER_BETWEEN: &str =
    "Cluster of 3: one name, one task in each of 2 processes, 200 µs inside";
const CLUSTER_KEPT: &str = "Cluster of 3: locks over all slots that are kept by a watchdog";
const ACKNOWLEDGED: &str =
    "Acquire and release when one replica has it; limit: SET and WAIT 1 in one write, then DEL";
const STALLED: &str = "Plain locks while the replica stands still and 16 tasks of the client wait for it; limit: nobody waits";
const SENTINEL: &str = "The master is killed: from +switch-master to the next grant";
const CLUSTER: &str =
    "A master of a cluster is killed: from the first write of the new one to the next grant";

const TABLES: [Table; 8] = [
    Table {
        name: "free",
        title: "a free lock",
        columns: &[
            Of(OURS),
            Of(LIMIT),
            REDISSON,
            Of("rslock"),
            Of("rlock"),
            Of("redsync"),
            Of("redislock"),
        ],
        rows: &[
            ("1 task, median of a pair, µs", PAIRS, "1 task: median of a pair"),
            ("1 task, server CPU, µs for a pair", PAIRS, "1 task: server CPU"),
            ("16 tasks, pairs a second", PAIRS, "16 tasks: throughput"),
            ("64 tasks, pairs a second", PAIRS, "64 tasks: throughput"),
            ("256 tasks, pairs a second", PAIRS, "256 tasks: throughput"),
            ("256 tasks, client CPU, µs for a pair", PAIRS, "256 tasks: client CPU"),
            ("256 tasks, server CPU, µs for a pair", PAIRS, "256 tasks: server CPU"),
        ],
    },
    Table {
        name: "wanted",
        title: "a wanted lock",
        columns: &[Of(OURS), Of(LIMIT), REDISSON, BestOther],
        rows: &[
            (
                "one process, 64 tasks, hand-overs a second (limit: a tokio mutex)",
                TASKS,
                "64 tasks: hand-overs",
            ),
            (
                "2 processes, hand-over, median, µs (limit: a message and a round trip)",
                PROCESSES,
                "2 processes: hand-over, median",
            ),
            ("8 processes", PROCESSES, "8 processes: hand-over, median"),
            ("32 processes", PROCESSES, "32 processes: hand-over, median"),
            ("2 processes, hand-overs a second", PROCESSES, "2 processes: hand-overs"),
            ("8 processes", PROCESSES, "8 processes: hand-overs"),
            ("32 processes", PROCESSES, "32 processes: hand-overs"),
            (
                "32 processes, commands of the server for a hand-over",
                PROCESSES,
                "32 processes: server commands per hand-over",
            ),
            (
                "32 processes, Jain's index of the shares (1: all have the same)",
                PROCESSES,
                "32 processes: Jain's index of the shares",
            ),
            ("4 processes of 16 tasks, hand-overs a second", MIXED, "hand-overs, all processes"),
            ("the same, longest wait, ms", MIXED, "longest wait"),
            (
                "from a lease that ends to the entry, ms",
                EXPIRY,
                "from the end of the lease to the entry",
            ),
        ],
    },
    Table {
        name: "objects",
        title: "other objects",
        columns: &[Of(OURS), REDISSON],
        rows: &[
            ("readers, 1 task, median of a pair, µs", READERS, "1 task: median of a pair"),
            ("64 tasks that read, pairs a second", READERS, "64 tasks: throughput"),
            ("fenced lock, 1 task, median of a pair, µs", FENCED, "1 task: median of a pair"),
            ("one name, 64 tasks, pairs a second", FENCED, "64 tasks: throughput"),
            ("semaphore of 8, 1 task, median of a pair, µs", SEMAPHORE, "1 task: median of a pair"),
            ("64 tasks, pairs a second", SEMAPHORE, "64 tasks: throughput"),
            ("64 tasks, server CPU, µs for a pair", SEMAPHORE, "64 tasks: server CPU"),
            (
                "8 permits that expire, 1 task, median of a pair, µs",
                PERMITS,
                "1 task: median of a pair",
            ),
            ("64 tasks, pairs a second", PERMITS, "64 tasks: throughput"),
            (
                "latch, 64 that wait, until the last of them knows, µs",
                LATCH,
                "64 waiters: until the last know",
            ),
        ],
    },
    Table {
        name: "more",
        title: "more objects",
        columns: &[Of(OURS), REDISSON, BestOther],
        rows: &[
            ("fair lock, 1 task, median of a pair, µs", FAIR, "1 task: median of a pair"),
            ("64 tasks, pairs a second", FAIR, "64 tasks: throughput"),
            ("2 processes, hand-over, median, µs", FAIR_PROCESSES, "2 waiters: hand-over, median"),
            ("8 processes", FAIR_PROCESSES, "8 waiters: hand-over, median"),
            ("64 processes", FAIR_PROCESSES, "64 waiters: hand-over, median"),
            (
                "2 processes, commands of the server for a grant",
                FAIR_PROCESSES,
                "2 waiters: server commands per grant",
            ),
            ("8 processes", FAIR_PROCESSES, "8 waiters: server commands per grant"),
            ("64 processes", FAIR_PROCESSES, "64 waiters: server commands per grant"),
            ("multi-lock of two, 1 task, median of a pair, µs", MULTI, "1 task: median of a pair"),
            ("64 tasks, pairs a second", MULTI, "64 tasks: throughput"),
            ("quorum of 3, 1 task, median of a pair, µs", QUORUM, "1 task: median of a pair"),
            ("64 tasks, pairs a second", QUORUM, "64 tasks: throughput"),
            (
                "election, the leader steps down: until the standby leads, median, µs",
                ELECTION,
                "the leader steps down: until the standby leads, median",
            ),
            (
                "the leader is killed, its lease is 3 s: until the standby leads, ms",
                ELECTION,
                "the leader is killed, its lease is 3 s: until the standby leads",
            ),
            (
                "barrier of 65, until the last of them knows, µs (Redisson: a latch)",
                BARRIER,
                "64 waiters: until the last know",
            ),
            (
                "double barrier of 65, until the last of them is inside, µs",
                DOUBLE_BARRIER,
                "64 waiters: until the last know",
            ),
            ("map: insert and get, 1 task, median, µs", MAP, "1 task: median of a pair"),
            ("64 tasks, pairs a second", MAP, "64 tasks: throughput"),
            ("set: insert and remove, 1 task, median, µs", SET, "1 task: median of a pair"),
            ("64 tasks, pairs a second", SET, "64 tasks: throughput"),
            (
                "queue: push, claim and done, 1 worker, median, µs (Redisson: offer and poll)",
                QUEUE,
                "1 task: median of a pair",
            ),
            ("16 workers, elements a second", QUEUE, "16 tasks: throughput"),
            ("64 workers, elements a second", QUEUE, "64 tasks: throughput"),
        ],
    },
    Table {
        name: "many",
        title: "many locks",
        columns: &[Of(OURS), REDISSON, Of("rlock")],
        rows: &[
            ("10 000 holds, client, % of a core", KEPT, "10000 locks: client CPU"),
            ("100 000 holds, client, % of a core", KEPT, "100000 locks: client CPU"),
            ("100 000 holds, server, % of a core", KEPT, "100000 locks: server CPU"),
            ("100 000 holds, bytes each", KEPT, "100000 locks: memory of the client"),
            ("100 000 holds, longest script, ms", KEPT, "100000 locks: longest script"),
            (
                "100 000 holds, latest renewal after it was due, ms",
                KEPT,
                "100000 locks: greatest lag of a renewal",
            ),
            ("10 000 tasks that wait, bytes each", WAITING, "10000 waiting"),
            (
                "16 tasks on 16 to 100 000 names, the best round farthest from the median of all, %",
                NAMES,
                "16 at a time: the farthest best round from their median",
            ),
        ],
    },
    Table {
        name: "cluster",
        title: "a cluster of three masters",
        columns: &[Of(OURS), Of(LIMIT), REDISSON],
        rows: &[
            ("1 task, median of a pair, µs", CLUSTER_PAIRS, "1 task: median of a pair"),
            ("64 tasks, pairs a second", CLUSTER_PAIRS, "64 tasks: throughput"),
            ("64 tasks, server CPU, µs for a pair", CLUSTER_PAIRS, "64 tasks: server CPU"),
            ("2 processes, hand-over, median, µs", CLUSTER_BETWEEN, "hand-over, median"),
            ("2 processes, hand-overs a second", CLUSTER_BETWEEN, "hand-overs"),
            ("10 000 holds, client, % of a core", CLUSTER_KEPT, "10000 locks: client CPU"),
            ("10 000 holds, all servers, % of a core", CLUSTER_KEPT, "10000 locks: server CPU"),
        ],
    },
    Table {
        name: "replicas",
        title: "replicas",
        columns: &[Of(OURS), Of(LIMIT)],
        rows: &[
            (
                "one replica has it, 1 task, median of a pair, µs (limit: SET and WAIT, then DEL)",
                ACKNOWLEDGED,
                "1 task: median of a pair",
            ),
            ("64 tasks, pairs a second", ACKNOWLEDGED, "64 tasks: throughput"),
            (
                "the replica stands still, plain locks, 1 task, median of a pair, µs (limit: nobody waits for it)",
                STALLED,
                "1 task: median of a pair",
            ),
            ("64 tasks, pairs a second", STALLED, "64 tasks: throughput"),
        ],
    },
    Table {
        name: "recovery",
        title: "a master is killed",
        columns: &[Of(OURS), REDISSON],
        rows: &[
            ("Sentinel: from `+switch-master` to the next grant, median, ms", SENTINEL, "median"),
            ("the same, worst of ten", SENTINEL, "worst"),
            (
                "cluster: from the first write of the new master to the next grant, median, ms",
                CLUSTER,
                "median",
            ),
            ("the same, worst of ten", CLUSTER, "worst"),
        ],
    },
];

/// Returns the document with the figures of `results` instead of its old figures.
///
/// # Errors
///
/// If a table is missing in the document, or if the results lack a case.
pub(super) fn filled(document: &str, results: &Results) -> Result<String, String> {
    let mut text = replaced(document, "run", &about(results))?;
    for table in &TABLES {
        text = replaced(&text, table.name, &table.shown(results)?)?;
    }
    Ok(text)
}

fn replaced(document: &str, name: &str, content: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- figures: {name} -->\n"), "<!-- end -->\n");
    let (before, rest) =
        document.split_once(&begin).ok_or_else(|| format!("no place for `{name}`"))?;
    let (_, after) = rest.split_once(end).ok_or_else(|| format!("no end of `{name}`"))?;
    Ok(format!("{before}{begin}{content}{end}{after}"))
}

/// The conditions of the measurement, as a text.
fn about(results: &Results) -> String {
    let facts = results.machine.iter().map(|(what, value)| format!("{what}: {value}"));
    let facts: Vec<_> = facts.collect();
    format!("{}\n({})\n", results.note, facts.join("; "))
}

impl Table {
    /// Returns the table. Leaves out the groups that no full run has measured yet.
    fn shown(&self, results: &Results) -> Result<String, String> {
        let rows: Vec<_> = self.rows.iter().filter(|(_, group, _)| results.has(group)).collect();
        if rows.is_empty() {
            return Ok(NOT_YET.to_owned());
        }
        let head: Vec<_> = self.columns.iter().map(|column| column.title().to_owned()).collect();
        let mut text = row(self.title, &head) + "|---" + &"|---".repeat(head.len()) + "|\n";
        for (label, group, case) in rows {
            let case = format!("{group}: {case}");
            let entry = results.entry(&case).ok_or_else(|| format!("no results of `{case}`"))?;
            let cells: Vec<_> = self.columns.iter().map(|it| it.shown(entry, self)).collect();
            text += &row(label, &cells);
        }
        Ok(text)
    }

    fn has(&self, rival: &str) -> bool {
        self.columns.iter().any(|column| matches!(column, Of(name) if *name == rival))
    }
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Of(name) => name,
            BestOther => "best of the others",
        }
    }

    fn shown(self, entry: &Entry, table: &Table) -> String {
        match self {
            Of(OURS) if entry.is_missed() => format!("**{}**", short(entry.value(OURS))),
            Of(LIMIT) => entry.value(LIMIT).map_or_else(String::new, |limit| short(Some(limit))),
            Of(OURS) => short(entry.value(OURS)),
            // A missing figure is shown only if other rivals were measured.
            Of(_) if entry.rivals.is_empty() => String::new(),
            Of(rival) => short(entry.value(rival)),
            BestOther => best_other(entry, table),
        }
    }
}

const NOT_YET: &str = "The next whole run measures this.\n";

fn best_other(entry: &Entry, table: &Table) -> String {
    let others = RIVALS.into_iter().filter(|rival| !table.has(rival));
    let figures = others.filter_map(|rival| Some((rival, entry.value(rival)?)));
    let best = figures.reduce(|best, other| match entry.better {
        Better::Less if other.1 < best.1 => other,
        Better::More if other.1 > best.1 => other,
        _ => best,
    });
    best.map_or_else(String::new, |(rival, value)| format!("{rival} {}", short(Some(value))))
}

fn row(first: &str, cells: &[String]) -> String {
    format!("| {first} | {} |\n", cells.join(" | "))
}

/// Returns the text of a figure. A figure below 10 has no trailing zeros, which would suggest more
/// precision.
fn short(value: Option<f64>) -> String {
    let Some(value) = value else { return "–".to_owned() };
    let text = figure(value);
    match value < 9.995 && text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{
        super::{board::Case, results::tests::one},
        *,
    };

    fn read(path: &str) -> String {
        let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn document_shows_the_committed_results() {
        let document = read("../docs/performance.md");
        let results = Results::read(&read("results.json")).unwrap();
        let made = filled(&document, &results).unwrap();
        for (shown, made) in document.lines().zip(made.lines()) {
            assert_eq!(shown, made, "`cargo run --bin tables` makes the tables again");
        }
        assert_eq!(document.len(), made.len());
    }

    #[test]
    fn document_without_a_table_marker_is_an_error() {
        let results = Results::read(&read("results.json")).unwrap();
        let document = "<!-- figures: run -->\n<!-- end -->\n";
        assert_eq!(filled(document, &results).unwrap_err(), "no place for `free`");
    }

    #[test]
    fn missing_case_is_an_error_unless_its_group_has_no_results() {
        let of = |case| one(Case::less(SENTINEL, case, "ms"), &[(OURS, 97.0)]);
        let recovery = TABLES.iter().find(|table| table.name == "recovery").unwrap();
        assert_eq!(recovery.shown(&one(Case::less("g", "c", "ms"), &[])).unwrap(), NOT_YET);
        assert_eq!(
            recovery.shown(&of("median")).unwrap_err(),
            format!("no results of `{SENTINEL}: worst`")
        );
    }

    #[test]
    fn small_numbers_are_written_without_trailing_zeros() {
        let shown = [3.9, 0.15, 1.0, 97.0, 0.0, 1234.0].map(|value| short(Some(value)));
        assert_eq!(shown, ["3.9", "0.15", "1", "97.0", "0", "1 234"]);
    }
}
