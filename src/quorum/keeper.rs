//! Keeps a hold at as many servers as possible, while its guard exists.
//!
//! There is a hold at each server, which the watchdog of its client renews. The keeper is a task
//! that adds grants which arrive after the majority. If a hold at a server ends, it requests the
//! lock there again. So a server that was down, or restarted without its data, has the hold again.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{sync::watch, time::sleep};

use super::vote::{Asking, Vote, ask_again, majority};
use crate::{
    domain::{LostReason, Mutex, Name},
    primitives::{Lock, LockGuard},
};

/// The pause before a server is asked again that failed in the vote, or where another caller held
/// the lock.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long after the end of the leases the hold is checked, so that they have certainly ended.
const EXPIRY_MARGIN: Duration = Duration::from_millis(1);

/// The hold of a quorum, which its guard, its context and its keeper share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: Name,
    pub(super) need: usize,
    grants: Mutex<Grants>,
    over: watch::Sender<Option<LostReason>>,
}

/// The grants by server. They are closed when the guard releases them.
#[derive(Debug, Default)]
struct Grants {
    by_server: Vec<Option<LockGuard>>,
    closed: bool,
}

/// A change of the grant of one server.
enum Event {
    Voted(usize, Vote),
    Ended(usize, LostReason),
    Due(usize),
}

type Coming = Pin<Box<dyn Future<Output = Event> + Send>>;

impl Shared {
    pub(super) fn new(name: Name, by_server: Vec<Option<LockGuard>>) -> Self {
        let need = majority(by_server.len());
        let grants = Mutex::new(Grants { by_server, closed: false });
        Self { name, need, grants, over: watch::Sender::new(None) }
    }

    /// Returns why the hold is over, if it is.
    pub(super) fn over(&self) -> Option<LostReason> {
        *self.over.borrow()
    }

    /// Waits until the hold is over. The end of the leases also ends it, because the runtime of the
    /// keeper may be gone.
    pub(super) fn lost(self: &Arc<Self>) -> impl Future<Output = LostReason> + Send + use<> {
        let (shared, mut over) = (Arc::clone(self), self.over.subscribe());
        async move {
            loop {
                let left = match shared.remaining() {
                    Ok(left) => left,
                    Err(reason) => return reason,
                };
                tokio::select! {
                    biased;
                    _ = over.wait_for(Option::is_some) => {}
                    () = sleep(left + EXPIRY_MARGIN) => {}
                }
            }
        }
    }

    /// Returns how long a majority of the grants lasts without another renewal, or why they are
    /// over.
    pub(super) fn remaining(&self) -> Result<Duration, LostReason> {
        if let Some(reason) = self.over() {
            return Err(reason);
        }
        let grants = self.grants.lock();
        let mut left: Vec<_> =
            grants.by_server.iter().flatten().filter_map(LockGuard::remaining).collect();
        left.sort_unstable();
        left.len().checked_sub(self.need).map(|at| left[at]).ok_or(LostReason::Expired)
    }

    /// Adds the grant of a server, unless the hold is over. Returns a future that ends with the
    /// grant.
    fn add(&self, number: usize, guard: LockGuard) -> Option<Coming> {
        let mut grants = self.grants.lock();
        if grants.closed {
            return None;
        }
        let lost = guard.lost();
        grants.by_server[number] = Some(guard);
        Some(Box::pin(async move { Event::Ended(number, lost.await) }))
    }

    /// Removes the grant of a server, which ended for this reason. Returns whether a majority is
    /// left.
    fn remove(&self, number: usize, reason: LostReason) -> bool {
        let mut grants = self.grants.lock();
        let ended = grants.by_server[number].take();
        let is_held = grants.by_server.iter().flatten().count() >= self.need;
        drop(grants);
        drop(ended);
        if !is_held {
            self.end(reason);
        }
        is_held
    }

    /// Ends the hold, and returns its grants; that of the first server is the last one.
    ///
    /// Waiters wait at the first server where the lock is held. So that server releases last, when
    /// the lock is already free at the others.
    pub(super) fn close(&self) -> Vec<LockGuard> {
        let mut grants = self.grants.lock();
        grants.closed = true;
        let mut guards: Vec<_> = grants.by_server.iter_mut().filter_map(Option::take).collect();
        drop(grants);
        self.end(LostReason::Released);
        guards.reverse();
        guards
    }

    fn end(&self, reason: LostReason) {
        self.over.send_if_modified(|over| {
            let is_first = over.is_none();
            over.get_or_insert(reason);
            is_first
        });
    }

    /// Returns futures that end with the present grants.
    fn endings(&self) -> Vec<Coming> {
        let grants = self.grants.lock();
        let numbered = grants.by_server.iter().enumerate();
        let ending = |(number, guard): (usize, &Option<LockGuard>)| {
            let lost = guard.as_ref()?.lost();
            Some(Box::pin(async move { Event::Ended(number, lost.await) }) as Coming)
        };
        numbered.filter_map(ending).collect()
    }
}

/// Keeps the hold until too few of its grants are left for a majority. It asks the `failed` servers
/// again, and adds the grants of `late` ones.
pub(super) async fn keep(
    shared: Arc<Shared>,
    members: Arc<[Lock]>,
    failed: Vec<usize>,
    late: Vec<Asking>,
) {
    let mut coming: FuturesUnordered<Coming> = shared.endings().into_iter().collect();
    coming.extend(late.into_iter().map(voted));
    coming.extend(failed.into_iter().filter_map(|number| due(&members, number, RETRY_PAUSE)));
    while let Some(event) = coming.next().await {
        let next = match event {
            Event::Due(number) => Some(voted(ask_again(&members, number))),
            Event::Voted(number, vote) => {
                // Another caller holds the lock there for a moment, until it notices that it has no
                // majority.
                let is_busy = matches!(vote, Vote::No);
                match vote.grant() {
                    Some(guard) => shared.add(number, guard),
                    None if is_busy => due(&members, number, RETRY_PAUSE),
                    None => due(&members, number, members[number].terms().0 / 3),
                }
            }
            Event::Ended(number, reason) => match shared.remove(number, reason) {
                true => due(&members, number, Duration::ZERO),
                false => return,
            },
        };
        coming.extend(next);
    }
}

fn voted(asking: Asking) -> Coming {
    Box::pin(async move {
        let (number, vote) = asking.await;
        Event::Voted(number, vote)
    })
}

/// Asks a server without a grant after this pause. A hold with a fixed lease is not renewed, and not
/// granted again.
fn due(members: &[Lock], number: usize, pause: Duration) -> Option<Coming> {
    let (ttl, is_renewed) = members[number].terms();
    is_renewed.then(|| {
        let again = async move {
            sleep(pause.min(ttl / 3)).await;
            Event::Due(number)
        };
        Box::pin(again) as Coming
    })
}
