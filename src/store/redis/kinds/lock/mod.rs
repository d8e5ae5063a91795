//! The lock: Redisson's hash and token counter, and a queue that exists only in Leasehold.

pub(super) mod guarded;

use std::{sync::LazyLock, time::Duration};

use leasehold_link::Channels;
use redis::Value;

use super::{InRedis, Reply};
use crate::{
    domain::{
        self, Claim, Failure, Holder, Name, Object, Outcome, Owner, Place, ReleaseMode,
        ReleaseReply, RemoteWaiters, Renewal, Verdict, Work,
    },
    metrics,
    store::{
        LATER, QUEUE_KEPT_FOR, RESERVATION, WARNED_AFTER,
        redis::{
            RedisStore,
            ask::{Ask, NOTHING, Read, Request},
            granted::Granted,
            keys, replies,
            scripts::{Script, Scripts, command_with_space, millis, script},
        },
    },
};

static ACQUIRE: LazyLock<Script> = script!("../holder", "acquire");
static FORCE_RELEASE: LazyLock<Script> = script!("force_release");
static HAND_OVER: LazyLock<Script> = script!("../holder", "hand_over");
static INSPECT: LazyLock<Script> = script!("../holder", "inspect");
static RAISE_TOKEN: LazyLock<Script> = script!("raise_token");
static RECOUNT: LazyLock<Script> = script!("recount");
static RENEW: LazyLock<Script> = script!("renew");

pub(in crate::store::redis) struct Lock;

impl InRedis for Lock {
    const SCRIPTS: Scripts = &[
        &ACQUIRE,
        &FORCE_RELEASE,
        &HAND_OVER,
        &INSPECT,
        &RAISE_TOKEN,
        &RECOUNT,
        &RENEW,
        &guarded::WRITE,
    ];

    const WAKES: &'static str = "0";

    fn channel(name: &Name) -> String {
        keys::redissons("redisson_lock__channel", name)
    }

    fn granted(claim: &Claim) -> Option<Granted> {
        let tokens = (claim.tokens() > 0).then(|| keys::tokens(claim.name()));
        let keys: Vec<_> = [claim.name().as_str()].into_iter().chain(tokens.as_deref()).collect();
        Some(Granted::field(&keys, claim.owner.as_str()))
    }

    async fn acquire(store: &RedisStore, claim: &Claim, place: Option<Place>) -> Reply<Verdict> {
        let place = match place {
            None => return store.ask(acquire(store, claim, None)).await,
            Some(Place::Kept | Place::Waited(_)) => "kept",
            Some(Place::Listening) => "listening",
        };
        let ask = |queues: bool| store.ask(acquire(store, claim, queues.then_some(place)));
        Box::pin(store.with_waiters(&claim.object, ask)).await
    }

    async fn recount(
        store: &RedisStore,
        claim: &Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Reply<Outcome> {
        let arguments = (claim.owner.as_str(), count, ttl.map_or(0, millis));
        let request = Request::of(claim.name(), &RECOUNT, &[], arguments);
        store.ask(request.read(replies::outcome)).await
    }

    async fn release(store: &RedisStore, claim: &Claim, mode: ReleaseMode) -> Reply<ReleaseReply> {
        match mode {
            ReleaseMode::Broadcast => release_openly(store, claim).await,
            ReleaseMode::HandOver | ReleaseMode::Forget | ReleaseMode::Leave => {
                Box::pin(hand_over(store, claim)).await
            }
        }
    }

    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let names: Vec<&str> = renewals.iter().map(|it| it.object.name.as_str()).collect();
        let request = Request::script(&RENEW, &names, NOTHING);
        store.renew_by(request, renewals, Owner::as_str).await
    }

    async fn guarded(
        store: &RedisStore,
        claim: &Claim,
        work: &Work,
    ) -> Reply<Option<domain::Value>> {
        guarded::by_field(store, claim.owner.as_str(), claim, work).await
    }

    async fn holder(store: &RedisStore, object: &Object) -> Reply<Option<Holder>> {
        store.ask(Request::of(&object.name, &INSPECT, &[], NOTHING).read(replies::holder)).await
    }

    async fn held_by(store: &RedisStore, object: &Object, owner: &Owner) -> Reply<u32> {
        count_of(store, &object.name, owner.as_str()).await
    }

    async fn force_release(store: &RedisStore, object: &Object) -> Reply<bool> {
        let name = &object.name;
        let request = Request::of(name, &FORCE_RELEASE, &[], Self::channel(name));
        store.ask(request.read(|reply| replies::freed(reply, name))).await
    }
}

/// Raises the token counter to `least`, and never lowers it. Returns the value of the counter. A
/// repeated request changes nothing, so it needs no idempotency key.
pub(crate) async fn raise_token(store: &RedisStore, name: &Name, least: u64) -> Reply<i64> {
    let request = Request::script(&RAISE_TOKEN, &[keys::tokens(name)], least);
    store.ask(request.read(replies::number)).await
}

