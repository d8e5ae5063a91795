//! What this client owes its store: releases that nobody waits for, of dropped guards and
//! of cancelled acquisitions.
//!
//! Who settles something itself owes it if it is dropped before it is done.
//! One mutex guards the list. It is a leaf: whoever holds another lock may take it.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    domain::{Claim, Mutex, Owner, ReleaseMode, Seldom},
    engine::hold::Hold,
};

/// What we owe the store, until a moment when it will have helped itself.
#[derive(Clone, Debug)]
pub(crate) enum Debt {
    /// Give the lock back.
    Release(Withdrawal),
    /// Give back once more what another server was told to be given back.
    Repeat { claim: Claim, until: Instant },
    /// Tell it how many shares the hold has.
    Recount { hold: Arc<Hold> },
}

/// A grant, or a question that may still be granted, to be taken back.
#[derive(Clone, Debug)]
pub(crate) struct Withdrawal {
    pub(crate) claim: Claim,
    /// The number of the grant, if it was entered: it may still be kept alive.
    pub(crate) grant: Option<u64>,
    pub(crate) mode: ReleaseMode,
    /// When the store has helped itself: the lease is over. If a question is still on its way
    /// that is not before it can have been executed.
    pub(crate) until: Instant,
    /// How often it was looked for already, if a question is still on its way: it may find
    /// nothing and be needed all the same.
    pub(crate) looks: Option<usize>,
    /// The hold that leaves with it, if who comes waits for that.
    pub(crate) hold: Option<Arc<Hold>>,
    /// Whether a grant may still come after what it finds: that may be a reservation, or the
    /// grant of a later question than one that is still on its way.
    pub(crate) more: bool,
}

impl Debt {
    /// What is owed for `hold` at `now`: its last share is gone, or its grant is of use to nobody.
    pub(crate) fn of(hold: &Arc<Hold>, mode: ReleaseMode, now: Instant) -> Self {
        // What is forgotten is asked for no more: the store sees to that.
        let unsure = hold.grant.unsure && mode != ReleaseMode::Forget;
        Self::Release(Withdrawal {
            claim: hold.grant.claim.clone(),
            grant: Some(hold.grant.id),
            mode,
            until: hold.owed_until(now),
            looks: unsure.then_some(0),
            hold: hold.object().manner().is_shared().then(|| Arc::clone(hold)),
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

    /// Who is given back once more.
    fn repeats(&self) -> Option<&Owner> {
        match self {
            Self::Repeat { claim, .. } => Some(&claim.owner),
            Self::Release(_) | Self::Recount { .. } => None,
        }
    }

    /// Whether it is precaution only, which nobody need wait for.
    fn is_precaution(&self) -> bool {
        matches!(self, Self::Repeat { .. } | Self::Release(Withdrawal { looks: Some(1..), .. }))
    }
}

/// What this client owes its store.
#[derive(Default)]
pub(crate) struct Debts {
    list: Mutex<List>,
    changed: Notify,
    settled: Notify,
    pub(super) given_up: Seldom,
    pub(super) refused: Seldom,
}

/// By the order in which they came.
#[derive(Default)]
struct List {
    owed: BTreeMap<u64, Debt>,
    last: u64,
}

impl List {
    fn add(&mut self, debt: Debt) {
        self.last += 1;
        self.owed.insert(self.last, debt);
    }
}

impl Debts {
    /// Has `debt` settled in the background.
    pub(crate) fn owe(&self, debt: Debt) {
        self.list.lock().add(debt);
        self.changed.notify_one();
    }

    /// Has each of `claims` given back once more, until then, unless that is owed already.
    pub(crate) fn owe_again(&self, claims: Vec<(Claim, Instant)>) {
        let mut list = self.list.lock();
        let owed: HashSet<_> = list.owed.values().filter_map(Debt::repeats).cloned().collect();
        for (claim, until) in claims {
            if !owed.contains(&claim.owner) {
                list.add(Debt::Repeat { claim, until });
            }
        }
        drop(list);
        self.changed.notify_one();
    }

    /// How many debts are not settled.
    pub(crate) fn owed(&self) -> usize {
        self.list.lock().owed.values().filter(|debt| !debt.is_precaution()).count()
    }

    /// How many there are, precautions too.
    #[cfg(test)]
    pub(crate) fn listed(&self) -> usize {
        self.list.lock().owed.len()
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

    /// Waits until there may be something new.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The first one that came after that with this number, and its own number.
    pub(super) fn after(&self, number: u64) -> Option<(u64, Debt)> {
        let list = self.list.lock();
        let (number, debt) = list.owed.range(number + 1..).next()?;
        Some((*number, debt.clone()))
    }

    /// Notes that this one is settled but for `more`.
    pub(super) fn is_settled(&self, number: u64, more: Option<Debt>) {
        let mut list = self.list.lock();
        list.owed.remove(&number);
        more.into_iter().for_each(|debt| list.add(debt));
        drop(list);
        self.settled.notify_waiters();
    }
}
