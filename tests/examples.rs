//! Runs those examples that are programs, and checks what they print.

use std::collections::{BTreeMap, BTreeSet};

use testkit::{Helper, Redis};

use crate::common::{SOON, secs};

/// Runs an example that needs no server, and returns the lines that it prints.
fn lines_of(name: &str) -> Vec<String> {
    let example = Helper::example(name, &[]);
    let lines = example.lines(secs(60));
    assert!(example.wait().success(), "{lines:#?}");
    lines
}

#[test]
fn quickstart_prints_each_step() {
    let lines = lines_of("quickstart");
    for step in ["1. One holder at a time", "4. Work that loses its lock is stopped"] {
        assert!(lines.iter().any(|line| line.starts_with(step)), "{step}: {lines:#?}");
    }
}

#[test]
fn cache_example_requests_each_key_once() {
    let lines = lines_of("cache");
    for product in ["apples", "pears", "plums"] {
        let asked = lines.iter().filter(|line| line.ends_with(&format!("asking for {product}")));
        assert_eq!(asked.count(), 1, "{lines:#?}");
    }
    assert_eq!(lines.iter().filter(|line| line.ends_with(" cents")).count(), 6, "{lines:#?}");
}

/// The example runs four machines, each with a clock of its own, in two processes.
#[test]
fn cron_example_runs_each_job_on_only_one_machine() {
    let redis = Redis::start();
    let processes = [(); 2].map(|()| Helper::example_on(&redis.url(), "cron", &[]));
    let lines: Vec<_> = processes.iter().flat_map(|process| process.lines(secs(60))).collect();
    for process in &processes {
        assert!(process.wait().success(), "{lines:#?}");
    }
    let mut started = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for line in &lines {
        let time = line.split(" of ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        seen.insert(time);
        *started.entry(time).or_insert(0) += usize::from(line.ends_with(" starts"));
    }
    assert!(seen.len() >= 4, "{lines:#?}");
    assert!(started.values().all(|times| *times == 1), "{lines:#?}");
}

#[test]
fn another_worker_leads_when_the_leader_dies() {
    let redis = Redis::start();
    let start = |name| Helper::example_on(&redis.url(), "leader", &[name]);
    let first = start("first");
    first.wait_for_line(|line| line.ends_with("leads in term 1"), SOON);
    let second = start("second");
    first.wait_for_line(|line| line.ends_with("sends batch 3 with term 1"), SOON);
    first.kill();
    let line = second.next_line(SOON);
    assert_eq!(line.trim_start(), "second: leads in term 2");
    assert_eq!(second.next_line(SOON).trim_start(), "second: sends batch 1 with term 2");
}

#[test]
fn leader_that_steps_down_has_a_successor_at_once() {
    let lines = lines_of("leader");
    // The successor may print that it leads before the first leader prints that it steps down.
    let of = |term| {
        let first = |line: &&String| line.ends_with(&format!(": leads in term {term}"));
        let name = lines.iter().find(first).and_then(|line| line.split(": ").next()).unwrap();
        let words =
            lines.iter().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(": "));
        words.collect::<Vec<_>>()
    };
    for term in [1, 2] {
        let sends = |batch| format!("sends batch {batch} with term {term}");
        let turn = [format!("leads in term {term}"), sends(1), sends(2), "steps down".into()];
        assert_eq!(of(term), turn, "{lines:#?}");
    }
    let at = |words| lines.iter().position(|line| line.ends_with(words));
    assert!(at("sends batch 2 with term 1") < at("leads in term 2"), "{lines:#?}");
}
