//! A call that was started, and whose reply comes later.

use std::cell::OnceCell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use crate::answer::Answer;

/// A call whose reply has not been read.
///
/// Dropping this value drops the reply. The process still completes the call.
#[derive(Debug)]
#[must_use = "the answer may be an exception"]
pub struct Pending {
    what: String,
    receiver: Receiver<Answer>,
    arrived: OnceCell<Answer>,
}

impl Pending {
    pub(crate) fn new(what: String, receiver: Receiver<Answer>) -> Self {
        Self { what, receiver, arrived: OnceCell::new() }
    }

    /// Whether the reply has come.
    ///
    /// # Panics
    ///
    /// If the process ended without a reply.
    #[must_use]
    #[track_caller]
    pub fn is_done(&self) -> bool {
        if self.arrived.get().is_some() {
            return true;
        }
        match self.receiver.try_recv() {
            Ok(answer) => self.arrived.set(answer).is_ok(),
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => panic!("the process ended during {}", self.what),
        }
    }

    /// Waits for the reply.
    ///
    /// # Panics
    ///
    /// If no reply comes within `limit`, or if the process ends without a reply.
    #[track_caller]
    pub fn wait(self, limit: Duration) -> Answer {
        if let Some(answer) = self.arrived.into_inner() {
            return answer;
        }
        match self.receiver.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => panic!("{} has not ended after {limit:?}", self.what),
            Err(RecvTimeoutError::Disconnected) => panic!("the process ended during {}", self.what),
        }
    }
}
