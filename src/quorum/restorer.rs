//! Keeps the hold of a quorum lock at as many servers as possible, while its guard exists.
//!
//! The watchdog of each client renews the hold at its server. The restorer is a task that adds
//! grants that arrive after the majority. If the hold at a server ends, the restorer requests the
//! lock there again. So a server that was down, or has restarted without its data, gets the hold
//! again.
//!
//! If a server kept its data but not the grant, a client may have released the grant by force. So
//! the restorer first waits for one *ttl*. By then, a forced release at the other servers has ended
//! the hold. If the hold still has a majority, no other client holds the lock.

use std::{pin::Pin, slice, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, sleep},
};

use super::vote::{PendingVote, Vote, ask, has_kept_its_data, majority, mark_new};
use crate::{
    domain::{LostReason, Mutex, Name, spread},
    engine::timing::NEXT_TICK,
    primitives::{Lock, LockGuard},
    store::quorum::DataAge,
};

/// If a server has not granted the lock, the restorer asks it again after about this pause. The
/// jitter prevents that another client always has the lock there at that moment.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The hold of a quorum lock, which its guard, its contexts and its restorer share.
#[derive(Debug)]
pub(super) struct QuorumHold {
    pub(super) members: Arc<[Lock]>,
    /// The grants by server. When the hold is over, no grant may be added.
    grants: Mutex<Vec<Option<LockGuard>>>,
    over: watch::Sender<Option<LostReason>>,
}

/// An event for the restorer: a vote, or the end of the grant that the server with this number gave
/// at this moment.
pub(super) enum Event {
    Voted(Vote),
    Ended(usize, LostReason, Instant),
}

pub(super) type NextEvent = Pin<Box<dyn Future<Output = Event> + Send>>;

impl QuorumHold {
    pub(super) fn new(members: &Arc<[Lock]>) -> Self {
        let grants = Mutex::new(members.iter().map(|_| None).collect());
        Self { members: Arc::clone(members), grants, over: watch::Sender::new(None) }
    }

    pub(super) fn name(&self) -> &Name {
        self.members[0].name()
    }

    /// Returns how many servers are a majority.
    pub(super) fn need(&self) -> usize {
        majority(self.members.len())
    }

    /// Waits until the hold has ended. The runtime of the restorer may have been shut down, so a
    /// timer also ends the wait when the leases end. Without a runtime, there is no timer.
    pub(super) fn lost(self: &Arc<Self>) -> impl Future<Output = LostReason> + Send + use<> {
        let (hold, mut over) = (Arc::clone(self), self.over.subscribe());
        async move {
            loop {
                let left = match hold.time_left() {
                    Ok(left) => left,
                    Err(reason) => return reason,
                };
                tokio::select! {
                    biased;
                    _ = over.wait_for(Option::is_some) => {}
                    () = async { sleep(left + NEXT_TICK).await },
                        if Handle::try_current().is_ok() => {}
                }
            }
        }
    }

    /// Returns how long a majority of the grants lasts without another renewal, or why the hold has
    /// ended.
    pub(super) fn time_left(&self) -> Result<Duration, LostReason> {
        if let Some(reason) = *self.over.borrow() {
            return Err(reason);
        }
        let grants = self.grants.lock();
        let mut left: Vec<_> = grants.iter().flatten().filter_map(LockGuard::remaining).collect();
        left.sort_unstable();
        // The end is final, even if a server grants the lock once more.
        left.len().checked_sub(self.need()).map(|at| left[at]).ok_or_else(|| {
            let lost = grants.iter().flatten().find_map(|it| it.watch().remaining().err());
            let reason = lost.unwrap_or(LostReason::Expired);
            self.end(reason);
            reason
        })
    }

    pub(super) fn remaining(&self) -> Option<Duration> {
        self.time_left().ok()
    }

