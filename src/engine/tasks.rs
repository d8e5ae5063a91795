//! Where background tasks start, and whether they still run.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::task::AbortHandle;

/// A task before it runs.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether the last task that was started still runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alive(Arc<AtomicU64>);

impl Alive {
    /// One load: each acquisition asks.
    pub(crate) fn is_alive(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Begins a new start: it is alive until `job` ends, or is dropped with its runtime.
    pub(crate) fn during(&self, job: impl Future<Output: Send> + Send + 'static) -> Job {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let start = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.store(start, Ordering::Release);
        let ends = Ends { alive: Arc::clone(&self.0), start };
        Box::pin(async move {
            let _ends = ends;
            job.await;
        })
    }
}

/// When it is dropped a task has ended, or its runtime.
struct Ends {
    alive: Arc<AtomicU64>,
    start: u64,
}

impl Drop for Ends {
    fn drop(&mut self) {
        // Unless others were started meanwhile.
        self.alive.compare_exchange(self.start, 0, Ordering::AcqRel, Ordering::Relaxed).ok();
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

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").finish_non_exhaustive()
    }
}
