//! Keeps the hold of a quorum lock at as many servers as possible, while its guard exists.
//!
//! The watchdog of each client renews the hold at its server. The keeper is a task with two duties.
//! It adds grants that arrive after the majority. If the hold at a server ends, it requests the
//! lock at this server again. So if a server was down, or has restarted without its data, the
//! server gets the hold again.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{sync::watch, time::sleep};

use super::vote::{Asking, Vote, ask_again, majority};
use crate::{
    domain::{LostReason, Mutex, Name},
    primitives::{Lock, LockGuard},
};

/// If a server failed in the vote, or if another caller held the lock there, the keeper asks it
/// again after this pause.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A check runs this much later than the calculated end of the leases, so that it finds them ended.
const EXPIRY_MARGIN: Duration = Duration::from_millis(1);

/// The hold of a quorum lock, which its guard, its contexts and its keeper share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: Name,
    pub(super) need: usize,
    grants: Mutex<Grants>,
    over: watch::Sender<Option<LostReason>>,
}

/// The grants by server. `closed` means that the guard has released them, so no grant may be added.
#[derive(Debug, Default)]
struct Grants {
    by_server: Vec<Option<LockGuard>>,
    closed: bool,
}

/// An event for the keeper, with the number of a server: its vote, the end of its grant, or the end
/// of a pause.
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

    /// Returns why the hold has ended, or `None` while it lasts.
    pub(super) fn over(&self) -> Option<LostReason> {
        *self.over.borrow()
    }

    /// Waits until the hold has ended. It does not rely on the keeper alone, because the runtime of
    /// the keeper may have been shut down. A timer also ends the wait when the leases end.
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

    /// Returns how long a majority of the grants lasts without another renewal, or why the hold has
    /// ended.
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

    /// Adds the grant of a server. Returns a future that completes when the grant ends. If the hold
    /// has ended, drops the grant and returns `None`.
    fn add(&self, number: usize, guard: LockGuard) -> Option<Coming> {
        let mut grants = self.grants.lock();
        if grants.closed {
            return None;
        }
        let lost = guard.lost();
        grants.by_server[number] = Some(guard);
        Some(Box::pin(async move { Event::Ended(number, lost.await) }))
    }

    /// Removes the grant of a server, which has ended for this reason. Returns whether the
    /// remaining grants are a majority.
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

    /// Ends the hold, and returns its grants in reverse order: the grant of the first server comes
    /// last.
    ///
    /// Waiters wait at the first server at which the lock is held, so the first server should
    /// release last. When it wakes a waiter, the lock is already free at the other servers.
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

    /// Returns a future for each current grant, which completes when the grant ends.
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

/// Keeps the hold until the remaining grants are no majority. It asks the `failed` servers again,
/// and adds grants of the `late` ones.
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
                // The other caller holds the lock at this server until it notices that it has no
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

/// Returns a future that completes when a server must be asked again. `None` for a fixed lease,
/// because such a hold is neither renewed nor requested again.
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
