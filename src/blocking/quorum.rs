//! The quorum lock, for threads.

use std::time::Duration;

use super::{
    Client,
    face::{acquires, guards, holds, tables},
    waiting::{Core, Cores},
};
use crate::{
    LostReason, Name, QuorumContext, Release, RunOutcome, error::Result,
    primitives::thread_example, quorum,
};

/// A [`QuorumClient`](crate::QuorumClient) for threads.
#[doc = thread_example!(quorum: "quorum.lock(\"orders:42\")?.acquire()?.release()?.into_result()?;")]
#[derive(Clone, Debug)]
pub struct QuorumClient {
    clients: Vec<Client>,
    inner: quorum::QuorumClient,
}

impl QuorumClient {
    /// Does what [`QuorumClient::connect`](crate::QuorumClient::connect) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::blocking::QuorumClient;
    /// let quorum = QuorumClient::connect(["redis://a", "redis://b", "redis://c"])?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn connect(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        let connect = async || Ok(quorum::QuorumClient::connect(urls).await?.clients().to_vec());
        Self::of(Core::start_all(connect)?.into_iter().map(Client::with_core))
    }

    /// Does what [`QuorumClient::of`](crate::QuorumClient::of) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
    #[doc = thread_example!(quorum: "let quorum = QuorumClient::of(quorum.clients().to_vec())?;")]
    pub fn of(clients: impl IntoIterator<Item = Client>) -> Result<Self> {
        let clients: Vec<Client> = clients.into_iter().collect();
        let inner = clients.iter().map(|client| client.core().client().clone());
        Ok(Self { inner: quorum::QuorumClient::of(inner)?, clients })
    }

    /// Returns the client of each server, as
    /// [`QuorumClient::clients`](crate::QuorumClient::clients) does.
    #[doc = thread_example!(quorum: "assert!(quorum.clients()[0].health()?.is_ready());")]
    #[must_use]
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// Does what [`QuorumClient::lock`](crate::QuorumClient::lock) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method.
    #[doc = thread_example!(quorum: "assert_eq!(lock.name().as_str(), \"orders:42\");")]
    pub fn lock(&self, name: impl AsRef<str>) -> Result<QuorumLock> {
        let core = Cores::of(self.clients.iter().map(Client::core).cloned());
        Ok(QuorumLock { inner: self.inner.lock(name)?, core })
    }
}

/// A [`QuorumLock`](crate::QuorumLock) for threads.
///
/// It is **not reentrant**: if a thread that holds the lock acquires it again, the thread waits for
/// itself. The guard can move to another thread.
#[doc = thread_example!(quorum: "assert_eq!(lock.run(|held| held.check().map(|()| 6 * 7))??, 42);")]
#[derive(Clone, Debug)]
pub struct QuorumLock {
    inner: quorum::QuorumLock,
    core: Cores,
}

impl QuorumLock {
    acquires!(QuorumLock, QuorumGuard, QuorumContext, quorum);

    tables! { quorum:
        sets QuorumLock {
            fn ttl(ttl: Duration); "let lock = lock.ttl(Duration::from_secs(10));"
            fn lease(lease: Duration); "let lock = lock.lease(Duration::from_secs(60));"
        }
        returns QuorumLock {
            fn name() -> &Name; "assert_eq!(lock.name().as_str(), \"orders:42\");"
        }
    }
}

guards!(QuorumGuard, quorum);

impl QuorumGuard {
    holds!(QuorumGuard, QuorumContext, quorum);

    tables! { quorum:
        returns QuorumGuard {
            fn name() -> &Name; "assert_eq!(lock.acquire()?.name().as_str(), \"orders:42\");"
        }
        loses QuorumGuard {
            fn lost() -> LostReason;
                "let guard = lock.lease(Duration::from_millis(50)).acquire()?;"
                "assert_eq!(guard.lost()?, leasehold::LostReason::Expired);"
        }
        ends QuorumGuard, "releases the lock" {
            fn release(); "lock.acquire()?.release()?.into_result()?;"
        }
    }
}