    /// Adds the grant of a vote, and returns the future that awaits the end of this grant. If the
    /// vote has no grant, returns the future that awaits the next vote of the server. If the hold
    /// has ended, drops the grant.
    pub(super) fn add(&self, (number, vote): Vote) -> Option<NextEvent> {
        let Some(guard) = vote.ok().and_then(|reply| reply.grant) else {
            return self.ask_after(RETRY_PAUSE, number);
        };
        let mut grants = self.grants.lock();
        if self.over.borrow().is_some() {
            return None;
        }
        let (lost, granted) = (guard.lost(), Instant::now());
        grants[number] = Some(guard);
        Some(Box::pin(async move { Event::Ended(number, lost.await, granted) }))
    }

    /// Removes the grant of a server, which has ended for this reason. If the remaining grants are
    /// no majority, ends the hold and releases these grants. Returns whether the hold remains.
    fn remove(&self, number: usize, reason: LostReason) -> bool {
        let mut grants = self.grants.lock();
        let mut ended = vec![grants[number].take()];
        let held = grants.iter().flatten().filter(|grant| grant.is_held()).count();
        let is_held = held >= self.need() && self.over.borrow().is_none();
        if !is_held {
            self.end(reason);
            ended.extend(grants.iter_mut().map(Option::take));
        }
        drop(grants);
        drop(ended);
        is_held
    }

    /// Ends the hold, and returns its grants in reverse order: the grant of the first server comes
    /// last.
    ///
    /// Waiters wait at the first server at which the lock is held, so the first server should
    /// release last. When it wakes a waiter, the lock is already free at the other servers.
    pub(super) fn close(&self) -> Vec<LockGuard> {
        let mut grants = self.grants.lock();
        self.end(LostReason::Released);
        grants.iter_mut().rev().filter_map(Option::take).collect()
    }

    fn end(&self, reason: LostReason) {
        self.over.send_if_modified(|over| over.is_none() && over.replace(reason).is_none());
    }

    /// Awaits the vote of a server. If the server is new, notes that its data begins now. Such a
    /// server has lost its data, because a majority of the servers still have theirs.
    pub(super) fn voted(&self, asking: PendingVote) -> NextEvent {
        let members = Arc::clone(&self.members);
        Box::pin(async move {
            let mut vote = asking.await;
            mark_new(&members, slice::from_mut(&mut vote), DataAge::Note).await;
            Event::Voted(vote)
        })
    }

    /// Asks a server again that no longer has the grant of the moment `granted`. If the server has
    /// kept its data, asks after one *ttl*.
    fn ask_again(&self, number: usize, reason: LostReason, granted: Instant) -> Option<NextEvent> {
        let (members, again) = (Arc::clone(&self.members), self.ask_after(Duration::ZERO, number)?);
        Some(Box::pin(async move {
            let lock = &members[number];
            if reason == LostReason::NotOwned && has_kept_its_data(lock, granted).await {
                sleep(lock.terms().0).await;
            }
            again.await
        }))
    }

    /// Asks a server after a pause. `None` for a fixed lease, because such a hold is neither
    /// renewed nor requested again.
    fn ask_after(&self, pause: Duration, number: usize) -> Option<NextEvent> {
        let (members, (ttl, is_renewed)) =
            (Arc::clone(&self.members), self.members[number].terms());
        let asking = async move {
            sleep(spread(pause.min(ttl / 3))).await;
            ask(&members, number, None).await
        };
        is_renewed.then(|| self.voted(Box::pin(asking)))
    }
}

/// Restores the hold until the remaining grants are no majority.
pub(super) async fn restore(hold: Arc<QuorumHold>, mut events: FuturesUnordered<NextEvent>) {
    while let Some(event) = events.next().await {
        events.extend(match event {
            Event::Voted(vote) => hold.add(vote),
            Event::Ended(number, reason, granted) if hold.remove(number, reason) => {
                hold.ask_again(number, reason, granted)
            }
            Event::Ended(..) => return,
        });
    }
}
