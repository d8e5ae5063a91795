//! All workers of a run: workers with Leasehold, and workers with the real Redisson.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fastrand::Rng;
use interop::Setup;

use crate::clock::{nanos, now};
use crate::fault::{Fault, HealedFault};
use crate::orders::{Object, Orders, Place};
use crate::worker::{Shared, Worker, look};

/// The settings that all workers share.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The URL of the servers.
    pub url: String,
    /// The addresses of the servers for the first worker, which has its own links to the servers.
    pub apart: Place,
    /// The objects of the contention.
    pub objects: Vec<Object>,
    /// The lease of all objects.
    pub ttl: Duration,
    /// The folder for the logs of the libraries.
    pub folder: PathBuf,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether the first worker is disobedient: it sometimes acts as a holder without a request.
    pub disobeys: bool,
}

/// All workers.
#[derive(Debug)]
pub struct Crew {
    plan: Plan,
    record: Shared,
    workers: Vec<(Language, Worker)>,
    /// The number of workers that were started, including those that have ended.
    started: u64,
    /// The current names of renamed objects, by their original names.
    renamed: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Language {
    Rust,
    Java,
}

impl Crew {
    /// Starts all workers, and waits until all of them are ready.
    ///
    /// # Panics
    ///
    /// If a worker is not ready in time.
    #[must_use]
    pub fn start(plan: Plan, record: &Shared) -> Self {
        let record = Shared::clone(record);
        let mut crew = Self { plan, record, workers: vec![], started: 0, renamed: vec![] };
        let languages = [(Language::Rust, RUST), (Language::Java, JAVA)];
        let began = now();
        for (language, count) in languages {
            for _ in 0..count {
                let worker = crew.launch(language, crew.workers.len());
                crew.workers.push((language, worker));
            }
        }
        crew.workers.iter().for_each(|(_, worker)| worker.wait_until_ready(began));
        crew
    }

    /// The names of the workers.
    #[must_use]
    pub fn processes(&self) -> Vec<String> {
        self.workers.iter().map(|(_, worker)| worker.process().to_owned()).collect()
    }

    /// Kills a worker, or suspends it for a while.
    pub fn strike(&mut self, fault: Fault, rng: &mut Rng) -> HealedFault {
        let victim = rng.usize(0..self.workers.len());
        if fault == Fault::WorkerKilled {
            return self.replace(victim);
        }
        let from = now();
        self.workers[victim].1.stand_still(Duration::from_millis(rng.u64(200..6_000)));
        let healed = now();
        HealedFault { fault, from, served: from, healed, failover: false, names: None }
    }

    /// Lets all workers contend for `to` instead of `name`.
    pub fn rename(&mut self, name: &str, to: &str) {
        self.renamed.retain(|(old, _)| old != name);
        self.renamed.push((name.to_owned(), to.to_owned()));
        self.workers.iter_mut().for_each(|(_, worker)| worker.rename(name, to));
    }

    /// Orders all workers to release their holds and to end. Returns the errors of workers that did
    /// not end normally.
    pub fn dismiss(mut self) -> Vec<String> {
        self.workers.iter_mut().for_each(|(_, worker)| worker.dismiss());
        let gone = self.workers.iter_mut().map(|(_, worker)| worker.wait_until_gone(FAREWELL));
        gone.flatten().collect()
    }

    /// Kills a worker, and starts another one. The holds of the killed worker end with their
    /// leases. The run waits until the names of these holds are granted again.
    fn replace(&mut self, victim: usize) -> HealedFault {
        let language = self.workers[victim].0;
        self.workers[victim].1.kill();
        let process = self.workers[victim].1.process().to_owned();
        let from = look(&self.record).deaths[&process];
        let names = look(&self.record).held_by(&process);
        let new = self.launch(language, victim);
        new.wait_until_ready(from);
        self.workers[victim].1 = new;
        let names = Some(names).filter(|names| !names.is_empty());
        let fault = Fault::WorkerKilled;
        HealedFault { fault, from, served: from, healed: now(), failover: false, names }
    }

    fn launch(&mut self, language: Language, at: usize) -> Worker {
        self.started += 1;
        let number = self.started;
        let (mut command, process) = match language {
            Language::Rust => (rust(), format!("rust-{number}")),
            Language::Java => (java(&self.plan.url), format!("java-{number}")),
        };
        let log = self.plan.folder.join(format!("{process}.log"));
        command.stderr(File::create(log).expect("the folder exists"));
        let all = || Place::of_all(self.plan.url.clone());
        let place = if at == 0 { self.plan.apart.clone() } else { all() };
        let orders = self.orders(language, number, process, place);
        let mut worker = Worker::start(command, &orders, &self.record);
        self.renamed.iter().for_each(|(name, to)| worker.rename(name, to));
        worker
    }

    fn orders(&self, language: Language, number: u64, process: String, place: Place) -> Orders {
        let plan = &self.plan;
        let wanted = |it: &&Object| language == Language::Rust || it.java;
        Orders {
            process,
            first_hold: number * HOLDS,
            place,
            seed: plan.seed.wrapping_add(number),
            tasks: if language == Language::Rust { RUST_TASKS } else { JAVA_THREADS },
            ttl_ms: nanos(plan.ttl) / 1_000_000,
            disobeys: plan.disobeys && number == 1,
            objects: plan.objects.iter().filter(wanted).cloned().collect(),
        }
    }
}

/// The program of the worker with Leasehold. The worker is in the same folder as this program.
fn rust() -> Command {
    let own = env::current_exe().expect("a running program has a path");
    Command::new(own.with_file_name("worker"))
}

fn java(url: &str) -> Command {
    interop::java(&Setup::new(url), "leasehold.interop.Contender")
}

const RUST: usize = 5;
const JAVA: usize = 2;
const RUST_TASKS: u64 = 4;
const JAVA_THREADS: u64 = 3;
/// The distance between the first hold numbers of two processes. No process has this many holds, so
/// no two holds have the same number.
const HOLDS: u64 = 1_000_000_000;
/// The time in which a worker must release all its holds.
const FAREWELL: Duration = Duration::from_secs(30);
