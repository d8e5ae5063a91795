//! The quorum lock: a lock that a majority of independent servers grants, as in Redlock.
//!
//! Each member is a [`Lock`] at one server, with a client of its own. The quorum lock adds one key
//! to each server: since when the server has had its data.
//!
//! Start with `QuorumLock::wait` in this file, which repeats `take_vote` of `vote.rs` until a
//! majority grants the lock. `hold.rs` requests lost grants again.

mod hold;
mod vote;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep, timeout};

pub use self::hold::{QuorumContext, QuorumGuard};
use self::vote::{VoteFailure, majority, take_vote};
use crate::{
    client::Client,
    domain::{Backoff, Name, spread},
    engine::timing::BACKOFF,
    error::{Error, Result},
    primitives::{Lock, example, group_run, like, settings::checked_timeout},
};

/// About how long a waiter waits at one server before it requests the lock at all servers again. The
/// lock may stay held at this server, but be free at a majority of the servers. The time is random,
/// so that waiters do not request votes at the same moment.
const WAIT_AT_ONE_SERVER: Duration = Duration::from_secs(2);

/// A client of several independent servers. A majority of them must grant a lock (Redlock).
///
/// Use five servers on five machines, which do not replicate each other. With five servers, the
/// lock still works if two of them are lost. With three or four servers, it still works if one is
/// lost. With one server, the quorum lock is a [`Lock`] that needs one more round trip. A server
/// must not be a member of two different quorums.
///
/// **Martin Kleppmann's objection holds**: a majority does not help if a holder is paused for
/// longer than its lease, or if a clock jumps. A quorum lock has no fencing token. Use it only if a
/// rare second holder costs nothing but repeated work. If a second holder would damage data, use
/// one deployment, a [`FencedLock`](crate::FencedLock), and a receiver that checks its token: see
/// [`fence`](crate::fence).
///
/// List the servers in the same order in all clients, so that most waiters wait at the same server.
/// With other orders, the lock works, but waiters divide the votes between them more often.
///
/// This lock and a `RedissonRedLock` in Java exclude each other, if they have the same name and the
/// same servers.
#[doc = example!(quorum: "quorum.lock(\"orders:42\")?.run(async |_held| { /* the work */ }).await?;")]
#[derive(Clone, Debug)]
pub struct QuorumClient {
    clients: Vec<Client>,
}

