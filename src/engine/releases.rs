//! Releases nobody waits for: of dropped guards and of cancelled acquisitions.
//!
//! One task settles them, each until its lease would have ended anyway. What is
//! promised is owed even if whoever promised it is dropped: see [`Promise`].

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::{
    clock::Clock,
    courtesy::Courtesy,
    hold::{Grant, Hold},
    persist::persist,
    standing::LONGEST_OFFER,
    stats::Counters,
};
use crate::{
    domain::{Claim, Failure, GivenBack, Offer, Outcome, Way},
    store::Store,
};

/// What we owe the store, until a moment when it will have helped itself.
#[derive(Clone, Debug)]
pub(crate) enum Debt {
    /// See whether a grant has come that was withdrawn before; it was looked for
    /// so often already.
    LookAgain { claim: Claim, way: Way, until: Instant, looks: usize },
    /// Tell it how many shares the hold has.
    Recount { hold: Arc<Hold> },
    /// Give the lock back. A `late` one may find nothing and be needed all the
    /// same: a request to acquire is still on its way.
    Release { claim: Claim, way: Way, until: Instant, late: bool },
}

impl Debt {
    /// What is owed for `hold` when its last share is gone.
    pub(super) fn of(hold: &Hold) -> Self {
        let (claim, until) = (hold.claim().clone(), hold.store_ends());
        Self::Release { claim, way: hold.way(), until, late: hold.is_unsure() }
    }

    /// What is owed for a grant that no hold was made of.
    pub(super) fn of_grant(grant: &Grant) -> Self {
        let (claim, until) = (grant.claim.clone(), grant.store_ends());
        Self::Release { claim, way: grant.way(), until, late: grant.unsure }
    }

    /// What is owed for an offer that nobody takes.
    pub(super) fn of_offer(offer: &Offer, now: Instant) -> Self {
        let Offer { name, owner, passes, .. } = offer.clone();
        let claim = Claim { name, owner, ttl: LONGEST_OFFER, announced: true };
        // As often as before: nobody had it.
        let way = Way::InTurn { passes, stood: None };
        Self::Release { claim, way, until: now + LONGEST_OFFER, late: false }
    }

    fn claim(&self) -> &Claim {
        match self {
            Self::Recount { hold } => hold.claim(),
            Self::LookAgain { claim, .. } | Self::Release { claim, .. } => claim,
        }
    }

    /// Whether it is precaution only, which nobody need wait for.
    fn is_precaution(&self) -> bool {
        matches!(self, Self::LookAgain { .. })
    }
}

/// When to look again for a grant that arrives after it was withdrawn.
pub(super) const LOOK_AGAIN: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];

/// What this client owes its store.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    debts: Mutex<Debts>,
    changed: Notify,
    settled: Notify,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Debts {
    new: VecDeque<Debt>,
    /// Those that are being settled, by the order in which that began.
    open: BTreeMap<u64, Debt>,
    last: u64,
}

impl Releases {
    /// Settles `debt` in the background.
    pub(crate) fn owe(&self, debt: Debt) {
        self.debts().new.push_back(debt);
        self.changed.notify_one();
    }

    /// Promises `debt`: it is owed when the promise is dropped unless it is kept.
    pub(crate) fn promise(self: &Arc<Self>, debt: Debt) -> Promise {
        Promise { releases: Arc::clone(self), debt: Some(debt) }
    }

    /// Lets the task end when everything is settled.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// How many debts are not settled.
    pub(crate) fn owed(&self) -> usize {
        let debts = self.debts();
        let all = debts.new.iter().chain(debts.open.values());
        all.filter(|debt| !debt.is_precaution()).count()
    }

    /// Waits until nothing is owed.
    pub(crate) async fn all_settled(&self) {
        loop {
            let settled = self.settled.notified();
            if self.owed() == 0 {
                return;
            }
            settled.await;
        }
    }

    /// Settles what is owed, until it is closed.
    pub(crate) async fn run(
        self: Arc<Self>,
        store: Arc<dyn Store>,
        clock: Clock,
        counters: Arc<Counters>,
        courtesy: Arc<Courtesy>,
    ) {
        let mut settling = FuturesUnordered::new();
        self.take_up_again();
        loop {
            while let Some((number, debt)) = self.next() {
                let settled = settle(&store, &clock, &counters, &courtesy, debt);
                settling.push(async move { (number, settled.await) });
            }
            if settling.is_empty() && self.closed.load(Ordering::Acquire) {
                return;
            }
            tokio::select! {
                biased;
                Some((number, more)) = settling.next() => self.is_settled(number, more),
                () = self.changed.notified() => {}
            }
        }
    }

