//! Simulated runs of many clients and a server. Each run comes from one seed.
//!
//! The seed decides everything: which client wants which lock, when and for how long, which client
//! is cancelled or paused, and which faults occur. So the same seed repeats the same run. Time is
//! virtual, so a minute passes in milliseconds.
//!
//! The rules are in `served/judge.rs`, `served/records.rs`, `served/objects.rs` and `quorum.rs`.
//! `make simulate SEEDS=n` runs many seeds of each world. `make simulate SEED=x WORLDS=run_served`
//! prints the trace of one seed. `make defects` shows that the rules find planted defects.
//!
//! ```text
//! served              clients with the real Redis store, on a simulated server
//! quorum              clients of several servers
//! gate · trace        pauses a client; the events of a run
//! ```

mod gate;
mod quorum;
mod served;
mod trace;

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::runtime::Builder;

/// The number of seeds that each test runs by default. CI also runs these seeds and many more, in an
/// optimised build.
const FEW: u64 = 30;
const FEW_DEPLOYED: u64 = 10;
const FEW_OF_A_QUORUM: u64 = 8;

/// Runs one seed, and returns the rule that was broken.
type World = fn(u64, &Arc<trace::Trace>) -> Result<(), String>;

/// A seed that broke a rule.
struct Broken {
    seed: u64,
    rule: String,
}

/// Runs `seed`, and prints its trace if `verbose`.
fn run_seed(world: World, seed: u64, verbose: bool) -> Result<(), Broken> {
    let trace = trace::Trace::new(verbose);
    let outcome = catch_unwind(AssertUnwindSafe(|| world(seed, &trace)));
    let rule = match outcome {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(rule)) => rule,
        Err(panic) => format!("it panicked: {}", panic_text(panic.as_ref())),
    };
    Err(Broken { seed, rule })
}

/// Runs `world` on this thread, in virtual time.
fn in_virtual_time<T>(world: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(world)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Runs seeds from `base` on, on every core, until one seed breaks a rule. Returns the number of
/// seeds that ran, and the seed that broke a rule.
fn run_seeds(world: World, base: u64, seeds: u64) -> (u64, Option<Broken>) {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers: Vec<_> = (0..cores).map(|_| Worker::default()).collect();

    let run_some = |worker: &Worker| {
        worker.start();
        let mut broken = None;
        while broken.is_none() && !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= seeds {
                break;
            }
            worker.seed.store(base.wrapping_add(number), Ordering::Relaxed);
            broken = run_seed(world, base.wrapping_add(number), false).err();
            stop.fetch_or(broken.is_some(), Ordering::Relaxed);
        }
        broken
    };
    let broken = thread::scope(|scope| {
        let running = workers.iter().map(|worker| scope.spawn(|| run_some(worker)));
        let running: Vec<_> = running.collect();
        scope.spawn(|| exit_if_hung(&workers, &stop));
        let broken = running.into_iter().filter_map(|worker| worker.join().unwrap());
        let broken = broken.min_by_key(|broken| broken.seed);
        stop.store(true, Ordering::Relaxed);
        broken
    });
    (next.into_inner().min(seeds), broken)
}

/// A thread that runs seeds.
#[derive(Default)]
struct Worker {
    seed: AtomicU64,
    /// The file in which Linux counts the nanoseconds of CPU time of this thread.
    cpu: OnceLock<PathBuf>,
}

impl Worker {
    fn start(&self) {
        let thread = fs::read_link("/proc/thread-self").unwrap_or_default();
        self.cpu.get_or_init(|| Path::new("/proc").join(thread).join("schedstat"));
    }

    /// Returns the CPU time that this thread has used, or zero if it is not known.
    fn cpu_time(&self) -> Duration {
        let times = self.cpu.get().and_then(|file| fs::read_to_string(file).ok());
        let first = times.as_ref().and_then(|times| times.split(' ').next()?.parse().ok());
        Duration::from_nanos(first.unwrap_or_default())
    }
}

