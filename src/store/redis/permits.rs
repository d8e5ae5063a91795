//! The questions about permits that expire, as scripts.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, Value};

use super::{
    InRedis, RedisStore,
    granted::Granted,
    keys, replies,
    scripts::{Script, millis, script},
};
use crate::{
    domain::{
        Change, Claim, Counts, Failure, GivenBack, Name, Object, Others, Outcome, Owner, PermitId,
        Place, ReleaseMode, Renewal, Verdict, permits_of,
    },
    store::{
        Answer, RECEIPT_RESTS,
        questions::{Questions, unsupported},
    },
};

pub(super) static SCRIPTS: &[&LazyLock<Script>] =
    &[&ACQUIRE, &CHANGE, &COUNT, &LEASE, &RELEASE, &RENEW];

static ACQUIRE: LazyLock<Script> = script!("permits", "permits/acquire");
static CHANGE: LazyLock<Script> = script!("receipt", "permits", "permits/change");
static COUNT: LazyLock<Script> = script!("permits", "permits/count");
static LEASE: LazyLock<Script> = script!("permits", "permits/lease");
static RELEASE: LazyLock<Script> = script!("permits", "permits/release");
static RENEW: LazyLock<Script> = script!("permits", "permits/renew");

pub(super) struct Permits;

impl InRedis for Permits {
    fn channel(&self, name: &Name) -> String {
        channel(name)
    }

    fn granted(&self, claim: &Claim) -> Option<Granted> {
        let first = permits_of(&claim.owner, claim.share).next()?;
        Some(Granted::permit(&keys::leases(claim.name()), first.as_bytes()))
    }
}

impl Questions<RedisStore> for Permits {
    fn acquire<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        _: Option<Place>,
    ) -> Answer<'a, Verdict> {
        Box::pin(store.acquire_permits(claim))
    }

    fn release<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        _: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        Box::pin(store.release_permits(claim))
    }

    fn renew<'a>(
        &self,
        store: &'a RedisStore,
        renewals: &'a [Renewal],
    ) -> Answer<'a, Vec<Outcome>> {
        Box::pin(store.renew_permits(renewals))
    }

    fn change<'a>(
        &self,
        store: &'a RedisStore,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        Box::pin(store.change_permits(object, change, receipt))
    }

    fn count<'a>(&self, store: &'a RedisStore, object: &'a Object) -> Answer<'a, Counts> {
        Box::pin(store.count_permits(object))
    }

    fn lease<'a>(
        &self,
        store: &'a RedisStore,
        object: &'a Object,
        id: PermitId,
        lease: Option<Duration>,
    ) -> Answer<'a, Option<Duration>> {
        Box::pin(store.permit_lease(object, id, lease))
    }
}

fn channel(name: &Name) -> String {
    keys::redissons("redisson_sc", name)
}

impl RedisStore {
    async fn acquire_permits(&self, claim: &Claim) -> Result<Verdict, Failure> {
        let reply = self.run_on_permits(&claim.object, &ACQUIRE, |command| {
            command.arg(millis(claim.ttl)).arg(channel(claim.name()));
            permits_of(&claim.owner, claim.share).for_each(|id| {
                command.arg(id.as_bytes());
            });
        });
        self.permits_verdict(&reply.await?, claim)
    }

    async fn release_permits(&self, claim: &Claim) -> Result<GivenBack, Failure> {
        let reply = self.run_on_permits(&claim.object, &RELEASE, |command| {
            command.arg(channel(claim.name()));
            permits_of(&claim.owner, claim.share).for_each(|id| {
                command.arg(id.as_bytes());
            });
        });
        Ok(match all_were_held(&reply.await?, claim.name())? {
            true => GivenBack::Freed(Others::Nobody),
            false => GivenBack::NotHeld { holder: None },
        })
    }

