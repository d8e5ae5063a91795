//! Starts background tasks, and runs cleanup when a future is dropped.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

/// A task before it runs.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a closure when this value is dropped: at the end of its scope, when the future that
/// contains it is dropped, or when its runtime ends.
#[must_use = "it is done as soon as this is dropped"]
pub(crate) struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    pub(crate) fn new(act: F) -> Self {
        Self(Some(act))
    }

    /// Drops the closure without running it.
    pub(super) fn cancel(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

/// Lets other ready tasks run. Tokio's runtime may move this task to another thread meanwhile. An
/// executor with no other task polls this task again at once.
pub(crate) async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Spawns background tasks. The default spawner uses the runtime of the caller, which must exist. A
/// simulation uses another spawner.
pub(crate) type Spawner = Arc<dyn Fn(Job) + Send + Sync>;

pub(crate) fn here() -> Spawner {
    Arc::new(|job| drop(tokio::spawn(job)))
}