/// Ends the process if a run does not end. A loop that never waits stops virtual time, so no
/// virtual timer can end the run.
///
/// A seed takes less than a second of CPU time. On a busy machine, this may be minutes.
fn exit_if_hung(workers: &[Worker], stop: &AtomicBool) {
    const INTERVAL: Duration = Duration::from_millis(100);
    const MOST_CPU: Duration = Duration::from_secs(60);
    const MOST_INTERVALS: u32 = 9_000;
    let mut before: Vec<_> = workers.iter().map(|_| (0, Duration::ZERO, 0)).collect();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(INTERVAL);
        for (worker, before) in workers.iter().zip(&mut before) {
            let (seed, cpu) = (worker.seed.load(Ordering::Relaxed), worker.cpu_time());
            *before =
                if before.0 == seed { (seed, before.1, before.2 + 1) } else { (seed, cpu, 0) };
            if cpu.saturating_sub(before.1) > MOST_CPU || before.2 > MOST_INTERVALS {
                println!("seed {seed} broke a rule: time does not pass any more");
                std::process::exit(101);
            }
        }
    }
}

/// Runs locks on one server. See the Makefile for how to run more seeds.
#[test]
fn run_served() {
    simulate(served::run, "run_served", FEW);
}

/// Runs all objects except the plain lock.
#[test]
fn run_objects() {
    simulate(served::run_objects, "run_objects", FEW);
}

/// Runs a primary with replicas, and sentinels that watch it.
#[test]
fn run_sentinel() {
    simulate(served::run_sentinel, "run_sentinel", FEW_DEPLOYED);
}

/// Runs a cluster whose slots move.
#[test]
fn run_cluster() {
    simulate(served::run_cluster, "run_cluster", FEW_DEPLOYED);
}

/// Runs a quorum lock on five servers.
#[test]
fn run_quorum() {
    simulate(quorum::run, "run_quorum", FEW_OF_A_QUORUM);
}

fn simulate(world: World, called: &str, few: u64) {
    if let Some(seed) = setting::<u64>("LEASEHOLD_SEED") {
        match run_seed(world, seed, true) {
            Ok(()) => println!("seed {seed}: every rule held"),
            Err(Broken { rule, .. }) => panic!("seed {seed} broke a rule: {rule}"),
        }
        return;
    }
    let seeds = setting("LEASEHOLD_SEEDS");
    let fresh = || if seeds.is_some() { fastrand::u64(..) >> 16 } else { 0 };
    let base = setting("LEASEHOLD_BASE").unwrap_or_else(fresh);
    let seeds = seeds.unwrap_or(few);
    println!("simulating {seeds} seeds from {base}");

    let (finished, broken) = run_seeds(world, base, seeds);
    if let Some(Broken { seed, rule }) = broken {
        // Runs the seed again to print its trace.
        drop(run_seed(world, seed, true));
        panic!(
            "seed {seed} broke a rule after {finished} seeds: {rule}\n\
             replay it with: make simulate SEED={seed} WORLDS={called}"
        );
    }
    println!("{finished} seeds, every rule held");
}

/// The same seed gives the same trace, word for word.
#[test]
fn seed_repeats_its_trace_on_one_server() {
    run_twice(served::run, 6);
}

#[test]
fn seed_repeats_its_trace_for_objects_other_than_locks() {
    run_twice(served::run_objects, 6);
}

#[test]
fn seed_repeats_its_trace_with_sentinels() {
    run_twice(served::run_sentinel, 3);
}

#[test]
fn seed_repeats_its_trace_in_a_cluster() {
    run_twice(served::run_cluster, 3);
}

#[test]
fn seed_repeats_its_trace_of_a_quorum() {
    run_twice(quorum::run, 3);
}

fn run_twice(world: World, seeds: u64) {
    for seed in 0..seeds {
        let traces = [(); 2].map(|()| {
            let trace = trace::Trace::new(false);
            drop(world(seed, &trace));
            trace.text()
        });
        assert!(!traces[0].is_empty());
        let [once, again] = traces.each_ref().map(|trace| trace.lines());
        let differs = once.zip(again).find(|(once, again)| once != again);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(traces[0].len(), traces[1].len(), "seed {seed}");
    }
}
