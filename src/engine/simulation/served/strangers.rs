//! Others on the server: who locks as Redisson does, and who makes things up.

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
        story::{Story, name},
    },
};

/// Redisson's own scripts, which any client of its protocol has.
const LOCK: &str = "if redis.call('exists', KEYS[1]) == 0 or \
    redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) \
    return nil end return redis.call('pttl', KEYS[1])";
const UNLOCK: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end \
    redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], 0) return 1";

/// What is put somewhere, and ends.
const PLACE: &str = "redis.call('zadd', KEYS[1], ARGV[1], ARGV[2]) \
    redis.call('pexpire', KEYS[1], 15000)";
const FIELD: &str = "redis.call('hset', KEYS[1], 'forger:1', '1') \
    redis.call('pexpire', KEYS[1], 500)";

/// How one who knows no queues waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Waits {
    /// It listens to releases, as Redisson does.
    Listening,
    /// It asks all the time.
    Spinning,
}

/// One who locks the first name as Redisson does.
pub(super) struct Stranger {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) story: Arc<Story>,
    pub(super) chance: fastrand::Rng,
    pub(super) waits: Waits,
    pub(super) rounds: u32,
    /// How long it holds at most, in milliseconds.
    pub(super) hold: u64,
}

impl Stranger {
    /// Enters some times, or until its connection is lost.
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
        let (name, owner) = (name(0), format!("stranger-{:?}:{round}", self.waits));
        let server = self.site.master();
        let (mut raw, mut ears) = (Raw::to(&server).await?, Raw::to(&server).await?);
        if self.waits == Waits::Listening {
            ears.send(&["SUBSCRIBE", &channel(&name)]).await?;
            ears.read().await?;
        }
        let waiting = self.judge.waits(&name, &owner, gate, Class::Stranger);
        while !is_granted(&raw.ask(&["EVAL", LOCK, "1", name.as_str(), "3000", &owner]).await?) {
            match self.waits {
                Waits::Listening => drop(timeout(Duration::from_secs(3), ears.read()).await),
                Waits::Spinning => sleep(Duration::from_millis(3)).await,
            }
        }
        drop(waiting);
        self.judge.stranger_entered(&name, gate);
        self.story.say(|| format!("{owner} enters {name}"));
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

/// One who writes and says what is not so, for as long as the story lasts.
pub(super) struct Forger {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) story: Arc<Story>,
    pub(super) chance: fastrand::Rng,
    pub(super) names: u32,
    pub(super) clients: u32,
}

impl Forger {
    /// Goes on until it is aborted.
    pub(super) async fn work(mut self) {
        loop {
            let Some(mut raw) = Raw::to(&self.site.master()).await else { break };
            for _ in 0..20 {
                sleep(Duration::from_millis(self.chance.u64(..200))).await;
                // It does not wait for what a server says that may be stopped.
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
            _ => self.say(raw, &name).await,
        }
    }

    fn somebody(&mut self) -> String {
        format!("client-{}", self.chance.u32(..self.clients + 1))
    }

    /// Says anything on any channel of a name.
    async fn say(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        let channel = match self.chance.u32(..3) {
            0 => channel(name),
            1 => format!("leasehold_lock__channel:{{{name}}}"),
            _ => format!("leasehold_lock__waiter:{{{name}}}:{}", self.somebody()),
        };
        const WORDS: [&str; 7] = ["0", "00", "16", "999999", "", "granted 1 1 x:1", "\r\n-1"];
        let words = WORDS[self.chance.usize(..WORDS.len())];
        raw.ask(&["PUBLISH", &channel, words]).await.map(drop)
    }

    /// Writes a place into a queue that is none, or another's. It may keep the queue out
    /// of order for as long as that place is there.
    async fn queue(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        let key = format!("leasehold_lock__queue:{{{name}}}");
        let member = match self.chance.u32(..6) {
            0 => "nobody".to_owned(),
            1 => "x".repeat(2_000),
            2 => return self.record(raw, name).await,
            _ => format!("{}:{}", self.somebody(), self.chance.u32(..20)),
        };
        const SCORES: [&str; 6] = ["0", "-1", "-9e15", "inf", "-inf", "1700000000000000"];
        let score = SCORES[self.chance.usize(..SCORES.len())];
        self.story.say(|| format!("{member:.40} is put into the queue of {name} at {score}"));
        self.judge.trouble(Duration::from_secs(2));
        raw.ask(&["EVAL", PLACE, "1", &key, score, &member]).await.map(drop)
    }

    /// Writes a record of a yield window that never was.
    async fn record(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        let key = format!("leasehold_lock__yield:{{{name}}}");
        const RECORDS: [&str; 5] = ["", "x", "-1", "inf", "99999999999999"];
        let record = RECORDS[self.chance.usize(..RECORDS.len())];
        self.judge.trouble(Duration::from_secs(2));
        raw.ask(&["SET", &key, record, "PX", "15000"]).await.map(drop)
    }

    /// Writes something else where a lock was.
    async fn overwrite(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        let lasts = self.chance.u64(1..1_000);
        self.story.say(|| format!("{name} is overwritten for {lasts} ms"));
        // The server may be slow to do it.
        self.judge.doubts(name, Duration::from_secs(5));
        raw.ask(&["SET", name.as_str(), "x", "PX", &lasts.to_string()]).await.map(drop)
    }

    /// Takes a lock as if it were free.
    async fn take_a_field(&mut self, raw: &mut Raw, name: &Name) -> Option<()> {
        self.story.say(|| format!("{name} is given another owner"));
        self.judge.doubts(name, Duration::from_secs(5));
        raw.ask(&["EVAL", FIELD, "1", name.as_str()]).await.map(drop)
    }
}
