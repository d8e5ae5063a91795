//! The queue: a list that Redisson also uses, and claims. Each claim has an owner, an element and a
//! lease.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use redis::Value;

use super::{InRedis, Reply};
use crate::{
    domain::{
        Claim, Element, Ending, Failure, Name, Outcome, Owner, Place, ReleaseMode, ReleaseReply,
        RemoteWaiters, Renewal, Share, Taken, Verdict,
    },
    store::{
        MAX_VALUE_BYTES, RECEIPT_RESTS,
        redis::{
            RedisStore,
            ask::{NOTHING, Request},
            granted::Granted,
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static ACQUIRE: LazyLock<Script> = script!("prelude", "acquire");
static PUSH: LazyLock<Script> = script!("../receipt", "push");
static RELEASE: LazyLock<Script> = script!("prelude", "release");
static RENEW: LazyLock<Script> = script!("prelude", "renew");

/// The number of bytes before the element in a claim: sixteen digits of the time, and a colon.
const TIME: usize = 17;

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
        let others = [&*keys::claims(name), &keys::claimants(name), &keys::aside(name)];
        let arguments =
            (claim.owner.as_str(), millis(claim.ttl), Self::channel(name), MAX_VALUE_BYTES);
        let request = Request::of(name, &ACQUIRE, &others, arguments);
        let verdict = store.ask(request.read(|reply| verdict(reply, &claim.owner)));
        store.announced::<Self, _>(name, verdict).await
    }

    async fn release(store: &RedisStore, claim: &Claim, _: ReleaseMode) -> Reply<ReleaseReply> {
        let (name, owner) = (claim.name(), claim.owner.as_str());
        let (ending, taken_at) = match claim.share {
            Share::Element(Ending::Done { taken_at }) => ("done", taken_at),
            Share::Element(Ending::Aside { taken_at }) => ("aside", taken_at),
            _ => ("back", 0),
        };
        let (claims, claimants) = (keys::claims(name), keys::claimants(name));
        let receipt = keys::receipt("queue", name, &claim.owner);
        let others = [&*claims, &claimants, &receipt, &keys::aside(name)];
        let taken_at = format!("{taken_at:016}");
        let arguments = (owner, ending, taken_at, Self::channel(name), millis(RECEIPT_RESTS));
        let request = Request::of(name, &RELEASE, &others, arguments);
        Ok(match store.ask(request.read(replies::number)).await? {
            1 => ReleaseReply::Freed(RemoteWaiters::Nobody),
            _ => ReleaseReply::NotHeld { holder: None },
        })
    }

    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let keys: Vec<_> = renewals.iter().map(|it| keys::claimants(&it.object.name)).collect();
        let request = Request::script(&RENEW, &keys, NOTHING);
        store.renew_by(request, renewals, Owner::as_str).await
    }
}

/// Reads the reply to an acquisition: `{owner, claim}` or `{pttl}`.
fn verdict(reply: &Value, owner: &Owner) -> Result<Verdict, Failure> {
    let unreadable = || replies::unreadable(reply);
    let Value::Array(parts) = reply else { return Err(unreadable()) };
    match &parts[..] {
        [it, Value::BulkString(claim)] if replies::text(it) == Some(owner.as_str()) => {
            let element = element(claim).ok_or_else(unreadable)?;
            Ok(Verdict::Granted { token: None, element: Some(Arc::new(element)) })
        }
        [Value::Int(millis)] => {
            let at_most = u64::try_from(*millis).ok().map(Duration::from_millis);
            Ok(Verdict::Busy(Taken { at_most, ..Taken::UNKNOWN }))
        }
        _ => Err(unreadable()),
    }
}

/// Reads a claim: `TIME:ELEMENT`.
pub(in crate::store::redis) fn element(claim: &[u8]) -> Option<Element> {
    let (time, bytes) = claim.split_at_checked(TIME)?;
    let digits = str::from_utf8(time).ok()?.strip_suffix(':')?;
    Some(Element { taken_at: digits.parse().ok()?, bytes: bytes.to_vec() })
}

/// Appends `elements`. Returns how many elements the queue has after this. A repeated request with
/// the same `receipt` within [`RECEIPT_RESTS`] appends nothing, and returns the same number.
pub(crate) async fn push(
    store: &RedisStore,
    name: &Name,
    elements: &[Vec<u8>],
    receipt: &Owner,
) -> Reply<u64> {
    let receipt = keys::receipt("queue", name, receipt);
    let arguments = (millis(RECEIPT_RESTS), Queue::channel(name), elements);
    store.apply::<Queue>(name, &PUSH, &[&receipt], arguments).await.map(i64::unsigned_abs)
}

/// Returns how many elements wait in the queue.
pub(crate) async fn len(store: &RedisStore, name: &Name) -> Reply<u64> {
    let request = Request::command("LLEN", name.as_str(), NOTHING).about(name);
    store.ask(request.read(replies::number)).await.map(i64::unsigned_abs)
}

/// Returns how many elements all clients together have claimed.
pub(crate) async fn claimed(store: &RedisStore, name: &Name) -> Reply<u64> {
    let request = Request::command("HLEN", &keys::claims(name), NOTHING);
    store.ask(request.read(replies::number)).await.map(i64::unsigned_abs)
}
