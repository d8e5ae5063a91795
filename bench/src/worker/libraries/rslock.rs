//! The crate rslock, which polls after up to 200 ms by default.

use std::time::Duration;

use rslock::{LockGuard, LockManager};

use super::{Library, Outcome};
use crate::job::TTL;

#[derive(Clone, Debug)]
pub(crate) struct RsLock(LockManager);

impl Library for RsLock {
    type Held = LockGuard;

    async fn connect(url: &str) -> Outcome<Self> {
        Ok(Self(LockManager::new(vec![url])))
    }

    async fn acquire(&self, name: &str) -> Outcome<LockGuard> {
        self.seize(name, TTL).await
    }

    async fn release(&self, held: LockGuard) -> Outcome<()> {
        held.release().await;
        Ok(())
    }

    async fn hold(&self, _name: &str, _ttl: Duration) -> Outcome<LockGuard> {
        Err("rslock renews only around a closure".into())
    }

    async fn seize(&self, name: &str, lease: Duration) -> Outcome<LockGuard> {
        Ok(self.0.acquire(name, lease).await?)
    }
}
