//! Pauses every task of one client, as SIGSTOP pauses a process.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use tokio::{
    task::AbortHandle,
    time::{Instant, Sleep, sleep_until},
};

use crate::engine::tasks::Spawner;

/// The handles by which tasks can be aborted.
pub(super) type Tasks = Arc<Mutex<Vec<AbortHandle>>>;

/// The gate through which all polls of one client pass. While the gate is closed, no task of the
/// client runs.
#[derive(Clone, Debug)]
pub(super) struct Gate(Arc<Mutex<Instant>>);

impl Gate {
    pub(super) fn open() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Blocks every poll for at least `pause`.
    pub(super) fn close_for(&self, pause: Duration) {
        let mut opens = self.0.lock().unwrap();
        *opens = (*opens).max(Instant::now() + pause);
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Blocks every poll from now on.
    pub(super) fn close(&self) {
        self.close_for(Duration::from_secs(1_000_000));
    }

    /// Returns when the client may run again.
    pub(super) fn opens(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    /// Runs `task` behind the gate.
    pub(super) async fn pass<T>(&self, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        let mut waiting: Option<std::pin::Pin<Box<Sleep>>> = None;
        poll_fn(|cx| {
            if self.opens() > Instant::now() {
                let sleep = waiting.insert(Box::pin(sleep_until(self.opens())));
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
            waiting = None;
            task.as_mut().poll(cx)
        })
        .await
    }

    /// Returns a spawner whose tasks run behind the gate. `tasks` collects their handles.
    pub(super) fn spawner(&self, tasks: &Tasks) -> Spawner {
        let (gate, tasks) = (self.clone(), Arc::clone(tasks));
        Arc::new(move |job| {
            let gate = gate.clone();
            let task = tokio::spawn(async move { gate.pass(job).await });
            tasks.lock().unwrap().push(task.abort_handle());
        })
    }
}
