//! Follows the messages about a name without a position in the line of the name.
//!
//! `Messages` is not a tokio channel, because a channel wakes its receivers in a random order, and
//! a simulation must be repeatable.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::NameRegistry;
use crate::domain::Object;

/// The number of messages about one name, and the tasks that wait for the next message.
#[derive(Debug, Default)]
pub(super) struct Messages {
    count: AtomicU64,
    next: Notify,
}

impl Messages {
    pub(super) fn notify(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.next.notify_waiters();
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}

/// Receives the messages about one name for a task that is not in line. A message grants nothing:
/// it only makes the task send its next request.
pub(crate) struct Follower {
    contention: Arc<NameRegistry>,
    object: Object,
    /// The name counts as followed as long as this value exists.
    messages: Option<Arc<Messages>>,
    /// How many messages had come when the last request was sent.
    asked_at: u64,
}

impl NameRegistry {
    /// Subscribes to `object` for as long as the returned value lives, and for a while after that.
    pub(crate) fn follow(self: &Arc<Self>, object: &Object) -> Follower {
        let (messages, is_first) = {
            let mut entries = self.entries.lock();
            let wait_state = entries.of.entry(object.clone()).or_default().wait_state();
            wait_state.quiet_since = None;
            let is_first = !std::mem::replace(&mut wait_state.listens, true);
            (Arc::clone(wait_state.messages.get_or_insert_default()), is_first)
        };
        self.update_subscription(object, is_first);
        let (contention, object) = (Arc::clone(self), object.clone());
        Follower { contention, object, messages: Some(messages), asked_at: 0 }
    }
}

impl Follower {
    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// Ignores the messages until now, because the caller sends a request now.
    pub(crate) fn asks(&mut self) {
        self.asked_at = self.messages.as_ref().map_or(0, |messages| messages.count());
    }

    /// Waits until a message has come after the last request, but not beyond `limit`.
    pub(crate) async fn until_notified(&self, limit: Instant) {
        let Some(messages) = &self.messages else { return };
        let mut next = pin!(messages.next.notified());
        // A message that comes after this line wakes the task.
        next.as_mut().enable();
        if messages.count() == self.asked_at {
            drop(timeout_at(limit, next).await);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut entries = self.contention.entries.lock();
        // The reference is dropped before the check, so that the name can count as quiet.
        self.messages = None;
        entries.remove_if_idle(&self.object, &self.contention.core);
    }
}
