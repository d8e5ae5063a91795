//! A task of a client that wants a lock now and then.

use std::{future::Future, sync::Arc, task::Poll, time::Duration};

use futures_util::poll;
use tokio::time::{Instant, sleep, timeout};

use super::{
    judge::{Believes, Class, DATA, Judge, Terms, Waits},
    peer::Peer,
    plot::{Kind, LONGEST_POLL, Plot, REPLICAS},
};
use crate::{
    Client, Lock, LockGuard, LostReason, Release, Replicas, WaitStrategy, Write,
    domain::Share,
    engine::simulation::story::{Story, name},
    error::Error,
};

/// More replicas than there are.
const TOO_MANY: u32 = REPLICAS + 1;

/// A worker: whose it is, and what it may want.
pub(super) struct Worker {
    pub(super) peer: Arc<Peer>,
    pub(super) label: String,
    pub(super) judge: Arc<Judge>,
    pub(super) story: Arc<Story>,
    pub(super) chance: fastrand::Rng,
    pub(super) plot: Plot,
}

impl Worker {
    /// Works for some rounds, behind its client's gate.
    pub(super) async fn work(mut self) {
        let gate = self.peer.gate.clone();
        gate.pass(async move {
            for _ in 0..self.plot.rounds {
                if !self.plot.restless {
                    let pause = Duration::from_millis(1) + self.up_to(self.plot.rest);
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

    /// Whether it does something odd, one time in `n`; in a crowd never, nor in haste.
    fn one_in(&mut self, n: u32) -> bool {
        let plain = self.plot.kind == Kind::Crowd || self.plot.restless;
        !plain && self.chance.u32(..n) == 0
    }

    fn say(&self, what: impl FnOnce() -> String) {
        self.story.say(|| format!("{}: {}", self.label, what()));
    }

    async fn round(&mut self) {
        let name = name(self.chance.u32(..self.plot.names));
        let client = Client::of(Arc::clone(&self.peer.engine));
        let (lock, terms) = self.traits(client.lock(&name).unwrap().ttl(self.plot.ttl));
        let Some(guard) = self.enter(&lock, terms.acknowledged).await else { return };
        let may_want = self.plot.is_deployed() || !lock.wants_replicas(TOO_MANY);
        assert!(may_want, "fewer replicas have it than it wants");
        let since = Instant::now();
        self.say(|| format!("enters {name} as {}", guard.owner()));
        let believes = self.judge.entered(&name, &guard.holding(), &self.peer.gate, terms);
        self.watch(&guard, &believes);
        self.hold(&guard).await;
        self.leave(guard, believes, since).await;
    }

    /// How it waits, and how long it holds at most.
    fn traits(&mut self, lock: Lock) -> (Lock, Terms) {
        let (ttl, replicas) = (self.plot.ttl, self.plot.replicas);
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
        let lock = match self.plot.is_fenced() {
            true => lock.with(|settings| settings.share = Share::FENCED),
            false => lock,
        };
        let lock = match self.plot.replicates() {
            true => lock.replicated(self.replicas()),
            false => lock,
        };
        let polls = match self.plot.restless {
            // One comes back all the time, the other one cannot be heard.
            true => self.peer.id != "client-0",
            false => self.plot.polling && self.one_in(4),
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

    /// One of three asks for more than there are.
    fn replicas(&mut self) -> Replicas {
        let least = if self.one_in(3) { TOO_MANY } else { TOO_MANY - 1 };
        Replicas::at_least(least).within(Duration::from_millis(50))
    }

    /// How its client waits.
    fn class(&self) -> Class {
        let queues = self.peer.rights.lock().unwrap().queues();
        match (queues, self.plot.polling) {
            (true, false) => Class::Queues,
            (true, true) => Class::Polls,
            (false, _) => Class::Outside,
        }
    }

    async fn enter(&mut self, lock: &Lock, acknowledged: bool) -> Option<LockGuard> {
        let patience = Duration::from_millis(1) + self.up_to(4_000);
        let way = if self.one_in(2) { self.chance.u32(..4) } else { 4 };
        let waiting = (way != 3).then(|| self.waits(lock));
        let since = Instant::now();
        let entered = match way {
            0 => lock.try_acquire().await,
            1 => lock.acquire_within(patience).await.map(Some),
            2 => cancelled(patience / 8, lock.acquire()).await,
            3 => self.doze(lock, patience).await,
            _ => lock.acquire().await.map(Some),
        };
        drop(waiting);
        if way == 0 && !acknowledged {
            self.judge.done(lock.name(), &self.peer.gate, since);
        }
        entered.unwrap_or_else(|error| {
            self.say(|| format!("does not enter: {error}"));
            // Who has little time may be told that nothing has come by then.
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

    /// Begins to wait and does something else before it goes on, as a branch of a `select!`
    /// does. A task in line behind others of its client holds up nobody; one that has the turn
    /// of its client may be granted a lock that it does not take.
    async fn doze(&mut self, lock: &Lock, time: Duration) -> Result<Option<LockGuard>, Error> {
        let in_line = || self.peer.engine.contention.in_line(lock.object());
        let before = in_line();
        let mut acquire = Box::pin(lock.acquire());
        if let Poll::Ready(entered) = poll!(&mut acquire) {
            return entered.map(Some);
        }
        if in_line() <= before {
            if self.plot.is_calm() {
                return cancelled(time, acquire).await;
            }
            self.judge.trouble(time + self.plot.lease());
        }
        self.say(|| format!("dozes for {time:?}"));
        sleep(time).await;
        let _waits = self.waits(lock);
        acquire.await.map(Some)
    }

    /// Waits to be told when the hold is over.
    fn watch(&self, guard: &LockGuard, believes: &Believes) {
        let (owner, lost, number) = (guard.owner().clone(), guard.lost(), believes.number());
        let (gate, judge) = (self.peer.gate.clone(), Arc::clone(&self.judge));
        let story = Arc::clone(&self.story);
        tokio::spawn(async move {
            let reason = gate.pass(lost).await;
            story.say(|| format!("{owner} is over: {reason}"));
            judge.told(number, reason);
        });
    }

    async fn hold(&mut self, guard: &LockGuard) {
        let time = match self.one_in(6) {
            true => self.up_to(20 * self.plot.hold),
            false => self.up_to(self.plot.hold),
        };
        if self.plot.writes() {
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
            return self.say(|| format!("drops {owner}"));
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
        self.say(|| format!("releases {owner}: {released:?}"));
        if let Ok(Some(Release::NotHeld { reason: LostReason::NotOwned, .. })) = released {
            self.judge.found_lost(&name, &owner, since);
        }
        self.judge.look();
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