    /// Owes anew what a runtime took down with it while it was being settled.
    fn take_up_again(&self) {
        let mut debts = self.debts();
        let open = std::mem::take(&mut debts.open);
        debts.new.extend(open.into_values());
    }

    fn next(&self) -> Option<(u64, Debt)> {
        let mut debts = self.debts();
        let debt = debts.new.pop_front()?;
        debts.last += 1;
        let number = debts.last;
        debts.open.insert(number, debt.clone());
        Some((number, debt))
    }

    fn is_settled(&self, number: u64, more: Option<Debt>) {
        let mut debts = self.debts();
        debts.open.remove(&number);
        debts.new.extend(more);
        drop(debts);
        self.settled.notify_waiters();
    }

    fn debts(&self) -> MutexGuard<'_, Debts> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settles `debt`. Returns what is owed after it.
async fn settle(
    store: &Arc<dyn Store>,
    clock: &Clock,
    counters: &Counters,
    courtesy: &Courtesy,
    debt: Debt,
) -> Option<Debt> {
    match try_to_settle(store, clock, courtesy, &debt).await {
        Ok(more) => more,
        Err(failure) => {
            counters.release_abandoned();
            let claim = debt.claim();
            tracing::warn!(target: "leasehold", lock = %claim.name, owner = %claim.owner, %failure,
                "a release was given up: the lease ends by itself");
            None
        }
    }
}

async fn try_to_settle(
    store: &Arc<dyn Store>,
    clock: &Clock,
    courtesy: &Courtesy,
    debt: &Debt,
) -> Result<Option<Debt>, Failure> {
    let (claim, way, until, looks) = match debt {
        Debt::Recount { hold } => {
            recount(store, clock, hold, None, hold.store_ends()).await?;
            return Ok(None);
        }
        Debt::Release { claim, way, until, late } => (claim, *way, *until, late.then_some(0)),
        Debt::LookAgain { claim, way, until, looks } => {
            sleep(LOOK_AGAIN[*looks]).await;
            (claim, *way, *until, Some(looks + 1))
        }
    };
    let given = persist(clock, until, || store.release(claim, way)).await?;
    let freed = match given.answer {
        GivenBack::Freed(sought) => {
            courtesy.note(&claim.name, sought);
            true
        }
        GivenBack::NotHeld { .. } => false,
    };
    // A grant may still come that was asked for before, also after one that came
    // to a place in the queue.
    let queued = matches!(way, Way::InTurn { stood: Some(_), .. });
    let settled = freed && !queued;
    let next = looks.filter(|looks| *looks < LOOK_AGAIN.len() && !settled);
    let next = next.filter(|looks| clock.now() + LOOK_AGAIN[*looks] < until);
    Ok(next.map(|looks| Debt::LookAgain { claim: claim.clone(), way, until, looks }))
}

/// Tells the store how many shares `hold` has, until that is what it was told.
pub(super) async fn recount(
    store: &Arc<dyn Store>,
    clock: &Clock,
    hold: &Hold,
    ttl: Option<Duration>,
    until: Instant,
) -> Result<Outcome, Failure> {
    loop {
        let shares = hold.shares();
        // Nobody holds a share any more: the release takes it all.
        if shares == 0 {
            return Ok(Outcome::Renewed);
        }
        let given = persist(clock, until, || store.recount(hold.claim(), shares, ttl)).await?;
        // Others may have told another number meanwhile, and have been executed
        // in another order.
        if given.answer != Outcome::Renewed || hold.shares() == shares {
            return Ok(given.answer);
        }
    }
}

/// A debt that is owed unless the promise is kept.
#[derive(Debug)]
pub(crate) struct Promise {
    releases: Arc<Releases>,
    debt: Option<Debt>,
}

impl Promise {
    /// Nothing is owed any more.
    pub(crate) fn kept(mut self) {
        self.debt = None;
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(debt) = self.debt.take() {
            self.releases.owe(debt);
        }
    }
}
