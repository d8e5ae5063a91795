//! The pending releases of this client: of dropped guards, and of cancelled acquisitions.
//!
//! If a task is dropped while it awaits a release, the release is queued here. One mutex guards the
//! list. The mutex is a leaf: a task may take it while it holds another lock.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    domain::{Claim, LogThrottle, Mutex, Object, Owner, ReleaseMode},
    engine::hold::Hold,
};

/// A release that the background task retries, until the store would have ended the hold itself.
#[derive(Clone, Debug)]
pub(crate) enum PendingRelease {
    Release(Withdrawal),
    /// Repeat a release, because the server that executed this release may have been replaced.
    Repeat {
        claim: Claim,
        until: Instant,
    },
    /// Send the number of shares of the hold.
    Recount {
        hold: Arc<Hold>,
    },
}

/// A grant to release, or a withdrawn request that the store may still grant.
#[derive(Clone, Debug)]
pub(crate) struct Withdrawal {
    pub(crate) claim: Claim,
    /// The number of the grant, if it became a hold. The watchdog may still renew this grant.
    pub(crate) grant: Option<u64>,
    pub(crate) mode: ReleaseMode,
    /// The latest end of the lease in the store. The lease of a request in flight begins at its
    /// execution, up to `LATEST_EXECUTION` after the request was sent.
    pub(crate) until: Instant,
    /// If a request may still be in flight: how often the release has already run. The release runs
    /// again, because the store may execute that request later.
    pub(crate) looks: Option<usize>,
    /// The released hold, if it counts as present until the store has replied to this release.
    pub(crate) hold: Option<Arc<Hold>>,
    /// Whether to release again, even if the release has found a hold. That hold may be a
    /// reservation, or the grant of a later request, so an earlier request may still be granted.
    pub(crate) more: bool,
}

impl PendingRelease {
    /// Returns the release of `hold`, for the background task to send from `now` on.
    pub(crate) fn of(hold: &Arc<Hold>, mode: ReleaseMode, now: Instant) -> Self {
        // After `Forget`, the store rejects later requests of this owner. So no late grant can
        // come, and the release is not repeated.
        let unsure = hold.grant.unsure && mode != ReleaseMode::Forget;
        Self::Release(Withdrawal {
            claim: hold.claim_at_end().into_owned(),
            grant: Some(hold.grant.id),
            mode,
            until: hold.pending_until(now),
            looks: unsure.then_some(0),
            hold: hold.ends_with_release_reply().then(|| Arc::clone(hold)),
            more: unsure,
        })
    }

    pub(crate) fn claim(&self) -> &Claim {
        match self {
            Self::Recount { hold } => &hold.grant.claim,
            Self::Repeat { claim, .. } => claim,
            Self::Release(withdrawal) => &withdrawal.claim,
        }
    }

    fn unique_key(&self) -> Option<UniqueKey> {
        match self {
            Self::Recount { hold } => Some(UniqueKey::Recount(hold.grant.id)),
            Self::Repeat { claim, .. } => {
                Some(UniqueKey::Repeat(claim.object.clone(), claim.owner.clone()))
            }
            Self::Release(_) => None,
        }
    }

    /// Whether this release is only a precaution, for which a shutdown does not wait.
    fn is_precaution(&self) -> bool {
        matches!(self, Self::Repeat { .. } | Self::Release(Withdrawal { looks: Some(1..), .. }))
    }
}

/// At most one pending release exists for each of these keys.
#[derive(Debug, Eq, Hash, PartialEq)]
enum UniqueKey {
    Repeat(Object, Owner),
    Recount(u64),
}

#[derive(Default)]
pub(crate) struct PendingReleases {
    list: Mutex<List>,
    changed: Notify,
    completed: Notify,
    pub(super) given_up: LogThrottle,
    pub(super) refused: LogThrottle,
}

/// The pending releases, in the order in which they were queued.
#[derive(Default)]
struct List {
    queued: BTreeMap<u64, PendingRelease>,
    /// The unique keys of the queued releases, and whether the same release was queued again.
    unique_key: HashMap<UniqueKey, bool>,
    last: u64,
}

impl List {
    fn add(&mut self, pending: PendingRelease) {
        match pending.unique_key().map(|unique_key| self.unique_key.entry(unique_key)) {
            Some(Entry::Occupied(mut again)) => {
                again.insert(true);
                return;
            }
            Some(Entry::Vacant(first)) => drop(first.insert(false)),
            None => {}
        }
        self.last += 1;
        self.queued.insert(self.last, pending);
    }

    /// Removes the release with this number. If the same release was queued again meanwhile, it
    /// stays queued. The run that just ended may have been sent before the grant arrived, or to a
    /// server that was replaced.
    fn remove(&mut self, number: u64) {
        let Some(pending) = self.queued.remove(&number) else { return };
        let again = pending.unique_key().and_then(|unique_key| self.unique_key.remove(&unique_key));
        if again == Some(true) {
            self.add(pending);
        }
    }
}

impl PendingReleases {
    pub(crate) fn queue(&self, pending: PendingRelease) {
        self.list.lock().add(pending);
        self.changed.notify_one();
    }

    /// Queues one more release of each claim. Its retries end at the given time.
    pub(super) fn queue_again(&self, claims: impl IntoIterator<Item = (Claim, Instant)>) {
        let mut list = self.list.lock();
        claims
            .into_iter()
            .for_each(|(claim, until)| list.add(PendingRelease::Repeat { claim, until }));
        drop(list);
        self.changed.notify_one();
    }

    /// Returns the number of pending releases, without precautions.
    pub(crate) fn queued(&self) -> usize {
        self.list.lock().queued.values().filter(|pending| !pending.is_precaution()).count()
    }

    /// Returns the number of pending releases, including precautions.
    #[cfg(test)]
    pub(crate) fn listed(&self) -> usize {
        self.list.lock().queued.len()
    }

    /// Waits until no release is pending, except precautions.
    pub(super) async fn all_completed(&self) {
        loop {
            let completed = self.completed.notified();
            if self.queued() == 0 {
                return;
            }
            completed.await;
        }
    }

    /// Waits until the list may have changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the first release that was queued after this number, and its number.
    pub(super) fn after(&self, number: u64) -> Option<(u64, PendingRelease)> {
        let list = self.list.lock();
        let (number, pending) = list.queued.range(number + 1..).next()?;
        Some((*number, pending.clone()))
    }

    /// Records that the release with this number has run. If `more` of this release is still to do,
    /// queues that part.
    pub(super) fn is_completed(&self, number: u64, more: Option<PendingRelease>) {
        let mut list = self.list.lock();
        list.remove(number);
        more.into_iter().for_each(|pending| list.add(pending));
        drop(list);
        self.completed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    /// A release that was queued again during its run is repeated, because the run may have come a
    /// moment too early.
    #[test]
    fn release_that_is_queued_again_while_it_runs_is_repeated() {
        let (pending, until) = (PendingReleases::default(), Instant::now() + TTL);
        let claim = Claim::plain(Object::lock("door"), Owner::new("one:1").unwrap(), TTL);
        for _ in 0..3 {
            pending.queue_again([(claim.clone(), until)]);
        }
        assert_eq!(pending.listed(), 1);
        pending.is_completed(1, None);
        let (number, again) = pending.after(1).unwrap();
        assert!(
            matches!(again, PendingRelease::Repeat { .. }) && pending.listed() == 1,
            "{again:?}"
        );
        pending.is_completed(number, None);
        assert_eq!(pending.listed(), 0);
    }
}
