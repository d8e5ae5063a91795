//! The election: Redisson's fenced lock, and a record of the holder, which only Leasehold writes.
//!
//! The lock alone decides which client leads. The record counts only while its owner holds the
//! lock. After that, the record stays until its TTL ends.

use std::{sync::LazyLock, time::Duration};

use redis::Value;

use super::{InRedis, Reply, lock::Lock};
use crate::{
    domain::{
        Claim, Failure, Leader, Name, Object, Outcome, Owner, Place, ReleaseMode, ReleaseReply,
        Renewal, Verdict,
    },
    store::redis::{
        RedisStore,
        ask::{NOTHING, Request},
        keys, replies,
        scripts::{Script, Scripts, millis, script},
    },
};

static LEADER: LazyLock<Script> = script!("../holder", "leader");
static PROCLAIM: LazyLock<Script> = script!("proclaim");
static RENEW: LazyLock<Script> = script!("renew");

/// An election uses the requests of a lock, but a renewal also renews the record.
pub(in crate::store::redis) struct Election;

impl InRedis for Election {
    const SCRIPTS: Scripts = &[&LEADER, &PROCLAIM, &RENEW];

    const WAKES: &'static str = Lock::WAKES;

    fn channel(name: &Name) -> String {
        Lock::channel(name)
    }

    async fn acquire(store: &RedisStore, claim: &Claim, place: Option<Place>) -> Reply<Verdict> {
        Lock::acquire(store, claim, place).await
    }

    async fn release(store: &RedisStore, claim: &Claim, mode: ReleaseMode) -> Reply<ReleaseReply> {
        Lock::release(store, claim, mode).await
    }

    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let keys: Vec<String> = renewals
            .iter()
            .flat_map(|it| [it.object.name.to_string(), keys::leader(&it.object.name)])
            .collect();
        let request = Request::script(&RENEW, &keys, NOTHING);
        store.renew_by(request, renewals, Owner::as_str).await
    }

    async fn force_release(store: &RedisStore, object: &Object) -> Reply<bool> {
        Lock::force_release(store, object).await
    }
}

/// Writes the record of this `term`, if the owner of `claim` still leads. Returns whether the owner
/// leads. A repeated request writes the same record.
pub(crate) async fn proclaim(
    store: &RedisStore,
    claim: &Claim,
    term: u64,
    value: &str,
) -> Reply<bool> {
    let name = claim.name();
    let arguments = (claim.owner.as_str(), term, value, millis(claim.ttl), keys::leaders(name));
    let request = Request::of(name, &PROCLAIM, &[&keys::leader(name)], arguments);
    store.ask(request.read(|reply| Ok(replies::number(reply)? == 1))).await
}

/// Returns the leader, if there is one.
pub(crate) async fn leader(store: &RedisStore, name: &Name) -> Reply<Option<Leader>> {
    let request = Request::of(name, &LEADER, &[&keys::leader(name)], NOTHING);
    store.ask(request.read(read_leader)).await
}

fn read_leader(reply: &Value) -> Result<Option<Leader>, Failure> {
    let Value::Array(parts) = reply else { return Err(replies::unreadable(reply)) };
    let (pttl, owner, record) = match &parts[..] {
        [] => return Ok(None),
        [Value::Int(pttl), owner] => (*pttl, owner, None),
        [Value::Int(pttl), owner, term, value, since] => (*pttl, owner, Some((term, value, since))),
        _ => return Err(replies::unreadable(reply)),
    };
    let owner = Owner::lossy(&replies::into_text(owner));
    let remaining = u64::try_from(pttl).ok().map(Duration::from_millis);
    let number =
        |it: &Value| u64::try_from(replies::number(it)?).map_err(|_| replies::unreadable(it));
    let record = match record {
        None => None,
        Some((term, value, since)) => {
            Some((number(term)?, replies::into_text(value), Duration::from_millis(number(since)?)))
        }
    };
    Ok(Some(Leader::new(owner, remaining, record)))
}
