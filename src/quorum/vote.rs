//! One attempt to acquire a quorum lock: the client requests the lock at all servers at the same
//! time, and has the lock when a majority has granted it.

use std::{pin::Pin, time::Duration};

use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use crate::{
    domain::LogThrottle,
    engine::limits::nothing_came,
    error::{Error, Result},
    primitives::{Lock, LockGuard},
    store::quorum::{self, DataAge},
};

/// The timeout of the requests to one server. This timeout is shorter than the command timeout, so
/// that one server that is down delays nobody for the whole command timeout.
const VOTE_TIMEOUT: Duration = Duration::from_millis(500);

/// For how long a server counts as new, so that several clients may begin at the same time.
const NEW: Duration = Duration::from_secs(1);

/// The number of a server, and its vote: the reply, or the error if the server did not reply in
/// time or rejected the request.
pub(super) type Vote = (usize, Result<Reply>);

/// The reply of one server.
#[derive(Debug)]
pub(super) struct Reply {
    /// The grant. `None` if another owner holds the lock at the server.
    pub(super) grant: Option<LockGuard>,
    data: DataAge,
    lease: Duration,
}

impl Reply {
    /// Returns whether the server granted the lock, but has had its data for less than a lease. The
    /// server may have lost an earlier grant, whose holder still relies on it. So this grant must
    /// not count.
    fn is_young(&self) -> bool {
        self.grant.is_some() && self.data.age < self.lease
    }

    fn counts(&self) -> bool {
        self.grant.as_ref().is_some_and(LockGuard::is_held) && !self.is_young()
    }
}

pub(super) type PendingVote = Pin<Box<dyn Future<Output = Vote> + Send>>;

/// The votes so far, a majority of which granted the lock, and the votes that are still missing.
pub(super) type Majority = (Vec<Vote>, FuturesUnordered<PendingVote>);

/// Why no majority granted the lock.
#[derive(Debug, Default)]
pub(super) struct VoteFailure {
    /// The first server at which another owner holds the lock.
    pub(super) busy_at: Option<usize>,
    /// Whether at least one server granted the lock. If so, several callers may have divided the
    /// servers between them.
    pub(super) divided: bool,
    /// The error for the caller, if too few servers can vote. The error is permanent if so many
    /// servers will reject each retry that the others are no majority.
    pub(super) error: Option<Error>,
}

