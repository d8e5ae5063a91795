//! A task of a client that wants a lock now and then, in every way there is.

use std::{future::Future, sync::Arc, task::Poll, time::Duration};

use futures_util::poll;
use tokio::time::{sleep, timeout};

use super::{
    citizen::Citizen,
    oracle::{Believes, Oracle, Waits},
    plot::{LONGEST_POLL, Locks, Mood, Plot, REPLICAS, REPLICAS_WITHIN},
    story::{Story, object},
    waiting::Class,
};
use crate::{
    Client, Lock, LockGuard, LostReason, ReadWriteLock, Release, Replicas, WaitBy, Write,
    domain::{Kind, Object, Share},
    error::Error,
};

/// A worker: whose it is, and what it may want.
pub(super) struct Worker {
    pub(super) citizen: Arc<Citizen>,
    pub(super) label: String,
    pub(super) oracle: Arc<Oracle>,
    pub(super) story: Arc<Story>,
    pub(super) chance: fastrand::Rng,
    pub(super) rounds: u32,
    pub(super) plot: Plot,
}

impl Worker {
    /// Works for some rounds, behind its client's gate.
    pub(super) async fn work(mut self) {
        let gate = self.citizen.gate.clone();
        gate.pass(async move {
            for _ in 0..self.rounds {
                let pause = Duration::from_millis(1) + self.up_to(self.plot.rest);
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
        let object = object(self.chance.u32(..self.plot.names));
        let lock = self.lock(&object);
        let Some(guard) = self.enter(&lock).await else { return };
        assert!(!lock.wants_replicas(REPLICAS + 1), "it has fewer replicas than it wants");
        self.say(&format!("enters {object} as {}", guard.owner()));
        let gate = &self.citizen.gate;
        // Gone before the guard, wherever this ends.
        let believes = self.oracle.entered(lock.object(), &guard.holding(), gate);
        self.watch(&guard, &believes);
        self.hold(&guard).await;
        let reading = self.read_beside(&guard).await;
        self.leave(guard, believes).await;
        for (guard, believes) in reading {
            sleep(self.up_to(self.plot.hold)).await;
            self.leave(guard, believes).await;
        }
    }

    /// One that writes may read as well, also twice, and goes on when it writes no more.
    async fn read_beside(&mut self, writing: &LockGuard) -> Vec<(LockGuard, Believes)> {
        let mut reading = Vec::new();
        if writing.watch().claim().object.kind != Kind::Write {
            return reading;
        }
        let engine = Arc::clone(&self.citizen.engine);
        let lock = ReadWriteLock::new(engine, writing.name().clone(), self.plot.ttl);
        for _ in 0..self.chance.u32(..=2) {
            let patience = Duration::from_millis(1) + self.up_to(self.plot.hold);
            let read = cancelled(patience, lock.read_beside(writing)).await;
            let Ok(Some(guard)) = read else { continue };
            self.say(&format!("reads beside {} as {}", writing.owner(), guard.owner()));
            let object = &guard.watch().claim().object;
            let (beside, gate) = (Some(writing.owner().clone()), &self.citizen.gate);
            let believes = self.oracle.entered_beside(object, beside, &guard.holding(), gate);
            self.watch(&guard, &believes);
            reading.push((guard, believes));
        }
        reading
    }

    fn lock(&mut self, object: &Object) -> Lock {
        let ttl = self.plot.ttl;
        let client = Client::of(Arc::clone(&self.citizen.engine));
        let lock = match self.plot.locks() {
            Locks::Plain => client.lock(&object.name).unwrap(),
            Locks::Fenced => {
                let lock = client.lock(&object.name).unwrap();
                lock.set(|settings| settings.share = Share::FENCED)
            }
            Locks::ReadWrite => {
                let lock = client.read_write(&object.name).unwrap();
                if self.chance.u32(..3) == 0 { lock.write() } else { lock.read() }
            }
        };
        let lock = lock.ttl(ttl);
        let lock = match self.one_in(4) {
            true => lock.lease(ttl / 2 + self.up_to(2_000)),
            false => lock,
        };
        let lock = match self.one_in(8) {
            true => lock.max_hold(Duration::from_millis(50) + self.up_to(2_000)),
            false => lock,
        };
        let lock = match self.plot.replicates() {
            // One of three asks for more than there are.
            true => {
                let replicas = Replicas::at_least(REPLICAS + u32::from(self.one_in(3)));
                lock.replicated(replicas.within(REPLICAS_WITHIN))
            }
            false => lock,
        };
        match self.plot.polling && self.one_in(4) {
            true => lock.wait_by(WaitBy::Polling {
                first: Duration::from_millis(1),
                longest: LONGEST_POLL,
            }),
            false => lock,
        }
    }

    /// How its client waits.
    fn class(&self) -> Class {
        match (self.citizen.queues(), self.plot.polling) {
            (true, false) => Class::Queues,
            (true, true) => Class::Polls,
            (false, false) => Class::Outside,
            (false, true) => Class::Neither,
        }
    }

    fn waits(&self, lock: &Lock) -> Waits {
        self.oracle.waits(&self.label, lock.object(), &self.citizen.gate, self.class())
    }

    async fn enter(&mut self, lock: &Lock) -> Option<LockGuard> {
        let patience = Duration::from_millis(1) + self.up_to(4_000);
        let way = self.chance.u32(..6);
        let waiting = (way < 5).then(|| self.waits(lock));
        let entered = match way {
            0 => lock.try_acquire().await,
            1 => lock.acquire_within(patience).await.map(Some),
            // Cancelled wherever it stands.
            2 => cancelled(patience / 8, lock.acquire()).await,
            3 | 4 => lock.acquire().await.map(Some),
            _ => self.doze(lock, patience).await,
        };
        drop(waiting);
        match entered {
            Ok(guard) => guard,
            Err(Error::ShutDown) if !self.citizen.is_well() => None,
            Err(error) => {
                self.say(&format!("does not enter: {error}"));
                assert!(!matches!(error, Error::NoRuntime | Error::ShutDown), "{error}");
                None
            }
        }
    }

    /// Begins to wait and does something else before it goes on, as a branch of a
    /// `select!` does. Who stands in line behind others of its client holds nobody up.
    async fn doze(&mut self, lock: &Lock, time: Duration) -> Result<Option<LockGuard>, Error> {
        let in_line = || self.citizen.engine.contention.in_line(lock.object());
        let before = in_line();
        let mut acquire = Box::pin(lock.acquire());
        if let Poll::Ready(entered) = poll!(&mut acquire) {
            return entered.map(Some);
        }
        // One that has the turn of its client keeps the others of its client waiting.
        if in_line() <= before {
            if self.plot.mood != Mood::Rough {
                return cancelled(time, acquire).await;
            }
            self.oracle.dozes(lock.object(), time);
        }
        self.say(&format!("dozes for {time:?}"));
        sleep(time).await;
        let _waits = self.waits(lock);
        acquire.await.map(Some)
    }

    /// Waits to be told when the hold is over.
    fn watch(&self, guard: &LockGuard, believes: &Believes) {
        let (owner, lost, number) = (guard.owner().clone(), guard.lost(), believes.number());
        let (gate, oracle) = (self.citizen.gate.clone(), Arc::clone(&self.oracle));
        let story = Arc::clone(&self.story);
        tokio::spawn(async move {
            let reason = gate.pass(lost).await;
            story.say(|| format!("{owner} is over: {reason}"));
            oracle.told(number, reason);
        });
    }

    async fn hold(&mut self, guard: &LockGuard) {
        let time = match self.one_in(6) {
            true => self.up_to(30 * self.plot.hold),
            false => self.up_to(self.plot.hold),
        };
        if self.plot.writes() {
            self.write(guard).await;
        }
        sleep(time).await;
        if self.one_in(6) {
            let again = cancelled(Duration::from_millis(1) + time, guard.reenter());
            let Ok(Some(again)) = again.await else { return };
            sleep(time / 2).await;
            self.release_one(again).await;
        }
    }

    /// Writes under its lock, and may not wait for the answer.
    async fn write(&mut self, guard: &LockGuard) {
        let write = Write::set(guard.name().as_str().to_owned() + ":data", self.label.as_str());
        let patience = self.up_to(5);
        let written = cancelled(patience, guard.write([write])).await;
        self.say(&format!("writes: {written:?}"));
    }

    async fn release_one(&mut self, guard: LockGuard) {
        if self.one_in(2) {
            drop(guard);
        } else if let Ok(released) = guard.release().await {
            self.say(&format!("leaves once: {released:?}"));
        }
    }

    async fn leave(&mut self, guard: LockGuard, believes: Believes) {
        let owner = guard.owner().clone();
        drop(believes);
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
