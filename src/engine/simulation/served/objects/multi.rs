//! Multi-locks with any order of their members, and tasks that acquire two members one by one.

use std::time::Duration;

use futures_util::FutureExt;

use super::Worker;
use crate::{MultiGuard, MultiLock};

/// The members of the multi-locks.
pub(super) const MEMBERS: [&str; 3] = ["hall", "lobby", "stairs"];

impl Worker {
    /// Holds several locks together, or one by one in the opposite order.
    pub(super) async fn holds_several(mut self) {
        for _ in 0..self.scenario.rounds {
            self.rest(self.scenario.rest).await;
            match self.chance.u32(..4) {
                0 => self.nests().await,
                _ => self.holds_together().await,
            }
        }
    }

    async fn holds_together(&mut self) {
        let mut names = MEMBERS;
        self.chance.shuffle(&mut names);
        let number = self.chance.usize(2..=names.len());
        let (client, ttl) = (self.client(), self.scenario.ttl);
        let longer_than_a_reply = Duration::from_millis(10 * self.scenario.delay);
        let mut members = vec![];
        for name in &names[..number] {
            let member = client.lock(name).unwrap().ttl(ttl);
            members.push(match self.chance.u32(..4) {
                0 => member.lease(longer_than_a_reply + self.up_to(self.scenario.hold)),
                _ => member,
            });
        }
        let lock = MultiLock::new(members).unwrap();
        let Some(guard) = self.enters(lock.try_acquire(), lock.acquire()).await else { return };
        let members = guard.members().iter();
        let believes: Vec<_> = members.map(|it| self.believes(it.watch(), None)).collect();
        for _ in 0..2 {
            self.rest(self.scenario.hold).await;
            self.reports_its_loss(&guard);
        }
        drop(believes);
        self.releases(guard, async |guard| drop(guard.release().await)).await;
    }

    fn reports_its_loss(&self, guard: &MultiGuard) {
        let lost = guard.members().iter().any(|member| member.watch().remaining().is_err());
        let reported = [!guard.is_held(), guard.lost().now_or_never().is_some()];
        if reported != [lost; 2] {
            let label = &self.label;
            self.book.breaks(format!("{label}: lost {lost}, reported {reported:?}"));
        }
    }

    /// Waits for the first member while it holds the last one.
    async fn nests(&mut self) {
        let (client, ttl) = (self.client(), self.scenario.ttl);
        let [inner, .., outer] = MEMBERS.map(|name| client.lock(name).unwrap().ttl(ttl));
        let Some(first) = self.enters(outer.try_acquire(), outer.acquire()).await else { return };
        let believes = self.believes(first.watch(), None);
        if let Some(second) = self.enters(inner.try_acquire(), inner.acquire()).await {
            let believes = self.believes(second.watch(), None);
            self.rest(self.scenario.hold).await;
            drop(believes);
            self.releases(second, async |guard| drop(guard.release().await)).await;
        }
        drop(believes);
        self.releases(first, async |guard| drop(guard.release().await)).await;
    }
}
