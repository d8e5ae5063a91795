//! Workers that push elements and claim them.

use std::collections::BTreeSet;

use tokio::time::timeout;

use super::Worker;
use crate::{Claim, Client, Release, engine::simulation::served::book::Book};

/// The queue, and the keys that do not exist if nothing is claimed.
const QUEUE: &str = "jobs";
pub(super) const KEYS: [&str; 3] =
    [QUEUE, "leasehold_queue__claims:{jobs}", "leasehold_queue__claimants:{jobs}"];

impl Worker {
    /// Pushes and claims elements.
    pub(super) async fn use_queue(mut self) {
        let jobs = self.client().queue::<String>(QUEUE).unwrap().ttl(self.scenario.ttl);
        for round in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            if self.chance.bool() {
                let element = format!("{}:{round}", self.label);
                self.book.note(|known| known.jobs.is_pushed(&element, false));
                let pushed = jobs.push(&element).await;
                self.log(|| format!("pushes {element}: {pushed:?}"));
                self.book.note(|known| known.jobs.is_pushed(&element, pushed.is_ok()));
            }
            let patience = self.up_to(20_000);
            let claim = self.acquire(jobs.try_claim(), jobs.claim_within(patience)).await;
            let Some(claim) = claim else { continue };
            self.book.takes(claim.value());
            let believes = self.note_hold(claim.watch(), None);
            self.pause(self.scenario.hold).await;
            drop(believes);
            self.ends(claim).await;
        }
    }

    async fn ends(&mut self, claim: Claim<String>) {
        let element = claim.value().clone();
        match self.chance.u32(..6) {
            0 => drop(claim),
            1 => drop(claim.give_back().await),
            hurry => {
                self.book.note(|known| known.jobs.may_be_done(&element));
                let patience = self.up_to(if hurry == 2 { 50 } else { 60_000 });
                let done = timeout(patience, claim.done()).await;
                self.log(|| format!("{element} is done: {done:?}"));
                if let Ok(Ok(release)) = done {
                    let done = release == Release::Released;
                    let rule = self.book.note(|known| known.jobs.is_done(&element, done));
                    rule.into_iter().for_each(|rule| self.book.breaks(rule));
                }
            }
        }
    }
}

impl Book {
    fn takes(&self, element: &str) {
        let rule = self.note(|known| known.jobs.is_taken(element));
        rule.into_iter().for_each(|rule| self.breaks(rule));
    }
}

/// Takes the remaining elements, and compares them with the record.
pub(super) async fn take_the_rest(client: &Client, book: &Book) -> Result<(), String> {
    let jobs = client.queue::<String>(QUEUE).unwrap();
    let mut left = BTreeSet::new();
    while let Some(element) = jobs.pop().await.map_err(|error| error.to_string())? {
        book.takes(&element);
        if !left.insert(element.clone()) {
            return Err(format!("{element} is in the queue twice"));
        }
    }
    book.held_up()?;
    book.note(|known| known.jobs.are_whole(&left))
}
