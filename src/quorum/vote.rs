//! One vote: all servers are asked at once, and the lock is granted when a majority has granted it.

use std::{fmt::Write, pin::Pin, sync::Arc, time::Duration};

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

/// Timeout for the reply of one server. A server that is down must not delay a decision for as
/// long as a command may take.
const ANSWER: Duration = Duration::from_millis(500);

/// The vote of one server.
#[derive(Debug)]
pub(super) enum Vote {
    /// It granted the lock.
    Yes(LockGuard),
    /// It granted the lock, and did not know the name.
    New(LockGuard),
    /// It granted the lock, and has known the name for less than a lease: it may have forgotten
    /// the grant of another holder. It does not count.
    Young(LockGuard),
    /// Another owner holds the lock there.
    No,
    /// It did not reply in time, or rejected the request.
    Failed(Error),
}

impl Vote {
    /// Returns the grant of this server, if it granted the lock.
    pub(super) fn grant(self) -> Option<LockGuard> {
        match self {
            Self::Yes(guard) | Self::New(guard) | Self::Young(guard) => Some(guard),
            Self::No | Self::Failed(_) => None,
        }
    }
}

/// The vote of a server, with the number of the server.
pub(super) type Asking = Pin<Box<dyn Future<Output = (usize, Vote)> + Send>>;

/// The result of a vote.
pub(super) enum Outcome {
    /// A majority granted the lock.
    Won {
        /// The grants by server.
        grants: Vec<Option<LockGuard>>,
        /// The servers that did not grant it.
        failed: Vec<usize>,
        /// The servers that have not voted yet.
        late: Vec<Asking>,
    },
    /// No majority granted it. All grants are released.
    Lost(Obstacle),
}

/// Why a vote was lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Obstacle {
    /// The first server at which another owner holds the lock.
    pub(super) busy_at: Option<usize>,
    /// Whether some servers granted the lock: several callers may have divided the servers.
    pub(super) divided: bool,
    /// Why too few servers voted, if too few did.
    pub(super) silence: Option<String>,
}

/// The number of servers that are a majority of `members`.
pub(super) fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// Asks the server `number` for the lock, unless it `granted` it before.
pub(super) fn ask(members: &Arc<[Lock]>, number: usize, granted: Option<LockGuard>) -> Asking {
    let members = Arc::clone(members);
    Box::pin(async move {
        let lock = &members[number];
        let silent =
            || Err(Error::silent(lock.name().clone(), format!("no reply within {ANSWER:?}")));
        let vote = timeout(ANSWER, vote(lock, granted)).await;
        (number, vote.unwrap_or_else(|_| silent()).unwrap_or_else(Vote::Failed))
    })
}

/// Acquires the lock at one server, then checks that the server has not lost its data lately.
///
/// The order matters. A server that restarts between the two requests has lost the grant, and says
/// that it does not know the name.
async fn vote(lock: &Lock, granted: Option<LockGuard>) -> Result<Vote> {
    let guard = match granted {
        Some(guard) => guard,
        None => match lock.try_acquire().await? {
            Some(guard) => guard,
            None => return Ok(Vote::No),
        },
    };
    let (name, (ttl, _)) = (lock.name(), lock.terms());
    let known = lock.engine().ask(name, |store| quorum::known_for(store, name, ttl)).await?;
    Ok(match known {
        None => Vote::New(guard),
        Some(time) if time < ttl => Vote::Young(guard),
        Some(_) => Vote::Yes(guard),
    })
}

/// Notes that this server always knew the name, if its vote says that it did not.
async fn confirmed(lock: &Lock, vote: Vote) -> Vote {
    let Vote::New(guard) = vote else { return vote };
    let (name, (ttl, _)) = (lock.name(), lock.terms());
    let trusting = lock.engine().ask(name, |store| quorum::trust(store, name, ttl));
    match timeout(ANSWER, trusting).await {
        Ok(Ok(())) => Vote::Yes(guard),
        Ok(Err(error)) => Vote::Failed(error),
        Err(_) => Vote::Young(guard),
    }
}

/// Asks all servers at once, and returns as soon as the result is certain.
///
/// # Errors
///
/// The error of a server that will reject each retry, if no majority is possible without it.
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
        if ballot.count(is_new) >= ballot.need {
            ballot.trust(members).await;
        }
        if ballot.is_won() {
            return Ok(ballot.won(members, late));
        }
    }
    ballot.lost()
}

