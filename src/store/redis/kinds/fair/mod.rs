//! The fair lock: Redisson's hash, queue and deadlines, and a sorted set that shows which of
//! Leasehold's waiters are dead. Holds of a fair lock use the requests of the plain lock.

#[cfg(test)]
mod tests;

use std::{
    future::{Future, ready},
    sync::LazyLock,
};

use redis::ToRedisArgs;

use super::{InRedis, Reply, lock::Lock};
use crate::{
    domain::{Claim, Name, Object, Outcome, Place, ReleaseMode, ReleaseReply, Renewal, Verdict},
    store::{
        KNOWN_FOR,
        redis::{
            RedisStore,
            ask::Request,
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static ACQUIRE: LazyLock<Script> = script!("../holder", "prelude", "acquire");
static FORCE_RELEASE: LazyLock<Script> = script!("prelude", "force_release");
static RELEASE: LazyLock<Script> = script!("../holder", "prelude", "release");

pub(in crate::store::redis) struct Fair;

impl InRedis for Fair {
    const SCRIPTS: Scripts = &[&ACQUIRE, &FORCE_RELEASE, &RELEASE];

    const WAKES: &'static str = Lock::WAKES;

    /// Returns the prefix of the channels of all waiters.
    fn channel(name: &Name) -> String {
        Lock::channel(name)
    }

    /// Returns `false`, because a message must go to the channel of the head of the queue, which
    /// only a script knows.
    fn wakes_now(_: &RedisStore, _: &Name) -> impl Future<Output = bool> + Send {
        ready(false)
    }

    async fn acquire(store: &RedisStore, claim: &Claim, place: Option<Place>) -> Reply<Verdict> {
        let alive = place.map_or(0, |_| millis(KNOWN_FOR));
        let name = claim.name();
        let arguments = (claim.owner.as_str(), millis(claim.ttl), alive, Self::channel(name));
        let request = on(name, &ACQUIRE, arguments);
        store.ask(request.read(|reply| replies::verdict(reply, claim))).await
    }

    async fn release(store: &RedisStore, claim: &Claim, _: ReleaseMode) -> Reply<ReleaseReply> {
        let name = claim.name();
        let request = on(name, &RELEASE, (claim.owner.as_str(), Self::channel(name)));
        store.ask(request.read(|reply| replies::release_reply(reply, name))).await
    }

    async fn force_release(store: &RedisStore, object: &Object) -> Reply<bool> {
        let name = &object.name;
        let request = on(name, &FORCE_RELEASE, Self::channel(name));
        store.ask(request.read(|reply| replies::freed(reply, name))).await
    }

    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        Lock::renew(store, renewals).await
    }
}

/// Returns a request that runs `script` on all keys of the fair lock `name`.
fn on<'a>(name: &'a Name, script: &'a Script, arguments: impl ToRedisArgs) -> Request<'a> {
    let others = [keys::fair_queue(name), keys::fair_deadlines(name), keys::fair_alive(name)];
    Request::of(name, script, &others.each_ref().map(String::as_str), arguments)
}
