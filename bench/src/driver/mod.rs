//! Runs every case: round by round, and in each round one contender after the other.

mod cases;
mod contender;
mod fleet;
mod group;
mod log;
mod server;
mod settings;
mod worker;

use std::{
    mem::{replace, take},
    process::ExitCode,
    time::Instant,
};

use testkit::Redis;

use crate::report::{self, COMMITTED, Machine, Results, board::Board};
use fleet::Fleet;
use group::WorkerGroups;
use server::Servers;
use settings::Settings;
use worker::Launch;

/// The state that all cases use.
struct Bench {
    settings: Settings,
    redis: Servers,
    launch: Launch,
    fleet: Fleet,
    groups: WorkerGroups,
    board: Board,
}

/// Reads the settings from the environment, and runs the cases.
pub fn main() -> ExitCode {
    let settings = Settings::from_environment();
    let redis = Redis::start();
    let launch = Launch::new(&redis.url(), &settings);
    let redis = Servers::one(redis);
    let (fleet, groups, board) = (Fleet::default(), WorkerGroups::default(), Board::default());
    let mut bench = Bench { settings, redis, launch, fleet, groups, board };
    for (name, run) in cases::ALL {
        if bench.settings.is_wanted(name) {
            let started = Instant::now();
            run(&mut bench);
            eprintln!("bench: {name} took {:.0} s", started.elapsed().as_secs_f64());
            // The results are written after each case, because a later case may hang.
            bench.write();
        }
    }
    bench.conclude()
}

impl Bench {
    /// Calls `run` with other servers and with new workers. The new workers end when `run` returns.
    fn elsewhere(&mut self, redis: Servers, url: &str, run: impl FnOnce(&mut Self)) {
        let launch = Launch { url: url.to_owned(), ..self.launch.clone() };
        let redis = replace(&mut self.redis, redis);
        let launch = replace(&mut self.launch, launch);
        let (fleet, groups) = (take(&mut self.fleet), take(&mut self.groups));
        run(self);
        (self.redis, self.launch, self.fleet, self.groups) = (redis, launch, fleet, groups);
    }

    fn write(&self) -> Results {
        let written =
            report::write(&self.settings.out, &self.board, &Machine::here(), &self.settings.note());
        written.expect("the results can be written")
    }

    fn conclude(&self) -> ExitCode {
        eprintln!("bench: see {}", self.settings.out.join("results.md").display());
        let failures = self.board.failures();
        for failure in &failures {
            eprintln!("bench: FAILED: {failure}");
        }
        let good = failures.is_empty() && !self.board.cases.is_empty();
        let results = self.write();
        self.compare(&results);
        if good && self.settings.is_whole() {
            report::commit(&results).expect("the committed figures can be written");
            eprintln!("bench: wrote {COMMITTED}, docs/performance.md and docs/plots");
        }
        if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Prints the regressions compared with the committed results.
    fn compare(&self, now: &Results) {
        let before = report::committed().expect("the committed figures can be read");
        let Some(before) = before else { return eprintln!("bench: nothing is committed yet") };
        let fallen = report::fallen(&before, now);
        for line in &fallen {
            eprintln!("bench: FELL: {line}");
        }
        let flickers = if self.settings.is_whole() { "" } else { ", in a run that is not whole" };
        eprintln!("bench: {} cases fell by more than 10 %{flickers}", fallen.len());
    }
}
