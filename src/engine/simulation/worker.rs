//! A task of a client that wants a lock now and then, in every way there is.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    gate::Gate,
    oracle::Oracle,
    world::{Story, name},
};
use crate::{Client, Lock, LockGuard, LostReason, Name, Release, WaitBy, error::Error};

/// A worker: whose it is, and what it may want.
pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) label: String,
    pub(super) gate: Gate,
    pub(super) oracle: Arc<Oracle>,
    pub(super) story: Arc<Story>,
    pub(super) chance: fastrand::Rng,
    pub(super) names: u32,
    pub(super) rounds: u32,
    pub(super) ttl: Duration,
}

impl Worker {
    /// Works for some rounds, behind its client's gate.
    pub(super) async fn work(mut self) {
        let gate = self.gate.clone();
        gate.pass(async move {
            for _ in 0..self.rounds {
                let pause = self.up_to(300);
                sleep(pause).await;
                self.round().await;
            }
        })
        .await;
    }

    fn up_to(&mut self, millis: u64) -> Duration {
        Duration::from_millis(self.chance.u64(..=millis))
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.chance.u32(..n) == 0
    }

    fn say(&self, what: &str) {
        self.story.say(|| format!("{}: {what}", self.label));
    }

    async fn round(&mut self) {
        let name = name(self.chance.u32(..self.names));
        let lock = self.lock(&name);
        let Some(guard) = self.enter(&lock).await else { return };
        self.say(&format!("enters {name} as {}", guard.owner()));
        let number = self.oracle.entered(lock.name(), &guard.holding(), &self.gate);
        self.watch(&guard, number);
        self.hold(&guard).await;
        self.leave(guard, number).await;
    }

    fn lock(&mut self, name: &Name) -> Lock {
        let lock = self.client.lock(name).unwrap().ttl(self.ttl);
        let lock = match self.one_in(4) {
            true => lock.lease(self.ttl / 2 + self.up_to(2_000)),
            false => lock,
        };
        let lock = match self.one_in(8) {
            true => lock.max_hold(Duration::from_millis(50) + self.up_to(2_000)),
            false => lock,
        };
        // One who polls does not announce its release either, so that others may
        // wait until they ask again: only where messages are lost anyway.
        match self.oracle.anything_may_go_wrong() && self.one_in(8) {
            true => lock.wait_by(WaitBy::Polling {
                first: Duration::from_millis(1),
                longest: Duration::from_millis(128),
            }),
            false => lock,
        }
    }

    async fn enter(&mut self, lock: &Lock) -> Option<LockGuard> {
        let waits = self.oracle.waits(lock.name(), &self.gate);
        let patience = Duration::from_millis(1) + self.up_to(4_000);
        let entered = match self.chance.u32(..5) {
            0 => lock.try_acquire().await,
            1 => lock.acquire_within(patience).await.map(Some),
            // Cancelled wherever it stands.
            2 => cancelled(patience / 8, lock.acquire()).await,
            _ => lock.acquire().await.map(Some),
        };
        drop(waits);
        match entered {
            Ok(guard) => guard,
            Err(error) => {
                self.say(&format!("does not enter: {error}"));
                assert!(!matches!(error, Error::NoRuntime | Error::ShutDown), "{error}");
                None
            }
        }
    }

    /// Waits to be told when the hold is over.
    fn watch(&self, guard: &LockGuard, number: u64) {
        let (owner, lost) = (guard.owner().clone(), guard.lost());
        let (gate, oracle) = (self.gate.clone(), Arc::clone(&self.oracle));
        let story = Arc::clone(&self.story);
        tokio::spawn(async move {
            let reason = gate.pass(lost).await;
            story.say(|| format!("{owner} is over: {reason}"));
            oracle.told(number);
        });
    }

    async fn hold(&mut self, guard: &LockGuard) {
        let time = match self.one_in(6) {
            true => self.up_to(6_000),
            false => self.up_to(200),
        };
        sleep(time).await;
        if self.one_in(6) {
            let again = cancelled(Duration::from_millis(1) + time, guard.reenter());
            let Ok(Some(again)) = again.await else { return };
            sleep(time / 2).await;
            self.release_one(again).await;
        }
    }

    async fn release_one(&mut self, guard: LockGuard) {
        if self.one_in(2) {
            drop(guard);
        } else if let Ok(released) = guard.release().await {
            self.say(&format!("leaves once: {released:?}"));
        }
    }

    async fn leave(&mut self, guard: LockGuard, number: u64) {
        let owner = guard.owner().clone();
        self.oracle.guard_gone(number);
        match self.chance.u32(..4) {
            0 => {
                drop(guard);
                self.say(&format!("drops {owner}"));
            }
            1 => {
                let patience = self.up_to(50);
                let released = cancelled(patience, guard.release());
                self.say(&format!("releases {owner} in a hurry: {:?}", released.await));
            }
            _ => {
                let released = guard.release().await;
                self.say(&format!("releases {owner}: {released:?}"));
                if let Ok(Release::AlreadyGone { reason: LostReason::NotOurs, .. }) = released {
                    self.oracle.found_lost(&owner);
                }
            }
        }
        self.oracle.look();
    }
}

/// Drops `future` after `patience`.
async fn cancelled<T>(
    patience: Duration,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<Option<T>, Error> {
    match timeout(patience, future).await {
        Ok(done) => done.map(Some),
        Err(_) => Ok(None),
    }
}
