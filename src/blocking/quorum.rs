//! The quorum lock, for threads.

use std::time::Duration;

use super::{
    Client,
    face::{ends, loses, returns, runs, sets, tables, waits},
    waiting::{Core, Cores},
};
use crate::{LostReason, Name, QuorumContext, Release, RunOutcome, error::Result, quorum};

/// Makes the section *Examples* of an item. Each example starts with a line that makes `lock`,
/// which rustdoc hides.
macro_rules! example {
    ($($line:literal),+) => {
        crate::primitives::thread_example!(
            "use leasehold::blocking::QuorumClient; let quorum = QuorumClient::of([client])?; \
             let lock = quorum.lock(\"orders:42\")?;": $($line),+)
    };
}

/// A [`QuorumClient`](crate::QuorumClient) for threads.
#[doc = example!("quorum.lock(\"orders:42\")?.acquire()?.release()?.into_result()?;")]
#[derive(Clone, Debug)]
pub struct QuorumClient {
    clients: Vec<Client>,
    inner: quorum::QuorumClient,
    core: Cores,
}

impl QuorumClient {
    /// Does what [`QuorumClient::connect`](crate::QuorumClient::connect) does.
    ///
    /// # Errors
    ///
    /// Those of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync).
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
    /// Those of the async method.
    #[doc = example!("let quorum = QuorumClient::of(quorum.clients().to_vec())?;")]
    pub fn of(clients: impl IntoIterator<Item = Client>) -> Result<Self> {
        let clients: Vec<Client> = clients.into_iter().collect();
        let cores = || clients.iter().map(Client::core);
        let inner = quorum::QuorumClient::of(cores().map(|core| core.client().clone()))?;
        let core = Cores::of(cores().cloned());
        Ok(Self { clients, inner, core })
    }

    /// Returns the client of each server, as
    /// [`QuorumClient::clients`](crate::QuorumClient::clients) does.
    #[doc = example!("assert!(quorum.clients()[0].health()?.is_ready());")]
    #[must_use]
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// Does what [`QuorumClient::lock`](crate::QuorumClient::lock) does.
    ///
    /// # Errors
    ///
    /// Those of the async method.
    #[doc = example!("assert_eq!(lock.name().as_str(), \"orders:42\");")]
    pub fn lock(&self, name: impl AsRef<str>) -> Result<QuorumLock> {
        Ok(QuorumLock { inner: self.inner.lock(name)?, core: self.core.clone() })
    }
}

/// A [`QuorumLock`](crate::QuorumLock) for threads.
///
/// It is **not reentrant**: if a thread that holds the lock acquires it again, the thread waits for
/// itself. The guard can move to another thread.
#[doc = example!("assert_eq!(lock.run(|held| held.check().map(|()| 6 * 7))??, 42);")]
#[derive(Clone, Debug)]
pub struct QuorumLock {
    inner: quorum::QuorumLock,
    core: Cores,
}

impl QuorumLock {
    tables! { "let lock = leasehold::blocking::QuorumClient::of([client])?.lock(\"orders:42\")?;":
        sets QuorumLock {
            fn ttl(ttl: Duration); "let lock = lock.ttl(Duration::from_secs(10));"
            fn lease(lease: Duration); "let lock = lock.lease(Duration::from_secs(60));"
        }
        returns QuorumLock {
            fn name() -> &Name; "assert_eq!(lock.name().as_str(), \"orders:42\");"
        }
        waits QuorumLock {
            fn acquire() -> QuorumGuard, guard; "let guard = lock.acquire()?;"
            fn acquire_within(timeout: Duration) -> QuorumGuard, guard;
                "let guard = lock.acquire_within(Duration::from_secs(5))?;"
            fn try_acquire() -> Option<QuorumGuard> => guard;
                "assert!(lock.try_acquire()?.is_some());"
            fn force_release() -> usize; "assert_eq!(lock.force_release()?, 0);"
        }
        runs QuorumLock {
            fn run(&self) -> QuorumContext; "assert!(lock.run(|held| held.is_held())?);"
        }
    }

    fn guard(&self, inner: quorum::QuorumGuard) -> QuorumGuard {
        QuorumGuard { inner, core: self.core.clone() }
    }
}

/// A [`QuorumGuard`](crate::QuorumGuard) for threads. It can move to another thread.
#[doc = example!(
    "let guard = lock.acquire()?;",
    "assert!(std::thread::spawn(move || guard.release()).join().is_ok());")]
#[derive(Debug)]
#[must_use = "what the guard holds is released as soon as the guard is dropped"]
pub struct QuorumGuard {
    // Must come before `core`. Rust drops fields in order, and the releases must be in flight when
    // `core` ends the runtimes.
    inner: quorum::QuorumGuard,
    core: Cores,
}

impl QuorumGuard {
    tables! { "let lock = leasehold::blocking::QuorumClient::of([client])?.lock(\"orders:42\")?;":
        returns QuorumGuard {
            fn name() -> &Name; "assert_eq!(lock.acquire()?.name().as_str(), \"orders:42\");"
            fn is_held() -> bool; "assert!(lock.acquire()?.is_held());"
            fn remaining() -> Option<Duration>; "assert!(lock.acquire()?.remaining().is_some());"
        }
        loses QuorumGuard {
            fn lost() -> LostReason;
                "let guard = lock.lease(Duration::from_millis(50)).acquire()?;"
                "assert_eq!(guard.lost()?, leasehold::LostReason::Expired);"
        }
        ends QuorumGuard, "releases the lock" {
            fn release(); "lock.acquire()?.release()?.into_result()?;"
        }
        runs QuorumGuard {
            fn run(self) -> QuorumContext;
                "assert!(lock.acquire()?.run(|held| held.is_held()).into_result()?);"
        }
    }
}
