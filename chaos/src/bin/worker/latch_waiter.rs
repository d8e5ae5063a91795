//! One task that waits at a latch, passes it, and waits at the next latch.

use std::sync::Arc;
use std::time::Duration;

use chaos::clock::now;
use chaos::orders::{Mode, Object};
use chaos::worker_event::WorkerEvent;
use leasehold::{Client, Error};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::event_pipe::EventPipe;
use crate::{Names, now_called};

/// The task of a worker that waits at latches.
#[derive(Debug)]
pub(crate) struct LatchWaiter {
    client: Client,
    pipe: Arc<EventPipe>,
    names: Names,
    /// The original name of the latch.
    latch: String,
}

impl LatchWaiter {
    pub(crate) fn new(
        latch: &Object,
        (client, pipe, names): (Client, Arc<EventPipe>, Names),
    ) -> Self {
        Self { client, pipe, names, latch: latch.name.clone() }
    }

    pub(crate) async fn wait_at_each(self, mut stopped: watch::Receiver<bool>) {
        let mut passed = String::new();
        while !*stopped.borrow() {
            let name = now_called(&self.names, &self.latch);
            if name != passed && self.wait_at(&name, &mut stopped).await {
                passed = name;
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits at a latch. Returns whether the task has passed the latch.
    async fn wait_at(&self, name: &str, stopped: &mut watch::Receiver<bool>) -> bool {
        let hold = self.pipe.next_hold();
        let (mode, call) = (Mode::Pass, now());
        self.pipe.send(&WorkerEvent::Ask { hold, name: name.to_owned(), mode, call });
        let passed = tokio::select! {
            passed = self.pass(name) => passed.is_ok(),
            _ = stopped.changed() => false,
        };
        let (at, why) = (now(), "latch".to_owned());
        self.pipe.send(&match passed {
            true => WorkerEvent::Enter { hold, at, token: None, element: None },
            false => WorkerEvent::GaveUp { hold, at, why },
        });
        passed
    }

    async fn pass(&self, name: &str) -> Result<(), Error> {
        self.client.latch(name)?.wait().await
    }
}

const PAUSE: Duration = Duration::from_millis(20);
