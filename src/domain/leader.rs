//! The leader of an election, as the store returned it.

use std::time::{Duration, SystemTime};

use super::Owner;

/// The leader of an election, as the store returned it.
///
/// Two leaders are equal if their owners, terms and proclaimed values are equal.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// let client = leasehold::Client::in_memory();
/// let election = client.election("scheduler")?;
/// assert!(election.leader().await?.is_none());
///
/// let leadership = election.campaign("10.0.0.1:8080").await?;
/// let leader = election.leader().await?.expect("the candidate leads");
/// assert_eq!(leader.value(), Some("10.0.0.1:8080"));
/// assert_eq!(leader.term(), Some(leadership.term()));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Leader {
    owner: Owner,
    remaining: Option<Duration>,
    record: Option<Record>,
}

/// The proclamation of a leader.
#[derive(Clone, Debug)]
struct Record {
    term: u64,
    value: String,
    /// When the term began: the time since the Unix epoch, by the clock of the server.
    since: Duration,
}

impl PartialEq for Leader {
    fn eq(&self, other: &Self) -> bool {
        let identity = |it: &Self| (it.owner.clone(), it.term(), it.value().map(str::to_owned));
        identity(self) == identity(other)
    }
}

impl Eq for Leader {}

impl Leader {
    /// Makes a leader. Its `record` has the term, the value, and the beginning in Unix time.
    pub(crate) fn new(
        owner: Owner,
        remaining: Option<Duration>,
        record: Option<(u64, String, Duration)>,
    ) -> Self {
        let record = record.map(|(term, value, since)| Record { term, value, since });
        Self { owner, remaining, record }
    }

    /// Returns the owner of the hold, which is unique to this term.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(leader: leasehold::Leader, client: leasehold::Client) {
    /// let is_of_this_process = leader.owner().as_str().starts_with(client.id());
    /// # }
    /// ```
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns the value that the leader has proclaimed.
    ///
    /// Returns `None` if a Redisson client holds the lock. Also returns `None` until a new leader
    /// has proclaimed its value.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(leader: leasehold::Leader) {
    /// println!("requests go to {}", leader.value().unwrap_or("a leader without an address"));
    /// # }
    /// ```
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        Some(&self.record.as_ref()?.value)
    }

    /// Returns the term, which is the fencing token of the leader. Returns `None` if
    /// [`value`](Self::value) returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(leader: leasehold::Leader, newest: u64) {
    /// let is_old = leader.term().is_some_and(|term| term < newest);
    /// # }
    /// ```
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        Some(self.record.as_ref()?.term)
    }

    /// Returns when the term began, by the clock of the server. Returns `None` if
    /// [`value`](Self::value) returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(leader: leasehold::Leader) {
    /// println!("leads since {:?}", leader.since());
    /// # }
    /// ```
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        SystemTime::UNIX_EPOCH.checked_add(self.record.as_ref()?.since)
    }

    /// Returns how much of the lease was left when the store replied. `None` means that the lease
    /// never ends, because another program removed the TTL of the key.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(leader: leasehold::Leader) {
    /// println!("if it has crashed, another one leads within {:?}", leader.remaining());
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }
}
