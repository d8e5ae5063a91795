//! Settles debts: one task for all of them, each until its lease would have ended anyway.

use std::sync::Arc;

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::sleep;

use super::recount::recount;
use crate::{
    domain::{Failure, GivenBack},
    engine::{
        clock::Clock,
        contention::Contention,
        debts::{Debt, Debts, Withdrawal},
        retry::retry_until,
        seldom::Seldom,
        stats::Counters,
        timing::LOOK_AGAIN,
    },
    store::Store,
};

/// What the task needs.
#[derive(Clone, Debug)]
pub(crate) struct Settler {
    pub(crate) debts: Arc<Debts>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) contention: Arc<Contention>,
    pub(crate) given_up: Arc<Seldom>,
}

impl Settler {
    /// Settles what is owed, until the debts are closed.
    pub(crate) async fn run(self) {
        let mut settling = FuturesUnordered::new();
        self.debts.take_up_again();
        loop {
            while let Some((number, debt)) = self.debts.next() {
                let settled = self.settle(debt);
                settling.push(async move { (number, settled.await) });
            }
            if settling.is_empty() && self.debts.is_closed() {
                return;
            }
            tokio::select! {
                biased;
                Some((number, more)) = settling.next() => self.debts.is_settled(number, more),
                () = self.debts.changed() => {}
            }
        }
    }

    /// Settles `debt`. Returns what is owed after it.
    async fn settle(&self, debt: Debt) -> Option<Debt> {
        match self.try_to_settle(&debt).await {
            Ok(more) => more,
            Err(failure) => {
                self.counters.release_abandoned();
                let claim = debt.claim();
                if let Some(releases) = self.given_up.once_more(self.clock.now()) {
                    tracing::warn!(target: "leasehold", lock = %claim.name, owner = %claim.owner,
                        %failure, releases, "a release was given up: the lease ends by itself");
                }
                None
            }
        }
    }

    async fn try_to_settle(&self, debt: &Debt) -> Result<Option<Debt>, Failure> {
        match debt {
            Debt::Recount { hold } => {
                recount(&self.store, &self.clock, hold, None, hold.store_ends()).await?;
                Ok(None)
            }
            Debt::Release(withdrawal) => {
                self.withdraw(withdrawal, withdrawal.late.then_some(0)).await
            }
            Debt::LookAgain { withdrawal, looks } => {
                sleep(LOOK_AGAIN[*looks]).await;
                self.withdraw(withdrawal, Some(looks + 1)).await
            }
        }
    }

    /// Gives back what is there. After so many `looks` there may be another one.
    async fn withdraw(
        &self,
        withdrawal: &Withdrawal,
        looks: Option<usize>,
    ) -> Result<Option<Debt>, Failure> {
        let Withdrawal { claim, mode, until, more, .. } = withdrawal;
        let release = || self.store.release(claim, *mode);
        let given = retry_until(&self.clock, *until, release).await?;
        let freed = match given.answer {
            GivenBack::Freed(others) => {
                self.contention.note(&claim.name, others);
                true
            }
            GivenBack::NotHeld { .. } => false,
        };
        let may_come = !freed || *more;
        let next = looks.filter(|looks| may_come && *looks < LOOK_AGAIN.len());
        let next = next.filter(|looks| self.clock.now() + LOOK_AGAIN[*looks] < *until);
        Ok(next.map(|looks| Debt::LookAgain { withdrawal: withdrawal.clone(), looks }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        domain::{Claim, Identity, Lease, Name},
        engine::{
            Engine,
            grant::{Grant, LocalTurns},
            tasks::Spawner,
        },
        store::memory::MemoryStore,
    };

    #[tokio::test(start_paused = true)]
    async fn a_question_that_comes_after_the_grant_of_a_later_one_is_withdrawn_too() {
        // given a grant by the second question, while the first one is still on its way
        let memory = MemoryStore::new();
        let store: Arc<dyn Store> = Arc::new(memory.session());
        let clock = Clock::with(|| Duration::ZERO);
        let engine = Engine::new(Identity::of("one"), Arc::clone(&store), clock, Spawner::here());
        engine.ready().unwrap();
        let (ttl, now) = (Duration::from_secs(30), tokio::time::Instant::now());
        let name = Name::new("door").unwrap();
        let claim = Claim { name: name.clone(), owner: engine.identity.fresh_owner(), ttl };
        store.acquire(&claim, None).await.unwrap();
        let grant = Grant {
            id: engine.next_grant(),
            claim: claim.clone(),
            lease: Lease::new(now, ttl),
            asked_at: now.into(),
            unsure: true,
            contended: false,
            stay: LocalTurns::default().from(now),
        };

        // when nobody wants it any more, and then the first question is executed
        engine.debts.owe(Debt::of_grant(&grant));
        sleep(Duration::from_millis(100)).await;
        assert_eq!(store.holder(&name).await.unwrap(), None);
        store.acquire(&claim, None).await.unwrap();

        // then that grant is taken back as well
        sleep(LOOK_AGAIN.iter().sum()).await;
        assert_eq!(store.holder(&name).await.unwrap(), None);
    }
}
