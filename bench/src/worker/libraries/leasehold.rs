//! Leasehold.

use std::time::Duration;

use leasehold::{Client, LockGuard, Release};

use super::{Library, Outcome};

#[derive(Clone, Debug)]
pub(crate) struct Leasehold(Client);

impl Leasehold {
    pub(super) fn of(client: Client) -> Self {
        Self(client)
    }
}

impl Library for Leasehold {
    type Held = LockGuard;

    async fn connect(url: &str) -> Outcome<Self> {
        Ok(Self(Client::connect(url).await?))
    }

    async fn acquire(&self, name: &str) -> Outcome<LockGuard> {
        Ok(self.0.lock(name)?.acquire().await?)
    }

    async fn release(&self, held: LockGuard) -> Outcome<()> {
        match held.release().await? {
            Release::Released => Ok(()),
            other => Err(format!("a release found {other:?}").into()),
        }
    }

    async fn hold(&self, name: &str, ttl: Duration) -> Outcome<LockGuard> {
        Ok(self.0.lock(name)?.ttl(ttl).acquire().await?)
    }

    async fn seize(&self, name: &str, lease: Duration) -> Outcome<LockGuard> {
        Ok(self.0.lock(name)?.lease(lease).acquire().await?)
    }

    fn client(&self) -> Outcome<&Client> {
        Ok(&self.0)
    }

    fn lag(&self) -> Option<Duration> {
        Some(self.0.stats().renewal_lag_max)
    }

    fn waiting(&self) -> Option<u64> {
        Some(self.0.stats().waiting)
    }
}
