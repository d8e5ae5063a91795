//! `chaos MINUTES SEED single|sentinel|cluster FOLDER [disobey]` executes one run. It prints the
//! table and the result of the judge. The exit code is not zero if a rule was violated.

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use chaos::judge;
use chaos::run::{Settings, run};

fn main() -> ExitCode {
    let settings = settings().expect("usage: chaos MINUTES SEED ON FOLDER [disobey]");
    let outcome = run(&settings);
    println!("{}", outcome.report);
    println!("History: {}", outcome.history.display());
    let judged = judge::ask(&outcome.history);
    match &judged {
        Ok(event) => println!("The judge: {event}"),
        Err(event) => println!("The judge finds fault: {event}"),
    }
    for what in outcome.violations.iter().take(SHOWN) {
        println!("VIOLATED: {what}");
    }
    if judged.is_ok() && outcome.violations.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!(
        "{} violations; MINUTES, SEED={} and ON={} again",
        outcome.violations.len(),
        settings.seed,
        settings.on
    );
    ExitCode::FAILURE
}

fn settings() -> Option<Settings> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [minutes, seed, on, folder, more @ ..] = arguments.as_slice() else { return None };
    Some(Settings {
        time: Duration::from_secs_f64(minutes.parse::<f64>().ok()? * 60.0),
        seed: seed.parse().ok()?,
        on: on.clone(),
        disobeys: more.iter().any(|it| it == "disobey"),
        folder: folder.into(),
    })
}

const SHOWN: usize = 20;
