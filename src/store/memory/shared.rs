//! What all clients of a store in this process share, and whether it answers.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use super::State;
use crate::domain::{Failure, Mutex, Replicas};

/// How long a stalled store is waited for: what a client on Redis waits by default.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) stalled: watch::Sender<bool>,
    /// Whether a client has given the stalled store up, as it gives a connection up.
    pub(super) given_up: AtomicBool,
    /// How many replicas there are.
    pub(super) replicas: watch::Sender<u32>,
}

impl Shared {
    /// Waits while the store is stalled, as long as a client has patience.
    pub(super) async fn answering(&self) -> Result<(), Failure> {
        if !*self.stalled.borrow() {
            return Ok(());
        }
        let mut stalled = self.stalled.subscribe();
        match timeout(PATIENCE, stalled.wait_for(|stalled| !stalled)).await {
            Ok(_) => Ok(()),
            Err(elapsed) => {
                self.given_up.store(*self.stalled.borrow(), Ordering::Relaxed);
                Err(Failure::unanswered(elapsed))
            }
        }
    }
}

impl Shared {
    /// How many replicas there are: as soon as there are as many as are wanted, or when their
    /// time is over.
    pub(super) async fn replicas(&self, wanted: Replicas) -> u32 {
        let mut replicas = self.replicas.subscribe();
        let enough = replicas.wait_for(|replicas| *replicas >= wanted.least);
        match timeout(wanted.within, enough).await {
            Ok(Ok(enough)) => *enough,
            Ok(Err(_)) | Err(_) => *self.replicas.borrow(),
        }
    }
}

impl Default for Shared {
    fn default() -> Self {
        let (stalled, replicas) = (watch::Sender::new(false), watch::Sender::new(0));
        let given_up = AtomicBool::new(false);
        Self { state: Mutex::default(), stalled, given_up, replicas }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