/// Requests a lock. `place` is the argument `place` of `acquire.lua`. A fenced claim also requests
/// tokens.
fn acquire<'a>(
    store: &'a RedisStore,
    claim: &'a Claim,
    place: Option<&str>,
) -> Ask<'a, impl Read<Verdict>> {
    let (name, fenced) = (claim.name(), claim.tokens() > 0);
    let queue = place.map(|_| keys::queue(name));
    let tokens = fenced.then(|| keys::tokens(name));
    let lock = name.as_str();
    let others = [queue.as_deref().unwrap_or(lock), tokens.as_deref().unwrap_or(lock)];
    let others = &others[..if fenced { 2 } else { usize::from(place.is_some()) }];
    let queues = (!others.is_empty()).then(|| (place.unwrap_or_default(), millis(QUEUE_KEPT_FOR)));
    let draws = fenced.then(|| claim.tokens());
    let arguments = (claim.owner.as_str(), millis(claim.ttl), queues, draws);
    let request = Request::of(name, &ACQUIRE, others, arguments).reporting_split(place.is_some());
    request.read(move |reply| {
        if place_was_refused(reply) {
            store.queue_refused(&claim.object);
        }
        replies::verdict(reply, claim)
    })
}

/// Passes a lock to the next client in the queue. If the ACL denies the queue, wakes all waiters.
async fn hand_over(store: &RedisStore, claim: &Claim) -> Reply<ReleaseReply> {
    let ask = |queues: bool| async move {
        if !queues {
            return Box::pin(release_openly(store, claim)).await;
        }
        let name = claim.name();
        let reported = (Lock::channel(name), keys::queuers(name), keys::waiters(name));
        let times = [RESERVATION, QUEUE_KEPT_FOR, WARNED_AFTER, LATER].map(millis);
        let arguments = (claim.owner.as_str(), reported, &times);
        let keys = [&*keys::queue(name), &*keys::yielded(name)];
        let request = Request::of(name, &HAND_OVER, &keys, arguments);
        let request = request.reporting_split(true);
        store.ask(request.read(|reply| replies::release_reply(reply, name))).await
    };
    store.with_waiters(&claim.object, ask).await
}

/// Frees a lock by `HDEL` and `PUBLISH` in one batch. The next request of any client is then
/// granted. A script with these commands would take twice as long.
///
/// The server executes `PUBLISH` even if `HDEL` deletes nothing. So a repeated request also repeats
/// a lost message. An unnecessary message only makes waiters send a useless request.
async fn release_openly(store: &RedisStore, claim: &Claim) -> Reply<ReleaseReply> {
    let name = claim.name();
    let mut free = command_with_space("HDEL");
    free.arg(name.as_str()).arg(claim.owner.as_str());
    let announce = |channels: Channels| {
        let mut announce = command_with_space(channels.publish());
        announce.arg(Lock::channel(name)).arg("0");
        announce
    };
    let key = name.as_str().as_bytes();
    let sent = store.topology.call_then_publish(key, free, announce);
    let is_refused = |replies: &Vec<Value>| matches!(replies.first(), Some(Value::ServerError(_)));
    let replies = metrics::timed(|| "release", sent, is_refused).await?;
    if let Some(Value::ServerError(error)) = replies.first() {
        let refused = replies::refusal(error).naming(Some("HDEL"));
        return Err(Box::pin(store.explained(name, refused)).await);
    }
    if !is_freed(replies.first().unwrap_or(&Value::Nil))? {
        return Ok(ReleaseReply::NotHeld { holder: successor(store, &claim.object).await });
    }
    let subscribers = replies.get(1).map_or(Ok(0), |reply| subscribers(reply, name))?;
    // If there are no subscribers, the first condition saves the lookup of this client's own
    // subscription.
    let others =
        subscribers > 0 && subscribers > i64::from(store.is_subscribed_to_releases(&claim.object));
    Ok(ReleaseReply::Freed(match others {
        true => RemoteWaiters::Listeners,
        false => RemoteWaiters::Nobody,
    }))
}

/// Returns the current holder of a lock that another owner has lost, if the server replies.
async fn successor(store: &RedisStore, object: &Object) -> Option<Holder> {
    // The caller already knows of the loss, and an error of this request would hide the loss.
    Lock::holder(store, object).await.unwrap_or_else(|failure| {
        tracing::debug!(target: "leasehold", lock = %object.name, %failure,
            "release found no hold, and the request for the current owner failed");
        None
    })
}

/// Reads the hold count in this field of the hash `name`.
pub(super) async fn count_of(store: &RedisStore, name: &Name, field: &str) -> Reply<u32> {
    let request = Request::command("HGET", name.as_str(), field).about(name);
    store.ask(request.read(replies::count)).await
}

/// Returns whether the server denied the waiter a queue entry.
fn place_was_refused(reply: &Value) -> bool {
    matches!(reply, Value::Array(parts) if parts.len() == 4)
}

/// Returns whether a hold was deleted.
fn is_freed(reply: &Value) -> Result<bool, Failure> {
    match reply {
        Value::Int(deleted) => Ok(*deleted == 1),
        other => Err(replies::unreadable(other)),
    }
}

/// Reads how many clients received a message.
fn subscribers(reply: &Value, name: &Name) -> Result<i64, Failure> {
    match reply {
        Value::Int(subscribers) => Ok(*subscribers),
        Value::ServerError(_) => {
            replies::warn_unannounced(name);
            Ok(0)
        }
        other => Err(replies::unreadable(other)),
    }
}
