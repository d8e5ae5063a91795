//! A task of a client that acquires locks repeatedly.

use std::{future::Future, sync::Arc, task::Poll, time::Duration};

use futures_util::poll;
use tokio::time::{Instant, sleep, timeout};

use super::{
    judge::{Believes, Class, DATA, Judge, Terms, Waits},
    peer::Peer,
    scenario::{Kind, LONGEST_POLL, REPLICAS, Scenario},
};
use crate::{
    Client, Lock, LockGuard, LostReason, Release, Replicas, WaitStrategy, Write,
    domain::Share,
    engine::simulation::trace::{Trace, name},
    error::Error,
};

/// More replicas than exist.
const TOO_MANY: u32 = REPLICAS + 1;

/// A worker: its client and its settings.
pub(super) struct Worker {
    pub(super) peer: Arc<Peer>,
    pub(super) label: String,
    pub(super) judge: Arc<Judge>,
    pub(super) trace: Arc<Trace>,
    pub(super) chance: fastrand::Rng,
    pub(super) scenario: Scenario,
}

impl Worker {
    /// Works for some rounds, behind the gate of its client.
    pub(super) async fn work(mut self) {
        let gate = self.peer.gate.clone();
        gate.pass(async move {
            for _ in 0..self.scenario.rounds {
                if !self.scenario.restless {
                    let pause = Duration::from_millis(1) + self.up_to(self.scenario.rest);
                    sleep(pause).await;
                }
                self.round().await;
            }
        })
        .await;
    }

    fn up_to(&mut self, millis: u64) -> Duration {
        Duration::from_millis(self.chance.u64(..=millis))
    }

    /// Returns `true` one time in `n`, for unusual behaviour. In a crowd, and in a run without
    /// pauses, always returns `false`.
    fn one_in(&mut self, n: u32) -> bool {
        let plain = self.scenario.kind == Kind::Crowd || self.scenario.restless;
        !plain && self.chance.u32(..n) == 0
    }

    fn log(&self, what: impl FnOnce() -> String) {
        self.trace.log(|| format!("{}: {}", self.label, what()));
    }

    async fn round(&mut self) {
        let name = name(self.chance.u32(..self.scenario.names));
        let client = Client::of(Arc::clone(&self.peer.engine));
        let (lock, terms) = self.traits(client.lock(&name).unwrap().ttl(self.scenario.ttl));
        let Some(guard) = self.acquire(&lock, terms.acknowledged).await else { return };
        let may_want = self.scenario.is_deployed() || !lock.wants_replicas(TOO_MANY);
        assert!(may_want, "no lock is granted with fewer replicas than it needs");
        let since = Instant::now();
        self.log(|| format!("acquires {name} as {}", guard.owner()));
        let believes = self.judge.acquired(&name, &guard.holding(), &self.peer.gate, terms);
        self.watch(&guard, &believes);
        self.hold(&guard).await;
        self.leave(guard, believes, since).await;
    }

    /// Chooses how the worker waits for the lock, and the terms of the hold.
    fn traits(&mut self, lock: Lock) -> (Lock, Terms) {
        let (ttl, replicas) = (self.scenario.ttl, self.scenario.replicas);
        let renews = !self.one_in(4);
        let lock = match renews {
            true => lock,
            false => lock.lease(ttl / 2 + self.up_to(2_000)),
        };
        let acknowledged = replicas > 0 && self.one_in(2);
        let lock = match acknowledged {
            true => lock.replicated(Replicas::at_least(replicas)),
            false => lock,
        };
        let lock = match self.one_in(8) {
            true => lock.max_hold(Duration::from_millis(50) + self.up_to(2_000)),
            false => lock,
        };
        let lock = match self.scenario.is_fenced() {
            true => lock.with(|settings| settings.share = Share::FENCED),
            false => lock,
        };
        let lock = match self.scenario.replicates() {
            true => lock.replicated(self.replicas()),
            false => lock,
        };
        let polls = match self.scenario.restless {
            // `client-0` acquires again and again without a pause, and the other client polls.
            true => self.peer.id != "client-0",
            false => self.scenario.polling && self.one_in(4),
        };
        let lock = match polls {
            true => lock.wait_strategy(WaitStrategy::Polling {
                initial: Duration::from_millis(1),
                max: LONGEST_POLL,
            }),
            false => lock,
        };
        (lock, Terms { acknowledged, renews })
    }

    /// Returns how many replicas must acknowledge a grant: one time in three, more than exist.
    fn replicas(&mut self) -> Replicas {
        let least = if self.one_in(3) { TOO_MANY } else { TOO_MANY - 1 };
        Replicas::at_least(least).within(Duration::from_millis(50))
    }

    /// Returns how the client of this worker waits.
    fn class(&self) -> Class {
        let queues = self.peer.permissions.lock().unwrap().queues();
        match (queues, self.scenario.polling) {
            (true, false) => Class::Queues,
            (true, true) => Class::Polls,
            (false, _) => Class::Outside,
        }
    }