impl QuorumClient {
    /// Connects to the servers, and returns once a majority is connected. The client connects to
    /// the other servers in the background.
    ///
    /// Each URL may name one server, a primary with Sentinels, or a cluster. If a failover loses a
    /// grant, the quorum lock does not notice. So prefer single servers. Each URL must lead to a
    /// different server: the client notices equal URLs, but no second name or database of a server.
    ///
    /// # Errors
    ///
    /// [`Error::Url`] if a URL is invalid or occurs twice. [`Error::Connect`] if no majority can be
    /// reached. It names each server that failed, and the reason. Its field `permanent` is set if
    /// permanent errors, such as wrong passwords, leave no majority. [`Error::NoRuntime`] outside of
    /// a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), leasehold::Error> {
    /// use leasehold::QuorumClient;
    /// let quorum = QuorumClient::connect(["redis://a", "redis://b", "redis://c"]).await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        let urls: Vec<String> = urls.into_iter().map(|url| url.as_ref().to_owned()).collect();
        check_distinct(&urls)?;
        let connect = async |(url, number): (&String, usize)| (number, Client::connect(url).await);
        let mut connecting: FuturesUnordered<_> = urls.iter().zip(1..).map(connect).collect();
        let (mut clients, mut failed) = (vec![None; urls.len()], vec![]);
        while clients.iter().flatten().count() < majority(urls.len()) {
            let Some((number, client)) = connecting.next().await else {
                return Err(too_few_connected(failed, urls.len()));
            };
            match client {
                Ok(client) => clients[number - 1] = Some(client),
                Err(error @ Error::Connect { .. }) => failed.push((number, error)),
                Err(Error::Url(why)) => return Err(Error::Url(format!("server {number}: {why}"))),
                Err(error) => return Err(error),
            }
        }
        let all = clients.into_iter().zip(&urls);
        let clients = all.map(|(it, url)| it.map_or_else(|| Client::connect_lazy(url), Ok));
        Ok(Self { clients: clients.collect::<Result<_>>()? })
    }

    /// Makes a quorum of existing clients, each with its own settings.
    ///
    /// All processes that use a lock must list the same servers, and must use the same
    /// [`ttl`](crate::ClientBuilder::ttl).
    ///
    /// # Errors
    ///
    /// [`Error::Url`] if there are no clients, or if one client occurs twice.
    #[doc = example!(quorum:
        "use leasehold::{Client, QuorumClient};",
        "let quorum = QuorumClient::of([(); 3].map(|()| Client::in_memory()))?;",
        "let one = Client::in_memory();",
        "assert!(QuorumClient::of([one.clone(), one]).is_err());",
        "assert!(QuorumClient::of([]).is_err());")]
    pub fn of(clients: impl IntoIterator<Item = Client>) -> Result<Self> {
        let clients: Vec<_> = clients.into_iter().collect();
        check_distinct(clients.iter().map(Client::id))?;
        Ok(Self { clients })
    }

    /// Returns the client of each server, for example for a health check or a shutdown.
    #[doc = example!(quorum: "assert_eq!(quorum.clients().len(), 3);")]
    #[must_use]
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// Returns the lock called `name`. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Name`] if the name is invalid.
    #[doc = example!(quorum: "assert_eq!(lock.name().as_str(), \"orders:42\");")]
    pub fn lock(&self, name: impl AsRef<str>) -> Result<QuorumLock> {
        let members = self.clients.iter().map(|client| client.lock(name.as_ref()));
        Ok(QuorumLock { members: members.collect::<Result<_>>()? })
    }
}

/// Returns the error for a quorum of `all` servers if too many of them `failed`. The error names
/// each failed server.
fn too_few_connected(mut failed: Vec<(usize, Error)>, all: usize) -> Error {
    failed.sort_by_key(|(number, _)| *number);
    let (mut rejected, mut reasons, mut first) = (0, String::new(), None);
    for (number, error) in &failed {
        if let Error::Connect { server, reason, permanent, source } = error {
            reasons += &format!("server {number}, {server}: {reason}; ");
            rejected += usize::from(*permanent);
            first = first.or_else(|| source.clone());
        }
    }
    Error::Connect {
        server: format!("{} of {all} servers of the quorum", failed.len()),
        reason: reasons + &format!("at least {} servers must be reachable", majority(all)),
        permanent: all - rejected < majority(all),
        source: first,
    }
}

/// Returns an error if there are no servers, or if one of them occurs twice.
fn check_distinct(servers: impl IntoIterator<Item = impl Ord>) -> Result<()> {
    let mut known = BTreeSet::new();
    let problem = match servers.into_iter().all(|server| known.insert(server)) {
        false => "a server is listed twice; list each server of the quorum once",
        true if known.is_empty() => "the list of servers is empty; list three or five servers",
        true => return Ok(()),
    };
    Err(Error::Url(problem.into()))
}

/// A lock that a majority of independent servers grants: see [`QuorumClient`].
#[doc = example!(quorum: "assert_eq!(lock.run(async |_held| 6 * 7).await?, 42);")]
#[derive(Clone, Debug)]
pub struct QuorumLock {
    members: Arc<[Lock]>,
}

impl QuorumLock {
    fn each(self, set: impl Fn(Lock) -> Lock) -> Self {
        Self { members: self.members.iter().cloned().map(set).collect() }
    }

