//! Where background tasks start, and whether they still run.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::task::AbortHandle;

/// A task before it runs.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether the task that was started still runs. The next one is started when it does not.
#[derive(Default)]
pub(crate) struct Alive(Arc<AtomicBool>);

impl Alive {
    /// One load: each acquisition asks.
    pub(crate) fn is_alive(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// From now on it is alive, until `job` ends or is dropped with its runtime. Then `tell`
    /// is called.
    pub(crate) fn during(
        &self,
        job: impl Future<Output: Send> + Send + 'static,
        tell: impl Fn() + Send + 'static,
    ) -> Job {
        self.0.store(true, Ordering::Release);
        let ends = Ends(Arc::clone(&self.0), tell);
        Box::pin(async move {
            let _ends = ends;
            job.await;
        })
    }
}

/// When it is dropped the task has ended, or its runtime.
struct Ends<F: Fn()>(Arc<AtomicBool>, F);

impl<F: Fn()> Drop for Ends<F> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
        (self.1)();
    }
}

/// Starts tasks: on the runtime of whoever asks, unless a simulation puts them
/// somewhere else.
#[derive(Clone)]
pub(crate) struct Spawner(Arc<dyn Fn(Job) -> AbortHandle + Send + Sync>);

impl Spawner {
    pub(crate) fn here() -> Self {
        Self::by(|job| tokio::spawn(job).abort_handle())
    }

    pub(crate) fn by(spawn: impl Fn(Job) -> AbortHandle + Send + Sync + 'static) -> Self {
        Self(Arc::new(spawn))
    }

    /// Starts `job`. The caller must be on a runtime.
    pub(crate) fn start(&self, job: Job) -> AbortHandle {
        (self.0)(job)
    }
}