impl From<Error> for VoteFailure {
    fn from(error: Error) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

/// Returns how many of `members` servers are a majority.
pub(super) fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// Returns the vote of the server `number`. If this client already has the lock there, `granted` is
/// that grant, and the client does not request the lock again.
pub(super) fn ask(members: &[Lock], number: usize, granted: Option<LockGuard>) -> PendingVote {
    static REJECTED: LogThrottle = LogThrottle::new();
    let lock = members[number].clone();
    Box::pin(async move {
        let silent = |_| Err(lock.engine().error(lock.name(), nothing_came(VOTE_TIMEOUT)));
        let vote = timeout(VOTE_TIMEOUT, vote(&lock, granted)).await.unwrap_or_else(silent);
        if vote.as_ref().is_ok_and(|reply| reply.data.age.is_zero()) {
            tracing::warn!(target: "leasehold", lock = %lock.name(), position = number + 1,
                "server of a quorum is new or lost its data: unless all servers are new, its vote \
                 counts after one lease");
        }
        if let Err(error) = &vote
            && error.ends_wait()
            && !matches!(error, Error::ShutDown)
            && let Some(times) = REJECTED.once_more(Instant::now())
        {
            tracing::warn!(target: "leasehold", lock = %lock.name(), position = number + 1, %error,
                times, "quorum lock rejected by a server: this server does not vote for the lock");
        }
        (number, vote)
    })
}

/// Acquires the lock at one server, and then asks for how long the server has had its data.
///
/// If the server restarts without its data between the two requests, it has lost the grant. The
/// second request then stores the present time, so the vote does not count.
async fn vote(lock: &Lock, granted: Option<LockGuard>) -> Result<Reply> {
    let grant = match granted {
        Some(guard) => Some(guard),
        None => lock.try_acquire().await?,
    };
    Ok(Reply { grant, data: data_age(lock, None).await?, lease: lock.terms().0 })
}

async fn data_age(lock: &Lock, trusted: Option<DataAge>) -> Result<DataAge> {
    lock.engine().ask(lock.name(), |store| quorum::data_age(store, trusted)).await
}

/// Stores at all servers that they have always had their data. A server that has lost its data
/// since its vote does not store this. If all servers lost their data at once, this permits a
/// second holder: see `docs/guarantees.md`.
async fn trust(members: &[Lock], votes: &mut [Vote]) {
    join_all(votes.iter_mut().map(|(number, vote)| async move {
        let Ok(reply) = vote else { return };
        let trusted = data_age(&members[*number], Some(reply.data));
        // If the request fails, the votes of this server count after one lease.
        if let Ok(Ok(data)) = timeout(VOTE_TIMEOUT, trusted).await {
            reply.data = data;
        }
    }))
    .await;
}

/// Asks all servers at once, and returns as soon as the result and its reason are certain.
pub(super) async fn take_vote(
    members: &[Lock],
    mut granted: Option<(usize, LockGuard)>,
) -> Result<Majority, VoteFailure> {
    Handle::try_current().map_err(|_| Error::NoRuntime)?;
    let need = majority(members.len());
    let mut take = |number| granted.take_if(|(at, _)| *at == number).map(|(_, guard)| guard);
    let mut late: FuturesUnordered<_> =
        (0..members.len()).map(|number| ask(members, number, take(number))).collect();
    let mut votes = vec![];
    while is_open(&votes, late.len(), need)
        && let Some(vote) = late.next().await
    {
        votes.push(vote);
    }
    // If all servers are new, they were probably just set up. If not all of them are new, the new
    // ones may have lost their data.
    if late.is_empty() && votes.iter().all(is_new) {
        trust(members, &mut votes).await;
    }
    match count(&votes) >= need {
        true => Ok((votes, late)),
        false => Err(failure_of(votes, members)),
    }
}

/// Returns whether the result or its reason still depends on the `late` missing votes: a majority
/// may grant the lock, all servers may be new, or too few servers may have a vote.
fn is_open(votes: &[Vote], late: usize, need: usize) -> bool {
    let count = count(votes);
    let able = votes.iter().filter(|(_, it)| it.as_ref().is_ok_and(|it| !it.is_young())).count();
    let may_have_too_few = able < need && able + late >= need;
    count < need && (count + late >= need || votes.iter().all(is_new) || may_have_too_few)
}

fn count(votes: &[Vote]) -> usize {
    votes.iter().filter(|(_, vote)| vote.as_ref().is_ok_and(Reply::counts)).count()
}

fn is_new((_, vote): &Vote) -> bool {
    vote.as_ref().is_ok_and(|reply| reply.data.age < NEW.min(reply.lease / 2))
}

/// Returns why no majority of the servers granted the lock, and drops the grants.
fn failure_of(mut votes: Vec<Vote>, members: &[Lock]) -> VoteFailure {
    votes.sort_by_key(|(number, _)| *number);
    let (servers, need) = (members.len(), majority(members.len()));
    let (mut failure, mut young, mut errors) = (VoteFailure::default(), 0, vec![]);
    let mut reasons = String::new();
    for (number, vote) in votes {
        match vote {
            Ok(Reply { grant: None, .. }) => failure.busy_at = failure.busy_at.or(Some(number)),
            // A grant that does not count excludes other callers until it is released.
            Ok(reply) => {
                failure.divided = true;
                if reply.is_young() {
                    young += 1;
                    reasons += &format!(
                        "; server {}: the server is new, or the loss of its data was noticed less \
                         than one lease ago, so its vote does not count; retry after one lease",
                        number + 1
                    );
                }
            }
            Err(error) => {
                reasons += &format!("; server {}: {error}", number + 1);
                errors.push(error);
            }
        }
    }
    let permanent = errors.iter().filter(|error| error.ends_wait()).count();
    let voted = servers - errors.len() - young;
    if servers - permanent < need {
        failure.error = errors.into_iter().find(Error::ends_wait);
    } else if voted < need {
        let reason = format!(
            "at most {voted} of {servers} servers can vote, but {need} must grant the lock{reasons}"
        );
        failure.error = Some(Error::silent(members[0].name().clone(), reason));
    }
    failure
}

#[cfg(test)]
mod tests {
    use leasehold_twin::{Delay, Twin};
    use tokio::time::sleep;

    use super::*;
    use crate::{Client, domain::Identity, store::RedisStore};

    fn door(server: &Twin, client: &str) -> Lock {
        let store = RedisStore::simulated(server, client).into();
        Client::builder().client(Identity::of(client), store).lock("door").unwrap()
    }

    /// Former bug: when a process was paused after its first vote, it later trusted a server that
    /// had meanwhile lost the grant of another holder.
    #[tokio::test(start_paused = true)]
    async fn server_that_lost_its_data_since_its_vote_is_not_trusted() {
        for is_noted in [false, true] {
            let server = Twin::new(0);
            let (members, other) = ([door(&server, "one")], door(&server, "other"));
            let mut votes = [(0, vote(&members[0], None).await)];
            sleep(Duration::from_secs(5)).await;
            server.forget_everything();
            if is_noted {
                data_age(&other, None).await.unwrap();
            }
            trust(&members, &mut votes).await;
            assert_eq!(count(&votes), 0, "{votes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn vote_does_not_count_if_the_server_loses_its_data_meanwhile() {
        let (server, ms) = (Twin::new(0), Duration::from_millis);
        let lock = door(&server, "one");
        let data = data_age(&lock, None).await.unwrap();
        data_age(&lock, Some(data)).await.unwrap();
        // The two requests of the vote arrive after 10 ms and after 20 ms.
        server.delay(Delay::Fixed(ms(10)), Delay::None);
        let (vote, ()) = tokio::join!(vote(&lock, None), async {
            sleep(ms(15)).await;
            server.forget_everything();
        });
        let lost = vote.unwrap();
        assert!(lost.grant.is_some() && !lost.counts(), "{lost:?}");
        // The grant may also be that of a wait queue.
        data_age(&lock, Some(lost.data)).await.unwrap();
        server.forget_everything();
        let lost = super::vote(&lock, lost.grant).await.unwrap();
        assert!(lost.grant.is_some() && !lost.counts(), "{lost:?}");
    }
}
