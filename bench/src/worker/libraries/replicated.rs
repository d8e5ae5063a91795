//! Locks that a replica must acknowledge, and plain locks of the same client.

use std::time::Duration;

use leasehold::{Client, LockGuard, Release, Replicas};
use redis::{Value, aio::MultiplexedConnection};

use super::{Library, Outcome, leasehold::Leasehold, other_primitives::Kind, raw::connect};
use crate::job::TTL;

/// Locks that one replica must acknowledge before they are granted.
#[derive(Debug)]
pub(crate) struct Replicated;

impl Kind for Replicated {
    type Held = LockGuard;

    async fn acquire(client: &Client, name: &str) -> Outcome<LockGuard> {
        let replicas = Replicas::at_least(1).within(PATIENCE);
        Ok(client.lock(name)?.replicated(replicas).acquire().await?)
    }

    async fn release(held: LockGuard) -> Outcome<Release> {
        Ok(held.release().await?)
    }
}

/// Plain locks of a client whose other locks wait for replicas all the time.
#[derive(Clone, Debug)]
pub(crate) struct Beside(Leasehold);

impl Library for Beside {
    type Held = LockGuard;

    async fn connect(url: &str) -> Outcome<Self> {
        let client = Client::connect(url).await?;
        for number in 0..OTHERS {
            // The task runs until the process ends.
            drop(tokio::spawn(ask_for_ever(client.clone(), format!("replicated-{number}"))));
        }
        Ok(Self(Leasehold::of(client)))
    }

    async fn acquire(&self, name: &str) -> Outcome<LockGuard> {
        self.0.acquire(name).await
    }

    async fn release(&self, held: LockGuard) -> Outcome<()> {
        self.0.release(held).await
    }

    async fn hold(&self, name: &str, ttl: Duration) -> Outcome<LockGuard> {
        self.0.hold(name, ttl).await
    }

    async fn seize(&self, name: &str, lease: Duration) -> Outcome<LockGuard> {
        self.0.seize(name, lease).await
    }
}

async fn ask_for_ever(client: Client, name: String) {
    loop {
        // If the replica is suspended, the acquisition fails. This failure is expected.
        drop(Replicated::acquire(&client, &name).await);
    }
}

/// `SET` and `WAIT` in one write, over one connection.
#[derive(Clone, Debug)]
pub(crate) struct RawWait(MultiplexedConnection);

impl Library for RawWait {
    type Held = String;

    async fn connect(url: &str) -> Outcome<Self> {
        Ok(Self(connect(url).await?))
    }

    async fn acquire(&self, name: &str) -> Outcome<String> {
        self.seize(name, TTL).await
    }

    async fn release(&self, held: String) -> Outcome<()> {
        Ok(redis::cmd("DEL").arg(held).exec_async(&mut self.0.clone()).await?)
    }

    async fn hold(&self, name: &str, ttl: Duration) -> Outcome<String> {
        self.seize(name, ttl).await
    }

    async fn seize(&self, name: &str, lease: Duration) -> Outcome<String> {
        let mut calls = redis::pipe();
        calls.cmd("SET").arg(name).arg("raw").arg("NX").arg("PX").arg(lease.as_millis() as u64);
        calls.cmd("WAIT").arg(1).arg(PATIENCE.as_millis() as u64);
        let replies = self.0.clone().send_packed_commands(&calls, 0, 2).await?;
        match replies.as_slice() {
            [Value::Okay, Value::Int(acknowledged)] if *acknowledged > 0 => Ok(name.to_owned()),
            other => Err(format!("SET and WAIT were answered {other:?}").into()),
        }
    }
}

/// The number of tasks that wait for replicas at the same time.
const OTHERS: usize = 16;

const PATIENCE: Duration = Duration::from_secs(2);
