//! A process that drives one library: it reads jobs and replies to them.

mod contend;
mod holding;
mod latency;
mod libraries;
mod outlast;
mod pairs;
mod waking;

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::job::Job;
use holding::Waiters;
use libraries::{
    Beside, Candidate, Fair, Fenced, Leasehold, Library, Local, Messages, Multi, OfLimiter, OfMap,
    OfPermits, OfQueue, OfSemaphore, OfSet, Only, RLock, Raw, RawWait, Reading, Replicated, RsLock,
};

/// The result of a call to a library.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Returns the number of allocated bytes, in a process that counts them.
pub type Weigh = fn() -> Option<i64>;

/// Runs `worker LIBRARY URL THREADS TTL_MS`, which reads one job from each line. `TTL_MS` is for
/// libraries in which all locks of a process have the same lease. No Rust library has this limit,
/// so this worker ignores `TTL_MS`.
pub fn main(weigh: Weigh) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [library, url, threads, _ttl] = args.as_slice() else {
        eprintln!("usage: worker LIBRARY URL THREADS TTL_MS");
        return ExitCode::FAILURE;
    };
    let threads = threads.parse().expect("THREADS is a number");
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.expect("the runtime starts");
    match library.as_str() {
        "leasehold" => serve::<Leasehold>(&runtime, url, weigh),
        "leasehold-beside" => serve::<Beside>(&runtime, url, weigh),
        "leasehold-election" => serve::<Only<Candidate>>(&runtime, url, weigh),
        "leasehold-fair" => serve::<Only<Fair>>(&runtime, url, weigh),
        "leasehold-fenced" => serve::<Only<Fenced>>(&runtime, url, weigh),
        "leasehold-limiter" => serve::<Only<OfLimiter>>(&runtime, url, weigh),
        "leasehold-map" => serve::<Only<OfMap>>(&runtime, url, weigh),
        "leasehold-multi" => serve::<Only<Multi>>(&runtime, url, weigh),
        "leasehold-permits" => serve::<Only<OfPermits>>(&runtime, url, weigh),
        "leasehold-queue" => serve::<Only<OfQueue>>(&runtime, url, weigh),
        "leasehold-quorum" => serve::<leasehold::QuorumClient>(&runtime, url, weigh),
        "leasehold-read" => serve::<Only<Reading>>(&runtime, url, weigh),
        "leasehold-replicated" => serve::<Only<Replicated>>(&runtime, url, weigh),
        "leasehold-semaphore" => serve::<Only<OfSemaphore>>(&runtime, url, weigh),
        "leasehold-set" => serve::<Only<OfSet>>(&runtime, url, weigh),
        "mutex" => serve::<Local>(&runtime, url, weigh),
        "raw" => serve::<Raw>(&runtime, url, weigh),
        "raw-wait" => serve::<RawWait>(&runtime, url, weigh),
        "rlock" => serve::<RLock>(&runtime, url, weigh),
        "rsmq" => serve::<Messages>(&runtime, url, weigh),
        "rslock" => serve::<RsLock>(&runtime, url, weigh),
        other => panic!("unknown library `{other}`"),
    }
    ExitCode::SUCCESS
}

/// Replies to jobs until stdin is closed.
fn serve<L: Library>(runtime: &Runtime, url: &str, weigh: Weigh) {
    let library = runtime.block_on(L::connect(url)).expect("the server can be reached");
    let mut bench = Bench { library, url: url.to_owned(), weigh, held: vec![] };
    say(&json!({"ready": true}));
    for line in io::stdin().lock().lines() {
        let line = line.expect("stdin can be read");
        let job = serde_json::from_str(&line).expect("the line is a job");
        let answer = runtime.block_on(bench.perform(job));
        say(&answer.unwrap_or_else(|error| json!({"error": error.to_string()})));
    }
    // The process does not release its holds, because the server does not outlive the run.
    std::process::exit(0);
}

fn say(answer: &Value) {
    println!("{answer}");
    io::stdout().flush().expect("the driver reads the output");
}

/// A library, and the state that one job leaves for the next job.
struct Bench<L: Library> {
    library: L,
    url: String,
    weigh: Weigh,
    held: Vec<L::Held>,
}

impl<L: Library> Bench<L> {
    async fn perform(&mut self, job: Job) -> Outcome<Value> {
        let library = self.library.clone();
        match job {
            Job::Contend { tasks, name, start_ns, millis, hold_us, log } => {
                let contending =
                    contend::ContendingTasks { tasks, name, start_ns, millis, hold_us, log };
                answer(contend::run(library, contending).await?)
            }
            Job::Enter { name } => answer(holding::enter(&library, &name).await?),
            Job::Hold { count, prefix, ttl_ms } => {
                self.held.reserve(count);
                let before = (self.weigh)();
                let held = holding::hold(&library, count, &prefix, ttl_ms).await?;
                self.held.extend(held);
                answer(holding::grown(before, (self.weigh)()))
            }
            Job::Idle { millis } => answer(holding::idle(&library, millis).await),
            Job::Listen { channel, count } => {
                answer(latency::listen(&self.url, &channel, count).await?)
            }
            Job::Outlast { prefix, gap_ms } => {
                answer(outlast::run(&library, &prefix, Duration::from_millis(gap_ms)).await?)
            }
            Job::Pairs { tasks, names, prefix, millis, all } => {
                let shares = pairs::shares(&prefix, tasks, names);
                answer(pairs::run(library, shares, millis, all).await?)
            }
            Job::Ping { count } => answer(latency::ping(&self.url, count).await?),
            Job::Publish { channel, count } => {
                answer(latency::publish(&self.url, &channel, count).await?)
            }
            Job::Seize { name, lease_ms } => {
                let (held, entered) = holding::seize(&library, &name, lease_ms).await?;
                self.held.push(held);
                answer(entered)
            }
            Job::Share { tasks, name, millis } => {
                let shares = vec![vec![name]; tasks];
                answer(pairs::run(library, shares, millis, false).await?)
            }
            Job::Wait { tasks, name } => {
                let before = (self.weigh)();
                let waiters = Waiters::default();
                waiters.join(&library, tasks, &name).await;
                let grown = holding::grown(before, (self.weigh)());
                waiters.check()?;
                answer(grown)
            }
            Job::Wake { tasks, name, gate } => {
                answer(waking::wake(library.client()?, gate, tasks, &name).await?)
            }
        }
    }
}

fn answer(found: impl Serialize) -> Outcome<Value> {
    Ok(serde_json::to_value(found)?)
}