    async fn renew_permits(&self, renewals: &[Renewal]) -> Result<Vec<Outcome>, Failure> {
        let held: Vec<String> =
            renewals.iter().map(|renewal| keys::leases(&renewal.object.name)).collect();
        let held: Vec<&str> = held.iter().map(String::as_str).collect();
        let reply = self.run_together(&RENEW, &held, |command| {
            for Renewal { owner, share, ttl, .. } in renewals {
                let ids: Vec<PermitId> = permits_of(owner, *share).collect();
                command.arg(ttl.map_or(0, millis)).arg(ids.len());
                ids.iter().for_each(|id| {
                    command.arg(id.as_bytes());
                });
            }
        });
        replies::outcomes(&reply.await?, renewals.len())
    }

    async fn count_permits(&self, object: &Object) -> Result<Counts, Failure> {
        let reply = self.run_on_permits(object, &COUNT, |command| {
            command.arg(channel(&object.name));
        });
        counts(&reply.await?)
    }

    async fn permit_lease(
        &self,
        object: &Object,
        id: PermitId,
        lease: Option<Duration>,
    ) -> Result<Option<Duration>, Failure> {
        let reply = self.run_on_permits(object, &LEASE, |command| {
            command.arg(channel(&object.name)).arg(id.as_bytes()).arg(lease.map_or(0, millis));
        });
        Ok(match replies::number(&reply.await?)? {
            0 => None,
            left => Some(u64::try_from(left).map_or(Duration::MAX, Duration::from_millis)),
        })
    }

    async fn change_permits(
        &self,
        object: &Object,
        change: Change,
        receipt: &Owner,
    ) -> Result<i64, Failure> {
        let (word, what) = match change {
            Change::Set(count) => ("set", count.to_string().into_bytes()),
            Change::SetIfAbsent(count) => ("set_if_absent", count.to_string().into_bytes()),
            Change::Add(count) => ("add", count.to_string().into_bytes()),
            Change::GiveBack(id) => ("give_back", id.as_bytes().to_vec()),
            _ => return unsupported(object).await,
        };
        let name = &object.name;
        let keys = [name.as_str(), &keys::leases(name), &keys::receipt("permits", name, receipt)];
        let answer = self.run(&CHANGE, &keys, |command| {
            command.arg(word).arg(&what).arg(channel(name)).arg(millis(RECEIPT_RESTS));
        });
        replies::number(&self.explained(name, answer.await).await?)
    }

    /// What a question for permits was answered. A grant names the first of them.
    fn permits_verdict(&self, reply: &Value, claim: &Claim) -> Result<Verdict, Failure> {
        match reply {
            Value::BulkString(id) if is_first(id, claim) => Ok(Verdict::Granted { token: None }),
            Value::Array(parts) => match parts[..] {
                [Value::Int(left)] => Ok(Verdict::Busy(self.taken(claim.name(), left))),
                _ => Err(replies::unreadable(reply)),
            },
            other => Err(replies::unreadable(other)),
        }
    }

    async fn run_on_permits(
        &self,
        object: &Object,
        script: &Script,
        more: impl Fn(&mut Cmd) + Sync,
    ) -> Result<Value, Failure> {
        let keys = [object.name.as_str(), &keys::leases(&object.name)];
        let answer = self.run(script, &keys, more).await;
        self.explained(&object.name, answer).await
    }
}

fn is_first(id: &[u8], claim: &Claim) -> bool {
    permits_of(&claim.owner, claim.share).next().is_some_and(|first| first.as_bytes() == id)
}

/// Whether all permits that were given back had been held.
fn all_were_held(reply: &Value, name: &Name) -> Result<bool, Failure> {
    match replies::number(reply)? {
        all @ 0..=1 => Ok(all == 1),
        all @ -2..=-1 => {
            replies::warn_unannounced(name);
            Ok(all == -1)
        }
        _ => Err(replies::unreadable(reply)),
    }
}

/// `{free, held, set}`.
fn counts(reply: &Value) -> Result<Counts, Failure> {
    match reply {
        Value::Array(parts) => match parts[..] {
            [Value::Int(free), Value::Int(held), Value::Int(set @ 0..=1)] => {
                Ok(Counts { free, held, set: set == 1 })
            }
            _ => Err(replies::unreadable(reply)),
        },
        other => Err(replies::unreadable(other)),
    }
}