    async fn acquire(&mut self, lock: &Lock, acknowledged: bool) -> Option<LockGuard> {
        let timeout = Duration::from_millis(1) + self.up_to(4_000);
        let way = if self.one_in(2) { self.chance.u32(..4) } else { 4 };
        let waiting = (way != 3).then(|| self.waits(lock));
        let since = Instant::now();
        let acquired = match way {
            0 => lock.try_acquire().await,
            1 => lock.acquire_within(timeout).await.map(Some),
            2 => cancelled(timeout / 8, lock.acquire()).await,
            3 => self.pause_while_waiting(lock, timeout).await,
            _ => lock.acquire().await.map(Some),
        };
        drop(waiting);
        if way == 0 && !acknowledged {
            self.judge.done(lock.name(), &self.peer.gate, since);
        }
        acquired.unwrap_or_else(|error| {
            self.log(|| format!("does not acquire: {error}"));
            // The other ways to acquire have a timeout, or do not poll the future for a while. So
            // their errors break no rule.
            if matches!(way, 0 | 4) {
                self.judge.failed(lock.name(), &error);
            }
            let shut = matches!(error, Error::ShutDown) && !self.peer.process.is_shut();
            assert!(!shut && !matches!(error, Error::NoRuntime), "{error}");
            assert!(!error.to_string().contains("NOSCRIPT"), "{error}");
            None
        })
    }

    fn waits(&self, lock: &Lock) -> Waits {
        self.judge.waits(lock.name(), &self.peer.id, &self.peer.gate, self.class())
    }

    /// Polls `acquire()` once, and again only after `time`, as a `select!` may do. If the task is
    /// in line behind other tasks of its client, it blocks no other task meanwhile. But if the task
    /// has the request slot, the store may grant the lock before the task is polled again. This
    /// case counts as a fault.
    async fn pause_while_waiting(
        &mut self,
        lock: &Lock,
        time: Duration,
    ) -> Result<Option<LockGuard>, Error> {
        let in_line = || self.peer.engine.contention.in_line(lock.object());
        let before = in_line();
        let mut acquire = Box::pin(lock.acquire());
        if let Poll::Ready(acquired) = poll!(&mut acquire) {
            return acquired.map(Some);
        }
        if in_line() <= before {
            if self.scenario.is_calm() {
                return cancelled(time, acquire).await;
            }
            self.judge.fault(time + self.scenario.lease());
        }
        self.log(|| format!("pauses its future for {time:?}"));
        sleep(time).await;
        let _waits = self.waits(lock);
        acquire.await.map(Some)
    }

    /// Reports to the judge when `lost()` returns.
    fn watch(&self, guard: &LockGuard, believes: &Believes) {
        let (owner, lost, number) = (guard.owner().clone(), guard.lost(), believes.number());
        let (gate, judge) = (self.peer.gate.clone(), Arc::clone(&self.judge));
        let trace = Arc::clone(&self.trace);
        tokio::spawn(async move {
            let reason = gate.pass(lost).await;
            trace.log(|| format!("{owner} is over: {reason}"));
            judge.loss_reported(number, reason);
        });
    }

    async fn hold(&mut self, guard: &LockGuard) {
        let time = match self.one_in(6) {
            true => self.up_to(20 * self.scenario.hold),
            false => self.up_to(self.scenario.hold),
        };
        if self.scenario.writes() {
            let write = Write::set(format!("{}{DATA}", guard.name()), self.label.as_str());
            drop(cancelled(self.up_to(5), guard.write([write])).await);
        }
        sleep(time).await;
        if self.one_in(6) {
            let again = cancelled(Duration::from_millis(1) + time, guard.reenter()).await;
            sleep(time / 2).await;
            drop(again);
        }
    }

    async fn leave(&mut self, guard: LockGuard, believes: Believes, since: Instant) {
        let (owner, name) = (guard.owner().clone(), guard.name().clone());
        drop(believes);
        if self.one_in(4) {
            drop(guard);
            return self.log(|| format!("drops {owner}"));
        }
        let hurries = self.one_in(4);
        let released = if hurries {
            cancelled(self.up_to(50), guard.release()).await
        } else {
            let asked = Instant::now();
            let released = guard.release().await;
            self.judge.done(&name, &self.peer.gate, asked);
            released.map(Some)
        };
        self.log(|| format!("releases {owner}: {released:?}"));
        if let Ok(Some(Release::NotHeld { reason: LostReason::NotOwned, .. })) = released {
            self.judge.found_lost(&name, &owner, since);
        }
        self.judge.check();
    }
}

/// Runs `future`, and drops it after `limit`. Returns `None` if it was dropped.
async fn cancelled<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<Option<T>, Error> {
    match timeout(limit, future).await {
        Ok(done) => done.map(Some),
        Err(_) => Ok(None),
    }
}
