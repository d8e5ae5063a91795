//! Workers that push elements and claim them.

use tokio::time::{Instant, timeout};

use super::Worker;
use crate::{
    Claim, Queue, Release, Replicas,
    engine::simulation::served::{book::TrustedHold, jobs::QUEUE},
};

impl Worker {
    /// Pushes and claims elements. If the servers have replicas, the replicas must acknowledge some
    /// of the claims.
    pub(super) async fn use_queue(mut self) {
        let jobs = self.client().queue::<String>(QUEUE).unwrap().ttl(self.scenario.ttl);
        let replicas = self.scenario.replicas;
        for round in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            if self.chance.bool() {
                self.push(&jobs, format!("{}:{round}", self.label)).await;
            }
            let acknowledged = replicas > 0 && self.chance.bool();
            let least = acknowledged.then(|| Replicas::at_least(replicas));
            let (jobs, since) = (jobs.clone().replicated(least), Instant::now());
            let limit = self.up_to(if replicas > 0 { 3_000 } else { 20_000 });
            let claim = self.acquire(jobs.try_claim(), jobs.claim_within(limit)).await;
            let Some(claim) = claim else { continue };
            self.book.takes(claim.value(), acknowledged, since);
            let trusted_hold = TrustedHold { acknowledged, ..self.trusted_hold(claim.watch()) };
            let believes = self.book.entered(trusted_hold);
            self.pause(self.scenario.hold).await;
            drop(believes);
            self.ends(claim).await;
        }
    }

    async fn push(&mut self, jobs: &Queue<String>, element: String) {
        let since = Instant::now();
        self.book.note(|known| known.jobs.is_pushed(&element, false));
        let pushed = jobs.push(&element).await;
        self.log(|| format!("pushes {element}: {pushed:?}"));
        let is_sure = self.book.is_sure(false, since);
        let is_there = pushed.is_ok() && (is_sure || self.book.has(&element));
        self.book.note(|known| known.jobs.is_pushed(&element, is_there));
    }

    async fn ends(&mut self, claim: Claim<String>) {
        let (element, since) = (claim.value().clone(), Instant::now());
        match self.chance.u32(..6) {
            0 => drop(claim),
            1 => drop(claim.give_back().await),
            hurry => {
                self.book.note(|known| known.jobs.may_be_done(&element));
                let limit = self.up_to(if hurry == 2 { 50 } else { 60_000 });
                let done = timeout(limit, claim.done()).await;
                self.log(|| format!("{element} is done: {done:?}"));
                let sure = self.book.is_sure(false, since);
                if let Ok(Ok(release)) = done
                    && (sure || !self.book.has(&element))
                {
                    let done = release == Release::Released;
                    self.book.checks(|known| known.jobs.is_done(&element, done, sure));
                }
            }
        }
    }
}
