//! The crate rlock, which polls every 100 ms by default.

use std::time::Duration;

use rlock::{
    AcquireOptions, RenewalMode,
    async_lock::{RLock as Manager, RLockGuard},
};

use super::{Library, Outcome};

#[derive(Clone, Debug)]
pub(crate) struct RLock(Manager);

impl Library for RLock {
    type Held = RLockGuard;

    async fn connect(url: &str) -> Outcome<Self> {
        Ok(Self(Manager::new(url).await?))
    }

    async fn acquire(&self, name: &str) -> Outcome<RLockGuard> {
        Ok(self.0.acquire_mutex(name).await?)
    }

    async fn release(&self, mut held: RLockGuard) -> Outcome<()> {
        Ok(held.release().await?)
    }

    async fn hold(&self, name: &str, ttl: Duration) -> Outcome<RLockGuard> {
        let mode = RenewalMode::Interval(ttl / 3);
        let options = AcquireOptions::builder().ttl(ttl).renewal_mode(mode).build()?;
        Ok(self.0.acquire_mutex_with_options(name, options).await?)
    }

    async fn seize(&self, name: &str, lease: Duration) -> Outcome<RLockGuard> {
        let mode = RenewalMode::Disabled;
        let options = AcquireOptions::builder().ttl(lease).renewal_mode(mode).build()?;
        Ok(self.0.acquire_mutex_with_options(name, options).await?)
    }
}
