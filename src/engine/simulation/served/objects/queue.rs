//! Workers that push elements and claim them.

use std::{collections::BTreeSet, time::Duration};

use leasehold_twin::Twin;
use tokio::time::{Instant, timeout};

use super::Worker;
use crate::{
    Claim, Client, Queue, Release, Replicas,
    domain::Name,
    engine::simulation::served::{
        book::{Book, TrustedHold},
        jobs::Places,
    },
};

/// The key of the queue, and the keys of its claims. The keys of the claims do not exist if no
/// element is claimed.
const QUEUE: &str = "jobs";
const CLAIMS: &str = "leasehold_queue__claims:{jobs}";
const CLAIMANTS: &str = "leasehold_queue__claimants:{jobs}";
pub(super) const KEYS: [&str; 3] = [QUEUE, CLAIMS, CLAIMANTS];

pub(in crate::engine::simulation::served) fn name() -> Name {
    Name::new(QUEUE).unwrap()
}

/// Returns where a server has each element, and in how many milliseconds the first claim expires.
pub(in crate::engine::simulation::served) fn state(server: &Twin) -> (Option<Places>, i64) {
    let waiting = server.list(QUEUE).unwrap_or_default();
    let claims = server.hash(CLAIMS).unwrap_or_default();
    let element = |claim: String| claim.split_once(':').unwrap().1.to_owned();
    let claimed = claims.into_iter().map(|(owner, claim)| (element(claim), owner));
    let places = waiting.into_iter().map(|it| (it, String::new())).chain(claimed).collect();
    let first = server.zset(CLAIMANTS).and_then(|claimants| Some(claimants.first()?.1));
    let ends = |millis: f64| i64::try_from(Duration::from_secs_f64(millis / 1e3).as_millis());
    (Some(places), first.map_or(i64::MAX, |first| (ends(first).unwrap() - server.millis()).max(0)))
}

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

impl Book {
    /// Returns whether no failover has lost a write that a server executed after `since`. If the
    /// result is `false`, callers look at the data of the servers.
    fn is_sure(&self, acknowledged: bool, since: Instant) -> bool {
        self.judge.is_sure(&name(), acknowledged, since)
    }

    /// Returns whether a primary has the element. While the slot moves, any primary may have it.
    fn has(&self, element: &str) -> bool {
        let mut all = self.site.masters().into_iter().filter_map(|it| state(&it).0);
        all.any(|places| places.contains_key(element))
    }

    fn takes(&self, element: &str, acknowledged: bool, since: Instant) {
        let sure = self.is_sure(acknowledged, since);
        self.checks(|known| known.jobs.is_taken(element, acknowledged, sure));
    }

    /// Records a failover. The old server had the elements `before`, and the new server has the
    /// elements `after`. `repeats` says whether each client repeats a forgotten `done` in time.
    pub(in crate::engine::simulation::served) fn fails_over(
        &self,
        before: &Places,
        after: &Places,
        repeats: bool,
    ) {
        let sure = self.is_sure(true, Instant::now());
        self.checks(|known| known.jobs.forgets(before, after, repeats).filter(|_| sure));
    }
}

/// Takes the remaining elements, and compares them with the record.
pub(in crate::engine::simulation::served) async fn take_the_rest(
    client: &Client,
    book: &Book,
) -> Result<(), String> {
    let jobs = client.queue::<String>(QUEUE).unwrap();
    let mut left = BTreeSet::new();
    let since = Instant::now();
    while let Some(element) = jobs.pop().await.map_err(|error| error.to_string())? {
        book.takes(&element, false, since);
        if !left.insert(element.clone()) {
            return Err(format!("{element} is in the queue twice"));
        }
    }
    book.held_up()?;
    book.note(|known| known.jobs.are_whole(&left))
}
