//! All workers of a run: those with Leasehold, and those with the real Redisson.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fastrand::Rng;
use interop::Setup;

use crate::clock::{nanos, now};
use crate::fault::{Fault, HealedFault};
use crate::orders::{Kind, Object, Orders, Place};
use crate::worker::{Shared, Worker, look};

/// What all workers are told alike.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the servers are.
    pub url: String,
    /// Where they are for the first worker, which has links of its own.
    pub apart: Place,
    /// What is contended for.
    pub objects: Vec<Object>,
    /// The lease of everything.
    pub ttl: Duration,
    /// Where workers write what their libraries complain of.
    pub folder: PathBuf,
    /// By what everybody chooses.
    pub seed: u64,
    /// Whether the first one disobeys.
    pub disobeys: bool,
}

/// All workers.
#[derive(Debug)]
pub struct Crew {
    plan: Plan,
    record: Shared,
    workers: Vec<(Language, Worker)>,
    /// How many were ever started.
    started: u64,
    /// What is called otherwise than at first.
    renamed: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Language {
    Rust,
    Java,
}

impl Crew {
    /// Starts all of them, and waits until they have begun.
    ///
    /// # Panics
    ///
    /// If one does not.
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

    /// What they are called.
    #[must_use]
    pub fn processes(&self) -> Vec<String> {
        self.workers.iter().map(|(_, worker)| worker.process().to_owned()).collect()
    }

    /// Kills one of them, or stops it for a while.
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

    /// Has everybody contend for `to` in the place of `name`.
    pub fn rename(&mut self, name: &str, to: &str) {
        self.renamed.retain(|(old, _)| old != name);
        self.renamed.push((name.to_owned(), to.to_owned()));
        self.workers.iter_mut().for_each(|(_, worker)| worker.rename(name, to));
    }

    /// Has everybody give back what they hold, and end. Returns what was wrong with that.
    pub fn dismiss(mut self) -> Vec<String> {
        self.workers.iter_mut().for_each(|(_, worker)| worker.dismiss());
        let gone = self.workers.iter_mut().map(|(_, worker)| worker.wait_until_gone(FAREWELL));
        gone.flatten().collect()
    }

    /// Kills one, and starts another in its place. What the dead one held is free when its
    /// lease ends, and that tells how long it took.
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
        command.stderr(File::create(log).expect("the folder is there"));
        let all = || Place::of_all(self.plan.url.clone());
        let place = if at == 0 { self.plan.apart.clone() } else { all() };
        let orders = self.orders(language, number, process, place);
        let mut worker = Worker::start(command, &orders, &self.record);
        self.renamed.iter().for_each(|(name, to)| worker.rename(name, to));
        worker
    }

    fn orders(&self, language: Language, number: u64, process: String, place: Place) -> Orders {
        let plan = &self.plan;
        // What Redisson sends again after a timeout counts twice at a semaphore, and no
        // lease ends that; and it asks no replica.
        let of_ours = [Kind::Semaphore, Kind::Latch];
        let of_all = |it: &&Object| !of_ours.contains(&it.kind) && !it.replicated;
        let wanted = |it: &&Object| language == Language::Rust || of_all(it);
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

/// The worker with Leasehold, which lies beside us.
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
/// So many holds a process may have.
const HOLDS: u64 = 1_000_000_000;
/// How long a worker may take to give everything back.
const FAREWELL: Duration = Duration::from_secs(30);
