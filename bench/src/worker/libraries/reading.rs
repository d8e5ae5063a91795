//! The reading side of a library's read-write lock, in the place of its lock.

use std::time::Duration;

use super::{Library, Outcome};

#[derive(Clone, Debug)]
pub(crate) struct Reading<L>(pub(crate) L);

impl<L: Library> Library for Reading<L> {
    type Held = L::Held;

    async fn connect(url: &str) -> Outcome<Self> {
        Ok(Self(L::connect(url).await?))
    }

    async fn acquire(&self, name: &str) -> Outcome<L::Held> {
        self.0.read(name).await
    }

    async fn release(&self, held: L::Held) -> Outcome<()> {
        self.0.release(held).await
    }

    async fn hold(&self, name: &str, _ttl: Duration) -> Outcome<L::Held> {
        self.0.read(name).await
    }

    async fn seize(&self, name: &str, _lease: Duration) -> Outcome<L::Held> {
        self.0.read(name).await
    }
}
