//! Foreign clients on the server. Some of these clients lock as Redisson does, and one client
//! writes invalid data.

use std::{future::pending, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    judge::{Class, Judge},
    raw::Raw,
    site::Site,
};
use crate::{
    domain::Name,
    engine::simulation::{
        gate::Gate,
        trace::{Trace, name},
    },
};

/// Redisson's scripts to lock and unlock, as every client of its protocol sends them.
const LOCK: &str = "if redis.call('exists', KEYS[1]) == 0 or \
    redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) \
    return nil end return redis.call('pttl', KEYS[1])";
const UNLOCK: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end \
    redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], 0) return 1";

/// Scripts of the [`Forger`]. `ENTRY` writes a queue entry, and `FIELD` makes another owner the
/// holder of a lock. The keys expire.
const ENTRY: &str = "redis.call('zadd', KEYS[1], ARGV[1], ARGV[2]) \
    redis.call('pexpire', KEYS[1], 15000)";
const FIELD: &str = "redis.call('hset', KEYS[1], 'forger:1', '1') \
    redis.call('pexpire', KEYS[1], 500)";

/// How a foreign client waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Waiting {
    /// The client subscribes to releases, as Redisson does.
    Subscribed,
    /// The client polls all the time, with pauses of a few milliseconds.
    BusyPolling,
}

/// A client that locks the first name as Redisson does.
pub(super) struct ForeignClient {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) trace: Arc<Trace>,
    pub(super) chance: fastrand::Rng,
    pub(super) waits: Waiting,
    pub(super) rounds: u32,
    /// The longest hold, in milliseconds.
    pub(super) hold: u64,
}

impl ForeignClient {
    /// Acquires and releases the lock several times. If the connection is lost, stops early.
    pub(super) async fn work(mut self) {
        let gate = Gate::open();
        for round in 0..self.rounds {
            sleep(Duration::from_millis(self.chance.u64(..200))).await;
            if self.round(&gate, round).await.is_none() {
                break;
            }
        }
    }

    async fn round(&mut self, gate: &Gate, round: u32) -> Option<()> {
        let (name, owner) = (name(0), format!("foreign-{:?}:{round}", self.waits));
        let server = self.site.master();
        let (mut raw, mut subscriber) = (Raw::to(&server).await?, Raw::to(&server).await?);
        if self.waits == Waiting::Subscribed {
            subscriber.send(&["SUBSCRIBE", &channel(&name)]).await?;
            subscriber.read().await?;
        }
        let waiting = self.judge.waits(&name, &owner, gate, Class::Foreign);
        while !is_granted(&raw.ask(&["EVAL", LOCK, "1", name.as_str(), "3000", &owner]).await?) {
            match self.waits {
                Waiting::Subscribed => {
                    drop(timeout(Duration::from_secs(3), subscriber.read()).await);
                }
                Waiting::BusyPolling => sleep(Duration::from_millis(3)).await,
            }
        }
        drop(waiting);
        self.judge.foreign_client_acquired(&name, gate);
        self.trace.log(|| format!("{owner} acquires {name}"));
        sleep(Duration::from_millis(self.chance.u64(..=self.hold))).await;
        let unlock = ["EVAL", UNLOCK, "2", name.as_str(), &channel(&name), &owner];
        raw.ask(&unlock).await.map(drop)
    }
}

fn is_granted(reply: &str) -> bool {
    reply.starts_with("$-1")
}

fn channel(name: &Name) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// A client that writes and publishes invalid data for the whole run.
pub(super) struct Forger {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) trace: Arc<Trace>,
    pub(super) chance: fastrand::Rng,
    pub(super) names: u32,
    pub(super) clients: u32,
}

impl Forger {
    /// Writes and publishes invalid data until this task is aborted.
    pub(super) async fn work(mut self) {
        loop {
            let Some(mut raw) = Raw::to(&self.site.master()).await else { break };
            for _ in 0..20 {
                sleep(Duration::from_millis(self.chance.u64(..200))).await;
                // The server may be stopped, so the wait for its reply is bounded.
                if timeout(Duration::from_secs(5), self.forge(&mut raw)).await.is_err() {
                    break;
                }
            }
        }
        pending::<()>().await;
    }

    async fn forge(&mut self, raw: &mut Raw) -> Option<()> {
        let name = name(self.chance.u32(..self.names));
        match self.chance.u32(..40) {
            0 => self.overwrite(raw, &name).await,
            1 => self.take_a_field(raw, &name).await,
            2..8 => self.queue(raw, &name).await,
            _ => self.publish(raw, &name).await,
        }
    }

    fn some_client(&mut self) -> String {
        format!("client-{}", self.chance.u32(..self.clients + 1))
    }

    /// Publishes some text on a channel of a name.
    async fn publish(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        let channel = match self.chance.u32(..3) {
            0 => channel(name),
            1 => format!("leasehold_lock__channel:{{{name}}}"),
            _ => format!("leasehold_lock__waiter:{{{name}}}:{}", self.some_client()),
        };
        const WORDS: [&str; 7] = ["0", "00", "16", "999999", "", "granted 1 1 x:1", "\r\n-1"];
        let words = WORDS[self.chance.usize(..WORDS.len())];
        raw.ask(&["PUBLISH", &channel, words]).await.map(drop)
    }

    /// Writes an invalid queue entry, or the entry of another client. The wait queue may be out of
    /// order until this entry is removed.
    async fn queue(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        let key = format!("leasehold_lock__queue:{{{name}}}");
        let member = match self.chance.u32(..6) {
            0 => "nobody".to_owned(),
            1 => "x".repeat(2_000),
            2 => return self.record(raw, name).await,
            _ => format!("{}:{}", self.some_client(), self.chance.u32(..20)),
        };
        const SCORES: [&str; 6] = ["0", "-1", "-9e15", "inf", "-inf", "1700000000000000"];
        let score = SCORES[self.chance.usize(..SCORES.len())];
        self.trace.log(|| format!("{member:.40} is put into the queue of {name} at {score}"));
        self.judge.fault(Duration::from_secs(2));
        raw.ask(&["EVAL", ENTRY, "1", &key, score, &member]).await.map(drop)
    }

    /// Writes an invalid record of a yield window.
    async fn record(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        let key = format!("leasehold_lock__yield:{{{name}}}");
        const RECORDS: [&str; 5] = ["", "x", "-1", "inf", "99999999999999"];
        let record = RECORDS[self.chance.usize(..RECORDS.len())];
        self.judge.fault(Duration::from_secs(2));
        raw.ask(&["SET", &key, record, "PX", "15000"]).await.map(drop)
    }

    /// Overwrites a lock with other data.
    async fn overwrite(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        let lasts = self.chance.u64(1..1_000);
        self.trace.log(|| format!("{name} is overwritten for {lasts} ms"));
        // The server may execute the command late.
        self.judge.doubts(name, Duration::from_secs(5));
        raw.ask(&["SET", name.as_str(), "x", "PX", &lasts.to_string()]).await.map(drop)
    }

    /// Makes another owner the holder of a lock, even if the lock is held.
    async fn take_a_field(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        self.trace.log(|| format!("{name} gets another owner"));
        self.judge.doubts(name, Duration::from_secs(5));
        raw.ask(&["EVAL", FIELD, "1", name.as_str()]).await.map(drop)
    }
}
