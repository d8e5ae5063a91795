//! The events of all tasks of a worker, one line for each event.

use std::io::{Write, stdout};
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chaos::clock::now;
use chaos::worker_event::WorkerEvent;

/// The pipe to the referee, and the numbers of holds.
#[derive(Debug)]
pub(crate) struct EventPipe {
    next_hold: AtomicU64,
}

impl EventPipe {
    pub(crate) fn new(first_hold: u64) -> Arc<Self> {
        Arc::new(Self { next_hold: AtomicU64::new(first_hold) })
    }

    /// The number of the next hold of this process.
    pub(crate) fn next_hold(&self) -> u64 {
        self.next_hold.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn ready(&self) {
        self.send(&WorkerEvent::Ready { at: now() });
    }

    /// Writes the event to the pipe before it returns, so that events are in the order of their
    /// calls.
    pub(crate) fn send(&self, event: &WorkerEvent) {
        let line = event.line() + "\n";
        let mut out = stdout().lock();
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            // The reader of the pipe has ended.
            exit(1);
        }
    }
}
