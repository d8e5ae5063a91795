//! What all clients of a store in this process share, and whether it answers.

use std::{fmt, time::Duration};

use tokio::{sync::watch, time::timeout};

use super::State;
use crate::domain::{Failure, Mutex};

/// How long a stalled store is waited for: what a client on Redis waits by default.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) stalled: watch::Sender<bool>,
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
            Err(elapsed) => Err(Failure::unanswered(elapsed)),
        }
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self { state: Mutex::default(), stalled: watch::Sender::new(false) }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
