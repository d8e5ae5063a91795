//! One vote: the client requests the lock at all servers at the same time. It has the lock when a
//! majority has granted it.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::timeout;

use crate::{
    domain::Name,
    error::{Error, Result},
    primitives::{Lock, LockGuard},
    store::quorum,
};

/// Timeout for the reply of one server. It is shorter than the command timeout. Otherwise one
/// server that is down would delay the vote for the whole command timeout.
const VOTE_TIMEOUT: Duration = Duration::from_millis(500);

/// The vote of one server.
#[derive(Debug)]
pub(super) enum Vote {
    /// The server granted the lock.
    Yes(LockGuard),
    /// The server granted the lock, but has had its data for less than a lease. It may have lost
    /// the grant of another holder that still relies on it, so this vote does not count.
    Young(LockGuard),
    /// The server does not have the key that says since when it has had its data. So the server is
    /// new, or has lost all of its data. It may have granted the lock.
    New(Option<LockGuard>),
    /// Another owner holds the lock at the server.
    No,
    /// The server did not reply in time, or rejected the request.
    Failed(Error),
}

impl Vote {
    /// Returns the grant of this server, if it granted the lock.
    pub(super) fn grant(self) -> Option<LockGuard> {
        match self {
            Self::Yes(guard) | Self::Young(guard) => Some(guard),
            Self::New(guard) => guard,
            Self::No | Self::Failed(_) => None,
        }
    }
}

/// A future that returns the number of a server, and its vote.
pub(super) type Asking = Pin<Box<dyn Future<Output = (usize, Vote)> + Send>>;

/// The result of a vote.
pub(super) enum Outcome {
    /// A majority granted the lock.
    Won {
        /// The grants by server.
        grants: Vec<Option<LockGuard>>,
        /// The servers that did not grant the lock.
        failed: Vec<usize>,
        /// The servers that have not voted yet.
        late: Vec<Asking>,
    },
    /// No majority granted the lock. All grants are released.
    Lost(VoteFailure),
}

/// Why a vote was lost.
#[derive(Clone, Debug, Default)]
pub(super) struct VoteFailure {
    /// The first server at which another owner holds the lock.
    pub(super) busy_at: Option<usize>,
    /// Whether at least one server granted the lock. If so, several callers may have divided the
    /// servers between them.
    pub(super) divided: bool,
    /// If too few servers voted, the reason.
    pub(super) silence: Option<String>,
}

/// Returns how many of `members` servers are a majority.
pub(super) fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// Returns the vote of the server `number`. If the server granted the lock before, `granted` is
/// that grant, and the lock is not requested again.
pub(super) fn ask(members: &Arc<[Lock]>, number: usize, granted: Option<LockGuard>) -> Asking {
    let members = Arc::clone(members);
    Box::pin(async move {
        let lock = &members[number];
        let silent =
            || Err(Error::silent(lock.name().clone(), format!("no reply within {VOTE_TIMEOUT:?}")));
        let vote = timeout(VOTE_TIMEOUT, vote(lock, granted)).await;
        (number, vote.unwrap_or_else(|_| silent()).unwrap_or_else(Vote::Failed))
    })
}

/// Asks like [`ask`], for a caller that has a majority without this server. If this server is new,
/// then it has lost its data, because the others have theirs.
pub(super) fn ask_again(members: &Arc<[Lock]>, number: usize) -> Asking {
    note_if_new(members, ask(members, number, None))
}

/// Awaits the vote of a server. If the server is new, writes to it that it has data from now on.
fn note_if_new(members: &Arc<[Lock]>, asking: Asking) -> Asking {
    let members = Arc::clone(members);
    Box::pin(async move {
        let (number, vote) = asking.await;
        (number, mark_known(&members[number], vote).await)
    })
}

