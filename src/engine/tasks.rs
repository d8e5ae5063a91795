//! Where background tasks start.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use tokio::task::AbortHandle;

/// A task before it runs.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

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
