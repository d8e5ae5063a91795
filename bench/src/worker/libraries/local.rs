//! A mutex of this process: the lower limit of waiting in one process.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{Library, Outcome};

/// One lock for all names.
#[derive(Clone, Debug)]
pub(crate) struct Local(Arc<Mutex<()>>);

impl Library for Local {
    type Held = OwnedMutexGuard<()>;

    async fn connect(_url: &str) -> Outcome<Self> {
        Ok(Self(Arc::default()))
    }

    async fn acquire(&self, _name: &str) -> Outcome<Self::Held> {
        Ok(Arc::clone(&self.0).lock_owned().await)
    }

    async fn release(&self, held: Self::Held) -> Outcome<()> {
        drop(held);
        Ok(())
    }

    async fn hold(&self, name: &str, _ttl: Duration) -> Outcome<Self::Held> {
        self.acquire(name).await
    }

    async fn seize(&self, name: &str, _lease: Duration) -> Outcome<Self::Held> {
        self.acquire(name).await
    }
}
