//! What this client owes its store: releases that nobody waits for, of dropped guards and
//! of cancelled acquisitions.
//!
//! What is promised is owed even if whoever promised it is dropped: see [`Promise`].
//! One mutex guards the list. It is a leaf: whoever holds another lock may take it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    domain::{Claim, ReleaseMode},
    engine::{hold::Hold, seldom::Seldom},
};

/// What we owe the store, until a moment when it will have helped itself.
#[derive(Clone, Debug)]
pub(crate) enum Debt {
    /// Give the lock back.
    Release(Withdrawal),
    /// Tell it how many shares the hold has.
    Recount { hold: Arc<Hold> },
}

/// A grant, or a question that may still be granted, to be taken back.
#[derive(Clone, Debug)]
pub(crate) struct Withdrawal {
    pub(crate) claim: Claim,
    pub(crate) mode: ReleaseMode,
    /// When the store has helped itself: the lease is over. If a question is still on its way
    /// that is not before it can have been executed.
    pub(crate) until: Instant,
    /// How often it was looked for already, if a question is still on its way: it may find
    /// nothing and be needed all the same.
    pub(crate) looks: Option<usize>,
    /// Whether a grant may still come after what it finds: that may be a reservation, or the
    /// grant of a later question than one that is still on its way.
    pub(crate) more: bool,
}

impl Debt {
    /// What is owed for `hold` when its last share is gone, or its grant is of use to nobody.
    pub(crate) fn of(hold: &Hold, mode: ReleaseMode) -> Self {
        Self::Release(Withdrawal {
            claim: hold.claim.clone(),
            mode,
            until: hold.store_ends(),
            looks: hold.unsure.then_some(0),
            more: hold.unsure,
        })
    }

    pub(crate) fn claim(&self) -> &Claim {
        match self {
            Self::Recount { hold } => &hold.claim,
            Self::Release(withdrawal) => &withdrawal.claim,
        }
    }

    /// Whether it is precaution only, which nobody need wait for.
    fn is_precaution(&self) -> bool {
        matches!(self, Self::Release(Withdrawal { looks: Some(1..), .. }))
    }
}

/// What this client owes its store.
#[derive(Default)]
pub(crate) struct Debts {
    list: Mutex<List>,
    changed: Notify,
    settled: Notify,
    closed: AtomicBool,
    pub(super) given_up: Seldom,
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
        self.list().add(debt);
        self.changed.notify_one();
    }

    /// Promises `debt`: it is owed when the promise is dropped unless it is kept.
    pub(crate) fn promise(&self, debt: Debt) -> Promise<'_> {
        Promise { debts: self, debt: Some(debt) }
    }

    /// Lets the task end when everything is settled.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// How many debts are not settled.
    pub(crate) fn owed(&self) -> usize {
        self.list().owed.values().filter(|debt| !debt.is_precaution()).count()
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
        let list = self.list();
        let (number, debt) = list.owed.range(number + 1..).next()?;
        Some((*number, debt.clone()))
    }

    /// Notes that this one is settled but for `more`.
    pub(super) fn is_settled(&self, number: u64, more: Option<Debt>) {
        let mut list = self.list();
        list.owed.remove(&number);
        more.into_iter().for_each(|debt| list.add(debt));
        drop(list);
        self.settled.notify_waiters();
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A debt that is owed unless the promise is kept.
pub(crate) struct Promise<'a> {
    debts: &'a Debts,
    debt: Option<Debt>,
}

impl Promise<'_> {
    /// Nothing is owed any more.
    pub(crate) fn kept(mut self) {
        self.debt = None;
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if let Some(debt) = self.debt.take() {
            self.debts.owe(debt);
        }
    }
}
