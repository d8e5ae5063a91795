//! Durations and counts, for a full run and for a quick run.

use std::{env, path::PathBuf, time::Duration};

use super::contender::Language;

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) quick: bool,
    only: Option<String>,
    pub(super) out: PathBuf,
    /// The number of threads of a Rust worker's runtime.
    pub(super) threads: usize,
    /// The number of rounds. Each contender runs once in a round.
    pub(super) rounds: usize,
    /// The number of rounds of cases in which polling libraries take long.
    pub(super) rounds_in_process: usize,
    /// How long one contender runs in one round.
    pub(super) round: Duration,
    /// The number and the length of rounds in cases in which each contender has several processes.
    pub(super) rounds_of_processes: usize,
    pub(super) round_of_processes: Duration,
    /// How long a JVM warms up.
    warm_up: Duration,
    /// How long eight JVMs warm up at the same time.
    warm_up_of_group: Duration,
    /// The highest number of names in the cases about names.
    pub(super) most_names: usize,
    /// The numbers of holds in the cases about the watchdog.
    pub(super) holds: &'static [usize],
    /// The lease of the holds in the cases about the watchdog.
    pub(super) watched_ttl: Duration,
    /// The number of failovers with sentinels, and the number of failovers in a cluster.
    pub(super) failovers: usize,
    /// The numbers of waiting tasks.
    pub(super) waiting: &'static [usize],
    /// The highest number of waiting tasks of a library that polls or starts slowly.
    pub(super) waiting_of_rivals: usize,
}

impl Settings {
    /// Reads `QUICK=1`, `ONLY=part of a case's name`, `ROUNDS=n`, `THREADS=n` and `OUT=folder` from
    /// the environment.
    pub(super) fn from_environment() -> Self {
        let quick = env::var("QUICK").is_ok_and(|value| !value.is_empty() && value != "0");
        let mut settings = if quick { Self::quick() } else { Self::full() };
        settings.only = env::var("ONLY").ok().filter(|part| !part.is_empty());
        let number = |name| env::var(name).ok().and_then(|it| it.parse().ok());
        settings.threads = number("THREADS").unwrap_or(settings.threads);
        settings.rounds = number("ROUNDS").unwrap_or(settings.rounds);
        if let Ok(out) = env::var("OUT") {
            settings.out = out.into();
        }
        settings
    }

    fn full() -> Self {
        Self {
            quick: false,
            only: None,
            out: "out".into(),
            threads: 2,
            rounds: 5,
            rounds_in_process: 3,
            round: Duration::from_millis(700),
            rounds_of_processes: 3,
            round_of_processes: Duration::from_secs(2),
            warm_up: Duration::from_secs(8),
            warm_up_of_group: Duration::from_secs(40),
            most_names: 100_000,
            holds: &[1_000, 10_000, 100_000],
            watched_ttl: Duration::from_secs(30),
            failovers: 10,
            waiting: &[1_000, 10_000, 100_000],
            waiting_of_rivals: 10_000,
        }
    }

    fn quick() -> Self {
        Self {
            quick: true,
            rounds: 3,
            rounds_in_process: 2,
            round: Duration::from_millis(200),
            rounds_of_processes: 1,
            round_of_processes: Duration::from_millis(700),
            warm_up: Duration::from_secs(3),
            warm_up_of_group: Duration::from_secs(8),
            most_names: 10_000,
            holds: &[1_000, 10_000],
            watched_ttl: Duration::from_secs(3),
            failovers: 2,
            waiting: &[1_000, 10_000],
            waiting_of_rivals: 1_000,
            ..Self::full()
        }
    }

    pub(super) fn warm_up(&self, language: Language) -> Duration {
        if language == Language::Java { self.warm_up } else { Duration::from_millis(200) }
    }

    /// How long a worker warms up while other workers warm up, too.
    pub(super) fn warm_up_of_group(&self, language: Language) -> Duration {
        if language == Language::Java { self.warm_up_of_group } else { Duration::from_millis(100) }
    }

    pub(super) fn is_wanted(&self, case: &str) -> bool {
        self.only.as_ref().is_none_or(|part| case.contains(part.as_str()))
    }

    /// Whether the run has all cases, in full length and with the usual settings. Only the results
    /// of such a run can be committed.
    pub(super) fn is_whole(&self) -> bool {
        let full = Self::full();
        let is_usual = self.threads == full.threads && self.rounds == full.rounds;
        !self.quick && self.only.is_none() && is_usual
    }

    /// How long holds are observed: a little longer than two renewals.
    pub(super) fn watched(&self) -> Duration {
        self.watched_ttl * 2 / 3 + self.watched_ttl / 15
    }

    /// A description of the run, for the results.
    pub(super) fn note(&self) -> String {
        let kind =
            if self.quick { "A **quick** run: short, with small sizes" } else { "A full run" };
        format!(
            "{kind}: {} rounds of {} ms for each contender in turn; Rust programs have a runtime of \
             {} threads; watched locks have a lease of {} s. `bench/README.md` explains \
             these numbers.",
            self.rounds,
            self.round.as_millis(),
            self.threads,
            self.watched_ttl.as_secs(),
        )
    }
}
