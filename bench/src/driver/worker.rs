//! A worker process, and the lines that the driver and the worker send to each other.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    contender::{Contender, Language},
    settings::Settings,
};
use crate::job::{Job, TTL};

/// The reply of a worker, or the reason why the worker did not reply.
pub(super) type Answer<T> = Result<T, String>;

/// How a worker is started.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) url: String,
    pub(super) threads: usize,
    /// The lease, for libraries in which all locks of a process have the same lease.
    pub(super) ttl: Duration,
    /// Whether the worker counts memory instead of time.
    pub(super) weigh: bool,
    /// The largest heap of a JVM.
    pub(super) heap: &'static str,
}

impl Launch {
    pub(super) fn new(url: &str, settings: &Settings) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        Self { url, threads: settings.threads, ttl: TTL, weigh: false, heap: "-Xmx1g" }
    }

    pub(super) fn start(&self, contender: Contender) -> Answer<Worker> {
        let mut command = self.program(contender.language);
        command.arg(contender.library).arg(&self.url).arg(self.threads.to_string());
        command.arg(self.ttl.as_millis().to_string());
        Worker::start(command).map_err(|why| format!("{} does not start: {why}", contender.library))
    }

    fn program(&self, language: Language) -> Command {
        match language {
            Language::Go => Command::new(setting("BENCH_GO")),
            Language::Java => {
                let mut java = Command::new("java");
                java.args([self.heap, "-XX:+UseSerialGC", "-cp"]).arg(setting("BENCH_JAVA"));
                java.arg("leasehold.bench.Main");
                java
            }
            Language::Rust => {
                let here = env::current_exe().expect("this program has a path");
                Command::new(here.with_file_name(if self.weigh { "weigher" } else { "worker" }))
            }
        }
    }
}

fn setting(name: &str) -> PathBuf {
    env::var_os(name).map_or_else(|| format!("{name}-is-not-set").into(), PathBuf::from)
}

/// A process that executes jobs. The process ends when its stdin is closed, so also when the driver
/// ends.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Worker {
    fn start(mut command: Command) -> Answer<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let stdin = child.stdin.take().expect("stdin is piped");
        let lines = lines_of(child.stdout.take().expect("stdout is piped"));
        Ok(Self { child, stdin, lines })
    }

    /// Waits until the worker is ready for jobs. This must be called once, before the first job.
    pub(super) fn ready(self) -> Answer<Self> {
        self.answer::<Value>().map(|_| self)
    }

    pub(super) fn ask<T: DeserializeOwned>(&mut self, job: &Job) -> Answer<T> {
        self.send(job)?;
        self.answer()
    }

    pub(super) fn send(&mut self, job: &Job) -> Answer<()> {
        let line = serde_json::to_string(job).expect("a job can be written");
        writeln!(self.stdin, "{line}").map_err(|error| format!("cannot be asked: {error}"))
    }

    pub(super) fn answer<T: DeserializeOwned>(&self) -> Answer<T> {
        let line = self.lines.recv_timeout(PATIENCE).map_err(|error| self.given_up(error))?;
        let value: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        match value["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => serde_json::from_value(value).map_err(|error| error.to_string()),
        }
    }

    /// Ends the process, so that its late reply does not count as the reply to another job.
    fn given_up(&self, error: RecvTimeoutError) -> String {
        match error {
            RecvTimeoutError::Disconnected => "it has ended".to_owned(),
            RecvTimeoutError::Timeout => {
                self.signal(Signal::KILL);
                format!("no answer within {PATIENCE:?}")
            }
        }
    }

    /// Suspends the process, as if the machine stood still.
    pub(super) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal)
            .expect("a child process can be signalled");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // If the process has already ended, both calls fail.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Reads lines in a separate thread, so that waiting for a line can time out.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The longest time for a reply. No job takes this long.
const PATIENCE: Duration = Duration::from_secs(120);