/// Acquires the lock at one server, and then asks for how long the server has had its data.
///
/// The order matters. If the server restarts between the two requests, it has lost the grant. The
/// second request then finds a new server, so the vote does not count.
async fn vote(lock: &Lock, granted: Option<LockGuard>) -> Result<Vote> {
    let granted = match granted {
        Some(guard) => Some(guard),
        None => lock.try_acquire().await?,
    };
    let (ttl, _) = lock.terms();
    let known = lock.engine().ask(lock.name(), quorum::known_for).await?;
    Ok(match (known, granted) {
        (None, granted) => Vote::New(granted),
        (Some(_), None) => Vote::No,
        (Some(time), Some(guard)) if time < ttl => Vote::Young(guard),
        (Some(_), Some(guard)) => Vote::Yes(guard),
    })
}

/// If the vote is that of a new server, writes to the server that it has data from now on. After a
/// lease, its votes count.
async fn mark_known(lock: &Lock, vote: Vote) -> Vote {
    let Vote::New(granted) = vote else { return vote };
    let marking = lock.engine().ask(lock.name(), quorum::note);
    // If this request fails, the server is also new in the next vote.
    timeout(VOTE_TIMEOUT, marking).await.ok();
    granted.map_or(Vote::No, Vote::Young)
}

/// If the vote is that of a new server, writes to the server that it always had its data. Only
/// valid if all servers are new, because then no grant can have been lost.
async fn mark_trusted(lock: &Lock, vote: Vote) -> Vote {
    let Vote::New(granted) = vote else { return vote };
    let marking = lock.engine().ask(lock.name(), quorum::trust);
    match (timeout(VOTE_TIMEOUT, marking).await, granted) {
        (Ok(Ok(())), Some(guard)) => Vote::Yes(guard),
        (_, granted) => Vote::New(granted),
    }
}

/// Asks all servers at once, and returns as soon as the result is certain.
///
/// # Errors
///
/// The error of a server that will also reject a retry, if no majority is possible without such
/// servers.
pub(super) async fn elect(
    members: &Arc<[Lock]>,
    mut granted: Option<(usize, LockGuard)>,
) -> Result<Outcome> {
    let mut take = |number| granted.take_if(|(at, _)| *at == number).map(|(_, guard)| guard);
    let mut late: FuturesUnordered<_> =
        (0..members.len()).map(|number| ask(members, number, take(number))).collect();
    let mut ballot = Ballot::of(members.len());
    while ballot.is_open(late.len()) {
        let Some((number, vote)) = late.next().await else { break };
        ballot.votes[number] = Some(vote);
        if ballot.are_all_new(late.len()) {
            ballot.replace_new(members, mark_trusted).await;
        }
        if ballot.is_won() {
            return Ok(ballot.won(members, late));
        }
    }
    // A new server may have lost its data, because other servers are not new or did not reply.
    ballot.replace_new(members, mark_known).await;
    ballot.lost()
}

/// The votes of the servers so far.
struct Ballot {
    need: usize,
    votes: Vec<Option<Vote>>,
}

impl Ballot {
    fn of(members: usize) -> Self {
        Self { need: majority(members), votes: (0..members).map(|_| None).collect() }
    }

    fn count(&self, is: impl Fn(&Vote) -> bool) -> usize {
        self.votes.iter().flatten().filter(|vote| is(vote)).count()
    }

    /// Returns whether the `late` missing votes can still lead to a majority.
    fn is_open(&self, late: usize) -> bool {
        self.count(is_yes) + late >= self.need || late > 0 && self.are_all_new(0)
    }

    /// Returns whether all votes have arrived, and all of them are of new servers. If so, the
    /// servers were just set up. If only a majority were new, it could have lost its data.
    fn are_all_new(&self, late: usize) -> bool {
        late == 0 && self.votes.iter().flatten().all(is_new)
    }

    /// Returns whether a majority granted the lock, and each of these grants is still valid.
    fn is_won(&self) -> bool {
        self.count(|vote| matches!(vote, Vote::Yes(guard) if guard.is_held())) >= self.need
    }

