//! The queue: a list that Redisson also uses, and claims. Each claim has an owner, an element and a
//! lease.

use std::sync::{Arc, LazyLock};

use redis::Value;

use super::{InRedis, Reply, data, permits::RENEW};
use crate::{
    domain::{
        Claim, Element, Ending, Failure, Name, Outcome, Owner, Place, ReleaseMode, ReleaseReply,
        RemoteWaiters, Renewal, Share, Verdict,
    },
    store::{
        MAX_VALUE_BYTES, RECEIPT_KEPT_FOR,
        redis::{
            RedisStore,
            ask::{NOTHING, Request},
            granted::Granted,
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static ACQUIRE: LazyLock<Script> = script!("acquire");
static PUSH: LazyLock<Script> = script!("../receipt", "push");
static RELEASE: LazyLock<Script> = script!("../receipt", "release");

pub(in crate::store::redis) struct Queue;

impl InRedis for Queue {
    const SCRIPTS: Scripts = &[&ACQUIRE, &PUSH, &RELEASE, &RENEW];

    const WAKES: &'static str = "0";

    fn channel(name: &Name) -> String {
        keys::pushes(name)
    }

    fn granted(claim: &Claim) -> Option<Granted> {
        Some(Granted::field(&[&keys::claims(claim.name())], claim.owner.as_str()))
    }

    async fn acquire(store: &RedisStore, claim: &Claim, _: Option<Place>) -> Reply<Verdict> {
        let name = claim.name();
        let others = [&*keys::claims(name), &keys::claimants(name)];
        let arguments =
            (claim.owner.as_str(), millis(claim.ttl), Self::channel(name), MAX_VALUE_BYTES);
        let request = Request::of(name, &ACQUIRE, &others, arguments);
        let verdict = store.ask(request.read(|reply| verdict(store, reply, claim)));
        store.announced::<Self, _>(name, verdict).await
    }

    async fn release(store: &RedisStore, claim: &Claim, _: ReleaseMode) -> Reply<ReleaseReply> {
        let (name, owner) = (claim.name(), claim.owner.as_str());
        let (ending, taken_at) = match claim.share {
            Share::Element(Ending::Done(taken_at)) => ("done", taken_at),
            Share::Element(Ending::Aside(taken_at)) => ("aside", taken_at),
            _ => ("back", 0),
        };
        let receipt = keys::receipt("queue", name, &claim.owner);
        let others = [&*keys::claims(name), &keys::claimants(name), &receipt, &keys::aside(name)];
        let taken_at = format!("{taken_at:016}");
        let arguments = (owner, ending, taken_at, Self::channel(name), millis(RECEIPT_KEPT_FOR));
        let request = Request::of(name, &RELEASE, &others, arguments);
        Ok(match store.ask(request.read(replies::number)).await? {
            1 => ReleaseReply::Freed(RemoteWaiters::Nobody),
            _ => ReleaseReply::NotHeld { holder: None },
        })
    }

    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let keys: Vec<_> = renewals.iter().map(|it| keys::claimants(&it.object.name)).collect();
        let request = Request::script(&RENEW, &keys, NOTHING);
        store.renew_by(request, renewals, |owner| (1, owner.as_str())).await
    }
}

/// Reads the reply to an acquisition: `{owner, claim, bytes}` or `{pttl}`.
fn verdict(store: &RedisStore, reply: &Value, claim: &Claim) -> Result<Verdict, Failure> {
    match reply.as_sequence() {
        Some([it, Value::BulkString(taken), length])
            if replies::text(it) == Some(claim.owner.as_str()) =>
        {
            let element = element(taken).ok_or_else(|| replies::unreadable(reply))?;
            let element = Element { length: replies::number(length)?.unsigned_abs(), ..element };
            Ok(Verdict::Granted { token: None, element: Some(Arc::new(element)) })
        }
        _ => store.busy(reply, claim.name()),
    }
}

/// Reads a claim: `TIME:ELEMENT`.
pub(in crate::store::redis) fn element(claim: &[u8]) -> Option<Element> {
    let mut parts = claim.splitn(2, |byte| *byte == b':');
    let taken_at = str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let bytes = parts.next()?.to_vec();
    Some(Element { taken_at, length: bytes.len() as u64, bytes })
}

/// Appends `elements`. Returns how many elements the queue then has. A repeated request with the
/// same `receipt` within [`RECEIPT_KEPT_FOR`] appends nothing, and returns the same number.
pub(crate) async fn push(
    store: &RedisStore,
    name: &Name,
    elements: &[Vec<u8>],
    receipt: &Owner,
) -> Reply<u64> {
    let receipt = keys::receipt("queue", name, receipt);
    let arguments = (millis(RECEIPT_KEPT_FOR), Queue::channel(name), elements);
    store.apply::<Queue>(name, &PUSH, &[&receipt], arguments).await.map(i64::unsigned_abs)
}

/// Returns how many elements wait in the queue.
pub(crate) async fn len(store: &RedisStore, name: &Name) -> Reply<u64> {
    data::count(store, name, "LLEN").await
}

/// Returns how many elements all clients together have claimed.
pub(crate) async fn claimed(store: &RedisStore, name: &Name) -> Reply<u64> {
    let request = Request::command("HLEN", &keys::claims(name), NOTHING);
    store.ask(request.read(replies::number)).await.map(i64::unsigned_abs)
}
