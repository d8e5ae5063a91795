//! Workers that acquire multi-locks whose members are in a random order, or acquire two members one
//! by one.

use std::time::Duration;

use futures_util::FutureExt;

use super::Worker;
use crate::{MultiGuard, MultiLock};

/// The members of the multi-locks.
pub(super) const MEMBERS: [&str; 3] = ["hall", "lobby", "stairs"];

impl Worker {
    /// Holds several locks together, or one by one in the opposite order.
    pub(super) async fn use_multi_lock(mut self) {
        for _ in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            match self.chance.u32(..4) {
                0 => self.hold_one_by_one().await,
                _ => self.hold_together().await,
            }
        }
    }

    async fn hold_together(&mut self) {
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
        let Some(guard) = self.acquire(lock.try_acquire(), lock.acquire()).await else { return };
        let members = guard.members().iter();
        let believes: Vec<_> = members.map(|it| self.note_hold(it.watch(), None)).collect();
        for _ in 0..2 {
            self.pause(self.scenario.hold).await;
            self.check_reported_loss(&guard);
        }
        drop(believes);
        self.release(guard, async |guard| drop(guard.release().await)).await;
    }

    fn check_reported_loss(&self, guard: &MultiGuard) {
        let lost = guard.members().iter().any(|member| member.watch().remaining().is_err());
        let reported = [!guard.is_held(), guard.lost().now_or_never().is_some()];
        if reported != [lost; 2] {
            let label = &self.label;
            self.book.breaks(format!("{label}: lost {lost}, reported {reported:?}"));
        }
    }

    /// Waits for the first member while it holds the last member.
    async fn hold_one_by_one(&mut self) {
        let (client, ttl) = (self.client(), self.scenario.ttl);
        let [inner, .., outer] = MEMBERS.map(|name| client.lock(name).unwrap().ttl(ttl));
        let Some(first) = self.acquire(outer.try_acquire(), outer.acquire()).await else { return };
        let believes = self.note_hold(first.watch(), None);
        if let Some(second) = self.acquire(inner.try_acquire(), inner.acquire()).await {
            let believes = self.note_hold(second.watch(), None);
            self.pause(self.scenario.hold).await;
            drop(believes);
            self.release(second, async |guard| drop(guard.release().await)).await;
        }
        drop(believes);
        self.release(first, async |guard| drop(guard.release().await)).await;
    }
}
