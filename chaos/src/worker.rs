//! The process of a worker: how it is started, gets orders, is suspended, and is killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::clock::{nanos, now};
use crate::orders::{Order, Orders};
use crate::record::Record;
use crate::worker_event::WorkerEvent;

/// The record of all events, shared by threads.
pub type Shared = Arc<Mutex<Record>>;

/// Locks the record.
pub fn look(record: &Shared) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that contends. Dropping this value kills the process.
#[derive(Debug)]
pub struct Worker {
    process: String,
    child: Child,
    orders: ChildStdin,
    reader: Option<JoinHandle<()>>,
    record: Shared,
}

impl Worker {
    /// Starts the process. Its events go to the record.
    ///
    /// # Panics
    ///
    /// If the process cannot be started.
    #[must_use]
    pub fn start(mut command: Command, orders: &Orders, record: &Shared) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let output = child.stdout.take().expect("stdout is a pipe");
        let process = orders.process.clone();
        let reader = {
            let (process, record) = (process.clone(), Arc::clone(record));
            spawn(move || listen(&process, output, &record))
        };
        let record = Arc::clone(record);
        let mut worker = Self { process, child, orders: stdin, reader: Some(reader), record };
        worker.tell(&serde_json::to_string(orders).expect("orders contain only texts and numbers"));
        worker
    }

    /// The name of the worker.
    #[must_use]
    pub fn process(&self) -> &str {
        &self.process
    }

    /// Waits until the worker is ready.
    ///
    /// # Panics
    ///
    /// If the worker is not ready within half a minute, or uses another clock.
    pub fn wait_until_ready(&self, started: u64) {
        let limit = started + nanos(START);
        while !look(&self.record).ready.contains_key(&self.process) {
            assert!(now() < limit, "{} has not started in time", self.process);
            sleep(PAUSE);
        }
        let at = look(&self.record).ready[&self.process];
        assert!((started..=now()).contains(&at), "{} uses another clock", self.process);
    }

    /// Orders the worker to contend for the name `to` instead of `name`.
    pub fn rename(&mut self, name: &str, to: &str) {
        self.order(&Order::Rename { name: name.to_owned(), to: to.to_owned() });
    }

    /// Suspends the worker for `time`.
    pub fn stand_still(&self, time: Duration) {
        self.signal(Signal::STOP);
        sleep(time);
        self.signal(Signal::CONT);
    }

    /// Kills the worker. After this call, the record has all events that the worker has written.
    pub fn kill(&mut self) {
        // This fails if the process has already ended.
        self.child.kill().ok();
        self.child.wait().expect("a child process can be waited for");
        let at = now();
        self.reader.take().map(JoinHandle::join);
        look(&self.record).deaths.entry(self.process.clone()).or_insert(at);
    }

    /// Orders the worker to release everything and to end.
    pub fn dismiss(&mut self) {
        self.order(&Order::Stop);
    }

    /// Waits until the worker has ended, and kills the worker after `limit`. Returns an error if
    /// the worker did not end normally.
    pub fn wait_until_gone(&mut self, limit: Duration) -> Option<String> {
        let limit = now() + nanos(limit);
        loop {
            match self.child.try_wait().expect("a child process can be waited for") {
                Some(status) => {
                    self.kill();
                    return (!status.success())
                        .then(|| format!("{} ended: {status}", self.process));
                }
                None if now() > limit => {
                    self.kill();
                    return Some(format!("{} did not end when it was asked to", self.process));
                }
                None => sleep(PAUSE),
            }
        }
    }

    fn order(&mut self, order: &Order) {
        self.tell(&serde_json::to_string(order).expect("an order contains only texts"));
    }

    fn tell(&mut self, line: &str) {
        // If the process has ended, the write fails. `wait_until_gone` reports the end.
        writeln!(self.orders, "{line}").and_then(|()| self.orders.flush()).ok();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal)
            .expect("the child process has not been waited for");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Copies the events of a process to the record until its pipe is closed. If the process was
/// killed, its last line may be incomplete.
fn listen(process: &str, output: ChildStdout, record: &Shared) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        match WorkerEvent::read(&line) {
            Ok(event) => look(record).note(process, event),
            Err(_) if !line.ends_with('\n') => {}
            Err(e) => look(record).nonsense.push(format!("{process} said `{}`: {e}", line.trim())),
        }
        line.clear();
    }
}

const START: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);