/// The votes so far.
struct Ballot {
    need: usize,
    votes: Vec<Option<Vote>>,
    /// Whether the name is new to a majority of the servers.
    is_new: bool,
}

impl Ballot {
    fn of(members: usize) -> Self {
        Self { need: majority(members), votes: (0..members).map(|_| None).collect(), is_new: false }
    }

    fn count(&self, is: impl Fn(&Vote) -> bool) -> usize {
        self.votes.iter().flatten().filter(|vote| is(vote)).count()
    }

    /// Returns whether `late` more votes can still decide.
    fn is_open(&self, late: usize) -> bool {
        self.count(is_yes).max(self.count(is_new)) + late >= self.need
    }

    /// Returns whether a majority granted the lock, and each of these grants is still valid.
    fn is_won(&self) -> bool {
        self.count(|vote| matches!(vote, Vote::Yes(guard) if guard.is_held())) >= self.need
    }

    fn won(self, members: &Arc<[Lock]>, late: FuturesUnordered<Asking>) -> Outcome {
        let has_failed = |vote: &Option<Vote>| matches!(vote, Some(Vote::No | Vote::Failed(_)));
        let numbers = 0..self.votes.len();
        let failed = numbers.filter(|number| has_failed(&self.votes[*number])).collect();
        let grants = self.votes.into_iter().map(|vote| vote.and_then(Vote::grant)).collect();
        let confirm = |asking: Asking| -> Asking {
            let members = Arc::clone(members);
            Box::pin(async move {
                let (number, vote) = asking.await;
                (number, confirmed(&members[number], vote).await)
            })
        };
        // A name that is new to the majority is new to the others as well.
        let late = late.into_iter();
        let late = if self.is_new { late.map(confirm).collect() } else { late.collect() };
        Outcome::Won { grants, failed, late }
    }

    /// Counts the grants of a new name: a majority of the servers does not know it.
    async fn trust(&mut self, members: &Arc<[Lock]>) {
        self.is_new = true;
        let numbered = self.votes.iter_mut().enumerate();
        let confirm = |(number, vote): (usize, &mut Option<Vote>)| {
            let vote = vote.take_if(|vote| is_new(vote))?;
            Some(async move { (number, confirmed(&members[number], vote).await) })
        };
        let confirming: Vec<_> = numbered.filter_map(confirm).collect();
        for (number, vote) in join_all(confirming).await {
            self.votes[number] = Some(vote);
        }
    }

    /// The result of a vote that no majority won.
    fn lost(self) -> Result<Outcome> {
        let (need, of) = (self.need, self.votes.len());
        let (mut obstacle, mut errors) = (Obstacle::default(), vec![]);
        let (mut voted, mut young) = (0, 0);
        for (number, vote) in self.votes.into_iter().enumerate() {
            match vote {
                Some(Vote::Failed(error)) => errors.push(error),
                Some(Vote::No) => {
                    voted += 1;
                    obstacle.busy_at.get_or_insert(number);
                }
                // Its grant keeps others out for a moment, although it does not count.
                Some(Vote::Young(_)) => {
                    young += 1;
                    obstacle.divided = true;
                }
                Some(Vote::Yes(_) | Vote::New(_)) => {
                    voted += 1;
                    obstacle.divided = true;
                }
                None => voted += 1,
            }
        }
        let lasting = errors.iter().filter(|error| !error.is_transient()).count();
        if of - lasting < need {
            errors.retain(|error| !error.is_transient());
            return Err(errors.swap_remove(0));
        }
        if voted < need {
            let mut reason = format!("{voted} of {of} servers voted, and {need} must grant it");
            if young > 0 {
                write!(reason, "; {young} lost their data less than a lease ago").ok();
            }
            if let Some(error) = errors.first() {
                write!(reason, "; {error}").ok();
            }
            obstacle.silence = Some(reason);
        }
        Ok(Outcome::Lost(obstacle))
    }
}

fn is_yes(vote: &Vote) -> bool {
    matches!(vote, Vote::Yes(_))
}

fn is_new(vote: &Vote) -> bool {
    matches!(vote, Vote::New(_))
}

impl Obstacle {
    /// The error of a caller that has waited for `waited`.
    pub(super) fn error(&self, name: &Name, waited: Duration) -> Error {
        let name = name.clone();
        match &self.silence {
            Some(reason) => Error::silent(name, reason.clone()),
            None => {
                Error::TimedOut { name, waited, holder: None, by_this_client: false, unset: false }
            }
        }
    }
}