    fn won(self, members: &Arc<[Lock]>, late: FuturesUnordered<Asking>) -> Outcome {
        let mut failed = vec![];
        let mut grants: Vec<_> = (0..self.votes.len()).map(|_| None).collect();
        let mut late: Vec<Asking> = late.into_iter().map(|it| note_if_new(members, it)).collect();
        for (number, vote) in self.votes.into_iter().enumerate() {
            match vote {
                None => {}
                Some(Vote::No | Vote::Failed(_)) => failed.push(number),
                Some(vote @ Vote::New(_)) => {
                    late.push(note_if_new(members, Box::pin(async move { (number, vote) })));
                }
                Some(vote) => grants[number] = vote.grant(),
            }
        }
        Outcome::Won { grants, failed, late }
    }

    /// Replaces all votes of new servers, at the same time.
    async fn replace_new<'a, F>(
        &mut self,
        members: &'a [Lock],
        replace: impl Fn(&'a Lock, Vote) -> F,
    ) where
        F: Future<Output = Vote>,
    {
        let numbered = self.votes.iter_mut().enumerate();
        let replacing = numbered.filter_map(|(number, vote)| {
            let replaced = replace(&members[number], vote.take_if(|vote| is_new(vote))?);
            Some(async move { (number, replaced.await) })
        });
        let replacing: Vec<_> = replacing.collect();
        for (number, vote) in join_all(replacing).await {
            self.votes[number] = Some(vote);
        }
    }

    /// Returns the result, if no majority granted the lock.
    fn lost(self) -> Result<Outcome> {
        let (need, of) = (self.need, self.votes.len());
        let mut count = Count::of(self.votes);
        let permanent = count.errors.iter().filter(|error| !error.is_transient()).count();
        if of - permanent < need {
            count.errors.retain(|error| !error.is_transient());
            return Err(count.errors.swap_remove(0));
        }
        let silence = (count.voted < need).then(|| count.too_few(need, of));
        let Count { busy_at, divided, .. } = count;
        Ok(Outcome::Lost(VoteFailure { busy_at, divided, silence }))
    }
}

/// The numbers of the votes, if no majority granted the lock. Counting drops the grants, which
/// releases them.
#[derive(Default)]
struct Count {
    voted: usize,
    young: usize,
    busy_at: Option<usize>,
    divided: bool,
    errors: Vec<Error>,
}

impl Count {
    fn of(votes: Vec<Option<Vote>>) -> Self {
        let mut count = Self::default();
        for (number, vote) in votes.into_iter().enumerate() {
            match vote {
                Some(Vote::Failed(error)) => count.errors.push(error),
                Some(Vote::No | Vote::New(None)) => {
                    count.voted += 1;
                    count.busy_at.get_or_insert(number);
                }
                // The grant does not count, but it excludes other callers until it is released.
                Some(Vote::Young(_) | Vote::New(Some(_))) => {
                    count.young += 1;
                    count.divided = true;
                }
                Some(Vote::Yes(_)) => {
                    count.voted += 1;
                    count.divided = true;
                }
                None => count.voted += 1,
            }
        }
        count
    }

    /// Returns why fewer than `need` servers voted.
    fn too_few(&self, need: usize, of: usize) -> String {
        let Self { voted, young, errors, .. } = self;
        let mut reason =
            format!("only {voted} of {of} servers voted, but {need} must grant the lock");
        if *young > 0 {
            reason += &format!(
                "; {young} servers are new or lost their data less than one lease ago, so their \
                 votes do not count"
            );
        }
        if let Some(error) = errors.first() {
            reason += &format!("; {error}");
        }
        reason
    }
}

fn is_yes(vote: &Vote) -> bool {
    matches!(vote, Vote::Yes(_))
}

fn is_new(vote: &Vote) -> bool {
    matches!(vote, Vote::New(_))
}

impl VoteFailure {
    /// Returns the error for a caller whose timeout has elapsed after `waited`.
    pub(super) fn error(&self, name: &Name, waited: Duration) -> Error {
        let name = name.clone();
        match &self.silence {
            Some(reason) => Error::silent(name, reason.clone()),
            None => Error::timed_out(name, waited),
        }
    }
}
