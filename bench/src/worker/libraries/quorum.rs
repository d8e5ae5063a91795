//! Leasehold's quorum lock. Its URL is a list of the URLs of all servers, with commas.

use leasehold::{QuorumClient, QuorumGuard};

use super::{Library, Outcome};

impl Library for QuorumClient {
    type Held = QuorumGuard;

    async fn connect(url: &str) -> Outcome<Self> {
        Ok(Self::connect(url.split(',')).await?)
    }

    async fn acquire(&self, name: &str) -> Outcome<QuorumGuard> {
        Ok(self.lock(name)?.acquire().await?)
    }

    async fn release(&self, held: QuorumGuard) -> Outcome<()> {
        Ok(held.release().await?.into_result()?)
    }
}