    /// Sets how long a hold lasts after its holder died: see [`Lock::ttl`]. All clients of a name
    /// must use the same ttl.
    ///
    /// If a server has lost its data, its vote counts only after this time. If all servers are new,
    /// but one of them is down, the first acquisition waits for this time.
    #[doc = example!(quorum: "let lock = lock.ttl(Duration::from_secs(10));")]
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.each(|lock| lock.ttl(ttl))
    }

    /// Sets a fixed lease, which is never renewed: see [`Lock::lease`]. All clients of a name must
    /// use the same lease. If a server has lost its data, its vote counts only after this lease.
    #[doc = example!(quorum: "let lock = lock.lease(Duration::from_secs(60));")]
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        self.each(|lock| lock.lease(lease))
    }

    /// Returns the name of the lock.
    #[doc = example!(quorum: "assert_eq!(lock.name().as_str(), \"orders:42\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.members[0].name()
    }

    /// Acquires the lock, waiting until a majority of the servers grants it.
    ///
    /// The call also waits while no majority can be reached. A waiter joins the queue of the first
    /// server at which another owner holds the lock. About every two seconds it leaves this queue,
    /// asks all servers, and joins the end again. So waiters do not acquire in order, and a waiter
    /// may wait without a bound.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::acquire`], if the servers that did not reject the request are no
    /// majority.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, background tasks release the grants.
    #[doc = example!(quorum: "let guard = lock.acquire().await?;")]
    pub async fn acquire(&self) -> Result<QuorumGuard> {
        self.wait(&mut VoteFailure::default()).await
    }

    /// Acquires the lock, waiting for at most `timeout`.
    ///
    #[doc = like!(acquire "acquire" and "[`Error::TimedOut`] if another owner held the lock until \
        the timeout. [`Error::Unavailable`] if too few servers replied.")]
    #[doc = example!(quorum: "let guard = lock.acquire_within(Duration::from_secs(5)).await?;")]
    pub async fn acquire_within(&self, timeout: Duration) -> Result<QuorumGuard> {
        checked_timeout(timeout)?;
        tokio::runtime::Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let (name, start) = (self.name(), Instant::now());
        let reason = format!("too few servers of the quorum replied within {timeout:?}");
        let mut failure = Error::silent(name.clone(), reason).into();
        let waited = tokio::time::timeout(timeout, self.wait(&mut failure)).await;
        let timed_out = || Error::timed_out(name.clone(), start.elapsed());
        waited.unwrap_or_else(|_| Err(failure.error.unwrap_or_else(timed_out)))
    }

    /// Acquires the lock if a majority of the servers grants it now, or returns `None`.
    ///
    /// The call returns `None` if another owner holds the lock, or if several callers tried at the
    /// same time and none of them got a majority.
    ///
    #[doc = like!(acquire "acquire" and "[`Error::Unavailable`] if too few servers replied within \
        half a second.")]
    #[doc = example!(quorum:
        "let first = lock.try_acquire().await?;",
        "assert!(first.is_some() && lock.try_acquire().await?.is_none());")]
    pub async fn try_acquire(&self) -> Result<Option<QuorumGuard>> {
        match take_vote(&self.members, None).await {
            Ok(won) => Ok(Some(QuorumGuard::new(&self.members, won))),
            Err(failure) => failure.error.map_or(Ok(None), Err),
        }
    }

    group_run!(
        quorum,
        QuorumContext,
        "If the lock is lost, the future of the work is dropped at its current await."
    );

    /// Repeats votes until a majority grants the lock. After each vote without a majority, stores
    /// the reason in `failure`.
    async fn wait(&self, failure: &mut VoteFailure) -> Result<QuorumGuard> {
        let (mut backoff, mut granted) = (Backoff::default(), None);
        loop {
            match take_vote(&self.members, granted.take()).await {
                Ok(won) => return Ok(QuorumGuard::new(&self.members, won)),
                Err(VoteFailure { error: Some(it), .. }) if it.ends_wait() => return Err(it),
                Err(lost) => *failure = lost,
            }
            // Without this pause, two callers would divide the servers between them repeatedly.
            if failure.divided || failure.busy_at.is_none() {
                sleep(backoff.next(BACKOFF)).await;
            }
            if let Some(number) = failure.busy_at {
                let waiting = self.members[number].acquire();
                match timeout(spread(WAIT_AT_ONE_SERVER), waiting).await {
                    // Ignores an error of this server. If no majority is possible without this
                    // server, the next vote returns the error.
                    Ok(waited) => granted = waited.ok().map(|guard| (number, guard)),
                    Err(_) => backoff = Backoff::default(),
                }
            }
        }
    }
}
